//! The chunks before one consumer of a stream, taken apart message by message.

use bytes::Bytes;
use leveret_client::Flow;
use leveret_message::{
    StreamPosition, SubBatchError, Unpacked, Unpacking, delivered, filter_value,
};
use leveret_stream::chunk::first_entry;
use leveret_stream::{ChunkKind, EntryValues, Filter, ReaderId, SharedChunk, value_hash};
use leveret_types::limits::STREAM_SUB_BATCH_BYTES_MAX;
use leveret_types::{Message, QueueId};
use std::collections::VecDeque;

/// What each compressed batch costs of the bytes that may be decompressed, whatever comes of it:
/// about what it takes to begin with one.
const BATCH_COST_BYTES: usize = 4 * 1024;

/// The bytes that may be decompressed are spent.
struct Spent;

/// A consumer of a stream.
pub struct Reader {
    /// What its stream knows it by.
    pub id: ReaderId,
    /// The stream.
    pub stream: QueueId,
    name: Box<str>,
    /// Whether the stream has taken it: before that, its refusal is what ends it.
    pub is_subscribed: bool,
    /// The first offset that is delivered.
    first: u64,
    /// Messages that it may still be delivered.
    credit: u64,
    /// Whether each settled message lets it have one more.
    gives_by_settles: bool,
    chunks: VecDeque<SharedChunk>,
    /// What is left of the chunk at hand, and the offset of its next message.
    entries: Bytes,
    offset: u64,
    /// The filter values of the entries of the chunk at hand that are not taken yet, the last one
    /// first; empty where they are not known or not asked for.
    values: Vec<u32>,
    /// The one of the entry at hand.
    value: Option<u32>,
    /// What is left of the batch at hand.
    unpacking: Option<Unpacking>,
    /// Whether a chunk is at hand, for which the stream is owed a credit.
    is_reading: bool,
    /// Chunks that were finished since the stream was told.
    finished: u32,
    /// Which messages are delivered; all of those that come if nothing is said.
    filter: Option<Box<Filter>>,
}

impl Reader {
    /// A consumer that has nothing before it yet: its messages are delivered from the offset
    /// `first` on, as many as its flow allows. `name` is the stream's.
    pub fn new(id: ReaderId, stream: QueueId, name: &str, first: u64, flow: Flow) -> Self {
        let (credit, gives_by_settles) = match flow {
            Flow::Prefetch(messages) => (u64::from(messages), true),
            Flow::Credit(messages) => (u64::from(messages), false),
        };
        Self {
            id,
            stream,
            name: name.into(),
            is_subscribed: false,
            first,
            credit,
            gives_by_settles,
            chunks: VecDeque::new(),
            entries: Bytes::new(),
            offset: 0,
            values: Vec::new(),
            value: None,
            unpacking: None,
            is_reading: false,
            finished: 0,
            filter: None,
        }
    }

    /// From now on only messages are delivered whose filter value is one of these, or that have
    /// none where such match: their own, or else the one that they were published with. The others
    /// cost the consumer nothing.
    pub fn filter_messages(&mut self, filter: Filter) {
        self.filter = Some(Box::new(filter));
    }

    fn passes(&self, message: &Message) -> bool {
        let Some(filter) = &self.filter else {
            return true;
        };
        let own = filter_value(message.properties()).filter(|value| !value.is_empty());
        match (own, self.value) {
            (Some(value), _) => filter.values.iter().any(|wanted| **wanted == *value),
            (None, None | Some(0)) => filter.match_unfiltered,
            (None, Some(hash)) => {
                let mut wanted = filter.values.iter();
                wanted.any(|wanted| value_hash(Some(wanted)) == hash)
            }
        }
    }

    /// A chunk has come.
    pub fn push(&mut self, chunk: SharedChunk) {
        self.chunks.push_back(chunk);
    }

    /// It may be delivered so many more.
    pub fn give(&mut self, messages: u64) {
        self.credit += messages;
    }

    /// Whether all that came was taken.
    pub(crate) fn is_drained(&self) -> bool {
        !self.is_reading && self.chunks.is_empty()
    }

    /// So many messages were settled, whatever became of them.
    pub fn settled(&mut self, messages: u64) {
        if self.gives_by_settles {
            self.give(messages);
        }
    }

