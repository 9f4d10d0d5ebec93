//! What one consumer of a stream has before it: chunks, taken apart message by message.

use bytes::Bytes;
use leveret_client::Flow;
use leveret_message::{Place, SubBatch, delivered, filter_value, unpack};
use leveret_stream::chunk::first_entry;
use leveret_stream::{ChunkKind, EntryValues, Filter, ReaderId, SharedChunk, value_hash};
use leveret_types::{Message, QueueId};
use std::collections::VecDeque;

/// A consumer of a stream.
pub(crate) struct Reader {
    pub(crate) id: ReaderId,
    pub(crate) stream: QueueId,
    name: Box<str>,
    /// Whether the stream has taken it: before that, its refusal is what ends it.
    pub(crate) is_subscribed: bool,
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
    batch: Option<SubBatch>,
    /// Whether a chunk is at hand, for which the stream is owed a credit.
    is_reading: bool,
    /// Chunks that were finished since the stream was told.
    finished: u32,
    /// Which messages are delivered; all of those that come if nothing is said.
    filter: Option<Box<Filter>>,
}

impl Reader {
    pub(crate) fn new(id: ReaderId, stream: QueueId, name: &str, first: u64, flow: Flow) -> Self {
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
            batch: None,
            is_reading: false,
            finished: 0,
            filter: None,
        }
    }

    /// From now on only messages are delivered whose filter value is one of these, or that have
    /// none where such match: their own, or else the one that they were published with. The others
    /// cost the consumer nothing.
    pub(crate) fn filter_messages(&mut self, filter: Filter) {
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
    pub(crate) fn push(&mut self, chunk: SharedChunk) {
        self.chunks.push_back(chunk);
    }

    /// It may be delivered so many more.
    pub(crate) fn give(&mut self, messages: u64) {
        self.credit += messages;
    }

    /// Whether all that came was taken.
    pub(crate) fn is_drained(&self) -> bool {
        !self.is_reading && self.chunks.is_empty()
    }

    /// So many messages were settled, whatever became of them.
    pub(crate) fn settled(&mut self, messages: u64) {
        if self.gives_by_settles {
            self.give(messages);
        }
    }

    /// Whether [`Self::next`] may have something.
    pub(crate) fn may_deliver(&self) -> bool {
        self.credit > 0 && (self.is_reading || !self.chunks.is_empty())
    }

    /// Chunks that were finished since this was asked.
    pub(crate) fn take_finished(&mut self) -> u32 {
        std::mem::take(&mut self.finished)
    }

    /// The next message and its offset, if the consumer may have one and it is there.
    pub(crate) fn next(&mut self) -> Option<(u64, Message)> {
        self.next_of(|_| true)
    }

    /// The same, of those messages whose offsets are wanted: the others are passed over, and cost
    /// the consumer nothing.
    pub(crate) fn next_of(&mut self, is_wanted: impl Fn(u64) -> bool) -> Option<(u64, Message)> {
        while self.credit > 0 {
            let Some((offset, entry)) = self.next_entry() else {
                if !self.next_chunk() {
                    return None;
                }
                continue;
            };
            if offset < self.first || !is_wanted(offset) {
                continue;
            }
            let place = Place {
                stream: &self.name,
                offset,
            };
            let message = delivered(&entry, place);
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

    /// The next message of the chunk at hand.
    fn next_entry(&mut self) -> Option<(u64, Bytes)> {
        loop {
            if let Some(batch) = &mut self.batch {
                if let Some(message) = batch.next() {
                    let offset = self.offset;
                    self.offset += 1;
                    return Some((offset, message));
                }
                self.batch = None;
            }
            // The chunk was checked when it was made or read.
            let entry = first_entry(&self.entries).ok()?;
            self.value = self.values.pop();
            let (len, records) = (entry.bytes.len(), entry.records);
            let (head, compression) = (len - entry.body.len(), entry.sub_batch);
            let body = self.entries.split_to(len).slice(head..);
            let Some(compression) = compression else {
                let offset = self.offset;
                self.offset += 1;
                return Some((offset, body));
            };
            match unpack(compression, records, body) {
                Ok(batch) => self.batch = Some(batch),
                // As RabbitMQ does: only clients of the stream protocol can read it.
                Err(error) => {
                    let (name, offset) = (&self.name, self.offset);
                    tracing::debug!(
                        "stream '{name}': {records} messages from offset {offset} on are not \
                         delivered with AMQP 0-9-1: {error}"
                    );
                    self.offset += u64::from(records);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that fails here says enough")]

    use super::*;
    use crate::test_chunks::{batch, chunk, entry as message, message as valued, with_values};

    fn read(reader: &mut Reader) -> Vec<(u64, Vec<u8>)> {
        std::iter::from_fn(|| reader.next())
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
}
