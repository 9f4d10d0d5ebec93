//! What can be wrong with a command, in RabbitMQ's words where it has the same case.

use leveret_auth::{PasswordError, PatternError};
use leveret_routing::{BindError, KindError};
use leveret_types::limits::{SHORT_STRING_BYTES_MAX, USER_TAGS_MAX};
use leveret_types::{NodeId, ProtocolError, ReplyCode};

/// Bytes of memory that an import may need without being asked for them: a policy can be replaced
/// where nothing is left.
const IMPORT_SMALL_BYTES: u64 = 1_000_000;

/// Why a command was refused. Nothing has changed then.
///
/// A `resource` is written as RabbitMQ writes it: `queue 'q' in vhost '/'`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // The texts say what each case is.
pub enum CatalogueError {
    #[error("vhost {0} not found")]
    NoVhost(String),
    #[error("no such user '{0}'")]
    NoUser(String),
    #[error("no {resource}")]
    NotFound { resource: String },
    #[error(
        "inequivalent arg '{argument}' for {resource}: received {received} but current is {current}"
    )]
    Inequivalent {
        argument: String,
        resource: String,
        received: String,
        current: String,
    },
    #[error("invalid arg '{argument}' for {resource}: {reason}")]
    InvalidArgument {
        argument: String,
        resource: String,
        reason: String,
    },
    #[error("invalid arg '{argument}' for {resource} of queue type {queue_type}")]
    ArgumentOfOtherType {
        argument: String,
        resource: String,
        queue_type: &'static str,
    },
    #[error(
        "invalid arg '{argument}' for {resource}, which is a view of a stream: a view does not \
         take this argument; set it on the stream, or leave it out"
    )]
    ArgumentOfView { argument: String, resource: String },
    #[error("{source_resource}, of which {resource} is to be a view, is no stream")]
    NotAStream {
        source_resource: String,
        resource: String,
    },
    #[error(
        "{resource} is a view of the stream '{stream}': nothing is bound to a view, bind the stream"
    )]
    BoundView { resource: String, stream: String },
    #[error("invalid property '{property}' for {resource}")]
    InvalidProperty {
        property: &'static str,
        resource: String,
    },
    #[error("invalid type '{type_name}' for arg '{argument}' in {resource}")]
    InvalidArgumentType {
        type_name: &'static str,
        argument: &'static str,
        resource: String,
    },
    #[error("Cannot declare a server-named queue for type {queue_type}")]
    ServerNamed { queue_type: &'static str },
    #[error(
        "cannot obtain exclusive access to locked {resource}. It could be originally declared on \
            another connection or \
         the exclusive property value does not match that of the original declaration."
    )]
    Locked { resource: String },
    #[error("{kind} name '{name}' contains reserved prefix 'amq.*'")]
    Reserved { kind: &'static str, name: String },
    #[error("operation not permitted on the default exchange")]
    DefaultExchange,
    #[error("deletion of system {resource} not allowed")]
    SystemExchange { resource: String },
    #[error("{resource} in use")]
    InUse { resource: String },
    #[error(transparent)]
    Kind(#[from] KindError),
    #[error(transparent)]
    Binding(#[from] BindError),
    #[error("cannot declare queue '{queue}': queue limit in vhost '{vhost}' ({limit}) is reached")]
    QueueLimitOfVhost {
        queue: String,
        vhost: String,
        limit: i64,
    },
    #[error("cannot declare queue '{queue}': queue limit in cluster ({limit}) is reached")]
    QueueLimit { queue: String, limit: usize },
    #[error("cannot declare {resource}: exchange limit of {limit} is reached")]
    ExchangeLimit { resource: String, limit: usize },
    #[error("cannot create vhost '{vhost}': vhost limit of {limit} is reached")]
    VhostLimit { vhost: String, limit: usize },
    #[error(
        "the arguments of all queues, exchanges and bindings, with policies and parameters, would \
            take more than the {max_mb} MB that they may: delete what is not needed, or give it \
            fewer and shorter arguments"
    )]
    ArgumentBytes { max_mb: u64 },
    #[error(
        "what is declared or set takes {bytes} bytes with its names and arguments, and one thing \
            may take {max}"
    )]
    CommandBytes { bytes: usize, max: usize },
    #[error(
        "access to vhost '{vhost}' refused for user '{user}': connection limit ({limit}) is reached"
    )]
    ConnectionLimitOfVhost {
        vhost: String,
        user: String,
        limit: i64,
    },
    #[error("connection refused for user '{user}': user connection limit ({limit}) is reached")]
    ConnectionLimitOfUser { user: String, limit: i64 },
    #[error(
        "number of channels opened for user '{user}' has reached the maximum allowed user limit \
            of ({limit})"
    )]
    ChannelLimitOfUser { user: String, limit: i64 },
    #[error("Cannot delete virtual host '{0}': it is protected from deletion")]
    ProtectedVhost(String),
    #[error("Validation failed\n\n{0}\n")]
    Validation(String),
    #[error("component {0} not found")]
    NoComponent(String),
    #[error("parameters of component {0} may not be set using this method")]
    ReservedComponent(String),
    #[error("unrecognised limit '{0}'")]
    UnknownLimit(String),
    #[error("invalid queue type '{0}'; known are classic, quorum and stream")]
    QueueType(String),
    #[error(
        "invalid name: {0} bytes, at most {SHORT_STRING_BYTES_MAX} are allowed, and none is too few"
    )]
    NameLength(usize),
    #[error("{0} tags, at most {USER_TAGS_MAX} are allowed")]
    TooManyTags(usize),
    #[error(transparent)]
    Pattern(#[from] PatternError),
    #[error(transparent)]
    Password(#[from] PasswordError),
    #[error("{item}: {error}")]
    Definition {
        item: String,
        error: Box<CatalogueError>,
    },
    #[error("invalid definitions: {0}")]
    Definitions(String),
    #[error("{count} objects are refused, and nothing was imported:\n{lines}")]
    Faults {
        count: usize,
        lines: String,
        /// Whether each of them names something that does not exist.
        is_not_found: bool,
    },
    #[error("the cluster has no node {0}")]
    NoNode(NodeId),
    #[error("node {0} is the last one of the cluster that votes")]
    LastNode(NodeId),
    #[error("the cluster has {limit} nodes, which is as many as it may have")]
    NodeLimit { limit: usize },
    #[error("{resource} is not replicated")]
    NotReplicated { resource: String },
    #[error(
        "the members of {resource} change one at a time, and its leader stays one of them: let \
         another node lead it first"
    )]
    StreamMembers { resource: String },
    #[error(
        "the cluster does not answer: no majority of its voting nodes has agreed in time, or this \
            node has not heard of it; what was asked for may be carried out later"
    )]
    NoMajority,
    #[error(
        "nothing new is declared while a node uses nearly all of the memory that it may: what is \
            there stays usable; delete something, or try again later"
    )]
    NoMemory,
    #[error(
        "these definitions would take about {needed_mb} MB more, and {left_mb} MB are left of the \
            memory that the node may use: import them in several smaller files, one after the \
            other, or give the node more memory"
    )]
    NoMemoryForImport { needed_mb: u64, left_mb: u64 },
    #[error("unreadable {what}: {reason}")]
    Unreadable { what: &'static str, reason: String },
}

