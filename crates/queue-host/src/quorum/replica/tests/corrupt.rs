//! A leader whose disk has damaged a message that another member needs.

use super::super::transfers::{LivePriorityLog, Sending};
use super::super::{Replicas, ShardContext};
use super::*;
use leveret_types::{LogId, RangeSet};

impl World {
    /// Changes a bit of a message wherever a node's disk has it, from which on its node may say
    /// that its replica is damaged.
    fn damage(&mut self, at: usize, number: u64) {
        self.corrupt.insert(at);
        let text = [&number.to_le_bytes()[..], b"xxxx"].concat();
        let mut hits = 0;
        let disk = &self.nodes[at].disk;
        for path in disk.paths() {
            disk.tamper(&path, |bytes| {
                let windows = bytes.windows(text.len()).enumerate();
                let places = windows.filter(|(_, window)| *window == text);
                for place in places.map(|(place, _)| place).collect::<Vec<_>>() {
                    bytes[place + 9] ^= 4;
                    hits += 1;
                }
            });
        }
        assert!(hits > 0, "it is nowhere");
    }
}

#[test]
fn a_leader_that_cannot_read_what_a_member_needs_lets_another_lead_and_takes_no_part_any_more() {
    let mut world = World::new(2, 3, spec(3));
    world.body_bytes = 30_000;
    world.rest(100);
    let leader = world.leader().expect("it is led");
    let (behind, other) = ((leader + 1) % 3, (leader + 2) % 3);
    world.crash(behind);
    for _ in 0..12 {
        world.publish(other);
        world.rest(1);
    }
    world.rest(20);
    assert_eq!(world.ledger.confirmed.len(), 12);
    world.damage(leader, 3);
    world.start(behind);
    world.rest(300);
    assert_eq!(world.leader(), Some(other));
    let now = world.now;
    let running = world.nodes[leader].running.as_mut().expect("it runs");
    let takes_part = running.shard.with_replicas(now, |replicas, _| {
        assert_eq!(replicas.has(QUEUE), !replicas.is_quarantined(QUEUE));
        replicas.has(QUEUE)
    });
    assert!(!takes_part);
    let given_up = |(at, what): &&(usize, String)| *at == leader && what.contains("is given up");
    let told = world.reported_damage.iter().filter(given_up).count();
    assert_eq!(told, 1, "the operator is told: {:?}", world.reported_damage);
    // The other two have it all.
    world.consume(behind, 0);
    world.rest(50);
    assert_eq!(world.ledger.delivered.len(), 12);
}

/// A member of which a message is damaged is replaced by another one on its node, after something
/// has happened to it and to its log of messages.
fn replaced_after(happens: impl FnOnce(&mut Replicas, &mut ShardContext<'_>, LogId)) {
    let (mut world, leader, follower) = World::filled(2, 12, 30_000);
    world.damage(follower, 0);
    let log = world.log(follower);
    // What was read wrongly is read again before it is given up.
    for _ in 0..4 {
        let running = world.nodes[follower].running.as_mut().expect("it runs");
        running.shard.logs.read(log, 0);
        world.read(follower);
    }
    world.with(follower, |shard, now| {
        shard.with_replicas(now, |replicas, context| happens(replicas, context, log));
    });
    let running = world.nodes[follower].running.as_ref().expect("it runs");
    assert!(running.shard.logs.damage(log).is_some(), "it was read");
    let node = world.nodes[follower].id;
    world.update(|spec| spec.members[follower] = ReplicaId::new(node, 9));
    world.rest(500);
    let mut wanted = world.spec.members.clone();
    wanted.sort_unstable();
    assert_eq!(world.voters(leader), wanted);
    assert_eq!(world.voters(follower), wanted);
    let running = world.nodes[follower].running.as_ref().expect("it runs");
    assert!(running.shard.logs.damage(log).is_none());
    world.heal_and_drain();
    world.check();
    assert_eq!(world.ledger.delivered.len(), 12);
}

#[test]
fn a_damaged_member_that_is_replaced_on_its_own_node_begins_with_nothing() {
    replaced_after(|_, _, _| {});
}

#[test]
fn a_member_of_whose_damaged_log_nothing_is_left_can_be_replaced_on_its_node() {
    replaced_after(|replicas, context, log| {
        replicas.give_up(context, QUEUE);
        context.logs.truncate(log, 0);
        context.logs.set_state(log, &[]);
    });
}

#[test]
fn a_leader_that_cannot_read_what_belongs_to_a_state_lets_another_send_it() {
    let mut world = World::new(2, 3, spec(3));
    world.rest(100);
    let leader = world.leader().expect("it is led");
    let (behind, other) = ((leader + 1) % 3, (leader + 2) % 3);
    world.crash(behind);
    // So many entries that those of the large messages are not kept.
    for number in 0..112 {
        world.body_bytes = if number < 12 { 30_000 } else { 8 };
        world.publish(other);
        world.rest(1);
    }
    world.rest(20);
    assert_eq!(world.ledger.confirmed.len(), 112);
    world.damage(leader, 3);
    world.start(behind);
    world.rest(300);
    assert!(world.ledger.snapshots > 0, "a state was sent");
    assert_eq!(world.leader(), Some(other));
    let live = |at: usize| {
        let running: &Running = world.nodes[at].running.as_ref().expect("it runs");
        running.shard.logs.live(world.log(at))
    };
    assert_eq!(live(behind), live(other), "nothing was left out");
    world.consume(behind, 0);
    world.rest(50);
    assert_eq!(world.ledger.delivered.len(), 112);
}

#[test]
fn a_part_of_a_state_does_not_leave_out_what_cannot_be_read() {
    let (mut world, leader, other) = World::filled(2, 12, 30_000);
    world.damage(leader, 3);
    let log = world.log(leader);
    for _ in 0..4 {
        let running = world.nodes[leader].running.as_mut().expect("it runs");
        running.shard.logs.read(log, 3);
        world.read(leader);
    }
    let to = world.spec.members[other];
    world.with_replica(leader, |_, context| {
        assert!(context.logs.damage(log).is_some(), "it was read");
        // The last message is in memory.
        for (index, is_sent) in [(3, false), (11, true)] {
            let mut live = RangeSet::new();
            live.insert_range(index..index + 1);
            let mut sending = Sending {
                _place: context.transfers.begin().expect("a place"),
                to,
                mark: 1,
                priority_logs: vec![LivePriorityLog {
                    priority_log: queue_of(log).1,
                    end: 12,
                    live,
                }],
                at: (0, 0),
                next: 1,
                unanswered: 1,
                is_wanted: true,
                is_done: false,
                alive_ms: 0,
            };
            let part = sending.part(QUEUE, context.logs);
            assert_eq!(part.is_some(), is_sent, "{index}");
        }
    });
}
