//! What operators do to a cluster: whether it may be done, what it comes down to, and when it is
//! done.
//!
//! ```text
//! request ──► Planner ──► Plan: commands, in their order ──► Goal: what is to come true after
//!                │
//!                └──────► Rebalance: a command for each group; its leader is asked to hand over
//! ```
//!
//! Invariant: nothing is decided by what changes meanwhile: a plan is made of one look at the
//! catalogue and at the cluster. Whoever carries it out waits for each command.

mod goals;
mod rebalance;
mod refused;

#[cfg(test)]
mod tests;

pub use goals::{Goal, LeaderMove, MoveStep};
pub use rebalance::{GroupMove, Rebalance};
pub use refused::Refused;

use crate::env::Env;
use crate::placement::{self, grown, grown_to, led_by, loads, shrunk};
use leveret_metadata::{Catalogue, Command, NodeRecord, QueueKind, QueueRecord};
use leveret_replication::Membership;
use leveret_types::{NodeId, QueueId, ReplicaId};
use std::collections::BTreeMap;

/// Which nodes this one can count on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Availability {
    /// This node.
    pub own: NodeId,
    /// The others that are up.
    pub up: Vec<NodeId>,
    /// Those with a disk alarm, this node included.
    pub full_disks: Vec<NodeId>,
}

impl Availability {
    /// What is known now.
    pub fn of<E: Env>(env: &E) -> Self {
        let own = env.node_id();
        let up = env.peers().up();
        let all = up.iter().copied().chain([own]);
        let full_disks = all.filter(|node| env.alarms_of(*node).disk).collect();
        Self {
            own,
            up,
            full_disks,
        }
    }

    /// Whether a node is up: this one is.
    #[must_use]
    pub fn is_up(&self, node: NodeId) -> bool {
        node == self.own || self.up.contains(&node)
    }
}

/// The catalogue's group, seen from this node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CatalogueView {
    /// The node that leads it, if that is known.
    pub leader: Option<NodeId>,
    /// Who belongs to it.
    pub membership: Membership,
}

impl CatalogueView {
    /// What is known now; nothing outside clusters. The catalogue may not be borrowed.
    pub fn of<E: Env>(env: &E) -> Option<Self> {
        let cluster = env.cluster()?;
        Some(Self {
            leader: cluster.leader(),
            membership: cluster.status().membership,
        })
    }
}

/// What the request of an operator comes down to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// What is to be carried out, in this order, each once the one before it is. Nothing follows
    /// one that is refused.
    pub commands: Vec<Command>,
    /// What is to come true after, and what is wrong if it does not in time.
    pub goal: Option<(Goal, Refused)>,
    /// How many queues it concerns.
    pub queues: usize,
}

/// Which queues are meant by an operator's patterns.
#[derive(Clone, Copy)]
pub struct Meant<'a> {
    /// Whether their virtual host and name match.
    pub matches: &'a dyn Fn(&QueueRecord) -> bool,
    /// Whether only those are meant that have an even number of members.
    pub is_even: bool,
}

/// Plans what operators want, by what is known now. Nodes go by number or by name.
#[derive(Clone, Copy)]
pub struct Planner<'a> {
    /// Which nodes are up.
    pub availability: &'a Availability,
    /// The catalogue's group.
    pub group: &'a CatalogueView,
    /// The catalogue.
    pub catalogue: &'a Catalogue,
}

