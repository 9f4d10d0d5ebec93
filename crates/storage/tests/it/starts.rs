//! Processes that end at any call to the disk, again and again, also while they start: each start
//! finds what was confirmed, and of a batch that was under way all or nothing. Also on a disk that
//! writes elsewhere what is written over, and has little room for that.

use leveret_storage::{
    Disk, DiskFile, Durability, Folders, Generation, LogKind, MemoryDisk, OpenError, Options, Read,
    Recovered, recover,
};
use leveret_types::LogId;
use leveret_types::limits::WAL_BATCH_BYTES_MAX;
use std::collections::BTreeMap;
use std::io::{self, IoSlice};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const SEEDS: u64 = 150;
const LIVES: u64 = 40;
const LOGS: u64 = 4;
const SHARDS: u64 = 2;
/// A log's file takes a few batches, or a start's and some more.
const FILE_BYTES: u64 = 192 * 1024;

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) % bound
    }
}

/// The disk of a process that ends after so many calls that change something. What was written
/// stays, as after `kill -9`.
#[derive(Clone)]
struct Dying {
    disk: MemoryDisk,
    left: Arc<AtomicU64>,
}

struct DyingFile {
    file: <MemoryDisk as Disk>::File,
    left: Arc<AtomicU64>,
}

/// How many calls are left, this one included; an error if the process has ended.
fn count(left: &AtomicU64) -> io::Result<u64> {
    let before = left.load(Ordering::Relaxed);
    left.store(before.saturating_sub(1), Ordering::Relaxed);
    match before {
        0 => Err(io::Error::other("the process has ended")),
        before => Ok(before),
    }
}

impl Dying {
    fn step(&self) -> io::Result<()> {
        count(&self.left).map(drop)
    }

    fn file(&self, file: <MemoryDisk as Disk>::File) -> DyingFile {
        let left = Arc::clone(&self.left);
        DyingFile { file, left }
    }
}

impl Disk for Dying {
    type File = DyingFile;
    type Lock = <MemoryDisk as Disk>::Lock;

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.disk.create_dir_all(dir)
    }
    fn create_new(&self, path: &Path) -> io::Result<DyingFile> {
        self.step()?;
        self.disk.create_new(path).map(|file| self.file(file))
    }
    fn open(&self, path: &Path) -> io::Result<DyingFile> {
        self.disk.open(path).map(|file| self.file(file))
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.step()?;
        self.disk.rename(from, to)
    }
    fn delete(&self, path: &Path) -> io::Result<()> {
        self.step()?;
        self.disk.delete(path)
    }
    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.disk.list(dir)
    }
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.step()?;
        self.disk.sync_dir(dir)
    }
    fn lock(&self, path: &Path) -> io::Result<Self::Lock> {
        self.disk.lock(path)
    }
}

