//! What `x-recent-history` exchanges remember, for queues that are bound later.

use leveret_amqp::{Properties, Property, RawValue};
use leveret_message::has_property;
use leveret_types::limits::{
    RECENT_HISTORY_BYTES_MAX, RECENT_HISTORY_PIECE_BYTES, RECENT_HISTORY_PIECE_MESSAGES,
};
use leveret_types::{Message, QueueId};
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes that a message takes here beside its parts, about.
const MESSAGE_OVERHEAD_BYTES: usize = 128;

/// An exchange: its virtual host and its name.
type Name = (String, String);

/// The last messages of each such exchange, by virtual host and name. In memory: a restart forgets
/// them.
#[derive(Debug)]
pub struct History {
    kept: Mutex<Kept>,
    bytes_max: usize,
}

/// Invariant: `bytes` is what the messages of all exchanges take, and `oldest` has the number of
/// the first message of each.
#[derive(Debug, Default)]
struct Kept {
    /// With the number of each message, which ascend. None is empty.
    exchanges: HashMap<Arc<Name>, VecDeque<(u64, Message)>>,
    oldest: BTreeMap<u64, Arc<Name>>,
    bytes: usize,
    /// The number of the next message.
    next: u64,
    /// Which queues have yet to get more of what an exchange remembers.
    recalls: HashSet<(QueueId, Arc<Name>)>,
}

/// Some of what an exchange remembers.
#[derive(Debug)]
pub struct Piece {
    /// Messages, oldest first.
    pub messages: Vec<Message>,
    /// The numbers of those that follow; empty at the end.
    pub rest: Range<u64>,
}

impl Default for History {
    fn default() -> Self {
        Self::new(RECENT_HISTORY_BYTES_MAX)
    }
}

impl History {
    /// Nothing yet; it will take at most so many bytes.
    #[must_use]
    pub fn new(bytes_max: usize) -> Self {
        let kept = Mutex::default();
        Self { kept, bytes_max }
    }

    /// Remembers a message unless its publisher asks for the contrary, and forgets the oldest
    /// beyond `length`, and of all exchanges the oldest beyond what a node keeps. The message is
    /// copied: history must not pin read buffers.
    pub fn remember(&self, vhost: &str, exchange: &str, length: usize, message: &Message) {
        let bytes = bytes_of(message);
        if is_kept_out(message) || bytes > self.bytes_max || length == 0 {
            return;
        }
        let copy = Message::from_parts(message.parts(), message.summary);
        let name = Arc::new((vhost.to_owned(), exchange.to_owned()));
        let mut kept = self.lock();
        let number = kept.next;
        kept.next += 1;
        kept.bytes += bytes;
        let messages = kept.exchanges.entry(Arc::clone(&name)).or_default();
        messages.push_back((number, copy));
        let (count, is_first) = (messages.len(), messages.len() == 1);
        if is_first {
            kept.oldest.insert(number, Arc::clone(&name));
        }
        for _ in length..count {
            kept.forget_oldest_of(&name);
        }
        while kept.bytes > self.bytes_max
            && let Some(name) = kept.oldest.values().next().cloned()
        {
            kept.forget_oldest_of(&name);
        }
    }

    /// Some of what an exchange remembers: of the messages with these numbers the oldest, as many
    /// as a queue gets at once.
    #[must_use]
    pub fn recall(&self, vhost: &str, exchange: &str, numbers: Range<u64>) -> Piece {
        let kept = self.lock();
        let mut piece = Piece {
            messages: Vec::new(),
            rest: 0..0,
        };
        let name = (vhost.to_owned(), exchange.to_owned());
        let Some(messages) = kept.exchanges.get(&name) else {
            return piece;
        };
        let end = numbers.end.min(kept.next);
        let from = messages.partition_point(|(number, _)| *number < numbers.start);
        let mut bytes = 0;
        for (number, message) in messages.range(from..) {
            if *number >= end {
                break;
            }
            let is_full = piece.messages.len() == RECENT_HISTORY_PIECE_MESSAGES;
            if is_full || bytes >= RECENT_HISTORY_PIECE_BYTES {
                piece.rest = *number..end;
                break;
            }
            bytes += bytes_of(message);
            piece.messages.push(message.clone());
        }
        piece
    }

