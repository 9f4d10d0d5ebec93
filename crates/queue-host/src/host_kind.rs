//! What a shard does with all queues of one kind that this node hosts. A kind of queue is one more
//! that implements this, and one more in `Shard::kinds`.

use crate::queue_spec::LocalQueueStats;
use crate::quorum::protocol::{Command, Fetched};
use crate::shard_context::ShardContext;
use leveret_queue::{Counters, Counts, Queue, UnsettledMessage, Waiting};
use leveret_storage::ShardLogs;
use leveret_types::{ConsumerId, NodeId, Now, QueueId, QueueKind};
use std::ops::Range;

/// What queues count, all of a type together. The type is the one that they were declared with: a
/// node without a cluster hosts quorum queues as it does classic ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CountersByType {
    /// Of classic queues.
    pub classic: Counters,
    /// Of quorum queues.
    pub quorum: Counters,
}

impl CountersByType {
    /// The sums over some queues.
    pub(crate) fn of<'a>(queues: impl Iterator<Item = &'a Queue>) -> Self {
        queues.fold(Self::default(), |mut sums, queue| {
            let sum = match queue.kind() {
                QueueKind::Quorum => &mut sums.quorum,
                QueueKind::Classic | QueueKind::Stream => &mut sums.classic,
            };
            *sum += *queue.counters();
            sums
        })
    }
}

impl std::ops::AddAssign for CountersByType {
    fn add_assign(&mut self, other: Self) {
        self.classic += other.classic;
        self.quorum += other.quorum;
    }
}

/// The queues of one kind in a shard, as far as this node hosts them.
pub(crate) trait HostKind {
    /// Takes what a node's remote queue says to a queue; one that is not here answers that it does
    /// not lead.
    fn receive(
        &mut self,
        context: &mut ShardContext<'_>,
        from: NodeId,
        queue: QueueId,
        session: u64,
        command: Command,
    );

    /// Messages that were dead-lettered are where they were to go (or nowhere): they leave.
    fn dead_lettered(
        &mut self,
        context: &mut ShardContext<'_>,
        queue: QueueId,
        priority_log: u8,
        range: Range<u64>,
    );

    /// A message that must be dead-lettered could not be: it goes again later.
    fn not_dead_lettered(
        &mut self,
        context: &mut ShardContext<'_>,
        queue: QueueId,
        priority_log: u8,
        index: u64,
    );

    /// Messages that were read from disk have come for a queue.
    fn loaded(&mut self, context: &mut ShardContext<'_>, queue: QueueId);

    /// Takes a queue away with its messages. Answers how it stood, if it was led here.
    fn remove(&mut self, context: &mut ShardContext<'_>, queue: QueueId) -> Option<Counts>;

    /// The shard's part of the write-ahead log is durable further than before.
    fn on_durable(&mut self, context: &mut ShardContext<'_>);

    /// Another node is connected.
    fn peer_up(&mut self, context: &mut ShardContext<'_>, peer: NodeId);

    /// Another node is down.
    fn peer_down(&mut self, context: &mut ShardContext<'_>, peer: NodeId);

    /// Time passes: what is due is done in [`Self::finish`].
    fn tick(&mut self, context: &mut ShardContext<'_>);

    /// Lets queues that something happened to deliver, expire and drop, once for the whole batch.
    fn finish(&mut self, context: &mut ShardContext<'_>);

    /// When [`Self::tick`] is to be called next, in monotonic milliseconds.
    fn next_deadline_ms(&self, now: Now) -> Option<u64>;

    /// How a queue stands that is led here and acts; nothing of any other.
    fn led_counts(&self, now: Now, queue: QueueId) -> Option<Counts>;

    /// The stats of a queue: all of them where it is led, elsewhere what lives.
    fn local_stats(&self, now: Now, logs: &ShardLogs, queue: QueueId) -> Option<LocalQueueStats>;

    /// Which messages of a quorum queue wait; nothing of any other, and where it is not led here.
    fn waiting(&self, queue: QueueId) -> Option<Waiting>;

    /// Messages of a queue that somebody holds ([`Queue::unsettled_behind`]); nothing where it is
    /// not led here.
    fn unsettled_behind(
        &self,
        queue: QueueId,
        of: Option<&[ConsumerId]>,
        before: u64,
        count: usize,
    ) -> Option<Vec<UnsettledMessage>>;

    /// Shows a message that somebody holds, and leaves it there; nothing while it is being read
    /// from disk.
    fn show_unsettled(
        &mut self,
        context: &mut ShardContext<'_>,
        queue: QueueId,
        held: &UnsettledMessage,
    ) -> Option<Fetched>;

    /// Adds the queues to `out` that are led here and that something happened to since this was
    /// asked last, in no order.
    fn take_active(&mut self, out: &mut Vec<QueueId>);

    /// How many messages the queues have that are led here and not empty: all, those that wait,
    /// those that are not settled.
    fn depths(&self) -> Vec<(QueueId, [u64; 3])>;

    /// What the queues count that are led here and there now, all together. Whoever samples figures
    /// asks every few seconds, so that queues to which nothing happens should not be looked at.
    fn counters(&mut self) -> CountersByType;

    /// The queues of this kind, in no order.
    fn queues(&self) -> Vec<QueueId>;
}
