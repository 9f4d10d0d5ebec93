//! Scenario D: `leveret perf` over the stream protocol, against RabbitMQ and Leveret in turn.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::report::{Measured, Options, page_of, write_into_page};
use crate::broker::{Broker, Kind, leveret_binary};
use crate::numbers::{median, table};
use crate::{procfs, run};

/// What is run, against whom, and what the document has of it.
struct Load {
    name: &'static str,
    preset: &'static str,
    kinds: &'static [Kind],
    document: &'static str,
}

const BOTH: &[Kind] = &[Kind::RabbitMq, Kind::Leveret];
/// For what RabbitMQ's streams have no such level of.
const OURS: &[Kind] = &[Kind::Leveret];
/// Messages of the backlog: 2 GB, and those of a short run.
const BACKLOG: [&str; 2] = ["2000000", "1000000"];
/// The preset that has phases of its own, and its backlog as it stands there.
const CATCH_UP: (&str, &str) = ("stream-catch-up", "5000000");
/// The presets that speak AMQP 0-9-1.
const OVER_AMQP: [&str; 3] = ["store-write", "view-1-1", "view-2"];

const fn load(
    name: &'static str,
    preset: &'static str,
    kinds: &'static [Kind],
    document: &'static str,
) -> Load {
    Load {
        name,
        preset,
        kinds,
        document,
    }
}

const LOADS: &[Load] = &[
    load("1-1, 128 B", "stream-1-1", BOTH, "56,400/s"),
    load("1-1, 512 B", "stream-1-1-512", BOTH, "41,000/s"),
    load("1-1, 1,024 B", "stream-1-1-1024", BOTH, "29,000/s"),
    load("1-1, 2,048 B", "stream-1-1-2048", BOTH, "20,000/s"),
    load("2-2, 128 B", "stream-2-2", BOTH, "50,000/s"),
    load("2-2, 512 B", "stream-2-2-512", BOTH, "40,000/s"),
    load("2-2, 1,024 B", "stream-2-2-1024", BOTH, "31,200/s"),
    load("2-2, 2,048 B", "stream-2-2-2048", BOTH, "23,000/s"),
    load("1-1, 128 B, sync", "stream-sync", OURS, ""),
    load("catch-up, 1,024 B", CATCH_UP.0, BOTH, "> 100,000/s"),
    load("stream, 64 KiB", "stream-write", BOTH, "300 MB/s"),
    load("queues, 64 KiB", OVER_AMQP[0], BOTH, "300 MB/s"),
    load("a view, 128 B", OVER_AMQP[1], OURS, ""),
    load("two views, 128 B", OVER_AMQP[2], OURS, ""),
];

/// Reads a figure from a run's record.
type Figure = fn(&Value) -> f64;

/// The figures of one run, as they are shown.
const FIGURES: [(&str, Figure); 7] = [
    ("published/s", |run| of_load(run, "/totals/publish_rate")),
    ("consumed/s", |run| of_load(run, "/totals/consume_rate")),
    ("published MB/s", |run| {
        of_load(run, "/totals/publish_bytes_per_s") / 1e6
    }),
    ("broker CPU s/million", |run| {
        let messages = of_load(run, "/totals/published").max(of_load(run, "/totals/consumed"));
        sum(run, "cpu_s") / messages.max(1.0) * 1e6
    }),
    ("confirm p50 ms", |run| {
        of_load(run, "/confirm/percentiles/p50_us") / 1e3
    }),
    ("confirm p99 ms", |run| {
        of_load(run, "/confirm/percentiles/p99_us") / 1e3
    }),
    ("most memory MB", |run| sum(run, "rss_bytes_max") / 1e6),
];
/// The pictures that the page shows: of which preset, and which.
const SHOWN: &[(&str, &str)] = &[
    ("stream-1-1", "compare-consumed.svg"),
    ("stream-1-1", "compare-cpu.svg"),
    ("stream-1-1-2048", "compare-consumed.svg"),
    ("stream-1-1-2048", "compare-cpu.svg"),
];
/// Places of rates and CPU among [`FIGURES`].
const PUBLISHED: usize = 0;
const CONSUMED: usize = 1;
const CPU: usize = 3;

