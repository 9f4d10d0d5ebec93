//! A member's logs at the start of its node.

use super::*;
use crate::log_ids::log_of;
use leveret_storage::ShardLogs;
use leveret_types::LogId;

/// A follower that has five messages and ends, after something has happened to its log of messages.
fn restarted_after(lose: impl FnOnce(&mut ShardLogs, LogId)) -> (World, usize) {
    let (mut world, _, follower) = World::filled(2, 5, 64);
    let log = world.log(follower);
    let running = world.nodes[follower].running.as_mut().expect("it runs");
    lose(&mut running.shard.logs, log);
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
    let effects = std::mem::take(&mut running.shard.effects);
    let said = effects.deferred.into_iter().map(|said| match said {
        Deferred::Damage { queue: QUEUE, what } => what,
        other => panic!("{other:?}"),
    });
    (takes_part, said.collect())
}

#[test]
fn a_member_whose_messages_end_before_its_headers_say_takes_no_part() {
    assert_eq!(found(restarted_after(|_, _| {})), (true, Vec::new()));
    let lost: [fn(&mut ShardLogs, LogId); 3] = [
        |logs, log| logs.truncate(log, 4),
        |logs, log| logs.truncate(log, 0),
        |logs, log| logs.delete_log(log),
    ];
    for lose in lost {
        let (takes_part, said) = found(restarted_after(lose));
        assert!(!takes_part);
        assert!(
            said.len() == 1 && said[0].contains("cannot take part"),
            "{said:?}"
        );
    }
}

#[test]
fn a_member_that_has_lost_what_it_acknowledged_takes_no_part_after_any_start() {
    let (mut world, _, follower) = World::filled(2, 5, 64);
    world.with_replica(follower, |replica, context| replica.note_lost(context));
    for _ in 0..2 {
        world.sync(follower);
        world.crash(follower);
        let (now, spec) = (world.now, world.spec.clone());
        world.nodes[follower].start(now, &spec);
        let running = world.nodes[follower].running.as_mut().expect("it runs");
        running.shard.with_replicas(now, |replicas, _| {
            assert!(replicas.is_quarantined(QUEUE) && !replicas.has(QUEUE));
        });
        let said = std::mem::take(&mut running.shard.effects.deferred);
        assert!(
            matches!(&said[..], [Deferred::Damage { what, .. }] if what.contains("acknowledged")),
            "{said:?}"
        );
    }
}

#[test]
fn a_member_that_cannot_take_part_and_is_replaced_on_its_node_at_once_begins_anew() {
    let (mut world, follower) = restarted_after(|logs, log| logs.truncate(log, 4));
    world.corrupt.insert(follower);
    world.with(follower, |_, _| {});
    for other in (0..3).filter(|other| *other != follower) {
        world.meet(follower, other);
    }
    world.rest(20);
    let node = world.nodes[follower].id;
    world.update(|spec| spec.members[follower] = ReplicaId::new(node, 9));
    world.rest(500);
    let mut wanted = world.spec.members.clone();
    wanted.sort_unstable();
    let leader = world.leader().expect("a leader");
    assert_eq!(world.voters(leader), wanted);
    assert_eq!(world.voters(follower), wanted);
    world.heal_and_drain();
    world.check();
    assert_eq!(world.ledger.delivered.len(), 5);
}

#[test]
fn a_member_that_cannot_take_part_is_forgotten_with_its_logs_once_the_group_is_without_it() {
    let (mut world, follower) = restarted_after(|logs, log| logs.truncate(log, 4));
    world.corrupt.insert(follower);
    let unfit = |world: &mut World| {
        world.with(follower, |shard, _| {
            let headers = shard.logs.log_stats(log_of(QUEUE, HEADER_LOG));
            let entries = headers.map_or(0, |stats| stats.entries);
            (shard.unfit_replicas().quarantined, entries > 0)
        })
    };
    assert_eq!(unfit(&mut world), (1, true));
    world.update(|spec| {
        spec.members.remove(follower);
    });
    assert_eq!(unfit(&mut world), (0, false));
}

#[test]
fn who_founds_a_queue_alone_leads_it_at_once_whomever_the_catalogue_prefers_by_now() {
    let mut grown = spec(1);
    grown.members.insert(0, ReplicaId::new(NodeId(2), 1));
    let mut world = World::new(1, 2, grown);
    world.rest(2);
    assert_eq!(world.leader(), Some(0));
}

#[test]
fn nothing_is_left_of_a_queue_that_is_removed() {
    let (mut world, ..) = World::filled(1, 5, 64);
    for at in 0..3 {
        let left = world.with(at, |shard, now| {
            assert!(shard.logs.log_ids().any(|log| queue_of(log).0 == QUEUE));
            shard.remove_queue(now, QUEUE);
            let logs = shard.logs.log_ids();
            logs.filter(|log| queue_of(*log).0 == QUEUE).count()
        });
        assert_eq!(left, 0);
    }
}
