//! A replica that has lost its disk, or the small file beside its chunks: it does not know what it
//! had promised, and counts for nothing until it has promised something newer.

use crate::common::pair::*;
use bytes::Bytes;
use leveret_storage::{Disk, MemoryDisk};
use leveret_stream::replica::Epoch;
use leveret_stream::{
    Command, Events, Reference, ReplicaEvent, ReplicaOrder, ReplicaOrigin, StoredBy, StreamSettings,
};
use leveret_stream_host::Found;
use leveret_types::{NodeId, Now};

fn forgets_and_counts_again(forget: impl FnOnce(&mut Node)) {
    let (mut leader, mut follower) = pair();
    forget(&mut follower);
    follower.order(Epoch(1));
    reconnect(&mut leader, &mut follower);
    assert!(
        !publishes(&mut leader, &mut follower, 2),
        "it may have promised a newer epoch, and does not count in this one"
    );
    assert!(follower.needs_an_epoch(), "else it never counts again");
    elect(&mut leader, &mut follower, Epoch(1));
    assert!(publishes(&mut leader, &mut follower, 3));
    assert!(!follower.needs_an_epoch());
}

#[test]
fn a_replica_without_its_disk_counts_for_no_majority_before_a_new_epoch() {
    forgets_and_counts_again(|follower| {
        let found = follower.restart(MemoryDisk::new(), ReplicaOrigin::Before);
        assert!(found.damage.is_empty());
    });
}

#[test]
fn a_replica_whose_small_file_is_damaged_runs_as_one_without_its_disk_and_says_so() {
    forgets_and_counts_again(|follower| {
        let disk = follower.disk.copy();
        let paths = disk.paths();
        let is_small = |path: &&std::path::PathBuf| path.extension() == Some("replica".as_ref());
        let path = paths.iter().find(is_small).unwrap();
        disk.tamper(path, |bytes| bytes[20] ^= 1);
        let found = follower.restart(disk, ReplicaOrigin::Before);
        assert_eq!(found.damage.len(), 1, "{:?}", found.damage);
    });
}

#[test]
fn a_replica_without_its_disk_does_not_lead_the_epoch_that_it_had_prepared() {
    let (_, mut follower) = pair();
    let epoch = Epoch(2);
    assert_eq!(follower.prepare(epoch), (epoch, true));
    follower.restart(MemoryDisk::new(), ReplicaOrigin::Before);
    // Another elector asks for the same one, before the first one's choice is known.
    let (promised, is_whole) = follower.prepare(epoch);
    assert!(promised > epoch && !is_whole, "{promised}");
    let members = (1..=3).map(NodeId).collect();
    let lead = ReplicaOrder::Lead { epoch, members };
    follower.host.order(STREAM, lead, &mut Events::new());
    run(&mut [&mut follower]);
    assert!(!follower.leads());
    assert!(follower.needs_an_epoch());
}

#[test]
fn that_its_promises_are_unknown_outlasts_a_restart() {
    let (_, mut follower) = pair();
    follower.restart(MemoryDisk::new(), ReplicaOrigin::Before);
    run(&mut [&mut follower]);
    let disk = follower.disk.clone();
    follower.restart(disk, ReplicaOrigin::Before);
    assert!(follower.prepare(Epoch(2)).0 > Epoch(2));
    let disk = follower.disk.clone();
    follower.restart(disk, ReplicaOrigin::Before);
    let newer = follower.prepare(Epoch(2)).0.next();
    assert_eq!(follower.prepare(newer).0, newer, "passed over once");
}

/// Both have several segments, and then the follower ends, and those of it from one on are lost.
fn pair_without_segments(from: usize) -> (Node, Node, Found) {
    let (mut leader, mut follower) = pair();
    let small = StreamSettings {
        segment_bytes: 1_000,
        ..StreamSettings::default()
    };
    for node in [&mut leader, &mut follower] {
        node.host.set_settings(STREAM, small.clone());
    }
    for id in 2..30 {
        assert!(publishes(&mut leader, &mut follower, id));
    }
    let disk = follower.disk.copy();
    let is_segment = |path: &std::path::PathBuf| path.extension() == Some("stream".as_ref());
    let mut segments: Vec<_> = disk.paths().into_iter().filter(is_segment).collect();
    segments.sort();
    assert!(segments.len() > 6, "{segments:?}");
    for path in &segments[from..] {
        disk.delete(path).unwrap();
    }
    let found = follower.restart(disk, ReplicaOrigin::Before);
    (leader, follower, found)
}

#[test]
fn a_replica_without_its_newest_segments_votes_for_nothing_until_it_has_copied_them() {
    for from in [0, 3] {
        let (mut leader, mut follower, found) = pair_without_segments(from);
        assert_eq!(found.damage.len(), 1, "{:?}", found.damage);
        run(&mut [&mut follower]);
        let is_damaged = |e: &ReplicaEvent| matches!(e, ReplicaEvent::Damaged { .. });
        assert_eq!(follower.reports.iter().filter(|e| is_damaged(e)).count(), 1);
        assert!(
            !follower.prepare(Epoch(2)).1,
            "it lacks what it had confirmed"
        );
        let disk = follower.disk.clone();
        let found = follower.restart(disk, ReplicaOrigin::Before);
        assert_eq!(found.damage.len(), 1, "a start does not make it whole");
        assert!(!follower.prepare(Epoch(3)).1);
        let epoch = elect(&mut leader, &mut follower, Epoch(3));
        assert_eq!(leader.host.followers(STREAM), [(FOLLOWER, 29, true)]);
        assert!(publishes(&mut leader, &mut follower, 30));
        let disk = follower.disk.clone();
        let found = follower.restart(disk, ReplicaOrigin::Before);
        assert_eq!(found, Found::default());
        let next = epoch.next();
        assert_eq!(follower.prepare(next), (next, true));
    }
}

