//! Messages that clients hold, as a node tells of them.

use crate::api::messages::LookedAt;
use serde::{Deserialize, Serialize};

/// Where a message is that a client holds: who holds it for the queue, the queue's priority log,
/// its place there.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct HeldAt(pub u64, pub u8, pub u64);

/// Which of a queue's unacknowledged messages are wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldLook {
    /// Those of these holders; of all where there is none.
    pub of: Option<Vec<u64>>,
    /// So many messages before the first one.
    pub before: u64,
    /// So many at most.
    pub count: usize,
}

/// A message that a client holds, as its queue knows it.
#[derive(Clone, Debug, PartialEq)]
pub struct UnsettledMessage {
    /// Where it is.
    pub at: HeldAt,
    /// When it was handed over, in milliseconds since the Unix epoch, to the second; where the
    /// queue knows.
    pub since_ms: Option<u64>,
    /// The message; none where it cannot be read.
    pub message: Option<LookedAt>,
}

/// Who holds a message, as the client's side knows it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Holder {
    /// Which message.
    pub at: HeldAt,
    /// The name of the connection.
    pub connection: String,
    /// Its user.
    pub user: String,
    /// The number of the channel.
    pub channel: u16,
    /// The tag of the consumer; none of a message that was got, or whose consumer was cancelled.
    pub consumer_tag: Option<String>,
    /// The delivery tag on that channel.
    pub delivery_tag: u64,
    /// Whether it was delivered as one that was delivered before.
    pub redelivered: bool,
    /// When it was delivered, in milliseconds since the Unix epoch.
    pub since_ms: u64,
}
