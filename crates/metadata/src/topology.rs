//! Commands about exchanges, queues and bindings.

mod bindings;
mod exchanges;
mod policies;
mod queues;
mod super_streams;

pub(crate) use exchanges::PREDECLARED;
pub(crate) use queues::queue_command;
pub(crate) use super_streams::order_arguments;

use crate::catalogue::{Catalogue, Outcome};
use crate::command::{Command, Endpoint};
use crate::error::CatalogueError;
use crate::record::Vhost;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bindings::BindingWanted;
use exchanges::ExchangeWanted;
use leveret_types::limits::SHORT_STRING_BYTES_MAX;
use leveret_types::{ConnectionId, QueueId};
use queues::QueueWanted;
use std::borrow::Cow;

/// The name that a queue declared without one gets from these unguessable bytes: `amq.gen-` and 22
/// characters.
#[must_use]
pub fn generated_name(random: [u8; 16]) -> String {
    format!("amq.gen-{}", URL_SAFE_NO_PAD.encode(random))
}

/// A name as the broker takes it: without carriage returns and line feeds.
#[must_use]
pub fn strip_cr_lf(name: &str) -> Cow<'_, str> {
    if name.contains(['\r', '\n']) {
        Cow::Owned(name.replace(['\r', '\n'], ""))
    } else {
        Cow::Borrowed(name)
    }
}

impl Catalogue {
    pub(crate) fn apply_to_topology(
        &mut self,
        command: &Command,
    ) -> Result<Outcome, CatalogueError> {
        match command {
            Command::ExchangeDeclare { name, .. } => {
                let name = strip_cr_lf(name);
                match exchange_wanted(command, &name) {
                    Some(wanted) => self.declare_exchange(&wanted),
                    None => unreachable!("a declaration of an exchange"),
                }
            }
            Command::ExchangeDelete {
                vhost,
                name,
                if_unused,
            } => self.delete_exchange(vhost, &strip_cr_lf(name), *if_unused),
            Command::QueueDeclare { name, .. } => {
                let name = strip_cr_lf(name);
                match queue_wanted(command, &name) {
                    Some(wanted) => self.declare_queue(&wanted),
                    None => unreachable!("a declaration of a queue"),
                }
            }
            Command::QueueDelete {
                vhost,
                name,
                connection,
                id,
            } => self.delete_queue(
                vhost,
                &strip_cr_lf(name),
                connection.map(ConnectionId),
                id.map(QueueId),
            ),
            other => unreachable!("{other:?} is not about exchanges or queues"),
        }
    }

    /// What the answer to a command is that changes nothing: what it declares is there as it is
    /// wanted, what it unbinds is not bound, what it deletes is not there, which is an error for
    /// some. Nothing if it would change something, or be refused for anything else.
    #[must_use]
    pub fn unchanged_by(&self, command: &Command) -> Option<Result<Outcome, CatalogueError>> {
        let declared = || self.finds_what_it_wants(command).map(Ok);
        self.deletes_nothing(command).or_else(declared)
    }

    /// The same for declarations and bindings, and for what undoes these.
    fn finds_what_it_wants(&self, command: &Command) -> Option<Outcome> {
        let queue = match command {
            Command::ExchangeDeclare { name, .. } => {
                let name = strip_cr_lf(name);
                let wanted = exchange_wanted(command, &name)?;
                return self.has_exchange(&wanted).then(Outcome::default);
            }
            Command::QueueDeclare { name, .. } => {
                let name = strip_cr_lf(name);
                let wanted = queue_wanted(command, &name)?;
                Some(self.declared_queue(&wanted)?)
            }
            Command::Bind { source, .. } | Command::Unbind { source, .. } => {
                let (source, destination) = (strip_cr_lf(source), binding_destination(command)?);
                let wanted = binding_wanted(command, &source, &destination)?;
                let is_wanted = matches!(command, Command::Bind { .. });
                (self.is_bound(&wanted)? == is_wanted).then_some(None)?
            }
            _ => return None,
        };
        Some(Outcome {
            queue,
            ..Outcome::default()
        })
    }

