//! What a node does before it listens, without a node: what `leveret config check` looks at.

use super::definitions::Import;
use super::{settings, web};
use crate::cli::cluster::left_to_join;
use crate::config::Config;
use std::fs;
use std::path::Path;

/// Everything that a start with this configuration would fail at, as far as can be told without
/// one: a line each.
#[must_use]
pub fn problems(config: &Config) -> Vec<String> {
    let mut problems = Vec::new();
    for (key, folder) in folders(config) {
        problems.extend(why_not_made(folder).map(|why| cannot_make(key, folder, &why)));
    }
    problems.extend(cluster(config).err());
    let listeners = &config.listeners;
    let of_http = [&listeners.https, &listeners.metrics_tls];
    let of_http = of_http.into_iter().flatten().map(|(_, tls)| tls);
    for tls in config.tls.iter().chain(of_http) {
        let loaded = web::tls_files(tls).load();
        problems.extend(loaded.err().map(|error| error.to_string()));
    }
    match settings::node_config(config) {
        Ok(node) => {
            let refused = node.cluster.and_then(|cluster| cluster.check().err());
            problems.extend(refused.map(|error| error.to_string()));
        }
        Err(error) => problems.push(error),
    }
    if let Some(source) = config.first_boot.definitions.clone() {
        let import = Import { source, mark: None };
        problems.extend(import.check().err());
    }
    // Two listeners may have one certificate.
    problems.dedup();
    problems
}

/// Makes the folders that are missing, so that what cannot be made is told by its key.
///
/// # Errors
/// Which key's folder cannot be made, and why.
pub fn make_folders(config: &Config) -> Result<(), String> {
    for (key, folder) in folders(config) {
        fs::create_dir_all(folder).map_err(|error| cannot_make(key, folder, &error.to_string()))?;
    }
    Ok(())
}

/// What the configuration says of a cluster against what the data folder does.
///
/// # Errors
/// What does not fit, and what to do.
pub fn cluster(config: &Config) -> Result<(), String> {
    let root = &config.folders.root;
    if config.cluster.is_none() && !left_to_join(root).is_empty() {
        return Err(format!(
            "the node of {} is to join a cluster (`leveret cluster join`) and has no address for \
             the other nodes: give one with --cluster or `cluster.address`",
            root.display()
        ));
    }
    Ok(())
}

/// The folders that a node needs, with their keys.
fn folders(config: &Config) -> Vec<(&'static str, &Path)> {
    let folders = &config.folders;
    let mut needed: Vec<(&str, &Path)> = vec![
        ("data_dir", &folders.root),
        ("folders.data", &folders.data),
        ("folders.segment", &folders.segment),
        ("folders.wal", &folders.wal),
    ];
    if config.log.file.is_some() {
        needed.push(("folders.logs", &folders.logs));
    }
    needed
}

fn cannot_make(key: &str, folder: &Path, why: &str) -> String {
    format!(
        "\"{key}\": cannot make the folder {}: {why}",
        folder.display()
    )
}

/// Why a folder is not there and could not be made; nothing is made to find out.
fn why_not_made(folder: &Path) -> Option<String> {
    let there = folder
        .ancestors()
        .find(|folder| folder.symlink_metadata().is_ok());
    // A relative one begins here.
    let there = there.unwrap_or(Path::new("."));
    match fs::metadata(there) {
        Ok(found) if !found.is_dir() => Some(format!("{} is no folder", there.display())),
        Ok(_) => {
            use rustix::fs::Access;
            let wanted = Access::WRITE_OK | Access::EXEC_OK;
            let refused = rustix::fs::access(there, wanted).err()?;
            Some(format!(
                "{} cannot be written to: {refused}",
                there.display()
            ))
        }
        Err(error) => Some(error.to_string()),
    }
}
