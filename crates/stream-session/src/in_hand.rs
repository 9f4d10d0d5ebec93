//! Chunks that have come for the client and that its socket has not taken.
//!
//! The output gets them one by one, as the socket takes them. Where the readers of the node hold
//! much, what a socket does not take within [`STREAM_IN_HAND_MS`] is handed back to the streams:
//! chunks that wait are dropped, and of the one that the client has been sent a part of, the rest.
//! They are read again once the socket takes what the output has left, which is little. So a client
//! that does not read costs next to no memory, whatever it has subscribed to, and is read for again
//! when it reads.
//!
//! Invariant: a frame whose beginning was written is followed by its rest, or by the end of the
//! connection.

mod passing_on;

use leveret_stream::{ChunkHeader, Filter, ReaderId, RequestId, SharedChunk};
use leveret_types::limits::STREAM_IN_HAND_MS;
use leveret_types::{QueueId, ReaderMemory, reader_memory};
use std::collections::VecDeque;

/// What a connection has of its chunks.
#[derive(Debug)]
pub(crate) struct InHand {
    waiting: VecDeque<Waiting>,
    waiting_bytes: usize,
    /// The last chunk that the output shares.
    sent: Option<Sent>,
    /// The one whose rest was handed back.
    rest: Option<Rest>,
    /// Since when the socket could have taken what there is, in monotonic milliseconds.
    since_ms: Option<u64>,
    counted: reader_memory::InHand,
}

/// A chunk that waits until the socket has taken what is before it.
#[derive(Debug)]
struct Waiting {
    reader: ReaderId,
    chunk: SharedChunk,
    committed: u64,
}

/// What a chunk was read for that the output has.
#[derive(Debug)]
struct Sent {
    stream: QueueId,
    subscription_id: u8,
    header: ChunkHeader,
    filter: Option<Filter>,
}

/// The rest of a chunk, to be read again.
#[derive(Debug)]
struct Rest {
    of: Sent,
    /// How many bytes of its data the output has had.
    from: usize,
    /// Under which number it is read, and what asked for it, once it is asked for.
    pending_read: Option<(ReaderId, RequestId)>,
}

impl InHand {
    pub(crate) fn new(memory: ReaderMemory) -> Self {
        Self {
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            sent: None,
            rest: None,
            since_ms: None,
            counted: reader_memory::InHand::new(memory),
        }
    }

    /// Bytes of the chunks that wait for the socket to take others.
    pub(crate) const fn waiting_bytes(&self) -> usize {
        self.waiting_bytes
    }

    /// Whether the rest of a chunk is missing: nothing may be written before it.
    pub(crate) const fn lacks_rest(&self) -> bool {
        self.rest.is_some()
    }

    /// When `Session::hand_back_due` has something to look at.
    pub(crate) fn deadline(&self) -> Option<u64> {
        self.since_ms.map(|since_ms| since_ms + STREAM_IN_HAND_MS)
    }

    /// Whether the client takes nothing at the moment and the node holds much for such ones: then
    /// no more is asked for.
    pub(crate) fn is_pressed(&self) -> bool {
        self.lacks_rest() || !self.waiting.is_empty() && self.is_crowded()
    }

    /// Whether the readers of the node hold much.
    pub(crate) fn is_crowded(&self) -> bool {
        self.counted.memory().is_crowded()
    }

    fn take_waiting(&mut self) -> VecDeque<Waiting> {
        self.waiting_bytes = 0;
        std::mem::take(&mut self.waiting)
    }

    fn pending_read(&self) -> Option<(ReaderId, RequestId)> {
        self.rest.as_ref()?.pending_read
    }

    fn is_rest_reader(&self, reader: ReaderId) -> bool {
        self.pending_read().is_some_and(|(of, _)| of == reader)
    }
}
