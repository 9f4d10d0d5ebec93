//! What a run found, as it is kept: the JSON of `leveret perf run --json`, and what reports read.
//!
//! A field that is added is optional, so that older files stay readable; [`VERSION`] rises when the
//! meaning of one changes.

use serde::{Deserialize, Serialize};

use crate::histogram::{Histogram, HistogramError};
use crate::spec::Spec;

/// Version of this form.
pub const VERSION: u32 = 1;

/// Everything about one run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunResult {
    /// [`VERSION`] of who wrote it.
    pub version: u32,
    /// The specification's name.
    pub name: String,
    /// The command that runs it again.
    pub command: String,
    /// When it began: seconds since 1970.
    pub started_unix_s: u64,
    /// The broker.
    pub target: Target,
    /// The machine that the load came from, and local brokers ran on.
    pub machine: Machine,
    /// The device that was modelled (`hdd:1`); none where disks were what they are. A modelled run
    /// says so wherever it is shown.
    #[serde(default)]
    pub modelled_device: Option<String>,
    /// What was run.
    pub spec: Spec,
    /// The phases as they went.
    pub phases: Vec<PhaseResult>,
    /// Each load of the specification, in its order. The first is the one that the run is about;
    /// the others are beside it.
    pub loads: Vec<LoadResult>,
    /// Local brokers, where there are any.
    #[serde(default)]
    pub nodes: Vec<NodeUsage>,
    /// The load generator itself.
    pub generator: GeneratorUsage,
    /// What stands beside the figures that a reader must know: a cluster that was one node, a
    /// backlog that was not reached.
    #[serde(default)]
    pub notes: Vec<String>,
    /// What a measured drive promised for this load, if it was asked.
    #[serde(default)]
    pub prediction: Option<Prediction>,
}

/// Who was measured.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    /// As the broker names itself: `Leveret`, `RabbitMQ`, `LavinMQ`.
    pub product: String,
    /// Its version.
    pub version: String,
    /// Addresses that were connected to, without passwords.
    pub uris: Vec<String>,
    /// Whether this run started it.
    pub started_here: bool,
}

/// Where the generator ran.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// Processor model.
    pub cpu: String,
    /// Cores that this process may use.
    pub cores: usize,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// Kernel name and release.
    pub kernel: String,
}

/// One phase as it went.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PhaseResult {
    /// Its name.
    pub name: String,
    /// Its beginning, in seconds since the run's.
    pub from_s: f64,
    /// Its end, in seconds since the run's beginning.
    pub to_s: f64,
    /// Whether its figures count towards the totals.
    pub measured: bool,
}

/// One load's figures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoadResult {
    /// The load's name.
    pub name: String,
    /// The seconds, warm-up included, without gaps.
    pub seconds: Vec<Second>,
    /// Sums and means over the measured time.
    pub totals: Totals,
    /// From a message's scheduled time to its confirm; none where there are no confirms.
    #[serde(default)]
    pub confirm: Option<Latency>,
    /// From a message's scheduled time to its arrival at a consumer; none where nobody consumed.
    #[serde(default)]
    pub end_to_end: Option<Latency>,
    /// Whether everything arrived as it was sent.
    pub checks: Checks,
    /// What held the load back.
    pub limits: LimitsSeen,
    /// Connections that broke while it ran.
    #[serde(default)]
    pub breaks: Breaks,
}

/// Connections of a load that broke, and were opened again.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Breaks {
    /// How often a connection broke.
    pub broken: u64,
    /// How often one was opened again.
    pub reopened: u64,
    /// Messages that were sent again, as nobody had confirmed them; each as often as it was.
    pub republished: u64,
    /// The longest time from a break until something came over the connection that replaced it,
    /// in milliseconds.
    pub outage_ms_max: f64,
}

/// One second of one load.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Second {
    /// Its end, in seconds since the run's beginning.
    pub at_s: f64,
    /// Its true length, in seconds.
    pub length_s: f64,
    /// Index of its phase in [`RunResult::phases`].
    pub phase: usize,
    /// Whether it is part of the measured time: not warm-up, not a phase beside the point.
    pub measured: bool,
    /// Messages handed to the socket.
    pub published: u64,
    /// Messages that the broker confirmed.
    pub confirmed: u64,
    /// Messages that it refused (`basic.nack`).
    pub refused: u64,
    /// Messages that it returned as unroutable.
    pub returned: u64,
    /// Deliveries.
    pub consumed: u64,
    /// Deliveries that were marked as redelivered; among `consumed`.
    pub redelivered: u64,
    /// Messages that were published and not consumed when it ended, over all queues.
    pub backlog: u64,
    /// Messages sent again after a connection broke; not among `published`.
    #[serde(default)]
    pub republished: u64,
    /// Connections that broke.
    #[serde(default)]
    pub broken: u64,
    /// Confirm latencies of this second.
    #[serde(default)]
    pub confirm: Option<Percentiles>,
    /// End-to-end latencies of this second.
    #[serde(default)]
    pub end_to_end: Option<Percentiles>,
}

