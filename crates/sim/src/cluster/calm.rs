//! The second phase: everything works again. Operators put right what was lost
//! ([`super::operators`]), everybody must be answered, and all that was confirmed must be found,
//! once.

use super::client;
use super::node::Node;
use super::operators::QueueOfWords;
use super::people::{Answered, Part};
use super::world::{TURN_MS, World};
use crate::disk::SimDisk;
use leveret_cluster::Env;
use leveret_metadata::QueueRecord;
use leveret_types::{NodeId, QueueId, QueueKind, ReplicaId};

/// Milliseconds within which a cluster of which everything works must have answered everybody.
pub(super) const CALM_MS: u64 = 20_000;

impl World {
    /// Everything works again, for long enough that all is answered.
    pub(super) fn calm(&mut self) -> Result<(), String> {
        self.cut.clear();
        for id in self.ids() {
            if let Some(host) = self.hosts.get_mut(&id) {
                host.is_stalled = false;
                host.disk.crash_at(u64::MAX);
                host.disk.set_fault(None);
                host.disk.set_bytes_max(None);
                host.disk.set_read_faults(None);
            }
        }
        // What was asked for before may be carried out yet.
        for _ in 0..20 {
            self.turn()?;
        }
        self.replace_machines()?;
        self.stop_draining()?;
        self.declare_all()?;
        self.fill_groups()?;
        let end = self.clock_ms + CALM_MS;
        loop {
            self.rest()?;
            // Long enough for what is told lazily; a minute's quiet follows from it.
            let is_early = self.clock_ms + CALM_MS < end + 1_000;
            if !is_early && self.unanswered().is_none() {
                if (0..self.queues.len()).all(|queue| self.id_of(queue).is_some()) {
                    break;
                }
                self.declare_all()?;
                self.fill_groups()?;
            }
            if self.clock_ms > end {
                let why = self.unanswered().unwrap_or_default();
                return Err(format!("everything works, and for {CALM_MS} ms {why}"));
            }
            self.turn()?;
        }
        self.compare_members()?;
        self.ledger.calm();
        self.is_whole = true;
        let numbers = 0..self.queues.len();
        self.homes = numbers.map(|number| self.find_home(number)).collect();
        for host in self.hosts.values_mut() {
            host.unsure.clear();
        }
        Ok(())
    }

    /// Some time passes while all is well.
    pub(super) fn turn(&mut self) -> Result<(), String> {
        for id in self.ids() {
            let host = &self.hosts[&id];
            if host.node.is_none() && !host.is_gone && !host.is_hopeless {
                self.start(id)?;
            }
        }
        self.rest()?;
        self.pass(TURN_MS);
        self.connect_all();
        Ok(())
    }

    /// The queues that are groups.
    pub(super) fn groups(&self) -> Vec<QueueId> {
        let groups = self.with_catalogue(|catalogue| {
            let groups = catalogue.queues(None);
            let mut groups: Vec<QueueId> = groups
                .filter(|record| !record.members().is_empty() && record.kind() != QueueKind::Stream)
                .map(QueueRecord::id)
                .collect();
            groups.sort_unstable();
            groups
        });
        groups.unwrap_or_default()
    }

    /// A queue's members, and a number that no member had.
    pub(super) fn members(&self, queue: QueueId) -> Option<(Vec<ReplicaId>, u32)> {
        self.with_catalogue(|catalogue| {
            let members = catalogue.queue(queue)?.members().to_vec();
            Some((members, catalogue.next_incarnation()))
        })
        .flatten()
    }

    pub(super) fn id_of(&self, queue: usize) -> Option<QueueId> {
        let name = &self.queues[queue].name;
        self.with_catalogue(|catalogue| catalogue.vhost("/")?.queue_id(name))
            .flatten()
    }

    /// The node that a queue is on alone.
    fn find_home(&self, queue: usize) -> Option<NodeId> {
        let id = self.id_of(queue)?;
        let record = |catalogue: &leveret_metadata::Catalogue| {
            let record = catalogue.queue(id)?;
            record.members().is_empty().then(|| record.home())
        };
        self.with_catalogue(record).flatten()
    }

