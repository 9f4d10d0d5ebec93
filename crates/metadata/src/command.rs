//! Commands: everything that can be done to the catalogue, and their bytes in the log.
//!
//! ```text
//! byte 0    version of the format, 1
//! byte 1..  the command in CBOR: its name, with a map of its fields by name
//! ```
//!
//! A reader skips fields that it does not know, and takes an optional field that is missing for
//! absent: so fields can be added, as optional ones, without another version.

use crate::error::CatalogueError;
use crate::table;
use leveret_auth::PasswordHash;
use leveret_types::limits::{COMMAND_BYTES_MAX, DEFINITIONS_DEPTH_MAX};
use leveret_types::{FieldTable, FieldValue, QueueId};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Version of the bytes of commands and snapshots.
pub const FORMAT_VERSION: u8 = 1;

/// What a binding leads to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Endpoint {
    /// The queue of this name.
    Queue(String),
    /// The exchange of this name.
    Exchange(String),
}

impl Endpoint {
    pub(crate) fn as_destination(&self) -> leveret_routing::Destination<'_> {
        match self {
            Self::Queue(name) => leveret_routing::Destination::Queue(name),
            Self::Exchange(name) => leveret_routing::Destination::Exchange(name),
        }
    }
}

/// A change of the catalogue. Names are as clients give them, but for carriage returns and line
/// feeds, which are taken out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Command {
    /// Creates a virtual host with its predeclared exchanges, or changes what is given of it.
    VhostPut {
        /// Its name.
        vhost: String,
        /// Description; `None` leaves it as it is.
        description: Option<String>,
        /// Tags; `None` leaves them as they are.
        tags: Option<Vec<String>>,
        /// Type of queues declared without one: `classic` or `quorum`, empty for none; `None`
        /// leaves it as it is.
        default_queue_type: Option<String>,
        /// Whether deletion is refused; `None` leaves it as it is.
        protected: Option<bool>,
        /// Whether messages are copied to `amq.rabbitmq.trace`; `None` leaves it as it is.
        tracing: Option<bool>,
    },
    /// Deletes a virtual host with all that is in it.
    VhostDelete {
        /// Its name.
        vhost: String,
    },
    /// Creates a user or changes what is given of it.
    UserPut {
        /// Its name.
        user: String,
        /// The hash of its password; `None` leaves it as it is, and a new user without one.
        password: Option<PasswordHash>,
        /// Tags; `None` leaves them as they are.
        tags: Option<Vec<String>>,
    },
    /// Deletes a user with its permissions.
    UserDelete {
        /// Its name.
        user: String,
    },
    /// Sets what a user may do in a virtual host.
    PermissionSet {
        /// The virtual host.
        vhost: String,
        /// The user.
        user: String,
        /// Pattern of what it may declare and delete.
        configure: String,
        /// Pattern of what it may write to.
        write: String,
        /// Pattern of what it may read from.
        read: String,
    },
    /// Takes a user's permissions in a virtual host away.
    PermissionClear {
        /// The virtual host.
        vhost: String,
        /// The user.
        user: String,
    },
    /// Sets which routing keys a user may use at a topic exchange.
    TopicPermissionSet {
        /// The virtual host.
        vhost: String,
        /// The user.
        user: String,
        /// The exchange.
        exchange: String,
        /// Pattern of keys for publishing.
        write: String,
        /// Pattern of keys for binding.
        read: String,
    },
    /// Takes a user's topic permissions in a virtual host away.
    TopicPermissionClear {
        /// The virtual host.
        vhost: String,
        /// The user.
        user: String,
        /// The exchange; all of them where there is none.
        exchange: Option<String>,
    },
    /// Sets a limit of a virtual host: `max-connections` or `max-queues`; a negative value is no
    /// limit.
    VhostLimitSet {
        /// The virtual host.
        vhost: String,
        /// The limit's name.
        limit: String,
        /// Its value.
        value: i64,
    },
    /// Takes a limit of a virtual host away.
    VhostLimitClear {
        /// The virtual host.
        vhost: String,
        /// The limit's name; all of them where there is none.
        limit: Option<String>,
    },
    /// Sets a limit of a user: `max-connections` or `max-channels`; a negative value is no limit.
    UserLimitSet {
        /// The user.
        user: String,
        /// The limit's name.
        limit: String,
        /// Its value.
        value: i64,
    },
    /// Takes a limit of a user away.
    UserLimitClear {
        /// The user.
        user: String,
        /// The limit's name; all of them where there is none.
        limit: Option<String>,
    },
    /// Creates or replaces a policy.
    PolicySet {
        /// The virtual host.
        vhost: String,
        /// The policy's name.
        name: String,
        /// Whether it is an operator policy.
        operator: bool,
        /// Pattern of the names that it applies to.
        pattern: String,
        /// `all`, `queues`, `classic_queues`, `quorum_queues`, `streams` or `exchanges`.
        apply_to: String,
        /// Of several that match, the one with the highest priority applies.
        priority: i64,
        /// Keys and values.
        #[serde(with = "table::exact")]
        definition: FieldTable,
    },
    /// Deletes a policy.
    PolicyClear {
        /// The virtual host.
        vhost: String,
        /// The policy's name.
        name: String,
        /// Whether it is an operator policy.
        operator: bool,
    },
    /// Sets a runtime parameter, which the catalogue keeps for whoever reads it.
    ParameterSet {
        /// The virtual host.
        vhost: String,
        /// The component that reads it, such as `shovel`.
        component: String,
        /// The parameter's name.
        name: String,
        /// Its value.
        #[serde(with = "table::exact_value")]
        value: FieldValue,
    },
    /// Deletes a runtime parameter.
    ParameterClear {
        /// The virtual host.
        vhost: String,
        /// The component.
        component: String,
        /// The parameter's name.
        name: String,
    },
    /// Sets a global parameter.
    GlobalParameterSet {
        /// Its name.
        name: String,
        /// Its value.
        #[serde(with = "table::exact_value")]
        value: FieldValue,
    },
    /// Deletes a global parameter.
    GlobalParameterClear {
        /// Its name.
        name: String,
    },
    /// Declares an exchange: creates it, or checks that it is as described.
    ExchangeDeclare {
        /// The virtual host.
        vhost: String,
        /// Its name.
        name: String,
        /// Its type.
        kind: String,
        /// Whether it survives a restart.
        durable: bool,
        /// Whether it goes when the last binding from it goes.
        auto_delete: bool,
        /// Whether clients may not publish to it.
        internal: bool,
        /// Arguments.
        #[serde(with = "table::exact")]
        arguments: FieldTable,
    },
    /// Deletes an exchange; one that does not exist is deleted already.
    ExchangeDelete {
        /// The virtual host.
        vhost: String,
        /// Its name.
        name: String,
        /// Refuse if bindings lead away from it.
        if_unused: bool,
    },
    /// Declares a queue: creates it, or checks that it is as described.
    QueueDeclare {
        /// The virtual host.
        vhost: String,
        /// Its name; empty for one that is made of `random`.
        name: String,
        /// Whether it survives a restart.
        durable: bool,
        /// The id of the connection that it belongs to, where it is exclusive.
        exclusive: Option<u64>,
        /// Whether it goes with its last consumer.
        auto_delete: bool,
        /// Arguments.
        #[serde(with = "table::exact")]
        arguments: FieldTable,
        /// Unguessable bytes for a generated name.
        random: [u8; 16],
        /// How many shards new queues are spread over, from 1 to 256.
        shards: u16,
        /// The id of a queue that existed already when this was written: in logs and snapshots.
        id: Option<u64>,
    },
    /// Deletes a queue; one that does not exist is deleted already. Whether it is unused or empty,
    /// the caller has asked the queue.
    QueueDelete {
        /// The virtual host.
        vhost: String,
        /// Its name.
        name: String,
        /// The id of the connection that wants it, refused if the queue is another's; `None` for
        /// the broker itself.
        connection: Option<u64>,
        /// Only this incarnation of the queue: another one of its name is left alone.
        id: Option<u64>,
    },
    /// Binds a queue or an exchange to an exchange.
    Bind {
        /// The virtual host.
        vhost: String,
        /// Name of the exchange that messages come from.
        source: String,
        /// Where they go.
        destination: Endpoint,
        /// Binding key.
        #[serde(with = "table::bytes")]
        routing_key: Vec<u8>,
        /// Arguments.
        #[serde(with = "table::exact")]
        arguments: FieldTable,
    },
    /// Adds a node to the cluster; one that is in it already keeps its number.
    NodeJoin {
        /// The identity of its data folder.
        uuid: [u8; 16],
        /// Where it listens for other nodes: `host:port`.
        address: String,
        /// Its name in listings.
        name: String,
    },
    /// Takes a node out of the cluster for good: queues that were on it alone go, and its number is
    /// never used again.
    NodeForget {
        /// Its number.
        node: u32,
    },
    /// A node has started (again): exclusive and transient queues of its last run go.
    NodeStarted {
        /// Its number.
        node: u32,
        /// Where it listens now.
        address: String,
        /// Its name now.
        name: String,
    },
    /// A node has been down for [`leveret_types::limits::NODE_LOST_MS`]: exclusive and transient
    /// queues of that run go. Nothing changes if it has started anew by then, or is up again.
    NodeLost {
        /// Its number.
        node: u32,
        /// The run that the catalogue knows of.
        start: u64,
    },
    /// A node gets no new queues, or gets them again.
    NodeDrain {
        /// Its number.
        node: u32,
        /// Whether it gets none.
        draining: bool,
    },
    /// A node votes from now on, as soon as it has caught up, and may have members of replicated
    /// queues.
    NodePromote {
        /// Its number.
        node: u32,
    },
    /// Changes the members of a replicated queue's group.
    QueueMembers {
        /// The queue.
        id: u64,
        /// The members from now on, the preferred leader first. A node that has a member keeps it,
        /// and the number of a new one is given when the command is carried out.
        members: Vec<u64>,
        /// How many members it is to have from now on, where somebody decides that; nothing leaves
        /// that as it was.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        size: Option<u32>,
    },
    /// Begins the next epoch of a replicated stream, with this leader. Nothing changes if its epoch
    /// is another one by then, or if the node is not among its members any more.
    StreamLeader {
        /// The stream.
        stream: u64,
        /// The epoch that it has.
        after: u64,
        /// The epoch that begins: a later one.
        epoch: u64,
        /// The number of the node that leads it.
        leader: u32,
    },
    /// Adds one member to a replicated stream, or takes one away that does not lead it. Nothing
    /// changes if its members are others by then.
    StreamMembers {
        /// The stream.
        stream: u64,
        /// The numbers of the nodes that are its members.
        before: Vec<u32>,
        /// Those that are its members from now on.
        members: Vec<u32>,
    },
    /// Makes a super stream of streams that are there: its exchange, with a binding for each of
    /// them. All of it is made or nothing; nothing is where there is an exchange of this name.
    SuperStreamDeclare {
        /// The virtual host.
        vhost: String,
        /// Its name.
        name: String,
        /// The arguments of its exchange.
        #[serde(with = "table::exact")]
        arguments: FieldTable,
        /// Its partitions in their order: the stream, and its routing key.
        partitions: Vec<(String, String)>,
    },
    /// Changes nothing: a node whose own command of this kind has been carried out has seen all
    /// that the cluster had agreed on when it asked.
    Look,
    /// Removes a binding; one that does not exist is removed already.
    Unbind {
        /// The virtual host.
        vhost: String,
        /// Name of the exchange that messages come from.
        source: String,
        /// Where they go.
        destination: Endpoint,
        /// Binding key.
        #[serde(with = "table::bytes")]
        routing_key: Vec<u8>,
        /// Arguments.
        #[serde(with = "table::exact")]
        arguments: FieldTable,
    },
}

