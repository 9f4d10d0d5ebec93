//! An entrance for fuzzing: any bytes, as another node may send them.

use super::{
    Command, Encoder, Event, Fetched, LocalDelivery, Operation, Pieces, QueueCounts, Settle,
    decode_to_leader, decode_to_remote_queue,
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
    let to_leader = |messages: &[Command]| {
        let mut encoder = Encoder::to_leader(9);
        for message in messages {
            encoder.put_to_leader(message);
        }
        encoder.finish()
    };
    let to_remote_queue = |messages: &[Event]| {
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

fn to_leader() -> Vec<Command> {
    let settle = Settle {
        subscription: ConsumerId(3),
        priority_log: 4,
        range: 5..9,
        outcome: Outcome::Accept,
    };
    let subscription = ConsumerId(3);
    vec![
        Command::NothingToRegister { term: 7 },
        Command::Operations {
            first: 1,
            operations: vec![
                Operation::Publish(message()),
                Operation::Settle(settle),
                Operation::Nothing,
            ],
        },
        Command::Acknowledged { first: 4 },
        Command::Cancel(subscription),
        Command::Detach(subscription),
        Command::Credit {
            consumer: subscription,
            messages: 2,
            bytes: 300,
        },
        Command::Get {
            subscription,
            no_ack: true,
        },
        Command::Purge { request: 1 },
        Command::Count { request: 2 },
        Command::Peek {
            request: 3,
            before: 4,
        },
        Command::Fetch {
            consumer: subscription,
            priority_log: 4,
            index: 5,
        },
    ]
}

fn to_remote_queue() -> Vec<Event> {
    let consumer = ConsumerId(3);
    let fetched = |fetched| Event::Fetched {
        consumer,
        priority_log: 4,
        index: 5,
        fetched,
    };
    vec![
        Event::Leading { term: 7 },
        Event::NotLeader {
            term: 7,
            leader: Some(NodeId(2)),
        },
        Event::Committed { through: 3 },
        Event::Refused { sequences: 4..6 },
        Event::Attached {
            consumer,
            result: Ok(()),
        },
        Event::DeliverLocal(LocalDelivery {
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
        Event::Cancelled(consumer),
        Event::Purged {
            request: 1,
            count: 2,
        },
        Event::Counted {
            request: 2,
            queue_counts: QueueCounts {
                ready: 1,
                unsettled: 2,
                consumers: 3,
            },
        },
        Event::Peeked {
            request: 3,
            fetched: Fetched::Gone,
        },
        Event::TimedOut(consumer),
        Event::Active {
            consumer,
            activation: 2,
        },
    ]
}
