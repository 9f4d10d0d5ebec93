//! What a connection keeps for publishing.

use super::routes::Routes;
use super::transaction::Transaction;
use crate::reply_to::{Replies, Token};
use leveret_queue_host::fixed_map::FixedMap;
use leveret_routing::Scratch;
use leveret_types::{ChannelId, QueueId};
use smallvec::SmallVec;

/// What a connection keeps for publishing.
#[derive(Default)]
pub(super) struct Publisher {
    pub(super) scratch: Scratch,
    /// The queues that the message at hand goes to.
    pub(super) queues: Vec<QueueId>,
    pub(super) routes: Routes,
    pub(super) reply_tokens: FixedMap<ChannelId, Token>,
    /// Queues of the cluster that have too much of what this node has published to take more.
    pub(super) full_queues: SmallVec<[QueueId; 1]>,
    pub(super) transaction: Transaction,
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
}
