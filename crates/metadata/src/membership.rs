//! Which nodes have a queue: where a new one lives, and who is to join or leave the group of one
//! that does not have the members that it should have.

use crate::catalogue::{Catalogue, Change, Outcome};
use crate::error::CatalogueError;
use crate::policy::Mirrors;
use crate::record::QueueRecord;
use leveret_types::QueueKind;
use leveret_types::limits::{GROUP_MEMBERS_MAX, GROUP_SIZE_DEFAULT, STREAM_FOLLOWERS_MAX};
use leveret_types::{NodeId, QueueId, ReplicaId};

/// How many members the groups of replicated queues have
/// (`quorum_queue.continuous_membership_reconciliation.*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MembershipConfig {
    /// Members of a new quorum queue where neither its arguments nor a policy say
    /// (`quorum_queue.initial_cluster_size`).
    pub initial_size: usize,
    /// Whether quorum queues that have too few get more (`enabled`).
    pub reconciles: bool,
    /// Members that every quorum queue is to have where neither its arguments nor a policy say
    /// (`target_group_size`); without one, as many as it was to have when it was declared.
    pub target_size: Option<usize>,
    /// Milliseconds after which all queues are looked at again (`interval`).
    pub interval_ms: u64,
    /// Milliseconds after which they are looked at when a node has come or gone, or a queue was
    /// declared or its policy changed (`trigger_interval`).
    pub trigger_interval_ms: u64,
}

impl Default for MembershipConfig {
    fn default() -> Self {
        Self {
            initial_size: GROUP_SIZE_DEFAULT,
            reconciles: true,
            target_size: None,
            interval_ms: 3_600_000,
            trigger_interval_ms: 10_000,
        }
    }
}

/// How many queues a node has, of which kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Load {
    members: usize,
    first: usize,
    homes: usize,
}

impl Catalogue {
    // --- new queues ----------------------------------------------------------------------------

    /// Decides where a new queue lives.
    pub(crate) fn place(&mut self, record: &mut QueueRecord) {
        let Some(circumstances) = self.circumstances.take() else {
            return;
        };
        let origin = circumstances.origin;
        record.home = origin;
        if let Some(size) = self.first_size(record) {
            record.group_size = size;
            let local = record.settings.leader_local;
            let elsewhere = |node: NodeId| local && node != origin;
            let down = |node: NodeId| !circumstances.up.contains(&node);
            let turn = |node: NodeId| match circumstances.takes_turns {
                true => turn(record.id, node),
                false => u64::from(node.0),
            };
            let mut nodes: Vec<NodeId> = self
                .cluster
                .nodes
                .values()
                .filter(|node| node.takes_members())
                .filter(|node| is_named(&record.settings.mirrors, &node.name))
                .map(crate::cluster::NodeRecord::id)
                .collect();
            nodes.sort_by_key(|node| {
                let members = self.load_of(*node).members;
                (elsewhere(*node), down(*node), members, turn(*node))
            });
            nodes.truncate(size.min(GROUP_MEMBERS_MAX));
            nodes.sort_by_key(|node| {
                let first = self.load_of(*node).first;
                (elsewhere(*node), down(*node), first, turn(*node))
            });
            record.members = nodes.iter().map(|node| ReplicaId::new(*node, 0)).collect();
            if let (QueueKind::Stream, Some(leader)) = (record.kind, nodes.first()) {
                record.home = *leader;
                record.epoch = 1;
            }
        }
        self.circumstances = Some(circumstances);
    }

    /// How many members a new queue's group is to have, be there so many nodes or not; none if it
    /// is not to be replicated.
    fn first_size(&self, record: &QueueRecord) -> Option<usize> {
        if record.kind == QueueKind::Quorum {
            let initial = self.config.membership.initial_size;
            return Some(record.settings.initial_size.unwrap_or(initial).max(1));
        }
        if record.kind == QueueKind::Stream {
            let all = self.cluster.nodes.len();
            let size = record.settings.initial_size.unwrap_or(all);
            return (all > 0).then(|| size.clamp(1, STREAM_FOLLOWERS_MAX + 1));
        }
        let mirrors = record.settings.mirrors.as_ref();
        match mirrors.filter(|_| may_be_mirrored(record))? {
            Mirrors::All => Some(self.cluster.nodes.len()),
            Mirrors::Exactly(count) => Some((*count).max(1)),
            named @ Mirrors::Nodes(_) => {
                let nodes = self.cluster.nodes.values();
                let there = nodes.filter(|node| named.names(&node.name)).count();
                (there > 0).then_some(there)
            }
        }
    }

    // --- queues that are there -----------------------------------------------------------------

