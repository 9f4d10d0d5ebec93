//! Random faults under a random load, by seed: what was confirmed is not lost, what was settled
//! while all was well does not come back, nothing is there twice, and in the end every queue
//! drains.

use crate::client;
use crate::world::World;
use leveret_sim::Random;
use leveret_types::NodeId;
use std::collections::{BTreeMap, BTreeSet};

const SEEDS: u64 = 60;
const STEPS: usize = 250;
/// Two queues that are published to, and those that are consumed.
type Queues = [(&'static str, &'static str); 2];
const QUEUES: Queues = [("q0", "q0"), ("q1", "q1")];
/// Streams, and their views.
const VIEWS: Queues = [("s0", "v0"), ("s1", "v1")];

/// What a publisher was told so far.
#[derive(Default)]
struct Publisher {
    /// Its publishes without an answer, by number.
    open: BTreeMap<u64, String>,
    issued: u64,
}

/// What a consumer holds, by delivery tag.
#[derive(Default)]
struct Consumer {
    held: BTreeMap<u64, String>,
}

struct Run {
    world: World,
    random: Random,
    publishers: BTreeMap<String, Publisher>,
    consumers: BTreeMap<String, Consumer>,
    confirmed: BTreeSet<String>,
    published: u64,
    /// To whom a message was delivered last: who had it before may have lost it with the way to the
    /// leader, and settles nothing then.
    subscription: BTreeMap<String, (String, u64)>,
    /// Settled by its subscription, and at rest since then while all was well.
    settled: BTreeSet<String>,
    settling: BTreeSet<String>,
    down: BTreeSet<NodeId>,
    stalled: BTreeSet<NodeId>,
    is_cut: bool,
    log: Vec<String>,
    queues: Queues,
}

impl Run {
    fn new(seed: u64, queues: Queues) -> Self {
        let mut run = Self {
            queues,
            world: World::new(3),
            random: Random::new(seed),
            publishers: BTreeMap::new(),
            consumers: BTreeMap::new(),
            confirmed: BTreeSet::new(),
            published: 0,
            subscription: BTreeMap::new(),
            settled: BTreeSet::new(),
            settling: BTreeSet::new(),
            down: BTreeSet::new(),
            stalled: BTreeSet::new(),
            is_cut: false,
            log: Vec::new(),
        };
        run.world.connect("declarer", NodeId(1));
        for (published, consumed) in queues {
            let source = format!("x-stream-source={published}");
            let mut words = vec!["declare", consumed, "quorum", "x-delivery-limit=-1"];
            if published != consumed {
                let stream = ["declare", published, "x-queue-type=stream"];
                run.world.send("declarer", client::say(&stream));
                run.rest();
                words.push(&source);
            }
            run.world.send("declarer", client::say(&words));
            run.rest();
        }
        run.world.drop_client("declarer");
        run.world.pass(1_000);
        run
    }

    fn node(&mut self) -> NodeId {
        NodeId(1 + self.random.below(3) as u32)
    }

    fn is_well(&self) -> bool {
        self.down.is_empty() && self.stalled.is_empty() && !self.is_cut
    }

    fn rest(&mut self) {
        self.world.rest();
        self.hear();
    }

    fn pass(&mut self, milliseconds: u64) {
        self.world.pass(milliseconds);
        self.hear();
        if self.is_well() && milliseconds >= 1_000 {
            self.settled.append(&mut self.settling);
        }
    }

    /// Takes note of what clients have heard.
    fn hear(&mut self) {
        let names: Vec<String> = self.world.clients.keys().cloned().collect();
        for name in names {
            let client = self.world.clients.get_mut(&name).expect("it is there");
            for heard in std::mem::take(&mut client.heard) {
                self.log.push(format!("{name} < {heard}"));
                let words: Vec<&str> = heard.split_whitespace().collect();
                match words[..] {
                    ["ack" | "nack", number] => self.answered(&name, words[0], number),
                    ["deliver", tag, .., body] => {
                        assert!(
                            !self.settled.contains(body),
                            "{body} was settled and comes again\n{}",
                            self.log.join("\n")
                        );
                        let tag = tag.parse().expect("a tag");
                        let consumer = self.consumers.entry(name.clone()).or_default();
                        consumer.held.insert(tag, body.to_owned());
                        let subscription = (name.clone(), tag);
                        self.subscription.insert(body.to_owned(), subscription);
                    }
                    ["closed" | "close", ..] => {
                        self.world.drop_client(&name);
                        self.forget(&name);
                    }
                    _ => {}
                }
            }
        }
    }

