//! Streams on other nodes of the cluster: what the sessions of this node say to them, and what the
//! sessions of other nodes say to those of this one.
//!
//! A session says everything to the relay. What is for a stream of this node comes back; all else
//! goes to the node that has it, in the order in which it was said. Publishes that are on their way
//! there or wait there are bounded in bytes, and so is the rest: a session that there is no room
//! for hears [`Effect::Room`], as with the streams of its own node. What comes back to readers is
//! bounded by their credit, and by how much of it has left this node for one other at a time.
//!
//! Invariant: every request gets its one answer, every session hears [`Event::Lost`] once of each
//! stream that it uses on a node that is not reached any more, and nothing of that node after.
//! Invariant: no confirm is made here.
//! Invariant: what a session says of a reader goes where that reader was opened, wherever the
//! stream's leader and replicas are by then: no other replica knows it.
//! Invariant: a frame that makes no sense ends what the two nodes have with each other's streams,
//! and nothing else: both begin anew.

mod codec;
mod frame;
pub mod fuzz;
mod serving;
mod using;

#[cfg(test)]
mod tests;

pub use frame::{ClientAddresses, STREAM_LINK};

use crate::election_request::ElectionRequest;
use bytes::Bytes;
use frame::Frame;
use leveret_queue_host::events::PeerFrame;
use leveret_stream::{Command, Event, ReplicaMessage, SessionId};
use leveret_types::limits::STREAM_RELAY_BYTES_MAX;
use leveret_types::{NodeId, QueueId};
use serving::Serving;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use using::Using;

/// Bytes that a command counts beside what it publishes.
const COMMAND_BYTES: usize = 256;
/// Bytes that may always be on their way, so that the other node need not tell of each taken one.
const ALWAYS_BYTES: u64 = STREAM_RELAY_BYTES_MAX as u64 / 4;

/// Bytes that a command counts where what waits is bounded.
#[must_use]
pub fn command_bytes(command: &Command) -> usize {
    COMMAND_BYTES + published_bytes(command).unwrap_or(0)
}

/// Bytes that a command publishes, if it does.
#[must_use]
pub fn published_bytes(command: &Command) -> Option<usize> {
    match command {
        Command::Publish { batch, .. } => Some(batch.bytes()),
        _ => None,
    }
}

/// Whether a command has its place among a session's publishes. All others may overtake them.
#[must_use]
pub const fn goes_with_publishes(command: &Command) -> bool {
    matches!(
        command,
        Command::Publish { .. }
            | Command::DeclarePublisher { .. }
            | Command::DeletePublisher { .. }
            | Command::QuerySequence { .. }
            | Command::Leave
    )
}

/// Whether so much more may be on its way: one always may, however large.
#[must_use]
pub const fn has_room(under_way: u64, more: u64) -> bool {
    under_way <= ALWAYS_BYTES || under_way + more <= STREAM_RELAY_BYTES_MAX as u64
}

/// The sessions of another node, for as long as its link holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PeerLink {
    /// Their node.
    pub node: NodeId,
    /// Which time it is that this node is connected.
    pub link: u64,
}

/// What became of what a session said.
#[derive(Debug)]
pub enum Said {
    /// It is for a stream of this node.
    Here(Command),
    /// It is on its way.
    Sent,
    /// There is no room for it now: the session hears [`Effect::Room`].
    NoRoom(Box<Command>),
    /// The node that has the stream is not reached: the session is to hear this, if anything.
    Refused(Option<Event>),
}

/// What is to be done.
#[derive(Debug)]
pub enum Effect {
    /// A session of this node hears something.
    Hear(SessionId, Event),
    /// What was refused for lack of room may be said again by this session of this node.
    Room(SessionId),
    /// A session of another node says something to the streams of this one. It takes no more than
    /// [`STREAM_RELAY_BYTES_MAX`] for all sessions of that node until [`StreamRelay::taken`] tells.
    Say(PeerLink, SessionId, Command),
    /// Those sessions have gone.
    Left(PeerLink),
    /// A message for a replica here, or an answer for whoever elects, of so many bytes.
    Replica(QueueId, ReplicaMessage, u64),
    /// Another node has taken so many bytes of messages of replicas.
    Copied(u64),
    /// A stream needs another epoch.
    ElectionRequest(ElectionRequest),
    /// A stream is to be led by that node instead of the one that says so.
    Move(QueueId, NodeId),
}

