//! Declarations, bindings and deletions: of a client, or of an operator who comes in through the
//! management interface.

use super::Connection;
use crate::counters::add;
use crate::env::{Env, Ticket};
use leveret_auth::{Access, Resource, Rights};
use leveret_metadata::{Catalogue, Command, Endpoint};
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

impl Connection {
    pub(super) fn topology<E: Env>(&mut self, operation: Topology, now: Now, env: &E) {
        let exclusive = matches!(
            &operation,
            Topology::QueueDeclare {
                exclusive: true,
                ..
            }
        );
        let caller = self.caller(env);
        match caller.topology(operation, now, env) {
            Ok((reply, ticket)) => {
                self.has_exclusive |= exclusive;
                self.reply_when_durable(now, ticket, reply, env);
            }
            Err(error) => self.fail(now, error),
        }
    }

    /// This connection as a caller.
    fn caller<E: Env>(&mut self, env: &E) -> Caller {
        Caller {
            connection: self.id,
            vhost: self.login.vhost_name().to_owned(),
            rights: Some(self.login.rights(&env.catalogue()).clone()),
        }
    }

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
            if let Err(error) = env.execute(now, &command) {
                tracing::warn!(connection = %self.name, %error, "cannot delete an exclusive queue");
            }
        }
    }
}

impl Caller {
    /// Carries a declaration, binding or deletion out. Nothing may be borrowed.
    ///
    /// # Errors
    /// What the caller is told, with the class and method to blame.
    pub fn topology<E: Env>(
        &self,
        operation: Topology,
        now: Now,
        env: &E,
    ) -> Result<Answer, ProtocolError> {
        let (class, method) = ids(&operation);
        self.carry_out(operation, now, env)
            .map_err(|error| match error.class {
                0 => error.at(class, method),
                _ => error,
            })
    }

