//! What a connection keeps for publishing.

use super::published::Published;
use super::routes::Routes;
use super::transaction::Transaction;
use crate::reply_to::{Replies, Token};
use leveret_routing::Scratch;
use leveret_types::{ChannelId, QueueId};
use smallvec::SmallVec;
use std::collections::BTreeMap;

/// What a connection keeps for publishing.
#[derive(Default)]
pub(super) struct Publisher {
    pub(super) scratch: Scratch,
    /// The queues that the message at hand goes to.
    pub(super) queues: Vec<QueueId>,
    pub(super) routes: Routes,
    pub(super) published: Published,
    pub(super) reply_tokens: BTreeMap<ChannelId, Token>,
    /// Queues of the cluster that have too much of what this node has published to take more.
    pub(super) full_queues: SmallVec<[QueueId; 1]>,
    pub(super) transaction: Transaction,
}

impl Publisher {
    /// Adds what remembered routes have gathered.
    pub(super) fn gather(&mut self) {
        self.routes.gather(&mut self.published);
    }

    /// A channel is closed: what it has published is in the sums of the node alone.
    pub(super) fn forget_channel(&mut self, channel: ChannelId) {
        self.routes.forget_channel(channel, &mut self.published);
        self.published.forget(channel);
    }

    pub(super) fn set_reply_token(&mut self, channel: ChannelId, token: Token) {
        self.reply_tokens.insert(channel, token);
    }

    pub(super) fn clear_reply_token(&mut self, channel: ChannelId, replies: &Replies) {
        if let Some(token) = self.reply_tokens.remove(&channel) {
            replies.forget(&token);
        }
    }
}
