//! The node's code in a cluster, under virtual time: real shards, queues, groups, proxies, sessions
//! and stores; simulated disks, connections, clocks and clients.
//!
//! A life has two phases. In the first, whatever can go wrong does: processes are killed at calls
//! to their disks, power is cut (each unsynced sector is kept, lost or garbled), disks stall,
//! connections break, directions are cut, clients come and go. In the second, everything works
//! again, everybody must be answered, and all that was confirmed must be found, once.
//!
//! Checked at every step: one leader a term; no message at two consumers; none after its
//! acknowledgement was durable. At the end: nothing that was confirmed is lost, all queues are
//! empty from every node's view.
//!
//! Invariant: the same seed gives the same life, to the byte.

mod client;
mod ledger;
pub mod node;
mod world;

use crate::Random;
use leveret_types::NodeId;
use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use world::{Part, World};

/// A bug that is put in on purpose: what the checks must find.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Planted {
    /// None.
    #[default]
    Nothing,
    /// Disks say that they have synced and have not: appends are acknowledged, and publishes
    /// confirmed, before a majority has them.
    ConfirmsEarly,
    /// A disk goes back to what it was: terms, votes and acknowledged entries are forgotten.
    ForgetsVotes,
    /// The end of the log has rotted, and is taken for never written.
    TruncatesOnRot,
    /// Every start of a node is the same to the queues' leaders: a new operation is taken for one
    /// that was seen.
    ForgetsOrigins,
}

impl Planted {
    /// All bugs.
    pub const ALL: [Self; 4] = [
        Self::ConfirmsEarly,
        Self::ForgetsVotes,
        Self::TruncatesOnRot,
        Self::ForgetsOrigins,
    ];
}

/// How a life is lived.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Nodes.
    pub nodes: u32,
    /// Quorum queues.
    pub queues: usize,
    /// Things that happen in the first phase.
    pub steps: usize,
    /// Whether connections break and directions are cut between nodes that live.
    pub has_cuts: bool,
    /// What is wrong on purpose.
    pub planted: Planted,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            nodes: 3,
            queues: 2,
            steps: 1_500,
            has_cuts: true,
            planted: Planted::Nothing,
        }
    }
}

/// A life that kept every promise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lived {
    /// All that was said, in one number.
    pub trace: u64,
    /// Messages confirmed.
    pub confirmed: u64,
    /// Messages delivered.
    pub delivered: u64,
    /// Processes that ended.
    pub crashes: u64,
}

impl Lived {
    /// Counts another life.
    pub fn add(&mut self, other: &Self) {
        self.trace = self.trace.rotate_left(1) ^ other.trace;
        self.confirmed += other.confirmed;
        self.delivered += other.delivered;
        self.crashes += other.crashes;
    }
}

impl fmt::Display for Lived {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} confirmed, {} delivered, {} crashes",
            self.confirmed, self.delivered, self.crashes
        )
    }
}

/// A broken promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// In which life.
    pub seed: u64,
    /// What was found.
    pub what: String,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "seed {}: {}\nsee it again: cargo run --release -p leveret-sim -- cluster --seeds 1 --from {}",
            self.seed, self.what, self.seed
        )
    }
}

/// Lives the life of a seed.
///
/// # Errors
/// What it found: a broken promise, or a panic of the node's code.
pub fn live(seed: u64, plan: &Plan) -> Result<Lived, Broken> {
    let lived = catch_unwind(AssertUnwindSafe(|| Life::new(seed, plan)?.live()));
    let what = match lived {
        Ok(Ok(lived)) => return Ok(lived),
        Ok(Err(what)) => what,
        Err(panic) => match panic.downcast::<String>() {
            Ok(text) => format!("a panic: {text}"),
            Err(_) => "a panic".to_owned(),
        },
    };
    Err(Broken { seed, what })
}

struct Life<'a> {
    random: Random,
    plan: &'a Plan,
    world: World,
    crashes: u64,
}

impl<'a> Life<'a> {
    fn new(seed: u64, plan: &'a Plan) -> Result<Self, String> {
        let mut random = Random::new(seed);
        let world = World::new(plan.nodes, plan.queues, plan.planted, &mut random)?;
        Ok(Self {
            random,
            plan,
            world,
            crashes: 0,
        })
    }

    fn live(mut self) -> Result<Lived, String> {
        for _ in 0..self.plan.steps {
            self.step()?;
        }
        self.world.calm()?;
        self.world.drain()?;
        Ok(Lived {
            trace: self.world.trace,
            confirmed: self.world.ledger.confirmed_count(),
            delivered: self.world.ledger.deliveries,
            crashes: self.crashes,
        })
    }

