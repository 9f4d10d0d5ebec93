//! How the thread of the streams is reached, and what it says: its inbox, and the handle by which
//! others know it.

use super::asking::Question;
use leveret_cluster::streams::{
    PeerLink, ReplicaHere, command_bytes, goes_with_publishes, published_bytes,
};
use leveret_cluster::{BlockedStreams, ElectionRequest};
use leveret_storage::StreamSynced;
use leveret_stream::tracking::Tracking;
use leveret_stream::{
    Command, Event, Reference, ReplicaMessage, RetentionAlarm, SessionId, StreamSettings,
    StreamStats,
};
use leveret_stream_host::DoneRead;
use leveret_types::limits::{STREAM_INBOX_BYTES_MAX, STREAM_TURN_BYTES};
use leveret_types::{NodeId, QueueId};
use parking_lot::{Condvar, Mutex};
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Duration;

/// How long to wait for figures.
pub(super) const STATS_PATIENCE: Duration = Duration::from_secs(1);

/// What the thread is asked to do.
#[derive(Debug)]
pub(super) enum Input {
    Say(SessionId, Command),
    /// A session of another node says something.
    Relayed(PeerLink, SessionId, Command),
    /// Those sessions have gone with their link.
    Left(PeerLink),
    /// This node has a replica, or the catalogue says something else of it.
    Replica(Box<ReplicaHere>),
    /// This node has no replica of it.
    NoReplica(QueueId),
    /// Another node says something to a replica, in so many bytes.
    Message(NodeId, QueueId, ReplicaMessage, u64),
    /// The link to another node is new.
    Connected(NodeId),
    /// Another node has taken so many bytes of messages.
    Copied(NodeId, u64),
    HandOver(QueueId, NodeId),
    Begin(QueueId, Box<StreamSettings>),
    Change(QueueId, Box<StreamSettings>),
    Synced(StreamSynced),
    WasRead(Box<DoneRead>),
    Delete(QueueId),
    Stats(SyncSender<Vec<(QueueId, StreamStats)>>),
    StatsOf(Vec<QueueId>, SyncSender<Vec<(QueueId, StreamStats)>>),
    ActiveStats(SyncSender<Vec<(QueueId, StreamStats)>>),
    Members(QueueId, SyncSender<Option<LedMembers>>),
    Tracking(QueueId, SyncSender<Option<StreamTracking>>),
    /// An operator asks.
    Ask(Question),
}

/// The members of a stream that this node leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedMembers {
    /// The nodes with a majority of which the leader commits.
    pub nodes: Vec<NodeId>,
    /// Whether a majority of them has all that was ever committed: not before may one more come or
    /// go.
    pub may_change: bool,
    /// The members that may go, one of them, also while no other change may be.
    pub removable: Vec<NodeId>,
    /// Whether a part of the stream is damaged that nobody else has: one that comes would never
    /// have all of it.
    pub is_damaged: bool,
}

/// A stream that this node leads, and whose members may change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedStream {
    /// The stream.
    pub stream: QueueId,
    /// Its members, as its leader has them.
    pub members: Vec<NodeId>,
    /// Bytes that it holds.
    pub bytes: u64,
}

/// What a stream keeps by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamTracking {
    /// Consumers, and the offsets that they have stored.
    pub offsets: Vec<(String, u64)>,
    /// Publishers, and their last publishing ids.
    pub sequences: Vec<(String, u64)>,
}

impl StreamTracking {
    pub(super) fn of(tracking: &Tracking) -> Self {
        let named = |(name, value): (&Reference, u64)| {
            let name = String::from_utf8_lossy(name.as_bytes());
            (name.into_owned(), value)
        };
        Self {
            offsets: tracking.all_offsets().map(named).collect(),
            sequences: tracking.all_sequences().map(named).collect(),
        }
    }
}

/// What sessions hear of the thread.
#[derive(Debug)]
pub enum StreamThreadEvent {
    /// Something happened.
    Event(SessionId, Event),
    /// What was refused for lack of room may be said again.
    Room(SessionId),
    /// Something happened that a session of another node is to hear.
    Relayed(PeerLink, SessionId, Event),
    /// So many bytes of publishes, and of other commands, were taken of another node's sessions.
    Taken(PeerLink, u64, u64),
    /// A message for a replica on a node, or for whoever elects there.
    Message(NodeId, QueueId, ReplicaMessage),
    /// So many bytes of messages of another node's replicas were taken.
    Copied(NodeId, u64),
    /// A stream needs another epoch.
    ElectionRequest(ElectionRequest),
    /// More consumers store offsets in a stream than it keeps: so many came since this was said.
    Crowded(QueueId, u64),
    /// A part of a stream is damaged here, at or behind this offset, that nobody else has.
    Damaged(QueueId, u64),
    /// A stream that is to be led by another node has nothing under way here.
    MayMove(QueueId, NodeId),
    /// Something is to be said in the log, of a stream that its operators know by name.
    Told(QueueId, tracing::Level, String),
    /// Groups hold more of a stream than they may; or, without an alarm, do so no more.
    Held(QueueId, Option<RetentionAlarm>),
    /// This node leads these streams, with these members, to which one more may come.
    Led(Vec<LedStream>),
}

