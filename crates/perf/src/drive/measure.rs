//! The measurements: plain files, positioned writes, `fdatasync`, and a clock around them.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::rehearsal::{Rehearsal, Rehearsed, rehearse};
use super::turnaround::turnaround;
use super::{DRIVE_VERSION, Distribution, DriveResult, Mixed, SyncRow};
use crate::interrupt;

/// Sizes of batches: from one message to all that a busy log writes at once.
const SIZES: [u64; 6] = [4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20];
/// Size of the file that stands for one of the log's: as the log makes them.
const LOG_FILE_BYTES: u64 = 64 << 20;
/// One write of the bandwidth's measurement and of the segment writer.
const LARGE_BYTES: usize = 1 << 20;
/// Bytes that the segment writer writes between two syncs.
const SEGMENT_SYNC_BYTES: u64 = 16 << 20;
/// Batches of the log in the mixed measurement: a page at least, and no more than in the tables.
const MIXED_BYTES: std::ops::RangeInclusive<u64> = 4 << 10..=4 << 20;
/// Samples of one row at the least, whatever the time, and at the most.
const SAMPLES_MIN: usize = 20;
const SAMPLES_MAX: usize = 50_000;
/// Syncs that are not counted: the first ones after a file's making.
const SAMPLES_SKIPPED: usize = 3;
/// The loop is played for as long as so many rows take, and for this time at least.
const REHEARSAL_ROWS: u32 = 4;
const REHEARSAL_MIN: Duration = Duration::from_millis(200);
/// A row ends after so much more than its planned time even without enough samples.
const PATIENCE: Duration = Duration::from_secs(5);

/// How much to measure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plan {
    /// Time for each row of the tables.
    pub row: Duration,
    /// Bytes of the bandwidth's measurement.
    pub bandwidth_bytes: u64,
    /// Bytes of each of the log's writes in the mixed measurement: those of the load that is asked
    /// about.
    pub log_bytes: u64,
    /// The load of which the whole loop is played.
    pub rehearsed: Rehearsed,
}

/// A load of 1 kB with a thousand messages unconfirmed, by the processor time that
/// [`Rehearsed::of`] takes for it.
const REHEARSED: Rehearsed = Rehearsed::of(1_000, 1_000);

impl Plan {
    /// About half a minute on a quick drive.
    pub const FULL: Self = Self {
        row: Duration::from_secs(2),
        bandwidth_bytes: 1 << 30,
        log_bytes: 64 << 10,
        rehearsed: REHEARSED,
    };
    /// About five seconds on a quick drive.
    pub const FAST: Self = Self {
        row: Duration::from_millis(300),
        bandwidth_bytes: 128 << 20,
        log_bytes: 64 << 10,
        rehearsed: REHEARSED,
    };

    /// Bytes that the drive must have free: all files at their largest.
    #[must_use]
    pub fn bytes_needed(&self) -> u64 {
        3 * LOG_FILE_BYTES + self.bandwidth_bytes + SEGMENT_FILE_BYTES_MAX
    }
}

/// Bytes of the segment writer's file, after which it begins anew.
const SEGMENT_FILE_BYTES_MAX: u64 = 256 << 20;

/// Why a drive could not be measured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DriveError {
    /// A call to the operating system failed.
    #[error("cannot {what} {path}: {source}", path = path.display())]
    Io {
        /// What was tried.
        what: &'static str,
        /// With what.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// Too little room.
    #[error(
        "{path} has {free} bytes free and the measurement needs {needed}: free some{or}",
        path = path.display(),
        or = if *needed > Plan::FAST.bytes_needed() { ", or use --fast" } else { "" }
    )]
    NoRoom {
        /// The folder.
        path: PathBuf,
        /// Bytes that are free.
        free: u64,
        /// Bytes needed.
        needed: u64,
    },
    /// A signal asked for the end.
    #[error("interrupted")]
    Interrupted,
}

/// An error once a signal has asked for the end.
fn go_on() -> Result<(), DriveError> {
    interrupt::check().map_err(|_| DriveError::Interrupted)
}

