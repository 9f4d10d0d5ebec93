//! A client's connection that speaks the stream protocol: the session, and what it asks of the
//! node.
//!
//! Invariant: what tells of a change of the catalogue is written once the change is durable.
//! Invariant: what the streams have no room for is said again in its order, before all else.

mod behind;
mod catalogue;
mod exchange_change;
mod login;
mod partitions;
mod port;

use crate::ConnectionStatus;
use crate::connection_end::ConnectionEnd;
use crate::env::{ClusterEvent, ConnectionEvent, Env, LogPosition, ProposalId};
use crate::identity::{Identity, Peer, Traffic};
use crate::login::Login;
use behind::Behind;
use bytes::Bytes;
use exchange_change::ExchangeChange;
use leveret_queue_host::stream_events::StreamNews;
use leveret_stream::{Command, Event, RequestId};
use leveret_stream_protocol::ResponseCode;
use leveret_stream_session::{Ending, LoginOutcome, Session, Totals};
use leveret_types::{ConnectionId, FieldTable, FieldValue, Now, OutBuffer, QueueId};
use port::NodePort;
pub use port::move_group;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// What the session is to be told once it has said what it says.
enum News {
    Event(Event),
    Login(LoginOutcome),
    /// A super stream is made or taken away, or why not.
    SuperStream(RequestId, Result<(), ResponseCode>),
}

/// What was asked of the catalogue.
#[derive(Clone, Copy, Debug)]
enum Asked {
    Declare,
    Delete,
}

/// What the node keeps of the connection beside its session.
struct Side {
    identity: Identity,
    login: Login,
    checking: Option<login::Checking>,
    /// The answer to a failed login, held for a while.
    delayed: Option<(u64, LoginOutcome)>,
    news: VecDeque<News>,
    /// What the streams had no room for, in its order.
    refused: VecDeque<Command>,
    /// What was asked of the cluster.
    proposed: Option<(ProposalId, RequestId, Asked)>,
    /// The change of a super stream that is under way.
    exchange_change: Option<ExchangeChange>,
    /// What this node does not know, and may know in a moment.
    behind: Behind,
    /// Changes of the catalogue that are not durable yet: nothing is written before they are.
    unsynced: Vec<LogPosition>,
    has_published: bool,
    /// Work of the session's questions that it has not counted yet, in frames.
    work: usize,
    /// Which of the streams that it has published to are drained, as of a generation of the
    /// catalogue.
    drained: (u64, BTreeMap<String, bool>),
}

/// A client's connection of the stream protocol.
pub struct StreamConnection {
    session: Session,
    side: Side,
    /// What is written while a change is not durable.
    nothing: OutBuffer,
    traffic: Traffic,
    /// What of the session's totals the node's counters have.
    counted: Totals,
}

impl StreamConnection {
    /// A connection that has just been accepted.
    pub fn new<E: Env>(id: ConnectionId, peer: Peer, now: Now, env: &E) -> Self {
        let sessions = &env.settings().stream;
        let identity = Identity::new(id, peer, now);
        tracing::debug!(connection = %identity.name, "accepted for streams");
        let settings = match identity.peer.tls {
            true => &sessions.tls,
            false => &sessions.plain,
        };
        Self {
            session: Session::new(Arc::clone(settings), now),
            side: Side {
                identity,
                login: Login::default(),
                checking: None,
                delayed: None,
                news: VecDeque::new(),
                refused: VecDeque::new(),
                proposed: None,
                exchange_change: None,
                behind: Behind::default(),
                unsynced: Vec::new(),
                has_published: false,
                work: 0,
                drained: (0, BTreeMap::new()),
            },
            nothing: OutBuffer::new(),
            traffic: Traffic::default(),
            counted: Totals::default(),
        }
    }

    /// Its name in logs and listings.
    pub fn name(&self) -> &str {
        &self.side.identity.name
    }

    /// Whether the client has logged in and opened its virtual host, and is served.
    pub fn open(&self) -> bool {
        self.session.is_open()
    }

    /// Whether [`Self::secure`] has been called.
    pub fn secured(&self) -> bool {
        self.side.identity.is_secured()
    }

    /// The TLS handshake is over; this is what it showed of the client.
    pub fn secure(&mut self, certificate: Option<Vec<u8>>, status: Option<(String, String)>) {
        self.side.identity.secure(certificate, status);
    }

    /// Takes in what the socket had; answers how much work was done since the last such call, in
    /// frames.
    pub fn receive<E: Env>(&mut self, now: Now, bytes: Bytes, env: &E) -> usize {
        self.traffic.received_bytes += bytes.len() as u64;
        let mut port = NodePort::new(&mut self.side, now, env);
        self.session.receive(now, bytes, &mut port);
        self.tell(now, env);
        self.session.take_work()
    }

