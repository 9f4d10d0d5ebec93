//! From the catalogue to definitions.

use super::{
    BindingDefinition, Definitions, ExchangeDefinition, GlobalParameterDefinition,
    ParameterDefinition, PermissionDefinition, PolicyDefinition, QueueDefinition, Tags,
    TopicPermissionDefinition, UserDefinition, VhostDefinition, VhostMetadata,
};
use crate::accounts::LIMITS_COMPONENT;
use crate::catalogue::Catalogue;
use crate::policy::Policy;
use crate::record::{ExchangeRecord, QueueRecord, User, Vhost};
use crate::table::{self, Json};
use leveret_routing::{Binding, Destination};
use leveret_types::{FieldTable, FieldValue};
use std::cmp::Ordering;

impl Catalogue {
    /// What survives a restart, of the whole broker or of one virtual host, whose items then do not
    /// name it, in order. The fields about the product are left to the caller.
    #[must_use]
    pub fn export(&self, vhost: Option<&str>) -> Definitions {
        let mut definitions = self.export_unordered(vhost);
        definitions.sort();
        definitions
    }

    /// The same with bindings in no order, for whoever has borrowed the catalogue:
    /// [`Definitions::sort`] then needs it no more. Arguments are the catalogue's own, and not
    /// copied.
    #[must_use]
    pub fn export_unordered(&self, vhost: Option<&str>) -> Definitions {
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
            if let Some(of) = self.vhost(vhost).map(export_vhost) {
                definitions.description = of.description;
                definitions.metadata = Some(of.metadata);
                definitions.limits = Some(of.limits);
            }
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
        let bindings = record.router().bindings();
        let bindings = bindings.filter(|binding| self.survives(record, binding));
        let bindings = bindings.map(|binding| BindingDefinition {
            source: binding.source.to_owned(),
            vhost: vhost.to_owned(),
            destination: binding.destination.name().to_owned(),
            destination_type: match binding.destination {
                Destination::Queue(_) => "queue".to_owned(),
                Destination::Exchange(_) => "exchange".to_owned(),
            },
            routing_key: String::from_utf8_lossy(binding.routing_key).into_owned(),
            arguments: table(binding.arguments),
        });
        definitions.bindings.extend(bindings);
    }

    /// Whether a binding survives a restart: what it binds does.
    fn survives(&self, record: &Vhost, binding: &Binding<'_>) -> bool {
        let exchange = |name: &str| record.exchange(name).is_some_and(ExchangeRecord::durable);
        let queue = |name: &str| self.queue(record.queue_id(name)?);
        exchange(binding.source)
            && match binding.destination {
                Destination::Queue(name) => queue(name).is_some_and(QueueRecord::survives_restart),
                Destination::Exchange(name) => exchange(name),
            }
    }
}

impl Definitions {
    /// Puts bindings into an order that is always the same; all else of an export has one.
    pub fn sort(&mut self) {
        self.bindings.sort_unstable_by(binding_order);
    }
}

/// The order of bindings: by what they bind, then by their arguments.
fn binding_order(a: &BindingDefinition, b: &BindingDefinition) -> Ordering {
    let by_ends = a
        .vhost
        .cmp(&b.vhost)
        .then_with(|| a.source.cmp(&b.source))
        .then_with(|| a.destination_type.cmp(&b.destination_type))
        .then_with(|| a.destination.cmp(&b.destination))
        .then_with(|| a.routing_key.cmp(&b.routing_key));
    by_ends.then_with(|| match (a.arguments.as_table(), b.arguments.as_table()) {
        (Some(a), Some(b)) => table::compare(a, b),
        _ => Ordering::Equal,
    })
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
        limits: Json(FieldValue::Table(limits_table(vhost.limits()))),
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
    let policies = record.policies();
    let policies = policies.map(|policy| policy.to_definition(vhost));
    definitions.policies.extend(policies);
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
    let (permissions, topics) = (
        user.permission_definitions(),
        user.topic_permission_definitions(),
    );
    definitions.permissions.extend(permissions);
    definitions.topic_permissions.extend(topics);
}

