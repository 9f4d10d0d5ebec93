//! `/api/leveret/queues/{vhost}/{name}/moves`: messages that go from a queue elsewhere: dead
//! letters back to where they died, or messages into another queue, moved or copied. A move runs on
//! the node that was asked; all nodes tell of it. And `.../messages`: what waits in a queue, looked
//! at without taking it.

use crate::api::{Actor, LookedAt, Move, MoveEnd, MoveMessages};
use crate::app::App;
use crate::http::input::Body;
use crate::http::reply::{ApiError, Reply};
use crate::http::router::Call;
use crate::peers;
use crate::question::Question;
use crate::queues::{declared, message_json};
use crate::timestamps::rfc3339;
use leveret_auth::Access;
use leveret_types::ReplyCode;
use leveret_types::limits::{HTTP_BODY_BYTES_MAX, MOVE_CHOSEN_MAX, QUEUE_PEEK_MESSAGES_MAX};
use serde_json::{Value, json};

type Answer = Result<Reply, ApiError>;

/// Messages of a look that says nothing else.
const LOOK_COUNT: usize = 20;
/// Bytes of a body that a look shows where the client does not say.
pub(crate) const SHOWN_BYTES: usize = 50_000;

fn bad<T>(text: impl Into<String>) -> Result<T, ApiError> {
    Err(ApiError::BadRequest(text.into()))
}

/// What a body asks for.
fn wanted(body: &Body) -> Result<MoveMessages, ApiError> {
    let text = |name| -> Result<Option<String>, ApiError> {
        let text = body.text_or(name, "")?;
        Ok((!text.is_empty()).then(|| text.to_owned()))
    };
    let limit = match body.get("limit") {
        None => None,
        Some(_) => match u64::try_from(body.integer_or("limit", 0)?) {
            Ok(limit) if limit > 0 => Some(limit),
            _ => return bad("limit must be 1 or more"),
        },
    };
    let wanted = MoveMessages {
        to: text("to")?,
        copy: body.flag_or("copy", false)?,
        from: text("from")?,
        reason: text("reason")?,
        chosen: chosen(body)?,
        limit,
        dry_run: body.flag_or("dry_run", false)?,
    };
    match wanted.copy && wanted.to.is_none() {
        true => bad("a copy needs the queue that takes it (\"to\")"),
        false => Ok(wanted),
    }
}

/// The messages that a body names one by one, by their fingerprints.
fn chosen(body: &Body) -> Result<Option<Vec<u64>>, ApiError> {
    let Some(list) = body.get("chosen") else {
        return Ok(None);
    };
    let list = list.as_array().map(Vec::as_slice).unwrap_or_default();
    if !(1..=MOVE_CHOSEN_MAX).contains(&list.len()) {
        return bad(format!(
            "chosen must be a list of 1 to {MOVE_CHOSEN_MAX} fingerprints of messages"
        ));
    }
    let fingerprint = |text: &Value| u64::from_str_radix(text.as_str()?, 16).ok();
    let parsed: Option<Vec<u64>> = list.iter().map(fingerprint).collect();
    let wrong = || ApiError::BadRequest("a fingerprint is a text of hexadecimal digits".to_owned());
    parsed.map(Some).ok_or_else(wrong)
}

/// A move as all nodes tell of it.
fn row(node: &str, told: &Move) -> Value {
    let (state, failure) = match &told.end {
        None => ("running", None),
        Some((_, MoveEnd::Done)) => ("done", None),
        Some((_, MoveEnd::Stopped)) => ("stopped", None),
        Some((_, MoveEnd::Failed(why))) => ("failed", Some(why)),
    };
    json!({
        "id": format!("{}@{node}", told.number),
        "node": node,
        "vhost": told.vhost,
        "queue": told.queue,
        "user": told.user,
        "to": told.wanted.to,
        "copy": told.wanted.copy,
        "from": told.wanted.from,
        "reason": told.wanted.reason,
        "chosen": told.wanted.chosen.as_ref().map(Vec::len),
        "dry_run": told.wanted.dry_run,
        "state": state,
        "failure": failure,
        "begun": rfc3339(told.begun_ms),
        "ended": told.end.as_ref().map(|(at_ms, _)| rfc3339(*at_ms)),
        "messages": told.messages,
        "looked_at": told.looked_at,
        "moved": told.moved,
        "kept": told.kept,
    })
}

