//! The disk as the engine uses it, and a disk in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, IoSlice};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// A file system, as far as the engine needs one. All calls are synchronous: who must not wait runs
/// them on a thread of its own.
///
/// Only what [`DiskFile::sync_data`] and [`Disk::sync_dir`] have promised survives a power cut:
/// bytes of a file need the former, names (created, renamed, deleted) the latter on their folder.
pub trait Disk: Clone + Send + Sync + 'static {
    /// An open file.
    type File: DiskFile;
    /// Keeps a lock file locked for as long as it lives.
    type Lock: Send + 'static;

    /// Creates a folder and those above it that are missing, durably.
    fn create_dir_all(&self, dir: &Path) -> io::Result<()>;
    /// Creates a file that must not exist, for reading and writing.
    fn create_new(&self, path: &Path) -> io::Result<Self::File>;
    /// Opens a file that exists, for reading and writing.
    fn open(&self, path: &Path) -> io::Result<Self::File>;
    /// Renames a file within a folder, replacing what has the new name.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Deletes a file.
    fn delete(&self, path: &Path) -> io::Result<()>;
    /// Names of the files in a folder, in no order.
    fn list(&self, dir: &Path) -> io::Result<Vec<String>>;
    /// Makes the names in a folder durable.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
    /// How many bytes there is room for in a folder; `None` where nobody knows.
    fn free_bytes(&self, _dir: &Path) -> Option<u64> {
        None
    }
    /// How many files, and whatever else takes a descriptor, may be open at once beside clients.
    fn descriptors(&self) -> u64 {
        u64::MAX
    }
    /// Creates a lock file if need be and locks it against other processes;
    /// [`io::ErrorKind::WouldBlock`] when another has it.
    fn lock(&self, path: &Path) -> io::Result<Self::Lock>;
}

