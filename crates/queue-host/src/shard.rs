//! A shard: some of the node's queues, and the part of the storage engine that keeps their
//! messages.
//!
//! A shard is borrowed, given work, and told to [`Shard::finish`]; only then do its queues deliver,
//! expire and drop, once for the whole batch. What is to happen elsewhere is in [`Shard::effects`].

mod convert;
mod entry;
mod replicas;

use crate::classic::ClassicQueues;
use crate::delayed::{self, BeingRead, Delayed};
pub use crate::effects::{DeadLetter, Deferred, ShardEffects};
use crate::events::LogPosition;
pub use crate::host_kind::CountersByType;
use crate::host_kind::HostKind;
pub use crate::log_ids::{CATALOGUE_GROUP_LOG, CATALOGUE_LOG, log_of, queue_of, shard_of};
pub use crate::outcome::{Bodies, Enqueued, GetOutcome, unavailable};
use crate::peer_rooms::{PeerRooms, Waiter};
pub use crate::queue_host::When;
pub use crate::queue_spec::{LocalQueueStats, QueueSpec, ViewSpec};
use crate::quorum::protocol::{self, Answer, Fetched, Origin};
use crate::quorum::replica::{Replicas, Transfers};
use crate::quorum::{PendingReplies, RemoteQueues};
use crate::shard_context::ShardContext;
use crate::stream_events::StreamNews;
use crate::stream_queues::StreamQueues;
pub use crate::subscriber::Subscriber;
use bytes::Bytes;
use leveret_queue::{Counts, UnsettledMessage, Waiting};
use leveret_storage::{LogStats, SealedChunk, ShardLogs, Urgency};
use leveret_types::limits::LEADER_LEASE_MS;
use leveret_types::{ConsumerId, LogId, Message, NodeId, Now, QueueId, ShardId};
use std::collections::HashMap;
use std::ops::Range;

/// Queues whose states are saved before a shard is let go.
pub const STATES_AT_ONCE: usize = 1_000;

/// How this node stands among the others.
struct Standing {
    /// Other nodes that are up.
    up: Vec<NodeId>,
    /// When this node last looked which those are, on the monotonic clock.
    checked_ms: u64,
    /// Whether this node's data folder is an older copy of itself.
    is_outdated: bool,
}

impl Default for Standing {
    fn default() -> Self {
        Self {
            up: Vec::new(),
            checked_ms: u64::MAX,
            is_outdated: false,
        }
    }
}

/// A shard.
pub struct Shard {
    id: ShardId,
    /// How many shards the node has.
    count: u16,
    /// The node that it is part of.
    node: NodeId,
    /// The storage engine's part.
    pub logs: ShardLogs,
    /// Queues that are on this node alone.
    classic: ClassicQueues,
    /// What is to happen outside.
    pub effects: ShardEffects,
    delayed: Delayed,
    urgent: bool,
    next_deadline_ms: u64,
    scratch: Vec<leveret_queue::Effect>,
    /// Queues that are on other nodes, or on several.
    pub(crate) remote_queues: RemoteQueues,
    /// Streams that something of this shard goes to.
    streams: StreamQueues,
    /// Members of queues that are on several nodes.
    replicas: Replicas,
    transfers: Transfers,
    standing: Standing,
    /// What leaders in this shard say to remote queues, those in this shard included.
    pub(crate) answers: Vec<Answer>,
    /// The same of those on other nodes that there is no room for on the way there.
    pub(crate) pending_replies: PendingReplies,
    /// Room on the way to other nodes.
    pub peer_rooms: PeerRooms,
}

impl Shard {
    /// One of `count` shards of `node`, without queues, over its part of the storage engine.
    #[must_use]
    pub fn new(id: ShardId, count: u16, node: NodeId, logs: ShardLogs) -> Self {
        Self {
            id,
            count,
            node,
            delayed: Delayed::recover(&logs),
            logs,
            classic: ClassicQueues::default(),
            effects: ShardEffects::default(),
            urgent: false,
            next_deadline_ms: u64::MAX,
            scratch: Vec::new(),
            remote_queues: RemoteQueues::new(Origin { node, start: 1 }, count),
            streams: StreamQueues::default(),
            replicas: Replicas::default(),
            transfers: Transfers::of_shard(count),
            standing: Standing::default(),
            answers: Vec::new(),
            pending_replies: PendingReplies::default(),
            peer_rooms: PeerRooms::unbounded(),
        }
    }

