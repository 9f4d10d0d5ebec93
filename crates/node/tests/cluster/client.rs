//! A client: words to frames, frames to words.

use leveret_amqp::client::{Incoming, Opening, ServerFrame, ServerFrameError};
use leveret_amqp::encode;
use leveret_amqp::{
    Method, Properties, RawTable, RawValue, TableBuilder, basic, channel, confirm, connection,
    exchange, queue, tx,
};
use leveret_types::limits::FRAME_BYTES_MAX;
use leveret_types::{ConnectionId, FieldValue, NodeId};
use std::fmt::Write as _;

/// What a client speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speaks {
    Amqp,
    /// The protocol of [`crate::line_session`].
    Lines,
}

/// A client's end of a connection, with channel 1 where there are channels.
pub struct Client {
    pub speaks: Speaks,
    pub node: NodeId,
    pub connection: ConnectionId,
    /// What it was told, in words, since that was last looked at.
    pub heard: Vec<String>,
    incoming: Incoming,
}

impl Client {
    pub fn new(node: NodeId, connection: ConnectionId) -> Self {
        Self {
            speaks: Speaks::Amqp,
            node,
            connection,
            heard: Vec::new(),
            incoming: Incoming::default(),
        }
    }

    pub fn of_lines(node: NodeId, connection: ConnectionId) -> Self {
        Self {
            speaks: Speaks::Lines,
            ..Self::new(node, connection)
        }
    }

    /// Takes in what the broker has written.
    pub fn hear(&mut self, written: &[u8]) {
        if self.speaks == Speaks::Lines {
            let text = String::from_utf8_lossy(written);
            return self.heard.extend(text.lines().map(str::to_owned));
        }
        let heard = &mut self.heard;
        let read = self.incoming.receive(written, |_, said| {
            put_into_words(&said, heard);
            Ok::<_, ServerFrameError>(())
        });
        read.expect("what the broker says can be read");
    }
}

/// Adds what the broker says in a frame to what a client has heard: content to its method.
fn put_into_words(said: &ServerFrame<'_>, heard: &mut Vec<String>) {
    match said {
        ServerFrame::Method(method) => heard.push(show(method)),
        ServerFrame::Header(header) => {
            let properties = Properties::decode(header.properties).expect("properties");
            let headers = properties.headers();
            let last = heard.last_mut().expect("a header follows a method");
            let failed = match headers.get(b"x-delivery-count") {
                Some(RawValue::I64(count)) => {
                    let _ = write!(last, " count={count}");
                    Some(count)
                }
                _ => None,
            };
            match headers.get(b"x-acquired-count") {
                Some(RawValue::I64(count)) if failed != Some(count) => {
                    let _ = write!(last, " acquired={count}");
                }
                _ => {}
            }
        }
        ServerFrame::Body(body) => {
            let last = heard.last_mut().expect("a body follows a header");
            match body {
                short @ [_, ..] if short.len() < 64 => {
                    let _ = write!(last, " {}", String::from_utf8_lossy(short));
                }
                long => {
                    let _ = write!(last, " {}", long.len());
                }
            }
        }
        ServerFrame::Heartbeat => {}
    }
}

/// The bytes with which a client opens a connection and channel 1.
pub fn opening() -> Vec<u8> {
    let able = ["consumer_cancel_notify", "connection.blocked"];
    let able = able.map(|name| (name.to_owned(), FieldValue::Bool(true)));
    let mut properties = TableBuilder::new();
    properties.push(
        "capabilities",
        &FieldValue::Table(able.into_iter().collect()),
    );
    let opening = Opening {
        properties: properties.as_table(),
        ..Opening::default()
    };
    opening.with_channel()
}

fn int(word: &str) -> u64 {
    word.parse()
        .unwrap_or_else(|_| panic!("{word} is no number"))
}

