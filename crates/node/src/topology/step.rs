//! The steps that an operation is made of, as data: what is asked, and what follows the answer,
//! which may come much later and from another node.

use crate::env::{Env, LogPosition, QueueAnswer};
use leveret_client::Reply;
use leveret_metadata::{Command, Outcome};
use leveret_queue_host::queue_host::Asker;
use leveret_types::{Now, QueueId};

/// How far an operation is.
#[derive(Debug)]
pub enum Step {
    /// It is answered, and when what the answer tells of is durable.
    Answered(Reply, Option<LogPosition>),
    /// The catalogue is to be changed.
    Change {
        /// How.
        command: Command,
        /// What follows.
        then: Then,
    },
    /// A queue is to be asked.
    Ask {
        /// The queue.
        queue: QueueId,
        /// What.
        question: Question,
        /// What follows.
        then: Then,
    },
}

/// What a queue is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// To drop all ready messages.
    Purge,
    /// How it stands.
    Count,
    /// For the ready message that has so many before it.
    Peek(u64),
}

impl Question {
    /// Asks a queue; nothing if the asker will hear.
    pub fn ask<E: Env>(
        self,
        queue: QueueId,
        asker: Asker,
        now: Now,
        env: &E,
    ) -> Option<QueueAnswer> {
        env.with_shard(now, env.shard_of(queue), |shard| match self {
            Self::Purge => shard.purge(now, queue, asker),
            Self::Count => shard.queue_counts(now, queue, asker),
            Self::Peek(before) => shard.peek(now, queue, asker, before),
        })
    }
}

/// A declaration of a queue that is made again if somebody deletes the queue before the declaration
/// is answered.
#[derive(Debug)]
pub struct Redeclaration {
    pub(super) command: Command,
    /// How often it may be made again.
    pub(super) left: u8,
}

/// On what condition a queue is deleted.
#[derive(Clone, Copy, Debug)]
pub struct DeleteOnly {
    /// Without consumers.
    pub(super) if_unused: bool,
    /// Without messages.
    pub(super) if_empty: bool,
}

/// What follows a step.
#[derive(Debug)]
pub enum Then {
    /// It is done.
    Done,
    /// A queue was declared: its counts are looked up.
    Declared(Box<Redeclaration>),
    /// The counts of this queue are the answer.
    Counted {
        /// Its id.
        queue: QueueId,
        /// Its name.
        name: String,
        /// When its declaration is durable.
        log_position: Option<LogPosition>,
    },
    /// Counts decide whether a queue may be deleted.
    Deletable {
        /// Its id.
        queue: QueueId,
        /// Its name.
        name: String,
        /// On what condition.
        only: DeleteOnly,
    },
    /// A queue was deleted that had so many messages.
    Deleted(u64),
    /// A queue was purged.
    Purged,
}

/// What a step that could not be answered at once was answered.
#[derive(Debug)]
pub enum StepAnswer {
    /// The catalogue has changed.
    Changed(Outcome, Option<LogPosition>),
    /// The queue has answered.
    Answer(QueueAnswer),
}

/// A step that changes the catalogue, after which all is done.
pub(super) const fn change(command: Command) -> Step {
    Step::Change {
        command,
        then: Then::Done,
    }
}

/// A step that asks a queue how it stands: the answer to a declaration.
pub(super) const fn counts_of(
    queue: QueueId,
    name: String,
    log_position: Option<LogPosition>,
) -> Step {
    Step::Ask {
        queue,
        question: Question::Count,
        then: Then::Counted {
            queue,
            name,
            log_position,
        },
    }
}

/// A step that declares a queue, and does so again up to `left` times if it is deleted meanwhile.
pub(super) fn declaration(command: Command, left: u8) -> Step {
    let again = Redeclaration {
        command: command.clone(),
        left,
    };
    Step::Change {
        command,
        then: Then::Declared(Box::new(again)),
    }
}
