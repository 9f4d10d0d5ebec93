//! Content that is cached, requested, and given up.

use super::*;

const A: LogId = LogId(1);
const B: LogId = LogId(2);
const BUDGET: usize = 1_000;

fn key(file: FileId) -> Key {
    Key::Block { file, offset: 0 }
}

fn source(file: FileId, len: u32) -> Source {
    Source::Segment {
        file,
        offset: 0,
        len,
    }
}

fn block(len: usize) -> Content {
    Content::Block {
        bytes: vec![0; len].into(),
        log: A,
        is_shared: false,
        first_index: 0,
        spans: Vec::new(),
    }
}

fn is_held(cache: &LoadedCache, file: FileId) -> bool {
    cache.held.contains_key(&key(file))
}

/// Has a block of so many bytes read.
fn read(cache: &mut LoadedCache, file: FileId, len: u32) {
    cache.demand(0, A, key(file), source(file, len));
    cache.loaded(key(file), Ok(block(len as usize)));
}

fn requested(cache: &mut LoadedCache) -> Vec<Key> {
    let requests = cache.take_requests();
    requests.into_iter().map(|request| request.key).collect()
}

#[test]
fn a_read_that_fails_is_repeated_a_few_times_and_then_given_up() {
    let mut cache = LoadedCache::new(BUDGET);
    let fail = |cache: &mut LoadedCache| {
        cache.demand(0, A, key(1), source(1, 100));
        cache.loaded(key(1), Err("gone".to_owned()));
    };
    assert_eq!(cache.failure(key(1)), None, "nobody has asked");
    fail(&mut cache);
    for _ in 0..FAILED_READ_REPEATS_MAX {
        assert_eq!(cache.failure(key(1)), None, "it is worth another try");
        // It is under way: whoever asks waits for it.
        cache.demand(0, B, key(1), source(1, 100));
        assert_eq!(cache.failure(key(1)), None);
        assert_eq!(cache.loaded(key(1), Err("gone".to_owned())), [B]);
    }
    for _ in 0..3 {
        assert_eq!(cache.failure(key(1)), Some("gone"));
    }
    assert_eq!(cache.bytes(), 0, "nothing is under way");
    // One that succeeds after all counts anew.
    read(&mut cache, 1, 100);
    cache.forget(key(1));
    fail(&mut cache);
    assert_eq!(cache.failure(key(1)), None);
    // What nobody will read again is forgotten with its failures.
    cache.forget(key(1));
    assert!(cache.failed.is_empty());
}

#[test]
fn an_entry_is_doubted_once_and_so_are_many_at_a_time() {
    let mut cache = LoadedCache::new(BUDGET);
    assert!(cache.doubt(A, 1), "it is read again");
    assert!(cache.doubt(A, 2) && cache.doubt(B, 1));
    assert!(!cache.doubt(A, 1), "it was read wrongly twice");
    assert!(cache.doubt(A, 1), "and is asked for later");
    cache.trust(A, 1);
    assert!(cache.doubt(A, 1), "it was right in between");
    let mut cache = LoadedCache::new(BUDGET);
    for index in 0..DOUBTED_MAX as u64 {
        assert!(cache.doubt(A, index), "{index}");
    }
    assert!(!cache.doubt(B, 0), "one too many is given up at once");
    assert!(!cache.doubt(A, 0));
    assert!(cache.doubt(B, 0), "there is room again");
}

#[test]
fn what_was_used_last_stays_and_what_is_retired_goes_first() {
    let mut cache = LoadedCache::new(BUDGET);
    (1..=4).for_each(|file| read(&mut cache, file, 250));
    assert_eq!(cache.bytes(), BUDGET, "it is full");
    assert!(cache.get(key(1)).is_some());
    read(&mut cache, 5, 250);
    let held = |cache: &LoadedCache| -> Vec<u64> {
        (1..10).filter(|file| is_held(cache, *file)).collect()
    };
    assert_eq!(held(&cache), [1, 3, 4, 5]);
    cache.retire(key(5));
    assert_eq!(held(&cache), [1, 3, 4, 5], "until there is need");
    read(&mut cache, 6, 250);
    assert_eq!(held(&cache), [1, 3, 4, 6]);
    // As many go as are needed, and one that is larger than all room is held alone.
    read(&mut cache, 7, 500);
    assert_eq!((held(&cache), cache.bytes()), (vec![1, 6, 7], BUDGET));
    read(&mut cache, 8, 3_000);
    assert_eq!((held(&cache), cache.bytes()), (vec![8], 3_000));
    read(&mut cache, 9, 1);
    assert_eq!((held(&cache), cache.bytes()), (vec![9], 1));
}

