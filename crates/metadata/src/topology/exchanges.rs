//! Exchanges: declared, equal to what there is, and deleted with those that go because of them.

use super::check_name;
use crate::arguments;
use crate::catalogue::{Catalogue, Change, Outcome};
use crate::command::Command;
use crate::error::CatalogueError;
use crate::record::{ExchangeRecord, Traffic, resource};
use crate::weights::weight;
use leveret_routing::{ExchangeSettings, Kind, SUPER_STREAM_ROUTING, Unbound};
use leveret_types::{FieldTable, FieldValue};
use std::borrow::Cow;
use std::sync::Arc;

/// The exchanges that every virtual host has: name, type, and whether it is internal.
pub(crate) const PREDECLARED: [(&str, &str, bool); 6] = [
    ("amq.direct", "direct", false),
    ("amq.fanout", "fanout", false),
    ("amq.topic", "topic", false),
    ("amq.headers", "headers", false),
    ("amq.match", "headers", false),
    ("amq.rabbitmq.trace", "topic", true),
];

/// The fields of an exchange's declaration.
pub(super) struct ExchangeWanted<'a> {
    pub(super) vhost: &'a str,
    pub(super) name: &'a str,
    pub(super) kind: &'a str,
    pub(super) durable: bool,
    pub(super) auto_delete: bool,
    pub(super) internal: bool,
    pub(super) arguments: &'a FieldTable,
}

impl Catalogue {
    pub(super) fn declare_exchange(
        &mut self,
        wanted: &ExchangeWanted<'_>,
    ) -> Result<Outcome, CatalogueError> {
        let kind = Kind::parse(wanted.kind, wanted.arguments)?;
        if wanted.name.is_empty() {
            return Err(CatalogueError::DefaultExchange);
        }
        let resource = resource("exchange", wanted.name, wanted.vhost);
        if let Some(current) = self.vhost_or_error(wanted.vhost)?.exchange(wanted.name) {
            check_exchange_equivalence(&resource, current, wanted)?;
            return Ok(Outcome::default());
        }
        check_name("exchange", wanted.name)?;
        check_alternate_type(&resource, wanted.arguments)?;
        let limit = self.config.exchanges_max;
        if self.exchange_count >= limit && !self.replaying {
            return Err(CatalogueError::ExchangeLimit { resource, limit });
        }
        self.insert_exchange(wanted, kind)
    }

    /// Whether a declaration finds the exchange as it is wanted.
    pub(super) fn has_exchange(&self, wanted: &ExchangeWanted<'_>) -> bool {
        let vhost = self.vhost(wanted.vhost);
        let current = vhost.and_then(|vhost| vhost.exchange(wanted.name));
        let resource = resource("exchange", wanted.name, wanted.vhost);
        Kind::parse(wanted.kind, wanted.arguments).is_ok()
            && current.is_some_and(|current| {
                check_exchange_equivalence(&resource, current, wanted).is_ok()
            })
    }

    /// Creates the exchanges that every virtual host has.
    pub(crate) fn predeclare_exchanges(&mut self, vhost: &str) -> Result<(), CatalogueError> {
        for (name, kind, internal) in PREDECLARED {
            let arguments = &FieldTable::new();
            let wanted = ExchangeWanted {
                vhost,
                name,
                kind,
                durable: true,
                auto_delete: false,
                internal,
                arguments,
            };
            self.insert_exchange(&wanted, Kind::parse(kind, arguments)?)?;
        }
        Ok(())
    }

    fn insert_exchange(
        &mut self,
        wanted: &ExchangeWanted<'_>,
        kind: Kind,
    ) -> Result<Outcome, CatalogueError> {
        let vhost = self.vhost_mut(wanted.vhost)?;
        let (policy, definition) = vhost.exchange_policy(wanted.name);
        let name: Arc<str> = wanted.name.into();
        let record = ExchangeRecord {
            name: Arc::clone(&name),
            kind: wanted.kind.into(),
            durable: wanted.durable,
            auto_delete: wanted.auto_delete,
            internal: wanted.internal,
            arguments: wanted.arguments.clone(),
            policy,
            traffic: Traffic::default(),
        };
        let alternate = alternate(&record.arguments, &definition);
        let settings = ExchangeSettings {
            internal: wanted.internal,
            auto_delete: wanted.auto_delete,
            alternate: alternate.as_deref(),
        };
        let added = vhost.router.add_exchange(&name, kind, settings);
        assert!(
            added,
            "exchange {name:?} is in the router but not in the catalogue"
        );
        vhost.exchanges.insert(Arc::clone(&name), record);
        let change = Change::ExchangeCreated {
            vhost: Arc::clone(&vhost.name),
            exchange: name,
        };
        self.exchange_count += 1;
        self.argument_bytes += weight(wanted.arguments);
        let log = if wanted.durable {
            vec![exchange_command(wanted)]
        } else {
            Vec::new()
        };
        Ok(Outcome {
            created: true,
            changes: vec![change],
            log,
            ..Outcome::default()
        })
    }

    pub(super) fn delete_exchange(
        &mut self,
        vhost: &str,
        name: &str,
        if_unused: bool,
    ) -> Result<Outcome, CatalogueError> {
        let mut outcome = Outcome::default();
        let Some(outgoing) = self.exchange_to_delete(vhost, name)? else {
            return Ok(outcome);
        };
        if if_unused && outgoing > 0 {
            let resource = resource("exchange", name, vhost);
            return Err(CatalogueError::InUse { resource });
        }
        self.remove_exchange(vhost, name, &mut outcome)?;
        Ok(outcome)
    }

