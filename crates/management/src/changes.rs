//! `/api/leveret/changes`: what operators have changed over HTTP, by the page or by the command
//! line: who, from where, when, what, and how it was before and is after.
//!
//! Every method but `GET` of the table of routes is such a change, but for those in
//! [`NO_CHANGES`]. How something is comes from the `GET` of the same path. A node keeps the newest
//! of its own in memory, so many of so many bytes each; its log has a line of each for good.

use crate::app::App;
use crate::http::input::{Query, parse_json};
use crate::http::reply::{ApiError, Reply};
use crate::http::router::{Call, Found, Handler};
use crate::kept_changes::Changes;
use crate::list_query;
use crate::peers;
use crate::question::Question;
use crate::timestamps::rfc3339;
use crate::{catalogue, cluster, queues, streams};
use leveret_types::limits::CHANGE_VALUE_BYTES_MAX;
use serde_json::{Map, Value, json};
use std::sync::{MutexGuard, PoisonError};

type Answer = Result<Reply, ApiError>;

/// What changes nothing, or nothing but messages that clients see to.
const NO_CHANGES: [&str; 5] = [
    "/api/login",
    "/api/leveret/authenticate",
    "/api/exchanges/{vhost}/{}/publish",
    "/api/queues/{vhost}/{}/get",
    "/api/reset",
];

/// What the node writes to its log where it is carried out, in words of its own; of every other
/// change a line has the method and the path.
const NOTED_BELOW: [&str; 19] = [
    "/api/queues/{vhost}/{}",
    "/api/queues/{vhost}/{}/contents",
    "/api/exchanges/",
    "/api/bindings/",
    "/api/vhosts/",
    "/api/users/",
    "/api/permissions/",
    "/api/topic-permissions/",
    "/api/vhost-limits/",
    "/api/user-limits/",
    "/api/policies/",
    "/api/operator-policies/",
    "/api/parameters/",
    "/api/global-parameters/",
    "/api/definitions",
    "/api/all-configuration",
    "/api/cluster-name",
    "/api/stream/super-streams/",
    "/api/leveret/super-streams/",
];

/// Whether the node writes a line of its own about what this path changes.
fn is_noted_below(pattern: &str) -> bool {
    NOTED_BELOW
        .iter()
        .any(|noted| match noted.strip_suffix('/') {
            Some(_) => pattern.starts_with(noted),
            None => pattern == *noted || pattern.starts_with(&format!("{noted}/{{vhost")),
        })
}

/// Bytes of a list that is looked at, to keep of it what does not change by itself.
const LOOKED_AT_BYTES_MAX: usize = 16 * CHANGE_VALUE_BYTES_MAX;

/// Whose `GET` is as large as all that is declared.
const TOO_LARGE_TO_SHOW: [&str; 2] = ["/api/definitions", "/api/all-configuration"];

/// Parts of names of fields whose contents nobody is shown.
const SECRETS: [&str; 4] = ["password", "secret", "token", "uri"];

/// What changes by itself, and is none of an operator's doing.
const UNSTEADY: [&str; 9] = [
    "message_stats",
    "consumer_details",
    "incoming",
    "outgoing",
    "deliveries",
    "state",
    "online",
    "cluster_state",
    "committed",
];

/// What shows that which a path without a `GET` of its own changes, by the first parts of the path.
const SHOWN_BY: [(&str, Handler); 9] = [
    ("/api/vhosts/{vhost}/deletion/", catalogue::vhosts::vhost),
    (
        "/api/vhost-limits/{vhost}/",
        catalogue::limits::limits_of_vhost,
    ),
    ("/api/user-limits/{}/", catalogue::limits::limits_of_user),
    ("/api/queues/quorum/{vhost}/{}/replicas/", queues::one),
    (
        "/api/leveret/streams/{vhost}/{}/offsets/",
        streams::tracking,
    ),
    ("/api/leveret/streams/{vhost}/{}/replicas/", queues::one),
    ("/api/leveret/cluster/", cluster::status),
    ("/api/leveret/memory-watermark", node_limits),
    ("/api/leveret/disk-free-limit", node_limits),
];

