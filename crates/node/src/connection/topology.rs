//! Declarations, bindings and deletions: of a client, or of an operator who comes in through the
//! management interface.
//!
//! An operation is a few [`Step`]s: look, change the catalogue, ask a queue. On a node alone each
//! is answered at once; in a cluster the answer to a step may come later.

mod begin;
mod resume;
mod step;

pub use step::{Question, Step, StepAnswer, Then};

use super::Connection;
use crate::cluster;
use crate::env::{Env, LogPosition, Proposal, QueueAnswer};
use crate::growth;
use crate::quorum::Asker;
use leveret_auth::Rights;
use leveret_metadata::{Catalogue, CatalogueError, Command};
use leveret_session::contract::{Reply, Topology};
use leveret_types::{ConnectionId, Now, ProtocolError, QueueId};

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

impl Connection {
    /// The queue of that name, if no other connection has it for itself.
    pub(super) fn usable_queue(
        &self,
        catalogue: &Catalogue,
        name: &str,
    ) -> Result<QueueId, ProtocolError> {
        Ok(catalogue
            .usable_queue(self.login.vhost_name(), name, self.id)?
            .id())
    }

    /// Changes the catalogue; what would change nothing needs no majority.
    pub(super) fn propose<E: Env>(
        &self,
        now: Now,
        command: &Command,
        env: &E,
    ) -> Result<Proposal, CatalogueError> {
        growth::permit(command, env)?;
        match cluster::known_without_majority(command, env) {
            Some(executed) => Ok(Proposal::Done(executed)),
            None => env.propose(now, self.id, command),
        }
    }

    /// Queues that only this connection could use go with it.
    pub(super) fn delete_exclusive_queues<E: Env>(&mut self, now: Now, env: &E) {
        if !std::mem::take(&mut self.has_exclusive) {
            return;
        }
        let owned: Vec<Command> = {
            let catalogue = env.catalogue();
            catalogue
                .exclusive_queues(self.id)
                .iter()
                .map(|queue| queue.deletion())
                .collect()
        };
        for command in owned {
            // Nobody waits for the answer.
            if let Err(error) = env.propose(now, self.id, &command) {
                tracing::warn!(connection = %self.name, %error, "cannot delete an exclusive queue");
            }
        }
    }
}

impl Caller {
    /// Carries a declaration, binding or deletion of an operator out, without waiting for queues
    /// whose leader is elsewhere. Nothing may be borrowed.
    ///
    /// # Errors
    /// What the caller is told, with the class and method to blame.
    pub fn topology<E: Env>(
        &self,
        operation: Topology,
        now: Now,
        env: &E,
    ) -> Result<Answer, ProtocolError> {
        self.topology_asking(operation, now, env, |queue, question| {
            let asker = Asker::Poll(env.consumer_id().0);
            let answer = question.ask(queue, asker, now, env);
            answer.unwrap_or(QueueAnswer::Unavailable)
        })
    }

    /// The same; what is asked of a queue is left to `ask`, which may take its time.
    ///
    /// # Errors
    /// See [`Self::topology`].
    pub fn topology_asking<E: Env>(
        &self,
        operation: Topology,
        now: Now,
        env: &E,
        mut ask: impl FnMut(QueueId, Question) -> QueueAnswer,
    ) -> Result<Answer, ProtocolError> {
        let blame = ids(&operation);
        let mut step = self.begin(operation, env);
        loop {
            step = match step.map_err(|error| blamed(error, blame))? {
                Step::Answered(reply, log_position) => return Ok((reply, log_position)),
                Step::Change { command, then } => growth::permit(&command, env)
                    .and_then(|()| {
                        cluster::known_without_majority(&command, env)
                            .map_or_else(|| env.execute(now, &command), Ok)
                    })
                    .map_err(ProtocolError::from)
                    .and_then(|executed| {
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
}

/// An error that names its method.
pub(super) fn blamed(error: ProtocolError, (class, method): (u16, u16)) -> ProtocolError {
    match error.class {
        0 => error.at(class, method),
        _ => error,
    }
}

/// Class and method of an operation, for errors that blame it.
pub(super) fn ids(operation: &Topology) -> (u16, u16) {
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
