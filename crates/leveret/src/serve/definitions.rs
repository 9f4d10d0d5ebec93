//! Definitions that are imported at every start.

use leveret_cluster::Env as _;
use leveret_metadata::Definitions;
use leveret_node::Env;
use leveret_shell::broker::Broker;
use leveret_types::limits::HTTP_DEFINITIONS_BYTES_MAX;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Name of the file in the data folder that says which definitions were imported last.
pub const MARK_FILE: &str = "definitions.imported";
/// How long the write-ahead log may take to hold what was imported.
const DURABLE_WAIT: Duration = Duration::from_secs(30);

/// An import at the start of a node.
pub struct Import {
    /// A file of definitions, or a folder of them.
    pub source: PathBuf,
    /// Where the last import left its mark: one of the same bytes is left out. None to import at
    /// every start.
    pub mark: Option<PathBuf>,
}

impl Import {
    /// Imports; durable when it returns.
    ///
    /// # Errors
    /// One line: which file cannot be read or imported, and why.
    pub fn run(&self, broker: &Broker) -> Result<(), String> {
        let (files, contents): (Vec<_>, Vec<_>) = self.contents()?.into_iter().unzip();
        let fingerprint = fingerprint(&contents);
        if self.is_marked(&fingerprint) {
            tracing::info!(source = %self.source.display(), "definitions are as they were");
            return Ok(());
        }
        for (file, bytes) in files.iter().zip(&contents) {
            import(broker, bytes)
                .map_err(|error| format!("cannot import {}: {error}", file.display()))?;
            tracing::info!(file = %file.display(), "definitions imported");
        }
        self.leave_mark(&fingerprint);
        Ok(())
    }

    /// Whether everything can be read and is what it should be; what the catalogue says to it is
    /// seen by a start alone.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn check(&self) -> Result<(), String> {
        for (file, bytes) in self.contents()? {
            definitions_of(&bytes)
                .map_err(|error| format!("cannot import {}: {error}", file.display()))?;
        }
        Ok(())
    }

    fn contents(&self) -> Result<Vec<(PathBuf, Vec<u8>)>, String> {
        let files = files_of(&self.source)?.into_iter();
        files
            .map(|file| read(&file).map(|bytes| (file, bytes)))
            .collect()
    }

    fn is_marked(&self, fingerprint: &str) -> bool {
        let mark = self.mark.as_deref().map(std::fs::read_to_string);
        mark.is_some_and(|mark| mark.is_ok_and(|mark| mark.trim() == fingerprint))
    }

    fn leave_mark(&self, fingerprint: &str) {
        if let Some(mark) = &self.mark
            && let Err(error) = std::fs::write(mark, format!("{fingerprint}\n"))
        {
            tracing::warn!(mark = %mark.display(), %error, "the next start imports again");
        }
    }
}

/// The file itself, or the `.json` files of a folder in the order of their names.
fn files_of(source: &Path) -> Result<Vec<PathBuf>, String> {
    if !source.is_dir() {
        return Ok(vec![source.to_owned()]);
    }
    let entries = std::fs::read_dir(source)
        .map_err(|error| format!("cannot read the folder {}: {error}", source.display()))?;
    let mut files: Vec<_> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|ending| ending == "json"))
        .collect();
    files.sort();
    Ok(files)
}

fn read(file: &Path) -> Result<Vec<u8>, String> {
    let failed =
        |error: std::io::Error| format!("cannot read definitions {}: {error}", file.display());
    let mut bytes = Vec::new();
    let most = HTTP_DEFINITIONS_BYTES_MAX as u64;
    let opened = std::fs::File::open(file).map_err(failed)?;
    opened
        .take(most + 1)
        .read_to_end(&mut bytes)
        .map_err(failed)?;
    if bytes.len() as u64 > most {
        return Err(format!(
            "the definitions {} are larger than {most} bytes; split them in a folder",
            file.display()
        ));
    }
    Ok(bytes)
}

fn definitions_of(bytes: &[u8]) -> Result<Definitions, String> {
    serde_json::from_slice(bytes).map_err(|error| format!("these are no definitions: {error}"))
}

fn import(broker: &Broker, bytes: &[u8]) -> Result<(), String> {
    let definitions = definitions_of(bytes)?;
    let shards = broker.settings().shard_count;
    let mut make = || {
        let mut trial = definitions.trial(&broker.catalogue(), None);
        while trial.look(&broker.catalogue())? {}
        trial.commands(shards, &mut || broker.random())
    };
    let (log_positions, result) = broker.execute_all(broker.now(), &mut make);
    broker.run_deferred_work();
    let deadline = Instant::now() + DURABLE_WAIT;
    for log_position in log_positions {
        if !broker.wait_durable(deadline, log_position) {
            return Err("the write-ahead log does not take them; is the disk full?".to_owned());
        }
    }
    result.map_err(|error| error.to_string())
}

/// Text that is the same for the same contents.
fn fingerprint(contents: &[Vec<u8>]) -> String {
    let mut text = String::new();
    for bytes in contents {
        let fingerprint = leveret_management::fingerprint(bytes);
        text.push_str(&format!("{}-{fingerprint:016x} ", bytes.len()));
    }
    text.trim_end().to_owned()
}
