//! A follower whose answer a majority does without.

use super::*;
use leveret_storage::Urgency;

impl World {
    /// A queue that is led and quiet: its leader, the follower whose answer is needed, and the one
    /// that is spare.
    fn quiet(seed: u64) -> (Self, [usize; 3]) {
        let mut world = Self::new(seed, 3, spec(3));
        world.rest(100);
        let leader = world.leader().expect("it is led");
        (world, [leader, (leader + 1) % 3, (leader + 2) % 3])
    }

    /// Publishes at the leader, and lets it send the entry.
    fn send_entry(&mut self, leader: usize) {
        self.publish(leader);
        self.sync(leader);
    }

    fn urgency(&self, at: usize) -> Urgency {
        let running = self.nodes[at].running.as_ref().expect("it runs");
        running.shard.logs.urgency()
    }

    /// Delivers all that is on a way; answers whether each frame might have waited for others.
    fn deliver_way(&mut self, way: (usize, usize)) -> Vec<bool> {
        let frames = self.ways.get(&way).into_iter().flatten();
        let may_wait: Vec<bool> = frames.map(|frame| frame.may_wait).collect();
        may_wait.iter().for_each(|_| self.deliver(way));
        may_wait
    }
}

#[test]
fn a_follower_whose_answer_is_not_needed_lets_what_is_rare_gather() {
    let (mut world, [leader, needed, spare]) = World::quiet(1);
    world.send_entry(leader);
    assert_eq!(world.deliver_way((leader, needed)), [false]);
    assert_eq!(world.deliver_way((leader, spare)), [true]);
    assert_eq!(world.urgency(needed), Urgency::Awaited);
    assert_eq!(world.urgency(spare), Urgency::Lazy);
    world.sync(needed);
    assert_eq!(world.deliver_way((needed, leader)), [false]);
    assert!(world.ledger.confirmed.contains(&0), "a majority has it");
    world.sync(spare);
    assert_eq!(world.deliver_way((spare, leader)), [true], "its answer");
    world.heal_and_drain();
    world.check();
}

#[test]
fn an_entry_is_committed_with_the_spare_follower_if_the_other_one_says_nothing() {
    let (mut world, [leader, _, spare]) = World::quiet(2);
    world.send_entry(leader);
    world.deliver_way((leader, spare));
    world.sync(spare);
    world.deliver_way((spare, leader));
    assert!(world.ledger.confirmed.contains(&0));
}

#[test]
fn entries_that_follow_each_other_do_not_gather() {
    let (mut world, [leader, _, spare]) = World::quiet(3);
    for is_first in [true, false] {
        world.send_entry(leader);
        assert_eq!(world.deliver_way((leader, spare)), [is_first]);
    }
    assert_eq!(world.urgency(spare), Urgency::Awaited);
}

#[test]
fn nobody_is_spare_while_another_follower_is_down() {
    let (mut world, [leader, needed, spare]) = World::quiet(4);
    world.crash(needed);
    world.rest(5);
    world.send_entry(leader);
    assert!(!world.deliver_way((leader, spare)).contains(&true));
    assert_eq!(world.urgency(spare), Urgency::Awaited);
}

#[test]
fn an_entry_of_many_messages_does_not_gather() {
    let (mut world, [leader, _, spare]) = World::quiet(5);
    for _ in 0..17 {
        world.publish(leader);
    }
    world.sync(leader);
    assert_eq!(world.deliver_way((leader, spare)), [false]);
    assert_eq!(world.urgency(spare), Urgency::Awaited);
}
