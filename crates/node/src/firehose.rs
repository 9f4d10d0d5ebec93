//! The firehose: copies of what a virtual host publishes and delivers, for `amq.rabbitmq.trace`.

use crate::env::Env;
use crate::properties;
use leveret_amqp::{Properties, TableBuilder};
use leveret_client::Delivery;
use leveret_message::as_amqp091;
use leveret_metadata::Vhost;
use leveret_queue_host::shard::Deferred;
use leveret_types::limits::SHORT_STRING_BYTES_MAX;
use leveret_types::message::MessageSummary;
use leveret_types::{ChannelId, FieldValue, Message, MessageParts};

/// The exchange that copies go to.
pub const EXCHANGE: &str = "amq.rabbitmq.trace";

/// Where and by whom something was published or delivered.
#[derive(Clone, Copy, Debug)]
pub struct TraceOrigin<'a> {
    /// The node's name.
    pub node: &'a str,
    /// The virtual host.
    pub vhost: &'a str,
    /// The connection's name.
    pub connection: &'a str,
    /// The channel.
    pub channel: ChannelId,
    /// The user.
    pub user: &'a str,
}

/// The copy of a message that was published, with the names of the queues that it went to.
#[must_use]
pub fn published(origin: TraceOrigin<'_>, message: &Message, queues: Vec<FieldValue>) -> Deferred {
    let exchange = String::from_utf8_lossy(message.exchange());
    let key = format!("publish.{exchange}");
    let extra = ("routed_queues", FieldValue::Array(queues));
    copy(origin, message, &key, extra)
}

/// Copies what was delivered, or got, if the firehose is on in its virtual host.
pub fn copy_delivered<E: Env>(origin: TraceOrigin<'_>, delivery: &Delivery, env: &E) {
    let catalogue = env.catalogue();
    let traced = catalogue.vhost(origin.vhost).is_some_and(Vhost::tracing);
    let Some(queue) = catalogue.queue(delivery.queue).filter(|_| traced) else {
        return;
    };
    let copy = delivered(
        origin,
        &delivery.message,
        queue.name(),
        delivery.redelivered,
    );
    if let Some(copy) = copy {
        env.defer(copy);
    }
}

/// The copy of a message that was delivered; nothing for a message that is such a copy.
fn delivered(
    origin: TraceOrigin<'_>,
    message: &Message,
    queue: &str,
    redelivered: bool,
) -> Option<Deferred> {
    if message.exchange() == EXCHANGE.as_bytes() {
        return None;
    }
    let key = format!("deliver.{queue}");
    let extra = ("redelivered", FieldValue::I32(i32::from(redelivered)));
    Some(copy(origin, message, &key, extra))
}

fn copy(
    origin: TraceOrigin<'_>,
    message: &Message,
    key: &str,
    (name, value): (&str, FieldValue),
) -> Deferred {
    // A copy is a message of AMQP 0-9-1, whatever it is a copy of.
    let converted = as_amqp091(message);
    let message = converted.as_ref().unwrap_or(message);
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
        .push(
            "properties",
            &FieldValue::Table(properties::by_name(message)),
        )
        .push("node", &FieldValue::text(origin.node))
        .push("vhost", &FieldValue::text(origin.vhost))
        .push("connection", &FieldValue::text(origin.connection))
        .push("channel", &FieldValue::I32(origin.channel.0.into()))
        .push("user", &FieldValue::text(origin.user))
        .push(name, &value);
    let properties = Properties {
        headers: Some(headers.as_table()),
        ..Properties::default()
    };
    let bytes = properties.to_bytes();
    let mut end = key.len().min(SHORT_STRING_BYTES_MAX);
    while !key.is_char_boundary(end) {
        end -= 1;
    }
    let parts = MessageParts {
        exchange: EXCHANGE.as_bytes(),
        routing_key: &key.as_bytes()[..end],
        properties: &bytes,
        body: message.body(),
    };
    let summary = MessageSummary {
        published_ms: message.summary.published_ms,
        ..MessageSummary::default()
    };
    Deferred::Publish {
        vhost: origin.vhost.to_owned(),
        message: Message::from_parts(parts, summary),
        delayed: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use leveret_types::FieldTable;

    const ORIGIN: TraceOrigin<'_> = TraceOrigin {
        node: "leveret@here",
        vhost: "/",
        connection: "a -> b",
        channel: ChannelId(7),
        user: "guest",
    };

    fn message(exchange: &[u8]) -> Message {
        let properties = Properties::default().to_bytes();
        let parts = MessageParts {
            exchange,
            routing_key: b"key",
            properties: &properties,
            body: b"body",
        };
        Message::from_parts(parts, MessageSummary::default())
    }

    fn copied(work: Deferred) -> (String, Vec<u8>, FieldTable) {
        let Deferred::Publish { message, .. } = work else {
            panic!("a copy is published: {work:?}");
        };
        assert_eq!(message.exchange(), EXCHANGE.as_bytes());
        let headers = Properties::trusted(message.properties()).headers;
        let key = String::from_utf8(message.routing_key().to_vec()).expect("text");
        (
            key,
            message.body().to_vec(),
            headers.expect("headers").to_table(),
        )
    }

    #[test]
    fn a_copy_says_where_the_message_went_and_by_whom() {
        let queues = vec![FieldValue::text("q"), FieldValue::text("r")];
        let (key, body, headers) = copied(published(ORIGIN, &message(b"x"), queues.clone()));
        assert_eq!((key.as_str(), body.as_slice()), ("publish.x", &b"body"[..]));
        assert_eq!(
            headers.get("routed_queues"),
            Some(&FieldValue::Array(queues))
        );
        assert_eq!(headers.get("channel"), Some(&FieldValue::I32(7)));
        assert_eq!(headers.get("node"), Some(&FieldValue::text("leveret@here")));

        let copy = delivered(ORIGIN, &message(b"x"), "q", true).expect("a copy");
        let (key, body, headers) = copied(copy);
        assert_eq!((key.as_str(), body.as_slice()), ("deliver.q", &b"body"[..]));
        assert_eq!(headers.get("redelivered"), Some(&FieldValue::I32(1)));
        assert_eq!(headers.get("exchange_name"), Some(&FieldValue::text("x")));
    }

    #[test]
    fn what_the_firehose_delivers_is_not_copied_again() {
        assert!(delivered(ORIGIN, &message(EXCHANGE.as_bytes()), "q", false).is_none());
    }
}
