//! Messages that clients hold, looked at where they are, and who holds them.

use super::Admin;
use super::moves::{fingerprint, refused};
use super::operations::READ_WAIT;
use crate::serve::messages;
use leveret_client::{UnsettledDelivery, UnsettledPosition};
use leveret_cluster::Env as _;
use leveret_management::api::{Actor, HeldAt, HeldLook, Holder, LookedAt, UnsettledMessage};
use leveret_node::Holding;
use leveret_queue_host::quorum::protocol::Fetched;
use leveret_shell::node::holding_connections;
use leveret_types::limits::{QUEUE_PEEK_BYTES, QUEUE_PEEK_CONSUMERS_MAX};
use leveret_types::{ConsumerId, Message, Now, ProtocolError, QueueId};
use std::time::Instant;

/// A moment of the monotonic clock as milliseconds since the Unix epoch: one that was rounded up
/// may lie ahead.
const fn wall_ms(monotonic_ms: u64, now: Now) -> u64 {
    let age_ms = now.monotonic_ms.saturating_sub(monotonic_ms);
    now.wall_ms.saturating_sub(age_ms)
}

fn looked_at(message: &Message) -> LookedAt {
    LookedAt {
        fingerprint: fingerprint(message),
        taken_ms: message.summary.published_ms,
        message: messages::to_operator(message, false, 0),
    }
}

/// A held message as an operator is told who holds it.
fn holder(of: &Holding, held: &UnsettledDelivery, consumer_tag: Option<&str>, now: Now) -> Holder {
    let place = held.place;
    Holder {
        at: HeldAt(place.subscription.0, place.priority_log, place.index),
        connection: of.connection.clone(),
        user: of.user.clone(),
        channel: held.channel.0,
        consumer_tag: consumer_tag.map(str::to_owned),
        delivery_tag: held.tag,
        redelivered: held.redelivered,
        since_ms: wall_ms(held.since_ms, now),
    }
}

impl Admin {
    /// Messages of a queue that clients hold; nothing where this node does not lead it.
    pub(super) fn look_at_held(
        &self,
        actor: Actor<'_>,
        vhost: &str,
        queue: &str,
        look: &HeldLook,
    ) -> Result<Option<Vec<UnsettledMessage>>, ProtocolError> {
        let caller = self.caller(actor, vhost);
        let id = caller.readable_queue(queue, &*self.broker)?;
        let of: Option<Vec<ConsumerId>> = look.of.as_ref().map(|of| {
            let mut of: Vec<_> = of.iter().copied().map(ConsumerId).collect();
            of.sort_unstable();
            of
        });
        let now = self.broker.now();
        let shard = self.broker.shard_of(id);
        let held = self.broker.with_shard(now, shard, |shard| {
            shard.unsettled_behind(id, of.as_deref(), look.before, look.count)
        });
        let Some(held) = held else {
            return Ok(None);
        };
        let deadline = Instant::now() + READ_WAIT;
        let (mut found, mut bytes) = (Vec::new(), 0);
        for held in held {
            let read = || {
                let now = self.broker.now();
                self.broker
                    .with_shard(now, shard, |shard| shard.show_unsettled(now, id, &held))
            };
            let message = match self.broker.wait_until(deadline, read) {
                Some(Fetched::Message(message)) => Some(looked_at(&message)),
                Some(Fetched::Unreadable) => None,
                // It was settled meanwhile: those behind it have moved up.
                Some(Fetched::Gone) => continue,
                None if !found.is_empty() => break,
                None => return Err(refused(format!("a message of '{queue}' cannot be read"))),
            };
            bytes += message.as_ref().map_or(0, |one| one.message.shown_bytes());
            let position = held.position;
            found.push(UnsettledMessage {
                at: HeldAt(held.consumer.0, position.priority_log, position.index),
                since_ms: held.since_ms.map(|since| wall_ms(since, now)),
                message,
            });
            if bytes >= QUEUE_PEEK_BYTES || Instant::now() >= deadline {
                break;
            }
        }
        Ok(Some(found))
    }

    /// Who of this node's clients holds which of these messages.
    pub(super) fn holders_among(&self, held: &[HeldAt]) -> Vec<Holder> {
        let place = |HeldAt(subscription, priority_log, index): &HeldAt| UnsettledPosition {
            subscription: ConsumerId(*subscription),
            priority_log: *priority_log,
            index: *index,
        };
        let mut places: Vec<_> = held.iter().map(place).collect();
        places.sort_unstable();
        let now = self.broker.now();
        let holding = holding_connections(&self.broker, &places.into());
        let all = holding.iter().flat_map(|of| {
            let held = of.deliveries.iter();
            held.map(move |(held, tag)| holder(of, held, tag.as_deref(), now))
        });
        all.collect()
    }

    /// The consumers of this tag that this node's clients have at a queue.
    pub(super) fn consumers_with_tag(&self, queue: QueueId, tag: &str) -> Vec<u64> {
        self.consumers_named(queue, tag, QUEUE_PEEK_CONSUMERS_MAX)
    }
}
