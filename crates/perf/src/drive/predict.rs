//! From a drive's latencies to what a queue on it confirms.
//!
//! The model, which is that of a log with group commit:
//!
//! - A write with its sync takes `S(bytes)`, as measured for a file written before; between
//!   measured sizes in proportion. What gathers while one batch is being synced is the next batch.
//! - A **quorum** queue waits for the second fastest of three such drives, and for one round trip:
//!   see [`Distribution::median_of_three`].
//! - Confirms of a batch have to become the next messages: a way round of time `Z` over threads and
//!   loopback, measured on the machine as busy as it was.
//! - **At full speed** with `W` messages unconfirmed, half of them go round while the other half is
//!   being synced, and the slower of the two is waited for. So batches hold `W / 2`, the rate is
//!   `(W / 2) / E[max(S, Z)]`, and a message waits for two of these, the batch before and its own.
//! - **At a given rate** `r`, batches hold what arrives during one sync, `r · S`, at least one
//!   message. A message that finds the drive idle waits for one sync; one that does not, for what
//!   is left of a sync and then its own; and each for its way round.
//! - **The loop was played** for one load ([`super::Rehearsal`]): what it gave beside what the
//!   above says of that load is the part that single measurements do not see: the processor time
//!   of a batch on its way, threads that wait for a processor, syncs after a pause. Every full
//!   speed is corrected by that ratio.
//! - No more than the processor carries, where its cost of a message is known.
//!
//! What the model leaves out: the network to the clients, settles (they travel with other batches),
//! and the segment writer, which consumers that keep up leave without work.

use std::fmt::Write as _;

use super::{Distribution, DriveResult, Rehearsal, SyncRow};
use crate::plot::Unit;
use crate::result;

/// The log writes whole sectors of this many bytes.
const SECTOR_BYTES: f64 = 4_096.0;
/// Bytes that the log keeps of a message besides its body: properties, routing key, its row in the
/// batch's tables.
const MESSAGE_OVERHEAD_BYTES: f64 = 48.0;
/// The largest batch that the model looks at; a larger window fills several.
const BATCH_BYTES_MAX: f64 = 4.0 * 1024.0 * 1024.0;
/// Strips of a distribution when two are added.
const STRIPS: u32 = 48;
/// Steps until a batch's size and its sync's time agree.
const ROUNDS: usize = 60;

/// Which queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueKind {
    /// On one node.
    Classic,
    /// On three, of which two must have a message.
    Quorum,
}

/// The load that is asked about, and what a drive cannot know.
#[derive(Clone, Debug, PartialEq)]
pub struct Assumptions {
    /// Classic or quorum.
    pub kind: QueueKind,
    /// Bytes of a message's body.
    pub message_bytes: f64,
    /// Messages of all publishers together that may wait for their confirm.
    pub window: f64,
    /// Messages a second of all publishers together; `None` for as fast as it goes.
    pub rate: Option<f64>,
    /// Microseconds of the broker's processors that a message costs, over the cores that it has;
    /// `None` leaves the processor out.
    pub processor_us: Option<f64>,
    /// Microseconds from one node to another and back.
    pub round_trip_us: f64,
}

/// What would hold the load back first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// Nothing: the load asks for less than the drive gives.
    Load,
    /// How long a sync takes, however little is written.
    SyncLatency,
    /// How many bytes pass.
    Bandwidth,
    /// The broker's processors.
    Processor,
}

/// What is to be expected.
#[derive(Clone, Debug, PartialEq)]
pub struct Prediction {
    /// Confirmed messages a second.
    pub rate: f64,
    /// Half of all confirms take no longer, in microseconds.
    pub p50_us: f64,
    /// 99 of 100 confirms take no longer, in microseconds.
    pub p99_us: f64,
    /// Messages of a batch.
    pub batch: f64,
    /// Mean time of a batch's sync, in microseconds.
    pub sync_us: f64,
    /// What holds it back.
    pub bound: Bound,
}

