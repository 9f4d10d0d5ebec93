//! Messages of a stream, shown without consuming them: bodies as text where they are text, JSON
//! laid out, anything else in hexadecimal.

use crate::api::{Actor, Browse, Browsed, StreamMessage, StreamStart};
use crate::app::App;
use crate::http::input::{Query, json_of};
use crate::http::reply::{ApiError, Reply};
use crate::http::router::Call;
use crate::peers;
use crate::question::Question;
use crate::streams::stream;
use crate::timestamps::{MOMENTS, moment_ms};
use crate::written::{fitting, written_bytes};
use leveret_types::limits::{
    STREAM_BROWSE_BYTES, STREAM_BROWSE_MESSAGES_MAX, STREAM_FILTER_VALUES_MAX,
};
use serde_json::{Value, json};

type Answer = Result<Reply, ApiError>;

/// Messages of a look that says nothing else.
const COUNT: usize = 20;
/// Bytes of a body of JSON that is laid out; a larger one is shown as it is.
const LAID_OUT_BYTES_MAX: usize = 16 * 1024;

fn bad<T>(text: impl Into<String>) -> Result<T, ApiError> {
    Err(ApiError::BadRequest(text.into()))
}

/// What a query asks for.
fn wanted(query: &Query) -> Result<Browse, ApiError> {
    let from = match (query.get("offset"), query.get("timestamp")) {
        (None | Some("first"), None) => StreamStart::First,
        (Some("last"), None) => StreamStart::Last,
        (Some(offset), None) => match offset.parse() {
            Ok(offset) => StreamStart::Offset(offset),
            Err(_) => return bad("offset must be first, last or a whole number, 0 or more"),
        },
        (None, Some(time)) => match moment_ms(time) {
            Some(time) => StreamStart::TimestampMs(time),
            None => return bad(format!("timestamp must be {MOMENTS}")),
        },
        (Some(_), Some(_)) => return bad("give offset or timestamp, not both"),
    };
    let count = match query.get("count").map(str::parse) {
        None => COUNT,
        Some(Ok(count)) if (1..=STREAM_BROWSE_MESSAGES_MAX).contains(&count) => count,
        Some(_) => {
            return bad(format!(
                "count must be from 1 to {STREAM_BROWSE_MESSAGES_MAX}"
            ));
        }
    };
    let filter = query.get("filter").map(|values| values.split(','));
    let filter: Vec<String> = filter.into_iter().flatten().map(str::to_owned).collect();
    if filter.len() > STREAM_FILTER_VALUES_MAX || filter.iter().any(String::is_empty) {
        return bad(format!(
            "filter must be 1 to {STREAM_FILTER_VALUES_MAX} values with commas between them"
        ));
    }
    Ok(Browse {
        from,
        count,
        filter,
        match_unfiltered: query.flag("match_unfiltered"),
    })
}

/// `GET /api/leveret/streams/{vhost}/{stream}/messages`, with `offset` (`first`, `last`, a number)
/// or `timestamp` (milliseconds, or a date), `count`, `filter` and `match_unfiltered`.
pub fn browse(call: &Call<'_>) -> Answer {
    let queue = stream(call)?;
    let browse = wanted(&call.query)?;
    let (vhost, name) = (&queue.vhost, &queue.name);
    let own = call
        .app
        .node()
        .browse_stream(call.who.actor(), vhost, name, &browse)?;
    if let Some(own) = own {
        return Ok(Reply::Json(browsed_json(&own)));
    }
    let question = Question::Browse {
        vhost: vhost.clone(),
        stream: name.clone(),
        browse,
    };
    let answers = peers::ask(call.app, &question).into_iter();
    let mut answers = answers.filter_map(|(_, answer)| {
        let text = answer[0].as_str()?;
        serde_json::from_str::<Value>(text).ok()
    });
    match answers.next() {
        Some(shown) => Ok(Reply::Json(shown)),
        None => Err(ApiError::Unavailable(format!(
            "no node that has messages of the stream '{name}' answers: try again"
        ))),
    }
}

