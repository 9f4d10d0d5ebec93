//! Commands at random over few names: whatever is accepted or refused, the log and the snapshot
//! tell the durable content, and the router holds what the catalogue does.

mod world;

use leveret_metadata::{Catalogue, Config};
use leveret_routing::Destination;
use world::World;

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
