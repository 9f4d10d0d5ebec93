//! The first step of each operation: whether the caller may, and what is to be changed or asked.

use super::Caller;
use super::step::{DeleteOnly, Question, Step, Then, change, counts_of, declaration};
use crate::env::Env;
use crate::reply_to;
use leveret_auth::{Access, Resource};
use leveret_client::{Reply, Topology};
use leveret_metadata::{Command, Endpoint};
use leveret_routing::{Kind, is_super_stream};
use leveret_types::limits::QUEUE_REDECLARATIONS_MAX;
use leveret_types::{FieldTable, ProtocolError, QueueId, ReplyCode};

/// A binding that a client makes or undoes.
struct BindingChange {
    /// Whether it is made.
    binds: bool,
    source: String,
    destination: Endpoint,
    routing_key: Vec<u8>,
    arguments: FieldTable,
}

impl BindingChange {
    fn command(self, vhost: String) -> Command {
        let Self {
            binds,
            source,
            destination,
            routing_key,
            arguments,
        } = self;
        match binds {
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
        }
    }
}

impl Caller {
    /// Begins an operation. Nothing may be borrowed.
    ///
    /// # Errors
    /// What the caller is told.
    pub(crate) fn begin<E: Env>(
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
                let change = BindingChange {
                    binds,
                    source,
                    destination: Endpoint::Exchange(destination),
                    routing_key,
                    arguments,
                };
                self.bind_or_unbind(change, env)
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
                let destination = Endpoint::Queue(queue.clone());
                // First, so that whoever may not bind it does not learn whether it is there.
                self.may_bind(&destination, &exchange, &routing_key, env)?;
                match self.usable_queue(&queue, env) {
                    // A queue that is gone may be unbound: it has no bindings.
                    Err(error) if error.code == ReplyCode::NotFound && !binds => {
                        return Ok(Step::Answered(Reply::Done, None));
                    }
                    usable => {
                        usable?;
                    }
                }
                let change = BindingChange {
                    binds,
                    source: exchange,
                    destination,
                    routing_key,
                    arguments,
                };
                self.bind_or_unbind(change, env)
            }
            Topology::QueueDeclare { name, .. } if reply_to::is_name(&stripped(&name)) => {
                self.reply_queue(stripped(&name), env)
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
                self.may(Access::Read, Resource::Queue(&queue))?;
                let id = self.usable_queue(&queue, env)?;
                leveret_cluster::streams::refuse(&env.catalogue(), id, "queue.purge")?;
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
            } => self.delete_queue(
                queue,
                DeleteOnly {
                    if_unused,
                    if_empty,
                },
                env,
            ),
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
        wanted: BindingChange,
        env: &E,
    ) -> Result<Step, ProtocolError> {
        self.may_bind(
            &wanted.destination,
            &wanted.source,
            &wanted.routing_key,
            env,
        )?;
        if wanted.binds {
            self.may_make_partition(&wanted.destination, &wanted.source, env)?;
        }
        Ok(change(wanted.command(self.vhost.clone())))
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

    /// A partition is drained by its binding and goes with its super stream: who makes a stream one
    /// needs the right to delete it, as who creates a super stream does.
    fn may_make_partition<E: Env>(
        &self,
        destination: &Endpoint,
        source: &str,
        env: &E,
    ) -> Result<(), ProtocolError> {
        let Endpoint::Queue(queue) = destination else {
            return Ok(());
        };
        let makes_partition = {
            let catalogue = env.catalogue();
            let record = catalogue.queue_by_name(&self.vhost, queue);
            let vhost = catalogue.vhost(&self.vhost);
            let exchange = vhost.and_then(|vhost| vhost.exchange(source));
            record.is_some_and(|record| record.id().is_stream())
                && exchange.is_some_and(|exchange| is_super_stream(exchange.arguments()))
        };
        match makes_partition {
            true => self.may(Access::Configure, Resource::Queue(queue)),
            false => Ok(()),
        }
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

    /// Declares a name of direct reply-to, which always only looks whether it is there. The
    /// pseudo-queue is, for everybody; a name that was made for a consumer is as long as that waits
    /// for replies, which a client that is about to reply wants to know.
    fn reply_queue<E: Env>(&self, name: String, env: &E) -> Result<Step, ProtocolError> {
        if name != reply_to::PSEUDO_QUEUE
            && env.replies().find(&self.vhost, name.as_bytes()).is_none()
        {
            self.usable_queue(&name, env)?;
        }
        let reply = Reply::Queue {
            name,
            messages: 0,
            consumers: 1,
        };
        Ok(Step::Answered(reply, None))
    }

    fn queue_exists<E: Env>(&self, name: &str, env: &E) -> Result<Step, ProtocolError> {
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
        if let Some(stream) = text_argument(arguments, "x-stream-source") {
            self.may(Access::Read, Resource::Queue(stream))?;
        }
        Ok(declaration(command, QUEUE_REDECLARATIONS_MAX))
    }

    /// Whether the caller has this permission on queues of that name.
    ///
    /// # Errors
    /// If not.
    pub fn permit_queue(&self, access: Access, queue: &str) -> Result<(), ProtocolError> {
        self.may(access, Resource::Queue(queue))
    }

    fn delete_queue<E: Env>(
        &self,
        name: String,
        only: DeleteOnly,
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
        // As in RabbitMQ, a stream is deleted whoever reads it and whatever it holds.
        if queue.is_stream() {
            let command = Command::QueueDelete {
                vhost: self.vhost.clone(),
                name,
                connection: Some(self.connection.0),
                id: Some(queue.0),
            };
            return Ok(Step::Change {
                command,
                then: Then::Deleted(0),
            });
        }
        Ok(Step::Ask {
            queue,
            question: Question::Count,
            then: Then::Deletable { queue, name, only },
        })
    }
}

fn text_argument<'a>(arguments: &'a FieldTable, name: &str) -> Option<&'a str> {
    arguments.get(name)?.as_text()
}

/// Names lose the characters that would break lines in logs, as in RabbitMQ.
fn stripped(name: &str) -> String {
    name.replace(['\r', '\n'], "")
}
