//! What happens because time passes.

use super::{EXPIRY_AGAIN_MS, NEVER_MS, Queue, WALL_CHECK_MS_MAX};
use crate::effect::{Effect, Reason};
use crate::log::{Log, Meta};
use leveret_types::Now;

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
        self.head_expiry_ms = NEVER_MS;
        let mut from = self.priority_logs.highest();
        while let Some(number) = from {
            let may_expire =
                self.settings.ttl_ms.is_some() || self.priority_logs.held(number).may_expire;
            while may_expire && let Some((_, Some(meta))) = self.head(number, log, out) {
                let expiry_ms = self.expiry_ms(&meta);
                if expiry_ms > now.wall_ms {
                    self.head_expiry_ms = self.head_expiry_ms.min(expiry_ms);
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
        self.used_ms = now.monotonic_ms;
        self.expiry_again_ms = 0;
    }

    /// Does what is due: expires the queue and its messages, tells timed-out consumers. Pumps.
    pub fn tick(&mut self, now: Now, log: &mut impl Log, out: &mut Vec<Effect>) {
        if self
            .lease_end_ms()
            .is_some_and(|end| end <= now.monotonic_ms)
        {
            self.expiry_again_ms = now.monotonic_ms + EXPIRY_AGAIN_MS;
            out.push(Effect::Expired);
        }
        if self.timeout_at_ms <= now.monotonic_ms {
            self.time_out(now, out);
        }
        self.pump(now, log, out);
    }

    /// When [`Self::tick`] should be called next, on the monotonic clock. To be asked after a pump.
    #[must_use]
    pub fn next_deadline_ms(&self, now: Now) -> Option<u64> {
        let delayed = self.delayed.next_ms().unwrap_or(NEVER_MS);
        let wall = self.head_expiry_ms.min(delayed);
        let head = (wall != NEVER_MS).then(|| {
            let wait = wall.saturating_sub(now.wall_ms).min(WALL_CHECK_MS_MAX);
            now.monotonic_ms + wait
        });
        let timeout = Some(self.timeout_at_ms).filter(|at| *at != NEVER_MS);
        [self.lease_end_ms(), head, timeout]
            .into_iter()
            .flatten()
            .min()
    }

    /// When the queue itself expires if nobody uses it.
    pub(super) fn lease_end_ms(&self) -> Option<u64> {
        let unused = self.subscriptions.attached() == 0;
        let lease = self.settings.expires_ms.filter(|_| unused)?;
        let end = self.used_ms.saturating_add(lease);
        Some(end.max(self.expiry_again_ms))
    }

    pub(super) fn time_out(&mut self, now: Now, out: &mut Vec<Effect>) {
        self.timeout_at_ms = NEVER_MS;
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
                at => self.timeout_at_ms = self.timeout_at_ms.min(at),
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
        match (self.subscriptions.any_able(), self.able_since_ms) {
            (true, None) => self.able_since_ms = Some(now.monotonic_ms),
            (false, Some(since)) => {
                self.able_ms += now.monotonic_ms.saturating_sub(since);
                self.able_since_ms = None;
            }
            _ => {}
        }
    }
}