    /// Where the socket may be read into: see [`Session::room`].
    pub fn room(&mut self) -> Option<&mut [u8]> {
        self.session.room()
    }

    /// As [`Self::receive`], of so many bytes that were read to the front of [`Self::room`].
    ///
    /// # Panics
    /// If there was no such room.
    pub fn receive_into_room<E: Env>(&mut self, now: Now, bytes: usize, env: &E) -> usize {
        self.traffic.received_bytes += bytes as u64;
        let mut port = NodePort::new(&mut self.side, now, env);
        self.session.receive_into_room(now, bytes, &mut port);
        self.tell(now, env);
        self.session.take_work()
    }

    /// Takes in what was posted from elsewhere.
    pub fn event<E: Env>(&mut self, now: Now, event: ConnectionEvent, env: &E) {
        let mut port = NodePort::new(&mut self.side, now, env);
        match event {
            ConnectionEvent::Stream(StreamNews::Event(event)) => {
                self.session.event(now, event, &mut port);
            }
            ConnectionEvent::Stream(StreamNews::Room) => port.say_again(),
            ConnectionEvent::Stream(StreamNews::Moved {
                stream,
                group,
                offset,
            }) => {
                let to = (stream, &*group, offset);
                self.session.move_readers(now, to, &mut port);
            }
            ConnectionEvent::Close(error) => {
                self.session.end_forced(&error.text, &mut port);
            }
            ConnectionEvent::LoginChecked(verdict) => port.login_checked(verdict),
            ConnectionEvent::Cluster(ClusterEvent::Executed { id, result }) => {
                port.executed(id, result);
            }
            ConnectionEvent::Cluster(
                ClusterEvent::ReadBarrierPassed | ClusterEvent::CountsRenewed,
            ) => {
                self.look_again(now, env);
            }
            // Those of AMQP's consumers and queues.
            _ => {}
        }
        self.tell(now, env);
    }

    /// This node has seen what the cluster had agreed on, or what other nodes have open.
    fn look_again<E: Env>(&mut self, now: Now, env: &E) {
        self.side.behind.begin_second_look();
        let mut port = NodePort::new(&mut self.side, now, env);
        port.look_again();
        self.session.retry(now, &mut port);
        self.side.behind.end_second_look();
    }

    /// Tells the session what its commands have brought.
    fn tell<E: Env>(&mut self, now: Now, env: &E) {
        while let Some(news) = self.side.news.pop_front() {
            let mut port = NodePort::new(&mut self.side, now, env);
            match news {
                News::Event(event) => self.session.event(now, event, &mut port),
                News::Login(outcome) => self.session.logged_in(outcome, &mut port),
                News::SuperStream(request, result) => {
                    self.session
                        .super_stream_changed(request, result, &mut port);
                }
            }
        }
        let totals = self.session.totals();
        if totals != self.counted {
            env.counters().stream_went_on(&self.counted, &totals);
            self.counted = totals;
        }
        let latencies = self.session.latencies();
        latencies.drain(|told| env.counters().stream_confirms.add(told));
    }

    /// The socket holds bytes that are left unread for now: see [`Self::reading`].
    pub fn unread(&mut self, at: Now) {
        self.session.unread(at);
    }

    /// Its time has come: see [`Self::deadline`].
    pub fn tick<E: Env>(&mut self, now: Now, env: &E) {
        let is_due = |(at, _): &mut (u64, LoginOutcome)| *at <= now.monotonic_ms;
        if let Some((_, outcome)) = self.side.delayed.take_if(is_due) {
            self.side.news.push_back(News::Login(outcome));
        }
        self.tell(now, env);
        let mut port = NodePort::new(&mut self.side, now, env);
        self.session.tick(now, &mut port);
        self.tell(now, env);
    }

    /// When [`Self::tick`] is to be called at the latest, in monotonic milliseconds.
    pub fn deadline(&self) -> Option<u64> {
        let delayed = self.side.delayed.as_ref().map(|(at, _)| *at);
        delayed.into_iter().chain(self.session.deadline()).min()
    }

    /// Whether the socket is to be read.
    pub fn reading(&self) -> bool {
        self.session.reading() && self.side.refused.is_empty()
    }

    /// Bytes that are missing of a frame that waits for room: see [`Session::lacks_bytes`].
    pub fn lacks_bytes(&self) -> Option<usize> {
        self.session.lacks_bytes()
    }

    /// Whether it waits for the check of a password, which nobody needs once the client has gone.
    pub const fn checking(&self) -> bool {
        self.side.checking.is_some()
    }

