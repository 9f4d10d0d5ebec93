//! What is checked at every step of every node.

use super::node::{Node, SHARDS};
use super::world::World;
use crate::disk::SimDisk;
use foldhash::fast::FixedState;
use leveret_cluster::CATALOGUE_GROUP;
use leveret_cluster::Env;
use leveret_replication::{Role, Status};
use leveret_types::{NodeId, QueueId, ShardId};
use std::collections::BTreeMap;
use std::hash::BuildHasher as _;

/// What has been seen of the groups.
#[derive(Debug, Default)]
pub(super) struct Watch {
    /// Who led which group in which term.
    leaders: BTreeMap<(QueueId, u64), NodeId>,
    /// Terms of the groups' members, in the lives of their processes.
    terms: BTreeMap<(NodeId, QueueId), u64>,
    /// What the catalogue was after each entry.
    catalogues: BTreeMap<u64, u64>,
    /// Through which entry each node's catalogue has been compared.
    compared: BTreeMap<NodeId, u64>,
}

impl Watch {
    /// A process begins: what it had not written down is forgotten.
    pub(super) fn started(&mut self, node: NodeId) {
        self.terms.retain(|(of, _), _| *of != node);
        self.compared.remove(&node);
    }

    fn group(&mut self, node: NodeId, queue: QueueId, status: &Status) -> Result<(), String> {
        let term = self.terms.entry((node, queue)).or_default();
        if *term > status.term {
            let now = status.term;
            return Err(format!(
                "node {node} goes back from term {term} to {now} of {queue}"
            ));
        }
        *term = status.term;
        if status.applied > status.commit || status.commit > status.last_index {
            return Err(format!(
                "node {node} has applied {} of {queue}, committed {}, and its log ends at {}",
                status.applied, status.commit, status.last_index
            ));
        }
        if status.role == Role::Leader {
            let first = *self.leaders.entry((queue, status.term)).or_insert(node);
            if first != node {
                let term = status.term;
                return Err(format!(
                    "nodes {first} and {node} lead {queue} in term {term}"
                ));
            }
        }
        Ok(())
    }

    /// Catalogues that have applied the same entries are the same.
    fn catalogue(&mut self, node: &Node<SimDisk>, applied: u64) -> Result<(), String> {
        let id = node.env.node;
        if self.compared.insert(id, applied) == Some(applied) {
            return Ok(());
        }
        let bytes = node.env.catalogue.borrow().snapshot();
        let sum = FixedState::default().hash_one(&bytes);
        let first = *self.catalogues.entry(applied).or_insert(sum);
        match first == sum {
            true => Ok(()),
            false => Err(format!(
                "the catalogue of node {id} is another one after entry {applied}"
            )),
        }
    }
}

impl World {
    /// What must hold at every step: one leader a term, terms that do not go back, nothing applied
    /// that is not committed, catalogues that agree.
    pub(super) fn check(&mut self, id: NodeId) -> Result<(), String> {
        let Some(node) = self.hosts.get(&id).and_then(|host| host.node.as_ref()) else {
            return Ok(());
        };
        for number in 0..SHARDS {
            let statuses = node.env.shard(ShardId(number)).replica_statuses();
            for status in statuses {
                self.watch.group(id, status.queue, &status.group)?;
            }
        }
        if let Some(cluster) = node.env.cluster() {
            let status = cluster.status();
            self.watch.group(id, CATALOGUE_GROUP, &status)?;
            // A snapshot that is being installed counts as applied when it is durable.
            let is_settled = status.applied == status.commit;
            if is_settled && node.env.catalogue.borrow().is_clustered() {
                self.watch.catalogue(node, status.applied)?;
            }
        }
        Ok(())
    }
}

impl Node<SimDisk> {
    /// Whether it leads a queue.
    pub(super) fn leads(&self) -> bool {
        (0..SHARDS).any(|number| {
            let statuses = self.env.shard(ShardId(number)).replica_statuses();
            statuses.iter().any(|one| one.group.role == Role::Leader)
        })
    }
}