    pub(crate) fn apply_to_bindings(
        &mut self,
        command: &Command,
    ) -> Result<Outcome, CatalogueError> {
        let (Command::Bind { source, .. } | Command::Unbind { source, .. }) = command else {
            unreachable!("{command:?} is not about bindings");
        };
        let source = strip_cr_lf(source);
        let destination = binding_destination(command);
        let wanted = destination.as_ref();
        let wanted = wanted.and_then(|to| binding_wanted(command, &source, to));
        let Some(wanted) = wanted else {
            unreachable!("{command:?} is not about bindings");
        };
        match command {
            Command::Bind { .. } => self.bind(&wanted),
            _ => self.unbind(&wanted),
        }
    }

    pub(crate) fn vhost_mut(&mut self, name: &str) -> Result<&mut Vhost, CatalogueError> {
        self.vhosts
            .get_mut(name)
            .ok_or_else(|| CatalogueError::NoVhost(name.to_owned()))
    }
}

/// What the declaration of an exchange asks for; nothing of any other command.
fn exchange_wanted<'a>(command: &'a Command, stripped: &'a str) -> Option<ExchangeWanted<'a>> {
    let Command::ExchangeDeclare {
        vhost,
        kind,
        durable,
        auto_delete,
        internal,
        arguments,
        ..
    } = command
    else {
        return None;
    };
    let (durable, auto_delete, internal) = (*durable, *auto_delete, *internal);
    Some(ExchangeWanted {
        vhost,
        name: stripped,
        kind,
        durable,
        auto_delete,
        internal,
        arguments,
    })
}

/// What the declaration of a queue asks for; nothing of any other command.
fn queue_wanted<'a>(command: &'a Command, stripped: &'a str) -> Option<QueueWanted<'a>> {
    let Command::QueueDeclare {
        vhost,
        durable,
        exclusive,
        auto_delete,
        arguments,
        random,
        shards,
        id,
        ..
    } = command
    else {
        return None;
    };
    Some(QueueWanted {
        vhost,
        name: stripped,
        durable: *durable,
        exclusive: exclusive.map(ConnectionId),
        auto_delete: *auto_delete,
        arguments,
        random,
        shards: *shards,
        id: *id,
    })
}

fn binding_destination(command: &Command) -> Option<Endpoint> {
    match command {
        Command::Bind { destination, .. } | Command::Unbind { destination, .. } => {
            Some(stripped(destination))
        }
        _ => None,
    }
}

/// The binding that a command makes or undoes; nothing of any other command.
fn binding_wanted<'a>(
    command: &'a Command,
    source: &'a str,
    destination: &'a Endpoint,
) -> Option<BindingWanted<'a>> {
    let (Command::Bind {
        vhost,
        routing_key,
        arguments,
        ..
    }
    | Command::Unbind {
        vhost,
        routing_key,
        arguments,
        ..
    }) = command
    else {
        return None;
    };
    Some(BindingWanted {
        vhost,
        source,
        destination,
        routing_key,
        arguments,
    })
}

fn stripped(endpoint: &Endpoint) -> Endpoint {
    match endpoint {
        Endpoint::Queue(name) => Endpoint::Queue(strip_cr_lf(name).into_owned()),
        Endpoint::Exchange(name) => Endpoint::Exchange(strip_cr_lf(name).into_owned()),
    }
}

/// Whether clients may give something new this name.
fn check_name(kind: &'static str, name: &str) -> Result<(), CatalogueError> {
    if name.starts_with("amq.") {
        return Err(CatalogueError::Reserved {
            kind,
            name: name.to_owned(),
        });
    }
    check_length(name)
}

/// Whether a name is neither empty nor too long for a short string.
pub(crate) fn check_length(name: &str) -> Result<(), CatalogueError> {
    match name.len() {
        1..=SHORT_STRING_BYTES_MAX => Ok(()),
        length => Err(CatalogueError::NameLength(length)),
    }
}
