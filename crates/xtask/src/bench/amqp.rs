//! PerfTest against Leveret and Debian's RabbitMQ in turn, for four loads of one publisher and one
//! consumer on a durable queue.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::json;

use super::{Measured, Options};
use crate::broker::{Broker, Kind};
use crate::client::Client;
use crate::numbers::{median, table};
use crate::suite::{perftest, perftest_classpath};
use crate::{procfs, run, tools};

const QUEUE: &str = "bench";
/// Java compiles its hot loops in the first seconds.
const WARM_UP_S: u64 = 3;

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

/// One run's figures.
#[derive(Clone, Copy, Debug, Default)]
struct Figures {
    rate: f64,
    p50_ms: f64,
    p95_ms: f64,
    p99_ms: f64,
    cpu_s_per_million: f64,
    rss_mb_max: f64,
}

/// Measures each load on each broker, in alternating rounds, and reports medians.
pub fn run(options: &Options) -> Result<Measured> {
    tools::ensure(tools::Tool::Java)?;
    let classpath = perftest_classpath()?;
    let (rounds, seconds) = if options.fast { (1, 5) } else { (3, 15) };
    let mut rows = Vec::new();
    let mut records = Vec::new();
    for load in LOADS {
        let mut runs: Vec<(Kind, Vec<Figures>)> = options
            .kinds()
            .into_iter()
            .map(|kind| (kind, Vec::new()))
            .collect();
        for round in 1..=rounds {
            for (kind, figures) in &mut runs {
                let measured = measure(*kind, load, seconds, &classpath)
                    .with_context(|| format!("{} on {}", load.name, kind.name()))?;
                println!(
                    "{} | {} | round {round} | {measured:.1?}",
                    load.name,
                    kind.name()
                );
                figures.push(measured);
            }
        }
        let medians: Vec<(Kind, Figures)> = runs
            .iter()
            .map(|(kind, figures)| (*kind, medians(figures)))
            .collect();
        for (kind, figures) in &medians {
            rows.push(row(load.name, kind.name(), figures));
            records.push(record(load.name, kind.name(), figures));
        }
        if let [(_, peer), (_, ours)] = medians.as_slice() {
            rows.push(ratios(load.name, peer, ours));
        }
    }
    let head = [
        "load",
        "broker",
        "msg/s",
        "p50 ms",
        "p95 ms",
        "p99 ms",
        "CPU s/million",
        "peak RSS MB",
    ];
    let text = format!(
        "One publisher, one consumer, a durable queue; PerfTest {seconds} s a run, the median of \
         {rounds} alternating rounds. CPU is the broker's alone, user and system, children \
         included.\n\n{}",
        table(&head, &rows)
    );
    Ok(Measured {
        text,
        json: json!({ "seconds": seconds, "rounds": rounds, "loads": records }),
    })
}

fn measure(kind: Kind, load: &Load, seconds: u64, classpath: &str) -> Result<Figures> {
    let mut broker = Broker::start(kind, "bench", &[])?;
    let mut client = Client::connect(broker.amqp)?;
    client.declare(QUEUE, true)?;
    client.bind(QUEUE, "amq.direct", QUEUE)?;
    drop(client);
    let log = run::target_folder("bench")?.join(format!("perftest-{}.log", kind.name()));
    let mut command = perftest(classpath);
    command
        .arg("-h")
        .arg(format!("{}%2f", broker.url()))
        .args(["-x", "1", "-y", "1", "-p"]);
    command
        .args(["-u", QUEUE, "-e", "amq.direct", "-k", QUEUE])
        .args(load.options);
    command.arg("-z").arg((seconds + WARM_UP_S).to_string());
    let before = procfs::usage(broker.pid())?;
    if !run::logged(&mut command, &log, Duration::from_secs(seconds + 90))? {
        bail!("PerfTest failed: see {}", log.display());
    }
    let after = procfs::usage(broker.pid())?;
    let output = fs::read_to_string(&log)?;
    let mut figures = parse(&output).with_context(|| format!("read {}", log.display()))?;
    let messages = received(&output);
    figures.cpu_s_per_million = (after.cpu_s - before.cpu_s) / messages * 1e6;
    figures.rss_mb_max = after.rss_bytes_max as f64 / 1e6;
    broker.stop()?;
    Ok(figures)
}

