//! A stream against the simplest model of one, a list of messages: random publishes, readers,
//! commits, crashes and retention, repeatable by seed.

use bytes::Bytes;
use leveret_stream::segments::stored_bytes;
use leveret_stream::{
    BatchBuilder, ChunkKind, Command, Effect, Event, Events, Loaded, OffsetSpec, PublisherId,
    ReaderId, Recovered, Reference, RequestId, Seek, Segment, SessionId, SharedChunk, StoredBy,
    Stream, StreamSettings,
};
use leveret_types::{ConnectionId, Now, QueueId};
use std::collections::BTreeMap;

const STREAM: QueueId = QueueId(1);
const SESSION: SessionId = SessionId::Connection(ConnectionId(1));
const PUBLISHERS: u32 = 3;

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB) % bound
    }
}

/// Segments as lists of chunks: a disk that does what the effects say.
#[derive(Clone, Default)]
struct Disk {
    segments: BTreeMap<u64, Vec<(SharedChunk, bool)>>,
}

impl Disk {
    fn recovered(&self) -> Recovered {
        let segment = |(first_offset, chunks): (&u64, &Vec<(SharedChunk, bool)>)| Segment {
            first_offset: *first_offset,
            first_timestamp_ms: chunks.first().map_or(0, |c| c.0.header().timestamp_ms),
            bytes: chunks.iter().map(|c| stored_bytes(c.0.header())).sum(),
        };
        let newest = self.segments.last_key_value().map_or(&[][..], |(_, c)| c);
        let start = newest
            .iter()
            .rposition(|(_, is_start)| *is_start)
            .unwrap_or(0);
        Recovered {
            segments: self.segments.iter().map(segment).collect(),
            newest: newest[start..]
                .iter()
                .map(|(chunk, _)| chunk.clone())
                .collect(),
            next_offset: 0,
        }
    }

    /// Loses the newest chunks.
    fn cut(&mut self, chunks: u64) {
        for _ in 0..chunks {
            while self
                .segments
                .last_key_value()
                .is_some_and(|(_, c)| c.is_empty())
            {
                self.segments.pop_last();
            }
            if let Some(mut last) = self.segments.last_entry() {
                last.get_mut().pop();
            }
        }
        while self
            .segments
            .last_key_value()
            .is_some_and(|(_, c)| c.is_empty())
        {
            self.segments.pop_last();
        }
    }

    fn read(&self, segment: u64, seek: Seek, before: u64, chunks_max: u32) -> Loaded {
        let chunks = &self.segments[&segment];
        let start = match seek {
            Seek::Offset(o) => chunks.partition_point(|c| c.0.header().next_offset() <= o),
            Seek::TimestampMs(t) => chunks.partition_point(|c| c.0.header().timestamp_ms < t),
            Seek::Position(at) => at as usize,
        };
        let visible = chunks[start..]
            .iter()
            .map(|(chunk, _)| chunk.clone())
            .take_while(|chunk| chunk.header().next_offset() <= before);
        let chunks: Vec<_> = visible.take(chunks_max.min(3) as usize).collect();
        Loaded {
            segment,
            position: (start + chunks.len()) as u64,
            chunks,
        }
    }
}

/// What a publisher knows: what it has sent that is not confirmed, in order.
#[derive(Default)]
struct Publisher {
    next_id: u64,
    unconfirmed: Vec<u64>,
}

/// What a reader has seen.
struct Reader {
    from: u64,
    records: Vec<(u64, Vec<u8>)>,
}

struct World {
    random: Random,
    now: Now,
    disk: Disk,
    stream: Stream,
    sealed: Vec<u64>,
    /// Chunks that were appended and are not committed, per turn.
    uncommitted: u64,
    publishers: Vec<Publisher>,
    readers: BTreeMap<u32, Reader>,
    next_reader: u32,
    confirmed: Vec<Vec<u64>>,
    stored_offset: Option<u64>,
}

fn settings() -> StreamSettings {
    StreamSettings {
        segment_bytes: 2_000,
        ..StreamSettings::default()
    }
}

