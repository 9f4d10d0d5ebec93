//! The short form of an experiment: same clients, sizes, rates and phases, less time and fewer
//! messages.

use crate::spec::{Phase, Spec};

/// Times are divided by this.
const TIME_DIVISOR: f64 = 15.0;
/// Counts and backlogs are divided by this.
const COUNT_DIVISOR: u64 = 50;
/// The least measured time of a run and of a phase, in seconds.
const SECONDS_MIN: f64 = 3.0;
/// The most warm-up, in seconds.
const WARM_UP_MAX: f64 = 1.0;
/// A phase that waits for a backlog has at least so many seconds for it.
const BACKLOG_SECONDS_MIN: f64 = 60.0;

/// The short form of a specification: times by 15 and at least 3 s, counts and backlogs by 50,
/// warm-up of 1 s at most. What waits for a backlog still gets a minute for it.
#[must_use]
pub fn fast(spec: &Spec) -> Spec {
    let mut short = spec.clone();
    short.duration_s = shorter(spec.duration_s);
    short.warm_up_s = spec.warm_up_s.min(WARM_UP_MAX);
    for load in &mut short.loads {
        load.count = load.count.map(fewer);
    }
    short.phases = spec.phases.iter().map(fast_phase).collect();
    short
}

fn fast_phase(phase: &Phase) -> Phase {
    let mut short = phase.clone();
    let waits = phase.until_backlog.is_some() || phase.until_backlog_below.is_some();
    short.duration_s = match waits {
        true => shorter(phase.duration_s).max(phase.duration_s.min(BACKLOG_SECONDS_MIN)),
        false => shorter(phase.duration_s),
    };
    short.until_backlog = phase.until_backlog.map(fewer);
    // A lower bound says "nearly nothing", which has no shorter form.
    short
}

fn shorter(seconds: f64) -> f64 {
    (seconds / TIME_DIVISOR).max(seconds.min(SECONDS_MIN))
}

fn fewer(count: u64) -> u64 {
    (count / COUNT_DIVISOR).max(count.min(1))
}
