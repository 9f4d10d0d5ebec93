//! What local brokers use, second by second: from `/proc`, from the kernel's counts of their
//! drives, and from the metrics that they serve.
//!
//! Bytes written are those of a broker's own write calls, where its metrics count them. The
//! kernel's count of a process (`/proc/…/io`) is of the pages that it made dirty: with large folios
//! that is several times what reaches the device.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::machine::{Usage, usage};
use crate::result::{DriveUsage, FsyncSlot, NodeSecond, NodeUsage};

/// How long a node may take to serve its metrics; a sample without them is better than a late one.
const PATIENCE: Duration = Duration::from_millis(500);
/// Bytes of metrics that are read at most.
const METRICS_BYTES_MAX: usize = 4 * 1024 * 1024;
/// The kernel counts sectors of this size whatever the device's are.
const SECTOR_BYTES: u64 = 512;

/// A broker to sample.
#[derive(Clone, Debug, Default)]
pub struct Subject {
    /// Its name.
    pub name: String,
    /// Its process.
    pub pid: u32,
    /// Where it serves metrics.
    pub metrics: Option<SocketAddr>,
    /// Its folders by name.
    pub folders: Vec<(String, PathBuf)>,
}

/// Samples brokers each second.
#[derive(Debug, Default)]
pub struct Sampler {
    nodes: Vec<Sampled>,
}

#[derive(Debug, Default)]
struct Sampled {
    subject: Subject,
    last_us: u64,
    last: State,
    result: NodeUsage,
    busy_ms: Vec<u64>,
    measured_us: u64,
}

/// Counters at one moment.
#[derive(Clone, Debug, Default)]
struct State {
    usage: Usage,
    metrics: Metrics,
    drives: Vec<Drive>,
}

/// What a broker says of itself.
#[derive(Clone, Debug, Default)]
struct Metrics {
    /// Syncs, and the seconds that they took.
    syncs: Option<(f64, f64)>,
    /// Bytes that it wrote to files.
    written_bytes: Option<f64>,
    /// Syncs by the seconds that they took no longer than, cumulative.
    sync_buckets: Vec<(f64, f64)>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Drive {
    read_bytes: u64,
    written_bytes: u64,
    busy_ms: u64,
}

impl Sampler {
    /// For these brokers.
    #[must_use]
    pub fn new(subjects: Vec<Subject>) -> Self {
        let nodes = subjects.into_iter().map(|subject| {
            let drives = subject.folders.iter().map(|(name, path)| DriveUsage {
                folder: name.clone(),
                device: device(path),
                ..DriveUsage::default()
            });
            let result = NodeUsage {
                name: subject.name.clone(),
                drives: drives.collect(),
                ..NodeUsage::default()
            };
            Sampled {
                busy_ms: vec![0; result.drives.len()],
                subject,
                result,
                ..Sampled::default()
            }
        });
        Self {
            nodes: nodes.collect(),
        }
    }

    /// For processes of which nothing else is known.
    #[must_use]
    pub fn of_pids(pids: &[u32]) -> Self {
        let subjects = pids.iter().map(|pid| Subject {
            name: format!("pid-{pid}"),
            pid: *pid,
            ..Subject::default()
        });
        Self::new(subjects.collect())
    }

    /// Samples all, `now_us` after the run began; each broker's name with what it used since the
    /// last time.
    pub fn sample(&mut self, now_us: u64, measured: bool) -> Vec<(String, NodeSecond)> {
        let nodes = self.nodes.iter_mut();
        nodes
            .filter_map(|node| node.sample(now_us, measured))
            .collect()
    }

    /// What was found.
    #[must_use]
    pub fn finish(self) -> Vec<NodeUsage> {
        self.nodes.into_iter().map(Sampled::finish).collect()
    }
}

impl Sampled {
    fn sample(&mut self, now_us: u64, measured: bool) -> Option<(String, NodeSecond)> {
        let now = self.state()?;
        let before = std::mem::replace(&mut self.last, now.clone());
        let length_us = now_us - std::mem::replace(&mut self.last_us, now_us);
        self.result.rss_bytes_max = self.result.rss_bytes_max.max(now.usage.rss_bytes_max);
        if length_us == 0 {
            return None;
        }
        let length_s = length_us as f64 / 1e6;
        let by_kernel = now
            .usage
            .written_bytes
            .saturating_sub(before.usage.written_bytes);
        let by_broker = now.metrics.written_bytes.zip(before.metrics.written_bytes);
        let written = by_broker.map_or(by_kernel, |(now, before)| (now - before) as u64);
        let read = now.usage.read_bytes.saturating_sub(before.usage.read_bytes);
        let syncs = now
            .metrics
            .syncs
            .zip(before.metrics.syncs)
            .map(|(n, b)| ((n.0 - b.0), (n.1 - b.1)));
        let sync_slots = slots(&now.metrics.sync_buckets, &before.metrics.sync_buckets);
        let cpu_s = now.usage.cpu_s - before.usage.cpu_s;
        let second = NodeSecond {
            at_s: now_us as f64 / 1e6,
            cpu_cores: cpu_s / length_s,
            rss_bytes: now.usage.rss_bytes,
            disk_written_bytes_per_s: written as f64 / length_s,
            disk_read_bytes_per_s: read as f64 / length_s,
            fsyncs_per_s: syncs.map(|(count, _)| count / length_s),
            fsync_mean_us: syncs.and_then(|(count, s)| mean_us(s, count)),
            fsync_p50_us: percentile_us(&sync_slots, 50.0),
            fsync_p99_us: percentile_us(&sync_slots, 99.0),
        };
        if measured {
            self.result.written_by_broker = by_broker.is_some();
            self.add_slots(&sync_slots);
            self.result.cpu_s += cpu_s;
            self.result.disk_written_bytes += written;
            self.measured_us += length_us;
            self.add_syncs(syncs);
            self.add_drives(&before, &now);
        }
        self.result.seconds.push(second.clone());
        Some((self.subject.name.clone(), second))
    }

