//! What a queue refused stays refused: whoever leads, and however often a node asks.

use super::led::play;
use super::*;
use leveret_queue::Overflow;

#[test]
fn a_node_that_lost_the_way_to_its_leader_hears_again_what_was_refused_before_what_is_committed() {
    play(
        "refuse length=1",
        "1 absent
         2 absent
         1 present => 1: committed 0
         1 publish 3 => 1: refused 2..3, 1: refused 3..4
         commit => 1: committed 3
         down 1
         up 1 => 1: leading
         1 present first=1 => 1: refused 2..4, 1: committed 3
         1 present first=3 => 1: refused 3..4, 1: committed 3
         1 present => 1: committed 3",
    );
}

/// The entry that says so is committed in the session that follows, which was not told.
#[test]
fn what_was_refused_in_an_entry_that_is_under_way_is_said_again_when_that_is_committed() {
    play(
        "refuse length=1",
        "1 absent
         2 absent
         1 present => 1: committed 0
         1 publish 2 => 1: refused 2..3
         1 present first=1 => 1: committed 0
         1 publish 1 => 1: refused 3..4
         commit => 1: refused 2..3, 1: committed 2, 1: committed 3
         1 publish 1 => 1: refused 4..5
         down 1
         commit
         up 1 => 1: leading
         1 present first=3 => 1: refused 3..5, 1: committed 4",
    );
}

#[test]
fn the_next_leaders_know_what_was_refused_until_its_node_has_heard_of_it() {
    play(
        "refuse length=1",
        "1 absent
         2 absent
         2 present => 2: committed 0
         2 publish 3 => 2: refused 2..3, 2: refused 3..4
         commit => 2: committed 3
         lead 1 => 2: leads not, 0: leading, 2: leading
         0 absent
         2 present first=1 => 2: refused 2..4, 2: committed 3
         2 heard 3
         2 publish 1 => 2: refused 4..5
         commit => 2: committed 4
         2 present first=1 => 2: refused 3..5, 2: committed 4
         2 publish 1 => 2: refused 5..6
         commit => 2: committed 5
         lead 0 => 2: leads not, 1: leading, 2: leading
         1 absent
         2 present first=1 => 2: refused 3..6, 2: committed 5",
    );
}

/// A view takes no publishes at all.
#[test]
fn what_a_view_refused_stays_refused_too() {
    play(
        "view",
        "1 absent
         2 absent
         1 present => 1: committed 0
         1 publish 2 => 1: refused 1..2, 1: refused 2..3
         commit => 1: committed 2
         down 1
         up 1 => 1: leading
         1 present first=1 => 1: refused 1..3, 1: committed 2",
    );
}

/// The state of the queue's log stands for its entries by then, and a restart begins with it.
#[test]
fn what_was_refused_long_ago_is_known_after_a_restart_of_all_nodes() {
    let mut world = World::full(1, 1);
    world.rest(100);
    let leader = world.leader().expect("a leader");
    for _ in 0..100 {
        world.publish(leader);
        world.rest(1);
    }
    world.rest(50);
    let refused = |world: &mut World| {
        let states = (0..3).map(|at| {
            world.with(at, |shard, now| {
                shard.with_replicas(now, |replicas, context| {
                    let state = replicas.state(context.logs, QUEUE);
                    state.expect("it is here").refused
                })
            })
        });
        states.collect::<Vec<_>>()
    };
    let before = refused(&mut world);
    assert_eq!(before[0].len(), 1, "of one node: {before:?}");
    (0..3).for_each(|at| world.crash(at));
    (0..3).for_each(|at| world.start(at));
    world.rest(200);
    assert_eq!(refused(&mut world), before);
}

impl World {
    /// Three nodes with a queue that takes so many messages, and refuses what is more.
    fn full(seed: u64, length: u64) -> Self {
        let mut full = spec(3);
        full.settings.length_max = Some(length);
        full.settings.overflow = Overflow::RejectPublish;
        Self::new(seed, 3, full)
    }
}

/// Whoever confirms what it refused has lost it: nobody ever gets it.
#[test]
fn what_a_full_queue_refuses_is_confirmed_to_nobody_under_faults() {
    let mut refused = 0;
    for seed in 0..60 {
        let ledger = run(seed, 2_000, true, |world| {
            world.update(|spec| {
                spec.settings.length_max = Some(3);
                spec.settings.overflow = Overflow::RejectPublish;
            });
        });
        refused += ledger.refused;
    }
    assert!(refused > 1_000, "only {refused} publishes were refused");
}
