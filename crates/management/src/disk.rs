//! `/api/leveret/disk`: what a node has on its disk, and which queues keep it.

pub(crate) mod values;

use crate::app::App;
use crate::disk::values::QueueDiskUse;
use crate::http::reply::{ApiError, Reply};
use crate::http::router::Call;
use crate::overview::knows_node;
use crate::peers;
use crate::question::Question;
use leveret_types::QueueId;
use leveret_types::limits::IMPACT_QUEUES_SHOWN;
use serde_json::{Value, json};
use std::cmp::Reverse;

/// `GET /api/leveret/disk`: what the node that is asked has.
pub fn disk(call: &Call<'_>) -> Result<Reply, ApiError> {
    Ok(Reply::Json(own(call.app)))
}

/// `GET /api/leveret/disk/{node}`: the same of a node of the cluster.
pub fn disk_of(call: &Call<'_>) -> Result<Reply, ApiError> {
    let (app, name) = (call.app, call.param(0));
    if app.node().name() == name {
        return disk(call);
    }
    if !knows_node(app, name) {
        return Err(ApiError::NotFound);
    }
    let node = name.to_owned();
    let answers = peers::ask(app, &Question::Disk { node }).into_iter();
    let mut answers = answers.filter_map(|(_, answer)| {
        let text = answer[0].as_str()?;
        serde_json::from_str::<Value>(text).ok()
    });
    let silent = || ApiError::Unavailable(format!("the node '{name}' does not answer: try again"));
    answers.next().map(Reply::Json).ok_or_else(silent)
}

/// What another node is told of this one. As a text: fields that are 0 are left out on the way
/// between nodes.
pub(crate) fn told(app: &App) -> Value {
    json!([own(app).to_string()])
}

/// What this node has: queues by what they have, the largest first.
fn own(app: &App) -> Value {
    let node = app.node();
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
    json!({
        "node": stats.name,
        "disk_free": stats.disk.free_bytes,
        "disk_free_limit": stats.disk.limit_bytes,
        "wal_files": disk.wal.0,
        "wal_bytes": disk.wal.1,
        "segment_files": disk.segments.0,
        "segment_bytes": disk.segments.1,
        "segment_live_bytes": disk.live_bytes,
        "stream_files": disk.streams.0,
        "stream_bytes": disk.streams.1,
        "set_aside_files": disk.set_aside.0,
        "set_aside_bytes": disk.set_aside.1,
        "set_aside_folder": disk.set_aside_folder,
        "queues": disk.queues.iter().filter_map(row).collect::<Value>(),
    })
}