#[derive(Default)]
pub(super) struct Inbox {
    pub(super) publishes: InputQueue,
    pub(super) others: InputQueue,
    /// The last turn took what others had said, and publishes waited.
    pub(super) publishes_are_next: bool,
    /// Whether a stream begins here by what waits among what others say.
    pub(super) begins: bool,
    pub(super) is_disk_full: bool,
    /// Streams whose publishers wait for the end of alarms.
    pub(super) held: BlockedStreams,
    /// Sessions that were refused for that.
    pub(super) held_back: BTreeSet<SessionId>,
    /// Those of them that may try again, for other streams are held now.
    pub(super) let_go: BTreeSet<SessionId>,
    /// The streams that are held have changed since the last turn.
    pub(super) has_changed: bool,
    pub(super) is_stopped: bool,
}

/// Inputs in their order, and what they count.
#[derive(Default)]
pub(super) struct InputQueue {
    pub(super) inputs: VecDeque<Input>,
    pub(super) bytes: usize,
    /// Sessions that were refused.
    pub(super) waiting: BTreeSet<SessionId>,
}

impl InputQueue {
    fn push(&mut self, input: Input) {
        self.bytes += input.bytes();
        self.inputs.push_back(input);
    }

    /// One always may, however large.
    fn has_room(&self, bytes: usize) -> bool {
        self.bytes == 0 || self.bytes + bytes <= STREAM_INBOX_BYTES_MAX
    }

    /// Sessions that were refused and may go on, once half of the room is free: not one by one.
    pub(super) fn take_waiting(&mut self) -> BTreeSet<SessionId> {
        match self.bytes <= STREAM_INBOX_BYTES_MAX / 2 {
            true => std::mem::take(&mut self.waiting),
            false => BTreeSet::new(),
        }
    }

    /// Takes inputs until they are this many bytes.
    fn take(&mut self, bytes_min: usize, into: &mut Vec<Input>) {
        let mut bytes = 0;
        while bytes < bytes_min
            && let Some(input) = self.inputs.pop_front()
        {
            bytes += input.bytes();
            into.push(input);
        }
        self.bytes -= bytes;
    }
}

impl Inbox {
    fn put(&mut self, input: Input) {
        self.begins |= matches!(input, Input::Begin(..) | Input::Replica(_));
        self.others.push(input);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.publishes.inputs.is_empty() && self.others.inputs.is_empty()
    }

    /// Whether a session's command must wait, for it publishes to a stream that is held.
    fn holds_back(&mut self, session: SessionId, command: &Command) -> bool {
        let publishes = published_bytes(command).is_some();
        let is_held = publishes && command.stream().is_some_and(|to| self.held.has(to));
        if is_held {
            self.held_back.insert(session);
        }
        is_held
    }

    /// As much as one turn takes: in turn all but publishes, which costs no write, and a bounded
    /// part of these. So whoever reads waits for no more than what is being written when it asks,
    /// and nobody waits behind all that others say. The last turn takes all.
    pub(super) fn take_turn(&mut self) -> Vec<Input> {
        let mut inputs = Vec::new();
        if self.is_stopped {
            self.others.take(usize::MAX, &mut inputs);
            self.publishes.take(usize::MAX, &mut inputs);
            return inputs;
        }
        let others_are_next = !std::mem::take(&mut self.publishes_are_next);
        let has_publishes = !self.publishes.inputs.is_empty();
        if others_are_next && !self.others.inputs.is_empty() || !has_publishes {
            self.others.take(usize::MAX, &mut inputs);
            self.publishes_are_next = has_publishes;
            self.begins = false;
        } else {
            // Who publishes to a stream as soon as it is made finds it here.
            if std::mem::take(&mut self.begins) {
                self.others.take(usize::MAX, &mut inputs);
            }
            self.publishes.take(STREAM_TURN_BYTES, &mut inputs);
        }
        inputs
    }
}

