//! The same load against two brokers, in alternation, and the ratios of what was found.

use std::fmt::Write as _;

use crate::report::banner;
use crate::result::{LoadResult, Percentiles, RunResult};

/// A figure that is compared, and whether more of it is better.
type Figure = (&'static str, fn(&LoadResult) -> Option<f64>, bool);

fn confirm(load: &LoadResult, of: fn(&Percentiles) -> u64) -> Option<f64> {
    load.confirm
        .as_ref()
        .map(|latency| of(&latency.percentiles) as f64)
}

fn end_to_end(load: &LoadResult, of: fn(&Percentiles) -> u64) -> Option<f64> {
    load.end_to_end
        .as_ref()
        .map(|latency| of(&latency.percentiles) as f64)
}

const FIGURES: [Figure; 8] = [
    ("published/s", |load| Some(load.totals.publish_rate), true),
    (
        "confirmed/s",
        |load| load.confirm.as_ref().map(|_| load.totals.confirm_rate),
        true,
    ),
    (
        "consumed/s",
        |load| load.end_to_end.as_ref().map(|_| load.totals.consume_rate),
        true,
    ),
    ("confirm p50 us", |load| confirm(load, |p| p.p50_us), false),
    ("confirm p99 us", |load| confirm(load, |p| p.p99_us), false),
    (
        "end to end p50 us",
        |load| end_to_end(load, |p| p.p50_us),
        false,
    ),
    (
        "end to end p99 us",
        |load| end_to_end(load, |p| p.p99_us),
        false,
    ),
    (
        "end to end p99.9 us",
        |load| end_to_end(load, |p| p.p99_9_us),
        false,
    ),
];

/// The median of each figure over the rounds, of the first broker and of the second, and how many
/// times better the first is. What one of the two does not have is left out.
#[must_use]
pub fn table(first: &[RunResult], second: &[RunResult]) -> String {
    let (Some(one), Some(two)) = (first.first(), second.first()) else {
        return String::new();
    };
    let mut text = String::new();
    let all: Vec<&RunResult> = first.iter().chain(second).collect();
    // Writing to a string cannot fail, here and below.
    if let Some(banner) = banner(&all) {
        let _ = writeln!(text, "*** {banner} ***\n");
    }
    let name = |run: &RunResult| format!("{} {}", run.target.product, run.target.version);
    let _ = writeln!(
        text,
        "{}: medians of {} rounds in alternation\n\n{:<36}{:>20}{:>20}{:>12}",
        one.name,
        first.len(),
        "",
        name(one),
        name(two),
        "better by"
    );
    for (at, load) in one.loads.iter().enumerate() {
        for (figure, of, more_is_better) in FIGURES {
            let found = |runs: &[RunResult]| {
                let values = runs.iter().filter_map(|run| of(run.loads.get(at)?));
                median(values.collect())
            };
            let (Some(left), Some(right)) = (found(first), found(second)) else {
                continue;
            };
            let ratio = if more_is_better {
                left / right
            } else {
                right / left
            };
            let row = format!("{} {figure}", load.name);
            let _ = writeln!(text, "{row:<36}{left:>20.0}{right:>20.0}{ratio:>11.2}x");
        }
    }
    text
}

/// The median; of an even count, the mean of the two in the middle.
fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.is_empty() {
        return None;
    }
    Some(if values.len() % 2 == 1 {
        values[middle]
    } else {
        f64::midpoint(values[middle - 1], values[middle])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_of_odd_and_even_counts() {
        assert_eq!(median(vec![]), None);
        assert_eq!(median(vec![3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), Some(2.5));
    }
}
