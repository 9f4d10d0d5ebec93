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

/// Names what a client has on its node: by its connection's id, its channel's number, and the
/// fingerprint of its consumer's tag; 0 for what it is not.
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