    /// Says which run of the node this is: a number greater than those of all its runs before, such
    /// as the milliseconds since the Unix epoch at its start. To be called before queues are added.
    pub fn set_start(&mut self, start: u64) {
        let node = self.node;
        self.remote_queues = RemoteQueues::new(Origin { node, start }, self.count);
    }

    /// The place in the write-ahead log of everything done so far.
    #[must_use]
    pub fn log_position(&self) -> LogPosition {
        LogPosition {
            shard: self.id,
            chunk: self.logs.position(),
        }
    }

    /// As [`Self::log_position`], and what has gathered goes to the log at once, even if it is
    /// nothing but settles.
    pub fn urgent_log_position(&mut self) -> LogPosition {
        self.urgent = true;
        self.log_position()
    }

    /// Whether what has gathered is to be written at once.
    #[must_use]
    pub fn wants_write(&self) -> bool {
        match self.urgency() {
            Urgency::Awaited => true,
            Urgency::Lazy => self.urgent || self.replicas.is_urgent(),
            Urgency::Nothing => false,
        }
    }

    /// Whether somebody waits for what has gathered, but so that it may gather a moment.
    #[must_use]
    pub fn wants_write_soon(&self) -> bool {
        self.urgency() == Urgency::Lazy && self.replicas.writes_soon()
    }

    /// What has gathered is about to be sealed: what belongs into the same chunk is added now.
    pub fn before_seal(&mut self, now: Now) {
        if self.replicas.has_open() {
            self.with_replicas(now, |replicas, context| replicas.before_seal(context));
            // What was proposed may be due before it is durable.
            self.next_deadline_ms = self.deadline(now).unwrap_or(u64::MAX);
        }
    }

    /// This shard's part of the write-ahead log is durable further than before: what waited for it
    /// goes on. [`ShardLogs::on_durable`] has been told.
    pub fn on_durable(&mut self, now: Now) {
        self.for_each_kind(now, |kind, context| kind.on_durable(context));
        // What is committed now may have made a deadline: it is not certain that anything else
        // happens here before it.
        self.finish(now);
    }

    /// A frame for one of this shard's queues has come from another node. Anything may be in it.
    pub fn receive_peer(&mut self, now: Now, from: NodeId, queue: QueueId, frame: Bytes) {
        match frame.first() {
            Some(&(protocol::TO_LEADER | protocol::TO_REMOTE_QUEUE)) => {
                self.receive_link(now, from, queue, frame);
            }
            _ => self.with_replicas(now, |replicas, context| {
                replicas.receive_peer(context, from, queue, &frame);
            }),
        }
    }

    /// Another node is connected from now on.
    pub fn peer_up(&mut self, now: Now, peer: NodeId) {
        if !self.standing.up.contains(&peer) {
            self.standing.up.push(peer);
        }
        self.peer_rooms.open(peer);
        self.pending_replies.forget(peer);
        self.remote_queues.peer_up(now, peer);
        self.for_each_kind(now, |kind, context| kind.peer_up(context, peer));
    }

    /// Another node is down: the failure detector has given it up.
    pub fn peer_down(&mut self, now: Now, peer: NodeId) {
        self.standing.up.retain(|up| *up != peer);
        self.peer_rooms.close(peer);
        self.pending_replies.forget(peer);
        self.link_peer_down(now, peer);
        self.for_each_kind(now, |kind, context| kind.peer_down(context, peer));
    }

    /// There is room for so many bytes more on the way to another node: those who stand in line for
    /// it send, one after the other, until it is used up.
    pub fn give_peer_room(&mut self, now: Now, peer: NodeId, bytes: usize) {
        self.peer_rooms.give(peer, bytes);
        while let Some(who) = self.peer_rooms.begin_turn(peer) {
            match who {
                Waiter::Operations(queue) => self.flush_remote_queue(now, queue),
                Waiter::Entries(queue) => self.with_replicas(now, |replicas, context| {
                    replicas.retry_outgoing(context, queue);
                }),
                Waiter::Answers(queue) => self.flush_pending_replies(peer, queue),
            }
            self.peer_rooms.end_turn(peer);
        }
    }

    /// The node that this shard is part of; 0 outside clusters.
    #[must_use]
    pub const fn node(&self) -> NodeId {
        self.node
    }

    /// Hands what has gathered to the write-ahead log.
    pub fn seal(&mut self, out: &mut Vec<SealedChunk>) {
        self.urgent = false;
        self.replicas.sealed();
        self.logs.seal(out);
    }

