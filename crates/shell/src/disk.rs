//! The real disk: files, vectored writes, syncs of files and folders, locks. And, for trials, a
//! model of a slower device on top of it.

mod counts;
mod quota;
mod trial;

pub(crate) use counts::log_took;
pub use counts::{
    Calls, IoCounts, LogCounts, SYNC_SLOT_US, SYNC_SLOTS, io_counts, log_counts, sync_slots,
};

use crate::descriptors::kept_for_files;
use leveret_storage::{Disk, DiskFile};
use parking_lot::Mutex;
use rustix::fs::{FlockOperation, flock};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, IoSlice};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use quota::Quota;

/// Slices of one vectored write; more are written in several calls (`IOV_MAX` of Linux).
const SLICES_MAX: usize = 1_024;

/// The operating system's file system.
#[derive(Clone, Debug, Default)]
pub struct RealDisk {
    device: Option<Arc<Device>>,
    /// Devices of their own for what lies in these folders.
    placed: trial::FolderDevices,
    quota: Option<Arc<Quota>>,
}

impl RealDisk {
    /// The disk as it is.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The disk as if it were a slower device, which all clones share. For tests and benchmarks
    /// only.
    #[must_use]
    pub fn with_model(model: DeviceModel) -> Self {
        tracing::warn!(
            ?model,
            "NOT FOR PRODUCTION: every disk access is slowed down to model another device"
        );
        Self {
            device: Some(Arc::new(Device::new(model))),
            ..Self::default()
        }
    }

    /// The disk as if it were smaller: the files that this and its clones create or open may have
    /// so many bytes together. For tests only.
    #[must_use]
    pub fn with_quota(bytes_max: u64) -> Self {
        tracing::warn!(
            bytes_max,
            "NOT FOR PRODUCTION: the disk is made smaller than it is"
        );
        Self {
            quota: Some(Arc::new(Quota::new(bytes_max))),
            ..Self::default()
        }
    }

    /// Changes how many bytes there are, of a disk [`Self::with_quota`].
    pub fn set_quota(&self, bytes_max: u64) {
        if let Some(quota) = &self.quota {
            quota.set(bytes_max);
        }
    }

    /// Makes the device another one, of a disk [`Self::with_model`].
    pub fn set_model(&self, model: DeviceModel) {
        if let Some(device) = &self.device {
            *device.model.lock() = model;
        }
    }

    /// Bytes that were read from the device, of a disk [`Self::with_model`].
    #[must_use]
    pub fn device_read_bytes(&self) -> u64 {
        let device = self.device.as_ref();
        device.map_or(0, |device| device.state.lock().read_bytes)
    }

    /// The device that a file is on; none where disks are what they are.
    fn device_of(&self, path: &Path) -> Option<Arc<Device>> {
        let own = self
            .placed
            .iter()
            .find(|(folder, _)| path.starts_with(folder));
        own.map(|(_, device)| device)
            .or(self.device.as_ref())
            .cloned()
    }

    fn wrap(&self, path: &Path, file: File) -> io::Result<RealFile> {
        let metadata = file.metadata()?;
        let number = metadata.ino();
        if let Some(quota) = &self.quota {
            quota.found(number, metadata.len());
        }
        Ok(RealFile {
            file,
            number,
            device: self.device_of(path),
            quota: self.quota.clone(),
        })
    }
}

/// A device to be modelled: how long a seek takes, and how many bytes pass in a second.
///
/// Writes cost nothing until they are synced, as with a page cache; reads always cost, as without
/// one. Accesses queue up, whatever folder they are to. What the real disk takes comes on top.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceModel {
    /// Time to reach another place, in microseconds: for each access that does not go on where the
    /// one before ended.
    pub seek_us: u64,
    /// Bytes read or written per second.
    pub bytes_per_second: u64,
    /// Time for a sync besides its writes, in microseconds.
    pub sync_us: u64,
}

impl DeviceModel {
    /// A hard disk of 7,200 turns a minute: 8 ms to seek, 150 MB/s.
    pub const HARD_DISK: Self = Self {
        seek_us: 8_000,
        bytes_per_second: 150_000_000,
        sync_us: 0,
    };

    /// A provider's network SSD, as in the article on quorum queues: no head, 250 MB/s, half a
    /// millisecond for a sync.
    pub const SOLID_STATE: Self = Self {
        seek_us: 0,
        bytes_per_second: 250_000_000,
        sync_us: 500,
    };

    fn transfer(&self, bytes: u64) -> Duration {
        let nanos = u128::from(bytes) * 1_000_000_000 / u128::from(self.bytes_per_second.max(1));
        Duration::from_nanos(nanos as u64)
    }
}

#[derive(Debug)]
struct Device {
    model: Mutex<DeviceModel>,
    state: Mutex<DeviceState>,
}

#[derive(Debug, Default)]
struct DeviceState {
    free_at: Option<Instant>,
    /// Where the last access ended: file and offset.
    head: (u64, u64),
    /// What was written and not synced: for each file, the extents.
    dirty: BTreeMap<u64, Vec<(u64, u64)>>,
    read_bytes: u64,
}