/// Where a stream is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamLocation {
    /// The node that leads it: another one.
    pub leader: NodeId,
    /// Whether this node has a replica, which its readers read.
    pub is_here: bool,
}

/// Whether any replica of a stream can serve it.
const fn reads(command: &Command) -> bool {
    matches!(
        command,
        Command::Subscribe { .. } | Command::ResolveOffset { .. }
    )
}

/// Where frames are posted.
pub type Post<'a> = &'a dyn Fn(NodeId, PeerFrame);

/// One other node.
#[derive(Default)]
struct Peer {
    is_up: bool,
    /// Which time it is that it is connected.
    link: u64,
    /// What sessions of this node have there.
    using: Using,
    /// What its sessions have here.
    serving: Serving,
    /// Where clients reach it: kept while it is down.
    clients: Option<ClientAddresses>,
}

#[derive(Default)]
struct State {
    /// The streams that other nodes lead.
    locations: HashMap<QueueId, StreamLocation>,
    peers: BTreeMap<NodeId, Peer>,
}

/// The way between sessions and streams of different nodes.
#[derive(Default)]
pub struct StreamRelay {
    state: Mutex<State>,
    /// Whether any stream is elsewhere: where none is, nobody waits for the lock.
    is_used: AtomicBool,
}

impl StreamRelay {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A stream is led by this node from now on, or by nobody (nothing), or by another one.
    pub fn set_location(&self, stream: QueueId, at: Option<StreamLocation>) {
        let mut state = self.state();
        match at {
            Some(location) => {
                state.locations.insert(stream, location);
                self.is_used.store(true, Ordering::Release);
            }
            None => {
                state.locations.remove(&stream);
            }
        }
    }

    /// Where clients reach a node, as it has said when it was last connected.
    #[must_use]
    pub fn clients(&self, node: NodeId) -> Option<ClientAddresses> {
        self.state().peers.get(&node)?.clients.clone()
    }

    /// A session of this node says something.
    pub fn say(&self, session: SessionId, command: Command, post: Post<'_>) -> Said {
        if !self.is_used.load(Ordering::Acquire) {
            return Said::Here(command);
        }
        let mut state = self.state();
        let Some(node) = state.node_of(session, &command) else {
            return Said::Here(command);
        };
        match state.peers.get_mut(&node).filter(|peer| peer.is_up) {
            Some(peer) => peer.using.say(session, command, &|frame| post(node, frame)),
            None => Said::Refused(using::refused(&command)),
        }
    }

    /// A session of this node has ended. What it said and there was no room for comes before that;
    /// what of it is for streams of this node comes back.
    pub fn leave(
        &self,
        session: SessionId,
        unsaid: impl IntoIterator<Item = Command>,
        post: Post<'_>,
    ) -> Vec<Command> {
        let mut here = Vec::new();
        let mut state = self.state();
        for command in unsaid {
            let Some(node) = state.node_of(session, &command) else {
                here.push(command);
                continue;
            };
            if let Some(peer) = state.peers.get_mut(&node).filter(|peer| peer.is_up) {
                peer.using
                    .say_at_last(session, command, &|frame| post(node, frame));
            }
        }
        for (node, peer) in &mut state.peers {
            if peer.using.leave(session) {
                post(*node, Frame::Command(session, Command::Leave).encode());
            }
        }
        here
    }

    /// Another node is connected: it is told where clients reach this one.
    pub fn peer_up(&self, node: NodeId, own: &ClientAddresses, post: Post<'_>) {
        let mut state = self.state();
        let peer = state.peers.entry(node).or_default();
        peer.is_up = true;
        peer.link += 1;
        post(node, Frame::Clients(own.clone()).encode());
    }

    /// Another node is not reached any more.
    pub fn peer_down(&self, node: NodeId) -> Vec<Effect> {
        let mut effects = Vec::new();
        if let Some(peer) = self.state().peers.get_mut(&node) {
            peer.is_up = false;
            peer.lose(node, &mut effects);
        }
        effects
    }

    /// Takes in a frame of another node.
    pub fn receive(&self, node: NodeId, bytes: Bytes, post: Post<'_>) -> Vec<Effect> {
        let mut effects = Vec::new();
        let mut state = self.state();
        let Some(peer) = state.peers.get_mut(&node).filter(|peer| peer.is_up) else {
            return effects;
        };
        let size = bytes.len() as u64;
        match Frame::decode(bytes) {
            Ok(frame) => peer.receive(node, (frame, size), &mut effects, post),
            Err(error) => {
                tracing::error!(
                    %node,
                    "{error}; sessions of both nodes lose the streams of the other one, and find \
                     them again"
                );
                peer.begin_anew(node, &mut effects, post);
            }
        }
        effects
    }