/// The sync of a batch: its time, as far as the queue waits for it.
struct Sync {
    mean: f64,
    at: Box<dyn Fn(f64) -> f64>,
}

/// What a queue of this kind confirms on a drive like this one.
#[must_use]
pub fn predict(drive: &DriveResult, load: &Assumptions) -> Prediction {
    let full = at_full_speed(drive, load);
    match load.rate {
        Some(rate) if rate < full.rate => at_rate(drive, load, rate.max(f64::MIN_POSITIVE)),
        _ => full,
    }
}

/// How much longer the loop took than its parts say, where it was played. One drive's corrections
/// beyond these bounds are no property of the loop, but of a drive that was another one meanwhile.
const CORRECTION: std::ops::RangeInclusive<f64> = 0.2..=20.0;

fn correction(drive: &DriveResult) -> f64 {
    let Some(Rehearsal { load, rate, .. }) = &drive.rehearsal else {
        return 1.0;
    };
    let rehearsed = Assumptions {
        kind: QueueKind::Classic,
        message_bytes: load.message_bytes as f64,
        window: f64::from(load.window),
        rate: None,
        processor_us: None,
        round_trip_us: 0.0,
    };
    let parts = full_speed_of(drive, &rehearsed, 1.0).rate;
    (parts / rate.max(f64::MIN_POSITIVE)).clamp(*CORRECTION.start(), *CORRECTION.end())
}

fn at_full_speed(drive: &DriveResult, load: &Assumptions) -> Prediction {
    full_speed_of(drive, load, correction(drive))
}

/// The model, its loop taking `correction` times as long as its parts say.
fn full_speed_of(drive: &DriveResult, load: &Assumptions, correction: f64) -> Prediction {
    let half = (load.window / 2.0)
        .max(1.0)
        .min(BATCH_BYTES_MAX / message_bytes(load))
        .max(1.0);
    let waited = sync(drive, load, half).or_later(&drive.turnaround);
    let sync = sync(drive, load, half);
    let drive_rate = if load.window < 2.0 {
        1e6 / (sync.mean + drive.turnaround.mean)
    } else {
        half * 1e6 / waited.mean
    } / correction;
    let processor_rate = load.processor_us.map_or(f64::INFINITY, |cost| 1e6 / cost);
    let rate = drive_rate.min(processor_rate);
    // A window of one has nothing before it to wait for, and goes round alone.
    let latencies = if load.window < 2.0 {
        Weighted::sum(&sync, &drive.turnaround)
    } else {
        Weighted::twice(&waited)
    };
    // Whoever waits for the processor waits so much longer: messages unconfirmed over rate.
    let stretch = correction * drive_rate / rate;
    Prediction {
        rate,
        p50_us: latencies.percentile(50.0) * stretch,
        p99_us: latencies.percentile(99.0) * stretch,
        batch: half,
        sync_us: sync.mean,
        bound: if processor_rate < drive_rate {
            Bound::Processor
        } else {
            drive_bound(drive, load, half, &sync)
        },
    }
}

fn drive_bound(drive: &DriveResult, load: &Assumptions, batch: f64, sync: &Sync) -> Bound {
    let least = self::sync(drive, load, 1.0);
    let more_than_half = sync.mean > 2.0 * least.mean && batch > 1.0;
    if more_than_half {
        Bound::Bandwidth
    } else {
        Bound::SyncLatency
    }
}