/// Adds what was tried, and with what, to an error of the system.
fn context(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> DriveError {
    let path = path.to_owned();
    move |source| DriveError::Io { what, path, source }
}

/// A folder of our own, removed when it is dropped.
struct Scratch(TempDir);

impl Scratch {
    fn new(parent: &Path) -> Result<Self, DriveError> {
        let folder = TempDir::with_prefix_in("leveret-perf-drive-", parent);
        folder
            .map(Self)
            .map_err(context("make a folder in", parent))
    }

    fn file(&self, name: &str) -> Result<(File, PathBuf), DriveError> {
        let path = self.0.path().join(name);
        let opened = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(&path);
        Ok((opened.map_err(context("make the file", &path))?, path))
    }
}

/// Measures the drive of a folder, telling `step` what comes next.
///
/// # Errors
/// When the folder cannot be written to, has too little room, a write or sync fails, or a signal
/// asks for the end.
pub fn measure(
    path: &Path,
    plan: &Plan,
    step: &mut dyn FnMut(&str),
) -> Result<DriveResult, DriveError> {
    let capacity = check_room(path, plan.bytes_needed())?;
    let scratch = Scratch::new(path)?;
    let noise = noise(
        SIZES
            .iter()
            .copied()
            .max()
            .unwrap_or(0)
            .max(LARGE_BYTES as u64),
    );
    step("write and fdatasync on a file that grows");
    let growing = rows(&scratch, "growing", plan, &noise, false)?;
    step("write and fdatasync in a file written before");
    let recycled = rows(&scratch, "recycled", plan, &noise, true)?;
    step("bandwidth");
    let (write, read) = bandwidth(&scratch, plan, &noise)?;
    step("the log and a segment writer at once");
    let mixed = mixed(&scratch, plan, &noise)?;
    step("the way from a confirm to the next message");
    let turnaround = turnaround(plan.row).map_err(context("talk to ourselves beside", path))?;
    go_on()?;
    step("the whole loop of messages, syncs and confirms");
    let rehearsal = rehearsal(&scratch, plan, &noise)?;
    go_on()?;
    Ok(DriveResult {
        version: DRIVE_VERSION,
        path: path.display().to_string(),
        growing,
        recycled,
        write_bytes_per_second: write,
        read_bytes_per_second: read,
        mixed,
        turnaround,
        rehearsal: Some(rehearsal),
        capacity_bytes: Some(capacity),
    })
}

/// The loop on a file of the log's size.
fn rehearsal(scratch: &Scratch, plan: &Plan, noise: &[u8]) -> Result<Rehearsal, DriveError> {
    let (file, path) = scratch.file("rehearsal")?;
    prewrite(&file, &path, noise)?;
    rehearse(
        &file,
        LOG_FILE_BYTES,
        noise,
        plan.rehearsed,
        (plan.row * REHEARSAL_ROWS).max(REHEARSAL_MIN),
    )
    .map_err(context("rehearse a load on", &path))
}

/// Bytes of the whole file system; an error if too few of them are free.
fn check_room(path: &Path, needed: u64) -> Result<u64, DriveError> {
    let stat = rustix::fs::statvfs(path)
        .map_err(|errno| context("look at", path)(io::Error::from(errno)))?;
    let free = stat.f_bavail.saturating_mul(stat.f_frsize);
    if free < needed {
        return Err(DriveError::NoRoom {
            path: path.to_owned(),
            free,
            needed,
        });
    }
    Ok(stat.f_blocks.saturating_mul(stat.f_frsize))
}

/// Bytes that no drive compresses or finds again (xorshift64*).
fn noise(bytes: u64) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let words = (0..bytes / 8).flat_map(|_| {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        state.wrapping_mul(0x2545_f491_4f6c_dd1d).to_le_bytes()
    });
    words.collect()
}

fn rows(
    scratch: &Scratch,
    name: &str,
    plan: &Plan,
    noise: &[u8],
    recycled: bool,
) -> Result<Vec<SyncRow>, DriveError> {
    let row = |&bytes: &u64| {
        let (file, path) = scratch.file(name)?;
        if recycled {
            prewrite(&file, &path, noise)?;
        }
        let until = Until::after(plan.row);
        let writes = Writes {
            file: &file,
            path: &path,
            noise,
            bytes,
            recycled,
        };
        let samples = writes.synced(&until)?;
        Ok(SyncRow {
            bytes,
            micros: Distribution::of(samples),
        })
    };
    SIZES.iter().map(row).collect()
}

