//! Between connections, the streams of this node and those of other nodes.

use super::{Broker, thread_of};
use crate::stream_thread::StreamThreadEvent;
use crate::thread_event::ThreadEvent;
use bytes::Bytes;
use leveret_cluster::streams::{
    ClientAddresses, RelayEffect, Said, StreamNews, copied_frame, election_request_frame,
    replica_frame,
};
use leveret_cluster::{Cluster, ElectionRequest, Env};
use leveret_metadata::QueueRecord;
use leveret_node::{ConnectionEvent, StreamSessions};
use leveret_stream::{Command, Event, ReplicaMessage, RetentionAlarm, SessionId};
use leveret_types::limits::STREAM_OFFSETS_MAX;
use leveret_types::{NodeId, QueueId};
use std::time::{Duration, Instant};

/// How long a node that ends waits until others lead its streams.
const HANDOVER: Duration = Duration::from_secs(3);

impl Broker {
    /// Hands on what the streams have said: to each IO thread in one go, and to other nodes.
    pub(crate) fn hear_streams(&self, heard: Vec<StreamThreadEvent>) {
        let mut news = Vec::with_capacity(heard.len());
        let post = |node, frame| self.cluster.post_unheard(node, frame);
        let mut has_posted = false;
        for heard in heard {
            let is_here = matches!(
                heard,
                StreamThreadEvent::Event(..)
                    | StreamThreadEvent::Room(..)
                    | StreamThreadEvent::Crowded(..)
                    | StreamThreadEvent::Damaged(..)
                    | StreamThreadEvent::Told(..)
                    | StreamThreadEvent::Held(..)
            );
            has_posted |= !is_here;
            match heard {
                StreamThreadEvent::Event(session, event) => {
                    news.push((session, StreamNews::Event(event)))
                }
                StreamThreadEvent::Room(session) => news.push((session, StreamNews::Room)),
                StreamThreadEvent::Relayed(link, session, event) => {
                    self.stream_relay.hear(link, session, event, &post);
                }
                StreamThreadEvent::Taken(link, publishes, others) => {
                    self.stream_relay.taken(link, publishes, others, &post);
                }
                StreamThreadEvent::Message(to, stream, message) => {
                    self.pass_message(to, stream, message)
                }
                StreamThreadEvent::Copied(to, bytes) => {
                    self.cluster.post_unheard(to, copied_frame(bytes))
                }
                StreamThreadEvent::ElectionRequest(election_request) => {
                    self.need_leader(election_request)
                }
                StreamThreadEvent::MayMove(stream, to) => {
                    leveret_cluster::hand_stream_over(stream, to, self);
                }
                StreamThreadEvent::Crowded(stream, came) => self.tell_crowded(stream, came),
                StreamThreadEvent::Damaged(stream, from) => self.tell_damaged(stream, from),
                StreamThreadEvent::Told(stream, level, text) => {
                    self.tell_of_stream(stream, level, &text)
                }
                StreamThreadEvent::Held(stream, alarm) => self.tell_held(stream, alarm.as_ref()),
                StreamThreadEvent::Led(led) => self.grow_streams(&led),
            }
        }
        if has_posted {
            self.cluster.links.ring();
        }
        self.tell_sessions(news);
    }

    /// Says that more consumers store offsets in a stream than it keeps.
    fn tell_crowded(&self, stream: QueueId, came: u64) {
        let catalogue = self.catalogue();
        let Some(record) = catalogue.queue(stream) else {
            return;
        };
        let (vhost, name) = (record.vhost(), record.name());
        tracing::warn!(
            vhost,
            stream = name,
            "the stream keeps the offsets of {STREAM_OFFSETS_MAX} consumer names, as many as it \
             may, and {came} more came: for each the offset that was stored longest ago is \
             forgotten, or the new one is not stored. Have consumers use names that last, and \
             delete those that are no longer used (leveret ctl delete_stream_group)"
        );
    }

    /// Says that a part of a stream is lost.
    fn tell_damaged(&self, stream: QueueId, from: u64) {
        let catalogue = self.catalogue();
        let Some(record) = catalogue.queue(stream) else {
            return;
        };
        let (vhost, name) = (record.vhost(), record.name());
        tracing::error!(
            vhost,
            stream = name,
            "a part of the stream is damaged on this node's disk, at or behind offset {from}, and \
             no other replica has it: readers end where they come to it; what lies before and \
             behind it is served. Have readers begin behind it, or restore this node's folder from \
             a backup; retention deletes the damage with its segment"
        );
    }

