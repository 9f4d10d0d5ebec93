//! The cluster's catalogue, which never fails here: members, leader and epoch of the stream, and
//! whoever elects.

use leveret_stream::replica::{Answer, Epoch, choose};
use leveret_stream::{LogPosition, ReplicaOrder};
use leveret_types::NodeId;

/// An election that is going on.
pub struct Election {
    pub epoch: Epoch,
    pub answers: Vec<Answer>,
}

pub struct Catalogue {
    pub epoch: Epoch,
    pub leader: NodeId,
    pub members: Vec<NodeId>,
    /// A node that copies and is no member yet.
    pub learner: Option<NodeId>,
    /// Counts changes.
    pub version: u64,
    pub election: Option<Election>,
    /// The newest epoch that was heard of.
    pub promised: Epoch,
}

impl Catalogue {
    pub fn new(members: &[NodeId]) -> Self {
        Self {
            epoch: Epoch(1),
            leader: members[0],
            members: members.to_vec(),
            learner: None,
            version: 1,
            election: None,
            promised: Epoch(1),
        }
    }

    pub fn has(&self, node: NodeId) -> bool {
        self.members.contains(&node) || self.learner == Some(node)
    }

    pub fn order(&self, node: NodeId) -> ReplicaOrder {
        let epoch = self.epoch;
        if node == self.leader {
            let members = self.members.clone();
            return ReplicaOrder::Lead { epoch, members };
        }
        let leader = self.leader;
        ReplicaOrder::Follow { epoch, leader }
    }

    /// The epoch that members are to prepare.
    pub fn begin_election(&mut self) -> Epoch {
        let epoch = self.epoch.max(self.promised).next();
        self.promised = epoch;
        self.election = Some(Election {
            epoch,
            answers: Vec::new(),
        });
        epoch
    }

    /// Takes an answer; true if there is a new leader.
    pub fn take(&mut self, answer: Answer, asked: Epoch, ignores_log_epoch: bool) -> bool {
        self.promised = self.promised.max(answer.promised);
        let Some(election) = self.election.as_mut().filter(|e| e.epoch == asked) else {
            return false;
        };
        election.answers.retain(|other| other.node != answer.node);
        election.answers.push(if ignores_log_epoch {
            let log_epoch = Epoch(0);
            let position = LogPosition {
                log_epoch,
                ..answer.position
            };
            Answer { position, ..answer }
        } else {
            answer
        });
        let chosen = choose(election.epoch, &self.members, &election.answers, &[]);
        let Some(leader) = chosen else {
            return false;
        };
        self.epoch = election.epoch;
        self.leader = leader;
        self.version += 1;
        self.election = None;
        true
    }
}
