//! Many streams on one disk: what is synced together, in which pieces, for whom; how many files are
//! open; what is moved out of the way.

use crate::common::streams::{chunk, path_of};
use leveret_storage::{Disk, DiskFile, MemoryDisk, StreamFiles};
use leveret_stream::{Epoch, ReplicaState, Seek, SharedChunk};
use leveret_types::QueueId;
use leveret_types::limits::{
    STREAM_FILES_OPEN_MAX, STREAM_JOURNAL_BATCH_BYTES_MAX, STREAM_JOURNAL_PART_BYTES_MAX,
    STREAM_JOURNAL_SYNCS_MAX,
};
use std::collections::BTreeSet;
use std::io::{self, IoSlice};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

const FOLDER: &str = "streams";
const FIRST: QueueId = QueueId(1);
const SECOND: QueueId = QueueId(2);

fn open<D: Disk>(disk: &D) -> StreamFiles<D> {
    StreamFiles::open(disk.clone(), Path::new(FOLDER), 7).unwrap()
}

fn all(count: u64) -> Vec<QueueId> {
    (1..=count).map(QueueId).collect()
}

/// Streams with an empty segment each.
fn begun<D: Disk>(disk: &D, streams: &[QueueId]) -> StreamFiles<D> {
    let mut files = open(disk);
    for stream in streams {
        files.begin_segment(*stream, 0).unwrap();
    }
    files
}

fn append_to_all<D: Disk>(
    files: &mut StreamFiles<D>,
    streams: &[QueueId],
    offset: u64,
    bytes: usize,
) {
    for stream in streams {
        let chunk = chunk(offset, 1, bytes);
        files.append(*stream, &chunk, true).unwrap();
    }
}

fn newest<D: Disk>(files: &mut StreamFiles<D>, stream: QueueId) -> Option<SharedChunk> {
    let found = files.recover(stream).unwrap();
    assert_eq!(found.damage, [""; 0]);
    found.recovered.newest.last().cloned()
}

/// Bytes of each batch of the journal's first file, without its head.
fn batches(disk: &MemoryDisk) -> Vec<u64> {
    let mut found = Vec::new();
    disk.tamper(&path_of(disk, "streams-0.journal"), |bytes| {
        let begin = bytes.chunks_exact(512).filter(|s| s.starts_with(b"LVSJ"));
        let bytes_of = |s: &[u8]| u32::from_le_bytes(s[8..12].try_into().unwrap());
        found.extend(begin.map(|s| u64::from(bytes_of(s))));
    });
    found
}

#[test]
fn what_many_streams_have_is_synced_in_batches_of_bounded_bytes() {
    let disk = MemoryDisk::new();
    let streams = all(150);
    let mut files = begun(&disk, &streams);
    append_to_all(&mut files, &streams, 0, 15_000);
    files.sync_together(&streams).unwrap();
    let batches = batches(&disk);
    let most = STREAM_JOURNAL_BATCH_BYTES_MAX + STREAM_JOURNAL_PART_BYTES_MAX + 64 * 150;
    assert!(batches.iter().all(|bytes| *bytes <= most), "{batches:?}");
    assert!(batches.iter().sum::<u64>() > 150 * 15_000, "{batches:?}");
    assert_eq!(batches.len(), 3);
}

#[test]
fn a_stream_that_has_much_is_synced_in_its_segment_alone() {
    let disk = MemoryDisk::new();
    let streams = all(3);
    let mut files = begun(&disk, &streams);
    let most = STREAM_JOURNAL_PART_BYTES_MAX as usize;
    append_to_all(&mut files, &streams[..2], 0, 100);
    append_to_all(&mut files, &streams[2..], 0, most);
    files.sync_together(&streams).unwrap();
    assert_eq!(batches(&disk).len(), 1);
    assert!(batches(&disk)[0] < 2_000, "{:?}", batches(&disk));
    // All of it is durable.
    for stream in &streams {
        assert!(files.begin_sync(*stream).unwrap().is_none());
    }
    // One that is alone needs no journal.
    append_to_all(&mut files, &streams[..1], 1, 100);
    files.sync_together(&streams).unwrap();
    assert_eq!(batches(&disk).len(), 1);
    assert!(files.begin_sync(FIRST).unwrap().is_none());
}

