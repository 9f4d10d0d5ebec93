//! `/api/leveret/alarms`: which nodes are short of memory or disk, and which clients' connections
//! wait for that.

use crate::connections;
use crate::http::reply::{ApiError, Reply};
use crate::http::router::Call;
use crate::overview;
use crate::selection::ClientSelection;
use serde_json::{Value, json};

/// Whether a connection is held back: by an alarm, by a full queue, or by a log that falls behind.
fn is_held_back(connection: &Value) -> bool {
    let state = connection["state"].as_str();
    matches!(state, Some("blocked" | "blocking" | "flow"))
}

/// What is told of a connection that is held back.
const CONNECTION: [&str; 8] = [
    "name",
    "user_provided_name",
    "node",
    "vhost",
    "user",
    "state",
    "channels",
    "connected_at",
];

/// What is told of a node.
const NODE: [&str; 8] = [
    "name",
    "running",
    "mem_alarm",
    "mem_used",
    "mem_limit",
    "disk_free_alarm",
    "disk_free",
    "disk_free_limit",
];

/// `GET /api/leveret/alarms`
pub fn alarms(call: &Call<'_>) -> Result<Reply, ApiError> {
    let nodes = overview::all_nodes(call.app);
    let has = |alarm: &str| nodes.iter().any(|node| node[alarm] == true);
    let (memory, disk) = (has("mem_alarm"), has("disk_free_alarm"));
    let held: Vec<Value> = connections::everywhere(call.app, ClientSelection::default())
        .filter(is_held_back)
        .map(|connection| pick(&connection, &CONNECTION))
        .collect();
    Ok(Reply::Json(json!({
        "memory": memory,
        "disk": disk,
        "nodes": nodes.iter().map(|node| pick(node, &NODE)).collect::<Value>(),
        "held_back": held,
    })))
}

fn pick(from: &Value, fields: &[&str]) -> Value {
    crate::peers::pick(from, fields)
}
