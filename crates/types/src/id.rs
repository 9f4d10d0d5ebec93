//! Identifiers. Each is unique for the life of what it names, and (where it is stored) never used
//! again.

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($repr:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub $repr);

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, "{}", self.0)
            }
        }
    };
}

id! {
    /// A client connection on this node, unique for the life of the process.
    ConnectionId(u64)
}
id! {
    /// A channel number within one connection; 0 is the connection itself.
    ChannelId(u16)
}
id! {
    /// One incarnation of a queue. A queue that is deleted and declared again has another id, so
    /// that nothing of the old one (log entries, late effects) can reach the new one.
    QueueId(u64)
}

/// Marks the ids of streams: what has an id at hand need not ask the catalogue.
const STREAM_MARK: u64 = 1 << 53;

impl QueueId {
    /// Marks the ids of queues that do not survive a restart of their node: exclusive and transient
    /// ones.
    pub const TRANSIENT_MARK: u64 = 1 << 54;

    /// Whether it is an exclusive or a transient queue's: that goes with its node's process.
    #[must_use]
    pub const fn is_transient(self) -> bool {
        self.0 & Self::TRANSIENT_MARK != 0
    }

    /// The same id as that of a stream.
    #[must_use]
    pub const fn of_stream(self) -> Self {
        Self(self.0 | STREAM_MARK)
    }

    /// Whether it is a stream's: it lives with the streams of a node, and not in a shard.
    #[must_use]
    pub const fn is_stream(self) -> bool {
        self.0 & STREAM_MARK != 0
    }

    /// The same id without the mark of streams.
    #[must_use]
    pub const fn unmarked(self) -> Self {
        Self(self.0 & !STREAM_MARK)
    }
}

id! {
    /// One consumer of one queue, unique for the life of the process.
    ConsumerId(u64)
}
id! {
    /// One log of the storage engine. A classic queue owns one log for each priority that it has
    /// seen. Never reused.
    LogId(u64)
}
id! {
    /// A node of the cluster: the number that the cluster gave it when it joined, never used again.
    /// 0 is a node that is in no cluster.
    NodeId(u32)
}
id! {
    /// One membership of a node in a Raft group: the node in the upper 32 bits, the incarnation of
    /// the membership in the lower. A member that lost its disk, or left and came back, is another
    /// replica, so that it never votes as the old one.
    ReplicaId(u64)
}

impl ReplicaId {
    /// The replica of a node in one incarnation.
    #[must_use]
    pub const fn new(node: NodeId, incarnation: u32) -> Self {
        Self((node.0 as u64) << 32 | incarnation as u64)
    }

    /// The node that it is on.
    #[must_use]
    pub const fn node(self) -> NodeId {
        NodeId((self.0 >> 32) as u32)
    }

    /// Which of the node's memberships it is; 0 of those that a group begins with.
    #[must_use]
    pub const fn incarnation(self) -> u32 {
        (self.0 & u32::MAX as u64) as u32
    }
}
id! {
    /// A queue shard: queues of one shard share a lock, a part of the write-ahead log and nothing
    /// else with other shards.
    ShardId(u16)
}