fn reference(publisher: u32) -> Reference {
    Reference::new(Bytes::from(format!("publisher {publisher}"))).unwrap()
}

fn body(publisher: u32, id: u64) -> Vec<u8> {
    format!("{publisher}:{id}:{}", "x".repeat((id * 7 % 60) as usize)).into_bytes()
}

impl World {
    fn new(seed: u64) -> Self {
        let mut world = Self {
            random: Random(seed),
            now: Now::both(1_000),
            disk: Disk::default(),
            stream: Stream::new(STREAM, settings(), Recovered::default()).unwrap(),
            sealed: Vec::new(),
            uncommitted: 0,
            publishers: (0..PUBLISHERS).map(|_| Publisher::default()).collect(),
            readers: BTreeMap::new(),
            next_reader: 0,
            confirmed: vec![Vec::new(); PUBLISHERS as usize],
            stored_offset: None,
        };
        world.declare_publishers();
        world
    }

    fn command(&mut self, command: Command) {
        let mut events = Events::new();
        self.stream.handle(self.now, SESSION, command, &mut events);
        self.hear(events);
        self.carry_out();
    }

    fn declare_publishers(&mut self) {
        for n in 0..PUBLISHERS {
            self.command(Command::DeclarePublisher {
                request: RequestId(0),
                stream: STREAM,
                publisher: PublisherId(n),
                reference: Some(reference(n)),
            });
        }
    }

    fn publish(&mut self, n: u32, ids: &[u64]) {
        let mut batch = BatchBuilder::new();
        for id in ids {
            assert!(batch.push(*id, Some(b"filter"), &body(n, *id)));
        }
        self.command(Command::Publish {
            stream: STREAM,
            publisher: PublisherId(n),
            batch: batch.take(),
        });
    }

    fn carry_out(&mut self) {
        loop {
            let effects = self.stream.take_effects();
            if effects.is_empty() {
                return;
            }
            let mut events = Events::new();
            for effect in effects {
                match effect {
                    Effect::BeginSegment { first_offset } => {
                        assert!(self.disk.segments.insert(first_offset, vec![]).is_none());
                    }
                    Effect::Append {
                        chunk,
                        is_replay_start,
                    } => {
                        chunk.verify().unwrap();
                        let mut last = self.disk.segments.last_entry().unwrap();
                        last.get_mut().push((chunk, is_replay_start));
                        self.uncommitted += 1;
                    }
                    Effect::DeleteSegment { first_offset } => {
                        assert!(self.disk.segments.remove(&first_offset).is_some());
                    }
                    Effect::Read {
                        reader,
                        segment,
                        seek,
                        before,
                        chunks_max,
                    } => {
                        let loaded = self.disk.read(segment, seek, before, chunks_max);
                        self.stream.loaded(reader, Ok(loaded), &mut events);
                    }
                    other => panic!("a stream of one node alone asks for {other:?}"),
                }
            }
            self.hear(events);
        }
    }

    fn hear(&mut self, events: Events) {
        for (session, event) in events {
            assert_eq!(session, SESSION);
            match event {
                Event::Confirmed { publisher, ids } => {
                    let n = publisher.0 as usize;
                    for id in ids {
                        let owed = &mut self.publishers[n].unconfirmed;
                        assert_eq!(owed.remove(0), id, "confirmed in order");
                        self.confirmed[n].push(id);
                    }
                }
                Event::Chunk { reader, chunk, .. } => self.read(reader.0, &chunk),
                Event::PublisherDeclared { result, .. } | Event::Subscribed { result, .. } => {
                    result.unwrap();
                }
                Event::StoredOffset { result, .. } => {
                    assert_eq!(result.unwrap(), self.stored_offset);
                }
                other => panic!("{other:?}"),
            }
        }
    }

    fn read(&mut self, reader: u32, chunk: &SharedChunk) {
        let visible = self.stream.visible();
        assert!(
            chunk.header().next_offset() <= visible.end,
            "not before its commit"
        );
        let Some(reader) = self.readers.get_mut(&reader) else {
            return;
        };
        for (at, entry) in chunk.entries().enumerate() {
            let offset = chunk.header().first_offset + at as u64;
            if offset >= reader.from {
                reader.records.push((offset, entry.unwrap().body.to_vec()));
            }
        }
    }

