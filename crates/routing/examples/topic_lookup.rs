//! Prints how long one lookup among 100,000 topic bindings takes, and the worst key that the limits
//! allow.

use leveret_routing::{Destination, ExchangeSettings, Kind, Router, Scratch};
use leveret_types::{FieldTable, QueueId};
use std::hint::black_box;
use std::time::{Duration, Instant};

const BINDINGS: usize = 100_000;
const QUEUES: usize = 1_000;
const SAMPLES: usize = 200_000;

fn main() {
    let mut router = Router::new();
    router.add_exchange("t", Kind::Topic, ExchangeSettings::default());
    for queue in 0..QUEUES {
        router.add_queue(&format!("q{queue}"), QueueId(queue as u64));
    }
    let none = FieldTable::new();
    let started = Instant::now();
    for n in 0..BINDINGS {
        // Four words; a tenth with `*`, a hundredth with `#`.
        let key = match n {
            n if n % 100 == 0 => format!("tenant{}.#.done", n / 100),
            n if n % 10 == 0 => format!("tenant{}.*.order{}.created", n % 5_000, n / 50),
            n => format!("tenant{}.eu.order{}.created", n % 5_000, n / 50),
        };
        let queue = format!("q{}", n % QUEUES);
        let bound = router.bind("t", Destination::Queue(&queue), key.as_bytes(), &none);
        assert_eq!(bound, Ok(true), "{key}");
    }
    println!("bind {BINDINGS}: {:?}", started.elapsed());

    let keys: Vec<String> = (0..SAMPLES)
        .map(|n| n.wrapping_mul(7_919) % BINDINGS)
        .map(|n| format!("tenant{}.eu.order{}.created", n % 5_000, n / 50))
        .collect();
    let (mut scratch, mut out) = (Scratch::new(1), Vec::new());
    let mut lookup = |key: &str| {
        out.clear();
        let started = Instant::now();
        let routed = router.route(b"t", &[key.as_bytes()], &(), &mut scratch, &mut out);
        let elapsed = started.elapsed();
        assert_eq!(routed, Ok(()));
        black_box(out.len());
        elapsed
    };
    for key in keys.iter().take(1_000) {
        lookup(key);
    }
    let mut times: Vec<Duration> = keys.iter().map(|key| lookup(key)).collect();
    times.sort_unstable();
    println!(
        "lookup among {BINDINGS}: median {:?}, p99 {:?}",
        times[times.len() / 2],
        times[times.len() * 99 / 100]
    );
    let started = Instant::now();
    for queue in 0..QUEUES {
        assert!(router.remove_queue(&format!("q{queue}")).is_some());
    }
    println!("unbind {BINDINGS}: {:?}", started.elapsed());
    worst_key();
}

/// The longest key against patterns whose wildcards can take its words in any way.
fn worst_key() {
    let mut router = Router::new();
    router.add_exchange("t", Kind::Topic, ExchangeSettings::default());
    let patterns = [
        "#.*".to_owned() + &".*".repeat(123) + ".#",
        "#.".to_owned() + &".".repeat(250) + ".#",
        "#".to_owned() + &".*.".repeat(80) + ".#",
    ];
    for (index, pattern) in patterns.iter().enumerate() {
        let queue = format!("q{index}");
        router.add_queue(&queue, QueueId(index as u64));
        let to = Destination::Queue(&queue);
        let bound = router.bind("t", to, pattern.as_bytes(), &FieldTable::new());
        assert_eq!(bound, Ok(true), "{pattern}");
    }
    let (key, mut scratch, mut out) = (".".repeat(255), Scratch::new(1), Vec::new());
    let started = Instant::now();
    let routed = router.route(b"t", &[key.as_bytes()], &(), &mut scratch, &mut out);
    println!(
        "key of 255 dots, patterns of 250 wildcards: {:?}",
        started.elapsed()
    );
    assert_eq!((routed, out.len()), (Ok(()), 3));
}
