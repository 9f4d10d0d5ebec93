//! The suites in Python: own tables of behaviours, and the integration tests of py-amqp and kombu
//! from their source packages. All run under pytest in one virtual environment.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;

use super::again::run_again;
use super::bench::{Bench, ControlledCluster, Report, controlled, lock, stop};
use crate::broker::Broker;
use crate::run;

/// What the environment holds. Versions are fixed: a suite that changes by itself proves nothing.
const PACKAGES: &[&str] = &[
    "aio-pika==10.2.1",
    "amqp==5.4.2",
    "celery==5.7.0",
    "kombu==5.7.0",
    "pika==1.3.2",
    "pytest==9.1.1",
    "pytest-celery==1.3.0",
    "pytest-rerunfailures==16.7",
    "pytest-timeout==2.4.0",
    "rstream==1.1.1",
    // Celery's tests import these whatever backend they use.
    "cryptography>=44",
    "django>=5,<6",
    "freezegun==1.5.5",
    "pydantic>=2",
    "pytest-subtests==0.15.0",
    "redis>=5",
    "sqlalchemy>=2",
];

/// What the environment for the client of the HTTP API holds: it cannot be beside aio-pika, which
/// needs another version of the library below both.
const MANAGEMENT_PACKAGES: &[&str] = &[
    "amqpstorm[management]==3.1.4",
    "pika==1.3.2",
    "pytest==9.1.1",
    "pytest-timeout==2.4.0",
];

/// How long one run of pytest may take.
pub(super) const DEADLINE: Duration = Duration::from_secs(900);

/// The table of behaviours with pika.
pub fn behaviours(bench: &Bench) -> Result<Report> {
    own(bench, "behaviours")
}

/// The bad-input catalogue with raw sockets.
pub fn bad_input(bench: &Bench) -> Result<Report> {
    own(bench, "bad_input")
}

/// Own scripts with aio-pika.
pub fn aio_pika(bench: &Bench) -> Result<Report> {
    own(bench, "aio_pika")
}

/// Own scripts with rstream, a client of the stream protocol.
pub fn streams(bench: &Bench) -> Result<Report> {
    own(bench, "streams")
}

/// One of this repository's own folders or files of tests.
fn own(bench: &Bench, part: &str) -> Result<Report> {
    let folder = run::root().join("tests/interop/python");
    let tests = format!("test_{part}");
    run_pytest(
        bench,
        &folder,
        &["--timeout=30"],
        &tests,
        bench.broker(&[])?,
    )
}

/// Own scripts with pika, kombu and Celery over the three nodes of a cluster, then kombu's own
/// integration tests at one of them.
pub fn cluster(bench: &Bench) -> Result<Report> {
    let cluster = ControlledCluster::start(bench.name)?;
    let mut report = bench.documented();
    let kombu = source(bench, "kombu==5.7.0")?;
    let kombus = ("kombu", kombu, "t/integration/test_py_amqp.py");
    report.add(at_node(bench, &cluster, 0, own_part("test_cluster"))?);
    report.add(at_node(bench, &cluster, 2, kombus)?);
    cluster.stop(&mut report)?;
    Ok(report)
}

/// Own scripts with rstream over the three nodes of a cluster, one or another killed.
pub fn stream_cluster(bench: &Bench) -> Result<Report> {
    let cluster = ControlledCluster::start(bench.name)?;
    let mut report = bench.documented();
    report.add(at_node(
        bench,
        &cluster,
        0,
        own_part("test_stream_cluster"),
    )?);
    cluster.stop(&mut report)?;
    Ok(report)
}

/// What is run over a cluster: its name in logs, the folder, and the tests there.
type Part = (&'static str, PathBuf, &'static str);

fn own_part(tests: &'static str) -> Part {
    ("own", run::root().join("tests/interop/python"), tests)
}

/// Runs pytest over a cluster; who knows one node only is told of this one.
fn at_node(bench: &Bench, cluster: &ControlledCluster, node: usize, part: Part) -> Result<Report> {
    let (part, folder, tests) = part;
    let run_part = |part: &str, tests: &[String]| {
        let results = bench.folder()?.join(format!("results-{part}.jsonl"));
        let mut command = pytest(bench, &folder)?;
        command.arg("--timeout=120").args(tests);
        point_at(&mut command, bench, &lock(&cluster.nodes[node]), &results)?;
        command.envs(cluster.environment.clone());
        let log = bench.log(part)?;
        let success = run::logged(&mut command, &log, DEADLINE)?;
        read_results(&results, &log, success)
    };
    let mut found = run_part(part, &[tests.to_owned()])?;
    run_again(&mut found, is_pytest_name, |names| {
        run_part(&format!("{part}-again"), names)
    })?;
    Ok(found)
}

