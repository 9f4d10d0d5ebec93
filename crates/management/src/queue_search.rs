//! `/api/leveret/queues/{vhost}/{name}/search`: messages of a queue that have something, by key,
//! header, body or age: ready ones, or those that clients hold. They are looked at and left where
//! they are.
//!
//! Invariant: one request looks at so many messages for so long, and says where to go on; few
//! requests search at once. What is looked for in a body costs time by its length, whatever both
//! are, and no memory.

use crate::api::{Actor, LookedAt};
use crate::http::reply::{ApiError, Reply};
use crate::http::router::Call;
use crate::json_pointer::{Pointer, ReferencedValue};
use crate::moves::{SHOWN_BYTES, looked_at_json, number};
use crate::queues::declared;
use crate::sought::Sought;
use crate::unacked::{self, Look};
use leveret_types::limits::{
    HTTP_BODY_BYTES_MAX, QUEUE_PEEK_MESSAGES_MAX, QUEUE_SEARCH_MESSAGES_MAX, QUEUE_SEARCH_MS_MAX,
    QUEUE_SEARCHES_MAX, QUEUE_SEARCHES_OF_USER_MAX,
};
use leveret_types::{FieldTable, FieldValue, ReplyCode};
use regex::bytes::Regex;
use serde_json::{Value, json};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

type Answer = Result<Reply, ApiError>;

/// Messages that are found where the client does not say how many.
const COUNT: usize = 20;

/// What a message must have, all of it, as it is looked for.
#[derive(Debug)]
pub(crate) struct Wanted {
    /// Text within its routing key.
    key: Option<String>,
    /// Headers, each with its value where that matters.
    headers: Vec<(String, Option<String>)>,
    /// Text within its body.
    body: Option<Regex>,
    /// A place in its body, which is JSON, and what stands there where that matters.
    json: Option<(Pointer, Option<String>)>,
    /// Seconds that it has waited at least.
    older_than_s: Option<u64>,
}

/// A name, and behind a colon its value.
fn pair(text: &str) -> (String, Option<String>) {
    match text.split_once(':') {
        None => (text.to_owned(), None),
        Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
    }
}

impl Wanted {
    /// What is to be looked for.
    ///
    /// # Errors
    /// If a part of it makes no sense.
    pub(crate) fn of(sought: &Sought) -> Result<Self, ApiError> {
        let wrong = |reason: &str| ApiError::BadRequest(reason.to_owned());
        let json = sought.json.as_deref().map(|text| {
            let (at, value) = pair(text);
            let pointer = Pointer::of(&at).ok_or_else(|| {
                wrong(
                    "json must be a JSON pointer, such as /order/id, and may have a colon and a \
                     value behind it",
                )
            });
            pointer.map(|pointer| (pointer, value))
        });
        // Unlike a look at every place of the body, it takes no longer for texts that repeat.
        let body = sought.body.as_deref();
        let body = body.map(|part| Regex::new(&regex::escape(part)));
        let body = body.transpose();
        let body = body.map_err(|_| wrong("body is too long a text"))?;
        let seconds = |text: &str| {
            text.parse()
                .map_err(|_| wrong("older_than must be in seconds"))
        };
        Ok(Self {
            key: sought.key.clone(),
            headers: sought.headers.iter().map(|text| pair(text)).collect(),
            body,
            json: json.transpose()?,
            older_than_s: sought.older_than.as_deref().map(seconds).transpose()?,
        })
    }

    pub(crate) fn takes(&self, found: &LookedAt, now_ms: u64) -> bool {
        let message = &found.message;
        let waited_ms = now_ms.saturating_sub(found.taken_ms);
        self.key
            .as_ref()
            .is_none_or(|key| message.routing_key.contains(key))
            && self.has_headers(&message.properties)
            && self
                .older_than_s
                .is_none_or(|least| waited_ms >= least.saturating_mul(1_000))
            && self
                .body
                .as_ref()
                .is_none_or(|part| part.is_match(&message.payload))
            && self.json.as_ref().is_none_or(|(at, value)| {
                let found = at.look_up(&message.payload);
                found.is_some_and(|found| {
                    value.as_ref().is_none_or(
                        |value| matches!(&found, ReferencedValue::Plain(is) if is == value),
                    )
                })
            })
    }