/// The bytes of a client's word.
///
/// `declare NAME [quorum] [passive] [exclusive] [key=value]`, `publish QUEUE BODY..` (a body `NxM`
/// is N bodies of M bytes), `consume QUEUE TAG [noack]
/// [key=value]`, `ack TAG [multiple]`, `get QUEUE [noack]`
/// and so on.
pub fn say(words: &[&str]) -> Vec<u8> {
    let mut out = Vec::new();
    let (verb, words) = words.split_first().expect("a word");
    let has = |option: &str| words.contains(&option);
    let word = |at: usize| words.get(at).copied().unwrap_or("");
    let (nowait, multiple, requeue) = (false, has("multiple"), has("requeue"));
    match *verb {
        "confirm" => encode::method(&mut out, 1, &confirm::Select { nowait }),
        "tx" => encode::method(&mut out, 1, &tx::Select {}),
        "commit" => encode::method(&mut out, 1, &tx::Commit {}),
        "close" => {
            let close = channel::Close {
                reply_code: 200,
                reply_text: "bye",
                class_id: 0,
                method_id: 0,
            };
            encode::method(&mut out, 1, &close);
        }
        "close-connection" => {
            let close = connection::Close {
                reply_code: 200,
                reply_text: "bye",
                class_id: 0,
                method_id: 0,
            };
            encode::method(&mut out, 0, &close);
        }
        "declare" => {
            let mut arguments = TableBuilder::new();
            if has("quorum") {
                arguments.push("x-queue-type", &FieldValue::text("quorum"));
            }
            push_arguments(&mut arguments, words);
            let declare = queue::Declare {
                queue: word(0),
                passive: has("passive"),
                durable: !has("transient"),
                exclusive: has("exclusive"),
                auto_delete: has("auto-delete"),
                nowait,
                arguments: arguments.as_table(),
            };
            encode::method(&mut out, 1, &declare);
        }
        "delete" => {
            let delete = queue::Delete {
                queue: word(0),
                if_unused: has("if-unused"),
                if_empty: has("if-empty"),
                nowait,
            };
            encode::method(&mut out, 1, &delete);
        }
        "purge" => {
            let queue = word(0);
            encode::method(&mut out, 1, &queue::Purge { queue, nowait });
        }
        "exchange" => {
            let mut arguments = TableBuilder::new();
            push_arguments(&mut arguments, words);
            let declare = exchange::Declare {
                exchange: word(0),
                kind: word(1),
                passive: false,
                durable: true,
                auto_delete: false,
                internal: false,
                nowait,
                arguments: arguments.as_table(),
            };
            encode::method(&mut out, 1, &declare);
        }
        "bind" => {
            let bind = queue::Bind {
                queue: word(0),
                exchange: word(1),
                routing_key: word(2),
                nowait,
                arguments: RawTable::EMPTY,
            };
            encode::method(&mut out, 1, &bind);
        }
        "publish" => {
            for body in &words[1..] {
                match body.split_once('x') {
                    Some((count, size)) => {
                        for _ in 0..int(count) {
                            let body = vec![b'.'; int(size) as usize];
                            publish(&mut out, "", word(0), &body, true);
                        }
                    }
                    None => publish(&mut out, "", word(0), body.as_bytes(), true),
                }
            }
        }
        "publish-mandatory" => {
            publish_as(
                &mut out,
                "",
                word(0),
                word(1).as_bytes(),
                Marks {
                    persistent: true,
                    mandatory: true,
                },
            );
        }
        "flow" => encode::method(&mut out, 1, &channel::Flow { active: true }),
        "recover" => encode::method(&mut out, 1, &basic::Recover { requeue: true }),
        "update-secret" => {
            let (new_secret, reason) = (word(0).as_bytes(), "r");
            encode::method(
                &mut out,
                0,
                &connection::UpdateSecret { new_secret, reason },
            );
        }
        "unbind" => {
            let unbind = queue::Unbind {
                queue: word(0),
                exchange: word(1),
                routing_key: word(2),
                arguments: RawTable::EMPTY,
            };
            encode::method(&mut out, 1, &unbind);
        }
        "publish-transient" => publish(&mut out, "", word(0), word(1).as_bytes(), false),
        "publish-delayed" => publish_delayed(&mut out, word(0), word(1).as_bytes(), int(word(2))),
        "publish-to" => publish(&mut out, word(0), word(1), word(2).as_bytes(), true),
        "qos" => {
            let qos = basic::Qos {
                prefetch_size: 0,
                prefetch_count: int(word(0)) as u16,
                global: has("global"),
            };
            encode::method(&mut out, 1, &qos);
        }
        "consume" => {
            let mut arguments = TableBuilder::new();
            push_arguments(&mut arguments, words);
            let consume = basic::Consume {
                queue: word(0),
                consumer_tag: word(1),
                no_local: false,
                no_ack: has("noack"),
                exclusive: has("exclusive"),
                nowait,
                arguments: arguments.as_table(),
            };
            encode::method(&mut out, 1, &consume);
        }
        "cancel" => {
            let consumer_tag = word(0);
            let cancel = basic::Cancel {
                consumer_tag,
                nowait,
            };
            encode::method(&mut out, 1, &cancel);
        }
        "get" => {
            let get = basic::Get {
                queue: word(0),
                no_ack: has("noack"),
            };
            encode::method(&mut out, 1, &get);
        }
        "ack" => {
            let delivery_tag = int(word(0));
            let ack = basic::Ack {
                delivery_tag,
                multiple,
            };
            encode::method(&mut out, 1, &ack);
        }
        "nack" => {
            let nack = basic::Nack {
                delivery_tag: int(word(0)),
                multiple,
                requeue,
            };
            encode::method(&mut out, 1, &nack);
        }
        "reject" => {
            let delivery_tag = int(word(0));
            let reject = basic::Reject {
                delivery_tag,
                requeue,
            };
            encode::method(&mut out, 1, &reject);
        }
        other => panic!("unknown word {other}"),
    }
    out
}

