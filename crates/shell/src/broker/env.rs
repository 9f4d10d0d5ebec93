//! What the core may ask of the broker.

use super::shards::ShardGuard;
use super::{Broker, random_bytes, thread_of};
use crate::inbox::Inbox;
use crate::logins::LoginWaiter;
use crate::thread_event::ThreadEvent;
use crate::wake_ups::WakeUps;
use bytes::Bytes;
use leveret_auth::{LoginCheck, Verdict};
use leveret_cluster::Env as _;
use leveret_cluster::catalogue::execute_in_parts;
use leveret_cluster::streams::{ClientAddresses, StreamChange, StreamLocation};
use leveret_cluster::{Cluster, Peers, Waiter};
use leveret_metadata::{Catalogue, CatalogueError, Change, Command};
use leveret_node::env::ClusterEvent;
use leveret_node::history::History;
use leveret_node::registry::Registry;
use leveret_node::reply_to::Replies;
use leveret_node::{
    Alarms, ConnectionEvent, Env, Executed, LoginFrom, NodeCounters, NodeSettings, PeerFrame,
    Proposal,
};
use leveret_queue_host::shard::Deferred;
use leveret_stream::{Command as StreamCommand, ReplicaMessage, SessionId};
use leveret_types::limits::WAL_BACKLOG_BYTES_MAX;
use leveret_types::{ConnectionId, ConsumerId, NodeId, Now, QueueId, ShardId};
use parking_lot::{RwLockReadGuard, RwLockWriteGuard};
use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::{Arc, Weak};

/// A connection that waits for the check of its password.
struct Client {
    inboxes: Arc<[Inbox<ThreadEvent>]>,
    connection: ConnectionId,
    wanted: Weak<()>,
}

impl LoginWaiter for Client {
    fn waits(&self) -> bool {
        self.wanted.strong_count() > 0
    }

    fn tell(self: Box<Self>, verdict: Verdict) {
        if let Some(inbox) = self.inboxes.get(thread_of(self.connection)) {
            let event = ConnectionEvent::LoginChecked(verdict);
            inbox.post([ThreadEvent::Connection(self.connection, event)]);
            inbox.ring();
        }
    }
}

impl leveret_cluster::Env for Broker {
    type ShardGuard<'a> = ShardGuard<'a>;
    type CatalogueGuard<'a> = RwLockReadGuard<'a, Catalogue>;

    fn shard(&self, shard: ShardId) -> ShardGuard<'_> {
        ShardGuard::lock(self, shard)
    }

    fn catalogue(&self) -> RwLockReadGuard<'_, Catalogue> {
        self.catalogue.read()
    }

    fn execute(&self, now: Now, command: &Command) -> Result<Executed, CatalogueError> {
        if self.cluster.part.is_some() {
            let outcome = self.execute_in_cluster(command)?;
            return Ok(Executed {
                outcome,
                log_position: None,
            });
        }
        let mut catalogue = self.catalogue.write();
        let let_in = RwLockWriteGuard::bump;
        execute_in_parts(&mut catalogue, now, command, self, let_in)
    }

    fn durable(&self, shard: ShardId) -> u64 {
        self.shards.durable(shard)
    }

    fn node_id(&self) -> NodeId {
        self.cluster.own()
    }

    fn cluster(&self) -> Option<&Cluster> {
        self.cluster.part.as_ref()
    }

    fn wake_cluster(&self) {
        self.cluster.links.note_work();
        self.wake(WakeUps::LINKS);
    }

    fn change_catalogue<R>(&self, work: impl FnOnce(&mut Catalogue) -> R) -> R {
        work(&mut self.catalogue.write())
    }

    fn unlink_bindings(&self) {
        self.defer(Deferred::UnlinkBindings);
    }

    fn peers(&self) -> &Peers {
        &self.cluster.peers
    }

    fn post_peer(&self, to: NodeId, frame: PeerFrame) {
        if self.cluster.links.post([(to, frame)]) {
            self.wake(WakeUps::LINKS);
        }
    }

    fn alarms(&self) -> Alarms {
        self.own_alarms()
    }

    fn follow_stream(&self, change: StreamChange) {
        match change {
            StreamChange::Begun(stream, settings) => self.streams.begin(stream, *settings),
            StreamChange::Changed(stream, settings) => self.streams.change(stream, *settings),
            StreamChange::Replica(here) => {
                let (leader, is_here) = (here.leader, true);
                let location = (leader != here.node).then_some(StreamLocation { leader, is_here });
                self.stream_relay.set_location(here.stream, location);
                self.streams.replica(here);
            }
            StreamChange::Elsewhere(stream, leader) => {
                let is_here = false;
                self.stream_relay
                    .set_location(stream, Some(StreamLocation { leader, is_here }));
                self.streams.no_replica(stream);
            }
            StreamChange::Deleted(stream) => {
                self.stream_relay.set_location(stream, None);
                self.streams.delete(stream);
            }
        }
    }

    fn receive_of_streams(&self, from: NodeId, frame: Bytes) {
        self.receive_of_relay(from, frame);
    }

    fn peer_of_streams(&self, peer: NodeId, is_up: bool) {
        self.peer_of_relay(peer, is_up);
    }

    fn tell_replica(&self, to: NodeId, stream: QueueId, message: ReplicaMessage) {
        self.pass_message(to, stream, message);
        self.cluster.links.ring();
    }

    fn settle_stream(&self, stream: QueueId, to: NodeId) {
        self.streams.hand_over(stream, to);
    }

    fn stream_clients(&self, node: NodeId) -> Option<ClientAddresses> {
        self.stream_relay.clients(node)
    }

    fn clients_follow(&self, catalogue: &Catalogue, change: &Change, now: Now) {
        leveret_node::clients_follow(catalogue, change, now, self);
    }

    fn tell(&self, connection: ConnectionId, event: ClusterEvent) {
        self.post(connection, event.into());
    }

    fn shard_count(&self) -> u16 {
        self.settings.shard_count
    }
}