    fn has_headers(&self, properties: &FieldTable) -> bool {
        let headers = match properties.get("headers") {
            Some(FieldValue::Table(headers)) => crate::http::input::json_of(headers),
            _ => Value::Null,
        };
        self.headers.iter().all(|(name, value)| {
            let found = headers.get(name);
            found.is_some_and(|found| value.as_ref().is_none_or(|value| text_of(found) == *value))
        })
    }
}

/// A value as somebody writes it: texts without quotation marks.
fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// One that searches, until it is dropped.
struct Turn<'a> {
    running: &'a Mutex<Vec<String>>,
    who: &'a str,
}

impl<'a> Turn<'a> {
    /// A turn of somebody's, if others and their own leave room for it.
    fn of(running: &'a Mutex<Vec<String>>, who: &'a str) -> Result<Self, ApiError> {
        let mut all = Self::all(running);
        let own = all.iter().filter(|name| *name == who).count();
        let too_many = match (own, all.len()) {
            (QUEUE_SEARCHES_OF_USER_MAX.., _) => Some((own, "of yours ")),
            (_, QUEUE_SEARCHES_MAX..) => Some((all.len(), "")),
            _ => None,
        };
        if let Some((count, whose)) = too_many {
            let reason = format!("{count} searches {whose}run at this node: try again");
            return Err(ApiError::TooMany(reason, 1));
        }
        all.push(who.to_owned());
        drop(all);
        Ok(Self { running, who })
    }

    fn all(running: &Mutex<Vec<String>>) -> MutexGuard<'_, Vec<String>> {
        // Each change is whole before anything can panic.
        running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut all = Self::all(self.running);
        if let Some(at) = all.iter().position(|name| name == self.who) {
            all.swap_remove(at);
        }
    }
}

