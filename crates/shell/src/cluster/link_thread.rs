//! The thread of the links: for each other node one connection that it has dialed, on which frames
//! leave, and one that the other has dialed, on which frames come.
//!
//! A node is up while both stand and something has been heard of it lately. When either breaks, or
//! silence has lasted too long, both are closed and the node is down; what was on its way may be
//! lost. Between an up and the next down, frames arrive whole, once and in order.

use super::handshake::{HandshakeError, Purpose, Refusal};
use super::identity::IdentityStore;
use super::links::{
    Incoming, Outgoing, READ_BYTES, close, is_closed, is_incoming, node_of, token, watch,
};
use super::outbox::{Outbox, Waiting};
use super::{LinkEvent, NewLink, Own, acceptor};
use crate::broker::Broker;
use crate::group_commit_delay::{GroupCommitDelay, Rule};
use bytes::BytesMut;
use leveret_cluster::Env;
use leveret_cluster::PeerAddress;
use leveret_cluster::detector::Detector;
use leveret_node::PeerFrame;
use leveret_types::limits::{GROUP_TICK_MS, PEER_FRAMES_GATHER_MS, PEER_HEARTBEAT_MS};
use leveret_types::{NodeId, Now, ShardId};
use mio::event::Event;
use mio::{Events, Interest, Poll, Token};
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The token of the thread's waker.
pub(crate) const TOKEN_WAKER: Token = Token(usize::MAX);
/// Pauses between two attempts to dial.
const BACKOFF_MS: std::ops::Range<u64> = 50..1_000;
/// How long a link may stand alone, waiting for the one of the other direction.
const ALONE_MS_MAX: u64 = 5_000;
/// Turns without a frame after which the thread sleeps until it is woken.
const QUIET_TURNS: u32 = 8;
/// Frames of one read that other threads begin to see to while those of other links are read.
const FRAMES_AT_ONCE: usize = 16;
/// A link that broke before this is made again after a pause, which grows while links go on
/// breaking: somebody on the way, or a fault, would have nodes make them all the time.
const LASTING_MS: u64 = 1_000;

/// Another node.
struct Peer {
    address: PeerAddress,
    outbox: Arc<Outbox>,
    outgoing: Option<Outgoing>,
    incoming: Option<Incoming>,
    up: bool,
    dialing: bool,
    backoff_ms: u64,
    next_dial_ms: u64,
    up_since_ms: u64,
    /// Whose turn it is of the shards that wait for room.
    next_shard: u16,
    /// Since when frames wait for others, on the monotonic clock; 0 if none do.
    gathers_since_ms: u64,
    /// Links in a row that broke soon.
    broken_soon: u32,
    /// Not before this, whoever asks for it.
    not_before_ms: u64,
    /// The last reason why it could not be dialed: said once.
    complaint: String,
}

/// The thread of the links.
pub(crate) struct LinkThread {
    broker: Arc<Broker>,
    own: Own,
    poll: Poll,
    peers: BTreeMap<NodeId, Peer>,
    peers_version: u64,
    identity_file: Arc<IdentityStore>,
    detector: Detector,
    looked_ms: u64,
    ran_ms: u64,
    /// Turns in a row in which no frame has come.
    quiet_turns: u32,
    /// Bytes of frames that have come in this turn, and of those that have left, which may be far
    /// more; and the pauses after turns in which some have come.
    bytes_come: u64,
    bytes_left: u64,
    delay: GroupCommitDelay,
    events: Vec<LinkEvent>,
    frames: Vec<PeerFrame>,
    staging: BytesMut,
    scratch: Box<[u8]>,
    stopped: bool,
}

impl LinkThread {
    /// The thread of this node's links; the broker's [`super::Links`] wake `poll`.
    pub(crate) fn new(
        broker: Arc<Broker>,
        own: Own,
        poll: Poll,
        identity_file: Arc<IdentityStore>,
    ) -> Self {
        Self {
            broker,
            own,
            poll,
            peers: BTreeMap::new(),
            peers_version: 0,
            identity_file,
            detector: Detector::default(),
            looked_ms: 0,
            ran_ms: 0,
            quiet_turns: 0,
            bytes_come: 0,
            bytes_left: 0,
            delay: GroupCommitDelay::new(&Rule::LINKS),
            events: Vec::new(),
            frames: Vec::new(),
            staging: BytesMut::new(),
            scratch: vec![0; READ_BYTES].into(),
            stopped: false,
        }
    }

