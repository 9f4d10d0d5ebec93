//! Definitions: the catalogue as RabbitMQ's JSON has it, so that brokers can be moved with an
//! export and an import.
//!
//! The field names are RabbitMQ's. Unknown fields are left unread, so that exports of any version
//! from 3.x on can be imported.

use crate::arguments::QueueKind;
use crate::catalogue::Catalogue;
use crate::command::{Command, Endpoint};
use crate::error::CatalogueError;
use crate::policy::Policy;
use crate::record::{User, Vhost};
use crate::table::Json;
use leveret_auth::password::SALT_BYTES_GIVEN;
use leveret_auth::{HashingAlgorithm, PasswordHash};
use leveret_routing::Destination;
use leveret_types::{FieldTable, FieldValue};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;

/// Definitions of a whole broker, or of one virtual host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[allow(missing_docs)] // RabbitMQ's field names.
pub struct Definitions {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rabbit_version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rabbitmq_version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub product_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub product_version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rabbitmq_definition_format: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub original_cluster_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub original_vhost_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub explanation: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub users: Vec<UserDefinition>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub vhosts: Vec<VhostDefinition>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub permissions: Vec<PermissionDefinition>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub topic_permissions: Vec<TopicPermissionDefinition>,
    pub parameters: Vec<ParameterDefinition>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub global_parameters: Vec<GlobalParameterDefinition>,
    pub policies: Vec<PolicyDefinition>,
    pub queues: Vec<QueueDefinition>,
    pub exchanges: Vec<ExchangeDefinition>,
    pub bindings: Vec<BindingDefinition>,
}

/// Tags: a list, or, as RabbitMQ before 3.9 wrote them, text with commas.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tags(pub Vec<String>);

impl Serialize for Tags {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Tags {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Form {
            List(Vec<String>),
            Text(String),
        }
        Ok(Self(match Form::deserialize(deserializer)? {
            Form::List(tags) => tags,
            Form::Text(text) => text
                .split(',')
                .map(str::trim)
                .filter(|t| !t.is_empty())
                .map(str::to_owned)
                .collect(),
        }))
    }
}

/// A user.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[allow(missing_docs)] // RabbitMQ's field names.
pub struct UserDefinition {
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub password_hash: Option<String>,
    /// Absent in exports of RabbitMQ before 3.6, whose hashes are MD5.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hashing_algorithm: Option<String>,
    /// In clear text: in files written by hand, never in exports.
    #[serde(skip_serializing)]
    pub password: Option<String>,
    pub tags: Tags,
    pub limits: Json,
}

/// A virtual host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[allow(missing_docs)] // RabbitMQ's field names.
pub struct VhostDefinition {
    pub name: String,
    pub description: Option<String>,
    pub tags: Tags,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_queue_type: Option<String>,
    pub metadata: VhostMetadata,
    pub protected_from_deletion: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tracing: Option<bool>,
}

/// The same as beside it, where newer versions of RabbitMQ look.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[allow(missing_docs)] // RabbitMQ's field names.
pub struct VhostMetadata {
    pub description: Option<String>,
    pub tags: Tags,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_queue_type: Option<String>,
}

/// A user's permissions in a virtual host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)] // RabbitMQ's field names.
pub struct PermissionDefinition {
    pub user: String,
    #[serde(default)]
    pub vhost: String,
    pub configure: String,
    pub write: String,
    pub read: String,
}

/// A user's permissions on the keys of one topic exchange.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)] // RabbitMQ's field names.
pub struct TopicPermissionDefinition {
    pub user: String,
    #[serde(default)]
    pub vhost: String,
    pub exchange: String,
    pub write: String,
    pub read: String,
}

/// A runtime parameter; limits of virtual hosts and operator policies are among them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)] // RabbitMQ's field names.
pub struct ParameterDefinition {
    pub value: Json,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub vhost: String,
    pub component: String,
    pub name: String,
}

/// A global parameter.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)] // RabbitMQ's field names.
pub struct GlobalParameterDefinition {
    pub name: String,
    pub value: Json,
}

/// A policy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)] // RabbitMQ's field names.
pub struct PolicyDefinition {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub vhost: String,
    pub name: String,
    pub pattern: String,
    #[serde(rename = "apply-to", default = "all")]
    pub apply_to: String,
    pub definition: Json,
    #[serde(default)]
    pub priority: i64,
}

fn all() -> String {
    "all".to_owned()
}

/// A queue.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)] // RabbitMQ's field names.
pub struct QueueDefinition {
    pub name: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub vhost: String,
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    pub durable: bool,
    #[serde(default)]
    pub auto_delete: bool,
    #[serde(default)]
    pub arguments: Json,
}

