//! The catalogue as the machine of its group.

use super::CatalogueGroup;
use super::store::state_head;
use crate::catalogue::{SHARD, SNAPSHOT_SHARE};
use crate::env::{BorrowedShard as _, Env};
use crate::frame_kinds;
use crate::state::{CATALOGUE_GROUP, Cluster};
use leveret_metadata::Batch;
use leveret_queue_host::events::PeerFrame;
use leveret_queue_host::group_log::GroupLog;
use leveret_replication::{
    Body, Entry, EntryKind, Host, LogStore, LogWrite, Machine, Message, RoleChange, SnapshotMark,
};
use leveret_types::Now;

/// Entries before which no snapshot is worth its bytes.
const SNAPSHOT_ENTRIES_MIN: u64 = 1_024;
/// Entries after which one is, however small they are beside the last one: a restart applies them
/// all.
const SNAPSHOT_ENTRIES_MAX: u64 = 65_536;

/// What the catalogue's group reaches while it runs.
pub(crate) struct CatalogueContext<'a, E> {
    pub(crate) now: Now,
    pub(crate) cluster: &'a Cluster,
    pub(crate) env: &'a E,
}

impl<E: Env> LogStore<CatalogueContext<'_, E>> for GroupLog {
    fn write(&mut self, context: &mut CatalogueContext<'_, E>, write: &LogWrite<'_>) -> u64 {
        let position = context.env.with_shard(context.now, SHARD, |shard| {
            (*self).write(&mut shard.logs, write);
            shard.urgent_log_position()
        });
        position.chunk
    }

    fn set_snapshot(
        &mut self,
        context: &mut CatalogueContext<'_, E>,
        mark: &SnapshotMark,
        state: &[u8],
    ) {
        let mut shard = context.env.shard(SHARD);
        (*self).set_snapshot(&mut shard.logs, mark, state);
        shard.release();
    }

    fn durable_through(&self, context: &CatalogueContext<'_, E>) -> u64 {
        context.env.durable(SHARD)
    }
}

impl<E: Env> Machine<CatalogueContext<'_, E>> for CatalogueGroup {
    type Log = GroupLog;

    fn is_snapshot_due(&self, entries: u64) -> bool {
        // Whoever is being sent the catalogue goes on with the entries behind it.
        let least = match self.departing.is_empty() {
            true => SNAPSHOT_ENTRIES_MIN,
            false => SNAPSHOT_ENTRIES_MIN * 8,
        };
        let has_grown = self.applied_bytes >= self.snapshot_bytes / SNAPSHOT_SHARE;
        entries >= least && (has_grown || entries >= SNAPSHOT_ENTRIES_MAX)
    }

    fn host(&mut self) -> &mut Host<GroupLog> {
        &mut self.group
    }

    fn takes_part(&self, _context: &CatalogueContext<'_, E>, _body: &Body) -> bool {
        !self.is_unfit
    }

    fn propose(&mut self, context: &mut CatalogueContext<'_, E>) {
        self.hand_over(context.env);
        self.propose_gathered(context.env);
        self.propose_members(context.env);
    }

    fn role_changed(&mut self, _context: &mut CatalogueContext<'_, E>, change: RoleChange) {
        tracing::info!(
            term = change.term,
            leader = change.leader.map(|leader| leader.node().0),
            role = ?change.role,
            "this node has another role in the catalogue's group",
        );
    }

    fn install(&mut self, context: &mut CatalogueContext<'_, E>, mark: &SnapshotMark) -> Vec<u8> {
        self.take_in(context, mark)
    }

    fn send(&mut self, context: &mut CatalogueContext<'_, E>, message: Message) {
        let mut bytes = vec![frame_kinds::RAFT];
        message.encode(&mut bytes);
        let frame = PeerFrame::new(CATALOGUE_GROUP, bytes);
        context.env.post_peer(message.to.node(), frame);
    }

    fn send_snapshot(&mut self, context: &mut CatalogueContext<'_, E>, message: Message) {
        self.begin_to_send(message, context.now, context.env);
    }

    fn apply(&mut self, context: &mut CatalogueContext<'_, E>, entry: &Entry) {
        self.applied_bytes += entry.data.len() as u64;
        if entry.kind != EntryKind::Normal {
            return;
        }
        match Batch::decode(&entry.data) {
            Ok(batch) => self.apply_batch(context.now, &batch, context.cluster, context.env),
            // It cannot be left out: this catalogue would differ from the others for ever.
            Err(error) => panic!("entry {} of the catalogue: {error}", entry.index),
        }
    }

    fn snapshot(&mut self, context: &mut CatalogueContext<'_, E>, mark: &SnapshotMark) -> Vec<u8> {
        // The catalogue is what these entries made, and nobody else changes it.
        let declared = crate::catalogue::declared(context.env);
        let state = declared.encode_behind(state_head(mark));
        self.snapshot_bytes = state.len() as u64;
        self.applied_bytes = 0;
        state
    }
}
