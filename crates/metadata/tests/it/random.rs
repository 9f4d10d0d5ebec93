//! Commands at random over few names: whatever is accepted or refused, the log and the snapshot
//! tell the durable content, and the router holds what the catalogue does.

use crate::world::World;
use leveret_metadata::{Catalogue, Command, Config, Definitions, Endpoint};
use leveret_routing::Destination;
use leveret_types::{FieldTable, FieldValue};

struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }

    fn of<'a>(&mut self, words: &[&'a str]) -> &'a str {
        words[self.below(words.len())]
    }
}

fn line(random: &mut Random) -> String {
    let vhost = random.of(&["", "in=v"]);
    let queue = random.of(&["q", "r", "s", "t"]);
    let exchange = random.of(&["x", "y", "z", "amq.topic"]);
    let durable = random.of(&["durable", "durable", ""]);
    match random.below(14) {
        0 => random
            .of(&[
                "vhost v",
                "vhost v default=quorum",
                "vhost v default=",
                "delete-vhost v",
            ])
            .to_owned(),
        1..4 => {
            let more = random.of(&[
                "",
                "auto",
                "exclusive=1",
                "x-message-ttl=5",
                "x-queue-type=quorum",
                "x-max-length=3",
            ]);
            format!("queue {queue} {durable} {more} {vhost}")
        }
        4 => format!(
            "delete-queue {queue} {} {vhost}",
            random.of(&["", "by=1", "by=2"])
        ),
        5 | 6 => {
            let kind = random.of(&["fanout", "direct", "topic", "headers", "x-modulus-hash"]);
            format!(
                "exchange {exchange} {kind} {durable} {} {vhost}",
                random.of(&["auto", "auto", ""])
            )
        }
        7 => format!(
            "delete-exchange {exchange} {} {vhost}",
            random.of(&["if-unused", ""])
        ),
        8..11 => {
            let target = random.of(&["q", "r", "s", "@x", "@y", "@z"]);
            format!(
                "bind {exchange} {target} {} {} {vhost}",
                random.of(&["k", "l.*"]),
                random.of(&["", "x-a=1"])
            )
        }
        11 => {
            let target = random.of(&["q", "r", "s", "@x", "@y", "@z"]);
            format!(
                "unbind {exchange} {target} {} {} {vhost}",
                random.of(&["k", "l.*"]),
                random.of(&["", "x-a=1"])
            )
        }
        12 => {
            let policy = random.of(&[
                "policy p",
                "policy o priority=2",
                "operator-policy p",
                "delete-policy p",
            ]);
            format!(
                "{policy} {} {vhost}",
                random.of(&[
                    "max-length=1",
                    "message-ttl=7 pattern=^q",
                    "expires=9 apply-to=queues"
                ])
            )
        }
        _ => format!(
            "{} {vhost}",
            random.of(&[
                "user u",
                "permit u a b c",
                "forbid u",
                "delete-user u",
                "limit max-queues 3",
                "unlimit"
            ])
        ),
    }
}

/// The router knows the catalogue's exchanges and queues, and no others.
fn verify_routers(catalogue: &Catalogue) {
    for vhost in catalogue.vhosts() {
        for exchange in vhost.exchanges() {
            assert!(
                vhost.router().exchange(exchange.name()).is_some(),
                "{}",
                exchange.name()
            );
        }
        for id in vhost.queue_ids() {
            let queue = catalogue.queue(id).expect("a queue for its id");
            assert_eq!(vhost.router().queue(queue.name().as_bytes()), Some(id));
        }
        for binding in vhost.router().bindings() {
            assert!(vhost.exchange(binding.source).is_some());
            let found = match binding.destination {
                Destination::Queue(name) => vhost.queue_id(name).is_some(),
                Destination::Exchange(name) => vhost.exchange(name).is_some(),
            };
            assert!(found, "{binding:?}");
        }
    }
    let exchanges: usize = catalogue
        .vhosts()
        .map(|vhost| vhost.exchanges().len())
        .sum();
    assert_eq!(catalogue.exchange_count(), exchanges);
    assert_eq!(catalogue.queue_count(), catalogue.queues(None).count());
}

#[test]
fn the_log_tells_the_durable_content() {
    for seed in 1..400_u64 {
        let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let mut world = World::new(Config::default());
        let mut script = String::new();
        for _ in 0..60 {
            let line = line(&mut random);
            script += &line;
            script.push('\n');
            assert!(world.run(&line).is_some(), "{line}");
        }
        verify_routers(&world.catalogue);
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| world.verify()));
        assert!(outcome.is_ok(), "seed {seed}:\n{script}");
    }
}

/// A restart in the middle: what did not survive is gone, and all goes on with the rest.
#[test]
fn a_restart_in_the_middle_changes_nothing_durable() {
    for seed in 1..200_u64 {
        let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let mut world = World::new(Config::default());
        for _ in 0..4 {
            for _ in 0..20 {
                world.run(&line(&mut random));
            }
            let snapshot = world.catalogue.snapshot();
            let restored = Catalogue::restore(Config::default(), &snapshot);
            world.catalogue = restored.expect("a snapshot");
            assert_eq!(world.catalogue.snapshot(), snapshot);
            verify_routers(&world.catalogue);
        }
        world.verify();
    }
}