/// Rate and latency from the lines a second, after the warm-up: the rate's mean, the percentiles'
/// medians.
fn parse(output: &str) -> Result<Figures> {
    let mut rates = Vec::new();
    let mut latencies: Vec<[f64; 3]> = Vec::new();
    for line in output.lines() {
        let Some(at_s) = between(line, "time ", " s") else {
            continue;
        };
        if at_s <= WARM_UP_S as f64 + 0.5 {
            continue;
        }
        rates.extend(between(line, "received: ", " msg/s"));
        if let Some((_, rest)) = line.split_once("consumer latency: ") {
            let numbers: Vec<f64> = rest
                .split(" µs")
                .next()
                .unwrap_or_default()
                .split('/')
                .filter_map(|number| number.parse().ok())
                .collect();
            if let [_, p50, _, p95, p99] = numbers.as_slice() {
                latencies.push([*p50, *p95, *p99]);
            }
        }
    }
    if rates.is_empty() || latencies.is_empty() {
        bail!("PerfTest reported no rates or latencies");
    }
    let percentile = |at: usize| {
        median(
            &latencies
                .iter()
                .map(|figures| figures[at])
                .collect::<Vec<_>>(),
        ) / 1_000.0
    };
    Ok(Figures {
        rate: rates.iter().sum::<f64>() / rates.len() as f64,
        p50_ms: percentile(0),
        p95_ms: percentile(1),
        p99_ms: percentile(2),
        ..Figures::default()
    })
}

/// All messages that came through, warm-up included, as the CPU time includes it: each line's rate
/// times the time since the line before.
fn received(output: &str) -> f64 {
    let mut last_s = 0.0;
    let mut total = 0.0;
    for line in output.lines() {
        let at_s = between(line, "time ", " s");
        let rate = between(line, "received: ", " msg/s");
        if let (Some(at_s), Some(rate)) = (at_s, rate) {
            total += rate * (at_s - last_s);
            last_s = at_s;
        }
    }
    total
}

fn between(line: &str, before: &str, after: &str) -> Option<f64> {
    let (_, rest) = line.split_once(before)?;
    rest.split(after).next()?.trim().parse().ok()
}

fn medians(runs: &[Figures]) -> Figures {
    let of = |field: fn(&Figures) -> f64| median(&runs.iter().map(field).collect::<Vec<_>>());
    Figures {
        rate: of(|run| run.rate),
        p50_ms: of(|run| run.p50_ms),
        p95_ms: of(|run| run.p95_ms),
        p99_ms: of(|run| run.p99_ms),
        cpu_s_per_million: of(|run| run.cpu_s_per_million),
        rss_mb_max: of(|run| run.rss_mb_max),
    }
}

fn row(load: &str, broker: &str, figures: &Figures) -> Vec<String> {
    vec![
        load.to_owned(),
        broker.to_owned(),
        format!("{:.0}", figures.rate),
        format!("{:.2}", figures.p50_ms),
        format!("{:.2}", figures.p95_ms),
        format!("{:.2}", figures.p99_ms),
        format!("{:.2}", figures.cpu_s_per_million),
        format!("{:.0}", figures.rss_mb_max),
    ]
}

fn ratios(load: &str, peer: &Figures, ours: &Figures) -> Vec<String> {
    let times = |ratio: f64| format!("{ratio:.1}x");
    vec![
        load.to_owned(),
        "better by".to_owned(),
        times(ours.rate / peer.rate),
        times(peer.p50_ms / ours.p50_ms),
        times(peer.p95_ms / ours.p95_ms),
        times(peer.p99_ms / ours.p99_ms),
        times(peer.cpu_s_per_million / ours.cpu_s_per_million),
        times(peer.rss_mb_max / ours.rss_mb_max),
    ]
}

fn record(load: &str, broker: &str, figures: &Figures) -> serde_json::Value {
    json!({
        "load": load,
        "broker": broker,
        "rate_per_s": figures.rate,
        "p50_ms": figures.p50_ms,
        "p95_ms": figures.p95_ms,
        "p99_ms": figures.p99_ms,
        "cpu_s_per_million": figures.cpu_s_per_million,
        "rss_mb_max": figures.rss_mb_max,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn perftest_output_is_read() {
        let line = |at: &str, rate: u32| {
            format!(
                "id: t, time {at} s, sent: 9 msg/s, received: {rate} msg/s, \
                 min/median/75th/95th/99th consumer latency: 1/2000/3/4000/5000 µs, \
                 confirm latency: 9/9/9/9/9 µs\n"
            )
        };
        let output = line("1.000", 100) + &line("4.000", 200) + &line("5.000", 400);
        let figures = parse(&output).unwrap();
        assert_eq!((figures.rate, figures.p50_ms), (300.0, 2.0));
        assert_eq!((figures.p95_ms, figures.p99_ms), (4.0, 5.0));
        assert_eq!(received(&output), 100.0 + 600.0 + 400.0);
        assert!(parse("nothing").is_err());
    }
}
