//! A node's operations on a queue that have no answer yet: numbered, bounded, and who is to hear of
//! them.

use crate::notify::Notify;
use crate::quorum::protocol::Operation;
use leveret_types::limits::{PENDING_OPERATION_BYTES_MAX, PENDING_OPERATIONS_MAX};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// What an operation weighs besides its message.
const OPERATION_BYTES: usize = 64;

/// One operation.
#[derive(Debug)]
pub(super) struct PendingOperation {
    pub(super) operation: Operation,
    pub(super) notify: Notify,
    /// Of the messages that a settle is about: see
    /// [`crate::quorum::protocol::UnsettledRange::acquired`].
    pub(super) acquired: u32,
}

/// The bytes that the pending operations of a shard may be together, and how many they do.
#[derive(Debug)]
pub(crate) struct Budget {
    max: usize,
    bytes: AtomicUsize,
    /// Whether somebody is held back because of it.
    is_awaited: AtomicBool,
}

impl Budget {
    pub fn new(max: usize) -> Arc<Self> {
        Arc::new(Self {
            max,
            bytes: AtomicUsize::new(0),
            is_awaited: AtomicBool::new(false),
        })
    }

    // Who shares it is in one shard: nobody else changes it meanwhile.
    fn change(&self, from: usize, to: usize) {
        let bytes = self.bytes.load(Ordering::Relaxed) - from + to;
        self.bytes.store(bytes, Ordering::Relaxed);
    }

    fn is_full(&self) -> bool {
        self.bytes.load(Ordering::Relaxed) >= self.max
    }

    /// Somebody is held back because it is used up; nothing if it is not.
    pub(super) fn register_waiter(&self) {
        if self.is_full() {
            self.is_awaited.store(true, Ordering::Relaxed);
        }
    }

    /// Whether there is room again for those that were held back; said once.
    pub(crate) fn has_room_again(&self) -> bool {
        self.is_roomy_again() && self.is_awaited.swap(false, Ordering::Relaxed)
    }

    /// The same, not yet said.
    pub(crate) fn is_roomy_again(&self) -> bool {
        self.is_awaited.load(Ordering::Relaxed)
            && self.bytes.load(Ordering::Relaxed) <= self.max / 2
    }
}

/// Operations without an answer, in order.
#[derive(Debug)]
pub(super) struct PendingOperations {
    pending: VecDeque<PendingOperation>,
    /// Number of the first of them.
    first: u64,
    bytes: usize,
    together: Arc<Budget>,
}

impl Drop for PendingOperations {
    fn drop(&mut self) {
        self.together.change(self.bytes, 0);
    }
}

impl PendingOperations {
    pub const fn new(together: Arc<Budget>) -> Self {
        Self {
            pending: VecDeque::new(),
            first: 1,
            bytes: 0,
            together,
        }
    }

    /// What it keeps in `together` with other remote queues.
    pub(super) fn together(&self) -> &Budget {
        &self.together
    }

    fn reweigh(&mut self, from: usize, to: usize) {
        self.bytes = self.bytes - from + to;
        self.together.change(from, to);
    }

    /// Number of the first operation without an answer.
    pub(super) const fn first(&self) -> u64 {
        self.first
    }

    /// Number of the next operation.
    pub(super) fn next(&self) -> u64 {
        self.first + self.pending.len() as u64
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// Whether no more should be put in.
    pub(super) fn is_full(&self) -> bool {
        self.pending.len() >= PENDING_OPERATIONS_MAX
            || self.bytes >= PENDING_OPERATION_BYTES_MAX
            || self.together.is_full()
    }

    /// Whether there is room again for those that were held back.
    pub(super) fn is_roomy(&self) -> bool {
        self.pending.len() <= PENDING_OPERATIONS_MAX / 2
            && self.bytes <= PENDING_OPERATION_BYTES_MAX / 2
    }

    /// Puts an operation in; answers its number.
    pub(super) fn push(&mut self, pending: PendingOperation) -> u64 {
        self.reweigh(0, weight(&pending.operation));
        self.pending.push_back(pending);
        self.next() - 1
    }

    /// The last operation, if it has a number from `from` on.
    pub(super) fn last_from(&mut self, from: u64) -> Option<&mut PendingOperation> {
        if self.next() <= from {
            return None;
        }
        self.pending.back_mut()
    }

    /// The operation with this number.
    pub(super) fn get(&self, number: u64) -> Option<&Operation> {
        let at = usize::try_from(number.checked_sub(self.first)?).ok()?;
        self.pending.get(at).map(|pending| &pending.operation)
    }

    /// The operations with these numbers.
    pub(super) fn range(&self, numbers: Range<u64>) -> impl Iterator<Item = &Operation> {
        let start = usize::try_from(numbers.start - self.first).unwrap_or(usize::MAX);
        let end = usize::try_from(numbers.end - self.first).unwrap_or(usize::MAX);
        self.pending
            .range(start..end)
            .map(|pending| &pending.operation)
    }

    /// The number before which those of `numbers` lie that there is room for.
    pub(super) fn fitting(&self, numbers: Range<u64>, room: impl FnMut(usize) -> bool) -> u64 {
        if numbers.is_empty() {
            return numbers.end;
        }
        let start = numbers.start;
        let weights = self.range(numbers).map(weight);
        start + weights.map(room).take_while(|fits| *fits).count() as u64
    }

    /// All operations.
    pub(super) fn iter(&self) -> impl Iterator<Item = &PendingOperation> {
        self.pending.iter()
    }

    /// Takes out the first operation if its number is not above `through`.
    pub(super) fn pop_through(&mut self, through: u64) -> Option<PendingOperation> {
        if self.first > through {
            return None;
        }
        let pending = self.pending.pop_front()?;
        self.first += 1;
        self.reweigh(weight(&pending.operation), 0);
        if self.pending.is_empty() {
            self.pending.shrink_to(64);
        }
        Some(pending)
    }

    /// Empties the places of publishes that are answered before their turn; tells who is to hear.
    pub(super) fn void(&mut self, numbers: Range<u64>, mut tell: impl FnMut(u64, Notify)) {
        for number in numbers.start.max(self.first)..numbers.end.min(self.next()) {
            let at = usize::try_from(number - self.first).unwrap_or(usize::MAX);
            let Some(pending) = self.pending.get_mut(at) else {
                return;
            };
            if matches!(pending.operation, Operation::Publish(_)) {
                let before = weight(&pending.operation);
                pending.operation = Operation::Nothing;
                tell(
                    number,
                    std::mem::replace(&mut pending.notify, Notify::Nobody),
                );
                self.reweigh(before, weight(&Operation::Nothing));
            }
        }
    }
}

fn weight(operation: &Operation) -> usize {
    OPERATION_BYTES
        + match operation {
            Operation::Publish(message) => message.weight(),
            Operation::Settle(_) | Operation::Nothing => 0,
        }
}

#[cfg(test)]
mod tests {
    use super::*;
    use leveret_types::message::MessageSummary;
    use leveret_types::{Message, MessageParts};

