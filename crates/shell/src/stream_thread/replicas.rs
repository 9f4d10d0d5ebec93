//! Replicas of streams on this node: what the catalogue orders, and what goes to other nodes.
//!
//! Invariant: messages of replicas that are on their way to one node are bounded in bytes, as that
//! node says what it has taken: so they do not fill the link before what Raft says.

use super::{LedStream, StreamThread, StreamThreadEvent};
use leveret_cluster::ElectionRequest;
use leveret_cluster::streams::{ReplicaHere, has_room, replica_frame};
use leveret_storage::Disk;
use leveret_stream::replica::Fence;
use leveret_stream::{
    Epoch, Event, Events, ReplicaEvent, ReplicaMessage, ReplicaOrder, ReplicaReport, ReplicaRole,
};
use leveret_types::limits::{
    STREAM_EARLY_FOLLOWERS_MAX, STREAM_GROWTH_MS, STREAM_RELAY_BYTES_MAX, STREAM_WAITING_MS,
};
use leveret_types::{NodeId, Now, QueueId};
use std::collections::{BTreeMap, HashMap};

/// Bytes of which another node is told once so many were taken.
const TOLD_BYTES: u64 = STREAM_RELAY_BYTES_MAX as u64 / 4;
/// Bytes of messages that are taken of the host at once.
const TAKEN_BYTES: usize = 256 * 1024;

/// What is on its way between the replicas of nodes.
#[derive(Default)]
pub(super) struct Copies {
    /// Bytes that have left for a node and that it has not taken.
    under_way: HashMap<NodeId, u64>,
    /// Bytes that were taken of a node's messages, and that it was not told of.
    taken: HashMap<NodeId, u64>,
    /// When it is said again which streams this node leads.
    led_ms: u64,
    /// When replicas that wait for the catalogue say so again.
    waiting_ms: Option<u64>,
    /// The epoch that the catalogue has said of each stream.
    ordered: HashMap<QueueId, Epoch>,
    /// Followers that have heard of an epoch before its leader here: the last that each has said.
    early: BTreeMap<(QueueId, NodeId), ReplicaMessage>,
}

impl Copies {
    pub(super) fn took(&mut self, from: NodeId, bytes: u64) {
        *self.taken.entry(from).or_default() += bytes;
    }

    pub(super) fn copied(&mut self, node: NodeId, bytes: u64) {
        if let Some(under_way) = self.under_way.get_mut(&node) {
            *under_way = under_way.saturating_sub(bytes);
        }
    }

    pub(super) fn connected(&mut self, node: NodeId) {
        self.under_way.remove(&node);
        self.taken.remove(&node);
    }

    pub(super) const fn due_ms(&self) -> Option<u64> {
        self.waiting_ms
    }

    fn keep_early(&mut self, from: NodeId, stream: QueueId, message: ReplicaMessage) {
        let has_room = self.early.len() < STREAM_EARLY_FOLLOWERS_MAX;
        if has_room || self.early.contains_key(&(stream, from)) {
            self.early.insert((stream, from), message);
        }
    }

    /// This node has no replica of a stream any more.
    pub(super) fn forget(&mut self, stream: QueueId) {
        self.take_early(stream);
        self.ordered.remove(&stream);
    }

    fn take_early(&mut self, stream: QueueId) -> Vec<(NodeId, ReplicaMessage)> {
        let of_stream = (stream, NodeId(0))..=(stream, NodeId(u32::MAX));
        let keys: Vec<_> = self.early.range(of_stream).map(|(key, _)| *key).collect();
        let take = |key: (QueueId, NodeId)| Some((key.1, self.early.remove(&key)?));
        keys.into_iter().filter_map(take).collect()
    }

    /// Nodes that are to be told how much of theirs was taken.
    fn take_taken(&mut self) -> Vec<(NodeId, u64)> {
        let much = self.taken.extract_if(|_, bytes| *bytes >= TOLD_BYTES);
        much.collect()
    }
}

