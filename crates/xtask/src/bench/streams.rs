//! Scenario D: `leveret perf` over the stream protocol, against RabbitMQ and Leveret in turn.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::report::{Measured, Options};
use crate::broker::{Broker, Kind, leveret_binary};
use crate::numbers::{median, table};
use crate::{procfs, run};

/// What is run, and against whom.
struct Load {
    name: &'static str,
    preset: &'static str,
    kinds: &'static [Kind],
}

const BOTH: &[Kind] = &[Kind::RabbitMq, Kind::Leveret];
/// Messages of the backlog: 2 GB, and those of a short run.
const BACKLOG: [&str; 2] = ["2000000", "200000"];
/// The preset that has phases of its own, and its backlog as it stands there.
const CATCH_UP: (&str, &str) = ("stream-catch-up", "5000000");

const LOADS: &[Load] = &[
    Load {
        name: "128 B, interval 100 ms",
        preset: "stream-1-1",
        kinds: BOTH,
    },
    Load {
        name: "128 B, sync",
        preset: "stream-sync",
        // RabbitMQ's streams have no such level.
        kinds: &[Kind::Leveret],
    },
    Load {
        name: "2,048 B, interval 100 ms",
        preset: "stream-1-1-2048",
        kinds: BOTH,
    },
    Load {
        name: "catch-up, 1,024 B",
        preset: CATCH_UP.0,
        kinds: BOTH,
    },
];

/// Reads a figure from a run's record.
type Figure = fn(&Value) -> f64;

/// The figures of one run, as they are shown.
const FIGURES: [(&str, Figure); 6] = [
    ("published/s", |run| load(run, "/totals/publish_rate")),
    ("consumed/s", |run| load(run, "/totals/consume_rate")),
    ("broker CPU s/million", |run| {
        let messages = load(run, "/totals/published").max(load(run, "/totals/consumed"));
        sum(run, "cpu_s") / messages.max(1.0) * 1e6
    }),
    ("confirm p50 ms", |run| {
        load(run, "/confirm/percentiles/p50_us") / 1e3
    }),
    ("confirm p99 ms", |run| {
        load(run, "/confirm/percentiles/p99_us") / 1e3
    }),
    ("most memory MB", |run| sum(run, "rss_bytes_max") / 1e6),
];
/// Places of rate and CPU among [`FIGURES`].
const CONSUMED: usize = 1;
const CPU: usize = 2;

/// Runs each load against each broker, round after round, and reports medians.
pub fn run(options: &Options) -> Result<Measured> {
    let (rounds, seconds) = if options.fast { (1, 5) } else { (3, 20) };
    let folder = run::target_folder("streams")?;
    let (mut rows, mut records) = (Vec::new(), Vec::new());
    let asked = options.kinds();
    for load in LOADS.iter().filter(|load| options.wants(load.name)) {
        let kinds: Vec<Kind> = load
            .kinds
            .iter()
            .copied()
            .filter(|k| asked.contains(k))
            .collect();
        let mut runs: Vec<Vec<Vec<f64>>> = vec![Vec::new(); kinds.len()];
        let mut files = Vec::new();
        for round in 1..=rounds {
            for (at, kind) in kinds.iter().enumerate() {
                let file = folder.join(format!("{}-{}-{round}.json", load.preset, kind.name()));
                let result = measure(*kind, load, seconds, options.fast, &file)?;
                let figures: Vec<f64> = FIGURES.iter().map(|(_, read)| read(&result)).collect();
                println!(
                    "{:<26} {:<9} {:>9.0}/s {:>6.2} CPU s/million",
                    load.name,
                    kind.name(),
                    figures[CONSUMED],
                    figures[CPU]
                );
                records.push(json!({
                    "load": load.name, "broker": kind.name(), "round": round, "figures": figures,
                }));
                runs[at].push(figures);
                files.push(file);
            }
        }
        rows.extend(medians(load, &kinds, &runs));
        pictures(&folder.join(load.preset), &files)?;
    }
    let mut head = vec!["", "broker"];
    head.extend(FIGURES.iter().map(|(title, _)| *title));
    head.extend(["rate", "CPU"]);
    let text = format!(
        "`leveret perf`'s stream presets, {seconds} s a run, the median of {rounds} alternating \
         rounds; generator and broker on the same cores. The last two columns are ratios to the \
         row above.\n\n{}",
        table(&head, &rows)
    );
    let json = json!({ "seconds": seconds, "rounds": rounds, "runs": records });
    Ok(Measured { text, json })
}

