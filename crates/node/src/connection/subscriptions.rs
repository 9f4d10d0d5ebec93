//! Who holds messages for a channel without being a consumer of it.

use leveret_types::{ConsumerId, QueueId};
use std::collections::BTreeMap;

/// How many are kept before it is asked which of them still hold something.
const SWEEP_MIN: usize = 16;

/// Subscriptions with their queues. Their number is at most twice that of those which still held
/// something when it was last asked, or [`SWEEP_MIN`]: a channel may consume and cancel, or get
/// from new queues, for as long as it likes.
#[derive(Debug, Default)]
pub(super) struct Subscriptions {
    subscriptions: BTreeMap<ConsumerId, QueueId>,
    /// The newest one of each queue.
    of_queues: BTreeMap<QueueId, ConsumerId>,
    /// How many there were after the last sweep.
    swept: usize,
}

impl Subscriptions {
    /// Remembers a subscription. `holds` says whether a queue knows a subscription still; it is
    /// asked of all that are kept, but seldom.
    pub(super) fn add(
        &mut self,
        subscription: ConsumerId,
        queue: QueueId,
        mut holds: impl FnMut(ConsumerId, QueueId) -> bool,
    ) {
        if self.subscriptions.len() >= SWEEP_MIN.max(2 * self.swept) {
            self.subscriptions
                .retain(|subscription, queue| holds(*subscription, *queue));
            self.of_queues
                .retain(|_, subscription| self.subscriptions.contains_key(subscription));
            self.swept = self.subscriptions.len();
        }
        self.subscriptions.insert(subscription, queue);
        self.of_queues.insert(queue, subscription);
    }

    pub(super) fn contains(&self, subscription: ConsumerId) -> bool {
        self.subscriptions.contains_key(&subscription)
    }

    /// Whether any of these is among them.
    pub(super) fn has_any(&self, subscriptions: &[ConsumerId]) -> bool {
        !self.subscriptions.is_empty() && subscriptions.iter().any(|id| self.contains(*id))
    }

    /// The newest subscription of a queue's messages.
    pub(super) fn of(&self, queue: QueueId) -> Option<ConsumerId> {
        self.of_queues.get(&queue).copied()
    }

    pub(super) fn into_all(self) -> impl Iterator<Item = (ConsumerId, QueueId)> {
        self.subscriptions.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn those_that_hold_nothing_any_more_are_forgotten() {
        let mut subscriptions = Subscriptions::default();
        for id in 0..10_000 {
            subscriptions.add(ConsumerId(id), QueueId(1), |_, _| false);
            assert!(subscriptions.subscriptions.len() <= SWEEP_MIN);
        }
        assert!(subscriptions.contains(ConsumerId(9_999)));
    }

    #[test]
    fn those_that_hold_something_stay() {
        let mut subscriptions = Subscriptions::default();
        let holding: BTreeSet<_> = (0..10_000).step_by(100).map(ConsumerId).collect();
        for id in 0..10_000 {
            subscriptions.add(ConsumerId(id), QueueId(id), |subscription, _| {
                holding.contains(&subscription)
            });
            assert!(subscriptions.subscriptions.len() <= 2 * holding.len() + SWEEP_MIN);
            assert!(subscriptions.of_queues.len() <= 2 * holding.len() + SWEEP_MIN);
        }
        assert!(
            holding
                .iter()
                .all(|subscription| subscriptions.contains(*subscription))
        );
        assert_eq!(subscriptions.of(QueueId(100)), Some(ConsumerId(100)));
        assert_eq!(subscriptions.of(QueueId(101)), None);
    }

    #[test]
    fn asking_is_seldom() {
        let mut subscriptions = Subscriptions::default();
        let mut asked = 0_u64;
        for id in 0..10_000 {
            subscriptions.add(ConsumerId(id), QueueId(1), |_, _| {
                asked += 1;
                true
            });
        }
        assert!(asked <= 2 * 10_000, "{asked}");
    }
}
