//! The pictures of one run.

mod brokers;
mod document;
mod latency;
mod throughput;

pub(super) use latency::{curve_lines, curve_points};

use super::label;
use crate::plot::{Axis, Body, Figure, Ink, Scale, Series, Span, Unit};
use crate::result::{RunResult, Second};

/// All pictures that the run has data for.
#[must_use]
pub fn of_run(run: &RunResult) -> Vec<Figure> {
    let mut figures = vec![throughput::rates(run)];
    for load in &run.loads {
        figures.push(latency::over_time(run, load, "confirm", |second| {
            second.confirm.as_ref()
        }));
        figures.push(latency::over_time(run, load, "end-to-end", |second| {
            second.end_to_end.as_ref()
        }));
    }
    figures.push(latency::percentiles(run));
    figures.push(throughput::backlog(run));
    figures.extend(brokers::nodes(run));
    figures.extend(brokers::drives(run));
    figures.extend(document::beside(run));
    figures.retain(|figure| !figure.is_empty());
    figures
}

/// The name of the bands in which connections broke.
const BROKE: &str = "connections broke";

fn figure(run: &RunResult, name: &str, title: String, subtitle: String, body: Body) -> Figure {
    let is_broke = |span: &Span| span.name == BROKE;
    // In a long run a band is too narrow for its name.
    let subtitle = match &body {
        Body::Lines(lines) if lines.spans.iter().any(is_broke) => {
            format!("{subtitle}; narrow bands: {BROKE}")
        }
        _ => subtitle,
    };
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

/// The seconds in which connections broke, of all loads; those that follow each other as one.
fn breaks(run: &RunResult) -> Vec<Span> {
    let seconds = run.loads.iter().flat_map(|load| &load.seconds);
    let mut broken: Vec<(f64, f64)> = seconds
        .filter(|second| second.broken > 0)
        .map(|second| (second.at_s - second.length_s, second.at_s))
        .collect();
    broken.sort_by(|one, other| one.0.total_cmp(&other.0));
    // The beginning of a second is reckoned, and need not meet the end of the one before.
    broken.dedup_by(|next, before| {
        let follows = next.0 < before.1 + 0.1;
        if follows {
            before.1 = before.1.max(next.1);
        }
        follows
    });
    let name = |range| Span {
        name: BROKE.to_owned(),
        range,
    };
    broken.into_iter().map(name).collect()
}

/// A line with a point for each second; a second without a value is a gap in it.
fn of_seconds(
    seconds: &[Second],
    name: String,
    ink: Ink,
    value: impl Fn(&Second) -> Option<f64>,
) -> Series {
    // A last sliver of a second says nothing about a rate.
    let whole = seconds.iter().filter(|second| second.length_s >= 0.5);
    let points: Vec<(f64, f64)> = whole
        .map(|second| (second.at_s, value(second).unwrap_or(f64::NAN)))
        .collect();
    let has_any = points.iter().any(|point| point.1.is_finite());
    Series {
        name,
        ink,
        points: if has_any { points } else { Vec::new() },
    }
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
