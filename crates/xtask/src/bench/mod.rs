//! `cargo xtask bench`: figures measured here and now, beside a peer where there is one.

mod agreement;
mod amqp;
mod block_writes;
mod cluster;
mod experiments;
mod idle;
mod load;
mod logins;
mod perftest;
mod quorum;
mod report;
mod scale;
mod storage;
mod streams;

use std::fs;

use anyhow::{Context, Result, bail};

use crate::broker::Kind;
use crate::run;
use report::{Options, write_section};

const HELP: &str = "\
cargo xtask bench NAME [--fast] [--only KIND] [--part PART] [--write]

  amqp         classic queues: rates, latencies and CPU, RabbitMQ beside it; about 10 minutes
  quorum       three nodes: quorum and mirrored queues, failover, 10,000 queues; 45 minutes
  streams      scenario D by `leveret perf`, RabbitMQ beside it; about 25 minutes
  storage      the log, segments and recovery; fio beside it
  idle         memory and CPU of idle connections and queues
  logins       what publishers and honest logins notice of floods of wrong ones; 6 minutes
  start        time from the start to the first client
  scale        100,000 queues, bindings and more: what each costs, and what must stay as it is
               (parts held-*); slopes for docs/scale.md (parts slope-*); 60 minutes
  experiments  the documents' experiments by `leveret perf`, on modelled and real drives
  agreement    PerfTest and `leveret perf` on one broker and load

  --fast       short runs and small sizes: to see that it works, not to quote
  --only KIND  leveret or rabbitmq alone
  --part PART  only parts, or loads, whose names contain this
  --write      also put the tables into docs/

The release build is made first, which takes some minutes from nothing; XTASK_BINARY=PATH measures
that binary instead.
";

/// Runs one benchmark.
pub fn run(arguments: &[String]) -> Result<bool> {
    if arguments.is_empty() || arguments.iter().any(|word| word == "--help") {
        print!("{HELP}");
        return Ok(!arguments.is_empty());
    }
    let (name, rest) = arguments.split_first().context("looked at above")?;
    let mut options = Options {
        fast: false,
        write: false,
        only: None,
        part: String::new(),
    };
    let mut words = rest.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--fast" => options.fast = true,
            "--write" => options.write = true,
            "--only" => options.only = Some(Kind::parse(words.next().map_or("", String::as_str))?),
            "--part" => options.part = words.next().cloned().unwrap_or_default(),
            other => {
                bail!("bench has no option `{other}`: see bench --help")
            }
        }
    }
    if matches!(name.as_str(), "experiments" | "agreement" | "logins") {
        options.only = Some(Kind::Leveret);
    }
    for kind in options.kinds() {
        kind.prepare()?;
    }
    raise_file_limit();
    let measured = match name.as_str() {
        "amqp" => amqp::run(&options)?,
        "quorum" => quorum::run(&options)?,
        "idle" => idle::run(&options)?,
        "logins" => logins::run(&options)?,
        "start" => idle::start(&options)?,
        "storage" => storage::run(&options)?,
        "streams" => streams::run(&options)?,
        "scale" => scale::run(&options)?,
        "experiments" => experiments::run(&options)?,
        "agreement" => agreement::run(&options)?,
        other => bail!("there is no benchmark `{other}`: see bench --help"),
    };
    println!("\n{}", measured.text);
    let json = run::target_folder("bench")?.join(format!("{name}.json"));
    fs::write(&json, serde_json::to_string_pretty(&measured.json)? + "\n")?;
    println!("also in {}", json.display());
    if options.write && !matches!(name.as_str(), "experiments" | "streams") {
        write_section(name, &measured.text)?;
    }
    Ok(true)
}

/// Ten thousand connections need as many descriptors, here and in the broker, which inherits the
/// limit.
/// Where it cannot be raised, the benchmark that needs it says what it could not open.
fn raise_file_limit() {
    let me = std::process::id().to_string();
    let mut command = std::process::Command::new("prlimit");
    let _ = run::output(command.args(["--pid", &me, "--nofile=65536:65536"]));
}
