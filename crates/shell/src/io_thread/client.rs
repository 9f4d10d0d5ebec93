//! A connection of either protocol, as an IO thread drives it. Apart so that the loop serves both
//! in the same words.

use crate::broker::Broker;
use crate::listener::Protocol;
use bytes::Bytes;
use leveret_node::{
    Connection, ConnectionEvent, ConnectionStatus, ConsumersShown, Env, Holding, Peer,
    StreamConnection, UnsettledPosition,
};
use leveret_session::Connection as AmqpSession;
use leveret_types::{ConnectionId, Now, OutBuffer, QueueId};
use std::sync::Arc;

/// A connection of either protocol.
pub(super) enum Client {
    Amqp(Box<Connection<AmqpSession>>),
    Stream(Box<StreamConnection>),
}

macro_rules! either {
    ($self:ident, $client:ident => $what:expr) => {
        match $self {
            Client::Amqp($client) => $what,
            Client::Stream($client) => $what,
        }
    };
}

impl Client {
    pub(super) fn new(
        protocol: Protocol,
        id: ConnectionId,
        peer: Peer,
        now: Now,
        broker: &Broker,
    ) -> Self {
        match protocol {
            Protocol::Amqp => {
                let settings = match peer.tls {
                    true => &broker.settings().session_tls,
                    false => &broker.settings().session,
                };
                let session = AmqpSession::new(Arc::clone(settings), now);
                Self::Amqp(Box::new(Connection::new(id, peer, session, now)))
            }
            Protocol::Stream => {
                Self::Stream(Box::new(StreamConnection::new(id, peer, now, broker)))
            }
        }
    }

    pub(super) fn name(&self) -> &str {
        either!(self, client => client.name())
    }

    pub(super) fn open(&self) -> bool {
        either!(self, client => client.open())
    }

    pub(super) fn secured(&self) -> bool {
        either!(self, client => client.secured())
    }

    pub(super) fn secure(
        &mut self,
        certificate: Option<Vec<u8>>,
        status: Option<(String, String)>,
    ) {
        either!(self, client => client.secure(certificate, status));
    }

    pub(super) fn receive(&mut self, now: Now, bytes: Bytes, broker: &Broker) -> usize {
        either!(self, client => client.receive(now, bytes, broker))
    }

    /// Where the socket may be read into instead of a buffer of the thread's.
    pub(super) fn room(&mut self) -> Option<&mut [u8]> {
        match self {
            Self::Amqp(_) => None,
            Self::Stream(client) => client.room(),
        }
    }

    /// As [`Self::receive`], of what was read into [`Self::room`].
    pub(super) fn receive_into_room(&mut self, now: Now, bytes: usize, broker: &Broker) -> usize {
        match self {
            Self::Amqp(_) => 0,
            Self::Stream(client) => client.receive_into_room(now, bytes, broker),
        }
    }

    pub(super) fn event(&mut self, now: Now, event: ConnectionEvent, broker: &Broker) {
        either!(self, client => client.event(now, event, broker));
    }

    pub(super) fn unread(&mut self, at: Now) {
        either!(self, client => client.unread(at));
    }

    pub(super) fn beat(&mut self) {
        either!(self, client => client.beat());
    }

    pub(super) fn tick(&mut self, now: Now, broker: &Broker) {
        either!(self, client => client.tick(now, broker));
    }

    pub(super) fn deadline(&self) -> Option<u64> {
        either!(self, client => client.deadline())
    }

    pub(super) fn reading(&self) -> bool {
        either!(self, client => client.reading())
    }

    pub(super) fn lacks_bytes(&self) -> Option<usize> {
        either!(self, client => client.lacks_bytes())
    }

    pub(super) fn checking(&self) -> bool {
        either!(self, client => client.checking())
    }

    pub(super) fn publishes(&self) -> bool {
        either!(self, client => client.publishes())
    }

    pub(super) fn awaiting(&self) -> bool {
        either!(self, client => client.awaiting())
    }

    pub(super) fn durable(&mut self, now: Now, broker: &Broker) {
        match self {
            Self::Amqp(client) => client.durable(now, broker),
            Self::Stream(client) => client.durable(broker),
        }
    }

    pub(super) fn flush(&mut self) {
        either!(self, client => client.flush());
    }

    pub(super) fn output(&mut self) -> &mut OutBuffer {
        either!(self, client => client.output())
    }

    pub(super) fn written(&mut self, now: Now, broker: &Broker) {
        either!(self, client => client.written(now, broker));
    }

    pub(super) fn over(&self) -> bool {
        either!(self, client => client.over())
    }

    pub(super) fn ends_output(&self) -> bool {
        match self {
            Self::Amqp(client) => client.ends_output(),
            Self::Stream(_) => false,
        }
    }

    pub(super) fn closed(&self) -> bool {
        either!(self, client => client.closed())
    }

    /// Streams hold back their publishers themselves.
    pub(super) fn alarms_changed(&mut self, now: Now, broker: &Broker) {
        if let Self::Amqp(client) = self {
            client.alarms_changed(now, broker);
        }
    }

    pub(super) fn shut_down(&mut self, now: Now, broker: &Broker) {
        match self {
            Self::Amqp(client) => client.shut_down(now, broker),
            Self::Stream(client) => client.shut_down(now, broker),
        }
    }

    pub(super) fn teardown(&mut self, now: Now, broker: &Broker) {
        either!(self, client => client.teardown(now, broker));
    }

    pub(super) fn consumes(&self, queue: QueueId) -> bool {
        either!(self, client => client.consumes(queue))
    }

    /// Which of these messages, given in ascending order, it holds. Nothing of a stream is held.
    pub(super) fn unsettled_among(&self, messages: &[UnsettledPosition]) -> Option<Holding> {
        match self {
            Self::Amqp(client) => client.unsettled_among(messages),
            Self::Stream(_) => None,
        }
    }

    /// Its channels that have had messages of a queue.
    pub(super) fn serving_channels(&self) -> usize {
        match self {
            Self::Amqp(client) => client.serving_channels(),
            Self::Stream(_) => 0,
        }
    }

    /// Its status, with some of its consumers; of a stream connection all are few.
    pub(super) fn status(&mut self, shown: ConsumersShown<'_>) -> ConnectionStatus {
        match self {
            Self::Amqp(client) => {
                client.gather_published();
                client.status_with(shown)
            }
            Self::Stream(client) => client.status(),
        }
    }
}