#[test]
fn segments_are_synced_for_the_journal_a_few_at_a_time_and_each_once() {
    const STREAMS: u64 = 40;
    let disk = MemoryDisk::new();
    let streams = all(STREAMS);
    let mut files = begun(&disk, &streams).with_journal_bytes_max(256 * 1024);
    let mut syncs = Vec::new();
    for offset in 0.. {
        append_to_all(&mut files, &streams, offset, 500);
        files.sync_together(&streams).unwrap();
        syncs = files.begin_journal_syncs().unwrap();
        if !syncs.is_empty() {
            break;
        }
    }
    let mut synced = BTreeSet::new();
    while !syncs.is_empty() {
        let left = STREAMS as usize - synced.len();
        assert_eq!(syncs.len(), left.min(STREAM_JOURNAL_SYNCS_MAX));
        assert!(files.begin_journal_syncs().unwrap().is_empty(), "enough");
        for sync in syncs {
            let done = sync.run().unwrap();
            assert!(done.is_for_journal());
            assert!(synced.insert(done.stream()), "{} twice", done.stream());
            files.synced(&done);
        }
        syncs = files.begin_journal_syncs().unwrap();
    }
    assert_eq!(synced.len() as u64, STREAMS);
}

#[test]
fn a_sync_that_began_before_a_cut_says_nothing_of_what_came_after_it() {
    let disk = MemoryDisk::new();
    let mut files = begun(&disk, &[FIRST]);
    for offset in 0..2 {
        append_to_all(&mut files, &[FIRST], offset, 100);
    }
    let sync = files.begin_sync(FIRST).unwrap().expect("it is not synced");
    files.cut_and_recover(FIRST, 1).unwrap();
    append_to_all(&mut files, &[FIRST], 1, 300);
    let done = sync.run().unwrap();
    assert!(!done.is_for_journal());
    files.synced(&done);
    let again = files.begin_sync(FIRST).unwrap();
    let done = again.expect("what was appended is not synced").run();
    files.synced(&done.unwrap());
    assert!(files.begin_sync(FIRST).unwrap().is_none());
}

#[test]
fn what_the_journal_has_of_a_deleted_segment_is_not_written_to_the_next_one_of_its_name() {
    let disk = MemoryDisk::new();
    let pair = [FIRST, SECOND];
    let mut files = begun(&disk, &pair);
    append_to_all(&mut files, &pair, 0, 100);
    files.sync_together(&pair).unwrap();
    files.delete_segment(FIRST, 0).unwrap();
    files.begin_segment(FIRST, 0).unwrap();
    append_to_all(&mut files, &[FIRST], 0, 300);
    files.sync(FIRST).unwrap();
    drop(files);
    let mut files = open(&disk);
    assert_eq!(newest(&mut files, FIRST), Some(chunk(0, 1, 300)));
    assert_eq!(newest(&mut files, SECOND), Some(chunk(0, 1, 100)));
}

#[test]
fn what_the_journal_has_of_a_deleted_stream_is_not_written_to_the_next_one_of_its_id() {
    for is_synced in [true, false] {
        let disk = MemoryDisk::new();
        let pair = [FIRST, SECOND];
        let mut files = begun(&disk, &pair);
        append_to_all(&mut files, &pair, 0, 100);
        files.sync_together(&pair).unwrap();
        append_to_all(&mut files, &pair, 1, 100);
        if is_synced {
            files.sync(FIRST).unwrap();
        }
        files.delete_stream(FIRST).unwrap();
        files.begin_segment(FIRST, 0).unwrap();
        append_to_all(&mut files, &[FIRST], 0, 300);
        files.sync(FIRST).unwrap();
        drop(files);
        let mut files = open(&disk);
        assert_eq!(newest(&mut files, FIRST), Some(chunk(0, 1, 300)));
        assert_eq!(newest(&mut files, SECOND), Some(chunk(1, 1, 100)));
    }
}

