//! A client of a node: bytes both ways, and what a publisher and a consumer make of them.

use leveret_amqp::client::{self, Incoming, Opening, ServerFrame, ServerFrameError};
use leveret_amqp::encode;
use leveret_amqp::{Method, Properties, RawTable, TableBuilder, basic, confirm, queue};
use leveret_types::limits::FRAME_BYTES_MAX as FRAME_MAX;
use leveret_types::{ConnectionId, FieldValue, NodeId};

/// The stream that there is a view of, and the kind of the view's queue.
pub(super) const STREAM: &str = "stream";
pub(super) const VIEW: &str = "view";
/// The queue that a view's dead letters go to.
pub(super) const DEAD_LETTERS: &str = "q0";

/// What a client was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ClientEvent {
    /// A publish, or all up to it, is confirmed or refused.
    Confirmed {
        tag: u64,
        multiple: bool,
        is_taken: bool,
    },
    /// A message.
    Delivered {
        tag: u64,
        body: u64,
        is_redelivered: bool,
    },
    /// The broker ended the channel or the connection.
    Closed(String),
    /// A consumer was cancelled by the broker.
    Cancelled,
    /// A declaration succeeded: messages that are ready.
    Declared(u32),
    /// A deletion succeeded.
    Deleted,
    /// Anything else.
    Other,
}

/// What a client cannot read.
struct Unreadable(String);

impl From<ServerFrameError> for Unreadable {
    fn from(error: ServerFrameError) -> Self {
        Self(error.to_string())
    }
}

/// A client's end of a connection with channel 1.
pub(super) struct Client {
    pub(super) node: NodeId,
    pub(super) connection: ConnectionId,
    incoming: Incoming,
    /// The tag of a delivery whose body is to come, and whether it came before.
    delivering: Option<(u64, bool)>,
}

impl Client {
    pub(super) fn new(node: NodeId, connection: ConnectionId) -> Self {
        Self {
            node,
            connection,
            incoming: Incoming::default(),
            delivering: None,
        }
    }

    /// Takes in what the broker has written.
    pub(super) fn hear(&mut self, written: &[u8]) -> Result<Vec<ClientEvent>, String> {
        let mut heard = Vec::new();
        let mut incoming = std::mem::take(&mut self.incoming);
        let read = incoming.receive(written, |_, said| {
            heard.extend(self.said(&said)?);
            Ok::<_, Unreadable>(())
        });
        self.incoming = incoming;
        read.map_err(|Unreadable(what)| format!("a client cannot read {what}"))?;
        Ok(heard)
    }

    fn said(&mut self, said: &ServerFrame<'_>) -> Result<Option<ClientEvent>, Unreadable> {
        let broken = |what: &str| Unreadable(what.to_owned());
        Ok(match said {
            ServerFrame::Method(method) => self.method(method),
            ServerFrame::Body(content) => {
                let (tag, is_redelivered) = self
                    .delivering
                    .take()
                    .ok_or_else(|| broken("a stray body"))?;
                let body = number_of(content).ok_or_else(|| broken("a body"))?;
                Some(ClientEvent::Delivered {
                    tag,
                    body,
                    is_redelivered,
                })
            }
            ServerFrame::Header(_) | ServerFrame::Heartbeat => None,
        })
    }

    fn method(&mut self, method: &Method<'_>) -> Option<ClientEvent> {
        Some(match method {
            Method::BasicDeliver(m) => {
                self.delivering = Some((m.delivery_tag, m.redelivered));
                return None;
            }
            Method::BasicAck(m) => ClientEvent::Confirmed {
                tag: m.delivery_tag,
                multiple: m.multiple,
                is_taken: true,
            },
            Method::BasicNack(m) => ClientEvent::Confirmed {
                tag: m.delivery_tag,
                multiple: m.multiple,
                is_taken: false,
            },
            Method::ConnectionClose(m) => ClientEvent::Closed(m.reply_text.to_string()),
            Method::ChannelClose(m) => ClientEvent::Closed(m.reply_text.to_string()),
            Method::BasicCancel(_) => ClientEvent::Cancelled,
            Method::QueueDeclareOk(m) => ClientEvent::Declared(m.message_count),
            Method::QueueDeleteOk(_) => ClientEvent::Deleted,
            _ => ClientEvent::Other,
        })
    }
}

/// The bytes with which a client opens a connection and channel 1.
pub(super) fn opening() -> Vec<u8> {
    Opening::default().with_channel()
}

