//! How long messages took: second by second, and as curves over all percentiles.

use super::{axis, figure, of_seconds, slug, spans, time};
use crate::plot::{Body, Figure, Ink, Lines, Scale, Series, Unit};
use crate::report::curve;
use crate::result::{Latency, LoadResult, Percentiles, RunResult, Second};

/// Percentiles over time, from faint to strong.
type Reading = (&'static str, fn(&Percentiles) -> u64);
const OVER_TIME: [Reading; 5] = [
    ("p50", |of| of.p50_us),
    ("p95", |of| of.p95_us),
    ("p99", |of| of.p99_us),
    ("p99.9", |of| of.p99_9_us),
    ("max", |of| of.max_us),
];

/// Percentiles of each second of a load.
pub(super) fn over_time(
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

/// The curves of all loads, confirm and end-to-end.
pub(super) fn percentiles(run: &RunResult) -> Figure {
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
pub(in crate::report) fn curve_points(latency: &Latency) -> Vec<(f64, f64)> {
    curve::points(latency)
        .into_iter()
        .map(|(at, micros)| (at, micros.max(1.0)))
        .collect()
}

/// A chart of percentile curves.
pub(in crate::report) fn curve_lines(series: Vec<Series>) -> Lines {
    Lines {
        x: axis("percentile", Scale::Percentile, Unit::Percentile),
        y: axis("", Scale::Log, Unit::Micros),
        series,
        spans: Vec::new(),
    }
}