    /// Adds a queue: a new one, or one that was there before a restart, with the priority logs
    /// whose logs the engine still has.
    pub fn add_queue(&mut self, now: Now, id: QueueId, spec: QueueSpec, priority_logs: Vec<u8>) {
        assert_eq!(
            shard_of(id, self.count),
            self.id,
            "queue {id} belongs to another shard"
        );
        if !spec.members.is_empty() {
            return self.recover_queue(now, id, spec, priority_logs, &mut |_| {});
        }
        if self.place_remote_queue(id, &spec) {
            return;
        }
        self.classic.add(now, id, spec, priority_logs, &self.logs);
    }

    /// Changes what policies and arguments make of a queue.
    pub fn update_queue(&mut self, now: Now, id: QueueId, spec: QueueSpec) {
        let has_members = !spec.members.is_empty();
        match (self.classic.has(id), has_members) {
            (true, true) => self.begin_group(now, id, spec),
            (true, false) => self.classic.update(now, id, spec),
            (false, true) => self.update_replica(now, id, spec),
            (false, false) => {}
        }
    }

    /// Takes a queue away with its messages: its consumers are told. Answers how many messages were
    /// ready.
    pub fn remove_queue(&mut self, now: Now, id: QueueId) -> Option<Counts> {
        self.remove_remote_queue(now, id);
        self.on_kind(now, id, |kind, context| kind.remove(context, id))
    }

    /// Keeps a queue's lease alive: it was declared again.
    pub fn touch(&mut self, now: Now, queue: QueueId) {
        self.classic.touch(now, queue);
    }

    /// A message that was dead-lettered is where it was to go (or nowhere): it leaves.
    pub fn dead_lettered(&mut self, now: Now, queue: QueueId, priority_log: u8, range: Range<u64>) {
        self.on_kind(now, queue, |kind, context| {
            kind.dead_lettered(context, queue, priority_log, range);
        });
    }

    /// A message that must be dead-lettered could not be: it goes again later.
    pub fn not_dead_lettered(&mut self, now: Now, queue: QueueId, priority_log: u8, index: u64) {
        self.on_kind(now, queue, |kind, context| {
            kind.not_dead_lettered(context, queue, priority_log, index);
        });
    }

    /// Messages that were read from disk have come for these logs.
    pub fn loaded(&mut self, now: Now, logs: impl IntoIterator<Item = LogId>) {
        for log in logs {
            if log == delayed::LOG {
                self.delayed
                    .release(now, &mut self.logs, &mut self.effects.deferred);
                continue;
            }
            let (queue, _) = queue_of(log);
            self.on_kind(now, queue, |kind, context| kind.loaded(context, queue));
            self.remote_queues.loaded(queue);
        }
    }

    /// Keeps a message back until `due_ms`.
    pub fn delay(&mut self, vhost: &str, message: &Message, due_ms: u64) {
        self.delayed.add(&mut self.logs, vhost, message, due_ms);
    }

    /// How many delayed messages are kept back.
    #[must_use]
    pub fn delayed_count(&self) -> u64 {
        self.delayed.len()
    }

    /// The first of them by when they are due: see [`Delayed::first`].
    #[must_use]
    pub fn first_delayed(&self, from: (u64, u64), count: usize) -> Vec<(u64, u64)> {
        self.delayed.first(from, count)
    }

    /// One of them: see [`Delayed::show`].
    ///
    /// # Errors
    /// It is being read from disk: ask again.
    pub fn show_delayed(
        &mut self,
        which: (u64, u64),
    ) -> Result<Option<(String, Message)>, BeingRead> {
        self.delayed.show(&mut self.logs, which)
    }

    /// Drops one of them; whether it was there.
    pub fn cancel_delayed(&mut self, which: (u64, u64)) -> bool {
        self.delayed.cancel(&mut self.logs, which)
    }

    /// What each queue has in the storage engine, in no order.
    #[must_use]
    pub fn stored(&self) -> Vec<(QueueId, LogStats)> {
        let mut queues: HashMap<QueueId, LogStats> = HashMap::new();
        for log in self.logs.log_ids().filter(|log| *log != delayed::LOG) {
            let Some(stats) = self.logs.log_stats(log) else {
                continue;
            };
            let sum = queues.entry(queue_of(log).0).or_default();
            sum.entries += stats.entries;
            sum.bytes += stats.bytes;
            sum.segment_entries += stats.segment_entries;
            sum.segment_bytes += stats.segment_bytes;
        }
        queues.into_iter().collect()
    }

