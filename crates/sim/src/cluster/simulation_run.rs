//! The first phase: what happens in a life, one thing after the other.

use super::people::{Answered, Part};
use super::world::World;
use super::{Lived, Plan, client};
use crate::Random;
use leveret_metadata::Command;
use leveret_types::{NodeId, ReplicaId};

pub(super) struct SimulationRun<'a> {
    random: Random,
    plan: &'a Plan,
    world: World,
}

impl<'a> SimulationRun<'a> {
    pub(super) fn new(seed: u64, plan: &'a Plan) -> Result<Self, String> {
        let mut random = Random::new(seed);
        let world = World::new(plan, &mut random)?;
        Ok(Self {
            random,
            plan,
            world,
        })
    }

    pub(super) fn live(mut self) -> Result<Lived, String> {
        for _ in 0..self.plan.steps {
            self.step()?;
        }
        self.world.calm()?;
        self.world.drain()?;
        Ok(Lived {
            trace: self.world.trace,
            confirmed: self.world.ledger.confirmed_count(),
            delivered: self.world.ledger.deliveries,
            crashes: self.world.crashes,
            bad_reads: self.world.bad_reads(),
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
            960..965 => self.crash_or_start(node)?,
            965..970 if self.plan.has_cuts => self.cut(node),
            970..976 if self.plan.has_cuts => {
                let other = self.node();
                match self.random.below(3) {
                    0 => self.world.hang_up(node, other),
                    _ => self.world.blink(node, other),
                }
            }
            976..979 => self.stall(node),
            979..981 => self.world.calm()?,
            981..985 => self.world.remember(node),
            985..986 => self.lights_out()?,
            986..990 => self.world.set_clock(node, &mut self.random),
            990..993 if self.plan.has_losses => self.lose_something(node)?,
            990..993 if self.plan.has_disk_faults => self.disk_fault(node),
            993..996 if self.plan.has_losses => self.operate(node),
            996..998 if self.plan.has_all_queues => self.delete_or_declare(node),
            _ => self.world.connect_all(),
        }
        if self.random.below(100) == 0 {
            self.world.tidy(node, &mut self.random);
        }
        Ok(())
    }

    fn node(&mut self) -> NodeId {
        let all = self.world.all();
        all[self.random.below(all.len() as u64) as usize]
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
            let answered = match self.random.below(8) {
                0 => Answered::GivenBack,
                1 if self.plan.has_view => Answered::Rejected,
                _ => Answered::Acknowledged,
            };
            self.world.answer(consumer, which, answered);
        }
    }

    fn come_or_go(&mut self) {
        let people: Vec<u64> = self.world.people.keys().copied().collect();
        if people.len() >= 6 && self.random.below(3) == 0 {
            if let Some(one) = self.one_of(&people) {
                self.world.leave(one);
            }
        } else if people.len() < 10 {
            let queue = self.random.below(self.world.queues.len() as u64) as usize;
            let part = match self.random.below(2) {
                0 => Part::publisher(),
                _ => Part::consumer(),
            };
            let node = self.node();
            if self.world.is_serving(node) {
                self.world.come(node, queue, part);
            }
        }
    }

    fn crash_or_start(&mut self, node: NodeId) -> Result<(), String> {
        if !self.world.is_up(node) {
            return self.start(node);
        }
        match self.random.below(3) {
            0 => {
                let calls = self.random.below(4);
                self.world.arm(node, calls);
            }
            way => self.world.crash(node, &mut self.random, way == 1),
        }
        Ok(())
    }

    /// Starts a process, which may die of what it does to its disk.
    fn start(&mut self, node: NodeId) -> Result<(), String> {
        let is_gone = |host: &super::world::Host| host.is_gone && !host.is_forgotten;
        if self.world.hosts.get(&node).is_none_or(is_gone) {
            return Ok(());
        }
        if self.random.below(4) == 0 {
            let calls = self.random.below(6);
            self.world.arm(node, calls);
        }
        self.world.start(node)
    }

    /// The power of all machines goes at once.
    fn lights_out(&mut self) -> Result<(), String> {
        for node in self.world.ids() {
            if self.world.is_up(node) {
                self.world.crash(node, &mut self.random, true);
            }
        }
        for node in self.world.ids() {
            self.start(node)?;
        }
        Ok(())
    }

    fn lose_something(&mut self, node: NodeId) -> Result<(), String> {
        match self.random.below(11) {
            0 => self.world.lose_machine(node, &mut self.random),
            1..4 => self.world.corruption(node, &mut self.random)?,
            4 | 5 => self.world.fail(node, &mut self.random),
            6..9 => self.world.fail_reads(node, &mut self.random)?,
            _ => self.world.fill(node, &mut self.random),
        }
        Ok(())
    }

    /// What a disk does that loses nothing: it fills up, or a call fails. Reads go right: where
    /// they do not, an operator replaces the machine, and the stream is on it alone.
    fn disk_fault(&mut self, node: NodeId) {
        match self.random.below(2) {
            0 => self.world.fail(node, &mut self.random),
            _ => self.world.fill(node, &mut self.random),
        }
    }

    /// Operators change who is a member, who leads, who is emptied.
    fn operate(&mut self, at: NodeId) {
        let groups = self.world.groups();
        let Some(queue) = self.one_of(&groups) else {
            return;
        };
        let Some((mut members, incarnation)) = self.world.members(queue) else {
            return;
        };
        let node = self.node();
        let here = members.iter().position(|member| member.node() == node);
        match (self.random.below(5), here) {
            (0, Some(here)) if self.world.is_whole && members.len() > 2 => {
                self.world.is_whole = false;
                members.remove(here);
            }
            (0 | 1, None) => members.push(ReplicaId::new(node, incarnation)),
            (1 | 2, Some(here)) => {
                members.swap(0, here);
                self.world.transfer(at, queue, node);
            }
            (3, _) => return self.world.transfer_catalogue(node),
            _ => {
                let draining = self.random.below(2) == 0;
                let drain = Command::NodeDrain {
                    node: node.0,
                    draining,
                };
                return drop(self.world.ask(at, drain));
            }
        }
        let members = members.iter().map(|member| member.0).collect();
        let (id, size) = (queue.0, None);
        drop(
            self.world
                .ask(at, Command::QueueMembers { id, members, size }),
        );
    }

    /// A queue that comes and goes does so.
    fn delete_or_declare(&mut self, node: NodeId) {
        let passing = self.world.queues.iter().position(|one| one.comes_and_goes);
        let Some(queue) = passing.filter(|_| self.world.is_serving(node)) else {
            return;
        };
        let (name, kind) = {
            let queue = &self.world.queues[queue];
            (queue.name.clone(), queue.kind)
        };
        let asker = self.world.come(node, queue, Part::asker());
        if self.random.below(2) == 0 {
            self.world.ledger.deleting(queue);
            self.world.say(asker, client::delete(&name));
        } else {
            self.world.say(asker, client::declare(&name, kind, false));
        }
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
