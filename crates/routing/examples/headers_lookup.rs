//! Prints how long it takes to make 100,000 bindings of a headers exchange, to route a message by
//! them, and to take them away.

use leveret_routing::{Destination, ExchangeSettings, Kind, Router, Scratch};
use leveret_types::{FieldTable, FieldValue, QueueId};
use std::time::Instant;

const BINDINGS: i32 = 100_000;
const SAMPLES: i32 = 200_000;

fn headers(order: i32, mode: Option<&str>) -> FieldTable {
    let mode = mode.map(|mode| ("x-match".to_owned(), FieldValue::text(mode)));
    let own = [
        ("type".to_owned(), FieldValue::text("order")),
        ("id".to_owned(), FieldValue::I32(order)),
    ];
    mode.into_iter().chain(own).collect()
}

fn main() {
    let mut router = Router::new();
    router.add_exchange("h", Kind::Headers, ExchangeSettings::default());
    router.add_queue("q", QueueId(1));
    let started = Instant::now();
    for order in 0..BINDINGS {
        let arguments = headers(order, Some("all"));
        let bound = router.bind("h", Destination::Queue("q"), b"", &arguments);
        assert_eq!(bound, Ok(true));
    }
    println!("bind {BINDINGS}: {:?}", started.elapsed());

    let messages: Vec<FieldTable> = (0..SAMPLES)
        .map(|n| headers(n.wrapping_mul(7_919).rem_euclid(BINDINGS), None))
        .collect();
    let (mut scratch, mut out) = (Scratch::new(1), Vec::new());
    let started = Instant::now();
    for message in &messages {
        out.clear();
        let routed = router.route(b"h", &[b""], message, &mut scratch, &mut out);
        assert_eq!((routed, out.len()), (Ok(()), 1));
    }
    let each = started.elapsed() / SAMPLES as u32;
    println!("route among {BINDINGS}: {each:?} a message");

    let started = Instant::now();
    assert!(router.remove_queue("q").is_some());
    println!("unbind {BINDINGS}: {:?}", started.elapsed());
}
