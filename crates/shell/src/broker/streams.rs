//! Between connections, the streams of this node and those of other nodes.

use super::{Broker, thread_of};
use crate::io_thread::ThreadEvent;
use crate::stream_thread::Heard;
use bytes::Bytes;
use leveret_node::streams::{
    ClientAddresses, RelayEffect, Said, StreamNews, StreamSessions, connection_of,
};
use leveret_node::{ConnectionEvent, PeerFrame};
use leveret_stream::{Command, SessionId};
use leveret_types::NodeId;

impl Broker {
    /// Hands on what the streams have said: to each IO thread in one go, and to other nodes.
    pub(crate) fn hear_streams(&self, heard: Vec<Heard>) {
        let mut news = Vec::with_capacity(heard.len());
        let post = |node, frame| self.post_relayed(node, frame);
        let mut has_posted = false;
        for heard in heard {
            has_posted |= matches!(heard, Heard::Relayed(..) | Heard::Taken(..));
            match heard {
                Heard::Event(session, event) => news.push((session, StreamNews::Event(event))),
                Heard::Room(session) => news.push((session, StreamNews::Room)),
                Heard::Relayed(guests, session, event) => {
                    self.stream_relay.hear(guests, session, event, &post);
                }
                Heard::Taken(guests, publishes, others) => {
                    self.stream_relay.taken(guests, publishes, others, &post);
                }
            }
        }
        if has_posted {
            self.cluster_links.ring();
        }
        self.tell_sessions(news);
    }

    /// Posts to connections: to each IO thread in one go.
    fn tell_sessions(&self, news: Vec<(SessionId, StreamNews)>) {
        let mut by_thread: Vec<Vec<ThreadEvent>> = Vec::new();
        by_thread.resize_with(self.inboxes.len(), Vec::new);
        for (session, news) in news {
            let connection = connection_of(session);
            if let Some(events) = by_thread.get_mut(thread_of(connection)) {
                let event = ConnectionEvent::Stream(news);
                events.push(ThreadEvent::Connection(connection, event));
            }
        }
        for (inbox, events) in self.inboxes.iter().zip(by_thread) {
            if !events.is_empty() {
                inbox.post(events);
                inbox.ring();
            }
        }
    }

    /// Says something for a session to whichever node has the stream.
    pub(super) fn say_to_any_stream(
        &self,
        session: SessionId,
        command: Command,
    ) -> Result<(), Box<Command>> {
        let post = |node, frame| self.post_relayed(node, frame);
        match self.stream_relay.say(session, command, &post) {
            Said::Here(command) => self.streams.say(session, command),
            Said::Sent => {
                self.cluster_links.ring();
                Ok(())
            }
            Said::NoRoom(command) => Err(command),
            Said::Refused(event) => {
                let event = event.map(|event| (session, StreamNews::Event(event)));
                self.tell_sessions(event.into_iter().collect());
                Ok(())
            }
        }
    }

    pub(super) fn leave_all_streams(
        &self,
        session: SessionId,
        unsaid: impl IntoIterator<Item = Command>,
    ) {
        let post = |node, frame| self.post_relayed(node, frame);
        let here = self.stream_relay.leave(session, unsaid, &post);
        self.cluster_links.ring();
        self.streams.leave(session, here);
    }

    /// Takes in what another node says of streams.
    pub(super) fn receive_of_relay(&self, from: NodeId, frame: Bytes) {
        let post = |node, frame| self.post_relayed(node, frame);
        let effects = self.stream_relay.receive(from, frame, &post);
        self.cluster_links.ring();
        self.carry_out_relayed(effects);
    }

    /// Another node is connected, or not any more.
    pub(super) fn peer_of_relay(&self, peer: NodeId, is_up: bool) {
        if !is_up {
            return self.carry_out_relayed(self.stream_relay.peer_down(peer));
        }
        let post = |node, frame| self.post_relayed(node, frame);
        let own = own_addresses(&self.settings.stream);
        self.stream_relay.peer_up(peer, &own, &post);
        self.cluster_links.ring();
    }

    fn carry_out_relayed(&self, effects: Vec<RelayEffect>) {
        let mut news = Vec::new();
        for effect in effects {
            match effect {
                RelayEffect::Hear(session, event) => {
                    news.push((session, StreamNews::Event(event)));
                }
                RelayEffect::Room(session) => news.push((session, StreamNews::Room)),
                RelayEffect::Say(guests, session, command) => {
                    self.streams.say_relayed(guests, session, command);
                }
                RelayEffect::Left(guests) => self.streams.leave_all(guests),
            }
        }
        self.tell_sessions(news);
    }

    /// Without waking the thread of the links: it is woken once all was posted.
    fn post_relayed(&self, to: NodeId, frame: PeerFrame) {
        self.cluster_links.post([(to, frame)]);
    }
}

/// Where clients reach this node. An address with port 0 is none: it does not listen there.
fn own_addresses(sessions: &StreamSessions) -> ClientAddresses {
    let address = |of: &leveret_node::streams::Settings| {
        let is_there = of.advertised_port != 0;
        is_there.then(|| (of.advertised_host.clone(), of.advertised_port))
    };
    ClientAddresses {
        plain: address(&sessions.plain),
        tls: address(&sessions.tls),
    }
}
