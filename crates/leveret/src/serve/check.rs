//! What a node does before it serves anybody, without a node: what `leveret config check` looks at.

use super::definitions::Known;
use super::{settings, web};
use crate::cli::cluster::left_to_join;
use crate::cli::storage::catalogue_of;
use crate::config::Config;
use leveret_cluster::{catalogue, group};
use leveret_metadata::Catalogue;
use leveret_shell::cluster::{ClusterConfig, StoredCatalogue};
use leveret_shell::disk::RealDisk;
use leveret_shell::node::StartError;
use leveret_storage::inspect::{self, InspectError, ReadOnly};
use leveret_storage::{Folders, OpenError};
use std::fs::{self, DirBuilder, OpenOptions};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

/// Everything that a start with this configuration would fail at, as far as can be told without
/// one: a line each. Nothing is changed.
#[must_use]
pub fn problems(config: &Config) -> Vec<String> {
    let mut problems = Vec::new();
    for (key, folder) in folders(config) {
        problems.extend(why_not_made(folder).map(|why| cannot_make(key, folder, &why)));
    }
    problems.extend(log_file(config));
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
            let refused = node.cluster.as_ref().and_then(|c| c.check().err());
            problems.extend(refused.map(|error| error.to_string()));
            problems.extend(stored(config, node.catalogue, node.cluster.as_ref()));
        }
        Err(error) => problems.push(error),
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

/// Why a folder cannot be used, or is not there and cannot be made. Where one is to be made, the
/// outermost of what is missing is made and removed again: nothing else tells for sure.
fn why_not_made(folder: &Path) -> Option<String> {
    // A relative one begins here.
    let (mut there, mut missing) = (Path::new("."), None);
    for part in folder
        .ancestors()
        .filter(|part| !part.as_os_str().is_empty())
    {
        if part.symlink_metadata().is_ok() {
            there = part;
            break;
        }
        missing = Some(part);
    }
    match fs::metadata(there) {
        Ok(found) if !found.is_dir() => return Some(format!("{} is no folder", there.display())),
        Ok(_) => {}
        Err(error) => return Some(error.to_string()),
    }
    if let Err(refused) = access(there, missing.is_none()) {
        let there = there.display();
        return Some(format!("{there} cannot be written to: {refused}"));
    }
    match DirBuilder::new().mode(0o700).create(missing?) {
        Ok(()) => {
            // Whoever has put something into it meanwhile wants it.
            let _ = missing.map(fs::remove_dir);
            None
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => None,
        Err(error) => Some(error.to_string()),
    }
}

/// Whether this process may write to a folder, and read it if it `is_needed` and not only on the
/// way to another.
fn access(folder: &Path, is_needed: bool) -> Result<(), rustix::io::Errno> {
    use rustix::fs::Access;
    let mut wanted = Access::WRITE_OK | Access::EXEC_OK;
    wanted.set(Access::READ_OK, is_needed);
    rustix::fs::access(folder, wanted)
}

/// Why the log file cannot be opened.
fn log_file(config: &Config) -> Option<String> {
    let (path, _) = config.log.file.as_ref()?;
    let why = match OpenOptions::new().append(true).open(path) {
        // It is to be made.
        Err(error) if error.kind() == io::ErrorKind::NotFound => why_not_made(path.parent()?)?,
        opened => opened.err()?.to_string(),
    };
    let path = path.display();
    Some(format!("cannot open the log file {path}: {why}"))
}

/// What a start would say to the store that is there, if one is, and to the definitions that are to
/// be imported into it.
fn stored(
    config: &Config,
    of_catalogue: leveret_metadata::Config,
    cluster: Option<&ClusterConfig>,
) -> Vec<String> {
    let import = settings::import(config);
    let joins = cluster.is_some_and(|cluster| !cluster.join.is_empty());
    let folders = config.folders.store();
    let mut problems = Vec::new();
    let known = match identity(&folders) {
        Err(error) => {
            problems.push(error.to_string());
            Known::Nothing(of_catalogue)
        }
        Ok(false) if joins => Known::Nothing(of_catalogue),
        Ok(false) => Known::All(Box::new(Catalogue::new(of_catalogue))),
        Ok(true) => match ReadOnly::open(&RealDisk::new(), &folders) {
            Ok(store) => opened(store, of_catalogue, cluster, &mut problems),
            // Its node runs.
            Err(InspectError::Open(OpenError::Locked { .. })) => Known::Nothing(of_catalogue),
            Err(error) => {
                problems.push(error.to_string());
                Known::Nothing(of_catalogue)
            }
        },
    };
    problems.extend(import.and_then(|import| import.check(known).err()));
    problems
}

/// What is known of the objects in a store, and in `problems` what keeps a node from starting with
/// it: the store is one of a cluster's node and this is to be none, or another one.
fn opened(
    mut store: ReadOnly<RealDisk>,
    of_catalogue: leveret_metadata::Config,
    cluster: Option<&ClusterConfig>,
    problems: &mut Vec<String>,
) -> Known {
    let uuid = store.uuid;
    let is_clustered = group::is_on_disk(store.shard(usize::from(catalogue::SHARD.0)).0);
    let read = catalogue_of(store, of_catalogue.clone());
    let has_data = |catalogue: &Catalogue| catalogue.vhosts().next().is_some();
    let stored = match is_clustered {
        true => StoredCatalogue::OfCluster,
        false if read.as_ref().is_ok_and(has_data) => StoredCatalogue::Own,
        false => StoredCatalogue::None,
    };
    let refused = match cluster {
        None if is_clustered => Some(StartError::Clustered.to_string()),
        None => None,
        Some(cluster) => {
            let checked = cluster.check_store(uuid, stored);
            checked.err().map(|error| error.to_string())
        }
    };
    problems.extend(refused);
    match read {
        Ok(catalogue) => Known::All(Box::new(catalogue)),
        Err(error) => {
            problems.push(error.to_string());
            Known::Nothing(of_catalogue)
        }
    }
}

/// Whether there is a store in these folders.
///
/// # Errors
/// If they do not belong together, or something is missing: a drive that is not mounted.
fn identity(folders: &Folders) -> Result<bool, InspectError> {
    match inspect::shard_count(&RealDisk::new(), folders) {
        Ok(_) => Ok(true),
        Err(InspectError::NoStore(_)) => Ok(false),
        // A folder that is not there yet has nothing of a store.
        Err(InspectError::Open(OpenError::Io { source, .. }))
            if source.kind() == io::ErrorKind::NotFound =>
        {
            Ok(false)
        }
        Err(error) => Err(error),
    }
}
