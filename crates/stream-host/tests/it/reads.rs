//! Reads are handed out: who publishes waits for none, and what becomes of a stream meanwhile harms
//! nobody.

use crate::common::{declare, end_turn, give, host, publish, soon_ms, subscribe_first};
use leveret_storage::MemoryDisk;
use leveret_stream::{
    BatchBuilder, Command, Event, Events, PublisherId, ReaderId, SharedChunk, StreamSettings,
};
use leveret_stream_host::{DueRead, StreamHost};
use leveret_types::limits::{STREAM_READ_BYTES, STREAM_READS_MAX};
use leveret_types::{Now, QueueId, ReaderMemory};

const NOW: Now = Now::both(1_000);

/// Streams with so many chunks of one message each, none of which is in memory.
fn on_disk(disk: &MemoryDisk, streams: u64, chunks: u64) -> StreamHost<MemoryDisk> {
    let mut before = host(disk);
    let begin = |host: &mut StreamHost<MemoryDisk>| {
        for stream in (1..=streams).map(QueueId) {
            host.begin(stream, StreamSettings::default()).unwrap();
            declare(host, stream);
        }
    };
    begin(&mut before);
    for chunk in 0..chunks {
        for stream in (1..=streams).map(QueueId) {
            give(&mut before, NOW, publish(stream, chunk..chunk + 1));
        }
        end_turn(&mut before, NOW);
    }
    drop(before);
    let mut host = host(disk);
    begin(&mut host);
    host
}

fn subscribe(host: &mut StreamHost<MemoryDisk>, stream: u64, reader: u32) {
    let mut subscribe = subscribe_first(QueueId(stream), 9);
    if let Command::Subscribe { reader: of, .. } = &mut subscribe {
        *of = ReaderId(reader);
    }
    give(host, NOW, subscribe);
}

/// Ends a turn: what is heard of it, and the reads that it hands out.
fn turn(host: &mut StreamHost<MemoryDisk>) -> (Vec<Event>, Vec<DueRead<MemoryDisk>>) {
    let mut events = Events::new();
    host.end_turn(NOW, &mut events).unwrap();
    let events = events.into_iter().map(|(_, event)| event).collect();
    (events, host.take_reads())
}

/// Does a read; the readers that it brings chunks.
fn readers_of(host: &mut StreamHost<MemoryDisk>, read: DueRead<MemoryDisk>) -> Vec<u32> {
    let mut events = Events::new();
    host.was_read(read.run(), &mut events);
    let reader = |(_, event)| match event {
        Event::Chunk { reader, .. } => Some(reader.0),
        _ => None,
    };
    events.into_iter().filter_map(reader).collect()
}

#[test]
fn who_publishes_or_reads_what_is_new_waits_for_no_read() {
    let disk = MemoryDisk::new();
    let mut host = on_disk(&disk, 2, 20);
    let at_the_end = Command::Subscribe {
        request: leveret_stream::RequestId(1),
        stream: QueueId(2),
        reader: ReaderId(2),
        offset: leveret_stream::OffsetSpec::Next,
        credit: 9,
        filter: None,
    };
    give(&mut host, NOW, at_the_end);
    turn(&mut host);
    subscribe(&mut host, 1, 1);
    give(&mut host, NOW, publish(QueueId(2), 20..21));
    let before = disk.counts().reads;
    let (events, reads) = turn(&mut host);
    assert_eq!(disk.counts().reads, before);
    let is_confirmed =
        |event: &Event| matches!(event, Event::Confirmed { ids, .. } if ids == &[20]);
    assert!(events.iter().any(is_confirmed), "{events:?}");
    let is_new = |event: &Event| {
        matches!(
            event,
            Event::Chunk {
                reader: ReaderId(2),
                ..
            }
        )
    };
    assert!(events.iter().any(is_new), "{events:?}");
    // Nor while the read is under way.
    assert_eq!((reads.len(), soon_ms(&host)), (1, None));
    give(&mut host, NOW, publish(QueueId(2), 21..22));
    assert!(turn(&mut host).0.iter().any(is_new));
    assert_eq!(disk.counts().reads, before);
    for read in reads {
        assert_eq!(readers_of(&mut host, read), [1; 9]);
    }
    assert!(disk.counts().reads > before);
}

