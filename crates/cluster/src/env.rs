//! What the node's part in its cluster may reach while it runs: the seam to whoever drives it.
//!
//! Work is done *in place*: whoever has some for a shard borrows the shard, does the work, and lets
//! it go by [`BorrowedShard::release`]. In the broker a borrow takes a lock that is held for a
//! batch; in a simulator it is a plain borrow. What the work wants done elsewhere comes out as
//! closed lists of effects, and the environment carries it there when the shard is let go.

use crate::events::{ClusterEvent, Executed};
use crate::peers::Peers;
use crate::state::{Cluster, Waiter};
use crate::streams::{ClientAddresses, StreamChange};
use leveret_metadata::{Catalogue, CatalogueError, Change, Command};
use leveret_queue_host::alarms::Alarms;
use leveret_queue_host::events::PeerFrame;
use leveret_queue_host::shard::Shard;
use leveret_types::{ConnectionId, NodeId, Now, QueueId, ShardId};
use std::ops::{Deref, DerefMut};

/// A shard, borrowed. Who has only looked at it may drop it; who has changed it calls
/// [`Self::release`], or [`Self::let_go`].
pub trait BorrowedShard: DerefMut<Target = Shard> {
    /// Lets the shard go, and carries out what it wants done outside itself.
    fn release(self);

    /// Lets all that happened to the shard take its course, and the shard go.
    fn let_go(mut self, now: Now)
    where
        Self: Sized,
    {
        self.finish(now);
        self.release();
    }
}

/// The environment of the catalogue and of all that follows from it on this node.
pub trait Env {
    /// A borrowed shard.
    type ShardGuard<'a>: BorrowedShard
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
    /// Through which chunk a shard's part of the write-ahead log is durable.
    fn durable(&self, shard: ShardId) -> u64;
    /// A change of the catalogue is carried out: what it means to this node's clients. The
    /// catalogue is borrowed.
    fn clients_follow(&self, catalogue: &Catalogue, change: &Change, now: Now);
    /// Tells a connection.
    fn tell(&self, connection: ConnectionId, event: ClusterEvent);
    /// This node's number; 0 outside clusters.
    fn node_id(&self) -> NodeId;
    /// The other nodes of the cluster, and which of them are up.
    fn peers(&self) -> &Peers;
    /// This node's part in its cluster; none outside clusters.
    fn cluster(&self) -> Option<&Cluster>;
    /// Sees to it that [`crate::run`] is called soon.
    fn wake_cluster(&self);
    /// Borrows the catalogue to change it: for this crate alone. Shards may be borrowed meanwhile.
    fn change_catalogue<R>(&self, work: impl FnOnce(&mut Catalogue) -> R) -> R;
    /// Has [`crate::unlink_bindings`] called until there are no more. The catalogue is borrowed.
    fn unlink_bindings(&self);
    /// Sends a message to another node, behind all that was sent there before. It is dropped if
    /// that node is down, or takes nothing and has too much waiting: then the link breaks, and
    /// [`crate::peer_down`] and [`crate::peer_up`] tell.
    fn post_peer(&self, to: NodeId, frame: PeerFrame);
    /// This node's own alarms.
    fn alarms(&self) -> Alarms;
    /// Shards of the node.
    fn shard_count(&self) -> u16;
    /// Tells whoever runs the streams of this node. The catalogue is borrowed.
    fn follow_stream(&self, _change: StreamChange) {}
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
    /// Has a stream that is led here let what is under way commit; then it is handed over by
    /// [`crate::hand_stream_over`]. One that is not led here stays. Nothing may be borrowed.
    fn settle_stream(&self, _stream: QueueId, _to: NodeId) {}
    /// Where clients of streams reach another node, as far as it has said so.
    fn stream_clients(&self, _node: NodeId) -> Option<ClientAddresses> {
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
        leveret_queue_host::shard::shard_of(queue, self.shard_count())
    }

    /// Changes the catalogue in the broker's own name, with nobody waiting for it. Nothing may be
    /// borrowed.
    fn submit(&self, now: Now, command: &Command) {
        if let Some(cluster) = self.cluster() {
            cluster.propose(Waiter::Nobody, command.clone());
            self.wake_cluster();
        } else if let Err(error) = self.execute(now, command) {
            tracing::warn!(%error, "a change of the catalogue was refused");
        }
    }

    /// Lets a connection that names what this node does not know hear, by
    /// [`ClusterEvent::ReadBarrierPassed`], when to look again: another node may have declared it a
    /// moment ago. False if it is to be told at once that there is no such thing.
    fn await_read_barrier(&self, connection: ConnectionId) -> bool {
        let cluster = self.cluster();
        let awaits_barrier =
            cluster.is_some_and(|cluster| cluster.await_read_barrier(connection, self.peers()));
        if awaits_barrier {
            self.wake_cluster();
        }
        awaits_barrier
    }

    /// Runs `work` on each shard in turn and lets it go.
    fn for_each_shard(&self, now: Now, mut work: impl FnMut(&mut Shard)) {
        for shard in 0..self.shard_count() {
            self.with_shard(now, ShardId(shard), &mut work);
        }
    }

    /// Runs `work` on a shard and lets it go.
    fn with_shard<R>(&self, now: Now, shard: ShardId, work: impl FnOnce(&mut Shard) -> R) -> R {
        let mut guard = self.shard(shard);
        let result = work(&mut guard);
        guard.let_go(now);
        result
    }
}
