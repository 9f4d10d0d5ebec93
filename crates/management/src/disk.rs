//! `/api/leveret/disk`: what the node that is asked has on its disk, and which queues keep it.

use crate::api::QueueDiskUse;
use crate::reply::{ApiError, Reply};
use crate::route::Call;
use leveret_types::QueueId;
use leveret_types::limits::IMPACT_QUEUES_SHOWN;
use serde_json::{Value, json};
use std::cmp::Reverse;

/// `GET /api/leveret/disk`: queues by what they have, the largest first.
pub fn disk(call: &Call<'_>) -> Result<Reply, ApiError> {
    let node = call.app.node();
    let stats = node.node_stats();
    let mut disk = node.disk();
    disk.queues
        .sort_by_key(|(id, used)| (Reverse(used.segment_bytes.max(used.bytes)), *id));
    disk.queues.truncate(IMPACT_QUEUES_SHOWN);
    let ids: Vec<QueueId> = disk.queues.iter().map(|(id, _)| *id).collect();
    let declared = node.queues_by_id(&ids);
    let row = |(id, used): &(QueueId, QueueDiskUse)| {
        // What belongs to no queue is the catalogue's, or a queue's that has just gone.
        let queue = declared.iter().find(|queue| queue.id == *id)?;
        Some(json!({
            "name": queue.name,
            "vhost": queue.vhost,
            "type": queue.kind,
            "entries": used.entries,
            "bytes": used.bytes,
            "segment_entries": used.segment_entries,
            "segment_bytes": used.segment_bytes,
        }))
    };
    Ok(Reply::Json(json!({
        "node": stats.name,
        "disk_free": stats.disk_free_bytes,
        "disk_free_limit": stats.disk_limit_bytes,
        "wal_files": disk.wal.0,
        "wal_bytes": disk.wal.1,
        "segment_files": disk.segments.0,
        "segment_bytes": disk.segments.1,
        "segment_live_bytes": disk.live_bytes,
        "queues": disk.queues.iter().filter_map(row).collect::<Value>(),
    })))
}
