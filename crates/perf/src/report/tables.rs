//! A run in tables: for the page, for the terminal, for Markdown.

use std::fmt::Write as _;
use std::path::Path;

use super::{Table, compare, label};
use crate::plot::{Figure, Unit};
use crate::result::{Latency, LoadResult, RunResult};
use crate::verdict::verdict;

const NONE: &str = "–";

/// Rates of each load.
pub(super) fn rates(run: &RunResult) -> Table {
    let mut table = Table::new(&[
        "load",
        "published",
        "confirmed",
        "consumed",
        "bytes published",
        "highest backlog",
        "window full",
        "behind schedule",
    ]);
    for load in &run.loads {
        let totals = &load.totals;
        let rate = |value: f64| match value {
            value if value > 0.0 => Unit::MessagesPerSecond.write(value),
            _ => NONE.to_owned(),
        };
        table.row([
            load.name.clone(),
            rate(totals.publish_rate),
            rate(totals.confirm_rate),
            rate(totals.consume_rate),
            Unit::BytesPerSecond.write(totals.publish_bytes_per_s),
            Unit::Count.write(totals.backlog_max as f64),
            percent(load.limits.window_full),
            behind(load),
        ]);
    }
    table.without_empty_columns()
}

fn percent(share: f64) -> String {
    if share > 0.0 {
        format!("{:.0} %", share * 100.0)
    } else {
        NONE.to_owned()
    }
}

fn behind(load: &LoadResult) -> String {
    let behind = load.limits.behind_schedule_ms_max;
    if behind > 0.0 {
        Unit::Micros.write(behind * 1_000.0)
    } else {
        NONE.to_owned()
    }
}

/// Latencies of each load, confirm and end-to-end apart.
pub(super) fn latencies(run: &RunResult) -> Table {
    let mut table = Table::new(&[
        "latency", "messages", "p50", "p75", "p95", "p99", "p99.9", "p99.99", "max", "mean",
    ]);
    for load in &run.loads {
        for (what, latency) in [("confirm", &load.confirm), ("end to end", &load.end_to_end)] {
            if let Some(latency) = latency.as_ref().filter(|of| of.percentiles.count > 0) {
                table.row(latency_row(format!("{}, {what}", load.name), latency));
            }
        }
    }
    table
}

fn latency_row(name: String, latency: &Latency) -> Vec<String> {
    let of = &latency.percentiles;
    let times = of.shown_us();
    let mut row = vec![name, Unit::Count.write(of.count as f64)];
    row.extend(times.map(|time| Unit::Micros.write(time as f64)));
    row.push(Unit::Micros.write(of.mean_us));
    row
}

/// Whether all arrived as it was sent.
pub(super) fn checks(run: &RunResult) -> Table {
    let mut table = Table::new(&[
        "load",
        "lost",
        "duplicated",
        "out of order",
        "damaged",
        "never confirmed",
        "redelivered",
        "refused",
        "returned",
    ]);
    for load in &run.loads {
        let checks = &load.checks;
        let lost = match checks.loss_checked {
            true => checks.lost.to_string(),
            false => "not checked".to_owned(),
        };
        let counts = [
            checks.duplicated,
            checks.disordered,
            checks.damaged,
            checks.unconfirmed,
            checks.redelivered,
            checks.refused,
            checks.returned,
        ];
        let row = [load.name.clone(), lost].into_iter();
        table.row(row.chain(counts.map(|count| count.to_string())));
    }
    table
}

/// Connections that broke, and what became of the messages on them; empty where none did.
pub(super) fn breaks(run: &RunResult) -> Table {
    let mut table = Table::new(&[
        "broken connections",
        "broke",
        "opened again",
        "longest outage",
        "publishers without one",
        "sent again",
        "arrived twice for it",
        "again, unmarked",
        "in doubt",
    ]);
    for load in run.loads.iter().filter(|load| load.breaks.broken > 0) {
        let (breaks, checks) = (&load.breaks, &load.checks);
        let counts = [
            breaks.republished,
            checks.republished_twice,
            checks.unmarked,
            checks.in_doubt,
        ];
        let row = [
            load.name.clone(),
            breaks.broken.to_string(),
            breaks.reopened.to_string(),
            Unit::Micros.write(breaks.outage_ms_max * 1e3),
            percent(load.limits.disconnected),
        ];
        let counts = counts.map(|count| count.to_string());
        table.row(row.into_iter().chain(counts));
    }
    table
}

