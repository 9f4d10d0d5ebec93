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

#[test]
fn values_out_of_bounds_are_named() {
    let cases = [
        ("queues = 65535", None),
        ("queues = 65536", Some("queues is 65536")),
        ("queues = 0", Some("queues is 0")),
        ("publishers = 65536", Some("publishers is 65536")),
        ("size = 536870912", None),
        ("size = 536870913", Some("size is 536870913")),
        ("size = { min = 2, max = 1 }", Some("size.min is 2")),
        ("rate = -1.0", Some("rate is -1")),
        (
            "rate = { burst = 1, every_s = 0.0 }",
            Some("rate.every_s is 0"),
        ),
        ("ack = { every = 0 }", Some("ack.every is 0")),
        (
            "confirm_window = 16000001",
            Some("confirm_window is 16000001"),
        ),
        ("colour = 1", Some("unknown field `colour`")),
    ];
    for (line, wrong) in cases {
        let found = Spec::parse(&format!("name = \"x\"\n[[load]]\n{line}\n"));
        match wrong {
            None => assert!(found.is_ok(), "{line}: {found:?}"),
            Some(text) => {
                let error = found.unwrap_err().to_string();
                assert!(error.contains(text), "{line}: {error}");
            }
        }
    }
    assert!(Spec::parse("name = \"x\"\nload = []\n").is_err());
}
