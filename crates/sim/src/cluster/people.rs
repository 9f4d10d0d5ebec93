//! Clients: what they do, what they hear.

use super::Planted;
use super::client::{self, Client, ClientEvent};
use super::ledger::{Body, ClientId};
use super::world::World;
use bytes::Bytes;
use leveret_types::NodeId;
use std::collections::{BTreeMap, BTreeSet};

/// Planted: every so many messages the settle of one is forgotten.
const FORGOTTEN: u64 = 16;
/// Messages that a publisher has unconfirmed at most.
const UNCONFIRMED_MAX: usize = 40;

/// What a client does.
pub(super) enum Part {
    Publisher {
        sent: u64,
        unconfirmed: BTreeMap<u64, Body>,
    },
    Consumer {
        held: BTreeMap<u64, Body>,
    },
    /// Declares its queue, asks about it, or deletes it.
    Asker {
        answer: Option<u32>,
        has_deleted: bool,
    },
}

impl Part {
    pub(super) fn publisher() -> Self {
        Self::Publisher {
            sent: 0,
            unconfirmed: BTreeMap::new(),
        }
    }

    pub(super) fn consumer() -> Self {
        Self::Consumer {
            held: BTreeMap::new(),
        }
    }

    pub(super) const fn asker() -> Self {
        Self::Asker {
            answer: None,
            has_deleted: false,
        }
    }
}

/// What a consumer says of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answered {
    Acknowledged,
    GivenBack,
    /// A message of a view goes to the dead letters; any other one is gone.
    Rejected,
}

pub(super) struct Person {
    pub(super) client: Client,
    pub(super) queue: usize,
    pub(super) part: Part,
}

impl World {
    pub(super) fn people_at(&self, node: NodeId) -> Vec<ClientId> {
        let is_there = |(_, person): &(&ClientId, &Person)| person.client.node == node;
        self.people
            .iter()
            .filter(is_there)
            .map(|(id, _)| *id)
            .collect()
    }

    pub(super) fn come(&mut self, node: NodeId, queue: usize, part: Part) -> ClientId {
        let id = self.next_client;
        self.next_client += 1;
        let now = self.now(node);
        let Some(of) = self
            .hosts
            .get_mut(&node)
            .and_then(|host| host.node.as_mut())
        else {
            return id;
        };
        let connection = of.connect(now);
        let is_publisher = matches!(part, Part::Publisher { .. });
        let is_consumer = matches!(part, Part::Consumer { .. });
        let client = Client::new(node, connection);
        self.people.insert(
            id,
            Person {
                client,
                queue,
                part,
            },
        );
        if self.is_lost_sight_of(node) {
            self.ledger.doubt(id);
        }
        self.say(id, client::opening());
        if is_publisher {
            self.say(id, client::select_confirms());
        }
        if is_consumer {
            let name = self.queues[queue].name.clone();
            self.say(id, client::consume(&name, 8));
        }
        id
    }

    /// A client goes away without a word.
    pub(super) fn leave(&mut self, id: ClientId) {
        let Some(person) = self.people.remove(&id) else {
            return;
        };
        self.ledger.gone(id, &BTreeSet::new());
        let now = self.now(person.client.node);
        if let Some(node) = self
            .hosts
            .get_mut(&person.client.node)
            .and_then(|h| h.node.as_mut())
        {
            node.drop_client(person.client.connection, now);
        }
    }

    pub(super) fn say(&mut self, id: ClientId, bytes: Vec<u8>) {
        let Some(person) = self.people.get(&id) else {
            return;
        };
        let (at, connection) = (person.client.node, person.client.connection);
        let now = self.now(at);
        if let Some(node) = self.hosts.get_mut(&at).and_then(|host| host.node.as_mut()) {
            node.receive(connection, Bytes::from(bytes), now);
        }
    }

