//! The drive's figures as text for a terminal.

use std::fmt::Write as _;

use super::figures::size_name;
use super::{Assumptions, Bound, DriveResult, Prediction, QueueKind, SyncRow};
use crate::plot::Unit;
use crate::report::Table;

/// All that was measured, for a terminal.
#[must_use]
pub fn describe(drive: &DriveResult) -> String {
    let mut text = format!("{}\n\n", drive.path);
    for (name, table) in tables(drive) {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{name}\n{}", table.text());
    }
    text
}

/// All that was measured, as tables with their names.
pub(super) fn tables(drive: &DriveResult) -> Vec<(String, Table)> {
    let mixed = std::slice::from_ref(&drive.mixed.log);
    vec![
        (
            "Write and fdatasync, a file that grows".to_owned(),
            sync_table(&drive.growing),
        ),
        (
            "Write and fdatasync, a file written before, as the log's".to_owned(),
            sync_table(&drive.recycled),
        ),
        (
            "The same while a segment writer is at work".to_owned(),
            sync_table(mixed),
        ),
        ("Bandwidth".to_owned(), bandwidth(drive)),
        (
            "From a confirm to the next message, without the drive".to_owned(),
            turnaround(drive),
        ),
        (
            "The whole loop: messages, syncs and confirms".to_owned(),
            rehearsal(drive),
        ),
    ]
}

/// A row, where the loop was played.
fn rehearsal(drive: &DriveResult) -> Table {
    let mut table = Table::new(&[
        "messages of",
        "unconfirmed",
        "confirmed",
        "p50",
        "p99",
        "batch",
        "its sync",
    ]);
    if let Some(found) = &drive.rehearsal {
        table.row([
            Unit::Bytes.write(found.load.message_bytes as f64),
            Unit::Count.write(f64::from(found.load.window)),
            Unit::MessagesPerSecond.write(found.rate),
            Unit::Micros.write(found.confirm.percentile(50.0)),
            Unit::Micros.write(found.confirm.percentile(99.0)),
            Unit::Count.write(found.batch),
            Unit::Micros.write(found.sync.mean),
        ]);
    }
    table
}

/// A row, where it was measured: older results have none.
fn turnaround(drive: &DriveResult) -> Table {
    let mut table = Table::new(&["p50", "p95", "p99", "max", "mean"]);
    let of = &drive.turnaround;
    if of.count > 0 {
        let times = [50.0, 95.0, 99.0, 100.0].map(|percent| of.percentile(percent));
        table.row(
            times
                .into_iter()
                .chain([of.mean])
                .map(|time| Unit::Micros.write(time)),
        );
    }
    table
}

fn bandwidth(drive: &DriveResult) -> Table {
    let mut table = Table::new(&["", "bytes per second"]);
    let rows = [
        ("sequential writes", drive.write_bytes_per_second),
        ("sequential reads", drive.read_bytes_per_second),
        (
            "the segment writer beside the log",
            drive.mixed.segment_bytes_per_second,
        ),
    ];
    for (name, rate) in rows {
        table.row([name.to_owned(), Unit::BytesPerSecond.write(rate)]);
    }
    table
}

fn sync_table(rows: &[SyncRow]) -> Table {
    let mut table = Table::new(&["bytes", "p50", "p95", "p99", "p99.9", "max", "per second"]);
    for row in rows {
        let percentiles = [50.0, 95.0, 99.0, 99.9, 100.0];
        let times = percentiles.map(|percent| Unit::Micros.write(row.micros.percentile(percent)));
        let rate = Unit::Count.write(1e6 / row.micros.mean.max(1e-3));
        let cells = [size_name(row.bytes)]
            .into_iter()
            .chain(times)
            .chain([rate]);
        table.row(cells);
    }
    table
}

/// What is predicted, a row a queue.
pub(super) fn predictions(predicted: &[(Assumptions, Prediction)]) -> Table {
    let mut table = Table::new(&[
        "queue",
        "confirmed",
        "p50",
        "p99",
        "batch",
        "its sync",
        "bound by",
    ]);
    for (load, found) in predicted {
        table.row([
            kind(load.kind).to_owned(),
            Unit::MessagesPerSecond.write(found.rate),
            Unit::Micros.write(found.p50_us),
            Unit::Micros.write(found.p99_us),
            Unit::Count.write(found.batch),
            Unit::Micros.write(found.sync_us),
            bound(found.bound).to_owned(),
        ]);
    }
    table
}

pub(super) fn kind(kind: QueueKind) -> &'static str {
    match kind {
        QueueKind::Classic => "classic queue, one node",
        QueueKind::Quorum => "quorum queue, three nodes",
    }
}

fn bound(bound: Bound) -> &'static str {
    match bound {
        Bound::Load => "the load itself",
        Bound::SyncLatency => "the latency of a sync",
        Bound::Bandwidth => "the drive's bandwidth",
        Bound::Processor => "the processors",
    }
}

/// A prediction with its reasons.
#[must_use]
pub fn describe_prediction(load: &Assumptions, found: &Prediction) -> String {
    let asked = load.rate.map_or("as fast as it goes".to_owned(), |rate| {
        format!("at {}", Unit::MessagesPerSecond.write(rate))
    });
    format!(
        "{}: messages of {}, {} unconfirmed, {asked}\n  \
         {} confirmed, p50 {}, p99 {}; bound by {}\n  {}\n",
        kind(load.kind),
        Unit::Bytes.write(load.message_bytes),
        Unit::Count.write(load.window),
        Unit::MessagesPerSecond.write(found.rate),
        Unit::Micros.write(found.p50_us),
        Unit::Micros.write(found.p99_us),
        bound(found.bound),
        found.reasoning(load),
    )
}