/// The limits of this node at which publishers are held back.
fn node_limits(call: &Call<'_>) -> Answer {
    let stats = call.app.node().node_stats();
    let (memory, disk) = (stats.memory.limit_bytes, stats.disk.limit_bytes);
    Ok(Reply::Json(
        json!({"mem_limit": memory, "disk_free_limit": disk}),
    ))
}

fn kept(app: &App) -> MutexGuard<'_, Changes> {
    let changes = app.changes.lock();
    // A writer that panicked left whole rows.
    changes.unwrap_or_else(PoisonError::into_inner)
}

/// This node's, newest first.
pub(crate) fn own(app: &App) -> Value {
    kept(app).newest_first().cloned().collect()
}

/// Answers a request; keeps what it changed, if it is one that changes something: unless that names
/// what is not there, and is not the last attempt.
pub(crate) fn answer(call: &Call<'_>, found: &Found, path: &str, is_last: bool) -> Answer {
    let method = found.method;
    if method.name == "GET" || NO_CHANGES.contains(&found.pattern) {
        return (method.handler)(call);
    }
    let shows = |path: &&str| found.pattern.starts_with(path);
    let others = SHOWN_BY.iter();
    let mut others = others.filter(|(path, _)| found.pattern.starts_with(path));
    let look = found.look.or_else(|| others.next().map(|(_, look)| *look));
    let look = look.filter(|_| !TOO_LARGE_TO_SHOW.iter().any(shows));
    let before = shown(look, call);
    let result = (method.handler)(call);
    if !is_last && result.as_ref().is_err_and(ApiError::is_missing) {
        return result;
    }
    let (status, reason) = match &result {
        Ok(reply) => (reply.status(), Value::Null),
        Err(error) => (error.status(), error.json()["reason"].take()),
    };
    let app = call.app;
    if !is_noted_below(found.pattern) {
        let operation = format!("{} {}", method.name, found.pattern);
        app.node()
            .note_change(call.who.name(), &operation, cut(path), reason.as_str());
    }
    let change = json!({
        "time": rfc3339(app.moment().wall_ms),
        "node": app.node().name(),
        "user": call.who.name(),
        "from": call.from.to_string(),
        "method": method.name,
        "path": cut(path),
        "status": status,
        "reason": bounded(reason),
        "asked": asked(call),
        "before": before,
        "after": shown(look, call),
    });
    kept(app).note(change);
    result
}

/// What the request's body says, without secrets; nothing if it is not JSON.
fn asked(call: &Call<'_>) -> Value {
    if call.bytes.is_empty() {
        return Value::Null;
    }
    if call.bytes.len() > CHANGE_VALUE_BYTES_MAX {
        return too_large(call.bytes.len());
    }
    parse_json(call.bytes).map_or(Value::Null, |asked| bounded(public(asked)))
}

/// How what the path names is now; nothing if it is not there, or not shown.
fn shown(look: Option<Handler>, call: &Call<'_>) -> Value {
    let Some(look) = look else {
        return Value::Null;
    };
    let query = Query::parse("disable_stats=true").unwrap_or_default();
    let call = Call {
        app: call.app,
        who: call.who,
        of: ("GET", call.of.1),
        from: call.from,
        params: call.params.clone(),
        query,
        bytes: &[],
        content_type: String::new(),
        reason: None,
    };
    let value = match look(&call).and_then(Reply::finished) {
        Ok(Reply::Json(value)) => value,
        Ok(Reply::Pieces(_, pieces)) => {
            let mut text: Vec<u8> = Vec::new();
            for piece in pieces {
                text.extend(piece);
                if text.len() > LOOKED_AT_BYTES_MAX {
                    return too_large(text.len());
                }
            }
            serde_json::from_slice(&text).unwrap_or_default()
        }
        _ => Value::Null,
    };
    bounded(steady(public(value)))
}

fn too_large(bytes: usize) -> Value {
    Value::String(format!("{bytes} bytes: too much to keep"))
}

fn bounded(value: Value) -> Value {
    match value.to_string().len() {
        bytes if bytes > CHANGE_VALUE_BYTES_MAX => too_large(bytes),
        _ => value,
    }
}

/// A path of a length that is kept, cut between two characters.
fn cut(path: &str) -> &str {
    let mut end = path.len().min(CHANGE_VALUE_BYTES_MAX);
    while !path.is_char_boundary(end) {
        end -= 1;
    }
    &path[..end]
}

