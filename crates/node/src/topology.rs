//! Declarations, bindings and deletions: of a client, or of an operator who comes in through the
//! management interface.
//!
//! An operation is a few [`Step`]s: look, change the catalogue, ask a queue. On a node alone each
//! is answered at once; in a cluster the answer to a step may come later.

mod begin;
mod resume;
mod step;

pub use step::{Question, Step, StepAnswer, Then};

use crate::env::{Env, LogPosition, QueueAnswer};
use crate::memory_permit;
use leveret_auth::{Access, Rights};
use leveret_client::{Reply, Topology};
use leveret_metadata::{Command, QueueKind, QueueRecord};
use leveret_types::{ConnectionId, Now, ProtocolError, QueueId, ReplyCode};

/// On whose behalf something is done.
#[derive(Clone, Debug)]
pub struct Caller {
    /// The connection, which may use exclusive queues of its own.
    pub connection: ConnectionId,
    /// The virtual host.
    pub vhost: String,
    /// What may be done; everything for an operator.
    pub rights: Option<Rights>,
}

/// An answer, and when what it tells of is durable.
pub type Answer = (Reply, Option<LogPosition>);

/// What came of an operation of an operator.
#[derive(Debug)]
pub struct Carried {
    /// The answer.
    pub reply: Reply,
    /// When what it tells of is durable.
    pub log_position: Option<LogPosition>,
    /// Whether what was declared was not there: this operation, and no other one, made it.
    pub created: bool,
    /// The queue that was declared.
    pub queue: Option<QueueId>,
}

impl Caller {
    /// Carries a declaration, binding or deletion of an operator out; what is asked of a queue is
    /// left to `ask`, which may take its time. Nothing may be borrowed.
    ///
    /// # Errors
    /// What the caller is told, with the class and method to blame.
    pub fn topology_asking<E: Env>(
        &self,
        operation: Topology,
        now: Now,
        env: &E,
        mut ask: impl FnMut(QueueId, Question) -> QueueAnswer,
    ) -> Result<Carried, ProtocolError> {
        let blame = ids(&operation);
        let mut step = self.begin(operation, env);
        let (mut created, mut declared) = (false, None);
        loop {
            step = match step.map_err(|error| blamed(error, blame))? {
                Step::Answered(reply, log_position) => {
                    return Ok(Carried {
                        reply,
                        log_position,
                        created,
                        queue: declared,
                    });
                }
                Step::Change { command, then } => memory_permit::permit(&command, env)
                    .and_then(|()| {
                        leveret_cluster::known_without_majority(&command, env)
                            .unwrap_or_else(|| env.execute(now, &command))
                    })
                    .map_err(ProtocolError::from)
                    .and_then(|executed| {
                        (created, declared) = (executed.outcome.created, executed.outcome.queue);
                        let changed = StepAnswer::Changed(executed.outcome, executed.log_position);
                        self.resume(then, changed, now, env)
                    }),
                Step::Ask {
                    queue,
                    question,
                    then,
                } => {
                    let answer = ask(queue, question);
                    self.resume(then, StepAnswer::Answer(answer), now, env)
                }
            };
        }
    }

    /// Deletes a queue, whatever it holds, if it is this one: another one that has come to its name
    /// stays.
    ///
    /// # Errors
    /// If the caller may not configure a queue of that name, or the catalogue cannot be changed.
    pub fn delete_this_queue<E: Env>(
        &self,
        name: &str,
        queue: QueueId,
        now: Now,
        env: &E,
    ) -> Result<Option<LogPosition>, ProtocolError> {
        self.permit_queue(Access::Configure, name)?;
        let command = Command::QueueDelete {
            vhost: self.vhost.clone(),
            name: name.to_owned(),
            connection: Some(self.connection.0),
            id: Some(queue.0),
        };
        Ok(env.execute(now, &command)?.log_position)
    }
}

/// An error that names its method.
pub(crate) fn blamed(error: ProtocolError, (class, method): (u16, u16)) -> ProtocolError {
    match error.class {
        0 => error.at(class, method),
        _ => error,
    }
}

/// Class and method of an operation, for errors that blame it.
pub(crate) fn ids(operation: &Topology) -> (u16, u16) {
    match operation {
        Topology::ExchangeDeclare { .. } => (40, 10),
        Topology::ExchangeDelete { .. } => (40, 20),
        Topology::ExchangeBind { .. } => (40, 30),
        Topology::ExchangeUnbind { .. } => (40, 40),
        Topology::QueueDeclare { .. } => (50, 10),
        Topology::QueueBind { .. } => (50, 20),
        Topology::QueuePurge { .. } => (50, 30),
        Topology::QueueDelete { .. } => (50, 40),
        Topology::QueueUnbind { .. } => (50, 50),
    }
}

/// A quorum queue with a single active consumer gives its messages to consumers alone.
///
/// # Errors
/// As RabbitMQ has it.
pub(crate) fn may_get(queue: &QueueRecord) -> Result<(), ProtocolError> {
    let is_refused = queue.kind() == QueueKind::Quorum && queue.settings().single_active;
    let refused = || {
        ProtocolError::channel(
            ReplyCode::ResourceLocked,
            format!(
                "cannot obtain access to locked {}. basic.get operations are not supported by \
                 quorum queues with single active consumer",
                queue.resource()
            ),
        )
    };
    (!is_refused).then_some(()).ok_or_else(refused)
}
