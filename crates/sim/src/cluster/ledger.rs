//! What clients were promised, message by message.

use std::collections::{BTreeMap, BTreeSet};

/// A message's number, which is its body.
pub(super) type Body = u64;
/// A client's number, never used twice.
pub(super) type ClientId = u64;

#[derive(Debug, Default)]
struct Message {
    /// To which queue, by whom.
    queue: usize,
    publisher: ClientId,
    is_confirmed: bool,
    /// Who holds it: only clients that live.
    holder: Option<ClientId>,
    /// A client has got it.
    was_delivered: bool,
    /// It was acknowledged to a process that lives, or has lived until that was durable.
    is_acknowledged: bool,
    /// It was acknowledged at some time, or its queue was deleted: it may be gone.
    may_be_gone: bool,
    /// It was given back, and the return may not be durable: a leader that follows may return it
    /// once more, to whoever holds it by then.
    is_returning: bool,
    /// It was acknowledged, and the broker has had the time to make that durable.
    is_settled: bool,
    /// It was in a queue that is deleted.
    is_dead: bool,
    /// It was rejected: it may come from this queue as well, as often as it likes.
    dead_letters: Option<usize>,
}

/// See the module's description.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    messages: BTreeMap<Body, Message>,
    pub(super) deliveries: u64,
    /// Clients whose node another one has lost sight of: what they hold may have returned.
    doubted: BTreeSet<ClientId>,
    /// Queues that were deleted, and perhaps declared anew, since all was well the last time.
    unstable: BTreeSet<usize>,
    /// Confirmed messages of queues that are to be deleted: dead once that is answered.
    doomed: BTreeMap<usize, BTreeSet<Body>>,
    dead: Vec<BTreeSet<Body>>,
    /// Nothing has broken since all was well: consumers get what is new in its order.
    is_undisturbed: bool,
    /// The last new message that a consumer got of a publisher.
    order: BTreeMap<(ClientId, ClientId), Body>,
}

impl Ledger {
    pub(super) fn published(&mut self, body: Body, queue: usize, publisher: ClientId) {
        let message = Message {
            queue,
            publisher,
            may_be_gone: self.unstable.contains(&queue),
            ..Message::default()
        };
        self.messages.insert(body, message);
    }

    pub(super) fn confirmed(&mut self, body: Body) {
        if let Some(message) = self.messages.get_mut(&body) {
            message.is_confirmed = true;
        }
    }

    /// A message arrives at a client that consumes from `queue`.
    pub(super) fn delivered(
        &mut self,
        body: Body,
        client: ClientId,
        queue: usize,
        is_redelivered: bool,
    ) -> Result<(), String> {
        self.deliveries += 1;
        let message = self.messages.get_mut(&body);
        let message = message.ok_or_else(|| format!("message {body} was never published"))?;
        if message.dead_letters == Some(queue) {
            return Ok(());
        }
        let was_delivered = std::mem::replace(&mut message.was_delivered, true);
        if message.queue != queue {
            let of = message.queue;
            return Err(format!("message {body} of queue {of} comes from {queue}"));
        }
        if message.is_settled {
            let why = "comes again after it was settled";
            return Err(format!("message {body} of queue {queue} {why}"));
        }
        if message.is_dead {
            return Err(format!(
                "message {body} was deleted with its queue, and comes"
            ));
        }
        if self.is_undisturbed && !is_redelivered {
            let last = self.order.entry((client, message.publisher)).or_default();
            if *last > body {
                return Err(format!(
                    "client {client} gets message {body} behind {last}, which was published later"
                ));
            }
            *last = body;
        }
        if self.doubted.contains(&client) || message.is_returning {
            return Ok(());
        }
        if let Some(holder) = message.holder {
            return Err(format!(
                "message {body} of queue {queue} comes to client {client}, and client {holder} \
                 holds it"
            ));
        }
        message.holder = Some(client);
        // Who takes a message twice by its flag must be able to tell.
        if was_delivered && !is_redelivered {
            return Err(format!(
                "message {body} of queue {queue} comes again to client {client}, and is not \
                 flagged as redelivered"
            ));
        }
        Ok(())
    }