fn medians(load: &Load, kinds: &[Kind], runs: &[Vec<Vec<f64>>]) -> Vec<Vec<String>> {
    let mut before: Option<Vec<f64>> = None;
    let mut rows = Vec::new();
    for (kind, runs) in kinds.iter().zip(runs) {
        let of = |at: usize| median(&runs.iter().map(|run| run[at]).collect::<Vec<_>>());
        let figures: Vec<f64> = (0..FIGURES.len()).map(of).collect();
        let mut row = vec![load.name.to_owned(), kind.name().to_owned()];
        row.extend(figures.iter().map(|figure| match *figure {
            figure if figure >= 100.0 => format!("{figure:.0}"),
            figure => format!("{figure:.2}"),
        }));
        for at in [CONSUMED, CPU] {
            let ratio = before.as_ref().map(|before| figures[at] / before[at]);
            row.push(ratio.map_or_else(String::new, |ratio| format!("{ratio:.2}")));
        }
        before = Some(figures);
        rows.push(row);
    }
    rows
}

/// One run against a broker with nothing in it.
fn measure(kind: Kind, load: &Load, seconds: u64, fast: bool, file: &Path) -> Result<Value> {
    let mut broker = Broker::start(kind, "streams", &[])?;
    let mut pids = vec![broker.pid()];
    pids.extend(procfs::descendants(broker.pid()));
    let pids: Vec<String> = pids.iter().map(u32::to_string).collect();
    let mut command = Command::new(leveret_binary());
    command.args(["perf", "run"]);
    if load.preset == CATCH_UP.0 {
        command.arg(shorter_backlog(file, fast)?);
    } else {
        let seconds = seconds.to_string();
        command.args([load.preset, "-z", &seconds, "--warm-up", "3"]);
    }
    let uri = format!("rabbitmq-stream://guest:guest@{}", broker.stream);
    command.args(["--uri", &uri, "--pid", &pids.join(",")]);
    command.arg("--json").arg(file);
    let said = run::output(&mut command);
    said.with_context(|| format!("{} against {}", load.name, kind.name()))?;
    broker.stop()?;
    Ok(serde_json::from_str(&fs::read_to_string(file)?)?)
}

/// The preset of a backlog with one of a size that a bench has time for.
fn shorter_backlog(beside: &Path, fast: bool) -> Result<PathBuf> {
    let shown = run::output(Command::new(leveret_binary()).args(["perf", "show", CATCH_UP.0]))?;
    let file = beside.with_extension("toml");
    fs::write(&file, shown.replace(CATCH_UP.1, BACKLOG[usize::from(fast)]))?;
    Ok(file)
}

/// Draws what the runs of a load are compared by.
fn pictures(folder: &Path, files: &[PathBuf]) -> Result<()> {
    let mut command = Command::new(leveret_binary());
    command.args(["perf", "report"]).args(files);
    run::output(command.arg("--figures").arg(folder))?;
    Ok(())
}

fn load(run: &Value, path: &str) -> f64 {
    let value = run.pointer(&format!("/loads/0{path}"));
    value.and_then(Value::as_f64).unwrap_or_default()
}

fn sum(run: &Value, key: &str) -> f64 {
    let nodes = run["nodes"].as_array().into_iter().flatten();
    nodes.filter_map(|node| node[key].as_f64()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_to_the_row_above() {
        let rabbit = vec![vec![1.0, 200.0, 4.0, 0.0, 0.0, 0.0]; 3];
        let ours = vec![vec![1.0, 500.0, 1.0, 0.0, 0.0, 0.0]; 3];
        let rows = medians(&LOADS[0], BOTH, &[rabbit, ours]);
        assert_eq!(rows[0][FIGURES.len() + 2..], ["", ""]);
        assert_eq!(rows[1][FIGURES.len() + 2..], ["2.50", "0.25"]);
    }
}
