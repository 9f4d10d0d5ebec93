//! Messages between operators, who name properties, and the node, which keeps them as bytes.

use leveret_amqp::{Properties, TableBuilder};
use leveret_client::Delivery;
use leveret_management::api::{Got, Publish};
use leveret_types::message::MessageSummary;
use leveret_types::{FieldTable, FieldValue, Message, MessageParts, Now, ProtocolError, ReplyCode};

/// The message that an operator wants published.
///
/// # Errors
/// If a property is not of its type.
pub fn from_operator(publish: &Publish, now: Now) -> Result<Message, ProtocolError> {
    let given = Given(&publish.properties);
    let headers = match publish.properties.get("headers") {
        None => None,
        Some(FieldValue::Table(table)) => Some(TableBuilder::from(table)),
        Some(_) => return Err(refuse("headers")),
    };
    let expiration = given.text("expiration")?;
    let properties = Properties {
        content_type: given.text("content_type")?,
        content_encoding: given.text("content_encoding")?,
        headers: headers.as_ref().map(TableBuilder::as_table),
        delivery_mode: given.octet("delivery_mode")?,
        priority: given.octet("priority")?,
        correlation_id: given.text("correlation_id")?,
        reply_to: given.text("reply_to")?,
        expiration,
        message_id: given.text("message_id")?,
        timestamp: given.integer("timestamp")?,
        kind: given.text("type")?,
        user_id: given.text("user_id")?,
        app_id: given.text("app_id")?,
        cluster_id: given.text("cluster_id")?,
    };
    let expiration_ms = expiration
        .map(|text| {
            let text = std::str::from_utf8(text).map_err(|_| refuse("expiration"))?;
            text.parse().map_err(|_| refuse("expiration"))
        })
        .transpose()?;
    let summary = MessageSummary {
        persistent: properties.delivery_mode == Some(2),
        priority: properties.priority,
        expiration_ms,
        published_ms: now.wall_ms,
        ..MessageSummary::default()
    };
    let bytes = properties.to_bytes();
    let parts = MessageParts {
        exchange: short(publish.exchange.as_bytes(), "exchange")?,
        routing_key: short(publish.routing_key.as_bytes(), "routing_key")?,
        properties: &bytes,
        body: &publish.payload,
    };
    Ok(Message::from_parts(parts, summary))
}

/// A message as an operator sees it.
pub fn to_operator(message: &Message, redelivered: bool, remaining: u64) -> Got {
    part_of(message, redelivered, remaining, usize::MAX)
}

fn part_of(message: &Message, redelivered: bool, remaining: u64, body_bytes_max: usize) -> Got {
    let body = message.body();
    Got {
        exchange: String::from_utf8_lossy(message.exchange()).into_owned(),
        routing_key: String::from_utf8_lossy(message.routing_key()).into_owned(),
        redelivered,
        remaining,
        properties: leveret_node::properties::by_name(message),
        payload: body[..body.len().min(body_bytes_max)].to_vec(),
        body_bytes: body.len(),
    }
}

/// A message that was got, behind which so many are left: so much of its body.
pub fn shown(delivery: &Delivery, left: u64, body_bytes_max: usize) -> Got {
    part_of(
        &delivery.message,
        delivery.redelivered,
        left,
        body_bytes_max,
    )
}

/// A message of nothing, for the place of one that need not be held.
pub fn nothing() -> Message {
    let parts = MessageParts {
        exchange: &[],
        routing_key: &[],
        properties: &[],
        body: &[],
    };
    Message::from_parts(parts, MessageSummary::default())
}

/// Properties by RabbitMQ's names.
struct Given<'a>(&'a FieldTable);

impl<'a> Given<'a> {
    fn text(&self, name: &str) -> Result<Option<&'a [u8]>, ProtocolError> {
        match self.0.get(name) {
            None => Ok(None),
            Some(FieldValue::LongString(bytes)) => short(bytes, name).map(Some),
            Some(_) => Err(refuse(name)),
        }
    }

    fn integer(&self, name: &str) -> Result<Option<u64>, ProtocolError> {
        self.0
            .get(name)
            .map(|value| {
                let value = value
                    .as_integer()
                    .and_then(|value| u64::try_from(value).ok());
                value.ok_or_else(|| refuse(name))
            })
            .transpose()
    }

    fn octet(&self, name: &str) -> Result<Option<u8>, ProtocolError> {
        self.integer(name)?
            .map(|value| u8::try_from(value).map_err(|_| refuse(name)))
            .transpose()
    }
}

fn short<'a>(bytes: &'a [u8], name: &str) -> Result<&'a [u8], ProtocolError> {
    if bytes.len() <= leveret_types::limits::SHORT_STRING_BYTES_MAX {
        Ok(bytes)
    } else {
        Err(refuse(name))
    }
}

fn refuse(name: &str) -> ProtocolError {
    ProtocolError::channel(
        ReplyCode::PreconditionFailed,
        format!("property '{name}' is too long, or not of its type"),
    )
}