/// py-amqp's integration tests, over TCP and over TLS.
pub fn py_amqp(bench: &Bench) -> Result<Report> {
    let source = source(bench, "amqp==5.4.2")?;
    let certificates = source.join("t/certs");
    crate::certificates::make(&certificates)?;
    let broker = Broker::start_with_tls(bench.kind, bench.name, &certificates)?;
    let options = ["--timeout=60", "-p", "no:rerunfailures"];
    run_pytest(bench, &source, &options, "t/integration", broker)
}

/// kombu's integration tests for AMQP.
pub fn kombu(bench: &Bench) -> Result<Report> {
    let source = source(bench, "kombu==5.7.0")?;
    let tests = "t/integration/test_py_amqp.py";
    run_pytest(
        bench,
        &source,
        &["--timeout=120"],
        tests,
        bench.broker(&[])?,
    )
}

/// The virtual environment's interpreter.
pub fn python() -> Result<PathBuf> {
    environment("interop/python", PACKAGES)
}

/// The interpreter of the environment for the client of the HTTP API.
pub(super) fn management() -> Result<PathBuf> {
    environment("interop/python-management", MANAGEMENT_PACKAGES)
}

/// The interpreter of a virtual environment with these packages, which is made if it is not there.
fn environment(folder: &str, packages: &[&str]) -> Result<PathBuf> {
    let folder = run::target_folder(folder)?;
    let interpreter = folder.join("venv/bin/python");
    let stamp = folder.join("packages");
    let wanted = packages.join("\n");
    if fs::read_to_string(&stamp).is_ok_and(|installed| installed == wanted) {
        return Ok(interpreter);
    }
    let venv = folder.join("venv");
    run::output(
        Command::new("python3")
            .args(["-m", "venv", "--clear"])
            .arg(&venv),
    )?;
    let mut pip = pip(&interpreter)?;
    run::output(pip.arg("install").args(packages))?;
    fs::write(&stamp, wanted)?;
    Ok(interpreter)
}

fn pip(interpreter: &Path) -> Result<Command> {
    let mut command = Command::new(interpreter);
    command.args(["-m", "pip", "--quiet", "--disable-pip-version-check"]);
    command.env("PIP_CACHE_DIR", run::target_folder("interop/python/cache")?);
    Ok(command)
}

/// A source package, unpacked: wheels carry no tests.
pub(super) fn source(bench: &Bench, requirement: &str) -> Result<PathBuf> {
    let interpreter = python()?;
    let folder = bench.folder()?;
    let (name, version) = requirement.split_once("==").context("a fixed version")?;
    let archive = folder.join(format!("{name}-{version}.tar.gz"));
    if !archive.exists() {
        let mut download = pip(&interpreter)?;
        download.args([
            "download",
            "--no-deps",
            "--no-binary",
            ":all:",
            requirement,
            "--dest",
        ]);
        run::output(download.arg(&folder))?;
    }
    let source = folder.join(format!("{name}-{version}"));
    if source.exists() {
        fs::remove_dir_all(&source)?;
    }
    run::output(
        Command::new("tar")
            .arg("xzf")
            .arg(&archive)
            .arg("-C")
            .arg(&folder),
    )?;
    // The tests are to import the installed package, as a user would, not the folder beside them.
    let package = source.join(name);
    fs::rename(&package, source.join(format!("{name}-source")))?;
    Ok(source)
}

/// pytest in a folder, with the plugin that reports to this tool.
pub(super) fn pytest(bench: &Bench, folder: &Path) -> Result<Command> {
    pytest_of(&python()?, bench, folder)
}