/// An open file of a [`Disk`].
pub trait DiskFile: Send + Sync + 'static {
    /// Reads bytes from `offset` on; fewer than asked for only at the file's end.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Writes all slices, one after the other, from `offset` on; grows the file where need be.
    fn write_at(&self, slices: &[IoSlice<'_>], offset: u64) -> io::Result<()>;
    /// Makes all bytes written so far durable, and the file's length with them.
    fn sync_data(&self) -> io::Result<()>;
    /// Length in bytes.
    fn len(&self) -> io::Result<u64>;
    /// Whether the file is empty.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
}

/// Reads exactly `len` bytes; an early end of the file is an error of kind
/// [`io::ErrorKind::UnexpectedEof`].
pub(crate) fn read_exact(file: &impl DiskFile, offset: u64, len: usize) -> io::Result<Vec<u8>> {
    let mut buffer = vec![0; len];
    read_exact_into(file, offset, &mut buffer)?;
    Ok(buffer)
}

/// Fills a buffer, or fails.
pub(crate) fn read_exact_into(
    file: &impl DiskFile,
    offset: u64,
    buffer: &mut [u8],
) -> io::Result<()> {
    let (read, len) = (file.read_at(buffer, offset)?, buffer.len());
    if read < len {
        return Err(io::Error::new(
            io::ErrorKind::UnexpectedEof,
            format!("{read} of {len} bytes at offset {offset}"),
        ));
    }
    Ok(())
}

static ZEROS: [u8; 64 * 1024] = [0; 64 * 1024];
/// Bytes of zeros, or of what only keeps room, written at once.
const ZEROS_WRITE_BYTES: u64 = 1 << 20;

/// Fills a part of a file with zeros, without a buffer of that size.
pub(crate) fn write_zeros(file: &impl DiskFile, part: Range<u64>) -> io::Result<()> {
    let mut at = part.start;
    while at < part.end {
        let count = (part.end - at).min(ZEROS_WRITE_BYTES);
        let slices: Vec<IoSlice<'_>> = zeros(count).collect();
        file.write_at(&slices, at)?;
        at += count;
    }
    Ok(())
}

/// So many zeros, without a buffer of that size.
pub(crate) fn zeros<'a>(bytes: u64) -> impl Iterator<Item = IoSlice<'a>> {
    let len = ZEROS.len() as u64;
    let slices = (0..bytes.div_ceil(len)).map(move |i| (bytes - i * len).min(len) as usize);
    slices.map(|len| IoSlice::new(&ZEROS[..len]))
}

/// Bytes of a file that only keeps room, from `at` on, a multiple of 8: a file system that
/// compresses makes them no smaller, so that all of their room is there once the file is gone.
#[must_use]
pub fn filler(at: u64, bytes: usize) -> Vec<u8> {
    // SplitMix64 of where each word is.
    let word = |number: u64| {
        let mut value = (number + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (value ^ (value >> 31)).to_le_bytes()
    };
    let mut out = Vec::with_capacity(bytes.next_multiple_of(8));
    for number in (at / 8..).take(bytes.div_ceil(8)) {
        out.extend_from_slice(&word(number));
    }
    out.truncate(bytes);
    out
}

/// Fills a part of a file with [`filler`].
pub(crate) fn write_filler(file: &impl DiskFile, part: Range<u64>) -> io::Result<()> {
    let mut at = part.start;
    while at < part.end {
        let count = (part.end - at).min(ZEROS_WRITE_BYTES);
        let bytes = filler(at, count as usize);
        file.write_at(&[IoSlice::new(&bytes)], at)?;
        at += count;
    }
    Ok(())
}

/// Reads a whole file.
pub(crate) fn read_whole<D: Disk>(disk: &D, path: &Path) -> io::Result<Vec<u8>> {
    let file = disk.open(path)?;
    let len = file.len()?;
    let len =
        usize::try_from(len).map_err(|_| io::Error::other("file too long to be read whole"))?;
    read_exact(&file, 0, len)
}

/// Counts of what a [`MemoryDisk`] was asked to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryDiskCounts {
    /// Reads.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Calls of `sync_data`.
    pub syncs: u64,
}

/// What a file of a [`MemoryDisk`] has.
#[derive(Clone, Debug, Default)]
struct Content {
    bytes: Vec<u8>,
    /// Bytes that were written over since the last sync, of a disk that keeps them until then.
    replaced: u64,
}

impl Content {
    fn taken(&self) -> u64 {
        self.bytes.len() as u64 + self.replaced
    }
}

#[derive(Debug, Default)]
struct MemoryDiskState {
    /// Folders that were made; a file that is created brings its own.
    folders: BTreeSet<PathBuf>,
    files: BTreeMap<PathBuf, Arc<Mutex<Content>>>,
    /// Files that were deleted while somebody may have had them open.
    deleted: Vec<Weak<Mutex<Content>>>,
    locks: BTreeSet<PathBuf>,
    counts: MemoryDiskCounts,
    bytes_max: Option<u64>,
    copies_on_write: bool,
}

/// A disk in memory that neither fails nor forgets: for tests, examples and as the smallest model
/// of a [`Disk`].
///
/// Clones share the files. Two stores on clones of one disk are two processes on one machine.
#[derive(Clone, Debug, Default)]
pub struct MemoryDisk(Arc<Mutex<MemoryDiskState>>);

/// A file of a [`MemoryDisk`].
#[derive(Clone, Debug)]
pub struct MemoryFile {
    disk: MemoryDisk,
    content: Arc<Mutex<Content>>,
}

/// A lock on a [`MemoryDisk`], released when dropped.
#[derive(Debug)]
pub struct MemoryLock {
    disk: MemoryDisk,
    path: PathBuf,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl MemoryDisk {
    /// An empty disk.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// What it was asked to do so far.
    #[must_use]
    pub fn counts(&self) -> MemoryDiskCounts {
        locked(&self.0).counts
    }

    /// Sets how many bytes all files together may have; writes beyond fail with
    /// [`io::ErrorKind::StorageFull`].
    pub fn set_bytes_max(&self, bytes_max: Option<u64>) {
        locked(&self.0).bytes_max = bytes_max;
    }

    /// From now on it is a disk that writes elsewhere what is written over, as Btrfs and ZFS do:
    /// that needs room as well, until the file is synced.
    pub fn copy_on_write(&self) {
        locked(&self.0).copies_on_write = true;
    }

    /// Bytes that all files together take, and those that were deleted and are open still.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let state = locked(&self.0);
        let named: u64 = state.files.values().map(|f| locked(f).taken()).sum();
        let deleted = state.deleted.iter().filter_map(Weak::upgrade);
        named + deleted.map(|f| locked(&f).taken()).sum::<u64>()
    }

    /// A disk with a copy of every file as it is now, and no locks: what another machine would
    /// find.
    #[must_use]
    pub fn copy(&self) -> Self {
        let state = locked(&self.0);
        let files = state
            .files
            .iter()
            .map(|(path, of)| (path.clone(), Arc::new(Mutex::new(locked(of).clone()))))
            .collect();
        Self(Arc::new(Mutex::new(MemoryDiskState {
            files,
            folders: state.folders.clone(),
            ..MemoryDiskState::default()
        })))
    }

    /// Paths of all files, ascending.
    #[must_use]
    pub fn paths(&self) -> Vec<PathBuf> {
        locked(&self.0).files.keys().cloned().collect()
    }

    /// Changes a file's bytes behind the engine's back; false if there is no such file.
    pub fn tamper(&self, path: &Path, change: impl FnOnce(&mut Vec<u8>)) -> bool {
        let file = locked(&self.0).files.get(path).cloned();
        file.inspect(|content| change(&mut locked(content).bytes))
            .is_some()
    }
}

fn missing(path: &Path) -> io::Error {
    io::Error::new(
        io::ErrorKind::NotFound,
        format!("no file {}", path.display()),
    )
}

impl Disk for MemoryDisk {
    type File = MemoryFile;
    type Lock = MemoryLock;

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        let folders = dir.ancestors().map(Path::to_owned);
        locked(&self.0).folders.extend(folders);
        Ok(())
    }

    fn create_new(&self, path: &Path) -> io::Result<MemoryFile> {
        let mut state = locked(&self.0);
        if state.files.contains_key(path) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let content = Arc::<Mutex<Content>>::default();
        state.files.insert(path.to_owned(), Arc::clone(&content));
        let disk = self.clone();
        Ok(MemoryFile { disk, content })
    }

    fn open(&self, path: &Path) -> io::Result<MemoryFile> {
        let state = locked(&self.0);
        let content = state.files.get(path).ok_or_else(|| missing(path))?;
        Ok(MemoryFile {
            disk: self.clone(),
            content: Arc::clone(content),
        })
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = locked(&self.0);
        let folder = to.parent().unwrap_or(to);
        if from.parent() != Some(folder) && !state.folders.contains(folder) {
            return Err(missing(folder));
        }
        let bytes = state.files.remove(from).ok_or_else(|| missing(from))?;
        state.files.insert(to.to_owned(), bytes);
        Ok(())
    }

    fn delete(&self, path: &Path) -> io::Result<()> {
        let mut state = locked(&self.0);
        let removed = state.files.remove(path).ok_or_else(|| missing(path))?;
        state.deleted.retain(|file| file.strong_count() > 0);
        state.deleted.push(Arc::downgrade(&removed));
        Ok(())
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let state = locked(&self.0);
        let names = state.files.keys().filter(|path| path.parent() == Some(dir));
        Ok(names
            .filter_map(|path| path.file_name()?.to_str().map(str::to_owned))
            .collect())
    }

    fn sync_dir(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }

    fn free_bytes(&self, _dir: &Path) -> Option<u64> {
        let bytes_max = locked(&self.0).bytes_max;
        bytes_max.map(|most| most.saturating_sub(self.bytes()))
    }

    fn lock(&self, path: &Path) -> io::Result<MemoryLock> {
        if !locked(&self.0).locks.insert(path.to_owned()) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(MemoryLock {
            disk: self.clone(),
            path: path.to_owned(),
        })
    }
}

