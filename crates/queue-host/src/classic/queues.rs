//! The classic queues of a shard: which of them have something to do, and when.

use super::ClassicQueue;
use crate::events::QueueEvent;
use crate::host_kind::{CountersByType, HostKind};
use crate::log_ids::log_of;
use crate::queue_host::HostContext;
use crate::queue_spec::{LocalQueueStats, QueueSpec};
use crate::quorum::Refusals;
use crate::quorum::protocol::{Answer, Command, Fetched, Origin};
use crate::sampled_queues::ActiveQueues;
use crate::serving::serve;
use crate::shard_context::ShardContext;
use crate::stream_events::StreamNews;
use crate::stream_view::SavedView;
use crate::subscriber::Subscriber;
use hashbrown::HashMap;
use leveret_client::Reply;
use leveret_queue::{Counts, State, UnsettledMessage, Waiting};
use leveret_storage::ShardLogs;
use leveret_types::{ConsumerId, NodeId, Now, QueueId, QueueKind};
use std::collections::BTreeSet;
use std::ops::Range;

/// Which of the shard's lists a queue is in.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Listed {
    dirty: bool,
    unsynced: bool,
    active: bool,
    /// When it is to be looked at next; 0 is never.
    deadline_ms: u64,
}

/// See the module's description.
#[derive(Default)]
pub(crate) struct ClassicQueues {
    map: HashMap<QueueId, Box<ClassicQueue>, foldhash::fast::FixedState>,
    /// Queues that something happened to since the last [`HostKind::finish`].
    dirty: Vec<QueueId>,
    active: ActiveQueues,
    /// What all queues together count, unless something happened to one since this was summed up.
    counters: Option<CountersByType>,
    /// Queues that have taken operations of other nodes, for which the log is waited.
    unsynced: Vec<QueueId>,
    /// When queues want to be looked at next.
    deadlines: BTreeSet<(u64, QueueId)>,
}

/// What a queue leaves to its group.
pub(crate) struct HandedOver {
    /// The priority logs that have a log.
    pub(crate) priority_logs: Vec<u8>,
    /// What was known beside the messages.
    pub(crate) state: State,
    /// What was known of its stream, if it is a view.
    pub(crate) view: Option<SavedView>,
    /// Whose operations were taken, and how far.
    pub(crate) origins: Vec<(Origin, u64)>,
    /// Which of these operations were refused.
    pub(crate) refused: Vec<(Origin, Refusals)>,
}

impl ClassicQueues {
    pub(crate) fn has(&self, queue: QueueId) -> bool {
        self.map.contains_key(&queue)
    }

    pub(crate) fn get(&self, queue: QueueId) -> Option<&ClassicQueue> {
        self.map.get(&queue).map(|found| &**found)
    }

    /// A queue that something is done to: it is pumped when the shard is let go.
    pub(crate) fn used(&mut self, queue: QueueId) -> Option<&mut ClassicQueue> {
        let found = self.map.get_mut(&queue)?;
        self.counters = None;
        if !std::mem::replace(&mut found.listed.dirty, true) {
            self.dirty.push(queue);
        }
        Some(found)
    }

    /// Adds a queue with the priority logs that have a log.
    pub(crate) fn add(
        &mut self,
        now: Now,
        id: QueueId,
        spec: QueueSpec,
        priority_logs: Vec<u8>,
        logs: &ShardLogs,
    ) {
        let queue = ClassicQueue::new(now, id, spec, priority_logs, logs);
        let before = self.map.insert(id, Box::new(queue));
        assert!(before.is_none(), "queue {id} is there already");
        self.used(id);
    }

    /// Changes what policies and arguments make of a queue.
    pub(crate) fn update(&mut self, now: Now, id: QueueId, spec: QueueSpec) {
        if let Some(queue) = self.used(id) {
            queue.update(now, spec);
        }
    }

    /// Keeps a queue's lease alive: it was declared again.
    pub(crate) fn touch(&mut self, now: Now, id: QueueId) {
        if let Some(queue) = self.used(id) {
            queue.touch(now);
        }
    }