    pub(crate) fn set_members(
        &mut self,
        id: QueueId,
        members: &[u64],
        size: Option<u32>,
    ) -> Result<Outcome, CatalogueError> {
        let members: Vec<ReplicaId> = members.iter().copied().map(ReplicaId).collect();
        let nodes = &self.cluster.nodes;
        let is_there = |member: &&ReplicaId| nodes.contains_key(&member.node().0);
        if let Some(stranger) = members.iter().find(|member| !is_there(member)) {
            return Err(CatalogueError::NoNode(stranger.node()));
        }
        let Some(mut record) = self.queues.remove(&id) else {
            return Ok(Outcome::default());
        };
        // A queue that has no group gets one where it lives; the others join that.
        let begins = members[..] == [ReplicaId::new(record.home, 0)] && may_be_mirrored(&record);
        let is_stream = record.kind == QueueKind::Stream;
        let is_right = !is_stream && !members.is_empty() && (!record.members.is_empty() || begins);
        let refused = (!is_right).then(|| record.resource());
        if is_right {
            self.note_gone(&record);
            record.keep_founders();
            record.members = match record.members.is_empty() {
                true => members,
                false => self.numbered(&record.members, &members),
            };
            record.group_size = size.map_or(record.group_size, |size| size as usize);
            self.note_placed(&record);
            self.cluster.next_incarnation += 1;
        }
        self.queues.insert(id, record);
        match refused {
            Some(resource) => Err(CatalogueError::NotReplicated { resource }),
            None => Ok(Outcome {
                queue: Some(id),
                changes: vec![Change::QueueChanged(id)],
                ..Outcome::default()
            }),
        }
    }

    /// The members that a group gets that has some and is asked to have others. Who asks may not
    /// have heard of what came and went meanwhile, so that the numbers which it gives count for
    /// little: a node keeps the member that it has, and one that has none gets one that nobody ever
    /// was. Only a number that is still to come replaces the member of a node at once.
    fn numbered(&self, has: &[ReplicaId], asked: &[ReplicaId]) -> Vec<ReplicaId> {
        let next = self.next_incarnation();
        let mut members: Vec<ReplicaId> = Vec::with_capacity(asked.len());
        for asked in asked {
            let node = asked.node();
            let known = has.iter().find(|member| member.node() == node);
            let is_to_come = asked.incarnation() >= next;
            let member = match known {
                Some(known) if !is_to_come => *known,
                _ => ReplicaId::new(node, next),
            };
            if !members.iter().any(|other| other.node() == node) {
                members.push(member);
            }
        }
        members
    }

    /// A number that no membership of a group has had yet.
    #[must_use]
    pub fn next_incarnation(&self) -> u32 {
        self.cluster.next_incarnation.max(1)
    }

    /// The members that a queue should have and does not, the preferred leader first; nothing if it
    /// has those, or if who is missing is not up. `is_up` says so of every node.
    ///
    /// A quorum queue gets more members and never fewer. A mirrored queue has those that its policy
    /// says; where no policy says so any more, one is left of it. What is not replicated and is to
    /// be gets one member, where it lives, and the others from there.
    #[must_use]
    pub fn members_due(
        &self,
        record: &QueueRecord,
        is_up: impl Fn(NodeId) -> bool,
    ) -> Option<Vec<ReplicaId>> {
        if !self.is_clustered() {
            return None;
        }
        let members = &record.members;
        let due = match record.kind {
            QueueKind::Quorum => {
                let config = &self.config.membership;
                let target = record.settings.target_size.or(config.target_size);
                let target = target.unwrap_or(record.group_size);
                let missing = target.saturating_sub(members.len());
                let missing = if config.reconciles { missing } else { 0 };
                self.with_more(record.id, members.clone(), missing, None, &is_up)
            }
            QueueKind::Classic => self.mirrors_due(record, &is_up)?,
            QueueKind::Stream => return None,
        };
        (due != *members && !due.is_empty()).then_some(due)
    }

    fn mirrors_due(
        &self,
        record: &QueueRecord,
        is_up: &impl Fn(NodeId) -> bool,
    ) -> Option<Vec<ReplicaId>> {
        if !may_be_mirrored(record) {
            return None;
        }
        let mirrors = record.settings.mirrors.as_ref();
        let mut members = record.members.clone();
        if members.is_empty() {
            let home = record.home;
            let begins = mirrors.is_some() && is_up(home);
            return begins.then(|| vec![ReplicaId::new(home, 0)]);
        }
        let nodes = self.cluster.nodes.len();
        Some(match mirrors {
            None => {
                keep(&mut members, 1, is_up);
                members
            }
            Some(Mirrors::All) => {
                let missing = nodes.saturating_sub(members.len());
                self.with_more(record.id, members, missing, None, is_up)
            }
            Some(Mirrors::Exactly(count)) => {
                let count = (*count).max(1);
                keep(&mut members, count, is_up);
                let missing = count.saturating_sub(members.len());
                self.with_more(record.id, members, missing, None, is_up)
            }
            Some(named @ Mirrors::Nodes(_)) => {
                let is_named = |node: NodeId| {
                    let record = self.cluster.nodes.get(&node.0);
                    record.is_some_and(|record| named.names(&record.name))
                };
                members.retain(|member| is_named(member.node()));
                self.with_more(record.id, members, nodes, Some(named), is_up)
            }
        })
    }