    /// A delayed message has reached its queues: it leaves where it was kept.
    pub fn delayed_released(&mut self, index: u64, bytes: u32) {
        self.logs
            .settle(delayed::LOG, index..index + 1, u64::from(bytes));
    }

    /// A delayed message could not reach its queues yet: it is kept, and let go after a pause.
    pub fn delay_again(&mut self, now: Now, delayed: (u64, u64), bytes: u32) {
        self.delayed.put_back(now, delayed, bytes);
    }

    /// A stream says something to a queue of this shard that has a session with it: a view, or what
    /// stands for the stream itself.
    pub fn hear_stream(&mut self, now: Now, queue: QueueId, news: StreamNews) {
        if queue.is_stream() {
            return self.streams.hear(queue, news, &mut self.effects);
        }
        let (mut context, classic, replicas) = self.parts(now);
        match classic.has(queue) {
            true => classic.hear_stream(&mut context.host_context(), queue, news),
            false => replicas.hear_stream(&mut context, queue, news),
        }
    }

    /// Looks at the queues whose time has come, and lets go delayed messages that are due.
    pub fn tick(&mut self, now: Now) {
        self.link_tick(now);
        self.for_each_kind(now, |kind, context| kind.tick(context));
        self.delayed
            .release(now, &mut self.logs, &mut self.effects.deferred);
        self.finish(now);
    }

    /// When [`Self::tick`] is to be called next, in monotonic milliseconds; `u64::MAX` is never.
    #[must_use]
    pub const fn next_deadline_ms(&self) -> u64 {
        self.next_deadline_ms
    }

