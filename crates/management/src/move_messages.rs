//! Messages that go from one queue elsewhere, as the node and the API speak of them.

use std::collections::BTreeMap;

/// Which messages of a queue go elsewhere, and where.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MoveMessages {
    /// The queue that takes them. None: each goes back to the queue in which it died first, and
    /// says so in a header.
    pub to: Option<String>,
    /// Whether they stay where they are too.
    pub copy: bool,
    /// Only messages that died first in this queue.
    pub from: Option<String>,
    /// Only messages that died first for this reason.
    pub reason: Option<String>,
    /// Only these, by their fingerprints.
    pub chosen: Option<Vec<u64>>,
    /// How many messages are looked at, at most; as many as wait when it begins where there is
    /// none.
    pub limit: Option<u64>,
    /// Whether all stays as it is, and it is only told what would be done.
    pub dry_run: bool,
}

/// How a move ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MoveEnd {
    /// All was looked at.
    Done,
    /// Somebody has stopped it.
    Stopped,
    /// It could not go on: why.
    Failed(String),
}

/// A move of messages: how far it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Move {
    /// Its number on its node.
    pub number: u64,
    /// The virtual host.
    pub vhost: String,
    /// The queue that messages come from.
    pub queue: String,
    /// Who began it.
    pub user: String,
    /// What is wanted.
    pub wanted: MoveMessages,
    /// When it began, in milliseconds since the Unix epoch.
    pub begun_ms: u64,
    /// When it ended, and how; none while it runs.
    pub end: Option<(u64, MoveEnd)>,
    /// How many messages it looks at, at most.
    pub messages: u64,
    /// How many it has looked at.
    pub looked_at: u64,
    /// Messages that went (or would go), by the queue that took them.
    pub moved: BTreeMap<String, u64>,
    /// Messages that stay, by the reason.
    pub kept: BTreeMap<String, u64>,
}