impl Drop for MemoryLock {
    fn drop(&mut self) {
        locked(&self.disk.0).locks.remove(&self.path);
    }
}

impl DiskFile for MemoryFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let content = locked(&self.content);
        let bytes = &content.bytes;
        let start = usize::try_from(offset).map_or(bytes.len(), |o| o.min(bytes.len()));
        let count = buffer.len().min(bytes.len() - start);
        buffer[..count].copy_from_slice(&bytes[start..start + count]);
        drop(content);
        let counts = &mut locked(&self.disk.0).counts;
        counts.reads += 1;
        counts.read_bytes += count as u64;
        Ok(count)
    }

    fn write_at(&self, slices: &[IoSlice<'_>], offset: u64) -> io::Result<()> {
        let start = usize::try_from(offset).map_err(|_| io::ErrorKind::FileTooLarge)?;
        let count: usize = slices.iter().map(|s| s.len()).sum();
        let used = self.disk.bytes();
        let (bytes_max, copies) = {
            let state = locked(&self.disk.0);
            (state.bytes_max, state.copies_on_write)
        };
        let mut content = locked(&self.content);
        let grows = (start + count).saturating_sub(content.bytes.len());
        let replaces = match copies {
            true => count.saturating_sub(grows) as u64,
            false => 0,
        };
        let needed = grows as u64 + replaces;
        if needed > 0 && bytes_max.is_some_and(|max| used + needed > max) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        content.replaced += replaces;
        let bytes = &mut content.bytes;
        if bytes.len() < start + count {
            bytes.resize(start + count, 0);
        }
        let mut at = start;
        for slice in slices {
            bytes[at..at + slice.len()].copy_from_slice(slice);
            at += slice.len();
        }
        drop(content);
        locked(&self.disk.0).counts.written_bytes += count as u64;
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        locked(&self.disk.0).counts.syncs += 1;
        locked(&self.content).replaced = 0;
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(locked(&self.content).bytes.len() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(file: &MemoryFile, offset: u64, bytes: &[u8]) -> Result<(), io::ErrorKind> {
        let written = file.write_at(&[IoSlice::new(bytes)], offset);
        written.map_err(|error| error.kind())
    }

    #[test]
    fn a_memory_disk_takes_its_bound_and_not_a_byte_more() {
        const FULL: Result<(), io::ErrorKind> = Err(io::ErrorKind::StorageFull);
        let disk = MemoryDisk::new();
        let of = |name: &str| disk.create_new(Path::new(name)).expect("a file");
        let (first, second) = (of("f/1"), of("f/2"));
        assert_eq!(write(&first, 0, &[1; 60]), Ok(()));
        disk.set_bytes_max(Some(100));
        assert_eq!(write(&second, 0, &[2; 41]), FULL);
        assert_eq!(disk.bytes(), 60, "nothing of it is written");
        assert_eq!(write(&second, 0, &[2; 40]), Ok(()));
        assert_eq!(write(&second, 40, &[2]), FULL);
        assert_eq!(write(&first, 59, &[3; 2]), FULL, "it would grow by one");
        // What is written over needs no space, however little there may be.
        disk.set_bytes_max(Some(10));
        assert_eq!(write(&first, 1, &[3; 59]), Ok(()));
        let mut bytes = [0; 60];
        assert_eq!(first.read_at(&mut bytes, 0).expect("it is there"), 60);
        assert_eq!((bytes[0], &bytes[1..]), (1, &[3; 59][..]));
        // One that is deleted takes space for as long as it is open.
        disk.set_bytes_max(Some(100));
        disk.delete(Path::new("f/2")).expect("it is there");
        assert_eq!((disk.bytes(), write(&first, 60, &[4])), (100, FULL));
        drop(second);
        assert_eq!((disk.bytes(), write(&first, 60, &[4; 40])), (60, Ok(())));
        assert_eq!(write(&first, 100, &[4]), FULL);
        disk.set_bytes_max(None);
        assert_eq!(write(&first, 100, &[4]), Ok(()));
    }

    #[test]
    fn what_keeps_room_repeats_nothing_and_goes_on_where_it_ended() {
        let whole = filler(0, 1 << 20);
        assert_eq!(whole.len(), 1 << 20);
        let (words, _) = whole.as_chunks::<8>();
        let distinct: BTreeSet<_> = words.iter().collect();
        assert_eq!(distinct.len(), words.len());
        assert_eq!(whole[512..600], filler(512, 88));
        let disk = MemoryDisk::new();
        let file = disk.create_new(Path::new("f")).expect("a file");
        let all = 5 * ZEROS_WRITE_BYTES / 2;
        for part in [0..8_192, 8_192..all] {
            write_filler(&file, part).expect("room");
        }
        let read = read_whole(&disk, Path::new("f")).expect("it is there");
        assert!(read == filler(0, all as usize));
    }

    #[test]
    fn a_memory_disk_that_copies_on_write_needs_room_for_what_is_written_over_until_a_sync() {
        const FULL: Result<(), io::ErrorKind> = Err(io::ErrorKind::StorageFull);
        let disk = MemoryDisk::new();
        let file = disk.create_new(Path::new("f")).expect("a file");
        assert_eq!(write(&file, 0, &[1; 60]), Ok(()));
        disk.copy_on_write();
        disk.set_bytes_max(Some(100));
        assert_eq!(write(&file, 0, &[2; 41]), FULL);
        assert_eq!(write(&file, 40, &[2; 30]), Ok(()));
        assert_eq!(disk.bytes(), 70 + 20, "twenty were written over");
        assert_eq!(write(&file, 0, &[2; 11]), FULL);
        file.sync_data().expect("a sync");
        assert_eq!(disk.bytes(), 70);
        assert_eq!(write(&file, 0, &[2; 11]), Ok(()));
    }
}
