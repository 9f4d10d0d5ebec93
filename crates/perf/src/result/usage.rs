//! What brokers on this machine, their drives and the load generator used.

use serde::{Deserialize, Serialize};

/// A broker on this machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeUsage {
    /// Its name: `node-1`.
    pub name: String,
    /// User and system CPU time over the measured time, in seconds.
    pub cpu_s: f64,
    /// The most resident memory, in bytes.
    pub rss_bytes_max: u64,
    /// Bytes written over the measured time: by the broker's own count, or by the kernel's of
    /// pages that it made dirty ([`Self::written_by_broker`]).
    pub disk_written_bytes: u64,
    /// Whether bytes written are the broker's own count.
    #[serde(default)]
    pub written_by_broker: bool,
    /// Syncs of the write-ahead log over the measured time, where the broker counts them.
    #[serde(default)]
    pub fsyncs: Option<u64>,
    /// Their mean latency in microseconds, where the broker says it.
    #[serde(default)]
    pub fsync_mean_us: Option<f64>,
    /// Their median in microseconds, within its slot in proportion, where the broker has a
    /// histogram of them.
    #[serde(default)]
    pub fsync_p50_us: Option<f64>,
    /// Their 99th percentile, likewise.
    #[serde(default)]
    pub fsync_p99_us: Option<f64>,
    /// Their 99.9th percentile, likewise.
    #[serde(default)]
    pub fsync_p99_9_us: Option<f64>,
    /// How long they took: the histogram itself.
    #[serde(default)]
    pub fsync_slots: Vec<FsyncSlot>,
    /// Its seconds.
    pub seconds: Vec<NodeSecond>,
    /// The folders that it keeps things in.
    #[serde(default)]
    pub drives: Vec<DriveUsage>,
}

/// Syncs that took no longer than some time, and longer than the slot before says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FsyncSlot {
    /// The longest time in microseconds; none for the last, which has all that took longer.
    pub to_us: Option<f64>,
    /// How many.
    pub count: u64,
}

/// One second of one broker.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeSecond {
    /// Its end, in seconds since the run's beginning.
    pub at_s: f64,
    /// Cores in use.
    pub cpu_cores: f64,
    /// Resident memory in bytes.
    pub rss_bytes: u64,
    /// Bytes written per second, by the count of [`NodeUsage::disk_written_bytes`].
    pub disk_written_bytes_per_s: f64,
    /// Bytes per second that were read from a device.
    pub disk_read_bytes_per_s: f64,
    /// Syncs per second, where the broker counts them.
    #[serde(default)]
    pub fsyncs_per_s: Option<f64>,
    /// Mean latency of this second's syncs in microseconds, where the broker says it.
    #[serde(default)]
    pub fsync_mean_us: Option<f64>,
    /// Median of this second's syncs in microseconds, where the broker has a histogram of them.
    #[serde(default)]
    pub fsync_p50_us: Option<f64>,
    /// 99th percentile of this second's syncs, likewise.
    #[serde(default)]
    pub fsync_p99_us: Option<f64>,
}

/// The drive under one folder of a broker, over the measured time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DriveUsage {
    /// Which folder: `wal`, `segment`, `data`, `logs`.
    pub folder: String,
    /// The block device as the kernel names it, where it is one. Folders may share it.
    #[serde(default)]
    pub device: Option<String>,
    /// Where the folder lay: the folder that the run's own was made in.
    #[serde(default)]
    pub place: Option<String>,
    /// Bytes written to the device, by anybody.
    pub written_bytes: u64,
    /// Bytes read from it, by anybody.
    pub read_bytes: u64,
    /// Part of the time (0 to 1) in which it had work.
    pub busy: f64,
}

/// What the generator used.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GeneratorUsage {
    /// Threads that drove connections.
    pub threads: usize,
    /// CPU time of the whole process over the measured time, in seconds.
    pub cpu_s: f64,
    /// Part of the time (0 to 1) in which the busiest of those threads was not waiting: near 1, the
    /// generator may be what limits the run.
    pub busiest_thread: f64,
}
