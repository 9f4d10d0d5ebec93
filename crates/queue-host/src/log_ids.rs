//! Where the ids of queues and logs lead: from a queue to its shard and its logs, and back.

use leveret_storage::ShardLogs;
use leveret_types::{LogId, QueueId, ShardId};

/// The shard that a queue lives on at a node with `shards` of them: part of its id. The nodes of a
/// cluster may have different numbers of shards, so that the part is taken modulo the number.
#[must_use]
pub const fn shard_of(queue: QueueId, shards: u16) -> ShardId {
    ShardId((queue.0 & 0xFF) as u16 % shards)
}

/// The log of one priority of a queue.
#[must_use]
pub const fn log_of(queue: QueueId, priority_log: u8) -> LogId {
    LogId(queue.0 << 8 | priority_log as u64)
}

/// The queue and the priority log that a log belongs to.
#[must_use]
pub const fn queue_of(log: LogId) -> (QueueId, u8) {
    (QueueId(log.0 >> 8), (log.0 & 0xFF) as u8)
}

/// How many entries of a queue's logs cannot be read; `priority_logs` are those that it has.
pub(crate) fn lost_of(
    logs: &ShardLogs,
    queue: QueueId,
    priority_logs: impl Iterator<Item = u8>,
) -> u64 {
    let damage = priority_logs.filter_map(|priority_log| logs.damage(log_of(queue, priority_log)));
    damage.map(|damage| damage.lost.len()).sum()
}

/// The log of the catalogue's commands, on shard 0. No queue has it: their ids start at 1.
pub const CATALOGUE_LOG: LogId = LogId(0);

/// The log of the catalogue's group, on shard 0 of a node that is in a cluster. It is not a
/// queue's either.
pub const CATALOGUE_GROUP_LOG: LogId = LogId(2);
