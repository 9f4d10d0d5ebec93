//! What `x-recent-history` exchanges remember, for queues that are bound later.

use leveret_amqp::{Properties, Property, RawValue};
use leveret_message::has_property;
use leveret_types::Message;
use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

type Exchanges = HashMap<(String, String), VecDeque<Message>>;

/// The last messages of each such exchange, by virtual host and name. In memory: a restart forgets
/// them.
#[derive(Debug, Default)]
pub struct History {
    exchanges: Mutex<Exchanges>,
}

impl History {
    /// Remembers a message unless its publisher asks for the contrary, and forgets the oldest
    /// beyond `length`. The message is copied: history must not pin read buffers.
    pub fn remember(&self, vhost: &str, exchange: &str, length: usize, message: &Message) {
        if is_kept_out(message) {
            return;
        }
        let copy = Message::from_parts(message.parts(), message.summary);
        let mut exchanges = self.lock();
        let history = exchanges
            .entry((vhost.to_owned(), exchange.to_owned()))
            .or_default();
        history.push_back(copy);
        while history.len() > length {
            history.pop_front();
        }
    }

    /// What an exchange remembers, oldest first.
    #[must_use]
    pub fn recall(&self, vhost: &str, exchange: &str) -> Vec<Message> {
        let exchanges = self.lock();
        let history = exchanges.get(&(vhost.to_owned(), exchange.to_owned()));
        history
            .map(|messages| messages.iter().cloned().collect())
            .unwrap_or_default()
    }

    /// The exchange is gone.
    pub fn forget(&self, vhost: &str, exchange: &str) {
        self.lock().remove(&(vhost.to_owned(), exchange.to_owned()));
    }

    fn lock(&self) -> MutexGuard<'_, Exchanges> {
        self.exchanges
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
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
        let bodies: Vec<_> = history
            .recall("/", "recent")
            .iter()
            .map(|m| m.body().to_vec())
            .collect();
        assert_eq!(bodies, [b"b", b"c"]);
        assert!(history.recall("/", "other").is_empty());
        history.forget("/", "recent");
        assert!(history.recall("/", "recent").is_empty());
    }
}
