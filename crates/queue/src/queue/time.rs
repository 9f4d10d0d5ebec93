//! Events that the clock brings.

use super::Queue;
use crate::effect::{Effect, Reason};
use crate::log::{Log, Meta};
use leveret_types::Now;

/// Never, as a deadline.
const NEVER_MS: u64 = u64::MAX;
/// An expiry on the wall clock is looked at again within this time, for that clock may jump.
const WALL_CHECK_MS_MAX: u64 = 3_600_000;
/// An expired queue that nobody has deleted is told again after this time.
const EXPIRY_AGAIN_MS: u64 = 5_000;

/// Before which times nothing happens by itself.
#[derive(Debug)]
pub(super) struct Deadlines {
    /// When the queue was last in use, monotonic: its lease of `expires_ms` counts from here.
    used_ms: u64,
    /// Not before this its expiry is told again, monotonic.
    expiry_again_ms: u64,
    /// No message at a priority log's head expires before this, on the wall clock.
    head_expiry_ms: u64,
    /// No delivery times out before this, on the monotonic clock.
    timeout_at_ms: u64,
}

impl Deadlines {
    /// Those of a queue that is made now, and empty.
    pub(super) const fn new(now: Now) -> Self {
        Self {
            used_ms: now.monotonic_ms,
            expiry_again_ms: 0,
            head_expiry_ms: NEVER_MS,
            timeout_at_ms: NEVER_MS,
        }
    }

    /// There is no message at any priority log's head.
    pub(super) const fn no_heads(&mut self) {
        self.head_expiry_ms = NEVER_MS;
    }

    /// A message at a priority log's head expires then.
    fn head_expires_at(&mut self, wall_ms: u64) {
        self.head_expiry_ms = self.head_expiry_ms.min(wall_ms);
    }

    /// A delivery times out then.
    pub(super) fn time_out_by(&mut self, monotonic_ms: u64) {
        self.timeout_at_ms = self.timeout_at_ms.min(monotonic_ms);
    }
}

/// For how long consumers could take messages.
#[derive(Debug, Default)]
pub(super) struct AbleTime {
    /// Since when, on the monotonic clock, one can.
    since_ms: Option<u64>,
    /// For how long one could before that.
    before_ms: u64,
}

impl AbleTime {
    /// From now on one can, or none.
    fn note(&mut self, now: Now, is_able: bool) {
        match (is_able, self.since_ms) {
            (true, None) => self.since_ms = Some(now.monotonic_ms),
            (false, Some(since)) => {
                self.before_ms += now.monotonic_ms.saturating_sub(since);
                self.since_ms = None;
            }
            _ => {}
        }
    }

    /// All of it until now, in milliseconds.
    pub(super) fn ms(&self, now: Now) -> u64 {
        let since = self.since_ms;
        self.before_ms + since.map_or(0, |since| now.monotonic_ms.saturating_sub(since))
    }
}

impl Queue {
    /// When a message expires, on the wall clock.
    pub(super) fn expiry_ms(&self, meta: &Meta) -> u64 {
        let ttl = self
            .settings
            .ttl_ms
            .unwrap_or(NEVER_MS)
            .min(meta.expiration_ms.unwrap_or(NEVER_MS));
        meta.published_ms.saturating_add(ttl)
    }

    /// Lets expired messages go from the head of each priority log, and notes when the next one
    /// does.
    pub(super) fn expire_heads(&mut self, now: Now, log: &mut impl Log, out: &mut Vec<Effect>) {
        self.deadlines.no_heads();
        let mut from = self.priority_logs.highest();
        while let Some(number) = from {
            let may_expire = self.settings.ttl_ms.is_some()
                || self.priority_logs.unsettled_messages(number).may_expire;
            while may_expire && let Some((_, Some(meta))) = self.head(number, log, out) {
                let expiry_ms = self.expiry_ms(&meta);
                if expiry_ms > now.wall_ms {
                    self.deadlines.head_expires_at(expiry_ms);
                    break;
                }
                self.discard_head(number, meta.bytes, Reason::Expired, out);
            }
            from = number
                .checked_sub(1)
                .and_then(|below| self.priority_logs.highest_through(below));
        }
    }

    /// The queue is in use: its lease starts anew. For a redeclaration of a classic queue;
    /// consumers and gets do it by themselves.
    pub fn touch(&mut self, now: Now) {
        self.deadlines.used_ms = now.monotonic_ms;
        self.deadlines.expiry_again_ms = 0;
    }

    /// Does what is due: expires the queue and its messages, tells timed-out consumers. Pumps.
    pub fn tick(&mut self, now: Now, log: &mut impl Log, out: &mut Vec<Effect>) {
        if self
            .lease_end_ms()
            .is_some_and(|end| end <= now.monotonic_ms)
        {
            self.deadlines.expiry_again_ms = now.monotonic_ms + EXPIRY_AGAIN_MS;
            out.push(Effect::Expired);
        }
        if self.deadlines.timeout_at_ms <= now.monotonic_ms {
            self.time_out(now, out);
        }
        self.pump(now, log, out);
    }

    /// When [`Self::tick`] should be called next, on the monotonic clock. To be asked after a pump.
    #[must_use]
    pub fn next_deadline_ms(&self, now: Now) -> Option<u64> {
        let delayed = self.delayed.next_ms().unwrap_or(NEVER_MS);
        let wall = self.deadlines.head_expiry_ms.min(delayed);
        let head = (wall != NEVER_MS).then(|| {
            let wait = wall.saturating_sub(now.wall_ms).min(WALL_CHECK_MS_MAX);
            now.monotonic_ms + wait
        });
        let timeout = Some(self.deadlines.timeout_at_ms).filter(|at| *at != NEVER_MS);
        [self.lease_end_ms(), head, timeout]
            .into_iter()
            .flatten()
            .min()
    }

    /// When the queue itself expires if nobody uses it.
    pub(super) fn lease_end_ms(&self) -> Option<u64> {
        let unused = self.subscriptions.attached() == 0;
        let lease = self.settings.expires_ms.filter(|_| unused)?;
        let end = self.deadlines.used_ms.saturating_add(lease);
        Some(end.max(self.deadlines.expiry_again_ms))
    }

    pub(super) fn time_out(&mut self, now: Now, out: &mut Vec<Effect>) {
        self.deadlines.timeout_at_ms = NEVER_MS;
        let mut due = Vec::new();
        for (slot, subscription) in self
            .subscriptions
            .iter()
            .filter(|(_, subscription)| !subscription.timed_out)
        {
            let Some((timeout, oldest)) = subscription.timeout_ms.zip(subscription.oldest_ms())
            else {
                continue;
            };
            match oldest.saturating_add(timeout) {
                at if at <= now.monotonic_ms => due.push(slot),
                at => self.deadlines.time_out_by(at),
            }
        }
        for slot in due {
            self.subscriptions.leave_ring(slot);
            let subscription = self.subscriptions.get_mut(slot);
            subscription.timed_out = true;
            out.push(Effect::TimedOut {
                subscription: subscription.id,
            });
        }
    }

    /// Keeps account of how long consumers could take messages.
    pub(super) fn note_able(&mut self, now: Now) {
        self.able.note(now, self.subscriptions.any_able());
    }
}
