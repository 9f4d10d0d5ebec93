//! The steps behind an answer: what follows when the catalogue has changed, or a queue has told how
//! it stands.

use super::Caller;
use super::step::{Redeclaration, Step, StepAnswer, Then, counts_of, declaration};
use crate::counters::add;
use crate::env::{Env, LogPosition, QueueAnswer};
use leveret_client::Reply;
use leveret_metadata::{Command, Outcome};
use leveret_queue_host::quorum::protocol::QueueCounts;
use leveret_queue_host::shard::unavailable;
use leveret_types::{Now, ProtocolError, ReplyCode};

impl Caller {
    fn declared<E: Env>(
        &self,
        again: Redeclaration,
        outcome: &Outcome,
        log_position: Option<LogPosition>,
        env: &E,
    ) -> Result<Step, ProtocolError> {
        let gone = || ProtocolError::channel(ReplyCode::NotFound, "the queue is gone already");
        let queue = outcome.queue.ok_or_else(gone)?;
        let found = env
            .catalogue()
            .queue(queue)
            .map(|record| record.name().to_owned());
        let Some(name) = found else {
            // Somebody has deleted it since: whoever declares a queue is to have one.
            let left = again.left.checked_sub(1).ok_or_else(gone)?;
            return Ok(declaration(again.command, left));
        };
        add(&env.counters().queues_declared, 1);
        if outcome.created {
            let reply = Reply::Queue {
                name,
                messages: 0,
                consumers: 0,
            };
            return Ok(Step::Answered(reply, log_position));
        }
        Ok(counts_of(queue, name, log_position))
    }

    /// Goes on where a step was answered.
    ///
    /// # Errors
    /// What the caller is told.
    pub(crate) fn resume<E: Env>(
        &self,
        then: Then,
        answer: StepAnswer,
        now: Now,
        env: &E,
    ) -> Result<Step, ProtocolError> {
        match (then, answer) {
            (Then::Done, StepAnswer::Changed(_, log_position)) => {
                Ok(Step::Answered(Reply::Done, log_position))
            }
            (Then::Declared(again), StepAnswer::Changed(outcome, log_position)) => {
                self.declared(*again, &outcome, log_position, env)
            }
            (Then::Deleted(ready), StepAnswer::Changed(_, log_position)) => {
                Ok(Step::Answered(Reply::Count(clamped(ready)), log_position))
            }
            (
                Then::Counted {
                    queue,
                    name,
                    log_position,
                },
                StepAnswer::Answer(answer),
            ) => {
                // To declare a queue is to use it, passively as well.
                env.with_shard(now, env.shard_of(queue), |shard| shard.touch(now, queue));
                let queue_counts = match answer {
                    QueueAnswer::Counted(queue_counts) => queue_counts,
                    // What is known of it still answers.
                    _ => env.with_shard(now, env.shard_of(queue), |s| {
                        s.last_queue_counts(now, queue)
                    }),
                };
                let reply = Reply::Queue {
                    name,
                    messages: clamped(queue_counts.ready),
                    consumers: clamped(queue_counts.consumers),
                };
                Ok(Step::Answered(reply, log_position))
            }
            (Then::Deletable { queue, name, only }, StepAnswer::Answer(answer)) => {
                let queue_counts = match answer {
                    QueueAnswer::Counted(queue_counts) => queue_counts,
                    _ if only.if_unused || only.if_empty => return Err(unavailable()),
                    _ => QueueCounts::default(),
                };
                let refuse = |why: &str| {
                    let text = format!("queue '{name}' in vhost '{}' {why}", self.vhost);
                    Err(ProtocolError::channel(ReplyCode::PreconditionFailed, text))
                };
                if only.if_unused && queue_counts.consumers > 0 {
                    return refuse("in use");
                }
                if only.if_empty && queue_counts.ready > 0 {
                    return refuse("not empty");
                }
                let command = Command::QueueDelete {
                    vhost: self.vhost.clone(),
                    name,
                    connection: Some(self.connection.0),
                    id: Some(queue.0),
                };
                Ok(Step::Change {
                    command,
                    then: Then::Deleted(queue_counts.ready),
                })
            }
            (Then::Purged, StepAnswer::Answer(QueueAnswer::Purged(count))) => {
                Ok(Step::Answered(Reply::Count(clamped(count)), None))
            }
            (_, StepAnswer::Answer(_)) => Err(unavailable()),
            (then, StepAnswer::Changed(..)) => unreachable!("a change is followed by {then:?}"),
        }
    }
}

fn clamped(count: u64) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
