//! A disk in memory that loses what nobody asked it to keep, fails when told to, and does both
//! again for the same seed.
//!
//! Two things can happen to a machine. When the *process* is killed, the page cache survives:
//! everything written is still there, and still unsynced. When the *power* goes, what survives is
//! what was synced, and of the rest whatever the seed says: each sector of 512 bytes is kept, lost
//! or garbled on its own; each change of a name is kept or lost.

use crate::Random;
use crate::file_system::{Cut, FileSystem};
use leveret_storage::{Disk, DiskFile};
use std::collections::BTreeSet;
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What a disk can be asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Call {
    /// A file is created.
    Create,
    /// A file is opened.
    Open,
    /// Bytes are read.
    Read,
    /// Bytes are written.
    Write,
    /// A file is synced.
    Sync,
    /// A folder is synced.
    SyncDir,
    /// A file is renamed.
    Rename,
    /// A file is deleted.
    Delete,
    /// A folder is listed.
    List,
}

impl Call {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Create,
        Self::Open,
        Self::Read,
        Self::Write,
        Self::Sync,
        Self::SyncDir,
        Self::Rename,
        Self::Delete,
        Self::List,
    ];

    /// Whether it changes what is on the disk: these are numbered, and a crash can happen at each.
    #[must_use]
    pub fn changes(self) -> bool {
        !matches!(self, Self::Open | Self::Read | Self::List)
    }
}

/// An error that the disk is told to give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Which call fails.
    pub call: Call,
    /// The how manieth of its kind, from 0 on.
    pub nth: u64,
    /// How.
    pub kind: io::ErrorKind,
    /// Whether all later ones of its kind fail too.
    pub sticky: bool,
}

/// Ways in which a disk, or the code before it, can be wrong on purpose: what the checks must find.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lies {
    /// `sync_data` says that it is done and does nothing: as if confirms left before the sync.
    pub sync: bool,
    /// `sync_dir` does nothing: as if nobody had thought of it.
    pub sync_dir: bool,
}

/// Reads that go wrong while the disk itself is sound.
#[derive(Clone, Debug)]
pub struct ReadFaults {
    /// Which reads, and how.
    pub random: Random,
    /// Of a thousand reads so many fail.
    pub failing: u64,
    /// Of a thousand reads so many give bytes of which one bit is another.
    pub damaging: u64,
    /// So many reads go wrong at most; then all are sound again.
    pub left: u64,
}

/// What becomes of a read.
enum ReadOutcome {
    Sound,
    Fails,
    Damages { bit: u64 },
}

impl ReadFaults {
    fn next(&mut self, bytes: usize) -> ReadOutcome {
        if self.left == 0 || bytes == 0 {
            return ReadOutcome::Sound;
        }
        let drawn = self.random.below(1_000);
        if drawn >= self.failing + self.damaging {
            return ReadOutcome::Sound;
        }
        self.left -= 1;
        match drawn < self.failing {
            true => ReadOutcome::Fails,
            false => ReadOutcome::Damages {
                bit: self.random.below(8 * bytes as u64),
            },
        }
    }
}

#[derive(Debug, Default)]
struct State {
    files: FileSystem,
    locks: BTreeSet<PathBuf>,
    /// Counts processes: handles of an earlier one are dead.
    simulation_run: u64,
    /// Changes of the disk so far.
    operations: u64,
    /// The process dies before it makes the change with this number.
    crash_at: Option<u64>,
    dead: bool,
    counts: [u64; Call::ALL.len()],
    fault: Option<Fault>,
    fired: bool,
    read_faults: Option<ReadFaults>,
    /// Reads that went wrong, in the lives of all processes.
    reads_gone_wrong: u64,
    bytes_max: Option<u64>,
    copies_on_write: bool,
    lies: Lies,
    /// Snapshots of every moment, while someone watches.
    images: Option<Vec<FileSystem>>,
    /// Whether the next change is the first one since [`SimDisk::take_images`].
    fresh: bool,
}

