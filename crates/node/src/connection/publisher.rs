//! What a connection keeps for publishing: the routes of the messages that it has published last.

use crate::reply_to::{Replies, Token};
use crate::run::Targets;
use leveret_metadata::Traffic;
use leveret_queue_host::fixed_map::FixedMap;
use leveret_routing::Scratch;
use leveret_types::{ChannelId, Message, QueueId, ShardId};
use smallvec::SmallVec;
use std::hash::BuildHasher;

/// Routes that a publishing connection remembers.
const ROUTES_KEPT: usize = 64;

/// What a connection keeps for publishing.
#[derive(Default)]
pub(super) struct Publisher {
    pub(super) scratch: Scratch,
    pub(super) queues: Vec<QueueId>,
    pub(super) routes: Vec<Option<Route>>,
    pub(super) generation: u64,
    hasher: foldhash::fast::FixedState,
    pub(super) reply_tokens: FixedMap<ChannelId, Token>,
    /// Queues of the cluster that have too much of what this node has published to take more.
    pub(super) full_queues: SmallVec<[QueueId; 1]>,
    /// Queues of the cluster that the open transaction has published to, or settled at, each with
    /// the first number that it has there.
    pub(super) transacted: Vec<(QueueId, u64)>,
    /// A queue or a stream has refused something of the open transaction.
    pub(super) is_transaction_refused: bool,
    /// Shards of this node whose logs it has to do with.
    pub(super) transacted_shards: SmallVec<[ShardId; 2]>,
}

/// Where messages of one exchange and routing key go, as long as the catalogue does not change.
pub(super) struct Route {
    hash: u64,
    exchange: Box<[u8]>,
    routing_key: Box<[u8]>,
    pub(super) targets: Targets,
    pub(super) traffic: Traffic,
}

impl Publisher {
    pub(super) fn set_reply_token(&mut self, channel: ChannelId, token: Token) {
        self.reply_tokens.insert(channel, token);
    }

    pub(super) fn clear_reply_token(&mut self, channel: ChannelId, replies: &Replies) {
        if let Some(token) = self.reply_tokens.remove(&channel) {
            replies.forget(&token);
        }
    }

    pub(super) fn route_hash(&self, message: &Message) -> u64 {
        self.hasher
            .hash_one((message.exchange(), message.routing_key()))
    }

    pub(super) fn known_route(&self, hash: u64, message: &Message) -> Option<&Route> {
        let route = self.routes.get(place(hash, self.routes.len()))?.as_ref()?;
        let same = route.hash == hash
            && *route.exchange == *message.exchange()
            && *route.routing_key == *message.routing_key();
        same.then_some(route)
    }

    pub(super) fn remember_route(&mut self, hash: u64, message: &Message, traffic: Traffic) {
        // Most connections publish to one place, and keep room for that alone.
        if self.routes.is_empty() {
            self.routes.push(None);
        }
        while self.routes.len() < ROUTES_KEPT && self.is_taken(hash) {
            self.make_room();
        }
        let place = place(hash, self.routes.len());
        self.routes[place] = Some(Route {
            hash,
            exchange: message.exchange().into(),
            routing_key: message.routing_key().into(),
            targets: Targets::from_slice(&self.queues),
            traffic,
        });
    }

    /// Whether another route has the place of this one.
    fn is_taken(&self, hash: u64) -> bool {
        let taken = &self.routes[place(hash, self.routes.len())];
        taken.as_ref().is_some_and(|route| route.hash != hash)
    }

    /// Twice as many places.
    fn make_room(&mut self) {
        let count = 2 * self.routes.len();
        let routes = std::mem::replace(&mut self.routes, Vec::with_capacity(count));
        self.routes.resize_with(count, || None);
        for route in routes.into_iter().flatten() {
            let place = place(route.hash, count);
            self.routes[place] = Some(route);
        }
    }
}

/// Where a route is kept, of so many places: a power of two, or none.
const fn place(hash: u64, places: usize) -> usize {
    hash as usize & places.wrapping_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use leveret_types::message::{MessageParts, MessageSummary};

    const _: () = assert!(ROUTES_KEPT.is_power_of_two());

    #[test]
    fn a_publisher_keeps_room_for_as_many_routes_as_it_uses() {
        let mut publisher = Publisher::default();
        let message = |key: &str| {
            let parts = MessageParts {
                exchange: b"x",
                routing_key: key.as_bytes(),
                properties: &[],
                body: &[],
            };
            Message::from_parts(parts, MessageSummary::default())
        };
        for (routes, most) in [(1, 1), (2, 64), (200, ROUTES_KEPT)] {
            for number in 0..routes {
                let message = message(&number.to_string());
                let hash = publisher.route_hash(&message);
                publisher.remember_route(hash, &message, Traffic::default());
                assert!(publisher.known_route(hash, &message).is_some());
            }
            assert!(publisher.routes.len() <= most);
        }
        assert_eq!(publisher.routes.len(), ROUTES_KEPT);
    }
}