/// What local brokers used.
pub(super) fn nodes(run: &RunResult) -> Table {
    let mut table = Table::new(&[
        "node",
        "CPU",
        "CPU s/million messages",
        "peak memory",
        "written",
        "bytes/message",
        "syncs",
        "mean sync",
        "sync p50",
        "p99",
        "p99.9",
    ]);
    let totals = &run.main_load().totals;
    let seconds = totals.measured_s.max(f64::MIN_POSITIVE);
    let messages = run
        .loads
        .iter()
        .map(|load| load.totals.published.max(load.totals.consumed));
    let messages = (messages.sum::<u64>() as f64).max(1.0);
    for node in &run.nodes {
        table.row([
            node.name.clone(),
            format!("{} cores", Unit::Cores.write(node.cpu_s / seconds)),
            Unit::Cores.write(node.cpu_s * 1e6 / messages),
            Unit::Bytes.write(node.rss_bytes_max as f64),
            Unit::BytesPerSecond.write(node.disk_written_bytes as f64 / seconds),
            Unit::Bytes.write(node.disk_written_bytes as f64 / messages),
            node.fsyncs
                .filter(|syncs| *syncs > 0)
                .map_or(NONE.to_owned(), |syncs| {
                    format!("{}/s", Unit::PerSecond.write(syncs as f64 / seconds))
                }),
            micros(node.fsync_mean_us),
            micros(node.fsync_p50_us),
            micros(node.fsync_p99_us),
            micros(node.fsync_p99_9_us),
        ]);
    }
    let generator = &run.generator;
    table.row([
        match generator.threads {
            1 => "generator, 1 thread".to_owned(),
            threads => format!("generator, {threads} threads"),
        },
        format!("{} cores", Unit::Cores.write(generator.cpu_s / seconds)),
        Unit::Cores.write(generator.cpu_s * 1e6 / messages),
    ]);
    table
}

fn micros(time: Option<f64>) -> String {
    time.map_or(NONE.to_owned(), |time| Unit::Micros.write(time))
}

/// What a drive promised, and what came.
pub(super) fn prediction(run: &RunResult) -> Option<Table> {
    let promised = run.prediction.as_ref()?;
    let load = run.main_load();
    let confirm = load
        .confirm
        .as_ref()
        .map(|latency| latency.percentiles)
        .unwrap_or_default();
    let mut table = Table::new(&[
        "of the drive",
        "predicted",
        "measured",
        "measured/predicted",
    ]);
    let mut row = |name: &str, unit: Unit, predicted: f64, measured: f64| {
        let ratio = format!("{:.2}", measured / predicted.max(f64::MIN_POSITIVE));
        table.row([
            name.to_owned(),
            unit.write(predicted),
            unit.write(measured),
            ratio,
        ]);
    };
    let rate = load.totals.confirm_rate;
    row(
        "confirmed",
        Unit::MessagesPerSecond,
        promised.confirm_rate,
        rate,
    );
    row(
        "confirm p50",
        Unit::Micros,
        promised.confirm_p50_us,
        confirm.p50_us as f64,
    );
    row(
        "confirm p99",
        Unit::Micros,
        promised.confirm_p99_us,
        confirm.p99_us as f64,
    );
    Some(table)
}

/// A run in a line each, side by side: what a comparison is about.
#[must_use]
pub fn summary_table(runs: &[RunResult]) -> Table {
    let all: Vec<&RunResult> = runs.iter().collect();
    let mut table = Table::new(&[
        "run",
        "published",
        "confirmed",
        "consumed",
        "confirm p50",
        "p99",
        "p99.9",
        "end-to-end p50",
        "p75",
        "p99",
        "p99.9",
        "checks",
    ]);
    for (name, run) in label::labels(&all).into_iter().zip(runs) {
        let load = run.main_load();
        let rate = |value: f64| match value {
            value if value > 0.0 => Unit::MessagesPerSecond.write(value),
            _ => NONE.to_owned(),
        };
        let confirm = load
            .confirm
            .as_ref()
            .map(|of| of.percentiles)
            .filter(|of| of.count > 0);
        let arrival = load
            .end_to_end
            .as_ref()
            .map(|of| of.percentiles)
            .filter(|of| of.count > 0);
        let time = |of: Option<u64>| of.map_or(NONE.to_owned(), |us| Unit::Micros.write(us as f64));
        let totals = &load.totals;
        table.row([
            name,
            rate(totals.publish_rate),
            rate(totals.confirm_rate),
            rate(totals.consume_rate),
            time(confirm.map(|of| of.p50_us)),
            time(confirm.map(|of| of.p99_us)),
            time(confirm.map(|of| of.p99_9_us)),
            time(arrival.map(|of| of.p50_us)),
            time(arrival.map(|of| of.p75_us)),
            time(arrival.map(|of| of.p99_us)),
            time(arrival.map(|of| of.p99_9_us)),
            if run.failed() {
                "FAILED".to_owned()
            } else {
                "ok".to_owned()
            },
        ]);
    }
    table.without_empty_columns()
}