    fn deadline(&self, now: Now) -> Option<u64> {
        let delayed = self.delayed.next_due_ms();
        let delayed =
            delayed.map(|due| now.monotonic_ms + due.saturating_sub(now.wall_ms).min(1_000));
        [
            self.classic.next_deadline_ms(now),
            delayed,
            self.remote_queues.next_deadline_ms(),
            self.replicas.next_deadline_ms(now),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Lets every queue that something happened to deliver, expire and drop, and remote queues and
    /// leaders say what they have to say.
    pub fn finish(&mut self, now: Now) {
        self.finish_hosts(now);
        while !self.answers.is_empty() || self.remote_queues.have_news() {
            self.exchange(now);
            // What was said may have been said to a queue next to the remote queue.
            self.finish_hosts(now);
        }
        self.next_deadline_ms = self.deadline(now).unwrap_or(u64::MAX);
    }

    fn finish_hosts(&mut self, now: Now) {
        self.for_each_kind(now, |kind, context| kind.finish(context));
    }

    /// What hosts of queues reach, and the kinds of them: one that comes is to be one more here.
    fn parts(&mut self, now: Now) -> (ShardContext<'_>, &mut ClassicQueues, &mut Replicas) {
        let silent_ms = now.monotonic_ms.saturating_sub(self.standing.checked_ms);
        let context = ShardContext {
            now,
            node: self.node,
            up: &self.standing.up,
            may_be_deposed: silent_ms > LEADER_LEASE_MS,
            is_outdated: self.standing.is_outdated,
            logs: &mut self.logs,
            effects: &mut self.effects,
            answers: &mut self.answers,
            transfers: &self.transfers,
            peer_rooms: &mut self.peer_rooms,
            clients: &mut self.remote_queues,
            scratch: &mut self.scratch,
        };
        (context, &mut self.classic, &mut self.replicas)
    }

    fn for_each_kind(&mut self, now: Now, run: impl Fn(&mut dyn HostKind, &mut ShardContext<'_>)) {
        let (mut context, classic, replicas) = self.parts(now);
        run(classic, &mut context);
        run(replicas, &mut context);
    }

    /// Runs something on the kind of host that a queue has on this node.
    pub(crate) fn on_kind<R>(
        &mut self,
        now: Now,
        queue: QueueId,
        run: impl FnOnce(&mut dyn HostKind, &mut ShardContext<'_>) -> R,
    ) -> R {
        let (mut context, classic, replicas) = self.parts(now);
        match classic.has(queue) {
            true => run(classic, &mut context),
            false => run(replicas, &mut context),
        }
    }

    /// Runs something on the replicas, with what they may reach.
    pub(crate) fn with_replicas<R>(
        &mut self,
        now: Now,
        run: impl FnOnce(&mut Replicas, &mut ShardContext<'_>) -> R,
    ) -> R {
        let (mut context, _, replicas) = self.parts(now);
        run(replicas, &mut context)
    }

    /// Lets leaders act on what has happened.
    pub(crate) fn finish_replicas(&mut self, now: Now) {
        if !self.replicas.is_empty() {
            self.with_replicas(now, |replicas, context| replicas.finish(context));
        }
    }

    /// The kinds, to be looked at.
    fn kinds(&self) -> [&dyn HostKind; 2] {
        [&self.classic, &self.replicas]
    }

    /// The stats of one queue.
    #[must_use]
    pub fn local_stats(&self, now: Now, queue: QueueId) -> Option<LocalQueueStats> {
        let mut kinds = self.kinds().into_iter();
        kinds.find_map(|kind| kind.local_stats(now, &self.logs, queue))
    }

    /// Counts of a queue that is on this node alone, or led from here and acting.
    #[must_use]
    pub fn counts(&self, now: Now, queue: QueueId) -> Option<Counts> {
        let mut kinds = self.kinds().into_iter();
        kinds.find_map(|kind| kind.led_counts(now, queue))
    }

    /// Which messages of a quorum queue wait; nothing of any other, and where it is not led here.
    #[must_use]
    pub fn waiting(&self, queue: QueueId) -> Option<Waiting> {
        let mut kinds = self.kinds().into_iter();
        kinds.find_map(|kind| kind.waiting(queue))
    }

    /// Messages of a queue that somebody holds ([`leveret_queue::Queue::unsettled_behind`]);
    /// nothing where it is not led here, or its leader does not act yet.
    #[must_use]
    pub fn unsettled_behind(
        &self,
        queue: QueueId,
        of: Option<&[ConsumerId]>,
        before: u64,
        count: usize,
    ) -> Option<Vec<UnsettledMessage>> {
        let mut kinds = self.kinds().into_iter();
        kinds.find_map(|kind| kind.unsettled_behind(queue, of, before, count))
    }

    /// Shows a message that somebody holds, and leaves it there; nothing while it is being read
    /// from disk.
    pub fn show_unsettled(
        &mut self,
        now: Now,
        queue: QueueId,
        held: &UnsettledMessage,
    ) -> Option<Fetched> {
        self.on_kind(now, queue, |kind, context| {
            kind.show_unsettled(context, queue, held)
        })
    }

    /// The stats of all queues.
    pub fn all_local_stats(&self, now: Now) -> impl Iterator<Item = LocalQueueStats> + '_ {
        self.kinds().into_iter().flat_map(move |kind| {
            let ids = kind.queues().into_iter();
            ids.filter_map(move |id| kind.local_stats(now, &self.logs, id))
        })
    }

    /// The queues led here that something happened to since this was asked last, in no order; no
    /// more of each kind than are sampled.
    pub fn take_active(&mut self) -> Vec<QueueId> {
        let mut active = Vec::new();
        self.classic.take_active(&mut active);
        self.replicas.take_active(&mut active);
        active
    }

    /// How many messages each queue has that is led here and not empty: all, those that wait, those
    /// that are not settled.
    #[must_use]
    pub fn depths(&self) -> Vec<(QueueId, [u64; 3])> {
        let kinds = self.kinds().into_iter();
        kinds.flat_map(HostKind::depths).collect()
    }

    /// What the queues count that are led here and there now, all of a type together.
    pub fn counters(&mut self) -> CountersByType {
        let mut sums = self.classic.counters();
        sums += self.replicas.counters();
        sums
    }

    /// Writes down what of the queues must survive besides their messages: at shutdown.
    pub fn save_states(&mut self, clean: bool) {
        for queue in self.classic.queues() {
            self.classic.save_state(queue, &mut self.logs, clean);
        }
    }

    /// The queues that [`Self::save_states_of`] has something to write of, in no order.
    #[must_use]
    pub fn queues(&self) -> Vec<QueueId> {
        self.classic.queues()
    }

    /// As [`Self::save_states`] before a checkpoint, of at most [`STATES_AT_ONCE`] of the queues,
    /// which are taken off: a shard with very many is let go in between, for whoever waits for it.
    pub fn save_states_of(&mut self, queues: &mut Vec<QueueId>) {
        let rest = queues.len().saturating_sub(STATES_AT_ONCE);
        for queue in queues.drain(rest..) {
            self.classic.save_state(queue, &mut self.logs, false);
        }
    }
}

#[cfg(test)]
mod tests;
