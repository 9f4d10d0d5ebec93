//! What an IO thread says of its connections to who asks: a portion a turn, so that no turn takes
//! long.

use super::client::Client;
use super::slot::Slot;
use crate::thread_event::{Portion, Which};
use leveret_node::{ConnectionStatus, HeldPlace, Holding};

/// Connections that an IO thread looks at in one turn for whoever lists all of them.
pub const LISTED_MAX: usize = 64;
/// Channels, consumers and publishers, beside those of one connection more, that it copies then.
const CONTENTS_LISTED: usize = 2_048;

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

/// All that listings show of a client.
pub(super) fn look_at_all(client: &mut Client) -> Look<ConnectionStatus> {
    let status = client.status();
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
pub(super) fn look_at_held(client: &Client, messages: &[HeldPlace]) -> Look<Holding> {
    let found = client.held_among(messages);
    let contents = match found {
        // It has looked through its deliveries: that is enough for one turn.
        Some(_) => CONTENTS_LISTED,
        None => client.serving_channels(),
    };
    Look { found, contents }
}

/// Whether a client is one of those that somebody asks about.
pub(super) fn is_asked_about(client: &Client, which: &Which) -> bool {
    match which {
        Which::Named(name) => client.name() == &**name,
        Which::Consuming(queue) => client.consumes(*queue),
        Which::These(_) => true,
    }
}
