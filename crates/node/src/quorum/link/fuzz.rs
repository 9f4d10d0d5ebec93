//! An entrance for fuzzing: any bytes, as another node may send them.

use super::{
    Encoder, Fetched, LocalDelivery, Operation, Pieces, Settle, Standing, ToLeader, ToProxy,
    decode_to_leader, decode_to_proxy,
};
use bytes::Bytes;
use leveret_queue::Outcome;
use leveret_types::message::Facts;
use leveret_types::{ConsumerId, Message, MessageParts, NodeId, QueueId};

/// What is a frame is encoded to as many bytes again.
///
/// # Panics
/// If it is not.
pub fn fuzz(bytes: &[u8]) {
    let shared = Bytes::copy_from_slice(bytes);
    if let Ok(frame) = decode_to_leader(shared.clone()) {
        let mut encoder = Encoder::to_leader(frame.session);
        for message in &frame.messages {
            encoder.put_to_leader(message);
        }
        same_again(&encoder.finish(), bytes);
    }
    if let Ok(frame) = decode_to_proxy(QueueId(1), shared) {
        let mut encoder = Encoder::to_proxy(frame.session);
        for message in &frame.messages {
            encoder.put_to_proxy(message);
        }
        same_again(&encoder.finish(), bytes);
    }
}

/// A frame that the encoder would have cut, or that says nothing, comes out otherwise; so does a
/// number behind the flag that says that there is none.
fn same_again(frames: &[Pieces], bytes: &[u8]) {
    if let [frame] = frames {
        assert_eq!(frame.iter().map(Bytes::len).sum::<usize>(), bytes.len());
    }
}

/// Frames to begin with: one of each message, and all together.
#[must_use]
pub fn seeds() -> Vec<Vec<u8>> {
    let leader = to_leader();
    let proxy = to_proxy();
    let to_leader = |messages: &[ToLeader]| {
        let mut encoder = Encoder::to_leader(9);
        for message in messages {
            encoder.put_to_leader(message);
        }
        encoder.finish()
    };
    let to_proxy = |messages: &[ToProxy]| {
        let mut encoder = Encoder::to_proxy(9);
        for message in messages {
            encoder.put_to_proxy(message);
        }
        encoder.finish()
    };
    let mut all = to_leader(&leader);
    all.extend(to_proxy(&proxy));
    all.extend(leader.chunks(1).flat_map(to_leader));
    all.extend(proxy.chunks(1).flat_map(to_proxy));
    all.into_iter().map(|pieces| pieces.concat()).collect()
}

fn message() -> Message {
    let parts = MessageParts {
        exchange: b"x",
        routing_key: b"key",
        properties: &[0, 0],
        body: b"body",
    };
    Message::from_parts(parts, Facts::default())
}

fn to_leader() -> Vec<ToLeader> {
    let settle = Settle {
        holder: ConsumerId(3),
        lane: 4,
        range: 5..9,
        outcome: Outcome::Accept,
    };
    let holder = ConsumerId(3);
    vec![
        ToLeader::Absent { term: 7 },
        ToLeader::Operations {
            first: 1,
            operations: vec![
                Operation::Publish(message()),
                Operation::Settle(settle),
                Operation::Nothing,
            ],
        },
        ToLeader::Cancel(holder),
        ToLeader::Detach(holder),
        ToLeader::Credit {
            consumer: holder,
            messages: 2,
            bytes: 300,
        },
        ToLeader::Get {
            holder,
            no_ack: true,
        },
        ToLeader::Purge { request: 1 },
        ToLeader::Count { request: 2 },
        ToLeader::Peek {
            request: 3,
            before: 4,
        },
        ToLeader::Fetch {
            consumer: holder,
            lane: 4,
            index: 5,
        },
    ]
}

fn to_proxy() -> Vec<ToProxy> {
    let consumer = ConsumerId(3);
    let fetched = |fetched| ToProxy::Fetched {
        consumer,
        lane: 4,
        index: 5,
        fetched,
    };
    vec![
        ToProxy::Leading { term: 7 },
        ToProxy::NotLeader {
            term: 7,
            leader: Some(NodeId(2)),
        },
        ToProxy::Committed { through: 3 },
        ToProxy::Refused { sequences: 4..6 },
        ToProxy::Attached {
            consumer,
            result: Ok(()),
        },
        ToProxy::DeliverLocal(LocalDelivery {
            consumer,
            lane: 4,
            index: 5,
            redelivered: true,
            delivery_count: Some(1),
            acquired_count: Some(2),
            bytes: 4,
            entry: 6,
            term: 7,
        }),
        fetched(Fetched::Message(message())),
        fetched(Fetched::Gone),
        fetched(Fetched::Unreadable),
        ToProxy::Cancelled(consumer),
        ToProxy::Purged {
            request: 1,
            count: 2,
        },
        ToProxy::Counted {
            request: 2,
            standing: Standing {
                ready: 1,
                unsettled: 2,
                consumers: 3,
            },
        },
        ToProxy::Peeked {
            request: 3,
            fetched: Fetched::Gone,
        },
        ToProxy::TimedOut(consumer),
        ToProxy::Active {
            consumer,
            activation: 2,
        },
    ]
}