    fn step(&mut self) {
        self.now.monotonic_ms += self.random.below(40);
        self.now.wall_ms = self.now.monotonic_ms;
        let n = self.random.below(u64::from(PUBLISHERS)) as u32;
        match self.random.below(100) {
            0..=39 => {
                let count = self.random.below(20) + 1;
                let first = self.publishers[n as usize].next_id;
                let ids: Vec<u64> = (first..first + count).collect();
                self.publishers[n as usize].next_id += count;
                self.publishers[n as usize].unconfirmed.extend(&ids);
                self.publish(n, &ids);
            }
            40..=59 => {
                if let Some(turn) = self.stream.seal(self.now) {
                    self.sealed.push(turn);
                }
                self.carry_out();
            }
            60..=74 => self.commit(),
            75..=84 => self.subscribe(),
            85..=94 => {
                let readers: Vec<u32> = self.readers.keys().copied().collect();
                for reader in readers {
                    let (reader, chunks) = (ReaderId(reader), self.random.below(4) as u32);
                    let stream = STREAM;
                    self.command(Command::Credit {
                        stream,
                        reader,
                        chunks,
                    });
                }
            }
            95..=97 => {
                let offset = self.random.below(1_000);
                let reference = Reference::new(Bytes::from_static(b"group")).unwrap();
                self.stored_offset = Some(offset);
                let (stream, request) = (STREAM, RequestId(1));
                self.command(Command::StoreOffset {
                    stream,
                    reference: reference.clone(),
                    offset,
                    by: StoredBy::Anyone,
                });
                self.command(Command::QueryOffset {
                    stream,
                    request,
                    reference,
                });
            }
            _ => self.crash(),
        }
    }

    fn commit(&mut self) {
        if let Some(turn) = self.sealed.pop() {
            self.sealed.clear();
            self.uncommitted = 0;
            let mut events = Events::new();
            self.stream.commit(turn, &mut events);
            self.hear(events);
            self.carry_out();
        }
    }

    fn subscribe(&mut self) {
        let visible = self.stream.visible();
        let (offset, from) = match self.random.below(4) {
            0 => (OffsetSpec::First, visible.start),
            1 => (OffsetSpec::Next, visible.end),
            2 => {
                let offset = self.random.below(visible.end + 1);
                (OffsetSpec::Offset(offset), offset.max(visible.start))
            }
            _ => (OffsetSpec::TimestampMs(0), visible.start),
        };
        let reader = self.next_reader;
        self.next_reader += 1;
        let records = Vec::new();
        self.readers.insert(reader, Reader { from, records });
        let credit = self.random.below(3) as u32;
        self.command(Command::Subscribe {
            request: RequestId(2),
            stream: STREAM,
            reader: ReaderId(reader),
            offset,
            credit,
            filter: None,
        });
    }

    /// The process dies; what was not committed is lost as far as chance has it. Publishers send
    /// again what was not confirmed.
    fn crash(&mut self) {
        let lost = self.random.below(self.uncommitted + 1);
        self.disk.cut(lost);
        self.stream = Stream::new(STREAM, settings(), self.disk.recovered()).unwrap();
        (self.uncommitted, self.sealed) = (0, Vec::new());
        self.readers.clear();
        self.stored_offset = self.stored();
        self.declare_publishers();
        for n in 0..PUBLISHERS {
            let again = self.publishers[n as usize].unconfirmed.clone();
            if !again.is_empty() {
                self.publish(n, &again);
            }
        }
    }

    fn stored(&mut self) -> Option<u64> {
        let reference = Reference::new(Bytes::from_static(b"group")).unwrap();
        let (request, stream, mut events) = (RequestId(3), STREAM, Events::new());
        let query = Command::QueryOffset {
            request,
            stream,
            reference,
        };
        self.stream.handle(self.now, SESSION, query, &mut events);
        let Some((_, Event::StoredOffset { result, .. })) = events.pop() else {
            panic!("no answer");
        };
        result.unwrap()
    }

