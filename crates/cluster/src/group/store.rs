//! The catalogue's group on disk: how it begins, what lies there, and how it is read again.
//!
//! ```text
//! log CATALOGUE_GROUP_LOG of shard 0
//!   entry   a replication::Entry's record; its data is a metadata::Batch
//!   state   version u8 | length of the mark u32 | mark | metadata::Catalogue::snapshot
//! ```

use bytes::Bytes;
use leveret_metadata::{Catalogue, CatalogueError, Config};
use leveret_queue_host::group_log::GroupLog;
use leveret_queue_host::shard::CATALOGUE_GROUP_LOG;
use leveret_replication::{Entry, HardState, SnapshotMark};
use leveret_storage::{LogKind, ShardLogs};
use leveret_types::{NodeId, ReplicaId};

/// The replica of a node in the catalogue's group: a number is never used twice, so that there is
/// one incarnation.
#[must_use]
pub const fn replica_of(node: NodeId) -> ReplicaId {
    ReplicaId::new(node, 0)
}

/// Version of the state's bytes.
const STATE_VERSION: u8 = 1;

/// The catalogue's group as the disk has it.
pub struct Recovered {
    pub(super) hard: HardState,
    pub(super) mark: SnapshotMark,
    pub(crate) entries: Vec<Entry>,
    /// Bytes of the snapshot that the catalogue was read from.
    pub(super) snapshot_bytes: u64,
}

/// Makes the catalogue of a node without cluster that of a cluster of one, on disk as well. The
/// nodes at the `listed` addresses are to vote as soon as they have come and caught up.
pub fn found(
    catalogue: &mut Catalogue,
    first: leveret_metadata::NodeRecord,
    listed: &[String],
    logs: &mut ShardLogs,
) {
    // The founding state is not the same on all members, as groups elsewhere have it: one entry
    // further, those who join from the first place find that what they lack is in a snapshot.
    let mark = SnapshotMark {
        index: 2,
        ..SnapshotMark::founding([replica_of(first.id())])
    };
    catalogue.found(first, listed);
    begin(logs, &mark, &catalogue.snapshot());
}

/// Prepares the disk of a node that joins the cluster which the first node has founded: what the
/// catalogue has comes from the others.
pub fn join(logs: &mut ShardLogs) {
    let mark = SnapshotMark::founding([replica_of(NodeId(1))]);
    begin(logs, &mark, &[]);
}

fn begin(logs: &mut ShardLogs, mark: &SnapshotMark, catalogue: &[u8]) {
    assert!(!logs.has_log(CATALOGUE_GROUP_LOG), "a group begins once");
    logs.create_log(CATALOGUE_GROUP_LOG, LogKind::Durable);
    logs.set_snapshot(CATALOGUE_GROUP_LOG, mark.index + 1, &state(mark, catalogue));
}

/// Whether the disk has the catalogue of a cluster.
#[must_use]
pub fn is_on_disk(logs: &ShardLogs) -> bool {
    logs.has_log(CATALOGUE_GROUP_LOG)
}

pub(super) fn state(mark: &SnapshotMark, catalogue: &[u8]) -> Vec<u8> {
    let mut bytes = state_head(mark);
    bytes.extend_from_slice(catalogue);
    bytes
}

/// What a state has before the catalogue.
pub(super) fn state_head(mark: &SnapshotMark) -> Vec<u8> {
    let mut encoded = Vec::new();
    mark.encode(&mut encoded);
    let mut bytes = vec![STATE_VERSION];
    bytes.extend_from_slice(&(encoded.len() as u32).to_be_bytes());
    bytes.extend_from_slice(&encoded);
    bytes
}

pub(super) fn read_state(bytes: &[u8]) -> Result<(SnapshotMark, &[u8]), CatalogueError> {
    let damaged = || unreadable("its state is damaged".to_owned());
    let (version, rest) = bytes.split_first().ok_or_else(damaged)?;
    if *version != STATE_VERSION {
        return Err(unreadable(format!(
            "its state is of format version {version}, and this version of Leveret reads version \
             {STATE_VERSION}"
        )));
    }
    let (length, rest) = rest.split_first_chunk::<4>().ok_or_else(damaged)?;
    let length = u32::from_be_bytes(*length) as usize;
    let mark = rest.get(..length).ok_or_else(damaged)?;
    let mark = SnapshotMark::decode(&Bytes::copy_from_slice(mark))
        .map_err(|error| unreadable(error.to_string()))?;
    Ok((mark, &rest[length..]))
}

/// Reads the group from disk: the catalogue as of its last snapshot, and what is to be carried out
/// once it is known to be committed.
///
/// # Errors
/// If it makes no sense: the store is of another version, or damaged.
pub fn recover(
    logs: &mut ShardLogs,
    config: Config,
    load: impl FnMut(&mut ShardLogs),
) -> Result<(Catalogue, Recovered), CatalogueError> {
    let (mark, snapshot) = read_state(logs.state(CATALOGUE_GROUP_LOG))?;
    let catalogue = match snapshot {
        [] => Catalogue::new(config),
        snapshot => Catalogue::restore(config, snapshot)?,
    };
    let log = GroupLog(CATALOGUE_GROUP_LOG);
    let entries = log.entries(mark.index, logs, load);
    let entries = entries.map_err(|error| unreadable(error.to_string()))?;
    // What can be read may not be all that this member has acknowledged, nor its last vote; and the
    // first node, without what was added since, would take itself for all of the cluster.
    if let Some(damage) = logs.damage(CATALOGUE_GROUP_LOG) {
        return Err(unreadable(damage.notes.join("; ")));
    }
    let recovered = Recovered {
        snapshot_bytes: logs.state(CATALOGUE_GROUP_LOG).len() as u64,
        hard: log.hard_state(logs),
        mark,
        entries,
    };
    Ok((catalogue, recovered))
}

pub(super) fn unreadable(reason: String) -> CatalogueError {
    CatalogueError::Unreadable {
        what: "log of the cluster's catalogue",
        reason,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use leveret_replication::Membership;

    /// Version, length of the mark, mark, catalogue.
    #[test]
    fn the_bytes_of_the_state_are_frozen() {
        let mark = SnapshotMark {
            index: 300,
            term: 7,
            membership: Membership {
                learners: vec![replica_of(NodeId(3))],
                ..Membership::of_voters([1, 2].map(|node| replica_of(NodeId(node))))
            },
        };
        let frozen = [
            &[1, 0, 0, 0, 0x21, 0xac, 2, 7, 1, 0][..],
            &[2, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0],
            &[1, 0, 0, 0, 0, 3, 0, 0, 0, 0],
            b"catalogue",
        ]
        .concat();
        assert_eq!(state(&mark, b"catalogue"), frozen);
        let (read, catalogue) = read_state(&frozen).expect("its own version");
        assert_eq!((read, catalogue), (mark, &b"catalogue"[..]));
    }

    #[test]
    fn a_state_of_another_version_is_refused_by_its_number() {
        let mark = SnapshotMark::founding([replica_of(NodeId(1))]);
        let mut bytes = state(&mark, b"catalogue");
        let (read, catalogue) = read_state(&bytes).expect("its own version");
        assert_eq!((read, catalogue), (mark, &b"catalogue"[..]));
        bytes[0] = STATE_VERSION + 1;
        let error = read_state(&bytes).expect_err("of a later version");
        assert!(error.to_string().contains("format version 2"), "{error}");
        for end in 0..bytes.len() - b"catalogue".len() {
            assert!(read_state(&bytes[..end]).is_err(), "{end}");
        }
    }
}