    fn answered(&mut self, name: &str, verb: &str, number: &str) {
        let Some(publisher) = self.publishers.get_mut(name) else {
            return;
        };
        let last: u64 = number.trim_end_matches('*').parse().expect("a number");
        let first = if number.ends_with('*') { 0 } else { last };
        let answered: Vec<u64> = publisher
            .open
            .range(first..=last)
            .map(|(n, _)| *n)
            .collect();
        for number in answered {
            let id = publisher.open.remove(&number).expect("looked at above");
            if verb == "ack" {
                self.confirmed.insert(id);
            }
        }
    }

    fn forget(&mut self, name: &str) {
        self.publishers.remove(name);
        self.consumers.remove(name);
    }

    fn step(&mut self) {
        match self.random.below(100) {
            0..40 => self.publish(),
            40..60 => self.settle(),
            60..70 => {
                let milliseconds = self.random.below(400);
                self.log.push(format!("run {milliseconds}"));
                self.pass(milliseconds);
            }
            70..76 => self.consume(),
            76..79 => self.drop_one(),
            79..82 => self.kill(),
            82..87 => self.start(),
            87..89 => {
                let node = self.node();
                self.log.push(format!("isolate {node}"));
                self.is_cut = true;
                self.world.isolate(node);
            }
            89..93 => self.heal(),
            93..95 => {
                let (a, b) = (self.node(), self.node());
                let up = |node| !self.down.contains(&node);
                if a != b && up(a) && up(b) && !self.is_cut {
                    self.log.push(format!("blink {a} {b}"));
                    self.settling.clear();
                    self.world.blink(a, b);
                }
            }
            95..97 => {
                let node = self.node();
                self.log.push(format!("stall {node}"));
                self.stalled.insert(node);
                self.world.syncing.remove(&node);
            }
            _ => self.unstall(),
        }
        self.rest();
        if !self.is_well() {
            self.settling.clear();
        }
    }

    fn publish(&mut self) {
        let node = self.node();
        if self.down.contains(&node) {
            return;
        }
        let name = format!("p{node}");
        if !self.world.clients.contains_key(&name) {
            self.world.connect(&name, node);
            self.rest();
            self.world.send(&name, client::say(&["confirm"]));
            self.publishers.insert(name.clone(), Publisher::default());
        }
        let (queue, _) = self.queues[self.random.below(2) as usize];
        for _ in 0..1 + self.random.below(4) {
            self.published += 1;
            let id = format!("{queue}-{}", self.published);
            self.log.push(format!("{name} publish {id}"));
            let Some(publisher) = self.publishers.get_mut(&name) else {
                return;
            };
            publisher.issued += 1;
            publisher.open.insert(publisher.issued, id.clone());
            self.world
                .send(&name, client::say(&["publish", queue, &id]));
        }
    }

    fn consume(&mut self) {
        let node = self.node();
        let queue = self.random.below(2) as usize;
        let name = format!("c{node}{queue}");
        if self.down.contains(&node) || self.world.clients.contains_key(&name) {
            return;
        }
        let (_, queue) = self.queues[queue];
        self.log.push(format!("{name} consume {queue}"));
        self.world.connect(&name, node);
        self.rest();
        self.world.send(&name, client::say(&["qos", "3"]));
        self.world
            .send(&name, client::say(&["consume", queue, "t"]));
    }

    fn settle(&mut self) {
        let holding: Vec<String> = self
            .consumers
            .iter()
            .filter(|(name, c)| !c.held.is_empty() && self.world.clients.contains_key(*name))
            .map(|(name, _)| name.clone())
            .collect();
        if holding.is_empty() {
            return;
        }
        let name = &holding[self.random.below(holding.len() as u64) as usize];
        let Some(consumer) = self.consumers.get_mut(name) else {
            return;
        };
        let at = self.random.below(consumer.held.len() as u64) as usize;
        let Some((&tag, _)) = consumer.held.iter().nth(at) else {
            return;
        };
        let body = consumer.held.remove(&tag).expect("it is held");
        let holds = self.subscription.get(&body) == Some(&(name.clone(), tag));
        let tag = tag.to_string();
        let words = match self.random.below(4) {
            0 => vec!["reject", &tag, "requeue"],
            1 => vec!["nack", &tag, "requeue"],
            _ => {
                if holds {
                    self.settling.insert(body.clone());
                }
                vec!["ack", &tag]
            }
        };
        self.log.push(format!("{name} {} {body}", words.join(" ")));
        self.world.send(name, client::say(&words));
    }

