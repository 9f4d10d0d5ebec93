//! What a queue has looked at in its logs, kept until it has decided what becomes of it: a message
//! is read once for the look and its delivery.

use crate::quorum::protocol::Fetched;
use crate::shard::log_of;
use crate::stored;
use leveret_queue::{Meta, Peek, Position};
use leveret_storage::{Read, ShardLogs};
use leveret_types::{Message, QueueId};
use std::collections::VecDeque;

/// Messages that a queue nobody consumes may keep room for.
const IDLE_ROOM: usize = 64;

/// What the queue machine wants to know of a message.
pub(crate) fn meta_of(message: &Message) -> Meta {
    Meta {
        bytes: message.size(),
        published_ms: message.summary.published_ms,
        expiration_ms: message.summary.expiration_ms,
    }
}

/// A message that was looked for.
pub(crate) enum Found {
    /// It is there.
    Message(Message),
    /// It is being read from disk.
    Pending,
    /// It is gone, or cannot be read.
    Never,
}

impl Found {
    /// What is said of it; nothing while it is being read.
    pub(crate) fn fetched(self) -> Option<Fetched> {
        match self {
            Self::Message(message) => Some(Fetched::Message(message)),
            Self::Never => Some(Fetched::Unreadable),
            Self::Pending => None,
        }
    }
}

/// Messages that were looked at, in the order of the looks.
#[derive(Debug, Default)]
pub(crate) struct Peeked(VecDeque<(Position, Message)>);

impl Peeked {
    /// Looks at a message of a queue.
    pub(crate) fn peek(&mut self, logs: &mut ShardLogs, queue: QueueId, at: Position) -> Peek {
        if let Some((last, message)) = self.0.back()
            && *last == at
        {
            return Peek::Ready(meta_of(message));
        }
        match read(logs, queue, at) {
            Found::Message(message) => {
                let meta = meta_of(&message);
                self.0.push_back((at, message));
                Peek::Ready(meta)
            }
            Found::Pending => Peek::Pending,
            Found::Never => Peek::Damaged,
        }
    }

    /// The message at a position, which was looked at or is read now.
    pub(crate) fn find(&mut self, logs: &mut ShardLogs, queue: QueueId, at: Position) -> Found {
        // Deliveries follow in the order of the looks.
        while let Some((first, message)) = self.0.front() {
            if *first == at {
                return Found::Message(message.clone());
            }
            if self.0.iter().all(|(other, _)| *other != at) {
                break;
            }
            self.0.pop_front();
        }
        read(logs, queue, at)
    }

    /// Forgets all; the room for it too, if nobody consumes.
    pub(crate) fn clear(&mut self, is_idle: bool) {
        self.0.clear();
        if is_idle && self.0.capacity() > IDLE_ROOM {
            self.0 = VecDeque::new();
        }
    }
}

/// When the broker took a message, if that can be told without a read.
pub(crate) fn published_ms(logs: &ShardLogs, queue: QueueId, at: Position) -> Option<u64> {
    let bytes = logs.cached(log_of(queue, at.priority_log), at.index)?;
    stored::summary(&bytes).map(|(summary, _)| summary.published_ms)
}

/// A message as a queue's log has it.
pub(crate) fn read(logs: &mut ShardLogs, queue: QueueId, at: Position) -> Found {
    match logs.read(log_of(queue, at.priority_log), at.index) {
        Read::Ready(bytes) => stored::decode(bytes).map_or(Found::Never, Found::Message),
        Read::Pending => Found::Pending,
        Read::Gone | Read::Damaged(_) => Found::Never,
    }
}