impl DiskFile for DyingFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(buffer, offset)
    }
    fn write_at(&self, slices: &[IoSlice<'_>], offset: u64) -> io::Result<()> {
        if count(&self.left)? > 1 {
            return self.file.write_at(slices, offset);
        }
        // The last call is cut short: how far it comes depends on its length.
        let all: Vec<u8> = slices.iter().flat_map(|slice| slice.to_vec()).collect();
        let part = all.len() * (all.len() / 512 % 7) / 7;
        self.file.write_at(&[IoSlice::new(&all[..part])], offset)?;
        Err(io::Error::other("the process ends"))
    }
    fn sync_data(&self) -> io::Result<()> {
        count(&self.left)?;
        self.file.sync_data()
    }
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct PlainLog {
    next_index: u64,
    entries: BTreeMap<u64, Vec<u8>>,
    vote: Option<(u64, u64)>,
}

type Plain = BTreeMap<LogId, PlainLog>;

struct World {
    disk: MemoryDisk,
    random: Random,
    /// Whether the disk may be full, and needs room for what is written over.
    is_tight: bool,
    /// What was confirmed.
    plain: Plain,
    /// And what was given to the log since.
    tried: Plain,
    number: u64,
    moved: u64,
}

/// A process, and the last file of its log that is full.
struct Life {
    parts: Recovered<Dying>,
    full: Option<Generation>,
}

impl World {
    fn new(seed: u64, is_tight: bool) -> Self {
        let disk = MemoryDisk::new();
        if is_tight {
            disk.copy_on_write();
        }
        Self {
            disk,
            random: Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1),
            is_tight,
            plain: Plain::new(),
            tried: Plain::new(),
            number: 0,
            moved: 0,
        }
    }

    /// Leaves little room on a disk that may be tight, or none, or all that there is.
    fn set_room(&mut self) {
        if !self.is_tight {
            return;
        }
        let room = match self.random.below(4) {
            0 => Some(0),
            1 => Some(self.random.below(FILE_BYTES)),
            _ => None,
        };
        let bytes = self.disk.bytes();
        self.disk.set_bytes_max(room.map(|room| bytes + room));
    }

    /// One process from its start to its end, wherever that is.
    fn live(&mut self) {
        let calls = match self.random.below(4) {
            0 => 1 + self.random.below(8),
            1 => 1 + self.random.below(40),
            2 => 1 + self.random.below(400),
            _ => u64::MAX,
        };
        let disk = Dying {
            disk: self.disk.clone(),
            left: Arc::new(AtomicU64::new(calls)),
        };
        let options = Options {
            uuid: *b"ends at any call",
            shards: SHARDS as u16,
            wal_file_bytes: FILE_BYTES,
            cache_bytes: 64 * 1024,
            ..Options::default()
        };
        let folders = Folders::within(Path::new("/store"));
        let before = self.disk.paths();
        self.set_room();
        let parts = match recover(&disk, &folders, &options) {
            Ok(parts) => parts,
            Err(OpenError::NoSpace | OpenError::Io { .. }) if self.is_tight => return,
            Err(error) => {
                assert_eq!(disk.left.load(Ordering::Relaxed), 0, "{error}");
                return;
            }
        };
        let after = self.disk.paths();
        let was_log = |path: &&std::path::PathBuf| path.extension().is_some_and(|e| e == "wal");
        let is_gone = |path: &&std::path::PathBuf| !after.contains(path);
        self.moved += u64::from(before.iter().filter(was_log).any(|path| is_gone(&path)));
        let full = parts.flush_through;
        let mut life = Life { parts, full };
        self.check(&mut life);
        let steps = self.random.below(30);
        let ended = (0..steps).try_for_each(|_| self.step(&mut life));
        let is_full = |error: &String| self.is_tight && error.starts_with("no space");
        assert!(
            ended.as_ref().err().is_none_or(is_full) || disk.left.load(Ordering::Relaxed) == 0,
            "{ended:?}"
        );
    }

    /// What a start has found is what was confirmed, with what was tried or without.
    fn check(&mut self, life: &mut Life) {
        assert_eq!(life.parts.report.notes, Vec::<String>::new());
        let mut found = Plain::new();
        for shard in 0..SHARDS as usize {
            let logs = life.parts.logs.clone();
            for log in logs.iter().filter(|log| usize::from(log.shard) == shard) {
                assert_eq!(log.damage, None, "{log:?}");
                let mut plain = PlainLog {
                    next_index: log.next_index,
                    vote: life.parts.shards[shard].term_and_vote(log.log),
                    ..PlainLog::default()
                };
                for index in log.live.iter().flatten() {
                    let payload = life.read(shard, log.log, index);
                    plain.entries.insert(index, payload);
                }
                found.insert(log.log, plain);
            }
        }
        assert!(
            found == self.plain || found == self.tried,
            "found {}\nof {}\nor {}",
            short(&found),
            short(&self.plain),
            short(&self.tried),
        );
        (self.plain, self.tried) = (found.clone(), found);
    }

    fn step(&mut self, life: &mut Life) -> Result<(), String> {
        match self.random.below(20) {
            0 => {
                let file = life.parts.pool.prepare().map_err(|e| e.to_string())?;
                life.parts.wal.supply(file);
            }
            1 => drop(life.parts.pool.keep_reserve().map_err(|e| e.to_string())?),
            2..5 => {
                let outcome = life.parts.wal.mark_idle().map_err(|e| e.to_string())?;
                life.full = outcome.rolled.or(life.full);
            }
            5 => life.checkpoint()?,
            6 => {
                life.full = life.parts.wal.roll().or(life.full);
                life.checkpoint()?;
            }
            _ => {
                for _ in 0..=self.random.below(3) {
                    self.change(life);
                }
                life.write()?;
                self.plain = self.tried.clone();
            }
        }
        if life.full.is_some() && self.random.below(3) == 0 {
            life.checkpoint()?;
        }
        Ok(())
    }

    fn change(&mut self, life: &mut Life) {
        let log = LogId(self.random.below(LOGS));
        let shard = &mut life.parts.shards[(log.0 % SHARDS) as usize];
        let plain = self.tried.entry(log).or_insert_with(|| {
            shard.create_log(log, LogKind::Durable);
            PlainLog::default()
        });
        match self.random.below(8) {
            0 => {
                let from = plain.next_index - self.random.below(plain.next_index.min(5) + 1);
                shard.truncate(log, from);
                plain.entries.split_off(&from);
                plain.next_index = from;
            }
            1 => {
                let vote = (self.random.below(100), self.random.below(5));
                shard.set_term_and_vote(log, vote.0, vote.1);
                plain.vote = Some(vote);
            }
            2 | 3 => {
                let first = plain.entries.keys().next().copied().unwrap_or(0);
                let range = first..first + self.random.below(8);
                let gone = plain.entries.extract_if(range.clone(), |_, _| true);
                let bytes: usize = gone.map(|(_, payload)| payload.len()).sum();
                shard.settle(log, range, bytes as u64);
            }
            kind => {
                let len = match kind {
                    4 => 20_000 + self.random.below(40_000),
                    _ => self.random.below(300),
                };
                self.number += 1;
                let first = self.number;
                let payload: Vec<u8> = (0..len).map(|i| (first * 31 + i) as u8).collect();
                let body = shard.body(Durability::Durable, &[&payload]);
                let index = shard.append(log, body, payload.len() as u32);
                plain.entries.insert(index, payload);
                plain.next_index = index + 1;
            }
        }
    }
}

