//! What remote queues of other nodes want of queues that are on this node alone.

use super::{Bodies, Enqueued, GetOutcome, Shard};
use crate::events::QueueAnswer;
use crate::link::{ConsumerLink, Link};
use crate::quorum::link::{Answer, Fetched, Operation, QueueCounts, ToLeader, ToRemoteQueue};
use crate::quorum::{Asker, Guest};
use crate::subscriber::Subscriber;
use leveret_queue::Consumer;
use leveret_types::{ConsumerId, NodeId, Now, QueueId};
use std::sync::Arc;

impl Shard {
    /// Takes what the remote queue of another node says to a queue that is here alone.
    pub(crate) fn remote_client_receive(
        &mut self,
        now: Now,
        from: NodeId,
        queue: QueueId,
        session: u64,
        message: ToLeader,
    ) {
        let key = (queue, from);
        if let ToLeader::Present(registration) = &message {
            let known = self.local_leaders.guests.get(&key);
            if known.is_some_and(|guest| guest.session >= session) {
                return;
            }
            let same = known.filter(|guest| guest.start == registration.start);
            let taken = same.map_or(0, |guest| guest.taken);
            self.remote_client_forget(now, key);
            let guest = Guest {
                session,
                start: registration.start,
                taken: taken.max(registration.first_sequence.saturating_sub(1)),
                ..Guest::default()
            };
            let through = guest.taken;
            self.local_leaders.guests.insert(key, guest);
            return self.remote_client_answer(key, ToRemoteQueue::Committed { through });
        }
        match self
            .local_leaders
            .guests
            .get(&key)
            .map(|guest| guest.session)
        {
            Some(known) if known == session => {}
            Some(known) if known > session => return,
            _ => {
                return self.answers.push(Answer {
                    to: from,
                    queue,
                    session: 0,
                    message: ToRemoteQueue::Leading { term: 0 },
                });
            }
        }
        match message {
            ToLeader::Operations { first, operations } => {
                self.remote_client_operations(now, key, first, operations);
            }
            ToLeader::Attach(consumer) => self.remote_client_attach(now, key, consumer),
            ToLeader::Cancel(consumer) => {
                self.cancel_local(now, queue, consumer);
                // Behind the deliveries that were made before.
                self.local_leaders
                    .redirect(&mut self.effects, &mut self.answers);
                self.remote_client_answer(key, ToRemoteQueue::Cancelled(consumer));
            }
            ToLeader::Detach(subscription) => {
                self.detach_local(now, queue, subscription);
                if let Some(guest) = self.local_leaders.guests.get_mut(&key) {
                    guest.links.remove(&subscription);
                    guest.subscriptions.remove(&subscription);
                }
            }
            ToLeader::Credit {
                consumer,
                messages,
                bytes,
            } => {
                let guest = self.local_leaders.guests.get(&key);
                let link = guest.and_then(|guest| guest.links.get(&consumer));
                let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
                if link.is_some_and(|link| link.give(messages as usize, bytes)) {
                    self.unblock_local(now, queue, consumer);
                }
            }
            ToLeader::Get {
                subscription,
                no_ack,
            } => self.remote_client_get(now, key, subscription, no_ack),
            ToLeader::Purge { request } => {
                let count = self.purge_local(now, queue);
                self.remote_client_answer(key, ToRemoteQueue::Purged { request, count });
            }
            ToLeader::Count { request } => {
                self.finish_local(now);
                // A client asks because it declares the queue, which keeps its lease.
                self.touch(now, queue);
                let counts = self.counts(now, queue).unwrap_or_default();
                let queue_counts = QueueCounts {
                    ready: counts.ready,
                    unsettled: counts.unsettled,
                    consumers: counts.consumers as u64,
                };
                self.remote_client_answer(
                    key,
                    ToRemoteQueue::Counted {
                        request,
                        queue_counts,
                    },
                );
            }
            ToLeader::Peek { request, before } => {
                let fetched = match self.peek(now, queue, Asker::Poll(0), before) {
                    Some(QueueAnswer::Peeked(fetched)) => fetched,
                    _ => Fetched::Unreadable,
                };
                self.remote_client_answer(key, ToRemoteQueue::Peeked { request, fetched });
            }
            ToLeader::Present(_) | ToLeader::Absent { .. } | ToLeader::Fetch { .. } => {}
        }
    }

    fn remote_client_answer(&mut self, (queue, to): (QueueId, NodeId), message: ToRemoteQueue) {
        self.local_leaders
            .answer(to, queue, message, &mut self.answers);
    }

