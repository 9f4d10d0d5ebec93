//! Bindings: made and taken away.

use crate::catalogue::{Catalogue, Change, Outcome};
use crate::command::{Command, Endpoint};
use crate::error::CatalogueError;
use crate::record::resource;
use leveret_routing::BindError;
use leveret_types::FieldTable;
use std::sync::Arc;

/// The fields of a binding.
pub(super) struct BindingWanted<'a> {
    pub(super) vhost: &'a str,
    pub(super) source: &'a str,
    pub(super) destination: &'a Endpoint,
    pub(super) routing_key: &'a [u8],
    pub(super) arguments: &'a FieldTable,
}

impl Catalogue {
    pub(super) fn bind(&mut self, wanted: &BindingWanted<'_>) -> Result<Outcome, CatalogueError> {
        let destination_is_default =
            matches!(wanted.destination, Endpoint::Exchange(name) if name.is_empty());
        if wanted.source.is_empty() || destination_is_default {
            return Err(CatalogueError::DefaultExchange);
        }
        self.refuse_view(wanted)?;
        let durable = self.is_binding_durable(wanted.vhost, wanted.source, wanted.destination);
        let vhost = self.vhost_mut(wanted.vhost)?;
        let destination = wanted.destination.as_destination();
        let bound = vhost.router.bind(
            wanted.source,
            destination,
            wanted.routing_key,
            wanted.arguments,
        );
        let created = bound.map_err(|error| match error {
            BindError::NoSource => CatalogueError::NotFound {
                resource: resource("exchange", wanted.source, wanted.vhost),
            },
            BindError::NoDestination => CatalogueError::NotFound {
                resource: match wanted.destination {
                    Endpoint::Queue(name) => resource("queue", name, wanted.vhost),
                    Endpoint::Exchange(name) => resource("exchange", name, wanted.vhost),
                },
            },
            other => CatalogueError::Binding(other),
        })?;
        if !created {
            return Ok(Outcome::default());
        }
        let at = Arc::clone(&vhost.name);
        self.note_bound(wanted.arguments);
        let change = Change::Bound {
            vhost: at,
            source: wanted.source.into(),
            destination: wanted.destination.clone(),
        };
        // Nobody asks for the log of what comes from it.
        let log = match durable && !self.replaying {
            true => vec![bind_command(wanted)],
            false => Vec::new(),
        };
        Ok(Outcome {
            created,
            changes: vec![change],
            log,
            ..Outcome::default()
        })
    }

    /// What a view has comes from its stream alone.
    fn refuse_view(&self, wanted: &BindingWanted<'_>) -> Result<(), CatalogueError> {
        let Endpoint::Queue(name) = wanted.destination else {
            return Ok(());
        };
        let queue = self.queue_by_name(wanted.vhost, name);
        match queue.and_then(|queue| queue.settings().source.as_deref()) {
            Some(stream) => Err(CatalogueError::BoundView {
                resource: resource("queue", name, wanted.vhost),
                stream: stream.to_owned(),
            }),
            None => Ok(()),
        }
    }

    /// Whether both ends of a binding are there, and whether it is; nothing if it cannot be.
    pub(super) fn is_bound(&self, wanted: &BindingWanted<'_>) -> Option<bool> {
        let router = &self.vhost(wanted.vhost)?.router;
        let (source, key, arguments) = (wanted.source, wanted.routing_key, wanted.arguments);
        let destination = wanted.destination.as_destination();
        if source.is_empty() {
            return None;
        }
        Some(router.is_bound(source, destination, key, arguments))
    }

    pub(super) fn unbind(&mut self, wanted: &BindingWanted<'_>) -> Result<Outcome, CatalogueError> {
        if wanted.source.is_empty() {
            return Err(CatalogueError::DefaultExchange);
        }
        let command = Command::Unbind {
            vhost: wanted.vhost.to_owned(),
            source: wanted.source.to_owned(),
            destination: wanted.destination.clone(),
            routing_key: wanted.routing_key.to_vec(),
            arguments: wanted.arguments.clone(),
        };
        let durable = self.is_durable(&command);
        let vhost = self.vhost_mut(wanted.vhost)?;
        let destination = wanted.destination.as_destination();
        let gone = vhost.router.unbind(
            wanted.source,
            destination,
            wanted.routing_key,
            wanted.arguments,
        );
        let Some(unbound) = gone else {
            return Ok(Outcome::default());
        };
        let change = Change::Unbound {
            vhost: Arc::clone(&vhost.name),
            source: wanted.source.into(),
            destination: wanted.destination.clone(),
        };
        self.argument_bytes -= unbound.argument_bytes;
        let mut outcome = Outcome {
            changes: vec![change],
            ..Outcome::default()
        };
        if durable {
            outcome.log.push(command);
        }
        self.remove_idle(wanted.vhost, unbound, &mut outcome)?;
        Ok(outcome)
    }
}

fn bind_command(wanted: &BindingWanted<'_>) -> Command {
    Command::Bind {
        vhost: wanted.vhost.to_owned(),
        source: wanted.source.to_owned(),
        destination: wanted.destination.clone(),
        routing_key: wanted.routing_key.to_vec(),
        arguments: wanted.arguments.clone(),
    }
}
