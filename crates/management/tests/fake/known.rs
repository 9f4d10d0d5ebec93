//! What a fake knows of the one client that every fake has: its channel and its consumer.

use super::*;
use leveret_auth::LoginProtocol;
use leveret_metadata::{BindingDefinition, Json, VhostDefinition};

/// Somebody has logged in over HTTP, or not.
pub fn note(sources: &LoginSources, login: Login<'_>, is_let_in: bool) {
    sources.note(LoginProtocol::Http, login.from, login.user, is_let_in);
}

/// What the log of every fake has taken.
pub fn io() -> IoStats {
    IoStats {
        log_batches: 5,
        log_bytes: 20_480,
        log_files: 2,
        ..IoStats::default()
    }
}

pub fn known_channel() -> ChannelStats {
    ChannelStats {
        connection: ConnectionId(1),
        number: 1,
        unacknowledged: 3,
        ..ChannelStats::default()
    }
}

pub fn known_consumer() -> ConsumerStats {
    ConsumerStats {
        connection: ConnectionId(1),
        channel: 1,
        queue: QueueId(1),
        tag: "ctag".to_owned(),
        unacknowledged: 3,
        oldest_unacknowledged_ms: Some(1_000),
        ack_required: true,
        delivered: 9,
        redelivered: 2,
        acknowledged: 6,
        ..ConsumerStats::default()
    }
}

/// What channel 1 of the first connection has published to `x`, all but one message of which went
/// into `q`.
pub fn known_published(messages: u64) -> PublishedStats {
    PublishedStats {
        channel: 1,
        exchange: "x".into(),
        messages,
        queues: vec![(QueueId(1), messages - 1)],
    }
}

/// What came to `q` of that.
pub fn known_flow(published: u64) -> FlowStats {
    FlowStats {
        vhost: "/".into(),
        exchange: "x".into(),
        queue: QueueId(1),
        queue_name: "q".into(),
        messages: published.saturating_sub(1),
    }
}

/// What is exported of a virtual host with so many bindings, all of which have these arguments.
pub fn definitions(vhost: &str, bindings: u64, arguments: FieldTable) -> Definitions {
    let arguments = FieldValue::Table(arguments);
    let binding = |number| BindingDefinition {
        source: "x".to_owned(),
        vhost: vhost.to_owned(),
        destination: "q".to_owned(),
        destination_type: "queue".to_owned(),
        routing_key: format!("{number:08}"),
        arguments: Json(arguments.clone()),
    };
    Definitions {
        vhosts: vec![VhostDefinition {
            name: vhost.to_owned(),
            description: Some(String::new()),
            protected_from_deletion: Some(false),
            ..VhostDefinition::default()
        }],
        bindings: (0..bindings).map(binding).collect(),
        ..Definitions::default()
    }
}

/// A binding in `/` besides the usual ones.
pub fn more_binding(number: u32, arguments: FieldTable) -> Binding {
    Binding {
        source: "x".to_owned(),
        destination: "q".to_owned(),
        to_queue: true,
        routing_key: format!("{number:08}"),
        arguments,
    }
}

pub(super) fn stream() -> Queue {
    Queue {
        id: STREAM,
        vhost: "/".to_owned(),
        name: "s".to_owned(),
        kind: "stream".to_owned(),
        durable: true,
        ..Queue::default()
    }
}

pub(super) fn stream_stats() -> QueueStats {
    QueueStats {
        id: STREAM,
        ready: 40,
        consumers: 2,
        stream: Some(StreamStanding {
            first_offset: Some(0),
            committed_offset: Some(39),
            last_offset: Some(41),
            segments: 1,
            held_bytes: 0,
            readers: 2,
            publishers: 1,
        }),
        ..QueueStats::default()
    }
}

pub(super) fn stream_consumer(id: u8, active: bool) -> StreamConsumerStats {
    let properties = [("name", "group"), ("single-active-consumer", "true")];
    let properties = properties.map(|(key, value)| (key.to_owned(), value.to_owned()));
    StreamConsumerStats {
        connection: ConnectionId(3),
        id,
        queue: STREAM,
        credits: 10,
        consumed: if active { 30 } else { 0 },
        offset: if active { 29 } else { 0 },
        offset_lag: if active { 10 } else { 40 },
        single_active: true,
        active,
        properties: properties.into(),
    }
}

pub(super) fn more_queue(id: u64) -> Queue {
    queue(id, "/", &format!("more-{id:08}"))
}

pub(super) fn more_stats(id: u64) -> QueueStats {
    QueueStats {
        id: QueueId(id),
        ready: id,
        ..QueueStats::default()
    }
}

pub(super) fn exchange(vhost: &str, name: &str) -> Exchange {
    Exchange {
        vhost: vhost.to_owned(),
        name: name.to_owned(),
        kind: "topic".to_owned(),
        durable: true,
        ..Exchange::default()
    }
}

/// A connection, of which channel 1 of the first has published so many messages to `x`.
pub(super) fn content_of(connection: ConnectionStats, published: u64) -> ConnectionContent {
    let (mut channels, mut consumers) = (vec![known_channel()], vec![known_consumer()]);
    let publishes = connection.id == ConnectionId(1) && published > 0;
    let published = publishes.then(|| known_published(published));
    let published = published.into_iter().collect();
    channels.retain(|channel| channel.connection == connection.id);
    consumers.retain(|consumer| consumer.connection == connection.id);
    ConnectionContent {
        connection,
        channels,
        consumers,
        published,
    }
}

/// One of many connections, with two channels and a consumer.
pub(super) fn more_connection(id: u64, member: &Member) -> ConnectionContent {
    let connection = ConnectionId(id);
    let number = member.number_of(connection);
    let channel = |number| ChannelStats {
        connection,
        number,
        ..known_channel()
    };
    ConnectionContent {
        connection: ConnectionStats {
            id: connection,
            name: format!("more-{number:08}"),
            user: "management".to_owned(),
            vhost: "/".to_owned(),
            received_bytes: number,
            ..ConnectionStats::default()
        },
        channels: vec![channel(1), channel(2)],
        consumers: vec![ConsumerStats {
            connection,
            ..known_consumer()
        }],
        published: Vec::new(),
    }
}

pub(super) fn queue(id: u64, vhost: &str, name: &str) -> Queue {
    Queue {
        id: QueueId(id),
        vhost: vhost.to_owned(),
        name: name.to_owned(),
        kind: "classic".to_owned(),
        durable: true,
        owner: (name == "a/b").then_some(ConnectionId(2)),
        arguments: [("x-max-length", FieldValue::I32(5))].into(),
        policy: Some("ttl".to_owned()),
        ..Queue::default()
    }
}
