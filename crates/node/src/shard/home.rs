//! What proxies of other nodes want of queues that are on this node alone.

use super::{Bodies, Enqueued, GetOutcome, Shard};
use crate::events::QueueAnswer;
use crate::link::{ConsumerLink, Link};
use crate::quorum::link::{Answer, Fetched, Operation, Standing, ToLeader, ToProxy};
use crate::quorum::{Asker, Guest};
use crate::subscriber::Subscriber;
use leveret_queue::Consumer;
use leveret_types::{ConsumerId, NodeId, Now, QueueId};
use std::sync::Arc;

impl Shard {
    /// Takes what the proxy of another node says to a queue that is here alone.
    pub(crate) fn home_receive(
        &mut self,
        now: Now,
        from: NodeId,
        queue: QueueId,
        session: u64,
        message: ToLeader,
    ) {
        let key = (queue, from);
        if let ToLeader::Present(presentation) = &message {
            let known = self.homes.guests.get(&key);
            if known.is_some_and(|guest| guest.session >= session) {
                return;
            }
            let same = known.filter(|guest| guest.start == presentation.start);
            let taken = same.map_or(0, |guest| guest.taken);
            self.home_forget(now, key);
            let guest = Guest {
                session,
                start: presentation.start,
                taken: taken.max(presentation.first_sequence.saturating_sub(1)),
                ..Guest::default()
            };
            let through = guest.taken;
            self.homes.guests.insert(key, guest);
            return self.home_answer(key, ToProxy::Committed { through });
        }
        match self.homes.guests.get(&key).map(|guest| guest.session) {
            Some(known) if known == session => {}
            Some(known) if known > session => return,
            _ => {
                return self.answers.push(Answer {
                    to: from,
                    queue,
                    session: 0,
                    message: ToProxy::Leading { term: 0 },
                });
            }
        }
        match message {
            ToLeader::Operations { first, operations } => {
                self.home_operations(now, key, first, operations);
            }
            ToLeader::Attach(consumer) => self.home_attach(now, key, consumer),
            ToLeader::Cancel(consumer) => {
                self.cancel_here(now, queue, consumer);
                // Behind the deliveries that were made before.
                self.homes.redirect(&mut self.effects, &mut self.answers);
                self.home_answer(key, ToProxy::Cancelled(consumer));
            }
            ToLeader::Detach(holder) => {
                self.detach_here(now, queue, holder);
                if let Some(guest) = self.homes.guests.get_mut(&key) {
                    guest.links.remove(&holder);
                    guest.holders.remove(&holder);
                }
            }
            ToLeader::Credit {
                consumer,
                messages,
                bytes,
            } => {
                let guest = self.homes.guests.get(&key);
                let link = guest.and_then(|guest| guest.links.get(&consumer));
                let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
                if link.is_some_and(|link| link.give(messages as usize, bytes)) {
                    self.unblock_here(now, queue, consumer);
                }
            }
            ToLeader::Get { holder, no_ack } => self.home_get(now, key, holder, no_ack),
            ToLeader::Purge { request } => {
                let count = self.purge_here(now, queue);
                self.home_answer(key, ToProxy::Purged { request, count });
            }
            ToLeader::Count { request } => {
                self.finish_here(now);
                // A client asks because it declares the queue, which keeps its lease.
                self.touch(now, queue);
                let counts = self.counts(now, queue).unwrap_or_default();
                let standing = Standing {
                    ready: counts.ready,
                    unsettled: counts.unsettled,
                    consumers: counts.consumers as u64,
                };
                self.home_answer(key, ToProxy::Counted { request, standing });
            }
            ToLeader::Peek { request, before } => {
                let fetched = match self.peek(now, queue, Asker::Poll(0), before) {
                    Some(QueueAnswer::Peeked(fetched)) => fetched,
                    _ => Fetched::Unreadable,
                };
                self.home_answer(key, ToProxy::Peeked { request, fetched });
            }
            ToLeader::Present(_) | ToLeader::Absent { .. } | ToLeader::Fetch { .. } => {}
        }
    }

