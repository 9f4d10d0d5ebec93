//! Readers of streams. Each counts where it reads, at the leader or at another replica, and what it
//! is delivered over AMQP as well; whoever shows a stream adds them up.

use crate::api::{MessageCounters, QueueStats};
use crate::app::App;
use crate::history::rates::MESSAGE_FIELDS;
use crate::message_stats::messages_at;
use crate::peers;
use serde_json::{Value, json};

/// What a node tells of a stream that it has a replica of and does not lead, under the stream's
/// `id`; nothing where nobody reads there, or has been delivered anything.
pub(crate) fn at_replica(app: &App, stats: &QueueStats) -> Option<Value> {
    let readers = stats.stream.filter(|_| stats.follows)?.readers;
    // What was published is for the leader to say.
    let delivered = MessageCounters {
        published: 0,
        ..stats.messages
    };
    if readers == 0 && delivered == MessageCounters::default() {
        return None;
    }
    let node = app.node().name();
    let mut row = json!({
        "id": stats.id.0,
        "follows": true,
        "consumers": stats.consumers,
        "readers": {node: readers},
    });
    if delivered != MessageCounters::default() {
        row["message_stats"] = messages_at(&delivered, [0.0; MESSAGE_FIELDS]);
    }
    Some(row)
}

/// Adds what a node tells of its replica to what is told of the stream.
pub(super) fn add(stats: &mut Value, replica: &Value) {
    peers::add(stats, &peers::pick(replica, &["consumers", "readers"]));
    // One that no other node has the like of stands for no sum.
    if let Some(delivered) = replica.get("message_stats") {
        peers::add(stats, &json!({"message_stats": delivered}));
    }
}
