//! What a member finds in its logs when its node starts.

use super::*;
use crate::shard::Deferred;

/// A follower that has five messages and ends, after its log of messages has lost so many.
fn restarted_without(lost: u64) -> (World, usize) {
    let (mut world, _, follower) = World::filled(2, 5, 64);
    let log = world.log(follower);
    let running = world.nodes[follower].running.as_mut().expect("it runs");
    running.shard.logs.truncate(log, 5 - lost);
    world.sync(follower);
    world.crash(follower);
    let (now, spec) = (world.now, world.spec.clone());
    world.nodes[follower].start(now, &spec);
    (world, follower)
}

/// Whether it takes part, and what its node says of it.
fn found((mut world, follower): (World, usize)) -> (bool, Vec<String>) {
    let now = world.now;
    let running = world.nodes[follower].running.as_mut().expect("it runs");
    let is_quarantined =
        |shard: &mut Shard| shard.with_replicas(now, |replicas, _| replicas.is_quarantined(QUEUE));
    let takes_part = !is_quarantined(&mut running.shard);
    let effects = crate::env::take_effects(&mut running.shard);
    let said = effects.deferred.into_iter().map(|said| match said {
        Deferred::Damage { queue: QUEUE, what } => what,
        other => panic!("{other:?}"),
    });
    (takes_part, said.collect())
}

#[test]
fn a_member_whose_messages_end_before_its_headers_say_takes_no_part() {
    assert_eq!(found(restarted_without(0)), (true, Vec::new()));
    let (takes_part, said) = found(restarted_without(1));
    assert!(!takes_part);
    assert!(
        said.len() == 1 && said[0].contains("cannot take part"),
        "{said:?}"
    );
}