    /// All messages that are stored, with their offsets.
    fn stored_records(&self) -> Vec<(u64, Vec<u8>)> {
        let mut records = Vec::new();
        for (chunk, _) in self.disk.segments.values().flatten() {
            if chunk.header().kind == ChunkKind::User {
                for (at, entry) in chunk.entries().enumerate() {
                    let offset = chunk.header().first_offset + at as u64;
                    records.push((offset, entry.unwrap().body.to_vec()));
                }
            }
        }
        records
    }

    fn finish(&mut self) {
        for _ in 0..3 {
            self.now.monotonic_ms += 1_000;
            if let Some(turn) = self.stream.seal(self.now) {
                self.carry_out();
                self.sealed.push(turn);
            }
            self.commit();
        }
        let readers: Vec<u32> = self.readers.keys().copied().collect();
        for reader in readers {
            self.command(Command::Credit {
                stream: STREAM,
                reader: ReaderId(reader),
                chunks: 60_000,
            });
        }
        let stored = self.stored_records();
        for (n, publisher) in self.publishers.iter().enumerate() {
            assert_eq!(publisher.unconfirmed, [0; 0], "all are confirmed");
            let sent: Vec<u64> = (0..publisher.next_id).collect();
            assert_eq!(self.confirmed[n], sent, "each once, in order");
            let expected: Vec<Vec<u8>> = sent.iter().map(|id| body(n as u32, *id)).collect();
            let prefix = format!("{n}:").into_bytes();
            let of_publisher = stored.iter().filter(|(_, b)| b.starts_with(&prefix));
            let found: Vec<Vec<u8>> = of_publisher.map(|(_, body)| body.clone()).collect();
            assert_eq!(found, expected, "each stored once, in order");
        }
        for (id, reader) in &self.readers {
            let expected: Vec<_> = stored.iter().filter(|(o, _)| *o >= reader.from).collect();
            let seen: Vec<_> = reader.records.iter().collect();
            assert_eq!(seen, expected, "reader {id} from {}", reader.from);
        }
    }
}

#[test]
fn every_message_is_stored_once_confirmed_once_and_read_in_order() {
    for seed in 0..300 {
        let mut world = World::new(seed);
        for _ in 0..300 {
            world.step();
        }
        world.finish();
    }
}

/// Retention takes whole segments from the oldest on; readers go on with what is left.
#[test]
fn retention_keeps_the_newest_segments() {
    let mut world = World::new(1);
    let bytes_max = Some(5_000);
    let settings = StreamSettings {
        bytes_max,
        ..settings()
    };
    world.stream.set_settings(settings);
    world.command(Command::Subscribe {
        request: RequestId(2),
        stream: STREAM,
        reader: ReaderId(9),
        offset: OffsetSpec::First,
        credit: 0,
        filter: None,
    });
    for round in 0..60_u64 {
        world.publish(0, &(round * 10..round * 10 + 10).collect::<Vec<_>>());
        world.publishers[0]
            .unconfirmed
            .extend(round * 10..round * 10 + 10);
        let turn = world.stream.seal(world.now).unwrap();
        world.carry_out();
        world.sealed.push(turn);
        world.commit();
    }
    let stats = world.stream.stats();
    let chunks = world.disk.segments.values().flatten();
    let on_disk: u64 = chunks.map(|c| stored_bytes(c.0.header())).sum();
    assert_eq!(stats.bytes, on_disk);
    assert!(stats.bytes <= 5_000 + 2_000, "{stats:?}");
    assert!(stats.segments >= 2, "{stats:?}");
    let first = *world.disk.segments.keys().next().unwrap();
    assert!(first > 0);
    assert_eq!(world.stream.visible().start, first);
    let records = Vec::new();
    world.readers.insert(9, Reader { from: 0, records });
    world.command(Command::Credit {
        stream: STREAM,
        reader: ReaderId(9),
        chunks: 1_000,
    });
    let seen = &world.readers[&9].records;
    assert_eq!(*seen, world.stored_records());
}