#[test]
fn a_replica_that_is_added_counts_without_a_new_epoch() {
    let (mut leader, mut follower) = pair();
    follower.restart(MemoryDisk::new(), ReplicaOrigin::NewReplica);
    follower.order(Epoch(1));
    reconnect(&mut leader, &mut follower);
    assert!(publishes(&mut leader, &mut follower, 2));
    assert!(!follower.needs_an_epoch());
}

#[test]
fn a_replica_that_is_removed_and_added_again_copies_all_and_counts_only_then() {
    // Whether the leader hears of both changes, or of their result alone, which is none.
    for (links, hears) in (0..3).flat_map(|links| [(links, true), (links, false)]) {
        let (mut leader, mut follower) = pair();
        for _ in 0..links {
            reconnect(&mut leader, &mut follower);
        }
        let lead = |leader: &mut Node, members: &[u32]| {
            let members = members.iter().copied().map(NodeId).collect();
            let epoch = Epoch(1);
            let order = ReplicaOrder::Lead { epoch, members };
            leader.host.order(STREAM, order, &mut Events::new());
        };
        follower.host.delete(STREAM, &mut Events::new()).unwrap();
        if hears {
            lead(&mut leader, &[1, 3]);
            lead(&mut leader, &[1, 2, 3]);
            assert_eq!(leader.host.followers(STREAM), [], "it has nothing now");
        }

        follower.begin(ReplicaOrigin::NewReplica);
        follower.order(Epoch(1));
        run(&mut [&mut leader, &mut follower]);
        assert!(publishes(&mut leader, &mut follower, 2), "{links} {hears}");
        assert_eq!(leader.host.followers(STREAM), [(FOLLOWER, 2, true)]);
    }
}

/// A follower that has several segments on a disk without room is led again: by a leader whose
/// stream begins behind all of them.
#[test]
fn a_replica_on_a_full_disk_lets_go_of_what_its_leader_has_no_more() {
    let small = StreamSettings {
        segment_bytes: 1_000,
        bytes_max: Some(2_000),
        ..StreamSettings::default()
    };
    let (mut leader, mut follower) = pair();
    let unbounded = StreamSettings {
        bytes_max: None,
        ..small.clone()
    };
    for node in [&mut leader, &mut follower] {
        node.host.set_settings(STREAM, unbounded.clone());
    }
    for id in 2..60 {
        assert!(publishes(&mut leader, &mut follower, id));
    }
    let full = follower.disk.bytes();
    // The leader goes on without it, and its retention passes all that the follower has.
    let mut other = Node::new(NodeId(3));
    other.order(Epoch(1));
    leader.host.connected(NodeId(3));
    run(&mut [&mut leader, &mut other]);
    for id in 60..200 {
        assert!(publishes(&mut leader, &mut other, id));
    }
    leader.host.set_settings(STREAM, small);
    leader.host.expire(Now::both(0));
    run(&mut [&mut leader, &mut other]);
    let disk = follower.disk.clone();
    disk.set_bytes_max(Some(full));
    follower.restart(disk, ReplicaOrigin::Before);
    elect(&mut leader, &mut follower, Epoch(1));
    assert!(
        follower.disk.bytes() < full - 2_000,
        "of {full} bytes {}",
        follower.disk.bytes()
    );
    assert!(publishes(&mut leader, &mut follower, 200));
}

fn readers() -> Reference {
    Reference::new(Bytes::from_static(b"readers")).expect("a name")
}

/// A follower's disk is full, and then retention is in force that these groups hold up. The nodes
/// after that, and the bytes of the follower's disk when it was full.
fn full_follower(retention_groups: Vec<Reference>) -> (Node, Node, u64) {
    let (mut leader, mut follower) = pair();
    let settings = |bytes_max| StreamSettings {
        segment_bytes: 1_000,
        bytes_max,
        retention_groups: retention_groups.clone(),
        ..StreamSettings::default()
    };
    let mut other = Node::new(NodeId(3));
    other.order(Epoch(1));
    leader.host.connected(NodeId(3));
    for node in [&mut leader, &mut follower, &mut other] {
        node.host.set_settings(STREAM, settings(None));
    }
    for id in 2..60 {
        assert!(publishes(&mut leader, &mut follower, id));
    }
    // As far as the follower knows the readers have had nearly all.
    let store = Command::StoreOffset {
        stream: STREAM,
        reference: readers(),
        offset: 50,
        by: StoredBy::Anyone,
    };
    leader
        .host
        .handle(Now::both(0), SESSION, store, &mut Events::new());
    run(&mut [&mut leader, &mut follower]);
    let full = follower.disk.bytes();
    follower.disk.set_bytes_max(Some(full));
    assert!(!publishes(&mut leader, &mut follower, 60));
    assert!(follower.host.is_disk_full());
    for node in [&mut leader, &mut follower, &mut other] {
        node.host.set_settings(STREAM, settings(Some(2_000)));
        node.host.expire(Now::both(0));
    }
    run(&mut [&mut leader, &mut follower, &mut other]);
    (leader, follower, full)
}

#[test]
fn a_follower_whose_disk_fills_lets_go_of_what_retention_lets_go_of() {
    let (mut leader, mut follower, full) = full_follower(Vec::new());
    let left = follower.disk.bytes();
    assert!(left < full - 1_000, "{left} of {full} bytes are left");
    assert!(!follower.host.is_disk_full());
    assert!(publishes(&mut leader, &mut follower, 61));
}

#[test]
fn a_follower_whose_disk_fills_keeps_what_its_leader_may_hold_for_a_group() {
    let (_, follower, full) = full_follower(vec![readers()]);
    assert_eq!(follower.disk.bytes(), full);
}