    fn remote_client_operations(
        &mut self,
        now: Now,
        key: (QueueId, NodeId),
        first: u64,
        operations: Vec<Operation>,
    ) {
        let queue = key.0;
        let taken = self
            .local_leaders
            .guests
            .get(&key)
            .map_or(0, |guest| guest.taken);
        if first > taken + 1 {
            self.local_leaders.guests.remove(&key);
            return self.answers.push(Answer {
                to: key.1,
                queue,
                session: 0,
                message: ToRemoteQueue::Leading { term: 0 },
            });
        }
        let mut is_durable = false;
        let mut last = taken;
        for (sequence, operation) in (first..).zip(operations) {
            if sequence <= taken {
                continue;
            }
            last = sequence;
            match operation {
                Operation::Nothing => {}
                Operation::Publish(message) => {
                    match self.publish_local(now, queue, &message, &mut Bodies::default()) {
                        Enqueued::Durable => is_durable = true,
                        Enqueued::Rejected | Enqueued::Gone => {
                            let sequences = sequence..sequence + 1;
                            self.remote_client_answer(key, ToRemoteQueue::Refused { sequences });
                        }
                        Enqueued::Volatile | Enqueued::Kept { .. } => {}
                    }
                }
                Operation::Settle(settle) => {
                    self.settle_local(
                        now,
                        queue,
                        settle.subscription,
                        settle.priority_log,
                        settle.range,
                        settle.outcome,
                    );
                }
            }
        }
        let chunk = self.log_position().chunk;
        let Some(guest) = self.local_leaders.guests.get_mut(&key) else {
            return;
        };
        guest.taken = last;
        match guest.awaiting.back_mut() {
            Some(waits) if waits.0 == chunk || !is_durable => waits.1 = last,
            Some(_) => guest.awaiting.push_back((chunk, last)),
            None if is_durable => guest.awaiting.push_back((chunk, last)),
            None => self.remote_client_answer(key, ToRemoteQueue::Committed { through: last }),
        }
    }

    fn remote_client_attach(&mut self, now: Now, key: (QueueId, NodeId), consumer: Consumer) {
        let (queue, node) = key;
        let id = consumer.id;
        let known = self.queues.get(&queue);
        if known.is_some_and(|known| known.queue.holds(id)) {
            // Nodes bring none like that; one that does is not to end this one.
            tracing::warn!(%queue, %node, consumer = %id, "a node brings a consumer that is there already");
            return;
        }
        let link = Arc::<Link>::default();
        let place = ConsumerLink {
            link: Arc::clone(&link),
            limiter: None,
        };
        let result = self.attach_local(now, queue, consumer, Subscriber::Node(node), place);
        let result = match result {
            Ok(()) => {
                if let Some(guest) = self.local_leaders.guests.get_mut(&key) {
                    guest.links.insert(id, link);
                    guest.subscriptions.insert(id);
                }
                Ok(())
            }
            Err(Some(error)) => Err(error),
            // The queue is gone; the node will hear of it.
            Err(None) => return,
        };
        let consumer = id;
        self.remote_client_answer(key, ToRemoteQueue::Attached { consumer, result });
        if self.single_active(queue, consumer) == Some(false) {
            let activation = 0;
            let message = ToRemoteQueue::Active {
                consumer,
                activation,
            };
            self.remote_client_answer(key, message);
        }
    }

    fn remote_client_get(
        &mut self,
        now: Now,
        key: (QueueId, NodeId),
        subscription: ConsumerId,
        no_ack: bool,
    ) {
        let (queue, node) = key;
        if let Some(guest) = self.local_leaders.guests.get_mut(&key) {
            guest.subscriptions.insert(subscription);
        }
        let got = match self.get_local(
            now,
            queue,
            subscription,
            Some(Subscriber::Node(node)),
            no_ack,
        ) {
            GetOutcome::Message(delivery, left) => Some((delivery, left)),
            GetOutcome::Empty | GetOutcome::Gone | GetOutcome::Unavailable => None,
            GetOutcome::Pending => return,
        };
        self.remote_client_answer(key, ToRemoteQueue::Got { subscription, got });
    }

    /// What a node's remote queue had is given back.
    fn remote_client_forget(&mut self, now: Now, key: (QueueId, NodeId)) {
        if let Some(guest) = self.local_leaders.guests.remove(&key) {
            for subscription in guest.subscriptions {
                self.detach_local(now, key.0, subscription);
            }
        }
    }

    /// A node is down: what its consumers hold returns.
    pub(crate) fn remote_client_peer_down(&mut self, now: Now, node: NodeId) {
        let of_node = self
            .local_leaders
            .guests
            .keys()
            .filter(|(_, of)| *of == node);
        let mut gone: Vec<_> = of_node.copied().collect();
        gone.sort_unstable();
        for key in gone {
            self.remote_client_forget(now, key);
        }
    }
}
