//! Queues that live on several nodes, or on another: any node serves any queue.
//!
//! Each node that uses such a queue has a *remote queue* for it, which keeps its clients'
//! operations until the queue's leader says that they are committed, and knows what its consumers
//! hold. The leader may be in the same shard, or on another node: what is said is the same
//! ([`link`]).

pub mod link;

mod clients;
mod remote_queue;
mod remote_queues;
pub mod replica;

pub(crate) use crate::notify::{Afterwards, Notify};
pub use crate::queue_host::Asker;
pub use clients::Clients;
pub use remote_queues::LocalDeliveries;
pub(crate) use remote_queues::RemoteQueues;

pub use crate::effects::Then;
use crate::env::PeerFrame;
use crate::peeked::Found;
use crate::shard::{Shard, ShardEffects};
use bytes::Bytes;
use leveret_types::{ConnectionId, NodeId, Now, QueueId};
use link::{Answer, Command, Encoder, Event, QueueCounts};
use remote_queue::{Put, Reach};
use remote_queues::Received;

/// The remote queues of a shard together with what their calls may reach.
macro_rules! with_remote_queues {
    ($shard:ident, $now:ident, |$remote_queues:ident, $reach:ident| $call:expr) => {{
        let $remote_queues = &mut $shard.remote_queues;
        let $reach = &mut Reach {
            now: $now,
            node: $remote_queues.origin().node,
            effects: &mut $shard.effects,
        };
        $call
    }};
}

impl Shard {
    /// Whether the queue is used through a remote queue.
    pub(crate) fn is_remote(&self, queue: QueueId) -> bool {
        self.remote_queues.has(queue)
    }

    /// Holds a publisher back until the queue takes more; false if it does.
    pub(crate) fn hold_back(&mut self, queue: QueueId, connection: ConnectionId) -> bool {
        let remote_queue = self.remote_queues.used(queue);
        remote_queue.is_some_and(|remote_queue| remote_queue.hold_back(connection))
    }

    /// How a queue stands as far as this node knows: by its replica here, or as its leader said
    /// when it was last asked.
    pub(crate) fn last_queue_counts(&self, now: Now, queue: QueueId) -> QueueCounts {
        if let Some(local_stats) = self.local_stats(now, queue) {
            return QueueCounts::from(&local_stats.counts);
        }
        let remote_queue = self.remote_queues.known(queue);
        remote_queue
            .map(remote_queue::RemoteQueue::queue_counts)
            .unwrap_or_default()
    }

    /// A connection wants to hear when all that this node has done to a queue is committed. Answers
    /// the number up to which that must be told; nothing if it is committed already.
    pub(crate) fn wait_for_queue(
        &mut self,
        queue: QueueId,
        connection: ConnectionId,
    ) -> Option<u64> {
        self.remote_queues.used(queue)?.wait_for_all(connection)
    }

    /// Takes in a frame of a remote queue or a leader on another node.
    pub(crate) fn receive_link(&mut self, now: Now, from: NodeId, queue: QueueId, frame: Bytes) {
        let result = match frame.first() {
            Some(&link::TO_LEADER) => link::decode_to_leader(frame).map(|frame| {
                for message in frame.messages {
                    self.tell_host(now, from, queue, frame.session, message);
                }
            }),
            _ => link::decode_to_remote_queue(queue, frame).map(|frame| {
                for message in frame.messages {
                    self.tell_remote_queue(now, from, queue, frame.session, message);
                }
            }),
        };
        if let Err(error) = result {
            tracing::error!(%from, %queue, %error, "a frame is dropped");
        }
    }

    /// Gives a host in this shard what a remote queue says.
    fn tell_host(
        &mut self,
        now: Now,
        from: NodeId,
        queue: QueueId,
        session: u64,
        command: Command,
    ) {
        self.on_kind(now, queue, |kind, around| {
            kind.receive(around, from, queue, session, command);
        });
    }

    /// Gives a remote queue in this shard what a leader says.
    fn tell_remote_queue(
        &mut self,
        now: Now,
        from: NodeId,
        queue: QueueId,
        session: u64,
        message: Event,
    ) {
        let received = with_remote_queues!(self, now, |remote_queues, reach| {
            remote_queues.receive(queue, from, session, message, reach)
        });
        match received {
            Received::Done => {}
            Received::Answer(answer) if from == self.node() => {
                self.tell_host(now, from, queue, 0, answer);
            }
            Received::Answer(answer) => {
                let mut encoder = Encoder::to_leader(0);
                encoder.put_to_leader(&answer);
                post(&mut self.effects, from, queue, encoder);
            }
        }
    }

