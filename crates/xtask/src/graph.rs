//! The crate graph against the allowed arrows: the rooms of the house, and who may enter which; and
//! the import cycles between the files of each crate against the sizes that are allowed.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::modules::{self, Sources};
use crate::run;

/// Which of this workspace's crates each may use. Dependencies of tests are free: a test may look
/// from outside. `leveret`, `sim` and `xtask` stand above the house.
const ALLOWED: &[(&str, &[&str])] = &[
    ("types", &[]),
    ("amqp", &["types"]),
    ("stream-protocol", &["types"]),
    ("message", &["amqp", "types"]),
    ("stream", &["types"]),
    // A stream's chunks are stored as they are sent: their format is the stream's.
    ("storage", &["stream", "types"]),
    ("stream-host", &["storage", "stream", "types"]),
    ("routing", &["types"]),
    ("queue", &["types"]),
    ("auth", &["types"]),
    ("metadata", &["auth", "routing", "stream", "types"]),
    ("replication", &["types"]),
    // The client port: what sessions of all protocols and the node say to each other.
    ("client", &["types"]),
    ("session", &["amqp", "client", "message", "types"]),
    (
        "stream-session",
        &["auth", "stream", "stream-protocol", "types"],
    ),
    // The queues of a node, whatever their kind: what the client port and the cluster ask.
    (
        "queue-host",
        &[
            "amqp",
            "client",
            "message",
            "queue",
            "replication",
            "storage",
            "stream",
            "types",
        ],
    ),
    // The catalogue, whoever agrees on it, and what its changes mean to queues and streams.
    (
        "cluster",
        &[
            "metadata",
            "queue",
            "queue-host",
            "replication",
            "storage",
            "stream",
            "types",
        ],
    ),
    // The clients: it asks queues and the catalogue, and knows no log.
    (
        "node",
        &[
            "amqp",
            "auth",
            "client",
            "cluster",
            "message",
            "metadata",
            "queue",
            "queue-host",
            "routing",
            "session",
            "stream",
            "stream-protocol",
            "stream-session",
            "types",
        ],
    ),
    // The real `Disk` is the shell's, its trait the storage engine's. It holds the catalogue's lock
    // and routes what shards hand over, for both of which it names the types; its threads compute
    // the password hashes that take long.
    (
        "shell",
        &[
            "auth",
            "cluster",
            "metadata",
            "node",
            "queue-host",
            "routing",
            "session",
            "storage",
            "stream",
            "stream-host",
            "types",
        ],
    ),
    // It asks the node through traits of its own; what it reads and changes is the catalogue.
    ("management", &["auth", "metadata", "routing", "types"]),
    ("http-client", &[]),
    ("perf", &["amqp", "http-client", "stream-protocol", "types"]),
    // It compiles files of the node and the shell with a checker's locks; it depends on neither.
    ("races", &["types"]),
];
const UNBOUND: &[&str] = &["leveret", "sim", "xtask"];

/// The crates that know the kernel; no other may depend on a library that does.
const KERNEL_CRATES: &[&str] = &[
    "http-client",
    "leveret",
    "management",
    "perf",
    "shell",
    "sim",
    "xtask",
];
const KERNEL_LIBRARIES: &[&str] = &[
    "getrandom",
    "hyper",
    "hyper-util",
    "libc",
    "mio",
    "nix",
    "polling",
    "rand",
    "rustix",
    "rustls",
    "socket2",
    "tokio",
];

/// The page whose table of crates must say what [`ALLOWED`] says, in an order from above.
const PAGE: &str = "docs/ARCHITECTURE.md";
/// That table's head.
const HEAD: &str = "| crate | owns | it never … | uses |";

/// How many files an import cycle may span.
const CYCLE_FILES_MAX: usize = 5;

/// One crate of the workspace with what it uses outside its tests.
struct Crate {
    name: String,
    /// Its root file.
    root: String,
    uses: Vec<String>,
}

/// Prints all import cycles of one crate, and the names that make them.
pub fn show(name: &str) -> Result<()> {
    let crates = crates()?;
    let shown = crates.iter().find(|one| one.name == name);
    show_cycles(shown.with_context(|| format!("there is no crate `{name}`"))?)
}