    /// How many bindings the exchange has that is to be deleted; nothing if there is none.
    pub(crate) fn exchange_to_delete(
        &self,
        vhost: &str,
        name: &str,
    ) -> Result<Option<usize>, CatalogueError> {
        if name.is_empty() {
            return Err(CatalogueError::DefaultExchange);
        }
        if name.starts_with("amq.") {
            let resource = resource("exchange", name, vhost);
            return Err(CatalogueError::SystemExchange { resource });
        }
        let exchange = self.vhost_or_error(vhost)?.router.exchange(name);
        Ok(exchange.map(|exchange| exchange.outgoing))
    }

    /// Takes an exchange out, and those that go because of it.
    fn remove_exchange(
        &mut self,
        vhost: &str,
        name: &str,
        outcome: &mut Outcome,
    ) -> Result<(), CatalogueError> {
        let mut pending: Vec<Arc<str>> = vec![name.into()];
        while let Some(name) = pending.pop() {
            let record = self.vhost_mut(vhost)?;
            let Some(exchange) = record.exchanges.remove(&name) else {
                continue;
            };
            let unbound = record.router.remove_exchange(&name).unwrap_or_default();
            let freed = weight(&exchange.arguments) + unbound.argument_bytes;
            let unlinking = record.router.has_to_unlink();
            let unlinking = unlinking.then(|| Arc::clone(&record.name));
            outcome.changes.push(Change::ExchangeDeleted {
                vhost: Arc::clone(&record.name),
                exchange: name,
            });
            if exchange.durable {
                outcome.log.push(Command::ExchangeDelete {
                    vhost: vhost.to_owned(),
                    name: exchange.name.to_string(),
                    if_unused: false,
                });
            }
            self.exchange_count -= 1;
            self.argument_bytes -= freed;
            self.unlinking.extend(unlinking);
            if !self.replaying {
                pending.extend(unbound.idle_exchanges);
            }
        }
        Ok(())
    }

    /// Deletes the auto-delete exchanges that have lost their last binding.
    pub(crate) fn remove_idle(
        &mut self,
        vhost: &str,
        unbound: Unbound,
        outcome: &mut Outcome,
    ) -> Result<(), CatalogueError> {
        if self.replaying {
            return Ok(());
        }
        unbound
            .idle_exchanges
            .iter()
            .try_for_each(|name| self.remove_exchange(vhost, name, outcome))
    }
}

fn check_exchange_equivalence(
    resource: &str,
    current: &ExchangeRecord,
    wanted: &ExchangeWanted<'_>,
) -> Result<(), CatalogueError> {
    let check = |name: &str, current: &str, received: &str| {
        arguments::check_property(resource, name, current, received)
    };
    check("type", &atom(&current.kind), &atom(wanted.kind))?;
    check(
        "durable",
        &current.durable.to_string(),
        &wanted.durable.to_string(),
    )?;
    check(
        "auto_delete",
        &current.auto_delete.to_string(),
        &wanted.auto_delete.to_string(),
    )?;
    check(
        "internal",
        &current.internal.to_string(),
        &wanted.internal.to_string(),
    )?;
    // Who does not ask for one takes the exchange as it is, as RabbitMQ's clients do.
    if let Some(routing) = wanted.arguments.get(SUPER_STREAM_ROUTING) {
        let usual = FieldValue::text("key");
        let is = current.arguments.get(SUPER_STREAM_ROUTING);
        let is = is.unwrap_or(&usual).to_string();
        check(SUPER_STREAM_ROUTING, &is, &routing.to_string())?;
    }
    arguments::check_argument(
        resource,
        "alternate-exchange",
        &current.arguments,
        wanted.arguments,
    )
}

/// An exchange's type as Erlang prints it: quoted where it has a dash.
fn atom(kind: &str) -> Cow<'_, str> {
    if kind.contains('-') {
        Cow::Owned(format!("'{kind}'"))
    } else {
        Cow::Borrowed(kind)
    }
}

fn check_alternate_type(resource: &str, arguments: &FieldTable) -> Result<(), CatalogueError> {
    match arguments.get("alternate-exchange") {
        None | Some(FieldValue::LongString(_)) => Ok(()),
        Some(other) => Err(CatalogueError::InvalidArgumentType {
            type_name: other.type_name(),
            argument: "alternate-exchange",
            resource: resource.to_owned(),
        }),
    }
}

/// Where an exchange's unroutable messages go: its argument, else its policy.
pub(super) fn alternate(arguments: &FieldTable, policy: &FieldTable) -> Option<String> {
    let value = arguments
        .get("alternate-exchange")
        .or_else(|| policy.get("alternate-exchange"));
    value.and_then(FieldValue::as_text).map(str::to_owned)
}

fn exchange_command(wanted: &ExchangeWanted<'_>) -> Command {
    Command::ExchangeDeclare {
        vhost: wanted.vhost.to_owned(),
        name: wanted.name.to_owned(),
        kind: wanted.kind.to_owned(),
        durable: wanted.durable,
        auto_delete: wanted.auto_delete,
        internal: wanted.internal,
        arguments: wanted.arguments.clone(),
    }
}
