//! `leveret storage`: what lies on disk, in words, while no node runs on it.

use super::set_aside::SET_ASIDE;
use crate::config::{self, Config, Machine, Source};
use crate::file_modes;
use crate::serve::process::uuid_text;
use clap::{Args, Subcommand};
use leveret_cluster::catalogue;
use leveret_cluster::group;
use leveret_metadata::{Catalogue, CatalogueError};
use leveret_queue_host::quorum::replica::HEADER_LOG;
use leveret_queue_host::shard::{CATALOGUE_GROUP_LOG, CATALOGUE_LOG, queue_of, shard_of};
use leveret_shell::disk::RealDisk;
use leveret_storage::inspect::{self, InspectError, Inspection, LogInspection, ReadOnly, Repair};
use leveret_storage::rebuild::{Rebuilt, RebuiltLog, rebuild};
use leveret_storage::{AsideFile, Damage, Folders, OpenError, files_set_aside};
use leveret_types::LogId;
use serde_json::{Value, json};
use std::io;
use std::path::PathBuf;

/// The commands.
#[derive(Subcommand)]
pub enum StorageCommand {
    /// Say what the store holds, from its indexes alone: fast, and changes nothing
    Inspect(Looked),
    /// Read every message that lives and check its checksum; changes nothing
    ///
    /// Fails if anything cannot be read. The node need not be repaired to start: it sets the queues
    /// that are damaged aside, and serves all others.
    Verify(Looked),
    /// Give up what is damaged, so that its queues are served again without it
    ///
    /// What is given up is lost for good: copy the folders first. Without `--accept-loss` nothing
    /// is changed, and what would be lost is told.
    Repair {
        /// Where the store is
        #[command(flatten)]
        store: StoreLocation,
        /// Only this log, by the number that `verify` shows; may be given several times
        #[arg(long = "log", value_name = "NUMBER")]
        logs: Vec<u64>,
        /// Really give it up
        #[arg(long)]
        accept_loss: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Copy all that can be found of a store that does not open any more into a new one
    ///
    /// For a store whose checkpoint is missing, or damaged in both copies, which `repair` cannot
    /// mend.
    /// Messages that were settled may be back in the copy. The damaged store is not changed.
    Rebuild {
        /// Where the damaged store is
        #[command(flatten)]
        store: StoreLocation,
        /// Folder for the new store; put it in the place of the old one when you are content
        #[arg(long, value_name = "FOLDER")]
        into: PathBuf,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// Which store is looked at, and how what is found is told.
#[derive(Args)]
pub struct Looked {
    #[command(flatten)]
    store: StoreLocation,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Where the store is: the folders that a node with this configuration would use.
#[derive(Args)]
pub struct StoreLocation {
    /// Configuration of the node whose store it is
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Folder that holds everything the node keeps
    #[arg(long, value_name = "FOLDER")]
    data_dir: Option<PathBuf>,
}

impl Looked {
    /// What was found, as it is told.
    fn text(
        &self,
        disk: &RealDisk,
        folders: &Folders,
        found: &Inspection,
    ) -> Result<String, String> {
        let names = Names::read(disk, folders);
        match self.json {
            true => Ok(format!(
                "{:#}\n",
                inspection_json(disk, folders, found, &names)?
            )),
            false => Ok(described(found, &names) + &aside(disk, folders)?),
        }
    }
}

/// What was found, for programs.
fn inspection_json(
    disk: &RealDisk,
    folders: &Folders,
    found: &Inspection,
    names: &Names,
) -> Result<Value, String> {
    let lookup = names.lookup();
    let log = |log: &LogInspection| {
        let damage = log.damage.as_ref();
        let damage = damage.map(|damage| json!({"lost": damage.lost.len(), "notes": damage.notes}));
        json!({
            "log": log.log.0,
            "of": lookup(log.log),
            "shard": log.shard,
            "entries": log.entries,
            "bytes": log.bytes,
            "segment_entries": log.segment_entries,
            "damage": damage,
        })
    };
    let (folder, files) = set_aside(disk, folders)?;
    let file = |file: &AsideFile| json!({"name": file.name, "bytes": file.bytes, "what": file.what.to_string()});
    Ok(json!({
        "store": uuid_text(found.uuid),
        "shards": found.shards,
        "segment_bytes": found.segment_bytes,
        "segment_live_bytes": found.segment_live_bytes,
        "verified_entries": found.verified_entries,
        "damaged_logs": found.damaged().count(),
        "logs": found.logs.iter().map(log).collect::<Value>(),
        "set_aside_folder": folder.display().to_string(),
        "set_aside": files.iter().map(file).collect::<Value>(),
    }))
}

/// The folder of what starts have set aside, and its files.
fn set_aside(disk: &RealDisk, folders: &Folders) -> Result<(PathBuf, Vec<AsideFile>), String> {
    files_set_aside(disk, folders)
        .map_err(|error| format!("cannot look at what was set aside: {error}"))
}

impl StoreLocation {
    fn folders(&self) -> Result<Folders, String> {
        let file = config::file_named(self.config.as_deref());
        let mut typed = config::read(file.as_deref()).map_err(|error| error.to_string())?;
        if let Some(folder) = &self.data_dir {
            let folder = folder.display().to_string();
            typed.set("data_dir", folder, Source::Flag("--data-dir"));
        }
        let loaded = Config::build(&typed, &Machine::here())
            .map_err(|refused| super::lines(&typed, &refused))?;
        Ok(loaded.config.folders.store())
    }
}

/// Runs a command; the error is for the operator.
pub fn run(command: &StorageCommand) -> Result<String, String> {
    file_modes::keep_private();
    let disk = RealDisk::new();
    match command {
        StorageCommand::Inspect(looked) => {
            let folders = looked.store.folders()?;
            let found = inspect::inspect(&disk, &folders).map_err(told)?;
            looked.text(&disk, &folders, &found)
        }
        StorageCommand::Verify(looked) => {
            let folders = looked.store.folders()?;
            let found = inspect::verify(&disk, &folders).map_err(told)?;
            let text = looked.text(&disk, &folders, &found)?;
            match found.damaged().count() {
                0 => Ok(text),
                // What reads JSON reads it from where it always is.
                damaged if looked.json => {
                    super::print(&text);
                    Err(format!("{damaged} logs are damaged"))
                }
                damaged => Err(format!("{damaged} logs are damaged\n\n{text}")),
            }
        }
        StorageCommand::Repair {
            store,
            logs,
            accept_loss,
            json,
        } => {
            let logs: Vec<LogId> = logs.iter().copied().map(LogId).collect();
            let folders = store.folders()?;
            if *accept_loss {
                let repaired = repair(&disk, &folders, &logs)?;
                let names = Names::read(&disk, &folders);
                return match json {
                    true => repaired.json(&disk, &folders, &names),
                    false => Ok(repaired.text(&names)),
                };
            }
            let found = inspect::verify(&disk, &folders).map_err(told)?;
            would_be_lost(&found, &logs, &Names::read(&disk, &folders), *json)
        }
        StorageCommand::Rebuild { store, into, json } => {
            let folders = store.folders()?;
            let new = Folders::within(into);
            let rebuilt = rebuild_store(&disk, &folders, &new).map_err(told)?;
            let folder = new.data.display();
            Ok(match json {
                true => rebuilt_json(&rebuilt, &new, &Names::read(&disk, &new)),
                false => format!("{rebuilt}the new store is in {folder} and beside it\n"),
            })
        }
    }
}

/// What a rebuild has found, for programs.
fn rebuilt_json(rebuilt: &Rebuilt, new: &Folders, names: &Names) -> String {
    let lookup = names.lookup();
    let log = |log: &RebuiltLog| {
        json!({
            "log": log.log.0,
            "of": lookup(log.log),
            "entries": log.entries,
            "lost": log.lost,
            "told": log.told,
        })
    };
    let told = json!({
        "folder": new.data.display().to_string(),
        "logs": rebuilt.logs.iter().map(log).collect::<Value>(),
        "notes": rebuilt.notes,
    });
    format!("{told:#}\n")
}

fn rebuild_store(
    disk: &RealDisk,
    folders: &Folders,
    into: &Folders,
) -> Result<Rebuilt, InspectError> {
    let mut uuid = [0; 16];
    getrandom::fill(&mut uuid).map_err(|error| OpenError::Io {
        path: into.data.clone(),
        source: io::Error::other(error),
    })?;
    let shards = inspect::shard_count(disk, folders)?;
    let shard_of = |log| match log {
        CATALOGUE_LOG => catalogue::SHARD.0,
        log => shard_of(queue_of(log).0, shards).0,
    };
    rebuild(disk, folders, into, uuid, &shard_of)
}

/// The catalogue that a store holds, its own or its copy of the cluster's.
///
/// # Errors
/// If it cannot be read.
pub(crate) fn catalogue_of(
    mut store: ReadOnly<RealDisk>,
    config: leveret_metadata::Config,
) -> Result<Catalogue, CatalogueError> {
    let (logs, load) = store.shard(usize::from(catalogue::SHARD.0));
    match group::is_on_disk(logs) {
        true => group::recover(logs, config, load).map(|(catalogue, _)| catalogue),
        false => catalogue::recover(logs, config, load),
    }
}

/// What the queues of a store are called; empty where the catalogue cannot be read.
struct Names(Option<Catalogue>);

impl Names {
    fn read(disk: &RealDisk, folders: &Folders) -> Self {
        let store = ReadOnly::open(disk, folders).ok();
        let config = leveret_metadata::Config::default();
        Self(store.and_then(|store| catalogue_of(store, config).ok()))
    }

    /// A log, with what it is called.
    fn log(&self, log: LogId) -> String {
        match self.lookup()(log) {
            Some(name) => format!("log {log} ({name})"),
            None => format!("log {log}"),
        }
    }

    fn lookup(&self) -> impl Fn(LogId) -> Option<String> + '_ {
        move |log| {
            if log == CATALOGUE_LOG || log == CATALOGUE_GROUP_LOG {
                return Some("the catalogue".to_owned());
            }
            let (queue, priority_log) = queue_of(log);
            let record = self.0.as_ref()?.queue(queue)?;
            let priority_log = if priority_log == 0 {
                String::new()
            } else {
                format!(", priority log {priority_log}")
            };
            let (name, vhost) = (record.name(), record.vhost());
            Some(format!("queue '{name}' in vhost '{vhost}'{priority_log}"))
        }
    }
}

/// An error of the storage engine, with what to do about it where the operator can do something.
fn told(error: InspectError) -> String {
    let advice = match &error {
        InspectError::NoStore(_) => {
            "; name its folder with --data-dir, or the node's configuration with --config"
        }
        InspectError::Open(OpenError::Io { source, .. })
            if source.kind() == io::ErrorKind::NotFound =>
        {
            "; is there a store? Name its folder with --data-dir, or the node's configuration with --config"
        }
        InspectError::Open(OpenError::Locked { .. }) => {
            "; stop the node first: a store is looked at while nobody changes it"
        }
        InspectError::Open(OpenError::Damaged { .. }) => {
            "; `leveret storage repair --accept-loss` mends it where that costs nothing, \
             `leveret storage rebuild` copies what can be found into a new store"
        }
        InspectError::StoreThere(_) => "; name a folder that is empty or not there yet",
        _ => "",
    };
    format!("{error}{advice}")
}

/// Whether a log is a replica's, whose loss cannot be accepted: it would take part without what it
/// has promised to others.
fn is_replicated(found: &Inspection, log: LogId) -> bool {
    let queue = queue_of(log).0;
    let is_header = |other: LogId| queue_of(other) == (queue, HEADER_LOG);
    log == CATALOGUE_GROUP_LOG || found.logs.iter().any(|other| is_header(other.log))
}

/// What was found, and what to do about damaged replicas.
fn described(found: &Inspection, names: &Names) -> String {
    let lookup = names.lookup();
    let mut text = found.text(&lookup);
    for log in found.damaged().filter(|log| is_replicated(found, log.log)) {
        let number = log.log;
        text.push_str(&match lookup(number) {
            _ if number == CATALOGUE_GROUP_LOG => format!(
                "log {number} is this node's copy of the cluster's catalogue: `leveret cluster \
                 forget` this node and let another take its place\n"
            ),
            name => format!(
                "log {number} is of a replica ({}), whose loss cannot be accepted: start the node, \
                 take it out of the queue's members with `leveret cluster shrink`, and add it \
                 again with `leveret cluster grow`\n",
                name.unwrap_or_else(|| format!("queue {}", queue_of(number).0))
            ),
        });
    }
    text
}

/// What starts have set aside, file by file, and what to do about it.
fn aside(disk: &RealDisk, folders: &Folders) -> Result<String, String> {
    let (folder, files) = set_aside(disk, folders)?;
    if files.is_empty() {
        return Ok(String::new());
    }
    let bytes: u64 = files.iter().map(|file| file.bytes).sum();
    let mut text = format!(
        "set aside in {}: {} files, {bytes} bytes\n",
        folder.display(),
        files.len()
    );
    for AsideFile { name, bytes, what } in files {
        text.push_str(&format!("  {name}: {bytes} bytes, {what}\n"));
    }
    Ok(text + SET_ASIDE)
}

/// What a repair has given up, and what it found if it could not give up all.
struct Repaired {
    repairs: Vec<Repair>,
    left: Option<Inspection>,
}

impl Repaired {
    fn text(&self, names: &Names) -> String {
        let left = self.left.as_ref().map(|found| described(found, names));
        repaired(&self.repairs, names) + &left.unwrap_or_default()
    }

    fn json(&self, disk: &RealDisk, folders: &Folders, names: &Names) -> Result<String, String> {
        let lookup = names.lookup();
        let row = |repair: &Repair| {
            json!({
                "log": repair.log.0,
                "of": lookup(repair.log),
                "lost": repair.lost,
                "notes": repair.damage.notes,
            })
        };
        let left = self.left.as_ref();
        let left = left.map(|found| inspection_json(disk, folders, found, names));
        let told = json!({
            "repaired": self.repairs.iter().map(row).collect::<Value>(),
            "left": left.transpose()?,
        });
        Ok(format!("{told:#}\n"))
    }
}

/// Accepts the loss of what is damaged, but for replicas.
fn repair(disk: &RealDisk, folders: &Folders, logs: &[LogId]) -> Result<Repaired, String> {
    let found = match inspect::inspect(disk, folders) {
        Err(InspectError::Open(OpenError::Damaged { .. })) => {
            // With no log chosen, it is the checkpoint that is mended.
            inspect::repair(disk, folders, &[LogId(u64::MAX)]).map_err(told)?;
            inspect::verify(disk, folders).map_err(told)?
        }
        Err(error) => return Err(told(error)),
        Ok(_) => inspect::verify(disk, folders).map_err(told)?,
    };
    if let Some(log) = logs.iter().find(|log| is_replicated(&found, **log)) {
        let text = described(&found, &Names::read(disk, folders));
        return Err(format!(
            "nothing was changed: log {log} is a replica's\n\n{text}"
        ));
    }
    let is_chosen = |log: &LogId| logs.is_empty() || logs.contains(log);
    let damaged = found.damaged().map(|log| log.log);
    let chosen = damaged.filter(|log| is_chosen(log) && !is_replicated(&found, *log));
    let chosen: Vec<LogId> = chosen.collect();
    let repairs = match chosen.is_empty() {
        true => Vec::new(),
        false => inspect::repair(disk, folders, &chosen).map_err(told)?,
    };
    let left = found.damaged().filter(|log| is_replicated(&found, log.log));
    let left = match left.count() {
        0 => None,
        _ => Some(inspect::verify(disk, folders).map_err(told)?),
    };
    Ok(Repaired { repairs, left })
}

/// What is said where nothing can be given up.
const NOTHING_DAMAGED: &str = "nothing is damaged that could be given up; nothing was changed\n";

fn repaired(repairs: &[Repair], names: &Names) -> String {
    if repairs.is_empty() {
        return NOTHING_DAMAGED.to_owned();
    }
    let line = |repair: &Repair| {
        let notes: String = repair
            .damage
            .notes
            .iter()
            .map(|n| format!("  {n}\n"))
            .collect();
        let log = names.log(repair.log);
        format!("{log}: {} messages given up\n{notes}", repair.lost)
    };
    repairs.iter().map(line).collect()
}

/// What a repair of these logs, or of all, would give up.
fn would_be_lost(
    found: &Inspection,
    logs: &[LogId],
    names: &Names,
    json: bool,
) -> Result<String, String> {
    let is_chosen = |log: LogId| logs.is_empty() || logs.contains(&log);
    let damaged = found.damaged().filter_map(|log| {
        let may_be = is_chosen(log.log) && !is_replicated(found, log.log);
        let damage = log.damage.as_ref().filter(|_| may_be)?;
        Some((log.log, damage))
    });
    let damaged: Vec<_> = damaged.collect();
    if json {
        let lookup = names.lookup();
        let row = |(log, damage): &(LogId, &Damage)| {
            let (of, lost) = (lookup(*log), damage.lost.len());
            json!({"log": log.0, "of": of, "lost": lost, "notes": damage.notes})
        };
        let told = json!({"would_be_lost": damaged.iter().map(row).collect::<Value>()});
        let text = format!("{told:#}\n");
        if damaged.is_empty() {
            return Ok(text);
        }
        // What reads JSON reads it from where it always is.
        super::print(&text);
        return Err("nothing was changed: give --accept-loss as well".to_owned());
    }
    if damaged.is_empty() {
        return Ok(NOTHING_DAMAGED.to_owned());
    }
    let line = |(log, damage): &(LogId, &Damage)| {
        let (log, lost) = (names.log(*log), damage.lost.len());
        format!("{log}: {lost} messages would be lost\n")
    };
    let text: String = damaged.iter().map(line).collect();
    Err(format!(
        "nothing was changed\n\n{text}\ncopy the folders, then give --accept-loss as well"
    ))
}
