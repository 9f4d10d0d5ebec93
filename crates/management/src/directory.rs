//! What the HTTP API reads and writes of the catalogue (virtual hosts, users, policies, exchanges,
//! queues, bindings), as a trait of plain values. What is shown as definitions have it is one of
//! these, and what is changed is a command of the catalogue; only what the API shows more of, or
//! otherwise, has a type here.

use crate::api::Binding;
use leveret_metadata::{
    Command, Definitions, GlobalParameterDefinition, ParameterDefinition, PermissionDefinition,
    PolicyDefinition, TopicPermissionDefinition,
};
use leveret_types::{ConnectionId, FieldTable, NodeId, QueueId};
use serde_json::Value;

/// How many of each thing there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)] // Each is what its name says.
pub struct Counts {
    pub vhosts: u64,
    pub exchanges: u64,
    pub queues: u64,
    pub bindings: u64,
}

/// A virtual host.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Vhost {
    /// Name.
    pub name: String,
    /// What its owner says of it.
    pub description: String,
    /// Tags.
    pub tags: Vec<String>,
    /// Type of queues declared without one; none where the node's holds.
    pub default_queue_type: Option<String>,
    /// Whether its messages go to `amq.rabbitmq.trace`.
    pub tracing: bool,
    /// Whether it must not be deleted.
    pub protected: bool,
    /// Limits by RabbitMQ's names (`max-connections`, `max-queues`).
    pub limits: Vec<(String, i64)>,
}

/// A user.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct User {
    /// Name.
    pub name: String,
    /// Tags.
    pub tags: Vec<String>,
    /// Salted hash in RabbitMQ's form; empty: the user has no password and cannot log in with one.
    pub password_hash: String,
    /// RabbitMQ's name of the algorithm.
    pub hashing_algorithm: String,
    /// Limits by RabbitMQ's names (`max-connections`, `max-channels`).
    pub limits: Vec<(String, i64)>,
}

/// An exchange.
#[derive(Clone, Debug, Default, PartialEq)]
#[allow(missing_docs)] // As declared.
pub struct Exchange {
    pub vhost: String,
    pub name: String,
    pub kind: String,
    pub durable: bool,
    pub auto_delete: bool,
    pub internal: bool,
    pub arguments: FieldTable,
    /// Name of the policy that holds.
    pub policy: Option<String>,
    /// Who declared it, where that is known.
    pub declared_by: String,
    /// Messages published to it since the node's start.
    pub published_in: u64,
    /// Messages that queues have got from it since then.
    pub published_out: u64,
}

/// What passes through an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traffic<'a> {
    /// Its virtual host.
    pub vhost: &'a str,
    /// Its name.
    pub exchange: &'a str,
    /// Its type.
    pub kind: &'a str,
    /// Messages published to it, and those that queues have got from it, since the node's start.
    pub published: [u64; 2],
}

/// A queue.
#[derive(Clone, Debug, Default, PartialEq)]
#[allow(missing_docs)] // As declared.
pub struct Queue {
    pub id: QueueId,
    pub vhost: String,
    pub name: String,
    /// `classic`, `quorum`, `stream`.
    pub kind: String,
    pub durable: bool,
    pub auto_delete: bool,
    pub exclusive: bool,
    /// The connection that owns it, where it is exclusive.
    pub owner: Option<ConnectionId>,
    pub arguments: FieldTable,
    /// Name of the policy that holds.
    pub policy: Option<String>,
    /// Name of the operator's policy that holds.
    pub operator_policy: Option<String>,
    /// What both come to.
    pub effective_policy: FieldTable,
    /// The nodes that have it, by number and name: those of its members, or the one that it lives
    /// on. Empty on a node without cluster.
    pub nodes: Vec<(NodeId, String)>,
}

/// Which bindings are meant. An exchange's bindings to queues from the default exchange are among
/// them, as in RabbitMQ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // Names of virtual host and object.
pub enum BindingScope<'a> {
    All,
    Vhost(&'a str),
    Source { vhost: &'a str, exchange: &'a str },
    ToQueue { vhost: &'a str, queue: &'a str },
    ToExchange { vhost: &'a str, exchange: &'a str },
}

impl BindingScope<'_> {
    /// Whether a binding of this virtual host is meant.
    #[must_use]
    pub fn takes(&self, of: &str, binding: &Binding) -> bool {
        match *self {
            Self::All => true,
            Self::Vhost(vhost) => vhost == of,
            Self::Source { vhost, exchange } => vhost == of && binding.source == exchange,
            Self::ToQueue { vhost, queue } => {
                vhost == of && binding.to_queue && binding.destination == queue
            }
            Self::ToExchange { vhost, exchange } => {
                vhost == of && !binding.to_queue && binding.destination == exchange
            }
        }
    }
}

