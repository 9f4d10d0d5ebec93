//! Who has a replica of a stream, and who leads them: an entry of the catalogue for each epoch.
//!
//! Invariant: the epochs of a stream only grow, and each has one leader, which is a member then.
//! Invariant: of two sets of members that follow each other one has one node more than the other.

use crate::catalogue::{Catalogue, Change, Outcome};
use crate::error::CatalogueError;
use crate::record::QueueRecord;
use leveret_types::QueueKind;
use leveret_types::limits::STREAM_FOLLOWERS_MAX;
use leveret_types::{NodeId, QueueId, ReplicaId};

impl Catalogue {
    pub(crate) fn set_stream_leader(
        &mut self,
        id: QueueId,
        after: u64,
        epoch: u64,
        leader: NodeId,
    ) -> Outcome {
        let Some(record) = self.queues.get_mut(&id) else {
            return Outcome::default();
        };
        let is_member = record.members.iter().any(|member| member.node() == leader);
        let is_replicated = record.kind == QueueKind::Stream && record.epoch > 0;
        if !is_replicated || !is_member || record.epoch != after || epoch <= after {
            return Outcome::default();
        }
        record.epoch = epoch;
        record.home = leader;
        Outcome {
            queue: Some(id),
            changes: vec![Change::QueueChanged(id)],
            ..Outcome::default()
        }
    }

    pub(crate) fn set_stream_members(
        &mut self,
        id: QueueId,
        before: &[u32],
        members: &[u32],
    ) -> Result<Outcome, CatalogueError> {
        let nodes = &self.cluster.nodes;
        if let Some(stranger) = members.iter().find(|node| !nodes.contains_key(node)) {
            return Err(CatalogueError::NoNode(NodeId(*stranger)));
        }
        let Some(record) = self.queues.get(&id) else {
            return Ok(Outcome::default());
        };
        let has: Vec<u32> = record.members.iter().map(|m| m.node().0).collect();
        if has != before {
            return Ok(Outcome::default());
        }
        let resource = record.resource();
        if record.kind != QueueKind::Stream || record.epoch == 0 {
            return Err(CatalogueError::NotReplicated { resource });
        }
        if !is_one_step(&has, members) || !members.contains(&record.home.0) {
            return Err(CatalogueError::StreamMembers { resource });
        }
        let Some(mut record) = self.queues.remove(&id) else {
            return Ok(Outcome::default());
        };
        self.note_gone(&record);
        // What an operator takes away does not come back by itself.
        record.group_size = match members.len() < has.len() {
            true => members.len(),
            false => record.group_size.max(members.len()),
        };
        let members = members.iter().map(|node| ReplicaId::new(NodeId(*node), 0));
        record.members = members.collect();
        self.note_placed(&record);
        self.queues.insert(id, record);
        Ok(Outcome {
            queue: Some(id),
            changes: vec![Change::QueueChanged(id)],
            ..Outcome::default()
        })
    }
}

impl Catalogue {
    /// The node that a replicated stream should get its next replica on, as it has fewer than it
    /// was declared with: one that is up and has least. `is_up` says so of every node.
    #[must_use]
    pub fn stream_member_due(
        &self,
        record: &QueueRecord,
        is_up: impl Fn(NodeId) -> bool,
    ) -> Option<NodeId> {
        let lacks = record.members.len() < record.group_size.min(STREAM_FOLLOWERS_MAX + 1);
        if record.kind != QueueKind::Stream || record.epoch == 0 || !lacks {
            return None;
        }
        let more = self.with_more(record.id, record.members.clone(), 1, None, &is_up);
        more.get(record.members.len()).map(|member| member.node())
    }
}

/// Whether exactly one node comes, or goes, and no more than may be are there then.
fn is_one_step(has: &[u32], wanted: &[u32]) -> bool {
    let (small, large) = match has.len() < wanted.len() {
        true => (has, wanted),
        false => (wanted, has),
    };
    let is_set = (1..wanted.len()).all(|at| !wanted[..at].contains(&wanted[at]));
    is_set
        && small.len() + 1 == large.len()
        && small.iter().all(|node| large.contains(node))
        && wanted.len() <= STREAM_FOLLOWERS_MAX + 1
}
