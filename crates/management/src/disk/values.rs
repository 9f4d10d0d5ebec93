//! What a node has on its disk, as the node and the API speak of it.

use leveret_types::QueueId;

/// What a node has on its disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiskUse {
    /// Files of the write-ahead log, and their bytes.
    pub wal: (u64, u64),
    /// Segment files of classic and quorum queues, and their bytes.
    pub segments: (u64, u64),
    /// Of these, bytes of messages that live; what is left is freed when it is worth it.
    pub live_bytes: u64,
    /// Segment files of streams, and their bytes.
    pub streams: (u64, u64),
    /// Files of streams that starts have set aside, and their bytes.
    pub set_aside: (u64, u64),
    /// The folder that these are in.
    pub set_aside_folder: String,
    /// What each queue and stream has, in no order.
    pub queues: Vec<(QueueId, QueueDiskUse)>,
}

/// What a queue or a stream has in a node's storage engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueDiskUse {
    /// Entries of its logs that live: messages, and of a quorum queue what its group agrees on; of
    /// a stream its messages, all of which are in segment files.
    pub entries: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Of the entries, those in segment files; the others are in the write-ahead log alone, or in
    /// memory.
    pub segment_entries: u64,
    /// Bytes that these take there, roughly.
    pub segment_bytes: u64,
}
