//! Streams whose segments are damaged at rest: a reader gets what was published, in order and
//! without a gap, and where something is missing it hears that, and gets nothing from behind it.

#![allow(clippy::unwrap_used, reason = "a test that fails here says enough")]

use leveret_sim::Random;
use leveret_storage::{MemoryDisk, StreamFiles};
use leveret_stream::{
    BatchBuilder, Command, Event, Events, Flush, OffsetSpec, PublisherId, ReaderId, Refusal,
    RequestId, SessionId, SharedChunk, StreamSettings,
};
use leveret_stream_host::StreamHost;
use leveret_types::{ConnectionId, Now, QueueId};
use std::path::{Path, PathBuf};

const STREAM: QueueId = QueueId(1);
const SESSION: SessionId = SessionId::Connection(ConnectionId(1));
const ROUNDS: u64 = 60;
const SECTOR: usize = 512;

/// A host with the stream; how many messages its start says are damaged.
fn start(disk: &MemoryDisk) -> StreamHost<MemoryDisk> {
    let files = StreamFiles::open(disk.clone(), Path::new("streams"), 9).unwrap();
    let mut host = StreamHost::new(files);
    let settings = StreamSettings {
        segment_bytes: 8 * 1024,
        flush: Flush::Sync,
        ..StreamSettings::default()
    };
    assert!(host.begin(STREAM, settings).is_ok());
    host
}

fn give(host: &mut StreamHost<MemoryDisk>, now: u64, command: Command) {
    host.handle(Now::both(now), SESSION, command, &mut Events::new());
}

/// Ends a turn, and further ones until nothing is read any more.
fn end_turn(host: &mut StreamHost<MemoryDisk>, now: u64) -> Vec<Event> {
    let mut events = Events::new();
    loop {
        host.end_turn(Now::both(now), &mut events).unwrap();
        let reads = host.take_reads();
        if reads.is_empty() {
            break;
        }
        for read in reads {
            host.was_read(read.run(), &mut events);
        }
    }
    events.into_iter().map(|(_, event)| event).collect()
}

/// A stream of several segments, each message of which was confirmed.
fn filled() -> MemoryDisk {
    let disk = MemoryDisk::new();
    let mut host = start(&disk);
    let declare = Command::DeclarePublisher {
        request: RequestId(0),
        stream: STREAM,
        publisher: PublisherId(1),
        reference: None,
    };
    give(&mut host, 0, declare);
    for round in 0..ROUNDS {
        let mut batch = BatchBuilder::new();
        for id in round * 3..round * 3 + 3 {
            let body = vec![id as u8; 60 + (id as usize * 37) % 700];
            assert!(batch.push(id, None, &body));
        }
        let publish = Command::Publish {
            stream: STREAM,
            publisher: PublisherId(1),
            batch: batch.take(),
        };
        give(&mut host, round, publish);
        end_turn(&mut host, round);
    }
    // It is idle before the node is killed.
    while let Some(due_ms) = host.due_ms() {
        end_turn(&mut host, due_ms);
    }
    disk
}

fn segments(disk: &MemoryDisk) -> Vec<PathBuf> {
    let paths = disk.paths().into_iter();
    let is_segment = |path: &PathBuf| path.extension().is_some_and(|end| end == "stream");
    paths.filter(is_segment).collect()
}

/// What a reader from the first offset on gets, and whether it hears of damage.
fn read(disk: &MemoryDisk) -> (Vec<SharedChunk>, bool) {
    let mut host = start(disk);
    let subscribe = Command::Subscribe {
        request: RequestId(1),
        stream: STREAM,
        reader: ReaderId(1),
        offset: OffsetSpec::First,
        credit: 1_000,
        filter: None,
    };
    give(&mut host, 1_000, subscribe);
    let (mut chunks, mut is_told) = (Vec::new(), false);
    for event in end_turn(&mut host, 1_000) {
        match event {
            Event::Chunk { chunk, .. } => {
                assert!(!is_told, "something comes after the reader has ended");
                chunks.push(chunk);
            }
            Event::ReaderEnded { refusal, .. } => {
                assert!(matches!(refusal, Refusal::Damaged(_)), "{refusal}");
                is_told = true;
            }
            _ => {}
        }
    }
    let stats = host.stats_of(&[STREAM]).next();
    assert!(!is_told || stats.is_some_and(|(_, stats)| stats.damaged));
    (chunks, is_told)
}

/// Damages bytes of a file that has `len`, from a sector on.
fn damage(kind: u64, bytes: &mut Vec<u8>, sector: usize) {
    let at = sector * SECTOR;
    match kind {
        0 => bytes.truncate(at),
        1 => bytes[at..].fill(0),
        2 => bytes[at] ^= 1,
        3 => bytes[at..at + SECTOR].fill(0),
        4 => bytes[at..].fill(0xEE),
        // The head of the file.
        _ => bytes[..SECTOR].fill(0),
    }
}

#[test]
fn a_reader_hears_of_damage_in_any_segment_and_gets_nothing_from_behind_it() {
    let disk = filled();
    let (whole, is_told) = read(&disk.copy());
    assert!(!is_told);
    let end = whole.last().unwrap().header().next_offset();
    assert_eq!(end, ROUNDS * 3, "all that was published");
    let segments = segments(&disk);
    assert!(segments.len() > 5, "{segments:?}");
    let mut random = Random::new(7);
    let mut ended = 0;
    for path in &segments {
        // Without the head of its last segment a stream does not begin.
        let kinds = if Some(path) == segments.last() { 5 } else { 6 };
        for kind in 0..kinds {
            for _ in 0..4 {
                let damaged = disk.copy();
                let mut sector = 0;
                damaged.tamper(path, |bytes| {
                    let sectors = (bytes.len() / SECTOR) as u64;
                    sector = 1 + random.below(sectors - 1) as usize;
                    damage(kind, bytes, sector);
                });
                let at = format!("{} of {}, sector {sector}", kind, path.display());
                let (chunks, is_told) = read(&damaged);
                let mut next = chunks.first().map_or(0, |c| c.header().first_offset);
                for chunk in &chunks {
                    assert!(whole.contains(chunk), "{at}: not what was published");
                    assert_eq!(chunk.header().first_offset, next, "{at}: a gap");
                    next = chunk.header().next_offset();
                }
                assert!(
                    is_told || (next == end && chunks.len() == whole.len()),
                    "{at}"
                );
                ended += usize::from(is_told);
            }
        }
    }
    assert!(ended > 60, "{ended}");
}
