//! Limits, incremental change, and agreement with the plain definitions on seeded random cases.

use leveret_routing::{
    Destination, ExchangeSettings, HeadersMatcher, Kind, RouteError, Router, Scratch, fuzz,
};
use leveret_types::limits::{ROUTE_EXCHANGES_MAX, ROUTE_WORK_MAX};
use leveret_types::{FieldTable, FieldValue, QueueId};

struct Random(u64);
impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

#[test]
fn the_trie_agrees_with_the_definition() {
    for seed in 1..3_000_u64 {
        let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let words = ["a", "b", "*", "#", "", "ab"];
        let mut text = String::new();
        for line in 0..random.below(12) + 1 {
            for word in 0..random.below(6) {
                let choice = random.below(words.len() as u64) as usize;
                text += if word == 0 { "" } else { "." };
                // The key, which is the first line, has wildcards only as plain words.
                text += if line == 0 && choice == 3 {
                    "a"
                } else {
                    words[choice]
                };
            }
            text.push('\n');
        }
        fuzz::topic(text.as_bytes());
    }
}

#[test]
fn the_headers_matcher_agrees_with_the_definition() {
    for seed in 1..3_000_u64 {
        let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let data: Vec<u8> = (0..random.below(20) + 1)
            .map(|_| random.below(256) as u8)
            .collect();
        fuzz::headers(&data);
    }
}

/// A chain of `length` fanout exchanges with a queue at its end.
fn chain(length: usize) -> Router {
    let mut router = Router::new();
    router.add_queue("q", QueueId(1));
    for index in 0..length {
        router.add_exchange(
            &format!("x{index}"),
            Kind::Fanout,
            ExchangeSettings::default(),
        );
    }
    let none = FieldTable::new();
    for index in 1..length {
        let (from, to) = (format!("x{}", index - 1), format!("x{index}"));
        assert_eq!(
            router.bind(&from, Destination::Exchange(&to), b"", &none),
            Ok(true)
        );
    }
    let last = format!("x{}", length - 1);
    assert_eq!(
        router.bind(&last, Destination::Queue("q"), b"", &none),
        Ok(true)
    );
    router
}

#[test]
fn the_way_of_a_message_is_bounded() {
    let route = |router: &Router| {
        let mut out = Vec::new();
        let routed = router.route(b"x0", &[b"k"], &(), &mut Scratch::new(0), &mut out);
        routed.map(|()| out)
    };
    assert_eq!(route(&chain(ROUTE_EXCHANGES_MAX)), Ok(vec![QueueId(1)]));
    assert_eq!(
        route(&chain(ROUTE_EXCHANGES_MAX + 1)),
        Err(RouteError::TooLong)
    );
}

/// The work of the worst keys is counted in steps, not in time, by making it large: backtracking
/// over these would not end.
#[test]
fn keys_of_255_dots_end() {
    let mut router = Router::new();
    router.add_exchange("t", Kind::Topic, ExchangeSettings::default());
    let patterns = [
        "#.*".to_owned() + &".*".repeat(100) + ".#",
        "#.".to_owned() + &".".repeat(100) + ".#",
        "#".to_owned() + &".*..".repeat(60) + ".x",
        "*.#.".to_owned() + &"*.".repeat(100) + "#",
        "#.x.#".to_owned(),
    ];
    for (index, pattern) in patterns.iter().enumerate() {
        let name = format!("q{index}");
        router.add_queue(&name, QueueId(index as u64));
        let bound = router.bind(
            "t",
            Destination::Queue(&name),
            pattern.as_bytes(),
            &FieldTable::new(),
        );
        assert_eq!(bound, Ok(true));
    }
    let key = ".".repeat(255);
    let (mut scratch, mut out) = (Scratch::new(0), Vec::new());
    for _ in 0..50 {
        out.clear();
        let routed = router.route(b"t", &[key.as_bytes()], &(), &mut scratch, &mut out);
        assert_eq!(routed, Ok(()));
    }
    out.sort();
    assert_eq!(out, vec![QueueId(0), QueueId(1), QueueId(3)]);
}

/// Every pattern of eleven words, each `*` or `a`, between a `#` and an end that no key has: all of
/// them are under way at every word of a key.
fn all_under_way() -> Router {
    let mut router = Router::new();
    router.add_exchange("t", Kind::Topic, ExchangeSettings::default());
    router.add_queue("q", QueueId(1));
    for number in 0..1 << 11 {
        let word = |bit| if number >> bit & 1 == 0 { "*" } else { "a" };
        let words: Vec<&str> = (0..11).map(word).collect();
        let pattern = format!("#.{}.z", words.join("."));
        let queue = Destination::Queue("q");
        let bound = router.bind("t", queue, pattern.as_bytes(), &FieldTable::new());
        assert_eq!(bound, Ok(true));
    }
    router
}

