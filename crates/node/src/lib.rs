//! The clients of a node without IO: connections of every protocol, what they may do, where their
//! messages go, and what operators ask.
//!
//! A [`Connection`] turns a client's bytes into work for
//! [shards](leveret_queue_host::shard::Shard) and the [catalogue](leveret_cluster::catalogue), and
//! what these say into bytes. It is a plain struct: whoever drives it ([`env::Env`]) owns the
//! socket, the threads and the clock.
//!
//! Invariant: nothing here reads a clock, a socket or a file, or starts a thread. Time is an
//! argument.
//! Invariant: a confirm is told only once the shard's part of the write-ahead log is durable
//! through what it confirms.
//! Invariant: a message that leaves a queue for a dead-letter exchange is in its new queues' log
//! before it is settled in the old one's.

pub mod certificate;
pub mod deferred;
pub mod env;
pub mod history;
pub mod memory_permit;
pub mod operator;
pub mod properties;
pub mod registry;
pub mod reply_to;
pub mod traces;

mod catalogue_changes;
mod connection;
mod connection_end;
mod counters;
pub mod dead_letter;
mod events;
mod firehose;
mod flows;
mod identity;
mod latency_totals;
mod login;
mod route_publish;
mod run;
mod status;
mod stream_connection;
pub mod stream_deliveries;
mod topology;

pub use catalogue_changes::{any_traced, clients_follow};
pub use connection::Connection;
pub use counters::{CounterValues, NodeCounters};
pub use env::{
    Alarms, ConnectionEvent, Env, Executed, LogPosition, LoginFrom, PeerFrame, Proposal,
    ProposalId, QueueAnswer, QueueEvent,
};
pub use flows::{Flow, Flows};
pub use identity::Peer;
pub use latency_totals::LatencyTotals;
pub use status::{
    ChannelStatus, ConnectionStatus, ConsumerPlace, ConsumerStatus, ConsumersShown, Holding,
    KeptArguments, PublishedStatus,
};
pub use stream_connection::{StreamConnection, move_group};
pub use topology::{Answer, Caller, Question};

pub use leveret_client::{UnsettledDelivery, UnsettledPosition};
pub use leveret_stream_session::Settings as StreamSettings;
use std::sync::Arc;

/// What stream listeners offer.
#[derive(Clone, Debug)]
pub struct StreamSessions {
    /// What sessions negotiate.
    pub plain: Arc<StreamSettings>,
    /// The same for sessions over TLS.
    pub tls: Arc<StreamSettings>,
}

impl Default for StreamSessions {
    fn default() -> Self {
        let settings = Arc::new(StreamSettings::new("localhost", 5552));
        Self {
            plain: Arc::clone(&settings),
            tls: settings,
        }
    }
}

/// Settings of a node that its queues and sessions must know.
#[derive(Debug)]
pub struct NodeSettings {
    /// What sessions negotiate.
    pub session: Arc<leveret_session::Settings>,
    /// The same for sessions over TLS.
    pub session_tls: Arc<leveret_session::Settings>,
    /// What sessions of the stream protocol negotiate.
    pub stream: StreamSessions,
    /// Shards of the node.
    pub shard_count: u16,
    /// The node's name in listings.
    pub node_name: String,
    /// How passwords of new users are hashed.
    pub hashing: leveret_auth::HashingAlgorithm,
    /// Which part of a client's certificate is its user's name.
    pub certificate_name: certificate::NameFrom,
    /// As whom those log in who do not say who they are (`ANONYMOUS`); nobody does if it is none.
    pub anonymous: Option<leveret_auth::Credentials>,
    /// By how much the answer to a failed login is delayed, in milliseconds.
    pub login_failure_delay_ms: u64,
    /// Spans of messages that their publishers trace; none where nothing is traced.
    pub traces: Option<Arc<traces::Traces>>,
}
