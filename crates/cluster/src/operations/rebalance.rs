//! The leaders of many groups, moved one after the other.

use super::{Refused, set_members};
use leveret_metadata::{CatalogueError, Command};
use leveret_types::{NodeId, QueueId, ReplicaId};

/// Moves of leaders, one after the other: who is to lead is written down before its leader is asked
/// to hand over.
#[derive(Clone, Debug)]
pub struct Rebalance {
    due: std::vec::IntoIter<(QueueId, Vec<ReplicaId>)>,
    moved: usize,
}

/// One of them.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupMove {
    /// The queue or stream.
    pub queue: QueueId,
    /// The node that is to lead it.
    pub to: NodeId,
    /// What is to be carried out first.
    pub command: Command,
}

impl Rebalance {
    pub(super) fn new(moves: Vec<(QueueId, Vec<ReplicaId>)>) -> Self {
        Self {
            due: moves.into_iter(),
            moved: 0,
        }
    }

    /// What is next.
    pub fn next_move(&mut self) -> Option<GroupMove> {
        let (queue, members) = self.due.next()?;
        Some(GroupMove {
            queue,
            to: members.first()?.node(),
            command: set_members(queue, &members, None),
        })
    }

    /// The command of a move was carried out, or not: whether the leader is to be asked to hand
    /// over now. A queue that has been deleted meanwhile (`exists` is false) is passed over.
    ///
    /// # Errors
    /// Nothing more is moved.
    pub fn executed(
        &mut self,
        result: Result<(), CatalogueError>,
        exists: impl FnOnce() -> bool,
    ) -> Result<bool, Refused> {
        match result {
            Ok(()) => {
                self.moved += 1;
                Ok(true)
            }
            Err(_) if !exists() => Ok(false),
            Err(error) => Err(Refused::Interrupted {
                error,
                moved: self.moved,
            }),
        }
    }

    /// How many leaders were moved.
    #[must_use]
    pub const fn moved(&self) -> usize {
        self.moved
    }
}
