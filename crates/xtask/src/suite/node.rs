//! Own scripts under Node.js: with amqplib and the stream client, whose packages carry no tests,
//! and for the operators' page in a browser.

use std::fs;
use std::process::Command;
use std::time::Duration;

use anyhow::Result;

use super::bench::{Bench, ControlledCluster, Report, controlled, lock, stop};
use crate::run;

const DEADLINE: Duration = Duration::from_secs(900);

/// amqplib against a broker of its own.
pub fn run(bench: &Bench) -> Result<Report> {
    let broker = bench.broker(&[])?;
    tests(bench, &[("AMQP_URL", broker.url())])
}

/// The stream client against a broker of its own.
pub fn streams(bench: &Bench) -> Result<Report> {
    let mut broker = bench.broker(&[])?;
    let port = broker.stream.port().to_string();
    let variables = [
        ("STREAM_PORT", port),
        ("HTTP_URL", format!("http://{}", broker.http)),
        ("BROKER", bench.kind.name().to_owned()),
    ];
    let mut report = tests(bench, &variables)?;
    stop(&mut broker, &mut report)?;
    Ok(report)
}

/// The operators' page in a browser, which sees its broker stop and start again; and those of a
/// cluster, which loses a node.
pub fn browser(bench: &Bench) -> Result<Report> {
    let (broker, control) = controlled(bench.broker(&[])?)?;
    let (amqp, http) = {
        let broker = lock(&broker);
        (broker.url(), format!("http://{}", broker.http))
    };
    let cluster = ControlledCluster::start(bench.name)?;
    let nodes = cluster.nodes.iter();
    let nodes = nodes.map(|node| format!("http://{}", lock(node).http));
    let mut variables = vec![
        ("AMQP_URL", amqp),
        ("HTTP_URL", http),
        ("CONTROL", control),
        ("CLUSTER_HTTP", nodes.collect::<Vec<_>>().join(",")),
        ("CHROMIUM", "/usr/bin/chromium".to_owned()),
        (
            "OPERATORS",
            run::root().join("tests/operators").display().to_string(),
        ),
    ];
    variables.extend(cluster.environment.clone());
    let mut report = tests(bench, &variables)?;
    stop(&mut lock(&broker), &mut report)?;
    // The last one has been stopped, and taken out of the cluster.
    for node in &cluster.nodes[..2] {
        stop(&mut lock(node), &mut report)?;
    }
    lock(&cluster.nodes[2]).stop()?;
    Ok(report)
}

/// Installs what the suite's scripts need beside a copy of them, and runs Node's own test runner.
fn tests(bench: &Bench, variables: &[(&str, String)]) -> Result<Report> {
    let folder = bench.folder()?;
    let scripts = run::root().join("tests/interop").join(bench.name);
    run::copy_folder(&scripts, &folder)?;
    let mut install = Command::new("npm");
    install
        .args(["install", "--no-audit", "--no-fund", "--silent"])
        .current_dir(&folder);
    run::output(install.env("npm_config_cache", folder.join("cache")))?;
    let log = bench.log("tap")?;
    let mut command = Command::new("node");
    command
        // One file at a time: files may share a broker.
        .args(["--test", "--test-concurrency=1", "--test-reporter=tap"])
        .current_dir(&folder);
    command.envs(variables.iter().cloned());
    let success = run::logged(&mut command, &log, DEADLINE)?;
    let text = fs::read_to_string(&log)?;
    Ok(parse(&text).ended("node --test", success, &log, &text))
}

/// Reads TAP. A file that holds tests is a test too, and is not counted: its own line has the
/// file's name.
fn parse(text: &str) -> Report {
    let mut report = Report::default();
    for line in text.lines().map(str::trim_start) {
        let failed = line.starts_with("not ok ");
        if !failed && !line.starts_with("ok ") {
            continue;
        }
        let name = line.split_once(" - ").map_or(line, |(_, name)| name);
        if let Some((name, reason)) = name.split_once(" # SKIP") {
            report
                .left_out
                .push((name.to_owned(), reason.trim().to_owned()));
        } else if name.ends_with("js") {
            continue;
        } else if failed {
            report.failed.push(name.to_owned());
        } else {
            report.passed += 1;
        }
    }
    report
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tap_is_counted() {
        let text = "TAP version 13\n# Subtest: x.test.mjs\n    ok 1 - confirms arrive\n\
                    \x20   not ok 2 - returns come first\n    ok 3 - later # SKIP no reason\n\
                    not ok 1 - /somewhere/x.test.mjs\n1..1\n";
        let report = parse(text);
        assert_eq!(report.passed, 1);
        assert_eq!(report.failed, ["returns come first"]);
        assert_eq!(
            report.left_out,
            [("later".to_owned(), "no reason".to_owned())]
        );
    }
}
