//! A connection of either protocol, as an IO thread drives it. Apart so that the loop serves both
//! in the same words.

use crate::broker::Broker;
use crate::listener::Protocol;
use bytes::Bytes;
use leveret_node::{Connection, ConnectionEvent, ConnectionFacts, Peer, StreamConnection};
use leveret_types::{ConnectionId, Now, OutBuffer};

/// A connection of either protocol.
pub(super) enum Actor {
    Amqp(Box<Connection>),
    Stream(Box<StreamConnection>),
}

macro_rules! either {
    ($self:ident, $actor:ident => $what:expr) => {
        match $self {
            Actor::Amqp($actor) => $what,
            Actor::Stream($actor) => $what,
        }
    };
}

impl Actor {
    pub(super) fn new(
        protocol: Protocol,
        id: ConnectionId,
        peer: Peer,
        now: Now,
        broker: &Broker,
    ) -> Self {
        match protocol {
            Protocol::Amqp => Self::Amqp(Box::new(Connection::new(id, peer, now, broker))),
            Protocol::Stream => {
                Self::Stream(Box::new(StreamConnection::new(id, peer, now, broker)))
            }
        }
    }

    pub(super) fn name(&self) -> &str {
        either!(self, actor => actor.name())
    }

    pub(super) fn open(&self) -> bool {
        either!(self, actor => actor.open())
    }

    pub(super) fn secured(&self) -> bool {
        either!(self, actor => actor.secured())
    }

    pub(super) fn secure(&mut self, certificate: Option<Vec<u8>>, facts: Option<(String, String)>) {
        either!(self, actor => actor.secure(certificate, facts));
    }

    pub(super) fn receive(&mut self, now: Now, bytes: Bytes, broker: &Broker) -> usize {
        either!(self, actor => actor.receive(now, bytes, broker))
    }

    pub(super) fn event(&mut self, now: Now, event: ConnectionEvent, broker: &Broker) {
        either!(self, actor => actor.event(now, event, broker));
    }

    pub(super) fn unread(&mut self, at: Now) {
        either!(self, actor => actor.unread(at));
    }

    pub(super) fn tick(&mut self, now: Now, broker: &Broker) {
        either!(self, actor => actor.tick(now, broker));
    }

    pub(super) fn deadline(&self) -> Option<u64> {
        either!(self, actor => actor.deadline())
    }

    pub(super) fn reading(&self) -> bool {
        either!(self, actor => actor.reading())
    }

    pub(super) fn checking(&self) -> bool {
        either!(self, actor => actor.checking())
    }

    pub(super) fn publishes(&self) -> bool {
        either!(self, actor => actor.publishes())
    }

    pub(super) fn awaiting(&self) -> bool {
        either!(self, actor => actor.awaiting())
    }

    pub(super) fn durable(&mut self, now: Now, broker: &Broker) {
        match self {
            Self::Amqp(actor) => actor.durable(now, broker),
            Self::Stream(actor) => actor.durable(broker),
        }
    }

    pub(super) fn flush(&mut self) {
        either!(self, actor => actor.flush());
    }

    pub(super) fn output(&mut self) -> &mut OutBuffer {
        either!(self, actor => actor.output())
    }

    pub(super) fn written(&mut self, now: Now, broker: &Broker) {
        either!(self, actor => actor.written(now, broker));
    }

    pub(super) fn over(&self) -> bool {
        either!(self, actor => actor.over())
    }

    pub(super) fn ends_output(&self) -> bool {
        match self {
            Self::Amqp(actor) => actor.ends_output(),
            Self::Stream(_) => false,
        }
    }

    pub(super) fn closed(&self) -> bool {
        either!(self, actor => actor.closed())
    }

    /// Streams hold back their publishers themselves.
    pub(super) fn alarms_changed(&mut self, now: Now, broker: &Broker) {
        if let Self::Amqp(actor) = self {
            actor.alarms_changed(now, broker);
        }
    }

    pub(super) fn shut_down(&mut self, now: Now, broker: &Broker) {
        match self {
            Self::Amqp(actor) => actor.shut_down(),
            Self::Stream(actor) => actor.shut_down(now, broker),
        }
    }

    pub(super) fn teardown(&mut self, now: Now, broker: &Broker) {
        either!(self, actor => actor.teardown(now, broker));
    }

    pub(super) fn facts(&self) -> ConnectionFacts {
        either!(self, actor => actor.facts())
    }
}
