//! The segment files of streams, crashed at every change of the disk: what was synced is there, and
//! behind it nothing but what was being written.

#![allow(clippy::unwrap_used, reason = "a test that fails here says enough")]

use leveret_sim::disk::Lies;
use leveret_sim::file_system::Cut;
use leveret_sim::{Random, SimDisk};
use leveret_storage::StreamFiles;
use leveret_stream::{ChunkHeader, ChunkKind, Seek, SharedChunk};
use leveret_types::QueueId;
use std::collections::BTreeMap;
use std::path::Path;

/// Moments at which a workload is crashed.
const POINTS: u64 = 2_000;
const STREAMS: u64 = 3;
const STEPS: u64 = 40;
/// Bytes of each file of the journal: some batches.
const JOURNAL_BYTES: u64 = 8 * 1024;

/// What one stream must hold.
#[derive(Clone, Default)]
struct Model {
    /// All chunks since the last crash left some, oldest first.
    chunks: Vec<SharedChunk>,
    /// First offsets of the segments.
    segments: Vec<u64>,
    /// So many chunks are synced.
    durable: usize,
    /// The oldest offset that must be there: a deletion before it may be under way.
    kept_from: u64,
    /// A cut from here on is under way: it is made again after a crash.
    cut: Option<u64>,
}

struct World {
    disk: SimDisk,
    files: StreamFiles<SimDisk>,
    models: BTreeMap<QueueId, Model>,
    random: Random,
}

