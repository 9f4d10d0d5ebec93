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

/// A name for files and anchors.
pub(super) fn slug(parts: &[&str]) -> String {
    let joined = parts.join("-").to_lowercase();
    let safe = joined.chars().map(|letter| match letter {
        letter if letter.is_ascii_alphanumeric() => letter,
        _ => '-',
    });
    safe.collect()
}
