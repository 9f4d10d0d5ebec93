//! A store on a disk in memory, for the tests beside this folder.

use leveret_storage::{
    Durability, Folders, LogKind, MemoryDisk, Options, Read, RecoveryReport, Store,
};
use leveret_types::LogId;
use std::path::{Path, PathBuf};

pub mod power;
pub mod streams;

pub const A: LogId = LogId(1);
pub const B: LogId = LogId(2);

pub struct World {
    pub disk: MemoryDisk,
    pub folders: Folders,
    pub options: Options,
}

impl World {
    pub fn new() -> Self {
        Self {
            disk: MemoryDisk::new(),
            folders: Folders::within(Path::new("/store")),
            options: Options {
                uuid: *b"an uuid for test",
                wal_file_bytes: 1 << 20,
                cache_bytes: 1 << 20,
                ..Options::default()
            },
        }
    }

    pub fn with_wal_files_of(bytes: u64) -> Self {
        let mut world = Self::new();
        world.options.wal_file_bytes = bytes;
        world
    }

    pub fn open(&self) -> (Store<MemoryDisk>, RecoveryReport) {
        Store::open(&self.disk, &self.folders, &self.options).unwrap_or_else(|e| panic!("{e}"))
    }

    /// The same on a copy of the disk, changed at will.
    pub fn on_copy(&self, change: impl FnOnce(&MemoryDisk)) -> Self {
        let disk = self.disk.copy();
        change(&disk);
        Self {
            disk,
            folders: self.folders.clone(),
            options: self.options.clone(),
        }
    }

    pub fn files(&self, suffix: &str) -> Vec<PathBuf> {
        let mut paths = self.disk.paths();
        paths.retain(|path| path.to_string_lossy().ends_with(suffix));
        paths
    }

    pub fn only_file(&self, suffix: &str) -> PathBuf {
        let files = self.files(suffix);
        assert_eq!(files.len(), 1, "{files:?}");
        files[0].clone()
    }

    /// Where the last sector ends that a file has anything in: what follows is room.
    pub fn used_bytes(&self, path: &Path) -> usize {
        let mut used = 0;
        self.disk.tamper(path, |bytes| {
            used = bytes
                .iter()
                .rposition(|byte| *byte != 0)
                .map_or(0, |at| at + 1);
        });
        used.next_multiple_of(4_096)
    }

    /// Changes one bit within what was stored once as `needle`.
    pub fn flip_within(&self, path: &Path, needle: &[u8]) {
        let found = self.disk.tamper(path, |bytes| {
            let at = bytes.windows(needle.len()).position(|w| w == needle);
            bytes[at.expect("it is in the file") + needle.len() / 2] ^= 4;
        });
        assert!(found, "{path:?}");
    }
}

/// Appends to a log on the first shard, which begins with its first entry.
pub fn append(store: &mut Store<MemoryDisk>, log: LogId, payload: &[u8]) -> u64 {
    let shard = &mut store.shards[0];
    if !shard.has_log(log) {
        shard.create_log(log, LogKind::Durable);
    }
    let body = shard.body(Durability::Durable, &[payload]);
    shard.append(log, body, payload.len() as u32)
}

pub fn payload(n: u64, len: usize) -> Vec<u8> {
    (0..len).map(|i| (n as usize * 31 + i) as u8).collect()
}

/// Appends `count` payloads of `len` bytes, the first one number 0.
pub fn append_all(store: &mut Store<MemoryDisk>, log: LogId, count: u64, len: usize) {
    for n in 0..count {
        append(store, log, &payload(n, len));
    }
}

/// These entries are the payloads of their numbers.
pub fn check_all(
    store: &mut Store<MemoryDisk>,
    log: LogId,
    entries: impl Iterator<Item = u64>,
    len: usize,
) {
    for n in entries {
        let expected = Read::Ready(payload(n, len).into());
        assert_eq!(store.read(log, n), expected, "entry {n} of log {log}");
    }
}

/// Syncs, and brings all that lives into segments.
pub fn flush_all(store: &mut Store<MemoryDisk>) {
    store.sync().unwrap();
    store.roll();
    store.flush().unwrap();
}
