//! What brokers and their drives were given to do.

use super::{axis, figure, spans, time};
use crate::plot::{BarSeries, Bars, Body, Figure, GROUPS_MAX, Ink, Lines, Scale, Series, Unit};
use crate::result::{DriveUsage, NodeSecond, NodeUsage, RunResult};

/// One picture for each thing that brokers use: over time, one line a node.
pub(super) fn nodes(run: &RunResult) -> Vec<Figure> {
    let cores = format!("processor cores in use, of {}", run.machine.cores);
    vec![
        of_nodes(run, ("cpu", "Broker CPU", &cores), Unit::Cores, |of| {
            Some(of.cpu_cores)
        }),
        of_nodes(
            run,
            ("memory", "Broker memory", "resident"),
            Unit::Bytes,
            |of| Some(of.rss_bytes as f64),
        ),
        of_nodes(
            run,
            (
                "disk",
                "Broker disk writes",
                "bytes per second, by the broker's own count where it has one",
            ),
            Unit::BytesPerSecond,
            |of| Some(of.disk_written_bytes_per_s),
        ),
        of_nodes(
            run,
            ("syncs", "Syncs of the write-ahead log", "per second"),
            Unit::PerSecond,
            |of| of.fsyncs_per_s.filter(|syncs| *syncs > 0.0),
        ),
        of_nodes(
            run,
            (
                "sync-latency",
                "Latency of the log's syncs",
                "mean of each second",
            ),
            Unit::Micros,
            |of| of.fsync_mean_us.filter(|mean| *mean > 0.0),
        ),
        of_nodes(
            run,
            (
                "sync-p99",
                "Latency of the log's syncs, p99",
                "99th percentile of each second",
            ),
            Unit::Micros,
            |of| of.fsync_p99_us,
        ),
        sync_slots(run),
    ]
}

/// How many syncs took how long, over the measured time.
fn sync_slots(run: &RunResult) -> Figure {
    let has = |at: usize| {
        let of = |node: &NodeUsage| node.fsync_slots.get(at).is_some_and(|slot| slot.count > 0);
        run.nodes.iter().any(of)
    };
    let slots = run.nodes.iter().map(|node| node.fsync_slots.len()).max();
    let used: Vec<usize> = (0..slots.unwrap_or(0)).filter(|at| has(*at)).collect();
    // From the first to the last that has any, so that a gap between them shows; several in one
    // bar where there are too many, so that none is left out.
    let shown: Vec<usize> = match (used.first(), used.last()) {
        (Some(first), Some(last)) => (*first..*last + 1).collect(),
        _ => Vec::new(),
    };
    let bars: Vec<&[usize]> = shown
        .chunks(shown.len().div_ceil(GROUPS_MAX).max(1))
        .collect();
    let name = |bar: &&[usize]| {
        let mut nodes = run.nodes.iter();
        let slot = bar
            .last()
            .and_then(|at| nodes.find_map(|node| node.fsync_slots.get(*at)));
        match slot.and_then(|slot| slot.to_us) {
            Some(to_us) => format!("to {}", Unit::Micros.write(to_us)),
            None => "longer".to_owned(),
        }
    };
    let count = |node: &NodeUsage, bar: &[usize]| {
        let slots = bar.iter().filter_map(|at| node.fsync_slots.get(*at));
        let counts = slots.map(|slot| slot.count as f64);
        counts.reduce(|one, other| one + other)
    };
    let series = run.nodes.iter().enumerate().map(|(at, node)| BarSeries {
        name: node.name.clone(),
        ink: Ink::Category(at),
        values: bars.iter().map(|bar| count(node, bar)).collect(),
    });
    let series = series.collect();
    figure(
        run,
        "sync-times",
        "How long the log's syncs took".to_owned(),
        "number of syncs over the measured time, by the longest time of each bar".to_owned(),
        Body::Bars(Bars {
            y: axis("", Scale::Linear, Unit::Count),
            groups: bars.iter().map(name).collect(),
            series,
        }),
    )
}

fn of_nodes(
    run: &RunResult,
    (name, title, subtitle): (&str, &str, &str),
    unit: Unit,
    value: fn(&NodeSecond) -> Option<f64>,
) -> Figure {
    let line = |(at, node): (usize, &NodeUsage)| Series {
        name: node.name.clone(),
        ink: Ink::Category(at),
        points: node
            .seconds
            .iter()
            .filter_map(|of| Some((of.at_s, value(of)?)))
            .collect(),
    };
    let series = run.nodes.iter().enumerate().map(line).collect();
    let y = axis("", Scale::Linear, unit);
    figure(
        run,
        name,
        title.to_owned(),
        subtitle.to_owned(),
        Body::Lines(Lines {
            x: time(),
            y,
            series,
            spans: spans(run),
        }),
    )
}

/// What each drive was given to do. On a modelled device the kernel's counts are of the real one
/// beneath, and would mislead.
pub(super) fn drives(run: &RunResult) -> Vec<Figure> {
    if run.modelled_device.is_some() {
        return Vec::new();
    }
    let seconds = run.main_load().totals.measured_s.max(f64::MIN_POSITIVE);
    let written = of_drives(run, move |drive| drive.written_bytes as f64 / seconds);
    let busy = of_drives(run, |drive| drive.busy * 100.0);
    let bars = |unit, (groups, series)| {
        Body::Bars(Bars {
            y: axis("", Scale::Linear, unit),
            groups,
            series,
        })
    };
    vec![
        figure(
            run,
            "drives-written",
            "Written to each folder's drive".to_owned(),
            "bytes per second, by everybody on this machine; folders may share a drive".to_owned(),
            bars(Unit::BytesPerSecond, written),
        ),
        figure(
            run,
            "drives-busy",
            "Drives at work".to_owned(),
            "part of the time in which each had something to do".to_owned(),
            bars(Unit::Percent, busy),
        ),
    ]
}

/// One group a folder, one bar a node.
fn of_drives(run: &RunResult, value: impl Fn(&DriveUsage) -> f64) -> (Vec<String>, Vec<BarSeries>) {
    let mut folders: Vec<&str> = Vec::new();
    for drive in run.nodes.iter().flat_map(|node| &node.drives) {
        if !folders.contains(&drive.folder.as_str()) {
            folders.push(&drive.folder);
        }
    }
    let series = run.nodes.iter().enumerate().map(|(at, node)| BarSeries {
        name: node.name.clone(),
        ink: Ink::Category(at),
        values: folders
            .iter()
            .map(|folder| {
                let drive = node.drives.iter().find(|drive| drive.folder == *folder)?;
                drive.device.as_ref()?;
                Some(value(drive))
            })
            .collect(),
    });
    let groups = folders.iter().map(|folder| (*folder).to_owned()).collect();
    let series = series
        .filter(|one| one.values.iter().any(Option::is_some))
        .collect();
    (groups, series)
}
