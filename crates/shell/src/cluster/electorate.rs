//! Which of the nodes that vote can agree on something, as one node sees it.

use crate::broker::Broker;
use leveret_cluster::Env;
use leveret_types::NodeId;
use std::fmt::{self, Display, Formatter};

/// The voting nodes of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Electorate {
    voters: usize,
    /// Those of them that are up, as far as this node knows, and whose data are no older copy.
    counted: usize,
    is_majority: bool,
    own: Standing,
    /// Names of other voters whose data folders are older copies.
    outdated: Vec<String>,
}

/// How the node itself takes part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Standing {
    /// It does not vote.
    #[default]
    Other,
    Counted,
    /// Its data folder is an older copy of itself.
    Outdated,
}

impl Electorate {
    /// As a node sees it; nothing outside clusters.
    #[must_use]
    pub fn seen_by(broker: &Broker) -> Option<Self> {
        let cluster = broker.cluster()?;
        let (own, peers) = (broker.node_id(), broker.peers());
        let is_old = cluster.missing_start().is_some();
        let is_outdated = |node: NodeId| match node == own {
            true => is_old,
            false => peers.is_outdated(node),
        };
        let is_counted = |node: NodeId| (node == own || peers.is_up(node)) && !is_outdated(node);
        let membership = cluster.status().membership;
        let voters: Vec<NodeId> = membership.voters.iter().map(|voter| voter.node()).collect();
        let outdated = voters.iter().copied();
        let outdated = outdated.filter(|node| *node != own && is_outdated(*node));
        let outdated: Vec<NodeId> = outdated.collect();
        let catalogue = broker.catalogue();
        let name = |node: NodeId| {
            let known = catalogue.node_label(node);
            known.unwrap_or_else(|| format!("node {node}"))
        };
        Some(Self {
            voters: voters.len(),
            counted: voters.iter().filter(|node| is_counted(**node)).count(),
            is_majority: membership.has_majority(|voter| is_counted(voter.node())),
            own: match voters.contains(&own) {
                _ if is_old => Standing::Outdated,
                true => Standing::Counted,
                false => Standing::Other,
            },
            outdated: outdated.into_iter().map(name).collect(),
        })
    }

    /// Whether they can agree on anything.
    #[must_use]
    pub const fn is_majority(&self) -> bool {
        self.is_majority
    }
}

impl Display for Electorate {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.voters {
            0 => f.write_str("this node has not heard yet which nodes of the cluster vote")?,
            voters => {
                let counted = self.counted;
                write!(
                    f,
                    "{counted} of the cluster's {voters} voting nodes can be counted"
                )?;
                if self.own == Standing::Counted {
                    f.write_str(", this one included")?;
                }
                match self.is_majority {
                    true => f.write_str(
                        ", which is a majority: they have not chosen a leader yet, or have not \
                         reached this node",
                    )?,
                    false => write!(f, ", where {} are a majority", voters / 2 + 1)?,
                }
            }
        }
        if self.own == Standing::Outdated {
            f.write_str("; this one does not count, as its data folder is an older copy")?;
        }
        for name in &self.outdated {
            write!(
                f,
                "; {name} does not count, as its data folder is an older copy"
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_says_what_is_so_in_each_state() {
        let alone = Electorate {
            voters: 3,
            counted: 1,
            own: Standing::Counted,
            ..Electorate::default()
        };
        let text = "1 of the cluster's 3 voting nodes can be counted, this one included, where 2 \
                    are a majority";
        assert_eq!(alone.to_string(), text);
        // Two of three are up, and one of these has data that nobody may build on.
        let outdated = Electorate {
            own: Standing::Outdated,
            ..alone.clone()
        };
        let text = "1 of the cluster's 3 voting nodes can be counted, where 2 are a majority; \
                    this one does not count, as its data folder is an older copy";
        assert_eq!(outdated.to_string(), text);
        let beside = Electorate {
            outdated: vec!["rabbit@b".to_owned()],
            ..alone
        };
        let text = "1 of the cluster's 3 voting nodes can be counted, this one included, where 2 \
                    are a majority; rabbit@b does not count, as its data folder is an older copy";
        assert_eq!(beside.to_string(), text);
        let half = Electorate {
            voters: 4,
            counted: 2,
            own: Standing::Counted,
            ..Electorate::default()
        };
        assert!(half.to_string().ends_with("where 3 are a majority"));
        let leaderless = Electorate {
            voters: 3,
            counted: 2,
            is_majority: true,
            own: Standing::Counted,
            outdated: Vec::new(),
        };
        let text = "2 of the cluster's 3 voting nodes can be counted, this one included, which is \
                    a majority: they have not chosen a leader yet, or have not reached this node";
        assert_eq!(leaderless.to_string(), text);
        let new = Electorate::default().to_string();
        assert_eq!(
            new,
            "this node has not heard yet which nodes of the cluster vote"
        );
    }
}