#[test]
fn a_message_whose_way_costs_more_than_one_may_goes_nowhere_and_the_next_one_goes_on() {
    let router = all_under_way();
    let long = ["a"; 127].join(".");
    let keys = vec![long.as_bytes(); 64];
    let (mut scratch, mut out) = (Scratch::new(0), Vec::new());
    let routed = router.route(b"t", &keys, &(), &mut scratch, &mut out);
    assert_eq!(routed, Err(RouteError::TooMuchWork));
    assert!(out.is_empty());
    assert_eq!(scratch.take_work(), ROUTE_WORK_MAX + 1);
    let key = ["a"; 11].join(".") + ".z";
    let routed = router.route(b"t", &[key.as_bytes()], &(), &mut scratch, &mut out);
    assert_eq!((routed, &out[..]), (Ok(()), &[QueueId(1)][..]));
    assert!((1..ROUTE_WORK_MAX / 10).contains(&scratch.take_work()));
}

#[test]
fn what_a_way_costs_grows_with_the_bindings_that_are_looked_at() {
    let mut router = Router::new();
    for (name, kind) in [
        ("f", Kind::Fanout),
        ("d", Kind::Direct),
        ("h", Kind::Headers),
    ] {
        router.add_exchange(name, kind, ExchangeSettings::default());
    }
    router.add_queue("q", QueueId(1));
    for number in 0..50_000 {
        let arguments: FieldTable = [
            ("x-match".to_owned(), FieldValue::text("any")),
            ("id".to_owned(), FieldValue::I32(number)),
            ("kind".to_owned(), FieldValue::text("order")),
        ]
        .into_iter()
        .collect();
        for (exchange, key) in [("f", ""), ("d", "k"), ("h", "")] {
            let queue = Destination::Queue("q");
            let bound = router.bind(exchange, queue, key.as_bytes(), &arguments);
            assert_eq!(bound, Ok(true));
        }
    }
    let (mut scratch, mut out) = (Scratch::new(0), Vec::new());
    let headers: FieldTable = [("kind".to_owned(), FieldValue::text("order"))]
        .into_iter()
        .collect();
    let mut cost = |exchange: &str, key: &str| {
        out.clear();
        let exchange = exchange.as_bytes();
        let routed = router.route(
            exchange,
            &[key.as_bytes()],
            &headers,
            &mut scratch,
            &mut out,
        );
        assert_eq!(routed, Ok(()));
        scratch.take_work()
    };
    assert!((50_000..50_100).contains(&cost("f", "")));
    assert!((50_000..50_100).contains(&cost("d", "k")));
    assert!(cost("d", "other") < 100);
    assert!((200_000..ROUTE_WORK_MAX).contains(&cost("h", "")));
}

#[test]
fn a_fan_out_to_100_000_queues_costs_a_tenth_of_what_a_way_may_cost() {
    let mut router = Router::new();
    router.add_exchange("f", Kind::Fanout, ExchangeSettings::default());
    for number in 0..100_000 {
        let name = format!("q{number}");
        router.add_queue(&name, QueueId(number));
        let bound = router.bind("f", Destination::Queue(&name), b"", &FieldTable::new());
        assert_eq!(bound, Ok(true));
    }
    let (mut scratch, mut out) = (Scratch::new(0), Vec::new());
    let routed = router.route(b"f", &[b""], &(), &mut scratch, &mut out);
    assert_eq!((routed, out.len()), (Ok(()), 100_000));
    let work = scratch.take_work();
    assert!(
        (100_000..=ROUTE_WORK_MAX / 10 + 100).contains(&work),
        "{work}"
    );
}

#[test]
fn in_which_order_queues_are_reached_does_not_hang_on_the_seed_of_the_tables() {
    let text = |text: &str| FieldValue::text(text);
    let headers = ["a", "b", "c"].map(|name| (name.to_owned(), text("1")));
    let headers = FieldTable::from_iter(headers);
    let order = || {
        let mut router = Router::new();
        router.add_exchange("h", Kind::Headers, ExchangeSettings::default());
        for number in 0..40 {
            let name = format!("q{number}");
            router.add_queue(&name, QueueId(number));
            let queue = Destination::Queue(&name);
            assert_eq!(router.bind("h", queue, b"", &headers), Ok(true));
        }
        let mut out = Vec::new();
        let routed = router.route(b"h", &[b""], &headers, &mut Scratch::new(0), &mut out);
        assert_eq!(routed, Ok(()));
        out
    };
    let first = order();
    assert!((0..20).all(|_| order() == first));
}

