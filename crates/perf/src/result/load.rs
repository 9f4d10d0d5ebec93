//! What one load came to: its seconds, their sums, its latencies, and what held it back.

use serde::{Deserialize, Serialize};

use super::Checks;
use crate::histogram::{Histogram, HistogramError};

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
    /// Index of its phase in [`super::RunResult::phases`].
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

impl Percentiles {
    /// The times of tables: from the median to the longest.
    pub(crate) const fn shown_us(&self) -> [u64; 7] {
        [
            self.p50_us,
            self.p75_us,
            self.p95_us,
            self.p99_us,
            self.p99_9_us,
            self.p99_99_us,
            self.max_us,
        ]
    }
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