    /// A client acknowledges a message. If it was lost sight of, nobody may hear it.
    pub(super) fn acknowledged(&mut self, body: Body, client: ClientId) {
        let is_heard = !self.doubted.contains(&client);
        if let Some(message) = self.messages.get_mut(&body) {
            message.may_be_gone = true;
            if is_heard && message.holder == Some(client) {
                (message.holder, message.is_acknowledged) = (None, true);
            }
        }
    }

    /// A client rejects a message, which goes to the queue of dead letters: there it is owed from
    /// then on, and from its own queue it does not come again.
    pub(super) fn rejected(&mut self, body: Body, client: ClientId, dead_letters: usize) {
        let is_heard = !self.doubted.contains(&client);
        if let Some(message) = self.messages.get_mut(&body) {
            message.dead_letters = Some(dead_letters);
            if is_heard && message.holder == Some(client) {
                (message.holder, message.is_acknowledged) = (None, true);
            }
        }
    }

    pub(super) fn given_back(&mut self, body: Body, client: ClientId) {
        if let Some(message) = self.messages.get_mut(&body) {
            if message.holder == Some(client) {
                message.holder = None;
            }
            message.is_returning = true;
        }
    }

    /// Something breaks: a process, a connection.
    pub(super) fn disturbed(&mut self) {
        self.is_undisturbed = false;
        self.order.clear();
    }

    /// Another node has lost sight of this client's: what it holds may return.
    pub(super) fn doubt(&mut self, client: ClientId) {
        self.doubted.insert(client);
        for message in self.messages.values_mut() {
            if message.holder == Some(client) {
                message.holder = None;
            }
        }
    }

    /// A client is gone, or was lost sight of: what it holds may return, and what it acknowledged
    /// may not have been heard.
    pub(super) fn gone(&mut self, client: ClientId, unsure: &BTreeSet<Body>) {
        for message in self.messages.values_mut() {
            if message.holder == Some(client) {
                message.holder = None;
            }
        }
        for body in unsure {
            if let Some(message) = self.messages.get_mut(body) {
                message.is_acknowledged &= message.is_settled;
            }
        }
    }

    /// The way to a queue that is on one node alone has broken, or that node has: what clients hold
    /// returns, and what they acknowledged may not have been heard.
    pub(super) fn estranged(&mut self, queue: usize) {
        for message in self.of(queue) {
            message.holder = None;
            message.is_acknowledged &= message.is_settled;
        }
    }

    /// All copies of a queue are gone with the disk that they were on.
    pub(super) fn lost(&mut self, queue: usize) {
        self.unstable.insert(queue);
        for message in self.of(queue) {
            message.may_be_gone = true;
        }
    }

    /// A queue's deletion is asked for.
    pub(super) fn deleting(&mut self, queue: usize) {
        self.lost(queue);
        let confirmed = self.messages.iter();
        let confirmed = confirmed.filter(|(_, one)| one.queue == queue && one.is_confirmed);
        let doomed = confirmed.map(|(body, _)| *body).collect();
        self.doomed.insert(queue, doomed);
    }

    /// It is answered.
    pub(super) fn deleted(&mut self, queue: usize) {
        self.dead.extend(self.doomed.remove(&queue));
    }

    fn of(&mut self, queue: usize) -> impl Iterator<Item = &mut Message> {
        self.messages
            .values_mut()
            .filter(move |message| message.queue == queue)
    }

    /// All that clients who live have acknowledged has reached a majority's disks.
    pub(super) fn calm(&mut self) {
        for body in std::mem::take(&mut self.dead).into_iter().flatten() {
            if let Some(message) = self.messages.get_mut(&body) {
                message.is_dead = true;
            }
        }
        for message in self.messages.values_mut() {
            message.is_settled |= message.is_acknowledged;
            message.is_returning = false;
        }
        self.doubted.clear();
        self.unstable.clear();
        self.doomed.clear();
        self.is_undisturbed = true;
    }

    /// Messages that were confirmed and never acknowledged.
    pub(super) fn owed(&self) -> Vec<(Body, usize)> {
        let owed = self
            .messages
            .iter()
            .filter(|(_, message)| message.is_confirmed && !message.may_be_gone);
        owed.map(|(body, message)| (*body, message.queue)).collect()
    }

    pub(super) fn confirmed_count(&self) -> u64 {
        self.messages
            .values()
            .filter(|message| message.is_confirmed)
            .count() as u64
    }
}
