//! The Java clients of AMQP and of streams, Spring's RabbitTemplate and PerfTest, all from Maven's
//! central repository.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::Result;

use super::bench::{Bench, ControlledCluster, Report, failure};
use crate::run;

const DEADLINE: Duration = Duration::from_secs(600);

/// Lines of a load that failed that are shown.
const SHOWN_LINES: usize = 5;

/// Maven with its repository below the target folder, in a copy of one of our projects.
fn maven(bench_folder: &PathBuf, project: &str) -> Result<Command> {
    run::copy_folder(
        &run::root().join("tests/interop").join(project),
        bench_folder,
    )?;
    let repository = run::target_folder("interop/maven")?;
    let mut command = Command::new("mvn");
    command.args(["--batch-mode", "--no-transfer-progress"]);
    command.arg(format!("-Dmaven.repo.local={}", repository.display()));
    command.current_dir(bench_folder);
    Ok(command)
}

/// Own JUnit tests with the Java client, the stream client and Spring AMQP.
pub fn clients(bench: &Bench) -> Result<Report> {
    let broker = bench.broker(&[])?;
    let environment = [
        ("AMQP_URL", format!("{}%2f", broker.url())),
        ("BROKER", bench.kind.name().to_owned()),
        ("STREAM_PORT", broker.stream.port().to_string()),
    ];
    tests(bench, "!StreamClusterTest,!ManagementTest", environment)
}

/// Own JUnit tests with the stream client over the three nodes of a cluster, one of them killed.
pub fn stream_cluster(bench: &Bench) -> Result<Report> {
    let cluster = ControlledCluster::start(bench.name)?;
    let found = tests(bench, "StreamClusterTest", cluster.environment.clone());
    let mut report = bench.documented();
    cluster.stop(&mut report)?;
    report.add(found?);
    Ok(report)
}

