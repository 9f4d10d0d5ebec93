//! The workspace's own tests.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use super::again::run_again;
use super::bench::{Bench, Report};
use crate::run;

/// Building everything from nothing is the larger part of this, beside other suites.
const UNIT_DEADLINE: Duration = Duration::from_secs(2_700);

/// All tests of the workspace.
pub fn unit(bench: &Bench) -> Result<Report> {
    let run = |part: &str, chosen: &[String]| {
        let log = bench.log(part)?;
        let mut command = Command::new("cargo");
        command
            .args(["test", "--workspace", "--no-fail-fast"])
            .current_dir(run::root());
        if !chosen.is_empty() {
            command.args(["--", "--exact"]).args(chosen);
        }
        let success = run::logged(&mut command, &log, UNIT_DEADLINE)?;
        report(success, &log)
    };
    let mut found = run("cargo", &[])?;
    let is_name = |name: &str| !name.contains(' ');
    run_again(&mut found, is_name, |names| run("cargo-again", names))?;
    Ok(found)
}

/// Seconds that each fuzz target mutates its corpus.
const FUZZ_SECONDS: &str = "12";

/// Every fuzz target: its corpus, then mutations of it.
pub fn fuzz(bench: &Bench) -> Result<Report> {
    let log = bench.log("fuzz")?;
    let mut command = Command::new("cargo");
    let package = [
        "run",
        "--release",
        "--quiet",
        "--package",
        "leveret-sim",
        "--",
    ];
    command
        .args(package)
        .args(["fuzz", "--seconds", FUZZ_SECONDS])
        .current_dir(run::root());
    let success = run::logged(&mut command, &log, UNIT_DEADLINE)?;
    let mut report = Report::default();
    if success {
        report.passed = 1;
    } else {
        // The machine may be gone when somebody reads this: what was found is said here too.
        let text = fs::read_to_string(&log).with_context(|| format!("read {}", log.display()))?;
        let finding = text.lines().filter(|line| is_finding(line));
        let finding = finding.collect::<Vec<_>>().join("; ");
        report
            .failed
            .push(format!("{finding}: see {}", log.display()));
    }
    Ok(report)
}

/// Whether a line of the fuzzer's output tells of a finding: an input, or where and why it
/// panicked.
fn is_finding(line: &str) -> bool {
    !line.is_empty() && !line.ends_with("nothing found") && !line.starts_with("note:")
}

/// Reads what `cargo test` wrote.
pub fn report(success: bool, log: &Path) -> Result<Report> {
    let text = fs::read_to_string(log).with_context(|| format!("read {}", log.display()))?;
    Ok(parse(&text).ended("cargo test", success, log, &text))
}

/// The tests by the lines `test NAME ... ok`, which may have the test's own output in between.
fn parse(text: &str) -> Report {
    let mut report = Report::default();
    let mut binary = String::new();
    for line in text.lines() {
        if let Some(name) = line.trim_start().strip_prefix("Running ") {
            binary = name
                .split_whitespace()
                .next()
                .unwrap_or_default()
                .to_owned();
        } else if let Some(name) = line.trim_start().strip_prefix("Doc-tests ") {
            binary = format!("{name} (documentation)");
        } else if let Some(counts) = line.strip_prefix("test result: ") {
            report.passed += count(counts, " passed");
        } else if let Some(test) = line.strip_prefix("test ") {
            if let Some((name, _)) = test.split_once(" ... FAILED") {
                report.failed.push(format!("{name}: in {binary}"));
            } else if let Some((name, reason)) = test.split_once(" ... ignored") {
                let reason = reason.trim_start_matches(", ").to_owned();
                report.left_out.push((format!("{binary}: {name}"), reason));
            }
        }
    }
    // The machine may be gone when somebody reads this: why is said here too.
    for failed in &mut report.failed {
        let test = failed.split(": ").next().unwrap_or_default();
        if let Some(why) = why(text, test) {
            *failed += &why;
        }
    }
    report
}

/// Where a test panicked, and what it said first.
fn why(text: &str, test: &str) -> Option<String> {
    let thread = format!("thread '{test}' ");
    let mut lines = text
        .lines()
        .skip_while(|line| !(line.starts_with(&thread) && line.contains("panicked at ")));
    let (_, place) = lines.next()?.split_once("panicked at ")?;
    Some(format!(" at {place} {}", lines.next().unwrap_or_default()))
}

fn count(counts: &str, what: &str) -> usize {
    let before = counts.split(what).next().unwrap_or_default();
    before
        .rsplit(' ')
        .next()
        .and_then(|number| number.parse().ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargo_output_is_counted() {
        let text = "     Running unittests src/lib.rs (target/debug/deps/x-1)\n\
                    test a::b ... ok\ntest a::c ... FAILED\ntest a::d ... ignored, needs a disk\n\
                    thread 'a::c' (12) panicked at x.rs:1:2:\nit was not so\nstack backtrace:\n\
                    test result: FAILED. 1 passed; 1 failed; 1 ignored; 0 measured\n\
                    test result: ok. 20 passed; 0 failed; 0 ignored\n";
        let report = parse(text);
        assert_eq!(report.passed, 21);
        assert_eq!(
            report.failed,
            ["a::c: in unittests at x.rs:1:2: it was not so"]
        );
        assert_eq!(
            report.left_out,
            [("unittests: a::d".to_owned(), "needs a disk".to_owned())]
        );
    }
}
