//! `cargo xtask test`: every suite, each against a broker of its own, and one table at the end.

mod again;
mod cargo;
mod celery;
mod go;
mod java;
mod list;
mod node;
mod perf;
mod python;
mod rust;

pub use java::{perftest, perftest_classpath};

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use anyhow::{Result, bail};

use crate::broker::{self, Broker, Kind};
use crate::cluster::Cluster;
use crate::left_out::LeftOut;
use crate::tools::{self, Tool};
use crate::{left_out, run};
use list::SUITES;

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
    fn fail_undocumented(&mut self, documented: &[LeftOut]) {
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
    fn ended(self, program: &str, success: bool, log: &Path) -> Report {
        let mut report = self;
        if !success && report.failed.is_empty() {
            let failure = format!("{program}: see {}", log.display());
            report.failed.push(failure);
        }
        report
    }
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
struct Suite {
    name: &'static str,
    about: &'static str,
    needs: &'static [Tool],
    uses_broker: bool,
    /// Whether nothing else runs meanwhile: it is about rates, or about how soon something happens.
    alone: bool,
    run: fn(&Bench) -> Result<Report>,
}

#[derive(Clone)]
struct Row {
    name: &'static str,
    report: Report,
    seconds: f64,
}

/// The counts over all suites that ran.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Tests that passed.
    pub passed: usize,
    /// Tests that failed.
    pub failed: usize,
    /// Tests that did not run.
    pub left_out: usize,
}

/// Runs every suite against Leveret.
pub fn run_all() -> Result<Totals> {
    run_chosen(&SUITES.iter().collect::<Vec<_>>(), Kind::Leveret)
}

/// Runs the suites that the arguments name, or all of them. `false` if any test failed.
pub fn run(arguments: &[String]) -> Result<bool> {
    let mut kind = Kind::Leveret;
    let mut names = Vec::new();
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--broker" => kind = Kind::parse(words.next().map_or("", String::as_str))?,
            "--list" => {
                for suite in SUITES {
                    println!("{:<12} {}", suite.name, suite.about);
                }
                return Ok(true);
            }
            name if SUITES.iter().any(|suite| suite.name == name) => names.push(name.to_owned()),
            other => bail!("there is no suite `{other}`; see `cargo xtask test --list`"),
        }
    }
    let chosen = |suite: &&Suite| names.is_empty() || names.iter().any(|name| name == suite.name);
    let chosen: Vec<&Suite> = SUITES.iter().filter(chosen).collect();
    Ok(run_chosen(&chosen, kind)?.failed == 0)
}

fn run_chosen(chosen: &[&Suite], kind: Kind) -> Result<Totals> {
    if chosen.iter().any(|suite| suite.uses_broker) {
        kind.prepare()?;
    }
    let (alone, beside): (Vec<&Suite>, Vec<&Suite>) = chosen.iter().partition(|s| s.alone);
    let count = Counter::new(chosen.len());
    let next = AtomicUsize::new(0);
    let lane = || {
        let mut rows = Vec::new();
        while let Some(suite) = beside.get(next.fetch_add(1, Ordering::Relaxed)) {
            rows.push(run_one(suite, kind, &count));
        }
        rows
    };
    let mut rows = std::thread::scope(|scope| {
        let lanes: Vec<_> = (0..LANES).map(|_| scope.spawn(lane)).collect();
        let ended = lanes.into_iter().map(std::thread::ScopedJoinHandle::join);
        ended.collect::<Result<Vec<_>, _>>()
    })
    .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    .concat();
    rows.extend(alone.iter().map(|suite| run_one(suite, kind, &count)));
    rows.sort_by_key(|row| chosen.iter().position(|suite| suite.name == row.name));
    Ok(print_table(&rows))
}

/// Suites that run at a time. Most of them wait most of the time: for a broker to start again, for
/// a lifetime to end, for a package from its registry.
const LANES: usize = 2;

/// How many suites have begun.
struct Counter {
    begun: AtomicUsize,
    of: usize,
}

impl Counter {
    fn new(of: usize) -> Self {
        let begun = AtomicUsize::new(0);
        Self { begun, of }
    }

    fn next(&self) -> String {
        let number = self.begun.fetch_add(1, Ordering::Relaxed) + 1;
        format!("[{number}/{}]", self.of)
    }
}

/// Makes usable what a suite needs; why it is not, otherwise. Packages are installed by one at a
/// time.
fn missing(suite: &Suite) -> Option<anyhow::Error> {
    static INSTALLS: Mutex<()> = Mutex::new(());
    let _one_at_a_time = INSTALLS.lock().unwrap_or_else(PoisonError::into_inner);
    let mut needs = suite.needs.iter();
    needs.find_map(|&tool| tools::ensure(tool).err())
}

