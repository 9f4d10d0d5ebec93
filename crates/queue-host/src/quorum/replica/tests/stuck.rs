//! A leader whose log is not written while the others' are.

use super::*;
use leveret_types::limits::{GROUP_TICK_MS, LOG_STUCK_MS, MEMBER_STUCK_MS};

impl World {
    /// Time passes in which all happens but that a node's log is written.
    fn rest_without_log_of(&mut self, at: usize, ms: u64) {
        for _ in 0..ms / 10 {
            for other in (0..self.count()).filter(|other| *other != at) {
                self.sync(other);
                self.read(other);
            }
            while let Some((way, _)) = self.ways.iter().find(|(_, frames)| !frames.is_empty()) {
                self.deliver(*way);
            }
            self.tick(10);
        }
    }
}

#[test]
fn a_leader_gives_way_when_its_log_has_been_stuck_for_a_while_and_not_before() {
    let (mut world, leader, _) = World::filled(1, 1, 64);
    world.publish(leader);
    world.rest_without_log_of(leader, LOG_STUCK_MS - 100);
    assert_eq!(world.leader(), Some(leader), "it is only slow");
    world.rest_without_log_of(leader, LOG_STUCK_MS);
    let other = world.leader();
    assert!(other.is_some_and(|other| other != leader), "{other:?}");
    world.heal_and_drain();
    world.check();
    assert_eq!(world.ledger.delivered.len(), 2);
}

#[test]
fn a_log_that_is_late_again_and_again_is_not_stuck() {
    let (mut world, leader, _) = World::filled(1, 1, 64);
    for _ in 0..4 {
        world.publish(leader);
        world.rest_without_log_of(leader, LOG_STUCK_MS - 100);
        world.rest(1);
        assert_eq!(world.leader(), Some(leader));
    }
}

/// What is published on the heels of what was applied waits for the next seal, which does not come
/// either. Whether the others write is not known before they are given anything to write.
#[test]
fn a_leader_gives_way_that_has_proposed_nothing_yet() {
    let (mut world, leader, _) = World::filled(1, 1, 64);
    let proposed =
        |world: &mut World| world.with_replica(leader, |replica, _| replica.group.last_index());
    world.publish(leader);
    world.sync(leader);
    world.deliver_all();
    for follower in (0..3).filter(|at| *at != leader) {
        world.sync(follower);
    }
    world.deliver_all();
    let before = proposed(&mut world);
    world.publish(leader);
    world.rest_without_log_of(leader, LOG_STUCK_MS - 100);
    assert_eq!(proposed(&mut world), before, "it waits for the seal");
    world.rest_without_log_of(leader, 2 * LOG_STUCK_MS);
    let other = world.leader();
    assert!(other.is_some_and(|other| other != leader), "{other:?}");
    world.heal_and_drain();
    world.check();
    assert_eq!(world.ledger.delivered.len(), 3);
}

#[test]
fn a_follower_that_does_not_follow_is_counted_by_who_leads_until_it_follows() {
    let (mut world, leader, follower) = World::filled(1, 1, 64);
    let stuck = |world: &World| {
        [leader, follower].map(|at| {
            let running = world.nodes[at].running.as_ref().expect("it runs");
            running.shard.unfit_replicas().stuck
        })
    };
    world.publish(leader);
    world.rest_without_log_of(follower, MEMBER_STUCK_MS - 2 * GROUP_TICK_MS);
    assert_eq!(stuck(&world), [0, 0], "it may only be slow");
    world.rest_without_log_of(follower, 4 * GROUP_TICK_MS);
    assert_eq!(stuck(&world), [1, 0]);
    world.rest(20);
    assert_eq!(stuck(&world), [0, 0]);
}

/// As it is asked to when an operator empties its node, or the node's disk is full.
#[test]
fn a_shard_hands_over_all_that_it_leads_to_the_nodes_that_are_named() {
    let (mut world, leader, follower) = World::filled(1, 1, 64);
    let (from, to) = (world.nodes[leader].id, world.nodes[follower].id);
    let mut hand_over =
        |at: usize, to: &[NodeId]| world.with(at, |shard, now| shard.hand_over_leaders(now, to));
    assert_eq!(hand_over(follower, &[from]), 0, "it leads nothing");
    assert_eq!(hand_over(leader, &[]), 0, "nobody can");
    assert_eq!(hand_over(leader, &[to]), 1);
    world.rest(100);
    assert_eq!(world.leader(), Some(follower));
    world.heal_and_drain();
    world.check();
}
