//! The end of a stream, where there may be what the stream keeps of its own: offsets that consumers
//! store take offsets of the stream too, and no reader is sent them. They are not ready, and nobody
//! waits for them.

use super::StreamView;
use leveret_stream::{Command, OffsetSpec, RequestId};

impl StreamView {
    /// Asks where the stream's last messages are, if all of those may have been given.
    pub(super) fn ask_for_tail(&mut self) {
        if self.backlog() == 0 || self.read_to != self.given {
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
    pub(super) fn hear_tail(&mut self, last: u64) {
        // What the stream has said since comes behind this.
        if last < self.given && self.read_to == self.given {
            self.absent.insert_range(self.given..self.end);
        }
    }
}
