//! The cluster as a node sees it, without IO: who else there is, who of them is up, where their
//! frames go, and the catalogue that all of them share, with what its changes mean to this node's
//! queues and streams.
//!
//! Invariant: nothing here owns a socket or a clock. The shell brings frames and tells which nodes
//! are connected; what is to be sent leaves through [`Env::post_peer`].
//! Invariant: the catalogue of a node that is in a cluster changes in [`run`] alone.

pub mod catalogue;
pub mod control;
pub mod detector;
pub mod env;
pub mod events;
pub mod forming;
pub mod group;
pub mod operations;
pub mod reports;
pub mod streams;
pub mod wire;

mod alarms;
mod catalogue_changes;
mod election_request;
mod elections;
mod frame_kinds;
mod groups;
mod leader_transfers;
mod leaders;
mod outdated;
mod peers;
mod placement;
mod reconcile;
mod starts;
mod state;
mod stream_changes;
mod stream_relay;
mod uptime_rules;

#[cfg(test)]
mod test_catalogue;

pub use alarms::{
    BlockedStreams, alarms_together, blocked_by, blocked_streams, members_of, set_alarms_of,
};
pub use catalogue_changes::{follow_nodes, replace_catalogue, unlink_bindings};
pub use election_request::ElectionRequest;
pub use env::{BorrowedShard, Env};
pub use groups::Group;
pub use leaders::{hand_over_leaders, hand_stream_over, leaders_known, transfer};
pub use peers::{PeerAddress, PeerView, Peers};
pub use placement::{NodeLoad, loads};
pub use starts::KnownStarts;
pub use state::{CATALOGUE_GROUP, Cluster, Identity, Waiter};

use crate::events::Executed;
use crate::stream_relay::STREAM_LINK;
use bytes::{BufMut, Bytes, BytesMut};
use group::CatalogueContext;
use leveret_metadata::{Catalogue, CatalogueError, Command};
use leveret_queue_host::events::PeerFrame;
use leveret_stream::ReplicaMessage;
use leveret_types::{NodeId, Now, QueueId, ShardId};
use state::{Event, lock};
use std::sync::atomic::Ordering;
use std::sync::mpsc::SyncSender;

/// Lets the catalogue's group go on: what has been proposed, what has come, what has become
/// durable. One thread does this. Nothing may be borrowed.
pub fn run<E: Env>(now: Now, env: &E) {
    let Some(cluster) = env.cluster() else {
        return;
    };
    let mut group = lock(&cluster.group);
    cluster.waiting.store(false, Ordering::Release);
    // What is written meanwhile may be durable before it is known that the group waits for it.
    cluster.awaits_log.store(true, Ordering::SeqCst);
    let events = std::mem::take(&mut *lock(&cluster.events));
    let mut context = CatalogueContext { now, cluster, env };
    let mut drains = false;
    for event in events {
        drains |= matches!(event, Event::Drain);
        group.handle(&context, event);
    }
    if drains {
        group.hand_over_leadership(|_| true);
        lock(&cluster.transfers).leave(env);
    }
    let is_due = lock(&cluster.transfers).leaves_full_disk(now, env.alarms().disk);
    if is_due && cluster.has_placed_queues() {
        group.hand_over_leadership(|node| !env.alarms_of(node).disk);
        hand_over_leaders(now, env);
    }
    group.advance(&mut context);
    let awaits_log = group.awaits_log();
    cluster.awaits_log.store(awaits_log, Ordering::SeqCst);
    drop(group);
    if cluster.has_placed_queues() {
        elect(now, cluster, env);
        lock(&cluster.transfers).run(now, env);
    }
}

/// The answer to a command that changes nothing as far as this node knows, if it reaches too few
/// others to ask them: clients of a minority declare again what they use, and go on. A deletion of
/// what is not there is answered as the cluster would. Nothing where the cluster can be asked, or
/// something would change.
pub fn known_without_majority<E: Env>(
    command: &Command,
    env: &E,
) -> Option<Result<Executed, CatalogueError>> {
    let cluster = env.cluster()?;
    let is_up = |node: NodeId| node == env.node_id() || env.peers().is_up(node);
    if cluster.leader().is_some_and(is_up) {
        return None;
    }
    let membership = cluster.status().membership;
    if membership.has_majority(|voter| is_up(voter.node())) {
        return None;
    }
    let answer = env.catalogue().unchanged_by(command)?;
    Some(answer.map(|outcome| Executed {
        outcome,
        log_position: None,
    }))
}

/// Hands what this node leads to others, as far as they can take it. Nothing may be borrowed.
pub fn leave_leaders<E: Env>(env: &E) {
    if let Some(cluster) = env.cluster() {
        lock(&cluster.transfers).leave(env);
        env.wake_cluster();
    }
}

