//! Queues that live on several nodes, or on another: any node serves any queue.
//!
//! Each node that uses such a queue has a *proxy* for it, which keeps its clients' operations until
//! the queue's leader says that they are committed, and knows what its consumers hold. The leader
//! may be in the same shard, or on another node: what is said is the same ([`link`]).

pub mod link;

mod clients;
mod home;
mod proxies;
mod proxy;
pub mod replica;

pub use clients::Clients;
pub(crate) use home::{Guest, Homes};
pub use proxies::LocalDeliveries;
pub(crate) use proxies::Proxies;
pub use proxy::Asker;
pub(crate) use proxy::{Afterwards, Notify};

pub use crate::effects::Then;
use crate::env::{PeerFrame, QueueAnswer};
use crate::link::ConsumerLink;
use crate::looked::Found;
use crate::shard::{Enqueued, GetOutcome, Shard, ShardEffects};
use bytes::Bytes;
use leveret_queue::Consumer;
use leveret_types::{ConnectionId, ConsumerId, Message, NodeId, Now, QueueId};
use link::{Answer, Encoder, Operation, Settle, Standing, ToLeader, ToProxy};
use proxies::Received;
use proxy::{Put, Reach};

/// The proxies of a shard together with what their calls may reach.
macro_rules! with_proxies {
    ($shard:ident, $now:ident, |$proxies:ident, $reach:ident| $call:expr) => {{
        let $proxies = &mut $shard.proxies;
        let $reach = &mut Reach {
            now: $now,
            node: $proxies.origin().node,
            effects: &mut $shard.effects,
        };
        $call
    }};
}

impl Shard {
    /// Whether the queue is used through a proxy.
    pub(crate) fn is_proxied(&self, queue: QueueId) -> bool {
        self.proxies.has(queue)
    }

    pub(crate) fn proxy_publish(
        &mut self,
        queue: QueueId,
        message: &Message,
        notify: Notify,
    ) -> Enqueued {
        if self.proxies.is_unavailable(queue) {
            return Enqueued::Rejected;
        }
        let Some(proxy) = self.proxies.use_proxy(queue) else {
            return Enqueued::Gone;
        };
        let (sequence, full) = proxy.publish(Operation::Publish(message.clone()), notify);
        Enqueued::Kept { sequence, full }
    }

    /// Holds a publisher back until the queue takes more; false if it does.
    pub(crate) fn hold_back(&mut self, queue: QueueId, connection: ConnectionId) -> bool {
        let proxy = self.proxies.use_proxy(queue);
        proxy.is_some_and(|proxy| proxy.hold_back(connection))
    }

    pub(crate) fn proxy_settle(&mut self, queue: QueueId, settle: Settle) -> u64 {
        let proxy = self.proxies.use_proxy(queue);
        proxy.map_or(0, |proxy| proxy.settle(settle))
    }

    /// Attaches a consumer through the proxy: [`QueueAnswer::Attached`] follows.
    pub(crate) fn proxy_attach(
        &mut self,
        now: Now,
        queue: QueueId,
        consumer: Consumer,
        connection: ConnectionId,
        link: ConsumerLink,
    ) {
        let unavailable = self.proxies.is_unavailable(queue);
        if let Some(proxy) = self.proxies.use_proxy(queue) {
            proxy.attach(now, consumer, connection, link);
            if unavailable {
                with_proxies!(self, now, |proxies, reach| proxies.abandon(queue, reach));
            }
        }
    }

    /// Cancels a consumer through the proxy: a reply follows.
    pub(crate) fn proxy_cancel(
        &mut self,
        now: Now,
        queue: QueueId,
        consumer: ConsumerId,
        connection: ConnectionId,
    ) {
        if let Some(proxy) = self.proxies.use_proxy(queue) {
            proxy.cancel(now, consumer, connection);
        }
    }

    pub(crate) fn proxy_detach(&mut self, queue: QueueId, holder: ConsumerId) {
        if let Some(proxy) = self.proxies.use_proxy(queue) {
            proxy.detach(holder);
        }
    }

    pub(crate) fn proxy_unblock(&mut self, now: Now, queue: QueueId, consumer: ConsumerId) {
        with_proxies!(self, now, |proxies, reach| {
            if let Some(proxy) = proxies.use_proxy(queue) {
                proxy.unblock(consumer, reach);
            }
        });
    }

