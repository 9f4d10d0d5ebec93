//! A leader that lacks what a replica knew to be committed: nothing is cut, and the replica takes
//! no part until it is removed.

use crate::common::pair::*;
use leveret_storage::MemoryDisk;
use leveret_stream::replica::{Epoch, Fence};
use leveret_stream::{Event, Events, ReplicaEvent, ReplicaMessage, ReplicaOrigin, StreamStats};

/// Two replicas of a message, and then a leader that has lost it without knowing.
fn fenced() -> (Node, Node) {
    let (mut leader, mut follower) = pair();
    leader.restart(MemoryDisk::new(), ReplicaOrigin::NewStream);
    leader.prepare(Epoch(2));
    leader.order(Epoch(2));
    follower.order(Epoch(2));
    reconnect(&mut leader, &mut follower);
    (leader, follower)
}

fn fences(node: &mut Node) -> Vec<Fence> {
    let reports = std::mem::take(&mut node.reports).into_iter();
    let fence = |report| match report {
        ReplicaEvent::Fenced(fence) => Some(fence),
        ReplicaEvent::Cut { .. } => panic!("it has cut what was committed"),
        _ => None,
    };
    reports.filter_map(fence).collect()
}

fn stands(node: &Node) -> StreamStats {
    let (_, stats) = node.host.stats_of(&[STREAM]).next().unwrap();
    stats
}

#[test]
fn what_was_committed_is_not_cut_and_takes_no_part() {
    let (mut leader, mut follower) = fenced();
    let fence = Fence {
        committed: 1,
        leader_parts_at: Some(0),
    };
    assert_eq!(fences(&mut follower), [fence], "it is said once");
    assert!(stands(&follower).fenced && stands(&follower).damaged);
    assert_eq!(stands(&follower).last_offset, Some(0), "it is there still");
    let (_, what) = follower.host.damaged().next().unwrap();
    assert!(what.contains("below offset 1 was committed"), "{what}");
    assert!(
        !publishes(&mut leader, &mut follower, 2),
        "it does not count"
    );
    // It promises nothing to whoever elects.
    let prepare = ReplicaMessage::Prepare { epoch: Epoch(3) };
    follower
        .host
        .receive(ELECTOR, STREAM, prepare, &mut Events::new());
    run(&mut [&mut follower]);
    assert_eq!(follower.answers, []);
    reconnect(&mut leader, &mut follower);
    assert_eq!(fences(&mut follower), []);
}

#[test]
fn that_it_is_fenced_outlasts_a_restart() {
    let (mut leader, mut follower) = fenced();
    let disk = follower.disk.clone();
    follower.reports.clear();
    follower.restart(disk, ReplicaOrigin::Before);
    follower.order(Epoch(2));
    reconnect(&mut leader, &mut follower);
    let fence = Fence {
        committed: 1,
        leader_parts_at: None,
    };
    assert_eq!(fences(&mut follower), [fence]);
    assert!(!publishes(&mut leader, &mut follower, 2));
    assert_eq!(stands(&follower).last_offset, Some(0));
}

#[test]
fn once_it_is_removed_it_may_be_added_again() {
    let (mut leader, mut follower) = fenced();
    follower.host.delete(STREAM, &mut Events::new()).unwrap();
    follower.begin(ReplicaOrigin::NewReplica);
    follower.order(Epoch(2));
    reconnect(&mut leader, &mut follower);
    assert!(publishes(&mut leader, &mut follower, 2));
    assert!(!stands(&follower).fenced);
}

#[test]
fn its_readers_end() {
    let (mut leader, mut follower) = pair();
    let subscribe = crate::common::subscribe_first(STREAM, 10);
    let now = leveret_types::Now::both(0);
    let mut events = Events::new();
    follower.host.handle(now, SESSION, subscribe, &mut events);
    run(&mut [&mut leader, &mut follower]);
    let is_chunk = |event: &Event| matches!(event, Event::Chunk { .. });
    assert!(
        follower.events.iter().any(is_chunk),
        "{:?}",
        follower.events
    );
    leader.restart(MemoryDisk::new(), ReplicaOrigin::NewStream);
    leader.prepare(Epoch(2));
    leader.order(Epoch(2));
    follower.order(Epoch(2));
    reconnect(&mut leader, &mut follower);
    let is_end = |event: &Event| matches!(event, Event::ReaderEnded { .. });
    assert!(follower.events.iter().any(is_end), "{:?}", follower.events);
}