    fn add_syncs(&mut self, syncs: Option<(f64, f64)>) {
        let Some((count, seconds)) = syncs else {
            return;
        };
        let before = self.result.fsyncs.unwrap_or(0) as f64;
        let before_s = self.result.fsync_mean_us.unwrap_or(0.0) * before / 1e6;
        self.result.fsyncs = Some((before + count) as u64);
        self.result.fsync_mean_us = mean_us(before_s + seconds, before + count);
    }

    fn add_slots(&mut self, slots: &[FsyncSlot]) {
        if self.result.fsync_slots.is_empty() {
            self.result.fsync_slots = slots.to_vec();
            return;
        }
        for (sum, slot) in self.result.fsync_slots.iter_mut().zip(slots) {
            sum.count += slot.count;
        }
    }

    fn add_drives(&mut self, before: &State, now: &State) {
        let drives = self.result.drives.iter_mut().zip(&mut self.busy_ms);
        for ((usage, busy), (before, now)) in drives.zip(before.drives.iter().zip(&now.drives)) {
            usage.read_bytes += now.read_bytes.saturating_sub(before.read_bytes);
            usage.written_bytes += now.written_bytes.saturating_sub(before.written_bytes);
            *busy += now.busy_ms.saturating_sub(before.busy_ms);
        }
    }

    fn state(&self) -> Option<State> {
        let drives = self.result.drives.iter();
        Some(State {
            usage: usage(self.subject.pid)?,
            metrics: self.subject.metrics.and_then(metrics).unwrap_or_default(),
            drives: drives
                .map(|drive| drive_state(drive.device.as_deref()))
                .collect(),
        })
    }