impl Env for Broker {
    fn propose(
        &self,
        now: Now,
        connection: ConnectionId,
        command: &Command,
    ) -> Result<Proposal, CatalogueError> {
        let Some(cluster) = &self.cluster.part else {
            return self.execute(now, command).map(Proposal::Done);
        };
        let id = cluster.propose(Waiter::Connection(connection), command.clone());
        self.wake_cluster();
        Ok(Proposal::Waiting(id))
    }

    fn log_congested(&self) -> bool {
        let backlog = self.shards.backlog_bytes();
        backlog > WAL_BACKLOG_BYTES_MAX || self.pressure.are_segments_behind()
    }

    fn check_login_at_once(&self, address: IpAddr, check: &LoginCheck) -> Option<Verdict> {
        self.logins.at_once(address, check)
    }

    fn check_login(&self, from: LoginFrom, check: LoginCheck) {
        let waiter = Client {
            inboxes: Arc::clone(&self.io.inboxes),
            connection: from.connection,
            wanted: from.wanted,
        };
        self.logins.enqueue(from.address, check, Box::new(waiter));
    }

    fn post(&self, connection: ConnectionId, event: ConnectionEvent) {
        if let Some(inbox) = self.io.inboxes.get(thread_of(connection)) {
            inbox.post([ThreadEvent::Connection(connection, event)]);
            self.wake(WakeUps::io_thread(thread_of(connection)));
        }
    }

    fn peer_congested(&self, peer: NodeId) -> bool {
        self.cluster.links.congested(peer)
    }

    fn defer(&self, work: Deferred) {
        self.deferred.push(work);
    }

    fn consumer_id(&self) -> ConsumerId {
        self.clients.consumer_id()
    }

    fn random(&self) -> [u8; 16] {
        random_bytes()
    }

    fn settings(&self) -> &NodeSettings {
        &self.settings
    }

    fn counters(&self) -> &NodeCounters {
        &self.clients.counters
    }

    fn registry(&self) -> &Registry {
        &self.clients.registry
    }

    fn replies(&self) -> &Replies {
        &self.clients.replies
    }

    fn history(&self) -> &History {
        &self.clients.history
    }

    fn say_to_streams(
        &self,
        connection: ConnectionId,
        command: StreamCommand,
    ) -> Result<(), Box<StreamCommand>> {
        self.say_to_any_stream(SessionId::Connection(connection), command)
    }

    fn leave_streams(&self, connection: ConnectionId, unsaid: VecDeque<StreamCommand>) {
        self.leave_all_streams(SessionId::Connection(connection), unsaid);
    }
}