impl User {
    /// Its permissions in a virtual host.
    #[must_use]
    pub fn permission_definition(&self, vhost: &str) -> Option<PermissionDefinition> {
        let permission = self.permission(vhost)?;
        Some(PermissionDefinition {
            user: self.name().to_owned(),
            vhost: vhost.to_owned(),
            configure: permission.configure.as_str().to_owned(),
            write: permission.write.as_str().to_owned(),
            read: permission.read.as_str().to_owned(),
        })
    }

    /// All its permissions.
    pub fn permission_definitions(&self) -> impl Iterator<Item = PermissionDefinition> {
        let vhosts = self.permissions().map(|(vhost, _)| vhost);
        vhosts.filter_map(|vhost| self.permission_definition(vhost))
    }

    /// All its topic permissions.
    pub fn topic_permission_definitions(&self) -> impl Iterator<Item = TopicPermissionDefinition> {
        let all = self.topic_permissions();
        all.map(|(vhost, exchange, topic)| TopicPermissionDefinition {
            user: self.name().to_owned(),
            vhost: vhost.to_owned(),
            exchange: exchange.to_owned(),
            write: topic.write().to_owned(),
            read: topic.read().to_owned(),
        })
    }
}

impl Policy {
    /// The policy as one of this virtual host.
    #[must_use]
    pub fn to_definition(&self, vhost: &str) -> PolicyDefinition {
        PolicyDefinition {
            vhost: vhost.to_owned(),
            name: self.name.to_string(),
            pattern: self.pattern.as_str().to_owned(),
            apply_to: self.apply_to.name().to_owned(),
            definition: Json(FieldValue::Table(self.definition.clone())),
            priority: self.priority,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::Config;
    use crate::command::{Command, Endpoint};

    /// A catalogue with bindings of one source, destination and key, which are told apart by their
    /// arguments alone, and are made in this order.
    fn catalogue(order: impl Iterator<Item = i32>) -> Catalogue {
        let mut catalogue = Catalogue::new(Config::default());
        let vhost = || "/".to_owned();
        let put = Command::VhostPut {
            vhost: vhost(),
            description: None,
            tags: None,
            default_queue_type: None,
            protected: None,
            tracing: None,
        };
        let bind = |number| Command::Bind {
            vhost: vhost(),
            source: "amq.headers".to_owned(),
            destination: Endpoint::Exchange("amq.topic".to_owned()),
            routing_key: Vec::new(),
            arguments: FieldTable::from([("n", FieldValue::I32(number))]),
        };
        for command in [put].into_iter().chain(order.map(bind)) {
            catalogue.apply(&command).expect("a command");
        }
        catalogue
    }

    #[test]
    fn an_export_and_a_snapshot_tell_nothing_of_the_order_in_which_bindings_were_made() {
        let (one, other) = (catalogue(0..300), catalogue((0..300).rev()));
        assert_eq!(one.export(None), other.export(None));
        assert_eq!(one.snapshot(), other.snapshot());
        assert_eq!(one.durable_commands(), other.durable_commands());
        let exported = one.export(None);
        let number = |binding: &BindingDefinition| {
            let n = binding.arguments.as_table()?.get("n")?;
            n.as_integer()
        };
        let numbers = exported.bindings.iter().filter_map(number);
        assert!(numbers.eq(0..300));
    }

    #[test]
    fn an_export_and_a_snapshot_share_arguments_with_the_catalogue() {
        let catalogue = catalogue(0..1);
        let router = catalogue.vhost("/").expect("a virtual host").router();
        let own = router.bindings().next().expect("a binding").arguments;
        let exported = catalogue.export(None).bindings;
        let exported = exported[0].arguments.as_table().expect("a table");
        assert!(exported.shares_with(own), "they were copied");
        let commands = catalogue.durable_commands();
        let bind = commands.iter().find(|c| matches!(c, Command::Bind { .. }));
        let arguments = bind.and_then(Command::arguments).expect("a binding");
        assert!(arguments.shares_with(own), "they were copied");
    }
}
