//! Lives of groups, one for each seed.

use crate::check::Found;
use crate::world::{Planted, Random, World};
use leveret_replication::{Group, MembershipChange};

/// What may happen in a life besides messages, syncs and ticks.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub size: u32,
    pub steps: usize,
    pub planted: Planted,
    pub has_crashes: bool,
    pub has_cuts: bool,
    /// Members come, go and lose their disks.
    pub has_changes: bool,
}

impl Plan {
    pub fn all(size: u32) -> Self {
        Self {
            size,
            steps: 4_000,
            planted: Planted::Nothing,
            has_crashes: true,
            has_cuts: true,
            has_changes: false,
        }
    }
}

/// One life; all that happened in it as one number, or what was found.
pub fn live(plan: &Plan, seed: u64) -> Result<u64, Found> {
    let mut world = World::new(plan.size, plan.planted);
    world.is_fixed = !plan.has_changes;
    let mut random = Random(seed);
    let mut life = Life {
        random: &mut random,
        plan,
        proposed: 0,
        restarts: 0,
    };
    for _ in 0..plan.steps {
        life.step(&mut world)?;
    }
    if plan.planted == Planted::Nothing || plan.has_changes {
        world.recover()?;
    }
    Ok(world.trace)
}

struct Life<'a> {
    random: &'a mut Random,
    plan: &'a Plan,
    proposed: u32,
    restarts: u32,
}

impl Life<'_> {
    fn step(&mut self, world: &mut World) -> Result<(), Found> {
        let at = self.random.below(world.nodes.len());
        match self.random.below(1_000) {
            0..550 => self.network(world),
            550..700 => {
                let count = 1 + self.random.below(3);
                world.sync(at, count)
            }
            700..750 => (0..world.nodes.len()).try_for_each(|at| world.tick(at)),
            750..850 => world.detect(at),
            850..950 => self.propose(world),
            950..970 => self.compact(world, at),
            970..973 => self.transfer(world),
            973..975 => self.campaign(world, at),
            975..980 if self.plan.has_crashes => self.crash_or_start(world, at),
            980..985 if self.plan.has_cuts => self.cut(world),
            985..1_000 if self.plan.has_changes => self.change(world, at),
            _ => world.sync(at, usize::MAX),
        }
    }

    fn network(&mut self, world: &mut World) -> Result<(), Found> {
        if world.flying.is_empty() {
            return Ok(());
        }
        let which = match self.random.one_in(3) {
            true => self.random.below(world.flying.len()),
            false => 0,
        };
        match self.random.below(40) {
            0 => {
                let lost = world.flying.swap_remove(which);
                world.lose(lost)
            }
            1 => {
                let again = world.flying[which].clone();
                world.flying.push(again);
                world.deliver(which)
            }
            _ => world.deliver(which),
        }
    }

    fn propose(&mut self, world: &mut World) -> Result<(), Found> {
        for leader in world.leaders() {
            self.proposed += 1;
            let data = self.proposed.to_le_bytes();
            world.propose(leader, &data)?;
        }
        Ok(())
    }

    fn compact(&mut self, world: &mut World, at: usize) -> Result<(), Found> {
        let node = &mut world.nodes[at];
        let Some(group) = node.group.as_mut() else {
            return Ok(());
        };
        let index = node.applied.min(node.disk.durable.last());
        if node.disk.durable.mark.index < index
            && group.status().applied >= index
            && let Some(mark) = group.mark(index)
        {
            node.disk.compact(mark, world.checker.state(index));
            group.compacted(index);
        }
        Ok(())
    }

    fn transfer(&mut self, world: &mut World) -> Result<(), Found> {
        for leader in world.leaders() {
            let to = world.nodes[self.random.below(world.nodes.len())].replica;
            // It may be itself, down, or no voter.
            let _ = world.group(leader).transfer_leader(to);
            world.drain(leader)?;
        }
        Ok(())
    }

    fn campaign(&mut self, world: &mut World, at: usize) -> Result<(), Found> {
        if let Some(group) = &mut world.nodes[at].group {
            group.campaign();
        }
        world.drain(at)
    }

    fn crash_or_start(&mut self, world: &mut World, at: usize) -> Result<(), Found> {
        match world.nodes[at].group {
            None => world.start(at),
            Some(_) => {
                let kept = self.random.below(world.nodes[at].disk.waiting() + 1);
                world.crash(at, kept);
                // Restarted before anybody notices, or later.
                if self.random.one_in(2) {
                    world.start(at);
                    self.notice_restart(world, at)?;
                }
            }
        }
        self.restarts += 1;
        world.drain(at)
    }

    /// New connections are made to a node that was restarted.
    fn notice_restart(&mut self, world: &mut World, at: usize) -> Result<(), Found> {
        let restarted = world.nodes[at].id;
        for other in 0..world.nodes.len() {
            if other != at && world.nodes[other].group.is_some() {
                world.group(other).peer_up(restarted);
                world.nodes[other].believes_down.remove(&restarted);
                world.drain(other)?;
            }
        }
        Ok(())
    }

    fn cut(&mut self, world: &mut World) -> Result<(), Found> {
        if !world.cut.is_empty() && !self.random.one_in(4) {
            world.cut.clear();
            return Ok(());
        }
        let ids: Vec<_> = world.nodes.iter().map(|node| node.id).collect();
        let one = ids[self.random.below(ids.len())];
        let is_one_way = self.random.one_in(3);
        let alone = self.random.one_in(2);
        for other in ids {
            if other != one && (alone || self.random.one_in(2)) {
                world.cut.insert((one, other));
                if !is_one_way {
                    world.cut.insert((other, one));
                }
            }
        }
        Ok(())
    }

    /// What a cluster's reconciliation does, and what makes it necessary.
    fn change(&mut self, world: &mut World, at: usize) -> Result<(), Found> {
        if self.random.one_in(10) && self.may_wipe(world, at) {
            world.wipe(at);
            return Ok(());
        }
        for leader in world.leaders() {
            let change = self.next_change(world, leader);
            if let Some(change) = change {
                // Another may be under way.
                let _ = world.group(leader).propose_membership(&change);
                world.drain(leader)?;
            }
        }
        Ok(())
    }

    /// A group outlives the loss of a disk when a majority of those that count have what was
    /// committed without it.
    fn may_wipe(&self, world: &World, at: usize) -> bool {
        let wiped = world.nodes[at].replica;
        let [leader] = world.leaders()[..] else {
            return false;
        };
        let Some(group) = world.nodes[leader].group.as_ref() else {
            return false;
        };
        let applied = world.checker.last_applied();
        let has_all = |replica| {
            replica != wiped
                && world
                    .nodes
                    .iter()
                    .any(|node| node.replica == replica && node.disk.durable.last() >= applied)
        };
        let is_newest = |node: &crate::world::Node| {
            node.group
                .as_ref()
                .is_none_or(|other| other.term() <= group.term())
        };
        leader != at
            && group.commit() == group.last_index()
            && self.plan.planted != Planted::ReusesReplicas
            && world.nodes.iter().all(is_newest)
            && group.membership().has_majority(has_all)
            && world
                .nodes
                .iter()
                .all(|node| group.membership().contains(node.replica))
            || self.plan.planted == Planted::ReusesReplicas && leader != at
    }

    fn next_change(&mut self, world: &World, leader: usize) -> Option<MembershipChange> {
        let group: &Group = world.nodes[leader].group.as_ref()?;
        let membership = group.membership();
        let current = |replica| world.nodes.iter().any(|node| node.replica == replica);
        let gone = membership
            .members()
            .into_iter()
            .find(|member| !current(*member));
        if let Some(learner) = group.promotable_learners().next() {
            return Some(match gone.filter(|gone| membership.is_voter(*gone)) {
                Some(gone) => MembershipChange::replace(gone, learner),
                None => MembershipChange::promote(learner),
            });
        }
        let mut replicas = world.nodes.iter().map(|node| node.replica);
        if let Some(new) = replicas.find(|replica| !membership.contains(*replica)) {
            return Some(MembershipChange::add(new));
        }
        if gone.is_some() {
            return gone.map(MembershipChange::remove);
        }
        let is_small = membership.voters.len() <= 2;
        let one = world.nodes[self.random.below(world.nodes.len())].replica;
        (gone.is_none() && !is_small && self.random.one_in(4))
            .then(|| MembershipChange::remove(one))
    }
}

