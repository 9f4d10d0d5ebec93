//! An entrance for fuzzing: any bytes, as another node may send them.

use super::{
    Encoder, Fetched, LocalDelivery, Operation, Pieces, QueueCounts, Settle, ToLeader,
    ToRemoteQueue, decode_to_leader, decode_to_remote_queue,
};
use bytes::Bytes;
use leveret_queue::Outcome;
use leveret_types::message::MessageSummary;
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
    if let Ok(frame) = decode_to_remote_queue(QueueId(1), shared) {
        let mut encoder = Encoder::to_remote_queue(frame.session);
        for message in &frame.messages {
            encoder.put_to_remote_queue(message);
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
    let remote_queue = to_remote_queue();
    let to_leader = |messages: &[ToLeader]| {
        let mut encoder = Encoder::to_leader(9);
        for message in messages {
            encoder.put_to_leader(message);
        }
        encoder.finish()
    };
    let to_remote_queue = |messages: &[ToRemoteQueue]| {
        let mut encoder = Encoder::to_remote_queue(9);
        for message in messages {
            encoder.put_to_remote_queue(message);
        }
        encoder.finish()
    };
    let mut all = to_leader(&leader);
    all.extend(to_remote_queue(&remote_queue));
    all.extend(leader.chunks(1).flat_map(to_leader));
    all.extend(remote_queue.chunks(1).flat_map(to_remote_queue));
    all.into_iter().map(|pieces| pieces.concat()).collect()
}

fn message() -> Message {
    let parts = MessageParts {
        exchange: b"x",
        routing_key: b"key",
        properties: &[0, 0],
        body: b"body",
    };
    Message::from_parts(parts, MessageSummary::default())
}

fn to_leader() -> Vec<ToLeader> {
    let settle = Settle {
        subscription: ConsumerId(3),
        priority_log: 4,
        range: 5..9,
        outcome: Outcome::Accept,
    };
    let subscription = ConsumerId(3);
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
        ToLeader::Cancel(subscription),
        ToLeader::Detach(subscription),
        ToLeader::Credit {
            consumer: subscription,
            messages: 2,
            bytes: 300,
        },
        ToLeader::Get {
            subscription,
            no_ack: true,
        },
        ToLeader::Purge { request: 1 },
        ToLeader::Count { request: 2 },
        ToLeader::Peek {
            request: 3,
            before: 4,
        },
        ToLeader::Fetch {
            consumer: subscription,
            priority_log: 4,
            index: 5,
        },
    ]
}

fn to_remote_queue() -> Vec<ToRemoteQueue> {
    let consumer = ConsumerId(3);
    let fetched = |fetched| ToRemoteQueue::Fetched {
        consumer,
        priority_log: 4,
        index: 5,
        fetched,
    };
    vec![
        ToRemoteQueue::Leading { term: 7 },
        ToRemoteQueue::NotLeader {
            term: 7,
            leader: Some(NodeId(2)),
        },
        ToRemoteQueue::Committed { through: 3 },
        ToRemoteQueue::Refused { sequences: 4..6 },
        ToRemoteQueue::Attached {
            consumer,
            result: Ok(()),
        },
        ToRemoteQueue::DeliverLocal(LocalDelivery {
            consumer,
            priority_log: 4,
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
        ToRemoteQueue::Cancelled(consumer),
        ToRemoteQueue::Purged {
            request: 1,
            count: 2,
        },
        ToRemoteQueue::Counted {
            request: 2,
            queue_counts: QueueCounts {
                ready: 1,
                unsettled: 2,
                consumers: 3,
            },
        },
        ToRemoteQueue::Peeked {
            request: 3,
            fetched: Fetched::Gone,
        },
        ToRemoteQueue::TimedOut(consumer),
        ToRemoteQueue::Active {
            consumer,
            activation: 2,
        },
    ]
}
