//! Figures over time in answers: `msg_rates_age` and `_incr`, `lengths_…`, `data_rates_…` and
//! `node_stats_…` as RabbitMQ has them, and the rates that samples show.

pub(crate) mod latencies;
pub(crate) mod ranges;
pub(crate) mod rates;
pub(crate) mod samples;
pub(crate) mod sampling;
pub(crate) mod shared_rates;
pub(crate) mod sums;
pub(crate) mod vhost_sums;

use crate::app::App;
use crate::history::ranges::{Part, Ranges};
use crate::history::rates::Subject;
use crate::history::samples::{Range, Series};
use crate::message_stats::{CHURN, DEPTHS, MESSAGE_NAMES, NODE_NAMES};
use serde::Serialize;
use serde_json::{Value, json};

/// Bytes received and sent.
const DATA: [&str; 2] = ["recv_oct", "send_oct"];
/// Messages in and out of an exchange.
const EXCHANGE: [&str; 2] = ["publish_in", "publish_out"];

/// What is sampled of a part, by name.
const fn names_of(part: Part) -> &'static [&'static str] {
    match part {
        Part::Messages => &MESSAGE_NAMES,
        Part::Lengths => &DEPTHS,
        Part::Data => &DATA,
        Part::Node => &NODE_NAMES,
        Part::Churn => &CHURN,
        Part::Exchange => &EXCHANGE,
    }
}

/// What is sampled of a subject, in the order of its values.
const fn parts_of(subject: Subject) -> &'static [Part] {
    match subject {
        Subject::Node => &[Part::Messages, Part::Lengths, Part::Node],
        Subject::Queue(_) => &[Part::Messages, Part::Lengths],
        Subject::Vhost(_) => &[Part::Messages, Part::Lengths, Part::Data],
        Subject::Channel(..) => &[Part::Messages],
        Subject::Connection(_) => &[Part::Data],
        Subject::Exchange(_) => &[Part::Exchange],
        // Of these the newest rates are shown alone.
        Subject::Pair(_) => &[],
    }
}

/// What is known of one subject over time, for answers.
pub(crate) struct History<'a> {
    app: &'a App,
    subject: Subject,
    ranges: Ranges,
    rates: Vec<f64>,
}

impl<'a> History<'a> {
    /// What is known; nothing where the subject is not sampled.
    pub(crate) fn of(app: &'a App, subject: Subject, ranges: &Ranges) -> Option<Self> {
        let rates = app.samples().rates(subject)?;
        Some(Self {
            app,
            subject,
            ranges: *ranges,
            rates,
        })
    }

    /// Where a part's values are among the subject's.
    fn place(&self, part: Part) -> Option<(usize, &'static [&'static str])> {
        let mut before = 0;
        for own in parts_of(self.subject) {
            match (*own, part) {
                // What came and went are the last of the node's.
                (Part::Node, Part::Churn) => {
                    return Some((before + NODE_NAMES.len() - CHURN.len(), &CHURN));
                }
                (own, part) if own == part => return Some((before, names_of(own))),
                (own, _) => before += names_of(own).len(),
            }
        }
        None
    }

    /// What is said beside each figure of a part, in their order.
    pub(crate) fn details(&self, part: Part) -> Vec<Details> {
        let Some((first, names)) = self.place(part) else {
            return Vec::new();
        };
        let range = self.ranges.of_part(part);
        let series = range.map(|range| self.app.series(self.subject, range));
        let of = |at: usize| {
            let rate = self.rates.get(at).copied().unwrap_or_default();
            let value = |values: &[u64]| values.get(at).copied();
            let over_time = series.as_ref().map(|series| OverTime::of(series, value));
            Details { rate, over_time }
        };
        (first..first + names.len()).map(of).collect()
    }

    /// Writes rates, and what is asked for over time, into the `…_details` of a part.
    pub(crate) fn write(&self, part: Part, into: &mut Value) {
        let (Some((_, names)), Some(into)) = (self.place(part), into.as_object_mut()) else {
            return;
        };
        for (name, details) in names.iter().zip(self.details(part)) {
            if let Some(known) = into.get_mut(&format!("{name}_details")) {
                *known = json!(details);
            }
        }
    }
}

/// What is said beside a figure.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Details {
    /// By how much it grows in a second.
    pub(crate) rate: f64,
    /// What it was, where that is asked for.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub(crate) over_time: Option<OverTime>,
}

impl Details {
    /// Those of a figure that grows by so much in a second.
    pub(crate) const fn at(rate: f64) -> Self {
        let over_time = None;
        Self { rate, over_time }
    }

    /// Whether a figure of 0 that this stands beside need not be told.
    pub(crate) fn is_nothing(&self) -> bool {
        self.rate == 0.0 && self.over_time.is_none()
    }
}

