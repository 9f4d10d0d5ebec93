//! A disk in memory that knows what a power cut would leave, and remembers how it was before each
//! call that changed something: whatever a test does on it, every moment can be looked at later.

use leveret_storage::{Disk, DiskFile, Folders, Options, Store};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

/// A file's bytes as a process sees them, and as its last sync promised them.
#[derive(Clone, Default)]
struct Content {
    now: Arc<Vec<u8>>,
    promised: Arc<Vec<u8>>,
}

/// Names of files, each with its place among the contents.
type Names = BTreeMap<PathBuf, usize>;

/// All that a disk has.
#[derive(Clone, Default)]
struct Image {
    names: Names,
    promised_names: Names,
    contents: Vec<Content>,
}

/// What a power cut leaves of names and of bytes that no sync has promised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// All of it: the process was killed.
    All,
    /// The names.
    Names,
    /// The bytes.
    Bytes,
    /// Nothing.
    Nothing,
}

impl Left {
    pub const EACH: [Left; 4] = [Left::All, Left::Names, Left::Bytes, Left::Nothing];
}

#[derive(Default)]
struct State {
    image: Image,
    /// How it was before each call that changed something, and the test's step at that time.
    before: Vec<(usize, Image)>,
    step: usize,
    /// Whether the next write finds no room.
    is_full: bool,
    /// Why no file gets a name.
    names_refused: Option<io::ErrorKind>,
    /// How many syncs of folders come before one that fails.
    folder_syncs_left: Option<usize>,
    /// How many syncs of files and folders come before one that fails.
    syncs_left: Option<usize>,
    /// How many reads there were, and the one of which a bit is another.
    reads: usize,
    wrong_read: Option<usize>,
    folders: BTreeSet<PathBuf>,
}

/// The disk. Clones share the files.
#[derive(Clone, Default)]
pub struct PowerDisk(Arc<Mutex<State>>);

pub struct PowerFile {
    disk: PowerDisk,
    at: usize,
}

impl PowerDisk {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no test panics with it")
    }

    /// What follows is a step of the test's.
    pub fn begin_step(&self, step: usize) {
        self.state().step = step;
    }

    /// Changes a file's bytes, durably, behind the engine's back.
    pub fn tamper(&self, path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
        let mut state = self.state();
        let at = state.image.names[path];
        let content = &mut state.image.contents[at];
        change(Arc::make_mut(&mut content.now));
        content.promised = Arc::clone(&content.now);
    }

    /// The next write finds no room, as one on a disk that writes elsewhere what is written over.
    pub fn refuse_next_write(&self) {
        self.state().is_full = true;
    }

    /// From now on no file has room for its name, or all have again.
    pub fn refuse_names(&self, refuses: bool) {
        self.state().names_refused = refuses.then_some(io::ErrorKind::StorageFull);
    }

    /// From now on the drive fails wherever a file gets a name.
    pub fn break_names(&self) {
        self.state().names_refused = Some(io::ErrorKind::Other);
    }

    /// After so many, a sync of a folder fails, and no later one does: a drive says once that it
    /// has lost what it had taken.
    pub fn fail_folder_sync_after(&self, syncs: usize) {
        self.state().folder_syncs_left = Some(syncs);
    }

    /// Whether that sync is still to come.
    pub fn is_folder_sync_to_fail(&self) -> bool {
        self.state().folder_syncs_left.is_some()
    }

    /// It has all that another one has.
    pub fn begin_with(&self, other: &Self) {
        let (image, folders) = {
            let other = other.state();
            (other.image.clone(), other.folders.clone())
        };
        let mut state = self.state();
        (state.image, state.folders) = (image, folders);
    }

    /// After so many syncs, of files and of folders, one fails, and no later one does.
    pub fn fail_sync_after(&self, syncs: usize) {
        self.state().syncs_left = Some(syncs);
    }

    /// Whether that sync is still to come.
    pub fn is_sync_to_fail(&self) -> bool {
        self.state().syncs_left.is_some()
    }

    fn count_sync(&self) -> io::Result<()> {
        let mut state = self.state();
        match state.syncs_left.take() {
            Some(0) => Err(io::ErrorKind::Other.into()),
            left => {
                state.syncs_left = left.map(|left| left - 1);
                Ok(())
            }
        }
    }

    /// A bit of this read is another, counted from now on, and of no read after it.
    pub fn read_wrongly(&self, read: usize) {
        let mut state = self.state();
        (state.reads, state.wrong_read) = (0, Some(read));
    }

    /// How many reads there were since.
    pub fn reads(&self) -> usize {
        self.state().reads
    }

    fn room_for_a_name(&self) -> io::Result<()> {
        let refused = self.state().names_refused;
        refused.map_or(Ok(()), |why| Err(why.into()))
    }

    /// How many calls have changed something.
    pub fn calls(&self) -> usize {
        self.state().before.len()
    }

    /// Which step the process was in as it ended before a call, and the disk that the next one
    /// finds.
    pub fn ended_before(&self, call: usize, left: Left) -> (usize, Self) {
        let state = self.state();
        let (step, image) = &state.before[call];
        (*step, image.left(left))
    }

    /// What the next process finds if this one ends now.
    pub fn ended(&self, left: Left) -> Self {
        self.state().image.left(left)
    }

    /// The files whose names end so.
    pub fn files(&self, ending: &str) -> Vec<PathBuf> {
        let state = self.state();
        let paths = state.image.names.keys();
        let ends = |path: &&PathBuf| path.to_string_lossy().ends_with(ending);
        paths.filter(ends).cloned().collect()
    }

    fn change<T>(&self, change: impl FnOnce(&mut Image) -> io::Result<T>) -> io::Result<T> {
        let mut state = self.state();
        let before = (state.step, state.image.clone());
        state.before.push(before);
        change(&mut state.image)
    }
}