/// The words `key=value`: numbers, `true`, and texts.
fn push_arguments(arguments: &mut TableBuilder, words: &[&str]) {
    for (name, value) in words.iter().filter_map(|word| word.split_once('=')) {
        let value = match value.parse() {
            Ok(number) => FieldValue::I64(number),
            Err(_) if value == "true" => FieldValue::Bool(true),
            Err(_) => FieldValue::text(value),
        };
        arguments.push(name, &value);
    }
}

fn publish(out: &mut Vec<u8>, exchange: &str, key: &str, body: &[u8], persistent: bool) {
    let marks = Marks {
        persistent,
        mandatory: false,
    };
    publish_as(out, exchange, key, body, marks);
}

/// To an exchange that keeps the message back for so many milliseconds.
fn publish_delayed(out: &mut Vec<u8>, exchange: &str, body: &[u8], delay_ms: u64) {
    let method = basic::Publish {
        exchange: exchange.as_bytes(),
        routing_key: b"",
        mandatory: false,
        immediate: false,
    };
    let mut headers = TableBuilder::new();
    headers.push("x-delay", &FieldValue::I64(delay_ms as i64));
    let properties = Properties {
        delivery_mode: Some(2),
        headers: Some(headers.as_table()),
        ..Properties::default()
    };
    let properties = properties.to_bytes();
    leveret_amqp::client::publish(out, 1, &method, &properties, body, FRAME_BYTES_MAX);
}

/// What a publisher asks for a message.
struct Marks {
    persistent: bool,
    mandatory: bool,
}

fn publish_as(out: &mut Vec<u8>, exchange: &str, key: &str, body: &[u8], marks: Marks) {
    let method = basic::Publish {
        exchange: exchange.as_bytes(),
        routing_key: key.as_bytes(),
        mandatory: marks.mandatory,
        immediate: false,
    };
    let properties = Properties {
        delivery_mode: Some(1 + u8::from(marks.persistent)),
        ..Properties::default()
    };
    let properties = properties.to_bytes();
    leveret_amqp::client::publish(out, 1, &method, &properties, body, FRAME_BYTES_MAX);
}

fn show(method: &Method<'_>) -> String {
    let (_, name) = method.name().split_once('.').expect("class.method");
    let star = |multiple: bool| if multiple { "*" } else { "" };
    let again = |redelivered: bool| if redelivered { " again" } else { "" };
    match method {
        Method::ConnectionClose(m) => format!("closed {} {}", m.reply_code, m.reply_text),
        Method::ChannelClose(m) => format!("close {} {}", m.reply_code, m.reply_text),
        Method::ConnectionBlocked(m) => format!("blocked {}", m.reason),
        Method::QueueDeclareOk(m) => {
            format!(
                "declared {} {} {}",
                m.queue, m.message_count, m.consumer_count
            )
        }
        Method::QueuePurgeOk(m) => format!("purged {}", m.message_count),
        Method::QueueDeleteOk(m) => format!("deleted {}", m.message_count),
        Method::BasicConsumeOk(m) => format!("consuming {}", m.consumer_tag),
        Method::BasicCancel(m) => format!("cancelled {}", m.consumer_tag),
        Method::BasicCancelOk(m) => format!("cancel-ok {}", m.consumer_tag),
        Method::BasicDeliver(m) => {
            format!("deliver {}{}", m.delivery_tag, again(m.redelivered))
        }
        Method::BasicGetOk(m) => format!(
            "got {} left={}{}",
            m.delivery_tag,
            m.message_count,
            again(m.redelivered)
        ),
        Method::BasicAck(m) => format!("ack {}{}", m.delivery_tag, star(m.multiple)),
        Method::BasicNack(m) => format!("nack {}{}", m.delivery_tag, star(m.multiple)),
        Method::BasicReturn(m) => format!("returned {}", m.reply_code),
        _ => name.to_owned(),
    }
}
