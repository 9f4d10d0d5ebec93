//! The hot path allocates nothing, and what waits takes no memory.

use leveret_queue::{
    Consumer, Effect, Log, Meta, Outcome, Peek, Position, Queue, QueueKind, Settings, Settle,
};
use leveret_types::{ConsumerId, Now};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The system's allocator, which counts what each thread asks of it, and what is live.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
    static LIVE_BYTES: Cell<usize> = const { Cell::new(0) };
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// An allocator can only be written in unsafe code; this one hands every call on unchanged.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        LIVE_BYTES.set(LIVE_BYTES.get().wrapping_add(layout.size()));
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        LIVE_BYTES.set(LIVE_BYTES.get().wrapping_sub(layout.size()));
        unsafe { System.dealloc(at, layout) }
    }
}

struct FreeLog;

const META: Meta = Meta {
    bytes: 100,
    published_ms: 0,
    expiration_ms: None,
};
const NOW: Now = Now::both(1);

impl Log for FreeLog {
    fn peek(&mut self, position: Position) -> Peek {
        // Sizes that differ, so that what is held does not merge into one interval.
        Peek::Ready(Meta {
            bytes: 100 + (position.index % 7) as u32,
            ..META
        })
    }

    fn admit(&mut self, _: ConsumerId, _: u32) -> bool {
        true
    }
}

fn allocations(work: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.get();
    work();
    ALLOCATIONS.get() - before
}

fn enqueue(queue: &mut Queue, index: u64) {
    let bytes = 100 + (index % 7) as u32;
    queue.enqueue(
        Position {
            priority_log: 0,
            index,
        },
        &Meta { bytes, ..META },
    );
}

/// What the consumer says of one message.
fn settle(index: u64, outcome: Outcome) -> Settle {
    Settle {
        subscription: ConsumerId(1),
        priority_log: 0,
        range: index..index + 1,
        outcome,
    }
}

/// Publishes, delivers and settles a batch of ten.
fn round(queue: &mut Queue, first: u64, out: &mut Vec<Effect>, requeue: bool) {
    for index in first..first + 10 {
        enqueue(queue, index);
    }
    queue.pump(NOW, &mut FreeLog, out);
    for index in first..first + 10 {
        if requeue && index % 3 == 0 {
            queue.settle(NOW, settle(index, Outcome::Requeue { count: false }), out);
            queue.pump(NOW, &mut FreeLog, out);
        }
        queue.settle(NOW, settle(index, Outcome::Accept), out);
    }
    assert!(out.len() >= 11, "ten deliveries and what left");
    out.clear();
}

#[test]
fn publishing_delivering_and_settling_allocate_nothing() {
    let mut queue = Queue::new(QueueKind::Classic, Settings::default(), NOW);
    let mut out = Vec::with_capacity(64);
    let consumer = Consumer {
        id: ConsumerId(1),
        priority: 0,
        exclusive: false,
        no_ack: false,
        prefetch: 20,
        timeout_ms: None,
    };
    queue
        .attach(NOW, consumer, &mut out)
        .expect("the only consumer");
    for first in (0..100).step_by(10) {
        round(&mut queue, first, &mut out, true);
    }
    let count = allocations(|| {
        for first in (100..10_000).step_by(10) {
            round(&mut queue, first, &mut out, first % 20 == 0);
        }
    });
    assert_eq!(count, 0);
}

#[test]
fn a_million_waiting_messages_are_one_interval() {
    let mut queue = Queue::new(QueueKind::Classic, Settings::default(), NOW);
    enqueue(&mut queue, 0);
    let count = allocations(|| (1..1_000_000).for_each(|index| enqueue(&mut queue, index)));
    assert_eq!(count, 0);
    assert_eq!(queue.ready_from(0, 0).count(), 1);
    assert_eq!(queue.counts(NOW).ready, 1_000_000);
}

#[test]
fn consumers_that_come_and_go_leave_nothing() {
    let mut queue = Queue::new(QueueKind::Classic, Settings::default(), NOW);
    let mut out = Vec::with_capacity(64);
    let mut come_and_go = |ids: std::ops::Range<u64>| {
        for id in ids {
            let consumer = Consumer {
                id: ConsumerId(id),
                priority: id as i64,
                exclusive: false,
                no_ack: false,
                prefetch: 1,
                timeout_ms: None,
            };
            queue.attach(NOW, consumer, &mut out).expect("a consumer");
            assert!(queue.cancel(NOW, ConsumerId(id), &mut out));
            out.clear();
        }
    };
    come_and_go(0..100);
    let before = LIVE_BYTES.get();
    come_and_go(100..10_000);
    assert_eq!(LIVE_BYTES.get(), before);
}
