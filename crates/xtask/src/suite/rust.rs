//! lapin's own integration tests, as its package carries them; own tests with the stream client.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;

use super::bench::{Bench, ControlledCluster, Report};
use super::cargo;
use crate::run;

const VERSION: &str = "4.12.3";
const DEADLINE: Duration = Duration::from_secs(900);

/// Builds and runs them.
pub fn lapin(bench: &Bench) -> Result<Report> {
    let source = fetch(bench)?;
    let mut build = lapin_test(bench, &source)?;
    run::output(build.arg("--no-run"))?;
    let broker = bench.broker(&[])?;
    let log = bench.log("cargo")?;
    let mut command = lapin_test(bench, &source)?;
    command.args(["--no-fail-fast", "--", "--test-threads=1"]);
    for row in &bench.left_out {
        command.args(["--skip", &row.test]);
    }
    command.env(
        "AMQP_ADDR",
        format!("amqp://guest:guest@{}/%2f", broker.amqp),
    );
    let success = run::logged(&mut command, &log, DEADLINE)?;
    let mut report = bench.documented();
    report.add(cargo::report(success, &log)?);
    Ok(report)
}

/// Own tests with the stream client against a broker of its own.
pub fn streams(bench: &Bench) -> Result<Report> {
    let folder = stream_tests(bench, "streams")?;
    let mut broker = bench.broker(&[])?;
    let port = [("STREAM_PORT", broker.stream.port().to_string())];
    let found = run_stream_tests(bench, &folder, "streams", &port);
    let mut report = bench.documented();
    super::bench::stop(&mut broker, &mut report)?;
    report.add(found?);
    Ok(report)
}

/// Own tests with the stream client over the three nodes of a cluster, one or another killed.
pub fn stream_cluster(bench: &Bench) -> Result<Report> {
    let folder = stream_tests(bench, "cluster")?;
    let cluster = ControlledCluster::start(bench.name)?;
    let found = run_stream_tests(bench, &folder, "cluster", &cluster.environment);
    let mut report = bench.documented();
    cluster.stop(&mut report)?;
    report.add(found?);
    Ok(report)
}

/// A copy of the tests with the stream client, built before any broker starts, so that what hangs
/// is a test and not a compiler.
fn stream_tests(bench: &Bench, tests: &str) -> Result<PathBuf> {
    let folder = bench.folder()?.join("tests");
    run::copy_folder(&run::root().join("tests/interop/streams-rust"), &folder)?;
    run::output(cargo_test(bench, &folder, tests)?.arg("--no-run"))?;
    Ok(folder)
}

fn run_stream_tests(
    bench: &Bench,
    folder: &Path,
    tests: &str,
    variables: &[(&str, String)],
) -> Result<Report> {
    let log = bench.log("cargo")?;
    let mut command = cargo_test(bench, folder, tests)?;
    // Of the tests over a cluster each kills a node: one at a time.
    let threads = if tests == "cluster" { 1 } else { 2 };
    command.args(["--no-fail-fast", "--"]);
    command.arg(format!("--test-threads={threads}"));
    command.envs(variables.iter().cloned());
    let success = run::logged(&mut command, &log, DEADLINE)?;
    cargo::report(success, &log)
}

/// `cargo test` for one file of the tests with the stream client.
fn cargo_test(bench: &Bench, folder: &Path, tests: &str) -> Result<Command> {
    let mut command = Command::new("cargo");
    command.args(["test", "--locked", "--test", tests]);
    command.env("CARGO_TARGET_DIR", bench.folder()?.join("build"));
    command.current_dir(folder);
    Ok(command)
}

/// `cargo test` for lapin's integration tests. TLS is left out of the build: nothing there uses it.
fn lapin_test(bench: &Bench, source: &Path) -> Result<Command> {
    let mut command = Command::new("cargo");
    command.args(["test", "--tests", "--quiet", "--no-default-features"]);
    command
        .args(["--features", "tokio,smol,default-runtime"])
        .current_dir(source);
    command.env("CARGO_TARGET_DIR", bench.folder()?.join("build"));
    command.env("CARGO_TERM_QUIET", "false");
    command.env("CARGO_PROFILE_DEV_DEBUG", "0");
    Ok(command)
}

/// The package's source in a folder of its own: cargo fetches it as a dependency of an empty crate.
fn fetch(bench: &Bench) -> Result<PathBuf> {
    let fetcher = bench.folder()?.join("fetch");
    fs::create_dir_all(fetcher.join("src"))?;
    fs::write(fetcher.join("src/lib.rs"), "")?;
    fs::write(
        fetcher.join("Cargo.toml"),
        format!(
            "[package]\nname = \"fetch\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\
             [dependencies]\nlapin = {{ version = \"={VERSION}\", default-features = false }}\n\
             [workspace]\n"
        ),
    )?;
    let mut metadata = Command::new("cargo");
    metadata
        .args(["metadata", "--format-version", "1", "--quiet"])
        .current_dir(&fetcher);
    let metadata: Value = serde_json::from_str(&run::output(&mut metadata)?)?;
    let packages = metadata["packages"]
        .as_array()
        .context("cargo metadata lists no packages")?;
    let lapin = packages.iter().find(|package| package["name"] == "lapin");
    let manifest = lapin.and_then(|package| package["manifest_path"].as_str());
    let cached = Path::new(manifest.context("cargo metadata does not name lapin")?);
    let source = bench.folder()?.join("source");
    if source.exists() {
        fs::remove_dir_all(&source)?;
    }
    run::copy_folder(
        cached.parent().context("a manifest lies in a folder")?,
        &source,
    )?;
    // It lies below this workspace's root and must not be taken for a member.
    let manifest = source.join("Cargo.toml");
    let text = fs::read_to_string(&manifest)?;
    fs::write(&manifest, text + "\n[workspace]\n")?;
    Ok(source)
}
