//! Definitions: the catalogue as RabbitMQ's JSON has it, so that brokers can be moved with an
//! export and an import.
//!
//! The field names are RabbitMQ's. Unknown fields are left unread, so that exports of any version
//! from 3.x on can be imported.

mod export;
mod import;
mod passed_over;
mod trial;

pub use trial::Trial;

use crate::table::Json;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

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
    /// This and the next two are of the virtual host, where these are the definitions of one alone.
    /// An import leaves them unread, as RabbitMQ does: limits are among the parameters.
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<VhostMetadata>,
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none")]
    pub limits: Option<Json>,
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
    /// Told as RabbitMQ tells it; an import takes them from the parameters.
    pub limits: Json,
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
