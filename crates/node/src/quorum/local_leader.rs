//! A queue that is on this node alone, as the leader of remote queues on other nodes.
//!
//! What a Raft leader does by committing, this does by the shard's own log: operations take effect
//! at once, and are told to be committed when the log is durable. Consumers on other nodes are the
//! queue's consumers with their node as the subscriber; what it is told goes to the remote queue
//! there.
//!
//! What it knows of a node goes with the way to that node: the remote queue has given up everything
//! by then, so that nothing is taken twice.

use super::link::{Answer, Origin, ToRemoteQueue};
use crate::effects::ShardEffects;
use crate::link::Link;
use crate::subscriber::NodeEvent;
use hashbrown::HashMap;
use leveret_types::{ConsumerId, NodeId, QueueId};
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

/// What is known of one node's remote queue of one queue.
#[derive(Debug, Default)]
pub(crate) struct Guest {
    pub(crate) session: u64,
    pub(crate) start: u64,
    /// The last operation that was taken.
    pub(crate) taken: u64,
    /// Operations that are committed once the shard's log is durable through a chunk.
    pub(crate) awaiting: VecDeque<(u64, u64)>,
    /// Its consumers, and what may be under way to each.
    pub(crate) links: HashMap<ConsumerId, Arc<Link>, foldhash::fast::FixedState>,
    /// All who may hold something.
    pub(crate) subscriptions: BTreeSet<ConsumerId>,
}

/// The queues of a shard that other nodes use.
#[derive(Debug, Default)]
pub(crate) struct LocalLeaders {
    pub(crate) guests: HashMap<(QueueId, NodeId), Guest, foldhash::fast::FixedState>,
}

impl LocalLeaders {
    /// Whether no other node uses anything.
    pub(crate) fn is_empty(&self) -> bool {
        self.guests.is_empty()
    }

    /// A queue is gone.
    pub(crate) fn remove(&mut self, queue: QueueId) {
        self.guests.retain(|(of, _), _| *of != queue);
    }

    /// A queue gets a leader instead: answers whose operations have been taken so far.
    pub(crate) fn take_origins(&mut self, queue: QueueId) -> Vec<(Origin, u64)> {
        let guests = self.guests.extract_if(|(of, _), _| *of == queue);
        let origin = |node, start| Origin { node, start };
        let mut taken: Vec<_> = guests
            .map(|((_, node), guest)| (origin(node, guest.start), guest.taken))
            .collect();
        taken.sort_unstable();
        taken
    }

    pub(crate) fn answer(
        &self,
        to: NodeId,
        queue: QueueId,
        message: ToRemoteQueue,
        answers: &mut Vec<Answer>,
    ) {
        if let Some(guest) = self.guests.get(&(queue, to)) {
            answers.push(Answer {
                to,
                queue,
                session: guest.session,
                message,
            });
        }
    }

    /// The shard's log is durable through `chunk`: tells what is committed by that.
    pub(crate) fn on_durable(&mut self, chunk: u64, answers: &mut Vec<Answer>) {
        for ((queue, to), guest) in &mut self.guests {
            let mut committed = None;
            while let Some((at, through)) = guest.awaiting.front() {
                if *at > chunk {
                    break;
                }
                committed = Some(*through);
                guest.awaiting.pop_front();
            }
            if let Some(through) = committed {
                answers.push(Answer {
                    to: *to,
                    queue: *queue,
                    session: guest.session,
                    message: ToRemoteQueue::Committed { through },
                });
            }
        }
    }

    /// Turns what queues have for other nodes into messages to the remote queues there.
    pub(crate) fn redirect(&mut self, effects: &mut ShardEffects, answers: &mut Vec<Answer>) {
        for (node, event) in effects.for_nodes.drain(..) {
            let (queue, message) = match event {
                NodeEvent::Deliver(delivery) => (delivery.queue, ToRemoteQueue::Deliver(delivery)),
                NodeEvent::Got {
                    queue,
                    subscription,
                    got,
                } => {
                    let got = got.map(|(delivery, left)| (delivery, u64::from(left)));
                    (queue, ToRemoteQueue::Got { subscription, got })
                }
                NodeEvent::Active { queue, consumer } => {
                    let activation = 1;
                    let message = ToRemoteQueue::Active {
                        consumer,
                        activation,
                    };
                    (queue, message)
                }
                NodeEvent::TimedOut {
                    queue,
                    subscription,
                } => (queue, ToRemoteQueue::TimedOut(subscription)),
            };
            self.answer(node, queue, message, answers);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subscriber::Subscriber;
    use leveret_session::contract::Reply;

    const NODE: NodeId = NodeId(2);
    const SUBSCRIPTION: ConsumerId = ConsumerId(7);

    /// What the remote queues of a node that uses queues 1 and 2 hear of what these tell.
    fn heard(tell: impl FnOnce(&mut ShardEffects)) -> Vec<Answer> {
        let mut local_leaders = LocalLeaders::default();
        for queue in [QueueId(1), QueueId(2)] {
            local_leaders.guests.insert((queue, NODE), Guest::default());
        }
        let (mut effects, mut answers) = (ShardEffects::default(), Vec::new());
        tell(&mut effects);
        local_leaders.redirect(&mut effects, &mut answers);
        assert!(effects.posts.is_empty(), "no client of this node is meant");
        assert!(
            effects.deferred.is_empty(),
            "no client of this node is meant"
        );
        answers
    }

    #[test]
    fn a_get_that_waited_is_answered_for_its_own_queue() {
        for queue in [QueueId(1), QueueId(2)] {
            let answers = heard(|effects| {
                effects.answer_get(
                    Subscriber::Node(NODE),
                    (queue, SUBSCRIPTION),
                    Reply::Got(None),
                );
            });
            let [answer] = answers.as_slice() else {
                panic!("one answer, not {answers:?}");
            };
            assert_eq!((answer.to, answer.queue), (NODE, queue));
            let ToRemoteQueue::Got { subscription, got } = &answer.message else {
                panic!("{answer:?} is no answer to a get");
            };
            assert!(*subscription == SUBSCRIPTION && got.is_none());
        }
    }

    #[test]
    fn another_node_hears_of_activations_and_timeouts_but_not_of_deletions() {
        let answers = heard(|effects| {
            let node = Subscriber::Node(NODE);
            effects.activated(node, QueueId(2), SUBSCRIPTION);
            effects.timed_out(node, QueueId(1), SUBSCRIPTION);
            effects.cancelled(node, SUBSCRIPTION);
        });
        let [active, timed_out] = answers.as_slice() else {
            panic!("two answers, not {answers:?}");
        };
        assert_eq!((active.queue, timed_out.queue), (QueueId(2), QueueId(1)));
        assert!(
            matches!(active.message, ToRemoteQueue::Active { consumer, activation: 1 }
            if consumer == SUBSCRIPTION)
        );
        assert!(matches!(timed_out.message, ToRemoteQueue::TimedOut(of) if of == SUBSCRIPTION));
    }
}
