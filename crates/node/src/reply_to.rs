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

/// Who waits for replies under which name, and in which virtual host. A name holds 128 random bits,
/// so that only who was given it can reply.
#[derive(Debug, Default)]
pub struct Replies {
    // Locked for the time of one look: registering and replying are rare beside publishing to
    // queues.
    consumers: Mutex<Waiting>,
}

type Waiting = HashMap<[u8; 16], Waits, foldhash::fast::RandomState>;

/// A consumer that waits for replies.
#[derive(Debug)]
struct Waits {
    vhost: Box<str>,
    connection: ConnectionId,
    consumer: ConsumerId,
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
    /// Registers a consumer in a virtual host under a name of its own.
    pub fn register(
        &self,
        vhost: &str,
        connection: ConnectionId,
        consumer: ConsumerId,
        random: [u8; 16],
    ) -> Token {
        let waits = Waits {
            vhost: vhost.into(),
            connection,
            consumer,
        };
        self.lock().insert(random, waits);
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

    /// Who waits under this name in this virtual host.
    #[must_use]
    pub fn find(&self, vhost: &str, name: &[u8]) -> Option<(ConnectionId, ConsumerId)> {
        let digits = name.strip_prefix(PREFIX)?;
        let mut bytes = [0; 16];
        if digits.len() != 2 * bytes.len() {
            return None;
        }
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
        }
        let consumers = self.lock();
        let waits = consumers.get(&bytes).filter(|w| *w.vhost == *vhost)?;
        Some((waits.connection, waits.consumer))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Waiting> {
        self.consumers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_finds_its_consumer_by_its_name_and_in_its_virtual_host() {
        let replies = Replies::default();
        let (connection, consumer) = (ConnectionId(7), ConsumerId(9));
        let token = replies.register("v", connection, consumer, [0xAB; 16]);
        let found = replies.find("v", token.name());
        assert_eq!(found, Some((connection, consumer)));
        assert_eq!(replies.find("w", token.name()), None);
        let mut other = token.name().to_vec();
        other.pop();
        assert_eq!(replies.find("v", &other), None);
        other.push(b'0');
        assert_eq!(replies.find("v", &other), None);
        assert_eq!(replies.find("v", b"amq.rabbitmq.reply-to.zz"), None);
        replies.forget(&token);
        assert_eq!(replies.find("v", token.name()), None);
    }
}
