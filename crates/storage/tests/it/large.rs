//! Large messages: whoever copies them to segments holds little of them, whatever their size.

use crate::common::{A, B};
use leveret_storage::{
    Disk, DiskFile, Durability, Folders, LogKind, MemoryDisk, Options, Read, Store,
};
use leveret_types::LogId;
use leveret_types::limits::{SEGMENT_BLOCK_BYTES, SEGMENT_PIECE_BYTES};
use std::io::{self, IoSlice};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const LARGE_BYTES: usize = 6 << 20;

/// A disk that notes the largest buffer that was read into or written from.
#[derive(Clone)]
struct Measured {
    disk: MemoryDisk,
    largest: Arc<AtomicUsize>,
}

struct MeasuredFile {
    file: <MemoryDisk as Disk>::File,
    largest: Arc<AtomicUsize>,
}

impl Measured {
    fn new() -> Self {
        Self {
            disk: MemoryDisk::new(),
            largest: Arc::default(),
        }
    }

    fn file(&self, file: io::Result<<MemoryDisk as Disk>::File>) -> io::Result<MeasuredFile> {
        Ok(MeasuredFile {
            file: file?,
            largest: Arc::clone(&self.largest),
        })
    }

    /// The largest buffer since the last call.
    fn largest(&self) -> usize {
        self.largest.swap(0, Ordering::Relaxed)
    }
}

impl Disk for Measured {
    type File = MeasuredFile;
    type Lock = <MemoryDisk as Disk>::Lock;

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.disk.create_dir_all(dir)
    }
    fn create_new(&self, path: &Path) -> io::Result<MeasuredFile> {
        self.file(self.disk.create_new(path))
    }
    fn open(&self, path: &Path) -> io::Result<MeasuredFile> {
        self.file(self.disk.open(path))
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.rename(from, to)
    }
    fn delete(&self, path: &Path) -> io::Result<()> {
        self.disk.delete(path)
    }
    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.disk.list(dir)
    }
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.disk.sync_dir(dir)
    }
    fn lock(&self, path: &Path) -> io::Result<Self::Lock> {
        self.disk.lock(path)
    }
}

impl DiskFile for MeasuredFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.largest.fetch_max(buffer.len(), Ordering::Relaxed);
        self.file.read_at(buffer, offset)
    }
    fn write_at(&self, slices: &[IoSlice<'_>], offset: u64) -> io::Result<()> {
        let largest = slices.iter().map(|slice| slice.len()).max();
        self.largest
            .fetch_max(largest.unwrap_or(0), Ordering::Relaxed);
        self.file.write_at(slices, offset)
    }
    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }
}

fn open(disk: &Measured) -> Store<Measured> {
    let options = Options {
        uuid: *b"an uuid for test",
        wal_file_bytes: 64 << 20,
        cache_bytes: 1 << 20,
        ..Options::default()
    };
    let folders = Folders::within(Path::new("/store"));
    let opened = Store::open(disk, &folders, &options);
    opened.unwrap_or_else(|e| panic!("{e}")).0
}