/// The same with the interpreter of another environment.
pub(super) fn pytest_of(interpreter: &Path, bench: &Bench, folder: &Path) -> Result<Command> {
    let mut command = Command::new(interpreter);
    command.args([
        "-m",
        "pytest",
        "-p",
        "no:cacheprovider",
        "-p",
        "leveret_report",
        "-v",
    ]);
    for row in &bench.left_out {
        let flag = if row.test.contains("::") {
            "--deselect"
        } else {
            "--ignore"
        };
        command.arg(format!("{flag}={}", row.test));
    }
    command.current_dir(folder);
    // Tests that start a program by its name are to find the environment's.
    let mut path = interpreter
        .parent()
        .map_or_else(Default::default, |bin| bin.as_os_str().to_owned());
    if let Some(usual) = std::env::var_os("PATH") {
        path.push(":");
        path.push(usual);
    }
    command.env("PATH", path);
    command.env(
        "PYTHONPATH",
        run::root().join("tests/interop/python/plugin"),
    );
    command.env("PYTHONDONTWRITEBYTECODE", "1");
    Ok(command)
}

/// Runs pytest in a folder against a broker, which is stopped then.
fn run_pytest(
    bench: &Bench,
    folder: &Path,
    options: &[&str],
    tests: &str,
    broker: Broker,
) -> Result<Report> {
    let (broker, control) = controlled(broker)?;
    let run = |part: &str, tests: &[String]| {
        let results = bench.folder()?.join(format!("results-{part}.jsonl"));
        let mut command = pytest(bench, folder)?;
        command.args(options).args(tests);
        point_at(&mut command, bench, &lock(&broker), &results)?;
        command.env("BROKER_CONTROL", &control);
        let log = bench.log(part)?;
        let success = run::logged(&mut command, &log, DEADLINE)?;
        read_results(&results, &log, success)
    };
    let found = run("pytest", &[tests.to_owned()]).and_then(|mut found| {
        run_again(&mut found, is_pytest_name, |names| {
            run("pytest-again", names)
        })?;
        Ok(found)
    });
    let mut report = bench.documented();
    stop(&mut lock(&broker), &mut report)?;
    report.add(found?);
    Ok(report)
}

/// Whether pytest can be asked for this test by itself.
pub(super) fn is_pytest_name(name: &str) -> bool {
    name.contains("::")
}

/// Tells pytest where the broker is, by the names that suites read, and where results go.
pub(super) fn point_at(
    command: &mut Command,
    bench: &Bench,
    broker: &Broker,
    results: &Path,
) -> Result<()> {
    fs::write(results, "")?;
    let port = broker.amqp.port().to_string();
    command
        .env("LEVERET_REPORT", results)
        .env("AMQP_URL", broker.url())
        .env("BROKER", bench.kind.name())
        .env("HTTP_URL", format!("http://{}", broker.http))
        .env("STREAM_PORT", broker.stream.port().to_string())
        .env("RABBITMQ_HOST", "127.0.0.1")
        .env("RABBITMQ_5672_TCP", &port)
        .env(
            "RABBITMQ_5671_TCP",
            broker.tls.map_or(0, |tls| tls.port()).to_string(),
        )
        .env(
            "TEST_BROKER",
            format!("pyamqp://guest:guest@127.0.0.1:{port}//"),
        );
    Ok(())
}

/// What a run of pytest found.
pub(super) fn read_results(results: &Path, log: &Path, success: bool) -> Result<Report> {
    let report = parse(&fs::read_to_string(results)?);
    Ok(report.ended("pytest", success, log, &fs::read_to_string(log)?))
}

/// Reads the plugin's lines: one object a test, with its name, outcome and reason.
fn parse(text: &str) -> Report {
    let mut report = Report::default();
    for line in text.lines() {
        let Ok(result) = serde_json::from_str::<Value>(line) else {
            continue;
        };
        let name = result["test"].as_str().unwrap_or_default().to_owned();
        let reason = result["reason"].as_str().unwrap_or_default().to_owned();
        match result["outcome"].as_str() {
            Some("passed") => report.passed += 1,
            Some("skipped") => report.left_out.push((name, reason)),
            _ => report.failed.push(format!("{name}: {reason}")),
        }
    }
    report
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_counted() {
        let text = "{\"test\":\"a\",\"outcome\":\"passed\",\"reason\":\"\"}\n\
                    {\"test\":\"b\",\"outcome\":\"failed\",\"reason\":\"404\"}\n\
                    {\"test\":\"c\",\"outcome\":\"skipped\",\"reason\":\"no redis\"}\n";
        let report = parse(text);
        assert_eq!(
            (report.passed, report.failed.len(), report.left_out.len()),
            (1, 1, 1)
        );
        assert_eq!(report.failed, ["b: 404"]);
    }
}
