//! Who hears of the end of what was done to a queue that commits it elsewhere.

use crate::effects::{Deferred, ShardEffects, Then};
use crate::events::ConnectionEvent;
use leveret_types::{ConnectionId, QueueId};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Who is to hear of an operation's end.
#[derive(Clone, Debug)]
pub(crate) enum Notify {
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
                let committed = ConnectionEvent::Committed { queue, through };
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
                let refused = ConnectionEvent::Refused { queue, sequences };
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
pub(crate) struct Afterwards {
    /// In how many it is not yet.
    missing: AtomicU32,
    /// Whether one of them has refused it.
    refused: AtomicBool,
    then: Then,
}

impl Afterwards {
    /// With one place missing, which whoever puts the message into queues fills at the end.
    pub(crate) fn new(then: Then) -> Arc<Self> {
        Arc::new(Self {
            missing: AtomicU32::new(1),
            refused: AtomicBool::new(false),
            then,
        })
    }

    /// One more place is missing.
    pub(crate) fn more(&self) {
        self.missing.fetch_add(1, Ordering::Relaxed);
    }

    /// A place does not take the message; it counts as filled all the same.
    pub(crate) fn refuse(&self) {
        self.refused.store(true, Ordering::Release);
    }

    /// Whether all places have taken the message; none while one is missing.
    pub(crate) fn outcome(&self) -> Option<bool> {
        let all = self.missing.load(Ordering::Acquire) == 0;
        all.then(|| !self.refused.load(Ordering::Acquire))
    }

    /// A place is filled; what is to be done if it was the last.
    pub(crate) fn filled(&self) -> Option<Deferred> {
        let last = self.missing.fetch_sub(1, Ordering::AcqRel) == 1;
        last.then(|| Deferred::Afterwards {
            then: self.then.clone(),
            refused: self.refused.load(Ordering::Acquire),
        })
    }
}
