//! The drive's figures as text for a terminal.

use std::fmt::Write as _;

use super::figures::size_name;
use super::{Assumptions, Bound, DriveResult, Prediction, QueueKind, SyncRow};
use crate::plot::Unit;

/// All that was measured, as tables.
#[must_use]
pub fn describe(drive: &DriveResult) -> String {
    let mut text = format!("{}\n\n", drive.path);
    table(
        &mut text,
        "write + fdatasync, a file that grows",
        &drive.growing,
    );
    table(
        &mut text,
        "write + fdatasync, a file written before (as the log's)",
        &drive.recycled,
    );
    let mixed = std::slice::from_ref(&drive.mixed.log);
    table(
        &mut text,
        "the same while a segment writer is at work",
        mixed,
    );
    let rate = |value| Unit::BytesPerSecond.write(value);
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "sequential writes {}, reads {}; the segment writer beside the log got {}",
        rate(drive.write_bytes_per_second),
        rate(drive.read_bytes_per_second),
        rate(drive.mixed.segment_bytes_per_second),
    );
    text
}

fn table(text: &mut String, title: &str, rows: &[SyncRow]) {
    let _ = writeln!(text, "{title}");
    let _ = writeln!(
        text,
        "  {:>8}  {:>10}  {:>10}  {:>10}  {:>10}  {:>10}  {:>10}",
        "bytes", "p50", "p95", "p99", "p99.9", "max", "per second"
    );
    for row in rows {
        let time = |percent| Unit::Micros.write(row.micros.percentile(percent));
        let _ = writeln!(
            text,
            "  {:>8}  {:>10}  {:>10}  {:>10}  {:>10}  {:>10}  {:>10}",
            size_name(row.bytes),
            time(50.0),
            time(95.0),
            time(99.0),
            time(99.9),
            time(100.0),
            Unit::Count.write(1e6 / row.micros.mean.max(1e-3)),
        );
    }
    text.push('\n');
}

/// One line for a prediction, and one for its reasons.
#[must_use]
pub fn describe_prediction(load: &Assumptions, found: &Prediction) -> String {
    let kind = match load.kind {
        QueueKind::Classic => "classic queue, one node",
        QueueKind::Quorum => "quorum queue, three nodes",
    };
    let bound = match found.bound {
        Bound::Load => "the load asks for no more",
        Bound::SyncLatency => "bound by the latency of a sync",
        Bound::Bandwidth => "bound by the drive's bandwidth",
        Bound::Processor => "bound by the processors",
    };
    let asked = load.rate.map_or("as fast as it goes".to_owned(), |rate| {
        format!("at {}", Unit::MessagesPerSecond.write(rate))
    });
    format!(
        "{kind}: {} messages, {} unconfirmed, {asked}\n  {} confirmed, p50 {}, p99 {}; {bound}\n  {}\n",
        Unit::Bytes.write(load.message_bytes),
        Unit::Count.write(load.window),
        Unit::MessagesPerSecond.write(found.rate),
        Unit::Micros.write(found.p50_us),
        Unit::Micros.write(found.p99_us),
        found.reasoning(load),
    )
}
