//! Who holds messages for a channel without being a consumer of it.

use leveret_types::{ConsumerId, QueueId};

/// How many are kept before it is asked which of them still hold something.
const SWEEP_MIN: usize = 16;

/// Holders with their queues. Their number is at most twice that of those which still held
/// something when it was last asked, or [`SWEEP_MIN`]: a channel may consume and cancel, or get
/// from new queues, for as long as it likes.
#[derive(Debug, Default)]
pub(super) struct Holders {
    holders: Vec<(ConsumerId, QueueId)>,
    /// How many there were after the last sweep.
    swept: usize,
}

impl Holders {
    /// Remembers a holder. `holds` says whether a queue knows a holder still; it is asked of all
    /// that are kept, but seldom.
    pub(super) fn add(
        &mut self,
        holder: ConsumerId,
        queue: QueueId,
        mut holds: impl FnMut(ConsumerId, QueueId) -> bool,
    ) {
        if self.holders.len() >= SWEEP_MIN.max(2 * self.swept) {
            self.holders
                .retain(|(holder, queue)| holds(*holder, *queue));
            self.swept = self.holders.len();
        }
        self.holders.push((holder, queue));
    }

    pub(super) fn contains(&self, holder: ConsumerId) -> bool {
        self.holders.iter().any(|(id, _)| *id == holder)
    }

    /// The holder of a queue's messages.
    pub(super) fn of(&self, queue: QueueId) -> Option<ConsumerId> {
        let mut holders = self.holders.iter();
        holders.find(|(_, of)| *of == queue).map(|(id, _)| *id)
    }

    pub(super) fn into_all(self) -> impl Iterator<Item = (ConsumerId, QueueId)> {
        self.holders.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn those_that_hold_nothing_any_more_are_forgotten() {
        let mut holders = Holders::default();
        for id in 0..10_000 {
            holders.add(ConsumerId(id), QueueId(1), |_, _| false);
            assert!(holders.holders.len() <= SWEEP_MIN);
        }
        assert!(holders.contains(ConsumerId(9_999)));
    }

    #[test]
    fn those_that_hold_something_stay() {
        let mut holders = Holders::default();
        let holding: BTreeSet<_> = (0..10_000).step_by(100).map(ConsumerId).collect();
        for id in 0..10_000 {
            holders.add(ConsumerId(id), QueueId(id), |holder, _| {
                holding.contains(&holder)
            });
            assert!(holders.holders.len() <= 2 * holding.len() + SWEEP_MIN);
        }
        assert!(holding.iter().all(|holder| holders.contains(*holder)));
        assert_eq!(holders.of(QueueId(100)), Some(ConsumerId(100)));
        assert_eq!(holders.of(QueueId(101)), None);
    }

    #[test]
    fn asking_is_seldom() {
        let mut holders = Holders::default();
        let mut asked = 0_u64;
        for id in 0..10_000 {
            holders.add(ConsumerId(id), QueueId(1), |_, _| {
                asked += 1;
                true
            });
        }
        assert!(asked <= 2 * 10_000, "{asked}");
    }
}