    /// Serves until it is told to stop.
    pub(crate) fn run(mut self) {
        let mut events = Events::with_capacity(256);
        while !self.stopped {
            if let Some(pause) = self.delay.pause(Instant::now()) {
                std::thread::sleep(pause);
            }
            self.wait(&mut events);
            let mut now = self.broker.now();
            if self.detector.was_stopped(now.monotonic_ms) {
                self.look(now);
                now = self.broker.now();
            }
            for event in &events {
                self.socket_event(event);
            }
            self.take_inbox(now);
            self.read_all(now);
            self.run_catalogue(now);
            // What was posted until now is sent here, and is no reason to look again.
            self.take_inbox(now);
            self.send_all(now);
            self.give_room(now);
            let come = std::mem::take(&mut self.bytes_come);
            let left = std::mem::take(&mut self.bytes_left);
            self.quiet_turns = self.quiet_turns.saturating_add(1);
            if come > 0 {
                self.delay.wrote(come + left, Instant::now());
                self.quiet_turns = 0;
            }
            if now.monotonic_ms.saturating_sub(self.looked_ms) >= PEER_HEARTBEAT_MS {
                self.look(now);
            }
        }
        let nodes: Vec<NodeId> = self.peers.keys().copied().collect();
        let now = self.broker.now();
        for node in nodes {
            self.take_down(node, now, "this node ends");
        }
    }

    fn wait(&mut self, events: &mut Events) {
        let since = self
            .broker
            .now()
            .monotonic_ms
            .saturating_sub(self.looked_ms);
        let mut rest = PEER_HEARTBEAT_MS.saturating_sub(since);
        if self.broker.cluster().is_some_and(|c| c.wants_attention()) {
            rest = rest.min(GROUP_TICK_MS);
        }
        let rest = Duration::from_millis(rest);
        let readable = |peer: &Peer| peer.up && peer.incoming.as_ref().is_some_and(|i| i.unread);
        let busy = self.peers.values().any(readable);
        let inbox = self.broker.cluster_links().inbox();
        let work = || {
            self.broker
                .cluster()
                .is_some_and(|cluster| cluster.has_work())
        };
        let rest = self.rest(rest);
        let asleep = !busy && inbox.is_some_and(|inbox| inbox.park(work));
        let timeout = if asleep { rest } else { Duration::ZERO };
        if let Err(error) = self.poll.poll(events, Some(timeout))
            && error.kind() != io::ErrorKind::Interrupted
        {
            crate::fatal(&format!("cannot wait for other nodes: {error}"));
        }
        if let Some(inbox) = self.broker.cluster_links().inbox() {
            inbox.unpark();
        }
    }

    /// How long to sleep at most: not long while frames wait for others, or may come soon that do.
    fn rest(&self, rest: Duration) -> Duration {
        let soon = Duration::from_millis(PEER_FRAMES_GATHER_MS);
        let links = self.broker.cluster_links();
        if self.quiet_turns < QUIET_TURNS || !links.sleeps_long() {
            links.looks_soon();
            return rest.min(soon);
        }
        rest
    }

    fn socket_event(&mut self, event: &Event) {
        let token = event.token();
        if token == TOKEN_WAKER {
            return;
        }
        let Some(peer) = self.peers.get_mut(&node_of(token)) else {
            return;
        };
        if is_incoming(token) {
            if let Some(incoming) = &mut peer.incoming {
                incoming.unread |= event.is_readable();
                incoming.ending |= event.is_read_closed();
            }
        } else if let Some(outgoing) = &mut peer.outgoing {
            outgoing.blocked &= !event.is_writable();
        }
    }

    fn take_inbox(&mut self, now: Now) {
        let mut events = std::mem::take(&mut self.events);
        if let Some(inbox) = self.broker.cluster_links().inbox() {
            inbox.drain(&mut events);
        }
        for event in events.drain(..) {
            match event {
                LinkEvent::Incoming(node, link) => self.incoming(node, link, now),
                LinkEvent::Dialed(node, result) => self.dialed(node, result, now),
                LinkEvent::Stop => self.stopped = true,
            }
        }
        self.events = events;
    }

    // --- links ---------------------------------------------------------------------------------

