//! Which subscriptions become active in their groups, or are so no longer, as the client is told
//! and answers.

use leveret_stream::{Generation, MemberId, StoredBy};
use leveret_types::limits::STREAM_ACTIVE_REMEMBERED_MAX;
use std::collections::BTreeMap;

/// An update that the client has not answered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Updating {
    pub(crate) subscription_id: u8,
    pub(crate) active: bool,
    /// The membership that was told.
    pub(crate) member: MemberId,
    /// When the client must have answered, in monotonic milliseconds.
    pub(crate) until_ms: u64,
}

/// Which subscriptions of a connection become active, or are so no longer.
#[derive(Debug, Default)]
pub(crate) struct Activations {
    /// Updates that the client has not answered, by their correlation ids. A group tells a
    /// subscription no more before it has answered.
    pending: BTreeMap<u32, Updating>,
    /// Under which generations consumers of this connection were last active, by stream and group.
    was_active: BTreeMap<(String, String), Generation>,
}

impl Activations {
    /// The client is asked for an update. What it has not answered by now of the same subscription
    /// says nothing any more: there is one for each at most.
    pub(crate) fn ask(&mut self, correlation_id: u32, updating: Updating) {
        self.pending
            .retain(|_, older| older.subscription_id != updating.subscription_id);
        self.pending.insert(correlation_id, updating);
    }

    /// The client has answered: gives what it was asked for.
    pub(crate) fn answered(&mut self, correlation_id: u32) -> Option<Updating> {
        self.pending.remove(&correlation_id)
    }

    /// Whether the client has yet to answer an update of this membership.
    pub(crate) fn is_pending(&self, member: MemberId) -> bool {
        self.pending
            .values()
            .any(|updating| updating.member == member)
    }

    /// When the client must have answered, in monotonic milliseconds, of the updates whose
    /// subscription is there still.
    pub(crate) fn until_ms(&self, is_there: impl Fn(&Updating) -> bool) -> Option<u64> {
        let waiting = self.pending.values().filter(|updating| is_there(updating));
        waiting.map(|updating| updating.until_ms).min()
    }

    /// Nobody waits for an answer any more.
    pub(crate) fn forget_pending(&mut self) {
        self.pending.clear();
    }

    /// Keeps under which generation a consumer of this connection was active last: what it stores
    /// is taken until another one is active, also once it has lost its stream.
    pub(crate) fn remember(&mut self, of: (String, String), generation: Generation) {
        self.was_active.insert(of, generation);
        if self.was_active.len() > STREAM_ACTIVE_REMEMBERED_MAX {
            let oldest = self.was_active.iter().min_by_key(|(_, of)| **of);
            if let Some(oldest) = oldest.map(|(name, _)| name.clone()) {
                self.was_active.remove(&oldest);
            }
        }
    }

    /// On whose behalf the client stores an offset.
    pub(crate) fn stores_by(&self, group: &str, stream: &str) -> StoredBy {
        let of = (stream.to_owned(), group.to_owned());
        let generation = self.was_active.get(&of);
        generation.map_or(StoredBy::Anyone, |of| StoredBy::Member(*of))
    }

    /// How many updates the client has not answered, and how many generations are remembered.
    #[cfg(test)]
    pub(crate) fn counts(&self) -> (usize, usize) {
        (self.pending.len(), self.was_active.len())
    }
}