    /// Says something of a stream by its name; by its number, where it is not declared any more.
    fn tell_of_stream(&self, stream: QueueId, level: tracing::Level, text: &str) {
        let catalogue = self.catalogue();
        let number = stream.to_string();
        let record = catalogue.queue(stream);
        let (vhost, name) = match record {
            Some(record) => (record.vhost(), record.name()),
            None => ("", number.as_str()),
        };
        match level {
            tracing::Level::ERROR => tracing::error!(vhost, stream = name, "{text}"),
            tracing::Level::INFO => tracing::info!(vhost, stream = name, "{text}"),
            _ => tracing::warn!(vhost, stream = name, "{text}"),
        }
    }

    /// Says that groups hold too much of a stream, or do so no more.
    fn tell_held(&self, stream: QueueId, alarm: Option<&RetentionAlarm>) {
        let catalogue = self.catalogue();
        let Some(record) = catalogue.queue(stream) else {
            return;
        };
        let (vhost, name) = (record.vhost(), record.name());
        match alarm {
            Some(alarm) => tracing::warn!(vhost, stream = name, "{}", held_text(alarm)),
            None => tracing::info!(
                vhost,
                stream = name,
                "the stream's retention-groups hold no more than they may any more"
            ),
        }
    }

    /// Tells the shards of queues, and posts to connections: to each IO thread in one go. Queues
    /// hear before connections do, so that whoever is told that a message is in the stream finds it
    /// in the stream's views. No shard may be borrowed by the caller, where news of queues may be
    /// among them.
    pub(super) fn tell_sessions(&self, news: Vec<(SessionId, StreamNews)>) {
        if news.is_empty() {
            return;
        }
        let mut by_thread: Vec<Vec<ThreadEvent>> = Vec::new();
        by_thread.resize_with(self.io.inboxes.len(), Vec::new);
        for (session, news) in news {
            match session {
                SessionId::Connection(connection) => {
                    if let Some(events) = by_thread.get_mut(thread_of(connection)) {
                        let event = ConnectionEvent::Stream(news);
                        events.push(ThreadEvent::Connection(connection, event));
                    }
                }
                SessionId::Queue(queue) => self.tell_queue(queue, news),
                // The relay tells sessions of other nodes, and operators have a channel each.
                // Nobody waits for room.
                SessionId::Remote(_) | SessionId::Operator(_) | SessionId::Nobody => {}
            }
        }
        for (inbox, events) in self.io.inboxes.iter().zip(by_thread) {
            if !events.is_empty() {
                inbox.post(events);
                inbox.ring();
            }
        }
    }

    fn tell_queue(&self, queue: QueueId, news: StreamNews) {
        let now = self.now();
        self.with_shard(now, self.shard_of(queue), |shard| {
            shard.hear_stream(now, queue, news);
        });
    }

    /// Says to streams what queues of a shard want said, while the shard is borrowed: so that it
    /// arrives in its order. Answers what they are to hear of it once the shard is let go.
    pub(super) fn say_for_queues(
        &self,
        said: &mut Vec<(SessionId, Command)>,
    ) -> Vec<(SessionId, StreamNews)> {
        let post = |node, frame| self.cluster.post_unheard(node, frame);
        let mut heard = Vec::new();
        for (session, command) in said.drain(..) {
            if matches!(command, Command::Leave) {
                self.leave_all_streams(session, []);
                continue;
            }
            let stream = command.stream().unwrap_or_default();
            if self.streams.holds_back(session, &command) {
                heard.push((session, StreamNews::Event(Event::Lost { stream })));
                continue;
            }
            let event = match self.stream_relay.say(session, command, &post) {
                Said::Here(command) => match self.streams.say(session, command) {
                    Ok(()) => None,
                    Err(_) => Some(Event::Lost { stream }),
                },
                Said::Sent => {
                    self.cluster.links.ring();
                    None
                }
                Said::NoRoom(_) => Some(Event::Lost { stream }),
                Said::Refused(event) => event,
            };
            heard.extend(event.map(|event| (session, StreamNews::Event(event))));
        }
        heard
    }

