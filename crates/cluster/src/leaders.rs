//! Where the queues' leaders are: moved to another node when an operator asks for it, away from a
//! node that is being emptied or whose disk is full, and back to a node that has returned.
//!
//! A queue's first member is the one that is to lead it. Only the leader can hand over, and only
//! the members know who leads: the request goes to all of them.
//!
//! ```text
//! frame for queue 0   kind 3 u8 | queue u64 | node u32
//! ```

use super::leader_transfers::LeaderTransfers;
use super::state::CATALOGUE_GROUP;
use crate::env::Env;
use crate::frame_kinds;
use leveret_metadata::Catalogue;
use leveret_queue_host::events::PeerFrame;
use leveret_types::limits::LEADERS_MOVED_AT_ONCE;
use leveret_types::{NodeId, Now, QueueId, ShardId};
use std::collections::BTreeMap;

impl LeaderTransfers {
    /// Empties this node of leaders, as far as other members are up.
    pub(super) fn leave<E: Env>(&mut self, env: &E) {
        let own = env.node_id();
        let catalogue = env.catalogue();
        for record in catalogue.queues(None) {
            let others = record.members().iter().map(|member| member.node());
            let able = others.filter(|node| *node != own && may_lead(*node, &catalogue, env));
            let next = able.min_by_key(|node| env.alarms_of(*node).disk);
            self.queued.extend(next.map(|next| (record.id(), next)));
        }
    }

    /// Asks for the transfers whose time has come, some at a time.
    pub(super) fn run<E: Env>(&mut self, now: Now, env: &E) {
        let due: Vec<NodeId> = self
            .returned
            .iter()
            .filter(|(_, at)| **at <= now.monotonic_ms)
            .map(|(node, _)| *node)
            .collect();
        for node in due {
            if env.alarms_of(node).disk {
                self.returned(now, node);
                continue;
            }
            self.returned.remove(&node);
            let catalogue = env.catalogue();
            let led = catalogue.queues(None).filter(|record| {
                let first = record.members().first();
                record.members().len() > 1 && first.is_some_and(|first| first.node() == node)
            });
            self.queued.extend(led.map(|record| (record.id(), node)));
        }
        for _ in 0..LEADERS_MOVED_AT_ONCE {
            let Some((queue, to)) = self.queued.pop_front() else {
                return;
            };
            hand_over_here(now, queue, to, env);
        }
    }
}

/// Whether another node is up and not being emptied.
pub(super) fn may_lead<E: Env>(node: NodeId, catalogue: &Catalogue, env: &E) -> bool {
    let draining = catalogue.node(node).is_some_and(|node| node.draining);
    env.peers().is_up(node) && !draining
}

/// How many queues each node leads now, of those that have a member here, and of all streams.
/// Nothing may be borrowed.
pub fn leaders_known<E: Env>(env: &E) -> BTreeMap<NodeId, usize> {
    let mut leading = BTreeMap::new();
    for stream in env.catalogue().queues(None) {
        if stream.id().is_stream() && !stream.members().is_empty() {
            *leading.entry(stream.home()).or_default() += 1;
        }
    }
    for shard in 0..env.shard_count() {
        for status in env.shard(ShardId(shard)).replica_statuses() {
            if let Some(leader) = status.group.leader {
                *leading.entry(leader.node()).or_default() += 1;
            }
        }
    }
    leading
}

/// Lets a queue be led by another of its members, if that can. Nothing may be borrowed.
pub fn transfer<E: Env>(now: Now, queue: QueueId, to: NodeId, env: &E) {
    let members: Vec<NodeId> = {
        let catalogue = env.catalogue();
        let record = catalogue.queue(queue);
        let members = record.into_iter().flat_map(|record| record.members());
        members.map(|member| member.node()).collect()
    };
    for member in members {
        if member == env.node_id() {
            hand_over_here(now, queue, to, env);
        } else {
            let mut bytes = vec![frame_kinds::TRANSFER];
            bytes.extend_from_slice(&queue.0.to_be_bytes());
            bytes.extend_from_slice(&to.0.to_be_bytes());
            env.post_peer(member, PeerFrame::new(CATALOGUE_GROUP, bytes));
        }
    }
}

