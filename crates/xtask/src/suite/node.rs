//! Own scripts under Node.js: with amqplib and the stream client, whose packages carry no tests,
//! and for the operators' page in a browser.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::Result;

use super::bench::{Bench, ControlledCluster, Report, controlled, lock, stop};
use super::tap;
use crate::run;

const DEADLINE: Duration = Duration::from_secs(900);
/// The folder of the scripts with the stream client.
const STREAMS: &str = "streams-js";

/// amqplib against a broker of its own.
pub fn run(bench: &Bench) -> Result<Report> {
    let broker = bench.broker(&[])?;
    tests(bench, (bench.name, &[]), &[("AMQP_URL", broker.url())])
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
    let mut report = tests(bench, (STREAMS, &["streams.test.mjs"]), &variables)?;
    stop(&mut broker, &mut report)?;
    Ok(report)
}

/// The stream client over the three nodes of a cluster, one or another killed.
pub fn stream_cluster(bench: &Bench) -> Result<Report> {
    let cluster = ControlledCluster::start(bench.name)?;
    let mut report = bench.documented();
    let scripts: Scripts<'_> = (STREAMS, &["cluster.test.mjs"]);
    report.add(tests(bench, scripts, &cluster.environment)?);
    cluster.stop(&mut report)?;
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
    let mut report = tests(bench, (bench.name, &[]), &variables)?;
    stop(&mut lock(&broker), &mut report)?;
    // The last one has been stopped, and taken out of the cluster.
    for node in &cluster.nodes[..2] {
        stop(&mut lock(node), &mut report)?;
    }
    lock(&cluster.nodes[2]).stop()?;
    Ok(report)
}

/// The folder of scripts below `tests/interop`, and those of them that are run; all without a name.
type Scripts<'a> = (&'a str, &'a [&'a str]);

/// Copies a folder of scripts below `tests/interop`, and installs what they need beside the copy.
pub fn install_scripts(scripts: &str, folder: &Path) -> Result<()> {
    let scripts = run::root().join("tests/interop").join(scripts);
    run::copy_folder(&scripts, folder)?;
    let mut install = Command::new("npm");
    install
        .args(["install", "--no-audit", "--no-fund", "--silent"])
        .current_dir(folder);
    run::output(install.env("npm_config_cache", folder.join("cache")))?;
    Ok(())
}

/// Installs what the suite's scripts need, and runs Node's own test runner.
fn tests(
    bench: &Bench,
    (scripts, files): Scripts<'_>,
    variables: &[(&str, String)],
) -> Result<Report> {
    let folder = bench.folder()?;
    install_scripts(scripts, &folder)?;
    let log = bench.log("tap")?;
    let mut command = Command::new("node");
    command
        // One file at a time: files may share a broker.
        .args(["--test", "--test-concurrency=1", "--test-reporter=tap"])
        .args(files)
        .current_dir(&folder);
    command.envs(variables.iter().cloned());
    let success = run::logged(&mut command, &log, DEADLINE)?;
    let text = fs::read_to_string(&log)?;
    Ok(tap::parse(&text).ended("node --test", success, &log, &text))
}
