//! How many messages went through, and how many piled up.

use super::{axis, figure, of_seconds, spans, time};
use crate::plot::{Body, Figure, Ink, Lines, Scale, Unit};
use crate::result::{LoadResult, RunResult, Second};

/// Messages a second, published, confirmed and consumed.
pub(super) fn rates(run: &RunResult) -> Figure {
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

/// Only where something piled up: more than two seconds of what was published.
pub(super) fn backlog(run: &RunResult) -> Figure {
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