impl Input {
    /// Bytes that it counts.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Say(_, command) | Self::Relayed(_, _, command) => command_bytes(command),
            _ => 0,
        }
    }
}

#[derive(Default)]
pub(super) struct Shared {
    pub(super) inbox: Mutex<Inbox>,
    pub(super) wake: Condvar,
    /// Whether any stream is held: where none is, nobody waits for the lock to ask.
    pub(super) are_held: AtomicBool,
}

/// How sessions of any protocol, and the catalogue, reach the streams. Clones share it.
#[derive(Clone, Default)]
pub struct StreamHandle(pub(super) Arc<Shared>);

impl StreamHandle {
    /// Says something for a session.
    ///
    /// # Errors
    /// The command, if there is no room for it now, or if it publishes to a stream that is held:
    /// the session stops reading its client, and says it again when it hears
    /// [`StreamThreadEvent::Room`].
    pub fn say(&self, session: SessionId, command: Command) -> Result<(), Box<Command>> {
        let published = published_bytes(&command);
        let mut inbox = self.0.inbox.lock();
        if inbox.holds_back(session, &command) {
            return Err(Box::new(command));
        }
        let is_blocked = inbox.is_disk_full;
        let bytes = command_bytes(&command);
        let queue = match goes_with_publishes(&command) {
            true => &mut inbox.publishes,
            false => &mut inbox.others,
        };
        if !queue.has_room(bytes) || published.is_some() && is_blocked {
            queue.waiting.insert(session);
            return Err(Box::new(command));
        }
        queue.push(Input::Say(session, command));
        drop(inbox);
        self.0.wake.notify_one();
        Ok(())
    }

    /// A session has ended. What it has said and there was no room for comes before that, whatever
    /// room there is: it is what came with one read of a socket, and nobody says it again.
    pub fn leave(&self, session: SessionId, unsaid: impl IntoIterator<Item = Command>) {
        let mut inbox = self.0.inbox.lock();
        inbox.publishes.waiting.remove(&session);
        inbox.others.waiting.remove(&session);
        inbox.held_back.remove(&session);
        inbox.let_go.remove(&session);
        for command in unsaid.into_iter().chain([Command::Leave]) {
            inbox.publishes.push(Input::Say(session, command));
        }
        drop(inbox);
        self.0.wake.notify_one();
    }

    /// A session of another node says something, for which its node has left room.
    pub fn say_relayed(&self, link: PeerLink, session: SessionId, command: Command) {
        let mut inbox = self.0.inbox.lock();
        let queue = match goes_with_publishes(&command) {
            true => &mut inbox.publishes,
            false => &mut inbox.others,
        };
        queue.push(Input::Relayed(link, session, command));
        drop(inbox);
        self.0.wake.notify_one();
    }

    /// The sessions of another node have gone: behind what they have said.
    pub fn leave_all(&self, link: PeerLink) {
        let mut inbox = self.0.inbox.lock();
        inbox.publishes.push(Input::Left(link));
        drop(inbox);
        self.0.wake.notify_one();
    }

    /// This node has a replica of a stream, and the catalogue says this to it.
    pub fn replica(&self, here: Box<ReplicaHere>) {
        self.put(Input::Replica(here));
    }

    /// This node has no replica of a stream: if it had one, it goes with its files.
    pub fn no_replica(&self, stream: QueueId) {
        self.put(Input::NoReplica(stream));
    }

    /// Another node says something to a replica here, for which it has left room, or somebody on
    /// this node does.
    pub fn tell_replica(&self, from: NodeId, stream: QueueId, message: ReplicaMessage, bytes: u64) {
        self.put(Input::Message(from, stream, message, bytes));
    }

    /// The link to another node is new.
    pub fn connected(&self, node: NodeId) {
        self.put(Input::Connected(node));
    }

    /// Another node is to lead a stream, once it has nothing under way here.
    pub fn hand_over(&self, stream: QueueId, to: NodeId) {
        self.put(Input::HandOver(stream, to));
    }

    /// Another node has taken so many bytes of messages of replicas.
    pub fn copied(&self, node: NodeId, bytes: u64) {
        self.put(Input::Copied(node, bytes));
    }

    /// A stream was declared, or exists at the start.
    pub fn begin(&self, stream: QueueId, settings: StreamSettings) {
        self.put(Input::Begin(stream, Box::new(settings)));
    }

    /// A policy says something else of a stream.
    pub fn change(&self, stream: QueueId, settings: StreamSettings) {
        self.put(Input::Change(stream, Box::new(settings)));
    }

