//! Chunks of a stream taken apart for an operator who looks at its messages.

use leveret_message::{StreamPosition, delivered, filter_value, unpack};
use leveret_stream::{ChunkKind, EntryValues, Filter, SharedChunk, value_hash};
use leveret_types::Message;
use std::ops::ControlFlow;

/// Messages of a stream as they were found.
#[derive(Debug)]
pub struct Seen {
    /// The offset of the message, or of the first one of those that cannot be told apart.
    pub offset: u64,
    /// When their chunk was made, in milliseconds since the Unix epoch.
    pub timestamp_ms: i64,
    /// The message, as clients of AMQP 0-9-1 get it; or how many there are, and why they cannot be
    /// read here.
    pub content: Result<Message, (u16, String)>,
}

/// Shows the messages of a chunk in their order, those before `from` left out, until `see` breaks:
/// that is the answer. A chunk that cannot have what the filter asks for shows none; of the others
/// those messages are left out whose filter value is another one: their own (the header
/// `x-stream-filter-value`), or else the one that they were published with, if the chunk says it.
pub fn look<B>(
    chunk: &SharedChunk,
    stream: &str,
    from: u64,
    filter: Option<&Filter>,
    mut see: impl FnMut(Seen) -> ControlFlow<B>,
) -> ControlFlow<B> {
    let header = chunk.header();
    let is_wanted = filter.is_none_or(|filter| filter.may_match(chunk.bloom()));
    if header.kind != ChunkKind::User || !is_wanted {
        return ControlFlow::Continue(());
    }
    let timestamp_ms = header.timestamp_ms;
    let mut seen = |offset, content| {
        see(Seen {
            offset,
            timestamp_ms,
            content,
        })
    };
    let values = filter.and_then(|_| EntryValues::of(chunk));
    let message = |offset: u64, entry: &[u8], value: Option<u32>| {
        let is_wanted =
            |message: &Message| filter.is_none_or(|filter| matches(filter, message, value));
        let found = (offset >= from).then(|| delivered(entry, StreamPosition { stream, offset }));
        found.filter(is_wanted)
    };
    let (mut offset, data) = (header.first_offset, chunk.data());
    for (index, entry) in chunk.entries().flatten().enumerate() {
        let value = values.and_then(|values| values.get(index));
        let (at, end) = (offset, offset + u64::from(entry.records));
        offset = end;
        let Some(compression) = entry.sub_batch else {
            if let Some(message) = message(at, entry.body, value) {
                seen(at, Ok(message))?;
            }
            continue;
        };
        match unpack(compression, entry.records, data.slice_ref(entry.body)) {
            Ok(batch) => {
                for (at, body) in (at..).zip(batch) {
                    if let Some(message) = message(at, &body, value) {
                        seen(at, Ok(message))?;
                    }
                }
            }
            Err(error) if end > from => seen(at, Err((entry.records, error.to_string())))?,
            Err(_) => {}
        }
    }
    ControlFlow::Continue(())
}

/// Whether a message is one of those that are asked for, as far as anything is known of it: `value`
/// is the hash of the value that it was published with, none where the chunk does not say.
fn matches(filter: &Filter, message: &Message, value: Option<u32>) -> bool {
    let own = filter_value(message.properties()).filter(|value| !value.is_empty());
    let mut wanted = filter.values.iter();
    match (own, value) {
        (Some(own), _) => wanted.any(|wanted| **wanted == *own),
        (None, Some(0)) => filter.match_unfiltered,
        (None, Some(hash)) => wanted.any(|wanted| value_hash(Some(wanted)) == hash),
        (None, None) => true,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that fails here says enough")]

    use super::*;
    use crate::test_chunks::{self, batch, entry};

    fn message(body: &[u8], filter: Option<&str>) -> Vec<u8> {
        entry(&test_chunks::message(filter, body))
    }

    fn chunk(records: u32, entries: &[Vec<u8>]) -> SharedChunk {
        test_chunks::chunk(10, records, entries)
    }

    fn seen(chunk: &SharedChunk, from: u64, filter: Option<&Filter>, most: usize) -> Vec<String> {
        let mut all = Vec::new();
        let _ = look(chunk, "s", from, filter, |seen| {
            assert_eq!(seen.timestamp_ms, test_chunks::CAME_MS);
            let content = match seen.content {
                Ok(message) => String::from_utf8(message.body().to_vec()).unwrap(),
                Err((count, why)) => format!("{count}: {why}"),
            };
            all.push(format!("{} {content}", seen.offset));
            match all.len() < most {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            }
        });
        all
    }

    #[test]
    fn messages_are_shown_one_by_one_and_what_cannot_be_read_says_why() {
        let inner = [message(b"b", None), message(b"c", None)].concat();
        let entries = [
            message(b"a", None),
            batch(0, 2, &inner),
            batch(4, 30, b"zstd, say"),
            message(b"d", None),
        ];
        let chunk = chunk(34, &entries);
        let unreadable = "13 30: the batch is compressed by a codec that is not supported: 4";
        assert_eq!(
            seen(&chunk, 0, None, 9),
            ["10 a", "11 b", "12 c", unreadable, "43 d"]
        );
        assert_eq!(seen(&chunk, 12, None, 9), ["12 c", unreadable, "43 d"]);
        assert_eq!(seen(&chunk, 42, None, 9), [unreadable, "43 d"]);
        assert_eq!(seen(&chunk, 43, None, 9), ["43 d"]);
        assert_eq!(
            seen(&chunk, 0, None, 2),
            ["10 a", "11 b"],
            "as many as are wanted"
        );
    }

    #[test]
    fn a_message_that_says_another_value_than_is_asked_for_is_left_out() {
        let entries = [
            message(b"a", Some("east")),
            message(b"b", Some("west")),
            message(b"c", None),
        ];
        let chunk = chunk(3, &entries);
        let filter = |match_unfiltered| Filter {
            values: vec!["west".into()],
            match_unfiltered,
            messages: false,
        };
        // A chunk without a filter of its own has no values: what is asked for is not in it.
        assert_eq!(seen(&chunk, 0, Some(&filter(false)), 9), [""; 0]);
        assert_eq!(seen(&chunk, 0, Some(&filter(true)), 9), ["11 b", "12 c"]);
        // As clients of streams publish: the value is beside the message, not in it.
        let values = [Some(&b"west"[..]), Some(b"east"), Some(b"west")];
        let published = test_chunks::with_values(&chunk, &values);
        let shown = seen(&published, 0, Some(&filter(true)), 9);
        assert_eq!(shown, ["11 b", "12 c"], "what a message itself says counts");
        let published = test_chunks::with_values(&chunk, &[None, None, Some(b"east")]);
        assert_eq!(seen(&published, 0, Some(&filter(true)), 9), ["11 b"]);
        let published = test_chunks::with_values(&chunk, &[None; 3]);
        assert_eq!(
            seen(&published, 0, Some(&filter(true)), 9),
            ["11 b", "12 c"]
        );
    }
}