#[test]
fn so_many_reads_are_under_way_and_who_has_waited_longest_comes_next() {
    let bound = u64::from(STREAM_READS_MAX);
    let disk = MemoryDisk::new();
    let mut host = on_disk(&disk, bound + 1, 1);
    for stream in 1..=bound + 1 {
        subscribe(&mut host, stream, stream as u32);
    }
    let mut reads = turn(&mut host).1;
    assert_eq!(reads.len() as u64, bound);
    assert_eq!(
        host.due_ms(),
        None,
        "nothing can be done before one has ended"
    );
    // One more of the first stream comes behind that of the last one.
    subscribe(&mut host, 1, 100);
    assert_eq!(turn(&mut host).1.len(), 0);
    assert_eq!(readers_of(&mut host, reads.remove(0)), [1]);
    assert_eq!(host.due_ms(), Some(0));
    let next = turn(&mut host).1.pop().expect("there is room for one");
    assert_eq!(readers_of(&mut host, next), [bound as u32 + 1]);
    let next = turn(&mut host).1.pop().expect("there is room for one");
    assert_eq!(readers_of(&mut host, next), [100]);
    for (read, stream) in reads.into_iter().zip(2..) {
        assert_eq!(readers_of(&mut host, read), [stream]);
    }
    assert_eq!(turn(&mut host).1.len(), 0);
    assert_eq!(soon_ms(&host), None, "nothing is left to do");
}

#[test]
fn what_was_read_of_a_stream_that_has_gone_reaches_nobody() {
    let disk = MemoryDisk::new();
    let mut host = on_disk(&disk, 1, 3);
    subscribe(&mut host, 1, 1);
    let read = turn(&mut host).1.pop().expect("a read");
    host.delete(QueueId(1), &mut Events::new()).unwrap();
    host.begin(QueueId(1), StreamSettings::default()).unwrap();
    declare(&mut host, QueueId(1));
    give(&mut host, NOW, publish(QueueId(1), 0..1));
    end_turn(&mut host, NOW);
    subscribe(&mut host, 1, 1);
    assert!(readers_of(&mut host, read).is_empty());
}

/// Streams with a reader memory of so many blocks, and 20 chunks each, three of which are a block.
struct Full {
    host: StreamHost<MemoryDisk>,
    memory: ReaderMemory,
    /// What sockets have not taken.
    kept: Vec<(ReaderId, SharedChunk)>,
    /// Reads that were done.
    reads: u32,
}

const CHUNKS: u32 = 20;

impl Full {
    fn new(streams: u64, blocks: usize) -> Self {
        let memory = ReaderMemory::new(blocks * STREAM_READ_BYTES);
        let host = host(&MemoryDisk::new()).with_tails_bytes_max(0);
        let mut host = host.with_reader_memory(memory.clone());
        for stream in (1..=streams).map(QueueId) {
            host.begin(stream, StreamSettings::default()).unwrap();
            declare(&mut host, stream);
            for id in 0..CHUNKS {
                let mut batch = BatchBuilder::new();
                assert!(batch.push(id.into(), None, &[7; 300 * 1024]));
                let publish = Command::Publish {
                    stream,
                    publisher: PublisherId(1),
                    batch: batch.take(),
                };
                give(&mut host, NOW, publish);
                end_turn(&mut host, NOW);
            }
        }
        let kept = Vec::new();
        Self {
            host,
            memory,
            kept,
            reads: 0,
        }
    }

    /// Takes turns until nothing happens by itself any more; within the bound at each step.
    fn go_on(&mut self) {
        loop {
            let mut events = Events::new();
            self.host.end_turn(NOW, &mut events).unwrap();
            let reads = self.host.take_reads();
            let is_over = reads.is_empty() && self.host.due_ms() != Some(0);
            for read in reads {
                let read = read.run();
                self.reads += 1;
                assert!(self.memory.block_bytes() <= self.memory.bytes_max());
                self.host.was_read(read, &mut events);
            }
            let chunks = events.into_iter().filter_map(|(_, event)| match event {
                Event::Chunk { reader, chunk, .. } => Some((reader, chunk)),
                _ => None,
            });
            self.kept.extend(chunks);
            if is_over {
                return;
            }
        }
    }

    fn subscribe(&mut self, stream: u64, reader: ReaderId) {
        subscribe(&mut self.host, stream, reader.0);
    }

    fn give_credit(&mut self, stream: u64, reader: ReaderId, chunks: u32) {
        let credit = Command::Credit {
            stream: QueueId(stream),
            reader,
            chunks,
        };
        for event in give(&mut self.host, NOW, credit) {
            if let Event::Chunk { reader, chunk, .. } = event {
                self.kept.push((reader, chunk));
            }
        }
    }

    fn had(&self, reader: ReaderId) -> u32 {
        self.kept.iter().filter(|(of, _)| *of == reader).count() as u32
    }

    /// The session of a reader gives back what it has of it.
    fn hand_back(&mut self, stream: u64, reader: ReaderId) {
        self.kept.retain(|(of, _)| *of != reader);
        let stream = QueueId(stream);
        give(&mut self.host, NOW, Command::Unsubscribe { stream, reader });
    }
}

