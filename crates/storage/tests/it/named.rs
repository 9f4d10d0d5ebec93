//! A file that a start would take for a whole one has its name only when all of it is durable:
//! what a sync that failed has left in memory looks whole, and no later sync writes it.

use crate::common::{A, payload};
use leveret_storage::{Disk, DiskFile, Durability, Folders, LogKind, MemoryDisk, Options, Store};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

const FILE_BYTES: u64 = 64 << 10;
const BYTES: usize = 10_000;

/// A disk that knows which bytes of its files are durable, and notes the names that files got.
#[derive(Clone, Default)]
struct Watched {
    disk: MemoryDisk,
    files: Arc<Mutex<BTreeMap<PathBuf, Arc<AtomicBool>>>>,
    folders: Arc<Mutex<BTreeSet<PathBuf>>>,
    /// New names, and whether all of the file was durable then.
    renamed: Arc<Mutex<Vec<(PathBuf, bool)>>>,
    /// Folders whose names were made durable before any name was given or taken.
    synced_first: Arc<Mutex<BTreeSet<PathBuf>>>,
    has_named: Arc<AtomicBool>,
}

struct WatchedFile {
    file: <MemoryDisk as Disk>::File,
    is_durable: Arc<AtomicBool>,
}

impl Watched {
    fn file(&self, path: &Path, file: <MemoryDisk as Disk>::File) -> WatchedFile {
        let mut files = self.files.lock().unwrap();
        let is_durable = files.entry(path.to_owned()).or_default();
        WatchedFile {
            file,
            is_durable: Arc::clone(is_durable),
        }
    }

    /// As a drive: where there is no folder there are no files.
    fn within_a_folder(&self, path: &Path) -> io::Result<()> {
        let folders = self.folders.lock().unwrap();
        let parent = path.parent().filter(|folder| folders.contains(*folder));
        parent.map(|_| ()).ok_or(io::ErrorKind::NotFound.into())
    }

    /// How many files got a name that ends so; each was durable then.
    fn named(&self, suffix: &str) -> usize {
        let renamed = self.renamed.lock().unwrap();
        let named = renamed.iter();
        let named = named.filter(|(path, _)| path.to_string_lossy().ends_with(suffix));
        let checked = named.inspect(|(path, is_durable)| assert!(is_durable, "{path:?}"));
        checked.count()
    }
}

impl Disk for Watched {
    type File = WatchedFile;
    type Lock = <MemoryDisk as Disk>::Lock;

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.folders.lock().unwrap().insert(dir.to_owned());
        self.disk.create_dir_all(dir)
    }
    fn create_new(&self, path: &Path) -> io::Result<WatchedFile> {
        self.within_a_folder(path)?;
        let file = self.disk.create_new(path)?;
        self.has_named.store(true, Ordering::Relaxed);
        self.files.lock().unwrap().remove(path);
        Ok(self.file(path, file))
    }
    fn open(&self, path: &Path) -> io::Result<WatchedFile> {
        Ok(self.file(path, self.disk.open(path)?))
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.rename(from, to)?;
        self.has_named.store(true, Ordering::Relaxed);
        let mut files = self.files.lock().unwrap();
        let is_durable = files.remove(from).unwrap_or_default();
        let noted = (to.to_owned(), is_durable.load(Ordering::Relaxed));
        self.renamed.lock().unwrap().push(noted);
        files.insert(to.to_owned(), is_durable);
        Ok(())
    }
    fn delete(&self, path: &Path) -> io::Result<()> {
        self.has_named.store(true, Ordering::Relaxed);
        self.disk.delete(path)
    }
    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.disk.list(dir)
    }
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        if !self.has_named.load(Ordering::Relaxed) {
            self.synced_first.lock().unwrap().insert(dir.to_owned());
        }
        self.disk.sync_dir(dir)
    }
    fn lock(&self, path: &Path) -> io::Result<Self::Lock> {
        self.within_a_folder(path)?;
        self.disk.lock(path)
    }
}

impl DiskFile for WatchedFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(buffer, offset)
    }
    fn write_at(&self, slices: &[IoSlice<'_>], offset: u64) -> io::Result<()> {
        self.is_durable.store(false, Ordering::Relaxed);
        self.file.write_at(slices, offset)
    }
    fn sync_data(&self) -> io::Result<()> {
        self.is_durable.store(true, Ordering::Relaxed);
        self.file.sync_data()
    }
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }
}

fn open(disk: &Watched) -> Store<Watched> {
    let options = Options {
        uuid: *b"an uuid for test",
        wal_file_bytes: FILE_BYTES,
        ..Options::default()
    };
    let folders = Folders::within(Path::new("/store"));
    Store::open(disk, &folders, &options).unwrap().0
}

/// Fills several files of the write-ahead log and lets them go again.
fn fill(store: &mut Store<Watched>) {
    for n in 0..30 {
        let shard = &mut store.shards[0];
        let body = shard.body(Durability::Durable, &[&payload(n, BYTES)]);
        let index = shard.append(A, body, BYTES as u32);
        store.sync().unwrap();
        store.shards[0].settle(A, index..index + 1, BYTES as u64);
        if store.wants_flush() {
            store.flush().unwrap();
        }
    }
}

#[test]
fn a_store_makes_its_folders() {
    let disk = Watched::default();
    drop(open(&disk));
    let folders = Folders::within(Path::new("/store"));
    let made = [folders.data, folders.logs, folders.segment, folders.wal];
    assert!(disk.folders.lock().unwrap().iter().eq(&made));
}

/// The process before may have been killed between giving a name and making it durable.
#[test]
fn names_that_a_start_finds_are_made_durable_before_anything_is_built_upon_them() {
    let disk = Watched::default();
    let mut store = open(&disk);
    store.shards[0].create_log(A, LogKind::Durable);
    fill(&mut store);
    drop(store);
    disk.synced_first.lock().unwrap().clear();
    disk.has_named.store(false, Ordering::Relaxed);
    drop(open(&disk));
    let folders = Folders::within(Path::new("/store"));
    let all = [folders.data, folders.segment, folders.wal];
    let synced = disk.synced_first.lock().unwrap();
    assert!(
        all.iter().all(|folder| synced.contains(folder)),
        "{synced:?}"
    );
}

#[test]
fn a_prepared_file_is_durable_when_it_has_its_name() {
    let disk = Watched::default();
    let mut store = open(&disk);
    store.shards[0].create_log(A, LogKind::Durable);
    store.prepare(3).unwrap();
    assert_eq!(disk.named(".free"), 3);
    fill(&mut store);
    assert!(disk.named(".free") > 4, "files that were used come back");
    assert!(disk.named(".wal") > 4);
}

#[test]
fn a_file_that_grew_as_it_was_written_is_durable_in_full_before_it_is_used_again() {
    let disk = Watched::default();
    let mut store = open(&disk);
    store.shards[0].create_log(A, LogKind::Durable);
    fill(&mut store);
    assert!(disk.named(".free") > 1);
}

#[test]
fn a_checkpoint_is_durable_when_it_has_its_name() {
    let disk = Watched::default();
    let mut store = open(&disk);
    store.shards[0].create_log(A, LogKind::Durable);
    fill(&mut store);
    store.close().unwrap();
    assert!(disk.named(".checkpoint") > 1);
    assert!(disk.named(".store") > 0, "who the store is");
}