/// Asks the other nodes that are up, or those of `only` among them; answers the question's number,
/// for [`reports::Reports::forget`], and how many were asked. `to` must have room for an answer of
/// each node of the cluster. Nothing outside clusters, or if too many questions wait.
pub fn ask<E: Env>(
    env: &E,
    what: &[u8],
    only: Option<&[NodeId]>,
    to: SyncSender<reports::Report>,
) -> Option<(u64, usize)> {
    let mut up = env.peers().up();
    up.retain(|peer| only.is_none_or(|only| only.contains(peer)));
    let number = env.cluster()?.reports().note(to, up.len())?;
    let mut frame = BytesMut::with_capacity(9 + what.len());
    frame.put_u8(frame_kinds::ASK);
    frame.put_u64_le(number);
    frame.put_slice(what);
    let frame = frame.freeze();
    for peer in &up {
        env.post_peer(*peer, PeerFrame::new(CATALOGUE_GROUP, frame.clone()));
    }
    Some((number, up.len()))
}

/// Carries elections on. Nothing may be borrowed but the moves' lock.
fn elect<E: Env>(now: Now, cluster: &Cluster, env: &E) {
    let events = std::mem::take(&mut *lock(&cluster.election_events));
    let own = env.node_id();
    let leads = cluster.leader() == Some(own);
    let steps = {
        let catalogue = env.catalogue();
        let is_up = |node| node == own || env.peers().is_up(node);
        let mut elections = lock(&cluster.elections);
        elections.run(now, events, leads, &catalogue, is_up)
    };
    for (to, stream, epoch) in steps.asks {
        env.tell_replica(to, stream, ReplicaMessage::Prepare { epoch });
    }
    for command in steps.proposals {
        if let Command::StreamLeader {
            stream,
            epoch,
            leader,
            ..
        } = &command
        {
            tracing::info!(stream, epoch, leader, "a stream gets another leader");
        }
        cluster.propose(Waiter::Nobody, command);
    }
}

/// Takes in frames that another node has sent, in their order. Nothing may be borrowed.
pub fn receive<E: Env>(now: Now, from: NodeId, frames: Vec<(QueueId, Bytes)>, env: &E) {
    let mut held: Option<(ShardId, E::ShardGuard<'_>)> = None;
    for (queue, frame) in frames {
        if queue == CATALOGUE_GROUP && frame.first() == Some(&frame_kinds::TRANSFER) {
            let_go(held.take(), now);
            leaders::receive(now, &frame, env);
            continue;
        }
        if queue == CATALOGUE_GROUP && frame.first() == Some(&frame_kinds::STARTS) {
            let_go(held.take(), now);
            outdated::receive(now, from, &frame, env);
            continue;
        }
        if queue == STREAM_LINK {
            let_go(held.take(), now);
            env.receive_of_streams(from, frame);
            continue;
        }
        if queue == CATALOGUE_GROUP {
            if let Some(cluster) = env.cluster() {
                if matches!(
                    frame.first(),
                    Some(&(frame_kinds::ASK | frame_kinds::ANSWER))
                ) {
                    cluster.reports().receive(from, &frame);
                    continue;
                }
                cluster.tell(Event::Frame(from, frame));
            }
            continue;
        }
        let id = env.shard_of(queue);
        if held.as_ref().is_some_and(|(of, _)| *of != id) {
            let_go(held.take(), now);
        }
        let (_, shard) = held.get_or_insert_with(|| (id, env.shard(id)));
        shard.receive_peer(now, from, queue, frame);
    }
    let_go(held, now);
}

fn let_go(held: Option<(ShardId, impl BorrowedShard)>, now: Now) {
    if let Some((_, shard)) = held {
        shard.let_go(now);
    }
}

/// Another node is connected, in both directions, from now on. Nothing may be borrowed.
pub fn peer_up<E: Env>(now: Now, peer: NodeId, env: &E) {
    env.peers().set_up(peer, true);
    // Before anything that it could vote on.
    outdated::greet(now, peer, env);
    if let Some(cluster) = env.cluster() {
        cluster.tell(Event::PeerUp(peer));
        cluster.tell_elections(elections::Event::Peer(peer, true));
        lock(&cluster.transfers).returned(now, peer);
    }
    env.peer_of_streams(peer, true);
    env.for_each_shard(now, |shard| shard.peer_up(now, peer));
}

/// Another node is down, or the way to it is: what was sent and not answered may be lost. Nothing
/// may be borrowed.
pub fn peer_down<E: Env>(now: Now, peer: NodeId, env: &E) {
    env.peers().set_up(peer, false);
    if let Some(cluster) = env.cluster() {
        cluster.tell(Event::PeerDown(peer));
        cluster.tell_elections(elections::Event::Peer(peer, false));
        lock(&cluster.transfers).gone(peer);
    }
    env.peer_of_streams(peer, false);
    env.for_each_shard(now, |shard| shard.peer_down(now, peer));
}

/// Gives the shards their queues with `place`, and lets them follow the catalogue from then on.
/// Nothing may be borrowed.
pub fn place<E: Env>(env: &E, place: impl FnOnce(&Catalogue)) {
    let Some(cluster) = env.cluster() else {
        return;
    };
    env.change_catalogue(|catalogue| {
        place(catalogue);
        cluster.placed.store(true, Ordering::Release);
    });
}
