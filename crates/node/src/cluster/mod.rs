//! The cluster as a node sees it: who else there is, who of them is up, and where their frames go.
//!
//! Invariant: nothing here owns a socket or a clock. The shell brings frames and tells which nodes
//! are connected; what is to be sent leaves through [`Env::post_peer`].

mod peers;

pub use peers::{PeerView, Peers};

use crate::env::Env;
use bytes::Bytes;
use leveret_types::{NodeId, Now, QueueId, ShardId};

/// The queue id under which frames of the catalogue's group travel: no queue has it.
pub const CATALOGUE_GROUP: QueueId = QueueId(0);

/// Takes in frames that another node has sent, in their order. Nothing may be borrowed.
pub fn receive<E: Env>(now: Now, from: NodeId, frames: Vec<(QueueId, Bytes)>, env: &E) {
    let mut held: Option<(ShardId, E::ShardGuard<'_>)> = None;
    for (queue, frame) in frames {
        let id = env.shard_of(queue);
        if held.as_ref().is_some_and(|(of, _)| *of != id)
            && let Some((_, mut shard)) = held.take()
        {
            shard.finish(now);
        }
        let (_, shard) = held.get_or_insert_with(|| (id, env.shard(id)));
        shard.receive_peer(now, from, queue, frame);
    }
    if let Some((_, mut shard)) = held {
        shard.finish(now);
    }
}

/// Another node is connected, in both directions, from now on. Nothing may be borrowed.
pub fn peer_up<E: Env>(now: Now, peer: NodeId, env: &E) {
    env.peers().set_up(peer, true);
    for_each_shard(env, now, |shard| shard.peer_up(now, peer));
}

/// Another node is down, or the way to it is: what was sent and not answered may be lost. Nothing
/// may be borrowed.
pub fn peer_down<E: Env>(now: Now, peer: NodeId, env: &E) {
    env.peers().set_up(peer, false);
    for_each_shard(env, now, |shard| shard.peer_down(now, peer));
}

fn for_each_shard<E: Env>(env: &E, now: Now, mut act: impl FnMut(&mut crate::shard::Shard)) {
    for shard in 0..env.settings().shard_count {
        env.with_shard(now, ShardId(shard), &mut act);
    }
}
