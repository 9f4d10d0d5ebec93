//! The crate graph against the allowed arrows: the rooms of the house, and who may enter which.

use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::run;

/// Which of this workspace's crates each may use. Dependencies of tests are free: a test may look
/// from outside. `leveret`, `sim` and `xtask` stand above the house.
const ALLOWED: &[(&str, &[&str])] = &[
    ("types", &[]),
    ("amqp", &["types"]),
    ("stream-protocol", &["types"]),
    ("stream", &["types"]),
    // A stream's chunks are stored as they are sent: their format is the stream's.
    ("storage", &["stream", "types"]),
    ("stream-host", &["storage", "stream", "types"]),
    ("routing", &["types"]),
    ("queue", &["types"]),
    ("auth", &["types"]),
    ("metadata", &["auth", "routing", "types"]),
    ("replication", &["storage", "types"]),
    ("session", &["amqp", "auth", "types"]),
    (
        "stream-session",
        &["auth", "stream", "stream-protocol", "types"],
    ),
    (
        "node",
        &[
            "amqp",
            "auth",
            "metadata",
            "queue",
            "replication",
            "routing",
            "session",
            "storage",
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
            "metadata",
            "node",
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
    ("perf", &["amqp", "types"]),
];
const UNBOUND: &[&str] = &["leveret", "sim", "xtask"];

/// The crates that know the kernel; no other may depend on a library that does.
const KERNEL_CRATES: &[&str] = &["leveret", "management", "perf", "shell", "sim", "xtask"];
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

/// One crate of the workspace with what it uses outside its tests.
struct Crate {
    name: String,
    uses: Vec<String>,
}

/// Prints each arrow that points the wrong way; whether there was none.
pub fn run() -> Result<bool> {
    let wrong: Vec<String> = crates()?.iter().flat_map(wrong_arrows).collect();
    for arrow in &wrong {
        println!("{arrow}");
    }
    Ok(wrong.is_empty())
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
    Ok(Crate {
        name,
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
            uses,
        })
    }

    #[test]
    fn the_table_has_no_circles() {
        assert_rows_in_order().unwrap();
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