    /// Takes a queue away; its logs stay. Consumers on this node are cancelled, for what they hold
    /// is known to the queue alone.
    fn take(&mut self, context: &mut HostContext<'_>, id: QueueId) -> Option<Box<ClassicQueue>> {
        let queue = self.map.remove(&id)?;
        self.counters = None;
        queue.leave_stream(context);
        self.deadlines.remove(&(queue.listed.deadline_ms, id));
        for (consumer, attached) in &queue.consumers {
            // Another node learns of it from the catalogue.
            if let Subscriber::Client(connection) = attached.subscriber {
                let event = QueueEvent::CancelConsumer(*consumer);
                context.effects.posts.push((connection, event));
            }
        }
        Some(queue)
    }

    /// Takes a queue away whose group begins with what its logs have.
    pub(crate) fn hand_over(
        &mut self,
        context: &mut HostContext<'_>,
        id: QueueId,
    ) -> Option<HandedOver> {
        let mut queue = self.take(context, id)?;
        let view = queue.view.as_mut();
        let view = view.and_then(|view| view.hand_over(&queue.queue));
        for waiting in &queue.waiting_gets {
            if let Subscriber::Client(connection) = waiting.subscriber {
                let event = QueueEvent::Reply(Reply::Got(None));
                context.effects.posts.push((connection, event));
            }
        }
        Some(HandedOver {
            state: queue.queue.state(),
            view,
            origins: queue.node_sessions.origins(),
            refused: queue.node_sessions.refused(),
            priority_logs: queue.priority_logs,
        })
    }

    /// The stream of a view says something.
    pub(crate) fn hear_stream(
        &mut self,
        context: &mut HostContext<'_>,
        view: QueueId,
        news: StreamNews,
    ) {
        if let Some(found) = self.used(view) {
            found.hear_stream(context, news);
        }
    }

    /// Writes down what of a queue must survive besides its messages.
    pub(crate) fn save_state(&mut self, id: QueueId, logs: &mut ShardLogs, clean: bool) {
        if let Some(queue) = self.map.get_mut(&id) {
            queue.save_state(logs, clean);
        }
    }
}

impl HostKind for ClassicQueues {
    fn receive(
        &mut self,
        context: &mut ShardContext<'_>,
        from: NodeId,
        queue: QueueId,
        session: u64,
        command: Command,
    ) {
        let Some(found) = self.used(queue) else {
            context
                .answers
                .extend(Answer::not_here(from, queue, &command));
            return;
        };
        serve(found, &mut context.host_context(), from, session, command);
        if found.node_sessions.await_log() && !std::mem::replace(&mut found.listed.unsynced, true) {
            self.unsynced.push(queue);
        }
    }

    fn dead_lettered(
        &mut self,
        context: &mut ShardContext<'_>,
        queue: QueueId,
        priority_log: u8,
        range: Range<u64>,
    ) {
        let Some(found) = self.map.get_mut(&queue) else {
            return;
        };
        self.counters = None;
        let context = &mut context.host_context();
        found.dead.arrived(priority_log, &range);
        found
            .queue
            .dead_lettered(priority_log, range, context.scratch);
        found.send_dead_letters(context.logs, context.effects);
        found.carry_out(context);
    }

    fn not_dead_lettered(
        &mut self,
        context: &mut ShardContext<'_>,
        queue: QueueId,
        priority_log: u8,
        index: u64,
    ) {
        if let Some(found) = self.used(queue) {
            found.dead.refused(context.now, priority_log, index);
        }
    }

    fn loaded(&mut self, context: &mut ShardContext<'_>, queue: QueueId) {
        if let Some(found) = self.used(queue) {
            found.loaded(&mut context.host_context());
        }
    }

    fn remove(&mut self, context: &mut ShardContext<'_>, id: QueueId) -> Option<Counts> {
        let queue = self.take(&mut context.host_context(), id)?;
        for priority_log in &queue.priority_logs {
            context.logs.delete_log(log_of(id, *priority_log));
        }
        Some(queue.counts_now(context.now))
    }

    fn on_durable(&mut self, context: &mut ShardContext<'_>) {
        let through = context.logs.durable_through();
        let map = &mut self.map;
        self.unsynced.retain(|id| {
            let Some(queue) = map.get_mut(id) else {
                return false;
            };
            queue
                .node_sessions
                .on_durable(*id, through, context.answers);
            queue.listed.unsynced = queue.node_sessions.await_log();
            queue.listed.unsynced
        });
    }

