//! Snapshots of the catalogue: sent to a member that is too far behind, put in place there, and
//! written where they make entries superfluous.

use super::store::state;
use super::{CatalogueGroup, KIND_SNAPSHOT};
use crate::catalogue::SHARD;
use crate::cluster::{CATALOGUE_GROUP, Cluster};
use crate::env::{Env, PeerFrame, ProposalId};
use crate::shard::CATALOGUE_GROUP_LOG;
use bytes::Bytes;
use leveret_metadata::{Catalogue, Outcome};
use leveret_replication::{Body, Message, SnapshotMark};
use leveret_types::Now;

/// Entries after which a snapshot is worth its bytes.
const SNAPSHOT_ENTRIES: u64 = 1_024;

impl CatalogueGroup {
    pub(super) fn send_snapshot<E: Env>(&mut self, message: Message, env: &E) {
        let to = message.to;
        let Some(mark) = self.group.mark(self.applied) else {
            self.group.report_snapshot(to, false);
            return;
        };
        let snapshot = Bytes::from(env.catalogue().snapshot());
        let message = Message {
            body: Body::Snapshot(mark),
            ..message
        };
        let mut head = vec![KIND_SNAPSHOT];
        head.extend_from_slice(&(snapshot.len() as u32).to_be_bytes());
        let mut tail = Vec::new();
        message.encode(&mut tail);
        let frame = PeerFrame {
            queue: CATALOGUE_GROUP,
            pieces: smallvec::smallvec![head.into(), snapshot, tail.into()],
        };
        env.post_peer(to.node(), frame);
        // The link either brings it there or breaks, which the group is told.
        self.group.report_snapshot(to, true);
    }

    pub(super) fn install<E: Env>(
        &mut self,
        now: Now,
        mark: &SnapshotMark,
        cluster: &Cluster,
        env: &E,
    ) {
        let bytes = self
            .incoming
            .take()
            .expect("a mark is stepped in together with its snapshot");
        env.change_catalogue(|catalogue| {
            let config = catalogue.config().clone();
            let restored = match Catalogue::restore(config, &bytes) {
                Ok(restored) => restored,
                // The leader has sent it over a link that checks what it carries.
                Err(error) => panic!("the leader's catalogue cannot be read: {error}"),
            };
            crate::cluster::replace(catalogue, restored, now, cluster.is_placed(), env);
        });
        env.with_shard(now, SHARD, |shard| {
            shard.logs.truncate(CATALOGUE_GROUP_LOG, mark.index + 1);
            let state = state(mark, &bytes);
            shard
                .logs
                .set_snapshot(CATALOGUE_GROUP_LOG, mark.index + 1, &state);
        });
        self.applied = mark.index;
        self.compacted = mark.index;
        // Whatever this node has asked for may be in the snapshot: asking again does no harm.
        self.handed_over = 0;
        self.answer_carried_out(cluster, env);
    }

    /// Commands that a snapshot has brought are done; what they answered is not known any more.
    fn answer_carried_out<E: Env>(&mut self, cluster: &Cluster, env: &E) {
        let through = {
            let catalogue = env.catalogue();
            let own = catalogue.node(self.own);
            own.filter(|own| own.start == self.start)
                .map_or(0, |own| own.applied)
        };
        let left = self.waiting.split_off(&(through + 1));
        for (id, waiting) in std::mem::replace(&mut self.waiting, left) {
            let result = Ok(Outcome::default());
            self.answer(waiting.waiter, ProposalId(id), result, cluster, env);
        }
    }

    pub(super) fn snapshot_if_worth_it<E: Env>(&mut self, env: &E) {
        // How far the log is committed is not on disk: who the members are must be there without
        // their changes being committed anew, by a majority that only they could tell.
        let worth_it = self.applied >= self.compacted + SNAPSHOT_ENTRIES;
        if !worth_it && !self.members_changed {
            return;
        }
        let Some(mark) = self.group.mark(self.applied) else {
            return;
        };
        // The catalogue is what these entries made, and nobody else changes it.
        let state = state(&mark, &env.catalogue().snapshot());
        env.shard(SHARD)
            .logs
            .set_snapshot(CATALOGUE_GROUP_LOG, mark.index + 1, &state);
        self.members_changed = false;
        // Members that are a little behind still get the entries from memory.
        if worth_it {
            self.group.compacted(mark.index);
            self.compacted = mark.index;
        }
    }
}
