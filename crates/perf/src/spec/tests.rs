//! Specifications as texts, and what is wrong with them.

use super::*;

#[test]
fn a_specification_reads_back_as_it_was_written() {
    let text = r#"
        name = "two-loads"
        duration_s = 30.0
        [tls]
        insecure = true
        [broker]
        nodes = 3
        model = "hdd:1"
        [[load]]
        name = "quorum"
        queue_type = "quorum"
        size = { min = 16, max = 4000 }
        rate = { from = 10.0, to = 100.0, over_s = 5.0 }
        queue_arguments = { x-max-length = 5 }
        ack = { every = 10 }
        [[load]]
        rate = 10.0
        [[load]]
        rate = { burst = 100, every_s = 1.0 }
        [[load]]
        rate = { steps = [{ rate = 1.0, seconds = 2.0 }] }
        [[phase]]
        name = "grow"
        duration_s = 600.0
        until_backlog = 500000
        consume = false
    "#;
    let spec = Spec::parse(text).unwrap();
    assert_eq!(spec.loads[1].rate, Rate::Fixed(10.0));
    assert_eq!(spec.loads[0].name, "quorum");
    assert_eq!(spec.loads[0].publishers, 1);
    let written = toml::to_string(&spec).unwrap();
    assert_eq!(Spec::parse(&written).unwrap(), spec);
}

#[test]
fn what_is_left_out_has_the_documented_defaults() {
    let spec = Spec::default();
    assert_eq!((spec.duration_s, spec.warm_up_s), (30.0, 2.0));
    let load = &spec.loads[0];
    assert_eq!(load.rate, Rate::Unlimited);
    assert_eq!(load.size, Size::Fixed(16));
    assert_eq!((load.confirm_window, load.prefetch), (0, 0));
    assert!(load.persistent && load.durable && load.verify && !load.ack.automatic);
}

/// What is wrong with a file whose only load says this.
fn wrong(load: &str) -> Option<String> {
    let found = Spec::parse(&format!("name = \"x\"\n[[load]]\n{load}\n"));
    found.err().map(|error| error.to_string())
}

fn check(cases: &[(&str, Option<&str>)]) {
    for (load, expected) in cases {
        match (wrong(load), expected) {
            (found, None) => assert_eq!(found, None, "{load}"),
            (None, Some(_)) => panic!("{load}: nothing is wrong with it"),
            (Some(found), Some(text)) => assert!(found.contains(text), "{load}: {found}"),
        }
    }
}

#[test]
fn values_out_of_bounds_are_named() {
    check(&[
        ("queues = 65535", None),
        ("queues = 65536", Some("queues is 65536")),
        ("queues = 0", Some("queues is 0")),
        ("publishers = 65536", Some("publishers is 65536")),
        ("size = 536870912", None),
        ("size = 536870913", Some("size is 536870913")),
        ("size = { min = 2, max = 1 }", Some("size.min is 2")),
        ("rate = -1.0", Some("rate is -1")),
        ("rate = 1e8", None),
        ("rate = 1.1e8", Some("rate is 110000000")),
        ("rate = nan", Some("rate is NaN")),
        ("rate = { burst = 1, every_s = 0.000001 }", None),
        (
            "rate = { burst = 1, every_s = 0.0 }",
            Some("rate.every_s is 0"),
        ),
        (
            "rate = { burst = 0, every_s = 1.0 }",
            Some("rate.burst is 0"),
        ),
        ("ack = { every = 0 }", Some("ack.every is 0")),
        ("confirm_window = 16000000", None),
        (
            "confirm_window = 16000001",
            Some("confirm_window is 16000001"),
        ),
        ("count = 4294967295", None),
        ("count = 4294967296", Some("count is 4294967296")),
        ("count = 0", Some("count is 0")),
        ("queue_first = 1000000000", None),
        (
            "queue_first = 1000000001",
            Some("queue_first is 1000000001"),
        ),
        ("colour = 1", Some("unknown field `colour`")),
    ]);
    assert!(Spec::parse("name = \"x\"\nload = []\n").is_err());
}

#[test]
fn members_are_bounded_over_all_loads_together() {
    for what in ["publishers", "consumers", "queues"] {
        let two = |more: u32| format!("{what} = 60000\n[[load]]\n{what} = {more}");
        let others: Vec<String> = ["publishers", "consumers"]
            .iter()
            .filter(|other| **other != what)
            .map(|other| format!("{other} = 1"))
            .collect();
        let others = others.join("\n");
        let bounded = format!("{others}\n{}", two(5535));
        assert_eq!(wrong(&bounded), None, "{what}");
        let found = wrong(&format!("{others}\n{}", two(5536))).unwrap();
        assert!(found.contains(&format!("{what} is 65536")), "{found}");
    }
}