    /// Lets remote queues and leaders say what they have to say to each other, until all is said.
    pub(crate) fn exchange(&mut self, now: Now) {
        loop {
            while let Some(queue) = self.remote_queues.pop_dirty() {
                self.flush_remote_queue(now, queue);
            }
            with_remote_queues!(self, now, |remote_queues, reach| remote_queues
                .let_go_on(reach));
            self.finish_replicas(now);
            if self.answers.is_empty() {
                break;
            }
            self.flush_answers(now);
        }
    }

    /// Lets the replica here complete what a leader has left to it.
    fn complete_local(&mut self, now: Now, queue: QueueId) {
        let next = |shard: &mut Self| {
            with_remote_queues!(shard, now, |remote_queues, reach| remote_queues
                .next_local(queue, reach))
        };
        while let Some(delivery) = next(self) {
            let found = self.replica_message(queue, &delivery);
            let is_pending = matches!(found, Found::Pending);
            with_remote_queues!(self, now, |remote_queues, reach| {
                remote_queues.found_local(queue, found, reach);
            });
            if is_pending {
                break;
            }
        }
    }

    /// What leaders on other nodes left to the replicas here to deliver.
    #[must_use]
    pub const fn local_deliveries(&self) -> LocalDeliveries {
        self.remote_queues.local_deliveries()
    }

    fn flush_remote_queue(&mut self, now: Now, queue: QueueId) {
        self.complete_local(now, queue);
        let hint = self.replica_leader(queue);
        self.remote_queues.locate(now, queue, hint);
        let own = self.node();
        let mut encoder: Option<(NodeId, Encoder)> = None;
        let mut local: Vec<(u64, Command)> = Vec::new();
        let may_wait = self.remote_queues.may_wait(now, queue);
        self.remote_queues.flush(queue, |node, session, put| {
            if node == own {
                let message = match put {
                    Put::Operations(first, operations) => Command::Operations {
                        first,
                        operations: operations.cloned().collect(),
                    },
                    Put::Message(message) => message,
                };
                local.push((session, message));
                return;
            }
            let (_, encoder) = encoder.get_or_insert_with(|| (node, Encoder::to_leader(session)));
            match put {
                Put::Operations(first, operations) => encoder.put_operations(first, operations),
                Put::Message(message) => encoder.put_to_leader(&message),
            }
        });
        self.remote_queues.note_deadline(queue);
        if let Some((node, encoder)) = encoder {
            let before = self.effects.peer.len();
            post(&mut self.effects, node, queue, encoder);
            for (_, frame) in &mut self.effects.peer[before..] {
                frame.may_wait = may_wait;
            }
        }
        for (session, message) in local {
            self.tell_host(now, own, queue, session, message);
        }
    }

    fn flush_answers(&mut self, now: Now) {
        let own = self.node();
        let mut answers = std::mem::take(&mut self.answers);
        // What is for one remote queue stays in its order and becomes one frame.
        answers.sort_by_key(|answer| (answer.to, answer.queue));
        let mut open: Option<(NodeId, QueueId, u64, Encoder)> = None;
        for answer in answers.drain(..) {
            let Answer {
                to,
                queue,
                session,
                message,
            } = answer;
            if to == own {
                self.tell_remote_queue(now, own, queue, session, message);
                continue;
            }
            let place = (to, queue, session);
            if let Some((to, queue, _, encoder)) =
                open.take_if(|(to, queue, session, _)| (*to, *queue, *session) != place)
            {
                post(&mut self.effects, to, queue, encoder);
            }
            let (.., encoder) =
                open.get_or_insert_with(|| (to, queue, session, Encoder::to_remote_queue(session)));
            encoder.put_to_remote_queue(&message);
        }
        if let Some((to, queue, _, encoder)) = open {
            post(&mut self.effects, to, queue, encoder);
        }
        if self.answers.is_empty() {
            // Its memory is kept.
            self.answers = answers;
        }
    }

    pub(crate) fn link_tick(&mut self, now: Now) {
        with_remote_queues!(self, now, |remote_queues, reach| remote_queues.tick(reach));
    }

    pub(crate) fn link_peer_down(&mut self, now: Now, peer: NodeId) {
        with_remote_queues!(self, now, |remote_queues, reach| remote_queues
            .peer_down(peer, reach));
    }

    pub(crate) fn remove_remote_queue(&mut self, now: Now, queue: QueueId) {
        with_remote_queues!(self, now, |remote_queues, reach| remote_queues
            .remove(queue, reach));
    }
}

/// Sends frames to another node.
fn post(effects: &mut ShardEffects, to: NodeId, queue: QueueId, encoder: Encoder) {
    for pieces in encoder.finish() {
        effects.peer.push((to, PeerFrame::of_pieces(queue, pieces)));
    }
}
