//! PerfTest as the client of a measurement: loads on each broker in alternating rounds, what it
//! prints read into figures, and the table of their medians.

use std::fs;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::report::Options;
use crate::broker::{Broker, Kind};
use crate::numbers::{median, table};
use crate::{procfs, run};

/// Java compiles its hot loops in the first seconds.
const WARM_UP_S: u64 = 3;
/// How long PerfTest may take to end after its time.
const ENDING: Duration = Duration::from_secs(90);

/// What the table of one measurement is headed with.
const HEAD: [&str; 9] = [
    "load",
    "broker",
    "msg/s",
    "p50 ms",
    "p75 ms",
    "p95 ms",
    "p99 ms",
    "CPU s/million",
    "peak RSS MB",
];

/// One run's figures.
#[derive(Clone, Copy, Debug, Default)]
pub struct Figures {
    /// Messages received a second.
    pub rate: f64,
    /// Percentiles of the end-to-end latency.
    pub p50_ms: f64,
    p75_ms: f64,
    p95_ms: f64,
    /// See `p50_ms`.
    pub p99_ms: f64,
    cpu_s_per_million: f64,
    rss_mb_max: f64,
    /// Syncs of the log for each message, over all nodes; none where the broker does not tell.
    pub syncs_per_message: Option<f64>,
}

/// How often and how long each load runs.
#[derive(Clone, Copy, Debug)]
pub struct Length {
    /// Rounds; the median counts.
    pub rounds: u32,
    /// Seconds of a run, without what is left out at its beginning.
    pub seconds: u64,
}

impl Figures {
    /// Of a run of which only the rate and two percentiles in milliseconds are known.
    pub fn of_latency(rate: f64, p50_ms: f64, p99_ms: f64) -> Figures {
        Figures {
            rate,
            p50_ms,
            p99_ms,
            ..Figures::default()
        }
    }
}

impl Length {
    /// Three rounds of 15 s, or one of 5 s to see that it works.
    pub fn of(options: &Options) -> Length {
        let (rounds, seconds) = if options.fast { (1, 5) } else { (3, 15) };
        Length { rounds, seconds }
    }
}

/// Medians of loads on brokers, as rows of a table and for programs.
#[derive(Default)]
pub struct Compared {
    rows: Vec<Vec<String>>,
    /// One object for each load and broker.
    pub records: Vec<Value>,
}

impl Compared {
    /// Runs one load on each broker in alternating rounds.
    pub fn measure(
        &mut self,
        name: &str,
        options: &Options,
        rounds: u32,
        mut measure: impl FnMut(Kind) -> Result<Figures>,
    ) -> Result<()> {
        let mut runs: Vec<(Kind, Vec<Figures>)> = options
            .kinds()
            .into_iter()
            .map(|kind| (kind, Vec::new()))
            .collect();
        for round in 1..=rounds {
            for (kind, figures) in &mut runs {
                let measured =
                    measure(*kind).with_context(|| format!("{name} on {}", kind.name()))?;
                println!("{name} | {} | round {round} | {measured:.2?}", kind.name());
                figures.push(measured);
            }
        }
        let medians: Vec<(Kind, Figures)> = runs
            .iter()
            .map(|(kind, figures)| (*kind, medians(figures)))
            .collect();
        for (kind, figures) in &medians {
            self.rows.push(row(name, kind.name(), figures));
            self.records.push(record(name, kind.name(), figures));
        }
        if let [(_, peer), (_, ours)] = medians.as_slice() {
            self.rows.push(ratios(name, peer, ours));
        }
        Ok(())
    }

    /// The table in Markdown; empty if nothing was measured.
    pub fn table(&self) -> String {
        if self.rows.is_empty() {
            return String::new();
        }
        table(&HEAD, &self.rows)
    }
}

/// Runs PerfTest with a load's options on brokers that are ready for it; their use is summed.
pub fn measure(
    name: &str,
    mut command: Command,
    seconds: u64,
    brokers: &[Broker],
) -> Result<Figures> {
    let kind = brokers.first().context("no broker to measure")?.kind;
    let log = run::target_folder("bench")?.join(format!("perftest-{name}-{}.log", kind.name()));
    command.arg("-z").arg((seconds + WARM_UP_S).to_string());
    let before = used(brokers)?;
    let deadline = Duration::from_secs(seconds) + ENDING;
    if !run::logged(&mut command, &log, deadline)? {
        bail!("PerfTest failed: see {}", log.display());
    }
    let after = used(brokers)?;
    let output = fs::read_to_string(&log)?;
    let mut figures = parse(&output).with_context(|| format!("read {}", log.display()))?;
    let messages = received(&output);
    figures.cpu_s_per_million = (after.cpu_s - before.cpu_s) / messages * 1e6;
    figures.rss_mb_max = after.rss_bytes_max as f64 / 1e6;
    if let (Some(before), Some(after)) = (before.syncs, after.syncs) {
        figures.syncs_per_message = Some((after - before) / messages);
    }
    Ok(figures)
}