    /// Asks a question of the leader through the proxy. For one who asks again, the answer if it is
    /// there.
    fn proxy_ask(
        &mut self,
        now: Now,
        queue: QueueId,
        asker: Asker,
        ask: impl FnOnce(&mut proxy::Proxy),
    ) -> Option<QueueAnswer> {
        let unavailable = self.proxies.is_unavailable(queue);
        let proxy = self.proxies.use_proxy(queue)?;
        if let Asker::Poll(poll) = asker {
            match proxy.parked(poll) {
                (Some(answer), _) => return Some(answer),
                (None, true) => return None,
                (None, false) => {}
            }
        }
        ask(proxy);
        if unavailable {
            with_proxies!(self, now, |proxies, reach| proxies.abandon(queue, reach));
        }
        None
    }

    pub(crate) fn proxy_get(
        &mut self,
        now: Now,
        queue: QueueId,
        holder: ConsumerId,
        connection: Option<ConnectionId>,
        no_ack: bool,
    ) -> GetOutcome {
        let asker = connection.map_or(Asker::Poll(holder.0), Asker::Connection);
        let ask = |proxy: &mut proxy::Proxy| proxy.get(now, asker, holder, no_ack);
        match self.proxy_ask(now, queue, asker, ask) {
            Some(QueueAnswer::Got(Some((delivery, left)))) => GetOutcome::Message(delivery, left),
            Some(QueueAnswer::Got(None)) => GetOutcome::Empty,
            Some(_) => GetOutcome::Unavailable,
            None => GetOutcome::Pending,
        }
    }

    /// Drops all ready messages; answers how many, or nothing if the asker will hear.
    pub(crate) fn proxy_purge(
        &mut self,
        now: Now,
        queue: QueueId,
        asker: Asker,
    ) -> Option<QueueAnswer> {
        self.proxy_ask(now, queue, asker, |proxy| proxy.purge(now, asker))
    }

    /// How a queue stands; nothing if the asker will hear.
    pub(crate) fn proxy_standing(
        &mut self,
        now: Now,
        queue: QueueId,
        asker: Asker,
    ) -> Option<QueueAnswer> {
        self.proxy_ask(now, queue, asker, |proxy| proxy.count(now, asker))
    }

    /// A ready message, which stays; nothing if the asker will hear.
    pub(crate) fn proxy_peek(
        &mut self,
        now: Now,
        queue: QueueId,
        asker: Asker,
        before: u64,
    ) -> Option<QueueAnswer> {
        self.proxy_ask(now, queue, asker, |proxy| proxy.peek(now, asker, before))
    }

    /// How a queue stands as far as this node knows: by its replica here, or as its leader said
    /// when it was last asked.
    pub(crate) fn last_standing(&self, now: Now, queue: QueueId) -> Standing {
        if let Some(facts) = self.facts(now, queue) {
            return Standing {
                ready: facts.counts.ready,
                unsettled: facts.counts.unsettled,
                consumers: facts.counts.consumers as u64,
            };
        }
        let proxy = self.proxies.known(queue);
        proxy.map(proxy::Proxy::standing).unwrap_or_default()
    }

    /// A connection wants to hear when all that this node has done to a queue is committed. Answers
    /// the number up to which that must be told; nothing if it is committed already.
    pub(crate) fn wait_for_queue(
        &mut self,
        queue: QueueId,
        connection: ConnectionId,
    ) -> Option<u64> {
        self.proxies.use_proxy(queue)?.wait_for_all(connection)
    }

    /// Takes in a frame of a proxy or a leader on another node.
    pub(crate) fn receive_link(&mut self, now: Now, from: NodeId, queue: QueueId, frame: Bytes) {
        let result = match frame.first() {
            Some(&link::TO_LEADER) => link::decode_to_leader(frame).map(|frame| {
                for message in frame.messages {
                    self.tell_leader(now, from, queue, frame.session, message);
                }
            }),
            _ => link::decode_to_proxy(queue, frame).map(|frame| {
                for message in frame.messages {
                    self.tell_proxy(now, from, queue, frame.session, message);
                }
            }),
        };
        if let Err(error) = result {
            tracing::error!(%from, %queue, %error, "a frame is dropped");
        }
    }

    /// Gives a leader in this shard what a proxy says.
    fn tell_leader(
        &mut self,
        now: Now,
        from: NodeId,
        queue: QueueId,
        session: u64,
        message: ToLeader,
    ) {
        if self.is_replicated_here(queue) {
            self.replica_receive(now, from, queue, session, message);
        } else if self.is_here(queue) {
            self.home_receive(now, from, queue, session, message);
        } else if !matches!(message, ToLeader::Absent { .. }) {
            // The queue is gone, or has not come here yet.
            self.answers.push(Answer {
                to: from,
                queue,
                session: 0,
                message: ToProxy::NotLeader {
                    term: 0,
                    leader: None,
                },
            });
        }
    }

