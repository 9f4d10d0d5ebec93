//! What the API answers: JSON, nothing, or an error in RabbitMQ's form.

use leveret_types::{ProtocolError, ReplyCode};
use serde_json::{Value, json};

/// A good answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// 200 with JSON.
    Json(Value),
    /// 200 with text of this type.
    Text(&'static str, String),
    /// 201: created; where it is now, relative to the request, if that is not the request's own
    /// path.
    Created(Option<String>),
    /// 204: done.
    Done,
    /// 503 with JSON: a check that did not pass.
    Unwell(Value),
}

/// An error, by what the client did wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApiError {
    /// 400.
    BadRequest(String),
    /// 401: who are you? Or: you may not.
    NotAuthorised(String),
    /// 404.
    NotFound,
    /// 405, and the methods that there are.
    MethodNotAllowed(String),
    /// 408: the body did not come in time.
    TooSlow,
    /// 413.
    TooLarge(usize),
    /// 500: the node could not.
    Failed(String),
}

impl ApiError {
    /// The HTTP status.
    #[must_use]
    pub const fn status(&self) -> u16 {
        match self {
            Self::BadRequest(_) => 400,
            Self::NotAuthorised(_) => 401,
            Self::NotFound => 404,
            Self::MethodNotAllowed(_) => 405,
            Self::TooSlow => 408,
            Self::TooLarge(_) => 413,
            Self::Failed(_) => 500,
        }
    }

    /// The body, in RabbitMQ's form.
    #[must_use]
    pub fn json(&self) -> Value {
        let (error, reason) = match self {
            Self::BadRequest(reason) => ("bad_request", reason.clone()),
            Self::NotAuthorised(reason) => ("not_authorised", reason.clone()),
            Self::NotFound => ("Object Not Found", "Not Found".to_owned()),
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
            code => Self::BadRequest(format!("{} {}", code.code(), error.reply_text())),
        }
    }
}

/// Puts the fields of one object into another.
pub fn merge(into: &mut Value, from: Value) {
    if let (Value::Object(into), Value::Object(from)) = (into, from) {
        into.extend(from);
    }
}
