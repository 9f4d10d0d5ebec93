//! A leader whose node has not heard of the others for so long that they may have another one: it
//! gives nothing out until it knows.

use super::*;
use leveret_types::limits::{LEADER_LEASE_MS, QUORUM_REGISTRATION_MS_MAX};

impl World {
    /// The node knows that its leaders lead.
    pub(super) fn know(&mut self, at: usize) {
        let now_ms = self.now.monotonic_ms;
        self.with(at, |shard, _| shard.set_peers_checked_ms(now_ms));
    }

    /// Time passes for which nothing is due.
    pub(super) fn wait(&mut self, ms: u64) {
        self.now.monotonic_ms += ms;
        self.now.wall_ms += ms;
    }
}

#[test]
fn dead_letters_wait_until_it_is_known_who_leads() {
    let mut world = World::new(2, 3, spec(3));
    world.rest(100);
    let leader = world.leader().expect("it is led");
    (0..12).for_each(|_| world.publish(leader));
    world.rest(20);
    world.know(leader);
    world.update(|spec| {
        spec.settings.dead_letter = true;
        spec.settings.length_max = Some(9);
    });
    for _ in 0..5 {
        world.read(leader);
        world.sync(leader);
    }
    world.wait(LEADER_LEASE_MS + 1);
    // That they are to go is committed. What a shard gives out is looked at each time.
    for _ in 0..5 {
        world.deliver_all();
        (0..3).for_each(|at| world.sync(at));
    }
    let now_ms = world.now.monotonic_ms;
    let said = world.with(leader, |shard, now| {
        shard.set_peers_checked_ms(now_ms);
        shard.finish(now);
        std::mem::take(&mut shard.effects).deferred
    });
    let dead = said.iter().filter_map(|said| match said {
        Deferred::DeadLetter(dead) => Some(number_of(&dead.message)),
        _ => None,
    });
    assert_eq!(dead.collect::<Vec<_>>(), [0, 1, 2]);
}

#[test]
fn what_is_due_at_a_leader_that_may_not_be_one_is_not_looked_at_over_and_over() {
    let mut world = World::new(2, 3, spec(3));
    world.rest(100);
    let leader = world.leader().expect("it is led");
    world.expiration_ms = Some(2 * LEADER_LEASE_MS + QUORUM_REGISTRATION_MS_MAX);
    world.publish(leader);
    world.rest(20);
    world.know(leader);
    world.wait(3 * LEADER_LEASE_MS + QUORUM_REGISTRATION_MS_MAX);
    world.with(leader, |shard, now| shard.tick(now));
    let next = |world: &World| {
        let running = world.nodes[leader].running.as_ref().expect("it runs");
        running.shard.next_deadline_ms()
    };
    assert!(next(&world) > world.now.monotonic_ms, "it is held");
    assert!(next(&world) <= world.now.monotonic_ms + LEADER_LEASE_MS);
}

#[test]
fn what_is_due_at_a_leader_that_leads_is_looked_at_at_once() {
    let mut world = World::new(2, 3, spec(3));
    world.rest(100);
    let leader = world.leader().expect("it is led");
    world.expiration_ms = Some(LEADER_LEASE_MS);
    world.publish(leader);
    world.rest(20);
    world.wait(2 * LEADER_LEASE_MS);
    // Something else happens, before the shard is asked what is due.
    world.with(leader, |_, _| {});
    let running = world.nodes[leader].running.as_ref().expect("it runs");
    assert!(running.shard.next_deadline_ms() <= world.now.monotonic_ms);
}