/// Declares a durable queue, a view with its stream, or asks about one.
pub(super) fn declare(name: &str, kind: &str, passive: bool) -> Vec<u8> {
    let text = FieldValue::text;
    // Consumers die often here.
    let limit = ("x-delivery-limit", FieldValue::I64(1_000_000));
    let mut out = Vec::new();
    match kind {
        VIEW => {
            let one = ("x-initial-cluster-size", FieldValue::I64(1));
            let stream = [("x-queue-type", text("stream")), one];
            if !passive {
                declare_as(&mut out, STREAM, &stream, passive);
            }
            let view = [
                ("x-queue-type", text("quorum")),
                limit,
                ("x-stream-source", text(STREAM)),
                ("x-dead-letter-exchange", text("")),
                ("x-dead-letter-routing-key", text(DEAD_LETTERS)),
                ("x-dead-letter-strategy", text("at-least-once")),
            ];
            declare_as(&mut out, name, &view, passive);
        }
        "quorum" => {
            let quorum = [("x-queue-type", text(kind)), limit];
            declare_as(&mut out, name, &quorum, passive);
        }
        _ => declare_as(&mut out, name, &[("x-queue-type", text(kind))], passive),
    }
    out
}

fn declare_as(out: &mut Vec<u8>, name: &str, said: &[(&str, FieldValue)], passive: bool) {
    let mut arguments = TableBuilder::new();
    for (argument, value) in said {
        arguments.push(argument, value);
    }
    let declare = queue::Declare {
        queue: name,
        passive,
        durable: true,
        exclusive: false,
        auto_delete: false,
        nowait: false,
        arguments: arguments.as_table(),
    };
    encode::method(out, 1, &declare);
}

pub(super) fn delete(name: &str) -> Vec<u8> {
    let delete = queue::Delete {
        queue: name,
        if_unused: false,
        if_empty: false,
        nowait: false,
    };
    let mut out = Vec::new();
    encode::method(&mut out, 1, &delete);
    out
}

pub(super) fn select_confirms() -> Vec<u8> {
    let mut out = Vec::new();
    encode::method(&mut out, 1, &confirm::Select { nowait: false });
    out
}

/// The byte that follows a number in a body.
const fn filling(body: u64) -> u8 {
    (body % 251) as u8
}

/// The number that a body is; nothing if it is not as it was published.
fn number_of(content: &[u8]) -> Option<u64> {
    let (number, rest) = content.split_first_chunk()?;
    let number = u64::from_le_bytes(*number);
    let is_whole = rest.iter().all(|byte| *byte == filling(number));
    is_whole.then_some(number)
}

/// A message whose body is a number, and some bytes more that follow from it.
pub(super) fn publish(queue: &str, body: u64, bytes: usize) -> Vec<u8> {
    let mut out = Vec::new();
    let method = basic::Publish {
        exchange: b"",
        routing_key: queue.as_bytes(),
        mandatory: false,
        immediate: false,
    };
    let properties = Properties {
        delivery_mode: Some(2),
        ..Properties::default()
    };
    let mut content = body.to_le_bytes().to_vec();
    content.resize(8 + bytes, filling(body));
    let properties = properties.to_bytes();
    client::publish(&mut out, 1, &method, &properties, &content, FRAME_MAX);
    out
}

/// Consumes with a window of messages without an answer.
pub(super) fn consume(queue: &str, window: u16) -> Vec<u8> {
    let mut out = Vec::new();
    let qos = basic::Qos {
        prefetch_size: 0,
        prefetch_count: window,
        global: false,
    };
    encode::method(&mut out, 1, &qos);
    let consume = basic::Consume {
        queue,
        consumer_tag: "sim",
        no_local: false,
        no_ack: false,
        exclusive: false,
        nowait: false,
        arguments: RawTable::EMPTY,
    };
    encode::method(&mut out, 1, &consume);
    out
}

pub(super) fn acknowledge(tag: u64) -> Vec<u8> {
    let mut out = Vec::new();
    let ack = basic::Ack {
        delivery_tag: tag,
        multiple: false,
    };
    encode::method(&mut out, 1, &ack);
    out
}

/// Rejects a message: it comes again, or is dead-lettered.
pub(super) fn reject(tag: u64, requeue: bool) -> Vec<u8> {
    let mut out = Vec::new();
    let reject = basic::Reject {
        delivery_tag: tag,
        requeue,
    };
    encode::method(&mut out, 1, &reject);
    out
}
