//! Declarations, bindings and deletions: of a client, or of an operator who comes in through the
//! management interface.
//!
//! An operation is a few [`Step`]s: look, change the catalogue, ask a queue. On a node alone each
//! is answered at once; in a cluster the answer to a step may come later.

use super::Connection;
use crate::counters::add;
use crate::env::{Env, QueueAnswer, Ticket};
use crate::quorum::Asker;
use crate::quorum::link::Standing;
use crate::shard::unavailable;
use leveret_auth::{Access, Resource, Rights};
use leveret_metadata::{Catalogue, Command, Endpoint, Outcome};
use leveret_routing::Kind;
use leveret_session::contract::{Reply, Topology};
use leveret_types::{ConnectionId, FieldTable, Now, ProtocolError, QueueId, ReplyCode};

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
pub type Answer = (Reply, Option<Ticket>);

/// How far an operation is.
#[derive(Debug)]
pub enum Step {
    /// It is answered, and when what the answer tells of is durable.
    Answered(Reply, Option<Ticket>),
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
            Self::Count => shard.standing(now, queue, asker),
        })
    }
}

/// What follows a step.
#[derive(Debug)]
pub enum Then {
    /// It is done.
    Done,
    /// A queue was declared: its counts are looked up.
    Declared,
    /// The counts of this queue are the answer.
    Counted {
        /// Its id.
        queue: QueueId,
        /// Its name.
        name: String,
        /// When its declaration is durable.
        ticket: Option<Ticket>,
    },
    /// Counts decide whether a queue may be deleted.
    Deletable {
        /// Its id.
        queue: QueueId,
        /// Its name.
        name: String,
        /// Only without consumers.
        if_unused: bool,
        /// Only without messages.
        if_empty: bool,
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
    Changed(Outcome, Option<Ticket>),
    /// The queue has answered.
    Answer(QueueAnswer),
}

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
                Step::Answered(reply, ticket) => return Ok((reply, ticket)),
                Step::Change { command, then } => env
                    .execute(now, &command)
                    .map_err(ProtocolError::from)
                    .and_then(|executed| {
                        let changed = StepAnswer::Changed(executed.outcome, executed.ticket);
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

    /// Begins an operation. Nothing may be borrowed.
    ///
    /// # Errors
    /// What the caller is told.
    pub(super) fn begin<E: Env>(
        &self,
        operation: Topology,
        env: &E,
    ) -> Result<Step, ProtocolError> {
        let vhost = self.vhost.clone();
        let binds = matches!(
            operation,
            Topology::ExchangeBind { .. } | Topology::QueueBind { .. }
        );
        match operation {
            Topology::ExchangeDeclare {
                name,
                passive: true,
                ..
            } => {
                self.may_any(Resource::Exchange(&name))?;
                env.catalogue().check_exchange(&vhost, &stripped(&name))?;
                Ok(Step::Answered(Reply::Done, None))
            }
            Topology::ExchangeDeclare {
                name,
                kind,
                durable,
                auto_delete,
                internal,
                arguments,
                ..
            } => {
                let name = stripped(&name);
                self.may(Access::Configure, Resource::Exchange(&name))?;
                if let Some(alternate) = text_argument(&arguments, "alternate-exchange") {
                    self.may(Access::Read, Resource::Exchange(&name))?;
                    self.may(Access::Write, Resource::Exchange(alternate))?;
                }
                Ok(change(Command::ExchangeDeclare {
                    vhost,
                    name,
                    kind,
                    durable,
                    auto_delete,
                    internal,
                    arguments,
                }))
            }
            Topology::ExchangeDelete { name, if_unused } => {
                let name = stripped(&name);
                self.may(Access::Configure, Resource::Exchange(&name))?;
                Ok(change(Command::ExchangeDelete {
                    vhost,
                    name,
                    if_unused,
                }))
            }
            Topology::ExchangeBind {
                destination,
                source,
                routing_key,
                arguments,
            }
            | Topology::ExchangeUnbind {
                destination,
                source,
                routing_key,
                arguments,
            } => {
                let destination = Endpoint::Exchange(destination);
                self.bind_or_unbind(binds, destination, source, routing_key, arguments, env)
            }
            Topology::QueueBind {
                queue,
                exchange,
                routing_key,
                arguments,
            }
            | Topology::QueueUnbind {
                queue,
                exchange,
                routing_key,
                arguments,
            } => {
                // A queue that is gone may be unbound: it has no bindings.
                if binds {
                    self.usable_queue(&queue, env)?;
                }
                let destination = Endpoint::Queue(queue);
                self.bind_or_unbind(binds, destination, exchange, routing_key, arguments, env)
            }
            Topology::QueueDeclare {
                name,
                passive: true,
                ..
            } => self.queue_exists(&stripped(&name), env),
            Topology::QueueDeclare {
                name,
                durable,
                exclusive,
                auto_delete,
                arguments,
                ..
            } => {
                let command = Command::QueueDeclare {
                    vhost,
                    name: stripped(&name),
                    durable,
                    exclusive: exclusive.then_some(self.connection.0),
                    auto_delete,
                    arguments,
                    random: env.random(),
                    shards: env.settings().shard_count,
                    id: None,
                };
                self.declare_queue(command)
            }
            Topology::QueuePurge { queue } => {
                let id = self.usable_queue(&queue, env)?;
                self.may(Access::Read, Resource::Queue(&queue))?;
                Ok(Step::Ask {
                    queue: id,
                    question: Question::Purge,
                    then: Then::Purged,
                })
            }
            Topology::QueueDelete {
                queue,
                if_unused,
                if_empty,
            } => self.delete_queue(queue, if_unused, if_empty, env),
        }
    }

    fn may(&self, access: Access, resource: Resource<'_>) -> Result<(), ProtocolError> {
        self.rights
            .as_ref()
            .map_or(Ok(()), |rights| rights.check(access, resource))
    }

    fn may_any(&self, resource: Resource<'_>) -> Result<(), ProtocolError> {
        self.rights
            .as_ref()
            .map_or(Ok(()), |rights| rights.check_any(resource))
    }

    /// Makes a binding, or undoes it.
    fn bind_or_unbind<E: Env>(
        &self,
        binds: bool,
        destination: Endpoint,
        source: String,
        routing_key: Vec<u8>,
        arguments: FieldTable,
        env: &E,
    ) -> Result<Step, ProtocolError> {
        self.may_bind(&destination, &source, &routing_key, env)?;
        let vhost = self.vhost.clone();
        Ok(change(match binds {
            true => Command::Bind {
                vhost,
                source,
                destination,
                routing_key,
                arguments,
            },
            false => Command::Unbind {
                vhost,
                source,
                destination,
                routing_key,
                arguments,
            },
        }))
    }

    fn may_bind<E: Env>(
        &self,
        destination: &Endpoint,
        source: &str,
        routing_key: &[u8],
        env: &E,
    ) -> Result<(), ProtocolError> {
        let Some(rights) = &self.rights else {
            return Ok(());
        };
        rights.check(
            Access::Write,
            match destination {
                Endpoint::Queue(queue) => Resource::Queue(queue),
                Endpoint::Exchange(exchange) => Resource::Exchange(exchange),
            },
        )?;
        rights.check(Access::Read, Resource::Exchange(source))?;
        let catalogue = env.catalogue();
        let router = catalogue
            .vhost(&self.vhost)
            .map(leveret_metadata::Vhost::router);
        let exchange = router.and_then(|router| router.exchange(source));
        if exchange.is_some_and(|exchange| matches!(exchange.kind, Kind::Topic)) {
            rights.check_topic(Access::Read, source, routing_key)?;
        }
        Ok(())
    }

    /// The queue of that name, if no other connection has it for itself.
    pub(crate) fn usable_queue<E: Env>(
        &self,
        name: &str,
        env: &E,
    ) -> Result<QueueId, ProtocolError> {
        Ok(env
            .catalogue()
            .usable_queue(&self.vhost, name, self.connection)?
            .id())
    }

    fn queue_exists<E: Env>(&self, name: &str, env: &E) -> Result<Step, ProtocolError> {
        if env.replies().find(name.as_bytes()).is_some() {
            // Somebody waits for replies under this name: what a client that is about to reply
            // wants to know.
            let reply = Reply::Queue {
                name: name.to_owned(),
                messages: 0,
                consumers: 1,
            };
            return Ok(Step::Answered(reply, None));
        }
        self.may_any(Resource::Queue(name))?;
        let queue = self.usable_queue(name, env)?;
        Ok(counts_of(queue, name.to_owned(), None))
    }

    fn declare_queue(&self, command: Command) -> Result<Step, ProtocolError> {
        let Command::QueueDeclare {
            name,
            arguments,
            random,
            ..
        } = &command
        else {
            unreachable!("a declaration of a queue");
        };
        let generated = leveret_metadata::generated_name(*random);
        let named = if name.is_empty() { &generated } else { name };
        self.may(Access::Configure, Resource::Queue(named))?;
        if let Some(exchange) = text_argument(arguments, "x-dead-letter-exchange") {
            self.may(Access::Read, Resource::Queue(named))?;
            self.may(Access::Write, Resource::Exchange(exchange))?;
        }
        Ok(Step::Change {
            command,
            then: Then::Declared,
        })
    }

    fn declared<E: Env>(
        &self,
        outcome: &Outcome,
        ticket: Option<Ticket>,
        now: Now,
        env: &E,
    ) -> Result<Step, ProtocolError> {
        add(&env.counters().queues_declared, 1);
        let gone = || ProtocolError::channel(ReplyCode::NotFound, "the queue is gone already");
        let queue = outcome.queue.ok_or_else(gone)?;
        let (name, classic) = {
            let catalogue = env.catalogue();
            let record = catalogue.queue(queue).ok_or_else(gone)?;
            let classic = record.kind() == leveret_metadata::QueueKind::Classic;
            (record.name().to_owned(), classic)
        };
        if outcome.created {
            let reply = Reply::Queue {
                name,
                messages: 0,
                consumers: 0,
            };
            return Ok(Step::Answered(reply, ticket));
        }
        if classic {
            env.with_shard(now, env.shard_of(queue), |shard| shard.touch(now, queue));
        }
        Ok(counts_of(queue, name, ticket))
    }

    fn delete_queue<E: Env>(
        &self,
        name: String,
        if_unused: bool,
        if_empty: bool,
        env: &E,
    ) -> Result<Step, ProtocolError> {
        self.may(Access::Configure, Resource::Queue(&name))?;
        let found = {
            let catalogue = env.catalogue();
            catalogue
                .usable_queue(&self.vhost, &name, self.connection)
                .map(leveret_metadata::QueueRecord::id)
        };
        let queue = match found {
            Ok(queue) => queue,
            Err(error) if error.is_not_found() => {
                return Ok(Step::Answered(Reply::Count(0), None));
            }
            Err(error) => return Err(error.into()),
        };
        Ok(Step::Ask {
            queue,
            question: Question::Count,
            then: Then::Deletable {
                queue,
                name,
                if_unused,
                if_empty,
            },
        })
    }

    /// Goes on where a step was answered.
    ///
    /// # Errors
    /// What the caller is told.
    pub(super) fn resume<E: Env>(
        &self,
        then: Then,
        answer: StepAnswer,
        now: Now,
        env: &E,
    ) -> Result<Step, ProtocolError> {
        match (then, answer) {
            (Then::Done, StepAnswer::Changed(_, ticket)) => Ok(Step::Answered(Reply::Done, ticket)),
            (Then::Declared, StepAnswer::Changed(outcome, ticket)) => {
                self.declared(&outcome, ticket, now, env)
            }
            (Then::Deleted(ready), StepAnswer::Changed(_, ticket)) => {
                Ok(Step::Answered(Reply::Count(clamped(ready)), ticket))
            }
            (
                Then::Counted {
                    queue,
                    name,
                    ticket,
                },
                StepAnswer::Answer(answer),
            ) => {
                let standing = match answer {
                    QueueAnswer::Counted(standing) => standing,
                    // What is known of it still answers.
                    _ => env.with_shard(now, env.shard_of(queue), |s| s.last_standing(now, queue)),
                };
                let reply = Reply::Queue {
                    name,
                    messages: clamped(standing.ready),
                    consumers: clamped(standing.consumers),
                };
                Ok(Step::Answered(reply, ticket))
            }
            (
                Then::Deletable {
                    queue,
                    name,
                    if_unused,
                    if_empty,
                },
                StepAnswer::Answer(answer),
            ) => {
                let standing = match answer {
                    QueueAnswer::Counted(standing) => standing,
                    _ if if_unused || if_empty => return Err(unavailable()),
                    _ => Standing::default(),
                };
                let refuse = |why: &str| {
                    let text = format!("queue '{name}' in vhost '{}' {why}", self.vhost);
                    Err(ProtocolError::channel(ReplyCode::PreconditionFailed, text))
                };
                if if_unused && standing.consumers > 0 {
                    return refuse("in use");
                }
                if if_empty && standing.ready > 0 {
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
                    then: Then::Deleted(standing.ready),
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

/// A step that changes the catalogue, after which all is done.
const fn change(command: Command) -> Step {
    Step::Change {
        command,
        then: Then::Done,
    }
}

/// A step that asks a queue how it stands: the answer to a declaration.
const fn counts_of(queue: QueueId, name: String, ticket: Option<Ticket>) -> Step {
    Step::Ask {
        queue,
        question: Question::Count,
        then: Then::Counted {
            queue,
            name,
            ticket,
        },
    }
}

/// An error that names its method.
pub(super) fn blamed(error: ProtocolError, (class, method): (u16, u16)) -> ProtocolError {
    match error.class {
        0 => error.at(class, method),
        _ => error,
    }
}

fn clamped(count: u64) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

fn text_argument<'a>(arguments: &'a FieldTable, name: &str) -> Option<&'a str> {
    arguments.get(name)?.as_text()
}

/// Names lose the characters that would break lines in logs, as in RabbitMQ.
fn stripped(name: &str) -> String {
    name.replace(['\r', '\n'], "")
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
