//! A view and its queue with a stream in the test's hands.

use super::loss::SHORT_MS;
use super::*;
use crate::queue_spec::ViewSpec;
use crate::test_chunks;
use leveret_queue::{
    Consumer, Log, Outcome, QueueKind, RecoveredPriorityLog, Settings, Settle, State,
};
use leveret_types::limits::{VIEW_READY_MAX, VIEW_UNSETTLED_MAX};
use leveret_types::{ConsumerId, RangeSet};

const STREAM: QueueId = QueueId(9).of_stream();
const NOW: Now = Now::both(1_000);

/// What the queue machine sees: the view's messages, and channels that always have room.
struct Messages<'a>(&'a StreamView);

impl Log for Messages<'_> {
    fn peek(&mut self, position: Position) -> Peek {
        self.0.peek(position.index)
    }

    fn admit(&mut self, _: ConsumerId, _: u32) -> bool {
        true
    }
}

struct World {
    view: StreamView,
    queue: Queue,
    /// The offset after the stream's last one.
    end: u64,
    /// How many at its end are of what it keeps of its own.
    own: u64,
    delivered: Vec<(u64, bool)>,
    now: Now,
}

fn spec() -> ViewSpec {
    ViewSpec {
        source: Some(STREAM),
        name: "s".into(),
        start: None,
    }
}

/// A chunk of messages of so many bytes.
fn chunk(first_offset: u64, count: u64, bytes: usize) -> SharedChunk {
    let body = vec![b'x'; bytes];
    let entries = vec![test_chunks::entry(&body); count as usize];
    test_chunks::chunk(first_offset, count as u32, &entries)
}

impl World {
    /// A view of a stream that has so many messages, begun at the first.
    fn new(end: u64) -> Self {
        Self::with(Settings::default(), None, end)
    }

    fn with(settings: Settings, saved: Option<&[u8]>, end: u64) -> Self {
        let (view, queue) = StreamView::new(
            NOW,
            QueueId(1),
            &spec(),
            (QueueKind::Classic, settings),
            saved,
        );
        let mut world = Self {
            view,
            queue,
            end,
            own: 0,
            delivered: Vec::new(),
            now: NOW,
        };
        world.step(false);
        world
    }

    fn hear(&mut self, event: Event) {
        let mut out = Vec::new();
        let news = StreamNews::Event(event);
        self.view.hear(self.now, news, &mut self.queue, &mut out);
        self.carry_out(out);
    }

    fn stats(&self, first: u64) -> StreamStats {
        StreamStats {
            first_chunk: Some(first),
            committed_offset: self.end.checked_sub(1),
            ..StreamStats::default()
        }
    }

    /// Lets the view act, and answers what it asks but for chunks. Says where it has begun to read.
    fn step(&mut self, is_wanted: bool) -> Option<u64> {
        let mut begun = None;
        loop {
            let [_, unsettled, leaving] = self.queue.depths();
            self.view.step(self.now, is_wanted, unsettled + leaving);
            let commands = std::mem::take(&mut self.view.commands);
            if commands.is_empty() {
                return begun;
            }
            for command in commands {
                match command {
                    Command::ResolveOffset {
                        request, offset, ..
                    } => {
                        let result = Ok(match offset {
                            OffsetSpec::Last => self.end - self.own - 1,
                            _ => 0,
                        });
                        self.hear(Event::ResolvedOffset { request, result });
                    }
                    Command::Stats { request, .. } => {
                        let result = Ok(self.stats(0));
                        self.hear(Event::Stats { request, result });
                    }
                    Command::Subscribe {
                        request,
                        offset: OffsetSpec::Offset(offset),
                        ..
                    } => {
                        begun = Some(offset);
                        let result = Ok(());
                        self.hear(Event::Subscribed { request, result });
                    }
                    _ => {}
                }
            }
        }
    }

    /// The stream sends a chunk.
    fn send(&mut self, chunk: SharedChunk) {
        let reader = self.view.reader.as_ref().expect("it reads").id;
        let committed_chunk = chunk.header().first_offset;
        self.hear(Event::Chunk {
            reader,
            chunk,
            committed_chunk,
        });
        self.pump();
    }

