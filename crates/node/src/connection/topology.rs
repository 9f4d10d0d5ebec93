//! Declarations, bindings and deletions.

use super::{Connection, home};
use crate::counters::add;
use crate::env::Env;
use leveret_auth::{Access, Resource};
use leveret_metadata::{Catalogue, Command, Endpoint};
use leveret_session::contract::{Reply, Topology};
use leveret_types::{ChannelId, FieldTable, Now, ProtocolError, QueueId, ReplyCode};

impl Connection {
    pub(super) fn topology<E: Env>(
        &mut self,
        channel: ChannelId,
        operation: Topology,
        now: Now,
        env: &E,
    ) {
        let blame = ids(&operation);
        tracing::trace!(connection = %self.name, %channel, ?operation, "topology");
        if let Err(error) = self.carry_out(operation, now, env) {
            let error = if error.class == 0 { error.at(blame.0, blame.1) } else { error };
            self.fail(now, error);
        }
    }

    fn carry_out<E: Env>(
        &mut self,
        operation: Topology,
        now: Now,
        env: &E,
    ) -> Result<(), ProtocolError> {
        match operation {
            Topology::ExchangeDeclare { name, passive: true, .. } => {
                self.exchange_exists(&name, now, env)
            }
            Topology::ExchangeDeclare {
                name, kind, durable, auto_delete, internal, arguments, ..
            } => {
                let name = stripped(&name);
                self.may(env, Access::Configure, Resource::Exchange(&name))?;
                if let Some(alternate) = text_argument(&arguments, "alternate-exchange") {
                    self.may(env, Access::Read, Resource::Exchange(&name))?;
                    self.may(env, Access::Write, Resource::Exchange(alternate))?;
                }
                let vhost = self.login.vhost_name().to_owned();
                let command = Command::ExchangeDeclare {
                    vhost, name, kind, durable, auto_delete, internal, arguments,
                };
                self.execute(&command, Reply::Done, now, env)
            }
            Topology::ExchangeDelete { name, if_unused } => {
                let name = stripped(&name);
                self.may(env, Access::Configure, Resource::Exchange(&name))?;
                let vhost = self.login.vhost_name().to_owned();
                self.execute(&Command::ExchangeDelete { vhost, name, if_unused }, Reply::Done, now, env)
            }
            Topology::ExchangeBind { destination, source, routing_key, arguments } => self.bind(
                Endpoint::Exchange(destination), source, routing_key, arguments, true, now, env,
            ),
            Topology::ExchangeUnbind { destination, source, routing_key, arguments } => self.bind(
                Endpoint::Exchange(destination), source, routing_key, arguments, false, now, env,
            ),
            Topology::QueueBind { queue, exchange, routing_key, arguments } => self.bind(
                Endpoint::Queue(queue), exchange, routing_key, arguments, true, now, env,
            ),
            Topology::QueueUnbind { queue, exchange, routing_key, arguments } => self.bind(
                Endpoint::Queue(queue), exchange, routing_key, arguments, false, now, env,
            ),
            Topology::QueueDeclare { name, passive: true, .. } => {
                self.queue_exists(&stripped(&name), now, env)
            }
            Topology::QueueDeclare { name, durable, exclusive, auto_delete, arguments, .. } => {
                self.declare_queue(&stripped(&name), durable, exclusive, auto_delete, arguments, now, env)
            }
            Topology::QueuePurge { queue } => self.purge_queue(&queue, now, env),
            Topology::QueueDelete { queue, if_unused, if_empty } => {
                self.delete_queue(&queue, if_unused, if_empty, now, env)
            }
        }
    }

    fn may<E: Env>(
        &mut self,
        env: &E,
        access: Access,
        resource: Resource<'_>,
    ) -> Result<(), ProtocolError> {
        self.login.rights(&env.catalogue()).check(access, resource)
    }

