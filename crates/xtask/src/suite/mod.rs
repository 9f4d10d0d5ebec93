//! `cargo xtask test`: every suite, each against a broker of its own, and one table at the end.

mod again;
pub mod bench;
mod cargo;
mod celery;
mod console;
mod dashboards;
mod debian;
pub mod go;
mod guide;
mod java;
mod list;
mod node;
mod perf;
pub mod python;
mod rust;
mod tap;
mod tools;

pub use java::{perftest, perftest_classpath};
pub use node::install_scripts;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use anyhow::{Result, bail};
use clap::builder::PossibleValuesParser;

use crate::broker::Kind;
use crate::left_out;
use bench::{Bench, Report, Suite};
use list::SUITES;

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

/// Which suites, and against what.
#[derive(clap::Args)]
pub struct Options {
    /// Only these; all where none is named
    #[arg(value_name = "SUITE", hide_possible_values = true, value_parser = suite_names())]
    names: Vec<String>,
    /// Run the interoperability suites against this: with `rabbitmq` one sees whether a failure is
    /// the suite's
    #[arg(long, value_name = "KIND", value_enum, default_value_t = Kind::Leveret)]
    broker: Kind,
    /// Print the names of all suites
    #[arg(long)]
    list: bool,
}

fn suite_names() -> PossibleValuesParser {
    PossibleValuesParser::new(SUITES.iter().map(|suite| suite.name))
}

/// Runs the suites that are named, or all of them. `false` if any test failed.
pub fn run(options: &Options) -> Result<bool> {
    if options.list {
        for suite in SUITES {
            println!("{:<20} {}", suite.name, suite.about);
        }
        return Ok(true);
    }
    let names = &options.names;
    let chosen = |suite: &&Suite| names.is_empty() || names.iter().any(|name| name == suite.name);
    let chosen: Vec<&Suite> = SUITES.iter().filter(chosen).collect();
    Ok(run_chosen(&chosen, options.broker)?.failed == 0)
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
    needs.find_map(|&tool| crate::tools::ensure(tool).err())
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
        "\n{:<22}{:>8}{:>8}{:>10}{:>9}",
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
        println!("{name:<22}{passed:>8}{failed:>8}{left_out:>10}{seconds:>9.0}");
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
        "{:<22}{passed:>8}{failed:>8}{left_out:>10}{seconds:>9.0}",
        "all"
    );
    println!("\n{passed} passed, {failed} failed, {left_out} skipped");
    totals
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::Tool;

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