impl Second {
    /// Messages published per second.
    #[must_use]
    pub fn publish_rate(&self) -> f64 {
        rate(self.published, self.length_s)
    }

    /// Messages confirmed per second.
    #[must_use]
    pub fn confirm_rate(&self) -> f64 {
        rate(self.confirmed, self.length_s)
    }

    /// Messages consumed per second.
    #[must_use]
    pub fn consume_rate(&self) -> f64 {
        rate(self.consumed, self.length_s)
    }
}

pub(crate) fn rate(count: u64, seconds: f64) -> f64 {
    if seconds > 0.0 {
        count as f64 / seconds
    } else {
        0.0
    }
}

/// Sums and means over the measured time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Totals {
    /// Measured time, in seconds.
    pub measured_s: f64,
    /// Messages published in it.
    pub published: u64,
    /// Messages confirmed in it.
    pub confirmed: u64,
    /// Deliveries in it.
    pub consumed: u64,
    /// Messages published per second.
    pub publish_rate: f64,
    /// Messages confirmed per second.
    pub confirm_rate: f64,
    /// Deliveries per second.
    pub consume_rate: f64,
    /// Bytes of bodies published per second.
    pub publish_bytes_per_s: f64,
    /// Bytes of bodies consumed per second.
    pub consume_bytes_per_s: f64,
    /// The greatest backlog at the end of any second, warm-up included.
    pub backlog_max: u64,
}

/// The usual figures of a histogram, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)] // The names say it.
pub struct Percentiles {
    pub count: u64,
    pub min_us: u64,
    pub mean_us: f64,
    pub p50_us: u64,
    pub p75_us: u64,
    pub p90_us: u64,
    pub p95_us: u64,
    pub p99_us: u64,
    pub p99_9_us: u64,
    pub p99_99_us: u64,
    pub max_us: u64,
}

/// A latency over the measured time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// The usual figures.
    pub percentiles: Percentiles,
    /// The whole histogram, in microseconds: HdrHistogram's compressed V2 form in base64.
    pub histogram: String,
}

impl Latency {
    /// Keeps a histogram.
    #[must_use]
    pub fn of(histogram: &Histogram) -> Self {
        Self {
            percentiles: histogram.percentiles(),
            histogram: histogram.to_base64(),
        }
    }

    /// The whole histogram.
    ///
    /// # Errors
    /// If the text is none.
    pub fn histogram(&self) -> Result<Histogram, HistogramError> {
        Histogram::from_base64(&self.histogram)
    }
}

/// Whether everything arrived as it was sent, warm-up included.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checks {
    /// Whether loss could be seen: somebody consumed, and the queues were drained at the end.
    pub loss_checked: bool,
    /// Messages that were confirmed (or, without confirms, published) and never arrived, counted
    /// once for each queue that misses them.
    pub lost: u64,
    /// Deliveries of what had arrived before, not marked as redelivered.
    pub duplicated: u64,
    /// Deliveries marked as redelivered. No failure.
    pub redelivered: u64,
    /// First deliveries to a consumer that came after a later message of the same publisher.
    pub disordered: u64,
    /// Deliveries whose checksum is wrong, or that nobody sent.
    pub damaged: u64,
    /// Deliveries of another run's messages, which lay in a queue that was there before. No
    /// failure.
    pub foreign: u64,
    /// Messages that the broker refused (`basic.nack`). No failure by itself.
    pub refused: u64,
    /// Messages that the broker returned as unroutable. No failure by itself.
    pub returned: u64,
    /// Messages that were neither confirmed nor refused when the run gave up waiting.
    pub unconfirmed: u64,
    /// Deliveries of what had arrived before, not marked as redelivered, of messages that had to be
    /// sent again over a new connection. No failure: nobody could tell whether they had arrived.
    #[serde(default)]
    pub republished_twice: u64,
    /// Deliveries, not marked as redelivered, of what had arrived at a consumer whose connection
    /// then broke. No failure: AMQP asks for the mark where a broker can know.
    #[serde(default)]
    pub unmarked: u64,
    /// Messages that did not arrive, and for which nobody answers: sent without confirms over a
    /// connection that broke, or settled by the broker as it sent them to a consumer whose
    /// connection broke. No failure.
    #[serde(default)]
    pub in_doubt: u64,
}

