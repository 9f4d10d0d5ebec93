use super::*;
use bytes::Bytes;
use leveret_queue::Outcome;
use leveret_types::MessageParts;
use leveret_types::limits::{
    LINK_CONSUMER_BYTES_MAX, LINK_CONSUMER_MESSAGES_MAX, LINK_FRAME_BYTES, LINK_RECORDS_MAX,
};
use leveret_types::message::MessageSummary;

fn message(body: &[u8]) -> Message {
    let parts = MessageParts {
        exchange: b"x",
        routing_key: b"key",
        properties: &[0, 0],
        body,
    };
    Message::from_parts(parts, MessageSummary::default())
}

fn joined(pieces: &Pieces) -> Bytes {
    Bytes::from(pieces.concat())
}

fn consumer(id: u64) -> Consumer {
    Consumer {
        id: ConsumerId(id),
        priority: -7,
        exclusive: true,
        no_ack: false,
        prefetch: 10,
        timeout_ms: Some(5),
    }
}

fn to_leader() -> Vec<Command> {
    let settle = |outcome| {
        Operation::Settle(Settle {
            subscription: ConsumerId(3),
            priority_log: 4,
            range: 5..9,
            outcome,
        })
    };
    vec![
        Command::Register(Box::new(Registration {
            start: 1,
            term: 2,
            first_sequence: 3,
            subscriptions: vec![
                RegisteredSubscription {
                    id: ConsumerId(4),
                    consumer: Some(consumer(4)),
                    activation: u64::MAX,
                    unsettled: [(0, 1..2), (4, 7..90)]
                        .map(|(priority_log, range)| UnsettledRange {
                            priority_log,
                            range,
                            acquired: 3,
                            settled_by: 4,
                        })
                        .into(),
                },
                RegisteredSubscription {
                    id: ConsumerId(5),
                    consumer: None,
                    activation: 0,
                    unsettled: Vec::new(),
                },
                RegisteredSubscription {
                    id: ConsumerId(6),
                    consumer: Some(consumer(6)),
                    activation: 0,
                    unsettled: Vec::new(),
                },
            ],
        })),
        Command::NothingToRegister { term: 8 },
        Command::Operations {
            first: 3,
            operations: vec![
                Operation::Publish(message(b"")),
                Operation::Publish(message(&[7; 100_000])),
                settle(Outcome::Accept),
                settle(Outcome::Requeue { count: true }),
                settle(Outcome::Requeue { count: false }),
                settle(Outcome::Release),
                settle(Outcome::Reject),
                Operation::Nothing,
            ],
        },
        Command::Acknowledged { first: 11 },
        Command::Attach(consumer(1)),
        Command::Cancel(ConsumerId(1)),
        Command::Detach(ConsumerId(2)),
        Command::Credit {
            consumer: ConsumerId(1),
            messages: 3,
            bytes: 1 << 40,
        },
        Command::Get {
            subscription: ConsumerId(1),
            no_ack: true,
        },
        Command::Purge { request: 4 },
        Command::Count { request: 5 },
        Command::Peek {
            request: 6,
            before: 7,
        },
        Command::Fetch {
            consumer: ConsumerId(1),
            priority_log: 31,
            index: 3,
        },
    ]
}

fn to_remote_queue(queue: QueueId) -> Vec<Event> {
    let delivery = |body: &[u8]| Delivery {
        consumer: ConsumerId(1),
        queue,
        priority_log: 3,
        index: u64::MAX - 1,
        redelivered: true,
        delivery_count: Some(2),
        acquired_count: Some(5),
        message: message(body),
    };
    let attached = |result| Event::Attached {
        consumer: ConsumerId(9),
        result,
    };
    let fetched = |fetched| Event::Fetched {
        consumer: ConsumerId(1),
        priority_log: 2,
        index: 3,
        fetched,
    };
    vec![
        Event::Leading { term: 7 },
        Event::NotLeader {
            term: 7,
            leader: Some(NodeId(3)),
        },
        Event::NotLeader {
            term: 0,
            leader: None,
        },
        Event::Committed { through: 12 },
        Event::Refused { sequences: 3..5 },
        attached(Ok(())),
        attached(Err(AttachError::ExclusiveTaken)),
        attached(Err(AttachError::ExclusiveOnSingleActive)),
        Event::Deliver(delivery(b"body")),
        Event::Deliver(delivery(&[1; 50_000])),
        Event::DeliverLocal(LocalDelivery {
            consumer: ConsumerId(1),
            priority_log: 2,
            index: 3,
            redelivered: false,
            delivery_count: None,
            acquired_count: Some(1),
            bytes: 17,
            entry: u64::MAX,
            term: 9,
        }),
        fetched(Fetched::Message(message(&[1; 50_000]))),
        fetched(Fetched::Gone),
        fetched(Fetched::Unreadable),
        Event::Got {
            subscription: ConsumerId(2),
            got: None,
        },
        Event::Got {
            subscription: ConsumerId(2),
            got: Some((delivery(b"got"), 3)),
        },
        Event::Purged {
            request: 1,
            count: 2,
        },
        Event::Counted {
            request: 1,
            queue_counts: QueueCounts {
                ready: 1,
                unsettled: 2,
                consumers: 3,
            },
        },
        Event::Peeked {
            request: 6,
            fetched: Fetched::Unreadable,
        },
        Event::TimedOut(ConsumerId(4)),
        Event::Cancelled(ConsumerId(5)),
        Event::Active {
            consumer: ConsumerId(5),
            activation: 3,
        },
    ]
}

