//! A data folder that is an older copy of itself, put back from a backup or a snapshot.
//!
//! A member that comes back with less than it acknowledged must not vote: it would help to elect a
//! leader that lacks what is committed. Its own disk cannot tell; the others can. Each run of a
//! node's process has a number, the catalogue has the last one of each node that it heard of, and
//! whoever connects says which that is. A node whose folder does not know of that run is outdated:
//! its replicas follow and acknowledge what they write, and take no part in elections until the
//! node is replaced.
//!
//! ```text
//! frame for queue 0   kind 6 u8 | the receiver's last start u64 | sender is outdated u8
//! ```
//! Integers are little endian. The frame is the first on a connection, so that it comes before
//! anything that could be voted on. A copy of the folder that was made in the present run's
//! predecessor itself, while that went on, has the same number: such a one is recognised by the
//! leaders that know how far it was, as `leveret_replication::StepError::LostEntries` says.

use super::state::{CATALOGUE_GROUP, Cluster, Event};
use crate::env::Env;
use crate::frame_kinds;
use leveret_queue_host::events::PeerFrame;
use leveret_types::{NodeId, Now};

/// Tells a node that is connected now which start of it is known here.
pub(super) fn greet<E: Env>(now: Now, peer: NodeId, env: &E) {
    let Some(cluster) = env.cluster() else {
        return;
    };
    if cluster.missing_start().is_some() {
        env.for_each_shard(now, |shard| shard.set_outdated(now));
        cluster.tell(Event::Outdated);
    }
    say(peer, cluster, env);
}

fn say<E: Env>(peer: NodeId, cluster: &Cluster, env: &E) {
    let applied = env.catalogue().node(peer).map_or(0, |record| record.start);
    // A node that has just started has not applied all that is in its log.
    let found = cluster.starts_found.get(&peer).copied().unwrap_or(0);
    let start = applied.max(found);
    let mut bytes = vec![frame_kinds::STARTS];
    bytes.extend_from_slice(&start.to_le_bytes());
    bytes.push(u8::from(cluster.missing_start().is_some()));
    env.post_peer(peer, PeerFrame::new(CATALOGUE_GROUP, bytes));
}

/// Takes in what another node says; what makes no sense is passed over.
pub(super) fn receive<E: Env>(now: Now, from: NodeId, frame: &[u8], env: &E) {
    let (Some(cluster), Some((start, outdated))) = (env.cluster(), decode(frame)) else {
        return;
    };
    if outdated && !env.peers().is_outdated(from) {
        tracing::error!(
            node = %from,
            "another node's data folder is an older copy of itself; it takes no part in elections: \
             have the cluster forget it, and let it join anew with an empty data folder"
        );
    }
    env.peers().set_outdated(from, outdated);
    if !cluster.starts.hear(start) {
        return;
    }
    tracing::error!(
        known_to = %from,
        "this node's data folder is an older copy of itself: it knows nothing of the run {start}, \
         and may lack what this node acknowledged in it. The node takes no part in elections any \
         more; stop it, have the cluster forget it, and let it join anew with an empty data folder"
    );
    env.for_each_shard(now, |shard| shard.set_outdated(now));
    cluster.tell(Event::Outdated);
    for peer in env.peers().up() {
        say(peer, cluster, env);
    }
}

fn decode(frame: &[u8]) -> Option<(u64, bool)> {
    let rest = frame.strip_prefix(&[frame_kinds::STARTS])?;
    let (start, rest) = rest.split_first_chunk()?;
    match rest {
        [outdated @ 0..=1] => Some((u64::from_le_bytes(*start), *outdated == 1)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_of_starts_is_read_as_it_was_written_and_nothing_else_is() {
        let mut frame = vec![frame_kinds::STARTS];
        frame.extend(7_u64.to_le_bytes());
        frame.push(1);
        assert_eq!(decode(&frame), Some((7, true)));
        for end in 0..frame.len() {
            assert_eq!(decode(&frame[..end]), None);
        }
        frame[9] = 2;
        assert_eq!(decode(&frame), None);
        frame[9] = 0;
        frame.push(0);
        assert_eq!(decode(&frame), None);
    }
}
