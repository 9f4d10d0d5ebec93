//! Operators who look at a message that has to be read from disk first.

use super::*;
use crate::queue_host::Asker;
use crate::quorum::protocol::Fetched;
use leveret_queue::Oldest;
use leveret_types::limits::{LEADER_LEASE_MS, PARKED_ANSWERS_MAX};

impl World {
    /// Looks at the first message, as one who asks again until there is an answer.
    fn peek(&mut self, at: usize, poll: u64) -> Option<Fetched> {
        let answer = self.with(at, |shard, now| {
            shard.peek(now, QUEUE, Asker::Poll(poll), 0)
        });
        match answer? {
            QueueAnswer::Peeked(fetched) => Some(fetched),
            other => panic!("{other:?}"),
        }
    }

    /// A leader that does not have the first message in memory.
    pub(super) fn led_on_disk() -> (Self, usize) {
        let mut world = Self::new(2, 3, spec(3));
        world.body_bytes = 30_000;
        world.rest(100);
        let leader = world.leader().expect("it is led");
        for _ in 0..12 {
            world.publish(leader);
            world.rest(1);
        }
        world.rest(20);
        (world, leader)
    }
}

fn is_first(found: &Option<Fetched>) -> bool {
    matches!(found, Some(Fetched::Message(message)) if number_of(message) == 0)
}

#[test]
fn as_many_looks_wait_for_the_disk_as_may_and_the_next_is_told_to_try_again() {
    let (mut world, leader) = World::led_on_disk();
    let most = PARKED_ANSWERS_MAX as u64;
    for poll in 0..=most {
        assert!(world.peek(leader, poll).is_none());
    }
    let answer = world.peek(leader, most);
    assert!(matches!(answer, Some(Fetched::Unreadable)), "{answer:?}");
    assert!(
        world.peek(leader, most - 1).is_none(),
        "its disk was not read"
    );
    world.read(leader);
    for poll in 0..most {
        let answer = world.peek(leader, poll);
        assert!(is_first(&answer), "{poll}: {answer:?}");
    }
    // There is room again, and the message is at hand.
    assert!(world.peek(leader, most).is_none());
    let answer = world.peek(leader, most);
    assert!(is_first(&answer), "{answer:?}");
}

#[test]
fn a_message_that_leaves_while_it_is_read_for_a_look_is_gone() {
    let (mut world, leader) = World::led_on_disk();
    assert!(world.peek(leader, 1).is_none());
    world.with(leader, |shard, now| {
        shard.purge(now, QUEUE, Asker::Poll(2));
    });
    world.rest(2);
    let answer = world.peek(leader, 1);
    assert!(matches!(answer, Some(Fetched::Gone)), "{answer:?}");
}

#[test]
fn since_when_the_first_message_waits_is_known_once_somebody_has_looked_at_it() {
    let (mut world, _) = World::led_on_disk();
    world.restart_all();
    let leader = world.leader().expect("it is led");
    let oldest = |world: &mut World| {
        let stats = world.with(leader, |shard, now| shard.local_stats(now, QUEUE));
        stats.expect("it leads").oldest
    };
    assert_eq!(oldest(&mut world), Oldest::Unknown { before: 0 });
    let published_ms = {
        assert!(world.peek(leader, 1).is_none());
        world.read(leader);
        match world.peek(leader, 1) {
            Some(Fetched::Message(message)) => message.summary.published_ms,
            other => panic!("{other:?}"),
        }
    };
    // It is not in memory any more.
    let log = world.log(leader);
    for index in 1..12 {
        let running = world.nodes[leader].running.as_mut().expect("it runs");
        running.shard.logs.read(log, index);
        world.read(leader);
    }
    let running = world.nodes[leader].running.as_ref().expect("it runs");
    assert!(running.shard.logs.cached(log, 0).is_none());
    assert_eq!(oldest(&mut world), Oldest::Published(published_ms));
}

#[test]
fn what_is_asked_is_answered_when_what_came_before_is_committed() {
    let (mut world, leader) = World::led_on_disk();
    world.body_bytes = 8;
    world.publish(leader);
    let ready = |world: &mut World| {
        let counted = world.with(leader, |shard, now| {
            shard.queue_counts(now, QUEUE, Asker::Poll(1))
        });
        match counted? {
            QueueAnswer::Counted(counts) => Some(counts.ready),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(ready(&mut world), None);
    assert_eq!(ready(&mut world), None, "nothing was written since");
    world.rest(10);
    assert_eq!(ready(&mut world), Some(13));
}

#[test]
fn what_is_asked_waits_for_what_goes_back_before_it() {
    let (mut world, leader, _) = World::filled(1, 1, 64);
    world.consume(leader, 1);
    world.rest(5);
    assert!(world.settle(leader, Outcome::Requeue { count: true }));
    let purge = |world: &mut World| {
        let purged = world.with(leader, |shard, now| shard.purge(now, QUEUE, Asker::Poll(1)));
        match purged? {
            QueueAnswer::Purged(count) => Some(count),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(purge(&mut world), None);
    assert_eq!(purge(&mut world), None, "nothing was written since");
    world.rest(10);
    assert_eq!(purge(&mut world), Some(1));
}

#[test]
fn nobody_looks_at_a_leader_that_may_not_be_one() {
    let (mut world, leader, _) = World::filled(1, 1, 64);
    world.know(leader);
    world.wait(LEADER_LEASE_MS + 1);
    assert!(world.peek(leader, 1).is_none());
    assert!(world.peek(leader, 1).is_none(), "it does not know yet");
    world.know(leader);
    let answer = world.peek(leader, 1);
    assert!(is_first(&answer), "{answer:?}");
}

#[test]
fn each_node_knows_how_a_queue_stands_from_its_member_or_as_it_was_last_told() {
    let (mut world, leader, follower) = World::filled(1, 5, 64);
    world.rest(20);
    let ready = |world: &mut World, at: usize| {
        world.with(at, |shard, now| {
            assert!(shard.is_remote(QUEUE) && !shard.is_remote(QueueId(1)));
            shard.last_queue_counts(now, QUEUE).ready
        })
    };
    assert_eq!(
        (ready(&mut world, leader), ready(&mut world, follower)),
        (5, 5)
    );
    // A node without a member.
    let mut world = World::new(1, 3, spec(2));
    world.rest(100);
    world.publish(2);
    world.rest(20);
    assert_eq!(ready(&mut world, 2), 0);
    let asker = Asker::Poll(1);
    world.with(2, |shard, now| shard.queue_counts(now, QUEUE, asker));
    world.rest(5);
    assert_eq!(ready(&mut world, 2), 1);
}
