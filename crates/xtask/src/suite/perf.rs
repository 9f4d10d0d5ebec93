//! `leveret perf` on every experiment that it comes with, in its short form: each must run to its
//! end with no message lost, doubled, out of order or damaged, and a backlog must clear.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::Result;
use serde_json::Value;

use super::bench::{Bench, Report, failure};
use crate::broker::{Kind, leveret_binary};
use crate::run;

/// A short form takes seconds; one that builds a backlog, a minute or two.
const DEADLINE: Duration = Duration::from_secs(300);

/// Lines of an experiment that failed that are shown.
const SHOWN_LINES: usize = 5;

/// What a result notes of a phase that was to end with a backlog, and did not.
const NOT_REACHED: &str = "ended by its time, not by its backlog";

/// Runs them one after another. Leveret's node is one that `perf` starts itself; a peer's is the
/// suite's.
pub fn run(bench: &Bench) -> Result<Report> {
    let mut report = bench.documented();
    let peer = match bench.kind {
        Kind::Leveret => None,
        Kind::RabbitMq => Some(bench.broker(&[])?),
    };
    let list = run::output(Command::new(leveret_binary()).args(["perf", "list"]))?;
    for name in names(&list) {
        let mut command = Command::new(leveret_binary());
        command.args(["perf", "run", name, "--fast"]);
        if let Some(peer) = &peer {
            command.args(["-h", &format!("{}%2f", peer.url())]);
        }
        let log = bench.log(name)?;
        let json = log.with_extension("json");
        command.arg("--json").arg(&json);
        let sound = run::logged(&mut command, &log, DEADLINE)? && clears(&json)?;
        if sound {
            report.passed += 1;
        } else {
            let printed = fs::read_to_string(&log)?;
            report
                .failed
                .push(failure(name, &log, &printed, SHOWN_LINES));
        }
    }
    Ok(report)
}

/// Whether what an experiment waits for came to be: a backlog that grew, and one that cleared.
fn clears(json: &Path) -> Result<bool> {
    let result: Value = serde_json::from_str(&fs::read_to_string(json)?)?;
    let mut notes = result["notes"].as_array().into_iter().flatten();
    Ok(!notes.any(|note| note.as_str().is_some_and(|note| note.contains(NOT_REACHED))))
}

/// The names in what `leveret perf list` prints: the words that begin a line.
fn names(list: &str) -> impl Iterator<Item = &str> {
    let lines = list.lines().filter(|line| !line.starts_with(' '));
    lines.filter_map(|line| line.split_whitespace().next())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backlog_that_stays_is_no_success() {
        let path = std::env::temp_dir().join(format!("xtask-perf-{}.json", std::process::id()));
        let clears_with = |notes: &str| {
            fs::write(&path, format!("{{\"notes\": [{notes}]}}")).unwrap();
            clears(&path).unwrap()
        };
        assert!(clears_with("\"the machine was busy\""));
        assert!(!clears_with(&format!("\"phase `drain` {NOT_REACHED}\"")));
        fs::remove_file(path).unwrap();
    }

    #[test]
    fn names_begin_lines() {
        let list = "quorum-1   One publisher,\n           one queue.\nquorum-4   Four.\n";
        assert_eq!(names(list).collect::<Vec<_>>(), ["quorum-1", "quorum-4"]);
    }
}