/// A simulated disk. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct SimDisk(Arc<Mutex<State>>);

/// A file of a [`SimDisk`].
#[derive(Clone, Debug)]
pub struct SimFile {
    disk: SimDisk,
    inode: u64,
    simulation_run: u64,
}

/// A lock on a [`SimDisk`]: it is gone when dropped, or when its process is.
#[derive(Debug)]
pub struct SimLock {
    disk: SimDisk,
    path: PathBuf,
    simulation_run: u64,
}

fn full() -> io::Error {
    io::ErrorKind::StorageFull.into()
}

fn gone() -> io::Error {
    io::Error::other("the process is dead")
}

impl State {
    /// Lets a call pass, or does not.
    fn enter(&mut self, call: Call) -> io::Result<()> {
        if self.dead {
            return Err(gone());
        }
        if call.changes() {
            if self.crash_at == Some(self.operations) {
                self.dead = true;
                return Err(gone());
            }
            if std::mem::take(&mut self.fresh) {
                self.record();
            }
        }
        let count = &mut self.counts[call as usize];
        let number = *count;
        *count += 1;
        let due = |f: &Fault| f.call == call && (f.nth == number || f.sticky && f.nth < number);
        match self.fault.filter(due) {
            Some(fault) => {
                self.fired = true;
                Err(fault.kind.into())
            }
            None => Ok(()),
        }
    }

    /// A change has been made.
    fn changed(&mut self) {
        self.operations += 1;
        self.record();
    }

    fn record(&mut self) {
        if let Some(images) = &mut self.images {
            images.push(self.files.clone());
        }
    }

    fn room(&self, more: u64) -> bool {
        self.bytes_max.is_none_or(|max| self.taken() + more <= max)
    }

    /// Bytes that all files take.
    fn taken(&self) -> u64 {
        let replaced = match self.copies_on_write {
            true => self.files.replaced_bytes(),
            false => 0,
        };
        self.files.bytes() + replaced
    }
}

impl SimDisk {
    /// An empty disk.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A disk with these files, and nobody who uses it.
    #[must_use]
    pub fn with(files: FileSystem) -> Self {
        let state = State {
            files,
            ..State::default()
        };
        Self(Arc::new(Mutex::new(state)))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The files as they are now, synced or not.
    #[must_use]
    pub fn files(&self) -> FileSystem {
        self.state().files.clone()
    }

    /// Ends the process, if it lives, and with it its locks and open files. The page cache stays.
    /// Faults and plans are forgotten.
    pub fn kill(&self) {
        let mut state = self.state();
        let (files, simulation_run, lies) = (
            std::mem::take(&mut state.files),
            state.simulation_run + 1,
            state.lies,
        );
        let copies_on_write = state.copies_on_write;
        let (operations, reads_gone_wrong) = (state.operations, state.reads_gone_wrong);
        *state = State {
            files,
            simulation_run,
            lies,
            copies_on_write,
            operations,
            reads_gone_wrong,
            ..State::default()
        };
    }

    /// Ends the process by a power cut.
    pub fn power_cut(&self, cut: &mut Cut<'_>) {
        self.kill();
        self.state().files.power_cut(cut);
    }

    /// Changes made so far: writes, syncs, renames, deletes, created files, synced folders.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.state().operations
    }

    /// The process dies before the change with this number is made.
    pub fn crash_at(&self, operation: u64) {
        self.state().crash_at = Some(operation);
    }

    /// Whether the process has died by [`Self::crash_at`].
    #[must_use]
    pub fn is_dead(&self) -> bool {
        self.state().dead
    }

    /// Makes a call fail. Counting begins anew.
    pub fn set_fault(&self, fault: Option<Fault>) {
        let mut state = self.state();
        (state.fault, state.fired, state.counts) = (fault, false, Default::default());
    }