    /// Whether [`Self::next`] may have something.
    pub fn may_deliver(&self) -> bool {
        self.credit > 0 && (self.is_reading || !self.chunks.is_empty())
    }

    /// Chunks that were finished since this was asked.
    pub fn take_finished(&mut self) -> u32 {
        std::mem::take(&mut self.finished)
    }

    /// The next message and its offset, if the consumer may have one and it is there. What is
    /// decompressed for it is taken off `budget`, in bytes; where that is spent, there may be more
    /// ([`Self::may_deliver`]), to be asked for in another turn.
    pub fn next(&mut self, budget: &mut usize) -> Option<(u64, Message)> {
        self.next_within(|_| true, budget)
    }

    /// The same, of those messages whose offsets are wanted: the others are passed over, and cost
    /// the consumer nothing. Decompresses three times what one batch may have at most: what is not
    /// delivered has an end, and is read on when somebody asks again.
    pub(crate) fn next_of(&mut self, is_wanted: impl Fn(u64) -> bool) -> Option<(u64, Message)> {
        self.next_within(is_wanted, &mut (3 * STREAM_SUB_BATCH_BYTES_MAX))
    }

    fn next_within(
        &mut self,
        is_wanted: impl Fn(u64) -> bool,
        budget: &mut usize,
    ) -> Option<(u64, Message)> {
        while self.credit > 0 {
            let Some((offset, entry)) = self.next_entry(budget).ok()? else {
                if !self.next_chunk() {
                    return None;
                }
                continue;
            };
            if offset < self.first || !is_wanted(offset) {
                continue;
            }
            let position = StreamPosition {
                stream: &self.name,
                offset,
            };
            let message = delivered(&entry, position);
            if self.passes(&message) {
                self.credit -= 1;
                return Some((offset, message));
            }
        }
        None
    }

    /// Finishes the chunk at hand, and begins with the next one.
    fn next_chunk(&mut self) -> bool {
        if std::mem::take(&mut self.is_reading) {
            self.finished += 1;
            self.entries = Bytes::new();
        }
        let Some(chunk) = self.chunks.pop_front() else {
            return false;
        };
        self.is_reading = true;
        if chunk.header().kind == ChunkKind::User {
            self.entries = chunk.data();
            self.offset = chunk.header().first_offset;
            self.values = match self.filter.as_ref().and_then(|_| EntryValues::of(&chunk)) {
                Some(values) => values.iter().rev().collect(),
                None => Vec::new(),
            };
        }
        true
    }

    /// The next message of the chunk at hand; none behind its last one.
    fn next_entry(&mut self, budget: &mut usize) -> Result<Option<(u64, Bytes)>, Spent> {
        loop {
            if let Some(unpacking) = &mut self.unpacking {
                match unpacking.next(budget) {
                    Ok(Some(Unpacked::Message(message))) => {
                        return Ok(Some((self.take_offset(), message)));
                    }
                    Ok(Some(Unpacked::End)) => self.unpacking = None,
                    Ok(None) => return Err(Spent),
                    Err(error) => {
                        let records = unpacking.left();
                        self.unpacking = None;
                        self.pass_over(records, error);
                    }
                }
                continue;
            }
            // The chunk was checked when it was made or read.
            let Ok(entry) = first_entry(&self.entries) else {
                return Ok(None);
            };
            if entry.sub_batch.is_some_and(|codec| codec != 0) {
                if *budget == 0 {
                    return Err(Spent);
                }
                *budget = budget.saturating_sub(BATCH_COST_BYTES);
            }
            self.value = self.values.pop();
            let (len, records) = (entry.bytes.len(), entry.records);
            let (head, compression) = (len - entry.body.len(), entry.sub_batch);
            let body = self.entries.split_to(len).slice(head..);
            let Some(compression) = compression else {
                return Ok(Some((self.take_offset(), body)));
            };
            match Unpacking::begin(compression, records, body) {
                Ok(unpacking) => self.unpacking = Some(unpacking),
                Err(error) => self.pass_over(records, error),
            }
        }
    }

    /// The offset of the message at hand.
    const fn take_offset(&mut self) -> u64 {
        let offset = self.offset;
        self.offset += 1;
        offset
    }

