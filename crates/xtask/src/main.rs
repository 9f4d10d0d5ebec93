//! Leveret's own tool: everything that a contributor or CI runs, as one command, `cargo xtask`.
//!
//! - `cargo xtask ci` is the whole of CI: format, tidy, lints, crate graph, dependencies, tests.
//! - `cargo xtask test` runs every suite, those of foreign clients included.
//! - `cargo xtask bench` measures the broker, beside a peer where there is one.
//! - `cargo xtask mutants` changes the program and looks whether its tests notice.
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
mod suite;
mod tidy;
mod tools;
mod unit;
mod words;

use std::process::ExitCode;

use anyhow::{Result, bail};

const USAGE: &str = "\
usage: cargo xtask COMMAND

  ci                        everything that CI runs, in its order
  test [SUITE...]           all suites, or those named; `test --list` names them
       [--broker KIND]      run the interoperability suites against `leveret` (default) or
                            Debian's `rabbitmq`, which shows whether a failure is the suite's
  tidy                      house rules: lengths, banned words, invariants, dependency reasons
  codegen [--check]         writes the generated sources, or says whether they are stale
  graph                     crate dependencies against the allowed arrows; import cycles between
                            the files of a crate against their allowed sizes
        [CRATE]             all import cycles of one crate, and the names that make them
  licences                  licences and duplicate versions against deny.toml
  advisories                known weaknesses of dependencies, where cargo-deny and its database
                            can be had
  crash [--rounds N]        kill -9 under load, with a ledger outside the process (default 25)
        [--broker KIND] [--seed N]
        [--cluster]         kills and stops of nodes of a cluster of three, quorum queues
        [--cluster --netns [--seconds N] [--fault NAME]]
                            each node in a network namespace of its own, under load for so long
                            (default 60) a fault: kill-leader, kill-follower, kill-all, stop-leader,
                            halves, isolated-leader, deaf-leader, mute-leader, ring,
                            rolling-restart, wiped-member, minority; on-path (somebody between the
                            nodes alters what they say; on loopback without `--netns`)
  mutants [--seed N] [--count N] [--crate NAME]... [--at FILE:LINE]... [--own]
                            would the tests notice a wrong program: a sample of small changes
                            (default 300 over six crates), or all on a line, tried one by one;
                            `--own` asks a crate's own tests only
  cluster [N]               nodes on loopback for trying things out (default 3)
  bench amqp                PerfTest on RabbitMQ and on this: rate, latency, CPU, memory
  bench quorum              the same over clusters, quorum and mirrored queues; 10,000 quorum
                            queues; failover
  bench storage             the WAL beside fio; memory, start, drain, write amplification
  bench idle | start        what idle queues and connections cost; how fast it starts
  bench logins              what publishers and honest logins notice of floods of wrong ones
  bench experiments         `leveret perf` on all presets, for docs/experiments
  bench agreement           PerfTest and `leveret perf` on one broker: do they see the same
        [--fast] [--write] [--only KIND] [--part NAME]
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match dispatch(&arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Runs one command; `false` means that it ran to its end and found something wrong.
fn dispatch(arguments: &[String]) -> Result<bool> {
    let (command, rest) = match arguments.split_first() {
        Some((command, rest)) => (command.as_str(), rest),
        None => ("help", arguments),
    };
    match command {
        "ci" => ci::run(),
        "test" => suite::run(rest),
        "tidy" => tidy::run(),
        "graph" => graph::run(rest),
        "licences" => licences::run(),
        "advisories" => advisories::run(),
        "codegen" => codegen::run(rest.iter().any(|word| word == "--check")).map(|()| true),
        "crash" => crash::run(rest),
        "cluster" => cluster::run(rest),
        "mutants" => mutants::run(rest),
        "bench" => bench::run(rest),
        "help" | "--help" | "-h" => {
            print!("{USAGE}");
            Ok(true)
        }
        other => bail!("there is no command `{other}`\n\n{USAGE}"),
    }
}