/// A call failed: the process is dead, or should not be.
#[derive(Debug)]
struct Dead(#[expect(dead_code, reason = "for whoever reads the panic")] String);

fn dead(error: impl std::fmt::Display) -> Dead {
    Dead(error.to_string())
}

fn open(disk: &SimDisk, salt: u64) -> Result<StreamFiles<SimDisk>, Dead> {
    let files = StreamFiles::open(disk.clone(), Path::new("streams"), salt).map_err(dead)?;
    Ok(files.with_journal_bytes_max(JOURNAL_BYTES))
}

fn chunk(random: &mut Random, first_offset: u64) -> SharedChunk {
    let header = ChunkHeader {
        kind: ChunkKind::User,
        entries: 1,
        records: 1,
        timestamp_ms: first_offset as i64,
        epoch: 1,
        first_offset,
        crc: 0,
        data_bytes: 0,
        trailer_bytes: 0,
        bloom_bytes: 0,
    };
    let body = vec![random.below(256) as u8; random.below(1_500) as usize];
    let entry = [&(body.len() as u32).to_be_bytes()[..], &body].concat();
    SharedChunk::new(header, &[], &entry, &[])
}

impl World {
    fn new(seed: u64) -> Self {
        let disk = SimDisk::new();
        let files = open(&disk, 42).unwrap();
        let models = (0..STREAMS)
            .map(|n| (QueueId(n), Model::default()))
            .collect();
        let random = Random::new(seed);
        Self {
            disk,
            files,
            models,
            random,
        }
    }

    fn step(&mut self) -> Result<(), Dead> {
        let stream = QueueId(self.random.below(STREAMS));
        let model = self.models.get_mut(&stream).unwrap();
        let next = model.chunks.last().map_or(0, |c| c.header().next_offset());
        let next = next.max(model.segments.last().copied().unwrap_or(0));
        match self.random.below(24) {
            20..=22 => self.sync_together(),
            23 => self.sync_for_journal(),
            _ if model.segments.is_empty() => Self::begin(&mut self.files, stream, model, next),
            0..=1 if model.segments.last() != Some(&next) => {
                Self::begin(&mut self.files, stream, model, next)
            }
            2 if model.segments.len() > 1 => {
                let first = model.segments.remove(0);
                model.kept_from = model.segments[0];
                let deleted = self.files.delete_segment(stream, first);
                deleted.map_err(dead)
            }
            3 if !model.chunks.is_empty() => Self::cut(&mut self.files, stream, model),
            4..=6 => {
                self.files.sync(stream).map_err(dead)?;
                model.durable = model.chunks.len();
                Ok(())
            }
            _ => {
                let chunk = chunk(&mut self.random, next);
                model.chunks.push(chunk.clone());
                self.files.append(stream, &chunk, true).map_err(dead)
            }
        }
    }

    /// All streams, as the end of a turn does.
    fn sync_together(&mut self) -> Result<(), Dead> {
        let streams: Vec<QueueId> = self.models.keys().copied().collect();
        self.files.sync_together(&streams).map_err(dead)?;
        for model in self.models.values_mut() {
            model.durable = model.chunks.len();
        }
        Ok(())
    }

    fn sync_for_journal(&mut self) -> Result<(), Dead> {
        for sync in self.files.begin_journal_syncs().map_err(dead)? {
            self.files.synced(&sync.run().map_err(dead)?);
        }
        Ok(())
    }

    /// Cuts the newest chunk, as a replica that follows another leader does.
    fn cut(
        files: &mut StreamFiles<SimDisk>,
        stream: QueueId,
        model: &mut Model,
    ) -> Result<(), Dead> {
        let from = model.chunks.pop().unwrap().header().first_offset;
        model.segments.retain(|segment| *segment < from);
        model.durable = model.durable.min(model.chunks.len());
        model.cut = Some(from);
        let found = files.cut_and_recover(stream, from).map_err(dead)?;
        assert_eq!(found.damage, [""; 0], "{stream}");
        model.cut = None;
        model.durable = model.chunks.len();
        Ok(())
    }

    fn begin(
        files: &mut StreamFiles<SimDisk>,
        stream: QueueId,
        model: &mut Model,
        next: u64,
    ) -> Result<(), Dead> {
        let synced = model.chunks.len();
        model.segments.push(next);
        files.begin_segment(stream, next).map_err(dead)?;
        model.durable = synced;
        Ok(())
    }

    /// Starts again on what the crash has left, and checks that it is what it must be.
    fn recover(&mut self) -> Result<(), Dead> {
        self.files = open(&self.disk, 43)?;
        assert_eq!(self.files.take_journal_damage(), [""; 0]);
        for (stream, model) in &mut self.models {
            if let Some(from) = model.cut {
                self.files.cut(*stream, from).map_err(dead)?;
            }
            let found = self.files.recover(*stream).map_err(dead)?;
            assert_eq!(found.damage, [""; 0], "{stream}");
            let mut served = Vec::new();
            for segment in &found.recovered.segments {
                let mut seek = Seek::Offset(segment.first_offset);
                loop {
                    let first = segment.first_offset;
                    let loaded = self.files.read(*stream, first, seek, u64::MAX, u32::MAX);
                    let loaded = loaded.map_err(dead)?;
                    if loaded.chunks.is_empty() {
                        break;
                    }
                    served.extend(loaded.chunks);
                    seek = Seek::Position(loaded.position);
                }
            }
            let last = found.recovered.newest.last();
            assert!(last.is_none() || last == served.last());
            model.take(
                &served,
                found
                    .recovered
                    .segments
                    .iter()
                    .map(|s| s.first_offset)
                    .collect(),
            );
        }
        Ok(())
    }
}

impl Model {
    /// What is served must be a run of what was appended, with all that was synced and is kept.
    fn take(&mut self, served: &[SharedChunk], segments: Vec<u64>) {
        let offset = |chunk: &SharedChunk| chunk.header().first_offset;
        let first = served.first().map_or(u64::MAX, offset);
        let from = self.chunks.partition_point(|chunk| offset(chunk) < first);
        let run = self.chunks.get(from..from + served.len());
        assert_eq!(
            run,
            Some(served),
            "something else than was appended is served"
        );
        let end = from + served.len();
        let durable = &self.chunks[..self.durable];
        let kept = durable
            .iter()
            .filter(|chunk| offset(chunk) >= self.kept_from);
        let missing = kept.filter(|chunk| !served.contains(chunk)).count();
        let offsets = |chunks: &[SharedChunk]| chunks.iter().map(offset).collect::<Vec<_>>();
        assert_eq!(
            missing,
            0,
            "synced chunks are missing: {:?} of {:?}, {} synced, kept from {}, were {:?}, are {segments:?}",
            offsets(served),
            offsets(&self.chunks),
            self.durable,
            self.kept_from,
            self.segments,
        );
        self.segments = segments;
        self.chunks.truncate(end.max(from));
        if served.is_empty() {
            self.chunks.clear();
        }
        self.cut = None;
        // A start syncs what it has found.
        self.durable = self.chunks.len();
        self.kept_from = self.segments.first().copied().unwrap_or(0);
    }
}

fn crash(world: &mut World) {
    match world.random.below(3) {
        0 => world.disk.kill(),
        1 => world.disk.power_cut(&mut Cut::LoseAll),
        _ => {
            let mut random = Random::new(world.random.next_u64());
            world.disk.power_cut(&mut Cut::Chance(&mut random));
        }
    }
}

/// One workload, crashed before its change with this number; the starts after it may crash too.
/// `false` if the workload has fewer changes.
fn crash_at(seed: u64, operation: u64, lies: Lies) -> bool {
    let mut world = World::new(seed);
    world.disk.set_lies(lies);
    let begun = world.disk.operations();
    world.disk.crash_at(begun + operation);
    let is_dead = (0..STEPS).any(|_| world.step().is_err());
    assert_eq!(is_dead, world.disk.is_dead(), "no other error");
    // From here on chance goes its own way for each moment.
    world.random = Random::new(seed << 32 | operation);
    loop {
        crash(&mut world);
        if world.random.below(3) == 0 {
            let at = world.disk.operations() + world.random.below(6);
            world.disk.crash_at(at);
        }
        if world.recover().is_ok() {
            break;
        }
        assert!(world.disk.is_dead(), "a start fails only where it crashes");
    }
    world.disk.kill();
    world.recover().unwrap();
    for _ in 0..10 {
        world.step().unwrap();
    }
    crash(&mut world);
    world.recover().unwrap();
    is_dead
}

fn explore(points: u64, lies: Lies) {
    let mut explored = 0;
    for seed in 0.. {
        let mut operation = 0;
        while crash_at(seed, operation, lies) {
            operation += 1;
            explored += 1;
        }
        if explored >= points {
            return;
        }
    }
}

#[test]
fn streams_survive_a_crash_at_every_moment() {
    explore(POINTS, Lies::default());
}

/// The checks find a disk that does not sync, and folders that are not.
#[test]
fn streams_on_a_disk_that_lies_are_found_out() {
    for (sync, sync_dir) in [(true, false), (false, true)] {
        let explored = std::panic::catch_unwind(|| explore(POINTS, Lies { sync, sync_dir }));
        assert!(explored.is_err(), "sync {sync}, sync_dir {sync_dir}");
    }
}
