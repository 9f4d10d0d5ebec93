//! amqp091-go's own integration tests, as its module carries them, and own tests with it over a
//! cluster; own tests with the stream client.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::bench::{Bench, ControlledCluster, Report};
use crate::broker::{Broker, Kind};
use crate::run;

const MODULE: &str = "github.com/rabbitmq/amqp091-go@v1.16.0";
const DEADLINE: Duration = Duration::from_secs(600);

/// Runs them. The suite drops connections through the management API at its standard port, and its
/// examples dial the standard AMQP port, so that this broker listens there.
pub fn run(bench: &Bench) -> Result<Report> {
    let source = fetch(bench)?;
    let mut broker = Broker::start_at_standard_ports(bench.kind, bench.name)?;
    let url = broker.url();
    let script = ctl_script(bench, &broker)?;
    let log = bench.log("go")?;
    let mut command = go()?;
    command.args([
        "test",
        "-json",
        "-count=1",
        "-tags",
        "integration",
        "-timeout",
        "9m",
    ]);
    if !bench.left_out.is_empty() {
        let names: Vec<&str> = bench.left_out.iter().map(|row| row.test.as_str()).collect();
        command.arg("-skip").arg(format!("^({})$", names.join("|")));
    }
    command.arg(".").current_dir(&source).env("AMQP_URL", url);
    command.env("RABBITMQ_RABBITMQCTL_PATH", script);
    let success = run::logged(&mut command, &log, DEADLINE);
    // Before anything else: the next suite may want the same ports.
    broker.stop()?;
    let success = success?;
    let mut report = bench.documented();
    report.add(read(success, &log)?);
    Ok(report)
}

/// Own tests with amqp091-go over the three nodes of a cluster.
pub fn cluster(bench: &Bench) -> Result<Report> {
    let folder = bench.folder()?.join("tests");
    run::copy_folder(&run::root().join("tests/interop/go"), &folder)?;
    on_cluster(bench, &folder, &["."])
}

/// Own tests with the stream client against a broker of its own.
pub fn streams(bench: &Bench) -> Result<Report> {
    let folder = stream_tests(bench)?;
    let mut broker = bench.broker(&[])?;
    let log = bench.log("go")?;
    let mut command = go()?;
    command.args(["test", "-json", "-count=1", "-timeout", "3m"]);
    command.args(["-skip", "^TestCluster", "."]);
    command
        .current_dir(&folder)
        .env("BROKER", bench.kind.name())
        .env("STREAM_PORT", broker.stream.port().to_string())
        .env("HTTP_URL", format!("http://{}", broker.http));
    let success = run::logged(&mut command, &log, DEADLINE)?;
    let mut report = bench.documented();
    super::bench::stop(&mut broker, &mut report)?;
    report.add(read(success, &log)?);
    Ok(report)
}

/// Own tests with the stream client over the three nodes of a cluster, one or another killed.
pub fn stream_cluster(bench: &Bench) -> Result<Report> {
    let folder = stream_tests(bench)?;
    on_cluster(bench, &folder, &["-run", "^TestCluster", "."])
}

/// A copy of the tests with the client of the HTTP API, built before any node starts.
pub(super) fn management_tests(bench: &Bench) -> Result<PathBuf> {
    let folder = bench.folder()?.join("go");
    run::copy_folder(&run::root().join("tests/interop/go-management"), &folder)?;
    build_tests(&folder)?;
    Ok(folder)
}

