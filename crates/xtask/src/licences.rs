//! Licences and duplicate versions of everything that goes into the broker, against `deny.toml`.
//!
//! The file is cargo-deny's, so that whoever has that tool gets its advisories as well; this check
//! needs nothing but cargo, and so runs everywhere.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::{graph, run};

/// Prints each package that breaks a rule; whether there was none.
pub fn run() -> Result<bool> {
    let rules = fs::read_to_string(run::root().join("deny.toml")).context("read deny.toml")?;
    let allowed = strings(&rules, "allow");
    let skipped = strings(&rules, "skip");
    let metadata = graph::metadata(&["--filter-platform", "x86_64-unknown-linux-gnu"])?;
    let mut wrong = Vec::new();
    let mut versions: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let built = built_packages(&metadata)?;
    for package in metadata["packages"].as_array().context("no packages")? {
        let name = package["name"].as_str().unwrap_or_default();
        let id = package["id"].as_str().unwrap_or_default();
        let licence = package["license"].as_str().unwrap_or_default();
        if !is_allowed(licence, &allowed) {
            wrong.push(format!("{name}: licence `{licence}` is not in deny.toml"));
        }
        if built.contains(id) {
            let version = package["version"].as_str().unwrap_or_default().to_owned();
            versions.entry(name.to_owned()).or_default().insert(version);
        }
    }
    for (name, versions) in versions {
        if versions.len() > 1 && !skipped.contains(&name) {
            let versions: Vec<String> = versions.into_iter().collect();
            wrong.push(format!(
                "{name}: in {} versions: {}",
                versions.len(),
                versions.join(", ")
            ));
        }
    }
    for line in &wrong {
        println!("{line}");
    }
    Ok(wrong.is_empty())
}

/// The ids of all packages that are linked into the broker: not those of tests and build scripts.
fn built_packages(metadata: &Value) -> Result<BTreeSet<String>> {
    let nodes = metadata["resolve"]["nodes"]
        .as_array()
        .context("no dependency graph")?;
    let by_id: BTreeMap<&str, &Value> = nodes
        .iter()
        .filter_map(|node| Some((node["id"].as_str()?, node)))
        .collect();
    let packages = metadata["packages"].as_array().context("no packages")?;
    let broker = packages.iter().find(|package| package["name"] == "leveret");
    let mut open = vec![
        broker
            .and_then(|package| package["id"].as_str())
            .context("no leveret")?,
    ];
    let mut found = BTreeSet::new();
    while let Some(id) = open.pop() {
        if !found.insert(id.to_owned()) {
            continue;
        }
        let edges = by_id.get(id).and_then(|node| node["deps"].as_array());
        for edge in edges.into_iter().flatten() {
            let kinds = edge["dep_kinds"].as_array();
            let linked = kinds.is_some_and(|kinds| kinds.iter().any(|kind| kind["kind"].is_null()));
            if let (true, Some(id)) = (linked, edge["pkg"].as_str()) {
                open.push(id);
            }
        }
    }
    Ok(found)
}

/// The strings of an array in deny.toml, which may span lines and hold comments. For tables such as
/// `{ crate = "x", reason = "y" }` it is the crate.
fn strings(toml: &str, key: &str) -> Vec<String> {
    let without_comments: Vec<&str> = toml
        .lines()
        .map(|line| line.split('#').next().unwrap_or_default())
        .collect();
    let text = without_comments.join("\n");
    let Some((_, rest)) = text.split_once(&format!("\n{key} = [")) else {
        return Vec::new();
    };
    let array = rest.split("\n]").next().unwrap_or_default();
    let mut found = Vec::new();
    for line in array.lines() {
        let value = line.split("crate = ").last().unwrap_or(line);
        found.extend(value.split('"').nth(1).map(str::to_owned));
    }
    found
}

/// Whether an SPDX expression can be met with allowed licences alone.
fn is_allowed(expression: &str, allowed: &[String]) -> bool {
    let spaced = expression
        .replace('(', " ( ")
        .replace(')', " ) ")
        .replace('/', " OR ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut at = 0;
    let met = alternatives(&words, &mut at, allowed);
    met && at == words.len()
}

fn alternatives(words: &[&str], at: &mut usize, allowed: &[String]) -> bool {
    let mut met = conjunction(words, at, allowed);
    while words.get(*at) == Some(&"OR") {
        *at += 1;
        met |= conjunction(words, at, allowed);
    }
    met
}

fn conjunction(words: &[&str], at: &mut usize, allowed: &[String]) -> bool {
    let mut met = licence(words, at, allowed);
    while words.get(*at) == Some(&"AND") {
        *at += 1;
        met &= licence(words, at, allowed);
    }
    met
}

fn licence(words: &[&str], at: &mut usize, allowed: &[String]) -> bool {
    let Some(&word) = words.get(*at) else {
        return false;
    };
    *at += 1;
    if word == "(" {
        let met = alternatives(words, at, allowed);
        *at += 1;
        return met;
    }
    let mut name = word.to_owned();
    if words.get(*at) == Some(&"WITH") {
        name = format!("{word} WITH {}", words.get(*at + 1).unwrap_or(&""));
        *at += 2;
    }
    allowed.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions() {
        let allowed = ["MIT".to_owned(), "Apache-2.0".to_owned(), "ISC".to_owned()];
        for (expression, met) in [
            ("MIT", true),
            ("MIT/Apache-2.0", true),
            ("GPL-3.0 OR MIT", true),
            ("MIT AND ISC", true),
            ("MIT AND GPL-3.0", false),
            ("(MIT OR GPL-3.0) AND ISC", true),
            ("(GPL-3.0 OR BSL-1.0) AND MIT", false),
            ("Apache-2.0 WITH LLVM-exception", false),
            ("", false),
        ] {
            assert_eq!(is_allowed(expression, &allowed), met, "{expression}");
        }
    }

    #[test]
    fn arrays_of_deny_toml() {
        let toml = "[licenses]\nallow = [\n  \"MIT\", # short\n  \"ISC\",\n]\n[bans]\nskip = [\n  \
                    { crate = \"windows-sys\", reason = \"not built here\" },\n]\n";
        assert_eq!(strings(toml, "allow"), ["MIT", "ISC"]);
        assert_eq!(strings(toml, "skip"), ["windows-sys"]);
    }
}