    /// A stream was deleted.
    pub fn delete(&self, stream: QueueId) {
        self.put(Input::Delete(stream));
    }

    /// How the streams of this node stand; nothing if they do not say within a second.
    #[must_use]
    pub fn stats(&self) -> Vec<(QueueId, StreamStats)> {
        let (answer, answers) = sync_channel(1);
        self.put(Input::Stats(answer));
        answers.recv_timeout(STATS_PATIENCE).unwrap_or_default()
    }

    /// The same of these streams, as far as they are here: it costs no more where there are many.
    #[must_use]
    pub fn stats_of(&self, streams: Vec<QueueId>) -> Vec<(QueueId, StreamStats)> {
        let (answer, answers) = sync_channel(1);
        self.put(Input::StatsOf(streams, answer));
        answers.recv_timeout(STATS_PATIENCE).unwrap_or_default()
    }

    /// The same of the streams that something happened to since this was asked last.
    #[must_use]
    pub fn take_active_stats(&self) -> Vec<(QueueId, StreamStats)> {
        let (answer, answers) = sync_channel(1);
        self.put(Input::ActiveStats(answer));
        answers.recv_timeout(STATS_PATIENCE).unwrap_or_default()
    }

    /// What a stream of this node keeps by name; none of a stream that is not here, or if the
    /// thread does not say within a second.
    #[must_use]
    pub fn tracking(&self, stream: QueueId) -> Option<StreamTracking> {
        let (answer, answers) = sync_channel(1);
        self.put(Input::Tracking(stream, answer));
        answers.recv_timeout(STATS_PATIENCE).ok().flatten()
    }

    /// The members with a majority of which the leader of a stream on this node commits; nothing if
    /// it does not lead, or does not say within a second.
    #[must_use]
    pub fn members(&self, stream: QueueId) -> Option<LedMembers> {
        let (answer, answers) = sync_channel(1);
        self.put(Input::Members(stream, answer));
        answers.recv_timeout(STATS_PATIENCE).ok().flatten()
    }

    /// From now on these streams are held, and no others.
    pub fn hold(&self, streams: BlockedStreams) {
        let mut inbox = self.0.inbox.lock();
        if inbox.held == streams {
            return;
        }
        let are_held = streams != BlockedStreams::None;
        self.0.are_held.store(are_held, Ordering::Release);
        inbox.held = streams;
        // Who publishes to one that is held still is refused once more.
        let held_back = std::mem::take(&mut inbox.held_back);
        inbox.let_go.extend(held_back);
        inbox.has_changed = true;
        drop(inbox);
        self.0.wake.notify_one();
    }

    /// Whether a session's command for any node must wait, for it publishes to a stream that is
    /// held: the session hears [`StreamThreadEvent::Room`] when it may say it again.
    pub fn holds_back(&self, session: SessionId, command: &Command) -> bool {
        self.0.are_held.load(Ordering::Acquire) && self.0.inbox.lock().holds_back(session, command)
    }

    /// Ends the thread after one more turn.
    pub fn stop(&self) {
        self.0.inbox.lock().is_stopped = true;
        self.0.wake.notify_one();
    }

    /// Whether nobody's publishes are taken now.
    pub(super) fn are_publishers_held(&self) -> bool {
        let inbox = self.0.inbox.lock();
        inbox.is_disk_full || inbox.held == BlockedStreams::All
    }

    pub(super) fn put(&self, input: Input) {
        self.0.inbox.lock().put(input);
        self.0.wake.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use leveret_stream::{PublisherId, RequestId};

    #[test]
    fn who_publishes_to_a_stream_that_was_just_made_does_not_overtake_its_beginning() {
        let session = SessionId::Remote(1);
        let mut inbox = Inbox::default();
        inbox.put(Input::Delete(QueueId(1)));
        inbox.publishes.push(Input::Say(session, Command::Leave));
        assert!(matches!(inbox.take_turn()[..], [Input::Delete(_)]));
        inbox.put(Input::Begin(QueueId(2), Box::default()));
        let declare = Command::DeclarePublisher {
            request: RequestId(1),
            stream: QueueId(2),
            publisher: PublisherId(1),
            reference: None,
        };
        inbox.publishes.push(Input::Say(session, declare));
        let turn = inbox.take_turn();
        assert!(
            matches!(
                turn[..],
                [
                    Input::Begin(..),
                    Input::Say(_, Command::Leave),
                    Input::Say(_, Command::DeclarePublisher { .. })
                ]
            ),
            "{} inputs",
            turn.len()
        );
    }
}
