//! A shard after a crash: what its queues ask the disk for.

mod nodes;
mod streams;

use super::{Bodies, Enqueued, QueueSpec, Shard, log_of, queue_of};
use crate::events::QueueAnswer;
use crate::notify::Notify;
use crate::queue_host::Asker;
use leveret_queue::{QueueKind, Settings};
use leveret_storage::{Folders, MemoryDisk, Options, Reader, StoreLock, WalWriter, recover};
use leveret_types::message::MessageSummary;
use leveret_types::{Message, MessageParts, NodeId, Now, QueueId, ShardId};
use std::collections::BTreeMap;
use std::path::Path;

const BODY_BYTES: usize = 2_000;
const TTL_MS: u64 = 1_000;

/// A shard with its store; dropped, it has crashed.
struct World {
    disk: MemoryDisk,
    shard: Shard,
    wal: WalWriter<MemoryDisk>,
    reader: Reader<MemoryDisk>,
    now: Now,
    _lock: StoreLock<MemoryDisk>,
}

impl World {
    fn on(disk: &MemoryDisk, now: Now) -> Self {
        let options = Options {
            cache_bytes: 0,
            loaded_bytes: 0,
            wal_file_bytes: 16 << 20,
            ..Options::default()
        };
        let folders = Folders::within(Path::new("/store"));
        let mut recovered = recover(disk, &folders, &options).expect("a store");
        let logs = recovered.shards.remove(0);
        let mut shard = Shard::new(ShardId(0), 1, NodeId(1), logs);
        let mut priority_logs: BTreeMap<QueueId, Vec<u8>> = BTreeMap::new();
        for summary in &recovered.logs {
            let (queue, priority_log) = queue_of(summary.log);
            priority_logs.entry(queue).or_default().push(priority_log);
        }
        for (queue, priority_logs) in priority_logs {
            shard.add_queue(now, queue, spec(), priority_logs);
        }
        shard.finish(now);
        Self {
            disk: disk.clone(),
            shard,
            wal: recovered.wal,
            reader: recovered.reader,
            now,
            _lock: recovered.lock,
        }
    }

    fn new() -> Self {
        Self::on(&MemoryDisk::new(), at(0))
    }

    /// kill -9, and a start at that time.
    fn crash(self, now: Now) -> Self {
        let disk = self.disk.clone();
        drop(self);
        Self::on(&disk, now)
    }

    fn publish(&mut self, queue: u64, expiration_ms: Option<u64>) {
        self.publish_at(queue, None, expiration_ms);
    }

    fn publish_at(&mut self, queue: u64, priority: Option<u8>, expiration_ms: Option<u64>) {
        let queue = QueueId(queue);
        let body = [7; BODY_BYTES];
        let parts = MessageParts {
            body: &body,
            properties: &[0, 0],
            ..MessageParts::default()
        };
        let summary = MessageSummary {
            persistent: true,
            priority,
            expiration_ms,
            published_ms: self.now.wall_ms,
            ..MessageSummary::default()
        };
        let message = Message::from_parts(parts, summary);
        if self.shard.counts(self.now, queue).is_none() {
            self.shard.add_queue(self.now, queue, spec(), Vec::new());
        }
        let mut bodies = Bodies::default();
        let put = self
            .shard
            .publish(self.now, queue, &message, &mut bodies, &Notify::Nobody);
        assert_eq!(put, Enqueued::Durable);
    }

    fn purge(&mut self, queue: u64) -> u64 {
        let asker = Asker::Poll(0);
        match self.shard.purge(self.now, QueueId(queue), asker) {
            Some(QueueAnswer::Purged(count)) => count,
            other => panic!("{other:?}"),
        }
    }

    /// Makes durable what was published.
    fn sync(&mut self) {
        self.shard.finish(self.now);
        self.sync_without_exchange();
        self.shard.finish(self.now);
    }

    /// The same; what is said to other nodes stays where it can be seen.
    fn sync_without_exchange(&mut self) {
        let mut chunks = Vec::new();
        self.shard.seal(&mut chunks);
        while !chunks.is_empty() {
            let written = self.wal.write(&mut chunks).expect("a disk").written;
            let places = written.into_iter().map(|(_, seq, place)| (seq, place));
            self.shard.logs.on_durable(places);
        }
        self.shard
            .for_each_kind(self.now, |kind, context| kind.on_durable(context));
    }