impl Planner<'_> {
    /// Takes a node out for good.
    ///
    /// # Errors
    /// There is no such node, it is this one, or it is up.
    pub fn forget(&self, name: &str) -> Result<Plan, Refused> {
        let node = self.named(name)?;
        if node.id() == self.availability.own {
            return Err(Refused::OwnNode);
        }
        if self.availability.is_up(node.id()) {
            return Err(Refused::Running(name.to_owned()));
        }
        let load = loads(self.catalogue).remove(&node.id()).unwrap_or_default();
        Ok(Plan {
            commands: vec![Command::NodeForget { node: node.node }],
            queues: load.members + load.homes,
            ..Plan::default()
        })
    }

    /// Empties a node of leaders, and keeps new queues away from it; or lets them come again.
    ///
    /// # Errors
    /// There is no such node.
    pub fn drain(&self, name: &str, draining: bool) -> Result<Plan, Refused> {
        let node = self.named(name)?.node;
        Ok(Plan {
            commands: vec![Command::NodeDrain { node, draining }],
            ..Plan::default()
        })
    }

    /// Lets a node vote that has joined, before it has stayed.
    ///
    /// # Errors
    /// There is no such node, or too few nodes are up.
    pub fn promote(&self, name: &str) -> Result<Plan, Refused> {
        let node = self.named(name)?;
        self.check_majority()?;
        let unmet = Refused::NotYetVoting(name.to_owned());
        Ok(Plan {
            commands: vec![Command::NodePromote { node: node.node }],
            goal: Some((Goal::Votes(node.id()), unmet)),
            queues: 0,
        })
    }

    /// Hands the catalogue's leadership to a node.
    ///
    /// # Errors
    /// There is no such node, or this one does not lead.
    pub fn transfer_catalogue(&self, name: &str) -> Result<Plan, Refused> {
        let to = self.named(name)?.id();
        if self.group.leader != Some(self.availability.own) {
            return Err(Refused::CatalogueLedElsewhere);
        }
        Ok(Plan {
            goal: Some((Goal::CatalogueLedBy(to), Refused::CatalogueStays(to))),
            ..Plan::default()
        })
    }

    /// Hands a queue's leadership to its member on a node.
    ///
    /// # Errors
    /// There is no such node, queue or member, or too few nodes are up.
    pub fn transfer(&self, vhost: &str, queue: &str, name: &str) -> Result<Plan, Refused> {
        let to = self.named(name)?.id();
        let record = self.queue(vhost, queue)?;
        let id = record.id();
        let members = led_by(record.members(), to);
        let members = members.ok_or_else(|| Refused::NoMember(queue.to_owned(), to))?;
        self.check_majority()?;
        // The one that leads from now on is the one that is to lead after the next return of a
        // node. A stream stays with its leader anyway.
        let commands = match id.is_stream() {
            true => Vec::new(),
            false => vec![set_members(id, &members, None)],
        };
        let unmet = Refused::LeaderStays(queue.to_owned(), to);
        Ok(Plan {
            commands,
            goal: Some((
                Goal::LedBy {
                    queue: id,
                    node: to,
                },
                unmet,
            )),
            queues: 1,
        })
    }

    /// Adds a member on a node to queues that have none there.
    ///
    /// # Errors
    /// There is no such node, or it does not vote.
    pub fn grow(&self, name: &str, meant: Meant<'_>) -> Result<Plan, Refused> {
        let node = self.voting(name)?.id();
        let incarnation = self.catalogue.next_incarnation();
        Ok(self.regroup(meant, |members| grown(members, node, incarnation)))
    }

    /// Adds members to queues that have fewer than `count`, on the nodes that are up and have
    /// least.
    #[must_use]
    pub fn grow_to(&self, count: usize, meant: Meant<'_>) -> Plan {
        let incarnation = self.catalogue.next_incarnation();
        let mut nodes = self.nodes_for_members();
        self.regroup(meant, |members| {
            grown_to(members, count, &mut nodes, incarnation)
        })
    }

    /// Takes the members on a node from queues that have others.
    ///
    /// # Errors
    /// There is no such node.
    pub fn shrink(&self, name: &str, meant: Meant<'_>) -> Result<Plan, Refused> {
        let node = self.named(name)?.id();
        Ok(self.regroup(meant, |members| shrunk(members, node)))
    }

    /// Adds a member on a node to one queue, unless it has one there.
    ///
    /// # Errors
    /// There is no such node or queue, the node does not vote or is down, or the queue is not
    /// replicated.
    pub fn add_member(&self, vhost: &str, queue: &str, name: &str) -> Result<Plan, Refused> {
        let to = self.node_for_member(name)?;
        let record = self.group(vhost, queue)?;
        let incarnation = self.catalogue.next_incarnation();
        Ok(resized(record, grown(record.members(), to, incarnation)))
    }

    /// Takes the member on a node from one queue, if it has one there.
    ///
    /// # Errors
    /// There is no such node or queue, the queue is not replicated, or has no other member.
    pub fn remove_member(&self, vhost: &str, queue: &str, name: &str) -> Result<Plan, Refused> {
        let from = self.named(name)?.id();
        let record = self.group(vhost, queue)?;
        if record.members().iter().all(|member| member.node() == from) {
            return Err(Refused::LastMember {
                vhost: vhost.to_owned(),
                queue: queue.to_owned(),
                node: name.to_owned(),
            });
        }
        Ok(resized(record, shrunk(record.members(), from)))
    }

    /// Spreads the leaders over the nodes that are up, have space and are not being emptied, each
    /// queue among its members; those of the queues that are meant are moved.
    ///
    /// # Errors
    /// Too few nodes are up.
    pub fn rebalance(&self, meant: Meant<'_>) -> Result<Rebalance, Refused> {
        self.check_majority()?;
        let mut moves = placement::spread(self.catalogue, |node| {
            let draining = self.catalogue.node(node).is_none_or(|node| node.draining);
            !draining
                && self.availability.is_up(node)
                && !self.availability.full_disks.contains(&node)
        });
        let is_meant = |queue| self.catalogue.queue(queue).is_some_and(meant.matches);
        moves.retain(|(queue, _)| is_meant(*queue));
        Ok(Rebalance::new(moves))
    }

    /// A node that a replicated queue or a stream may get a member on: it votes, and is up.
    ///
    /// # Errors
    /// There is no such node, or it may have none now.
    pub fn node_for_member(&self, name: &str) -> Result<NodeId, Refused> {
        let node = self.voting(name)?.id();
        match self.availability.is_up(node) {
            true => Ok(node),
            false => Err(Refused::NotRunning(name.to_owned())),
        }
    }

    /// The node of that number or name.
    ///
    /// # Errors
    /// There is none.
    pub fn named(&self, name: &str) -> Result<&NodeRecord, Refused> {
        let number = name.parse().ok();
        let label = |node: &NodeRecord| {
            let label = self.catalogue.node_label(node.id());
            label.unwrap_or_default()
        };
        let mut nodes = self.catalogue.nodes();
        let found = nodes.find(|node| Some(node.node) == number || label(node) == name);
        found.ok_or_else(|| {
            let nodes = self.catalogue.nodes();
            Refused::NoNode {
                name: name.to_owned(),
                known: nodes
                    .map(|node| format!("{} ({})", node.node, label(node)))
                    .collect(),
            }
        })
    }

    /// The node of that number or name, if it may have members of replicated queues: on one that
    /// has just joined, and may go again, they would count in the queues' majorities.
    fn voting(&self, name: &str) -> Result<&NodeRecord, Refused> {
        let node = self.named(name)?;
        match node.votes {
            true => Ok(node),
            false => Err(Refused::NotVoting(name.to_owned())),
        }
    }

    fn queue(&self, vhost: &str, queue: &str) -> Result<&QueueRecord, Refused> {
        let record = self.catalogue.queue_by_name(vhost, queue);
        record.ok_or_else(|| Refused::NoQueue(vhost.to_owned(), queue.to_owned()))
    }

    /// A queue that has members.
    fn group(&self, vhost: &str, queue: &str) -> Result<&QueueRecord, Refused> {
        let record = self.queue(vhost, queue)?;
        match record.members().is_empty() {
            true => Err(Refused::NotReplicated(vhost.to_owned(), queue.to_owned())),
            false => Ok(record),
        }
    }

    /// The nodes that can have new members, with how many they have.
    fn nodes_for_members(&self) -> BTreeMap<NodeId, usize> {
        let loads = loads(self.catalogue);
        let nodes = self.catalogue.nodes().filter(|node| node.takes_members());
        let nodes = nodes
            .map(NodeRecord::id)
            .filter(|node| self.availability.is_up(*node));
        let members = |node: &NodeId| loads.get(node).map_or(0, |load| load.members);
        nodes.map(|node| (node, members(&node))).collect()
    }

    /// Changes the members of the queues that are meant, where `change` says how.
    fn regroup(
        &self,
        meant: Meant<'_>,
        mut change: impl FnMut(&[ReplicaId]) -> Option<Vec<ReplicaId>>,
    ) -> Plan {
        let matching = self
            .catalogue
            .queues(None)
            .filter(|record| record.kind() != QueueKind::Stream && (meant.matches)(record))
            .filter(|record| !meant.is_even || record.members().len().is_multiple_of(2));
        let commands: Vec<Command> = matching
            .filter_map(|record| {
                let members = change(record.members())?;
                // An operator's word holds: what was taken away does not come back by itself.
                Some(set_members(record.id(), &members, Some(members.len())))
            })
            .collect();
        Plan {
            queues: commands.len(),
            commands,
            goal: None,
        }
    }

    /// Whether the cluster can agree on anything, as far as this node knows.
    fn check_majority(&self) -> Result<(), Refused> {
        let membership = &self.group.membership;
        if membership.has_majority(|voter| self.availability.is_up(voter.node())) {
            return Ok(());
        }
        let voters = membership.voters.iter();
        let up = voters.filter(|voter| self.availability.is_up(voter.node()));
        Err(Refused::NoMajority {
            up: up.count(),
            voters: membership.voters.len(),
        })
    }
}

/// One queue gets these members, or stays as it is.
fn resized(record: &QueueRecord, members: Option<Vec<ReplicaId>>) -> Plan {
    let command = members.map(|members| set_members(record.id(), &members, Some(members.len())));
    Plan {
        queues: usize::from(command.is_some()),
        commands: command.into_iter().collect(),
        goal: None,
    }
}

/// Sets a queue's members; `size` is how many it is to have from now on, where that changes.
fn set_members(queue: QueueId, members: &[ReplicaId], size: Option<usize>) -> Command {
    Command::QueueMembers {
        id: queue.0,
        members: members.iter().map(|member| member.0).collect(),
        size: size.and_then(|size| u32::try_from(size).ok()),
    }
}
