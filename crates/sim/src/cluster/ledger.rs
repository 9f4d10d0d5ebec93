//! What clients were promised, message by message.

use std::collections::{BTreeMap, BTreeSet};

/// A message's number, which is its body.
pub(super) type Body = u64;
/// A client's number, never used twice.
pub(super) type ClientId = u64;

#[derive(Debug, Default)]
struct Message {
    is_confirmed: bool,
    /// Who holds it: only clients that live.
    holder: Option<ClientId>,
    /// It was acknowledged to a process that lives, or has lived until that was durable.
    is_acknowledged: bool,
    /// It was acknowledged at some time: it may be gone.
    may_be_gone: bool,
    /// It was given back, and the return may not be durable: a leader that follows may return it
    /// once more, to whoever holds it by then.
    is_returning: bool,
    /// It was acknowledged, and the broker has had the time to make that durable.
    is_settled: bool,
}

/// See the module's description.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    messages: BTreeMap<Body, Message>,
    pub(super) deliveries: u64,
    /// Clients whose node another one has lost sight of: what they hold may have returned.
    doubted: BTreeSet<ClientId>,
}

impl Ledger {
    pub(super) fn published(&mut self, body: Body) {
        self.messages.insert(body, Message::default());
    }

    pub(super) fn confirmed(&mut self, body: Body) {
        if let Some(message) = self.messages.get_mut(&body) {
            message.is_confirmed = true;
        }
    }

    /// A message arrives at a client.
    pub(super) fn delivered(&mut self, body: Body, client: ClientId) -> Result<(), String> {
        self.deliveries += 1;
        let message = self.messages.get_mut(&body);
        let message = message.ok_or_else(|| format!("message {body} was never published"))?;
        if message.is_settled {
            return Err(format!("message {body} comes again after it was settled"));
        }
        if self.doubted.contains(&client) || message.is_returning {
            return Ok(());
        }
        if let Some(holder) = message.holder {
            return Err(format!(
                "message {body} comes to client {client}, and client {holder} holds it"
            ));
        }
        message.holder = Some(client);
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

    pub(super) fn given_back(&mut self, body: Body, client: ClientId) {
        if let Some(message) = self.messages.get_mut(&body)
            && message.holder == Some(client)
        {
            message.holder = None;
        }
        if let Some(message) = self.messages.get_mut(&body) {
            message.is_returning = true;
        }
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

    /// All that clients who live have acknowledged has reached a majority's disks.
    pub(super) fn calm(&mut self) {
        for message in self.messages.values_mut() {
            message.is_settled |= message.is_acknowledged;
            message.is_returning = false;
        }
        self.doubted.clear();
    }

    /// Messages that were confirmed and never acknowledged.
    pub(super) fn owed(&self) -> Vec<Body> {
        let owed = self
            .messages
            .iter()
            .filter(|(_, message)| message.is_confirmed && !message.may_be_gone);
        owed.map(|(body, _)| *body).collect()
    }

    pub(super) fn confirmed_count(&self) -> u64 {
        self.messages
            .values()
            .filter(|message| message.is_confirmed)
            .count() as u64
    }
}
