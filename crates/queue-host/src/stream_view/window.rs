//! The messages of a view that are at hand: a bounded number ahead of its consumers.

use crate::fixed_map::FixedMap;
use leveret_types::Message;
use leveret_types::limits::{
    VIEW_READY_BYTES_MAX, VIEW_READY_MAX, VIEW_UNSETTLED_BYTES_MAX, VIEW_UNSETTLED_MAX,
};
use std::ops::Range;

/// Messages at hand, by their offsets, and what they weigh together.
#[derive(Default)]
pub(super) struct Window {
    messages: FixedMap<u64, Message>,
    bytes: usize,
}

impl Window {
    pub(super) fn get(&self, offset: u64) -> Option<&Message> {
        self.messages.get(&offset)
    }

    pub(super) fn insert(&mut self, offset: u64, message: Message) {
        self.bytes += message.weight();
        self.messages.insert(offset, message);
    }

    pub(super) fn remove(&mut self, range: Range<u64>) {
        for offset in range {
            if let Some(message) = self.messages.remove(&offset) {
                self.bytes -= message.weight();
            }
        }
    }

    /// Whether one more may be at hand, `held` of them being handed out.
    pub(super) fn has_room(&self, held: u64) -> bool {
        let count = self.messages.len();
        let ready = count.saturating_sub(usize::try_from(held).unwrap_or(usize::MAX));
        // Of their sizes the sum of all is known.
        let ready_bytes = self.bytes / count.max(1) * ready;
        let is_ahead = ready >= VIEW_READY_MAX || ready_bytes >= VIEW_READY_BYTES_MAX;
        let is_full = count >= VIEW_UNSETTLED_MAX || self.bytes >= VIEW_UNSETTLED_BYTES_MAX;
        !is_ahead && !is_full
    }

    /// How many there are.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.messages.len()
    }
}