    fn pump(&mut self) {
        while self
            .view
            .give(&mut self.queue, |queue, at, meta| queue.enqueue(at, &meta))
        {
            self.tick();
        }
        self.tick();
    }

    fn tick(&mut self) {
        let mut out = Vec::new();
        let mut log = Messages(&self.view);
        self.queue.pump(self.now, &mut log, &mut out);
        self.carry_out(out);
    }

    fn carry_out(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Deliver(delivery) => {
                    let offset = delivery.position.index;
                    assert!(matches!(self.view.find(offset), Found::Message(_)));
                    let before = self.view.was_delivered(offset);
                    self.delivered
                        .push((offset, delivery.redelivered || before));
                }
                Effect::Settled { range, .. } => self.view.settled(range),
                _ => {}
            }
        }
    }

    fn attach(&mut self, id: u64, prefetch: u32) -> ConsumerId {
        let consumer = Consumer {
            id: ConsumerId(id),
            priority: 0,
            exclusive: false,
            no_ack: false,
            prefetch,
            timeout_ms: None,
        };
        let mut out = Vec::new();
        self.queue
            .attach(self.now, consumer, &mut out)
            .expect("it is free");
        self.carry_out(out);
        self.step(true);
        ConsumerId(id)
    }

    fn settle(&mut self, consumer: ConsumerId, range: Range<u64>, outcome: Outcome) {
        let mut out = Vec::new();
        let settle = Settle {
            subscription: consumer,
            priority_log: 0,
            range,
            outcome,
        };
        self.queue.settle(self.now, settle, &mut out);
        self.carry_out(out);
        self.pump();
    }

    fn offsets(&self) -> Vec<u64> {
        self.delivered.iter().map(|(offset, _)| *offset).collect()
    }

    /// The node ends, in order or by a crash right after the state was saved, and starts again.
    fn restart(mut self, clean: bool) -> Self {
        let saved = self.view.save(self.now, &self.queue, clean);
        let saved = saved.expect("it has begun");
        Self::with(Settings::default(), Some(&saved), self.end)
    }
}

#[test]
fn what_the_stream_has_is_ready_before_anybody_reads_it() {
    let mut world = World::new(1_000);
    assert_eq!(world.view.backlog(), 1_000);
    let consumer = world.attach(1, 10);
    world.send(chunk(0, 600, 8));
    assert_eq!(world.offsets(), Vec::from_iter(0..10));
    assert_eq!(world.view.backlog(), 400);
    world.settle(consumer, 0..10, Outcome::Accept);
    assert_eq!(world.offsets(), Vec::from_iter(0..20));
    let [ready, unsettled, _] = world.queue.depths();
    assert_eq!((ready, unsettled), (580, 10));
}

#[test]
fn after_a_crash_what_is_not_settled_comes_again_flagged_and_nothing_else_does() {
    let mut world = World::new(100);
    let consumer = world.attach(1, 50);
    world.send(chunk(0, 100, 8));
    world.settle(consumer, 0..3, Outcome::Accept);
    world.settle(consumer, 4..40, Outcome::Accept);
    let mut world = world.restart(false);
    assert_eq!(world.queue.depths()[0] + world.view.backlog(), 61);
    world.attach(1, 1_000);
    world.send(chunk(0, 100, 8));
    let expected = std::iter::once(3).chain(40..100);
    assert_eq!(world.offsets(), Vec::from_iter(expected));
    assert!(world.delivered.iter().all(|(_, redelivered)| *redelivered));
}

#[test]
fn what_is_published_after_a_crash_is_not_flagged_also_after_an_orderly_end() {
    let mut world = World::new(10);
    world.attach(1, 50);
    world.send(chunk(0, 10, 8));
    let mut world = world.restart(false);
    let consumer = world.attach(1, 50);
    world.send(chunk(0, 10, 8));
    world.settle(consumer, 0..10, Outcome::Accept);
    world.end = 12;
    let mut world = world.restart(true);
    world.attach(1, 50);
    world.send(chunk(10, 2, 8));
    assert_eq!(world.delivered, [(10, false), (11, false)]);
}