#[test]
fn a_start_writes_again_what_nothing_says_was_synced_and_no_more() {
    let disk = MemoryDisk::new();
    let mut files = begun(&disk, &[FIRST]);
    for offset in 0..50 {
        append_to_all(&mut files, &[FIRST], offset, 2_000);
        files.sync(FIRST).unwrap();
    }
    drop(files);
    let mut files = open(&disk);
    let expected = Some(chunk(49, 1, 2_000));
    assert_eq!(newest(&mut files, FIRST), expected);
    let before = disk.counts();
    files.write_tail_again(FIRST).unwrap();
    let after = disk.counts();
    let written = after.written_bytes - before.written_bytes;
    assert!((2_000..4_000).contains(&written), "{written}: one record");
    assert_eq!(after.syncs - before.syncs, 1);
    assert_eq!(newest(&mut open(&disk), FIRST), expected);
    // Of a segment without any record that says so, all of it.
    let disk = MemoryDisk::new();
    let mut files = begun(&disk, &[FIRST]);
    for offset in 0..5 {
        append_to_all(&mut files, &[FIRST], offset, 2_000);
    }
    files.sync(FIRST).unwrap();
    drop(files);
    let mut files = open(&disk);
    newest(&mut files, FIRST);
    let before = disk.counts().written_bytes;
    files.write_tail_again(FIRST).unwrap();
    let records = (0..5).map(|offset| 32 + chunk(offset, 1, 2_000).bytes().len() as u64);
    let written = disk.counts().written_bytes - before;
    assert_eq!(written, 80 + records.sum::<u64>(), "with its head");
}

/// Whether a disk has a file of this name.
fn has(disk: &MemoryDisk, name: &str) -> bool {
    disk.paths().iter().any(|path| path.ends_with(name))
}

/// Two streams with so many chunks each, which the journal has, on a disk that writes elsewhere
/// what is written over.
fn journaled(chunks: u64) -> (MemoryDisk, StreamFiles<MemoryDisk>) {
    let disk = MemoryDisk::new();
    disk.copy_on_write();
    let pair = [FIRST, SECOND];
    let mut files = begun(&disk, &pair).with_journal_bytes_max(64 * 1024);
    for offset in 0..chunks {
        append_to_all(&mut files, &pair, offset, 2_000);
        files.sync_together(&pair).unwrap();
    }
    (disk, files)
}

#[test]
fn a_journal_whose_making_was_broken_off_is_made_anew_under_its_name() {
    let (disk, mut files) = journaled(1);
    for stream in [FIRST, SECOND] {
        files.sync(stream).unwrap();
    }
    drop(files);
    let journal = path_of(&disk, "streams-0.journal");
    assert!(disk.tamper(&journal, |bytes| bytes.truncate(100)));
    let mut files = open(&disk);
    for stream in [FIRST, SECOND] {
        newest(&mut files, stream);
    }
    append_to_all(&mut files, &[FIRST, SECOND], 1, 100);
    files.sync_together(&[FIRST, SECOND]).unwrap();
    assert_eq!(batches(&disk).len(), 1);
}

#[test]
fn streams_start_on_a_full_disk_that_writes_elsewhere_what_the_journal_has() {
    let (disk, files) = journaled(10);
    drop(files);
    // Others take what becomes free.
    for _ in 0..3 {
        disk.set_bytes_max(Some(disk.bytes()));
        let mut files = open(&disk);
        for stream in [FIRST, SECOND] {
            assert_eq!(newest(&mut files, stream), Some(chunk(9, 1, 2_000)));
        }
    }
}

/// A file of the journal whose head cannot be written over is deleted, and made again where there
/// is room.
#[test]
fn a_journal_goes_on_and_is_forgotten_on_a_full_disk_that_writes_elsewhere() {
    let pair = [FIRST, SECOND];
    // The disk becomes full while the one file or the other is written to, or just full.
    for chunks in 10..50 {
        let (disk, mut files) = journaled(chunks);
        for offset in chunks..chunks + 3 {
            disk.set_bytes_max(None);
            append_to_all(&mut files, &pair, offset, 2_000);
            disk.set_bytes_max(Some(disk.bytes()));
            files.sync_together(&pair).unwrap();
            for stream in pair {
                assert!(files.begin_sync(stream).unwrap().is_none(), "it is durable");
            }
        }
        // What is cut does not come back out of the journal.
        files.cut_and_recover(FIRST, chunks).unwrap();
        drop(files);
        let mut files = open(&disk);
        let last = chunk(chunks - 1, 1, 2_000);
        assert_eq!(newest(&mut files, FIRST), Some(last), "{chunks}");
        let last = chunk(chunks + 2, 1, 2_000);
        assert_eq!(newest(&mut files, SECOND), Some(last), "{chunks}");
    }
}

