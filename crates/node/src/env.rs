//! What an actor may reach while it runs: the seam between the node and whoever drives it.
//!
//! Actors run *in place*: whoever has work for a shard borrows the shard, does the work, and lets
//! it go. In the broker a borrow takes a lock that is held for a batch; in a simulator it is a
//! plain borrow. What the work wants done elsewhere comes out as closed lists of effects, and the
//! environment carries it there when the shard is let go.

use crate::cluster::peers::Peers;
use crate::cluster::state::{Cluster, Waiter};
pub use crate::events::{ConnectionEvent, Executed, ProposalId};
use leveret_auth::{LoginCheck, Verdict};
use leveret_metadata::{Catalogue, CatalogueError, Command};
pub use leveret_queue_host::alarms::Alarms;
pub use leveret_queue_host::events::{LogPosition, PeerFrame, QueueAnswer, QueueEvent};
use leveret_queue_host::shard::Shard;
use leveret_types::{ConnectionId, ConsumerId, NodeId, Now, QueueId, ShardId};
use std::collections::VecDeque;
use std::net::IpAddr;
use std::ops::{Deref, DerefMut};
use std::sync::Weak;

/// What became of a change of the catalogue that was asked for.
#[derive(Debug)]
pub enum Proposal {
    /// It is carried out: this node is in no cluster.
    Done(Executed),
    /// The cluster has been asked; [`ConnectionEvent::Executed`] will tell.
    Waiting(ProposalId),
}

/// Whose password is checked.
#[derive(Clone, Debug)]
pub struct LoginFrom {
    /// The connection that is told.
    pub connection: ConnectionId,
    /// Where it comes from.
    pub address: IpAddr,
    /// Gone when nobody waits any more.
    pub wanted: Weak<()>,
}

/// The environment of an actor.
pub trait Env {
    /// A borrowed shard. Letting it go carries its effects out.
    type ShardGuard<'a>: DerefMut<Target = Shard>
    where
        Self: 'a;
    /// The catalogue, borrowed to be read.
    type CatalogueGuard<'a>: Deref<Target = Catalogue>
    where
        Self: 'a;

    /// Borrows a shard. Shards are borrowed one at a time, and after the catalogue if both are
    /// needed.
    fn shard(&self, shard: ShardId) -> Self::ShardGuard<'_>;
    /// Borrows the catalogue to read it.
    fn catalogue(&self) -> Self::CatalogueGuard<'_>;
    /// Changes the catalogue, and carries out at the shards what follows from the change. Nothing
    /// may be borrowed.
    ///
    /// # Errors
    /// What is wrong with the command; nothing has changed then.
    fn execute(&self, now: Now, command: &Command) -> Result<Executed, CatalogueError>;
    /// Changes the catalogue for a connection: here and now, or by asking the cluster. Nothing may
    /// be borrowed.
    ///
    /// # Errors
    /// What is wrong with the command, as far as it is known at once; nothing has changed then.
    fn propose(
        &self,
        now: Now,
        connection: ConnectionId,
        command: &Command,
    ) -> Result<Proposal, CatalogueError>;
    /// Through which chunk a shard's part of the write-ahead log is durable.
    fn durable(&self, shard: ShardId) -> u64;
    /// Whether publishers are to wait because the write-ahead log is behind.
    fn log_congested(&self) -> bool;
    /// Checks a password at once, where that is cheap and nobody from there has been guessing.
    fn check_login_at_once(&self, address: IpAddr, check: &LoginCheck) -> Option<Verdict>;
    /// Hands over a check that cannot be made at once. [`ConnectionEvent::LoginChecked`] tells what
    /// became of it; where its sender has gone, it need not be run.
    fn check_login(&self, from: LoginFrom, check: LoginCheck);
    /// Posts to a connection.
    fn post(&self, connection: ConnectionId, event: ConnectionEvent);
    /// This node's number; 0 outside clusters.
    fn node_id(&self) -> NodeId;
    /// The other nodes of the cluster, and which of them are up.
    fn peers(&self) -> &Peers;
    /// This node's part in its cluster; none outside clusters.
    fn cluster(&self) -> Option<&Cluster>;
    /// Sees to it that [`crate::cluster::run`] is called soon.
    fn wake_cluster(&self);
    /// Borrows the catalogue to change it: for [`crate::cluster`] alone. Shards may be borrowed
    /// meanwhile.
    fn change_catalogue<R>(&self, work: impl FnOnce(&mut Catalogue) -> R) -> R;
    /// Sends a message to another node, behind all that was sent there before. It is dropped if
    /// that node is down, or takes nothing and has too much waiting: then the link breaks, and
    /// [`crate::cluster::peer_down`] and [`crate::cluster::peer_up`] tell.
    fn post_peer(&self, to: NodeId, frame: PeerFrame);
    /// Whether so much waits for this node that no more should be made for it.
    fn peer_congested(&self, peer: NodeId) -> bool;
    /// Hands over work that needs the catalogue or several shards, for whoever next has nothing
    /// borrowed.
    fn defer(&self, work: leveret_queue_host::shard::Deferred);
    /// This node's own alarms.
    fn alarms(&self) -> Alarms;
    /// A consumer id that was never used before.
    fn consumer_id(&self) -> ConsumerId;
    /// Unguessable bytes.
    fn random(&self) -> [u8; 16];
    /// Settings of the node.
    fn settings(&self) -> &crate::NodeSettings;
    /// Counters of the node.
    fn counters(&self) -> &crate::NodeCounters;
    /// Who is logged in where.
    fn registry(&self) -> &crate::registry::Registry;
    /// The node's registry of direct reply-to consumers.
    fn replies(&self) -> &crate::reply_to::Replies;
    /// What `x-recent-history` exchanges remember.
    fn history(&self) -> &crate::history::History;
    /// Tells whoever runs the streams of this node. The catalogue is borrowed.
    fn follow_stream(&self, _change: crate::streams::StreamChange) {}
    /// Says something to the streams of this node for a connection, which hears
    /// [`ConnectionEvent::Stream`].
    ///
    /// # Errors
    /// The command, if there is no room for it now: the connection hears when there is.
    fn say_to_streams(
        &self,
        _connection: ConnectionId,
        command: leveret_stream::Command,
    ) -> Result<(), Box<leveret_stream::Command>> {
        Err(Box::new(command))
    }
    /// A connection leaves the streams of this node. What it has said and there was no room for
    /// comes before that, whatever room there is.
    fn leave_streams(&self, _connection: ConnectionId, _unsaid: VecDeque<leveret_stream::Command>) {
    }

