//! A queue's messages on their way to its dead-letter exchange: a bounded number of them at a
//! time, and again later what did not arrive where it must.

use crate::peeked::Found;
use crate::shard::DeadLetter;
use leveret_queue::{Position, Reason};
use leveret_types::limits::{
    DEAD_LETTER_RETRY_MS, DEAD_LETTERS_UNDER_WAY_BYTES_MAX, DEAD_LETTERS_UNDER_WAY_MAX,
};
use leveret_types::{Now, QueueId};
use std::collections::VecDeque;
use std::ops::Range;

/// See the module's description.
#[derive(Debug, Default)]
pub(crate) struct DeadLetters {
    /// What is to go, in this order.
    waiting: VecDeque<(u8, Range<u64>, Reason)>,
    /// What has been handed over, and has not arrived.
    under_way: VecDeque<UnderWay>,
    /// Bytes of that.
    under_way_bytes: usize,
    /// What did not arrive.
    later: Vec<UnderWay>,
    /// When that is tried again, on the monotonic clock.
    retry_at_ms: u64,
}

/// A message that has been handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct UnderWay {
    position: Position,
    reason: Reason,
    bytes: usize,
}

impl DeadLetters {
    /// These messages are to go.
    pub(crate) fn push(&mut self, priority_log: u8, range: Range<u64>, reason: Reason) {
        match self.waiting.back_mut() {
            Some((of, last, why))
                if (*of, last.end, *why) == (priority_log, range.start, reason) =>
            {
                last.end = range.end;
            }
            _ => self.waiting.push_back((priority_log, range, reason)),
        }
    }

    /// Takes the message that is to go next out to be handed over, if one more may be under way and
    /// it need not be waited for. `find` looks for it where the queue keeps its messages.
    pub(crate) fn take(
        &mut self,
        queue: QueueId,
        mut find: impl FnMut(Position) -> Found,
    ) -> Option<DeadLetter> {
        while let Some((position, reason)) = self.next() {
            match find(position) {
                Found::Message(message) => {
                    self.sent(message.weight());
                    return Some(DeadLetter {
                        queue,
                        position: Some((position.priority_log, position.index)),
                        message,
                        reason,
                    });
                }
                Found::Pending => return None,
                Found::Never => {
                    tracing::error!(
                        %queue,
                        priority_log = position.priority_log,
                        index = position.index,
                        "a message that is to be dead-lettered cannot be read; it stays",
                    );
                    self.skip();
                }
            }
        }
        None
    }

    /// The message that is to go next, if one more may be under way.
    fn next(&self) -> Option<(Position, Reason)> {
        let (priority_log, range, reason) = self.waiting.front()?;
        let position = Position {
            priority_log: *priority_log,
            index: range.start,
        };
        let has_room = self.under_way.len() < DEAD_LETTERS_UNDER_WAY_MAX
            && self.under_way_bytes < DEAD_LETTERS_UNDER_WAY_BYTES_MAX;
        has_room.then_some((position, *reason))
    }

    /// The next message, of so many bytes, was handed over.
    fn sent(&mut self, bytes: usize) {
        if let Some((position, reason)) = self.next() {
            self.under_way_bytes += bytes;
            self.under_way.push_back(UnderWay {
                position,
                reason,
                bytes,
            });
        }
        self.skip();
    }

    /// The next message cannot be read: those behind it go on.
    fn skip(&mut self) {
        if let Some((_, range, _)) = self.waiting.front_mut() {
            range.start += 1;
            if range.is_empty() {
                self.waiting.pop_front();
            }
        }
    }

    /// These messages are where they were to go.
    pub(crate) fn arrived(&mut self, priority_log: u8, range: &Range<u64>) {
        self.keep_under_way(|of| {
            of.position.priority_log != priority_log || !range.contains(&of.position.index)
        });
    }

    fn keep_under_way(&mut self, keep: impl Fn(&UnderWay) -> bool) {
        let bytes = &mut self.under_way_bytes;
        self.under_way.retain(|of| {
            let stays = keep(of);
            if !stays {
                *bytes -= of.bytes;
            }
            stays
        });
    }