/// What some brokers have used together.
struct Used {
    cpu_s: f64,
    rss_bytes_max: u64,
    syncs: Option<f64>,
}

fn used(brokers: &[Broker]) -> Result<Used> {
    let mut used = Used {
        cpu_s: 0.0,
        rss_bytes_max: 0,
        syncs: Some(0.0),
    };
    for broker in brokers {
        let process = procfs::usage(broker.pid())?;
        used.cpu_s += process.cpu_s;
        used.rss_bytes_max += process.rss_bytes_max;
        used.syncs = match (used.syncs, broker.kind) {
            (Some(syncs), Kind::Leveret) => Some(syncs + super::report::metric(broker, SYNCS)?),
            _ => None,
        };
    }
    Ok(used)
}

/// Leveret's count of `fdatasync`, in its metrics.
const SYNCS: &str = "rabbitmq_io_sync_ops_total";

/// Rate and latency from the lines a second, after the warm-up: the rate's mean, the percentiles'
/// medians.
fn parse(output: &str) -> Result<Figures> {
    let mut rates = Vec::new();
    let mut latencies: Vec<[f64; 4]> = Vec::new();
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
            if let [_, p50, p75, p95, p99] = numbers.as_slice() {
                latencies.push([*p50, *p75, *p95, *p99]);
            }
        }
    }
    if rates.is_empty() || latencies.is_empty() {
        bail!("PerfTest reported no rates or latencies");
    }
    let percentile = |at: usize| {
        let figures: Vec<f64> = latencies.iter().map(|figures| figures[at]).collect();
        median(&figures) / 1_000.0
    };
    Ok(Figures {
        rate: rates.iter().sum::<f64>() / rates.len() as f64,
        p50_ms: percentile(0),
        p75_ms: percentile(1),
        p95_ms: percentile(2),
        p99_ms: percentile(3),
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
    let syncs: Vec<f64> = runs
        .iter()
        .filter_map(|run| run.syncs_per_message)
        .collect();
    Figures {
        rate: of(|run| run.rate),
        p50_ms: of(|run| run.p50_ms),
        p75_ms: of(|run| run.p75_ms),
        p95_ms: of(|run| run.p95_ms),
        p99_ms: of(|run| run.p99_ms),
        cpu_s_per_million: of(|run| run.cpu_s_per_million),
        rss_mb_max: of(|run| run.rss_mb_max),
        syncs_per_message: (!syncs.is_empty()).then(|| median(&syncs)),
    }
}

fn row(load: &str, broker: &str, figures: &Figures) -> Vec<String> {
    vec![
        load.to_owned(),
        broker.to_owned(),
        format!("{:.0}", figures.rate),
        format!("{:.2}", figures.p50_ms),
        format!("{:.2}", figures.p75_ms),
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
        times(peer.p75_ms / ours.p75_ms),
        times(peer.p95_ms / ours.p95_ms),
        times(peer.p99_ms / ours.p99_ms),
        times(peer.cpu_s_per_million / ours.cpu_s_per_million),
        times(peer.rss_mb_max / ours.rss_mb_max),
    ]
}

fn record(load: &str, broker: &str, figures: &Figures) -> Value {
    json!({
        "load": load,
        "broker": broker,
        "rate_per_s": figures.rate,
        "p50_ms": figures.p50_ms,
        "p75_ms": figures.p75_ms,
        "p95_ms": figures.p95_ms,
        "p99_ms": figures.p99_ms,
        "cpu_s_per_million": figures.cpu_s_per_million,
        "rss_mb_max": figures.rss_mb_max,
        "syncs_per_message": figures.syncs_per_message,
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
                 min/median/75th/95th/99th consumer latency: 1/2000/3000/4000/5000 µs, \
                 confirm latency: 9/9/9/9/9 µs\n"
            )
        };
        let output = line("1.000", 100) + &line("4.000", 200) + &line("5.000", 400);
        let figures = parse(&output).unwrap();
        assert_eq!((figures.rate, figures.p50_ms), (300.0, 2.0));
        assert_eq!(
            (figures.p75_ms, figures.p95_ms, figures.p99_ms),
            (3.0, 4.0, 5.0)
        );
        assert_eq!(received(&output), 100.0 + 600.0 + 400.0);
        assert!(parse("nothing").is_err());
    }
}