/// Prints each arrow between crates that points the wrong way, and each import cycle of files that
/// is greater than allowed; whether there was none.
pub fn check() -> Result<bool> {
    let crates = crates()?;
    let mut wrong: Vec<String> = crates.iter().flat_map(wrong_arrows).collect();
    let page = run::root().join(PAGE);
    let page = std::fs::read_to_string(&page).with_context(|| format!("read {PAGE}"))?;
    wrong.extend(wrong_rows(&page));
    for one in &crates {
        let sources = Sources::read(Path::new(&one.root))?;
        let cycles = modules::cycles(&sources.arrows());
        let names = |cycle: &BTreeSet<usize>| {
            let mut names: Vec<&str> = cycle.iter().map(|&at| sources.files[at].as_str()).collect();
            names.sort_unstable();
            names.join(", ")
        };
        let greatest = cycles.first();
        wrong.extend(wrong_cycle(
            &one.name,
            greatest.map_or(0, BTreeSet::len),
            &greatest.map(names).unwrap_or_default(),
        ));
    }
    for line in &wrong {
        println!("{line}");
    }
    Ok(wrong.is_empty())
}

/// Each row of the page's table that names other crates than its own may use, or one above it.
fn wrong_rows(page: &str) -> Vec<String> {
    let Some((_, table)) = page.split_once(HEAD) else {
        return vec![format!("{PAGE}: no table \"{HEAD}\"")];
    };
    let rows = table.lines().skip(2).take_while(|row| row.starts_with('|'));
    let rows: Vec<(&str, &str)> = rows.filter_map(crate_row).collect();
    let mut wrong = Vec::new();
    for (at, (name, uses)) in rows.iter().enumerate() {
        let below: BTreeSet<&str> = rows[at + 1..].iter().map(|(name, _)| *name).collect();
        let named = uses.split('`').skip(1).step_by(2).collect::<BTreeSet<_>>();
        let used = match uses.starts_with("all below") {
            true => below.difference(&named).copied().collect(),
            false => named,
        };
        for above in used.difference(&below) {
            wrong.push(format!(
                "{PAGE}: {name} uses {above}, which is not below it"
            ));
        }
        let allowed = ALLOWED.iter().find(|(room, _)| room == name);
        let allowed = allowed.map(|(_, allowed)| allowed.iter().copied().collect());
        if allowed.is_some_and(|allowed: BTreeSet<&str>| allowed != used) {
            wrong.push(format!("{PAGE}: {name} may not use exactly {used:?}"));
        }
    }
    wrong
}

/// A crate, and the cell that says what it uses.
fn crate_row(row: &str) -> Option<(&str, &str)> {
    let mut cells = row.trim_matches('|').split('|').map(str::trim);
    let name = cells.next()?.trim_matches('`');
    Some((name, cells.next_back()?))
}

/// What is wrong with a crate whose greatest import cycle spans so many files.
fn wrong_cycle(name: &str, files: usize, names: &str) -> Option<String> {
    (files > CYCLE_FILES_MAX).then(|| {
        format!(
            "{name}: {files} files import each other in a cycle, {CYCLE_FILES_MAX} are allowed; \
             `cargo xtask graph {name}` shows by which names: {names}"
        )
    })
}

/// Prints the import cycles of a crate with the arrows inside each.
fn show_cycles(shown: &Crate) -> Result<()> {
    let sources = Sources::read(Path::new(&shown.root))?;
    let arrows = sources.arrows();
    let file = |at: usize| &sources.files[at];
    for cycle in modules::cycles(&arrows) {
        println!("{}: a cycle of {} files", shown.name, cycle.len());
        for from in &cycle {
            let to = arrows.get(from).into_iter().flatten();
            for (to, names) in to.filter(|(to, _)| cycle.contains(to)) {
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                println!("  {} -> {}: {}", file(*from), file(*to), names.join(", "));
            }
        }
    }
    Ok(())
}

fn crates() -> Result<Vec<Crate>> {
    let metadata = metadata(&["--no-deps"])?;
    let packages = metadata["packages"]
        .as_array()
        .context("cargo metadata lists no packages")?;
    packages.iter().map(read_crate).collect()
}

/// What `cargo metadata` says of this workspace.
pub fn metadata(arguments: &[&str]) -> Result<Value> {
    let mut command = Command::new("cargo");
    command
        .args(["metadata", "--format-version", "1"])
        .args(arguments)
        .current_dir(run::root());
    Ok(serde_json::from_str(&run::output(&mut command)?)?)
}