/// Own tests with the client of the HTTP API, in the folder of their copy.
pub(super) fn management(
    bench: &Bench,
    folder: &Path,
    environment: [(&'static str, String); 3],
) -> Result<Report> {
    let log = bench.log("go")?;
    let mut command = go()?;
    command.args(["test", "-json", "-count=1", "-timeout", "2m", "."]);
    command.current_dir(folder).envs(environment);
    let success = run::logged(&mut command, &log, DEADLINE)?;
    read(success, &log)
}

/// The program of a publisher or consumer that `cargo xtask crash` starts.
pub fn crash_client() -> Result<PathBuf> {
    let folder = run::target_folder("interop/crash-client")?;
    let (source, program) = (folder.join("source"), folder.join("crash_client"));
    run::copy_folder(&run::root().join("tests/interop/go"), &source)?;
    let mut build = go()?;
    build
        .args(["build", "-o"])
        .arg(&program)
        .arg("./crash_client");
    run::output(build.current_dir(&source))?;
    Ok(program)
}

/// Runs the tests of a folder over the three nodes of a cluster.
fn on_cluster(bench: &Bench, folder: &Path, tests: &[&str]) -> Result<Report> {
    let cluster = ControlledCluster::start(bench.name)?;
    let log = bench.log("go")?;
    let mut command = go()?;
    command.args(["test", "-json", "-count=1", "-timeout", "9m"]);
    command.args(tests);
    command
        .current_dir(folder)
        .envs(cluster.environment.clone());
    let success = run::logged(&mut command, &log, DEADLINE);
    let mut report = bench.documented();
    cluster.stop(&mut report)?;
    report.add(read(success?, &log)?);
    Ok(report)
}

/// A copy of the tests with the stream client, built before any broker starts, so that what hangs
/// is a test and not a download.
fn stream_tests(bench: &Bench) -> Result<PathBuf> {
    let folder = bench.folder()?.join("tests");
    run::copy_folder(&run::root().join("tests/interop/go-streams"), &folder)?;
    build_tests(&folder)?;
    Ok(folder)
}

fn build_tests(folder: &Path) -> Result<()> {
    let mut build = go()?;
    build.args(["test", "-c", "-o", "/dev/null", "."]);
    run::output(build.current_dir(folder))?;
    Ok(())
}

/// What a run of `go test` found.
fn read(success: bool, log: &Path) -> Result<Report> {
    let text = fs::read_to_string(log)?;
    Ok(parse(&text).ended("go test", success, log, &printed(&text)))
}

/// The go command with its caches below the target folder.
fn go() -> Result<Command> {
    // All suites in Go share the caches of one.
    let folder = run::target_folder("interop/go")?;
    let mut command = Command::new("go");
    command
        .env("GOMODCACHE", folder.join("modules"))
        .env("GOCACHE", folder.join("cache"));
    // Writable modules, so that the target folder can be removed like any other.
    command
        .env("GOFLAGS", "-modcacherw")
        .env("GOTOOLCHAIN", "local");
    Ok(command)
}

/// The module's source in a folder of its own.
fn fetch(bench: &Bench) -> Result<PathBuf> {
    let folder = bench.folder()?;
    let mut command = go()?;
    command
        .args(["mod", "download", "-json", MODULE])
        .current_dir(&folder);
    let answer: Value = serde_json::from_str(&run::output(&mut command)?)?;
    let cached = answer["Dir"]
        .as_str()
        .context("go mod download names no folder")?;
    let source = folder.join("source");
    if source.exists() {
        fs::remove_dir_all(&source)?;
    }
    run::copy_folder(Path::new(cached), &source)?;
    Ok(source)
}

/// The suite runs `rabbitmqctl` by path; this one answers for the broker under test.
fn ctl_script(bench: &Bench, broker: &Broker) -> Result<PathBuf> {
    let path = bench.folder()?.join("rabbitmqctl");
    let mut text = String::from("#!/bin/sh\n");
    let command = broker.ctl_command();
    for (name, value) in command.get_envs() {
        let Some(value) = value else { continue };
        text.push_str(&format!(
            "export {}='{}'\n",
            name.display(),
            value.display()
        ));
    }
    let mut words = vec![command.get_program().display().to_string()];
    words.extend(command.get_args().map(|word| word.display().to_string()));
    text.push_str(&format!("exec {} \"$@\"\n", words.join(" ")));
    fs::write(&path, text)?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
    if bench.kind == Kind::Leveret && !Path::new(command.get_program()).exists() {
        bail!("{} is not built", command.get_program().display());
    }
    Ok(path)
}

/// What the tests printed.
fn printed(text: &str) -> String {
    let of_line = |line: &str| match serde_json::from_str::<Value>(line) {
        Ok(event) => event["Output"].as_str().unwrap_or_default().to_owned(),
        Err(_) => format!("{line}\n"),
    };
    text.lines().map(of_line).collect()
}

/// Counts whole tests; a failed part of one is named as well.
fn parse(text: &str) -> Report {
    let mut report = Report::default();
    // Where the test said something last, and what: of one that failed or was left out, why. The
    // machine may be gone when somebody reads this.
    let mut reason = String::new();
    for line in text.lines() {
        let Ok(event) = serde_json::from_str::<Value>(line) else {
            continue;
        };
        let Some(test) = event["Test"].as_str() else {
            continue;
        };
        match event["Action"].as_str() {
            Some("pass") if !test.contains('/') => report.passed += 1,
            Some("fail") if reason.is_empty() => report.failed.push(test.to_owned()),
            Some("fail") => report.failed.push(format!("{test}: {reason}")),
            Some("skip") => report.left_out.push((test.to_owned(), reason.clone())),
            Some("run") => reason.clear(),
            Some("output") => {
                let output = event["Output"].as_str().unwrap_or_default();
                if !output.trim_start().starts_with("---") && output.contains(".go:") {
                    reason = output.trim().to_owned();
                }
            }
            _ => {}
        }
    }
    report
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn go_events_are_counted() {
        let text = r#"{"Action":"pass","Test":"TestA/part"}
{"Action":"pass","Test":"TestA"}
not json
{"Action":"output","Test":"TestB","Output":"    x_test.go:3: 1 of 2\n"}
{"Action":"fail","Test":"TestB"}
{"Action":"run","Test":"TestD"}
{"Action":"fail","Test":"TestD"}
{"Action":"output","Test":"TestC","Output":"    x_test.go:4: wants more\n"}
{"Action":"skip","Test":"TestC"}
{"Action":"pass"}
"#;
        let report = parse(text);
        assert_eq!(report.passed, 1);
        assert_eq!(report.failed, ["TestB: x_test.go:3: 1 of 2", "TestD"]);
        let skipped = ("TestC".to_owned(), "x_test.go:4: wants more".to_owned());
        assert_eq!(report.left_out, [skipped]);
    }
}