    fn carry_out<E: Env>(
        &self,
        operation: Topology,
        now: Now,
        env: &E,
    ) -> Result<Answer, ProtocolError> {
        let vhost = self.vhost.clone();
        match operation {
            Topology::ExchangeDeclare {
                name,
                passive: true,
                ..
            } => {
                self.may_any(Resource::Exchange(&name))?;
                env.catalogue().check_exchange(&vhost, &stripped(&name))?;
                Ok((Reply::Done, None))
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
                execute(
                    &Command::ExchangeDeclare {
                        vhost,
                        name,
                        kind,
                        durable,
                        auto_delete,
                        internal,
                        arguments,
                    },
                    now,
                    env,
                )
            }
            Topology::ExchangeDelete { name, if_unused } => {
                let name = stripped(&name);
                self.may(Access::Configure, Resource::Exchange(&name))?;
                execute(
                    &Command::ExchangeDelete {
                        vhost,
                        name,
                        if_unused,
                    },
                    now,
                    env,
                )
            }
            Topology::ExchangeBind {
                destination,
                source,
                routing_key,
                arguments,
            } => {
                let destination = Endpoint::Exchange(destination);
                self.may_bind(&destination, &source, &routing_key, env)?;
                execute(
                    &Command::Bind {
                        vhost,
                        source,
                        destination,
                        routing_key,
                        arguments,
                    },
                    now,
                    env,
                )
            }
            Topology::ExchangeUnbind {
                destination,
                source,
                routing_key,
                arguments,
            } => {
                let destination = Endpoint::Exchange(destination);
                self.may_bind(&destination, &source, &routing_key, env)?;
                execute(
                    &Command::Unbind {
                        vhost,
                        source,
                        destination,
                        routing_key,
                        arguments,
                    },
                    now,
                    env,
                )
            }
            Topology::QueueBind {
                queue,
                exchange: source,
                routing_key,
                arguments,
            } => {
                self.usable_queue(&queue, env)?;
                let destination = Endpoint::Queue(queue);
                self.may_bind(&destination, &source, &routing_key, env)?;
                execute(
                    &Command::Bind {
                        vhost,
                        source,
                        destination,
                        routing_key,
                        arguments,
                    },
                    now,
                    env,
                )
            }
            Topology::QueueUnbind {
                queue,
                exchange: source,
                routing_key,
                arguments,
            } => {
                let destination = Endpoint::Queue(queue);
                self.may_bind(&destination, &source, &routing_key, env)?;
                execute(
                    &Command::Unbind {
                        vhost,
                        source,
                        destination,
                        routing_key,
                        arguments,
                    },
                    now,
                    env,
                )
            }
            Topology::QueueDeclare {
                name,
                passive: true,
                ..
            } => self.queue_exists(&stripped(&name), now, env),
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
                self.declare_queue(&command, now, env)
            }
            Topology::QueuePurge { queue } => {
                let id = self.usable_queue(&queue, env)?;
                self.may(Access::Read, Resource::Queue(&queue))?;
                let count = env.with_shard(now, env.shard_of(id), |shard| shard.purge(now, id));
                Ok((Reply::Count(clamped(count)), None))
            }
            Topology::QueueDelete {
                queue,
                if_unused,
                if_empty,
            } => self.delete_queue(&queue, if_unused, if_empty, now, env),
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

    fn queue_exists<E: Env>(&self, name: &str, now: Now, env: &E) -> Result<Answer, ProtocolError> {
        if env.replies().find(name.as_bytes()).is_some() {
            // Somebody waits for replies under this name: what a client that is about to reply
            // wants to know.
            return Ok((
                Reply::Queue {
                    name: name.to_owned(),
                    messages: 0,
                    consumers: 1,
                },
                None,
            ));
        }
        self.may_any(Resource::Queue(name))?;
        let queue = self.usable_queue(name, env)?;
        Ok((counted(queue, name.to_owned(), now, env), None))
    }

    fn declare_queue<E: Env>(
        &self,
        command: &Command,
        now: Now,
        env: &E,
    ) -> Result<Answer, ProtocolError> {
        let Command::QueueDeclare {
            name,
            arguments,
            random,
            ..
        } = command
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
        let executed = env.execute(now, command)?;
        add(&env.counters().queues_declared, 1);
        let gone = || ProtocolError::channel(ReplyCode::NotFound, "the queue is gone already");
        let queue = executed.outcome.queue.ok_or_else(gone)?;
        let (name, classic) = {
            let catalogue = env.catalogue();
            let record = catalogue.queue(queue).ok_or_else(gone)?;
            let classic = record.kind() == leveret_metadata::QueueKind::Classic;
            (record.name().to_owned(), classic)
        };
        if classic {
            env.with_shard(now, env.shard_of(queue), |shard| shard.touch(now, queue));
        }
        Ok((counted(queue, name, now, env), executed.ticket))
    }

    fn delete_queue<E: Env>(
        &self,
        name: &str,
        if_unused: bool,
        if_empty: bool,
        now: Now,
        env: &E,
    ) -> Result<Answer, ProtocolError> {
        self.may(Access::Configure, Resource::Queue(name))?;
        let found = {
            let catalogue = env.catalogue();
            catalogue
                .usable_queue(&self.vhost, name, self.connection)
                .map(leveret_metadata::QueueRecord::id)
        };
        let queue = match found {
            Ok(queue) => queue,
            Err(error) if error.is_not_found() => return Ok((Reply::Count(0), None)),
            Err(error) => return Err(error.into()),
        };
        let counts = env
            .with_shard(now, env.shard_of(queue), |shard| {
                shard.finish(now);
                shard.counts(now, queue)
            })
            .unwrap_or_default();
        let refuse = |why: &str| {
            let text = format!("queue '{name}' in vhost '{}' {why}", self.vhost);
            Err(ProtocolError::channel(ReplyCode::PreconditionFailed, text))
        };
        if if_unused && counts.consumers > 0 {
            return refuse("in use");
        }
        if if_empty && counts.ready > 0 {
            return refuse("not empty");
        }
        let command = Command::QueueDelete {
            vhost: self.vhost.clone(),
            name: name.to_owned(),
            connection: Some(self.connection.0),
            id: Some(queue.0),
        };
        let executed = env.execute(now, &command)?;
        Ok((Reply::Count(clamped(counts.ready)), executed.ticket))
    }
}

/// Changes the catalogue.
fn execute<E: Env>(command: &Command, now: Now, env: &E) -> Result<Answer, ProtocolError> {
    let executed = env.execute(now, command)?;
    Ok((Reply::Done, executed.ticket))
}

/// The answer to a declaration.
fn counted<E: Env>(queue: QueueId, name: String, now: Now, env: &E) -> Reply {
    let counts = env
        .with_shard(now, env.shard_of(queue), |shard| {
            shard.finish(now);
            shard.counts(now, queue)
        })
        .unwrap_or_default();
    Reply::Queue {
        name,
        messages: clamped(counts.ready),
        consumers: clamped(counts.consumers as u64),
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
fn ids(operation: &Topology) -> (u16, u16) {
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