#[test]
fn after_an_orderly_end_only_what_was_delivered_is_flagged() {
    let mut world = World::new(100);
    world.attach(1, 10);
    world.send(chunk(0, 100, 8));
    let mut world = world.restart(true);
    world.attach(1, 1_000);
    world.send(chunk(0, 100, 8));
    let expected = (0..100).map(|offset| (offset, offset < 10));
    assert_eq!(world.delivered, Vec::from_iter(expected));
}

#[test]
fn a_view_reads_from_the_first_unsettled_offset_on() {
    let mut world = World::new(100);
    let consumer = world.attach(1, 50);
    world.send(chunk(0, 100, 8));
    world.settle(consumer, 0..30, Outcome::Accept);
    let mut world = world.restart(false);
    let mut out = Vec::new();
    let consumer = Consumer {
        id: ConsumerId(1),
        priority: 0,
        exclusive: false,
        no_ack: false,
        prefetch: 5,
        timeout_ms: None,
    };
    world
        .queue
        .attach(world.now, consumer, &mut out)
        .expect("it is free");
    assert_eq!(world.step(true), Some(30));
}

#[test]
fn what_retention_deletes_unsettled_is_counted_and_does_not_hold_up_the_rest() {
    let mut world = World::new(100);
    let consumer = world.attach(1, 50);
    world.send(chunk(0, 50, 8));
    world.settle(consumer, 0..10, Outcome::Accept);
    world.settle(consumer, 12..50, Outcome::Accept);
    let mut world = world.restart(true);
    // 10 and 11 were not settled, 50 to 79 never given.
    let result = Ok(world.stats(80));
    let request = RequestId(77);
    world.hear(Event::Stats { request, result });
    assert_eq!(world.queue.counters().dropped, 32);
    assert_eq!(world.queue.depths()[0] + world.view.backlog(), 20);
    world.attach(1, 50);
    world.send(chunk(80, 20, 8));
    assert_eq!(world.offsets(), Vec::from_iter(80..100));
}

#[test]
fn what_retention_deletes_behind_what_was_read_takes_nothing_that_was_read() {
    let most = VIEW_READY_MAX as u64;
    let mut world = World::new(2 * most);
    let consumer = world.attach(1, 1);
    world.send(chunk(0, most, 1));
    // There is room for one of these so far.
    world.send(chunk(most, most, 1));
    world.end = 3 * most;
    let result = Ok(world.stats(2 * most + 10));
    let request = RequestId(77);
    world.hear(Event::Stats { request, result });
    assert_eq!(world.queue.counters().dropped, 10);
    let left = world.queue.depths().iter().sum::<u64>() + world.view.backlog();
    assert_eq!(left, 3 * most - 10);
    world.send(chunk(2 * most + 10, 5, 1));
    let expected: Vec<u64> = (0..2 * most).chain(2 * most + 10..2 * most + 15).collect();
    for offset in &expected {
        world.settle(consumer, *offset..*offset + 1, Outcome::Accept);
    }
    assert_eq!(world.offsets(), expected);
    assert_eq!(world.queue.counters().dropped, 10);
    assert_eq!(world.view.missing_offsets.len(), 0);
}

#[test]
fn what_a_stream_keeps_of_its_own_is_no_loss_and_what_retention_has_deleted_is_one() {
    for (first, dropped) in [(0, 0), (14, 4)] {
        let mut world = World::new(20);
        world.attach(1, 50);
        world.send(chunk(0, 10, 8));
        world.send(chunk(14, 6, 8));
        assert_eq!(world.offsets(), Vec::from_iter((0..10).chain(14..20)));
        // The figures that come say which of both it was, and once.
        for request in [77, 78] {
            let (result, request) = (Ok(world.stats(first)), RequestId(request));
            world.hear(Event::Stats { request, result });
            assert_eq!(world.queue.counters().dropped, dropped);
        }
        assert_eq!(world.view.backlog(), 0);
    }
}

