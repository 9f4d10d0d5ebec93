//! What is said to the IO threads: by each other, by the threads of other work, and by who wants to
//! know of their connections.

use crate::admission::PendingLogin;
use crate::listener::Origin;
use crate::transport::HandshakeDone;
use leveret_node::{ConnectionEvent, ConnectionStatus, ConsumerPlace, Holding, UnsettledPosition};
use leveret_types::{ConnectionId, ConsumerId, QueueId};
use mio::net::TcpStream;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;

/// What is posted to an IO thread.
pub enum ThreadEvent {
    /// For one of its connections.
    Connection(ConnectionId, ConnectionEvent),
    /// A new connection, with its place among those that have not logged in.
    Accepted(TcpStream, Origin, PendingLogin),
    /// A step of a connection's TLS handshake was computed.
    Handshake(ConnectionId, HandshakeDone),
    /// A connection that has not logged in has to go, for others come.
    Displaced(ConnectionId),
    /// Somebody asks for the status of connections.
    List(Which, SyncSender<Vec<ConnectionStatus>>),
    /// Somebody wants the status of all connections, or of those that consume from a queue, portion
    /// by portion: the one that begins here.
    ListFrom(
        usize,
        Option<QueueId>,
        SyncSender<Portion<ConnectionStatus>>,
    ),
    /// Somebody asks which connections from this slot on hold these messages, given in ascending
    /// order.
    HoldingFrom(
        usize,
        Arc<[UnsettledPosition]>,
        SyncSender<Portion<Holding>>,
    ),
    /// The alarms have changed: connections are to be blocked or let go on.
    AlarmsChanged,
    /// Close the connections that are open.
    CloseAll,
    /// Listen, or listen no more; the connections that are open go on. Answers what kept a
    /// listener from it.
    Listen(bool, SyncSender<io::Result<()>>),
    /// Take no new connections, close those that are open, then end.
    Drain,
    /// End now.
    Stop,
}

/// Which connections somebody asks about.
#[derive(Clone, Debug)]
pub enum Which {
    /// The one of this name, without its consumers.
    Named(Arc<str>),
    /// These, without their consumers.
    These(Arc<[ConnectionId]>),
    /// Those of these consumers, which stand connection by connection, with no others of theirs.
    Consumers(Arc<[(ConnectionId, ConsumerId)]>),
    /// This one, with as many of its consumers behind a place as are copied in one turn; from the
    /// first one on where there is none.
    Behind(ConnectionId, Option<ConsumerPlace>),
}

/// What an IO thread says in one turn of its connections.
#[derive(Debug)]
pub struct Portion<T> {
    /// The status of some.
    pub found: Vec<T>,
    /// Where the next turn goes on; none when that was all.
    pub next: Option<usize>,
}
