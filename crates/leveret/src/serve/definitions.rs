//! Definitions that are imported at every start.

use leveret_auth::password::SALT_BYTES_GIVEN;
use leveret_cluster::Env as _;
use leveret_management::definitions_pieces::definitions_pieces;
use leveret_management::foreign_definitions::{Unsupported, without_effect};
use leveret_metadata::{Catalogue, CatalogueError, Command, Definitions};
use leveret_node::Env;
use leveret_shell::broker::Broker;
use leveret_types::limits::LOAD_DEFINITIONS_BYTES_MAX;
use serde_json::Value;
use std::fmt::Display;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Name of the file in the data folder that says which definitions were imported last.
pub const MARK_FILE: &str = "definitions.imported";
/// How long the write-ahead log may take to hold what was imported.
const DURABLE_WAIT: Duration = Duration::from_secs(30);

/// What a node is known to have before an import.
#[derive(Debug)]
pub enum Known {
    /// This, and nothing else.
    All(Box<Catalogue>),
    /// It cannot be told, but this is how its catalogue is configured.
    Nothing(leveret_metadata::Config),
}

/// An import at the start of a node.
pub struct Import {
    /// A file of definitions, or a folder of them.
    pub source: PathBuf,
    /// Where the last import left its mark: one of the same bytes is left out. None to import at
    /// every start.
    pub mark: Option<PathBuf>,
    /// Whether what is not supported is left out, and not refused.
    pub skip_unsupported: bool,
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
        for (file, bytes) in files.iter().zip(contents) {
            let failed = |error: &dyn Display| format!("cannot import {}: {error}", file.display());
            let pieces = definitions_pieces(bytes).map_err(|error| failed(&error))?;
            let faults = |definitions: &Definitions| commands_of(broker, definitions).err();
            self.refuse_unsupported(&pieces, faults)
                .map_err(|error| failed(&error))?;
            let mut unsupported = Unsupported::default();
            for piece in &pieces {
                let read = read_supported(piece, &mut unsupported);
                let (definitions, without_effect) = read.map_err(|error| failed(&error))?;
                let passed_over = import(broker, &definitions).map_err(|error| failed(&error))?;
                for line in passed_over {
                    tracing::warn!(file = %file.display(), "passed over in an import: {line}");
                }
                for line in without_effect {
                    tracing::warn!(file = %file.display(), "imported without effect: {line}");
                }
            }
            for line in unsupported.lines {
                tracing::warn!(file = %file.display(), "left out of an import: {line}");
            }
            tracing::info!(file = %file.display(), "definitions imported");
        }
        self.leave_mark(&fingerprint);
        Ok(())
    }

    /// Whether a node that has `known` would import everything; nothing is changed.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn check(&self, known: Known) -> Result<(), String> {
        let (files, contents): (Vec<_>, Vec<_>) = self.contents()?.into_iter().unzip();
        if self.is_marked(&fingerprint(&contents)) {
            return Ok(());
        }
        let (mut catalogue, is_all) = match known {
            Known::All(catalogue) => (*catalogue, true),
            Known::Nothing(config) => (Catalogue::new(config), false),
        };
        for (file, bytes) in files.iter().zip(contents) {
            let failed = |error: &dyn Display| format!("cannot import {}: {error}", file.display());
            let pieces = definitions_pieces(bytes).map_err(|error| failed(&error))?;
            let tried = |catalogue: &Catalogue, definitions: &Definitions| {
                let mut salt = || [0; SALT_BYTES_GIVEN];
                match definitions.to_commands(catalogue, None, 1, &mut salt) {
                    // What is named may be there: a start alone can tell.
                    Err(error) if !is_all && error.is_not_found() => Ok(None),
                    commands => commands.map(Some),
                }
            };
            self.refuse_unsupported(&pieces, |definitions| tried(&catalogue, definitions).err())
                .map_err(|error| failed(&error))?;
            let mut unsupported = Unsupported::default();
            for piece in &pieces {
                let read = read_supported(piece, &mut unsupported);
                let (definitions, _) = read.map_err(|error| failed(&error))?;
                let commands = tried(&catalogue, &definitions).map_err(|error| failed(&error))?;
                let Some(commands) = commands else {
                    return Ok(());
                };
                for command in &commands {
                    if catalogue.apply(command).is_err() {
                        // Only a cluster can say more.
                        return Ok(());
                    }
                }
            }
        }
        Ok(())
    }

    /// Refuses definitions with something that is not supported, unless that is left out. `faults`
    /// says what is wrong with the rest, which is told of definitions in one piece alone.
    fn refuse_unsupported(
        &self,
        pieces: &[Vec<u8>],
        faults: impl FnOnce(&Definitions) -> Option<CatalogueError>,
    ) -> Result<(), String> {
        if self.skip_unsupported {
            return Ok(());
        }
        let mut unsupported = Unsupported::default();
        let mut last = None;
        for piece in pieces {
            last = Some(read_supported(piece, &mut unsupported)?.0);
        }
        if unsupported.lines.is_empty() {
            return Ok(());
        }
        let whole = last.filter(|_| pieces.len() == 1);
        let besides = whole.and_then(|definitions| faults(&definitions));
        let besides = besides.map(|error| error.to_string());
        Err(unsupported.refusal(besides.as_deref()).unwrap_or_default())
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
///
/// # Errors
/// If the folder cannot be read.
pub fn files_of(source: &Path) -> Result<Vec<PathBuf>, String> {
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

/// What is in a file of definitions.
///
/// # Errors
/// If it cannot be read, or is too large.
pub fn read(file: &Path) -> Result<Vec<u8>, String> {
    read_at_most(LOAD_DEFINITIONS_BYTES_MAX as u64, file)
}

fn read_at_most(most: u64, file: &Path) -> Result<Vec<u8>, String> {
    let failed =
        |error: std::io::Error| format!("cannot read definitions {}: {error}", file.display());
    let mut bytes = Vec::new();
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

/// Definitions without what is not supported, and a line for all of them that has no effect.
fn read_supported(
    bytes: &[u8],
    unsupported: &mut Unsupported,
) -> Result<(Definitions, Vec<String>), String> {
    let failed = |error: serde_json::Error| format!("these are no definitions: {error}");
    let mut value: Value = serde_json::from_slice(bytes).map_err(failed)?;
    let before = unsupported.lines.len();
    unsupported.take(&mut value);
    let without_effect = without_effect(&value);
    // An error in the text itself has its place.
    let definitions = match unsupported.lines.len() == before {
        true => serde_json::from_slice(bytes),
        false => serde_json::from_value(value),
    };
    Ok((definitions.map_err(failed)?, without_effect))
}

/// The commands of an import.
fn commands_of(broker: &Broker, definitions: &Definitions) -> Result<Vec<Command>, CatalogueError> {
    let mut trial = definitions.trial(&broker.catalogue(), None);
    while trial.look(&broker.catalogue())? {
        if broker.memory_left_of(1) == 0 {
            return Err(CatalogueError::NoMemory);
        }
    }
    trial.fits(|needed| broker.memory_left_of(needed))?;
    let shards = broker.settings().shard_count;
    trial.commands(shards, &mut || broker.random())
}

/// Imports; answers what there was in them that an import makes nothing of.
fn import(broker: &Broker, definitions: &Definitions) -> Result<Vec<String>, String> {
    let mut make = || commands_of(broker, definitions);
    let (log_positions, result) = broker.execute_all(broker.now(), &mut make);
    broker.run_deferred_work();
    let deadline = Instant::now() + DURABLE_WAIT;
    for log_position in log_positions {
        if !broker.wait_durable(deadline, log_position) {
            return Err("the write-ahead log does not take them; is the disk full?".to_owned());
        }
    }
    result.map_err(|error| error.to_string())?;
    Ok(definitions.passed_over(&broker.catalogue(), None))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_so_many_bytes_and_not_one_more() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("definitions.json");
        for (bytes, is_taken) in [(100, true), (101, false)] {
            std::fs::write(&file, vec![b' '; bytes]).expect("written");
            let read = read_at_most(100, &file);
            assert_eq!(read.is_ok_and(|read| read.len() == bytes), is_taken);
        }
        let error = read_at_most(100, &file).expect_err("too large");
        assert!(error.contains("larger than 100 bytes; split"), "{error}");
        assert_eq!(LOAD_DEFINITIONS_BYTES_MAX, 1_000_000_000);
    }
}
