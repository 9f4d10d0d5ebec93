//! The node's clock: it counts what passes, and follows the system's time of day slowly.
//!
//! Lifetimes and delays of messages are moments of the day, because they outlive the process. The
//! system's clock may be set at any time: were the node's set with it, a step back would hold all
//! messages for as long, and a step forward would expire them before their time. So the node's
//! runs a little slower or faster until it shows what the system's shows. A start takes over the
//! system's time at once.
//!
//! Nodes of a cluster compare their clocks, message by message: one that stays behind the others
//! has its messages expire elsewhere before their time. So a node with others takes a step forward
//! at once, as after a pause of its machine; only a step back is followed slowly.

use leveret_types::Now;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// How much slower or faster the clock runs while it differs from the system's: a tenth. No
/// lifetime is wrong by more.
const CATCH_UP_DIVISOR: u64 = 10;

/// Microseconds of a millisecond.
const MS: u64 = 1_000;

/// From this difference on it is worth a line in the log.
const DIFFERENCE_TOLD_MS: u64 = 10_000;

/// Clocks of a node. Both show milliseconds and count microseconds: two counts that are cut to
/// milliseconds before they are added are up to one behind, and what is stored after a moment would
/// tell of one before it.
pub(crate) struct Clock {
    started: Instant,
    /// The system's time of day then.
    started_wall_ms: u64,
    /// The time of day at which the count began, corrected by all that was followed since.
    began_wall_us: AtomicU64,
    /// The count when the system's time was followed last.
    followed_us: AtomicU64,
    /// Whether the log was told that the two differ.
    told: AtomicBool,
}

impl Clock {
    /// Begins to count, at the system's time of day.
    pub(crate) fn start() -> Self {
        let wall_us = system_us();
        Self {
            started: Instant::now(),
            started_wall_ms: wall_us / MS,
            began_wall_us: AtomicU64::new(wall_us),
            followed_us: AtomicU64::new(0),
            told: AtomicBool::new(false),
        }
    }

    /// The time, on both clocks.
    pub(crate) fn now(&self) -> Now {
        shown(self.began_wall_us.load(Ordering::Relaxed), self.count_us())
    }

    /// When the count began, milliseconds since the Unix epoch.
    pub(crate) const fn started_wall_ms(&self) -> u64 {
        self.started_wall_ms
    }

    fn count_us(&self) -> u64 {
        self.started.elapsed().as_micros() as u64
    }

    /// Comes closer to the system's time of day, or goes on to it at once where there are other
    /// nodes. For one thread, about twice a second.
    pub(crate) fn follow(&self, is_alone: bool) {
        let (count_us, system_us) = (self.count_us(), system_us());
        let passed_us = count_us - self.followed_us.load(Ordering::Relaxed);
        let began_us = self.began_wall_us.load(Ordering::Relaxed);
        let wall_us = began_us + count_us;
        let corrected = match is_alone || system_us < wall_us {
            true => corrected(began_us, wall_us, system_us, passed_us),
            false => began_us + (system_us - wall_us),
        };
        self.began_wall_us.store(corrected, Ordering::Relaxed);
        self.followed_us.store(count_us, Ordering::Relaxed);
        self.tell(wall_us / MS, system_us / MS);
    }

    /// Says once that the system's clock was set, and once that it shows the node's time again.
    fn tell(&self, wall_ms: u64, system_ms: u64) {
        let difference_ms = wall_ms.abs_diff(system_ms);
        let told = self.told.load(Ordering::Relaxed);
        if !told && difference_ms >= DIFFERENCE_TOLD_MS {
            self.told.store(true, Ordering::Relaxed);
            let seconds = difference_ms / 1_000;
            let side = if system_ms < wall_ms {
                "back"
            } else {
                "forward"
            };
            tracing::warn!(
                "the system's clock was set {side} by {seconds} s: a node alone follows it slowly \
                 with lifetimes and delays of messages, a tenth faster or slower than time passes; \
                 one with others follows a step back slowly and one forward at once; a restart \
                 takes the new time at once"
            );
        } else if told && difference_ms < DIFFERENCE_TOLD_MS / 10 {
            self.told.store(false, Ordering::Relaxed);
            tracing::info!("the clock for lifetimes and delays shows the system's time again");
        }
    }
}

/// What both clocks show at a count.
const fn shown(began_wall_us: u64, count_us: u64) -> Now {
    Now {
        monotonic_ms: count_us / MS,
        wall_ms: (began_wall_us + count_us) / MS,
    }
}

/// The time of day at which the count began, moved towards what makes the clock show the system's
/// time, by no more than the share of the time that has passed.
fn corrected(began_us: u64, wall_us: u64, system_us: u64, passed_us: u64) -> u64 {
    let step_max = passed_us / CATCH_UP_DIVISOR;
    if system_us >= wall_us {
        began_us + (system_us - wall_us).min(step_max)
    } else {
        began_us - (wall_us - system_us).min(step_max).min(began_us)
    }
}

/// The system's time of day in milliseconds. A clock before 1970 counts as 1970.
pub(crate) fn system_ms() -> u64 {
    system_us() / MS
}

fn system_us() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_micros() as u64)
}

#[cfg(test)]
mod tests {
    use super::{corrected, shown};

    /// Lets time pass in looks of half a second beside a system's clock that is off by so much;
    /// gives the moments that the node's clock showed.
    fn moments(off_ms: i64, looks: u64) -> Vec<u64> {
        const BEGAN_MS: u64 = 1_700_000_000_000;
        let mut began = BEGAN_MS;
        (1..=looks)
            .map(|look| {
                let count = look * 500;
                let system = (BEGAN_MS + count).strict_add_signed(off_ms);
                began = corrected(began, began + count, system, 500);
                began + count - BEGAN_MS
            })
            .collect()
    }

    #[test]
    fn an_hour_back_holds_no_message_by_more_than_a_tenth() {
        let shown = moments(-3_600_000, 7_200);
        assert!(shown.windows(2).all(|two| two[1] - two[0] == 450));
    }

    #[test]
    fn an_hour_forward_expires_no_message_earlier_than_by_a_tenth() {
        let shown = moments(3_600_000, 7_200);
        assert!(shown.windows(2).all(|two| two[1] - two[0] == 550));
    }

    #[test]
    fn the_clock_arrives_at_the_systems_and_stays_there() {
        for off_ms in [-1_000, 1_000, -3, 7] {
            let shown = moments(off_ms, 30);
            let last = shown.len() as u64 * 500;
            assert_eq!(shown.last().copied(), last.checked_add_signed(off_ms));
        }
    }

    #[test]
    fn a_system_clock_before_the_epoch_does_not_underflow() {
        assert_eq!(corrected(3, 1_000, 0, 100_000), 0);
    }

    #[test]
    fn the_time_of_day_is_not_behind_by_what_two_counts_are_cut_by() {
        let now = shown(1_000_900, 200);
        assert_eq!((now.monotonic_ms, now.wall_ms), (0, 1_001));
    }
}