    /// A session of another node hears something. What has gone with its link is dropped.
    pub fn hear(&self, link: PeerLink, session: SessionId, event: Event, post: Post<'_>) {
        let mut state = self.state();
        if let Some(peer) = state.of(link) {
            let post = |frame| post(link.node, frame);
            peer.serving.hear(session, event, &post);
        }
    }

    /// The streams of this node have taken so many bytes of publishes, and of other commands, that
    /// came from another node.
    pub fn taken(&self, link: PeerLink, publishes: u64, others: u64, post: Post<'_>) {
        if self.state().of(link).is_some() {
            post(link.node, Frame::Taken(publishes, others).encode());
        }
    }
}

impl State {
    /// The other node that a command is for.
    fn node_of(&self, session: SessionId, command: &Command) -> Option<NodeId> {
        if let Command::Credit { reader, .. } | Command::Unsubscribe { reader, .. } = command {
            let mut peers = self.peers.iter();
            let has = |peer: &Peer| peer.using.has_reader(session, *reader);
            return peers.find(|(_, peer)| has(peer)).map(|(node, _)| *node);
        }
        let location = self.locations.get(&command.stream()?)?;
        (!location.is_here || !reads(command)).then_some(location.leader)
    }

    fn of(&mut self, link: PeerLink) -> Option<&mut Peer> {
        let peer = self.peers.get_mut(&link.node);
        peer.filter(|peer| peer.is_up && peer.link == link.link)
    }
}

impl Peer {
    /// What both nodes had with each other's streams is gone.
    fn lose(&mut self, node: NodeId, effects: &mut Vec<Effect>) {
        self.using.lose(effects);
        self.serving = Serving::default();
        effects.push(Effect::Left(PeerLink {
            node,
            link: self.link,
        }));
    }

    fn begin_anew(&mut self, node: NodeId, effects: &mut Vec<Effect>, post: Post<'_>) {
        self.lose(node, effects);
        self.link += 1;
        post(node, Frame::Reset.encode());
    }

    fn receive(
        &mut self,
        node: NodeId,
        (frame, bytes): (Frame, u64),
        effects: &mut Vec<Effect>,
        post: Post<'_>,
    ) {
        match frame {
            Frame::Command(session, command) => {
                let link = PeerLink {
                    node,
                    link: self.link,
                };
                effects.push(Effect::Say(link, session, command));
            }
            Frame::Event(session, event) => {
                let reached = self.using.hear(session, event, effects);
                if let Some(bytes) = reached {
                    post(node, Frame::Delivered(bytes).encode());
                }
            }
            Frame::Taken(publishes, others) => self.using.taken(publishes, others, effects),
            Frame::Delivered(bytes) => {
                self.serving.delivered(bytes, &|frame| post(node, frame));
            }
            Frame::Reset => {
                self.lose(node, effects);
                self.link += 1;
            }
            Frame::Clients(clients) => self.clients = Some(clients),
            Frame::Replica(stream, message) => {
                effects.push(Effect::Replica(stream, message, bytes));
            }
            Frame::Copied(bytes) => effects.push(Effect::Copied(bytes)),
            Frame::ElectionRequest(election_request) => {
                effects.push(Effect::ElectionRequest(election_request))
            }
            Frame::Move(stream, to) => effects.push(Effect::Move(stream, to)),
        }
    }
}

/// A message of a replica as it travels, for a replica of the stream or for whoever elects.
#[must_use]
pub fn replica_frame(stream: QueueId, message: ReplicaMessage) -> PeerFrame {
    Frame::Replica(stream, message).encode()
}

/// Tells another node how many bytes of such frames were taken.
#[must_use]
pub fn copied_frame(bytes: u64) -> PeerFrame {
    Frame::Copied(bytes).encode()
}

/// Tells whoever leads the catalogue's group that a stream needs another epoch.
#[must_use]
pub fn election_request_frame(election_request: ElectionRequest) -> PeerFrame {
    Frame::ElectionRequest(election_request).encode()
}

/// Asks the same to let a stream that this node leads be led by another one.
#[must_use]
pub fn move_frame(stream: QueueId, to: NodeId) -> PeerFrame {
    Frame::Move(stream, to).encode()
}
