//! Everything that CI runs, in one order, with one verdict. It changes no file of the tree.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result};
use rustix::fs::statvfs;

use crate::{advisories, codegen, graph, licences, run, suite, tidy};

/// One step before the tests.
type Step = (&'static str, fn() -> Result<bool>);

const STEPS: &[Step] = &[
    ("fmt", || cargo(&["fmt", "--all", "--check"])),
    ("tidy", tidy::run),
    ("crate graph", graph::check),
    ("licences and duplicates", licences::run),
    ("advisories", advisories::run),
    ("generated code", codegen_is_fresh),
    ("clippy", || {
        cargo(&[
            "clippy",
            "--workspace",
            "--all-targets",
            "--quiet",
            "--",
            "-Dwarnings",
        ])
    }),
    ("documentation", documentation),
];

/// Runs the steps, then all suites. `false` if anything was wrong; all of it runs either way, so
/// that one run shows everything.
pub fn run() -> Result<bool> {
    let mut failed_steps = Vec::new();
    for (name, step) in STEPS {
        println!("== {name}");
        let started = Instant::now();
        let verdict = match step() {
            Ok(true) => "ok",
            Ok(false) => "FAILED",
            Err(error) => {
                println!("{error:#}");
                "FAILED"
            }
        };
        println!("   {verdict}, {:.0} s", started.elapsed().as_secs_f64());
        if verdict != "ok" {
            failed_steps.push(*name);
        }
    }
    println!("== tests");
    println!("{}", room()?);
    let totals = suite::run_all()?;
    println!("{}", room()?);
    for name in &failed_steps {
        println!("FAILED step: {name}");
    }
    let passed = totals.passed + STEPS.len() - failed_steps.len();
    let failed = totals.failed + failed_steps.len();
    println!("{passed} passed, {failed} failed");
    Ok(failed == 0)
}

/// How much the disks can take on which a run writes: one that is full fails tests in odd ways.
fn room() -> Result<String> {
    let free = |folder: &Path| {
        let disk = statvfs(folder).with_context(|| format!("look at {}", folder.display()))?;
        let mib = (disk.f_bavail * disk.f_frsize) >> 20;
        anyhow::Ok(mib)
    };
    let (target, temporary) = (free(&run::target())?, free(&std::env::temp_dir())?);
    Ok(format!(
        "free: {target} MiB for the target folder, {temporary} MiB for temporary files"
    ))
}

fn cargo(arguments: &[&str]) -> Result<bool> {
    let mut command = Command::new("cargo");
    Ok(command
        .args(arguments)
        .current_dir(run::root())
        .status()?
        .success())
}

fn documentation() -> Result<bool> {
    let mut command = Command::new("cargo");
    command
        .args(["doc", "--workspace", "--no-deps", "--quiet"])
        .env("RUSTDOCFLAGS", "-Dwarnings");
    Ok(command.current_dir(run::root()).status()?.success())
}

fn codegen_is_fresh() -> Result<bool> {
    codegen::run(true)?;
    Ok(true)
}
