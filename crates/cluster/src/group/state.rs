//! The state of this node's member of the catalogue's group.

use super::store::{self, Recovered, replica_of};
use super::transfer::{Arriving, Departing};
use crate::reconcile::Reconciler;
use crate::state::Waiter;
use crate::uptime_rules::UptimeRules;
use bytes::Bytes;
use leveret_metadata::{CatalogueError, Command, Proposed};
use leveret_queue_host::group_log::GroupLog;
use leveret_queue_host::shard::CATALOGUE_GROUP_LOG;
use leveret_queue_host::stalled_log::StalledLog;
use leveret_replication::{Group, GroupConfig, Host, Status};
use leveret_types::limits::{NODE_LOST_MS, NODE_STAY_MS};
use leveret_types::{ConnectionId, NodeId, ReplicaId};
use std::collections::{BTreeMap, VecDeque};

/// A command of this node's that the cluster has not carried out yet.
pub(super) struct Waiting {
    pub(super) command: Command,
    pub(super) waiter: Waiter,
    pub(super) deadline_ms: u64,
}

/// This node's member of the catalogue's group.
pub(crate) struct CatalogueGroup {
    pub(super) group: Host<GroupLog>,
    pub(super) own: NodeId,
    pub(super) start: u64,
    /// This node's commands, by number.
    pub(super) waiting: BTreeMap<u64, Waiting>,
    /// Of these, the ones up to here have been handed to the leader.
    pub(super) handed_over: u64,
    /// The leader that they were handed to.
    pub(super) handed_to: Option<ReplicaId>,
    /// At the leader: commands that wait for their entry.
    pub(super) gathered: VecDeque<Proposed>,
    /// How long what was written has waited for the disk, and what it was last known to have.
    pub(super) stalled_log: StalledLog,
    pub(super) settled: u64,
    /// What a snapshot that is being installed holds.
    pub(super) incoming: Option<Bytes>,
    /// Bytes of the last snapshot that was written, and of the entries that were applied since.
    pub(super) snapshot_bytes: u64,
    pub(super) applied_bytes: u64,
    /// The snapshot that another member is sending.
    pub(super) arriving: Option<Arriving>,
    /// Those that this one sends, and the number of the last that began.
    pub(super) departing: Vec<Departing>,
    pub(super) last_transfer: u64,
    pub(super) ticked_ms: u64,
    /// Whether another member has said something.
    pub(super) had_message: bool,
    /// Whether this member may have promised more than it knows of: it takes no part in elections.
    pub(super) is_unfit: bool,
    /// Connections that want to know what the cluster has agreed on, and the command of those whose
    /// answer is under way.
    pub(super) at_read_barrier: Vec<ConnectionId>,
    pub(super) read_barrier: Option<u64>,
    pub(super) reconciler: Reconciler,
    /// Nodes without a vote, while this one leads.
    pub(super) uptimes: UptimeRules,
    /// Nodes that are down, while this one leads.
    pub(super) absences: UptimeRules,
}

impl CatalogueGroup {
    pub(crate) fn new(own: NodeId, start: u64, found: Recovered) -> Result<Self, CatalogueError> {
        let config = GroupConfig {
            replica: replica_of(own),
            seed: 0,
            weigh: |data| data.len() as u64,
        };
        let first = found.mark.index;
        let alone = found.mark.membership.voters == [replica_of(own)];
        let group = Group::new(config, found.hard, found.mark, found.entries, 0)
            .map_err(|error| store::unreadable(error.to_string()))?;
        let mut catalogue_group = Self {
            group: Host::new(group, GroupLog(CATALOGUE_GROUP_LOG), first),
            own,
            start,
            waiting: BTreeMap::new(),
            handed_over: 0,
            handed_to: None,
            gathered: VecDeque::new(),
            stalled_log: StalledLog::default(),
            settled: 0,
            incoming: None,
            snapshot_bytes: found.snapshot_bytes,
            applied_bytes: 0,
            arriving: None,
            departing: Vec::new(),
            last_transfer: 0,
            ticked_ms: 0,
            had_message: false,
            is_unfit: false,
            at_read_barrier: Vec::new(),
            read_barrier: None,
            reconciler: Reconciler::default(),
            uptimes: UptimeRules::of(NODE_STAY_MS),
            absences: UptimeRules::of(NODE_LOST_MS),
        };
        if alone {
            catalogue_group.group.campaign();
        }
        Ok(catalogue_group)
    }

    pub(crate) fn status(&self) -> Status {
        self.group.status()
    }
}
