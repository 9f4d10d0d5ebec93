//! Prints what a settle costs when a consumer holds very many messages and settles them in random
//! order, and the memory that they take.

use leveret_queue::{
    Consumer, Log, Meta, Outcome, Peek, Position, Queue, QueueKind, Settings, Settle,
};
use leveret_types::{ConsumerId, Now};
use std::time::Instant;

const META: Meta = Meta {
    bytes: 100,
    published_ms: 0,
    expiration_ms: None,
};

struct Memory;
impl Log for Memory {
    fn peek(&mut self, _: Position) -> Peek {
        Peek::Ready(META)
    }
    fn admit(&mut self, _: ConsumerId, _: u32) -> bool {
        true
    }
}

fn main() {
    for messages in [1_000_u64, 100_000, 1_000_000] {
        let (now, id) = (Now::both(0), ConsumerId(1));
        let mut queue = Queue::new(QueueKind::Classic, Settings::default(), now);
        let mut effects = Vec::new();
        let consumer = Consumer {
            id,
            priority: 0,
            exclusive: false,
            no_ack: false,
            prefetch: 0,
            timeout_ms: None,
        };
        let attached = queue.attach(now, consumer, &mut effects);
        assert!(attached.is_ok());
        for index in 0..messages {
            queue.enqueue(
                Position {
                    priority_log: 0,
                    index,
                },
                &META,
            );
            queue.pump(now, &mut Memory, &mut effects);
            effects.clear();
        }
        // Each index once, in an order that no structure likes.
        let order = (0..messages).map(|n| n.wrapping_mul(7_919_777_777) % messages);
        let (started, mut slowest) = (Instant::now(), 0);
        for index in order {
            let began = Instant::now();
            let settle = Settle {
                subscription: id,
                priority_log: 0,
                range: index..index + 1,
                outcome: Outcome::Accept,
            };
            let count = queue.settle(now, settle, &mut effects);
            assert_eq!(count, 1);
            effects.clear();
            slowest = slowest.max(began.elapsed().as_micros());
        }
        let each = started.elapsed() / messages as u32;
        println!("{messages:>9} held: {each:?} a settle, {slowest} µs the slowest");
    }
}
