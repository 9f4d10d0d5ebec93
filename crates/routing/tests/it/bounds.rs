//! Limits, incremental change, and agreement with the plain definitions on seeded random cases.

use leveret_routing::{
    Destination, ExchangeSettings, HeadersMatcher, Kind, RouteError, Router, Scratch, Unbound, fuzz,
};
use leveret_types::limits::{BINDINGS_UNLINKED_AT_ONCE, ROUTE_EXCHANGES_MAX, ROUTE_WORK_MAX};
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

/// A router in which a queue and an exchange have very many bindings of one exchange's, and others
/// have few of the same keys.
fn with_much_bound(kind: &str) -> Router {
    let mut router = Router::new();
    let arguments = match kind {
        "direct" => FieldTable::from([("x-super-stream", FieldValue::Bool(true))]),
        _ => FieldTable::new(),
    };
    let kind = Kind::parse(kind, &arguments).expect("a type");
    let auto_delete = ExchangeSettings {
        auto_delete: true,
        ..ExchangeSettings::default()
    };
    for (number, name) in ["big", "small", "stream"].into_iter().enumerate() {
        let id = QueueId(1 + number as u64);
        let id = if name == "stream" { id.of_stream() } else { id };
        assert!(router.add_queue(name, id));
    }
    router.add_exchange("x", kind.clone(), ExchangeSettings::default());
    router.add_exchange("only", kind, auto_delete);
    router.add_exchange("wide", Kind::Fanout, ExchangeSettings::default());
    for number in 0..MUCH {
        let key = format!("{}", number + 1);
        let headers = FieldTable::from([("n", FieldValue::I64(number as i64))]);
        let mut bind = |source, to| router.bind(source, to, key.as_bytes(), &headers).is_ok();
        let (big, small) = (Destination::Queue("big"), Destination::Queue("small"));
        assert!(bind("x", big) && bind("only", big) && bind("wide", big) && bind("wide", small));
        bind("x", Destination::Exchange("wide"));
        if number % 100 == 0 {
            assert!(bind("x", small) && bind("x", Destination::Queue("stream")));
        }
    }
    router
}

/// All that can be seen of a router.
fn seen(router: &Router) -> Vec<String> {
    let mut lines: Vec<String> = router.bindings().map(|b| format!("{b:?}")).collect();
    for name in ["x", "wide"] {
        let from = router.bindings_from(name).count();
        let to = router.bindings_to(Destination::Exchange(name)).count();
        let outgoing = router.exchange(name).map(|exchange| exchange.outgoing);
        lines.push(format!("{name}: {outgoing:?} {from} {to}"));
    }
    let to = router.bindings_to(Destination::Queue("small")).count();
    lines.push(format!("{to} of {}", router.binding_count()));
    let numbers = (0..router.binding_numbers()).filter_map(|number| router.binding(number));
    lines.push(format!("{}", numbers.count()));
    lines.sort_unstable();
    lines
}

/// Where messages of each key go.
fn ways(router: &Router) -> Vec<Vec<u64>> {
    let mut scratch = Scratch::new(7);
    let keys = (0..MUCH).step_by(10);
    let ways = keys.map(|number| {
        let key = format!("{}", number + 1);
        let headers = FieldTable::from([("n", FieldValue::I64(number as i64))]);
        let mut out = Vec::new();
        let routed = router.route(b"x", &[key.as_bytes()], &headers, &mut scratch, &mut out);
        assert_eq!(routed, Ok(()));
        out.sort_unstable();
        out.into_iter().map(|queue| queue.0).collect()
    });
    ways.collect()
}

/// Bindings that are more than go at once.
const MUCH: usize = 4 * BINDINGS_UNLINKED_AT_ONCE;

#[test]
fn what_has_very_many_bindings_is_gone_before_they_are_unlinked() {
    let kinds = [
        "direct",
        "fanout",
        "topic",
        "headers",
        "x-consistent-hash",
        "x-modulus-hash",
        "x-random",
    ];
    for kind in kinds {
        for names in [&["big"][..], &["wide"], &["big", "wide"], &["wide", "big"]] {
            let remove = |router: &mut Router, is_at_once: bool| {
                let gone = names.iter().map(|name| {
                    let gone = match *name {
                        "big" => router.remove_queue(name),
                        _ => router.remove_exchange(name),
                    };
                    while is_at_once && router.unlink(usize::MAX) {}
                    gone.expect("it was there")
                });
                let gone: Vec<Unbound> = gone.collect();
                gone
            };
            let (mut router, mut other) = (with_much_bound(kind), with_much_bound(kind));
            let gone = remove(&mut router, false);
            assert_eq!(gone, remove(&mut other, true), "{kind} {names:?}");
            let is_idle = |gone: &Unbound| gone.idle_exchanges == ["only".into()];
            assert_eq!(gone.iter().any(is_idle), names.contains(&"big"), "{kind}");
            assert!(router.has_to_unlink() && !other.has_to_unlink());
            let mut parts = 0;
            loop {
                assert_eq!(seen(&router), seen(&other), "{kind} {names:?} {parts}");
                let ways = [&router, &other].map(|router| match kind {
                    // Which one is chance.
                    "x-random" => ways(router)
                        .iter()
                        .map(|way| vec![way.len() as u64])
                        .collect(),
                    _ => ways(router),
                });
                assert_eq!(ways[0], ways[1], "{kind} {names:?} {parts}");
                if !router.unlink(MUCH / 3) {
                    break;
                }
                parts += 1;
            }
            assert!(parts > 1, "{kind} {names:?}");
            // Others of their names begin with nothing.
            assert!(router.add_queue("new", QueueId(9)));
            assert_eq!(router.bindings_to(Destination::Queue("new")).count(), 0);
        }
    }
}

#[test]
fn another_queue_of_the_name_of_one_that_is_gone_has_its_own_bindings() {
    let mut router = with_much_bound("topic");
    router.remove_queue("big").expect("it was there");
    assert!(router.has_to_unlink());
    assert!(router.add_queue("big", QueueId(9)));
    let again = Destination::Queue("big");
    let none = FieldTable::new();
    assert_eq!(router.bind("x", again, b"1", &none), Ok(true));
    while router.unlink(100) {}
    assert_eq!(router.bindings_to(again).count(), 1);
    let mut out = Vec::new();
    let routed = router.route(b"x", &[b"1"], &(), &mut Scratch::new(0), &mut out);
    assert_eq!(routed, Ok(()));
    assert!(
        out.contains(&QueueId(9)) && !out.contains(&QueueId(1)),
        "{out:?}"
    );
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