    pub(super) fn publish(&mut self, id: ClientId, bytes: usize) {
        let body = self.next_body;
        let Some(person) = self.people.get_mut(&id) else {
            return;
        };
        let Part::Publisher { sent, unconfirmed } = &mut person.part else {
            return;
        };
        if unconfirmed.len() >= UNCONFIRMED_MAX {
            return;
        }
        self.next_body += 1;
        *sent += 1;
        unconfirmed.insert(*sent, body);
        let queue = person.queue;
        let name = self.queues[queue].published_to().to_owned();
        self.ledger.published(body, queue, id);
        self.say(id, client::publish(&name, body, bytes));
    }

    /// A consumer answers one of the messages that it holds.
    pub(super) fn answer(&mut self, id: ClientId, which: usize, answered: Answered) {
        let Some(person) = self.people.get_mut(&id) else {
            return;
        };
        let Part::Consumer { held } = &mut person.part else {
            return;
        };
        let Some((tag, body)) = held.iter().nth(which).map(|(tag, body)| (*tag, *body)) else {
            return;
        };
        held.remove(&tag);
        let (node, is_view) = (person.client.node, self.queues[person.queue].is_view());
        match answered {
            Answered::GivenBack => {
                self.ledger.given_back(body, id);
                return self.say(id, client::reject(tag, true));
            }
            Answered::Rejected if is_view => self.ledger.rejected(body, id, self.dead_letters()),
            Answered::Rejected | Answered::Acknowledged => self.ledger.acknowledged(body, id),
        }
        if self.planted == Planted::ForgetsSettles && body.is_multiple_of(FORGOTTEN) {
            return;
        }
        if let Some(host) = self.hosts.get_mut(&node) {
            host.unsure.insert(body);
        }
        self.say(
            id,
            match answered {
                Answered::Rejected => client::reject(tag, false),
                _ => client::acknowledge(tag),
            },
        );
    }

    /// The queue that what is rejected of a view goes to.
    fn dead_letters(&self) -> usize {
        let found = self
            .queues
            .iter()
            .position(|queue| queue.name == client::DEAD_LETTERS);
        found.unwrap_or_default()
    }

    /// Sockets take what connections have for them.
    pub(super) fn write_out(&mut self, at: NodeId) -> Result<bool, String> {
        let mut busy = false;
        for id in self.people_at(at) {
            let now = self.now(at);
            let Some(node) = self.hosts.get_mut(&at).and_then(|host| host.node.as_mut()) else {
                continue;
            };
            let Some(person) = self.people.get_mut(&id) else {
                continue;
            };
            let written = node.take_output(person.client.connection, now);
            if written.is_empty() {
                continue;
            }
            busy = true;
            let heard = person.client.hear(&written)?;
            self.note(&written);
            for one in heard {
                self.hear(id, one)?;
            }
        }
        Ok(busy)
    }

    fn hear(&mut self, id: ClientId, heard: ClientEvent) -> Result<(), String> {
        let Some(person) = self.people.get_mut(&id) else {
            return Ok(());
        };
        match (&mut person.part, heard) {
            (
                Part::Publisher { unconfirmed, .. },
                ClientEvent::Confirmed {
                    tag,
                    multiple,
                    is_taken,
                },
            ) => {
                let first = if multiple { 0 } else { tag };
                let answered = unconfirmed.extract_if(first..=tag, |_, _| true);
                let bodies: Vec<Body> = answered.map(|(_, body)| body).collect();
                if bodies.is_empty() {
                    return Err(format!(
                        "client {id} has an answer too many, to publish {tag}"
                    ));
                }
                if is_taken {
                    bodies
                        .into_iter()
                        .for_each(|body| self.ledger.confirmed(body));
                }
            }
            (
                Part::Consumer { held },
                ClientEvent::Delivered {
                    tag,
                    body,
                    is_redelivered,
                },
            ) => {
                held.insert(tag, body);
                self.ledger
                    .delivered(body, id, person.queue, is_redelivered)?;
            }
            (Part::Asker { answer, .. }, ClientEvent::Declared(count)) => *answer = Some(count),
            (Part::Asker { has_deleted, .. }, ClientEvent::Deleted) => {
                *has_deleted = true;
                self.ledger.deleted(person.queue);
            }
            (_, ClientEvent::Closed(_) | ClientEvent::Cancelled) => self.leave(id),
            _ => {}
        }
        Ok(())
    }
}