impl Image {
    fn left(&self, left: Left) -> PowerDisk {
        let mut image = self.clone();
        if matches!(left, Left::Bytes | Left::Nothing) {
            image.names = image.promised_names.clone();
        }
        for content in &mut image.contents {
            if matches!(left, Left::Names | Left::Nothing) {
                content.now = Arc::clone(&content.promised);
            }
        }
        if left != Left::All {
            // The system has started again: what it reads is what the disk has.
            image.promised_names = image.names.clone();
            for content in &mut image.contents {
                content.promised = Arc::clone(&content.now);
            }
        }
        let state = State {
            image,
            ..State::default()
        };
        PowerDisk(Arc::new(Mutex::new(state)))
    }
}

fn missing() -> io::Error {
    io::ErrorKind::NotFound.into()
}

impl Disk for PowerDisk {
    type File = PowerFile;
    type Lock = ();

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        let folders = dir.ancestors().map(Path::to_owned);
        self.state().folders.extend(folders);
        Ok(())
    }

    fn create_new(&self, path: &Path) -> io::Result<PowerFile> {
        if self.state().image.names.contains_key(path) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        self.room_for_a_name()?;
        self.change(|image| {
            let (disk, at) = (self.clone(), image.contents.len());
            image.contents.push(Content::default());
            image.names.insert(path.to_owned(), at);
            Ok(PowerFile { disk, at })
        })
    }

    fn open(&self, path: &Path) -> io::Result<PowerFile> {
        let at = self.state().image.names.get(path).copied();
        let disk = self.clone();
        at.map(|at| PowerFile { disk, at }).ok_or_else(missing)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        if !self.state().image.names.contains_key(from) {
            return Err(missing());
        }
        self.room_for_a_name()?;
        self.change(|image| {
            let at = image.names.remove(from).ok_or_else(missing)?;
            image.names.insert(to.to_owned(), at);
            Ok(())
        })
    }

    fn delete(&self, path: &Path) -> io::Result<()> {
        if !self.state().image.names.contains_key(path) {
            return Err(missing());
        }
        self.change(|image| {
            image.names.remove(path);
            Ok(())
        })
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let state = self.state();
        let inside = state.image.names.keys();
        let inside = inside.filter(|path| path.parent() == Some(dir));
        let names = inside.filter_map(|path| path.file_name()?.to_str().map(str::to_owned));
        let names: Vec<String> = names.collect();
        match names.is_empty() && !state.folders.contains(dir) {
            // As a drive.
            true => Err(missing()),
            false => Ok(names),
        }
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.count_sync()?;
        let left = self.state().folder_syncs_left.take();
        if left == Some(0) {
            return Err(io::ErrorKind::Other.into());
        }
        self.state().folder_syncs_left = left.map(|left| left - 1);
        self.change(|image| {
            let is_inside = |path: &PathBuf| path.parent() == Some(dir);
            image.promised_names.retain(|path, _| !is_inside(path));
            let now = image.names.iter().filter(|(path, _)| is_inside(path));
            let now: Vec<_> = now.map(|(path, at)| (path.clone(), *at)).collect();
            image.promised_names.extend(now);
            Ok(())
        })
    }

    fn lock(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }
}

impl DiskFile for PowerFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut state = self.disk.state();
        let bytes = Arc::clone(&state.image.contents[self.at].now);
        let from = (offset as usize).min(bytes.len());
        let count = buffer.len().min(bytes.len() - from);
        buffer[..count].copy_from_slice(&bytes[from..from + count]);
        if state.wrong_read == Some(state.reads) && count > 0 {
            buffer[count / 2] ^= 4;
        }
        state.reads += 1;
        Ok(count)
    }

    fn write_at(&self, slices: &[IoSlice<'_>], offset: u64) -> io::Result<()> {
        if std::mem::take(&mut self.disk.state().is_full) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.disk.change(|image| {
            let bytes = Arc::make_mut(&mut image.contents[self.at].now);
            let mut at = offset as usize;
            for slice in slices {
                bytes.resize(bytes.len().max(at + slice.len()), 0);
                bytes[at..at + slice.len()].copy_from_slice(slice);
                at += slice.len();
            }
            Ok(())
        })
    }

    fn sync_data(&self) -> io::Result<()> {
        self.disk.count_sync()?;
        self.disk.change(|image| {
            let content = &mut image.contents[self.at];
            content.promised = Arc::clone(&content.now);
            Ok(())
        })
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.disk.state().image.contents[self.at].now.len() as u64)
    }
}

/// A store of small files; an error also where its start has something to say.
pub fn open_store(disk: &PowerDisk) -> Result<Store<PowerDisk>, String> {
    let options = Options {
        uuid: *b"power may be cut",
        wal_file_bytes: 64 * 1024,
        wal_pool_files: 2,
        cache_bytes: 64 * 1024,
        ..Options::default()
    };
    let opened = Store::open(disk, &Folders::within(Path::new("/store")), &options);
    let (store, report) = opened.map_err(|error| error.to_string())?;
    match &report.notes[..] {
        [] => Ok(store),
        notes => Err(notes.join("; ")),
    }
}