/// Writes the whole file once, so that later syncs find its blocks allocated and written.
fn prewrite(file: &File, path: &Path, noise: &[u8]) -> Result<(), DriveError> {
    let piece = noise.get(..LARGE_BYTES).unwrap_or(noise);
    let mut offset = 0;
    while offset < LOG_FILE_BYTES {
        go_on()?;
        file.write_all_at(piece, offset)
            .map_err(context("write", path))?;
        offset += piece.len() as u64;
    }
    file.sync_all().map_err(context("sync", path))
}

/// When a measurement is over.
struct Until {
    soft: Instant,
    hard: Instant,
}

impl Until {
    fn after(time: Duration) -> Self {
        let now = Instant::now();
        Self {
            soft: now + time,
            hard: now + time + PATIENCE,
        }
    }

    fn is_over(&self, samples: usize) -> bool {
        let now = Instant::now();
        let enough = samples >= SAMPLES_MIN + SAMPLES_SKIPPED;
        samples >= SAMPLES_MAX || now >= self.hard || (enough && now >= self.soft)
    }
}

/// Writes of one size, one behind the other.
struct Writes<'a> {
    file: &'a File,
    path: &'a Path,
    noise: &'a [u8],
    bytes: u64,
    /// Whether the file is written again from its beginning when it is full; else it is emptied, so
    /// that it goes on growing.
    recycled: bool,
}

impl Writes<'_> {
    /// Microseconds of each write with its sync.
    fn synced(&self, until: &Until) -> Result<Vec<f64>, DriveError> {
        let piece = self.noise.get(..self.bytes as usize).unwrap_or(self.noise);
        let mut samples = Vec::new();
        let mut offset = 0;
        while !until.is_over(samples.len()) {
            go_on()?;
            let start = Instant::now();
            self.file
                .write_all_at(piece, offset)
                .map_err(context("write", self.path))?;
            self.file.sync_data().map_err(context("sync", self.path))?;
            samples.push(start.elapsed().as_secs_f64() * 1e6);
            offset += self.bytes;
            if offset + self.bytes > LOG_FILE_BYTES {
                offset = 0;
                self.empty_if_growing()?;
            }
        }
        Ok(samples.split_off(SAMPLES_SKIPPED.min(samples.len().saturating_sub(1))))
    }

    fn empty_if_growing(&self) -> Result<(), DriveError> {
        if self.recycled {
            return Ok(());
        }
        self.file
            .set_len(0)
            .map_err(context("truncate", self.path))?;
        self.file.sync_all().map_err(context("sync", self.path))
    }
}

/// Bytes a second of writing and of reading one large file.
fn bandwidth(scratch: &Scratch, plan: &Plan, noise: &[u8]) -> Result<(f64, f64), DriveError> {
    let (mut file, path) = scratch.file("bandwidth")?;
    let piece = noise.get(..LARGE_BYTES).unwrap_or(noise);
    let pieces = (plan.bandwidth_bytes / piece.len() as u64).max(1);
    let start = Instant::now();
    for _ in 0..pieces {
        go_on()?;
        file.write_all(piece).map_err(context("write", &path))?;
    }
    file.sync_data().map_err(context("sync", &path))?;
    let total = (pieces * piece.len() as u64) as f64;
    let write = total / start.elapsed().as_secs_f64();
    Ok((write, total / read_back(&path)?))
}

/// Seconds for reading a file. The page cache is asked to let go of it first, which a file system
/// in memory cannot do: there, memory's own rate is what is measured, rightly.
fn read_back(path: &Path) -> Result<f64, DriveError> {
    let mut file = File::open(path).map_err(context("open", path))?;
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)
        .map_err(|errno| context("forget the cached pages of", path)(io::Error::from(errno)))?;
    let mut buffer = vec![0; LARGE_BYTES];
    let start = Instant::now();
    while file.read(&mut buffer).map_err(context("read", path))? > 0 {
        go_on()?;
    }
    Ok(start.elapsed().as_secs_f64())
}