/// Where a binding is found again, in its virtual host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BindingId {
    /// The default exchange's to this queue.
    Implicit(QueueId),
    /// The one of this number. When it is gone another one may get its number.
    Numbered(u32),
}

/// How a user's password is given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Secret {
    /// In the clear: the node hashes it.
    Password(String),
    /// Hashed already, by this algorithm (the node's own where none is named); an empty hash
    /// forbids logins by password.
    Hash {
        /// Salted hash in RabbitMQ's form.
        hash: String,
        /// RabbitMQ's name of the algorithm.
        algorithm: Option<String>,
    },
}

/// A change to the catalogue, but for what AMQP declares.
#[derive(Clone, Debug, PartialEq)]
pub enum Alteration {
    /// Creates or changes a user, whose password the node may have to hash.
    PutUser {
        /// Name.
        name: String,
        /// Tags.
        tags: Vec<String>,
        /// Its password.
        secret: Secret,
    },
    /// Deletes those of these users that are there.
    DeleteUsers(Vec<String>),
    /// Any other, as the catalogue has it.
    Command(Command),
}

impl From<Command> for Alteration {
    fn from(command: Command) -> Self {
        Self::Command(command)
    }
}

/// Why a change to the catalogue was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AlterError {
    /// What is to be changed or deleted, or what the change refers to, is not there.
    #[error("{0}")]
    NotFound(String),
    /// The change says what cannot be: a broken pattern, an unknown key, a limit reached.
    #[error("{0}")]
    Invalid(String),
    /// The node could not make it durable.
    #[error("{0}")]
    Failed(String),
    /// Nothing is wrong with the change, and it cannot be made now: a node is short of memory, or
    /// the cluster does not answer.
    #[error("{0}")]
    Unavailable(String),
}