fn read_crate(package: &Value) -> Result<Crate> {
    let name = room(
        package["name"]
            .as_str()
            .context("a package without a name")?,
    );
    let dependencies = package["dependencies"]
        .as_array()
        .context("no dependencies")?;
    let built = dependencies
        .iter()
        .filter(|dependency| dependency["kind"] != "dev");
    let uses = built
        .filter_map(|dependency| dependency["name"].as_str())
        .map(str::to_owned);
    let targets = package["targets"].as_array().context("no targets")?;
    // A library's root leads to all of the library; a binary beside it only uses it.
    let of_kind = |kind: &str| targets.iter().find(|target| target["kind"][0] == kind);
    let root = of_kind("lib").or_else(|| of_kind("bin"));
    let root = root.and_then(|target| target["src_path"].as_str());
    Ok(Crate {
        name,
        root: root.context("a package without sources")?.to_owned(),
        uses: uses.collect(),
    })
}

/// The folder's name, from the package's.
fn room(package: &str) -> String {
    package
        .strip_prefix("leveret-")
        .unwrap_or(package)
        .to_owned()
}

fn wrong_arrows(user: &Crate) -> Vec<String> {
    let name = &user.name;
    let mut wrong = Vec::new();
    let allowed = ALLOWED
        .iter()
        .find(|(room, _)| room == name)
        .map(|(_, allowed)| *allowed);
    if allowed.is_none() && !UNBOUND.contains(&name.as_str()) {
        wrong.push(format!(
            "{name}: a crate that has no place in the table of allowed arrows"
        ));
    }
    for used in &user.uses {
        if let (Some(allowed), Some(used)) = (allowed, used.strip_prefix("leveret-"))
            && !allowed.contains(&used)
        {
            wrong.push(format!("{name} -> {used}: not an allowed arrow"));
        }
        let kernel = KERNEL_LIBRARIES.contains(&used.as_str());
        if kernel && !KERNEL_CRATES.contains(&name.as_str()) {
            wrong.push(format!("{name} -> {used}: only the shell knows the kernel"));
        }
    }
    wrong
}

#[cfg(test)]
/// The table cannot hold a circle if every arrow points to an earlier row.
fn assert_rows_in_order() -> Result<()> {
    for (at, (room, allowed)) in ALLOWED.iter().enumerate() {
        for used in *allowed {
            if !ALLOWED[..at].iter().any(|(earlier, _)| earlier == used) {
                anyhow::bail!("{room} may use {used}, which stands below it");
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrows(name: &str, uses: &[&str]) -> Vec<String> {
        let uses = uses.iter().map(|&used| used.to_owned()).collect();
        wrong_arrows(&Crate {
            name: name.to_owned(),
            root: String::new(),
            uses,
        })
    }

    #[test]
    fn the_table_has_no_circles() {
        assert_rows_in_order().unwrap();
    }

    #[test]
    fn a_row_names_what_its_crate_may_use_and_that_is_below_it() {
        let page = |rows: &[&str]| format!("{HEAD}\n|---|---|---|---|\n{}\n\nend", rows.join("\n"));
        let message = "| `message` | a | b | `amqp`, `types` |";
        let amqp = "| `amqp` | a | | `types` |";
        let types = "| `types` | a | | nothing |";
        let above = "| `leveret` | a | | all below |";
        assert_eq!(wrong_rows(&page(&[above, message, amqp, types])), [""; 0]);
        assert_eq!(wrong_rows(&page(&[amqp, message, types])).len(), 1, "above");
        let more = "| `amqp` | a | | all below |";
        assert_eq!(
            wrong_rows(&page(&[more, "| `auth` | a | | `types` |", types])).len(),
            1
        );
        assert_eq!(wrong_rows("no table").len(), 1);
    }

    #[test]
    fn an_import_cycle_spans_five_files_at_most() {
        assert_eq!(wrong_cycle("types", CYCLE_FILES_MAX, ""), None);
        assert!(wrong_cycle("types", CYCLE_FILES_MAX + 1, "").is_some());
    }

    #[test]
    fn arrows_point_down() {
        assert_eq!(
            arrows("session", &["leveret-amqp", "leveret-types", "bytes"]),
            [""; 0]
        );
        assert_eq!(arrows("queue", &["leveret-amqp"]).len(), 1);
        assert_eq!(arrows("storage", &["tokio"]).len(), 1);
        assert_eq!(arrows("shell", &["tokio", "leveret-node"]), [""; 0]);
        assert_eq!(arrows("management", &["leveret-shell"]).len(), 1);
        assert_eq!(arrows("cellar", &[]).len(), 1);
    }
}