/// Own JUnit tests with the client of the HTTP API.
pub(super) fn management(
    bench: &Bench,
    environment: [(&'static str, String); 3],
) -> Result<Report> {
    tests(bench, "ManagementTest", environment)
}

/// Runs those of the JUnit tests that surefire's pattern names.
fn tests(
    bench: &Bench,
    pattern: &str,
    environment: impl IntoIterator<Item = (&'static str, String)>,
) -> Result<Report> {
    let folder = bench.folder()?;
    let reports = folder.join("target/surefire-reports");
    if reports.exists() {
        fs::remove_dir_all(&reports)?;
    }
    let mut command = maven(&folder, "java")?;
    command.arg("test").arg(format!("-Dtest={pattern}"));
    command.envs(environment);
    let log = bench.log("maven")?;
    let success = run::logged(&mut command, &log, DEADLINE)?;
    let mut report = Report::default();
    for entry in fs::read_dir(&reports).into_iter().flatten() {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "xml") {
            report.add(parse(&fs::read_to_string(path)?));
        }
    }
    Ok(report.ended("mvn test", success, &log, &fs::read_to_string(&log)?))
}

/// Reads one of surefire's reports: an element a test, with an element inside if it failed.
fn parse(xml: &str) -> Report {
    let mut report = Report::default();
    for case in xml.split("<testcase ").skip(1) {
        let case = case.split("</testcase>").next().unwrap_or(case);
        // A test without elements inside closes at once; what follows is the next one's.
        let end = case.find('>').unwrap_or(case.len());
        let (head, body) = case.split_at(end);
        let body = if head.ends_with('/') { "" } else { body };
        let name = format!(
            "{}.{}",
            attribute(head, "classname"),
            attribute(head, "name")
        );
        if body.contains("<failure") || body.contains("<error") {
            report
                .failed
                .push(format!("{name}: {}", attribute(body, "message")));
        } else if body.contains("<skipped") {
            report.left_out.push((name, attribute(body, "message")));
        } else {
            report.passed += 1;
        }
    }
    report
}

fn attribute(text: &str, name: &str) -> String {
    let start = format!("{name}=\"");
    // A blank before it, lest `name` be found in `classname`.
    let found = text.strip_prefix(&start).or_else(|| {
        let (_, rest) = text.split_once(&format!(" {start}"))?;
        Some(rest)
    });
    found
        .and_then(|rest| rest.split('"').next())
        .unwrap_or_default()
        .to_owned()
}

/// The folder with PerfTest and what it needs, fetched if it is not there.
pub fn perftest_classpath() -> Result<String> {
    let folder = run::target_folder("interop/perftest")?;
    let libraries = folder.join("lib");
    if !libraries.join("fetched").exists() {
        let mut command = maven(&folder, "perftest")?;
        command.arg("dependency:copy-dependencies");
        command.arg(format!("-DoutputDirectory={}", libraries.display()));
        run::output(&mut command)?;
        fs::write(libraries.join("fetched"), "")?;
    }
    Ok(format!("{}/*", libraries.display()))
}

/// A PerfTest command, to be given its options.
pub fn perftest(classpath: &str) -> Command {
    let mut command = Command::new("java");
    command.args(["-cp", classpath, "com.rabbitmq.perf.PerfTest"]);
    command
}

/// Shapes of load that PerfTest must get through; each is short.
const SMOKE: &[(&str, &[&str])] = &[
    (
        "confirms and manual acks",
        &[
            "-x",
            "1",
            "-y",
            "1",
            "-c",
            "100",
            "-q",
            "100",
            "-f",
            "persistent",
        ],
    ),
    (
        "many producers and consumers",
        &["-x", "8", "-y", "8", "-c", "10", "-q", "50"],
    ),
    (
        "automatic acks",
        &["-x", "2", "-y", "2", "-a", "-ad", "false"],
    ),
    (
        "fan-out through topic",
        &[
            "-x",
            "1",
            "-y",
            "4",
            "-e",
            "perf-topic",
            "-t",
            "topic",
            "-k",
            "a.b",
            "-a",
        ],
    ),
    (
        "transactions",
        &["-x", "1", "-y", "1", "-m", "10", "-n", "10"],
    ),
    (
        "polling with basic.get",
        &["-x", "1", "-y", "1", "-po", "-pi", "1"],
    ),
    (
        "bodies of 100 kB",
        &["-x", "1", "-y", "1", "-s", "100000", "-c", "50", "-q", "50"],
    ),
    (
        "mandatory and many queues",
        &[
            "-x",
            "5",
            "-y",
            "5",
            "-qp",
            "smoke-%d",
            "-qpf",
            "1",
            "-qpt",
            "5",
            "-mp",
            "mandatory=true",
        ],
    ),
];

/// Each shape for three seconds; it must end well and must have delivered something.
pub fn perftest_smoke(bench: &Bench) -> Result<Report> {
    let classpath = perftest_classpath()?;
    let broker = bench.broker(&[])?;
    let mut report = Report::default();
    for (at, (name, options)) in SMOKE.iter().enumerate() {
        let log = bench.log(&at.to_string())?;
        let mut command = perftest(&classpath);
        command
            .arg("-h")
            .arg(format!("{}%2f", broker.url()))
            .args(["-z", "3"])
            .args(*options);
        let success = run::logged(&mut command, &log, Duration::from_secs(60));
        let text = fs::read_to_string(&log)?;
        let received = text.lines().rev().find_map(|line| {
            let (_, rest) = line.split_once("receiving rate avg: ")?;
            rest.split_whitespace().next()?.parse::<f64>().ok()
        });
        match (success, received) {
            (Ok(true), Some(rate)) if rate > 0.0 => report.passed += 1,
            _ => report.failed.push(failure(name, &log, &text, SHOWN_LINES)),
        }
    }
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn surefire_reports_are_counted() {
        let xml = "<testsuite><testcase name=\"a\" classname=\"X\" time=\"0\"/>\
                   <testcase name=\"b\" classname=\"X\"><failure message=\"no\">t</failure>\
                   </testcase><testcase name=\"c\" classname=\"X\"><system-out/></testcase>\
                   </testsuite>";
        let report = parse(xml);
        assert_eq!(report.passed, 2);
        assert_eq!(report.failed, ["X.b: no"]);
    }
}
