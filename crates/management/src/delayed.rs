//! `/api/leveret/delayed`: the messages that delayed exchanges keep back on the node that is asked,
//! the first that are due, and how to drop one before it is.

use crate::moments::rfc3339;
use crate::queues::message_json;
use crate::reply::{ApiError, Reply};
use crate::route::Call;
use leveret_types::limits::{HTTP_BODY_BYTES_MAX, HTTP_PAGE_MAX};
use serde_json::{Value, json};

type Answer = Result<Reply, ApiError>;

/// Bytes of a body that are shown where the client does not say.
const SHOWN_BYTES: usize = 1_024;

fn number(call: &Call<'_>, name: &str, default: usize) -> Result<usize, ApiError> {
    let bad = |_| ApiError::BadRequest(format!("{name} must be a whole number"));
    call.query
        .get(name)
        .map_or(Ok(default), |text| text.parse().map_err(bad))
}

/// `GET /api/leveret/delayed?limit=&truncate=`
pub fn list(call: &Call<'_>) -> Answer {
    let limit = number(call, "limit", HTTP_PAGE_MAX)?.min(HTTP_PAGE_MAX);
    let truncate = number(call, "truncate", SHOWN_BYTES)?;
    let (total, messages) = call.app.node().delayed(limit);
    let mut left = HTTP_BODY_BYTES_MAX;
    let row = |message: &crate::api::DelayedMessage| {
        let mut row = message_json(&message.message, truncate, &mut left);
        row["id"] = format!("{}-{}", message.due_ms, message.index).into();
        row["due"] = rfc3339(message.due_ms).into();
        row["vhost"] = message.vhost.as_str().into();
        row
    };
    Ok(Reply::Json(json!({
        "total_count": total,
        "node": call.app.node().name(),
        "messages": messages.iter().map(row).collect::<Value>(),
    })))
}

/// `DELETE /api/leveret/delayed/{id}`: the message never reaches a queue.
pub fn cancel(call: &Call<'_>) -> Answer {
    let id = call.param(0).split_once('-');
    let id = id.and_then(|(due, index)| Some((due.parse().ok()?, index.parse().ok()?)));
    let (due_ms, index) = id.ok_or(ApiError::NotFound)?;
    match call.app.node().cancel_delayed(due_ms, index)? {
        true => Ok(Reply::Done),
        false => Err(ApiError::NotFound),
    }
}
