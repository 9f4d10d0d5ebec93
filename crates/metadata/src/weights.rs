//! What arguments, definitions of policies and values of parameters come to: they are bounded
//! together, so that the catalogue and its snapshots are.
//!
//! What a command adds follows from what the catalogue has alone: the catalogues of a cluster's
//! nodes come to the same.

use crate::catalogue::Catalogue;
use crate::command::Command;
use crate::error::CatalogueError;
use crate::record::Vhost;
use crate::topology::order_arguments;
use leveret_types::{FieldTable, FieldValue, entry_weight};
use std::collections::HashSet;

/// What a table comes to.
pub(crate) fn weight(table: &FieldTable) -> u64 {
    table.weight() as u64
}

/// What a value comes to.
pub(crate) fn value_weight(value: Option<&FieldValue>) -> u64 {
    value.map_or(0, |value| (size_of::<FieldValue>() + value.weight()) as u64)
}

/// What the arguments of a binding come to. Of several of one name the router keeps the first.
pub(crate) fn binding_weight(arguments: &FieldTable) -> u64 {
    if arguments.iter().is_sorted_by(|(a, _), (b, _)| a < b) {
        return weight(arguments);
    }
    let mut names = HashSet::new();
    let firsts = arguments.iter().filter(|(name, _)| names.insert(*name));
    firsts
        .map(|(name, value)| entry_weight(name, value) as u64)
        .sum()
}

/// What is in a virtual host beside its queues: what its exchanges, bindings, policies and
/// parameters come to.
pub(crate) fn vhost_weight(vhost: &Vhost) -> u64 {
    let exchanges = vhost
        .exchanges()
        .map(|exchange| weight(exchange.arguments()));
    let bindings = vhost.router().bindings();
    let bindings = bindings.map(|binding| weight(binding.arguments));
    let policies = vhost.policies().chain(vhost.operator_policies());
    let policies = policies.map(|policy| weight(&policy.definition));
    let parameters = vhost.parameters();
    let parameters = parameters.map(|(_, _, value)| value_weight(Some(value)));
    exchanges
        .chain(bindings)
        .chain(policies)
        .chain(parameters)
        .sum()
}

impl Catalogue {
    /// What the arguments of all queues, exchanges and bindings, the definitions of policies and
    /// the values of parameters come to: about their bytes in memory, see [`FieldTable::weight`].
    #[must_use]
    pub const fn argument_bytes(&self) -> u64 {
        self.argument_bytes
    }

    /// Counts a new binding.
    pub(crate) fn note_bound(&mut self, arguments: &FieldTable) {
        if !self.bindings_elsewhere {
            self.argument_bytes += binding_weight(arguments);
        }
    }

    /// Counts what has taken the place of something.
    pub(crate) fn note_replaced(&mut self, before: u64, now: u64) {
        self.argument_bytes = self.argument_bytes - before + now;
    }

    /// Refuses a command that would make more of arguments than there may be. What is there may be
    /// declared again, and replaced by what is no larger; what comes from a log was accepted once.
    pub(crate) fn check_argument_bytes(&self, command: &Command) -> Result<(), CatalogueError> {
        if self.replaying {
            return Ok(());
        }
        let max = self.config.argument_bytes_max;
        let added = added_by(command);
        let is_over = |before: u64| self.argument_bytes - before + added > max;
        if added == 0 || !is_over(0) {
            return Ok(());
        }
        let grows = match self.replaced_by(command) {
            Some(before) => added > before && is_over(before),
            None => self.would_create(command),
        };
        let is_counted = !(self.bindings_elsewhere && matches!(command, Command::Bind { .. }));
        match grows && is_counted {
            true => Err(CatalogueError::ArgumentBytes {
                max_mb: max.div_ceil(1_000_000),
            }),
            false => Ok(()),
        }
    }

    /// What goes when a command puts something else in its place; nothing if it declares or binds,
    /// which replaces nothing.
    fn replaced_by(&self, command: &Command) -> Option<u64> {
        match command {
            Command::PolicySet {
                vhost,
                name,
                operator,
                ..
            } => {
                let found = self.vhost(vhost).and_then(|vhost| match operator {
                    true => vhost.operator_policies.get(name),
                    false => vhost.policies.get(name),
                });
                Some(found.map_or(0, |policy| weight(&policy.definition)))
            }
            Command::ParameterSet {
                vhost,
                component,
                name,
                ..
            } => {
                let key = (component.clone(), name.clone());
                let found = self.vhost(vhost);
                let found = found.and_then(|vhost| vhost.parameters.get(&key));
                Some(value_weight(found))
            }
            Command::GlobalParameterSet { name, .. } => {
                Some(value_weight(self.global_parameters.get(name)))
            }
            _ => None,
        }
    }
}

/// What a command adds where what it makes is new.
fn added_by(command: &Command) -> u64 {
    match command {
        Command::Bind { arguments, .. } => binding_weight(arguments),
        Command::SuperStreamDeclare {
            arguments,
            partitions,
            ..
        } => weight(arguments) + partitions.len() as u64 * binding_weight(&order_arguments(0)),
        Command::ParameterSet { value, .. } | Command::GlobalParameterSet { value, .. } => {
            value_weight(Some(value))
        }
        _ => command.arguments().map_or(0, weight),
    }
}