    fn drop_one(&mut self) {
        let names: Vec<String> = self.world.clients.keys().cloned().collect();
        if !names.is_empty() {
            let name = &names[self.random.below(names.len() as u64) as usize];
            self.log.push(format!("drop {name}"));
            // What it settled just now may be lost with its node, and come again.
            self.world.drop_client(name);
            self.forget(name);
        }
    }

    fn kill(&mut self) {
        let node = self.node();
        if self.down.len() >= 2 || !self.down.insert(node) {
            return;
        }
        self.log.push(format!("kill {node}"));
        self.world.kill(node);
        let gone = |name: &String| !self.world.clients.contains_key(name);
        self.publishers.retain(|name, _| !gone(name));
        self.consumers.retain(|name, _| !gone(name));
        // What was settled there and not at rest may come again.
        self.settling.clear();
    }

    fn start(&mut self) {
        if let Some(node) = self.down.pop_first() {
            self.log.push(format!("start {node}"));
            self.stalled.remove(&node);
            self.world.start(node);
        }
    }

    fn heal(&mut self) {
        self.log.push("heal".to_owned());
        self.is_cut = false;
        self.world.heal();
    }

    fn unstall(&mut self) {
        self.log.push("unstall".to_owned());
        for node in std::mem::take(&mut self.stalled) {
            self.world.syncing.insert(node);
        }
    }

    /// All is well again: everything must come to its end.
    fn finish(&mut self) {
        self.heal();
        self.unstall();
        while !self.down.is_empty() {
            self.start();
        }
        self.log.push("finish".to_owned());
        self.pass(10_000);
        for (name, publisher) in &self.publishers {
            let open = &publisher.open;
            assert!(
                open.is_empty(),
                "{name} waits for {open:?}\n{}",
                self.log.join("\n")
            );
        }
        let names: Vec<String> = self.world.clients.keys().cloned().collect();
        for name in names {
            self.world.drop_client(&name);
        }
        self.pass(1_000);
        self.consumers.clear();
        let mut drained = BTreeSet::new();
        for (number, (source, queue)) in self.queues.into_iter().enumerate() {
            let name = format!("d{number}");
            self.world.connect(&name, NodeId(1 + number as u32));
            self.rest();
            self.world
                .send(&name, client::say(&["consume", queue, "t"]));
            self.pass(1_000);
            let consumer = self.consumers.remove(&name).unwrap_or_default();
            for body in consumer.held.into_values() {
                assert!(body.starts_with(source), "{body} in {queue}");
                assert!(
                    drained.insert(body.clone()),
                    "{body} is there twice\n{}",
                    self.log.join("\n")
                );
            }
        }
        let acknowledged = |id: &String| self.settled.contains(id) || self.was_acked(id);
        for id in &self.confirmed {
            assert!(
                drained.contains(id) || acknowledged(id),
                "{id} was confirmed and is lost\n{}",
                self.log.join("\n")
            );
        }
    }

    /// Whether a client ever acknowledged it: then it may be gone.
    fn was_acked(&self, id: &str) -> bool {
        self.log.iter().any(|line| {
            line.ends_with(&format!(" {id}")) && line.split_whitespace().nth(1) == Some("ack")
        })
    }
}

#[test]
fn random_faults_lose_nothing_that_was_confirmed_and_double_nothing() {
    run_all(QUEUES);
}

#[test]
fn random_faults_pass_no_message_of_a_view_over_and_bring_none_again() {
    run_all(VIEWS);
}

fn run_all(queues: Queues) {
    let first = std::env::var("SEED")
        .ok()
        .and_then(|seed| seed.parse().ok());
    let seeds = first.map_or(1..SEEDS + 1, |seed: u64| seed..seed + 1);
    for seed in seeds {
        let result = std::panic::catch_unwind(|| {
            let mut run = Run::new(seed, queues);
            for _ in 0..STEPS {
                run.step();
            }
            run.finish();
        });
        if let Err(panic) = result {
            eprintln!("seed {seed} (again: SEED={seed})");
            std::panic::resume_unwind(panic);
        }
    }
}