impl Command {
    /// A deletion of one incarnation of a queue by the broker itself.
    #[must_use]
    pub fn queue_delete(vhost: &str, name: &str, id: QueueId) -> Self {
        Self::QueueDelete {
            vhost: vhost.to_owned(),
            name: name.to_owned(),
            connection: None,
            id: Some(id.0),
        }
    }

    /// The arguments, or the definition, that a declaration, a binding or a policy gives; nothing
    /// of any other command.
    #[must_use]
    pub const fn arguments(&self) -> Option<&FieldTable> {
        match self {
            Self::ExchangeDeclare { arguments, .. }
            | Self::SuperStreamDeclare { arguments, .. }
            | Self::QueueDeclare { arguments, .. }
            | Self::Bind { arguments, .. }
            | Self::PolicySet {
                definition: arguments,
                ..
            } => Some(arguments),
            _ => None,
        }
    }

    /// The bytes of the command.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        encode(self)
    }

    /// The command that these bytes are.
    ///
    /// # Errors
    /// If they are of another version, or damaged.
    pub fn decode(bytes: &[u8]) -> Result<Self, CatalogueError> {
        decode("command", bytes)
    }

    /// Whether the command may be written down: it is not too large, and its bytes can be read
    /// again. A node would not start from what cannot be read, and a replica would not apply it.
    ///
    /// # Errors
    /// Why not.
    pub fn check_writable(&self) -> Result<(), CatalogueError> {
        let bytes = self.encode();
        check_size(&bytes)?;
        Self::decode(&bytes).map(drop)
    }

    /// The first of these, which is told before any of several commands is carried out.
    ///
    /// # Errors
    /// How large it is.
    pub fn check_size(&self) -> Result<(), CatalogueError> {
        check_size(&self.encode())
    }
}

