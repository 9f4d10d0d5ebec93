//! What the API answers: JSON, nothing, or an error in RabbitMQ's form.

use crate::events::Events;
use crate::http::chunked_body::Pieces;
use crate::live::subject::Wanted;
use leveret_types::limits::HTTP_HEAD_BYTES_MAX;
use leveret_types::{ProtocolError, ReplyCode};
use serde_json::{Value, json};
use std::fmt::{Debug, Formatter};

/// A good answer.
#[derive(Debug)]
pub enum Reply {
    /// 200 with JSON.
    Json(Value),
    /// 200 with text of this type, made while it is read.
    Pieces(&'static str, Pieces),
    /// 200 with JSON text and its entity tag, for what is asked for again and again.
    Tagged(Pieces, String),
    /// 304: the client has what is under this entity tag.
    Unchanged(String),
    /// 201: created; where it is now, relative to the request, if that is not the request's own
    /// path.
    Created(Option<String>),
    /// 202: taken, and done by and by.
    Accepted,
    /// 204: done.
    Done,
    /// 200 and the methods that a resource has.
    Methods(String),
    /// 301: it is there.
    Moved(String),
    /// 200 with a page for people.
    Html(String),
    /// 503 with JSON: a check that did not pass.
    Unwell(Value),
    /// What is to be sent as it changes: the server begins with it.
    Live(Wanted),
    /// 200 with events, for as long as the client listens.
    Events(Events),
    /// What takes more than one turn of a worker, after the first of them.
    Unfinished(Unfinished),
}

/// The rest of work that answers a request. Others have a worker between two turns of it.
pub struct Unfinished(Box<dyn FnOnce() -> Result<Reply, ApiError> + Send>);

impl Unfinished {
    /// What `next` does in its next turn, and what that leaves.
    pub fn new(next: impl FnOnce() -> Result<Reply, ApiError> + Send + 'static) -> Self {
        Self(Box::new(next))
    }

    /// The next turn: an answer, or what is still left.
    ///
    /// # Errors
    /// What the request is refused with.
    pub fn go_on(self) -> Result<Reply, ApiError> {
        (self.0)()
    }
}

impl Debug for Unfinished {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str("Unfinished")
    }
}

impl Reply {
    /// The HTTP status.
    #[must_use]
    pub const fn status(&self) -> u16 {
        match self {
            Self::Json(_)
            | Self::Pieces(..)
            | Self::Tagged(..)
            | Self::Methods(_)
            | Self::Html(_)
            | Self::Live(_)
            | Self::Events(_)
            | Self::Unfinished(_) => 200,
            Self::Created(_) => 201,
            Self::Accepted => 202,
            Self::Done => 204,
            Self::Moved(_) => 301,
            Self::Unchanged(_) => 304,
            Self::Unwell(_) => 503,
        }
    }

    /// The answer, all turns that are left at once: for whoever keeps a worker anyhow.
    ///
    /// # Errors
    /// What the request is refused with.
    pub fn finished(self) -> Result<Self, ApiError> {
        let mut reply = self;
        while let Self::Unfinished(rest) = reply {
            reply = rest.go_on()?;
        }
        Ok(reply)
    }

    /// JSON with an entity tag that is made of it.
    #[must_use]
    pub fn tagged(json: &Value) -> Self {
        let text = json.to_string().into_bytes();
        let mut tag = EntityTag::default();
        tag.add(&text);
        Self::Tagged(Pieces::of_texts(vec![text]), tag.text())
    }

    /// The answer to a client that holds what is under these entity tags (`If-None-Match`).
    #[must_use]
    pub fn unless_known(self, known: Option<&str>) -> Self {
        match (self, known) {
            (Self::Tagged(_, tag), Some(known)) if names(known, &tag) => Self::Unchanged(tag),
            (other, _) => other,
        }
    }
}

/// Whether a list of entity tags names `tag`; a weak tag is as good here.
pub(crate) fn names(list: &str, tag: &str) -> bool {
    let mut tags = list.split(',').map(str::trim);
    tags.any(|known| known == "*" || known.strip_prefix("W/").unwrap_or(known) == tag)
}

/// What the fingerprint of no bytes is.
const FINGERPRINT: u64 = 0xcbf2_9ce4_8422_2325;

/// FNV-1a: the same bytes have the same fingerprint at every start.
#[must_use]
pub fn fingerprint(bytes: &[u8]) -> u64 {
    with_more(FINGERPRINT, bytes)
}

/// The fingerprint of what has this one, with more bytes behind it.
fn with_more(fingerprint: u64, bytes: &[u8]) -> u64 {
    let fold = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.iter().fold(fingerprint, fold)
}

/// The entity tag of a text that is looked at piece by piece: the same text has the same one,
/// however it is cut.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EntityTag(u64);

impl Default for EntityTag {
    fn default() -> Self {
        Self(FINGERPRINT)
    }
}

impl EntityTag {
    /// Looks at the next piece.
    pub(crate) fn add(&mut self, piece: &[u8]) {
        self.0 = with_more(self.0, piece);
    }

    /// The tag, when all has been looked at.
    pub(crate) fn text(self) -> String {
        format!("\"{:016x}\"", self.0)
    }
}

