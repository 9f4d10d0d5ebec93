//! What a suite is, what it is given, and what it reports.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::Result;

use crate::broker::{self, Broker, Kind};
use crate::cluster::Cluster;
use crate::left_out::LeftOut;
use crate::run;
use crate::tools::Tool;

/// How much is shown of what a program printed that failed without naming a test.
const SHOWN_LINES: usize = 200;

/// What one suite found.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// How many tests passed.
    pub passed: usize,
    /// The names of those that failed, with a few words where the suite gives some.
    pub failed: Vec<String>,
    /// The tests that did not run, with the reason.
    pub left_out: Vec<(String, String)>,
    /// Tests that failed beside others and passed when they ran once more by themselves.
    /// They count as passed, and are named, so that one that does so often is looked into.
    pub again: Vec<String>,
}

impl Report {
    /// Adds another report's counts to this one.
    pub fn add(&mut self, other: Report) {
        self.passed += other.passed;
        self.failed.extend(other.failed);
        self.left_out.extend(other.left_out);
        self.again.extend(other.again);
    }

    /// Makes failures of the tests that left themselves out and that the documentation does not
    /// list: nothing else would tell that a library is missing, or that nobody may make a network.
    pub(super) fn fail_undocumented(&mut self, documented: &[LeftOut]) {
        let (listed, unlisted) = std::mem::take(&mut self.left_out)
            .into_iter()
            .partition(|(test, _)| documented.iter().any(|row| row.covers(test)));
        self.left_out = listed;
        let unlisted: Vec<(String, String)> = unlisted;
        let failures = unlisted.into_iter().map(|(test, reason)| {
            format!("{test}: left itself out, and docs/interop.md does not list it: {reason}")
        });
        self.failed.extend(failures);
    }

    /// The report of a program that has ended: that it failed without naming a test is a failure of
    /// its own.
    pub(super) fn ended(self, program: &str, success: bool, log: &Path, printed: &str) -> Report {
        let mut report = self;
        if !success && report.failed.is_empty() {
            report
                .failed
                .push(failure(program, log, printed, SHOWN_LINES));
        }
        report
    }
}

/// Tells that a program failed, with the last lines that it printed: the log may be where nobody
/// can read it.
pub(super) fn failure(program: &str, log: &Path, printed: &str, shown: usize) -> String {
    let lines: Vec<&str> = printed.lines().collect();
    let end = lines[lines.len().saturating_sub(shown)..].join("\n");
    format!("{program}: see {}, which ends with\n{end}", log.display())
}

/// What a suite is given.
pub struct Bench {
    /// Which broker it runs against.
    pub kind: Kind,
    /// The suite's name, which names its folders.
    pub name: &'static str,
    /// The tests that the documentation lists as left out.
    pub left_out: Vec<LeftOut>,
}

impl Bench {
    /// The folder for what the suite fetches and builds; kept between runs.
    pub fn folder(&self) -> Result<PathBuf> {
        run::target_folder(&format!("interop/{}", self.name))
    }

    /// Where the suite's output goes.
    pub fn log(&self, part: &str) -> Result<PathBuf> {
        Ok(run::target_folder("interop/logs")?.join(format!("{}-{part}.log", self.name)))
    }

    /// A fresh broker for this suite.
    pub fn broker(&self, extra: &[&str]) -> Result<Broker> {
        Broker::start(self.kind, self.name, extra)
    }

    /// The documented left-out tests as part of a report.
    pub fn documented(&self) -> Report {
        let rows = self
            .left_out
            .iter()
            .map(|row| (row.test.clone(), row.reason.clone()));
        Report {
            left_out: rows.collect(),
            ..Report::default()
        }
    }
}

/// One suite.
pub(super) struct Suite {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    pub(super) needs: &'static [Tool],
    pub(super) uses_broker: bool,
    /// Whether nothing else runs meanwhile: it is about rates, or about how soon something happens.
    pub(super) alone: bool,
    pub(super) run: fn(&Bench) -> Result<Report>,
}

/// The nodes of a cluster, each behind a lock, and how tests in whatever language find them.
pub(super) struct ControlledCluster {
    pub(super) nodes: Vec<Arc<Mutex<Broker>>>,
    pub(super) environment: [(&'static str, String); 3],
}

impl ControlledCluster {
    /// Three nodes with nothing in them.
    pub(super) fn start(name: &str) -> Result<ControlledCluster> {
        let cluster = Cluster::start(name, 3)?;
        let addresses: Vec<String> = cluster
            .addresses()
            .iter()
            .map(ToString::to_string)
            .collect();
        let streams = cluster.nodes.iter().map(|node| node.stream.to_string());
        let streams: Vec<String> = streams.collect();
        let (mut nodes, mut controls) = (Vec::new(), Vec::new());
        for node in cluster.nodes {
            let (node, control) = controlled(node)?;
            nodes.push(node);
            controls.push(control);
        }
        Ok(ControlledCluster {
            nodes,
            environment: [
                ("CLUSTER_AMQP", addresses.join(",")),
                ("CLUSTER_CONTROLS", controls.join(",")),
                ("CLUSTER_STREAMS", streams.join(",")),
            ],
        })
    }

    /// Stops the nodes; that one died by itself is a failure.
    pub(super) fn stop(&self, report: &mut Report) -> Result<()> {
        self.nodes
            .iter()
            .try_for_each(|node| stop(&mut lock(node), report))
    }
}

/// A broker behind its lock.
pub(super) fn lock(broker: &Mutex<Broker>) -> MutexGuard<'_, Broker> {
    broker.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Stops the broker; that it died by itself is a failure.
pub(super) fn stop(broker: &mut Broker, report: &mut Report) -> Result<()> {
    if !broker.is_alive() {
        report
            .failed
            .push(format!("the broker died: see {}", broker.log().display()));
    }
    broker.stop()
}

/// A broker behind a lock with its control port, for suites that restart it.
pub fn controlled(broker: Broker) -> Result<(Arc<Mutex<Broker>>, String)> {
    let shared = Arc::new(Mutex::new(broker));
    let control = broker::serve_control(Arc::clone(&shared))?;
    Ok((shared, control.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_that_leaves_itself_out_unlisted_has_failed() {
        let listed = LeftOut {
            suite: "celery".to_owned(),
            test: "t/test_backend.py".to_owned(),
            reason: "a backend in a cloud".to_owned(),
        };
        let left_out = ["t/test_backend.py::test_azure", "t/test_canvas.py::test_x"];
        let mut report = Report {
            passed: 5,
            left_out: left_out
                .map(|test| (test.to_owned(), "no such library".to_owned()))
                .to_vec(),
            ..Report::default()
        };
        report.fail_undocumented(&[listed]);
        assert_eq!(report.left_out.len(), 1);
        assert_eq!(report.failed.len(), 1);
        assert!(report.failed[0].starts_with("t/test_canvas.py::test_x: "));
    }
}