impl<D: Disk, C: Fn() -> Now, H: FnMut(Vec<StreamThreadEvent>)> StreamThread<D, C, H> {
    /// What the catalogue says of a stream that has a replica here.
    pub(super) fn take_order(&mut self, here: ReplicaHere, events: &mut Events) {
        let stream = here.stream;
        if self.host.role(stream).is_some() {
            self.host.set_settings(stream, *here.settings);
        } else {
            let (settings, node) = (*here.settings, here.node);
            match self.host.begin_replica(stream, settings, node, here.origin) {
                Ok(found) => (self.hear)(super::told_of_found(stream, &found).collect()),
                Err(error) => {
                    return tracing::error!("the replica of stream {stream} does not run: {error}");
                }
            }
        }
        let (ReplicaOrder::Lead { epoch, .. } | ReplicaOrder::Follow { epoch, .. }) = &here.order;
        self.copies.ordered.insert(stream, *epoch);
        self.host.order(stream, here.order, events);
        self.copies.waiting_ms = Some(0);
        for (from, message) in self.copies.take_early(stream) {
            self.take_message(from, stream, message, events);
        }
    }

    /// Takes what another node says to a replica here. The catalogue may tell a follower of an
    /// epoch before it tells the leader: that one attaches once the leader knows.
    pub(super) fn take_message(
        &mut self,
        from: NodeId,
        stream: QueueId,
        message: ReplicaMessage,
        events: &mut Events,
    ) {
        let attaches = matches!(message, ReplicaMessage::Attach { .. });
        let known = match self.host.role(stream) {
            Some(ReplicaRole::Leader { epoch, .. } | ReplicaRole::Follower { epoch, .. }) => epoch,
            Some(ReplicaRole::Waiting) | None => Epoch(0),
        };
        if attaches && message.epoch() > known {
            return self.copies.keep_early(from, stream, message);
        }
        self.host.receive(from, stream, message, events);
    }

    /// This node has no replica of a stream any more.
    pub(super) fn remove_replica(&mut self, stream: QueueId, events: &mut Events) {
        self.copies.forget(stream);
        self.host.hear_of(stream);
        if self.host.role(stream).is_none() {
            return;
        }
        let mut left = Events::new();
        if let Err(error) = self.host.delete(stream, &mut left) {
            crate::fatal(&error.to_string());
        }
        // The stream is still there, on other nodes.
        let lost = |event| match event {
            Event::Gone { stream } => Event::Lost { stream },
            other => other,
        };
        events.extend(left.into_iter().map(|(to, event)| (to, lost(event))));
    }

    /// Hands on what replicas say to other nodes, as far as there is room on the way, and what they
    /// report.
    pub(super) fn send_copies(&mut self, now: Now) {
        let mut heard = Vec::new();
        let nodes: Vec<NodeId> = self.host.messages_for().collect();
        for node in nodes {
            let under_way = self.copies.under_way.entry(node).or_default();
            while has_room(*under_way, TAKEN_BYTES as u64) {
                let messages = self.host.take_messages(node, TAKEN_BYTES);
                if messages.is_empty() {
                    break;
                }
                for (stream, message) in messages {
                    // As the other node counts it.
                    *under_way += replica_frame(stream, message.clone()).len() as u64;
                    heard.push(StreamThreadEvent::Message(node, stream, message));
                }
            }
        }
        let told = self.copies.take_taken().into_iter();
        heard.extend(told.map(|(node, bytes)| StreamThreadEvent::Copied(node, bytes)));
        for report in self.host.take_reports() {
            heard.extend(self.reported(report));
        }
        self.say_who_waits(now, &mut heard);
        self.say_who_is_led(now, &mut heard);
        if !heard.is_empty() {
            (self.hear)(heard);
        }
    }

