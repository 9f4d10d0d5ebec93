//! Bytes that a process sends to block devices.
//!
//! `write_bytes` in `/proc/PID/io` counts the page cache's folios when they become dirty. With
//! large folios that is up to a hundred times what is written: a sector is changed, the folio
//! counted, and the sector alone written. So the kernel's own trace of block requests is read where
//! this process may, and the device's counter, which includes what all others write, where it may
//! not.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

const TRACING: &str = "/sys/kernel/tracing/instances";
/// For each processor: a request takes about a hundred bytes.
const BUFFER_KB: &str = "32768";
/// Bytes of a sector as the kernel counts them.
const SECTOR_BYTES: u64 = 512;

/// A count that has begun.
pub enum BlockWrites {
    /// The requests of the process's threads.
    Traced(PathBuf),
    /// The device, and its sectors written so far.
    Device(String, u64),
}

impl BlockWrites {
    /// Begins to count what the threads of `pid` write, which has its files in `folder`.
    pub fn begin(pid: u32, folder: &Path) -> Result<Self> {
        match trace(pid) {
            Ok(instance) => Ok(Self::Traced(instance)),
            Err(_) => {
                let device = device_of(folder)?;
                let sectors = sectors_written(&device)?;
                Ok(Self::Device(device, sectors))
            }
        }
    }

    /// What kind of count it is, in words.
    pub fn method(&self) -> &'static str {
        match self {
            Self::Traced(_) => "block requests of the broker's threads",
            Self::Device(..) => "the whole device: run it on an idle machine",
        }
    }

    /// Bytes written since the beginning.
    pub fn end(self) -> Result<u64> {
        match self {
            Self::Traced(instance) => {
                fs::write(instance.join("events/block/block_bio_queue/enable"), "0")?;
                let trace = fs::read_to_string(instance.join("trace"));
                fs::remove_dir(&instance)?;
                written_bytes(&trace?)
            }
            Self::Device(device, before) => Ok((sectors_written(&device)? - before) * SECTOR_BYTES),
        }
    }
}

/// Traces the block requests of a process in an instance of its own.
fn trace(pid: u32) -> Result<PathBuf> {
    let instance = Path::new(TRACING).join(format!("leveret-{pid}"));
    fs::create_dir(&instance)?;
    let threads = fs::read_dir(format!("/proc/{pid}/task"))?
        .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
        .collect::<std::io::Result<Vec<String>>>()?;
    fs::write(instance.join("buffer_size_kb"), BUFFER_KB)?;
    fs::write(instance.join("set_event_pid"), threads.join(" "))?;
    fs::write(instance.join("events/block/block_bio_queue/enable"), "1")?;
    Ok(instance)
}

/// Sums the writes of a trace: `… block_bio_queue: 254,0 WS 329049296 + 8 [name]`.
fn written_bytes(trace: &str) -> Result<u64> {
    let mut bytes = 0;
    for line in trace.lines() {
        if let Some((_, counts)) = line.split_once("entries-in-buffer/entries-written: ") {
            let counts = counts.split_whitespace().next().unwrap_or_default();
            if counts.split_once('/').is_none_or(|(kept, all)| kept != all) {
                bail!("the trace has lost requests: {counts}");
            }
        }
        let Some((_, request)) = line.split_once("block_bio_queue: ") else {
            continue;
        };
        let mut words = request.split_whitespace();
        let (_device, kind) = (words.next(), words.next().unwrap_or_default());
        let count = words.skip_while(|word| *word != "+").nth(1);
        if kind.contains('W') {
            let sectors: u64 = count.context("a request without a length")?.parse()?;
            bytes += sectors * SECTOR_BYTES;
        }
    }
    Ok(bytes)
}

/// The numbers of the device that a folder is on.
fn device_of(folder: &Path) -> Result<String> {
    let number = fs::metadata(folder)?.dev();
    let (major, minor) = (number >> 8 & 0xFFF, number & 0xFF);
    Ok(format!("{major} {minor}"))
}

fn sectors_written(device: &str) -> Result<u64> {
    let stats = fs::read_to_string("/proc/diskstats")?;
    let numbers: Vec<&str> = device.split(' ').collect();
    let line = stats
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>())
        .find(|fields| fields.get(..2) == Some(&numbers[..]))
        .with_context(|| format!("device {device} is not in /proc/diskstats"))?;
    // Fields from the front: major, minor, name, 4 of reads, writes, writes merged, sectors.
    Ok(line.get(9).context("a short line")?.parse()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_are_summed_and_a_trace_with_losses_is_refused() {
        let trace = "# entries-in-buffer/entries-written: 3/3   #P:2\n\
            wal-7 [000] ..... 4.8: block_bio_queue: 254,0 WSM 329049296 + 8 [wal]\n\
            wal-7 [000] ..... 4.9: block_bio_queue: 254,0 FWS 0 + 0 [wal]\n\
            wal-7 [000] ..... 5.0: block_bio_queue: 254,0 RA 10 + 64 [wal]\n";
        assert_eq!(written_bytes(trace).expect("a trace"), 4_096);
        assert!(written_bytes(&trace.replace("3/3", "3/4")).is_err());
    }
}
