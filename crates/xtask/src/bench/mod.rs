//! `cargo xtask bench`: figures measured here and now, beside a peer where there is one.

mod agreement;
mod amqp;
mod block_writes;
mod cluster;
mod experiments;
mod floods;
mod idle;
mod load;
mod logins;
mod page;
mod perftest;
mod quorum;
mod report;
mod scale;
mod storage;
mod streams;

use std::fs;

use anyhow::Result;
use clap::ValueEnum;
use clap::builder::PossibleValue;

use crate::broker::Kind;
use crate::run;
use report::{Options, docs, page_of, write_into_page};

/// What to measure, and how.
#[derive(clap::Args)]
#[command(
    after_help = "The release build is made first, which takes some minutes from nothing; \
                        XTASK_BINARY=PATH measures that binary instead."
)]
pub struct Arguments {
    #[arg(value_name = "NAME", value_enum)]
    name: Name,
    #[command(flatten)]
    options: Options,
}

/// The benchmarks.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Name {
    /// Classic queues: rates, latencies and CPU, RabbitMQ beside it; about 10 minutes
    Amqp,
    /// Three nodes: quorum and mirrored queues, failover, 10,000 queues; 45 minutes
    Quorum,
    /// Scenario D by `leveret perf`, RabbitMQ beside it; about 25 minutes
    Streams,
    /// The log, segments and recovery; fio beside it
    Storage,
    /// Memory and CPU of idle connections and queues
    Idle,
    /// What publishers and honest logins notice of floods of wrong ones; 6 minutes
    Logins,
    /// Floods of strangers for docs/security.md: silent sockets, guesses at passwords, half-open
    /// links while a member joins, wrong logins (parts silent, guesses, joining, logins); 12
    /// minutes
    Floods,
    /// The operators' page in a browser: first paint, lists of 20,000 queues, frames while 10,000
    /// of them get messages; 2 minutes
    Page,
    /// Time from the start to the first client
    Start,
    /// 100,000 queues, bindings and more: what each costs, and what must stay as it is (parts
    /// held-*); slopes for docs/scale.md (parts slope-*); 60 minutes
    Scale,
    /// The documents' experiments by `leveret perf`, on modelled and real drives
    Experiments,
    /// PerfTest and `leveret perf` on one broker and load
    Agreement,
}

/// Runs one benchmark.
pub fn run(arguments: Arguments) -> Result<bool> {
    let Arguments { name, mut options } = arguments;
    let ours_alone = [
        Name::Experiments,
        Name::Agreement,
        Name::Logins,
        Name::Floods,
        Name::Page,
    ];
    if ours_alone.contains(&name) {
        options.only = Some(Kind::Leveret);
    }
    let value = name.to_possible_value();
    let word = value.as_ref().map_or("", PossibleValue::get_name);
    // The others have a table for each part, and write them themselves.
    let is_one_table = !matches!(name, Name::Experiments | Name::Streams | Name::Floods);
    if options.write && is_one_table {
        page_of(&docs(), word)?;
    }
    for kind in options.kinds() {
        kind.prepare()?;
    }
    raise_file_limit();
    let measured = match name {
        Name::Amqp => amqp::run(&options),
        Name::Quorum => quorum::run(&options),
        Name::Idle => idle::run(&options),
        Name::Logins => logins::run(&options),
        Name::Floods => floods::run(&options),
        Name::Page => page::run(&options),
        Name::Start => idle::start(&options),
        Name::Storage => storage::run(&options),
        Name::Streams => streams::run(&options),
        Name::Scale => scale::run(&options),
        Name::Experiments => experiments::run(&options),
        Name::Agreement => agreement::run(&options),
    }?;
    println!("\n{}", measured.text);
    let json = run::target_folder("bench")?.join(format!("{word}.json"));
    fs::write(&json, serde_json::to_string_pretty(&measured.json)? + "\n")?;
    println!("also in {}", json.display());
    if options.write && is_one_table {
        write_into_page(&docs(), word, &measured.text)?;
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