    fn say_who_is_led(&mut self, now: Now, heard: &mut Vec<StreamThreadEvent>) {
        if now.monotonic_ms < self.copies.led_ms {
            return;
        }
        self.copies.led_ms = now.monotonic_ms + STREAM_GROWTH_MS;
        let led = self.host.changeable_members();
        let led: Vec<LedStream> = led
            .map(|(stream, members, bytes)| LedStream {
                stream,
                members,
                bytes,
            })
            .collect();
        if !led.is_empty() {
            heard.push(StreamThreadEvent::Led(led));
        }
    }

    fn reported(&self, (stream, event): ReplicaReport) -> Option<StreamThreadEvent> {
        use tracing::Level;
        let (level, text) = match event {
            ReplicaEvent::ElectionNeeded { promised, reason } => {
                tracing::info!("stream {stream} needs another leader: {reason}");
                let role = self.host.role(stream);
                let wants_other_leader = matches!(role, Some(ReplicaRole::Leader { .. }));
                return Some(StreamThreadEvent::ElectionRequest(ElectionRequest {
                    stream,
                    promised,
                    wants_other_leader,
                }));
            }
            ReplicaEvent::DamagedForGood { from } => {
                return Some(StreamThreadEvent::Damaged(stream, from));
            }
            ReplicaEvent::Damaged { from } => (
                Level::ERROR,
                format!(
                    "the stream is damaged on this node from offset {from} on: that is not served \
                     here, and copied again from another replica if one has it"
                ),
            ),
            ReplicaEvent::Cut {
                next_offset: 0,
                offsets,
            } => (
                Level::INFO,
                format!(
                    "the stream is copied anew from its leader, which has nothing that follows \
                     what was here ({offsets} offsets, which its retention has passed, or which \
                     were never committed)"
                ),
            ),
            ReplicaEvent::Cut {
                next_offset,
                offsets,
            } => (
                Level::INFO,
                format!(
                    "{offsets} offsets from {next_offset} on are cut off, and copied again from \
                     the stream's leader as that one has them: they were damaged here, or never \
                     committed"
                ),
            ),
            ReplicaEvent::MayMove { to } => return Some(StreamThreadEvent::MayMove(stream, to)),
            ReplicaEvent::Fenced(fence) => (Level::ERROR, told_of_fence(fence)),
            ReplicaEvent::Rejected { from, reason } => (
                Level::ERROR,
                format!("what node {from} says of the stream cannot be: {reason}"),
            ),
            ReplicaEvent::Whole { epoch } => {
                tracing::debug!("stream {stream}: this replica is whole in epoch {epoch}");
                return None;
            }
        };
        Some(StreamThreadEvent::Told(stream, level, text))
    }

    /// Replicas that wait for the catalogue say so now and then: whoever elects may be another node
    /// since.
    fn say_who_waits(&mut self, now: Now, heard: &mut Vec<StreamThreadEvent>) {
        if self
            .copies
            .waiting_ms
            .is_some_and(|at| at > now.monotonic_ms)
        {
            return;
        }
        let waiting = self.host.waiting_replicas();
        let election_request = waiting.map(|(stream, promised)| ElectionRequest {
            stream,
            // What it was told and does not do is as good as used up.
            promised: promised.max(
                self.copies
                    .ordered
                    .get(&stream)
                    .copied()
                    .unwrap_or_default(),
            ),
            wants_other_leader: false,
        });
        let before = heard.len();
        heard.extend(election_request.map(StreamThreadEvent::ElectionRequest));
        let waits = heard.len() > before;
        self.copies.waiting_ms = waits.then_some(now.monotonic_ms + STREAM_WAITING_MS);
    }
}

/// That a replica is fenced, in words for an operator.
fn told_of_fence(fence: Fence) -> String {
    let found = match fence.leader_parts_at {
        Some(offset) => format!("the stream's leader has another log from offset {offset} on"),
        None => "a leader of the stream had not all of that before this node started".to_owned(),
    };
    format!(
        "all below offset {} was committed, as this node's replica knows, and {found}: nothing is \
         cut here, and the replica takes no part until it is removed with `rabbitmq-streams \
         delete_replica`, which deletes what it has",
        fence.committed
    )
}
