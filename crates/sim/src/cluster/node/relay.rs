//! The streams of other nodes, without threads: what the broker does with a
//! [`StreamRelay`]. Replicas are not played: each stream is where its leader is.

use super::env::NodeEnv;
use super::streams::StreamInput;
use bytes::Bytes;
use leveret_cluster::Env as _;
use leveret_cluster::streams::{
    ClientAddresses, Guests, Place, RelayEffect, Said, StreamChange, StreamNews, StreamRelay,
    command_bytes, goes_with_publishes,
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
    guests: RefCell<BTreeMap<u64, (Guests, SessionId)>>,
    /// The last of these numbers.
    last_guest: Cell<u64>,
}

impl Relayed {
    /// A stream is led by this node, or by another one.
    pub(super) fn place(&self, change: &StreamChange) {
        let elsewhere = |leader| {
            Some(Place {
                leader,
                is_here: false,
            })
        };
        match change {
            StreamChange::Replica(here) => {
                let is_led_here = here.leader == here.node;
                let place = if is_led_here {
                    None
                } else {
                    elsewhere(here.leader)
                };
                self.relay.place(here.stream, place);
            }
            StreamChange::Elsewhere(stream, leader) => {
                self.relay.place(*stream, elsewhere(*leader));
            }
            StreamChange::Deleted(stream) => self.relay.place(*stream, None),
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
        let SessionId::Guest(guest) = session else {
            return hear(env, session, event);
        };
        let guest = self.guests.borrow().get(&guest).copied();
        if let Some((guests, of)) = guest {
            self.relay.hear(guests, of, event, &post_to(env));
        }
    }

    fn carry_out(&self, effects: Vec<RelayEffect>, env: &NodeEnv) {
        for effect in effects {
            match effect {
                RelayEffect::Hear(session, event) => hear(env, session, event),
                RelayEffect::Room(SessionId::Connection(connection)) => {
                    env.post(connection, ConnectionEvent::Stream(StreamNews::Room));
                }
                RelayEffect::Say(guests, session, command) => {
                    self.guest_says(guests, session, command, env);
                }
                RelayEffect::Left(guests) => self.guests_left(guests, env),
                // Those of replicas, and room for queues, which try again by themselves.
                _ => {}
            }
        }
    }

    fn guest_says(&self, guests: Guests, session: SessionId, command: Command, env: &NodeEnv) {
        let number = self.number_of(guests, session);
        let bytes = command_bytes(&command) as u64;
        let (publishes, others) = match goes_with_publishes(&command) {
            true => (bytes, 0),
            false => (0, bytes),
        };
        match command {
            Command::Leave => self.guests.borrow_mut().remove(&number),
            _ => self.guests.borrow_mut().insert(number, (guests, session)),
        };
        input(env, SessionId::Guest(number), command);
        self.relay.taken(guests, publishes, others, &post_to(env));
    }

    /// The number of a session of another node, which it keeps until it leaves.
    fn number_of(&self, guests: Guests, session: SessionId) -> u64 {
        let known = self.guests.borrow();
        let mut known = known.iter();
        let number = known.find(|(_, of)| **of == (guests, session));
        number.map_or_else(
            || {
                self.last_guest.set(self.last_guest.get() + 1);
                self.last_guest.get()
            },
            |(number, _)| *number,
        )
    }

    fn guests_left(&self, guests: Guests, env: &NodeEnv) {
        let gone: Vec<u64> = {
            let mut known = self.guests.borrow_mut();
            let gone = known.iter().filter(|(_, (of, _))| *of == guests);
            let gone = gone.map(|(number, _)| *number).collect();
            known.retain(|_, (of, _)| *of != guests);
            gone
        };
        gone.into_iter()
            .for_each(|number| input(env, SessionId::Guest(number), Command::Leave));
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
        SessionId::Guest(_) | SessionId::Operator(_) | SessionId::Nobody => {}
    }
}
