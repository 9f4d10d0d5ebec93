//! PerfTest against Leveret and Debian's RabbitMQ in turn, for four loads of one publisher and one
//! consumer on a durable queue.

use anyhow::Result;
use serde_json::json;

use super::perftest::{self, Compared, Figures, Length};
use super::report::{Measured, Options};
use crate::broker::{Broker, Kind};
use crate::client::Client;
use crate::suite::{perftest, perftest_classpath};
use crate::tools;

const QUEUE: &str = "bench";

struct Load {
    name: &'static str,
    options: &'static [&'static str],
}

const LOADS: &[Load] = &[
    Load {
        name: "1 kB persistent, confirms (window 1,000), manual ack",
        options: &["-s", "1000", "-f", "persistent", "-c", "1000", "-q", "1000"],
    },
    Load {
        name: "16 B persistent, confirms (window 1,000), manual ack",
        options: &["-s", "16", "-f", "persistent", "-c", "1000", "-q", "1000"],
    },
    Load {
        name: "16 B transient, ack every 100",
        options: &["-s", "16", "-q", "1000", "-A", "100"],
    },
    Load {
        name: "16 B transient, automatic ack",
        options: &["-s", "16", "-a"],
    },
];

/// Measures each load on each broker, in alternating rounds, and reports medians.
pub fn run(options: &Options) -> Result<Measured> {
    tools::ensure(tools::Tool::Java)?;
    let classpath = perftest_classpath()?;
    let length = Length::of(options);
    let mut compared = Compared::default();
    for load in LOADS.iter().filter(|load| options.wants(load.name)) {
        compared.measure(load.name, options, length.rounds, |kind| {
            measure(kind, load, length.seconds, &classpath)
        })?;
    }
    let Length { rounds, seconds } = length;
    let text = format!(
        "One publisher, one consumer, a durable queue; PerfTest {seconds} s a run, the median of \
         {rounds} alternating rounds. CPU is the broker's alone, user and system, children \
         included.\n\n{}",
        compared.table()
    );
    Ok(Measured {
        text,
        json: json!({ "seconds": seconds, "rounds": rounds, "loads": compared.records }),
    })
}

fn measure(kind: Kind, load: &Load, seconds: u64, classpath: &str) -> Result<Figures> {
    let mut broker = Broker::start(kind, "bench", &[])?;
    let mut client = Client::connect(broker.amqp)?;
    client.declare(QUEUE, true)?;
    client.bind(QUEUE, "amq.direct", QUEUE)?;
    drop(client);
    let mut command = perftest(classpath);
    command
        .arg("-h")
        .arg(format!("{}%2f", broker.url()))
        .args(["-x", "1", "-y", "1", "-p"]);
    command
        .args(["-u", QUEUE, "-e", "amq.direct", "-k", QUEUE])
        .args(load.options);
    let figures = perftest::measure("amqp", command, seconds, std::slice::from_ref(&broker))?;
    broker.stop()?;
    Ok(figures)
}