    /// Takes in what another node says of streams. Nothing may be borrowed.
    fn receive_of_streams(&self, _from: NodeId, _frame: bytes::Bytes) {}
    /// Another node is connected, or not any more. Nothing may be borrowed.
    fn peer_of_streams(&self, _peer: NodeId, _is_up: bool) {}
    /// Says something to a replica of a stream, on this node or on another one. Nothing may be
    /// borrowed.
    fn tell_replica(
        &self,
        _to: NodeId,
        _stream: QueueId,
        _message: leveret_stream::ReplicaMessage,
    ) {
    }
    /// Where clients of streams reach another node, as far as it has said so.
    fn stream_clients(&self, _node: NodeId) -> Option<crate::stream_relay::ClientAddresses> {
        None
    }

    /// The alarms of a node of the cluster, as far as it has told this one.
    fn alarms_of(&self, node: NodeId) -> Alarms {
        match node == self.node_id() {
            true => self.alarms(),
            false => self.peers().alarms_of(node),
        }
    }

    /// The shard that a queue lives on here.
    fn shard_of(&self, queue: QueueId) -> ShardId {
        leveret_queue_host::shard::shard_of(queue, self.settings().shard_count)
    }

    /// Changes the catalogue in the broker's own name, with nobody waiting for it. Nothing may be
    /// borrowed.
    fn submit(&self, now: Now, command: &Command) {
        if let Some(cluster) = self.cluster() {
            cluster.propose(Waiter::Nobody, command.clone());
            self.wake_cluster();
        } else if let Err(error) = self.execute(now, command) {
            tracing::warn!(%error, "the catalogue stays as it is");
        }
    }

    /// Lets a connection that names what this node does not know hear, by
    /// [`ConnectionEvent::Peeked`], when to look again: another node may have declared it a moment
    /// ago. False if it is to be told at once that there is no such thing.
    fn look(&self, connection: ConnectionId) -> bool {
        let cluster = self.cluster();
        let looks = cluster.is_some_and(|cluster| cluster.look(connection, self.peers()));
        if looks {
            self.wake_cluster();
        }
        looks
    }

    /// Runs `work` on each shard in turn and lets it go.
    fn for_each_shard(&self, now: Now, mut work: impl FnMut(&mut Shard)) {
        for shard in 0..self.settings().shard_count {
            self.with_shard(now, ShardId(shard), &mut work);
        }
    }

    /// Runs `work` on a shard and lets it go.
    fn with_shard<R>(&self, now: Now, shard: ShardId, work: impl FnOnce(&mut Shard) -> R) -> R {
        let mut guard = self.shard(shard);
        let result = work(&mut guard);
        guard.finish(now);
        result
    }
}
