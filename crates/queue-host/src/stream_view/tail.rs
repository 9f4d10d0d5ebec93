//! The end of a stream, where there may be what the stream keeps of its own: offsets that consumers
//! store take offsets of the stream too, and no reader is sent them. They are not ready, and nobody
//! waits for them.

use super::StreamView;
use leveret_stream::{Command, OffsetSpec, RequestId};
use leveret_types::Now;
use leveret_types::limits::VIEW_IDLE_MS;

impl StreamView {
    /// Asks where the stream's last messages are, if all of those may have been given.
    pub(super) fn ask_for_tail(&mut self) {
        if self.backlog() == 0 || self.read_to > self.given {
            return;
        }
        self.tail_asked = self.number().into();
        self.commands.push(Command::ResolveOffset {
            request: RequestId(self.tail_asked),
            stream: self.source,
            offset: OffsetSpec::Last,
        });
    }

    /// The last chunk with messages begins with this offset.
    pub(super) fn hear_tail(&mut self, now: Now, last: u64) {
        if last >= self.given {
            return;
        }
        if (last + 1..=self.given).contains(&self.read_to) {
            // That chunk was read and given. What the stream has said since comes behind.
            self.absent.insert_range(self.given..self.end);
        } else if self.reader.is_none() {
            // After a start it is not known whether all of that chunk was given: it is looked at.
            self.looks_at = Some(last);
            self.wanted_until_ms = now.monotonic_ms + VIEW_IDLE_MS;
        }
    }
}
