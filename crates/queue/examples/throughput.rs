//! What the queue machine costs: nanoseconds per message for enqueue, delivery and settle together.
//!
//! Run with `cargo run --release -p leveret-queue --example throughput`.

use leveret_queue::{
    Consumer, Effect, Log, Meta, Outcome, Peek, Position, Queue, QueueKind, Settings, Settle,
};
use leveret_types::{ConsumerId, Now};
use std::time::Instant;

/// A log that knows every message and lets every delivery through: what is left is the queue's own
/// cost.
struct FreeLog;

const META: Meta = Meta {
    bytes: 16,
    published_ms: 0,
    expiration_ms: None,
};

impl Log for FreeLog {
    fn peek(&mut self, _: Position) -> Peek {
        Peek::Ready(META)
    }

    fn admit(&mut self, _: ConsumerId, _: u32) -> bool {
        true
    }
}

const MESSAGES: u64 = 10_000_000;

/// Publishes in batches of `batch`, and settles each delivery by itself or all of a batch as one
/// range.
fn run(name: &str, settings: Settings, consumers: u64, batch: u64, settle_each: bool) {
    let now = Now::both(1_000);
    let mut queue = Queue::new(QueueKind::Classic, settings, now);
    let mut out = Vec::new();
    for id in 1..=consumers {
        let id = ConsumerId(id);
        let consumer = Consumer {
            id,
            priority: 0,
            exclusive: false,
            no_ack: false,
            prefetch: 0,
            timeout_ms: None,
        };
        queue
            .attach(now, consumer, &mut out)
            .expect("nobody is exclusive");
    }
    let started = Instant::now();
    let mut unsettled_messages = Vec::new();
    for first in (0..MESSAGES).step_by(batch as usize) {
        for index in first..first + batch {
            queue.offer(now, META.bytes, &mut FreeLog, &mut out);
            queue.enqueue(
                Position {
                    priority_log: 0,
                    index,
                },
                &META,
            );
        }
        queue.pump(now, &mut FreeLog, &mut out);
        unsettled_messages.extend(out.drain(..).filter_map(|effect| match effect {
            Effect::Deliver(delivery) => Some((delivery.consumer, delivery.position.index)),
            _ => None,
        }));
        if settle_each {
            for (consumer, index) in unsettled_messages.drain(..) {
                queue.settle(now, accepted(consumer, index..index + 1), &mut out);
            }
        } else {
            unsettled_messages.clear();
            for id in 1..=consumers {
                queue.settle(
                    now,
                    accepted(ConsumerId(id), first..first + batch),
                    &mut out,
                );
            }
        }
        out.clear();
    }
    let nanos = started.elapsed().as_nanos() as f64 / MESSAGES as f64;
    let counts = queue.counts(now);
    assert_eq!(
        (counts.ready, counts.unsettled),
        (0, 0),
        "everything was settled"
    );
    println!("{name:<58} {nanos:6.1} ns");
}

fn main() {
    let plain = Settings::default;
    println!("enqueue + deliver + settle, per message");
    run("1 consumer, one message at a time", plain(), 1, 1, true);
    run(
        "1 consumer, batches of 100, each settled",
        plain(),
        1,
        100,
        true,
    );
    run(
        "1 consumer, batches of 100, settled as one range",
        plain(),
        1,
        100,
        false,
    );
    run(
        "10 consumers, batches of 100, each settled",
        plain(),
        10,
        100,
        true,
    );
    let limited = Settings {
        ttl_ms: Some(60_000),
        length_max: Some(1_000),
        ..plain()
    };
    run(
        "1 consumer, TTL and length limit, batches of 100",
        limited,
        1,
        100,
        true,
    );
}

/// That a consumer accepts these.
const fn accepted(subscription: ConsumerId, range: std::ops::Range<u64>) -> Settle {
    Settle {
        subscription,
        priority_log: 0,
        range,
        outcome: Outcome::Accept,
    }
}
