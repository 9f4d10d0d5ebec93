//! The recipient of an operation's outcome, where another node commits it.

use crate::effects::{Deferred, ShardEffects, Then};
use crate::events::QueueEvent;
use crate::missing::Missing;
use leveret_types::{ConnectionId, QueueId};
use std::sync::Arc;

/// Who is to hear of an operation's end.
#[derive(Clone, Debug)]
pub enum Notify {
    /// Nobody.
    Nobody,
    /// A connection, whose client waits for its confirm.
    Connection(ConnectionId),
    /// What is to be done once a message is in all its new queues.
    Then(Arc<Afterwards>),
}

impl Notify {
    /// The same for one more place, which is to be told of.
    pub(crate) fn one_more(&self) -> Self {
        if let Self::Then(then) = self {
            then.more();
        }
        self.clone()
    }

    /// A queue has what was done to it under this number.
    pub(crate) fn committed(self, queue: QueueId, through: u64, effects: &mut ShardEffects) {
        match self {
            Self::Nobody => {}
            Self::Connection(connection) => {
                let committed = QueueEvent::Committed { queue, through };
                effects.posts.push((connection, committed));
            }
            Self::Then(then) => effects.deferred.extend(then.filled()),
        }
    }

    /// A queue refuses what was done to it under this number.
    pub(crate) fn refused(self, queue: QueueId, number: u64, effects: &mut ShardEffects) {
        match self {
            Self::Nobody => {}
            Self::Connection(connection) => {
                let sequences = number..number + 1;
                let refused = QueueEvent::Refused { queue, sequences };
                effects.posts.push((connection, refused));
            }
            Self::Then(then) => {
                then.refuse();
                effects.deferred.extend(then.filled());
            }
        }
    }
}

/// What is to be done once a message is in all the queues that it was put into.
#[derive(Debug)]
pub struct Afterwards {
    /// The queues that it is not in yet.
    missing: Missing,
    then: Then,
    is_publish: bool,
}

impl Afterwards {
    /// With one place missing, which whoever puts the message into queues fills at the end.
    pub fn new(then: Then) -> Arc<Self> {
        Arc::new(Self {
            missing: Missing::one(),
            then,
            is_publish: false,
        })
    }

    /// The same for what is published: no queue has it yet, whose message would be lost with a
    /// place that is gone.
    pub fn of_publish() -> Arc<Self> {
        Arc::new(Self {
            missing: Missing::one(),
            then: Then::Nothing,
            is_publish: true,
        })
    }

    /// Whether this is of a message that no queue has yet.
    pub(crate) const fn is_publish(&self) -> bool {
        self.is_publish
    }

    /// One more place is missing.
    pub(crate) fn more(&self) {
        self.missing.more();
    }

    /// A place does not take the message; it counts as filled all the same.
    pub fn refuse(&self) {
        self.missing.refuse();
    }

    /// Whether all places have taken the message; none while one is missing.
    pub fn outcome(&self) -> Option<bool> {
        self.missing.outcome()
    }

    /// A place is filled; what is to be done if it was the last.
    pub fn filled(&self) -> Option<Deferred> {
        let taken = self.missing.fill()?;
        Some(Deferred::Afterwards {
            then: self.then.clone(),
            refused: !taken,
        })
    }
}