    /// Carries out reads until nobody asks for any more; says how many, and how many logs each woke
    /// on average.
    fn read_all(&mut self) -> (usize, usize) {
        let (mut reads, mut woken) = (0, 0);
        while self.shard.logs.has_reads() {
            // As two threads do it: one after the other.
            for request in self.shard.logs.take_reads() {
                let loaded = self.reader.read(request);
                let logs = self.shard.logs.loaded(loaded);
                woken += logs.len();
                reads += 1;
                self.shard.loaded(self.now, logs);
                self.shard.finish(self.now);
            }
        }
        (reads, woken)
    }

    fn ready(&self, queue: u64) -> u64 {
        let counts = self.shard.counts(self.now, QueueId(queue));
        counts.expect("the queue is there").ready
    }
}

fn at(ms: u64) -> Now {
    Now {
        monotonic_ms: 1_000 + ms,
        wall_ms: 1_700_000_000_000 + ms,
    }
}

fn spec() -> QueueSpec {
    QueueSpec {
        view: None,
        kind: QueueKind::Classic,
        durable: true,
        members: Vec::new(),
        founders: Vec::new(),
        home: NodeId(0),
        auto_delete: false,
        settings: Settings {
            priority_max: 9,
            ..Settings::default()
        },
    }
}

const QUEUES: u64 = 1_000;

#[test]
fn queues_whose_messages_do_not_expire_read_nothing_after_a_crash() {
    let mut world = World::new();
    for queue in 1..=QUEUES {
        world.publish(queue, None);
        if queue == QUEUES / 2 {
            // Of some there is a saved state.
            world.shard.save_states(false);
        }
    }
    world.sync();
    let mut world = world.crash(at(10));
    let before = world.disk.counts().read_bytes;
    assert!(!world.shard.logs.has_reads(), "nobody has to look");
    world.shard.tick(at(60_000));
    assert!(!world.shard.logs.has_reads());
    assert_eq!(world.disk.counts().read_bytes, before);
    assert!((1..=QUEUES).all(|queue| world.ready(queue) == 1));
}

#[test]
fn messages_with_a_time_to_live_expire_after_a_crash() {
    let mut world = World::new();
    world.publish(1, Some(TTL_MS));
    world.publish(2, None);
    world.publish(3, None);
    world.shard.finish(world.now);
    // A state of each, and then a message that it does not tell of.
    world.shard.save_states(false);
    world.publish(3, None);
    let drained = world.purge(3);
    assert_eq!(drained, 2);
    world.publish(3, Some(TTL_MS));
    world.sync();
    let mut world = world.crash(at(500));
    assert!(world.shard.logs.has_reads(), "what may expire is looked at");
    world.read_all();
    assert_eq!((world.ready(1), world.ready(2), world.ready(3)), (1, 1, 1));
    let due = world.shard.next_deadline_ms();
    assert!(due <= at(TTL_MS).monotonic_ms, "it is known when: {due}");
    world.now = at(TTL_MS);
    world.shard.tick(world.now);
    world.read_all();
    assert_eq!((world.ready(1), world.ready(2), world.ready(3)), (0, 1, 0));
}

#[test]
fn messages_with_a_time_to_live_expire_whichever_priority_came_first() {
    let mut world = World::new();
    world.publish_at(1, Some(5), Some(TTL_MS));
    world.publish_at(1, Some(0), Some(TTL_MS));
    world.sync();
    let mut world = world.crash(at(500));
    world.read_all();
    assert_eq!(world.ready(1), 2);
    world.now = at(TTL_MS);
    world.shard.tick(world.now);
    world.read_all();
    assert_eq!(world.ready(1), 0);
}

#[test]
fn what_may_expire_is_written_down_once_and_not_with_each_message() {
    let mut world = World::new();
    world.publish(1, Some(TTL_MS));
    let states = |world: &World| world.shard.logs.state(log_of(QueueId(1), 0)).to_vec();
    let written = states(&world);
    assert!(!written.is_empty(), "before the message is durable");
    let purge = |world: &mut World| world.purge(1);
    for expiration in [None, Some(5), None, Some(TTL_MS)] {
        purge(&mut world);
        world.publish(1, expiration);
        assert_eq!(states(&world), written);
    }
    purge(&mut world);
    world.publish(1, None);
    world.shard.save_states(false);
    assert_ne!(states(&world), written, "none is there any more");
}

