//! What waits for the write-ahead log: whether anybody waits for it, and how much it is.

use crate::common::{A, B, World, append, payload};
use leveret_storage::{Durability, LogKind, MemoryDisk, ShardLogs, Store, Urgency};
use leveret_types::limits::CHUNK_BYTES;

fn shard(store: &mut Store<MemoryDisk>) -> &mut ShardLogs {
    &mut store.shards[0]
}

#[test]
fn settles_may_gather_and_nothing_else() {
    let world = World::new();
    let (mut store, _) = world.open();
    assert_eq!(shard(&mut store).urgency(), Urgency::Nothing);
    append(&mut store, A, b"one");
    append(&mut store, A, b"two");
    assert_eq!(shard(&mut store).urgency(), Urgency::Awaited);
    assert!(shard(&mut store).is_awaited());
    store.sync().expect("there is space");
    assert_eq!(shard(&mut store).urgency(), Urgency::Nothing);
    assert!(!shard(&mut store).is_awaited());
    shard(&mut store).settle(A, 0..1, 3);
    assert_eq!(shard(&mut store).urgency(), Urgency::Lazy);
    assert!(!shard(&mut store).is_awaited());
    // Whatever else there is, somebody may wait for it.
    let changes: [fn(&mut ShardLogs); 7] = [
        |shard| shard.create_log(B, LogKind::Durable),
        |shard| shard.set_state(B, b"state"),
        |shard| shard.set_term_and_vote(B, 1, 2),
        |shard| shard.skip_to(B, 9),
        |shard| shard.truncate(B, 3),
        |shard| shard.renew_log(B),
        |shard| shard.delete_log(B),
    ];
    for (number, change) in changes.into_iter().enumerate() {
        store.sync().expect("there is space");
        change(shard(&mut store));
        assert!(shard(&mut store).is_awaited(), "change {number}");
    }
    // Unless nobody does: it gathers on, until a chunk of it is full.
    store.sync().expect("there is space");
    append(&mut store, A, b"three");
    shard(&mut store).await_nothing();
    assert_eq!(shard(&mut store).urgency(), Urgency::Lazy);
    append(&mut store, A, &payload(1, CHUNK_BYTES));
    shard(&mut store).await_nothing();
    assert_eq!(shard(&mut store).urgency(), Urgency::Awaited);
}

#[test]
fn what_has_no_effect_is_not_written() {
    let world = World::new();
    let (mut store, _) = world.open();
    append(&mut store, A, b"one");
    store.sync().expect("there is space");
    let nothing: [fn(&mut ShardLogs); 7] = [
        |shard| assert_eq!(shard.settle(A, 5..9, 10), 0),
        |shard| assert_eq!(shard.settle(B, 0..9, 10), 0),
        |shard| shard.skip_to(A, 1),
        |shard| shard.truncate(A, 1),
        |shard| shard.renew_log(B),
        |shard| shard.delete_log(B),
        |shard| assert_eq!(shard.accept_loss(A), 0),
    ];
    for (number, change) in nothing.into_iter().enumerate() {
        change(shard(&mut store));
        let urgency = shard(&mut store).urgency();
        assert_eq!(urgency, Urgency::Nothing, "change {number}");
    }
    // A volatile log is in no file.
    shard(&mut store).create_log(B, LogKind::Volatile);
    let body = shard(&mut store).body(Durability::Volatile, &[b"body"]);
    shard(&mut store).append(B, body, 4);
    shard(&mut store).set_state(B, b"state");
    shard(&mut store).set_term_and_vote(B, 3, 4);
    shard(&mut store).settle(B, 0..1, 4);
    shard(&mut store).truncate(B, 0);
    shard(&mut store).delete_log(B);
    assert_eq!(shard(&mut store).urgency(), Urgency::Nothing);
    assert_eq!(shard(&mut store).gathered_bytes(), 0);
}

#[test]
fn what_gathers_counts_until_it_is_handed_over() {
    let world = World::new();
    let (mut store, _) = world.open();
    assert_eq!(shard(&mut store).gathered_bytes(), 0);
    append(&mut store, A, &payload(0, 1_000));
    let one = shard(&mut store).gathered_bytes();
    assert!((1_000..1_100).contains(&one), "{one}");
    // Chunks that are full wait as well.
    append(&mut store, A, &payload(0, CHUNK_BYTES));
    append(&mut store, A, &payload(0, CHUNK_BYTES));
    let all = shard(&mut store).gathered_bytes();
    assert!(
        (1_000 + CHUNK_BYTES * 2..1_200 + CHUNK_BYTES * 2).contains(&all),
        "{all}"
    );
    let mut chunks = Vec::new();
    shard(&mut store).seal(&mut chunks);
    assert_eq!((chunks.len(), shard(&mut store).gathered_bytes()), (3, 0));
}