    /// Makes reads go wrong, until the process ends or `None` is set.
    pub fn set_read_faults(&self, faults: Option<ReadFaults>) {
        self.state().read_faults = faults;
    }

    /// How many reads went wrong so far.
    #[must_use]
    pub fn reads_gone_wrong(&self) -> u64 {
        self.state().reads_gone_wrong
    }

    /// Whether the fault has happened, or a read went wrong, since the process began.
    #[must_use]
    pub fn fault_fired(&self) -> bool {
        self.state().fired
    }

    /// How often each kind of call was made since [`Self::set_fault`].
    #[must_use]
    pub fn count(&self, call: Call) -> u64 {
        self.state().counts[call as usize]
    }

    /// Bytes that all files together take.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.state().taken()
    }

    /// Whether all files together may have only so many bytes.
    #[must_use]
    pub fn is_limited(&self) -> bool {
        self.state().bytes_max.is_some()
    }

    /// Sets how many bytes all files together may have.
    pub fn set_bytes_max(&self, bytes_max: Option<u64>) {
        self.state().bytes_max = bytes_max;
    }

    /// From now on it writes elsewhere what is written over, as Btrfs and ZFS do: that needs room
    /// as well, until the file is synced.
    pub fn copy_on_write(&self) {
        self.state().copies_on_write = true;
    }

    /// Makes the disk lie.
    pub fn set_lies(&self, lies: Lies) {
        self.state().lies = lies;
    }

    /// Begins to keep an image of the files at every moment: before and after each change.
    pub fn watch(&self) {
        let mut state = self.state();
        (state.images, state.fresh) = (Some(Vec::new()), true);
    }

    /// The images since the last call. The first is that of before the first change.
    #[must_use]
    pub fn take_images(&self) -> Vec<FileSystem> {
        let mut state = self.state();
        state.fresh = true;
        state
            .images
            .as_mut()
            .map(std::mem::take)
            .unwrap_or_default()
    }

    /// Paths of all files, ascending.
    #[must_use]
    pub fn paths(&self) -> Vec<PathBuf> {
        self.state().files.paths()
    }

    /// A file's bytes, if there is such a file.
    #[must_use]
    pub fn read(&self, path: &Path) -> Option<Vec<u8>> {
        self.state().files.read(path)
    }

    /// Changes a file's bytes behind everybody's back: corruption, or a fault that is planted.
    /// False if there is no such file.
    pub fn tamper(&self, path: &Path, change: impl FnOnce(&mut Vec<u8>)) -> bool {
        self.state().files.tamper(path, change)
    }

    fn file(&self, inode: u64) -> SimFile {
        let simulation_run = self.state().simulation_run;
        SimFile {
            disk: self.clone(),
            inode,
            simulation_run,
        }
    }
}

impl Disk for SimDisk {
    type File = SimFile;
    type Lock = SimLock;

    /// Folders are: they are made once, before anything depends on them.
    fn create_dir_all(&self, _: &Path) -> io::Result<()> {
        if self.state().dead {
            Err(gone())
        } else {
            Ok(())
        }
    }

    fn create_new(&self, path: &Path) -> io::Result<SimFile> {
        let mut state = self.state();
        state.enter(Call::Create)?;
        let inode = state.files.create(path)?;
        state.changed();
        drop(state);
        Ok(self.file(inode))
    }

    fn open(&self, path: &Path) -> io::Result<SimFile> {
        let mut state = self.state();
        state.enter(Call::Open)?;
        let inode = state.files.lookup(path)?;
        drop(state);
        Ok(self.file(inode))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.enter(Call::Rename)?;
        state.files.rename(from, to)?;
        state.changed();
        Ok(())
    }

