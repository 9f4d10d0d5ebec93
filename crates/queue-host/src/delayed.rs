//! Delayed messages: what was published to an `x-delayed-message` exchange and is not due yet.
//!
//! They lie in one log of the storage engine, in the order in which they came, so that they survive
//! a restart like any message. What is kept in memory is when each is due: 24 bytes a message.
//! After a restart that is read out of the messages themselves, a part at a time, while the node
//! serves already.

use crate::effects::Deferred;
use crate::stored;
use bytes::Bytes;
use leveret_amqp::{Properties, Property, RawValue};
use leveret_storage::{Durability, LogKind, Read, ShardLogs};
use leveret_types::limits::{DELAY_MS_MAX, DELAYED_RETRY_MS_MAX, DELAYED_RETRY_MS_MIN};
use leveret_types::{FieldValue, LogId, Message, Now, RangeSet, ShardId};
use std::collections::BTreeMap;

/// The shard that keeps delayed messages.
pub const SHARD: ShardId = ShardId(0);
/// Their log. No queue has it: their ids start at 1, and a log's id is 256 times that.
pub const LOG: LogId = LogId(1);
/// Messages whose due time is read after a restart before anything else gets its turn.
const SCAN_MESSAGES: usize = 1_000;
/// Messages that are due and let go before anything else gets its turn.
const RELEASED_AT_ONCE: usize = 1_000;

/// Delayed messages, by when they are due.
#[derive(Debug, Default)]
pub struct Delayed {
    due: BTreeMap<(u64, u64), u32>,
    /// Indexes whose due time has not been read since the restart.
    unread: RangeSet,
    created: bool,
}

/// How long the `x-delay` header asks for; nothing if there is none, or it is not in the future.
#[must_use]
pub fn delay_of(properties: &[u8]) -> Option<u64> {
    if !leveret_message::has_property(properties, Property::Headers) {
        return None;
    }
    let value = Properties::trusted(properties).headers?.get(b"x-delay")?;
    let delay = match value {
        RawValue::LongString(text) => std::str::from_utf8(text).ok()?.trim().parse().ok()?,
        RawValue::F32(value) => value as i64,
        RawValue::F64(value) => value as i64,
        other => other.as_integer()?,
    };
    u64::try_from(delay)
        .ok()
        .filter(|delay| *delay > 0)
        .map(|delay| delay.min(DELAY_MS_MAX))
}

/// A delayed message is being read from disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BeingRead;

impl Delayed {
    /// What the storage engine has of earlier runs.
    #[must_use]
    pub fn recover(logs: &ShardLogs) -> Self {
        let created = logs.has_log(LOG);
        let unread = if created {
            logs.live(LOG)
        } else {
            RangeSet::new()
        };
        Self {
            due: BTreeMap::new(),
            unread,
            created,
        }
    }

    /// How many messages are kept back.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.due.len() as u64 + self.unread.len()
    }

    /// Whether none is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn add(
        &mut self,
        logs: &mut ShardLogs,
        vhost: &str,
        message: &Message,
        due_ms: u64,
    ) {
        if !self.created {
            logs.create_log(LOG, LogKind::Durable);
            self.created = true;
        }
        let durability = if message.summary.persistent {
            Durability::Durable
        } else {
            Durability::Volatile
        };
        let header = stored::header(message);
        let parts = message.parts();
        let due = due_ms.to_le_bytes();
        let vhost_len = (vhost.len() as u32).to_le_bytes();
        let pieces = [
            &due[..],
            &vhost_len[..],
            vhost.as_bytes(),
            &header[..],
            parts.exchange,
            parts.routing_key,
            parts.properties,
            parts.body,
        ];
        let body = logs.body(durability, &pieces);
        let index = logs.append(LOG, body, message.size());
        self.due.insert((due_ms, index), message.size());
    }

    /// The first of the messages that are kept back, from one of them on, by when they are due:
    /// that moment in wall-clock milliseconds, and the index. One whose due time has not been read
    /// since a restart is not among them.
    #[must_use]
    pub fn first(&self, from: (u64, u64), count: usize) -> Vec<(u64, u64)> {
        let due = self.due.range(from..).take(count);
        due.map(|(which, _)| *which).collect()
    }

    /// One of them, with its virtual host; none if it is not kept back any more, or cannot be read.
    ///
    /// # Errors
    /// It is being read from disk: ask again.
    pub fn show(
        &self,
        logs: &mut ShardLogs,
        (due_ms, index): (u64, u64),
    ) -> Result<Option<(String, Message)>, BeingRead> {
        if !self.due.contains_key(&(due_ms, index)) {
            return Ok(None);
        }
        match logs.read(LOG, index) {
            Read::Ready(bytes) => Ok(decode(&bytes).map(|(_, vhost, message)| (vhost, message))),
            Read::Pending => Err(BeingRead),
            Read::Gone | Read::Damaged(_) => Ok(None),
        }
    }

    /// Drops one of them: it never reaches a queue. Whether it was there.
    pub fn cancel(&mut self, logs: &mut ShardLogs, (due_ms, index): (u64, u64)) -> bool {
        let Some(bytes) = self.due.remove(&(due_ms, index)) else {
            return false;
        };
        logs.settle(LOG, index..index + 1, u64::from(bytes));
        true
    }

    /// When [`Self::release`] is to be called next, in wall-clock milliseconds.
    #[must_use]
    pub fn next_due_ms(&self) -> Option<u64> {
        if !self.unread.is_empty() {
            return Some(0);
        }
        self.due.first_key_value().map(|((due, _), _)| *due)
    }

    /// Lets go what is due, and reads on in what a restart has left: some of it, and
    /// [`Self::next_due_ms`] says whether there is more.
    pub fn release(&mut self, now: Now, logs: &mut ShardLogs, out: &mut Vec<Deferred>) {
        self.scan(logs);
        for _ in 0..RELEASED_AT_ONCE {
            let Some((&(due, index), _)) = self.due.first_key_value() else {
                return;
            };
            if due > now.wall_ms {
                return;
            }
            let bytes = match logs.read(LOG, index) {
                Read::Ready(bytes) => bytes,
                Read::Pending => return,
                Read::Gone | Read::Damaged(_) => {
                    tracing::error!(index, "a delayed message cannot be read; it is set aside");
                    self.due.remove(&(due, index));
                    continue;
                }
            };
            self.due.remove(&(due, index));
            match decode(&bytes) {
                Some((due, vhost, message)) => out.push(Deferred::Publish {
                    vhost,
                    message,
                    delayed: Some((due, index)),
                }),
                None => tracing::error!(
                    index,
                    "a record of the delayed messages cannot be decoded; it stays in the log and is \
                     not published"
                ),
            }
        }
    }

    /// One that was let go could not reach its queues yet: it is due again after a pause, which
    /// grows with how late it is.
    pub(crate) fn put_back(&mut self, now: Now, (due_ms, index): (u64, u64), bytes: u32) {
        let late_ms = now.wall_ms.saturating_sub(due_ms);
        let pause_ms = (late_ms / 2).clamp(DELAYED_RETRY_MS_MIN, DELAYED_RETRY_MS_MAX);
        self.due.insert((now.wall_ms + pause_ms, index), bytes);
    }

    fn scan(&mut self, logs: &mut ShardLogs) {
        for _ in 0..SCAN_MESSAGES {
            let Some(index) = self.unread.first() else {
                return;
            };
            match logs.read(LOG, index) {
                Read::Pending => return,
                Read::Ready(bytes) => {
                    if let Some((due, _, message)) = decode(&bytes) {
                        self.due.insert((due, index), message.size());
                    }
                }
                Read::Gone | Read::Damaged(_) => {}
            }
            self.unread.remove(index);
        }
    }
}

