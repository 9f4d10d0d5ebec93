//! A shard: some of the node's queues, and the part of the storage engine that keeps their
//! messages.
//!
//! A shard is borrowed, given work, and told to [`Shard::finish`]; only then do its queues deliver,
//! expire and drop, once for the whole batch. What is to happen elsewhere is in [`Shard::effects`].

mod classic_queue;
mod convert;
mod entry;
mod local;
mod outcome;
mod remote_clients;
mod replicas;

use crate::delayed::{self, Delayed};
pub use crate::effects::{DeadLetter, Deferred, ShardEffects};
use crate::events::LogPosition;
pub use crate::log_ids::{CATALOGUE_GROUP_LOG, CATALOGUE_LOG, log_of, queue_of, shard_of};
pub use crate::queue_spec::{LocalQueueStats, QueueSpec};
use crate::quorum::link::{self, Answer, Origin};
use crate::quorum::replica::{Replicas, Transfers};
use crate::quorum::{LocalLeaders, RemoteQueues};
pub use crate::subscriber::Subscriber;
use bytes::Bytes;
use classic_queue::ClassicQueue;
pub use entry::When;
use hashbrown::HashMap;
use leveret_queue::Counts;
use leveret_storage::{SealedChunk, ShardLogs, Urgency};
use leveret_types::{ConsumerId, LogId, Message, NodeId, Now, QueueId, ShardId};
pub use outcome::{Bodies, Enqueued, GetOutcome, unavailable};
use std::collections::BTreeSet;
use std::ops::Range;

/// Queues whose states are saved before a shard is let go.
pub const STATES_AT_ONCE: usize = 1_000;

/// A shard.
pub struct Shard {
    id: ShardId,
    /// How many shards the node has.
    count: u16,
    /// The node that it is part of.
    node: NodeId,
    /// The storage engine's part.
    pub logs: ShardLogs,
    queues: HashMap<QueueId, ClassicQueue, foldhash::fast::FixedState>,
    /// Queues that something happened to since the last [`Self::finish`].
    dirty: Vec<QueueId>,
    /// When queues want to be looked at next.
    deadlines: BTreeSet<(u64, QueueId)>,
    /// What is to happen outside.
    pub effects: ShardEffects,
    delayed: Delayed,
    urgent: bool,
    next_deadline_ms: u64,
    scratch: Vec<leveret_queue::Effect>,
    /// Queues that are on other nodes, or on several.
    pub(crate) remote_queues: RemoteQueues,
    /// Queues of this node that others use.
    pub(crate) local_leaders: LocalLeaders,
    /// Members of queues that are on several nodes.
    replicas: Replicas,
    transfers: Transfers,
    /// Other nodes that are up.
    up: Vec<NodeId>,
    /// When this node last looked which those are, on the monotonic clock.
    peers_checked_ms: u64,
    /// Whether this node's data folder is an older copy of itself.
    is_outdated: bool,
    /// What leaders in this shard say to remote queues, those in this shard included.
    pub(crate) answers: Vec<Answer>,
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
            queues: HashMap::default(),
            dirty: Vec::new(),
            deadlines: BTreeSet::new(),
            effects: ShardEffects::default(),
            urgent: false,
            next_deadline_ms: u64::MAX,
            scratch: Vec::new(),
            remote_queues: RemoteQueues::new(Origin { node, start: 1 }, count),
            local_leaders: LocalLeaders::default(),
            replicas: Replicas::default(),
            transfers: Transfers::of_shard(count),
            up: Vec::new(),
            peers_checked_ms: u64::MAX,
            is_outdated: false,
            answers: Vec::new(),
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

    /// What has gathered is about to be sealed: what belongs into the same chunk is added now.
    pub fn before_seal(&mut self, now: Now) {
        if self.replicas.has_open() {
            self.with_replicas(now, |replicas, around| replicas.before_seal(around));
            // What was proposed may be due before it is durable.
            self.next_deadline_ms = self.deadline(now).unwrap_or(u64::MAX);
        }
    }