#[test]
fn what_a_stream_keeps_of_its_own_at_its_end_is_not_ready() {
    let mut world = World::new(10);
    world.attach(1, 50);
    world.send(chunk(0, 10, 8));
    let check = |world: &mut World| {
        let (result, request) = (Ok(world.stats(0)), RequestId(77));
        world.hear(Event::Stats { request, result });
        world.step(true);
        (world.view.backlog(), world.view.may_have_more())
    };
    (world.end, world.own) = (12, 2);
    assert_eq!(check(&mut world), (0, false));
    // Messages follow, of which the view hears before they come.
    (world.end, world.own) = (15, 0);
    assert_eq!(check(&mut world), (3, true));
    world.send(chunk(12, 3, 8));
    assert_eq!(world.offsets(), Vec::from_iter((0..10).chain(12..15)));
    (world.end, world.own) = (16, 1);
    assert_eq!(check(&mut world), (0, false));
    assert_eq!(world.queue.counters().dropped, 0);
    // Also after a start: what is read is the last chunk, of which all was given.
    let own = (world.end, world.own);
    let mut world = world.restart(true);
    (world.end, world.own) = own;
    world.attach(1, 50);
    world.send(chunk(12, 3, 8));
    assert_eq!(check(&mut world).0, 0);
}

#[test]
fn after_a_start_a_view_that_nobody_uses_looks_whether_all_of_the_last_messages_were_given() {
    // The last chunk was given as a whole, or in part.
    for (records, ready) in [(1, 0), (5, 4)] {
        let mut world = World::new(10);
        let consumer = world.attach(1, 50);
        world.send(chunk(0, 9, 8));
        world.send(chunk(9, 1, 8));
        world.settle(consumer, 0..10, Outcome::Accept);
        let mut world = world.restart(true);
        (world.end, world.own) = (9 + records + 1, records);
        world.now.monotonic_ms += ASK_MS;
        assert_eq!(
            world.step(false),
            Some(9),
            "it reads from the last chunk on"
        );
        world.send(chunk(9, records, 8));
        world.now.monotonic_ms += VIEW_IDLE_MS;
        assert_eq!(world.step(false), None);
        assert_eq!((world.queue.depths()[0], world.view.backlog()), (ready, 0));
    }
}

#[test]
fn messages_that_only_stream_clients_can_read_are_counted_and_the_streams_own_are_not() {
    const ZSTD: u8 = 4;
    let mut world = World::new(12);
    world.attach(1, 50);
    let message = test_chunks::entry(b"x");
    let unreadable = |records| test_chunks::batch(ZSTD, records, b"zstd, say");
    world.send(test_chunks::chunk(0, 6, &[unreadable(5), message.clone()]));
    assert_eq!(world.offsets(), [5]);
    assert_eq!(world.queue.counters().dropped, 5);
    // What the stream keeps of its own is not sent.
    world.send(test_chunks::chunk(7, 1, &[message]));
    assert_eq!(world.offsets(), [5, 7]);
    assert_eq!(world.queue.counters().dropped, 5);
    // Nothing comes behind these.
    world.send(test_chunks::chunk(8, 4, &[unreadable(4)]));
    assert_eq!(world.queue.counters().dropped, 9);
    assert_eq!(world.view.backlog(), 0);
}

#[test]
fn no_more_is_read_ahead_than_the_limit_and_nothing_is_left_out() {
    let most = VIEW_READY_MAX as u64;
    let mut world = World::new(most + 1);
    let consumer = world.attach(1, 1);
    world.send(chunk(0, most + 1, 1));
    // One is held, and so many wait.
    assert_eq!(world.view.window.len(), VIEW_READY_MAX + 1);
    let mut world_more = World::new(most + 2);
    world_more.attach(1, 1);
    world_more.send(chunk(0, most + 2, 1));
    assert_eq!(world_more.view.window.len(), VIEW_READY_MAX + 1);
    world.settle(consumer, 0..1, Outcome::Accept);
    assert_eq!(world.offsets(), [0, 1]);
}

