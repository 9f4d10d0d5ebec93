//! What a message costs the processors, as runs have shown it: a table of measured points
//! (`costs.toml`) and what lies between them.
//!
//! A message costs far more where messages are few, since each then wakes threads and is synced by
//! itself, so that the rate of one queue is an axis of the table as its size is. Between points,
//! costs are taken in proportion on logarithmic scales; outside, the nearest point holds.

use std::sync::OnceLock;

use serde::Deserialize;

use super::{Flush, Kind};

/// One measured point.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Point {
    /// Which queue.
    pub kind: Kind,
    /// How a stream is flushed; queues are synced.
    pub flush: Flush,
    /// 1 or 3.
    pub copies: u32,
    /// Bytes of a message's body.
    pub bytes: f64,
    /// Messages a second of the one queue.
    pub rate: f64,
    /// Microseconds of one core of the node that leads the queue, clients at it.
    pub leader_us: f64,
    /// Those of each other node that has a copy.
    pub follower_us: f64,
    /// Bytes that the leader's node wrote.
    pub written_bytes: f64,
    /// The most resident memory of the leader's node, in megabytes.
    pub memory_mb: f64,
}

/// What a message costs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// Microseconds of one core at the queue's leader.
    pub leader_us: f64,
    /// Those at each other copy.
    pub follower_us: f64,
    /// Bytes that each copy writes.
    pub written_bytes: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    point: Vec<Point>,
}

/// All points.
///
/// # Panics
/// If the embedded file is not as it was when the program's tests ran.
#[must_use]
pub fn points() -> &'static [Point] {
    static FILE: OnceLock<File> = OnceLock::new();
    let parse = || toml::from_str(include_str!("costs.toml")).expect("the embedded file is TOML");
    &FILE.get_or_init(parse).point
}

/// The points of one kind of queue; `os` is flushed by nobody and costs as `interval` does.
fn of(kind: Kind, flush: Flush, copies: u32) -> Vec<&'static Point> {
    let flush = match (kind, flush) {
        (Kind::Stream, Flush::Os | Flush::Interval) => Flush::Interval,
        _ => Flush::Sync,
    };
    let copies = match kind {
        Kind::Classic => 1,
        _ if copies > 1 => 3,
        _ => 1,
    };
    let wanted = |point: &&Point| (point.kind, point.flush, point.copies) == (kind, flush, copies);
    points().iter().filter(wanted).collect()
}

/// What a message costs a queue of this kind that gets `rate` messages a second of so many bytes.
#[must_use]
pub fn cost(kind: Kind, flush: Flush, copies: u32, bytes: f64, rate: f64) -> Cost {
    let points = of(kind, flush, copies);
    let mut sizes: Vec<f64> = points.iter().map(|point| point.bytes).collect();
    sizes.sort_by(f64::total_cmp);
    sizes.dedup();
    let at_size = |size: f64| {
        let mut row: Vec<&Point> = points.iter().copied().filter(|p| p.bytes == size).collect();
        row.sort_by(|one, other| one.rate.total_cmp(&other.rate));
        let read = |value: fn(&Point) -> f64| {
            let known: Vec<(f64, f64)> = row.iter().map(|p| (p.rate, value(p))).collect();
            between(&known, rate)
        };
        [
            read(|point| point.leader_us),
            read(|point| point.follower_us),
            read(|point| point.written_bytes),
        ]
    };
    let rows: Vec<(f64, [f64; 3])> = sizes.iter().map(|&size| (size, at_size(size))).collect();
    let read = |at: usize| {
        let known: Vec<(f64, f64)> = rows.iter().map(|(size, row)| (*size, row[at])).collect();
        between(&known, bytes)
    };
    Cost {
        leader_us: read(0),
        follower_us: read(1),
        // What is written grows with a message by as much as the message does.
        written_bytes: bytes + (read(2) - bytes.clamp(sizes[0], sizes[sizes.len() - 1])).max(0.0),
    }
}

/// The most messages a second that a queue of this kind was seen to carry at about this size.
#[must_use]
pub fn rate_seen(kind: Kind, flush: Flush, copies: u32, bytes: f64) -> f64 {
    let points = of(kind, flush, copies);
    let near = |point: &&&Point| (point.bytes.ln() - bytes.max(1.0).ln()).abs();
    let nearest = points
        .iter()
        .min_by(|one, other| near(one).total_cmp(&near(other)));
    let bytes = nearest.map_or(0.0, |point| point.bytes);
    let rates = points.iter().filter(|point| point.bytes == bytes);
    rates.map(|point| point.rate).fold(0.0, f64::max)
}

/// The value at `at` of points that ascend: in proportion on logarithmic scales.
fn between(known: &[(f64, f64)], at: f64) -> f64 {
    let above = known.partition_point(|(place, _)| *place < at);
    let (Some(low), Some(high)) = (
        known.get(above.saturating_sub(1)),
        known.get(above).or(known.last()),
    ) else {
        return 0.0;
    };
    let span = high.0.ln() - low.0.ln();
    if span <= 0.0 || low.1 <= 0.0 || high.1 <= 0.0 {
        return high.1;
    }
    let share = ((at.ln() - low.0.ln()) / span).clamp(0.0, 1.0);
    (low.1.ln() + (high.1.ln() - low.1.ln()) * share).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_measured_is_what_is_said() {
        for point in points() {
            let found = cost(
                point.kind,
                point.flush,
                point.copies,
                point.bytes,
                point.rate,
            );
            for (found, measured) in [
                (found.leader_us, point.leader_us),
                (found.follower_us, point.follower_us),
            ] {
                assert!(
                    (found - measured).abs() <= measured * 1e-9,
                    "{point:?}: {found}"
                );
            }
        }
    }

    #[test]
    fn between_points_costs_lie_between_theirs_and_outside_the_nearest_holds() {
        let known = [(10.0, 100.0), (1_000.0, 1.0)];
        for (at, wanted) in [(1.0, 100.0), (10.0, 100.0), (100.0, 10.0), (1e9, 1.0)] {
            let found = between(&known, at);
            assert!((found - wanted).abs() < 1e-9, "{at}: {found}");
        }
        assert_eq!(between(&[], 1.0), 0.0);
        assert_eq!(between(&[(5.0, 0.0)], 7.0), 0.0);
    }

    #[test]
    fn every_kind_has_points_of_three_sizes_and_rates() {
        use {Flush::*, Kind::*};
        for (kind, flush, copies) in [
            (Classic, Sync, 1),
            (Quorum, Sync, 1),
            (Quorum, Sync, 3),
            (Stream, Sync, 1),
            (Stream, Sync, 3),
            (Stream, Interval, 1),
            (Stream, Os, 3),
        ] {
            let found = of(kind, flush, copies);
            assert_eq!(found.len(), 9, "{kind:?} {flush:?} {copies}");
            assert!(rate_seen(kind, flush, copies, 1_000.0) > 10_000.0);
        }
    }

    #[test]
    fn more_messages_a_second_cost_less_each() {
        for (kind, flush, copies) in [
            (Kind::Classic, Flush::Sync, 1),
            (Kind::Stream, Flush::Sync, 3),
        ] {
            let costs = [1_000.0, 10_000.0, 100_000.0]
                .map(|rate| cost(kind, flush, copies, 1_000.0, rate).leader_us);
            assert!(costs.is_sorted_by(|one, next| one > next), "{costs:?}");
        }
    }
}
