//! Commands about exchanges, queues and bindings.

mod bindings;
mod exchanges;
mod queues;

pub(crate) use queues::queue_command;

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
            Command::ExchangeDeclare {
                vhost,
                name,
                kind,
                durable,
                auto_delete,
                internal,
                arguments,
            } => {
                let (durable, auto_delete, internal) = (*durable, *auto_delete, *internal);
                let wanted = ExchangeWanted {
                    vhost,
                    name: &strip_cr_lf(name),
                    kind,
                    durable,
                    auto_delete,
                    internal,
                    arguments,
                };
                self.declare_exchange(&wanted)
            }
            Command::ExchangeDelete {
                vhost,
                name,
                if_unused,
            } => self.delete_exchange(vhost, &strip_cr_lf(name), *if_unused),
            Command::QueueDeclare {
                vhost,
                name,
                durable,
                exclusive,
                auto_delete,
                arguments,
                random,
                shards,
                id,
            } => self.declare_queue(&QueueWanted {
                vhost,
                name: &strip_cr_lf(name),
                durable: *durable,
                exclusive: exclusive.map(ConnectionId),
                auto_delete: *auto_delete,
                arguments,
                random,
                shards: *shards,
                id: *id,
            }),
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

    pub(crate) fn apply_to_bindings(
        &mut self,
        command: &Command,
    ) -> Result<Outcome, CatalogueError> {
        let (Command::Bind {
            vhost,
            source,
            destination,
            routing_key,
            arguments,
        }
        | Command::Unbind {
            vhost,
            source,
            destination,
            routing_key,
            arguments,
        }) = command
        else {
            unreachable!("{command:?} is not about bindings");
        };
        let wanted = BindingWanted {
            vhost,
            source: &strip_cr_lf(source),
            destination: &stripped(destination),
            routing_key,
            arguments,
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

    fn vhost_or_error(&self, name: &str) -> Result<&Vhost, CatalogueError> {
        self.vhost(name)
            .ok_or_else(|| CatalogueError::NoVhost(name.to_owned()))
    }
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