    /// A batch, or the rest of one, cannot be read: only clients of the stream protocol can, as
    /// with RabbitMQ.
    fn pass_over(&mut self, records: u16, error: SubBatchError) {
        let (name, offset) = (&self.name, self.offset);
        tracing::debug!(
            "stream '{name}': {records} messages from offset {offset} on are not delivered with \
             AMQP 0-9-1: {error}"
        );
        self.offset += u64::from(records);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that fails here says enough")]

    use super::*;
    use crate::test_chunks::{batch, chunk, entry as message, message as valued, with_values};
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use std::io::Write;

    fn read(reader: &mut Reader) -> Vec<(u64, Vec<u8>)> {
        std::iter::from_fn(|| reader.next(&mut { usize::MAX }))
            .map(|(offset, message)| (offset, message.body().to_vec()))
            .collect()
    }

    fn all(from: u64, bodies: &[&str]) -> Vec<(u64, Vec<u8>)> {
        let bodies = bodies.iter().map(|body| body.as_bytes().to_vec());
        (from..).zip(bodies).collect()
    }

    #[test]
    fn credit_is_counted_in_messages_and_chunks_are_told_of_when_finished() {
        let mut reader = Reader::new(ReaderId(1), QueueId(1), "s", 11, Flow::Prefetch(2));
        reader.push(chunk(10, 3, &[message(b"a"), message(b"b"), message(b"c")]));
        reader.push(chunk(13, 2, &[message(b"d"), message(b"e")]));
        assert_eq!(read(&mut reader), all(11, &["b", "c"]));
        assert_eq!((reader.take_finished(), reader.may_deliver()), (0, false));
        reader.give(1);
        assert_eq!(read(&mut reader), all(13, &["d"]));
        assert_eq!(reader.take_finished(), 1);
        reader.give(9);
        assert!(reader.may_deliver());
        assert_eq!(read(&mut reader), all(14, &["e"]));
        assert_eq!((reader.take_finished(), reader.may_deliver()), (1, false));
        reader.push(chunk(15, 1, &[message(b"f")]));
        assert_eq!(read(&mut reader), all(15, &["f"]));
    }

    #[test]
    fn only_messages_that_match_are_delivered_also_out_of_batches() {
        let entries =
            [("red", "a"), ("blue", "b"), ("", "c"), ("red", "d")].map(|(value, body)| {
                let value = Some(value).filter(|value| !value.is_empty());
                message(&valued(value, body.as_bytes()))
            });
        for unfiltered in [false, true] {
            let mut reader = Reader::new(ReaderId(1), QueueId(1), "s", 0, Flow::Prefetch(3));
            reader.filter_messages(Filter {
                values: vec![Bytes::from("red")],
                match_unfiltered: unfiltered,
                messages: true,
            });
            reader.push(chunk(0, 4, &entries));
            reader.push(chunk(4, 4, &[batch(0, 4, &entries.concat())]));
            let mut found = read(&mut reader);
            reader.give(9);
            found.extend(read(&mut reader));
            let expected: &[(u64, &str)] = match unfiltered {
                false => &[(0, "a"), (3, "d"), (4, "a"), (7, "d")],
                true => &[(0, "a"), (2, "c"), (3, "d"), (4, "a"), (6, "c"), (7, "d")],
            };
            let expected = expected
                .iter()
                .map(|(at, body)| (*at, body.as_bytes().to_vec()));
            assert_eq!(found, Vec::from_iter(expected));
            assert_eq!(reader.take_finished(), 2);
        }
    }

    #[test]
    fn a_message_without_a_value_of_its_own_has_that_of_its_publish() {
        let entries = [
            message(b"a"),
            batch(0, 2, &[message(b"b"), message(b"c")].concat()),
            message(b"d"),
            message(&valued(Some("blue"), b"e")),
            message(b"f"),
        ];
        let values = ["red", "red", "blue", "red", ""].map(|value| Some(value.as_bytes()));
        let chunk = chunk(0, 6, &entries);
        let chunk = with_values(&chunk, &values);
        for (unfiltered, expected) in [
            (false, all(0, &["a", "b", "c"])),
            (true, [all(0, &["a", "b", "c"]), all(5, &["f"])].concat()),
        ] {
            let mut reader = Reader::new(ReaderId(1), QueueId(1), "s", 0, Flow::Prefetch(9));
            reader.filter_messages(Filter {
                values: vec![Bytes::from("red")],
                match_unfiltered: unfiltered,
                messages: true,
            });
            reader.push(chunk.clone());
            assert_eq!(read(&mut reader), expected);
        }
    }

    #[test]
    fn batches_are_delivered_message_by_message_and_unreadable_ones_passed_over() {
        let inner = [message(b"x"), message(b"y"), message(b"z")].concat();
        let entries = [
            message(b"a"),
            batch(0, 3, &inner),
            batch(4, 100, b"zstd, say"),
            batch(1, 7, b"no gzip"),
            message(b"b"),
        ];
        let mut reader = Reader::new(ReaderId(1), QueueId(1), "s", 2, Flow::Prefetch(2));
        reader.push(chunk(0, 112, &entries));
        assert_eq!(read(&mut reader), all(2, &["y", "z"]));
        reader.give(5);
        assert_eq!(read(&mut reader), all(111, &["b"]));
        assert_eq!(reader.take_finished(), 1);
    }

    /// A batch of one message of so many octets.
    fn gzipped(octets: usize) -> Vec<u8> {
        let inner = message(&vec![b'a'; octets]);
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(&inner).unwrap();
        batch(1, 1, &encoder.finish().unwrap())
    }

    #[test]
    fn a_turn_decompresses_its_bytes_whatever_comes_of_them_and_the_next_one_goes_on() {
        const TURN: usize = 100_000;
        let octets = 10 * TURN;
        // One that claims more messages than it has, and one that is what it claims.
        let mut short = gzipped(octets);
        short[1..3].copy_from_slice(&2_u16.to_be_bytes());
        let entries = [short, gzipped(octets), message(b"end")];
        let mut reader = Reader::new(ReaderId(1), QueueId(1), "s", 0, Flow::Prefetch(9));
        reader.push(chunk(0, 4, &entries));
        let (mut found, mut turns) = (Vec::new(), 0);
        while reader.may_deliver() {
            let mut budget = TURN;
            while let Some((offset, _)) = reader.next(&mut budget) {
                found.push(offset);
            }
            turns += 1;
        }
        assert_eq!(found, [2, 3]);
        // Both batches have ten turns' bytes and four, and cost a little to begin with. The second
        // one is looked at as a whole, and then taken.
        assert_eq!(turns, 31);
    }

    #[test]
    fn batches_that_fail_at_once_cost_a_turn_their_share() {
        let most = 10;
        let entries: Vec<_> = (0..3 * most).map(|_| batch(1, 1, b"no gzip")).collect();
        let mut reader = Reader::new(ReaderId(1), QueueId(1), "s", 0, Flow::Prefetch(9));
        reader.push(chunk(0, 3 * most as u32, &entries));
        let mut turns = 0;
        while reader.may_deliver() {
            assert!(reader.next(&mut (most * BATCH_COST_BYTES + 1)).is_none());
            turns += 1;
        }
        assert_eq!(turns, 3);
    }

    #[test]
    fn what_a_consumer_takes_no_more_of_is_not_decompressed_and_not_held() {
        let of_each = 200_000;
        let inner: Vec<u8> = (0..80)
            .flat_map(|_| message(&vec![b'a'; of_each]))
            .collect();
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(&inner).unwrap();
        let entry = batch(1, 80, &encoder.finish().unwrap());
        let mut reader = Reader::new(ReaderId(1), QueueId(1), "s", 0, Flow::Prefetch(1));
        reader.push(chunk(0, 80, &[entry]));
        for offset in 0..80 {
            let mut budget = usize::MAX;
            assert_eq!(reader.next(&mut budget).unwrap().0, offset);
            // The first one has the whole batch looked at.
            let cost = usize::MAX - budget;
            assert!(offset == 0 || cost < of_each + 2 * BATCH_COST_BYTES + 32 * 1024);
            assert!(reader.next(&mut budget).is_none());
            let held = reader.unpacking.as_ref().map_or(0, Unpacking::held_bytes);
            assert!(held <= 16 * 1024, "{held} bytes");
            reader.give(1);
        }
    }

    #[test]
    fn a_batch_of_any_size_is_read_in_one_go_for_a_view() {
        let mut reader = Reader::new(ReaderId(1), QueueId(1), "s", 0, Flow::Prefetch(1));
        let entries = [
            batch(1, 1, b"no gzip"),
            gzipped(STREAM_SUB_BATCH_BYTES_MAX - 4),
        ];
        reader.push(chunk(0, 2, &entries));
        assert_eq!(reader.next_of(|_| true).unwrap().0, 1);
    }
}
