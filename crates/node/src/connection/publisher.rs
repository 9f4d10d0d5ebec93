//! What a connection keeps for publishing: the routes of the messages that it has published last.

use super::FixedMap;
use crate::enqueue::Targets;
use crate::reply_to::{Replies, Token};
use leveret_metadata::Traffic;
use leveret_routing::Scratch;
use leveret_types::{ChannelId, Message, QueueId};
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
    /// Queues of the cluster that the open transaction has published to, or settled at.
    pub(super) transacted: Vec<QueueId>,
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
        let route = self.routes.get(hash as usize % ROUTES_KEPT)?.as_ref()?;
        let same = route.hash == hash
            && *route.exchange == *message.exchange()
            && *route.routing_key == *message.routing_key();
        same.then_some(route)
    }

    pub(super) fn remember_route(&mut self, hash: u64, message: &Message, traffic: Traffic) {
        if self.routes.is_empty() {
            self.routes.resize_with(ROUTES_KEPT, || None);
        }
        self.routes[hash as usize % ROUTES_KEPT] = Some(Route {
            hash,
            exchange: message.exchange().into(),
            routing_key: message.routing_key().into(),
            targets: Targets::from_slice(&self.queues),
            traffic,
        });
    }
}
