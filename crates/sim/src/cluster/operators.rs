//! What operators do when everything works again: put right what was lost.

use super::calm::CALM_MS;
use super::client;
use super::people::Part;
use super::world::World;
use crate::Random;
use leveret_cluster::Env;
use leveret_metadata::Command;
use leveret_queue_host::shard::CATALOGUE_GROUP_LOG;
use leveret_replication::Status;
use leveret_types::{NodeId, QueueId, ReplicaId, ShardId};

/// Members that each group is to have.
const MEMBERS: usize = 3;

/// A queue's name, and `quorum` or `classic`.
pub(super) struct QueueOfWords {
    pub(super) name: String,
    pub(super) kind: &'static str,
}

impl World {
    /// Machines that are gone, or do not start on what their disks have, are forgotten, and others
    /// take their places. Where a disk has rotted and the node starts, its members of the groups
    /// are taken out and added anew.
    pub(super) fn replace_machines(&mut self) -> Result<(), String> {
        for id in self.ids() {
            let host = &self.hosts[&id];
            if !host.is_corrupt && !host.has_bad_reads {
                continue;
            }
            let is_rotten = host.is_corrupt;
            if self.is_up(id) && self.is_soon_serving(id)? && !self.has_damaged_catalogue(id) {
                self.delete_lost_groups()?;
                match is_rotten {
                    true => self.begin_members_anew(id, |_, _, _| true)?,
                    // The disk is sound: an operator puts right what the node reports.
                    false => self.begin_members_anew(id, World::reports_damage)?,
                }
                if let Some(host) = self.hosts.get_mut(&id) {
                    (host.is_corrupt, host.has_bad_reads) = (false, false);
                }
                continue;
            }
            let mut random = Random::new(u64::from(id.0));
            if self.is_up(id) {
                self.crash(id, &mut random, false);
            }
            self.connect_all();
            self.carry_out(&Command::NodeForget { node: id.0 })?;
            self.delete_lost_groups()?;
            self.hosts.retain(|_, host| !host.is_forgotten);
            match self.hosts.get_mut(&id) {
                // Somebody may find it, and start it.
                Some(host) if host.is_gone && !host.disk.paths().is_empty() => {
                    (host.is_forgotten, host.is_corrupt) = (true, false);
                    host.has_bad_reads = false;
                }
                _ => {
                    let removed = self.hosts.remove(&id);
                    let bad_reads = removed.map_or(0, |host| host.disk.reads_gone_wrong());
                    self.bad_reads_before += bad_reads;
                }
            }
            // An operator who replaces a machine knows that it stays.
            let node = self.add_machine(&mut random)?.0;
            self.carry_out(&Command::NodePromote { node })?;
        }
        Ok(())
    }

    /// Deletes the queues that nobody can ever lead again. That happens to groups that never had
    /// all their members, as where a node is drained while they are declared: with one machine
    /// more their majority is gone, and no broker brings it back.
    fn delete_lost_groups(&mut self) -> Result<(), String> {
        if !self.groups().into_iter().any(|queue| self.is_lost(queue)) {
            return Ok(());
        }
        // A node that does not serve yet has members that do not show yet.
        for id in self.ids() {
            if self.is_up(id) {
                self.is_soon_serving(id)?;
            }
        }
        for number in 0..self.queues.len() {
            let id = self.id_of(number).filter(|id| self.is_lost(*id));
            if let Some(id) = id {
                self.ledger.lost(number);
                let name = self.words(number).name;
                self.carry_out(&Command::queue_delete("/", &name, id))?;
            }
        }
        Ok(())
    }

    /// Whether a queue is a group that never had all its members, as all of them see it that are
    /// left, and these are no majority.
    fn is_lost(&self, queue: QueueId) -> bool {
        let status = |id: NodeId| -> Option<Status> {
            let node = self.node(id)?;
            let shard = node.env.shard(node.env.shard_of(queue));
            Some(shard.replica_status(queue)?.group)
        };
        let is_left = |member: ReplicaId| status(member.node()).is_some();
        let known = self.members(queue).map_or(0, |(members, _)| members.len());
        let left: Vec<Status> = self.ids().into_iter().filter_map(status).collect();
        (1..MEMBERS).contains(&known)
            && left.iter().all(|one| {
                let membership = &one.membership;
                membership.voters.len() < MEMBERS && !membership.has_majority(is_left)
            })
    }

    pub(super) fn is_soon_serving(&mut self, node: NodeId) -> Result<bool, String> {
        let end = self.clock_ms + CALM_MS;
        while !self.is_serving(node) && self.clock_ms < end {
            self.turn()?;
        }
        Ok(self.is_serving(node))
    }