    fn incoming(&mut self, node: NodeId, link: NewLink, now: Now) {
        self.follow_members(now);
        if self
            .peers
            .get(&node)
            .is_some_and(|peer| peer.incoming.is_some())
        {
            // It dials again: it has given up the link that it had.
            self.take_down(node, now, "it has connected anew");
        }
        let Some(peer) = self.peers.get_mut(&node) else {
            return;
        };
        let NewLink {
            start,
            socket,
            session,
            ..
        } = link;
        match watch(&self.poll, socket, token(node, true), Interest::READABLE) {
            Ok(socket) => {
                let protection = self.own.protection;
                peer.incoming = Some(Incoming::new(socket, start, protection, session, now));
                // Whoever is back wants to be dialed now, not when the pause is over.
                peer.next_dial_ms = now.monotonic_ms;
                peer.backoff_ms = BACKOFF_MS.start;
            }
            Err(error) => tracing::warn!(%error, %node, "cannot watch another node's link"),
        }
        self.try_up(node, now);
        self.dial(node, now);
    }

    fn dialed(&mut self, node: NodeId, result: Result<NewLink, HandshakeError>, now: Now) {
        let Some(peer) = self.peers.get_mut(&node) else {
            return;
        };
        peer.dialing = false;
        let watched = result.and_then(|link| {
            let interest = Interest::READABLE | Interest::WRITABLE;
            let socket = watch(&self.poll, link.socket, token(node, false), interest)?;
            Ok((socket, link.start, link.session))
        });
        match watched {
            Ok((socket, start, session)) => {
                peer.backoff_ms = BACKOFF_MS.start;
                peer.complaint.clear();
                let protection = self.own.protection;
                peer.outgoing = Some(Outgoing::new(socket, start, protection, session, now));
                self.try_up(node, now);
            }
            Err(error) => {
                peer.next_dial_ms = now.monotonic_ms + peer.backoff_ms;
                peer.backoff_ms = (peer.backoff_ms * 2).min(BACKOFF_MS.end);
                if matches!(error, HandshakeError::Refused(Refusal::Forgotten)) {
                    self.broker.forgotten();
                }
                let complaint = error.to_string();
                if peer.complaint != complaint {
                    let address = &peer.address.address;
                    match error {
                        HandshakeError::Refused(Refusal::Unknown) => {
                            tracing::info!(%node, %address, "another node waits: {complaint}");
                        }
                        _ => tracing::warn!(
                            %node, %address, "cannot reach another node: {complaint}"
                        ),
                    }
                    peer.complaint = complaint;
                }
            }
        }
    }

    fn try_up(&mut self, node: NodeId, now: Now) {
        let Some(peer) = self.peers.get_mut(&node) else {
            return;
        };
        if peer.up {
            return;
        }
        if let Some(old) = peer.outgoing.take_if(|link| is_closed(&link.socket)) {
            close(&self.poll, old.socket);
        }
        if let Some(old) = peer.incoming.take_if(|link| is_closed(&link.socket)) {
            close(&self.poll, old.socket);
        }
        let (Some(outgoing), Some(incoming)) = (&peer.outgoing, &peer.incoming) else {
            return;
        };
        if outgoing.start != incoming.start {
            // One of the two is with a process that has ended since.
            return self.take_down(node, now, "its two links are of two runs");
        }
        peer.up = true;
        peer.up_since_ms = now.monotonic_ms;
        peer.outbox.open();
        self.detector.watch(node, now.monotonic_ms);
        tracing::info!(%node, address = %peer.address.address, "another node is up");
        leveret_cluster::peer_up(now, node, &*self.broker);
        self.broker.run_deferred(now);
    }

    fn take_down(&mut self, node: NodeId, now: Now, why: &str) {
        let Some(peer) = self.peers.get_mut(&node) else {
            return;
        };
        let closed = [
            peer.outgoing.take().map(|link| link.socket),
            peer.incoming.take().map(|link| link.socket),
        ];
        for socket in closed.into_iter().flatten() {
            close(&self.poll, socket);
        }
        peer.outbox.close();
        peer.next_dial_ms = now.monotonic_ms;
        self.detector.forget(node);
        if std::mem::take(&mut peer.up) {
            if now.monotonic_ms.saturating_sub(peer.up_since_ms) >= LASTING_MS {
                peer.broken_soon = 0;
            } else {
                let pause = BACKOFF_MS.start << peer.broken_soon.min(8);
                peer.not_before_ms = now.monotonic_ms + pause.min(BACKOFF_MS.end);
                peer.broken_soon += 1;
            }
            tracing::warn!(%node, "another node is down: {why}");
            leveret_cluster::peer_down(now, node, &*self.broker);
            self.broker.run_deferred(now);
        }
    }