#[test]
fn half_of_the_room_is_for_what_is_read_ahead() {
    let mut cache = LoadedCache::new(BUDGET);
    cache.ahead(0, key(1), source(1, 501));
    assert!(!cache.has_requests());
    cache.ahead(0, key(1), source(1, 300));
    cache.ahead(0, key(1), source(1, 100));
    cache.ahead(0, key(2), source(2, 201));
    cache.ahead(0, key(3), source(3, 200));
    assert_eq!(requested(&mut cache), [key(1), key(3)]);
    assert_eq!(cache.bytes(), 500);
    assert!(cache.loaded(key(1), Ok(block(300))).is_empty());
    cache.loaded(key(3), Err("gone".to_owned()));
    // What is there or cannot be had is not read ahead.
    cache.ahead(0, key(1), source(1, 300));
    cache.ahead(0, key(3), source(3, 200));
    assert!(!cache.has_requests());
    // Who asks for what is under way waits for that, and each log once.
    cache.ahead(0, key(4), source(4, 100));
    for log in [A, B, A] {
        cache.demand(0, log, key(4), source(4, 100));
    }
    assert_eq!(requested(&mut cache), [key(4)]);
    assert_eq!(cache.loaded(key(4), Ok(block(100))), [A, B]);
}

#[test]
fn one_read_always_may_and_others_wait_for_room_in_their_order() {
    let mut cache = LoadedCache::new(BUDGET);
    cache.demand(0, A, key(1), source(1, 5_000));
    cache.demand(0, A, key(2), source(2, 600));
    cache.demand(0, A, key(3), source(3, 400));
    cache.demand(0, A, key(4), source(4, 1));
    assert_eq!(requested(&mut cache), [key(1)]);
    cache.loaded(key(1), Ok(block(5_000)));
    assert_eq!(requested(&mut cache), [key(2), key(3)], "just what fits");
    cache.demand(0, A, key(5), source(5, 1));
    cache.loaded(key(3), Ok(block(400)));
    assert_eq!(requested(&mut cache), [key(4), key(5)]);
    // An answer that nobody waits for changes nothing.
    let before = cache.bytes();
    assert!(cache.loaded(key(9), Ok(block(100))).is_empty());
    assert_eq!(cache.bytes(), before);
    assert!(!is_held(&cache, 9));
}

#[test]
fn few_bodies_of_a_large_chunk_are_read_by_themselves() {
    let few = |count, bytes| Positions::little_of([3..5, 4..6, 9..10], count, bytes);
    let these = few(16, PART_CHUNK_BYTES_MIN + 4);
    assert_eq!(these.count(16), 4, "a quarter of it");
    let numbers = |of: &Positions| -> Vec<Option<usize>> {
        (2..11).map(|position| of.number_of(position)).collect()
    };
    let expected = [
        None,
        Some(0),
        Some(1),
        Some(2),
        None,
        None,
        None,
        Some(3),
        None,
    ];
    assert_eq!(numbers(&these), expected);
    assert_eq!(few(15, PART_CHUNK_BYTES_MIN + 4), Positions::All, "more");
    assert_eq!(few(16, PART_CHUNK_BYTES_MIN), Positions::All, "a small one");
    assert_eq!(Positions::All.count(16), 16);
    assert_eq!(Positions::All.number_of(7), Some(7));
}

#[test]
fn a_chunk_is_read_whole_once_as_much_of_it_was_read_in_parts() {
    let mut cache = LoadedCache::new(BUDGET);
    assert!(!cache.is_whole_worth(500, 500));
    assert!(cache.is_whole_worth(501, 500));
    // Chunks that had to make room unused: each doubles what it takes, up to a bound.
    let mut took = Vec::new();
    for seq in 0..=u64::from(WASTED_MAX) + 1 {
        let chunk = Content::Chunk {
            positions: Positions::All,
            bodies: Bodies::from_buffer(vec![0; 900].into(), vec![900]),
            damaged: Vec::new(),
        };
        cache.hold(Key::Chunk(seq), chunk);
        took.push(cache.wasted);
    }
    let expected: Vec<u32> = (0..=WASTED_MAX).chain([WASTED_MAX]).collect();
    assert_eq!(took, expected);
    let needed = 500 << WASTED_MAX;
    assert!(!cache.is_whole_worth(needed, 500) && cache.is_whole_worth(needed + 1, 500));
    assert!(cache.is_whole_worth(u32::MAX, 500), "said to be whole");
    // One that was of use halves it again.
    let last = Key::Chunk(u64::from(WASTED_MAX) + 1);
    cache.get(last).expect("it is held").given_bytes = 300;
    cache.hold(key(1), block(900));
    assert_eq!(cache.wasted, WASTED_MAX - 1);
    cache.forget_waste();
    assert!(cache.is_whole_worth(501, 500));
}
