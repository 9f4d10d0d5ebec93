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

/// From this difference on it is worth a line in the log.
const DIFFERENCE_TOLD_MS: u64 = 10_000;

/// Clocks of a node, both in milliseconds.
pub(crate) struct Clock {
    started: Instant,
    /// The time of day at which the count began, corrected by all that was followed since.
    began_wall_ms: AtomicU64,
    /// The count when the system's time was followed last.
    followed_ms: AtomicU64,
    /// Whether the log was told that the two differ.
    told: AtomicBool,
}

impl Clock {
    /// Begins to count, at the system's time of day.
    pub(crate) fn start() -> Self {
        Self {
            started: Instant::now(),
            began_wall_ms: AtomicU64::new(system_ms()),
            followed_ms: AtomicU64::new(0),
            told: AtomicBool::new(false),
        }
    }

    /// The time, on both clocks.
    pub(crate) fn now(&self) -> Now {
        let monotonic_ms = self.started.elapsed().as_millis() as u64;
        Now {
            monotonic_ms,
            wall_ms: self.began_wall_ms.load(Ordering::Relaxed) + monotonic_ms,
        }
    }

    /// Comes closer to the system's time of day, or goes on to it at once where there are other
    /// nodes. For one thread, about twice a second.
    pub(crate) fn follow(&self, is_alone: bool) {
        let (now, system_ms) = (self.now(), system_ms());
        let passed_ms = now.monotonic_ms - self.followed_ms.load(Ordering::Relaxed);
        let began_ms = self.began_wall_ms.load(Ordering::Relaxed);
        let corrected = match is_alone || system_ms < now.wall_ms {
            true => corrected(began_ms, now.wall_ms, system_ms, passed_ms),
            false => began_ms + (system_ms - now.wall_ms),
        };
        if corrected != began_ms {
            self.began_wall_ms.store(corrected, Ordering::Relaxed);
        }
        // A difference below what can be corrected now waits for more to have passed.
        if corrected != began_ms || now.wall_ms == system_ms {
            self.followed_ms.store(now.monotonic_ms, Ordering::Relaxed);
        }
        self.tell(now.wall_ms, system_ms);
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

/// The time of day at which the count began, moved towards what makes the clock show the system's
/// time, by no more than the share of the time that has passed.
fn corrected(began_ms: u64, wall_ms: u64, system_ms: u64, passed_ms: u64) -> u64 {
    let step_max = passed_ms / CATCH_UP_DIVISOR;
    if system_ms >= wall_ms {
        began_ms + (system_ms - wall_ms).min(step_max)
    } else {
        began_ms - (wall_ms - system_ms).min(step_max).min(began_ms)
    }
}

/// The system's time of day. A clock before 1970 counts as 1970.
pub(crate) fn system_ms() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_millis() as u64)
}

#[cfg(test)]
mod tests {
    use super::corrected;

    /// Lets time pass in looks of half a second beside a system's clock that is off by so much;
    /// gives the moments that the node's clock showed.
    fn shown(off_ms: i64, looks: u64) -> Vec<u64> {
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
        let shown = shown(-3_600_000, 7_200);
        assert!(shown.windows(2).all(|two| two[1] - two[0] == 450));
    }

    #[test]
    fn an_hour_forward_expires_no_message_earlier_than_by_a_tenth() {
        let shown = shown(3_600_000, 7_200);
        assert!(shown.windows(2).all(|two| two[1] - two[0] == 550));
    }

    #[test]
    fn the_clock_arrives_at_the_systems_and_stays_there() {
        for off_ms in [-1_000, 1_000, -3, 7] {
            let shown = shown(off_ms, 30);
            let last = shown.len() as u64 * 500;
            assert_eq!(shown.last().copied(), last.checked_add_signed(off_ms));
        }
    }

    #[test]
    fn a_system_clock_before_the_epoch_does_not_underflow() {
        assert_eq!(corrected(3, 1_000, 0, 100_000), 0);
    }
}