    fn dial(&mut self, node: NodeId, now: Now) {
        let Some(peer) = self.peers.get_mut(&node) else {
            return;
        };
        let at_ms = peer.next_dial_ms.max(peer.not_before_ms);
        if peer.dialing || peer.outgoing.is_some() || now.monotonic_ms < at_ms {
            return;
        }
        let address = peer.address.clone();
        let (own, broker) = (self.own.clone(), Arc::clone(&self.broker));
        let spawned = std::thread::Builder::new()
            .name(format!("leveret-dial-{node}"))
            .spawn(move || {
                let hello = own.hello(Purpose::Link, address.node, address.uuid);
                let dialed =
                    acceptor::dial(&address.address, &own.credentials.own(), &hello, &own.known);
                broker
                    .cluster_links()
                    .tell(LinkEvent::Dialed(address.node, dialed));
            });
        match spawned {
            Ok(_) => peer.dialing = true,
            Err(error) => {
                tracing::warn!(%error, "cannot start a thread to reach another node");
                peer.next_dial_ms = now.monotonic_ms + BACKOFF_MS.end;
            }
        }
    }

    // --- what comes and goes --------------------------------------------------------------------

    fn read_all(&mut self, now: Now) {
        let readable = |(_, peer): &(&NodeId, &Peer)| {
            peer.up && peer.incoming.as_ref().is_some_and(|link| link.unread)
        };
        let nodes: Vec<NodeId> = self
            .peers
            .iter()
            .filter(readable)
            .map(|(node, _)| *node)
            .collect();
        let broker = Arc::clone(&self.broker);
        let wake_ups = broker.hold_wake_ups();
        for node in nodes {
            let link = self.peers.get_mut(&node).and_then(|p| p.incoming.as_mut());
            let Some(link) = link else { continue };
            let mut frames = Vec::new();
            let read = link.read(&mut self.scratch, &mut frames);
            if link.take_heard() {
                self.detector.note_alive(node, now.monotonic_ms);
            }
            if !frames.is_empty() {
                self.bytes_come += frames.iter().map(|(_, f)| f.len() as u64).sum::<u64>();
                let are_many = frames.len() >= FRAMES_AT_ONCE;
                leveret_cluster::receive(now, node, frames, &*self.broker);
                self.note_missing_start();
                self.broker.run_deferred(now);
                self.broker.progress.tell();
                if are_many {
                    wake_ups.wake();
                }
            }
            if let Err(why) = read {
                self.take_down(node, now, &why);
            }
        }
    }

    /// Writes down that the data folder is an older copy of itself, before anything is sent that
    /// would have the cluster know this start: the next one could not tell any more.
    fn note_missing_start(&self) {
        let cluster = self.broker.cluster();
        if let Some(start) = cluster.and_then(|cluster| cluster.missing_start()) {
            self.identity_file.lose(start);
        }
    }

    /// Lets the catalogue's group go on, which has this thread for its own.
    fn run_catalogue(&mut self, now: Now) {
        let Some(cluster) = self.broker.cluster() else {
            return;
        };
        let due = (cluster.wants_attention() || cluster.is_due(now))
            && now.monotonic_ms.saturating_sub(self.ran_ms) >= GROUP_TICK_MS;
        if due || cluster.has_work() {
            self.ran_ms = now.monotonic_ms;
            leveret_cluster::run(now, &*self.broker);
            self.broker.run_deferred(now);
            self.broker.progress.tell();
        }
    }

    fn send_all(&mut self, now: Now) {
        let mut broken = Vec::new();
        for (node, peer) in &mut self.peers {
            if !peer.up {
                continue;
            }
            let Some(link) = &mut peer.outgoing else {
                continue;
            };
            match peer.outbox.waiting() {
                Waiting::Lazily if peer.gathers_since_ms == 0 => {
                    peer.gathers_since_ms = now.monotonic_ms;
                    continue;
                }
                Waiting::Lazily
                    if now.monotonic_ms < peer.gathers_since_ms + PEER_FRAMES_GATHER_MS =>
                {
                    continue;
                }
                _ => peer.gathers_since_ms = 0,
            }
            if !peer.outbox.drain(&mut self.frames) {
                broken.push((*node, "it takes too little of what it is sent".to_owned()));
            }
            self.bytes_left += self.frames.iter().map(|f| f.len() as u64).sum::<u64>();
            link.add(&mut self.frames, &mut self.staging);
            if let Err(why) = link.send(&peer.outbox) {
                broken.push((*node, why));
            }
        }
        for (node, why) in broken {
            self.take_down(node, now, &why);
        }
        self.broker.progress.tell();
    }