impl DeviceState {
    /// Time for one access.
    fn access(&mut self, model: &DeviceModel, file: u64, offset: u64, bytes: u64) -> Duration {
        let seek = if self.head == (file, offset) {
            0
        } else {
            model.seek_us
        };
        self.head = (file, offset + bytes);
        Duration::from_micros(seek) + model.transfer(bytes)
    }
}

impl Device {
    fn new(model: DeviceModel) -> Self {
        Self {
            model: Mutex::new(model),
            state: Mutex::new(DeviceState::default()),
        }
    }

    fn read(&self, file: u64, offset: u64, bytes: u64) {
        self.wait(|state, model| {
            state.read_bytes += bytes;
            state.access(model, file, offset, bytes)
        });
    }

    fn write(&self, file: u64, offset: u64, bytes: u64) {
        let mut state = self.state.lock();
        let extents = state.dirty.entry(file).or_default();
        match extents
            .last_mut()
            .filter(|(start, len)| start + len == offset)
        {
            Some((_, len)) => *len += bytes,
            None => extents.push((offset, bytes)),
        }
    }

    fn sync(&self, file: u64) {
        self.wait(|state, model| {
            let extents = state.dirty.remove(&file).unwrap_or_default();
            let writes = extents.into_iter().map(|(offset, len)| (file, offset, len));
            let times = writes.map(|(file, offset, len)| state.access(model, file, offset, len));
            times.sum::<Duration>() + Duration::from_micros(model.sync_us)
        });
    }

    /// Takes the device's next free moment for as long as `cost` says, and waits until that is
    /// over.
    fn wait(&self, cost: impl FnOnce(&mut DeviceState, &DeviceModel) -> Duration) {
        let model = *self.model.lock();
        let until = {
            let mut state = self.state.lock();
            let now = Instant::now();
            let start = state.free_at.map_or(now, |free| free.max(now));
            let until = start + cost(&mut state, &model);
            state.free_at = Some(until);
            until
        };
        std::thread::sleep(until.saturating_duration_since(Instant::now()));
    }
}

/// An open file.
#[derive(Debug)]
pub struct RealFile {
    file: File,
    number: u64,
    device: Option<Arc<Device>>,
    quota: Option<Arc<Quota>>,
}

/// A locked file; the lock ends with the process at the latest.
#[derive(Debug)]
pub struct RealLock {
    _file: File,
}

fn sync_folder(folder: &Path) -> io::Result<()> {
    let folder = if folder.as_os_str().is_empty() {
        Path::new(".")
    } else {
        folder
    };
    File::open(folder)?.sync_all()
}

/// Bytes that are free on the drive of a folder.
pub(crate) fn free_bytes(folder: &Path) -> Option<u64> {
    let stats = rustix::fs::statvfs(folder).ok()?;
    Some(stats.f_bavail * stats.f_frsize)
}

impl Disk for RealDisk {
    type File = RealFile;
    type Lock = RealLock;

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        if dir.as_os_str().is_empty() || dir.is_dir() {
            return Ok(());
        }
        let parent = dir.parent().unwrap_or(Path::new(""));
        self.create_dir_all(parent)?;
        match fs::create_dir(dir) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            _ => sync_folder(parent),
        }
    }

    fn create_new(&self, path: &Path) -> io::Result<RealFile> {
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create_new(true).open(path)?;
        self.wrap(path, file)
    }

    fn open(&self, path: &Path) -> io::Result<RealFile> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        self.wrap(path, file)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn delete(&self, path: &Path) -> io::Result<()> {
        if let Some(quota) = &self.quota {
            let number = fs::metadata(path)?.ino();
            fs::remove_file(path)?;
            quota.gone(number);
            return Ok(());
        }
        fs::remove_file(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(dir)? {
            let entry = entry?;
            if entry.file_type()?.is_file() {
                // A name that is no text is none of ours.
                names.extend(entry.file_name().into_string().ok());
            }
        }
        Ok(names)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        sync_folder(dir)
    }

    fn free_bytes(&self, dir: &Path) -> Option<u64> {
        free_bytes(dir)
    }

    fn descriptors(&self) -> u64 {
        kept_for_files()
    }

    fn lock(&self, path: &Path) -> io::Result<RealLock> {
        let mut options = OpenOptions::new();
        let file = options
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)?;
        flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        Ok(RealLock { _file: file })
    }
}

