//! The firehose: copies of what a virtual host publishes and delivers, for `amq.rabbitmq.trace`.

use crate::shard::Deferred;
use leveret_amqp::{Properties, TableBuilder};
use leveret_types::message::Facts;
use leveret_types::{FieldTable, FieldValue, Message, MessageParts};

/// The exchange that copies go to.
pub const EXCHANGE: &str = "amq.rabbitmq.trace";

/// The copy of a message that was published.
#[must_use]
pub fn published(
    vhost: &str,
    message: &Message,
    user: &str,
    connection: &str,
    routed_to: usize,
) -> Deferred {
    let exchange = String::from_utf8_lossy(message.exchange());
    let key = format!("publish.{exchange}");
    let facts = [("routed_queues_count", FieldValue::I64(routed_to as i64))];
    copy(vhost, message, &key, user, connection, &facts)
}

/// The copy of a message that was delivered.
#[must_use]
pub fn delivered(
    vhost: &str,
    message: &Message,
    user: &str,
    connection: &str,
    queue: &str,
    redelivered: bool,
) -> Deferred {
    let key = format!("deliver.{queue}");
    let facts = [("redelivered", FieldValue::I64(i64::from(redelivered)))];
    copy(vhost, message, &key, user, connection, &facts)
}

fn copy(
    vhost: &str,
    message: &Message,
    key: &str,
    user: &str,
    connection: &str,
    facts: &[(&str, FieldValue)],
) -> Deferred {
    let mut headers = TableBuilder::new();
    headers
        .push(
            "exchange_name",
            &FieldValue::LongString(message.exchange().to_vec()),
        )
        .push(
            "routing_keys",
            &FieldValue::Array(vec![FieldValue::LongString(message.routing_key().to_vec())]),
        )
        .push("properties", &FieldValue::Table(described(message)))
        .push("node", &FieldValue::text("leveret"))
        .push("vhost", &FieldValue::text(vhost))
        .push("connection", &FieldValue::text(connection))
        .push("user", &FieldValue::text(user));
    for (name, value) in facts {
        headers.push(name, value);
    }
    let properties = Properties {
        headers: Some(headers.as_table()),
        ..Properties::default()
    };
    let bytes = properties.to_bytes();
    let mut end = key.len().min(255);
    while !key.is_char_boundary(end) {
        end -= 1;
    }
    let parts = MessageParts {
        exchange: EXCHANGE.as_bytes(),
        routing_key: &key.as_bytes()[..end],
        properties: &bytes,
        body: message.body(),
    };
    let facts = Facts {
        published_ms: message.facts.published_ms,
        ..Facts::default()
    };
    Deferred::Publish {
        vhost: vhost.to_owned(),
        message: Message::from_parts(parts, facts),
        delayed: None,
    }
}

fn described(message: &Message) -> FieldTable {
    let properties = Properties::trusted(message.properties());
    let mut table = FieldTable::new();
    let mut text = |name: &str, value: Option<&[u8]>| {
        if let Some(value) = value {
            table.set(name, FieldValue::LongString(value.to_vec()));
        }
    };
    text("content_type", properties.content_type);
    text("content_encoding", properties.content_encoding);
    text("correlation_id", properties.correlation_id);
    text("reply_to", properties.reply_to);
    text("expiration", properties.expiration);
    text("message_id", properties.message_id);
    text("type", properties.kind);
    text("user_id", properties.user_id);
    text("app_id", properties.app_id);
    if let Some(headers) = properties.headers {
        table.set("headers", FieldValue::Table(headers.to_table()));
    }
    if let Some(mode) = properties.delivery_mode {
        table.set("delivery_mode", FieldValue::U8(mode));
    }
    if let Some(priority) = properties.priority {
        table.set("priority", FieldValue::U8(priority));
    }
    table
}