    // What is owed.

    /// What is still owed to somebody.
    fn unanswered(&self) -> Option<String> {
        for (id, person) in &self.people {
            if let Part::Publisher { unconfirmed, .. } = &person.part
                && let Some((tag, body)) = unconfirmed.first_key_value()
            {
                return Some(format!(
                    "client {id} at node {} has no answer to publish {tag}, message {body} of {}{}",
                    person.client.node,
                    self.queues[person.queue].name,
                    self.standing(self.id_of(person.queue)),
                ));
            }
        }
        let unready = self.unready_group();
        unready
            .or_else(|| self.unsettled_group())
            .or_else(|| self.unready_catalogue())
    }

    /// A group of which something is asked that is not committed: settles, for which nobody waits.
    fn unsettled_group(&self) -> Option<String> {
        let has_work = |queue: QueueId, id: NodeId| {
            let node = self.node(id)?;
            let shard = node.env.shard(node.env.shard_of(queue));
            Some(shard.has_work_under_way(queue))
        };
        self.groups().into_iter().find_map(|queue| {
            let ids = self.ids();
            let at = ids
                .into_iter()
                .find(|id| has_work(queue, *id) == Some(true))?;
            Some(format!(
                "node {at} has something under way to queue {queue}{}",
                self.standing(Some(queue))
            ))
        })
    }

    fn unready_catalogue(&self) -> Option<String> {
        let mut applied = self.ids().into_iter().filter_map(|id| {
            let status = self.node(id)?.env.cluster()?.status();
            Some((status.applied, status.membership.voters.len()))
        });
        let first = applied.next()?;
        let is_even = applied.all(|other| other == first) && first.1 == self.ids().len();
        (!is_even).then(|| format!("the catalogues differ{}", self.catalogue_standing()))
    }

    /// A group without leader, or that is not of the members that it is to have.
    pub(super) fn unready_group(&self) -> Option<String> {
        self.groups().into_iter().find_map(|queue| {
            let (members, _) = self.members(queue)?;
            let mut nodes: Vec<NodeId> = members.iter().map(|member| member.node()).collect();
            nodes.sort_unstable();
            let why = match self.leader(queue) {
                None => "nobody leads".to_owned(),
                Some(leader) => {
                    let node = self.node(leader)?;
                    let group = {
                        let shard = node.env.shard(node.env.shard_of(queue));
                        shard.replica_status(queue)?.group
                    };
                    let membership = &group.membership;
                    let mut voters: Vec<NodeId> = membership
                        .voters
                        .iter()
                        .map(|member| member.node())
                        .collect();
                    voters.sort_unstable();
                    let between = membership.voters_outgoing.len() + membership.learners.len();
                    let behind = group.members.iter().any(|one| one.matched < group.commit);
                    if voters != nodes || between > 0 || behind {
                        format!("{nodes:?} are to be the members, with all entries, of")
                    } else if self.is_told(queue, &nodes, group.commit) {
                        return None;
                    } else {
                        "not all members know what is committed of".to_owned()
                    }
                }
            };
            Some(format!("{why} queue {queue}{}", self.standing(Some(queue))))
        })
    }

    /// Whether the members of a queue have applied all entries through this one. A leader tells the
    /// last of them what is committed only when some time has passed.
    fn is_told(&self, queue: QueueId, nodes: &[NodeId], commit: u64) -> bool {
        let is_told = |node: &Node<SimDisk>| {
            let shard = node.env.shard(node.env.shard_of(queue));
            let status = shard.replica_status(queue);
            status.is_some_and(|status| status.group.applied >= commit)
        };
        nodes.iter().all(|id| self.node(*id).is_some_and(is_told))
    }