/// The log's writes on this thread, a segment writer's on another.
fn mixed(scratch: &Scratch, plan: &Plan, noise: &[u8]) -> Result<Mixed, DriveError> {
    let (log, log_path) = scratch.file("mixed-log")?;
    prewrite(&log, &log_path, noise)?;
    let (segment, segment_path) = scratch.file("mixed-segment")?;
    let (stop, written) = (AtomicBool::new(false), AtomicU64::new(0));
    // Whole pages, as the log writes them.
    let bytes = plan
        .log_bytes
        .clamp(*MIXED_BYTES.start(), *MIXED_BYTES.end());
    let bytes = bytes.next_multiple_of(*MIXED_BYTES.start());
    let start = Instant::now();
    let samples = std::thread::scope(|scope| {
        let writer =
            scope.spawn(|| write_segments(&segment, &segment_path, noise, &stop, &written));
        let until = Until::after(plan.row * 2);
        let writes = Writes {
            file: &log,
            path: &log_path,
            noise,
            bytes,
            recycled: true,
        };
        let samples = writes.synced(&until);
        stop.store(true, Ordering::Relaxed);
        match writer.join() {
            Ok(ended) => ended.and(samples),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })?;
    Ok(Mixed {
        log: SyncRow {
            bytes,
            micros: Distribution::of(samples),
        },
        segment_bytes_per_second: written.load(Ordering::Relaxed) as f64
            / start.elapsed().as_secs_f64(),
    })
}

fn write_segments(
    file: &File,
    path: &Path,
    noise: &[u8],
    stop: &AtomicBool,
    written: &AtomicU64,
) -> Result<(), DriveError> {
    let piece = noise.get(..LARGE_BYTES).unwrap_or(noise);
    let mut offset = 0;
    while !stop.load(Ordering::Relaxed) {
        file.write_all_at(piece, offset)
            .map_err(context("write", path))?;
        offset += piece.len() as u64;
        if offset % SEGMENT_SYNC_BYTES == 0 {
            file.sync_data().map_err(context("sync", path))?;
            // Counted when it is on the drive: what the page cache took was not the drive's work.
            written.fetch_add(SEGMENT_SYNC_BYTES, Ordering::Relaxed);
        }
        if offset >= SEGMENT_FILE_BYTES_MAX {
            file.set_len(0).map_err(context("truncate", path))?;
            offset = 0;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const TINY: Plan = Plan {
        row: Duration::ZERO,
        bandwidth_bytes: 1 << 20,
        log_bytes: 1,
        rehearsed: Rehearsed::of(100, 16),
    };

    #[test]
    fn every_row_is_measured_and_nothing_is_left_behind() {
        let folder = tempfile::tempdir().unwrap();
        let mut steps = Vec::new();
        let found = measure(folder.path(), &TINY, &mut |step| {
            steps.push(step.to_owned())
        })
        .unwrap();
        assert_eq!(steps.len(), 6);
        for rows in [&found.growing, &found.recycled] {
            let sizes: Vec<u64> = rows.iter().map(|row| row.bytes).collect();
            assert_eq!(sizes, SIZES);
            assert!(rows.iter().all(|row| row.micros.count > 0));
            assert!(rows.iter().all(|row| row.micros.percentile(50.0) > 0.0));
        }
        assert!(found.write_bytes_per_second > 0.0 && found.read_bytes_per_second > 0.0);
        assert!(found.mixed.log.micros.count > 0 && found.turnaround.count > 0);
        assert!(found.rehearsal.is_some_and(|loop_| loop_.rate > 0.0));
        assert!(
            found
                .capacity_bytes
                .is_some_and(|bytes| bytes > TINY.bytes_needed())
        );
        assert_eq!(found.mixed.log.bytes, 4 << 10, "a page at least");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_folder_that_is_not_there_is_named() {
        let path = Path::new("/nowhere/at/all");
        let error = measure(path, &TINY, &mut |_| {}).unwrap_err().to_string();
        assert!(error.contains("/nowhere/at/all"), "{error}");
    }

    #[test]
    fn too_little_room_is_refused_before_anything_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let plan = Plan {
            row: Duration::ZERO,
            bandwidth_bytes: u64::MAX / 2,
            ..TINY
        };
        let error =
            measure(folder.path(), &plan, &mut |_| panic!("nothing is to begin")).unwrap_err();
        assert!(matches!(error, DriveError::NoRoom { .. }), "{error}");
        assert!(error.to_string().ends_with("free some, or use --fast"));
        let fast = DriveError::NoRoom {
            path: folder.path().to_owned(),
            free: 0,
            needed: Plan::FAST.bytes_needed(),
        };
        assert!(fast.to_string().ends_with("free some"), "{fast}");
    }

    #[test]
    fn noise_has_its_length_and_does_not_repeat() {
        let bytes = noise(1 << 16);
        assert_eq!(bytes.len(), 1 << 16);
        let words: std::collections::HashSet<&[u8]> = bytes.chunks(8).collect();
        assert_eq!(words.len(), bytes.len() / 8);
    }
}