    fn finish(mut self) -> NodeUsage {
        let measured_ms = (self.measured_us / 1_000).max(1) as f64;
        for (drive, busy_ms) in self.result.drives.iter_mut().zip(&self.busy_ms) {
            drive.busy = (*busy_ms as f64 / measured_ms).min(1.0);
        }
        let percentile = |percent| percentile_us(&self.result.fsync_slots, percent);
        let (p50, p99, p99_9) = (percentile(50.0), percentile(99.0), percentile(99.9));
        (self.result.fsync_p50_us, self.result.fsync_p99_us) = (p50, p99);
        self.result.fsync_p99_9_us = p99_9;
        self.result
    }
}

/// Syncs of each slot between two looks.
fn slots(now: &[(f64, f64)], before: &[(f64, f64)]) -> Vec<FsyncSlot> {
    let mut lower = 0.0;
    let of = |(now, before): (&(f64, f64), &(f64, f64))| {
        let cumulative = now.1 - before.1;
        let count = (cumulative - std::mem::replace(&mut lower, cumulative)).max(0.0);
        FsyncSlot {
            to_us: now.0.is_finite().then_some(now.0 * 1e6),
            count: count as u64,
        }
    };
    now.iter().zip(before).map(of).collect()
}

/// The time that so many percent of syncs took at most: within a slot in proportion, and at least
/// its beginning where it has no end.
fn percentile_us(slots: &[FsyncSlot], percent: f64) -> Option<f64> {
    let all: u64 = slots.iter().map(|slot| slot.count).sum();
    let wanted = all as f64 * percent / 100.0;
    let (mut passed, mut from_us) = (0.0, 0.0);
    for slot in slots.iter().filter(|_| all > 0) {
        let count = slot.count as f64;
        if count > 0.0 && passed + count >= wanted {
            let to_us = slot.to_us.unwrap_or(from_us);
            return Some(from_us + (to_us - from_us) * (wanted - passed) / count);
        }
        passed += count;
        from_us = slot.to_us.unwrap_or(from_us);
    }
    None
}

fn mean_us(seconds: f64, count: f64) -> Option<f64> {
    (count > 0.0).then(|| seconds * 1e6 / count)
}

/// The block device under a folder, as `/sys/block` and its partitions name it.
fn device(folder: &Path) -> Option<String> {
    let number = fs::metadata(folder).ok()?.dev();
    let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
    let link = fs::read_link(format!("/sys/dev/block/{major}:{minor}")).ok()?;
    Some(link.file_name()?.to_str()?.to_owned())
}

fn drive_state(device: Option<&str>) -> Drive {
    let stat =
        device.and_then(|name| fs::read_to_string(format!("/sys/class/block/{name}/stat")).ok());
    let stat = stat.unwrap_or_default();
    let numbers: Vec<u64> = stat
        .split_whitespace()
        .filter_map(|n| n.parse().ok())
        .collect();
    // Fields of the kernel's block/stat: 3 sectors read, 7 sectors written, 10 milliseconds busy.
    let field = |at: usize| numbers.get(at - 1).copied().unwrap_or(0);
    Drive {
        read_bytes: field(3) * SECTOR_BYTES,
        written_bytes: field(7) * SECTOR_BYTES,
        busy_ms: field(10),
    }
}

/// What a node serves of its syncs and writes.
fn metrics(address: SocketAddr) -> Option<Metrics> {
    let text = get(address, "/metrics", &[]).ok()?;
    let count = metric(&text, "rabbitmq_io_sync_ops_total");
    let seconds = metric(&text, "rabbitmq_io_sync_time_seconds_total");
    Some(Metrics {
        syncs: count.zip(seconds),
        written_bytes: metric(&text, "rabbitmq_io_write_bytes_total"),
        sync_buckets: buckets(&text, "rabbitmq_io_sync_duration_seconds_bucket"),
    })
}

/// A histogram's buckets: their bounds, and what each counts up to there.
fn buckets(text: &str, name: &str) -> Vec<(f64, f64)> {
    let bucket = |line: &str| {
        let rest = line.strip_prefix(name)?.strip_prefix("{le=\"")?;
        let (bound, rest) = rest.split_once('"')?;
        let bound = match bound {
            "+Inf" => f64::INFINITY,
            bound => bound.parse().ok()?,
        };
        Some((bound, rest.rsplit(' ').next()?.parse().ok()?))
    };
    text.lines().filter_map(bucket).collect()
}

/// The sum of a metric over all of its labels.
fn metric(text: &str, name: &str) -> Option<f64> {
    let values = text.lines().filter_map(|line| {
        let rest = line.strip_prefix(name)?;
        if !rest.starts_with([' ', '{']) {
            return None;
        }
        rest.rsplit(' ').next()?.parse::<f64>().ok()
    });
    values.fold(None, |sum, value| Some(sum.unwrap_or(0.0) + value))
}

/// What a node answers over HTTP.
///
/// # Errors
/// There is no answer in time, or it says that it is an error.
pub(crate) fn get(address: SocketAddr, path: &str, headers: &[(&str, &str)]) -> io::Result<String> {
    let authority = address.to_string();
    let answer = leveret_http_client::get(&authority, path, headers, PATIENCE, METRICS_BYTES_MAX)?;
    match answer.is_good() {
        true => Ok(String::from_utf8_lossy(&answer.body).into_owned()),
        false => Err(io::Error::other(answer.reason())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_summed_over_their_labels() {
        let text = "# TYPE io_sync counter\nio_sync 3\nio_sync{node=\"a\"} 4.5\nio_synced 9\n";
        assert_eq!(metric(text, "io_sync"), Some(7.5));
        assert_eq!(metric(text, "io"), None);
    }

    #[test]
    fn percentiles_of_syncs_are_within_their_slots() {
        let text = |counts: [u32; 3]| {
            let [one, two, all] = counts;
            format!(
                "h_bucket{{le=\"0.0001\"}} {one}\nh_bucket{{le=\"0.0002\"}} {two}\n\
                 h_bucket{{le=\"+Inf\"}} {all}\nh_sum 3\n"
            )
        };
        let [before, now] = [[10, 10, 10], [60, 110, 111]].map(|at| buckets(&text(at), "h_bucket"));
        let found = slots(&now, &before);
        let counts: Vec<u64> = found.iter().map(|slot| slot.count).collect();
        assert_eq!(counts, [50, 50, 1]);
        let at = |percent| percentile_us(&found, percent).unwrap().round();
        assert_eq!((at(25.0), at(75.0), at(100.0)), (51.0, 152.0, 200.0));
        assert_eq!(percentile_us(&slots(&before, &before), 50.0), None);
    }

    #[test]
    fn a_process_is_sampled_and_one_that_is_gone_is_not() {
        let mut sampler = Sampler::of_pids(&[std::process::id(), u32::MAX]);
        assert!(sampler.sample(0, false).is_empty());
        let seconds = sampler.sample(1_000_000, true);
        assert_eq!(seconds.len(), 1);
        let nodes = sampler.finish();
        assert_eq!((nodes[0].seconds.len(), nodes[1].seconds.len()), (1, 0));
        assert!(nodes[0].rss_bytes_max > 0);
    }
}
