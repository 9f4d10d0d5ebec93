//! The ledger of streams, outside the brokers: what each publisher has sent under which publishing
//! id, what was confirmed, and what was read at which offset, at any node and at any time.
//!
//! It holds the brokers to this:
//!
//! - what was confirmed is in the stream, and so is all that was sent again until it was confirmed;
//! - each message is there once, however often it was published, byte for byte as it was sent, and
//!   behind those that its publisher sent before it, of which none is missing;
//! - what was once read at an offset is read there again, from every replica and after every fault.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use super::ledger::{Pauses, body, lock, read_body};
use crate::numbers::Random;

/// Streams of the load.
pub const STREAMS: usize = 2;
/// Publishers, each under a name of its own; publisher `n` writes to stream `n % STREAMS`.
pub const STREAM_PUBLISHERS: usize = 4;
/// Most bodies are shorter than this, so that a whole run fits on a small disk; one of so many is
/// longer than a chunk of others.
const USUAL_BODY_BYTES: u64 = 200;
const LONG_BODY_BYTES: u64 = 60_000;
const ONE_IS_LONG: u64 = 2_000;

/// What is known of one publisher's messages. Its first publishing id is 1.
#[derive(Default)]
struct StreamBook {
    /// The last publishing id that was sent, or at least begun; 0 of none.
    sent: u64,
    /// All up to this one are confirmed.
    confirmed_through: u64,
    /// Confirmed beyond that.
    confirmed: BTreeSet<u64>,
}

/// Where a reader of a stream at one node is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// The offset behind the last message that it has read.
    pub next_offset: u64,
    /// The last publishing id of each publisher.
    last_of: [u64; STREAM_PUBLISHERS],
}

/// Publisher and publishing id of the message at each offset that somebody has read. Some offsets
/// have none: the stream keeps records of its own there.
type Contents = Vec<Option<(u8, u64)>>;

/// The books of all publishers and streams.
pub struct StreamBooks {
    books: [Mutex<StreamBook>; STREAM_PUBLISHERS],
    contents: [Mutex<Contents>; STREAMS],
    /// By node and stream.
    positions: Mutex<HashMap<(usize, usize), Position>>,
    pauses: Mutex<Pauses>,
}

/// Counts over all publishers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamTotals {
    /// Sent, or at least begun.
    pub sent: u64,
    /// Confirmed.
    pub confirmed: u64,
    /// Offsets at which a message was read.
    pub read: u64,
}

impl fmt::Display for StreamTotals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let StreamTotals {
            sent,
            confirmed,
            read,
        } = self;
        match sent {
            0 => Ok(()),
            _ => write!(
                f,
                "; streams: sent {sent}, confirmed {confirmed}, read {read}"
            ),
        }
    }
}

/// A message of a publisher, the same each time.
pub fn stream_body(publisher: usize, id: u64) -> Vec<u8> {
    let mut random = Random::new(id << 8 | publisher as u64);
    let length = match random.between(0, ONE_IS_LONG) {
        0 => LONG_BODY_BYTES,
        _ => random.between(0, USUAL_BODY_BYTES),
    };
    body(publisher, id, length)
}

impl Default for StreamBooks {
    fn default() -> StreamBooks {
        StreamBooks {
            books: Default::default(),
            contents: Default::default(),
            positions: Mutex::default(),
            pauses: Mutex::new(Pauses::begin()),
        }
    }
}