    /// A message did not arrive, and must.
    pub(crate) fn refused(&mut self, now: Now, priority_log: u8, index: u64) {
        let position = Position {
            priority_log,
            index,
        };
        let Some(at) = self.under_way.iter().position(|of| of.position == position) else {
            return;
        };
        if self.later.is_empty() {
            self.retry_at_ms = now.monotonic_ms + DEAD_LETTER_RETRY_MS;
        }
        // It keeps its place among those under way, so that what is tried again is bounded too.
        self.later.push(self.under_way[at]);
    }

    /// Lets what did not arrive go again, if its time has come.
    pub(crate) fn retry(&mut self, now: Now) {
        if self.deadline_ms().is_some_and(|at| at <= now.monotonic_ms) {
            let again = std::mem::take(&mut self.later);
            self.keep_under_way(|one| !again.contains(one));
            for UnderWay {
                position, reason, ..
            } in again.into_iter().rev()
            {
                let range = position.index..position.index + 1;
                self.waiting
                    .push_front((position.priority_log, range, reason));
            }
        }
    }

    /// When [`Self::retry`] is to be called next, on the monotonic clock.
    pub(crate) fn deadline_ms(&self) -> Option<u64> {
        (!self.later.is_empty()).then_some(self.retry_at_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn send_all(letters: &mut DeadLetters) -> Vec<u64> {
        send_all_of(1, letters)
    }

    fn send_all_of(bytes: usize, letters: &mut DeadLetters) -> Vec<u64> {
        let mut sent = Vec::new();
        while let Some((position, _)) = letters.next() {
            letters.sent(bytes);
            sent.push(position.index);
        }
        sent
    }

    #[test]
    fn only_so_many_are_under_way() {
        let max = DEAD_LETTERS_UNDER_WAY_MAX as u64;
        let mut letters = DeadLetters::default();
        letters.push(4, 0..max, Reason::Expired);
        letters.push(4, max..max + 1, Reason::Expired);
        assert_eq!(send_all(&mut letters).len() as u64, max, "all but one");
        letters.arrived(4, &(7..8));
        assert_eq!(send_all(&mut letters), [max]);
    }

    #[test]
    fn only_so_many_bytes_are_under_way_and_one_message_more() {
        let half = DEAD_LETTERS_UNDER_WAY_BYTES_MAX / 2;
        let mut letters = DeadLetters::default();
        letters.push(0, 0..10, Reason::Expired);
        assert_eq!(send_all_of(half + 1, &mut letters), [0, 1]);
        letters.refused(Now::both(10), 0, 0);
        assert_eq!(send_all_of(half, &mut letters), [] as [u64; 0]);
        letters.arrived(0, &(1..2));
        assert_eq!(send_all_of(10 * half, &mut letters), [2], "larger than all");
        letters.arrived(0, &(2..3));
        letters.retry(Now::both(10 + DEAD_LETTER_RETRY_MS));
        assert_eq!(send_all_of(half, &mut letters), [0, 3]);
        letters.arrived(0, &(0..4));
        assert_eq!(letters.under_way_bytes, 0);
    }

    #[test]
    fn what_did_not_arrive_goes_again_after_a_while() {
        let mut letters = DeadLetters::default();
        letters.push(0, 0..3, Reason::Rejected);
        assert_eq!(send_all(&mut letters), [0, 1, 2]);
        letters.refused(Now::both(10), 0, 1);
        letters.arrived(0, &(0..1));
        letters.retry(Now::both(11));
        assert_eq!(send_all(&mut letters), [] as [u64; 0]);
        assert_eq!(letters.deadline_ms(), Some(10 + DEAD_LETTER_RETRY_MS));
        letters.retry(Now::both(10 + DEAD_LETTER_RETRY_MS));
        assert_eq!(send_all(&mut letters), [1]);
        assert_eq!(letters.deadline_ms(), None);
    }

    #[test]
    fn what_cannot_be_read_holds_nobody_up() {
        let mut letters = DeadLetters::default();
        letters.push(0, 0..2, Reason::MaxLength);
        letters.skip();
        assert_eq!(send_all(&mut letters), [1]);
    }
}
