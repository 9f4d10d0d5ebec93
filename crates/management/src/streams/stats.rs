//! What a node tells of streams: their publishers and consumers, what they keep by name, and the
//! messages that an operator looks at.

use crate::api::messages::Got;
use leveret_types::{ConnectionId, QueueId};

/// A publisher of the stream protocol.
#[derive(Clone, Debug, Default)]
pub struct StreamPublisherStats {
    /// Its connection.
    pub connection: ConnectionId,
    /// Its number there.
    pub id: u8,
    /// Its stream.
    pub queue: QueueId,
    /// The name under which its publishes are deduplicated; empty where they are not.
    pub reference: String,
    /// Messages that it has published.
    pub published: u64,
    /// Messages of these that were confirmed.
    pub confirmed: u64,
    /// Messages of these that were refused.
    pub errored: u64,
}

/// A subscription of the stream protocol.
#[derive(Clone, Debug, Default)]
pub struct StreamConsumerStats {
    /// Its connection.
    pub connection: ConnectionId,
    /// Its number there.
    pub id: u8,
    /// Its stream.
    pub queue: QueueId,
    /// Chunks that it takes beside those that it has been sent.
    pub credits: u32,
    /// Messages that it has been sent.
    pub consumed: u64,
    /// The last offset that it has been sent; 0 before the first.
    pub offset: u64,
    /// Offsets from there to the last record that readers may see.
    pub offset_lag: u64,
    /// Whether one at a time is active in its group.
    pub single_active: bool,
    /// Whether it is sent anything.
    pub active: bool,
    /// What it subscribed with.
    pub properties: Vec<(String, String)>,
}

impl StreamConsumerStats {
    /// RabbitMQ's word for how it stands.
    #[must_use]
    pub const fn activity(&self) -> &'static str {
        match (self.single_active, self.active) {
            (false, _) => "up",
            (true, true) => "single_active",
            (true, false) => "waiting",
        }
    }
}

/// What a stream keeps by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamTracking {
    /// Consumers, and the offsets that they have stored.
    pub offsets: Vec<(String, u64)>,
    /// Publishers, and their last publishing ids.
    pub writers: Vec<(String, u64)>,
}

/// The groups of a stream whose offsets a node keeps.
#[derive(Clone, Debug, PartialEq)]
pub struct StreamGroups {
    /// The stream.
    pub stream: QueueId,
    /// The oldest offset that it has; none where it is empty.
    pub first_offset: Option<u64>,
    /// The last offset that readers may see; none where it is empty.
    pub committed_offset: Option<u64>,
    /// The last offset of a record that readers may see; none where it is empty. Offsets that are
    /// stored by name take offsets of their own after it.
    pub last_record: Option<u64>,
    /// Its groups.
    pub groups: Vec<StreamGroup>,
}

/// What a group of consumers has stored in a stream.
#[derive(Clone, Debug, PartialEq)]
pub struct StreamGroup {
    /// The name under which its consumers store their offset.
    pub name: String,
    /// The offset.
    pub offset: u64,
    /// Offsets per second that it has gone on lately.
    pub per_second: f64,
}

/// What an operator is shown of a stream.
#[derive(Clone, Debug, Default)]
pub struct Browsed {
    /// Messages in their order.
    pub messages: Vec<StreamMessage>,
    /// Where the next look goes on.
    pub next_offset: u64,
    /// The oldest offset that there is; none in an empty stream.
    pub first_offset: Option<u64>,
    /// The last offset that readers may see; none in an empty stream.
    pub committed_offset: Option<u64>,
}

/// A message of a stream, or several that cannot be told apart.
#[derive(Clone, Debug)]
pub struct StreamMessage {
    /// Its offset.
    pub offset: u64,
    /// When its chunk was made, in milliseconds since the Unix epoch.
    pub timestamp_ms: i64,
    /// The message; or how many they are, and why they cannot be read here.
    pub content: Result<Got, (u16, String)>,
}

/// Where a stream stands, beside what all queues have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamStanding {
    /// The oldest offset that it has; none where it is empty.
    pub first_offset: Option<u64>,
    /// The last offset that readers may see; none where it is empty.
    pub committed_offset: Option<u64>,
    /// The last offset that there is, also where readers may not see it yet; none where it is
    /// empty.
    pub last_offset: Option<u64>,
    /// Files of messages.
    pub segments: u64,
    /// Bytes that are kept for `retention-groups` alone.
    pub held_bytes: u64,
    /// Readers now.
    pub readers: u64,
    /// Publishers of the stream protocol now.
    pub publishers: u64,
}

/// What the clients of the stream protocol did since the node's start, and how many there are.
#[derive(Clone, Copy, Debug, Default)]
#[allow(missing_docs)] // Each is what its name says.
pub struct StreamProtocolStats {
    pub received: u64,
    pub confirmed: u64,
    pub delivered: u64,
    pub publishers: u64,
    pub consumers: u64,
    /// Errors that clients were told, by the protocol's response codes.
    pub errors: [u64; STREAM_ERROR_CODES],
}

/// Response codes of [`StreamProtocolStats::errors`].
pub const STREAM_ERROR_CODES: usize = 0x14;