#[test]
fn a_tail_is_not_written_again_on_a_full_disk_that_writes_elsewhere() {
    let disk = MemoryDisk::new();
    let mut files = begun(&disk, &[FIRST]);
    append_to_all(&mut files, &[FIRST], 0, 2_000);
    files.sync(FIRST).unwrap();
    drop(files);
    disk.copy_on_write();
    let mut files = open(&disk);
    newest(&mut files, FIRST);
    disk.set_bytes_max(Some(disk.bytes()));
    files.write_tail_again(FIRST).unwrap();
    disk.set_bytes_max(None);
    append_to_all(&mut files, &[FIRST], 1, 100);
    files.sync(FIRST).unwrap();
    assert_eq!(newest(&mut open(&disk), FIRST), Some(chunk(1, 1, 100)));
}

#[test]
fn a_torn_end_is_cut_on_a_full_disk_that_writes_elsewhere() {
    let disk = MemoryDisk::new();
    let mut files = begun(&disk, &[FIRST]);
    files
        .save_replica_state(FIRST, &ReplicaState::default())
        .unwrap();
    append_to_all(&mut files, &[FIRST], 0, 2_000);
    files.sync(FIRST).unwrap();
    append_to_all(&mut files, &[FIRST], 1, 100_000);
    drop(files);
    let segment = path_of(&disk, ".stream");
    disk.tamper(&segment, |bytes| bytes[50_000] ^= 1);
    disk.copy_on_write();
    disk.set_bytes_max(Some(disk.bytes()));
    let mut files = open(&disk);
    assert_eq!(newest(&mut files, FIRST), Some(chunk(0, 1, 2_000)));
    assert!(!has(&disk, "replica.reserve"), "it gave its room");
    // Nothing of it is found behind what comes then.
    append_to_all(&mut files, &[FIRST], 1, 300);
    files.sync(FIRST).unwrap();
    assert_eq!(newest(&mut open(&disk), FIRST), Some(chunk(1, 1, 300)));
}

#[test]
fn a_cut_leaves_the_room_that_is_kept_for_what_others_have_in_the_journal() {
    let (disk, mut files) = journaled(3);
    let third = QueueId(3);
    files.begin_segment(third, 0).unwrap();
    files
        .save_replica_state(third, &ReplicaState::default())
        .unwrap();
    for offset in 0..4 {
        append_to_all(&mut files, &[third], offset, 2_000);
    }
    files.sync(third).unwrap();
    disk.set_bytes_max(Some(disk.bytes()));
    files.cut_and_recover(third, 2).unwrap();
    assert_eq!(newest(&mut files, third), Some(chunk(1, 1, 2_000)));
    assert!(has(&disk, "journal.reserve"));
}

#[test]
fn a_cut_on_a_full_disk_has_the_room_of_a_journal_that_has_nothing() {
    let (disk, mut files) = journaled(4);
    // The first cut ends what the journal has of both, while there is room.
    files.cut_and_recover(FIRST, 3).unwrap();
    assert!(has(&disk, "journal.reserve"));
    disk.set_bytes_max(Some(disk.bytes()));
    files.cut_and_recover(SECOND, 2).unwrap();
    assert!(!has(&disk, "journal.reserve"), "it gave its room");
    drop(files);
    let mut files = open(&disk);
    assert_eq!(newest(&mut files, FIRST), Some(chunk(2, 1, 2_000)));
    assert_eq!(newest(&mut files, SECOND), Some(chunk(1, 1, 2_000)));
}

/// A disk that counts the files that are open.
#[derive(Clone)]
struct Counting {
    disk: MemoryDisk,
    open: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
    /// Descriptors that it has for its files.
    descriptors: u64,
    /// Whether no sync succeeds.
    fails: Arc<AtomicBool>,
}