/// An exchange.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)] // RabbitMQ's field names.
pub struct ExchangeDefinition {
    pub name: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub vhost: String,
    #[serde(rename = "type")]
    pub kind: String,
    pub durable: bool,
    #[serde(default)]
    pub auto_delete: bool,
    #[serde(default)]
    pub internal: bool,
    #[serde(default)]
    pub arguments: Json,
}

/// A binding.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)] // RabbitMQ's field names.
pub struct BindingDefinition {
    pub source: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub vhost: String,
    pub destination: String,
    pub destination_type: String,
    #[serde(default)]
    pub routing_key: String,
    #[serde(default)]
    pub arguments: Json,
}

// --- export ------------------------------------------------------------------------------------

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
        bindings.sort_by(|a, b| {
            let key = |b: &BindingDefinition| {
                (
                    b.source.clone(),
                    b.destination_type.clone(),
                    b.destination.clone(),
                    b.routing_key.clone(),
                )
            };
            key(a)
                .cmp(&key(b))
                .then_with(|| format!("{:?}", a.arguments).cmp(&format!("{:?}", b.arguments)))
        });
        definitions.bindings.append(&mut bindings);
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
            .push(parameter("vhost-limits", "limits", value));
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
    for (component, name, value) in record.parameters() {
        definitions
            .parameters
            .push(parameter(component, name, value.clone()));
    }
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

// --- import ------------------------------------------------------------------------------------

impl Definitions {
    /// The commands that import these definitions into `catalogue`, each of which it will accept in
    /// this order. Queues, exchanges and bindings that exist are left as they are, all else is
    /// replaced.
    ///
    /// `vhost` is where items go that name none: an import into one virtual host. `salt` gives
    /// unguessable bytes for passwords in clear text; `shards` is how many shards queues are spread
    /// over.
    ///
    /// # Errors
    /// The first item that is not right, by name. Nothing has changed then.
    pub fn to_commands(
        &self,
        catalogue: &Catalogue,
        vhost: Option<&str>,
        shards: u16,
        salt: &mut dyn FnMut() -> [u8; SALT_BYTES_GIVEN],
    ) -> Result<Vec<Command>, CatalogueError> {
        // A copy of the catalogue takes every command first: what it accepts, the catalogue will.
        let mut import = Import {
            trial: catalogue.trial()?,
            vhost,
            commands: Vec::new(),
        };
        self.import_accounts(&mut import, salt)?;
        for parameter in &self.parameters {
            import.parameter(parameter)?;
        }
        for policy in &self.policies {
            import.policy(policy)?;
        }
        self.import_topology(&mut import, shards)?;
        Ok(import.commands)
    }

    fn import_accounts(
        &self,
        import: &mut Import<'_>,
        salt: &mut dyn FnMut() -> [u8; SALT_BYTES_GIVEN],
    ) -> Result<(), CatalogueError> {
        for parameter in &self.global_parameters {
            import.add(
                format!("global parameter '{}'", parameter.name),
                Command::GlobalParameterSet {
                    name: parameter.name.clone(),
                    value: parameter.value.0.clone(),
                },
            )?;
        }
        for vhost in &self.vhosts {
            import.vhost(vhost)?;
        }
        for user in &self.users {
            let hashing = import.trial.config().hashing;
            let password = password_of(user, hashing, salt);
            import.user(user, password)?;
        }
        for permission in &self.permissions {
            let vhost = import.vhost_of(&permission.vhost)?;
            let item = format!(
                "permission of user '{}' in vhost '{vhost}'",
                permission.user
            );
            import.add(
                item,
                Command::PermissionSet {
                    vhost,
                    user: permission.user.clone(),
                    configure: permission.configure.clone(),
                    write: permission.write.clone(),
                    read: permission.read.clone(),
                },
            )?;
        }
        for permission in &self.topic_permissions {
            let vhost = import.vhost_of(&permission.vhost)?;
            let item = format!(
                "topic permission of user '{}' in vhost '{vhost}'",
                permission.user
            );
            import.add(
                item,
                Command::TopicPermissionSet {
                    vhost,
                    user: permission.user.clone(),
                    exchange: permission.exchange.clone(),
                    write: permission.write.clone(),
                    read: permission.read.clone(),
                },
            )?;
        }
        Ok(())
    }

    fn import_topology(&self, import: &mut Import<'_>, shards: u16) -> Result<(), CatalogueError> {
        for exchange in &self.exchanges {
            import.exchange(exchange)?;
        }
        for queue in &self.queues {
            import.queue(queue, shards)?;
        }
        self.bindings
            .iter()
            .try_for_each(|binding| import.binding(binding))
    }
}