fn decode(bytes: &Bytes) -> Option<(u64, String, Message)> {
    let due = u64::from_le_bytes(*bytes.first_chunk::<8>()?);
    let len = u32::from_le_bytes(*bytes.get(8..)?.first_chunk::<4>()?) as usize;
    let vhost = std::str::from_utf8(bytes.get(12..12_usize.checked_add(len)?)?)
        .ok()?
        .to_owned();
    let message = stored::decode(bytes.slice(12 + len..))?;
    Some((due, vhost, message))
}

/// What recipients see of a delayed message: the delay, negated, says that it is over.
#[must_use]
pub fn released(message: &Message) -> Message {
    let mut properties = Properties::trusted(message.properties());
    let Some(headers) = properties.headers else {
        return message.clone();
    };
    let Some(over) = headers.get(b"x-delay").and_then(negated) else {
        return message.clone();
    };
    let mut table = leveret_amqp::TableBuilder::copy_of(headers, &["x-delay"]);
    table.push("x-delay", &over);
    properties.headers = Some(table.as_table());
    leveret_message::with_properties(message, &properties)
}

/// A delay, negated in its own type. Clients test what type that is; only one that has no sign
/// becomes one that has.
fn negated(delay: RawValue<'_>) -> Option<FieldValue> {
    Some(match delay {
        RawValue::I8(delay) => FieldValue::I8(delay.saturating_neg()),
        RawValue::I16(delay) => FieldValue::I16(delay.saturating_neg()),
        RawValue::I32(delay) => FieldValue::I32(delay.saturating_neg()),
        RawValue::F32(delay) => FieldValue::F32(-delay),
        RawValue::F64(delay) => FieldValue::F64(-delay),
        other => FieldValue::I64(other.as_integer()?.saturating_neg()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delay_that_is_over_is_negated_in_the_type_that_was_sent() {
        let cases = [
            (RawValue::I8(5), Some(FieldValue::I8(-5))),
            (RawValue::I16(500), Some(FieldValue::I16(-500))),
            (RawValue::I32(70_000), Some(FieldValue::I32(-70_000))),
            (RawValue::I64(1 << 40), Some(FieldValue::I64(-(1 << 40)))),
            (RawValue::F64(1.5), Some(FieldValue::F64(-1.5))),
            (RawValue::U16(500), Some(FieldValue::I64(-500))),
            (RawValue::LongString(b"500"), None),
        ];
        for (sent, seen) in cases {
            assert_eq!(negated(sent), seen, "{sent:?}");
        }
    }

    #[test]
    fn what_is_put_back_is_due_after_pauses_that_grow_with_how_late_it_is() {
        let mut delayed = Delayed::default();
        for (late_ms, pause_ms) in [
            (0, DELAYED_RETRY_MS_MIN),
            (2 * DELAYED_RETRY_MS_MIN + 2, DELAYED_RETRY_MS_MIN + 1),
            (2 * DELAYED_RETRY_MS_MAX + 2, DELAYED_RETRY_MS_MAX),
        ] {
            let now = Now {
                monotonic_ms: 7,
                wall_ms: 1_000 + late_ms,
            };
            delayed.put_back(now, (1_000, 3), 10);
            assert_eq!(delayed.next_due_ms(), Some(now.wall_ms + pause_ms));
            assert_eq!(delayed.len(), 1);
            delayed.due.clear();
        }
    }
}