struct CountedFile {
    file: <MemoryDisk as Disk>::File,
    open: Arc<AtomicUsize>,
    fails: Arc<AtomicBool>,
}

impl Drop for CountedFile {
    fn drop(&mut self) {
        self.open.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Counting {
    fn count(&self, file: <MemoryDisk as Disk>::File) -> CountedFile {
        let open = self.open.fetch_add(1, Ordering::Relaxed) + 1;
        self.most.fetch_max(open, Ordering::Relaxed);
        CountedFile {
            file,
            open: Arc::clone(&self.open),
            fails: Arc::clone(&self.fails),
        }
    }
}

impl Disk for Counting {
    type File = CountedFile;
    type Lock = <MemoryDisk as Disk>::Lock;

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.disk.create_dir_all(dir)
    }
    fn create_new(&self, path: &Path) -> io::Result<CountedFile> {
        self.disk.create_new(path).map(|file| self.count(file))
    }
    fn open(&self, path: &Path) -> io::Result<CountedFile> {
        self.disk.open(path).map(|file| self.count(file))
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
    fn descriptors(&self) -> u64 {
        self.descriptors
    }
}

impl DiskFile for CountedFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(buffer, offset)
    }
    fn write_at(&self, slices: &[IoSlice<'_>], offset: u64) -> io::Result<()> {
        self.file.write_at(slices, offset)
    }
    fn sync_data(&self) -> io::Result<()> {
        match self.fails.load(Ordering::Relaxed) {
            true => Err(io::Error::other("the drive is gone")),
            false => self.file.sync_data(),
        }
    }
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }
}

/// Beside the segments: the two files of the journal, and one that is being made or deleted.
const OTHERS_OPEN: usize = 4;

#[test]
fn however_many_streams_there_are_only_so_many_of_their_files_are_open() {
    let streams = 2 * STREAM_FILES_OPEN_MAX as u64;
    open_at_once(streams, u64::MAX, STREAM_FILES_OPEN_MAX);
}

#[test]
fn streams_need_no_more_open_files_than_there_are_descriptors_for_them() {
    open_at_once(100, 80, 20);
}

/// No later sync makes that good: what was in the file is neither on the disk nor in memory.
#[test]
fn a_failed_sync_of_a_file_that_was_to_be_closed_is_told_before_anything_is_confirmed() {
    let disk = Counting {
        disk: MemoryDisk::new(),
        open: Arc::default(),
        most: Arc::default(),
        descriptors: 4,
        fails: Arc::default(),
    };
    let mut files = begun(&disk, &[FIRST, SECOND]);
    append_to_all(&mut files, &[FIRST], 0, 100);
    disk.fails.store(true, Ordering::Relaxed);
    // One file is open at a time: a reader of the second one has the first one closed.
    let read = files.read(SECOND, 0, Seek::Offset(0), u64::MAX, 1);
    assert!(read.is_err(), "there is no room for its file");
    disk.fails.store(false, Ordering::Relaxed);
    let error = files.sync_together(&[SECOND]).expect_err("it must end");
    assert!(error.to_string().contains("0000000000000001-"), "{error}");
}

/// Writes to so many streams and reads them where there are so many descriptors, and has as many
/// of their files open as `expected`.
fn open_at_once(streams: u64, descriptors: u64, expected: usize) {
    let disk = Counting {
        disk: MemoryDisk::new(),
        open: Arc::default(),
        most: Arc::default(),
        descriptors,
        fails: Arc::default(),
    };
    let streams = all(streams);
    let mut files = begun(&disk, &streams);
    for offset in 0..3 {
        append_to_all(&mut files, &streams, offset, 100);
        files.sync_together(&streams).unwrap();
    }
    for stream in &streams {
        let read = files.read(*stream, 0, Seek::Offset(0), u64::MAX, 9);
        assert_eq!(read.unwrap().chunks.len(), 3);
    }
    drop(files);
    let mut files = open(&disk);
    for stream in &streams {
        assert_eq!(newest(&mut files, *stream), Some(chunk(2, 1, 100)));
    }
    append_to_all(&mut files, &streams, 3, 100);
    files.sync_all().unwrap();
    let most = disk.most.load(Ordering::Relaxed);
    assert!(most <= expected + OTHERS_OPEN, "{most}");
    assert!(most >= expected, "{most}");
    for stream in &streams {
        files.delete_stream(*stream).unwrap();
    }
    assert_eq!(disk.open.load(Ordering::Relaxed), 0, "deleted means closed");
}

