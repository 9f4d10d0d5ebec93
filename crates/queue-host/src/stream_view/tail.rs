//! The end of a stream, where there may be what the stream keeps of its own: offsets that consumers
//! store take offsets of the stream too, and no reader is sent them. They are not ready, and nobody
//! waits for them.

use super::StreamView;
use leveret_stream::{Command, OffsetSpec, RequestId};
use leveret_types::Now;
use leveret_types::limits::VIEW_IDLE_MS;

/// Where the stream ends, as far as it has said.
#[derive(Default)]
pub(super) struct StreamEnd {
    /// The offset after the last one that the stream is known to have.
    pub(super) offset: u64,
    /// Whether the stream has said that since it is read.
    pub(super) is_known: bool,
    /// When the stream is asked again how far it goes, on the monotonic clock.
    pub(super) ask_at_ms: u64,
    /// The number of the question where the stream's last messages are; 0 is none.
    pub(super) tail_request: u64,
}

impl StreamEnd {
    /// The stream has all before this offset.
    pub(super) fn reaches(&mut self, offset: u64) {
        self.offset = self.offset.max(offset);
    }
}

impl StreamView {
    /// Asks where the stream's last messages are, if all of those may have been given.
    pub(super) fn ask_for_tail(&mut self) {
        if self.backlog() == 0 || self.progress.read_to > self.given.end {
            return;
        }
        self.end.tail_request = self.number().into();
        self.commands.push(Command::ResolveOffset {
            request: RequestId(self.end.tail_request),
            stream: self.source,
            offset: OffsetSpec::Last,
        });
    }

    /// The last chunk with messages begins with this offset.
    pub(super) fn hear_tail(&mut self, now: Now, last: u64) {
        if last >= self.given.end {
            return;
        }
        if (last + 1..=self.given.end).contains(&self.progress.read_to) {
            // That chunk was read and given. What the stream has said since comes behind.
            self.missing_offsets.insert(self.given.end..self.end.offset);
        } else if self.reader.is_none() {
            // After a start it is not known whether all of that chunk was given: it is looked at.
            self.progress.reread_from = Some(last);
            self.wanted_until_ms = now.monotonic_ms + VIEW_IDLE_MS;
        }
    }
}