/// What a row has that came without its zeros.
fn shape() -> Value {
    let row = row("", &Move::default());
    let fields = row.as_object().into_iter().flatten();
    let is_nothing =
        |value: &Value| matches!(value, Value::Null | Value::Number(_) | Value::Object(_));
    let nothing = fields.filter(|(_, value)| is_nothing(value));
    Value::Object(nothing.map(|(k, v)| (k.clone(), v.clone())).collect())
}

/// Moves that run on this node, or did lately, newest first.
pub(crate) fn own(app: &App) -> Value {
    let node = app.node().name();
    let moves = app.node().moves();
    moves.iter().rev().map(|told| row(&node, told)).collect()
}

/// Those of one queue, on all nodes.
fn rows(call: &Call<'_>) -> Vec<Value> {
    let Value::Array(mut rows) = own(call.app) else {
        return Vec::new();
    };
    let shape = shape();
    let others = peers::rows(call.app, &Question::Moves).into_iter();
    rows.extend(others.map(|row| peers::shaped(&shape, row)));
    rows.retain(|row| row["vhost"] == call.param(0) && row["queue"] == call.param(1));
    rows.sort_by(|a, b| b["begun"].as_str().cmp(&a["begun"].as_str()));
    rows
}

/// `GET /api/leveret/queues/{vhost}/{name}/moves`: newest first.
pub fn list(call: &Call<'_>) -> Answer {
    declared(call)?;
    Ok(Reply::Json(rows(call).into()))
}

/// `POST /api/leveret/queues/{vhost}/{name}/moves`: begins one, and tells how it stands.
pub fn begin(call: &Call<'_>) -> Answer {
    declared(call)?;
    let wanted = wanted(&call.body()?)?;
    let (vhost, queue) = (call.param(0), call.param(1));
    let node = call.app.node();
    let begun = node.begin_move(call.who.actor(), vhost, queue, wanted);
    let begun = begun.map_err(|error| match error.code {
        // It is the other queue that is not there.
        ReplyCode::NotFound => ApiError::Missing(error.text.into_owned()),
        _ => ApiError::from(error),
    })?;
    Ok(Reply::Json(row(&node.name(), &begun)))
}

/// `GET /api/leveret/queues/{vhost}/{name}/moves/{id}`
pub fn one(call: &Call<'_>) -> Answer {
    let mut rows = rows(call).into_iter();
    let found = rows.find(|row| row["id"] == call.param(2));
    found.map(Reply::Json).ok_or(ApiError::NotFound)
}

/// Stops the move of this id, if it runs on this node.
pub(crate) fn stop_own(app: &App, id: &str) -> Option<bool> {
    let (number, node) = id.split_once('@')?;
    let is_here = node == app.node().name();
    let number = number.parse().ok().filter(|_| is_here)?;
    Some(app.node().stop_move(number))
}

/// `DELETE /api/leveret/queues/{vhost}/{name}/moves/{id}`: it ends behind the messages that are
/// under way. It needs what taking messages out of the queue does.
pub fn stop(call: &Call<'_>) -> Answer {
    // Only a move of this queue.
    one(call)?;
    let (node, vhost, queue) = (call.app.node(), call.param(0), call.param(1));
    node.permit_queue(call.who.actor(), vhost, Access::Read, queue)?;
    let id = call.param(2).to_owned();
    let stopped = stop_own(call.app, &id).unwrap_or_else(|| {
        let answers = peers::ask(call.app, &Question::StopMove { id });
        answers.iter().any(|(_, answer)| answer == true)
    });
    match stopped {
        true => Ok(Reply::Done),
        false => Err(ApiError::NotFound),
    }
}

