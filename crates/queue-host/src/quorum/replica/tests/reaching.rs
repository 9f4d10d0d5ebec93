//! How many entries it takes until consumers have what there is: each lets them have so many
//! messages that nobody waits for the next one.

use super::*;
use leveret_types::limits::QUORUM_WATERMARK_MESSAGES_MIN;

/// Enough for many entries, if each lets consumers have the fewest.
const MESSAGES: u64 = 6 * QUORUM_WATERMARK_MESSAGES_MIN;

impl World {
    pub(super) fn consumer(id: u64, no_ack: bool, prefetch: u32) -> Consumer {
        Consumer {
            id: ConsumerId(id),
            priority: 0,
            exclusive: false,
            no_ack,
            prefetch,
            timeout_ms: None,
        }
    }

    fn attach(&mut self, at: usize, consumer: Consumer) {
        let credit = ConsumerCredit {
            connection: std::sync::Arc::default(),
            limiter: None,
        };
        self.with(at, |shard, now| {
            let attached = shard.attach(now, QUEUE, consumer, CLIENT, credit);
            attached.expect("it attaches");
        });
    }

    /// The number of the last entry.
    fn entries(&mut self, at: usize) -> u64 {
        self.with_replica(at, |replica, _| replica.group.last_index())
    }

    /// How many messages have been delivered.
    fn got_count(&self, at: usize) -> u64 {
        let running = self.nodes[at].running.as_ref().expect("it runs");
        running.held.len() as u64
    }
}

/// A world whose leader has messages that nobody had.
fn filled() -> (World, usize) {
    let mut world = World::new(2, 3, spec(3));
    world.rest(100);
    let leader = world.leader().expect("it is led");
    for _ in 0..MESSAGES {
        world.publish(leader);
    }
    world.rest(20);
    (world, leader)
}

#[test]
fn a_consumer_that_acknowledges_nothing_has_no_prefetch_to_wait_for() {
    let (mut world, leader) = filled();
    let before = world.entries(leader);
    world.attach(leader, World::consumer(1, true, 1));
    world.rest(20);
    assert_eq!(world.got_count(leader), MESSAGES);
    // One says that it may have them, one that they have left.
    let entries = world.entries(leader) - before;
    assert!(entries <= 2, "{entries} entries");
}

#[test]
fn what_a_new_consumer_may_hold_counts_from_its_first_message_on() {
    let (mut world, leader) = filled();
    world.attach(leader, World::consumer(1, false, 1));
    world.rest(20);
    assert_eq!(world.got_count(leader), 1);
    let before = world.entries(leader);
    world.attach(leader, World::consumer(2, false, 0));
    world.rest(20);
    assert_eq!(world.got_count(leader), MESSAGES);
    // One for what is beyond that of the first consumer.
    let entries = world.entries(leader) - before;
    assert!(entries <= 2, "{entries} entries");
}
