//! Counts of a member's work.

use crate::message::{Body, Message};
use leveret_types::RaftCounts;

/// A sound message of another member is about to be taken.
pub(crate) fn take(counts: &mut RaftCounts, message: &Message) {
    match &message.body {
        Body::Append { entries, .. } => {
            counts.appends += 1;
            counts.empty_appends += u64::from(entries.is_empty());
        }
        Body::AppendReply { refused: None, .. } => counts.appends_taken += 1,
        Body::AppendReply { .. } => counts.appends_refused += 1,
        _ => {}
    }
}

/// A message is about to be sent to another member, whose node is up or not.
pub(crate) fn send(counts: &mut RaftCounts, message: &Message, is_up: bool) {
    counts.messages_sent += 1;
    counts.requests_sent += u64::from(is_request(&message.body));
    counts.messages_lost += u64::from(!is_up);
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