fn encoded_to_leader(messages: &[Command]) -> Vec<Pieces> {
    let mut encoder = Encoder::to_leader(77);
    for message in messages {
        encoder.put_to_leader(message);
    }
    encoder.finish()
}

fn encoded_to_remote_queue(messages: &[Event]) -> Vec<Pieces> {
    let mut encoder = Encoder::to_remote_queue(78);
    for message in messages {
        encoder.put_to_remote_queue(message);
    }
    encoder.finish()
}

/// Messages have no equality, for theirs is that of their bytes: they are compared as they print.
fn printed(messages: &impl std::fmt::Debug) -> String {
    format!("{messages:?}")
}

/// The same with every message's bytes moved, as they are after a way over the wire.
fn rewritten(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("start: ") {
        let (before, after) = rest.split_at(at);
        out.push_str(before);
        rest = after.trim_start_matches("start: ");
        rest = rest.trim_start_matches(|c: char| c.is_ascii_digit());
    }
    out.push_str(rest);
    out
}

#[test]
fn what_is_said_to_a_leader_comes_out_as_it_went_in() {
    let messages = to_leader();
    let frames = encoded_to_leader(&messages);
    assert_eq!(frames.len(), 1);
    assert!(frames[0].len() > 1, "a large body is not copied");
    let frame = decode_to_leader(joined(&frames[0])).expect("a frame");
    assert_eq!(frame.session, 77);
    assert_eq!(frame.messages.len(), messages.len());
    let again = encoded_to_leader(&frame.messages);
    assert_eq!(joined(&again[0]), joined(&frames[0]));
    let (Command::Register(sent), Command::Register(got)) = (&messages[0], &frame.messages[0])
    else {
        panic!("{:?}", frame.messages[0]);
    };
    assert_eq!(sent, got);
}

#[test]
fn what_is_said_to_a_remote_queue_comes_out_as_it_went_in() {
    let queue = QueueId(5);
    let messages = to_remote_queue(queue);
    let frames = encoded_to_remote_queue(&messages);
    let frame = decode_to_remote_queue(queue, joined(&frames[0])).expect("a frame");
    assert_eq!(frame.session, 78);
    for (sent, got) in messages.iter().zip(&frame.messages) {
        let has_message = matches!(
            sent,
            Event::Deliver(_) | Event::Got { .. } | Event::Fetched { .. }
        );
        if has_message {
            continue;
        }
        assert_eq!(rewritten(&printed(sent)), rewritten(&printed(got)));
    }
    let again = encoded_to_remote_queue(&frame.messages);
    assert_eq!(joined(&again[0]), joined(&frames[0]));
}

#[test]
fn every_cut_and_every_flipped_byte_is_refused_or_another_frame() {
    let leader = joined(&encoded_to_leader(&to_leader()[3..])[0]);
    let small: Vec<Event> = to_remote_queue(QueueId(1))
        .into_iter()
        .filter(|message| match message {
            Event::Deliver(delivery) => delivery.message.size() < 100,
            Event::Fetched {
                fetched: Fetched::Message(message),
                ..
            } => message.size() < 100,
            _ => true,
        })
        .collect();
    let remote_queue = joined(&encoded_to_remote_queue(&small)[0]);
    for bytes in [leader, remote_queue] {
        for end in 0..bytes.len() {
            fuzz(&bytes[..end]);
        }
        for at in 0..bytes.len() {
            for value in [0, 1, 0x7F, 0xFF] {
                let mut other = bytes.to_vec();
                other[at] = value;
                fuzz(&other);
            }
        }
    }
}

#[test]
fn what_fuzzing_begins_with_are_frames() {
    for seed in seeds() {
        let bytes = Bytes::from(seed);
        let is_for_leader = decode_to_leader(bytes.clone()).is_ok();
        assert!(is_for_leader || decode_to_remote_queue(QueueId(1), bytes.clone()).is_ok());
        fuzz(&bytes);
    }
}