/// What this node shows of a stream that another node asks for, which has seen to it that its user
/// may read it. As a text: fields that are 0 are left out on the way between nodes.
pub fn own(app: &App, vhost: &str, stream: &str, browse: &Browse) -> Value {
    match app
        .node()
        .browse_stream(Actor::Operator, vhost, stream, browse)
    {
        Ok(Some(browsed)) => json!([browsed_json(&browsed).to_string()]),
        Ok(None) | Err(_) => Value::Null,
    }
}

fn browsed_json(browsed: &Browsed) -> Value {
    let mut left = 2 * STREAM_BROWSE_BYTES;
    let messages = browsed.messages.iter();
    json!({
        "messages": messages.map(|m| message_json(m, &mut left)).collect::<Value>(),
        "next_offset": browsed.next_offset,
        "first_offset": browsed.first_offset,
        "committed_offset": browsed.committed_offset,
    })
}

fn message_json(message: &StreamMessage, left: &mut usize) -> Value {
    let mut shown = json!({"offset": message.offset, "timestamp": message.timestamp_ms});
    let rest = match &message.content {
        Ok(got) => {
            let (encoding, payload) = payload(&got.payload, *left);
            *left -= written_bytes(&payload);
            json!({
                "exchange": got.exchange,
                "routing_key": got.routing_key,
                "properties": json_of(&got.properties),
                "payload": payload,
                "payload_bytes": got.body_bytes,
                "payload_encoding": encoding,
            })
        }
        Err((count, why)) => json!({"messages": count, "unreadable": why}),
    };
    crate::http::reply::merge(&mut shown, rest);
    shown
}

/// A body as it is shown, in so many bytes at most: how, and what of it.
fn payload(body: &[u8], left: usize) -> (&'static str, String) {
    match std::str::from_utf8(body) {
        Ok(text) => match laid_out(text).filter(|laid| written_bytes(laid) <= left) {
            Some(laid) => ("json", laid),
            None => ("string", fitting(text, left).0.to_owned()),
        },
        Err(_) => {
            let shown = &body[..body.len().min(left / 2)];
            (
                "hex",
                shown.iter().map(|octet| format!("{octet:02x}")).collect(),
            )
        }
    }
}

/// An object or list of JSON laid out in lines; nothing of any other text.
fn laid_out(text: &str) -> Option<String> {
    let begins = text.trim_start().starts_with(['{', '[']);
    if !begins || text.len() > LAID_OUT_BYTES_MAX {
        return None;
    }
    let value: Value = serde_json::from_str(text).ok()?;
    serde_json::to_string_pretty(&value).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_are_shown_as_what_they_are() {
        let laid = "{\n  \"a\": [\n    1\n  ]\n}";
        for (body, expected) in [
            (&b"{\"a\":[1]}"[..], ("json", laid)),
            (b"{\"a\":", ("string", "{\"a\":")),
            (b"7", ("string", "7")),
            (b"", ("string", "")),
            ("\u{fc}".as_bytes(), ("string", "\u{fc}")),
            (b"\xff\x00a", ("hex", "ff0061")),
        ] {
            assert_eq!(payload(body, 100), (expected.0, expected.1.to_owned()));
        }
    }

    #[test]
    fn no_more_of_a_body_is_shown_than_there_is_room_for() {
        assert_eq!(payload(b"{\"a\":1}", 9), ("string", "{\"a\":1}".to_owned()));
        assert_eq!(payload(b"{\"a\":1}", 7), ("string", "{\"a\":".to_owned()));
        assert_eq!(payload(b"\x01\x01", 11), ("string", "\u{1}".to_owned()));
        assert_eq!(payload("a\u{fc}".as_bytes(), 2), ("string", "a".to_owned()));
        assert_eq!(payload(b"\xff\xff", 3), ("hex", "ff".to_owned()));
        assert_eq!(payload(b"text", 0), ("string", String::new()));
        let most = format!("[{}]", " ".repeat(LAID_OUT_BYTES_MAX - 2));
        assert_eq!(payload(most.as_bytes(), 1 << 20).0, "json");
        assert_eq!(payload(format!("{most} ").as_bytes(), 1 << 20).0, "string");
    }
}