#[test]
fn many_queues_that_must_look_read_each_chunk_once() {
    let mut world = World::new();
    for queue in 1..=QUEUES {
        world.publish(queue, Some(60_000));
        if queue % 100 == 0 {
            world.sync();
        }
    }
    world.sync();
    let mut world = world.crash(at(500));
    let before = world.disk.counts().read_bytes;
    let (reads, woken) = world.read_all();
    let read = world.disk.counts().read_bytes - before;
    let waiting = QUEUES * BODY_BYTES as u64;
    assert!(
        read < waiting * 3 / 2,
        "{read} bytes read of {waiting} in {reads} reads"
    );
    // Each queue is woken by what it waits for and by nothing else.
    assert!(woken <= QUEUES as usize, "{woken} woken by {reads} reads");
    let due = world.shard.next_deadline_ms();
    assert!(due <= at(60_000).monotonic_ms, "all are looked at: {due}");
    world.now = at(60_000);
    world.shard.tick(world.now);
    world.read_all();
    assert!((1..=QUEUES).all(|queue| world.ready(queue) == 0));
}

#[test]
fn the_states_of_many_queues_are_saved_a_bounded_number_at_a_time() {
    use super::STATES_AT_ONCE;
    let mut world = World::new();
    let count = STATES_AT_ONCE as u64 + 1;
    for queue in 1..=count {
        // What was written down with the first message is not so any more.
        world.publish(queue, Some(TTL_MS));
        world.purge(queue);
        world.publish(queue, None);
    }
    let state = |world: &World, queue| world.shard.logs.state(log_of(QueueId(queue), 0)).to_vec();
    let before = state(&world, 1);
    let saved = |world: &World| {
        (1..=count)
            .filter(|queue| state(world, *queue) != before)
            .count()
    };
    let mut queues = world.shard.queues();
    world.shard.save_states_of(&mut queues);
    assert_eq!((saved(&world), queues.len()), (STATES_AT_ONCE, 1));
    world.shard.save_states_of(&mut queues);
    assert_eq!((saved(&world), queues.len()), (STATES_AT_ONCE + 1, 0));
}

#[test]
fn a_checkpoint_writes_nothing_of_queues_that_a_restart_takes_as_they_are() {
    let mut world = World::new();
    (1..=QUEUES).for_each(|queue| world.publish(queue, None));
    world.sync();
    let gathered = world.shard.logs.gathered_bytes();
    world.shard.save_states(false);
    assert_eq!(world.shard.logs.gathered_bytes(), gathered);
    // What was handed out may have been.
    let mut world = world.crash(at(500));
    assert_eq!(world.read_all(), (0, 0));
    let gathered = world.shard.logs.gathered_bytes();
    world.shard.save_states(false);
    assert_eq!(world.shard.logs.gathered_bytes(), gathered);
}

#[test]
fn what_was_kept_back_goes_some_at_a_time_when_all_of_it_is_due_at_once() {
    const AT_ONCE: usize = 1_000;
    let mut world = World::new();
    let summary = MessageSummary {
        persistent: true,
        ..MessageSummary::default()
    };
    let parts = MessageParts {
        properties: &[0, 0],
        ..MessageParts::default()
    };
    let message = Message::from_parts(parts, summary);
    let due = at(5);
    for _ in 0..2 * AT_ONCE + 1 {
        world.shard.delay("/", &message, due.wall_ms);
    }
    let released = [AT_ONCE, AT_ONCE, 1, 0].map(|expected| {
        world.shard.tick(due);
        let is_more_due = world.shard.next_deadline_ms() <= due.monotonic_ms;
        assert_eq!(is_more_due, world.shard.delayed_count() > 0);
        (
            std::mem::take(&mut world.shard.effects.deferred).len(),
            expected,
        )
    });
    assert!(released.iter().all(|(has, due)| has == due), "{released:?}");
}