    /// Changes the catalogue and answers once the change is durable.
    fn execute<E: Env>(
        &mut self,
        command: &Command,
        reply: Reply,
        now: Now,
        env: &E,
    ) -> Result<(), ProtocolError> {
        let executed = env.execute(now, command)?;
        self.reply_when_durable(now, executed.ticket, reply, env);
        Ok(())
    }

    fn exchange_exists<E: Env>(
        &mut self,
        name: &str,
        now: Now,
        env: &E,
    ) -> Result<(), ProtocolError> {
        let found = {
            let catalogue = env.catalogue();
            self.login.rights(&catalogue).check_any(Resource::Exchange(name))?;
            catalogue.check_exchange(self.login.vhost_name(), name)
        };
        found?;
        self.reply(now, Reply::Done);
        Ok(())
    }

    fn not_found(&self, what: &str, name: &str) -> ProtocolError {
        ProtocolError::channel(
            ReplyCode::NotFound,
            format!("no {what} '{name}' in vhost '{}'", self.login.vhost_name()),
        )
    }

    #[allow(clippy::too_many_arguments)] // The fields of the four methods, and where to carry them out.
    fn bind<E: Env>(
        &mut self,
        destination: Endpoint,
        source: String,
        routing_key: Vec<u8>,
        arguments: FieldTable,
        bind: bool,
        now: Now,
        env: &E,
    ) -> Result<(), ProtocolError> {
        {
            let catalogue = env.catalogue();
            match &destination {
                Endpoint::Queue(queue) => {
                    if bind {
                        self.usable_queue(&catalogue, queue)?;
                    }
                    self.login.permit_queue(&catalogue, queue, Access::Write)?;
                }
                Endpoint::Exchange(exchange) => {
                    self.login.permit_exchange(&catalogue, exchange, Access::Write)?;
                }
            }
            self.login.permit_exchange(&catalogue, &source, Access::Read)?;
            if self.login.is_topic(&catalogue, &source) {
                self.login.rights(&catalogue).check_topic(Access::Read, &source, &routing_key)?;
            }
        }
        let vhost = self.login.vhost_name().to_owned();
        let command = if bind {
            Command::Bind { vhost, source, destination, routing_key, arguments }
        } else {
            Command::Unbind { vhost, source, destination, routing_key, arguments }
        };
        self.execute(&command, Reply::Done, now, env)
    }

    /// The queue of that name, if no other connection has it for itself.
    pub(super) fn usable_queue(
        &self,
        catalogue: &Catalogue,
        name: &str,
    ) -> Result<QueueId, ProtocolError> {
        Ok(catalogue.usable_queue(self.login.vhost_name(), name, self.id)?.id())
    }

    fn queue_exists<E: Env>(
        &mut self,
        name: &str,
        now: Now,
        env: &E,
    ) -> Result<(), ProtocolError> {
        let queue = {
            let catalogue = env.catalogue();
            self.login.rights(&catalogue).check_any(Resource::Queue(name))?;
            self.usable_queue(&catalogue, name)?
        };
        self.reply_with_counts(queue, name.to_owned(), None, now, env);
        Ok(())
    }

    fn reply_with_counts<E: Env>(
        &mut self,
        queue: QueueId,
        name: String,
        ticket: Option<crate::env::Ticket>,
        now: Now,
        env: &E,
    ) {
        let counts = env
            .with_shard(now, home(queue), |shard| {
                shard.finish(now);
                shard.counts(now, queue)
            })
            .unwrap_or_default();
        let reply = Reply::Queue {
            name,
            messages: u32::try_from(counts.ready).unwrap_or(u32::MAX),
            consumers: u32::try_from(counts.consumers).unwrap_or(u32::MAX),
        };
        self.reply_when_durable(now, ticket, reply, env);
    }