/// What a figure was over time, newest first.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct OverTime {
    avg_rate: f64,
    avg: f64,
    samples: Vec<Sample>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
struct Sample {
    sample: u64,
    timestamp: u64,
}

impl OverTime {
    fn of(series: &Series, value: impl Fn(&[u64]) -> Option<u64>) -> Self {
        let known = series.iter().filter_map(|(timestamp, values)| {
            let (sample, timestamp) = (value(values)?, *timestamp);
            Some(Sample { sample, timestamp })
        });
        let samples: Vec<Sample> = known.collect();
        let sum: f64 = samples.iter().map(|known| known.sample as f64).sum();
        let avg_rate = match (samples.first(), samples.last()) {
            (Some(newest), Some(oldest)) if newest.timestamp > oldest.timestamp => {
                let grown = newest.sample.wrapping_sub(oldest.sample) as i64 as f64;
                grown * 1_000.0 / (newest.timestamp - oldest.timestamp) as f64
            }
            _ => 0.0,
        };
        Self {
            avg_rate,
            avg: sum / samples.len().max(1) as f64,
            samples,
        }
    }
}

/// Writes what is known of a subject into parts of an answer that stand side by side.
pub(crate) fn write(
    app: &App,
    subject: Subject,
    ranges: &Ranges,
    parts: &[Part],
    into: &mut Value,
) {
    let Some(history) = History::of(app, subject, ranges) else {
        return;
    };
    for part in parts {
        match part {
            Part::Messages | Part::Exchange => history.write(*part, &mut into["message_stats"]),
            _ => history.write(*part, into),
        }
    }
}

/// Adds samples of another node to samples: what both know. A time before the first that one of
/// them knows is before its start, when it had counted nothing.
pub(crate) fn add_samples(into: &mut Vec<Value>, from: &[Value]) {
    let time = |sample: &Value| sample["timestamp"].as_u64().unwrap_or(0);
    let value = |sample: &Value| sample["sample"].as_u64().unwrap_or(0);
    let begins = |samples: &[Value]| samples.last().map_or(u64::MAX, time);
    let (own_begin, other_begin) = (begins(into), begins(from));
    let mut sums = Vec::with_capacity(into.len().max(from.len()));
    let (mut own, mut other) = (into.iter().peekable(), from.iter().peekable());
    loop {
        let (at, sum) = match (own.peek(), other.peek()) {
            (None, None) => break,
            (Some(a), Some(b)) if time(a) == time(b) => {
                let both = (time(a), Some(value(a).saturating_add(value(b))));
                own.next();
                other.next();
                both
            }
            (Some(a), b) if b.is_none_or(|b| time(a) > time(b)) => {
                let alone = (time(a) < other_begin).then(|| value(a));
                let alone = (time(a), alone);
                own.next();
                alone
            }
            (_, Some(b)) => {
                let alone = (time(b) < own_begin).then(|| value(b));
                let alone = (time(b), alone);
                other.next();
                alone
            }
            (Some(_), None) => break,
        };
        if let Some(sum) = sum {
            sums.push(json!({"sample": sum, "timestamp": at}));
        }
    }
    *into = sums;
}

impl App {
    fn series(&self, subject: Subject, range: Range) -> Series {
        let now = self.moment();
        let series = self.samples().series(subject, range, now);
        series.unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(of: &[(u64, u64)]) -> Vec<Value> {
        let sample = |(at, value): &(u64, u64)| json!({"sample": value, "timestamp": at});
        of.iter().map(sample).collect()
    }

    #[test]
    fn samples_of_two_nodes_add_up_where_both_are_known() {
        let cases: [(&[_], &[_], &[_]); 5] = [
            // The same times.
            (
                &[(20, 5), (10, 3)],
                &[(20, 7), (10, 1)],
                &[(20, 12), (10, 4)],
            ),
            // One started later: before that it had counted nothing.
            (&[(20, 5), (10, 3)], &[(20, 7)], &[(20, 12), (10, 3)]),
            (&[(20, 5)], &[(20, 7), (10, 3)], &[(20, 12), (10, 3)]),
            // One stood still in between: a gap.
            (
                &[(30, 3), (20, 2), (10, 1)],
                &[(30, 3), (10, 1)],
                &[(30, 6), (10, 2)],
            ),
            // One has not yet told the newest.
            (&[(30, 3), (20, 2)], &[(20, 2)], &[(20, 4)]),
        ];
        for (own, other, expected) in cases {
            let mut sum = samples(own);
            add_samples(&mut sum, &samples(other));
            assert_eq!(sum, samples(expected), "{own:?} and {other:?}");
        }
        let mut sum = samples(&[]);
        add_samples(&mut sum, &samples(&[(10, 1)]));
        assert_eq!(sum, samples(&[(10, 1)]));
    }
}
