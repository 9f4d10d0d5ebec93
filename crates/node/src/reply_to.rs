//! Direct reply-to: replies that go from connection to connection and never see a queue.

use hashbrown::HashMap;
use leveret_types::{ConnectionId, ConsumerId, QueueId};
use std::sync::{Mutex, PoisonError};

/// The pseudo-queue that a client consumes from, and names in `reply-to`.
pub const PSEUDO_QUEUE: &str = "amq.rabbitmq.reply-to";
/// What a name begins with that leads to one consumer of it.
pub const PREFIX: &[u8] = b"amq.rabbitmq.reply-to.";
/// The queue that deliveries of replies name, which come from none: the ids of queues start at 1.
pub const NO_QUEUE: QueueId = QueueId(0);

/// Whether a name is the pseudo-queue's, or leads to a consumer of it.
#[must_use]
pub fn is_name(name: &str) -> bool {
    name == PSEUDO_QUEUE || name.as_bytes().starts_with(PREFIX)
}

/// Who waits for replies under which name. A name holds 128 random bits, so that only who was given
/// it can reply.
#[derive(Debug, Default)]
pub struct Replies {
    // Locked for the time of one look: registering and replying are rare beside publishing to
    // queues.
    consumers: Mutex<HashMap<[u8; 16], (ConnectionId, ConsumerId), foldhash::fast::RandomState>>,
}

/// A name under which a consumer waits for replies.
#[derive(Clone, Debug)]
pub struct Token {
    bytes: [u8; 16],
    name: Box<[u8]>,
}

impl Token {
    /// The name that takes the place of the pseudo-queue in `reply-to`.
    #[must_use]
    pub fn name(&self) -> &[u8] {
        &self.name
    }
}

impl Replies {
    /// Registers a consumer under a name of its own.
    pub fn register(
        &self,
        connection: ConnectionId,
        consumer: ConsumerId,
        random: [u8; 16],
    ) -> Token {
        self.lock().insert(random, (connection, consumer));
        let mut name = PREFIX.to_vec();
        for byte in random {
            name.extend_from_slice(format!("{byte:02x}").as_bytes());
        }
        Token {
            bytes: random,
            name: name.into(),
        }
    }

    /// The consumer is gone.
    pub fn forget(&self, token: &Token) {
        self.lock().remove(&token.bytes);
    }

    /// Who waits under this name.
    #[must_use]
    pub fn find(&self, name: &[u8]) -> Option<(ConnectionId, ConsumerId)> {
        let digits = name.strip_prefix(PREFIX)?;
        let mut bytes = [0; 16];
        if digits.len() != 2 * bytes.len() {
            return None;
        }
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
        }
        self.lock().get(&bytes).copied()
    }

    fn lock(
        &self,
    ) -> std::sync::MutexGuard<
        '_,
        HashMap<[u8; 16], (ConnectionId, ConsumerId), foldhash::fast::RandomState>,
    > {
        self.consumers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_finds_its_consumer_by_the_name_alone_and_no_other_name_does() {
        let replies = Replies::default();
        let (connection, consumer) = (ConnectionId(7), ConsumerId(9));
        let token = replies.register(connection, consumer, [0xAB; 16]);
        assert_eq!(replies.find(token.name()), Some((connection, consumer)));
        let mut other = token.name().to_vec();
        other.pop();
        assert_eq!(replies.find(&other), None);
        other.push(b'0');
        assert_eq!(replies.find(&other), None);
        assert_eq!(replies.find(b"amq.rabbitmq.reply-to.zz"), None);
        replies.forget(&token);
        assert_eq!(replies.find(token.name()), None);
    }
}
