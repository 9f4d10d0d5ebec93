//! The catalogue as the machine of its group.

use super::store::state;
use super::{CatalogueGroup, KIND_RAFT};
use crate::catalogue::SHARD;
use crate::env::{BorrowedShard as _, Env};
use crate::state::{CATALOGUE_GROUP, Cluster};
use leveret_metadata::Batch;
use leveret_queue_host::events::PeerFrame;
use leveret_queue_host::group_log::GroupLog;
use leveret_replication::{
    Body, Entry, EntryKind, Host, LogStore, LogWrite, Machine, Message, RoleChange, SnapshotMark,
};
use leveret_types::Now;

/// Entries after which a snapshot is worth its bytes.
const SNAPSHOT_ENTRIES: u64 = 1_024;

/// What the catalogue's group reaches while it runs.
pub(crate) struct CatalogueAround<'a, E> {
    pub(crate) now: Now,
    pub(crate) cluster: &'a Cluster,
    pub(crate) env: &'a E,
}

impl<E: Env> LogStore<CatalogueAround<'_, E>> for GroupLog {
    fn write(&mut self, around: &mut CatalogueAround<'_, E>, write: &LogWrite<'_>) -> u64 {
        let position = around.env.with_shard(around.now, SHARD, |shard| {
            (*self).write(&mut shard.logs, write);
            shard.urgent_log_position()
        });
        position.chunk
    }

    fn set_snapshot(
        &mut self,
        around: &mut CatalogueAround<'_, E>,
        mark: &SnapshotMark,
        state: &[u8],
    ) {
        let mut shard = around.env.shard(SHARD);
        (*self).set_snapshot(&mut shard.logs, mark, state);
        shard.release();
    }

    fn durable_through(&self, around: &CatalogueAround<'_, E>) -> u64 {
        around.env.durable(SHARD)
    }
}

impl<E: Env> Machine<CatalogueAround<'_, E>> for CatalogueGroup {
    type Log = GroupLog;
    const SNAPSHOT_ENTRIES: u64 = SNAPSHOT_ENTRIES;

    fn host(&mut self) -> &mut Host<GroupLog> {
        &mut self.group
    }

    fn takes_part(&self, _around: &CatalogueAround<'_, E>, _body: &Body) -> bool {
        !self.is_unfit
    }

    fn propose(&mut self, around: &mut CatalogueAround<'_, E>) {
        self.hand_over(around.env);
        self.propose_gathered(around.env);
        self.propose_members(around.env);
    }

    fn role_changed(&mut self, _around: &mut CatalogueAround<'_, E>, change: RoleChange) {
        tracing::info!(
            term = change.term,
            leader = change.leader.map(|leader| leader.node().0),
            "the catalogue's group: {:?}",
            change.role,
        );
    }

    fn install(&mut self, around: &mut CatalogueAround<'_, E>, mark: &SnapshotMark) -> Vec<u8> {
        self.take_in(around, mark)
    }

    fn send(&mut self, around: &mut CatalogueAround<'_, E>, message: Message) {
        let mut bytes = vec![KIND_RAFT];
        message.encode(&mut bytes);
        let frame = PeerFrame::new(CATALOGUE_GROUP, bytes);
        around.env.post_peer(message.to.node(), frame);
    }

    fn send_snapshot(&mut self, around: &mut CatalogueAround<'_, E>, message: Message) {
        self.send_catalogue(message, around.env);
    }

    fn apply(&mut self, around: &mut CatalogueAround<'_, E>, entry: &Entry) {
        if entry.kind != EntryKind::Normal {
            return;
        }
        match Batch::decode(&entry.data) {
            Ok(batch) => self.apply_batch(around.now, &batch, around.cluster, around.env),
            // It cannot be left out: this catalogue would differ from the others for ever.
            Err(error) => panic!("entry {} of the catalogue: {error}", entry.index),
        }
    }

    fn snapshot(&mut self, around: &mut CatalogueAround<'_, E>, mark: &SnapshotMark) -> Vec<u8> {
        // The catalogue is what these entries made, and nobody else changes it.
        state(mark, &around.env.catalogue().snapshot())
    }
}
