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
    /// A queue shard: queues of one shard share a lock, a part of the write-ahead log and nothing
    /// else with other shards.
    ShardId(u16)
}