    fn peer_up(&mut self, _context: &mut ShardContext<'_>, _peer: NodeId) {}

    fn peer_down(&mut self, context: &mut ShardContext<'_>, peer: NodeId) {
        let used = |queue: &ClassicQueue| queue.node_sessions.get(peer).is_some();
        let of_peer = self.map.iter().filter(|(_, queue)| used(queue));
        let mut of_peer: Vec<QueueId> = of_peer.map(|(id, _)| *id).collect();
        // In their order, so that the same happens each time.
        of_peer.sort_unstable();
        for id in of_peer {
            if let Some(queue) = self.used(id) {
                queue.end_session(&mut context.host_context(), peer);
            }
        }
    }

    fn tick(&mut self, context: &mut ShardContext<'_>) {
        while let Some(&(at, id)) = self.deadlines.first() {
            if at > context.now.monotonic_ms {
                break;
            }
            self.deadlines.remove(&(at, id));
            if let Some(queue) = self.used(id) {
                queue.listed.deadline_ms = 0;
            }
        }
    }

    fn finish(&mut self, context: &mut ShardContext<'_>) {
        while let Some(id) = self.dirty.pop() {
            let Some(queue) = self.map.get_mut(&id) else {
                continue;
            };
            queue.listed.dirty = false;
            self.counters = None;
            self.active.note(id, &mut queue.listed.active);
            queue.pump(&mut context.host_context());
            let deadline = queue.next_deadline_ms(context.now).unwrap_or(0);
            let noted = std::mem::replace(&mut queue.listed.deadline_ms, deadline);
            if deadline != noted {
                self.deadlines.remove(&(noted, id));
                if deadline != 0 {
                    self.deadlines.insert((deadline, id));
                }
            }
        }
    }

    fn next_deadline_ms(&self, _now: Now) -> Option<u64> {
        self.deadlines.first().map(|(at, _)| *at)
    }

    fn led_counts(&self, now: Now, queue: QueueId) -> Option<Counts> {
        Some(self.map.get(&queue)?.counts_now(now))
    }

    fn local_stats(&self, now: Now, logs: &ShardLogs, queue: QueueId) -> Option<LocalQueueStats> {
        Some(self.map.get(&queue)?.local_stats(now, logs))
    }

    fn waiting(&self, queue: QueueId) -> Option<Waiting> {
        let queue = &self.map.get(&queue)?.queue;
        (queue.kind() == QueueKind::Quorum).then(|| queue.waiting())
    }

    fn unsettled_behind(
        &self,
        queue: QueueId,
        of: Option<&[ConsumerId]>,
        before: u64,
        count: usize,
    ) -> Option<Vec<UnsettledMessage>> {
        let queue = self.map.get(&queue)?;
        Some(queue.queue.unsettled_behind(of, before, count))
    }

    fn show_unsettled(
        &mut self,
        context: &mut ShardContext<'_>,
        queue: QueueId,
        held: &UnsettledMessage,
    ) -> Option<Fetched> {
        match self.map.get(&queue) {
            Some(queue) => queue.show_unsettled(context.logs, held),
            None => Some(Fetched::Gone),
        }
    }

    fn take_active(&mut self, out: &mut Vec<QueueId>) {
        for id in self.active.take() {
            if let Some(queue) = self.map.get_mut(&id) {
                queue.listed.active = false;
                out.push(id);
            }
        }
    }

    fn depths(&self) -> Vec<(QueueId, [u64; 3])> {
        let all = self.map.iter().map(|(id, queue)| {
            // Dead letters count as gone once they are on their way.
            let [ready, unsettled, _] = queue.queue.depths();
            let ready = ready + queue.backlog();
            (*id, [ready + unsettled, ready, unsettled])
        });
        all.filter(|(_, depths)| *depths != [0; 3]).collect()
    }

    fn counters(&mut self) -> CountersByType {
        let queues = self.map.values().map(|queue| &queue.queue);
        *self
            .counters
            .get_or_insert_with(|| CountersByType::of(queues))
    }

    fn queues(&self) -> Vec<QueueId> {
        self.map.keys().copied().collect()
    }
}