#[test]
fn no_more_is_unsettled_than_the_limit() {
    let most = VIEW_UNSETTLED_MAX as u64;
    let mut world = World::new(most + 10);
    let consumer = world.attach(1, 0);
    let half = most / 2;
    world.send(chunk(0, half, 1));
    world.send(chunk(half, half, 1));
    world.send(chunk(most, 10, 1));
    assert_eq!(world.delivered.len() as u64, most);
    world.settle(consumer, 7..8, Outcome::Accept);
    assert_eq!(world.delivered.len() as u64, most + 1);
}

#[test]
fn a_view_that_nobody_uses_keeps_no_messages_and_gives_them_all_the_same_later() {
    let mut world = World::new(10);
    let consumer = world.attach(1, 2);
    world.send(chunk(0, 10, 8));
    let mut out = Vec::new();
    world.queue.detach(world.now, consumer, &mut out);
    world.carry_out(out);
    world.now = Now::both(world.now.monotonic_ms + VIEW_IDLE_MS);
    world.step(false);
    assert_eq!(world.view.window.len(), 0);
    assert_eq!(world.queue.depths()[0], 10);
    world.delivered.clear();
    world.attach(2, 100);
    world.send(chunk(0, 10, 8));
    let expected = (0..10).map(|offset| (offset, offset < 2));
    assert_eq!(world.delivered, Vec::from_iter(expected));
}

#[test]
fn a_view_never_wants_to_be_looked_at_again_at_once() {
    let mut world = World::new(10);
    let consumer = world.attach(1, 2);
    world.send(chunk(0, 10, 8));
    // Who has cancelled holds messages still.
    let mut out = Vec::new();
    world.queue.cancel(world.now, consumer, &mut out);
    for _ in 0..5 {
        let deadline = world.view.deadline_ms(false).expect("it asks now and then");
        assert!(deadline > world.now.monotonic_ms);
        world.now = Now::both(deadline);
        world.step(false);
    }
    // One that is purged before it knows where it begins has nothing to save.
    let (mut view, _) = StreamView::new(
        NOW,
        QueueId(1),
        &spec(),
        (QueueKind::Classic, Settings::default()),
        None,
    );
    view.purge();
    view.step(NOW, false, 0);
    assert_eq!(view.deadline_ms(true), None);
}

#[test]
fn what_comes_of_an_older_reader_is_not_heard() {
    let mut world = World::new(10);
    world.attach(1, 100);
    let old = world.view.reader.as_ref().expect("it reads").id;
    world.hear(Event::Lost { stream: STREAM });
    world.hear(Event::Chunk {
        reader: old,
        chunk: chunk(0, 10, 8),
        committed_chunk: 0,
    });
    world.pump();
    assert_eq!(world.delivered, []);
    world.now = Now::both(world.now.monotonic_ms + RETRY_MS);
    assert_eq!(world.step(true), Some(0));
    world.send(chunk(0, 10, 8));
    assert_eq!(world.offsets(), Vec::from_iter(0..10));
}

#[test]
fn a_purge_takes_what_was_not_read_too() {
    let mut world = World::new(1_000);
    world.attach(1, 5);
    world.send(chunk(0, 100, 8));
    let mut out = Vec::new();
    let purged = world.queue.purge(&mut out);
    world.carry_out(out);
    assert_eq!(purged + world.view.purge(), 995);
    assert_eq!(world.queue.depths(), [0, 5, 0]);
    let world = world.restart(false);
    assert_eq!(world.queue.depths()[0], 5);
    assert_eq!(world.view.backlog(), 0);
}

/// The same chunk, which came so many milliseconds later.
fn later(chunk: &SharedChunk, by_ms: i64) -> SharedChunk {
    let mut header = *chunk.header();
    header.timestamp_ms += by_ms;
    SharedChunk::new(header, &[], &chunk.data(), &[])
}