/// The hash that an imported user gets; `None` leaves that of an existing user.
fn password_of(
    user: &UserDefinition,
    hashing: HashingAlgorithm,
    salt: &mut dyn FnMut() -> [u8; SALT_BYTES_GIVEN],
) -> Result<Option<PasswordHash>, CatalogueError> {
    if let Some(text) = &user.password_hash {
        let algorithm = match user.hashing_algorithm.as_deref() {
            None => HashingAlgorithm::Md5,
            Some(name) => HashingAlgorithm::parse(name).ok_or_else(|| {
                CatalogueError::Definitions(format!("unknown hashing algorithm '{name}'"))
            })?,
        };
        return Ok(Some(PasswordHash::parse(algorithm, text)?));
    }
    match &user.password {
        Some(password) => Ok(Some(PasswordHash::new(
            hashing,
            password.as_bytes(),
            &salt(),
        )?)),
        None => Ok(None),
    }
}

/// An import under way.
struct Import<'a> {
    trial: Catalogue,
    vhost: Option<&'a str>,
    commands: Vec<Command>,
}

impl Import<'_> {
    fn add(&mut self, item: String, command: Command) -> Result<(), CatalogueError> {
        match self.trial.apply(&command) {
            Ok(_) => {
                self.commands.push(command);
                Ok(())
            }
            Err(error) => Err(CatalogueError::Definition {
                item,
                error: Box::new(error),
            }),
        }
    }

    /// The virtual host of an item: its own, else the one that is imported into.
    fn vhost_of(&self, named: &str) -> Result<String, CatalogueError> {
        match (self.vhost, named) {
            (Some(vhost), _) => Ok(vhost.to_owned()),
            (None, "") => Err(CatalogueError::Definitions(
                "items name no virtual host: import them into one".to_owned(),
            )),
            (None, named) => Ok(named.to_owned()),
        }
    }

    fn vhost(&mut self, vhost: &VhostDefinition) -> Result<(), CatalogueError> {
        let metadata = &vhost.metadata;
        let tags = if vhost.tags.0.is_empty() {
            &metadata.tags
        } else {
            &vhost.tags
        };
        let default = vhost
            .default_queue_type
            .as_ref()
            .or(metadata.default_queue_type.as_ref());
        self.add(
            format!("vhost '{}'", vhost.name),
            Command::VhostPut {
                vhost: vhost.name.clone(),
                description: vhost
                    .description
                    .clone()
                    .or_else(|| metadata.description.clone()),
                tags: Some(tags.0.clone()),
                default_queue_type: default.cloned(),
                protected: vhost.protected_from_deletion,
                tracing: vhost.tracing,
            },
        )
    }

    fn user(
        &mut self,
        user: &UserDefinition,
        password: Result<Option<PasswordHash>, CatalogueError>,
    ) -> Result<(), CatalogueError> {
        let item = format!("user '{}'", user.name);
        let password = password.map_err(|error| CatalogueError::Definition {
            item: item.clone(),
            error: Box::new(error),
        })?;
        self.add(
            item.clone(),
            Command::UserPut {
                user: user.name.clone(),
                password,
                tags: Some(user.tags.0.clone()),
            },
        )?;
        for (limit, value) in integers(&item, &user.limits)? {
            self.add(
                item.clone(),
                Command::UserLimitSet {
                    user: user.name.clone(),
                    limit,
                    value,
                },
            )?;
        }
        Ok(())
    }

    fn parameter(&mut self, parameter: &ParameterDefinition) -> Result<(), CatalogueError> {
        let vhost = self.vhost_of(&parameter.vhost)?;
        let item = format!("parameter '{}' of {}", parameter.name, parameter.component);
        match parameter.component.as_str() {
            "vhost-limits" => {
                for (limit, value) in integers(&item, &parameter.value)? {
                    let vhost = vhost.clone();
                    self.add(
                        item.clone(),
                        Command::VhostLimitSet {
                            vhost,
                            limit,
                            value,
                        },
                    )?;
                }
                Ok(())
            }
            "operator_policy" | "policy" => {
                let operator = parameter.component == "operator_policy";
                let empty = FieldTable::new();
                let value = parameter.value.as_table().unwrap_or(&empty);
                let text = |key: &str| value.get(key).and_then(FieldValue::as_text);
                let definition = match value.get("definition") {
                    Some(FieldValue::Table(definition)) => definition.clone(),
                    _ => FieldTable::new(),
                };
                self.add(
                    item,
                    Command::PolicySet {
                        vhost,
                        name: parameter.name.clone(),
                        operator,
                        pattern: text("pattern").unwrap_or_default().to_owned(),
                        apply_to: text("apply-to").unwrap_or("all").to_owned(),
                        priority: value
                            .get("priority")
                            .and_then(FieldValue::as_integer)
                            .unwrap_or(0),
                        definition,
                    },
                )
            }
            _ => self.add(
                item,
                Command::ParameterSet {
                    vhost,
                    component: parameter.component.clone(),
                    name: parameter.name.clone(),
                    value: parameter.value.0.clone(),
                },
            ),
        }
    }

    fn policy(&mut self, policy: &PolicyDefinition) -> Result<(), CatalogueError> {
        let vhost = self.vhost_of(&policy.vhost)?;
        let item = format!("policy '{}' in vhost '{vhost}'", policy.name);
        self.add(
            item,
            Command::PolicySet {
                vhost,
                name: policy.name.clone(),
                operator: false,
                pattern: policy.pattern.clone(),
                apply_to: policy.apply_to.clone(),
                priority: policy.priority,
                definition: policy.definition.as_table().cloned().unwrap_or_default(),
            },
        )
    }

    fn exchange(&mut self, exchange: &ExchangeDefinition) -> Result<(), CatalogueError> {
        let vhost = self.vhost_of(&exchange.vhost)?;
        let record = self.trial.vhost(&vhost);
        if exchange.name.is_empty() || record.is_some_and(|v| v.exchange(&exchange.name).is_some())
        {
            return Ok(());
        }
        let item = format!("exchange '{}' in vhost '{vhost}'", exchange.name);
        self.add(
            item,
            Command::ExchangeDeclare {
                vhost,
                name: exchange.name.clone(),
                kind: exchange.kind.clone(),
                durable: exchange.durable,
                auto_delete: exchange.auto_delete,
                internal: exchange.internal,
                arguments: exchange.arguments.as_table().cloned().unwrap_or_default(),
            },
        )
    }

    fn queue(&mut self, queue: &QueueDefinition, shards: u16) -> Result<(), CatalogueError> {
        let vhost = self.vhost_of(&queue.vhost)?;
        if self.trial.queue_by_name(&vhost, &queue.name).is_some() {
            return Ok(());
        }
        let item = format!("queue '{}' in vhost '{vhost}'", queue.name);
        let mut arguments = queue.arguments.as_table().cloned().unwrap_or_default();
        // The type beside the arguments keeps a queue what it was, whatever the default is here.
        let default = self
            .trial
            .default_queue_kind(&vhost)
            .unwrap_or(QueueKind::Classic);
        if let Some(kind) = queue.kind.as_deref().filter(|kind| *kind != default.name())
            && arguments.get("x-queue-type").is_none()
        {
            arguments.set("x-queue-type", FieldValue::text(kind));
        }
        if queue.name.is_empty() {
            let error = Box::new(CatalogueError::NameLength(0));
            return Err(CatalogueError::Definition { item, error });
        }
        self.add(
            item,
            Command::QueueDeclare {
                vhost,
                name: queue.name.clone(),
                durable: queue.durable,
                exclusive: None,
                auto_delete: queue.auto_delete,
                arguments,
                random: [0; 16],
                shards,
                id: None,
            },
        )
    }

    fn binding(&mut self, binding: &BindingDefinition) -> Result<(), CatalogueError> {
        let vhost = self.vhost_of(&binding.vhost)?;
        if binding.source.is_empty() {
            // Older exports name the default exchange's bindings, which every queue has anyway.
            return Ok(());
        }
        let item = format!(
            "binding from '{}' to {} '{}' in vhost '{vhost}'",
            binding.source, binding.destination_type, binding.destination
        );
        let destination = match binding.destination_type.as_str() {
            "exchange" => Endpoint::Exchange(binding.destination.clone()),
            _ => Endpoint::Queue(binding.destination.clone()),
        };
        self.add(
            item,
            Command::Bind {
                vhost,
                source: binding.source.clone(),
                destination,
                routing_key: binding.routing_key.clone().into_bytes(),
                arguments: binding.arguments.as_table().cloned().unwrap_or_default(),
            },
        )
    }
}

/// The entries of an object of integers.
fn integers(item: &str, value: &Json) -> Result<BTreeMap<String, i64>, CatalogueError> {
    let invalid =
        || CatalogueError::Definitions(format!("{item}: limits must be an object of integers"));
    match &value.0 {
        FieldValue::Table(table) => table
            .iter()
            .map(|(name, value)| Ok((name.to_owned(), value.as_integer().ok_or_else(invalid)?)))
            .collect(),
        // RabbitMQ writes an empty proplist as an empty list.
        FieldValue::Array(items) if items.is_empty() => Ok(BTreeMap::new()),
        _ => Err(invalid()),
    }
}