    /// How a queue's group stands on each node.
    fn standing(&self, queue: Option<QueueId>) -> String {
        let Some(queue) = queue else {
            return ", which is not there".to_owned();
        };
        let mut all = String::new();
        for id in self.ids() {
            let Some(node) = self.node(id) else {
                all += &format!("\n  node {id} does not run");
                continue;
            };
            let status = {
                let shard = node.env.shard(node.env.shard_of(queue));
                shard.replica_status(queue)
            };
            all += &match status {
                Some(status) => format!(
                    "\n  node {id}: {:?} of term {}, leader {:?}, commit {}, applied {}, durable {}, \
                     last {}, serving {}, {:?}, {:?}",
                    status.group.role,
                    status.group.term,
                    status.group.leader.map(|leader| leader.node().0),
                    status.group.commit,
                    status.group.applied,
                    status.group.durable,
                    status.group.last_index,
                    status.is_serving,
                    status.group.membership,
                    status.group.members,
                ),
                None => {
                    let shard = node.env.shard(node.env.shard_of(queue));
                    let is_quarantined = shard.has_quarantined(queue);
                    format!("\n  node {id}: no replica, quarantined: {is_quarantined}")
                }
            };
        }
        all
    }

    pub(super) fn catalogue_standing(&self) -> String {
        let mut all = String::new();
        for id in self.all() {
            let status = self
                .node(id)
                .and_then(|node| Some(node.env.cluster()?.status()));
            all += &match status {
                Some(status) => format!("\n  node {id}: {status:?}"),
                None => format!("\n  node {id} does not run"),
            };
        }
        all
    }

    pub(super) fn leader(&self, queue: QueueId) -> Option<NodeId> {
        self.ids().into_iter().find(|id| {
            self.node(*id).is_some_and(|node| {
                let shard = node.env.shard(node.env.shard_of(queue));
                let status = shard.replica_status(queue);
                status.is_some_and(|status| status.is_serving)
            })
        })
    }

    /// All that is left is consumed; what was confirmed must have been there.
    pub(super) fn drain(&mut self) -> Result<(), String> {
        for id in self.people.keys().copied().collect::<Vec<_>>() {
            self.leave(id);
        }
        self.calm()?;
        for queue in 0..self.queues.len() {
            let nodes = self.ids();
            self.come(nodes[queue % nodes.len()], queue, Part::consumer());
        }
        let end = self.clock_ms + CALM_MS;
        while self.clock_ms < end {
            self.rest()?;
            if !self.take_all() {
                self.pass(TURN_MS);
            }
        }
        self.calm()?;
        let owed = self.ledger.owed();
        match owed.first() {
            Some((first, queue)) => Err(format!(
                "{} messages were confirmed and are lost, the first is {first} of queue {queue}",
                owed.len()
            )),
            None => self.check_empty(),
        }
    }

    /// Consumers acknowledge all that they hold; whether that was something.
    fn take_all(&mut self) -> bool {
        let mut has_taken = false;
        for id in self.people.keys().copied().collect::<Vec<_>>() {
            while let Some(Part::Consumer { held }) = self.people.get(&id).map(|one| &one.part)
                && !held.is_empty()
            {
                self.answer(id, 0, Answered::Acknowledged);
                has_taken = true;
            }
        }
        has_taken
    }

    /// All queues are empty, seen from every node.
    fn check_empty(&mut self) -> Result<(), String> {
        for queue in 0..self.queues.len() {
            for node in self.ids() {
                let asker = self.come(node, queue, Part::asker());
                let QueueOfWords { name, kind } = self.words(queue);
                self.say(asker, client::declare(&name, kind, true));
                self.rest()?;
                self.pass(TURN_MS);
                self.rest()?;
                let answer = match self.people.get(&asker).map(|person| &person.part) {
                    Some(Part::Asker { answer, .. }) => *answer,
                    _ => None,
                };
                if answer != Some(0) {
                    return Err(format!(
                        "node {node} says {answer:?} of {name}, which is empty"
                    ));
                }
                self.leave(asker);
            }
        }
        Ok(())
    }
}