    /// A queue is to get the rest of what an exchange remembers; false if it is getting it already:
    /// it gets it once.
    pub fn begin(&self, vhost: &str, exchange: &str, queue: QueueId) -> bool {
        let name = Arc::new((vhost.to_owned(), exchange.to_owned()));
        self.lock().recalls.insert((queue, name))
    }

    /// A queue has it.
    pub fn end(&self, vhost: &str, exchange: &str, queue: QueueId) {
        let name = Arc::new((vhost.to_owned(), exchange.to_owned()));
        self.lock().recalls.remove(&(queue, name));
    }

    /// The exchange is gone.
    pub fn forget(&self, vhost: &str, exchange: &str) {
        let mut kept = self.lock();
        if !kept.exchanges.is_empty() {
            kept.forget(&(vhost.to_owned(), exchange.to_owned()));
        }
    }

    /// The virtual host is gone, with all of its exchanges. Those that remember something are
    /// looked at, however many others there were.
    pub fn forget_vhost(&self, vhost: &str) {
        let mut kept = self.lock();
        let names = kept.exchanges.keys();
        let gone: Vec<Arc<Name>> = names.filter(|name| name.0 == vhost).cloned().collect();
        for name in gone {
            kept.forget(&name);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn forget(&mut self, name: &Name) {
        let messages = self.exchanges.remove(name).unwrap_or_default();
        if let Some((number, _)) = messages.front() {
            self.oldest.remove(number);
        }
        let bytes: usize = messages.iter().map(|(_, message)| bytes_of(message)).sum();
        self.bytes -= bytes;
    }

    fn forget_oldest_of(&mut self, name: &Arc<Name>) {
        let Some(messages) = self.exchanges.get_mut(name) else {
            return;
        };
        if let Some((number, message)) = messages.pop_front() {
            self.bytes -= bytes_of(&message);
            self.oldest.remove(&number);
        }
        match messages.front() {
            Some((number, _)) => {
                self.oldest.insert(*number, Arc::clone(name));
            }
            None => {
                self.exchanges.remove(name);
            }
        }
    }
}

/// What a message takes.
const fn bytes_of(message: &Message) -> usize {
    message.weight() + MESSAGE_OVERHEAD_BYTES
}

/// Whether a message says that it is not to be remembered.
fn is_kept_out(message: &Message) -> bool {
    if !has_property(message.properties(), Property::Headers) {
        return false;
    }
    let headers = Properties::trusted(message.properties()).headers;
    headers.and_then(|headers| headers.get(b"x-recent-history-no-store"))
        == Some(RawValue::Bool(true))
}

#[cfg(test)]
mod tests {
    use super::*;
    use leveret_amqp::TableBuilder;
    use leveret_types::message::MessageSummary;
    use leveret_types::{FieldValue, MessageParts};

    fn message(body: &str, no_store: Option<bool>) -> Message {
        let mut headers = TableBuilder::new();
        if let Some(no_store) = no_store {
            headers.push("x-recent-history-no-store", &FieldValue::Bool(no_store));
        }
        let properties = Properties {
            headers: Some(headers.as_table()),
            ..Properties::default()
        };
        let properties = properties.to_bytes();
        let parts = MessageParts {
            exchange: b"recent",
            routing_key: b"",
            properties: &properties,
            body: body.as_bytes(),
        };
        Message::from_parts(parts, MessageSummary::default())
    }

    #[test]
    fn history_keeps_the_newest_and_nothing_that_asks_to_be_kept_out() {
        let history = History::default();
        for (body, no_store) in [
            ("a", None),
            ("b", Some(false)),
            ("out", Some(true)),
            ("c", None),
            ("out", Some(true)),
        ] {
            history.remember("/", "recent", 2, &message(body, no_store));
        }
        assert_eq!(bodies(&history, "recent"), ["b", "c"]);
        assert_eq!(bodies(&history, "other"), [""; 0]);
        history.forget("/", "recent");
        assert_eq!(bodies(&history, "recent"), [""; 0]);
        assert_eq!(history.lock().bytes, 0);
        assert!(history.lock().oldest.is_empty());
    }

    fn bodies(history: &History, exchange: &str) -> Vec<String> {
        let messages = history.recall("/", exchange, 0..u64::MAX).messages;
        let text = |message: &Message| String::from_utf8_lossy(message.body()).into_owned();
        messages.iter().map(text).collect()
    }

    #[test]
    fn all_exchanges_together_keep_so_many_bytes_and_the_oldest_go_first() {
        let one = bytes_of(&message("a1", None));
        let history = History::new(3 * one);
        for (exchange, body) in [("a", "a1"), ("b", "b1"), ("a", "a2")] {
            history.remember("/", exchange, 10, &message(body, None));
        }
        assert_eq!(bodies(&history, "a"), ["a1", "a2"]);
        history.remember("/", "b", 10, &message("b2", None));
        assert_eq!(bodies(&history, "a"), ["a2"]);
        assert_eq!(bodies(&history, "b"), ["b1", "b2"]);
        history.remember("/", "c", 10, &message("c1", None));
        history.remember("/", "c", 10, &message("c2", None));
        assert_eq!(bodies(&history, "a"), [""; 0]);
        assert_eq!(bodies(&history, "b"), ["b2"]);
        // One that alone is more drives none out.
        history.remember("/", "c", 10, &message(&"x".repeat(3 * one), None));
        assert_eq!(bodies(&history, "c"), ["c1", "c2"]);
        assert_eq!(history.lock().bytes, 3 * one);
        assert_eq!(history.lock().exchanges.len(), 2, "an empty one is none");
    }

    #[test]
    fn a_virtual_host_that_goes_takes_what_its_exchanges_remember_and_no_more() {
        let history = History::default();
        for (vhost, exchange) in [("gone", "a"), ("/", "a"), ("gone", "b"), ("/", "b")] {
            history.remember(vhost, exchange, 10, &message(exchange, None));
        }
        history.forget_vhost("gone");
        for exchange in ["a", "b"] {
            let gone = history.recall("gone", exchange, 0..u64::MAX);
            assert_eq!(gone.messages.len(), 0);
            assert_eq!(bodies(&history, exchange), [exchange]);
        }
        let left = 2 * bytes_of(&message("a", None));
        assert_eq!(history.lock().bytes, left);
        assert_eq!(history.lock().oldest.len(), 2);
    }

    /// While a queue is bound everybody waits: it gets what is remembered in pieces, and each once.
    #[test]
    fn what_is_remembered_is_recalled_in_pieces() {
        let history = History::default();
        let many = 2 * RECENT_HISTORY_PIECE_MESSAGES + 1;
        for number in 0..many {
            history.remember("/", "a", many, &message(&number.to_string(), None));
            history.remember("/", "b", many, &message("other", None));
        }
        let (mut numbers, mut all, mut pieces) = (0..u64::MAX, Vec::new(), 0);
        while !numbers.is_empty() {
            let piece = history.recall("/", "a", numbers);
            assert!(piece.messages.len() <= RECENT_HISTORY_PIECE_MESSAGES);
            all.extend(piece.messages.iter().map(|message| message.body().to_vec()));
            numbers = piece.rest;
            pieces += 1;
            // What is published meanwhile has gone to the queue by its binding.
            history.remember("/", "a", 2 * many, &message("later", None));
        }
        assert_eq!(pieces, 3);
        let expected: Vec<_> = (0..many).map(|n| n.to_string().into_bytes()).collect();
        assert_eq!(all, expected);
        let large = "x".repeat(RECENT_HISTORY_PIECE_BYTES / 2);
        for _ in 0..5 {
            history.remember("/", "large", 10, &message(&large, None));
        }
        let piece = history.recall("/", "large", 0..u64::MAX);
        assert_eq!(piece.messages.len(), 2);
        assert!(history.begin("/", "a", QueueId(1)));
        assert!(!history.begin("/", "a", QueueId(1)));
        assert!(history.begin("/", "b", QueueId(1)));
        history.end("/", "a", QueueId(1));
        assert!(history.begin("/", "a", QueueId(1)));
    }
}