    fn step(&mut self) -> Result<(), String> {
        let node = self.node();
        match self.random.below(1_000) {
            0..280 => self.deliver(),
            280..500 => {
                self.world.work(node)?;
            }
            500..620 => {
                self.world.sync(node, &mut self.random);
            }
            620..720 => {
                let passed = 1 + self.random.below(30);
                self.world.pass(passed);
            }
            720..800 => self.publish(),
            800..890 => self.answer(),
            890..930 => {
                let other = self.node();
                self.world.detect(node, other);
            }
            930..960 => self.come_or_go(),
            960..966 => self.crash_or_start(node)?,
            966..972 if self.plan.has_cuts => self.cut(node),
            972..978 if self.plan.has_cuts => {
                let other = self.node();
                self.world.blink(node, other);
            }
            978..982 => self.stall(node),
            982..984 => self.world.calm()?,
            984..990 => self.world.remember(node),
            990..992 => self.lights_out()?,
            _ => self.world.connect_all(),
        }
        Ok(())
    }

    fn node(&mut self) -> NodeId {
        NodeId(1 + self.random.below(u64::from(self.plan.nodes)) as u32)
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> Option<T> {
        let which = self.random.below(all.len().max(1) as u64) as usize;
        all.get(which).copied()
    }

    fn deliver(&mut self) {
        let directions = self.world.directions();
        if let Some((from, to)) = self.one_of(&directions) {
            for _ in 0..=self.random.below(3) {
                self.world.deliver(from, to);
            }
        }
    }

    /// The clients that do one thing or the other.
    fn people(&self, is_publisher: bool) -> Vec<u64> {
        let people = self.world.people.iter();
        let wanted = people.filter(|(_, person)| match person.part {
            Part::Publisher { .. } => is_publisher,
            Part::Consumer { .. } => !is_publisher,
            Part::Asker { .. } => false,
        });
        wanted.map(|(id, _)| *id).collect()
    }

    fn publish(&mut self) {
        let publishers = self.people(true);
        if let Some(publisher) = self.one_of(&publishers) {
            for _ in 0..=self.random.below(4) {
                let bytes = match self.random.below(20) {
                    0 => self.random.below(60_000),
                    _ => self.random.below(200),
                };
                self.world.publish(publisher, bytes as usize);
            }
        }
    }

    fn answer(&mut self) {
        let consumers = self.people(false);
        if let Some(consumer) = self.one_of(&consumers) {
            let which = self.random.below(4) as usize;
            let is_acknowledged = self.random.below(8) != 0;
            self.world.answer(consumer, which, is_acknowledged);
        }
    }

    fn come_or_go(&mut self) {
        let people: Vec<u64> = self.world.people.keys().copied().collect();
        if people.len() >= 6 && self.random.below(3) == 0 {
            if let Some(one) = self.one_of(&people) {
                self.world.leave(one);
            }
        } else if people.len() < 10 {
            let queue = self.random.below(self.plan.queues as u64) as usize;
            let part = match self.random.below(2) {
                0 => Part::Publisher {
                    sent: 0,
                    unconfirmed: BTreeMap::new(),
                },
                _ => Part::Consumer {
                    held: BTreeMap::new(),
                },
            };
            let node = self.node();
            if self.world.is_up(node) {
                self.world.come(node, queue, part);
            }
        }
    }

    fn crash_or_start(&mut self, node: NodeId) -> Result<(), String> {
        if !self.world.is_up(node) {
            return self.world.start(node);
        }
        self.crashes += 1;
        match self.random.below(3) {
            0 => {
                let calls = self.random.below(4);
                self.world.arm(node, calls);
            }
            way => self.world.crash(node, &mut self.random, way == 1),
        }
        Ok(())
    }

    /// The power of all machines goes at once.
    fn lights_out(&mut self) -> Result<(), String> {
        for node in self.world.ids() {
            if self.world.is_up(node) {
                self.crashes += 1;
                self.world.crash(node, &mut self.random, true);
            }
        }
        for node in self.world.ids() {
            self.world.start(node)?;
        }
        Ok(())
    }

    /// Directions are cut between a node and the others, or work again.
    fn cut(&mut self, node: NodeId) {
        if !self.world.cut.is_empty() && self.random.below(4) != 0 {
            self.world.cut.clear();
            return;
        }
        let (inwards, outwards) = match self.random.below(4) {
            0 => (true, false),
            1 => (false, true),
            _ => (true, true),
        };
        let alone = self.random.below(2) == 0;
        for other in self.world.ids() {
            if other != node && (alone || self.random.below(2) == 0) {
                if inwards {
                    self.world.cut.insert((other, node));
                }
                if outwards {
                    self.world.cut.insert((node, other));
                }
            }
        }
    }

    /// A disk stops writing for a while, or goes on.
    fn stall(&mut self, node: NodeId) {
        if let Some(host) = self.world.hosts.get_mut(&node) {
            host.is_stalled = !host.is_stalled;
        }
    }
}