    #[allow(clippy::too_many_arguments)] // The fields of the method, and where to carry it out.
    fn declare_queue<E: Env>(
        &mut self,
        name: &str,
        durable: bool,
        exclusive: bool,
        auto_delete: bool,
        arguments: FieldTable,
        now: Now,
        env: &E,
    ) -> Result<(), ProtocolError> {
        if !name.is_empty() {
            self.may(env, Access::Configure, Resource::Queue(name))?;
        }
        if let Some(exchange) = text_argument(&arguments, "x-dead-letter-exchange") {
            self.may(env, Access::Read, Resource::Queue(name))?;
            self.may(env, Access::Write, Resource::Exchange(exchange))?;
        }
        let random = env.random();
        let command = Command::QueueDeclare {
            vhost: self.login.vhost_name().to_owned(),
            name: name.to_owned(),
            durable,
            exclusive: exclusive.then_some(self.id.0),
            auto_delete,
            arguments,
            random,
            shards: env.settings().shard_count,
            id: None,
        };
        let executed = env.execute(now, &command)?;
        self.has_exclusive |= exclusive;
        add(&env.counters().queues_declared, 1);
        let Some(queue) = executed.outcome.queue else { return Err(self.not_found("queue", name)) };
        let name = match env.catalogue().queue(queue) {
            Some(record) => record.name().to_owned(),
            None => return Err(self.not_found("queue", name)),
        };
        env.with_shard(now, home(queue), |shard| shard.touch(now, queue));
        self.reply_with_counts(queue, name, executed.ticket, now, env);
        Ok(())
    }

    fn purge_queue<E: Env>(
        &mut self,
        name: &str,
        now: Now,
        env: &E,
    ) -> Result<(), ProtocolError> {
        let queue = {
            let catalogue = env.catalogue();
            let queue = self.usable_queue(&catalogue, name)?;
            self.login.permit_queue(&catalogue, name, Access::Read)?;
            queue
        };
        let count = env.with_shard(now, home(queue), |shard| shard.purge(now, queue));
        self.reply(now, Reply::Count(u32::try_from(count).unwrap_or(u32::MAX)));
        Ok(())
    }

    fn delete_queue<E: Env>(
        &mut self,
        name: &str,
        if_unused: bool,
        if_empty: bool,
        now: Now,
        env: &E,
    ) -> Result<(), ProtocolError> {
        self.may(env, Access::Configure, Resource::Queue(name))?;
        let vhost = self.login.vhost_name().to_owned();
        let queue = match env.catalogue().usable_queue(&vhost, name, self.id) {
            Ok(record) => record.id(),
            Err(error) if error.is_not_found() => {
                self.reply(now, Reply::Count(0));
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        };
        let counts = env
            .with_shard(now, home(queue), |shard| {
                shard.finish(now);
                shard.counts(now, queue)
            })
            .unwrap_or_default();
        let refuse = |why: &str| {
            let text = format!("queue '{name}' in vhost '{vhost}' {why}");
            Err(ProtocolError::channel(ReplyCode::PreconditionFailed, text))
        };
        if if_unused && counts.consumers > 0 {
            return refuse("in use");
        }
        if if_empty && counts.ready > 0 {
            return refuse("not empty");
        }
        let command = Command::QueueDelete {
            vhost,
            name: name.to_owned(),
            connection: Some(self.id.0),
            id: Some(queue.0),
        };
        let count = u32::try_from(counts.ready).unwrap_or(u32::MAX);
        self.execute(&command, Reply::Count(count), now, env)
    }

    /// Queues that only this connection could use go with it.
    pub(super) fn delete_exclusive_queues<E: Env>(&mut self, now: Now, env: &E) {
        if !std::mem::take(&mut self.has_exclusive) {
            return;
        }
        let owned: Vec<Command> = {
            let catalogue = env.catalogue();
            catalogue.exclusive_queues(self.id).iter().map(|queue| queue.deletion()).collect()
        };
        for command in owned {
            if let Err(error) = env.execute(now, &command) {
                tracing::warn!(connection = %self.name, %error, "cannot delete an exclusive queue");
            }
        }
    }
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
