//! From the catalogue to definitions.

use super::{
    BindingDefinition, Definitions, ExchangeDefinition, GlobalParameterDefinition,
    ParameterDefinition, PermissionDefinition, PolicyDefinition, QueueDefinition, Tags,
    TopicPermissionDefinition, UserDefinition, VhostDefinition, VhostMetadata,
};
use crate::accounts::LIMITS_COMPONENT;
use crate::catalogue::Catalogue;
use crate::command::{Command, Endpoint};
use crate::policy::Policy;
use crate::record::{User, Vhost};
use crate::table::Json;
use leveret_routing::Destination;
use leveret_types::{FieldTable, FieldValue};
use std::cmp::Ordering;

impl Catalogue {
    /// What survives a restart, of the whole broker or of one virtual host, whose items then do not
    /// name it. The fields about the product are left to the caller.
    #[must_use]
    pub fn export(&self, vhost: Option<&str>) -> Definitions {
        let mut definitions = Definitions::default();
        for record in self
            .vhosts()
            .filter(|record| vhost.is_none_or(|name| name == record.name()))
        {
            let name = if vhost.is_none() { record.name() } else { "" };
            self.export_topology(record, name, &mut definitions);
            export_parameters(record, name, &mut definitions);
        }
        if let Some(vhost) = vhost {
            definitions.rabbitmq_definition_format = Some("single_virtual_host".to_owned());
            definitions.original_vhost_name = Some(vhost.to_owned());
            return definitions;
        }
        definitions.rabbitmq_definition_format = Some("cluster".to_owned());
        definitions.vhosts = self.vhosts().map(export_vhost).collect();
        for user in self.users() {
            export_user(user, &mut definitions);
        }
        definitions.global_parameters = self
            .global_parameters()
            .map(|(name, value)| GlobalParameterDefinition {
                name: name.to_owned(),
                value: Json(value.clone()),
            })
            .collect();
        definitions
    }

    fn export_topology(&self, record: &Vhost, vhost: &str, definitions: &mut Definitions) {
        let table = |arguments: &FieldTable| Json(FieldValue::Table(arguments.clone()));
        let exchanges = record
            .exchanges()
            .filter(|x| x.durable() && !x.name().starts_with("amq."));
        definitions
            .exchanges
            .extend(exchanges.map(|exchange| ExchangeDefinition {
                name: exchange.name().to_owned(),
                vhost: vhost.to_owned(),
                kind: exchange.kind().to_owned(),
                durable: true,
                auto_delete: exchange.auto_delete(),
                internal: exchange.internal(),
                arguments: table(exchange.arguments()),
            }));
        let queues = record.queue_ids().filter_map(|id| self.queue(id));
        definitions
            .queues
            .extend(
                queues
                    .filter(|q| q.survives_restart())
                    .map(|queue| QueueDefinition {
                        name: queue.name().to_owned(),
                        vhost: vhost.to_owned(),
                        kind: Some(queue.kind().name().to_owned()),
                        durable: true,
                        auto_delete: queue.auto_delete(),
                        arguments: table(queue.arguments()),
                    }),
            );
        let mut bindings: Vec<BindingDefinition> = Vec::new();
        for binding in record.router().bindings() {
            let (endpoint, destination_type) = match binding.destination {
                Destination::Queue(name) => (Endpoint::Queue(name.to_owned()), "queue"),
                Destination::Exchange(name) => (Endpoint::Exchange(name.to_owned()), "exchange"),
            };
            let command = Command::Bind {
                vhost: record.name().to_owned(),
                source: binding.source.to_owned(),
                destination: endpoint,
                routing_key: binding.routing_key.to_vec(),
                arguments: binding.arguments.clone(),
            };
            if self.is_durable(&command) {
                bindings.push(BindingDefinition {
                    source: binding.source.to_owned(),
                    vhost: vhost.to_owned(),
                    destination: binding.destination.name().to_owned(),
                    destination_type: destination_type.to_owned(),
                    routing_key: String::from_utf8_lossy(binding.routing_key).into_owned(),
                    arguments: table(binding.arguments),
                });
            }
        }
        sort_with_ties(&mut bindings, binding_order, |binding| {
            format!("{:?}", binding.arguments)
        });
        definitions.bindings.append(&mut bindings);
    }
}

/// The order of bindings by what they bind, without their arguments.
fn binding_order(a: &BindingDefinition, b: &BindingDefinition) -> Ordering {
    a.source
        .cmp(&b.source)
        .then_with(|| a.destination_type.cmp(&b.destination_type))
        .then_with(|| a.destination.cmp(&b.destination))
        .then_with(|| a.routing_key.cmp(&b.routing_key))
}