/// A view that has settled ten messages, and a consumer of it after a crash.
fn after_ten_settled() -> World {
    let mut world = World::new(10);
    let consumer = world.attach(1, 100);
    world.send(chunk(0, 10, 8));
    world.settle(consumer, 0..10, Outcome::Accept);
    let mut world = world.restart(false);
    world.attach(2, 100);
    world
}

#[test]
fn a_view_looks_again_at_the_last_chunk_that_it_read_and_delivers_what_follows() {
    let mut world = after_ten_settled();
    world.send(chunk(8, 2, 8));
    world.send(later(&chunk(10, 2, 8), 7));
    assert_eq!(world.offsets(), [10, 11]);
}

#[test]
fn a_view_whose_stream_has_other_messages_at_offsets_that_it_read_delivers_none_of_them() {
    let mut world = after_ten_settled();
    // The disk has lied to the stream: it has lost its end, and given the offsets anew.
    world.send(later(&chunk(8, 4, 8), 7));
    assert_eq!(world.offsets(), [0; 0]);
    assert_eq!(world.view.stage, Stage::Broken);
    assert!(!world.view.may_have_more());
}

#[test]
fn that_a_stream_has_less_than_was_read_is_said_once_it_stays_so() {
    let mut world = after_ten_settled();
    let check = |world: &mut World, end: u64, after_ms: u64| {
        world.end = end;
        world.now.monotonic_ms += after_ms;
        let (result, request) = (Ok(world.stats(0)), RequestId(77));
        world.hear(Event::Stats { request, result });
        world.view.short.is_reported
    };
    assert!(!check(&mut world, 0, 0), "its replica has just begun");
    assert!(!check(&mut world, 0, SHORT_MS - 1));
    assert!(!check(&mut world, 10, 1), "it has caught up");
    assert!(!check(&mut world, 9, 1));
    assert!(check(&mut world, 9, SHORT_MS));
    assert!(!check(&mut world, 10, 1));
}

#[test]
fn a_view_whose_saved_state_is_lost_or_damaged_is_not_served() {
    let mut world = World::new(10);
    let saved = world
        .view
        .save(NOW, &world.queue, false)
        .expect("it has begun");
    for state in [&[][..], &saved[..saved.len() - 1], &[9]] {
        let world = World::with(Settings::default(), Some(state), 10);
        assert_eq!(world.view.stage, Stage::Broken, "{state:?}");
    }
}

/// What a view's consumer has seen and settled, whatever became of the node meanwhile.
struct Ledger {
    world: World,
    consumer: ConsumerId,
    lives: u64,
    /// Where the stream's reader goes on.
    next: u64,
    /// What is settled, and how much of it was when the state was saved last.
    settled: RangeSet,
    saved: (Option<Vec<u8>>, RangeSet),
}

/// Messages of each chunk of a ledger's stream.
const CHUNK: u64 = 7;

impl Ledger {
    fn new() -> Self {
        let mut ledger = Self {
            world: World::new(0),
            consumer: ConsumerId(0),
            lives: 0,
            next: 0,
            settled: RangeSet::new(),
            saved: (None, RangeSet::new()),
        };
        ledger.live();
        ledger
    }

    /// The node has started; a consumer comes.
    fn live(&mut self) {
        self.lives += 1;
        self.consumer = self.world.attach(self.lives, 40);
        let view = &self.world.view;
        let expected = view.progress.expected;
        let begins = match view.progress.read_ms {
            0 => expected,
            _ => expected.min(view.given.end.saturating_sub(1)),
        };
        self.next = begins / CHUNK * CHUNK;
    }

    fn save(&mut self) {
        let saved = self.world.view.save(NOW, &self.world.queue, false);
        self.saved = (saved, self.settled.clone());
    }

    /// The node ends, with what was saved last; what was settled since comes again.
    fn crash(&mut self) {
        let (saved, settled) = self.saved.clone();
        let end = self.world.end;
        self.world = World::with(Settings::default(), saved.as_deref(), end);
        self.settled = settled;
        self.live();
    }