/// Bytes of which no stretch is like another one.
fn payload(number: u64, len: usize) -> Vec<u8> {
    let words = (0..).map(|at: u64| (at << 8 | number).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    let mut bytes: Vec<u8> = words.take(len / 8 + 1).flat_map(u64::to_le_bytes).collect();
    bytes.truncate(len);
    bytes
}

/// What each message of a log is: its number, and its bytes.
type Messages = Vec<(u64, usize)>;

fn put(store: &mut Store<Measured>, logs: &[LogId], (number, bytes): (u64, usize)) {
    let shard = &mut store.shards[0];
    let body = shard.body(Durability::Durable, &[&payload(number, bytes)]);
    for log in logs {
        shard.append(*log, body, bytes as u32);
    }
}

/// Small messages with large ones before, between and behind them; some are in both logs.
fn fill(store: &mut Store<Measured>) -> [(LogId, Messages); 2] {
    let (mut a, mut b) = (Messages::new(), Messages::new());
    for log in [A, B] {
        store.shards[0].create_log(log, LogKind::Durable);
    }
    let of = |number: u64| match number % 3 {
        0 => LARGE_BYTES + number as usize,
        1 => 3_000,
        _ => SEGMENT_BLOCK_BYTES,
    };
    for number in 0..16 {
        let message = (number, of(number));
        let (in_a, in_b) = (number != 12, number >= 3);
        let logs = [(A, in_a), (B, in_b)].into_iter().filter(|(_, has)| *has);
        put(
            store,
            &logs.map(|(log, _)| log).collect::<Vec<_>>(),
            message,
        );
        if in_a {
            a.push(message);
        }
        if in_b {
            b.push(message);
        }
    }
    store.sync().expect("a disk");
    [(A, a), (B, b)]
}

fn check(store: &mut Store<Measured>, logs: &[(LogId, Messages)], lives: impl Fn(u64) -> bool) {
    for (log, messages) in logs {
        for (index, (number, bytes)) in (0..).zip(messages) {
            let expected = match lives(*number) {
                true => Read::Ready(payload(*number, *bytes).into()),
                false => Read::Gone,
            };
            let read = store.read(*log, index);
            assert!(read == expected, "{log} {index}: message {number}");
        }
    }
}

#[test]
fn a_large_message_is_moved_to_a_segment_in_pieces() {
    let disk = Measured::new();
    let mut store = open(&disk);
    let logs = fill(&mut store);
    // After a start nothing is in memory.
    drop(store);
    let mut store = open(&disk);
    store.roll();
    disk.largest();
    store.flush().expect("a disk");
    let largest = disk.largest();
    assert!(
        largest <= 2 * SEGMENT_PIECE_BYTES,
        "{largest} bytes at once"
    );
    check(&mut store, &logs, |_| true);
    drop(store);
    check(&mut open(&disk), &logs, |_| true);
}

#[test]
fn a_large_message_is_moved_from_segment_to_segment_in_pieces() {
    let disk = Measured::new();
    let mut store = open(&disk);
    let logs = fill(&mut store);
    store.roll();
    store.flush().expect("a disk");
    // Most of both files dies.
    let lives = |number| ![0, 3, 6, 15].contains(&number);
    for (log, messages) in &logs {
        for (index, (number, bytes)) in (0..).zip(messages) {
            if !lives(*number) {
                store.shards[0].settle(*log, index..index + 1, *bytes as u64);
            }
        }
    }
    disk.largest();
    assert!(store.compact().expect("a disk"), "most of it is dead");
    let largest = disk.largest();
    assert!(
        largest <= 2 * SEGMENT_PIECE_BYTES,
        "{largest} bytes at once"
    );
    check(&mut store, &logs, lives);
    drop(store);
    check(&mut open(&disk), &logs, lives);
}

#[test]
fn a_large_message_that_is_damaged_is_set_aside_alone() {
    // One that both logs have, and one of the first alone.
    for (damaged, of) in [(3, &[A, B][..]), (0, &[A])] {
        let disk = Measured::new();
        let mut store = open(&disk);
        let logs = fill(&mut store);
        drop(store);
        let needle = payload(damaged, LARGE_BYTES + damaged as usize);
        for path in disk.disk.paths() {
            disk.disk.tamper(&path, |bytes| {
                let found = bytes
                    .windows(64)
                    .position(|w| *w == needle[LARGE_BYTES - 64..LARGE_BYTES]);
                if let Some(at) = found {
                    bytes[at] ^= 1;
                }
            });
        }
        let mut store = open(&disk);
        store.roll();
        store.flush().expect("a disk");
        for (log, messages) in &logs {
            // The flush has noted it, before anybody reads it.
            let damage = store.shards[0].damage(*log);
            let lost = damage.map_or(0, |damage| damage.lost.len());
            assert_eq!(lost, u64::from(of.contains(log)));
            for (index, (number, bytes)) in (0..).zip(messages) {
                match store.read(*log, index) {
                    Read::Damaged(_) => assert_eq!(*number, damaged),
                    Read::Ready(read) => assert_eq!(read, payload(*number, *bytes)),
                    other => panic!("{other:?}"),
                }
            }
        }
    }
}