impl CatalogueError {
    /// Refuses an import that needs so many bytes of memory, if fewer are left: `left` says how
    /// many, and is told how many are needed.
    ///
    /// # Errors
    /// [`Self::NoMemoryForImport`].
    pub fn refuse_import(needed: u64, left: impl FnOnce(u64) -> u64) -> Result<(), Self> {
        if needed <= IMPORT_SMALL_BYTES {
            return Ok(());
        }
        match left(needed) {
            left if left < needed => Err(Self::NoMemoryForImport {
                needed_mb: needed.div_ceil(1_000_000),
                left_mb: left / 1_000_000,
            }),
            _ => Ok(()),
        }
    }

    /// The reply code that a client sees.
    #[must_use]
    pub fn code(&self) -> ReplyCode {
        match self {
            Self::NotFound { .. } | Self::NoUser(_) => ReplyCode::NotFound,
            Self::NoVhost(_)
            | Self::ConnectionLimitOfVhost { .. }
            | Self::ConnectionLimitOfUser { .. }
            | Self::ChannelLimitOfUser { .. } => ReplyCode::NotAllowed,
            Self::NoMajority | Self::NoMemory | Self::NoMemoryForImport { .. } => {
                ReplyCode::ResourceError
            }
            Self::Locked { .. } => ReplyCode::ResourceLocked,
            Self::Reserved { .. } | Self::DefaultExchange | Self::SystemExchange { .. } => {
                ReplyCode::AccessRefused
            }
            Self::Definition { error, .. } => error.code(),
            _ => ReplyCode::PreconditionFailed,
        }
    }

    /// Whether the command named something that does not exist.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        match self {
            Self::NotFound { .. } | Self::NoUser(_) | Self::NoVhost(_) | Self::NoNode(_) => true,
            Self::Definition { error, .. } => error.is_not_found(),
            Self::Faults { is_not_found, .. } => *is_not_found,
            _ => false,
        }
    }
}

impl From<CatalogueError> for ProtocolError {
    /// Limits of connections and missing virtual hosts close the connection, all else the channel.
    fn from(error: CatalogueError) -> Self {
        match error.code() {
            ReplyCode::NotAllowed => Self::connection(ReplyCode::NotAllowed, error.to_string()),
            code => Self::channel(code, error.to_string()),
        }
    }
}
