//! The catalogue: everything that is declared. Virtual hosts, users, permissions, limits, policies,
//! parameters, exchanges, queues and bindings, kept by a machine that commands change.
//!
//! A [`Command`] goes in, an [`Outcome`] comes out: what the node has to carry out, and what must
//! be in the log. A node that replays its log has the same catalogue, with the same queue ids, as
//! before.
//!
//! Invariant: this crate never reads a clock, a file, a socket or a source of randomness; names of
//! server-named queues are made of bytes that the command brings.
//! Invariant: a command that is refused has changed nothing.
//! Invariant: [`Outcome::log`] replayed after the snapshot before it gives the durable part of the
//! catalogue, whatever happened to things that do not survive a restart: nothing in the log is
//! derived from them.
//! Invariant: the id of a queue is never given to another one.
//! Invariant: [`Vhost::router`] holds the exchanges and queues of the virtual host, no more and no
//! less.

mod accounts;
mod arguments;
mod catalogue;
mod cluster;
mod command;
mod definitions;
mod deletions;
mod error;
mod growth;
mod kinds;
mod membership;
mod policy;
mod record;
mod snapshot;
mod streams;
mod subject;
mod table;
mod topology;
mod weights;

pub use accounts::refuse_component;
pub use catalogue::{Catalogue, Change, Config, DeadLetterTarget, LoginRefusal, Outcome, TakenOut};
pub use cluster::{Batch, Cluster, NodeRecord, Proposed, Rules, decode_proposed, encode_proposed};
pub use command::{Command, Endpoint, FORMAT_VERSION};
pub use definitions::{
    BindingDefinition, Definitions, ExchangeDefinition, GlobalParameterDefinition,
    ParameterDefinition, PermissionDefinition, PolicyDefinition, QueueDefinition, Tags,
    TopicPermissionDefinition, Trial, UserDefinition, VhostDefinition, VhostMetadata,
};
pub use error::CatalogueError;
pub use leveret_stream::{Flush, StreamSettings};
pub use leveret_types::QueueKind;
pub use leveret_types::{DelayedRetry, Overflow, Retried};
pub use membership::MembershipConfig;
pub use policy::{ApplyTo, Mirrors, Policy, QueueSettings, merge as merge_policies};
pub use record::{ExchangeRecord, QueueRecord, Traffic, User, Vhost};
pub use snapshot::{BegunSnapshot, Snapshot};
pub use table::Json;
pub use topology::{generated_name, strip_cr_lf};