/// What a terminal shows when a run is over.
#[must_use]
pub fn summary(run: &RunResult) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    if let Some(banner) = label::banner(&[run]) {
        let _ = writeln!(text, "*** {banner} ***\n");
    }
    let _ = writeln!(
        text,
        "{}: {} {}\n",
        run.name, run.target.product, run.target.version
    );
    let _ = writeln!(text, "{}", rates(run).text());
    let latencies = latencies(run);
    if !latencies.rows.is_empty() {
        let _ = writeln!(text, "{}", latencies.text());
    }
    if run.has_breaks() {
        let _ = writeln!(text, "{}", breaks(run).text());
    }
    if !run.nodes.is_empty() {
        let _ = writeln!(text, "{}", nodes(run).text());
    }
    if let Some(prediction) = prediction(run) {
        let _ = writeln!(text, "{}", prediction.text());
    }
    if let Some(places) = places(run) {
        let _ = writeln!(text, "folders: {places}");
    }
    for note in &run.notes {
        let _ = writeln!(text, "note: {note}");
    }
    let verdict = verdict(run);
    let _ = writeln!(text, "limit: {}\nhelps: {}", verdict.found, verdict.helps);
    let _ = match run.failure() {
        Some(failure) => writeln!(text, "CHECKS FAILED: {failure}"),
        None => writeln!(text, "checks: {}", passed(run)),
    };
    text
}

/// Where the nodes' folders were: `wal in /mnt/a (sdb); segment, data in /tmp (sda)`. As of the
/// first node; the others' are beside its.
pub(super) fn places(run: &RunResult) -> Option<String> {
    let mut places: Vec<(String, Vec<&str>)> = Vec::new();
    for drive in &run.nodes.first()?.drives {
        let Some(place) = &drive.place else {
            continue;
        };
        let device = drive.device.as_deref().unwrap_or("no block device known");
        // The real drive under a modelled one is nothing to go by.
        let place = match &run.modelled_device {
            Some(_) => place.clone(),
            None => format!("{place} ({device})"),
        };
        match places.iter_mut().find(|(known, _)| *known == place) {
            Some((_, folders)) => folders.push(&drive.folder),
            None => places.push((place, vec![&drive.folder])),
        }
    }
    let said = places
        .iter()
        .map(|(place, folders)| format!("{} in {place}", folders.join(", ")));
    (!places.is_empty()).then(|| said.collect::<Vec<_>>().join("; "))
}

/// What the checks looked at, where they found nothing.
pub(super) fn passed(run: &RunResult) -> &'static str {
    let in_doubt = run.loads.iter().any(|load| load.checks.in_doubt > 0);
    if in_doubt {
        return "nothing duplicated, out of order or damaged; what is in doubt was on connections \
                that broke, without confirms or settled as it was sent: nobody answers for it";
    }
    match run.loads.iter().all(|load| load.checks.loss_checked) {
        true => "nothing lost, duplicated, out of order or damaged",
        false => {
            "nothing duplicated, out of order or damaged; loss could not be checked throughout"
        }
    }
}

/// A run, or a comparison, in Markdown.
pub(super) fn markdown(runs: &[RunResult], folder: Option<&Path>, figures: &[Figure]) -> String {
    let mut text = String::new();
    let all: Vec<&RunResult> = runs.iter().collect();
    let names = label::labels(&all);
    if let Some(banner) = label::banner(&all) {
        let _ = writeln!(text, "**{banner}**\n");
    }
    let _ = writeln!(text, "{}", summary_table(runs).markdown());
    if runs.len() > 1 {
        let _ = writeln!(text, "{}", compare::ratios(runs).markdown());
    }
    for (name, run) in names.iter().zip(runs) {
        let verdict = verdict(run);
        let _ = writeln!(text, "- {name}: {} {}", verdict.found, verdict.helps);
        let _ = writeln!(text, "  `{}`", run.command);
        for note in &run.notes {
            let _ = writeln!(text, "  Note: {note}");
        }
    }
    if let Some(folder) = folder.and_then(Path::file_name) {
        for figure in figures {
            let (folder, name) = (folder.to_string_lossy(), &figure.name);
            let _ = writeln!(text, "\n![{}]({folder}/{name}.svg)", figure.title);
        }
    }
    text
}