    /// Says something for a session to whichever node has the stream.
    pub(super) fn say_to_any_stream(
        &self,
        session: SessionId,
        command: Command,
    ) -> Result<(), Box<Command>> {
        if self.streams.holds_back(session, &command) {
            return Err(Box::new(command));
        }
        let post = |node, frame| self.cluster.post_unheard(node, frame);
        match self.stream_relay.say(session, command, &post) {
            Said::Here(command) => self.streams.say(session, command),
            Said::Sent => {
                self.cluster.links.ring();
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
        let post = |node, frame| self.cluster.post_unheard(node, frame);
        let here = self.stream_relay.leave(session, unsaid, &post);
        self.cluster.links.ring();
        self.streams.leave(session, here);
    }

    /// Takes in what another node says of streams.
    pub(super) fn receive_of_relay(&self, from: NodeId, frame: Bytes) {
        let post = |node, frame| self.cluster.post_unheard(node, frame);
        let effects = self.stream_relay.receive(from, frame, &post);
        self.cluster.links.ring();
        self.carry_out_relayed(from, effects);
    }

    /// Brings a message to a replica, or to whoever elects on this node.
    pub(super) fn pass_message(&self, to: NodeId, stream: QueueId, message: ReplicaMessage) {
        if to == self.cluster.own() {
            self.take_message(to, stream, message, 0);
        } else {
            self.cluster
                .post_unheard(to, replica_frame(stream, message));
        }
    }

    fn take_message(&self, from: NodeId, stream: QueueId, message: ReplicaMessage, bytes: u64) {
        if !matches!(message, ReplicaMessage::Prepared { .. }) {
            return self.streams.tell_replica(from, stream, message, bytes);
        }
        self.cluster
            .tell(|cluster| cluster.stream_prepared(from, stream, message));
    }

    /// A stream needs another epoch: whoever leads the catalogue's group is told. While nobody
    /// does, replicas that wait say so again.
    fn need_leader(&self, election_request: ElectionRequest) {
        let own = self.cluster.own();
        match self.cluster.part.as_ref().and_then(Cluster::leader) {
            Some(leader) if leader == own => {
                self.cluster
                    .tell(|cluster| cluster.stream_needs_leader(own, election_request));
            }
            Some(leader) => self
                .cluster
                .post_unheard(leader, election_request_frame(election_request)),
            None => {}
        }
    }

    /// Another node is connected, or not any more.
    pub(super) fn peer_of_relay(&self, peer: NodeId, is_up: bool) {
        if !is_up {
            return self.carry_out_relayed(peer, self.stream_relay.peer_down(peer));
        }
        let post = |node, frame| self.cluster.post_unheard(node, frame);
        let own = own_addresses(&self.settings.stream);
        self.stream_relay.peer_up(peer, &own, &post);
        self.streams.connected(peer);
        self.cluster.links.ring();
    }

    /// Gives a stream that this node leads a replica on another node, or takes that one away.
    /// Members change one at a time: the next change waits until the leader goes by this one.
    ///
    /// # Errors
    /// Why nothing changes, for an operator.
    pub fn change_stream_replica(
        &self,
        stream: QueueId,
        node: NodeId,
        adds: bool,
    ) -> Result<(), String> {
        let before: Vec<u32> = {
            let catalogue = self.catalogue();
            let record = catalogue.queue(stream).filter(|record| record.epoch() > 0);
            let record = record.ok_or("there is no such replicated stream")?;
            record.members().iter().map(|m| m.node().0).collect()
        };
        let leads = self.streams.members(stream).ok_or(
            "this node does not lead the stream: ask the node that does, which listings name",
        )?;
        if adds && leads.is_damaged {
            return Err(
                "a part of the stream is damaged, and a new replica could never copy all of it: \
                 /api/leveret/damage says what"
                    .to_owned(),
            );
        }
        let may_change = leads.may_change || !adds && leads.removable.contains(&node);
        if !may_change
            || !leads
                .nodes
                .iter()
                .map(|node| node.0)
                .eq(before.iter().copied())
        {
            return Err(
                "its members are changing, or have not copied all of it: try again".to_owned(),
            );
        }
        let mut members = before.clone();
        match (adds, members.iter().position(|member| *member == node.0)) {
            (true, Some(_)) => return Err("that node has a replica already".to_owned()),
            (false, None) => return Err("that node has no replica".to_owned()),
            (true, None) => members.push(node.0),
            (false, Some(at)) => drop(members.remove(at)),
        }
        let command = leveret_metadata::Command::StreamMembers {
            stream: stream.0,
            before,
            members: members.clone(),
        };
        let changed = self.execute_in_cluster(&command);
        changed.map_err(|error| error.to_string())?;
        let catalogue = self.catalogue();
        let record = catalogue.queue(stream);
        let has = record.into_iter().flat_map(|record| record.members());
        match has.map(|member| member.node().0).eq(members) {
            true => Ok(()),
            false => Err("others have changed its members meanwhile: look again".to_owned()),
        }
    }

    /// Before this node ends, others lead the streams that it leads, as far as they can; nobody
    /// waits for that for long.
    pub(crate) fn leave_streams_to_others(&self) {
        if self.cluster.part.is_none() {
            return;
        }
        leveret_cluster::leave_leaders(self);
        let deadline = Instant::now() + HANDOVER;
        self.wait_until(deadline, || (!self.leads_streams()).then_some(()));
    }

    fn leads_streams(&self) -> bool {
        let own = self.cluster.own();
        let can_be_led = |record: &QueueRecord| {
            let others = record.members().iter().map(|m| m.node());
            let up = others.filter(|node| *node != own && self.cluster.peers.is_up(*node));
            record.epoch() > 0 && record.home() == own && 2 * up.count() > record.members().len()
        };
        self.catalogue().queues(None).any(can_be_led)
    }

    fn carry_out_relayed(&self, from: NodeId, effects: Vec<RelayEffect>) {
        let mut news = Vec::new();
        for effect in effects {
            match effect {
                RelayEffect::Hear(session, event) => {
                    news.push((session, StreamNews::Event(event)));
                }
                RelayEffect::Room(session) => news.push((session, StreamNews::Room)),
                RelayEffect::Say(link, session, command) => {
                    self.streams.say_relayed(link, session, command);
                }
                RelayEffect::Left(link) => self.streams.leave_all(link),
                RelayEffect::Replica(stream, message, bytes) => {
                    self.take_message(from, stream, message, bytes);
                }
                RelayEffect::Copied(bytes) => self.streams.copied(from, bytes),
                RelayEffect::ElectionRequest(election_request) => {
                    self.cluster
                        .tell(|cluster| cluster.stream_needs_leader(from, election_request));
                }
                RelayEffect::Move(stream, to) => {
                    self.cluster
                        .tell(|cluster| cluster.move_stream(from, stream, to));
                }
            }
        }
        self.tell_sessions(news);
    }
}

/// Where clients reach this node. An address with port 0 is none: it does not listen there.
fn own_addresses(sessions: &StreamSessions) -> ClientAddresses {
    let address = |of: &leveret_node::StreamSettings| {
        let is_there = of.advertised_port != 0;
        is_there.then(|| (of.advertised_host.clone(), of.advertised_port))
    };
    ClientAddresses {
        plain: address(&sessions.plain),
        tls: address(&sessions.tls),
    }
}

/// What is wrong where groups hold too much of a stream, and what to do.
fn held_text(alarm: &RetentionAlarm) -> String {
    let group = String::from_utf8_lossy(alarm.group.as_bytes());
    let (stands, option) = match alarm.offset {
        Some(offset) => (format!("stands at offset {offset}"), ""),
        None => ("has stored no offset yet".to_owned(), " --create"),
    };
    format!(
        "the stream's retention-groups hold {} bytes that size or age would have deleted: group \
         '{group}' {stands}. Let it read on, let it go on with what comes (leveret ctl \
         set_stream_group_offset -p VHOST STREAM GROUP last{option}), or take it out of \
         retention-groups",
        alarm.bytes
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that fails here says enough")]

    use super::*;
    use leveret_stream::Reference;

    #[test]
    fn an_alarm_of_held_bytes_names_a_command_that_lets_them_go() {
        for (offset, option) in [(Some(7), "last)"), (None, "last --create)")] {
            let group = Reference::new("billing".into()).unwrap();
            let bytes = 9;
            let text = held_text(&RetentionAlarm {
                group,
                offset,
                bytes,
            });
            let command = "leveret ctl set_stream_group_offset -p VHOST STREAM GROUP";
            assert!(text.contains(&format!("{command} {option}")), "{text}");
            assert!(
                text.contains("hold 9 bytes") && text.contains("'billing'"),
                "{text}"
            );
        }
    }
}