    fn delete(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.enter(Call::Delete)?;
        state.files.delete(path)?;
        state.changed();
        Ok(())
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let mut state = self.state();
        state.enter(Call::List)?;
        Ok(state.files.list(dir))
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.enter(Call::SyncDir)?;
        if !state.lies.sync_dir {
            state.files.sync_dir(dir);
        }
        state.changed();
        Ok(())
    }

    fn lock(&self, path: &Path) -> io::Result<SimLock> {
        let mut state = self.state();
        if state.dead {
            return Err(gone());
        }
        if !state.locks.insert(path.to_owned()) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let simulation_run = state.simulation_run;
        drop(state);
        Ok(SimLock {
            disk: self.clone(),
            path: path.to_owned(),
            simulation_run,
        })
    }
}

impl Drop for SimLock {
    fn drop(&mut self) {
        let mut state = self.disk.state();
        if state.simulation_run == self.simulation_run {
            state.locks.remove(&self.path);
        }
    }
}

impl SimFile {
    /// The state of the disk, if the process that opened this file lives and the call passes.
    fn enter(&self, call: Call) -> io::Result<MutexGuard<'_, State>> {
        let mut state = self.disk.state();
        if state.simulation_run != self.simulation_run {
            return Err(gone());
        }
        state.enter(call)?;
        Ok(state)
    }
}

impl DiskFile for SimFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut state = self.enter(Call::Read)?;
        let len = state.files.read_at(self.inode, buffer, offset);
        let faults = state.read_faults.as_mut();
        let outcome = faults.map_or(ReadOutcome::Sound, |faults| faults.next(len));
        if let ReadOutcome::Sound = outcome {
            return Ok(len);
        }
        state.fired = true;
        state.reads_gone_wrong += 1;
        match outcome {
            ReadOutcome::Damages { bit } => {
                buffer[(bit / 8) as usize] ^= 1 << (bit % 8);
                Ok(len)
            }
            _ => Err(io::Error::other("the disk cannot read this")),
        }
    }

    fn write_at(&self, slices: &[IoSlice<'_>], offset: u64) -> io::Result<()> {
        let bytes = slices
            .iter()
            .map(|slice| &slice[..])
            .collect::<Vec<_>>()
            .concat();
        let mut state = match self.enter(Call::Write) {
            Ok(state) => state,
            Err(error) => {
                let mut state = self.disk.state();
                if !state.dead && state.simulation_run == self.simulation_run {
                    // A write that fails may have done a part of its work.
                    state
                        .files
                        .write_at(self.inode, &bytes[..bytes.len() / 2], offset);
                    state.changed();
                }
                return Err(error);
            }
        };
        let len = state.files.len(self.inode);
        let end = offset + bytes.len() as u64;
        let grows = end.saturating_sub(len);
        let replaces = match state.copies_on_write {
            true => state.files.would_replace(self.inode, offset..end),
            false => 0,
        };
        if replaces > 0 && !state.room(grows + replaces) {
            return Err(full());
        }
        if grows > 0 && !state.room(grows) {
            let room = state.bytes_max.unwrap_or(0).saturating_sub(state.taken());
            let fits = (len + room).saturating_sub(offset).min(bytes.len() as u64);
            state
                .files
                .write_at(self.inode, &bytes[..fits as usize], offset);
            state.changed();
            return Err(full());
        }
        state.files.write_at(self.inode, &bytes, offset);
        state.changed();
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut state = match self.enter(Call::Sync) {
            Ok(state) => state,
            Err(error) => {
                let mut state = self.disk.state();
                if !state.dead && state.simulation_run == self.simulation_run {
                    // As kernels do: the pages are marked clean, and no later sync writes them.
                    state.files.set_adrift(self.inode);
                    state.changed();
                }
                return Err(error);
            }
        };
        if !state.lies.sync {
            state.files.sync(self.inode);
        }
        state.changed();
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        let state = self.disk.state();
        if state.dead || state.simulation_run != self.simulation_run {
            return Err(gone());
        }
        Ok(state.files.len(self.inode))
    }
}