/// Runs each load against each broker, round after round, and reports medians.
pub fn run(options: &Options) -> Result<Measured> {
    let (rounds, seconds) = if options.fast { (1, 3) } else { (3, 6) };
    let folder = run::target_folder("streams")?;
    let pages = run::root().join("docs/experiments");
    if options.write {
        page_of(&pages, "streams")?;
    }
    let before = load_average();
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
        let mut first_round = Vec::new();
        for round in 1..=rounds {
            for (at, kind) in kinds.iter().enumerate() {
                let file = folder.join(format!("{}-{}-{round}.json", load.preset, kind.name()));
                let result = measure(*kind, load, seconds, options.fast, &file)?;
                let figures: Vec<f64> = FIGURES.iter().map(|(_, read)| read(&result)).collect();
                println!(
                    "{:<18} {:<9} {:>9.0}/s {:>6.2} CPU s/million",
                    load.name,
                    kind.name(),
                    rate(&figures),
                    figures[CPU]
                );
                records.push(json!({
                    "load": load.name, "broker": kind.name(), "round": round, "figures": figures,
                }));
                runs[at].push(figures);
                if round == 1 {
                    first_round.push(file);
                }
            }
        }
        rows.extend(medians(load, &kinds, &runs));
        pictures(&folder.join(load.preset), &first_round)?;
    }
    let mut head = vec!["", "broker"];
    head.extend(FIGURES.iter().map(|(title, _)| *title));
    head.extend(["rate", "CPU", "document"]);
    let text = format!(
        "`leveret perf`'s presets of scenario D, {seconds} s a run, the median of {rounds} \
         alternating rounds; generator and broker on the same cores; load average {} before and {} \
         after. *rate* and *CPU* are ratios to the row above: of what was consumed, or published \
         where nobody consumes.\n\n{}",
        before,
        load_average(),
        table(&head, &rows)
    );
    if options.write {
        write_into_page(&pages, "streams", &text)?;
        publish(&folder, &pages.join("figures"))?;
    }
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
            // Nobody consumed, or published in what was measured.
            0.0 => String::new(),
            figure => format!("{figure:.2}"),
        }));
        let ratios = before
            .as_ref()
            .map(|before: &Vec<f64>| [rate(&figures) / rate(before), figures[CPU] / before[CPU]]);
        for at in 0..2 {
            let ratio = ratios.map(|ratios| format!("{:.2}", ratios[at]));
            row.push(ratio.unwrap_or_default());
        }
        row.push(load.document.to_owned());
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
        command.args([load.preset, "-z", &seconds, "--warm-up", "2"]);
    }
    let uri = match OVER_AMQP.contains(&load.preset) {
        true => broker.url(),
        false => format!("rabbitmq-stream://guest:guest@{}", broker.stream),
    };
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

/// What was consumed a second, or published where nobody consumes.
fn rate(figures: &[f64]) -> f64 {
    match figures[CONSUMED] {
        0.0 => figures[PUBLISHED],
        consumed => consumed,
    }
}

/// How many threads wanted a processor in the last minute.
fn load_average() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().unwrap_or_default().to_owned()
}

/// Copies the pictures that the page shows.
fn publish(drawn: &Path, pages: &Path) -> Result<()> {
    for (preset, picture) in SHOWN {
        let short = picture.trim_start_matches("compare-");
        let to = pages.join(format!("streams-{preset}-{short}"));
        fs::copy(drawn.join(preset).join(picture), &to).with_context(|| {
            format!("{picture} of {preset} was not drawn: run both brokers, and no --part")
        })?;
    }
    Ok(())
}

/// Draws what the runs are compared by.
fn pictures(folder: &Path, files: &[PathBuf]) -> Result<()> {
    let mut command = Command::new(leveret_binary());
    command.args(["perf", "report"]).args(files);
    run::output(command.arg("--figures").arg(folder))?;
    Ok(())
}

fn of_load(run: &Value, path: &str) -> f64 {
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
        let rabbit = vec![vec![1.0, 200.0, 0.0, 4.0, 0.0, 0.0, 0.0]; 3];
        let ours = vec![vec![1.0, 500.0, 0.0, 1.0, 0.0, 0.0, 0.0]; 3];
        let rows = medians(&LOADS[0], BOTH, &[rabbit, ours]);
        assert_eq!(rows[0][FIGURES.len() + 2..], ["", "", "56,400/s"]);
        assert_eq!(rows[1][FIGURES.len() + 2..], ["2.50", "0.25", "56,400/s"]);
    }

    #[test]
    fn where_nobody_consumes_what_was_published_counts() {
        assert_eq!(rate(&[30.0, 0.0, 1.0]), 30.0);
        assert_eq!(rate(&[30.0, 20.0, 1.0]), 20.0);
    }
}
