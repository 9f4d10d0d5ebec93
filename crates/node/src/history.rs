//! What `x-recent-history` exchanges remember, for queues that are bound later.

use leveret_types::Message;
use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

type Exchanges = HashMap<(String, String), VecDeque<Message>>;

/// The last messages of each such exchange, by virtual host and name. In memory: a restart forgets them.
#[derive(Debug, Default)]
pub struct History {
    exchanges: Mutex<Exchanges>,
}

impl History {
    /// Remembers a message, and forgets the oldest beyond `length`. The message is copied: history must not pin read buffers.
    pub fn remember(&self, vhost: &str, exchange: &str, length: usize, message: &Message) {
        let copy = Message::from_parts(message.parts(), message.facts);
        let mut exchanges = self.lock();
        let history = exchanges.entry((vhost.to_owned(), exchange.to_owned())).or_default();
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
        history.map(|messages| messages.iter().cloned().collect()).unwrap_or_default()
    }

    /// The exchange is gone.
    pub fn forget(&self, vhost: &str, exchange: &str) {
        self.lock().remove(&(vhost.to_owned(), exchange.to_owned()));
    }

    fn lock(&self) -> MutexGuard<'_, Exchanges> {
        self.exchanges.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