#[test]
fn a_shape_that_there_is_not_is_answered_with_those_that_there_are() {
    for size in ["{ min = 1 }", "\"big\"", "{ min = 1, max = 2, step = 1 }"] {
        let found = wrong(&format!("size = {size}")).unwrap();
        assert!(found.contains("{ min = …, max = … }"), "{size}: {found}");
    }
    for rate in ["{ from = 1.0 }", "{ burst = 1, every_s = 1.0, from = 1.0 }"] {
        let found = wrong(&format!("rate = {rate}")).unwrap();
        assert!(
            found.contains("{ burst = …, every_s = … }"),
            "{rate}: {found}"
        );
    }
}

#[test]
fn queues_have_names_that_a_broker_takes() {
    let long = |octets: usize| format!("queue_name = \"{}\"", "q".repeat(octets));
    check(&[
        (&long(255), None),
        (&long(256), Some("255 octets")),
        ("queue_name = \"q-%255d\"", Some("255 octets")),
        ("queue_name = \"\"", Some("1 to 255 octets")),
        (&format!("{}\nqueues = 2", long(254)), Some("255 octets")),
        (
            &format!(
                "queue_name = \"{}%d\"\nqueue_first = 9\nqueues = 2",
                "q".repeat(253)
            ),
            None,
        ),
        (
            &format!(
                "queue_name = \"{}%d%d\"\nqueue_first = 9\nqueues = 2",
                "q".repeat(251)
            ),
            None,
        ),
        (
            &format!(
                "queue_name = \"{}%d%d\"\nqueue_first = 99\nqueues = 2",
                "q".repeat(251)
            ),
            Some("255 octets"),
        ),
        // Too long a pattern is refused before any name is made of it.
        (
            &format!("queue_name = \"{}\"\nqueues = 65535", "%255d".repeat(9_999)),
            Some("255 octets"),
        ),
        ("queue_names = [\"a\", \"b\"]\nqueues = 2", None),
        ("queue_names = [\"a\", \"b\"]", Some("queues is 1")),
        (
            "queue_names = [\"a\", \"a\"]\nqueues = 2",
            Some("names that differ"),
        ),
        (
            "queue_names = [\"a\"]\nqueue_name = \"b\"",
            Some("queue_name is b"),
        ),
    ]);
}

#[test]
fn messages_that_could_reach_no_queue_are_refused() {
    check(&[
        ("routing_key = \"k\"", Some("name an `exchange`")),
        ("routing_key = \"k\"\nqueue_name = \"k\"", None),
        ("routing_key = \"k\"\nexchange = \"direct\"", None),
        ("routing_key = \"k\"\nexchange_type = \"topic\"", None),
        ("predeclared = true", Some("predeclared is true")),
        ("predeclared = true\nqueue_name = \"q\"", None),
        (
            "predeclared = true\nqueue_name = \"q\"\nexchange_type = \"fanout\"",
            Some("predeclared is true"),
        ),
        (
            "predeclared = true\nexchange = \"e\"\nconsumers = 0",
            Some("routing_key is absent"),
        ),
        (
            "predeclared = true\nexchange = \"e\"\nconsumers = 0\nrouting_key = \"k\"",
            None,
        ),
        (
            "predeclared = true\nexchange = \"e\"\nconsumers = 0\nexchange_type = \"fanout\"",
            None,
        ),
        (
            "predeclared = true\nexchange = \"e\"\nconsumers = 0\nqueue_name = \"q\"",
            None,
        ),
    ]);
}

#[test]
fn consumers_are_held_back_only_where_something_holds_them() {
    check(&[
        ("consumer_rate = 0.000001\nprefetch = 1", None),
        (
            "consumer_rate = 0.0000009\nprefetch = 1",
            Some("consumer_rate is 0.0000009"),
        ),
        ("consumer_rate = 1e8\nprefetch = 1", None),
        (
            "consumer_rate = 1.1e8\nprefetch = 1",
            Some("consumer_rate is 110000000"),
        ),
        (
            "consumer_rate = 1e-300\nprefetch = 1",
            Some("consumer_rate is 0.000"),
        ),
        ("consumer_rate = 5.0", Some("prefetch is 0")),
        ("consumer_delay_ms = 5.0", Some("prefetch is 0")),
        (
            "consumer_rate = 5.0\nconsumer_delay_ms = 5.0\nprefetch = 1",
            Some("absent beside `consumer_delay_ms`"),
        ),
        (
            "consumer_rate = 5.0\nprefetch = 1\nack = { automatic = true }",
            Some("ack.automatic is true"),
        ),
        (
            "ack = { automatic = true, delay_ms = 1.0 }",
            Some("ack.automatic is true"),
        ),
    ]);
}

