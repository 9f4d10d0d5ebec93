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
mod scale;
mod storage;
mod streams;

use std::fs;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::broker::{Broker, Kind};
use crate::{http, run};

const HELP: &str = "\
cargo xtask bench NAME [--fast] [--only KIND] [--part PART] [--write]

  amqp         classic queues: rates, latencies and CPU, RabbitMQ beside it; about 10 minutes
  quorum       three nodes: quorum and mirrored queues, failover, 10,000 queues; 45 minutes
  streams      streams by `leveret perf`, RabbitMQ beside it; about 10 minutes
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

/// What the command line asks for.
pub struct Options {
    /// Shorter runs and smaller sizes: to see that it works, not to quote.
    pub fast: bool,
    /// Also put the report into docs/performance.md.
    write: bool,
    /// One broker alone.
    only: Option<Kind>,
    /// Only the parts of a benchmark whose names contain this.
    part: String,
}

impl Options {
    /// Whether a part of that name is asked for.
    pub fn wants(&self, part: &str) -> bool {
        part.contains(&self.part)
    }

    /// The brokers to measure.
    pub fn kinds(&self) -> Vec<Kind> {
        match self.only {
            Some(kind) => vec![kind],
            None => vec![Kind::RabbitMq, Kind::Leveret],
        }
    }
}

/// A finished measurement.
pub struct Measured {
    /// The figures for people, in Markdown.
    pub text: String,
    /// The same for programs.
    pub json: Value,
}

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
    if options.write && name != "experiments" {
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

/// One of Leveret's metrics, by its name; without labels.
fn metric(broker: &Broker, name: &str) -> Result<f64> {
    let page = http::get_text(broker.metrics, "/metrics")?;
    let value = page.lines().find_map(|line| {
        let (found, value) = line.split_once(' ')?;
        (found == name).then_some(value)
    });
    let value = value.with_context(|| format!("{name} is not among the metrics"))?;
    Ok(value.parse()?)
}

/// Puts a report between its two marks in docs/performance.md, in place of the one before.
fn write_section(name: &str, text: &str) -> Result<()> {
    let path = run::root().join("docs/performance.md");
    let document = fs::read_to_string(&path).unwrap_or_else(|_| "# Performance\n".to_owned());
    fs::write(&path, with_section(&document, name, text))?;
    Ok(())
}

fn with_section(document: &str, name: &str, text: &str) -> String {
    let (open, close) = (
        format!("<!-- bench {name} -->\n"),
        format!("<!-- end {name} -->\n"),
    );
    let section = format!("{open}{text}\n{close}");
    match (document.split_once(&open), document.split_once(&close)) {
        (Some((before, _)), Some((_, after))) => format!("{before}{section}{after}"),
        _ => format!("{}\n\n{section}", document.trim_end()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_replaces_the_one_before() {
        let first = with_section("# P\n", "amqp", "one\n");
        let second = with_section(&first, "idle", "two\n");
        let third = with_section(&second, "amqp", "three\n");
        assert!(third.contains("three") && third.contains("two") && !third.contains("one"));
        assert_eq!(third.matches("bench amqp").count(), 1);
    }
}
