//! What a member has done since it began, for metrics.

use crate::message::{Body, Message};

/// See the module's description. Each only grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Entries that it proposed as the leader.
    pub proposals: u64,
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

impl Counts {
    /// A sound message of another member is about to be taken.
    pub(crate) fn take(&mut self, message: &Message) {
        match &message.body {
            Body::Append { entries, .. } => {
                self.appends += 1;
                self.empty_appends += u64::from(entries.is_empty());
            }
            Body::AppendReply { refused: None, .. } => self.appends_taken += 1,
            Body::AppendReply { .. } => self.appends_refused += 1,
            _ => {}
        }
    }

    /// A message is about to be sent to another member, whose node is up or not.
    pub(crate) fn send(&mut self, message: &Message, is_up: bool) {
        self.messages_sent += 1;
        self.requests_sent += u64::from(is_request(&message.body));
        self.messages_lost += u64::from(!is_up);
    }
}

/// Whether a message is no answer to another one.
const fn is_request(body: &Body) -> bool {
    match body {
        Body::Append { .. }
        | Body::Vote { .. }
        | Body::Heartbeat { .. }
        | Body::TimeoutNow
        | Body::Snapshot(_)
        | Body::Ask => true,
        Body::AppendReply { .. } | Body::Voted { .. } | Body::HeartbeatReply { .. } => false,
    }
}