    /// Lets shards send what waited for room, to nodes that have taken enough of what was sent
    /// them: one shard after the other, until there is too much again.
    fn give_room(&mut self, now: Now) {
        let broker = Arc::clone(&self.broker);
        let awaited = |peer: &Peer| peer.up && peer.outbox.has_room_again();
        let peers = self.peers.iter_mut().filter(|(_, peer)| awaited(peer));
        for (node, peer) in peers {
            let shards = broker.shard_count();
            for _ in 0..shards {
                if peer.outbox.congested() {
                    peer.outbox.await_room();
                    break;
                }
                let shard = ShardId(peer.next_shard % shards);
                peer.next_shard = (shard.0 + 1) % shards;
                broker.with_shard(now, shard, |shard| {
                    let share = shard.peer_rooms.share();
                    shard.give_peer_room(now, *node, share);
                });
            }
            broker.run_deferred(now);
        }
    }

    // --- by the clock ---------------------------------------------------------------------------

    fn look(&mut self, now: Now) {
        self.looked_ms = now.monotonic_ms;
        self.follow_members(now);
        let why = match self.detector.was_stopped(now.monotonic_ms) {
            true => "this node was stopped for longer than others wait",
            false => "nothing is heard of it",
        };
        for node in self.detector.newly_down(now.monotonic_ms) {
            self.take_down(node, now, why);
        }
        let nodes: Vec<NodeId> = self.peers.keys().copied().collect();
        for node in nodes {
            self.look_at(node, now);
        }
        // What was done may have taken its time; the others count from what they hear now.
        let now = self.broker.now();
        self.send_all(now);
        self.broker.peers_checked(now);
    }

    fn look_at(&mut self, node: NodeId, now: Now) {
        let Some(peer) = self.peers.get_mut(&node) else {
            return;
        };
        if peer.up {
            if let Some(link) = &mut peer.outgoing {
                link.beat();
            }
            return;
        }
        let alone = |since: u64| now.monotonic_ms.saturating_sub(since) > ALONE_MS_MAX;
        let outgoing = peer
            .outgoing
            .as_ref()
            .is_some_and(|link| alone(link.since_ms));
        let incoming = peer
            .incoming
            .as_ref()
            .is_some_and(|link| alone(link.since_ms));
        if outgoing || incoming {
            self.take_down(node, now, "only one direction of the link stands");
        }
        self.try_up(node, now);
        self.dial(node, now);
    }

    /// Links follow the cluster's members.
    fn follow_members(&mut self, now: Now) {
        let version = self.broker.peers().version();
        if version == self.peers_version {
            return;
        }
        self.peers_version = version;
        let members = self.broker.peers().all();
        let gone: Vec<NodeId> = self
            .peers
            .iter()
            .filter(|(_, peer)| members.iter().all(|member| member.peer != peer.address))
            .map(|(node, _)| *node)
            .collect();
        for node in gone {
            self.take_down(node, now, "it is not part of the cluster any more");
            self.peers.remove(&node);
            self.broker.cluster_links().forget(node);
        }
        self.own.known.retain(|known| {
            let is_of =
                |peer: &PeerAddress| peer.address == known || acceptor::source(peer.node) == known;
            members.iter().any(|member| is_of(&member.peer))
        });
        for member in members {
            let node = member.peer.node;
            let outbox = self.broker.cluster_links().outbox(node);
            self.peers.entry(node).or_insert_with(|| Peer {
                address: member.peer,
                outbox,
                outgoing: None,
                incoming: None,
                up: false,
                dialing: false,
                backoff_ms: BACKOFF_MS.start,
                next_dial_ms: now.monotonic_ms,
                up_since_ms: 0,
                next_shard: 0,
                gathers_since_ms: 0,
                broken_soon: 0,
                not_before_ms: 0,
                complaint: String::new(),
            });
        }
    }
}