    fn home_answer(&mut self, (queue, to): (QueueId, NodeId), message: ToProxy) {
        self.homes.answer(to, queue, message, &mut self.answers);
    }

    fn home_operations(
        &mut self,
        now: Now,
        key: (QueueId, NodeId),
        first: u64,
        operations: Vec<Operation>,
    ) {
        let queue = key.0;
        let taken = self.homes.guests.get(&key).map_or(0, |guest| guest.taken);
        if first > taken + 1 {
            self.homes.guests.remove(&key);
            return self.answers.push(Answer {
                to: key.1,
                queue,
                session: 0,
                message: ToProxy::Leading { term: 0 },
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
                    match self.publish_here(now, queue, &message, &mut Bodies::default()) {
                        Enqueued::Durable => is_durable = true,
                        Enqueued::Rejected | Enqueued::Gone => {
                            let sequences = sequence..sequence + 1;
                            self.home_answer(key, ToProxy::Refused { sequences });
                        }
                        Enqueued::Volatile | Enqueued::Kept { .. } => {}
                    }
                }
                Operation::Settle(settle) => {
                    self.settle_here(
                        now,
                        queue,
                        settle.holder,
                        settle.lane,
                        settle.range,
                        settle.outcome,
                    );
                }
            }
        }
        let chunk = self.ticket().chunk;
        let Some(guest) = self.homes.guests.get_mut(&key) else {
            return;
        };
        guest.taken = last;
        match guest.awaiting.back_mut() {
            Some(waits) if waits.0 == chunk || !is_durable => waits.1 = last,
            Some(_) => guest.awaiting.push_back((chunk, last)),
            None if is_durable => guest.awaiting.push_back((chunk, last)),
            None => self.home_answer(key, ToProxy::Committed { through: last }),
        }
    }

    fn home_attach(&mut self, now: Now, key: (QueueId, NodeId), consumer: Consumer) {
        let (queue, node) = key;
        let link = Arc::<Link>::default();
        let id = consumer.id;
        let place = ConsumerLink {
            link: Arc::clone(&link),
            limiter: None,
        };
        let result = self.attach_here(now, queue, consumer, Subscriber::Node(node), place);
        let result = match result {
            Ok(()) => {
                if let Some(guest) = self.homes.guests.get_mut(&key) {
                    guest.links.insert(id, link);
                    guest.holders.insert(id);
                }
                Ok(())
            }
            Err(Some(error)) => Err(error),
            // The queue is gone; the node will hear of it.
            Err(None) => return,
        };
        let consumer = id;
        self.home_answer(key, ToProxy::Attached { consumer, result });
        if self.single_active(queue, consumer) == Some(false) {
            let activation = 0;
            let message = ToProxy::Active {
                consumer,
                activation,
            };
            self.home_answer(key, message);
        }
    }

    fn home_get(&mut self, now: Now, key: (QueueId, NodeId), holder: ConsumerId, no_ack: bool) {
        let (queue, node) = key;
        if let Some(guest) = self.homes.guests.get_mut(&key) {
            guest.holders.insert(holder);
        }
        let got = match self.get_here(now, queue, holder, Some(Subscriber::Node(node)), no_ack) {
            GetOutcome::Message(delivery, left) => Some((delivery, left)),
            GetOutcome::Empty | GetOutcome::Gone | GetOutcome::Unavailable => None,
            GetOutcome::Pending => return,
        };
        self.home_answer(key, ToProxy::Got { holder, got });
    }

    /// What a node's proxy had is given back.
    fn home_forget(&mut self, now: Now, key: (QueueId, NodeId)) {
        if let Some(guest) = self.homes.guests.remove(&key) {
            for holder in guest.holders {
                self.detach_here(now, key.0, holder);
            }
        }
    }

    /// A node is down: what its consumers hold returns.
    pub(crate) fn home_peer_down(&mut self, now: Now, node: NodeId) {
        let of_node = self.homes.guests.keys().filter(|(_, of)| *of == node);
        let mut gone: Vec<_> = of_node.copied().collect();
        gone.sort_unstable();
        for key in gone {
            self.home_forget(now, key);
        }
    }
}