    fn message(bytes: usize) -> Message {
        let parts = MessageParts {
            exchange: b"",
            routing_key: b"q",
            properties: &[0, 0],
            body: &vec![0; bytes],
        };
        Message::from_parts(parts, MessageSummary::default())
    }

    fn nothing() -> PendingOperation {
        PendingOperation {
            operation: Operation::Nothing,
            notify: Notify::Nobody,
            acquired: 0,
        }
    }

    #[test]
    fn remote_queues_share_what_they_may_keep() {
        let together = Budget::new(3 * OPERATION_BYTES);
        let mut a = PendingOperations::new(Arc::clone(&together));
        let mut b = PendingOperations::new(Arc::clone(&together));
        a.push(nothing());
        b.push(nothing());
        assert!(!a.is_full() && !b.is_full(), "one below the bound");
        a.push(nothing());
        assert!(a.is_full() && b.is_full(), "at the bound");
        b.together().register_waiter();
        assert!(!together.has_room_again());
        a.pop_through(1);
        assert!(!together.has_room_again(), "not before half of it is free");
        drop(a);
        assert!(together.has_room_again());
        assert!(!together.has_room_again(), "said once");
        assert!(!b.is_full());
    }

    #[test]
    fn there_is_room_again_when_half_of_it_is_free_of_the_number_and_of_the_bytes() {
        let mut pending_operations = PendingOperations::new(Budget::new(usize::MAX));
        for _ in 0..PENDING_OPERATIONS_MAX {
            assert!(!pending_operations.is_full());
            pending_operations.push(nothing());
        }
        assert!(pending_operations.is_full() && !pending_operations.is_roomy());
        let half = PENDING_OPERATIONS_MAX as u64 / 2;
        (1..half).for_each(|_| drop(pending_operations.pop_through(half)));
        assert!(!pending_operations.is_full() && !pending_operations.is_roomy());
        pending_operations.pop_through(half);
        assert!(pending_operations.is_roomy());
        let publish = || PendingOperation {
            operation: Operation::Publish(message(PENDING_OPERATION_BYTES_MAX / 4)),
            ..nothing()
        };
        let mut pending_operations = PendingOperations::new(Budget::new(usize::MAX));
        for _ in 0..4 {
            assert!(!pending_operations.is_full());
            pending_operations.push(publish());
        }
        assert!(pending_operations.is_full() && !pending_operations.is_roomy());
        (1..=2).for_each(|number| drop(pending_operations.pop_through(number)));
        assert!(
            !pending_operations.is_full() && !pending_operations.is_roomy(),
            "more than half"
        );
        pending_operations.pop_through(3);
        assert!(pending_operations.is_roomy());
    }

    #[test]
    fn a_publish_that_is_answered_before_its_turn_weighs_no_more_than_its_place() {
        let mut pending_operations = PendingOperations::new(Budget::new(usize::MAX));
        for _ in 0..4 {
            pending_operations.push(PendingOperation {
                operation: Operation::Publish(message(PENDING_OPERATION_BYTES_MAX / 4)),
                ..nothing()
            });
        }
        assert!(pending_operations.is_full());
        let mut told = Vec::new();
        pending_operations.void(1..4, |number, _| told.push(number));
        assert_eq!(told, [1, 2, 3]);
        assert!(!pending_operations.is_full() && pending_operations.is_roomy());
    }
}