/// A value without what nobody is shown.
fn public(value: Value) -> Value {
    let is_secret = |name: &str| {
        let name = name.to_ascii_lowercase();
        SECRETS.iter().any(|secret| name.contains(secret))
    };
    let field = |(name, value): (String, Value)| {
        let value = match is_secret(&name) && !value.is_null() {
            true => Value::String("(hidden)".to_owned()),
            false => public(value),
        };
        (name, value)
    };
    match value {
        Value::Object(fields) => Value::Object(fields.into_iter().map(field).collect()),
        Value::Array(items) => items.into_iter().map(public).collect(),
        other => other,
    }
}

/// A value without what changes by itself.
fn steady(value: Value) -> Value {
    let is_steady =
        |name: &String| !UNSTEADY.contains(&name.as_str()) && !name.ends_with("_details");
    match value {
        Value::Object(fields) => {
            let fields: Map<String, Value> = fields
                .into_iter()
                .filter(|(name, _)| is_steady(name))
                .collect();
            Value::Object(fields)
        }
        Value::Array(items) => items.into_iter().map(steady).collect(),
        other => other,
    }
}

/// `GET /api/leveret/changes`: those of all nodes, newest first; with `?user=` those of one user. A
/// filter looks at the path.
pub fn changes(call: &Call<'_>) -> Answer {
    let app = call.app;
    let mut all = match own(app) {
        Value::Array(own) => own,
        _ => Vec::new(),
    };
    let shape = json!({"reason": null, "asked": null, "before": null, "after": null});
    let others = peers::rows(app, &Question::Changes).into_iter();
    all.extend(others.map(|row| peers::shaped(&shape, row)));
    all.sort_by(|a, b| b["time"].as_str().cmp(&a["time"].as_str()));
    if let Some(user) = call.query.get("user").filter(|user| !user.is_empty()) {
        all.retain(|change| change["user"] == user);
    }
    list_query::list(all, &call.query, |change| change["path"].as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_kept_up_to_its_bound() {
        let text = |bytes: usize| Value::String("a".repeat(bytes));
        // Two quotation marks stand around it.
        let most = text(CHANGE_VALUE_BYTES_MAX - 2);
        assert_eq!(bounded(most.clone()), most);
        let more = bounded(text(CHANGE_VALUE_BYTES_MAX - 1));
        assert_eq!(more, too_large(CHANGE_VALUE_BYTES_MAX + 1));
        let path = "é".repeat(CHANGE_VALUE_BYTES_MAX);
        assert_eq!(cut(&path).len(), CHANGE_VALUE_BYTES_MAX);
    }

    #[test]
    fn every_change_has_a_line_in_the_log() {
        let routes = crate::routes::ROUTES.iter();
        let changes = routes.filter(|route| {
            let mut methods = route.methods.iter();
            methods.any(|method| method.name != "GET") && !NO_CHANGES.contains(&route.path)
        });
        let (below, here): (Vec<&str>, Vec<&str>) = changes
            .map(|route| route.path)
            .partition(|path| is_noted_below(path));
        for noted in NOTED_BELOW {
            assert!(below.iter().any(|path| path.starts_with(noted)), "{noted}");
        }
        for path in [
            "/api/connections/{}",
            "/api/queues/{vhost}/{}/actions",
            "/api/queues/quorum/{vhost}/{}/replicas/add",
            "/api/leveret/memory-watermark",
            "/api/leveret/stop",
            "/api/leveret/stream-groups/{vhost}/{}/{}",
        ] {
            assert!(here.contains(&path), "{path}");
        }
    }

    #[test]
    fn secrets_are_hidden_wherever_they_stand() {
        let told = json!({
            "password_hash": "x",
            "password": null,
            "value": {"src-URI": "amqp://u:p@h", "list": [{"Token": 1, "name": "n"}]},
        });
        let hidden = json!({
            "password_hash": "(hidden)",
            "password": null,
            "value": {"src-URI": "(hidden)", "list": [{"Token": "(hidden)", "name": "n"}]},
        });
        assert_eq!(public(told), hidden);
    }
}