fn lives(plan: Plan, seeds: std::ops::Range<u64>) {
    for seed in seeds {
        if let Err(found) = live(&plan, seed) {
            panic!("seed {seed} of {plan:?}: {found}");
        }
    }
}

#[test]
fn three_members_keep_every_promise() {
    lives(Plan::all(3), 0..300);
}

#[test]
fn five_members_keep_every_promise() {
    lives(Plan::all(5), 0..150);
}

#[test]
fn members_come_go_and_lose_their_disks() {
    let plan = Plan {
        has_changes: true,
        ..Plan::all(4)
    };
    lives(plan, 0..300);
}

#[test]
fn one_seed_is_one_life() {
    for seed in 0..10 {
        let plan = Plan::all(3);
        assert_eq!(live(&plan, seed), live(&plan, seed));
    }
}

#[test]
fn planted_bugs_are_found() {
    for planted in [
        Planted::AcknowledgesEarly,
        Planted::ForgetsVotes,
        Planted::KeepsSuffixes,
        Planted::ReusesReplicas,
        Planted::AppliesEarly,
    ] {
        let plan = Plan {
            planted,
            has_changes: planted == Planted::ReusesReplicas,
            ..Plan::all(3)
        };
        let is_found = |seed| {
            let lived = std::panic::catch_unwind(|| live(&plan, seed));
            !matches!(lived, Ok(Ok(_)))
        };
        let found = (0..500).find(|seed| is_found(*seed));
        let found = found.unwrap_or_else(|| panic!("{planted:?} is not found"));
        println!("{planted:?} is found with seed {found}");
    }
}