    /// Whether a node could not read something of the catalogue's log, so that it would not start
    /// again: its machine is replaced.
    fn has_damaged_catalogue(&self, node: NodeId) -> bool {
        self.node(node).is_some_and(|node| {
            let shard = node.env.shard(ShardId(0));
            shard.logs.damage(CATALOGUE_GROUP_LOG).is_some()
        })
    }

    /// Whether a node says that it cannot read something of a queue, or has no replica of it that
    /// takes part.
    fn reports_damage(&self, node: NodeId, queue: QueueId) -> bool {
        self.node(node).is_some_and(|node| {
            let shard = node.env.shard(node.env.shard_of(queue));
            let reported = shard.damaged_queues();
            reported.iter().any(|(damaged, _)| *damaged == queue)
        })
    }

    /// Takes a node's members of the groups out that are `wanted`, and adds them anew.
    fn begin_members_anew(
        &mut self,
        node: NodeId,
        wanted: impl Fn(&World, NodeId, QueueId) -> bool,
    ) -> Result<(), String> {
        let mut groups = self.groups();
        groups.retain(|queue| wanted(self, node, *queue));
        for queue in groups {
            let Some((members, _)) = self.members(queue) else {
                continue;
            };
            let rest = members.into_iter().filter(|member| member.node() != node);
            let rest: Vec<ReplicaId> = rest.collect();
            if !rest.is_empty() {
                self.set_members(queue, &rest)?;
            }
        }
        // The groups have let it go before it comes anew.
        self.await_groups()?;
        self.fill_groups()
    }

    fn set_members(&mut self, queue: QueueId, members: &[ReplicaId]) -> Result<(), String> {
        let members = members.iter().map(|member| member.0).collect();
        let (id, size) = (queue.0, None);
        self.carry_out(&Command::QueueMembers { id, members, size })
            .map(drop)
    }

    fn await_groups(&mut self) -> Result<(), String> {
        let end = self.clock_ms + CALM_MS;
        while let Some(why) = self.unready_group() {
            if self.clock_ms > end {
                return Err(format!("everything works, and for {CALM_MS} ms {why}"));
            }
            self.turn()?;
        }
        Ok(())
    }

    pub(super) fn stop_draining(&mut self) -> Result<(), String> {
        for id in self.ids() {
            let is_draining =
                |catalogue: &leveret_metadata::Catalogue| Some(catalogue.node(id)?.draining);
            if self.with_catalogue(is_draining).flatten() == Some(true) {
                let (node, draining) = (id.0, false);
                self.carry_out(&Command::NodeDrain { node, draining })?;
            }
        }
        Ok(())
    }

    /// Declares the queues that there are not.
    pub(super) fn declare_all(&mut self) -> Result<(), String> {
        for id in self.ids() {
            if !self.is_soon_serving(id)? {
                let standing = self.catalogue_standing();
                return Err(format!(
                    "node {id} does not find into its cluster{standing}"
                ));
            }
        }
        for queue in 0..self.queues.len() {
            for _ in 0..40 {
                if self.id_of(queue).is_some() {
                    break;
                }
                let at = NodeId(1 + (queue % self.hosts.len()) as u32);
                let at = if self.is_serving(at) {
                    at
                } else {
                    self.ids()[0]
                };
                let asker = self.come(at, queue, Part::asker());
                let QueueOfWords { name, kind } = self.words(queue);
                self.say(asker, client::declare(&name, kind, false));
                for _ in 0..20 {
                    self.turn()?;
                }
                self.leave(asker);
            }
        }
        Ok(())
    }

    pub(super) fn words(&self, queue: usize) -> QueueOfWords {
        QueueOfWords {
            name: self.queues[queue].name.clone(),
            kind: self.queues[queue].kind,
        }
    }

    /// Adds members to the groups that have too few.
    pub(super) fn fill_groups(&mut self) -> Result<(), String> {
        for queue in self.groups() {
            while let Some((mut members, incarnation)) = self.members(queue)
                && members.len() < MEMBERS.min(self.ids().len())
            {
                let has_one = |id: &NodeId| members.iter().any(|member| member.node() == *id);
                let Some(new) = self.ids().into_iter().find(|id| !has_one(id)) else {
                    break;
                };
                members.push(ReplicaId::new(new, incarnation));
                self.set_members(queue, &members)?;
                self.await_groups()?;
            }
        }
        Ok(())
    }
}