/// Depth of CBOR that is read: a table in a table is three levels of it (a variant, a list, a
/// pair), and no deeper tables are taken from clients and definitions than
/// [`DEFINITIONS_DEPTH_MAX`]. What is around them has fewer levels than the fourth of each.
const CBOR_DEPTH_MAX: usize = 4 * DEFINITIONS_DEPTH_MAX;

fn check_size(bytes: &[u8]) -> Result<(), CatalogueError> {
    match bytes.len() {
        bytes if bytes > COMMAND_BYTES_MAX => Err(CatalogueError::CommandBytes {
            bytes,
            max: COMMAND_BYTES_MAX,
        }),
        _ => Ok(()),
    }
}

/// A value behind the version of the format.
pub(crate) fn encode<T: Serialize>(value: &T) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(USUAL_BYTES);
    encode_onto(&mut bytes, value);
    bytes
}

/// Room for most commands.
const USUAL_BYTES: usize = 256;

/// The same behind other bytes.
pub(crate) fn encode_onto<T: Serialize>(bytes: &mut Vec<u8>, value: &T) {
    bytes.push(FORMAT_VERSION);
    if let Err(error) = ciborium::into_writer(value, bytes) {
        // Writing to memory cannot fail, and every type here has a form in CBOR.
        panic!("a value without a form in CBOR: {error}");
    }
}

/// The inverse of [`encode`].
pub(crate) fn decode<T: DeserializeOwned>(
    what: &'static str,
    bytes: &[u8],
) -> Result<T, CatalogueError> {
    let unreadable = |reason: String| CatalogueError::Unreadable { what, reason };
    match bytes.split_first() {
        Some((&FORMAT_VERSION, rest)) => {
            ciborium::de::from_reader_with_recursion_limit(rest, CBOR_DEPTH_MAX)
                .map_err(|error| unreadable(error.to_string()))
        }
        Some((version, _)) => Err(unreadable(format!("format version {version}"))),
        None => Err(unreadable("no bytes".to_owned())),
    }
}
