//! The streams of other nodes, without threads: what the broker does with a
//! [`StreamRelay`]. Replicas are not played: each stream is where its leader is.

use super::env::NodeEnv;
use super::streams::StreamInput;
use bytes::Bytes;
use leveret_cluster::Env as _;
use leveret_cluster::streams::{
    ClientAddresses, PeerLink, RelayEffect, Said, StreamChange, StreamLocation, StreamNews,
    StreamRelay, command_bytes, goes_with_publishes,
};
use leveret_node::env::{ConnectionEvent, Env, PeerFrame};
use leveret_stream::{Command, Event, SessionId};
use leveret_types::NodeId;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};

/// See the module's description.
#[derive(Default)]
pub(super) struct Relayed {
    relay: StreamRelay,
    /// Sessions of other nodes, by the numbers that the streams know them by.
    remote_sessions: RefCell<BTreeMap<u64, (PeerLink, SessionId)>>,
    /// The last of these numbers.
    last_remote: Cell<u64>,
}

impl Relayed {
    /// A stream is led by this node, or by another one.
    pub(super) fn place(&self, change: &StreamChange) {
        let elsewhere = |leader| {
            Some(StreamLocation {
                leader,
                is_here: false,
            })
        };
        match change {
            StreamChange::Replica(here) => {
                let is_led_here = here.leader == here.node;
                let location = if is_led_here {
                    None
                } else {
                    elsewhere(here.leader)
                };
                self.relay.set_location(here.stream, location);
            }
            StreamChange::Elsewhere(stream, leader) => {
                self.relay.set_location(*stream, elsewhere(*leader));
            }
            StreamChange::Deleted(stream) => self.relay.set_location(*stream, None),
            StreamChange::Begun(..) | StreamChange::Changed(..) => {}
        }
    }

    pub(super) fn say(
        &self,
        session: SessionId,
        command: Command,
        env: &NodeEnv,
    ) -> Result<(), Box<Command>> {
        match self.relay.say(session, command, &post_to(env)) {
            Said::Here(command) => input(env, session, command),
            Said::Sent => {}
            Said::NoRoom(command) => return Err(command),
            Said::Refused(event) => event
                .into_iter()
                .for_each(|event| hear(env, session, event)),
        }
        Ok(())
    }

    pub(super) fn leave(&self, session: SessionId, unsaid: VecDeque<Command>, env: &NodeEnv) {
        let here = self.relay.leave(session, unsaid, &post_to(env));
        let all = here.into_iter().chain([Command::Leave]);
        all.for_each(|command| input(env, session, command));
    }

    pub(super) fn receive(&self, from: NodeId, frame: Bytes, env: &NodeEnv) {
        let effects = self.relay.receive(from, frame, &post_to(env));
        self.carry_out(effects, env);
    }

    pub(super) fn peer(&self, peer: NodeId, is_up: bool, env: &NodeEnv) {
        match is_up {
            true => {
                let own = ClientAddresses::default();
                self.relay.peer_up(peer, &own, &post_to(env));
            }
            false => self.carry_out(self.relay.peer_down(peer), env),
        }
    }

    pub(super) fn clients(&self, node: NodeId) -> Option<ClientAddresses> {
        self.relay.clients(node)
    }

    /// Tells a session what its stream has said, on whichever node it is.
    pub(super) fn hear(&self, session: SessionId, event: Event, env: &NodeEnv) {
        let SessionId::Remote(remote) = session else {
            return hear(env, session, event);
        };
        let remote = self.remote_sessions.borrow().get(&remote).copied();
        if let Some((link, of)) = remote {
            self.relay.hear(link, of, event, &post_to(env));
        }
    }

    fn carry_out(&self, effects: Vec<RelayEffect>, env: &NodeEnv) {
        for effect in effects {
            match effect {
                RelayEffect::Hear(session, event) => hear(env, session, event),
                RelayEffect::Room(SessionId::Connection(connection)) => {
                    env.post(connection, ConnectionEvent::Stream(StreamNews::Room));
                }
                RelayEffect::Say(link, session, command) => {
                    self.remote_says(link, session, command, env);
                }
                RelayEffect::Left(link) => self.remote_left(link, env),
                // Those of replicas, and room for queues, which try again by themselves.
                _ => {}
            }
        }
    }

    fn remote_says(&self, link: PeerLink, session: SessionId, command: Command, env: &NodeEnv) {
        let number = self.number_of(link, session);
        let bytes = command_bytes(&command) as u64;
        let (publishes, others) = match goes_with_publishes(&command) {
            true => (bytes, 0),
            false => (0, bytes),
        };
        match command {
            Command::Leave => self.remote_sessions.borrow_mut().remove(&number),
            _ => self
                .remote_sessions
                .borrow_mut()
                .insert(number, (link, session)),
        };
        input(env, SessionId::Remote(number), command);
        self.relay.taken(link, publishes, others, &post_to(env));
    }

    /// The number of a session of another node, which it keeps until it leaves.
    fn number_of(&self, link: PeerLink, session: SessionId) -> u64 {
        let known = self.remote_sessions.borrow();
        let mut known = known.iter();
        let number = known.find(|(_, of)| **of == (link, session));
        number.map_or_else(
            || {
                self.last_remote.set(self.last_remote.get() + 1);
                self.last_remote.get()
            },
            |(number, _)| *number,
        )
    }

    fn remote_left(&self, link: PeerLink, env: &NodeEnv) {
        let gone: Vec<u64> = {
            let mut known = self.remote_sessions.borrow_mut();
            let gone = known.iter().filter(|(_, (of, _))| *of == link);
            let gone = gone.map(|(number, _)| *number).collect();
            known.retain(|_, (of, _)| *of != link);
            gone
        };
        gone.into_iter()
            .for_each(|number| input(env, SessionId::Remote(number), Command::Leave));
    }
}

fn post_to(env: &NodeEnv) -> impl Fn(NodeId, PeerFrame) + '_ {
    |node, frame| env.post_peer(node, frame)
}

fn input(env: &NodeEnv, session: SessionId, command: Command) {
    let input = StreamInput::Say(session, command);
    env.stream_inputs.borrow_mut().push(input);
}

fn hear(env: &NodeEnv, session: SessionId, event: Event) {
    match session {
        SessionId::Connection(connection) => {
            let news = ConnectionEvent::Stream(StreamNews::Event(event));
            env.post(connection, news);
        }
        SessionId::Queue(_) => env.heard.borrow_mut().push_back((session, event)),
        SessionId::Remote(_) | SessionId::Operator(_) | SessionId::Nobody => {}
    }
}
