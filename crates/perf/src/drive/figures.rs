//! The drive's figures.

use super::{DriveResult, SyncRow};
use crate::plot::{Axis, BarSeries, Bars, Body, Figure, Ink, Scale, Unit};

/// Sync latency by size, growing beside recycled, at the middle and at the tail.
#[must_use]
pub fn figures(drive: &DriveResult) -> Vec<Figure> {
    vec![
        sync_bars(drive, 50.0, "median"),
        sync_bars(drive, 99.0, "99th percentile"),
    ]
}

fn sync_bars(drive: &DriveResult, percent: f64, word: &str) -> Figure {
    let groups = drive
        .recycled
        .iter()
        .map(|row| size_name(row.bytes))
        .collect();
    let series = |name: &str, ink: Ink, rows: &[SyncRow]| BarSeries {
        name: name.to_owned(),
        ink,
        values: rows
            .iter()
            .map(|row| Some(row.micros.percentile(percent)))
            .collect(),
    };
    Figure {
        name: format!("drive-sync-p{percent:.0}"),
        title: format!("Write and fdatasync, {word}"),
        subtitle: format!("by bytes written, in {}", drive.path),
        banner: None,
        body: Body::Bars(Bars {
            y: Axis {
                label: String::new(),
                scale: Scale::Log,
                unit: Unit::Micros,
            },
            groups,
            series: vec![
                series("a file that grows", Ink::Reference, &drive.growing),
                series(
                    "a file written before, as the log's",
                    Ink::Category(0),
                    &drive.recycled,
                ),
            ],
        }),
    }
}

/// `4 KiB`, `1 MiB`.
pub(super) fn size_name(bytes: u64) -> String {
    match bytes {
        _ if bytes >= 1 << 20 => format!("{} MiB", bytes >> 20),
        _ => format!("{} KiB", bytes >> 10),
    }
}