    /// Gives a proxy in this shard what a leader says.
    fn tell_proxy(
        &mut self,
        now: Now,
        from: NodeId,
        queue: QueueId,
        session: u64,
        message: ToProxy,
    ) {
        let received = with_proxies!(self, now, |proxies, reach| {
            proxies.receive(queue, from, session, message, reach)
        });
        match received {
            Received::Done => {}
            Received::Answer(answer) if from == self.node() => {
                self.tell_leader(now, from, queue, 0, answer);
            }
            Received::Answer(answer) => {
                let mut encoder = Encoder::to_leader(0);
                encoder.put_to_leader(&answer);
                post(&mut self.effects, from, queue, encoder);
            }
        }
    }

    /// Lets proxies and leaders say what they have to say to each other, until all is said.
    pub(crate) fn exchange(&mut self, now: Now) {
        loop {
            while let Some(queue) = self.proxies.pop_dirty() {
                self.flush_proxy(now, queue);
            }
            self.homes.redirect(&mut self.effects, &mut self.answers);
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
            with_proxies!(shard, now, |proxies, reach| proxies
                .next_local(queue, reach))
        };
        while let Some(delivery) = next(self) {
            let found = self.replica_message(queue, &delivery);
            let is_pending = matches!(found, Found::Pending);
            with_proxies!(self, now, |proxies, reach| {
                proxies.found_local(queue, found, reach);
            });
            if is_pending {
                break;
            }
        }
    }

    /// What leaders on other nodes left to the replicas here to deliver.
    #[must_use]
    pub const fn local_deliveries(&self) -> LocalDeliveries {
        self.proxies.local_deliveries()
    }

    fn flush_proxy(&mut self, now: Now, queue: QueueId) {
        self.complete_local(now, queue);
        let hint = self.replica_leader(queue);
        self.proxies.locate(now, queue, hint);
        let own = self.node();
        let mut encoder: Option<(NodeId, Encoder)> = None;
        let mut local: Vec<(u64, ToLeader)> = Vec::new();
        self.proxies.flush(queue, |node, session, put| {
            if node == own {
                let message = match put {
                    Put::Operations(first, operations) => ToLeader::Operations {
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
        self.proxies.note_deadline(queue);
        if let Some((node, encoder)) = encoder {
            post(&mut self.effects, node, queue, encoder);
        }
        for (session, message) in local {
            self.tell_leader(now, own, queue, session, message);
        }
    }

    fn flush_answers(&mut self, now: Now) {
        let own = self.node();
        let mut answers = std::mem::take(&mut self.answers);
        // What is for one proxy stays in its order and becomes one frame.
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
                self.tell_proxy(now, own, queue, session, message);
                continue;
            }
            let place = (to, queue, session);
            if let Some((to, queue, _, encoder)) =
                open.take_if(|(to, queue, session, _)| (*to, *queue, *session) != place)
            {
                post(&mut self.effects, to, queue, encoder);
            }
            let (.., encoder) =
                open.get_or_insert_with(|| (to, queue, session, Encoder::to_proxy(session)));
            encoder.put_to_proxy(&message);
        }
        if let Some((to, queue, _, encoder)) = open {
            post(&mut self.effects, to, queue, encoder);
        }
        if self.answers.is_empty() {
            // Its memory is kept.
            self.answers = answers;
        }
    }

    pub(crate) fn link_on_durable(&mut self) {
        if !self.homes.is_empty() {
            let through = self.logs.durable_through();
            self.homes.on_durable(through, &mut self.answers);
        }
    }

    pub(crate) fn link_tick(&mut self, now: Now) {
        with_proxies!(self, now, |proxies, reach| proxies.tick(reach));
    }

    pub(crate) fn link_peer_up(&mut self, now: Now, peer: NodeId) {
        self.proxies.peer_up(now, peer);
    }

    pub(crate) fn link_peer_down(&mut self, now: Now, peer: NodeId) {
        with_proxies!(self, now, |proxies, reach| proxies.peer_down(peer, reach));
        self.home_peer_down(now, peer);
    }

    pub(crate) fn remove_proxy(&mut self, now: Now, queue: QueueId) {
        with_proxies!(self, now, |proxies, reach| proxies.remove(queue, reach));
        self.homes.remove(queue);
    }
}

/// Sends frames to another node.
fn post(effects: &mut ShardEffects, to: NodeId, queue: QueueId, encoder: Encoder) {
    for pieces in encoder.finish() {
        effects.peer.push((to, PeerFrame { queue, pieces }));
    }
}
