//! PerfTest and `leveret perf` with the same flags on the same broker, below what either can drive:
//! whether they see the same rates and latencies.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::perftest::{self, Figures, Length};
use super::report::{Measured, Options};
use crate::broker::{Broker, Kind, leveret_binary};
use crate::client::Client;
use crate::numbers::{median, table};
use crate::suite::{perftest, perftest_classpath};
use crate::{run, tools};

const QUEUE: &str = "bench";
/// Messages a second.
const RATES: [&str; 3] = ["1000", "5000", "20000"];
/// What both are given beside the rate.
const FLAGS: [&str; 12] = [
    "-x",
    "1",
    "-y",
    "1",
    "-s",
    "1000",
    "-f",
    "persistent",
    "-c",
    "1000",
    "-q",
    "1000",
];

/// Measures each rate with each generator, in alternating rounds, and reports medians.
pub fn run(options: &Options) -> Result<Measured> {
    tools::ensure(tools::Tool::Java)?;
    let classpath = perftest_classpath()?;
    let length = Length::of(options);
    let (mut rows, mut records) = (Vec::new(), Vec::new());
    for rate in RATES {
        let (mut theirs, mut ours) = (Vec::new(), Vec::new());
        for round in 1..=length.rounds {
            theirs.push(perftest_sees(rate, length.seconds, &classpath)?);
            ours.push(leveret_sees(rate, length.seconds)?);
            println!(
                "{rate}/s | round {round} | {:.2?}",
                (theirs.last(), ours.last())
            );
        }
        for (name, of) in FIGURES {
            let one = |seen: &[Figures]| median(&seen.iter().map(of).collect::<Vec<f64>>());
            let (perftest, leveret) = (one(&theirs), one(&ours));
            rows.push(vec![
                format!("{rate}/s, {name}"),
                format!("{perftest:.2}"),
                format!("{leveret:.2}"),
                format!("{:.2}", leveret / perftest),
            ]);
            records.push(json!({
                "rate": rate, "figure": name, "perftest": perftest, "leveret": leveret,
            }));
        }
    }
    let Length { rounds, seconds } = length;
    let head = ["asked for", "PerfTest", "leveret perf", "ratio"];
    Ok(Measured {
        text: format!(
            "One node of Leveret; both with `{}`, {seconds} s a run, the median of {rounds} \
             alternating rounds.\n\n{}",
            FLAGS.join(" "),
            table(&head, &rows)
        ),
        json: json!({ "seconds": seconds, "rounds": rounds, "figures": records }),
    })
}

type Read = fn(&Figures) -> f64;
const FIGURES: [(&str, Read); 3] = [
    ("consumed/s", |seen| seen.rate),
    ("end-to-end p50 in ms", |seen| seen.p50_ms),
    ("end-to-end p99 in ms", |seen| seen.p99_ms),
];

fn broker() -> Result<Broker> {
    let broker = Broker::start(Kind::Leveret, "bench", &[])?;
    let mut client = Client::connect(broker.amqp)?;
    client.declare(QUEUE, true)?;
    client.bind(QUEUE, "amq.direct", QUEUE)?;
    Ok(broker)
}

fn perftest_sees(rate: &str, seconds: u64, classpath: &str) -> Result<Figures> {
    let mut broker = broker()?;
    let mut command = perftest(classpath);
    command.arg("-h").arg(format!("{}%2f", broker.url()));
    command.args(FLAGS).args(["-r", rate, "-p"]);
    command.args(["-u", QUEUE, "-e", "amq.direct", "-k", QUEUE]);
    let seen = perftest::measure("agreement", command, seconds, std::slice::from_ref(&broker))?;
    broker.stop()?;
    Ok(seen)
}

fn leveret_sees(rate: &str, seconds: u64) -> Result<Figures> {
    let mut broker = broker()?;
    let file = run::target_folder("bench")?.join("agreement.json");
    let mut command = Command::new(leveret_binary());
    command.args(["perf", "run", "-h", &broker.url()]);
    command.args(FLAGS).args(["-r", rate, "-p"]);
    command.args(["-u", QUEUE, "-e", "amq.direct", "-k", QUEUE]);
    command.args(["-z", &seconds.to_string(), "--warm-up", "3", "--json"]);
    run::output(command.arg(&file))?;
    broker.stop()?;
    let seen: Value = serde_json::from_str(&fs::read_to_string(&file)?)?;
    let number = |pointer: &str| {
        let value = seen.pointer(pointer).and_then(Value::as_f64);
        value.with_context(|| format!("{} has no {pointer}", file.display()))
    };
    let ms = |percentile: &str| {
        let pointer = format!("/loads/0/end_to_end/percentiles/{percentile}");
        Ok::<f64, anyhow::Error>(number(&pointer)? / 1e3)
    };
    let rate = number("/loads/0/totals/consume_rate")?;
    Ok(Figures::of_latency(rate, ms("p50_us")?, ms("p99_us")?))
}