#[test]
fn what_a_replica_keeps_is_replaced_on_a_full_disk_out_of_its_reserve() {
    let disk = MemoryDisk::new();
    let mut files = begun(&disk, &[FIRST]);
    let state = |promised| ReplicaState {
        promised: Epoch(promised),
        ..ReplicaState::default()
    };
    let has_reserve = || {
        let paths = disk.paths();
        paths.iter().any(|path| path.ends_with("replica.reserve"))
    };
    files.save_replica_state(FIRST, &state(1)).unwrap();
    assert!(has_reserve());
    // Others take what becomes free.
    for promised in 2..4 {
        disk.set_bytes_max(Some(disk.bytes()));
        files.save_replica_state(FIRST, &state(promised)).unwrap();
        assert_eq!(files.replica_state(FIRST).unwrap(), Some(state(promised)));
    }
    disk.set_bytes_max(None);
    files.save_replica_state(FIRST, &state(4)).unwrap();
    assert!(has_reserve(), "it is there again once there is room");
    // A start knows of it.
    let mut files = open(&disk);
    disk.set_bytes_max(Some(disk.bytes()));
    files.save_replica_state(FIRST, &state(5)).unwrap();
    assert_eq!(files.replica_state(FIRST).unwrap(), Some(state(5)));
}

#[test]
fn what_is_set_aside_is_all_of_one_stream_under_names_of_its_own() {
    let disk = MemoryDisk::new();
    let mut files = begun(&disk, &[FIRST, SECOND]);
    assert_eq!(files.what_is_set_aside().unwrap(), None);
    assert!(!files.holds_anything(FIRST).unwrap(), "a head");
    append_to_all(&mut files, &[FIRST, SECOND], 0, 100);
    assert!(files.holds_anything(FIRST).unwrap());
    assert!(!files.holds_anything(QueueId(9)).unwrap());
    files.begin_segment(FIRST, 1).unwrap();
    let state = ReplicaState::default();
    files.save_replica_state(FIRST, &state).unwrap();
    files.set_aside(FIRST).unwrap();
    let found = files.what_is_set_aside().unwrap().expect("it is there");
    // Two segments, the name of the newer one, and what a replica keeps.
    assert_eq!(found.files, 4);
    assert_eq!(found.folder, Path::new(FOLDER).join("set-aside"));
    let aside = || {
        let paths = disk.paths().into_iter();
        let aside = paths.filter(|path| path.parent() == Some(found.folder.as_path()));
        aside.collect::<Vec<_>>()
    };
    let bytes = |path: &std::path::PathBuf| disk.open(path).unwrap().len().unwrap();
    assert_eq!(found.bytes, aside().iter().map(bytes).sum::<u64>());
    // The other stream is as it was, and nobody finds the one that is gone.
    assert_eq!(files.streams().collect::<Vec<_>>(), [SECOND]);
    assert_eq!(open(&disk).streams().collect::<Vec<_>>(), [SECOND]);
    assert_eq!(newest(&mut open(&disk), SECOND), Some(chunk(0, 1, 100)));
    // Another of the same id, twice: none replaces what is there.
    for times in 1..3 {
        files.begin_segment(FIRST, 0).unwrap();
        files.set_aside(FIRST).unwrap();
        let found = files.what_is_set_aside().unwrap().expect("it is there");
        assert_eq!(found.files, 4 + 2 * times, "{:?}", aside());
    }
    let names = aside().into_iter().filter(|path| {
        let name = path.to_string_lossy();
        name.contains("0000000000000001-00000000000000000000.stream")
    });
    let names: Vec<_> = names
        .map(|path| path.extension().map(|e| e.to_owned()))
        .collect();
    let expected = ["stream", "2", "3"].map(|name| Some(name.into()));
    assert_eq!(names, expected);
}
