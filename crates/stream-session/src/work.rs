//! The work of a connection in its turns, in frames.

use leveret_types::limits::STREAM_FRAMES_PER_TURN_MAX;

/// What may still be done in this turn, and what was done: see [`STREAM_FRAMES_PER_TURN_MAX`].
#[derive(Debug)]
pub(crate) struct Work {
    left: usize,
    /// Since it was asked for last.
    done: usize,
}

impl Default for Work {
    fn default() -> Self {
        Self {
            left: STREAM_FRAMES_PER_TURN_MAX,
            done: 0,
        }
    }
}

impl Work {
    /// A turn begins.
    pub(crate) const fn begin_turn(&mut self) {
        self.left = STREAM_FRAMES_PER_TURN_MAX;
    }

    /// Counts so much.
    pub(crate) const fn spend(&mut self, work: usize) {
        self.left = self.left.saturating_sub(work);
        self.done = self.done.saturating_add(work);
    }

    /// Whether the turn is over.
    pub(crate) const fn is_spent(&self) -> bool {
        self.left == 0
    }

    /// What was done since this was last asked.
    pub(crate) const fn take_done(&mut self) -> usize {
        std::mem::replace(&mut self.done, 0)
    }
}