    /// This shard's part of the write-ahead log is durable further than before: what waited for it
    /// goes on. [`ShardLogs::on_durable`] has been told.
    pub fn on_durable(&mut self, now: Now) {
        if !self.replicas.is_empty() {
            self.with_replicas(now, |replicas, around| replicas.on_durable(around));
        }
        self.link_on_durable();
        // What is committed now may have made a deadline: it is not certain that anything else
        // happens here before it.
        self.finish(now);
    }

    /// A frame for one of this shard's queues has come from another node. Anything may be in it.
    pub fn receive_peer(&mut self, now: Now, from: NodeId, queue: QueueId, frame: Bytes) {
        match frame.first() {
            Some(&(link::TO_LEADER | link::TO_REMOTE_QUEUE)) => {
                self.receive_link(now, from, queue, frame);
            }
            _ => self.with_replicas(now, |replicas, around| {
                replicas.receive_peer(around, from, queue, &frame);
            }),
        }
    }

    /// Another node is connected from now on.
    pub fn peer_up(&mut self, now: Now, peer: NodeId) {
        if !self.up.contains(&peer) {
            self.up.push(peer);
        }
        self.link_peer_up(now, peer);
        self.with_replicas(now, |replicas, around| replicas.peer_up(around, peer));
    }

    /// Another node is down: the failure detector has given it up.
    pub fn peer_down(&mut self, now: Now, peer: NodeId) {
        self.up.retain(|up| *up != peer);
        self.link_peer_down(now, peer);
        self.with_replicas(now, |replicas, around| replicas.peer_down(around, peer));
    }

    /// The node that this shard is part of; 0 outside clusters.
    #[must_use]
    pub const fn node(&self) -> NodeId {
        self.node
    }

    /// Hands what has gathered to the write-ahead log.
    pub fn seal(&mut self, out: &mut Vec<SealedChunk>) {
        self.urgent = false;
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
        let classic_queue = ClassicQueue::new(now, id, spec, priority_logs, &self.logs);
        let before = self.queues.insert(id, classic_queue);
        assert!(before.is_none(), "queue {id} is there already");
        self.mark(id);
    }

    /// Changes what policies and arguments make of a queue.
    pub fn update_queue(&mut self, now: Now, id: QueueId, spec: QueueSpec) {
        if let Some(classic_queue) = self.queues.get_mut(&id) {
            if !spec.members.is_empty() {
                return self.begin_group(now, id, spec);
            }
            classic_queue.update(now, spec);
            self.mark(id);
        } else {
            self.update_replica(now, id, spec);
        }
    }

    /// Takes a queue away with its messages: its consumers are told. Answers how many messages were
    /// ready.
    pub fn remove_queue(&mut self, now: Now, id: QueueId) -> Option<Counts> {
        self.remove_remote_queue(now, id);
        if self.replicas.has(id) {
            return self.remove_replica(now, id);
        }
        let Some(classic_queue) = self.queues.remove(&id) else {
            self.delete_retired_replica(id);
            return None;
        };
        self.deadlines.remove(&(classic_queue.deadline_ms, id));
        for (consumer, attached) in &classic_queue.consumers {
            self.effects.cancelled(attached.subscriber, *consumer);
        }
        for priority_log in &classic_queue.priority_logs {
            self.logs.delete_log(log_of(id, *priority_log));
        }
        Some(classic_queue.queue.counts(now))
    }

    /// Whether the queue, or its remote queue here, knows this subscription still.
    pub(crate) fn is_holding(&self, queue: QueueId, subscription: ConsumerId) -> bool {
        if self.is_remote(queue) {
            return self.remote_queues.holds(queue, subscription);
        }
        let classic_queue = self.queues.get(&queue);
        classic_queue.is_some_and(|classic_queue| classic_queue.queue.holds(subscription))
    }

    /// Keeps a queue's lease alive: it was declared again.
    pub fn touch(&mut self, now: Now, queue: QueueId) {
        if let Some(classic_queue) = self.queues.get_mut(&queue) {
            classic_queue.queue.touch(now);
            self.mark(queue);
        }
    }

    /// A message that was dead-lettered is where it was to go (or nowhere): it leaves.
    pub fn dead_lettered(&mut self, now: Now, queue: QueueId, priority_log: u8, range: Range<u64>) {
        if let Some(classic_queue) = self.queues.get_mut(&queue) {
            classic_queue.dead.arrived(priority_log, &range);
            classic_queue
                .queue
                .dead_lettered(priority_log, range, &mut self.scratch);
            classic_queue.send_dead_letters(&mut self.logs, &mut self.effects);
            self.carry_out(queue);
        } else {
            self.with_replicas(now, |replicas, around| {
                replicas.dead_lettered(around, queue, priority_log, range);
            });
        }
    }