/// An error, by what the client did wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApiError {
    /// 400.
    BadRequest(String),
    /// 400, with a word of its own for `error`.
    Wrong(&'static str, String),
    /// 401: who are you? Or: you may not.
    NotAuthorised(String),
    /// 401: the credentials are wrong.
    LoginFailed,
    /// 403: a page that is not this node's own wants it.
    Forbidden(String),
    /// 404.
    NotFound,
    /// 404, and what it is that is not there.
    Missing(String),
    /// 405, and the methods that there are.
    MethodNotAllowed(String),
    /// 406: the client takes nothing that the API answers with.
    NotAcceptable,
    /// 412: what is there does not permit it.
    Precondition(String),
    /// 408: the body did not come in time.
    TooSlow,
    /// 413.
    TooLarge(usize),
    /// 429: too much of it, and the seconds after which it may be tried again.
    TooMany(String, u64),
    /// 431.
    HeadTooLarge,
    /// 503: too many answers wait to be read.
    Crowded,
    /// 503: too many logins wait to be checked.
    Busy,
    /// 503: the bodies of other requests take all room.
    NoRoom,
    /// 500: the node could not.
    Failed(String),
    /// 503: nothing is wrong with what was asked for, and it cannot be had now.
    Unavailable(String),
}

impl ApiError {
    /// The HTTP status.
    #[must_use]
    pub const fn status(&self) -> u16 {
        match self {
            Self::BadRequest(_) | Self::Wrong(..) => 400,
            Self::NotAuthorised(_) | Self::LoginFailed => 401,
            Self::Forbidden(_) => 403,
            Self::NotFound | Self::Missing(_) => 404,
            Self::MethodNotAllowed(_) => 405,
            Self::NotAcceptable => 406,
            Self::Precondition(_) => 412,
            Self::TooSlow => 408,
            Self::TooLarge(_) => 413,
            Self::TooMany(..) => 429,
            Self::HeadTooLarge => 431,
            Self::Crowded | Self::Busy | Self::NoRoom | Self::Unavailable(_) => 503,
            Self::Failed(_) => 500,
        }
    }

    /// Whether it says that something is not there.
    pub(crate) const fn is_missing(&self) -> bool {
        matches!(self, Self::NotFound | Self::Missing(_))
    }

    /// The body, in RabbitMQ's form.
    #[must_use]
    pub fn json(&self) -> Value {
        let (error, reason) = match self {
            Self::BadRequest(reason) => ("bad_request", reason.clone()),
            Self::Wrong(error, reason) => (*error, reason.clone()),
            Self::NotAuthorised(reason) => ("not_authorised", reason.clone()),
            Self::LoginFailed => ("not_authorized", "Login failed".to_owned()),
            Self::Forbidden(reason) => ("forbidden", reason.clone()),
            Self::NotFound => ("Object Not Found", "Not Found".to_owned()),
            Self::Missing(reason) => ("not_found", reason.clone()),
            Self::NotAcceptable => (
                "Not Acceptable",
                "the API answers with application/json".to_owned(),
            ),
            Self::Precondition(reason) => ("precondition_failed", reason.clone()),
            Self::MethodNotAllowed(methods) => (
                "Method Not Allowed",
                format!("this resource has: {methods}"),
            ),
            Self::TooSlow => (
                "Request Timeout",
                "the body did not come in time".to_owned(),
            ),
            Self::TooLarge(most) => (
                "bad_request",
                format!("the body is larger than {most} bytes"),
            ),
            Self::TooMany(reason, _) => ("Too Many Requests", reason.clone()),
            Self::HeadTooLarge => (
                "bad_request",
                format!("the line and headers are larger than {HTTP_HEAD_BYTES_MAX} bytes"),
            ),
            Self::Crowded => (
                "Service Unavailable",
                "too many answers wait to be read, try again".to_owned(),
            ),
            Self::Busy => (
                "Service Unavailable",
                "too many logins wait for their passwords to be checked, try again".to_owned(),
            ),
            Self::NoRoom => (
                "Service Unavailable",
                "the bodies of other requests take all room, try again".to_owned(),
            ),
            Self::Unavailable(reason) => ("Service Unavailable", reason.clone()),
            Self::Failed(reason) => ("Internal Server Error", reason.clone()),
        };
        json!({"error": error, "reason": reason})
    }
}

impl From<ProtocolError> for ApiError {
    fn from(error: ProtocolError) -> Self {
        match error.code {
            ReplyCode::NotFound => Self::NotFound,
            ReplyCode::AccessRefused => Self::NotAuthorised(error.reply_text()),
            ReplyCode::InternalError => Self::Failed(error.reply_text()),
            ReplyCode::ResourceError => Self::Unavailable(error.text.into_owned()),
            // As RabbitMQ has it, without the code's number and name.
            _ => Self::BadRequest(error.text.into_owned()),
        }
    }
}

/// Puts the fields of one object into another.
pub fn merge(into: &mut Value, from: Value) {
    if let (Value::Object(into), Value::Object(from)) = (into, from) {
        into.extend(from);
    }
}