fn run_one(suite: &Suite, kind: Kind, count: &Counter) -> Row {
    println!("{} {}: {}", count.next(), suite.name, suite.about);
    let started = Instant::now();
    let missing = missing(suite);
    let report = match missing {
        Some(error) => Report {
            failed: vec![format!("the whole suite did not run: {error:#}")],
            ..Report::default()
        },
        None => run_bench(suite, kind).unwrap_or_else(|error| Report {
            failed: vec![format!("the suite itself: {error:#}")],
            ..Report::default()
        }),
    };
    let seconds = started.elapsed().as_secs_f64();
    let Report {
        passed,
        failed,
        left_out,
        again,
    } = &report;
    let mut said = format!(
        "      {}: {passed} passed, {} failed, {} left out, {seconds:.0} s",
        suite.name,
        failed.len(),
        left_out.len()
    );
    for name in failed {
        said.push_str("\n      FAILED ");
        said.push_str(name);
    }
    for name in again {
        said.push_str("\n      AGAIN  ");
        said.push_str(name);
    }
    println!("{said}");
    Row {
        name: suite.name,
        report,
        seconds,
    }
}

fn run_bench(suite: &Suite, kind: Kind) -> Result<Report> {
    let left_out = left_out::of_suite(suite.name)?;
    let mut report = (suite.run)(&Bench {
        kind,
        name: suite.name,
        left_out: left_out.clone(),
    })?;
    if kind == Kind::Leveret {
        report.fail_undocumented(&left_out);
    }
    if report.passed == 0 && report.failed.is_empty() {
        bail!("it ran no test at all");
    }
    Ok(report)
}

/// Prints the summary and gives the totals.
fn print_table(rows: &[Row]) -> Totals {
    println!();
    for row in rows {
        for name in &row.report.failed {
            println!("FAILED   {}: {name}", row.name);
        }
    }
    for row in rows {
        for name in &row.report.again {
            println!("AGAIN    {}: {name}", row.name);
        }
    }
    for row in rows {
        for (test, reason) in &row.report.left_out {
            println!("LEFT OUT {}: {test}: {reason}", row.name);
        }
    }
    println!(
        "\n{:<14}{:>8}{:>8}{:>10}{:>9}",
        "suite", "passed", "failed", "left out", "seconds"
    );
    let mut totals = Totals::default();
    for Row {
        name,
        report,
        seconds,
    } in rows
    {
        let (passed, failed) = (report.passed, report.failed.len());
        let left_out = report.left_out.len();
        println!("{name:<14}{passed:>8}{failed:>8}{left_out:>10}{seconds:>9.0}");
        totals.passed += passed;
        totals.failed += failed;
        totals.left_out += left_out;
    }
    let seconds: f64 = rows.iter().map(|row| row.seconds).sum();
    let Totals {
        passed,
        failed,
        left_out,
    } = totals;
    println!(
        "{:<14}{passed:>8}{failed:>8}{left_out:>10}{seconds:>9.0}",
        "all"
    );
    println!("\n{passed} passed, {failed} failed, {left_out} skipped");
    totals
}

/// The nodes of a cluster, each behind a lock, and how tests in whatever language find them.
struct ControlledCluster {
    nodes: Vec<Arc<Mutex<Broker>>>,
    environment: [(&'static str, String); 2],
}

impl ControlledCluster {
    /// Three nodes with nothing in them.
    fn start(name: &str) -> Result<ControlledCluster> {
        let cluster = Cluster::start(name, 3)?;
        let addresses: Vec<String> = cluster
            .addresses()
            .iter()
            .map(ToString::to_string)
            .collect();
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
            ],
        })
    }

    /// Stops the nodes; that one died by itself is a failure.
    fn stop(&self, report: &mut Report) -> Result<()> {
        self.nodes
            .iter()
            .try_for_each(|node| stop(&mut lock(node), report))
    }
}

fn lock(broker: &Mutex<Broker>) -> MutexGuard<'_, Broker> {
    broker.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Stops the broker; that it died by itself is a failure.
fn stop(broker: &mut Broker, report: &mut Report) -> Result<()> {
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

    #[test]
    fn a_suite_whose_toolchain_cannot_be_had_has_failed() {
        let suite = Suite {
            name: "no-such-tool",
            about: "needs what no machine has",
            needs: &[Tool::Impossible],
            uses_broker: false,
            alone: false,
            run: |_| panic!("it does not run"),
        };
        let row = run_one(&suite, Kind::Leveret, &Counter::new(1));
        assert_eq!((row.report.passed, row.report.failed.len()), (0, 1));
        assert!(row.report.left_out.is_empty());
    }
}