fn at_rate(drive: &DriveResult, load: &Assumptions, rate: f64) -> Prediction {
    let per_micro = rate / 1e6;
    let mut batch = 1.0f64;
    for _ in 0..ROUNDS {
        let wanted = (per_micro * sync(drive, load, batch).mean).max(1.0);
        batch = (batch + wanted) / 2.0;
    }
    let sync = sync(drive, load, batch);
    // After a sync nothing may have arrived, and the drive idles until something does.
    let none = (-per_micro * sync.mean).exp();
    let busy = sync.mean / (sync.mean + none / per_micro);
    let latencies = Weighted::arrivals(&sync, busy);
    // Its tail and that of the sync hardly ever meet.
    let round = drive.turnaround.percentile(50.0);
    Prediction {
        rate,
        p50_us: latencies.percentile(50.0) + round,
        p99_us: latencies.percentile(99.0) + round,
        batch,
        sync_us: sync.mean,
        bound: Bound::Load,
    }
}

fn message_bytes(load: &Assumptions) -> f64 {
    load.message_bytes.max(0.0) + MESSAGE_OVERHEAD_BYTES
}

fn sync(drive: &DriveResult, load: &Assumptions, batch: f64) -> Sync {
    let bytes = (batch * message_bytes(load) / SECTOR_BYTES).ceil() * SECTOR_BYTES;
    let one = sync_of(&drive.recycled, bytes);
    match load.kind {
        QueueKind::Classic => Sync {
            mean: one.mean,
            at: Box::new(move |p| one.percentile(p)),
        },
        QueueKind::Quorum => {
            let trip = load.round_trip_us;
            let mean = one.median_of_three_mean() + trip;
            Sync {
                mean,
                at: Box::new(move |p| one.median_of_three(p) + trip),
            }
        }
    }
}

/// The distribution for a size, from the rows around it; beyond the largest, along the last slope.
fn sync_of(rows: &[SyncRow], bytes: f64) -> Distribution {
    let above = rows.iter().position(|row| row.bytes as f64 >= bytes);
    let last = rows.len().saturating_sub(1);
    let above = above.unwrap_or(last);
    let (Some(low), Some(high)) = (rows.get(above.saturating_sub(1)), rows.get(above)) else {
        return Distribution::of(Vec::new());
    };
    let (from, to) = (low.bytes as f64, high.bytes as f64);
    let share = if to > from {
        (bytes.max(from) - from) / (to - from)
    } else {
        0.0
    };
    // Noise may make a larger write look quicker; time does not run backwards beyond the table.
    let blend = |low: f64, high: f64| (low + (high - low) * share).max(low.min(high));
    let mut between = high.micros.clone();
    between.mean = blend(low.micros.mean, high.micros.mean);
    for (percent, value) in &mut between.quantiles {
        *value = blend(low.micros.percentile(*percent), *value);
    }
    between
}

/// Latencies with how often each occurs.
struct Weighted(Vec<(f64, f64)>);

impl Sync {
    /// What is waited for: the sync, or what takes longer.
    fn or_later(self, other: &Distribution) -> Self {
        let later = |(one, two): (f64, f64)| (self.at)(one).max(other.percentile(two));
        let all = Weighted::sorted(pairs().map(|pair| (later(pair), 1.0)).collect());
        let mean = all.mean();
        let at = Box::new(move |percent| all.percentile(percent));
        Self { mean, at }
    }
}

/// All pairs of strips.
fn pairs() -> impl Iterator<Item = (f64, f64)> {
    strips().flat_map(|one| strips().map(move |two| (one, two)))
}

impl Weighted {
    /// The batch before, and one's own.
    fn twice(waited: &Sync) -> Self {
        let at: Vec<f64> = strips().map(|at| (waited.at)(at)).collect();
        let sums = at
            .iter()
            .flat_map(|one| at.iter().map(move |two| (one + two, 1.0)));
        Self::sorted(sums.collect())
    }

    /// A sync, and the way round.
    fn sum(sync: &Sync, round: &Distribution) -> Self {
        let latency = |(one, two): (f64, f64)| (sync.at)(one) + round.percentile(two);
        Self::sorted(pairs().map(|pair| (latency(pair), 1.0)).collect())
    }

    fn mean(&self) -> f64 {
        let total: f64 = self.0.iter().map(|(_, weight)| weight).sum();
        let sum: f64 = self.0.iter().map(|(value, weight)| value * weight).sum();
        sum / total.max(f64::MIN_POSITIVE)
    }

