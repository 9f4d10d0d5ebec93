//! The starts of nodes' processes: which ones a node's data folder knows of, and which ones the
//! catalogue's log tells of.

use leveret_metadata::Batch;
use leveret_replication::{Entry, EntryKind};
use leveret_types::NodeId;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

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
    pub(super) fn hear(&self, start: u64) -> bool {
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
}
