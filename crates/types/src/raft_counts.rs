//! Counts of a Raft member's work, for metrics.

/// Counts since the member began on this node; each only grows. RabbitMQ's `raft_` metrics have
/// the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RaftCounts {
    /// Entries that it proposed as the leader.
    pub commands: u64,
    /// Appends that came from a leader.
    pub appends: u64,
    /// Those of them that had no entries.
    pub empty_appends: u64,
    /// Appends of its own that another member has taken.
    pub appends_taken: u64,
    /// Appends of its own that another member has refused.
    pub appends_refused: u64,
    /// Messages to other members that ask for an answer: appends, votes, heartbeats and so on.
    pub requests_sent: u64,
    /// Messages to other members.
    pub messages_sent: u64,
    /// Messages to members whose nodes were known to be down.
    pub messages_lost: u64,
    /// How often it asked whether it would be voted for.
    pub trials: u64,
    /// How often it stood for election, in a new term each time.
    pub elections: u64,
    /// How often its term or its vote were written.
    pub hard_states: u64,
    /// How often something was written to its log.
    pub writes: u64,
}