    /// A message that must be dead-lettered could not be: it goes again later.
    pub(crate) fn not_dead_lettered(
        &mut self,
        now: Now,
        queue: QueueId,
        priority_log: u8,
        index: u64,
    ) {
        if let Some(classic_queue) = self.queues.get_mut(&queue) {
            classic_queue.dead.refused(now, priority_log, index);
            self.mark(queue);
        } else {
            self.with_replicas(now, |replicas, around| {
                replicas.not_dead_lettered(around, queue, priority_log, index);
            });
        }
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
            let Some(classic_queue) = self.queues.get_mut(&queue) else {
                self.with_replicas(now, |replicas, around| replicas.loaded(around, queue));
                self.remote_queues.loaded(queue);
                continue;
            };
            classic_queue.queue.resume();
            classic_queue.send_dead_letters(&mut self.logs, &mut self.effects);
            for waiting in std::mem::take(&mut classic_queue.waiting_gets) {
                let outcome = self.get_local(
                    now,
                    queue,
                    waiting.subscription,
                    Some(waiting.subscriber),
                    waiting.no_ack,
                );
                if let Some(reply) = outcome.reply() {
                    let get = (queue, waiting.subscription);
                    self.effects.answer_get(waiting.subscriber, get, reply);
                }
            }
            self.mark(queue);
        }
    }

    /// Keeps a message back until `due_ms`.
    pub(crate) fn delay(&mut self, vhost: &str, message: &Message, due_ms: u64) {
        self.delayed.add(&mut self.logs, vhost, message, due_ms);
    }

    /// How many delayed messages are kept back.
    #[must_use]
    pub fn delayed_count(&self) -> u64 {
        self.delayed.len()
    }

    /// A delayed message has reached its queues: it leaves where it was kept.
    pub fn delayed_released(&mut self, index: u64, bytes: u32) {
        self.logs
            .settle(delayed::LOG, index..index + 1, u64::from(bytes));
    }

    /// Looks at the queues whose time has come, and lets go delayed messages that are due.
    pub fn tick(&mut self, now: Now) {
        self.link_tick(now);
        self.with_replicas(now, |replicas, around| replicas.tick(around));
        self.delayed
            .release(now, &mut self.logs, &mut self.effects.deferred);
        while let Some(&(at, queue)) = self.deadlines.first() {
            if at > now.monotonic_ms {
                break;
            }
            self.deadlines.remove(&(at, queue));
            if let Some(classic_queue) = self.queues.get_mut(&queue) {
                classic_queue.deadline_ms = 0;
                self.mark(queue);
            }
        }
        self.finish(now);
    }

    /// When [`Self::tick`] is to be called next, in monotonic milliseconds; `u64::MAX` is never.
    #[must_use]
    pub const fn next_deadline_ms(&self) -> u64 {
        self.next_deadline_ms
    }

    fn deadline(&self, now: Now) -> Option<u64> {
        let queues = self.deadlines.first().map(|(at, _)| *at);
        let delayed = self.delayed.next_due_ms();
        let delayed =
            delayed.map(|due| now.monotonic_ms + due.saturating_sub(now.wall_ms).min(1_000));
        let replicas = self.replicas.next_deadline_ms(now);
        [
            queues,
            delayed,
            self.remote_queues.next_deadline_ms(),
            replicas,
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Lets every queue that something happened to deliver, expire and drop, and remote queues and
    /// leaders say what they have to say.
    pub fn finish(&mut self, now: Now) {
        self.finish_local(now);
        self.exchange(now);
        while !self.dirty.is_empty() {
            self.finish_local(now);
            self.exchange(now);
        }
        self.next_deadline_ms = self.deadline(now).unwrap_or(u64::MAX);
    }

    pub(crate) fn finish_local(&mut self, now: Now) {
        while let Some(queue) = self.dirty.pop() {
            self.pump(now, queue);
        }
        self.finish_replicas(now);
    }

    /// Facts about one queue.
    #[must_use]
    pub fn local_stats(&self, now: Now, queue: QueueId) -> Option<LocalQueueStats> {
        let mut stats = match self.queues.get(&queue) {
            Some(classic_queue) => classic_queue.local_stats(now),
            None => self.replica_local_stats(now, queue)?,
        };
        stats.counts.damaged = stats.counts.damaged.max(self.lost_of(queue));
        Some(stats)
    }

    /// Counts of one queue of this node.
    #[must_use]
    pub fn counts(&self, now: Now, queue: QueueId) -> Option<Counts> {
        self.queues
            .get(&queue)
            .map(|classic_queue| classic_queue.queue.counts(now))
    }

    /// Facts about all queues.
    pub fn all_local_stats(&self, now: Now) -> impl Iterator<Item = LocalQueueStats> + '_ {
        let here = self
            .queues
            .values()
            .map(move |classic_queue| classic_queue.local_stats(now));
        let lost = self.lost_entries();
        here.chain(self.replicas.all_local_stats(now, &self.logs))
            .map(move |mut stats| {
                let lost = lost.get(&stats.id).copied().unwrap_or(0);
                stats.counts.damaged = stats.counts.damaged.max(lost);
                stats
            })
    }

    /// Writes down what of the queues must survive besides their messages: at shutdown.
    pub fn save_states(&mut self, clean: bool) {
        for classic_queue in self.queues.values_mut() {
            classic_queue.save_state(&mut self.logs, clean);
        }
    }

    /// The queues that [`Self::save_states_of`] has something to write of, in no order.
    #[must_use]
    pub fn queues(&self) -> Vec<QueueId> {
        self.queues.keys().copied().collect()
    }

    /// As [`Self::save_states`] before a checkpoint, of at most [`STATES_AT_ONCE`] of the queues,
    /// which are taken off: a shard with very many is let go in between, for whoever waits for it.
    pub fn save_states_of(&mut self, queues: &mut Vec<QueueId>) {
        let rest = queues.len().saturating_sub(STATES_AT_ONCE);
        for queue in queues.drain(rest..) {
            if let Some(classic_queue) = self.queues.get_mut(&queue) {
                classic_queue.save_state(&mut self.logs, false);
            }
        }
    }

    fn mark(&mut self, queue: QueueId) {
        if let Some(classic_queue) = self.queues.get_mut(&queue)
            && !classic_queue.dirty
        {
            classic_queue.dirty = true;
            self.dirty.push(queue);
        }
    }

    fn pump(&mut self, now: Now, queue: QueueId) {
        let Some(classic_queue) = self.queues.get_mut(&queue) else {
            return;
        };
        classic_queue.dirty = false;
        classic_queue.pump(now, &mut self.logs, &mut self.scratch);
        self.carry_out(queue);
        let Some(classic_queue) = self.queues.get_mut(&queue) else {
            return;
        };
        classic_queue.dead.retry(now);
        classic_queue.send_dead_letters(&mut self.logs, &mut self.effects);
        classic_queue.forget_fresh();
        let deadlines = [
            classic_queue.queue.next_deadline_ms(now),
            classic_queue.dead.deadline_ms(),
        ];
        let deadline = deadlines.into_iter().flatten().min().unwrap_or(0);
        if deadline != classic_queue.deadline_ms {
            self.deadlines.remove(&(classic_queue.deadline_ms, queue));
            classic_queue.deadline_ms = deadline;
            if deadline != 0 {
                self.deadlines.insert((deadline, queue));
            }
        }
    }

    /// Carries out what a queue wants done.
    fn carry_out(&mut self, queue: QueueId) {
        let Some(classic_queue) = self.queues.get_mut(&queue) else {
            return self.scratch.clear();
        };
        for effect in self.scratch.drain(..) {
            classic_queue.carry_out(effect, &mut self.logs, &mut self.effects);
        }
    }

    fn delete_if_unused(&mut self, queue: QueueId) {
        if self
            .queues
            .get(&queue)
            .is_some_and(ClassicQueue::is_to_be_deleted)
        {
            self.effects.deferred.push(Deferred::DeleteQueue {
                queue,
                expired: false,
            });
        }
    }
}

#[cfg(test)]
mod tests;