#[test]
fn a_stream_that_is_checked_has_one_consumer_for_each_queue() {
    check(&[
        ("queue_type = \"stream\"", None),
        ("queue_type = \"stream\"\nqueues = 2\nconsumers = 2", None),
        (
            "queue_type = \"stream\"\nconsumers = 2",
            Some("consumers is 2"),
        ),
        (
            "queue_type = \"stream\"\nconsumers = 2\nverify = false",
            None,
        ),
        ("queue_type = \"quorum\"\nconsumers = 2", None),
    ]);
}

#[test]
fn views_have_a_stream_of_the_runs_own_and_each_gets_every_message() {
    let views = "views = true\nqueues = 2\nconsumers = 2";
    let of = |more: &str| format!("{views}\n{more}");
    for (load, error) in [
        (of("queue_type = \"quorum\""), None),
        (of("stream_arguments = { x-flush = \"os\" }"), None),
        (of("queue_type = \"stream\""), Some("queue_type is stream")),
        (of("exchange = \"x\""), Some("exchange is x")),
        (
            of("exchange = \"x\"\nrouting_key = \"k\""),
            Some("exchange is x"),
        ),
        (of("queue_name = \"q\""), Some("queue_name is given")),
        (of("durable = false"), Some("durable is false")),
        (
            "stream_arguments = { x-flush = \"os\" }".to_owned(),
            Some("stream_arguments is 1"),
        ),
    ] {
        check(&[(&load, error)]);
    }
    let spec = Spec::parse(&format!("name = \"v\"\n[[load]]\n{views}\n")).unwrap();
    assert!(spec.loads[0].is_everywhere());
}

/// A file's error for a field that there is not lists those that there are.
#[test]
fn every_field_is_in_the_manual() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/perf.md");
    let manual = std::fs::read_to_string(path).unwrap();
    let part = manual.split("## What a file may say").nth(1).unwrap();
    let part = part.split("\n## ").next().unwrap();
    let words: Vec<&str> = part
        .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .collect();
    for table in [
        "",
        "[[load]]",
        "[[phase]]",
        "[broker]",
        "[tls]",
        "[[load]]\n[load.ack]",
    ] {
        let error = Spec::parse(&format!("{table}\nno_such = 1"))
            .unwrap_err()
            .to_string();
        let fields = error.split("expected").nth(1).unwrap();
        let fields: Vec<&str> = fields.split('`').skip(1).step_by(2).collect();
        assert!(fields.len() > 1, "{table}: {error}");
        for field in fields {
            assert!(words.contains(&field), "{table}: {field}");
        }
    }
}

#[test]
fn streams_are_asked_for_nothing_that_they_do_not_have() {
    let parse = |load: &str| {
        Spec::parse(&format!(
            "name = \"s\"\nprotocol = \"stream\"\n[[load]]\n{load}\n"
        ))
    };
    for load in [
        "size = 16\nqueue_type = \"stream\"",
        "consumers = 3\nverify = false",
        "queues = 3\nconsumers = 3\nchannels_per_connection = 256\nbatch = 65535",
    ] {
        assert!(parse(load).is_ok(), "{load}: {:?}", parse(load));
    }
    for (load, what) in [
        ("size = 15", "size"),
        ("consumers = 2", "consumers"),
        ("exchange = \"x\"", "exchange"),
        ("exchange_type = \"fanout\"", "exchange"),
        ("queue_type = \"quorum\"", "queue_type"),
        ("views = true", "views"),
        ("ack = { every = 5 }", "ack"),
        ("consumer_delay_ms = 1\nprefetch = 1", "consumer_rate"),
        ("batch = 0", "batch"),
        ("batch = 65536", "batch"),
        ("channels_per_connection = 257", "channels_per_connection"),
    ] {
        let error = parse(load).unwrap_err().to_string();
        assert!(error.starts_with(what), "{load}: {error}");
    }
}