    /// These members and some more, on the nodes that are up and have least.
    pub(crate) fn with_more(
        &self,
        queue: QueueId,
        mut members: Vec<ReplicaId>,
        missing: usize,
        named: Option<&Mirrors>,
        is_up: &impl Fn(NodeId) -> bool,
    ) -> Vec<ReplicaId> {
        let missing = missing.min(GROUP_MEMBERS_MAX.saturating_sub(members.len()));
        if missing == 0 {
            return members;
        }
        let has = |node: NodeId| members.iter().any(|member| member.node() == node);
        let nodes = self.cluster.nodes.values();
        let mut nodes: Vec<NodeId> = nodes
            .filter(|node| node.takes_members() && is_up(node.id()) && !has(node.id()))
            .filter(|node| named.is_none_or(|named| named.names(&node.name)))
            .map(crate::cluster::NodeRecord::id)
            .collect();
        nodes.sort_by_key(|node| (self.load_of(*node).members, turn(queue, *node)));
        nodes.truncate(missing);
        let incarnation = self.next_incarnation();
        let new = nodes.iter().map(|node| ReplicaId::new(*node, incarnation));
        members.extend(new);
        members
    }

    // --- how many each node has ----------------------------------------------------------------

    fn load_of(&self, node: NodeId) -> Load {
        self.load.get(&node.0).copied().unwrap_or_default()
    }

    pub(crate) fn note_placed(&mut self, record: &QueueRecord) {
        self.count(record, |count| *count += 1);
    }

    pub(crate) fn note_gone(&mut self, record: &QueueRecord) {
        self.count(record, |count| *count = count.saturating_sub(1));
    }

    fn count(&mut self, record: &QueueRecord, step: impl Fn(&mut usize)) {
        if !self.is_clustered() {
            return;
        }
        for member in &record.members {
            step(&mut self.load.entry(member.node().0).or_default().members);
        }
        match record.members.first() {
            Some(first) => step(&mut self.load.entry(first.node().0).or_default().first),
            None => step(&mut self.load.entry(record.home.0).or_default().homes),
        }
    }

    pub(crate) fn recount(&mut self) {
        self.load.clear();
        let records: Vec<(Vec<ReplicaId>, NodeId)> = self
            .queues
            .values()
            .map(|queue| (queue.members.clone(), queue.home))
            .collect();
        for (members, home) in records {
            for member in &members {
                self.load.entry(member.node().0).or_default().members += 1;
            }
            match members.first() {
                Some(first) => self.load.entry(first.node().0).or_default().first += 1,
                None => self.load.entry(home.0).or_default().homes += 1,
            }
        }
    }
}

impl Mirrors {
    /// Whether it is a list of nodes that has this name.
    fn names(&self, node: &str) -> bool {
        matches!(self, Self::Nodes(names) if names.iter().any(|name| name == node))
    }
}

/// Whether members may be on a node of this name.
fn is_named(mirrors: &Option<Mirrors>, node: &str) -> bool {
    match mirrors {
        Some(named @ Mirrors::Nodes(_)) => named.names(node),
        _ => true,
    }
}

/// Whether a policy may make it a replicated one: what goes with a process or a consumer is not,
/// nor what has so many priorities that no priority log is left for the group.
const fn may_be_mirrored(record: &QueueRecord) -> bool {
    let lasts = record.durable && record.exclusive.is_none() && !record.auto_delete;
    lasts && record.settings.priority_max < u8::MAX && matches!(record.kind, QueueKind::Classic)
}

/// Which of the nodes that have equally many comes first for a queue: another one for each queue,
/// so that in a large cluster each node shares its queues with all others, and what it leads is led
/// by all of them once it is gone.
///
/// All nodes must choose alike: this never changes.
const fn turn(queue: QueueId, node: NodeId) -> u64 {
    // SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014).
    let mut value = (queue.0 ^ ((node.0 as u64) << 48)).wrapping_add(0x9E37_79B9_7F4A_7C15);
    value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}

/// Keeps so many members: the first, and of the others rather those that are up.
fn keep(members: &mut Vec<ReplicaId>, count: usize, is_up: &impl Fn(NodeId) -> bool) {
    while members.len() > count {
        let down = members.iter().skip(1).rposition(|m| !is_up(m.node()));
        let at = down.map_or(members.len() - 1, |at| at + 1);
        members.remove(at);
    }
}