const fn that_hands_back(number: u32) -> ReaderId {
    ReaderId(number).that_hands_back()
}

#[test]
fn a_thousand_readers_that_take_nothing_hold_bounded_memory_and_one_that_reads_goes_on() {
    let mut full = Full::new(1, 4);
    let idle: Vec<ReaderId> = (2..1_002).map(that_hands_back).collect();
    for reader in &idle {
        full.subscribe(1, *reader);
    }
    full.go_on();
    assert!(full.memory.is_crowded() && full.host.waits_for_memory());
    let served = idle.iter().filter(|reader| full.had(**reader) > 0).count();
    assert!((1..=5).contains(&served), "{served}");
    // Who keeps little for as long as it likes does not wait for them.
    full.subscribe(1, ReaderId(1));
    full.go_on();
    assert!(full.had(ReaderId(1)) > 0);
    // Their sessions hand back what their sockets do not take.
    for reader in &idle {
        full.hand_back(1, *reader);
    }
    let reader = that_hands_back(2_000);
    full.subscribe(1, reader);
    let mut read = 0;
    for _ in 0..CHUNKS {
        full.go_on();
        assert!(!full.host.waits_for_memory());
        let chunks = full.had(reader);
        read += chunks;
        full.kept.retain(|(of, _)| *of != reader);
        let stream = QueueId(1);
        let credit = Command::Credit {
            stream,
            reader,
            chunks,
        };
        give(&mut full.host, NOW, credit);
    }
    assert_eq!(read, CHUNKS);
}

/// The ids of the first messages of the chunks that a reader has.
fn firsts(full: &Full, reader: ReaderId) -> Vec<u64> {
    let of_it = full.kept.iter().filter(|(of, _)| *of == reader);
    of_it
        .map(|(_, chunk)| chunk.header().first_offset)
        .collect()
}

#[test]
fn a_reader_that_is_behind_and_gives_credit_chunk_by_chunk_costs_few_reads() {
    let mut full = Full::new(1, 64);
    let reader = that_hands_back(1);
    full.subscribe(1, reader);
    full.go_on();
    let mut had = full.had(reader);
    while had < CHUNKS {
        full.give_credit(1, reader, 1);
        full.go_on();
        had += 1;
        assert_eq!(full.had(reader), had);
    }
    assert_eq!(
        firsts(&full, reader),
        (0..CHUNKS.into()).collect::<Vec<_>>()
    );
    assert!(full.reads <= 3, "{}", full.reads);
}

#[test]
fn what_was_read_ahead_is_let_go_of_where_much_is_held_and_is_read_again() {
    let mut full = Full::new(1, 12);
    let reader = that_hands_back(1);
    full.subscribe(1, reader);
    full.go_on();
    let before = full.memory.block_bytes();
    full.kept.retain(|(of, _)| *of != reader);
    assert!(
        (1..before).contains(&full.memory.block_bytes()),
        "it reads ahead"
    );
    for other in [2, 3, 4] {
        full.subscribe(1, that_hands_back(other));
        full.go_on();
    }
    assert!(full.memory.is_crowded());
    full.kept.clear();
    assert_eq!(full.memory.block_bytes(), 0);
    full.give_credit(1, reader, CHUNKS);
    full.go_on();
    assert_eq!(
        firsts(&full, reader),
        (9..CHUNKS.into()).collect::<Vec<_>>()
    );
}

#[test]
fn who_waits_for_memory_has_its_turn_however_many_wait_in_another_stream() {
    let mut full = Full::new(2, 4);
    for number in 1..100 {
        full.subscribe(1, that_hands_back(number));
    }
    full.go_on();
    let reader = that_hands_back(1_000);
    full.subscribe(2, reader);
    full.go_on();
    assert_eq!(full.had(reader), 0, "there is no memory left");
    // All that was held is taken at once, a few times.
    let mut turns = 0;
    while full.had(reader) == 0 {
        turns += 1;
        assert!(turns <= 2, "its turn has not come");
        full.kept.clear();
        full.go_on();
    }
}

#[test]
fn nothing_is_read_for_a_reader_that_has_gone_while_it_waited_for_memory() {
    let mut full = Full::new(1, 1);
    let (first, gone) = (that_hands_back(1), that_hands_back(2));
    full.subscribe(1, first);
    full.subscribe(1, gone);
    full.go_on();
    assert!(full.had(first) > 0 && full.had(gone) == 0);
    full.hand_back(1, gone);
    full.hand_back(1, first);
    full.go_on();
    assert_eq!((full.memory.block_bytes(), full.kept.len()), (0, 0));
    assert!(!full.host.waits_for_memory());
}
