//! `leveret perf` on every experiment that it comes with, in its short form: each must run to its
//! end with no message lost, doubled, out of order or damaged.

use std::process::Command;
use std::time::Duration;

use anyhow::Result;

use super::{Bench, Report};
use crate::broker::{Kind, leveret_binary};
use crate::run;

/// A short form takes seconds; one that builds a backlog, a minute or two.
const DEADLINE: Duration = Duration::from_secs(300);

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
        command.arg("--json").arg(log.with_extension("json"));
        if run::logged(&mut command, &log, DEADLINE)? {
            report.passed += 1;
        } else {
            report.failed.push(format!("{name}: see {}", log.display()));
        }
    }
    Ok(report)
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
    fn names_begin_lines() {
        let list = "quorum-1   One publisher,\n           one queue.\nquorum-4   Four.\n";
        assert_eq!(names(list).collect::<Vec<_>>(), ["quorum-1", "quorum-4"]);
    }
}
