//! Channels whose publishes wait for an answer, or have one that the client has not been given.
//!
//! Invariant: a channel is in each list once at most.

use leveret_client::{Answer, Answered};

/// See the module's description.
#[derive(Default)]
pub(crate) struct Answers {
    /// Channels with answers that the next flush gives.
    ready: Vec<u16>,
    /// Channels with publishes that wait for a log or a queue.
    awaiting: Vec<u16>,
    /// Publishes that were answered since that was last asked.
    answered: Answered,
}

/// How the publishes of a channel stand together.
#[derive(Clone, Copy)]
pub(super) struct Standing {
    /// An answer can be given.
    pub(super) is_ready: bool,
    /// A publish waits.
    pub(super) awaits: bool,
}

impl Answers {
    /// Publishes of a channel stood so before, and stand so now.
    pub(super) fn note(&mut self, channel: u16, before: Standing, now: Standing) {
        if now.is_ready && !before.is_ready {
            self.ready.push(channel);
        }
        if now.awaits && !before.awaits {
            self.awaiting.push(channel);
        }
    }

    /// Channels with publishes that wait.
    pub(super) fn awaiting(&self) -> impl Iterator<Item = u16> + '_ {
        self.awaiting.iter().copied()
    }

    /// Tells each channel that waits, which answers how it stood and stands; none if it is there no
    /// more.
    pub(super) fn tell(&mut self, mut tell: impl FnMut(u16) -> Option<(Standing, Standing)>) {
        let Self {
            ready, awaiting, ..
        } = self;
        awaiting.retain(|channel| {
            let Some((before, now)) = tell(*channel) else {
                return false;
            };
            if now.is_ready && !before.is_ready {
                ready.push(*channel);
            }
            now.awaits
        });
    }

    /// Channels whose answers are given now, in their order; the list comes back by
    /// [`Self::given`].
    pub(super) fn take_ready(&mut self) -> Vec<u16> {
        std::mem::take(&mut self.ready)
    }

    /// All of them were given: the list's memory is kept.
    pub(super) fn given(&mut self, mut list: Vec<u16>) {
        list.clear();
        self.ready = list;
    }

    /// The client was given an answer.
    pub(super) const fn note_answer(&mut self, answer: Answer) {
        self.answered.note(answer);
    }

    /// How many publishes were answered since this was last asked.
    pub(super) const fn take_answered(&mut self) -> Answered {
        self.answered.take()
    }

    /// There are no channels any more.
    pub(super) fn clear(&mut self) {
        self.ready.clear();
        self.awaiting.clear();
    }

    pub(super) fn shrink(&mut self) {
        self.ready.shrink_to_fit();
        self.awaiting.shrink_to_fit();
    }

    /// How many channels wait, and how many have an answer.
    #[cfg(test)]
    pub(super) fn counts(&self) -> (usize, usize) {
        (self.awaiting.len(), self.ready.len())
    }
}