/// Sorts items, those that are equal by a key of theirs: a costly one, made once of each of these
/// alone.
fn sort_with_ties<T, K: Ord>(
    items: &mut [T],
    order: impl Fn(&T, &T) -> Ordering,
    mut key: impl FnMut(&T) -> K,
) {
    items.sort_by(&order);
    for equals in items.chunk_by_mut(|a, b| order(a, b).is_eq()) {
        if equals.len() > 1 {
            equals.sort_by_cached_key(&mut key);
        }
    }
}

fn export_vhost(vhost: &Vhost) -> VhostDefinition {
    let description = Some(vhost.description().to_owned());
    let tags = Tags(vhost.tags().to_vec());
    let default_queue_type = vhost
        .default_queue_type()
        .map(|kind| kind.name().to_owned());
    VhostDefinition {
        name: vhost.name().to_owned(),
        description: description.clone(),
        tags: tags.clone(),
        default_queue_type: default_queue_type.clone(),
        metadata: VhostMetadata {
            description,
            tags,
            default_queue_type,
        },
        protected_from_deletion: Some(vhost.protected()),
        tracing: Some(vhost.tracing()),
    }
}

fn export_parameters(record: &Vhost, vhost: &str, definitions: &mut Definitions) {
    let parameter = |component: &str, name: &str, value: FieldValue| ParameterDefinition {
        value: Json(value),
        vhost: vhost.to_owned(),
        component: component.to_owned(),
        name: name.to_owned(),
    };
    let limits = limits_table(record.limits());
    if !limits.is_empty() {
        let value = FieldValue::Table(limits);
        definitions
            .parameters
            .push(parameter(LIMITS_COMPONENT, "limits", value));
    }
    for policy in record.operator_policies() {
        let value = FieldTable::from([
            ("pattern", FieldValue::text(policy.pattern.as_str())),
            ("definition", FieldValue::Table(policy.definition.clone())),
            ("priority", FieldValue::I64(policy.priority)),
            ("apply-to", FieldValue::text(policy.apply_to.name())),
        ]);
        let value = FieldValue::Table(value);
        definitions
            .parameters
            .push(parameter("operator_policy", &policy.name, value));
    }
    // No component reads other parameters: what an earlier version let in would be refused.
    definitions
        .policies
        .extend(record.policies().map(|policy: &Policy| PolicyDefinition {
            vhost: vhost.to_owned(),
            name: policy.name.to_string(),
            pattern: policy.pattern.as_str().to_owned(),
            apply_to: policy.apply_to.name().to_owned(),
            definition: Json(FieldValue::Table(policy.definition.clone())),
            priority: policy.priority,
        }));
}

fn limits_table<'a>(limits: impl Iterator<Item = (&'a str, i64)>) -> FieldTable {
    limits
        .map(|(name, value)| (name.to_owned(), FieldValue::I64(value)))
        .collect()
}

fn export_user(user: &User, definitions: &mut Definitions) {
    definitions.users.push(UserDefinition {
        name: user.name().to_owned(),
        password_hash: Some(user.password().text.clone()),
        hashing_algorithm: Some(user.password().algorithm.name().to_owned()),
        password: None,
        tags: Tags(user.tags().to_vec()),
        limits: Json(FieldValue::Table(limits_table(user.limits()))),
    });
    definitions
        .permissions
        .extend(
            user.permissions()
                .map(|(vhost, permission)| PermissionDefinition {
                    user: user.name().to_owned(),
                    vhost: vhost.to_owned(),
                    configure: permission.configure.as_str().to_owned(),
                    write: permission.write.as_str().to_owned(),
                    read: permission.read.as_str().to_owned(),
                }),
        );
    definitions
        .topic_permissions
        .extend(user.topic_permissions().map(|(vhost, exchange, topic)| {
            TopicPermissionDefinition {
                user: user.name().to_owned(),
                vhost: vhost.to_owned(),
                exchange: exchange.to_owned(),
                write: topic.write().to_owned(),
                read: topic.read().to_owned(),
            }
        }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_costly_key_is_made_once_of_each_item_that_has_equals() {
        let mut items: Vec<(u32, u32)> = (0..4000).map(|n| (n * 7 % 2000, 5000 - n)).collect();
        items.extend((10_000..20_000).rev().map(|n| (n, n)));
        let mut made = 0;
        sort_with_ties(
            &mut items,
            |a, b| a.0.cmp(&b.0),
            |item| {
                made += 1;
                item.1
            },
        );
        assert!(items.is_sorted());
        assert_eq!(made, 4000);
    }
}
