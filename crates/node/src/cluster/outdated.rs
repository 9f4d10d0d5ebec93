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

use super::{CATALOGUE_GROUP, Cluster, Event, for_each_shard};
use crate::env::{Env, PeerFrame};
use leveret_metadata::Batch;
use leveret_replication::{Entry, EntryKind};
use leveret_types::{NodeId, Now};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

/// The first byte of a frame that says which start of the receiver is known.
pub(super) const KIND_STARTS: u8 = 6;

/// The starts of its process that a node's data folder knows of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KnownStarts {
    /// The last one of which it knows that the cluster has heard; all up to it count as known.
    pub settled: u64,
    /// Those after it.
    pub since: Vec<u64>,
    /// The one that it lacks, if it was found to be an older copy of itself; 0 if not.
    pub missing: u64,
}

/// What a node knows of its own starts.
#[derive(Debug)]
pub(super) struct Starts {
    own: u64,
    known: KnownStarts,
    missing: AtomicU64,
}

impl Default for Starts {
    /// Those of a node that does not know, and takes all for known.
    fn default() -> Self {
        let known = KnownStarts {
            settled: u64::MAX,
            ..KnownStarts::default()
        };
        Self::new(0, known)
    }
}

impl Starts {
    pub(super) fn new(own: u64, known: KnownStarts) -> Self {
        let missing = AtomicU64::new(known.missing);
        Self {
            own,
            known,
            missing,
        }
    }

    pub(super) fn missing(&self) -> Option<u64> {
        Some(self.missing.load(Ordering::Acquire)).filter(|start| *start != 0)
    }

    /// Hears that the cluster knows a start of this node; whether that shows that its folder is an
    /// older copy, which was not known before.
    fn hear(&self, start: u64) -> bool {
        let known = &self.known;
        let is_known = start <= known.settled || start == self.own || known.since.contains(&start);
        let order = (Ordering::AcqRel, Ordering::Relaxed);
        !is_known && {
            let first = self.missing.compare_exchange(0, start, order.0, order.1);
            first.is_ok()
        }
    }
}

/// The last start of each node that has proposed something in these entries. They need not be
/// committed: whoever has proposed has run.
pub(super) fn starts_in(entries: &[Entry]) -> BTreeMap<NodeId, u64> {
    let mut starts = BTreeMap::new();
    let batches = entries
        .iter()
        .filter(|entry| entry.kind == EntryKind::Normal);
    // One that cannot be read ends the node where it is applied.
    let batches = batches.filter_map(|entry| Batch::decode(&entry.data).ok());
    for proposed in batches.flat_map(|batch| batch.commands) {
        let last = starts.entry(NodeId(proposed.origin)).or_insert(0);
        *last = proposed.start.max(*last);
    }
    starts
}

/// Tells a node that is connected now which start of it is known here.
pub(super) fn greet<E: Env>(now: Now, peer: NodeId, env: &E) {
    let Some(cluster) = env.cluster() else {
        return;
    };
    if cluster.missing_start().is_some() {
        for_each_shard(env, now, |shard| shard.set_outdated(now));
        cluster.tell(Event::Outdated);
    }
    say(peer, cluster, env);
}

fn say<E: Env>(peer: NodeId, cluster: &Cluster, env: &E) {
    let applied = env.catalogue().node(peer).map_or(0, |record| record.start);
    // A node that has just started has not applied all that is in its log.
    let found = cluster.starts_found.get(&peer).copied().unwrap_or(0);
    let start = applied.max(found);
    let mut bytes = vec![KIND_STARTS];
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
    for_each_shard(env, now, |shard| shard.set_outdated(now));
    cluster.tell(Event::Outdated);
    for peer in env.peers().up() {
        say(peer, cluster, env);
    }
}

fn decode(frame: &[u8]) -> Option<(u64, bool)> {
    let rest = frame.strip_prefix(&[KIND_STARTS])?;
    let (start, rest) = rest.split_first_chunk()?;
    match rest {
        [outdated @ 0..=1] => Some((u64::from_le_bytes(*start), *outdated == 1)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use leveret_metadata::{Catalogue, Command, Config, Proposed};

    /// Whether a folder that knows these starts, in its run 9, is found to be an older copy.
    fn is_outdated(settled: u64, since: &[u64], told: u64) -> bool {
        let known = KnownStarts {
            settled,
            since: since.to_vec(),
            missing: 0,
        };
        let starts = Starts::new(9, known);
        let is_new = starts.hear(told);
        assert_eq!(starts.missing(), is_new.then_some(told));
        assert!(!starts.hear(told), "it is said once");
        is_new
    }

    #[test]
    fn a_folder_that_lacks_a_run_that_the_cluster_knows_is_an_older_copy() {
        assert!(is_outdated(5, &[], 6));
        assert!(is_outdated(5, &[7, 8], 6), "it was started twice since");
        for (settled, since, told) in [
            (5, &[][..], 5),
            (5, &[], 3),
            (5, &[], 0),
            (5, &[], 9),
            (5, &[6, 8], 6),
        ] {
            assert!(!is_outdated(settled, since, told), "{told} of {settled}");
        }
        assert!(
            !Starts::default().hear(77),
            "who does not know takes all for known"
        );
    }

    #[test]
    fn who_has_proposed_has_run() {
        let proposed = |origin, start| Proposed {
            origin,
            start,
            id: 1,
            command: Command::Look,
        };
        let entry = |index, kind, commands: Vec<Proposed>| {
            let batch = Batch {
                rules: Catalogue::new(Config::default()).rules(),
                up: Vec::new(),
                commands,
            };
            let data = match kind {
                EntryKind::Normal => batch.encode().into(),
                _ => Bytes::new(),
            };
            Entry {
                index,
                term: 2,
                kind,
                data,
            }
        };
        let entries = [
            entry(2, EntryKind::Empty, Vec::new()),
            entry(3, EntryKind::Normal, vec![proposed(1, 8), proposed(2, 5)]),
            entry(4, EntryKind::Normal, vec![proposed(1, 7)]),
        ];
        let starts = starts_in(&entries);
        assert_eq!(starts, [(NodeId(1), 8), (NodeId(2), 5)].into());
    }

    #[test]
    fn what_is_said_of_starts_is_read_as_it_was_written_and_nothing_else_is() {
        let mut frame = vec![KIND_STARTS];
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
