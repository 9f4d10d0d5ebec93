//! What a list is of, in words that other nodes understand.

use crate::list_query::NameFilter;
use serde::{Deserialize, Serialize};

/// Which queues are listed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueSelection {
    /// The virtual host; all where there is none.
    pub vhost: Option<String>,
    /// The user who sees into some virtual hosts only.
    pub seen_by: Option<String>,
    /// The type.
    pub kind: Option<String>,
    /// What their names must be.
    pub name: Option<NameFilter>,
}

/// Of which pairs a node tells: see [`crate::pairs`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PairSelection {
    /// What comes from exchanges to queues of a virtual host.
    Vhost(String),
    /// What comes to the queue of this id.
    Queue(u64),
    /// What comes from an exchange, and the channels that publish to it.
    Exchange {
        /// Its virtual host.
        vhost: String,
        /// Its name.
        exchange: String,
    },
    /// The channels that publish to the queue of this id.
    Publishers {
        /// Its virtual host.
        vhost: String,
        /// The queue.
        queue: u64,
    },
    /// What a channel publishes to exchanges.
    Channel {
        /// Its connection's name.
        connection: String,
        /// Its number.
        number: u16,
    },
}

/// What clients have that is listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Connections.
    Connections,
    /// Channels on them.
    Channels,
    /// Consumers on those.
    Consumers,
}

/// Names what a client has on its node: by its connection's id, its channel's number, and its
/// consumer's id; 0 for what it is not.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct ClientKey(pub u64, pub u16, pub u64);

/// Which of them are listed: all that is as each of these says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientSelection {
    /// The user who sees only its own connections and channels, and consumers in its virtual hosts.
    pub seen_by: Option<String>,
    /// Whose.
    pub user: Option<String>,
    /// In which virtual host.
    pub vhost: Option<String>,
    /// By which protocol.
    pub protocol: Option<String>,
    /// The name of the connection.
    pub connection: Option<String>,
    /// The id of the queue that is consumed from.
    pub queue: Option<u64>,
    /// What their names must be.
    pub name: Option<NameFilter>,
}
/// Which of the messages that a node keeps back are wanted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DelayedSelection {
    /// When the first one is due at least, in milliseconds since 1970, and its place.
    pub(crate) from: (u64, u64),
    /// How many are wanted at most.
    pub(crate) limit: usize,
    /// Bytes of a body that are shown.
    pub(crate) truncate: usize,
    /// The virtual host that is meant.
    pub(crate) vhost: Option<String>,
    /// The exchange that is meant.
    pub(crate) exchange: Option<String>,
    /// The queue in the virtual host that is meant: the delayed exchanges that it is bound to.
    pub(crate) queue: Option<String>,
}