    /// Whether its publishes wait for the write-ahead log: those to streams do not.
    pub const fn publishes(&self) -> bool {
        false
    }

    /// Whether [`Self::durable`] is to be called when the write-ahead log goes on.
    pub const fn awaiting(&self) -> bool {
        !self.side.unsynced.is_empty()
    }

    /// The write-ahead log has become durable further.
    pub fn durable<E: Env>(&mut self, env: &E) {
        let is_pending =
            |log_position: &LogPosition| env.durable(log_position.shard) < log_position.chunk;
        self.side.unsynced.retain(is_pending);
    }

    /// Says something that needs no answer: a client that has gone is found out by that, though
    /// what it sent last is not read.
    pub fn beat(&mut self) {
        self.session.beat();
    }

    /// Takes note of what there is to be written.
    pub fn flush(&mut self) {
        let output_bytes = self.output().len();
        self.traffic.flushed(output_bytes);
    }

    /// What is to be written to the socket.
    pub const fn output(&mut self) -> &mut OutBuffer {
        match self.awaiting() {
            true => &mut self.nothing,
            false => self.session.output(),
        }
    }

    /// The socket has taken what it can: subscriptions may be sent more.
    pub fn written<E: Env>(&mut self, now: Now, env: &E) {
        let left = self.output().len();
        self.traffic.written(left);
        let mut port = NodePort::new(&mut self.side, now, env);
        self.session.written(now, &mut port);
        self.tell(now, env);
    }

    /// Whether the connection is over, but for what is still to be written.
    pub fn over(&self) -> bool {
        self.session.is_over()
    }

    /// Whether the socket is to be dropped once the output is written.
    pub fn closed(&self) -> bool {
        self.session.is_over() && !self.awaiting()
    }

    /// The node is going down.
    pub fn shut_down<E: Env>(&mut self, now: Now, env: &E) {
        let mut port = NodePort::new(&mut self.side, now, env);
        self.session
            .end_forced("the broker is shutting down", &mut port);
        self.tell(now, env);
    }

    /// The socket is gone: everything that the connection had is given back.
    pub fn teardown<E: Env>(&mut self, now: Now, env: &E) {
        // One that is over has left already, and what it said last is still to be written.
        if !self.session.is_over() {
            let mut port = NodePort::new(&mut self.side, now, env);
            self.session.teardown(&mut port);
        }
        self.side.news.clear();
        self.side.refused.clear();
        self.side.checking = None;
        self.side.behind = Behind::default();
        self.note_end();
        self.side.login.leave(self.side.identity.id, env);
    }

    /// Tells operators that it has ended, and why.
    fn note_end(&self) {
        let end = match self.session.ending() {
            None => ConnectionEnd::Socket,
            Some(Ending::Client) => ConnectionEnd::Client,
            Some(Ending::Forced(reason)) => ConnectionEnd::Forced(reason),
            Some(Ending::Broker(reason)) => ConnectionEnd::Broker(reason),
        };
        end.log(&self.side.identity.name, &self.side.login);
    }

    /// Whether it has a subscription of this stream.
    pub fn consumes(&self, stream: QueueId) -> bool {
        self.session.reads(stream)
    }

    /// Its status, for listings.
    pub fn status(&self) -> ConnectionStatus {
        let (session, side) = (self.session.status(), &self.side);
        let mut properties = FieldTable::default();
        for (key, value) in &session.client_properties {
            properties.set(key, FieldValue::text(value));
        }
        ConnectionStatus {
            id: side.identity.id,
            protocol: "stream",
            name: side.identity.name.clone(),
            peer: side.identity.peer.clone(),
            user: side.login.user_name().to_owned(),
            vhost: session.vhost,
            client_properties: properties,
            state: match (self.session.is_open(), side.refused.is_empty()) {
                (true, true) => "running",
                (true, false) => "blocked",
                (false, _) if self.session.is_over() => "closing",
                (false, _) => "starting",
            },
            frame_max: session.frame_max,
            channel_max: 0,
            heartbeat_seconds: u16::try_from(session.heartbeat_seconds).unwrap_or(u16::MAX),
            connected_at_ms: side.identity.connected_at_ms,
            received_bytes: self.traffic.received_bytes,
            sent_bytes: self.traffic.sent_bytes,
            unsent_bytes: 0,
            tls: side.identity.tls_status.clone(),
            mechanism: side.login.mechanism().to_owned(),
            channels: Vec::new(),
            consumers: Vec::new(),
            published: Vec::new(),
            publishes: side.has_published,
            stream_publishers: session.publishers,
            stream_subscriptions: session.subscriptions,
        }
    }
}