impl StreamBooks {
    fn book(&self, publisher: usize) -> MutexGuard<'_, StreamBook> {
        lock(&self.books[publisher])
    }

    /// The publishing ids of a publisher that may not be stored yet, oldest first: whoever connects
    /// again publishes them again.
    pub fn unconfirmed(&self, publisher: usize) -> Vec<u64> {
        let book = self.book(publisher);
        let ids = book.confirmed_through + 1..=book.sent;
        ids.filter(|id| !book.confirmed.contains(id)).collect()
    }

    /// Notes that so many more messages are about to be sent; their publishing ids.
    pub fn begin(&self, publisher: usize, count: u64) -> std::ops::RangeInclusive<u64> {
        let mut book = self.book(publisher);
        let first = book.sent + 1;
        book.sent += count;
        first..=book.sent
    }

    /// Notes that a message was confirmed.
    pub fn hear_confirm(&self, publisher: usize, id: u64) -> Result<(), String> {
        lock(&self.pauses).hear();
        let mut book = self.book(publisher);
        if id == 0 || id > book.sent {
            return Err(format!(
                "stream publisher {publisher}: {id} was confirmed and never sent"
            ));
        }
        if id > book.confirmed_through {
            book.confirmed.insert(id);
        }
        while book.confirmed.first() == Some(&(book.confirmed_through + 1)) {
            book.confirmed.pop_first();
            book.confirmed_through += 1;
        }
        Ok(())
    }

    /// Holds a message that was read at a node against the books, and moves the reader on.
    pub fn hear_message(
        &self,
        (node, stream): (usize, usize),
        offset: u64,
        bytes: &[u8],
        position: &mut Position,
    ) -> Result<(), String> {
        let at = format!("stream {stream} at node {node}, offset {offset}");
        let next = position.next_offset;
        if offset < next {
            return Err(format!("{at}: came after offset {}", next - 1));
        }
        let Some((publisher, id)) = read_body(bytes) else {
            let length = bytes.len();
            return Err(format!("{at}: {length} bytes that nobody sent"));
        };
        if publisher >= STREAM_PUBLISHERS || publisher % STREAMS != stream {
            return Err(format!("{at}: publisher {publisher} never wrote to it"));
        }
        if id > self.book(publisher).sent {
            return Err(format!("{at}: publisher {publisher} has not sent {id} yet"));
        }
        self.note_content(stream, next, offset, (publisher as u8, id))
            .map_err(|what| format!("{at}: {what}"))?;
        let last = std::mem::replace(&mut position.last_of[publisher], id);
        position.next_offset = offset + 1;
        match last.checked_add(1) {
            Some(wanted) if wanted == id => Ok(()),
            _ => Err(format!("{at}: publisher {publisher}'s {id} follows {last}")),
        }
    }

    /// Notes what was read at an offset, and that nothing was from `next` up to it.
    fn note_content(
        &self,
        stream: usize,
        next: u64,
        offset: u64,
        read: (u8, u64),
    ) -> Result<(), String> {
        let mut contents = lock(&self.contents[stream]);
        let (next, offset) = (next as usize, offset as usize);
        let known = contents.len();
        let passed = contents.get(next..offset.min(known)).unwrap_or_default();
        if let Some((publisher, id)) = passed.iter().flatten().next() {
            return Err(format!(
                "publisher {publisher}'s {id} was read before it, and is missing now"
            ));
        }
        if offset >= known {
            contents.resize(offset, None);
            contents.push(Some(read));
            return Ok(());
        }
        match contents[offset] {
            Some(before) if before == read => Ok(()),
            Some((publisher, id)) => Err(format!(
                "publisher {}'s {} is where publisher {publisher}'s {id} was",
                read.0, read.1
            )),
            None => Err("others read past it and saw nothing".to_owned()),
        }
    }

    /// Where the reader of a stream at a node goes on.
    pub fn position(&self, node: usize, stream: usize) -> Position {
        let positions = lock(&self.positions);
        positions.get(&(node, stream)).cloned().unwrap_or_default()
    }

    /// Keeps it for the next one.
    pub fn keep_position(&self, node: usize, stream: usize, position: Position) {
        lock(&self.positions).insert((node, stream), position);
    }

    /// What a reader has not read yet of what was sent to its stream: of each publisher, how many.
    pub fn missing(&self, stream: usize, position: &Position) -> u64 {
        let publishers = (stream..STREAM_PUBLISHERS).step_by(STREAMS);
        publishers
            .map(|publisher| self.sent(publisher) - position.last_of[publisher])
            .sum()
    }

    /// The offset behind the last message of a stream that somebody has read.
    pub fn read_up_to(&self, stream: usize) -> u64 {
        lock(&self.contents[stream]).len() as u64
    }

    /// The last publishing id of a publisher.
    pub fn sent(&self, publisher: usize) -> u64 {
        self.book(publisher).sent
    }

    /// The longest time without a confirm since this was last asked, up to now.
    pub fn longest_pause(&self) -> Duration {
        lock(&self.pauses).take_longest()
    }

    /// The counts so far.
    pub fn totals(&self) -> StreamTotals {
        let mut totals = StreamTotals::default();
        for publisher in 0..STREAM_PUBLISHERS {
            let book = self.book(publisher);
            totals.sent += book.sent;
            totals.confirmed += book.confirmed_through + book.confirmed.len() as u64;
        }
        for contents in &self.contents {
            totals.read += lock(contents).iter().flatten().count() as u64;
        }
        totals
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Books of publishers 0 and 2, which write to stream 0 and have sent three messages each.
    fn books() -> StreamBooks {
        let books = StreamBooks::default();
        for publisher in [0, 2] {
            assert_eq!(books.begin(publisher, 3), 1..=3);
        }
        books
    }

    /// Reads messages at offsets; what is found wrong.
    fn read(
        books: &StreamBooks,
        position: &mut Position,
        messages: &[(u64, usize, u64)],
    ) -> Vec<String> {
        let read = messages.iter().map(|&(offset, publisher, id)| {
            books.hear_message((1, 0), offset, &stream_body(publisher, id), position)
        });
        read.filter_map(Result::err).collect()
    }

    const ALL: [(u64, usize, u64); 6] = [
        (0, 0, 1),
        (1, 2, 1),
        (2, 2, 2),
        (4, 0, 2),
        (5, 0, 3),
        (6, 2, 3),
    ];

    #[test]
    fn what_every_replica_has_in_the_same_places_is_right() {
        let books = books();
        for _ in 0..2 {
            let mut position = Position::default();
            assert_eq!(books.missing(0, &position), 6);
            assert_eq!(read(&books, &mut position, &ALL), Vec::<String>::new());
            assert_eq!(books.missing(0, &position), 0);
        }
        assert_eq!(books.totals().read, 6);
    }

    #[test]
    fn loss_doubles_disorder_and_inventions_are_found() {
        for (messages, wanted) in [
            (vec![(0, 0, 1), (1, 0, 3)], "publisher 0's 3 follows 1"),
            (vec![(0, 0, 1), (1, 0, 1)], "publisher 0's 1 follows 1"),
            (vec![(0, 0, 2)], "publisher 0's 2 follows 0"),
            (vec![(5, 0, 1), (4, 0, 2)], "came after offset 5"),
            (vec![(0, 0, 4)], "publisher 0 has not sent 4 yet"),
            (vec![(0, 1, 1)], "publisher 1 never wrote to it"),
        ] {
            let found = read(&books(), &mut Position::default(), &messages);
            let found = found.first().expect("something is wrong");
            assert!(found.contains(wanted), "{found}");
        }
    }

    #[test]
    fn a_changed_body_is_nobodys() {
        let mut body = stream_body(0, 1);
        body[0] ^= 1;
        let position = &mut Position::default();
        let found = books().hear_message((0, 0), 0, &body, position);
        let found = found.expect_err("it was changed");
        assert!(found.contains("that nobody sent"), "{found}");
    }

    #[test]
    fn replicas_that_differ_are_found() {
        for (messages, wanted) in [
            (vec![(0, 2, 1)], "is where publisher 0's 1 was"),
            (vec![(0, 0, 1), (2, 2, 1)], "is missing now"),
            (
                vec![(0, 0, 1), (1, 2, 1), (2, 2, 2), (3, 0, 2)],
                "others read past it",
            ),
        ] {
            let books = books();
            assert!(read(&books, &mut Position::default(), &ALL).is_empty());
            let found = read(&books, &mut Position::default(), &messages);
            assert!(found[0].contains(wanted), "{found:?}");
        }
    }

    #[test]
    fn what_is_not_confirmed_is_published_again_and_nothing_else() {
        let books = books();
        for id in [1, 3] {
            assert_eq!(books.hear_confirm(0, id), Ok(()));
        }
        assert_eq!(books.unconfirmed(0), [2]);
        assert_eq!(books.begin(0, 2), 4..=5);
        assert_eq!(books.hear_confirm(0, 2), Ok(()));
        // What was published again may be confirmed again.
        assert_eq!(books.hear_confirm(0, 3), Ok(()));
        assert_eq!(books.unconfirmed(0), [4, 5]);
        assert!(books.hear_confirm(0, 6).is_err(), "never sent");
        assert_eq!(books.totals().confirmed, 3);
    }

    #[test]
    fn a_message_is_the_same_whenever_it_is_made() {
        assert_eq!(stream_body(3, 8), stream_body(3, 8));
        assert_ne!(stream_body(3, 8), stream_body(2, 8));
        let lengths = (1..30_000).map(|id| stream_body(1, id).len() as u64);
        assert!(lengths.max() > Some(LONG_BODY_BYTES), "some are long");
    }
}
