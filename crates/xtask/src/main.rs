//! Leveret's own tool: everything that a contributor or CI runs, as one command, `cargo xtask`.
//!
//! - `cargo xtask ci` is the whole of CI: format, tidy, lints, crate graph, dependencies, tests.
//! - `cargo xtask test` runs every suite, those of foreign clients included.
//! - `cargo xtask bench` measures the broker, beside a peer where there is one.
//! - `cargo xtask mutants` changes a copy of the program and checks that its tests notice.
//! - `cargo xtask crash` kills a loaded broker again and again and audits what it kept.
//!
//! Invariant: this tool never edits the working tree, but for `codegen` and `bench --write`.
//! Invariant: what it fetches or writes on the way lies in the target folder.
//! Invariant: it ends only processes that it started, by their id.
//! Invariant: a suite that could not run has failed; so has a test that left itself out and that
//! `docs/interop.md` does not list.

mod advisories;
mod bench;
mod broker;
mod certificates;
mod ci;
mod client;
mod cluster;
mod codegen;
mod crash;
mod graph;
mod http;
mod left_out;
mod licences;
mod limits_page;
mod modules;
mod mutants;
mod numbers;
mod places;
mod ports;
mod procfs;
mod redis;
mod run;
mod stream_client;
mod suite;
mod tidy;
mod tools;
mod track_record;
mod unit;
mod words;

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;

/// Leveret's own tool: everything that a contributor or CI runs.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
enum Command {
    /// Everything that CI runs, in its order
    Ci,
    /// All suites, those of foreign clients included, or those named
    Test(suite::Options),
    /// House rules: lengths, banned words, invariants, reasons for dependencies
    Tidy,
    /// Write the generated sources and docs/limits.md
    Codegen {
        /// Say whether they are stale, and write nothing
        #[arg(long)]
        check: bool,
    },
    /// Crate dependencies and import cycles against what is allowed
    Graph {
        /// Show all import cycles of this crate, and the names that make them
        #[arg(value_name = "CRATE")]
        shown: Option<String>,
    },
    /// Licences and duplicate versions of dependencies against deny.toml
    Licences,
    /// Known weaknesses of dependencies, where cargo-deny and its database can be had
    Advisories,
    /// Faults under load, with a ledger outside the brokers: was anything confirmed lost?
    Crash(crash::Options),
    /// Would the tests notice a wrong program? Small changes, tried one by one
    Mutants(mutants::Options),
    /// Start nodes on loopback, to try things out
    Cluster {
        /// How many
        #[arg(default_value_t = cluster::NODES)]
        nodes: usize,
    },
    /// Measure the broker, beside a peer where there is one
    Bench(bench::Arguments),
}

fn main() -> ExitCode {
    match dispatch(Command::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Runs one command; `false` means that it ran to its end and found something wrong.
fn dispatch(command: Command) -> Result<bool> {
    match command {
        Command::Ci => ci::run(),
        Command::Test(options) => suite::run(&options),
        Command::Tidy => tidy::run(),
        Command::Graph { shown: None } => graph::check(),
        Command::Graph { shown: Some(name) } => graph::show(&name).map(|()| true),
        Command::Licences => licences::run(),
        Command::Advisories => advisories::run(),
        Command::Codegen { check } => codegen::run(check).map(|()| true),
        Command::Crash(options) => crash::run(&options),
        Command::Cluster { nodes } => cluster::run(nodes),
        Command::Mutants(options) => mutants::run(&options),
        Command::Bench(arguments) => bench::run(arguments),
    }
}
