//! Readers of streams. Each counts where it reads, at the leader or at another replica; whoever
//! shows a stream adds them up.

use crate::api::QueueStats;
use crate::app::App;
use crate::peers;
use serde_json::{Value, json};

/// What a node tells of a stream that it has a replica of and does not lead, under the stream's
/// `id`; nothing where nobody reads there.
pub(crate) fn at_replica(app: &App, stats: &QueueStats) -> Option<Value> {
    let has_readers = |readers: &u64| stats.follows && *readers > 0;
    let readers = stats.stream.map(|stream| stream.readers);
    let readers = readers.filter(has_readers)?;
    let node = app.node().name();
    Some(json!({
        "id": stats.id.0,
        "follows": true,
        "consumers": stats.consumers,
        "readers": {node: readers},
    }))
}

/// Adds what a node tells of its replica to what is told of the stream.
pub(super) fn add(stats: &mut Value, replica: &Value) {
    peers::add(stats, &peers::pick(replica, &["consumers", "readers"]));
}