impl Checks {
    /// Whether the broker broke a promise.
    #[must_use]
    pub fn failed(&self) -> bool {
        let Self {
            lost,
            duplicated,
            disordered,
            damaged,
            unconfirmed,
            ..
        } = self;
        lost + duplicated + disordered + damaged + unconfirmed > 0
    }
}

/// What held a load back, over the measured time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LimitsSeen {
    /// Part of the publishers' time (0 to 1) in which the confirm window was full.
    pub window_full: f64,
    /// Part of the publishers' time in which the socket took no more.
    pub socket_full: f64,
    /// Part of the publishers' time in which the broker had them blocked (`connection.blocked`).
    pub blocked: f64,
    /// Part of the publishers' time in which their connection was broken and not opened again.
    #[serde(default)]
    pub disconnected: f64,
    /// The furthest that a publisher fell behind its schedule, in milliseconds; 0 without a rate.
    pub behind_schedule_ms_max: f64,
}

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

/// What a measured drive promises.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Prediction {
    /// The path that was measured.
    pub path: String,
    /// Confirmed messages per second.
    pub confirm_rate: f64,
    /// Median confirm latency in microseconds.
    pub confirm_p50_us: f64,
    /// 99th percentile of the confirm latency in microseconds.
    pub confirm_p99_us: f64,
    /// How it was reckoned, in words.
    pub reasoning: String,
}

/// What the progress view is given each second.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Live {
    /// Seconds since the run's beginning.
    pub at_s: f64,
    /// Seconds that the run takes in all, where that can be said.
    pub expected_s: Option<f64>,
    /// The phase's name; `drain` while the run waits for what is on its way.
    pub phase: String,
    /// Each load's name with its last second.
    pub loads: Vec<(String, Second)>,
    /// Each local broker's name with its last second.
    pub nodes: Vec<(String, NodeSecond)>,
}

impl RunResult {
    /// Whether the broker broke a promise in any load.
    #[must_use]
    pub fn failed(&self) -> bool {
        self.loads.iter().any(|load| load.checks.failed())
    }

    /// Whether a connection of any load broke while it ran.
    #[must_use]
    pub fn has_breaks(&self) -> bool {
        self.loads.iter().any(|load| load.breaks.broken > 0)
    }

    /// The load that the run is about.
    ///
    /// # Panics
    /// If there is none, which no run and no file that was read has.
    #[must_use]
    pub fn main_load(&self) -> &LoadResult {
        self.loads.first().expect("a run has a load")
    }

    /// One line that says which promises were broken; nothing where none was.
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        let broken: Vec<String> = self
            .loads
            .iter()
            .filter(|load| load.checks.failed())
            .map(|load| format!("load `{}`: {}", load.name, load.checks.broken()))
            .collect();
        (!broken.is_empty()).then(|| broken.join("; "))
    }

    /// The result as JSON.
    ///
    /// # Panics
    /// Never: all that is in it has a form in JSON.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("a result has a form in JSON")
    }

    /// Reads what [`Self::to_json`] wrote.
    ///
    /// # Errors
    /// A text that says what is wrong with it.
    pub fn from_json(text: &str) -> Result<Self, String> {
        let result: Self = serde_json::from_str(text).map_err(|error| error.to_string())?;
        if result.version > VERSION {
            return Err(format!(
                "it is of version {}, and this leveret reads up to {VERSION}",
                result.version
            ));
        }
        if result.loads.is_empty() {
            return Err("it has no loads".to_owned());
        }
        Ok(result)
    }
}

impl Checks {
    /// The broken promises in words.
    #[must_use]
    pub fn broken(&self) -> String {
        let counts = [
            (self.lost, "lost"),
            (self.duplicated, "delivered twice without the mark"),
            (self.disordered, "out of order"),
            (self.damaged, "damaged"),
            (self.unconfirmed, "never confirmed"),
        ];
        let said: Vec<String> = counts
            .iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, what)| format!("{count} {what}"))
            .collect();
        said.join(", ")
    }
}
