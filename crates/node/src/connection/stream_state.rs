//! What a connection keeps of the streams that it publishes to and reads.

use crate::stream_deliveries::Delivered;
use leveret_queue_host::delivery_credit::OutboxShare;
use leveret_queue_host::fixed_map::FixedMap;
use leveret_queue_host::stream_reader::Reader;
use leveret_stream::{BatchBuilder, Command, PublisherId, ReaderId, SharedBatchBuilder};
use leveret_types::{ConsumerId, QueueId};
use std::collections::VecDeque;
use std::sync::Arc;

/// Bytes of a batch that is sent off before the turn ends.
pub(super) const BATCH_BYTES: usize = 256 * 1024;

/// What a connection publishes to one stream.
pub(super) struct Publisher {
    pub(super) id: PublisherId,
    /// Whether the stream knows it: not when it was lost since.
    pub(super) is_declared: bool,
    /// The stream has not taken it.
    pub(super) is_refused: bool,
    /// The number of the last message.
    pub(super) issued: u64,
    /// How many of them the stream has not answered. Answers need not come in the order of the
    /// messages: one that reaches a new leader is refused before the old one has said anything.
    pub(super) unanswered: u64,
    pub(super) batch: BatchBuilder,
    pub(super) batch_bytes: usize,
}

/// Messages that each go to the same several streams: they are converted and kept once for all.
#[derive(Default)]
pub(super) struct FanOut {
    pub(super) streams: Box<[QueueId]>,
    pub(super) batch: SharedBatchBuilder,
    pub(super) batch_bytes: usize,
}

/// What a connection has to do with streams.
#[derive(Default)]
pub(super) struct Streams {
    pub(super) publishers: FixedMap<QueueId, Publisher>,
    pub(super) fan_out: FanOut,
    pub(super) readers: FixedMap<ConsumerId, Reader>,
    /// Where it is counted what consumers of each stream are delivered.
    pub(super) counts: FixedMap<QueueId, Arc<Delivered>>,
    /// Numbers of publishers and readers that were given.
    pub(super) numbers: u32,
    /// What the streams had no room for, in its order: what one publish brings, and no more, as
    /// nothing is carried out behind it.
    pub(super) waiting: VecDeque<Command>,
    /// The connection is over: nothing waits any more.
    pub(super) is_leaving: bool,
    /// Whether a batch of a publisher's own gathers.
    pub(super) gathers: bool,
    /// Consumers may be delivered more: the output is empty, or what they were to be delivered is
    /// to be decompressed in another turn.
    pub(super) is_due: bool,
    /// Bytes that were decompressed in this turn: at most
    /// [`leveret_types::limits::STREAM_UNPACK_TURN_BYTES`].
    pub(super) unpacked_bytes: usize,
    /// What waits to be written, as the node counts it; none for who reads no stream.
    pub(super) outbox: Option<OutboxShare>,
    /// The entry that is being made.
    pub(super) entry: Vec<u8>,
}

impl Streams {
    pub(super) fn number(&mut self) -> u32 {
        self.numbers += 1;
        self.numbers
    }

    pub(super) fn stream_of(&self, publisher: PublisherId) -> Option<QueueId> {
        let mut publishers = self.publishers.iter();
        let found = publishers.find(|(_, known)| known.id == publisher && known.is_declared);
        found.map(|(stream, _)| *stream)
    }

    pub(super) fn consumer_of(&self, reader: ReaderId) -> Option<ConsumerId> {
        let mut readers = self.readers.iter();
        let found = readers.find(|(_, known)| known.id == reader);
        found.map(|(consumer, _)| *consumer)
    }
}
