//! Which words of a node begin a session with a leader, and which are of another time.

use super::*;
use crate::host_kind::HostKind;
use crate::quorum::link::{Command, Registration};

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
