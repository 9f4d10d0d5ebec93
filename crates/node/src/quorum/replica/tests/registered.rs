//! Which words of a node begin a session with a leader, and which are of another time.

use super::*;
use crate::host_kind::HostKind;
use crate::quorum::link::{Command, Event, RegisteredSubscription, Registration};

/// Presents the third node to the leader at `at`; the session that it has then.
fn present(world: &mut World, at: usize, number: u64, start: u64, term: u64) -> Option<u64> {
    let from = NodeId(3);
    world.with(at, |shard, now| {
        shard.with_replicas(now, |replicas, around| {
            let registration = Registration {
                start,
                term,
                first_sequence: 1,
                subscriptions: Vec::new(),
            };
            let message = Command::Present(Box::new(registration));
            replicas.receive(around, from, QUEUE, number, message);
            let leader = replicas.map[&QUEUE].leader.as_ref().expect("it leads");
            let mut sessions = leader.sessions().filter(|(node, _)| *node == from);
            sessions.next().map(|(_, number)| number)
        })
    })
}

#[test]
fn a_session_begins_with_the_leader_of_a_term_once() {
    let mut world = World::new(1, 3, spec(3));
    world.rest(100);
    let at = world.leader().expect("a leader");
    let running = world.nodes[at].running.as_ref().expect("it runs");
    let term = running
        .shard
        .replica_status(QUEUE)
        .expect("it is here")
        .group
        .term;
    let mut said = |number, start, term| present(&mut world, at, number, start, term);
    assert_eq!(said(1 << 40, 1 << 41, term + 1), None, "another leader's");
    assert_eq!(
        said(1 << 40, 1 << 41, term - 1),
        None,
        "an earlier leader's"
    );
    assert_eq!(said(1 << 40, 1 << 41, term), Some(1 << 40));
    assert_eq!(said((1 << 40) - 1, 1 << 41, term), Some(1 << 40), "late");
    assert_eq!(
        said(1 << 42, 1 << 40, term),
        Some(1 << 40),
        "an earlier run's"
    );
    assert_eq!(
        said((1 << 40) + 1, 1 << 41, 0),
        Some((1 << 40) + 1),
        "of any term"
    );
    assert_eq!(said(1, 1 << 42, term), Some(1), "the first of a later run");
}

impl World {
    /// One step at a time until a node leads that no other has presented itself to.
    fn begun_to_lead(&mut self) -> usize {
        for _ in 0..10_000 {
            for at in 0..self.count() {
                self.sync(at);
                self.read(at);
            }
            let ways: Vec<_> = self.ways.keys().copied().collect();
            for way in ways {
                self.deliver(way);
                if let Some(leader) = self.leader() {
                    return leader;
                }
            }
            self.tick(10);
        }
        panic!("nobody leads");
    }
}

/// A leader to which two nodes present a consumer each: who is told to be the active one then, and
/// with which number.
fn active_after(order: [(usize, u64); 2]) -> (ConsumerId, u64) {
    let mut single = spec(3);
    single.settings.single_active = true;
    let mut world = World::new(1, 3, single);
    let leader = world.begun_to_lead();
    for (further, activation) in order {
        let at = (leader + further) % 3;
        let from = world.nodes[at].id;
        let id = ConsumerId(further as u64);
        let subscription = RegisteredSubscription {
            id,
            consumer: Some(Consumer {
                id,
                priority: 0,
                exclusive: false,
                no_ack: false,
                prefetch: 0,
                timeout_ms: None,
            }),
            activation,
            held: Vec::new(),
        };
        let registration = Registration {
            start: 1 << 41,
            term: 0,
            first_sequence: 1,
            subscriptions: vec![subscription],
        };
        world.with(leader, |shard, now| {
            shard.with_replicas(now, |replicas, around| {
                let message = Command::Present(Box::new(registration));
                replicas.receive(around, from, QUEUE, 1 << 40, message);
            });
        });
    }
    let others = [1, 2].map(|further| (leader, (leader + further) % 3));
    let said = others.map(|way| local::answers(&mut world, way));
    let active = said.iter().flatten().filter_map(|event| match event {
        Event::Active {
            consumer,
            activation,
        } if *activation > 0 => Some((*consumer, *activation)),
        _ => None,
    });
    let active: Vec<_> = active.collect();
    assert_eq!(active.len(), 1, "{said:?}");
    active[0]
}

#[test]
fn of_consumers_that_were_active_who_was_it_last_stays_it_whoever_comes_first() {
    let (earlier, later) = ((1, 6), (2, 7));
    for order in [[earlier, later], [later, earlier]] {
        assert_eq!(active_after(order), (ConsumerId(2), 8), "{order:?}");
    }
    // One that waits was told so, and has no number.
    for order in [[(1, 0), (2, 7)], [(2, 7), (1, 0)]] {
        assert_eq!(active_after(order), (ConsumerId(2), 8), "{order:?}");
    }
}