/// `GET /api/leveret/queues/{vhost}/{name}/search?key=&header=&body=&json=&older_than=&position=
/// &count=&truncate=&unacked=&consumer=`: the next messages that have all of it, from a position
/// (1: the next to be handed out) on, how many were looked at, and where to go on. With `unacked`
/// these are messages that clients hold.
pub fn search(call: &Call<'_>) -> Answer {
    let queue = declared(call)?;
    if queue.kind == "stream" {
        let reason = "messages of a stream are at /api/leveret/streams/{vhost}/{name}/messages";
        return Err(ApiError::BadRequest(reason.to_owned()));
    }
    let first = number(call, "position", 1, u64::MAX)?.unwrap_or(1);
    let count = number(call, "count", 1, QUEUE_PEEK_MESSAGES_MAX as u64)?;
    let truncate = number(call, "truncate", 0, HTTP_BODY_BYTES_MAX as u64)?;
    let sought = Sought::of(&call.query);
    let wanted = Wanted::of(&sought)?;
    let _turn = Turn::of(&call.app.searches, call.who.name())?;
    let over = Instant::now() + Duration::from_millis(QUEUE_SEARCH_MS_MAX);
    if call.query.flag("unacked") {
        let look = Look {
            first,
            count: count.map_or(COUNT, |count| count as usize),
            truncate: truncate.map_or(SHOWN_BYTES, |bytes| bytes as usize),
            sought: Some(sought),
        };
        return unacked::search(call, &queue, &look, over);
    }
    let mut search = Search {
        wanted,
        now_ms: call.app.moment().wall_ms,
        count: count.map_or(COUNT, |count| count as usize),
        truncate: truncate.map_or(SHOWN_BYTES, |bytes| bytes as usize),
        first,
        position: first,
        rows: Vec::new(),
        left: HTTP_BODY_BYTES_MAX,
    };
    let (mut has_ended, mut unreadable) = (false, None);
    while !search.is_enough() && Instant::now() < over {
        let (actor, before): (Actor<'_>, u64) = (call.who.actor(), search.position - 1);
        let (node, most) = (call.app.node(), QUEUE_PEEK_MESSAGES_MAX);
        match node.look(actor, &queue.vhost, &queue.name, before, most) {
            Ok(found) if found.is_empty() => {
                has_ended = true;
                break;
            }
            Ok(found) => search.look_through(&found),
            // One that cannot be read is told and passed over.
            Err(error) if error.code == ReplyCode::PreconditionFailed => {
                unreadable = Some(error.text.into_owned());
                search.position += 1;
                break;
            }
            // What was found before is not lost: whoever goes on is told the reason.
            Err(_) if search.position > first => break,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(Reply::Json(json!({
        "messages": search.rows,
        "looked_at": search.position - first,
        "next_position": (!has_ended).then_some(search.position),
        "unreadable": unreadable,
    })))
}

/// What is searched for, and how far it is.
struct Search {
    wanted: Wanted,
    now_ms: u64,
    /// How many are to be found.
    count: usize,
    /// Bytes of a body that are shown.
    truncate: usize,
    first: u64,
    /// The next to be looked at.
    position: u64,
    rows: Vec<Value>,
    /// Bytes of bodies that may still be shown.
    left: usize,
}

impl Search {
    fn is_enough(&self) -> bool {
        let looked_at = self.position - self.first;
        self.rows.len() >= self.count || looked_at >= QUEUE_SEARCH_MESSAGES_MAX
    }

    fn look_through(&mut self, found: &[LookedAt]) {
        for found in found {
            if self.rows.len() >= self.count {
                break;
            }
            if self.wanted.takes(found, self.now_ms) {
                let (position, truncate) = (self.position, self.truncate);
                let row = looked_at_json(found, position, truncate, &mut self.left);
                self.rows.push(row);
            }
            self.position += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::Got;
    use crate::http::input::Query;

    #[test]
    fn so_many_search_at_once_and_of_one_user_fewer() {
        let running = Mutex::default();
        let mut turns = Vec::new();
        for _ in 0..QUEUE_SEARCHES_OF_USER_MAX {
            turns.push(Turn::of(&running, "one").expect("a turn"));
        }
        assert!(Turn::of(&running, "one").is_err());
        for _ in QUEUE_SEARCHES_OF_USER_MAX..QUEUE_SEARCHES_MAX {
            turns.push(Turn::of(&running, "other").expect("others have theirs"));
        }
        assert!(Turn::of(&running, "third").is_err(), "one more");
        turns.pop();
        assert!(Turn::of(&running, "third").is_ok());
        assert!(Turn::of(&running, "one").is_err());
    }

    fn message(key: &str, headers: FieldTable, body: &str) -> LookedAt {
        LookedAt {
            fingerprint: 0,
            taken_ms: 10_000,
            message: Got {
                exchange: String::new(),
                routing_key: key.to_owned(),
                redelivered: false,
                remaining: 0,
                properties: FieldTable::from([("headers", FieldValue::Table(headers))]),
                payload: body.as_bytes().to_vec(),
                body_bytes: body.len(),
            },
        }
    }

    fn wanted(query: &str) -> Result<Wanted, ApiError> {
        Wanted::of(&Sought::of(&Query::parse(query).expect("a query")))
    }

    #[test]
    fn a_message_has_all_that_is_asked_for_or_is_passed_over() {
        let headers =
            FieldTable::from([("kind", FieldValue::text("a:b")), ("n", FieldValue::I32(7))]);
        let order = message(
            "order.new.eu",
            headers,
            r#"{"id": 12, "to": {"name": "Ä b"}}"#,
        );
        for (query, expected) in [
            ("", true),
            ("key=new", true),
            ("key=old", false),
            ("header=n", true),
            ("header=n:7&header=kind:a:b", true),
            ("header=n:8", false),
            ("header=none", false),
            ("body=%22id%22%3A%2012", true),
            ("body=%C3%84%20b", true),
            ("body=13", false),
            ("json=/id", true),
            ("json=/id:12", true),
            ("json=/to/name:%C3%84%20b", true),
            ("json=/to/name:b", false),
            ("json=/none", false),
            ("older_than=5", true),
            ("older_than=6", false),
            ("key=new&json=/id:12&header=n:7&older_than=1", true),
            ("key=new&json=/id:12&header=n:8&older_than=1", false),
        ] {
            let wanted = wanted(query).expect(query);
            assert_eq!(wanted.takes(&order, 15_000), expected, "{query}");
        }
        let text = message("k", FieldTable::new(), "no JSON");
        for (query, expected) in [("json=/id", false), ("body=JSON", true)] {
            let wanted = wanted(query).expect(query);
            assert_eq!(wanted.takes(&text, 0), expected, "{query}");
        }
        for wrong in ["json=id", "older_than=x", "older_than=-1"] {
            assert!(wanted(wrong).is_err(), "{wrong}");
        }
    }
}