impl DiskFile for RealFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let began = Instant::now();
        let mut count = 0;
        while count < buffer.len() {
            match self
                .file
                .read_at(&mut buffer[count..], offset + count as u64)
            {
                Ok(0) => break,
                Ok(read) => count += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        if let Some(device) = &self.device {
            device.read(self.number, offset, count as u64);
        }
        counts::read(began, count as u64);
        Ok(count)
    }

    fn write_at(&self, slices: &[IoSlice<'_>], offset: u64) -> io::Result<()> {
        if let Some(quota) = &self.quota {
            let bytes: usize = slices.iter().map(|slice| slice.len()).sum();
            quota.grow(self.number, offset + bytes as u64)?;
        }
        let began = Instant::now();
        let mut at = offset;
        for group in slices.chunks(SLICES_MAX) {
            let mut group = group.to_vec();
            let mut rest = &mut group[..];
            IoSlice::advance_slices(&mut rest, 0);
            while !rest.is_empty() {
                match rustix::io::pwritev(&self.file, rest, at) {
                    Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                    Ok(written) => {
                        at += written as u64;
                        IoSlice::advance_slices(&mut rest, written);
                    }
                    Err(rustix::io::Errno::INTR) => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
        if let Some(device) = &self.device {
            device.write(self.number, offset, at - offset);
        }
        counts::wrote(began, at - offset);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        let began = Instant::now();
        self.file.sync_data()?;
        if let Some(device) = &self.device {
            device.sync(self.number);
        }
        counts::synced(began);
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use leveret_storage::{Durability, Folders, LogKind, OpenError, Options, Read, Store};
    use leveret_types::LogId;

    #[test]
    fn a_vectored_write_of_more_slices_than_the_kernel_takes_is_whole() {
        let scratch = tempfile::tempdir().unwrap();
        let disk = RealDisk::new();
        disk.create_dir_all(&scratch.path().join("a/b")).unwrap();
        let path = scratch.path().join("a/b/file");
        let file = disk.create_new(&path).unwrap();
        let pieces: Vec<Vec<u8>> = (0..SLICES_MAX * 2 + 1)
            .map(|i| vec![i as u8; i % 5])
            .collect();
        let slices: Vec<_> = pieces.iter().map(|p| IoSlice::new(p)).collect();
        file.write_at(&slices, 3).unwrap();
        file.sync_data().unwrap();
        let expected: Vec<u8> = pieces.concat();
        let mut read = vec![0; expected.len() + 10];
        assert_eq!(file.read_at(&mut read, 3).unwrap(), expected.len());
        assert_eq!(read[..expected.len()], expected);
        assert_eq!(file.len().unwrap(), expected.len() as u64 + 3);
        assert_eq!(disk.list(&scratch.path().join("a/b")).unwrap(), ["file"]);
        assert!(disk.create_new(&path).is_err());
    }

    #[test]
    fn what_is_read_written_and_synced_is_counted() {
        let scratch = tempfile::tempdir().unwrap();
        let disk = RealDisk::new();
        disk.create_dir_all(scratch.path()).unwrap();
        let file = disk.create_new(&scratch.path().join("file")).unwrap();
        // Other tests of this process count as well.
        let before = io_counts();
        let slices = [IoSlice::new(&[1; 1_000]), IoSlice::new(&[2; 500])];
        file.write_at(&slices, 0).unwrap();
        file.sync_data().unwrap();
        let mut buffer = [0; 2_000];
        assert_eq!(file.read_at(&mut buffer, 0).unwrap(), 1_500);
        let after = io_counts();
        assert!(after.writes.count > before.writes.count);
        assert!(after.writes.bytes >= before.writes.bytes + 1_500);
        assert!(after.reads.count > before.reads.count);
        assert!(after.reads.bytes >= before.reads.bytes + 1_500);
        assert!(after.syncs.count > before.syncs.count);
        assert_eq!(after.syncs.bytes, 0);
    }

    #[test]
    fn a_store_on_the_real_disk_is_found_again_and_has_one_owner() {
        let scratch = tempfile::tempdir().unwrap();
        let (disk, folders) = (RealDisk::new(), Folders::within(scratch.path()));
        let (mut store, report) = Store::open(&disk, &folders, &Options::default()).unwrap();
        assert!(report.created);
        store.shards[0].create_log(LogId(1), LogKind::Durable);
        let body = store.shards[0].body(Durability::Durable, &[b"payload"]);
        store.shards[0].append(LogId(1), body, 7);
        store.sync().unwrap();
        let second = Store::open(&disk, &folders, &Options::default());
        assert!(matches!(second.err(), Some(OpenError::Locked { .. })));
        drop(store);
        let (mut store, report) = Store::open(&disk, &folders, &Options::default()).unwrap();
        assert!(!report.clean);
        assert_eq!(store.read(LogId(1), 0), Read::Ready("payload".into()));
    }

    #[test]
    fn a_modelled_device_pays_for_seeks_and_bytes_and_not_for_going_on() {
        let model = DeviceModel {
            seek_us: 10,
            bytes_per_second: 1_000_000,
            sync_us: 1,
        };
        let mut state = DeviceState::default();
        let micros = |d: Duration| d.as_micros() as u64;
        assert_eq!(micros(state.access(&model, 1, 0, 100)), 110);
        assert_eq!(micros(state.access(&model, 1, 100, 50)), 50);
        assert_eq!(micros(state.access(&model, 2, 150, 50)), 60);
    }
}
