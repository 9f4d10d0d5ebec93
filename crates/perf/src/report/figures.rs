//! The pictures of one run.

use super::{curve, label};
use crate::plot::{Axis, BarSeries, Bars, Body, Figure, Ink, Lines, Scale, Series, Span, Unit};
use crate::preset::{Measure, reported};
use crate::result::{
    DriveUsage, Latency, LoadResult, NodeSecond, NodeUsage, Percentiles, RunResult, Second,
};

/// Percentiles over time, from faint to strong.
type Reading = (&'static str, fn(&Percentiles) -> u64);
const OVER_TIME: [Reading; 5] = [
    ("p50", |of| of.p50_us),
    ("p95", |of| of.p95_us),
    ("p99", |of| of.p99_us),
    ("p99.9", |of| of.p99_9_us),
    ("max", |of| of.max_us),
];

/// All pictures that the run has data for.
#[must_use]
pub fn of_run(run: &RunResult) -> Vec<Figure> {
    let mut figures = vec![rates(run)];
    for load in &run.loads {
        figures.push(latency_over_time(run, load, "confirm", |second| {
            second.confirm.as_ref()
        }));
        figures.push(latency_over_time(run, load, "end-to-end", |second| {
            second.end_to_end.as_ref()
        }));
    }
    figures.push(percentiles(run));
    figures.push(backlog(run));
    figures.extend(nodes(run));
    figures.extend(drives(run));
    figures.extend(beside_the_document(run));
    figures.retain(|figure| !figure.is_empty());
    figures
}

fn figure(run: &RunResult, name: &str, title: String, subtitle: String, body: Body) -> Figure {
    Figure {
        name: name.to_owned(),
        title,
        subtitle,
        banner: label::banner(&[run]),
        body,
    }
}

/// The run's time, from left to right.
fn time() -> Axis {
    Axis {
        label: "seconds".to_owned(),
        scale: Scale::Time,
        unit: Unit::Seconds,
    }
}

pub(super) fn axis(label: &str, scale: Scale, unit: Unit) -> Axis {
    Axis {
        label: label.to_owned(),
        scale,
        unit,
    }
}

/// Every other phase, and each that does not count, so that borders show.
fn spans(run: &RunResult) -> Vec<Span> {
    let several = run.phases.iter().filter(|phase| phase.measured).count() > 1;
    let shown = run
        .phases
        .iter()
        .enumerate()
        .filter(|(at, phase)| !phase.measured || (several && at % 2 == 0));
    let shown = shown.map(|(_, phase)| Span {
        name: phase.name.clone(),
        range: (phase.from_s, phase.to_s),
    });
    shown.chain(breaks(run)).collect()
}

/// The seconds in which connections broke, those of several loads once.
fn breaks(run: &RunResult) -> Vec<Span> {
    let seconds = run.loads.iter().flat_map(|load| &load.seconds);
    let mut broken: Vec<(f64, f64)> = seconds
        .filter(|second| second.broken > 0)
        .map(|second| (second.at_s - second.length_s, second.at_s))
        .collect();
    broken.sort_by(|one, other| one.0.total_cmp(&other.0));
    broken.dedup_by(|next, before| next.0 < before.1);
    let name = |range| Span {
        name: "connections broke".to_owned(),
        range,
    };
    broken.into_iter().map(name).collect()
}

fn of_seconds(
    seconds: &[Second],
    name: String,
    ink: Ink,
    value: impl Fn(&Second) -> Option<f64>,
) -> Series {
    // A last sliver of a second says nothing about a rate.
    let whole = seconds.iter().filter(|second| second.length_s >= 0.5);
    let points = whole
        .filter_map(|second| Some((second.at_s, value(second)?)))
        .collect();
    Series { name, ink, points }
}

fn rates(run: &RunResult) -> Figure {
    let several = run.loads.len() > 1;
    let mut series = Vec::new();
    for (at, load) in run.loads.iter().enumerate() {
        let name = |what: &str| match several {
            true => format!("{} {what}", load.name),
            false => what.to_owned(),
        };
        let mut add = |what: &str, nth: usize, rate: fn(&Second) -> f64| {
            let some = load.seconds.iter().any(|second| rate(second) > 0.0);
            let ink = Ink::Category(at * 3 + nth);
            let line = of_seconds(&load.seconds, name(what), ink, |second| Some(rate(second)));
            series.extend(some.then_some(line));
        };
        add("published", 0, Second::publish_rate);
        add("confirmed", 1, Second::confirm_rate);
        add("consumed", 2, Second::consume_rate);
    }
    let y = axis("", Scale::Linear, Unit::MessagesPerSecond);
    let body = Body::Lines(Lines {
        x: time(),
        y,
        series,
        spans: spans(run),
    });
    figure(
        run,
        "rates",
        "Throughput".to_owned(),
        "messages per second".to_owned(),
        body,
    )
}

fn latency_over_time(
    run: &RunResult,
    load: &LoadResult,
    what: &str,
    read: fn(&Second) -> Option<&Percentiles>,
) -> Figure {
    let line = |(at, (name, value)): (usize, &Reading)| {
        of_seconds(&load.seconds, (*name).to_owned(), Ink::Rank(at), |second| {
            let of = read(second).filter(|of| of.count > 0)?;
            // Less than a microsecond has no place on a logarithmic axis.
            Some((value(of) as f64).max(1.0))
        })
    };
    let series = OVER_TIME.iter().enumerate().map(line).collect();
    let y = axis("", Scale::Log, Unit::Micros);
    let of_load = if run.loads.len() > 1 {
        format!(", load `{}`", load.name)
    } else {
        String::new()
    };
    let capital = if what == "confirm" {
        "Confirm"
    } else {
        "End-to-end"
    };
    figure(
        run,
        &slug(&[&load.name, what, "latency"]),
        format!("{capital} latency over time{of_load}"),
        "of each second's messages, from the time at which each was due; log scale".to_owned(),
        Body::Lines(Lines {
            x: time(),
            y,
            series,
            spans: spans(run),
        }),
    )
}

fn percentiles(run: &RunResult) -> Figure {
    let several = run.loads.len() > 1;
    let mut series = Vec::new();
    for load in &run.loads {
        for (what, latency) in [("confirm", &load.confirm), ("end to end", &load.end_to_end)] {
            let name = if several {
                format!("{} {what}", load.name)
            } else {
                what.to_owned()
            };
            series.extend(latency.as_ref().map(|latency| Series {
                name,
                ink: Ink::Category(series.len()),
                points: curve_points(latency),
            }));
        }
    }
    figure(
        run,
        "percentiles",
        "Latency by percentile".to_owned(),
        "over the measured time; both scales logarithmic".to_owned(),
        Body::Lines(curve_lines(series)),
    )
}

/// A curve's points with a place on a logarithmic axis.
pub(super) fn curve_points(latency: &Latency) -> Vec<(f64, f64)> {
    curve::points(latency)
        .into_iter()
        .map(|(at, micros)| (at, micros.max(1.0)))
        .collect()
}

/// A chart of percentile curves.
pub(super) fn curve_lines(series: Vec<Series>) -> Lines {
    Lines {
        x: axis("percentile", Scale::Percentile, Unit::Percentile),
        y: axis("", Scale::Log, Unit::Micros),
        series,
        spans: Vec::new(),
    }
}

/// Only where something piled up: more than two seconds of what was published.
fn backlog(run: &RunResult) -> Figure {
    let piled = run
        .loads
        .iter()
        .filter(|load| load.totals.backlog_max as f64 > 2.0 * load.totals.publish_rate.max(500.0));
    let line = |(at, load): (usize, &LoadResult)| {
        let ink = Ink::Category(at);
        of_seconds(&load.seconds, load.name.clone(), ink, |second| {
            Some(second.backlog as f64)
        })
    };
    let series = piled.enumerate().map(line).collect();
    let y = axis("", Scale::Linear, Unit::Count);
    figure(
        run,
        "backlog",
        "Backlog".to_owned(),
        "messages published and not yet consumed, over all queues".to_owned(),
        Body::Lines(Lines {
            x: time(),
            y,
            series,
            spans: spans(run),
        }),
    )
}

/// One picture for each thing that brokers use: over time, one line a node.
fn nodes(run: &RunResult) -> Vec<Figure> {
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
    // From the first to the last that has any, so that a gap between them shows.
    let shown = match (used.first(), used.last()) {
        (Some(first), Some(last)) => *first..*last + 1,
        _ => 0..0,
    };
    let name = |at: usize| {
        let slot = run.nodes.iter().find_map(|node| node.fsync_slots.get(at));
        match slot.and_then(|slot| slot.to_us) {
            Some(to_us) => format!("to {}", Unit::Micros.write(to_us)),
            None => "longer".to_owned(),
        }
    };
    let series = run.nodes.iter().enumerate().map(|(at, node)| BarSeries {
        name: node.name.clone(),
        ink: Ink::Category(at),
        values: shown
            .clone()
            .map(|at| node.fsync_slots.get(at).map(|slot| slot.count as f64))
            .collect(),
    });
    let series = series.collect();
    figure(
        run,
        "sync-times",
        "How long the log's syncs took".to_owned(),
        "number of syncs over the measured time, by the longest time of each bar".to_owned(),
        Body::Bars(Bars {
            y: axis("", Scale::Linear, Unit::Count),
            groups: shown.map(name).collect(),
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
fn drives(run: &RunResult) -> Vec<Figure> {
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

/// The document's figures for this preset, and ours beside them.
fn beside_the_document(run: &RunResult) -> Vec<Figure> {
    let measures = [
        Measure::ConsumeRate,
        Measure::PublishRate,
        Measure::PublishBytesPerS,
        Measure::P75Us,
        Measure::P999Us,
    ];
    let load = run.main_load();
    let mut figures = Vec::new();
    for measure in measures {
        let theirs: Vec<_> = reported(&run.name)
            .iter()
            .filter(|figure| figure.measure == measure)
            .collect();
        let (false, Some(ours)) = (theirs.is_empty(), measure.of(load)) else {
            continue;
        };
        let mut groups: Vec<String> = theirs.iter().map(|figure| figure.setup.clone()).collect();
        groups.push(format!("{} here", run.target.product));
        let own = groups.len() - 1;
        let mut document: Vec<Option<f64>> = theirs.iter().map(|of| Some(of.value)).collect();
        document.push(None);
        let mut here = vec![None; own];
        here.push(Some(ours));
        let scale = if measure.unit() == Unit::Micros {
            Scale::Log
        } else {
            Scale::Linear
        };
        let bars = |name: &str, ink, values| BarSeries {
            name: name.to_owned(),
            ink,
            values,
        };
        let series = vec![
            bars("the document, on its machines", Ink::Reference, document),
            bars("this run", Ink::Category(0), here),
        ];
        figures.push(figure(
            run,
            &slug(&["document", measure.name()]),
            format!("Beside the document: {}", measure.name()),
            "other machines: compare shapes, not figures".to_owned(),
            Body::Bars(Bars {
                y: axis("", scale, measure.unit()),
                groups,
                series,
            }),
        ));
    }
    figures
}

/// A name for files and anchors.
pub(super) fn slug(parts: &[&str]) -> String {
    let joined = parts.join("-").to_lowercase();
    let safe = joined.chars().map(|letter| match letter {
        letter if letter.is_ascii_alphanumeric() => letter,
        _ => '-',
    });
    safe.collect()
}