    /// One's own sync; for the share `busy` of messages also what is left of the one under way.
    /// Long syncs are met more often than short ones, in proportion to their length.
    fn arrivals(sync: &Sync, busy: f64) -> Self {
        let own: Vec<f64> = strips().map(|at| (sync.at)(at)).collect();
        let mut all: Vec<(f64, f64)> = own.iter().map(|&own| (own, 1.0 - busy)).collect();
        let parts = 8u32;
        let each = busy / f64::from(STRIPS * parts);
        for under_way in strips().map(|at| (sync.at)(at)) {
            let weight = each * under_way / sync.mean.max(f64::MIN_POSITIVE);
            for part in 0..parts {
                let left = under_way * (f64::from(part) + 0.5) / f64::from(parts);
                all.extend(own.iter().map(|&own| (left + own, weight)));
            }
        }
        Self::sorted(all)
    }

    fn sorted(mut all: Vec<(f64, f64)>) -> Self {
        all.sort_by(|one, other| one.0.total_cmp(&other.0));
        Self(all)
    }

    fn percentile(&self, percent: f64) -> f64 {
        let total: f64 = self.0.iter().map(|(_, weight)| weight).sum();
        let mut passed = 0.0;
        for (latency, weight) in &self.0 {
            passed += weight;
            if passed >= total * percent / 100.0 {
                return *latency;
            }
        }
        self.0.last().map_or(0.0, |(latency, _)| *latency)
    }
}

/// The middles of equal strips between percentiles 0 and 100.
fn strips() -> impl Iterator<Item = f64> {
    (0..STRIPS).map(|at| 100.0 * (f64::from(at) + 0.5) / f64::from(STRIPS))
}

impl Prediction {
    /// Halfway between two, of the drive before a run and after it.
    #[must_use]
    pub fn between(&self, after: &Self) -> Self {
        Self {
            rate: f64::midpoint(self.rate, after.rate),
            p50_us: f64::midpoint(self.p50_us, after.p50_us),
            p99_us: f64::midpoint(self.p99_us, after.p99_us),
            batch: f64::midpoint(self.batch, after.batch),
            sync_us: f64::midpoint(self.sync_us, after.sync_us),
            bound: self.bound,
        }
    }

    /// For a run's result: the figures, and how they were reckoned.
    #[must_use]
    pub fn for_run(&self, drive: &DriveResult, load: &Assumptions) -> result::Prediction {
        result::Prediction {
            path: drive.path.clone(),
            confirm_rate: self.rate,
            confirm_p50_us: self.p50_us,
            confirm_p99_us: self.p99_us,
            reasoning: self.reasoning(load),
        }
    }

    /// How the figures came about, in a sentence or two.
    #[must_use]
    pub fn reasoning(&self, load: &Assumptions) -> String {
        let mut text = match load.kind {
            QueueKind::Classic => "One drive".to_owned(),
            QueueKind::Quorum => "The second fastest of three such drives".to_owned(),
        };
        let bytes = Unit::Bytes.write(self.batch * message_bytes(load));
        let _ = write!(
            text,
            " syncs a batch of {} messages ({bytes}) in {} on average",
            Unit::Count.write(self.batch),
            Unit::Micros.write(self.sync_us),
        );
        let _ = match load.rate {
            Some(_) if self.bound == Bound::Load => {
                write!(text, "; that is what arrives meanwhile.")
            }
            _ => write!(
                text,
                ", while the other half of {} unconfirmed messages gathers.",
                Unit::Count.write(load.window)
            ),
        };
        if let Some(cost) = load.processor_us {
            let cost = Unit::Micros.write(cost);
            let _ = write!(text, " The broker's processors take {cost} a message.");
        }
        text
    }
}

#[cfg(test)]
#[path = "predict_tests.rs"]
pub(super) mod tests;