/// A number of the query within bounds, or `default`.
pub(crate) fn number(
    call: &Call<'_>,
    name: &str,
    least: u64,
    most: u64,
) -> Result<Option<u64>, ApiError> {
    let Some(text) = call.query.get(name) else {
        return Ok(None);
    };
    match text.parse() {
        Ok(number) if (least..=most).contains(&number) => Ok(Some(number)),
        _ => bad(format!("{name} must be from {least} to {most}")),
    }
}

/// `GET /api/leveret/queues/{vhost}/{name}/messages?position=&count=&truncate=`: ready messages in
/// the order in which they are handed out, from a position (1: the next) on. They stay where they
/// are, and are not redelivered for it.
pub fn look(call: &Call<'_>) -> Answer {
    let queue = declared(call)?;
    if queue.kind == "stream" {
        return bad("messages of a stream are at /api/leveret/streams/{vhost}/{name}/messages");
    }
    let position = number(call, "position", 1, u64::MAX)?.unwrap_or(1);
    let count = number(call, "count", 1, QUEUE_PEEK_MESSAGES_MAX as u64)?;
    let count = count.map_or(LOOK_COUNT, |count| count as usize);
    let truncate = number(call, "truncate", 0, HTTP_BODY_BYTES_MAX as u64)?;
    let truncate = truncate.map_or(SHOWN_BYTES, |bytes| bytes as usize);
    let actor: Actor<'_> = call.who.actor();
    let node = call.app.node();
    let found = node.look(actor, &queue.vhost, &queue.name, position - 1, count)?;
    let mut left = HTTP_BODY_BYTES_MAX;
    let rows = found.iter().zip(position..);
    let rows = rows.map(|(found, position)| looked_at_json(found, position, truncate, &mut left));
    Ok(Reply::Json(rows.collect()))
}

/// A message that was looked at: so many bytes of its body, of those that are left.
pub(crate) fn looked_at_json(
    found: &LookedAt,
    position: u64,
    truncate: usize,
    left: &mut usize,
) -> Value {
    let mut row = message_json(&found.message, truncate, left);
    row["position"] = position.into();
    row["fingerprint"] = format!("{:016x}", found.fingerprint).into();
    row["timestamp"] = found.taken_ms.into();
    row
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(body: &str) -> Result<MoveMessages, ApiError> {
        wanted(&Body::parse(body.as_bytes()).expect("an object"))
    }

    #[test]
    fn a_body_says_what_goes_where() {
        assert_eq!(asked("{}"), Ok(MoveMessages::default()));
        let all = r#"{"to": "b", "copy": true, "from": "a", "reason": "expired", "limit": 2,
            "dry_run": true, "chosen": ["ff", "0"]}"#;
        let expected = MoveMessages {
            to: Some("b".to_owned()),
            copy: true,
            from: Some("a".to_owned()),
            reason: Some("expired".to_owned()),
            chosen: Some(vec![255, 0]),
            limit: Some(2),
            dry_run: true,
        };
        assert_eq!(asked(all), Ok(expected));
        for wrong in [
            r#"{"copy": true}"#,
            r#"{"limit": 0}"#,
            r#"{"chosen": []}"#,
            r#"{"chosen": "ff"}"#,
            r#"{"chosen": ["x"]}"#,
            r#"{"to": 7}"#,
        ] {
            assert!(asked(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn so_many_messages_can_be_chosen() {
        let body = |count| json!({"chosen": vec!["1"; count]}).to_string();
        assert!(asked(&body(MOVE_CHOSEN_MAX)).is_ok());
        assert!(asked(&body(MOVE_CHOSEN_MAX + 1)).is_err());
    }

    #[test]
    fn a_row_from_another_node_has_what_was_left_out_on_the_way() {
        let told = Move {
            number: 3,
            ..Move::default()
        };
        let whole = row("n", &told);
        let sent = peers::without_zeros(whole.clone());
        assert_eq!(peers::shaped(&shape(), sent), whole);
    }
}