#[test]
fn bindings_may_be_copied_into_a_snapshot_piece_by_piece_while_all_goes_on() {
    for seed in 1..400_u64 {
        let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let mut world = World::new(Config::default());
        for _ in 0..40 {
            world.run(&line(&mut random));
        }
        let mut begun = world.catalogue.begin_snapshot();
        let before = world.log.len();
        while begun.go_on(&world.catalogue, 1) {
            for _ in 0..random.below(6) {
                world.run(&line(&mut random));
            }
        }
        world.run(&line(&mut random));
        let snapshot = begun.finish().encode();
        let restored = Catalogue::restore(Config::default(), &snapshot);
        let mut restored = restored.expect("a snapshot");
        for command in &world.log[before..] {
            assert_eq!(restored.replay(command), Ok(()), "seed {seed}: {command:?}");
        }
        let durable = world.catalogue.durable_commands();
        assert_eq!(restored.durable_commands(), durable, "seed {seed}");
    }
}

/// A value of any type, with what JSON has no words for among them.
fn value(random: &mut Random) -> FieldValue {
    let inner = FieldTable::from([("a", FieldValue::Void), ("a", FieldValue::I8(-1))]);
    let values = [
        FieldValue::Void,
        FieldValue::Bool(true),
        FieldValue::U8(255),
        FieldValue::I64(i64::MIN),
        FieldValue::F32(f32::NAN),
        FieldValue::F64(f64::INFINITY),
        FieldValue::F64(0.5),
        FieldValue::Decimal {
            scale: 200,
            value: u32::MAX,
        },
        FieldValue::LongString(vec![0, 0xFF, b'"']),
        FieldValue::Bytes(vec![0xFF]),
        FieldValue::Timestamp(u64::MAX),
        FieldValue::Array(vec![FieldValue::Bytes(vec![1]), FieldValue::Void]),
        FieldValue::Table(inner),
    ];
    values[random.below(values.len())].clone()
}

/// A command with names and arguments that nobody would choose, and with parameters that earlier
/// versions let in.
fn odd_command(random: &mut Random) -> Command {
    let name = |random: &mut Random| {
        let long = "é".repeat(127);
        let names = ["\0", "\"\\", "\u{2028}", "a\tb", " ", &long];
        random.of(&names).to_owned()
    };
    let vhost = "/".to_owned();
    let arguments = FieldTable::from([("x-odd", value(random)), ("", value(random))]);
    match random.below(7) {
        0 => Command::QueueDeclare {
            vhost,
            name: name(random),
            durable: true,
            exclusive: None,
            auto_delete: random.below(2) == 0,
            arguments,
            random: [7; 16],
            shards: 2,
            id: None,
        },
        1 => Command::ExchangeDeclare {
            vhost,
            name: name(random),
            kind: random.of(&["headers", "topic", "x-random"]).to_owned(),
            durable: true,
            auto_delete: false,
            internal: random.below(2) == 0,
            arguments,
        },
        2 => Command::Bind {
            vhost,
            source: name(random),
            destination: Endpoint::Queue(name(random)),
            routing_key: vec![0, 0xFF, random.below(255) as u8],
            arguments,
        },
        3 => Command::ParameterSet {
            vhost,
            component: random
                .of(&["policy", "operator_policy", "vhost-limits", "global", "\0"])
                .to_owned(),
            name: name(random),
            value: value(random),
        },
        4 => Command::GlobalParameterSet {
            name: name(random),
            value: value(random),
        },
        5 => Command::PolicySet {
            vhost,
            name: name(random),
            operator: random.below(2) == 0,
            pattern: random.of(&["", "^\0", "[é]"]).to_owned(),
            apply_to: "queues".to_owned(),
            priority: random.below(9) as i64,
            definition: FieldTable::from([("max-length", FieldValue::I64(5))]),
        },
        _ => Command::VhostPut {
            vhost: name(random),
            description: Some(name(random)),
            tags: Some(vec![name(random)]),
            default_queue_type: None,
            protected: Some(true),
            tracing: None,
        },
    }
}

#[test]
fn an_export_can_always_be_imported() {
    for seed in 1..300_u64 {
        let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let mut world = World::new(Config::default());
        let mut done = Vec::new();
        for _ in 0..40 {
            world.run(&line(&mut random));
            let command = odd_command(&mut random);
            // Refused or not: what is kept must go out and come in again.
            let _ = world.catalogue.apply(&command);
            done.push(command);
        }
        let json = serde_json::to_string(&world.catalogue.export(None)).expect("JSON");
        let definitions: Definitions = serde_json::from_str(&json).expect("definitions");
        let empty = World::new(Config::default());
        let commands = definitions.to_commands(&empty.catalogue, None, 2, &mut || [7; 16]);
        if let Err(error) = commands {
            panic!("seed {seed}: {error}\n{json}\n{done:#?}");
        }
    }
}