/// 100,000 bindings come and go in every index without anything that grows with their square.
#[test]
fn binding_is_incremental() {
    for kind in [Kind::Topic, Kind::Direct, Kind::Fanout, Kind::Headers] {
        let mut router = Router::new();
        router.add_exchange("x", kind.clone(), ExchangeSettings::default());
        let none = FieldTable::new();
        let names: Vec<String> = (0..1_000).map(|n| format!("q{n}")).collect();
        for (index, name) in names.iter().enumerate() {
            router.add_queue(name, QueueId(index as u64));
        }
        for n in 0..100_000 {
            let key = format!("tenant.{}.*.event{}", n % 5_000, n / 5_000);
            let queue = Destination::Queue(&names[n % names.len()]);
            assert_eq!(
                router.bind("x", queue, key.as_bytes(), &none),
                Ok(true),
                "{key}"
            );
        }
        assert_eq!(router.binding_count(), 100_000);
        for name in &names[..999] {
            assert_eq!(
                router.remove_queue(name).map(|gone| gone.bindings),
                Some(100)
            );
        }
        assert_eq!(router.bindings_from("x").count(), 100);
        assert_eq!(router.bindings_to(Destination::Queue("q999")).count(), 100);
        let mut out = Vec::new();
        let routed = router.route(
            b"x",
            &[b"tenant.999.any.event0", b"tenant.999.*.event0"],
            &(),
            &mut Scratch::new(0),
            &mut out,
        );
        assert_eq!(routed, Ok(()));
        assert_eq!(out, vec![QueueId(999)], "{kind:?}");
        assert_eq!(
            router.remove_exchange("x").map(|gone| gone.bindings),
            Some(100)
        );
        assert_eq!(router.binding_count(), 0);
    }
}

#[test]
fn a_headers_exchange_finds_what_each_binding_asks_for() {
    let values = [
        FieldValue::I32(1),
        FieldValue::F64(1.0),
        FieldValue::Timestamp(1),
        FieldValue::I8(0),
        FieldValue::F64(-0.0),
        FieldValue::F64(f64::NAN),
        FieldValue::Bool(true),
        FieldValue::text("1"),
        FieldValue::Bytes(b"1".to_vec()),
        FieldValue::Void,
        FieldValue::Decimal { scale: 1, value: 1 },
        FieldValue::Array(vec![FieldValue::I32(1)]),
    ];
    let names = ["a", "b", "c", "x-a"];
    let modes = ["all", "any", "all-with-x", "any-with-x"];
    for seed in 1..300_u64 {
        let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let table = |random: &mut Random| {
            let mut table = FieldTable::new();
            for _ in 0..random.below(4) {
                let name = names[random.below(names.len() as u64) as usize];
                let value = &values[random.below(values.len() as u64) as usize];
                table.set(name, value.clone());
            }
            table
        };
        let mut router = Router::new();
        router.add_exchange("h", Kind::Headers, ExchangeSettings::default());
        let mut bound: Vec<(String, FieldTable)> = Vec::new();
        for step in 0..60 {
            if !bound.is_empty() && random.below(3) == 0 {
                let (queue, arguments) =
                    bound.swap_remove(random.below(bound.len() as u64) as usize);
                let gone = router.unbind("h", Destination::Queue(&queue), b"", &arguments);
                assert_eq!(gone.map(|gone| gone.bindings), Some(1));
            } else {
                let queue = format!("q{step}");
                router.add_queue(&queue, QueueId(step));
                let mut arguments = table(&mut random);
                let mode = modes[random.below(4) as usize];
                arguments.set("x-match", FieldValue::text(mode));
                let made = router.bind("h", Destination::Queue(&queue), b"", &arguments);
                assert_eq!(made, Ok(true));
                bound.push((queue, arguments));
            }
            let headers = table(&mut random);
            let mut out = Vec::new();
            let mut scratch = Scratch::new(0);
            let routed = router.route(b"h", &[b""], &headers, &mut scratch, &mut out);
            assert_eq!(routed, Ok(()));
            let mut expected: Vec<QueueId> = bound
                .iter()
                .filter(|(_, arguments)| {
                    HeadersMatcher::parse(arguments)
                        .is_ok_and(|matcher| matcher.matches(Some(&headers)))
                })
                .filter_map(|(queue, _)| router.queue(queue.as_bytes()))
                .collect();
            out.sort_unstable_by_key(|id| id.0);
            expected.sort_unstable_by_key(|id| id.0);
            assert_eq!(out, expected, "seed {seed}, step {step}: {headers:?}");
        }
    }
}

#[test]
fn what_a_publisher_keeps_does_not_grow_with_the_number_of_queues() {
    let mut router = Router::new();
    router.add_exchange("t", Kind::Topic, ExchangeSettings::default());
    let none = FieldTable::new();
    for number in 0..50_000 {
        let name = format!("q{number}");
        router.add_queue(&name, QueueId(number));
        let to = Destination::Queue(&name);
        let pattern = format!("#.{number}");
        router
            .bind("t", to, pattern.as_bytes(), &none)
            .expect("it binds");
    }
    let (mut scratch, mut found) = (Scratch::new(0), Vec::new());
    for (exchange, key) in [("", "q7"), ("t", "a.b.7"), ("t", "49999")] {
        found.clear();
        let routed = router.route(
            exchange.as_bytes(),
            &[key.as_bytes()],
            &(),
            &mut scratch,
            &mut found,
        );
        assert!(routed.is_ok() && found.len() == 1, "{found:?}");
    }
    assert!(scratch.heap_bytes() < 500, "{}", scratch.heap_bytes());
}
