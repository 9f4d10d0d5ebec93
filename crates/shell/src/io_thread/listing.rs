//! What an IO thread says of its connections to who asks: a portion a turn, so that no turn takes
//! long.

use super::client::Client;
use super::slot::Slot;
use crate::thread_event::Portion;
use leveret_node::{ConnectionStatus, ConsumersShown, Holding, UnsettledPosition};
use leveret_types::QueueId;
use std::collections::BTreeSet;
use std::hash::{BuildHasher, RandomState};

/// Connections that an IO thread looks at in one turn for whoever lists all of them.
pub const LISTED_MAX: usize = 64;
/// Channels, consumers and publishers, beside those of one connection more, that it copies then.
const CONTENTS_LISTED: usize = 2_048;
/// Consumers of one connection that it copies in one turn: who wants all asks for those behind.
pub const CONSUMERS_LISTED: usize = 1_024;

/// The slots of connections by their names: who names one has no others looked at.
#[derive(Default)]
pub(super) struct Names {
    /// By what their names hash to, for names take room.
    slots: BTreeSet<(u64, usize)>,
    hasher: RandomState,
}

impl Names {
    pub(super) fn insert(&mut self, name: &str, slot: usize) {
        self.slots.insert((self.hasher.hash_one(name), slot));
    }

    pub(super) fn remove(&mut self, name: &str, slot: usize) {
        self.slots.remove(&(self.hasher.hash_one(name), slot));
    }

    /// Those that may have a connection of this name.
    pub(super) fn slots_of(&self, name: &str) -> Vec<usize> {
        let hash = self.hasher.hash_one(name);
        let slots = self.slots.range((hash, 0)..=(hash, usize::MAX));
        slots.map(|(_, slot)| *slot).collect()
    }
}

/// What one connection has to say, and how much it took to know that.
pub(super) struct Look<T> {
    found: Option<T>,
    /// Channels, consumers, publishers and their like.
    contents: usize,
}

/// What the slots from this one on hold, until enough has been looked at.
pub(super) fn portion<T>(
    slots: &mut [Option<Slot>],
    from: usize,
    mut look: impl FnMut(&mut Client) -> Look<T>,
) -> Portion<T> {
    let (mut found, mut contents) = (Vec::new(), 0);
    for (slot, state) in slots.iter_mut().enumerate().skip(from) {
        if slot == from + LISTED_MAX || contents >= CONTENTS_LISTED {
            let next = Some(slot);
            return Portion { found, next };
        }
        if let Some(state) = state.as_mut().filter(|state| !state.client.over()) {
            let look = look(&mut state.client);
            contents += look.contents;
            found.extend(look.found);
        }
    }
    Portion { found, next: None }
}

/// All that listings show of a client, but for what is behind its first consumers; nothing where
/// it does not consume from the queue that is meant.
pub(super) fn look_at_all(client: &mut Client, queue: Option<QueueId>) -> Look<ConnectionStatus> {
    if queue.is_some_and(|queue| !client.consumes(queue)) {
        let (found, contents) = (None, 0);
        return Look { found, contents };
    }
    let status = client.status(ConsumersShown::Behind(None, CONSUMERS_LISTED));
    let published = status.published.iter().map(|to| to.queues.len());
    let contents = status.channels.len()
        + status.consumers.len()
        + published.sum::<usize>()
        + status.stream_publishers.len()
        + status.stream_subscriptions.len();
    Look {
        found: Some(status),
        contents,
    }
}

/// Which of these messages, given in ascending order, a client holds.
pub(super) fn look_at_held(client: &Client, messages: &[UnsettledPosition]) -> Look<Holding> {
    let found = client.unsettled_among(messages);
    let contents = match found {
        // It has looked through its deliveries: that is enough for one turn.
        Some(_) => CONTENTS_LISTED,
        None => client.serving_channels(),
    };
    Look { found, contents }
}