/// The part of a node that is its catalogue. Reads see a state as of some moment; a change is
/// durable when it returns.
pub trait Directory: Send + Sync + 'static {
    /// How many there are.
    fn counts(&self) -> Counts;
    /// All virtual hosts.
    fn vhosts(&self) -> Vec<Vhost>;
    /// One virtual host.
    fn vhost(&self, name: &str) -> Option<Vhost>;
    /// All users.
    fn users(&self) -> Vec<User>;
    /// One user.
    fn user(&self, name: &str) -> Option<User>;
    /// All permissions.
    fn permissions(&self) -> Vec<PermissionDefinition>;
    /// What a user may do in a virtual host; none where it may do nothing.
    fn permission(&self, user: &str, vhost: &str) -> Option<PermissionDefinition>;
    /// All topic permissions.
    fn topic_permissions(&self) -> Vec<TopicPermissionDefinition>;
    /// Says of each policy, users' or operators', its virtual host and its name, in their order.
    fn each_policy(&self, operator: bool, see: &mut dyn FnMut(&str, &str));
    /// One policy.
    fn policy(&self, operator: bool, vhost: &str, name: &str) -> Option<PolicyDefinition>;
    /// Says of each parameter of virtual hosts, but for policies and limits, its virtual host, its
    /// component and its name, in their order.
    fn each_parameter(&self, see: &mut dyn FnMut(&str, &str, &str));
    /// One of these.
    fn parameter(&self, vhost: &str, component: &str, name: &str) -> Option<ParameterDefinition>;
    /// Says the name of each global parameter, in their order.
    fn each_global_parameter(&self, see: &mut dyn FnMut(&str));
    /// A global parameter.
    fn global_parameter(&self, name: &str) -> Option<GlobalParameterDefinition>;
    /// Says of each exchange, of one virtual host or all, its virtual host and its name, by virtual
    /// host and name. What is called must not ask the directory anything.
    fn each_exchange(&self, vhost: Option<&str>, see: &mut dyn FnMut(&str, &str));
    /// Says of each exchange what passes through it, by virtual host and name. What is called must
    /// not ask the directory anything.
    fn each_traffic(&self, see: &mut dyn FnMut(&Traffic<'_>)) {
        for exchange in self.exchanges(None) {
            see(&Traffic {
                vhost: &exchange.vhost,
                exchange: &exchange.name,
                kind: &exchange.kind,
                published: [exchange.published_in, exchange.published_out],
            });
        }
    }
    /// How many bindings lead away from an exchange.
    fn binding_count(&self, vhost: &str, exchange: &str) -> usize {
        let mut count = 0;
        self.each_binding(BindingScope::Source { vhost, exchange }, &mut |_, _| {
            count += 1
        });
        count
    }
    /// Exchanges, of one virtual host or all.
    fn exchanges(&self, vhost: Option<&str>) -> Vec<Exchange> {
        let mut names: Vec<(String, String)> = Vec::new();
        self.each_exchange(vhost, &mut |vhost, name| {
            names.push((vhost.to_owned(), name.to_owned()));
        });
        let names = names.iter();
        let found = names.filter_map(|(vhost, name)| self.exchange(vhost, name));
        found.collect()
    }
    /// How many exchanges a virtual host has.
    fn exchange_count(&self, vhost: &str) -> usize;
    /// One exchange; the default one has the empty name.
    fn exchange(&self, vhost: &str, name: &str) -> Option<Exchange>;
    /// Queues, of one virtual host or all.
    fn declared_queues(&self, vhost: Option<&str>) -> Vec<Queue>;
    /// Says of each queue, of one virtual host or all, its id, its virtual host and its name, by
    /// virtual host and name. What is called must not ask the directory anything.
    fn each_queue(&self, vhost: Option<&str>, see: &mut dyn FnMut(QueueId, &str, &str)) {
        let mut queues = self.declared_queues(vhost);
        queues.sort_by(|a, b| (&a.vhost, &a.name).cmp(&(&b.vhost, &b.name)));
        for queue in queues {
            see(queue.id, &queue.vhost, &queue.name);
        }
    }
    /// These queues, in this order, but for those that are gone.
    fn queues_by_id(&self, ids: &[QueueId]) -> Vec<Queue> {
        let queues = self.declared_queues(None);
        let by_id = |id: &QueueId| queues.iter().find(|queue| queue.id == *id).cloned();
        ids.iter().filter_map(by_id).collect()
    }
    /// How many of the first of these queues have arguments that come to so many bytes together, at
    /// most: one at least.
    fn queues_within(&self, ids: &[QueueId], _bytes: usize) -> usize {
        ids.len()
    }
    /// One queue.
    fn declared_queue(&self, vhost: &str, name: &str) -> Option<Queue>;
    /// Says of each binding its virtual host and where it is found again, in no particular order.
    /// What is called must not ask the directory anything.
    fn each_binding(&self, scope: BindingScope<'_>, see: &mut dyn FnMut(&str, BindingId));
    /// The binding that is there, if there is one.
    fn binding_at(&self, vhost: &str, id: BindingId) -> Option<Binding>;
    /// Bindings, each with its virtual host.
    fn bindings(&self, scope: BindingScope<'_>) -> Vec<(String, Binding)> {
        let mut ids: Vec<(String, BindingId)> = Vec::new();
        self.each_binding(scope, &mut |vhost, id| ids.push((vhost.to_owned(), id)));
        let found = ids.into_iter().filter_map(|(vhost, id)| {
            let binding = self.binding_at(&vhost, id)?;
            scope.takes(&vhost, &binding).then_some((vhost, binding))
        });
        found.collect()
    }
    /// Changes the catalogue. `by` is the user (or operator) who does it.
    fn alter(&self, by: &str, alteration: Alteration) -> Result<(), AlterError>;
    /// A password's hash, as the node would store it.
    fn hash_password(&self, password: &str) -> String;
    /// The type of queues that are declared without one, where their virtual host does not say.
    fn default_queue_type(&self) -> &'static str {
        "classic"
    }
    /// RabbitMQ's definitions, of the node or of one virtual host, as of one moment and in order.
    fn export(&self, vhost: Option<&str>) -> Definitions;
    /// Bytes that the process may take, as of this moment, until nothing new is declared. It gives
    /// back what is free where fewer than `wanted` are left.
    fn memory_left(&self, _wanted: u64) -> u64 {
        u64::MAX
    }
    /// What an import of definitions would be refused for; nothing is changed.
    fn check_import(&self, _vhost: Option<&str>, _definitions: &Value) -> Result<(), AlterError> {
        Ok(())
    }
    /// Has operators read what was left out of an import, a line each; `by` is whose import it is.
    fn note_left_out(&self, _by: &str, _lines: &[String]) {}
    /// Takes definitions in, all or nothing. What it made nothing of, a line each.
    fn import(
        &self,
        by: &str,
        vhost: Option<&str>,
        definitions: &Value,
    ) -> Result<Vec<String>, AlterError>;
}
