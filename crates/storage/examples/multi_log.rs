//! A store of many logs on the file system, with nothing but the standard library around it.
//!
//! `cargo run -p leveret-storage --example multi_log -- /tmp/some-folder`, several times: each run
//! finds what the one before left.

use leveret_storage::{Disk, DiskFile, Durability, Folders, LogKind, Options, Read, Store};
use leveret_types::LogId;
use std::error::Error;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, IoSlice};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// The file system through the standard library. A broker would use vectored writes at an offset,
/// which it does not offer.
#[derive(Clone)]
struct StdDisk;

struct StdFile(File);

impl Disk for StdDisk {
    type File = StdFile;
    type Lock = File;

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        fs::create_dir_all(dir)?;
        dir.ancestors()
            .filter(|d| d.is_dir())
            .try_for_each(|d| self.sync_dir(d))
    }

    fn create_new(&self, path: &Path) -> io::Result<StdFile> {
        OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .open(path)
            .map(StdFile)
    }

    fn open(&self, path: &Path) -> io::Result<StdFile> {
        OpenOptions::new()
            .read(true)
            .write(true)
            .open(path)
            .map(StdFile)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn delete(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let names = fs::read_dir(dir)?.map(|entry| Ok(entry?.file_name().into_string().ok()));
        names.filter_map(Result::transpose).collect()
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        File::open(dir)?.sync_all()
    }

    fn lock(&self, path: &Path) -> io::Result<File> {
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)?;
        match file.try_lock() {
            Ok(()) => Ok(file),
            Err(TryLockError::WouldBlock) => Err(io::ErrorKind::WouldBlock.into()),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}

impl DiskFile for StdFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut count = 0;
        while count < buffer.len() {
            match self
                .0
                .read_at(&mut buffer[count..], offset + count as u64)?
            {
                0 => break,
                read => count += read,
            }
        }
        Ok(count)
    }

    fn write_at(&self, slices: &[IoSlice<'_>], mut offset: u64) -> io::Result<()> {
        for slice in slices {
            self.0.write_all_at(slice, offset)?;
            offset += slice.len() as u64;
        }
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn len(&self) -> io::Result<u64> {
        self.0.metadata().map(|m| m.len())
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args().nth(1).ok_or("usage: multi_log FOLDER")?;
    let folders = Folders::within(Path::new(&folder));
    let options = Options {
        // A real store takes random bytes: they make its checksums differ from those of any other.
        uuid: *b"multi_log sample",
        ..Options::default()
    };
    let (mut store, report) = Store::open(&StdDisk, &folders, &options)?;
    println!(
        "opened: new {}, closed in order {}",
        report.created, report.clean
    );

    let (orders, audit) = (LogId(1), LogId(2));
    let shard = &mut store.shards[0];
    for log in [orders, audit] {
        if !shard.has_log(log) {
            shard.create_log(log, LogKind::Durable);
        }
    }
    for number in 0..1_000_u32 {
        // One body, two logs: it is written once.
        let body = shard.body(Durability::Durable, &[b"order ", &number.to_le_bytes()]);
        shard.append(orders, body, 10);
        shard.append(audit, body, 10);
    }
    store.sync()?;
    println!("2,000 entries are durable");

    // Orders are consumed; the audit stays.
    let shard = &mut store.shards[0];
    let waiting = shard.live(orders);
    for range in waiting.iter() {
        let bytes = (range.end - range.start) * 10;
        shard.settle(orders, range, bytes);
    }
    let stats = shard.log_stats(audit).ok_or("the log was just created")?;
    println!(
        "audit holds {} entries, the next is {}",
        stats.entries, stats.next_index
    );
    match store.read(audit, 0) {
        Read::Ready(payload) => println!("its first is {} bytes long", payload.len()),
        other => println!("its first cannot be read: {other:?}"),
    }
    store.close()?;
    Ok(())
}
