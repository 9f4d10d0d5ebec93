//! What may wait for others: entries of quiet queues, the answers of followers that a majority does
//! without, settles.

use super::*;
use leveret_storage::Urgency;

const AT_ONCE: (bool, bool) = (true, false);
const SOON: (bool, bool) = (false, true);
const AS_IT_COMES: (bool, bool) = (false, false);

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

    /// Whether a node's log is to be written at once, soon, or as it comes.
    fn written(&self, at: usize) -> (bool, bool) {
        let running = self.nodes[at].running.as_ref().expect("it runs");
        (
            running.shard.wants_write(),
            running.shard.wants_write_soon(),
        )
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
    assert_eq!(world.written(needed), SOON);
    assert_eq!(world.urgency(spare), Urgency::Lazy);
    assert_eq!(world.written(spare), AS_IT_COMES);
    world.sync(needed);
    assert_eq!(world.written(needed), AS_IT_COMES, "that was done");
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
    assert_eq!(world.written(spare), SOON);
}

#[test]
fn of_many_messages_the_first_alone_gathers() {
    let (mut world, [leader, _, spare]) = World::quiet(5);
    for _ in 0..17 {
        world.publish(leader);
    }
    world.sync(leader);
    assert_eq!(world.deliver_way((leader, spare)), [true, false]);
    assert_eq!(world.urgency(spare), Urgency::Awaited);
}

#[test]
fn what_comes_alone_is_sent_before_the_leader_has_written_it() {
    let (mut world, [leader, needed, _]) = World::quiet(6);
    world.publish(leader);
    assert_eq!(world.written(leader), SOON);
    assert_eq!(world.deliver_way((leader, needed)), [false]);
    world.sync(needed);
    world.deliver_way((needed, leader));
    assert!(!world.ledger.confirmed.contains(&0), "one disk has it");
    world.sync(leader);
    assert!(world.ledger.confirmed.contains(&0));
}

#[test]
fn what_follows_an_entry_on_its_way_is_written_at_once() {
    let (mut world, [leader, needed, _]) = World::quiet(7);
    world.publish(leader);
    world.deliver_way((leader, needed));
    world.publish(leader);
    assert_eq!(world.written(leader), AT_ONCE);
    assert!(
        world.deliver_way((leader, needed)).is_empty(),
        "with the write"
    );
    world.sync(leader);
    world.deliver_way((leader, needed));
    assert_eq!(world.written(needed), AT_ONCE, "it does not come alone");
}

#[test]
fn a_publisher_that_waits_for_each_confirm_is_not_held_up() {
    let (mut world, [leader, needed, _]) = World::quiet(8);
    for is_first in [true, false, false] {
        world.publish(leader);
        assert_eq!(world.written(leader), if is_first { SOON } else { AT_ONCE });
        world.sync(leader);
        world.deliver_way((leader, needed));
        world.sync(needed);
        world.deliver_way((needed, leader));
    }
}

/// Whether the frames of a consumer at a follower's node might have waited, that tell of two
/// settles, one right after the other, where it held no more than these messages.
fn settled(prefetch: u32, outcome: Outcome) -> [Vec<bool>; 2] {
    let (mut world, [leader, follower, _]) = World::quiet(9);
    world.consume(follower, prefetch);
    world.rest(5);
    for _ in 0..2 {
        world.publish(leader);
        world.rest(5);
    }
    let frames = [(); 2].map(|()| {
        assert!(world.settle(follower, outcome));
        world.deliver_way((follower, leader))
    });
    world.heal_and_drain();
    world.check();
    frames
}

#[test]
fn a_settle_waits_for_other_frames_while_its_consumer_may_get_more_without_it() {
    for (prefetch, may_wait) in [
        (0, true),
        (1_000, true),
        (12, true),
        (11, false),
        (2, false),
    ] {
        let frames = settled(prefetch, Outcome::Accept);
        assert_eq!(frames[0], [may_wait], "prefetch {prefetch}");
        assert_eq!(frames[1], [false], "one of many");
    }
    let requeue = Outcome::Requeue { count: false };
    assert_eq!(settled(0, requeue)[0], [false], "others may get it");
}