    /// The stream sends what it has.
    fn read(&mut self, chunks: u64) {
        for _ in 0..chunks {
            if self.next + CHUNK > self.world.end {
                return;
            }
            self.world.send(chunk(self.next, CHUNK, 8));
            self.next += CHUNK;
        }
    }

    /// Settles some of what this life has been delivered, and checks that nothing settled has come.
    fn settle(&mut self, is_chosen: impl Fn(u64) -> bool) {
        let delivered = std::mem::take(&mut self.world.delivered);
        for (offset, redelivered) in delivered {
            assert!(offset < self.world.end, "{offset} is not in the stream");
            assert!(
                !self.settled.contains(offset),
                "{offset} comes after its settle"
            );
            let outcome = match is_chosen(offset) {
                true => Outcome::Accept,
                false => Outcome::Requeue { count: false },
            };
            let outcome = match redelivered {
                true => Outcome::Accept,
                false => outcome,
            };
            if matches!(outcome, Outcome::Accept) {
                self.settled.insert(offset);
            }
            self.world
                .settle(self.consumer, offset..offset + 1, outcome);
        }
    }
}

/// Crashes, saves and returns in any order: each message is settled in the end, and none comes
/// again once its settle was saved, or within the life of its settle.
#[test]
fn whatever_happens_each_message_is_settled_and_none_comes_after_a_saved_settle() {
    for seed in 0..300_u64 {
        let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        let mut random = |below: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % below
        };
        let mut ledger = Ledger::new();
        for _ in 0..60 {
            match random(6) {
                0 => ledger.world.end += CHUNK * random(9),
                1 | 2 => ledger.read(1 + random(4)),
                3 => {
                    let one_in = 1 + random(4);
                    ledger.settle(|offset| offset % one_in == 0);
                }
                4 => ledger.save(),
                _ => ledger.crash(),
            }
        }
        while ledger.settled.len() < ledger.world.end {
            let before = ledger.settled.len();
            for _ in 0..4 {
                ledger.read(u64::MAX);
                ledger.settle(|_| true);
            }
            assert!(
                ledger.settled.len() > before,
                "seed {seed} leaves messages out"
            );
        }
    }
}

/// The leader of a group takes over what consumers hold, and finds that retention was faster.
#[test]
fn what_a_leader_cannot_read_any_more_leaves_once_it_comes_back() {
    let mut unsettled = RangeSet::new();
    unsettled.insert_range(0..3);
    let known = KnownView {
        source: STREAM,
        given: 3,
        read_ms: 0,
        unsettled: unsettled.clone(),
    };
    let view = StreamView::of_group(NOW, QueueId(1), &spec(), Some(known), 0);
    let recovered = RecoveredPriorityLog {
        priority_log: 0,
        live: unsettled,
        bytes: 0,
        next_index: 3,
    };
    let settings = Settings {
        dead_letter: true,
        ..Settings::default()
    };
    let state = State::default();
    let queue = Queue::recover(QueueKind::Quorum, settings, NOW, vec![recovered], &state);
    let mut world = World {
        view,
        queue,
        end: 4,
        own: 0,
        delivered: Vec::new(),
        now: NOW,
    };
    let consumer = world.attach(1, 3);
    assert_eq!(world.queue.adopt(NOW, consumer, 0, 0..2, 0), 2);
    world.send(chunk(2, 2, 8));
    assert_eq!(world.offsets(), [2], "the consumer holds two");
    world.settle(consumer, 0..1, Outcome::Release);
    world.settle(consumer, 1..2, Outcome::Reject);
    assert!(matches!(world.view.find(1), Found::Never));
    let mut out = Vec::new();
    world.view.give_up_lost(&mut world.queue, &mut out);
    world.carry_out(out);
    world.pump();
    assert_eq!(world.offsets(), [2, 3], "nobody waits for what is gone");
    assert_eq!(world.queue.counters().dropped, 2);
    assert_eq!(world.view.given.unsettled.len(), 2);
    assert!(world.view.given.lost.is_empty());
}
