//! Prints how long it takes to make 100,000 bindings of a consistent-hash exchange, each to a queue
//! of its own, to route a message by them, and to take them away.

use leveret_routing::{Destination, ExchangeSettings, HashOn, Kind, Router, Scratch};
use leveret_types::{FieldTable, QueueId};
use std::time::Instant;

const BINDINGS: u64 = 100_000;
const SAMPLES: u32 = 200_000;

fn main() {
    let mut router = Router::new();
    let kind = Kind::ConsistentHash(HashOn::RoutingKey);
    router.add_exchange("h", kind, ExchangeSettings::default());
    let names: Vec<String> = (0..BINDINGS).map(|number| format!("q{number}")).collect();
    for (number, name) in (0..).zip(&names) {
        router.add_queue(name, QueueId(number));
    }
    let started = Instant::now();
    for name in &names {
        let bound = router.bind("h", Destination::Queue(name), b"1", &FieldTable::new());
        assert_eq!(bound, Ok(true));
    }
    println!("bind {BINDINGS}: {:?}", started.elapsed());

    let keys: Vec<String> = (0..SAMPLES).map(|number| format!("key-{number}")).collect();
    let (mut scratch, mut out) = (Scratch::new(1), Vec::new());
    let started = Instant::now();
    for key in &keys {
        out.clear();
        let routed = router.route(b"h", &[key.as_bytes()], &(), &mut scratch, &mut out);
        assert_eq!((routed, out.len()), (Ok(()), 1));
    }
    println!(
        "route among {BINDINGS}: {:?} a message",
        started.elapsed() / SAMPLES
    );

    let started = Instant::now();
    for name in &names {
        assert!(router.remove_queue(name).is_some());
    }
    println!("unbind {BINDINGS}: {:?}", started.elapsed());
}
