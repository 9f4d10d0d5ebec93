//! When it is noted of streams how far they are synced: once they are idle. A stream that is
//! written to costs nothing but a look at when, every [`STREAM_IDLE_MS`].

use leveret_types::limits::{STREAM_IDLE_MS, STREAM_MARKS_MS, STREAM_MARKS_PER_TURN_MAX};
use leveret_types::{Now, QueueId};
use std::collections::VecDeque;

/// Streams that were written to, and when to look whether they are idle: the next one first.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    waiting: VecDeque<(u64, QueueId)>,
    /// Nothing is noted before: many streams may become idle at once.
    not_before_ms: u64,
}

impl Marks {
    /// Whether the stream is idle is to be looked at later.
    pub(crate) fn wait(&mut self, now: Now, stream: QueueId) {
        let at_ms = now.monotonic_ms + STREAM_IDLE_MS;
        self.waiting.push_back((at_ms, stream));
    }

    /// The same with the next turn.
    pub(crate) fn look_soon(&mut self, stream: QueueId) {
        self.waiting.push_front((0, stream));
    }

    /// When one is to be looked at.
    pub(crate) fn due_ms(&self) -> Option<u64> {
        let (at_ms, _) = self.waiting.front()?;
        Some(self.not_before_ms.max(*at_ms))
    }

    /// Those to be looked at in this turn.
    pub(crate) fn take_due(&mut self, now: Now) -> Vec<QueueId> {
        if self.due_ms().is_none_or(|at_ms| now.monotonic_ms < at_ms) {
            return Vec::new();
        }
        self.not_before_ms = now.monotonic_ms + STREAM_MARKS_MS;
        let is_due = |(at_ms, _): &(u64, QueueId)| *at_ms <= now.monotonic_ms;
        let due = self.waiting.iter().take(STREAM_MARKS_PER_TURN_MAX);
        let due = due.take_while(|waiting| is_due(waiting)).count();
        self.waiting
            .drain(..due)
            .map(|(_, stream)| stream)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_that_become_idle_at_once_some_are_taken_in_each_turn() {
        let mut marks = Marks::default();
        for stream in 0..=STREAM_MARKS_PER_TURN_MAX as u64 {
            marks.wait(Now::both(7), QueueId(stream));
        }
        let at_ms = 7 + STREAM_IDLE_MS;
        assert_eq!(marks.due_ms(), Some(at_ms));
        assert!(marks.take_due(Now::both(at_ms - 1)).is_empty());
        let first = marks.take_due(Now::both(at_ms));
        assert_eq!(first.len(), STREAM_MARKS_PER_TURN_MAX);
        assert_eq!(marks.due_ms(), Some(at_ms + STREAM_MARKS_MS));
        assert!(marks.take_due(Now::both(at_ms)).is_empty(), "in this turn");
        let last = marks.take_due(Now::both(at_ms + STREAM_MARKS_MS));
        assert_eq!(last, [QueueId(STREAM_MARKS_PER_TURN_MAX as u64)]);
        assert_eq!(marks.due_ms(), None);
    }
}
