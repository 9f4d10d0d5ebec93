//! What a connection has asked of the cluster, and goes on with when it is answered.
//!
//! A session asks one thing at a time. What cannot be answered at once is remembered here: a change
//! of the catalogue that the cluster decides, or a question to a queue whose leader may be
//! elsewhere.

use super::Connection;
use super::asked::{Asked, Operation, Waits};
use super::retry::Retry;
use crate::env::{Env, Proposal, ProposalId, QueueAnswer};
use crate::topology::{Caller, Step, StepAnswer, blamed, ids};
use leveret_client::{Reply, Session, Topology};
use leveret_metadata::{CatalogueError, Outcome};
use leveret_queue_host::queue_host::Asker;
use leveret_queue_host::shard::unavailable;
use leveret_types::{ConsumerId, Now, ProtocolError, QueueId, ReplyCode};

/// Whether an operation has come to its end because something does not exist: the deletion of a
/// queue, or of a binding of one, is content with that.
fn is_unknown(operation: &Topology, step: &Result<Step, ProtocolError>) -> bool {
    match step {
        Err(error) => error.code == ReplyCode::NotFound,
        Ok(Step::Answered(..)) => matches!(
            operation,
            Topology::QueueDelete { .. } | Topology::QueueUnbind { .. }
        ),
        Ok(_) => false,
    }
}

impl<S: Session> Connection<S> {
    pub(super) fn topology<E: Env>(&mut self, topology: Topology, now: Now, env: &E) {
        let declares_exclusive = matches!(
            &topology,
            Topology::QueueDeclare {
                exclusive: true,
                ..
            }
        );
        let operation = Operation {
            caller: self.caller(env),
            blame: ids(&topology),
            declares_exclusive,
        };
        let again = self.may_await_barrier(env).then(|| topology.clone());
        let step = operation.caller.begin(topology, env);
        if let Some(again) = again
            && is_unknown(&again, &step)
            && self.await_barrier(|| Retry::Topology(again), env)
        {
            return;
        }
        self.go_on(operation, step, now, env);
    }

    /// This connection as a caller.
    fn caller<E: Env>(&mut self, env: &E) -> Caller {
        Caller {
            connection: self.identity.id,
            vhost: self.login.vhost_name().to_owned(),
            rights: Some(self.login.rights(&env.catalogue()).clone()),
        }
    }

    /// Takes steps until one waits for an answer.
    fn go_on<E: Env>(
        &mut self,
        operation: Operation,
        mut step: Result<Step, ProtocolError>,
        now: Now,
        env: &E,
    ) {
        let caller = &operation.caller;
        loop {
            let (waits, then) = match step {
                Err(error) => return self.fail(now, blamed(error, operation.blame)),
                Ok(Step::Answered(reply, log_position)) => {
                    self.has_exclusive |= operation.declares_exclusive;
                    return self.reply_when_durable(now, log_position, reply, env);
                }
                Ok(Step::Change { command, then }) => match self.propose(now, &command, env) {
                    Err(error) => return self.fail(now, blamed(error.into(), operation.blame)),
                    Ok(Proposal::Done(executed)) => {
                        let changed = StepAnswer::Changed(executed.outcome, executed.log_position);
                        step = caller.resume(then, changed, now, env);
                        continue;
                    }
                    Ok(Proposal::Waiting(id)) => (Waits::Proposal(id), then),
                },
                Ok(Step::Ask {
                    queue,
                    question,
                    then,
                }) => {
                    let asker = Asker::Connection(self.identity.id);
                    let answer = question.ask(queue, asker, now, env);
                    match answer {
                        Some(answer) => {
                            step = caller.resume(then, StepAnswer::Answer(answer), now, env);
                            continue;
                        }
                        None => (Waits::Queue(queue), then),
                    }
                }
            };
            self.pending.asked = Some(Asked {
                operation,
                waits,
                then,
            });
            return;
        }
    }

    /// The cluster has carried out a change, or refused it.
    pub(super) fn executed<E: Env>(
        &mut self,
        id: ProposalId,
        result: Result<Outcome, CatalogueError>,
        now: Now,
        env: &E,
    ) {
        let Some(asked) = self
            .pending
            .asked
            .take_if(|asked| asked.waits == Waits::Proposal(id))
        else {
            return;
        };
        let Asked {
            operation, then, ..
        } = asked;
        let step = result.map_err(ProtocolError::from).and_then(|outcome| {
            let changed = StepAnswer::Changed(outcome, None);
            operation.caller.resume(then, changed, now, env)
        });
        self.go_on(operation, step, now, env);
    }

    /// A queue of the cluster has answered.
    pub(super) fn answered<E: Env>(
        &mut self,
        queue: QueueId,
        answer: QueueAnswer,
        now: Now,
        env: &E,
    ) {
        if let Some(asked) = self
            .pending
            .asked
            .take_if(|asked| asked.waits == Waits::Queue(queue))
        {
            let Asked {
                operation, then, ..
            } = asked;
            let answer = StepAnswer::Answer(answer);
            let step = operation.caller.resume(then, answer, now, env);
            return self.go_on(operation, step, now, env);
        }
        match answer {
            QueueAnswer::Attached { consumer, result } => {
                self.consumers.attaching = None;
                match result {
                    Ok(()) => self.reply(now, Reply::Consuming { consumer }),
                    Err(error) => {
                        let name = self.forget_consumer(consumer, env);
                        let error = self.attach_error(Some(error), &name);
                        self.fail(now, error);
                    }
                }
            }
            QueueAnswer::Got(got) => {
                let got =
                    got.map(|(delivery, left)| (delivery, u32::try_from(left).unwrap_or(u32::MAX)));
                let reply = Reply::Got(got);
                self.trace_got(&reply, env);
                self.reply(now, reply);
            }
            QueueAnswer::Unavailable => {
                if let Some(consumer) = self.consumers.attaching.take() {
                    self.forget_consumer(consumer, env);
                }
                let error = self.unavailable(queue, env);
                self.fail(now, error);
            }
            QueueAnswer::Purged(_) | QueueAnswer::Counted(_) | QueueAnswer::Peeked(_) => {}
        }
    }

    /// A consumer that could not be attached; answers the name of its queue.
    fn forget_consumer<E: Env>(&mut self, consumer: ConsumerId, env: &E) -> String {
        let queue = self.consumers.remove(consumer).and_then(|of| of.queue);
        let catalogue = env.catalogue();
        let record = queue.and_then(|queue| catalogue.queue(queue));
        record.map_or_else(String::new, |record| record.name().to_owned())
    }

    /// Why a queue does not answer: its only node is down, or it has no leader.
    fn unavailable<E: Env>(&self, queue: QueueId, env: &E) -> ProtocolError {
        let catalogue = env.catalogue();
        let vhost = self.login.vhost_name();
        match catalogue.queue(queue) {
            None => {
                ProtocolError::channel(ReplyCode::NotFound, format!("no queue in vhost '{vhost}'"))
            }
            Some(record) if record.members().is_empty() => ProtocolError::channel(
                ReplyCode::NotFound,
                format!(
                    "home node '{}' of queue '{}' in vhost '{vhost}' is down or inaccessible",
                    record.home(),
                    record.name(),
                ),
            ),
            Some(_) => unavailable(),
        }
    }
}
