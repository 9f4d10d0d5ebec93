//! The cost of a group: memory while nothing happens, counted at the allocator.

use bytes::Bytes;
use leveret_replication::{Body, Group, GroupConfig, HardState, Message, Role, SnapshotMark};
use leveret_types::{NodeId, ReplicaId};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// Bytes that an idle group may take, its own struct included.
const IDLE_BYTES_MAX: usize = 4_096;

/// The system's allocator, which counts what each thread holds.
struct Counting;

thread_local! {
    static HELD: Cell<isize> = const { Cell::new(0) };
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// An allocator can only be written in unsafe code; this one hands every call on unchanged.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        HELD.set(HELD.get() + layout.size() as isize);
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        HELD.set(HELD.get() - layout.size() as isize);
        unsafe { System.dealloc(at, layout) }
    }
}

fn replica(node: u32) -> ReplicaId {
    ReplicaId::new(NodeId(node), 1)
}

fn found() -> Vec<Group> {
    let one = |node: u32| {
        let config = GroupConfig {
            replica: replica(node),
            seed: 1,
            weigh: |data| data.len() as u64,
        };
        let mark = SnapshotMark::founding((1..=3).map(replica));
        Group::new(config, HardState::default(), mark, Vec::new(), 0).expect("sound")
    };
    (1..=3).map(one).collect()
}

/// Delivers and persists until nothing is left.
fn settle(groups: &mut [Group]) {
    loop {
        let mut messages: Vec<Message> = Vec::new();
        for group in groups.iter_mut() {
            if group.wants_tick() {
                group.tick();
            }
            while let Some(ready) = group.ready() {
                assert!(ready.snapshots.is_empty(), "nobody is behind");
                group.persisted(ready.number);
                ready
                    .committed
                    .iter()
                    .for_each(|entry| group.applied(entry.index));
                messages.extend(ready.messages);
            }
        }
        if messages.is_empty() && !groups.iter().any(Group::wants_tick) {
            return;
        }
        for message in messages {
            let to = message.to.node().0 as usize - 1;
            groups[to].step(message).expect("sound");
        }
    }
}

#[test]
fn an_idle_group_takes_less_than_four_kilobytes_even_after_work() {
    // What the library allocates once for all.
    drop(found());
    let before = HELD.get();
    let mut groups = found();
    groups[0].campaign();
    settle(&mut groups);
    assert_eq!(groups[0].status().role, Role::Leader);
    let idle = (HELD.get() - before) as usize / 3;
    for round in 0..300_u32 {
        for part in 0..5_u8 {
            let data = Bytes::from(vec![part; 40 + round as usize % 50]);
            groups[0].propose(data).expect("taken");
        }
        if round % 7 == 0 {
            settle(&mut groups);
        }
    }
    settle(&mut groups);
    let held = groups[0].commit();
    for group in &mut groups {
        assert_eq!(group.status().applied, held);
        group.compacted(held);
    }
    settle(&mut groups);
    let after = (HELD.get() - before) as usize / 3;
    println!("{idle} bytes a replica when founded, {after} after 1500 entries");
    assert!(idle < IDLE_BYTES_MAX, "{idle} bytes when founded");
    assert!(after < IDLE_BYTES_MAX, "{after} bytes after work");
    drop(groups);
}

#[test]
fn what_is_refused_allocates_no_more_than_it_is() {
    // 1,000 entries of a megabyte each are claimed, none is there.
    let claim = b"\x01\x01\x01\0\0\0\x01\0\0\0\x02\0\0\0\x01\0\0\0\x02\x01\x01\x01\xE8\x07\x10\x01\xFF\xFF\x3F";
    let bytes = Bytes::from_static(claim);
    let before = HELD.get();
    assert!(Message::decode(&bytes).is_err());
    assert_eq!(HELD.get(), before);
    let body = Body::Ask;
    let message = Message {
        to: replica(2),
        from: replica(1),
        term: 2,
        body,
    };
    let mut sound = Vec::new();
    message.encode(&mut sound);
    assert!(Message::decode(&Bytes::from(sound)).is_ok());
}