#[test]
fn frames_are_cut_at_their_bounds_and_keep_the_sequence() {
    let operations: Vec<Operation> = vec![Operation::Nothing; LINK_RECORDS_MAX + 2];
    let large: Vec<Operation> = (0..3)
        .map(|_| Operation::Publish(message(&vec![1; LINK_FRAME_BYTES / 2])))
        .collect();
    for (operations, frames_expected) in [
        (operations[2..].to_vec(), 1),
        (operations[1..].to_vec(), 2),
        (operations, 2),
        (large[1..].to_vec(), 2),
        (large, 3),
    ] {
        let mut encoder = Encoder::to_leader(1);
        encoder.put_operations(10, operations.iter());
        let frames = encoder.finish();
        assert_eq!(
            frames.len(),
            frames_expected,
            "{} operations",
            operations.len()
        );
        let mut next = 10;
        for frame in &frames {
            let frame = decode_to_leader(joined(frame)).expect("within its bounds");
            for message in frame.messages {
                let Command::Operations { first, operations } = message else {
                    panic!("{message:?}");
                };
                assert_eq!(first, next);
                next += operations.len() as u64;
            }
        }
        assert_eq!(next, 10 + operations.len() as u64);
    }
}

#[test]
fn a_frame_of_too_many_records_is_refused() {
    let mut bytes = vec![TO_LEADER];
    bytes.extend_from_slice(&1_u64.to_le_bytes());
    for _ in 0..LINK_RECORDS_MAX {
        bytes.extend_from_slice(&[5, 0, 0, 0, 0, 0, 0, 0, 0]);
    }
    assert!(decode_to_leader(Bytes::from(bytes.clone())).is_ok());
    bytes.extend_from_slice(&[5, 0, 0, 0, 0, 0, 0, 0, 0]);
    assert!(decode_to_leader(Bytes::from(bytes)).is_err());
}

#[test]
fn a_frame_of_too_many_records_from_a_leader_is_refused() {
    let one = joined(&encoded_to_remote_queue(&[Event::TimedOut(ConsumerId(1))])[0]);
    let (head, record) = one.split_at(9);
    for (records, is_read) in [(LINK_RECORDS_MAX, true), (LINK_RECORDS_MAX + 1, false)] {
        let frame = Bytes::from([head, &record.repeat(records)].concat());
        let read = decode_to_remote_queue(QueueId(5), frame);
        assert_eq!(read.is_ok(), is_read, "{records}");
    }
}

#[test]
fn a_window_lets_one_message_of_any_size_and_tells_when_there_is_room() {
    let mut window = Window::default();
    assert!(window.take(u32::MAX));
    assert!(!window.take(1));
    assert!(window.give(1, u64::from(u32::MAX)));
    assert!(!window.give(0, 0), "told once");
    for _ in 0..LINK_CONSUMER_MESSAGES_MAX {
        assert!(window.take(0));
    }
    assert!(!window.take(0));
    assert!(!window.give(1, 0), "not before half of it is free");
    assert!(window.give(LINK_CONSUMER_MESSAGES_MAX / 2, 0));
}

#[test]
fn a_delivery_with_an_index_that_none_can_follow_is_refused() {
    let queue = QueueId(5);
    for (index, is_read) in [(u64::MAX - 1, true), (u64::MAX, false)] {
        let local = LocalDelivery {
            consumer: ConsumerId(1),
            priority_log: 0,
            index,
            redelivered: false,
            delivery_count: None,
            acquired_count: None,
            bytes: 4,
            entry: 1,
            term: 1,
        };
        let whole = local.complete(queue, message(b"body"));
        for said in [Event::DeliverLocal(local), Event::Deliver(whole)] {
            let frame = joined(&encoded_to_remote_queue(&[said])[0]);
            assert_eq!(
                decode_to_remote_queue(queue, frame).is_ok(),
                is_read,
                "{index}"
            );
        }
    }
}

#[test]
fn a_consumer_with_flags_that_there_are_not_is_refused() {
    let encoded = |exclusive: bool| {
        let attach = Command::Attach(Consumer {
            exclusive,
            no_ack: false,
            ..consumer(1)
        });
        joined(&encoded_to_leader(&[attach])[0])
    };
    let (with, without) = (encoded(true), encoded(false));
    let mut differing = (0..with.len()).filter(|at| with[*at] != without[*at]);
    let flags = differing.next().expect("the byte with the flags");
    assert_eq!(differing.next(), None);
    for (flag, is_known) in [(3, true), (4, false), (0x80, false)] {
        let mut bytes = with.to_vec();
        bytes[flags] = flag;
        assert_eq!(
            decode_to_leader(Bytes::from(bytes)).is_ok(),
            is_known,
            "{flag}"
        );
    }
}

#[test]
fn a_consumer_may_have_more_again_when_half_of_its_window_is_free_and_not_before() {
    let mut window = Window::default();
    let most = LINK_CONSUMER_MESSAGES_MAX;
    (0..most).for_each(|_| assert!(window.take(0)));
    assert!(!window.take(0));
    assert!(!window.give(most / 2 - 1, 0));
    assert!(window.give(1, 0), "half of the messages");
    assert!(!window.give(1, 0), "nothing was refused since");
    let mut window = Window::default();
    let half = LINK_CONSUMER_BYTES_MAX / 2;
    assert!(window.take(half as u32) && window.take(half as u32));
    assert!(!window.take(1));
    assert!(!window.give(1, half - 1));
    assert!(window.give(0, 1), "half of the bytes");
    assert!(window.take(half as u32), "as much as there may be");
    assert!(!window.take(1));
}