impl Life {
    fn write(&mut self) -> Result<(), String> {
        let mut chunks = Vec::new();
        for shard in &mut self.parts.shards {
            shard.seal(&mut chunks);
        }
        while !chunks.is_empty() {
            let outcome = self.parts.wal.write(&mut chunks);
            let outcome = outcome.map_err(|e| e.to_string())?;
            self.full = outcome.rolled.or(self.full);
            for (shard, seq, place) in outcome.written {
                self.parts.shards[usize::from(shard)].on_durable([(seq, place)]);
            }
        }
        Ok(())
    }

    /// Brings what full files have into segments, if there are any, and writes a checkpoint.
    fn checkpoint(&mut self) -> Result<(), String> {
        let parts = &mut self.parts;
        if let Some(through) = self.full.take() {
            for shard in &mut parts.shards {
                let plan = shard.begin_flush(through);
                let each = &mut |_| ControlFlow::Continue(());
                let written = parts.segment.flush(&plan, each);
                shard.finish_flush(&plan, written.map_err(|e| e.to_string())?);
            }
        }
        let told: Vec<_> = parts
            .shards
            .iter_mut()
            .map(|s| s.checkpoint_part())
            .collect();
        self.write()?;
        let parts = &mut self.parts;
        let (next_file, pooled) = (parts.segment.next_file(), parts.wal.prepared_files());
        let written = parts
            .checkpoint
            .write(&told, next_file, &mut parts.pool, pooled);
        for file in written.map_err(|e| e.to_string())?.recycled {
            parts.wal.supply(file);
        }
        for (shard, told) in parts.shards.iter_mut().zip(&told) {
            shard.finish_checkpoint(told);
        }
        Ok(())
    }

