//! What operators hold in their hands, at a cluster: clients of the HTTP API in Go, Java and
//! Python, and rabbitmqadmin, which is made with the client in Rust; Nagios's checks.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::Result;

use super::bench::{Bench, Report, stop};
use super::{go, java, python, tap};
use crate::broker::Broker;
use crate::cluster::Cluster;
use crate::run;

const ADMIN_VERSION: &str = "2.35.0";
const DEADLINE: Duration = Duration::from_secs(120);
const NODES: usize = 3;

/// Runs all of them at the first of three nodes.
pub fn run(bench: &Bench) -> Result<Report> {
    // Fetched and built before the nodes start, so that what hangs is a test.
    let admin = admin(bench)?;
    python::management()?;
    let tests = go::management_tests(bench)?;
    let mut nodes = Cluster::start_kind(bench.kind, bench.name, NODES)?.nodes;
    let environment = environment(&nodes[0]);
    let mut report = bench.documented();
    report.add(go::management(bench, &tests, environment.clone())?);
    report.add(java::management(bench, environment.clone())?);
    report.add(in_python(bench, &nodes[0], environment.clone())?);
    report.add(programs(bench, &admin, environment)?);
    for node in &mut nodes {
        stop(node, &mut report)?;
    }
    Ok(report)
}

/// Where tests in whatever language find the node.
fn environment(node: &Broker) -> [(&'static str, String); 3] {
    [
        ("HTTP_URL", format!("http://{}", node.http)),
        ("HTTP_PORT", node.http.port().to_string()),
        ("NODES", NODES.to_string()),
    ]
}

/// rabbitmqadmin, built where it is not there: without debugging information and without the
/// optimisations of a release, which take four times as long.
fn admin(bench: &Bench) -> Result<PathBuf> {
    let root = bench.folder()?.join("rabbitmqadmin");
    let program = root.join("bin/rabbitmqadmin");
    let stamp = root.join("version");
    if fs::read_to_string(&stamp).is_ok_and(|version| version == ADMIN_VERSION) {
        return Ok(program);
    }
    let mut install = Command::new("cargo");
    install.args(["install", "rabbitmqadmin", "--version", ADMIN_VERSION]);
    install.args(["--locked", "--debug", "--no-default-features", "--force"]);
    install.arg("--root").arg(&root);
    let build = root.join("build");
    install
        .env("CARGO_TARGET_DIR", &build)
        .env("CARGO_PROFILE_DEV_DEBUG", "0")
        .env("CARGO_INCREMENTAL", "0");
    run::output(&mut install)?;
    // Half a gigabyte that nothing needs any more.
    fs::remove_dir_all(&build)?;
    fs::write(&stamp, ADMIN_VERSION)?;
    Ok(program)
}

fn in_python(
    bench: &Bench,
    node: &Broker,
    environment: [(&'static str, String); 3],
) -> Result<Report> {
    let results = bench.folder()?.join("results.jsonl");
    let folder = run::root().join("tests/interop/python");
    let mut command = python::pytest_of(&python::management()?, bench, &folder)?;
    command.args(["--timeout=30", "test_management"]);
    python::point_at(&mut command, bench, node, &results)?;
    command.envs(environment);
    let log = bench.log("pytest")?;
    let success = run::logged(&mut command, &log, DEADLINE)?;
    python::read_results(&results, &log, success)
}

/// rabbitmqadmin and Nagios's checks, by a script that prints TAP.
fn programs(
    bench: &Bench,
    admin: &Path,
    environment: [(&'static str, String); 3],
) -> Result<Report> {
    let mut command = Command::new("bash");
    command
        .arg("main.sh")
        .current_dir(run::root().join("tests/interop/tools"))
        .envs(environment)
        .env("RABBITMQADMIN", admin);
    let log = bench.log("tap")?;
    let success = run::logged(&mut command, &log, DEADLINE)?;
    let text = fs::read_to_string(&log)?;
    Ok(tap::parse(&text).ended("main.sh", success, &log, &text))
}
