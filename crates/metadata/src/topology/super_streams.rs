//! Super streams: an exchange and the bindings of its partitions, made together.

use super::strip_cr_lf;
use crate::catalogue::{Catalogue, Outcome};
use crate::command::{Command, Endpoint};
use crate::error::CatalogueError;
use leveret_routing::PARTITION_ORDER;
use leveret_types::{FieldTable, FieldValue};

impl Catalogue {
    /// Makes the exchange and binds the partitions to it, unless there is an exchange of this name.
    ///
    /// # Errors
    /// What is wrong with either, as with a partition that is not there; nothing has changed then.
    pub(crate) fn declare_super_stream(
        &mut self,
        command: &Command,
    ) -> Result<Outcome, CatalogueError> {
        let Command::SuperStreamDeclare {
            vhost,
            name,
            arguments,
            partitions,
        } = command
        else {
            unreachable!("{command:?} is not about super streams");
        };
        let name = strip_cr_lf(name);
        if self.vhost_or_error(vhost)?.exchange(&name).is_some() {
            return Ok(Outcome::default());
        }
        let mut outcome = self.apply_to_topology(&Command::ExchangeDeclare {
            vhost: vhost.clone(),
            name: name.clone().into_owned(),
            kind: "direct".to_owned(),
            durable: true,
            auto_delete: false,
            internal: false,
            arguments: arguments.clone(),
        })?;
        for (order, (stream, key)) in partitions.iter().enumerate() {
            let bound = self.apply_to_bindings(&Command::Bind {
                vhost: vhost.clone(),
                source: name.clone().into_owned(),
                destination: Endpoint::Queue(stream.clone()),
                routing_key: key.as_bytes().to_vec(),
                arguments: order_arguments(order),
            });
            match bound {
                Ok(bound) => {
                    outcome.changes.extend(bound.changes);
                    outcome.log.extend(bound.log);
                }
                Err(error) => {
                    self.delete_exchange(vhost, &name, false)?;
                    return Err(error);
                }
            }
        }
        Ok(outcome)
    }
}

/// The arguments of a partition's binding.
pub(crate) fn order_arguments(order: usize) -> FieldTable {
    let order = FieldValue::I64(i64::try_from(order).unwrap_or(i64::MAX));
    FieldTable::from([(PARTITION_ORDER, order)])
}