    fn read(&mut self, shard: usize, log: LogId, index: u64) -> Vec<u8> {
        let shard = &mut self.parts.shards[shard];
        loop {
            match shard.read(log, index) {
                Read::Ready(bytes) => return bytes.to_vec(),
                Read::Pending => {
                    for request in shard.take_reads() {
                        let loaded = self.parts.reader.read(request);
                        shard.loaded(loaded);
                    }
                }
                other => panic!("entry {index} of log {log}: {other:?}"),
            }
        }
    }
}

fn short(plain: &Plain) -> String {
    let each = |(log, plain): (&LogId, &PlainLog)| {
        let (next, vote) = (plain.next_index, plain.vote);
        format!("{log} to {next} with {} {vote:?}", plain.entries.len())
    };
    plain.iter().map(each).collect::<Vec<_>>().join(", ")
}

#[test]
fn whatever_call_to_the_disk_is_a_processs_last_the_next_start_finds_what_was_confirmed() {
    let moved = all_lives(false);
    assert!(moved > 0, "starts that move what the last file has");
}

#[test]
fn so_it_is_on_a_disk_without_room_that_writes_elsewhere_what_is_written_over() {
    let moved = all_lives(true);
    assert!(moved > 0, "starts that move what the last file has");
}

/// Gives how many starts moved what the last file of the log had.
fn all_lives(is_tight: bool) -> u64 {
    let seeds = match std::env::var("LEVERET_SEED") {
        Ok(seed) => {
            let seed = seed.parse().expect("LEVERET_SEED is a number");
            seed..seed + 1
        }
        Err(_) => 1..SEEDS + 1,
    };
    let mut moved = 0;
    for seed in seeds {
        let mut world = World::new(seed, is_tight);
        let lived = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            (0..LIVES).for_each(|_| world.live());
        }));
        if let Err(panic) = lived {
            eprintln!("seed {seed} failed: LEVERET_SEED={seed} repeats it");
            std::panic::resume_unwind(panic);
        }
        moved += world.moved;
    }
    moved
}

/// What waits in the last file is written again elsewhere where it goes into one batch, which is
/// there whole or not at all. More than that stays where it is.
#[test]
fn a_start_that_ends_leaves_a_last_file_of_several_batches_as_it_is() {
    const BYTES: usize = WAL_BATCH_BYTES_MAX / 4 * 3;
    const ENTRIES: u64 = 2;
    let options = Options {
        uuid: *b"several batches!",
        wal_file_bytes: 16 << 20,
        cache_bytes: 64 * 1024,
        ..Options::default()
    };
    let (log, folders) = (LogId(0), Folders::within(Path::new("/store")));
    let start = |disk: &MemoryDisk, calls: u64| {
        let left = Arc::new(AtomicU64::new(calls));
        let disk = disk.clone();
        let parts = recover(&Dying { disk, left }, &folders, &options);
        parts.map(|parts| Life { parts, full: None })
    };
    let payload = |n: u64| vec![n as u8 + 1; BYTES];
    let disk = MemoryDisk::new();
    let mut life = start(&disk, u64::MAX).expect("a store");
    for _ in 0..2 {
        let file = life.parts.pool.prepare().expect("room");
        life.parts.wal.supply(file);
    }
    life.parts.shards[0].create_log(log, LogKind::Durable);
    for n in 0..ENTRIES {
        let shard = &mut life.parts.shards[0];
        let body = shard.body(Durability::Durable, &[&payload(n)]);
        shard.append(log, body, BYTES as u32);
        life.write().expect("written");
    }
    life.parts.wal.mark_idle().expect("marked");
    drop(life);
    for calls in 0.. {
        let disk = disk.copy();
        let has_ended = start(&disk, calls).is_err();
        let mut life = start(&disk, u64::MAX).expect("a start");
        assert_eq!(life.parts.report.notes, Vec::<String>::new());
        for n in 0..ENTRIES {
            let is_there = life.read(0, log, n) == payload(n);
            assert!(is_there, "entry {n} after {calls} calls");
        }
        if !has_ended {
            break;
        }
    }
}