/// Takes another node's request in; what cannot be decoded is dropped.
pub(super) fn receive<E: Env>(now: Now, frame: &[u8], env: &E) {
    let Some((queue, to)) = decode(frame) else {
        tracing::warn!(
            "dropped a leader-transfer request that cannot be decoded; do all nodes run one release?"
        );
        return;
    };
    hand_over_here(now, queue, to, env);
}

fn decode(frame: &[u8]) -> Option<(QueueId, NodeId)> {
    let rest = frame.strip_prefix(&[frame_kinds::TRANSFER])?;
    let (queue, rest) = rest.split_first_chunk()?;
    let to: &[u8; 4] = rest.try_into().ok()?;
    Some((
        QueueId(u64::from_be_bytes(*queue)),
        NodeId(u32::from_be_bytes(*to)),
    ))
}

fn hand_over_here<E: Env>(now: Now, queue: QueueId, to: NodeId, env: &E) {
    if to == env.node_id() {
        return;
    }
    if queue.is_stream() {
        return env.settle_stream(queue, to);
    }
    let result = env.with_shard(now, env.shard_of(queue), |shard| {
        match shard.replica_leader(queue) {
            Some(leader) if leader == env.node_id() => shard.transfer_leader(now, queue, to),
            _ => None,
        }
    });
    if let Some(Err(error)) = result {
        tracing::debug!(%queue, %to, "a queue's leader stays: {error}");
    }
}

/// Asks whoever leads the catalogue's group to let another node lead a stream, if this one does:
/// once the stream has nothing under way. Nothing may be borrowed.
pub fn hand_stream_over<E: Env>(stream: QueueId, to: NodeId, env: &E) {
    let own = env.node_id();
    let leads = {
        let catalogue = env.catalogue();
        let record = catalogue.queue(stream);
        record.is_some_and(|record| record.epoch() > 0 && record.home() == own)
    };
    let Some(cluster) = env.cluster().filter(|_| leads) else {
        return;
    };
    match cluster.leader() {
        Some(leader) if leader == own => {
            cluster.move_stream(own, stream, to);
            env.wake_cluster();
        }
        Some(leader) => env.post_peer(leader, crate::stream_relay::move_frame(stream, to)),
        None => {}
    }
}

/// Lets others lead what this node leads, where they are up, have space and are not being emptied.
/// Nothing may be borrowed.
pub fn hand_over_leaders<E: Env>(now: Now, env: &E) {
    let (able, streams) = {
        let catalogue = env.catalogue();
        let mut able = env.peers().up();
        able.retain(|node| !env.alarms_of(*node).disk && may_lead(*node, &catalogue, env));
        let led = catalogue
            .queues(None)
            .filter(|record| record.epoch() > 0 && record.home() == env.node_id());
        let streams = led.filter_map(|record| {
            let mut members = record.members().iter().map(|member| member.node());
            Some((record.id(), members.find(|node| able.contains(node))?))
        });
        let streams: Vec<(QueueId, NodeId)> = streams.collect();
        (able, streams)
    };
    if able.is_empty() {
        return;
    }
    let mut queues = 0;
    env.for_each_shard(now, |shard| queues += shard.hand_over_leaders(now, &able));
    if queues + streams.len() > 0 {
        tracing::warn!(
            queues,
            streams = streams.len(),
            "this node is low on disk; others are to lead what it leads"
        );
    }
    for (stream, to) in streams {
        env.settle_stream(stream, to);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_read_as_it_was_written_and_nothing_else_is() {
        let mut frame = vec![frame_kinds::TRANSFER];
        frame.extend(7u64.to_be_bytes());
        frame.extend(3u32.to_be_bytes());
        assert_eq!(decode(&frame), Some((QueueId(7), NodeId(3))));
        for end in 0..frame.len() {
            assert_eq!(decode(&frame[..end]), None);
        }
        frame.push(0);
        assert_eq!(decode(&frame), None);
    }
}
