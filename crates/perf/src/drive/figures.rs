//! The drive's figures.

use super::{Assumptions, DriveResult, Prediction, SyncRow, text};
use crate::plot::{Axis, BarSeries, Bars, Body, Figure, Ink, Scale, Unit};
use crate::report;

/// The drive's page: what was measured, and what it promises.
#[must_use]
pub fn page(drive: &DriveResult, predicted: &[(Assumptions, Prediction)]) -> String {
    let lead = format!(
        "Write and fdatasync, as a write-ahead log does it, in {}. What it promises a queue \
         follows from the latencies of the file written before: group commit, as the program's \
         documentation of `perf::drive` sets out.",
        drive.path
    );
    let mut tables = vec![(
        "What a queue on it confirms".to_owned(),
        text::predictions(predicted),
    )];
    tables.extend(text::tables(drive));
    let mut pictures = figures(drive);
    pictures.push(promised(predicted));
    report::page_of_parts("A drive", &lead, &tables, &pictures)
}

fn promised(predicted: &[(Assumptions, Prediction)]) -> Figure {
    let names = predicted
        .iter()
        .map(|(load, _)| text::kind(load.kind).to_owned());
    Figure {
        name: "drive-promised".to_owned(),
        title: "Confirmed messages, predicted".to_owned(),
        subtitle: "per second, by the model: the drive, the way round, and what a message costs the processors".to_owned(),
        banner: None,
        body: Body::Bars(Bars {
            y: Axis {
                label: String::new(),
                scale: Scale::Linear,
                unit: Unit::MessagesPerSecond,
            },
            groups: names.collect(),
            series: vec![BarSeries {
                name: "predicted".to_owned(),
                ink: Ink::Category(0),
                values: predicted
                    .iter()
                    .map(|(_, found)| Some(found.rate))
                    .collect(),
            }],
        }),
    }
}

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
