//! The figures of a run that its verdict is drawn from.

use crate::result::{LimitsSeen, LoadResult, NodeUsage, RunResult, rate};
use crate::spec::{Load, Rate};

/// The figures that rules look at. Shares are from 0 to 1.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Evidence {
    /// Messages a second that were published.
    pub publish_rate: f64,
    /// Messages a second that were consumed, for each copy that was published.
    pub consume_rate: f64,
    /// Whether anybody was to consume.
    pub has_consumers: bool,
    /// Messages a second that the load asks for; `None` for as fast as it goes.
    pub asked_rate: Option<f64>,
    /// How far publishers fell behind, in milliseconds.
    pub behind_ms: f64,
    /// The highest backlog, as seconds of publishing.
    pub backlog_s: f64,
    /// The part of publishers' time in which their window was full.
    pub window_full: f64,
    /// The part in which their socket was full.
    pub socket_full: f64,
    /// The part in which the broker had them blocked.
    pub blocked: f64,
    /// The part in which publishers had no connection.
    pub disconnected: f64,
    /// How busy the generator's busiest thread was.
    pub generator_busy: f64,
    /// The part of this machine's cores that the generator used.
    pub generator_cores: f64,
    /// The part of this machine's cores that local brokers used.
    pub broker_cores: f64,
    /// The part of the time that the busiest broker spent in syncs; `None` where unknown.
    pub syncing: Option<f64>,
    /// Mean latency of these syncs, in microseconds.
    pub sync_us: f64,
    /// Bytes that a sync covered on average.
    pub bytes_per_sync: f64,
    /// How busy the busiest drive was; `None` where unknown.
    pub drive_busy: Option<f64>,
}

impl Evidence {
    /// The figures of a run's main load, and of what carried it.
    #[must_use]
    pub fn of(run: &RunResult) -> Self {
        let load = run.main_load();
        let spec = run.spec.loads.first();
        let seconds = load.totals.measured_s.max(f64::MIN_POSITIVE);
        let cores = (run.machine.cores.max(1) as f64) * seconds;
        let LimitsSeen {
            window_full,
            socket_full,
            blocked,
            disconnected,
            behind_schedule_ms_max,
        } = load.limits;
        let busiest = busiest_in_syncs(&run.nodes, seconds);
        Self {
            publish_rate: load.totals.publish_rate,
            consume_rate: load.totals.consume_rate / copies(spec),
            has_consumers: spec.is_some_and(|spec| spec.consumers > 0),
            asked_rate: spec.and_then(asked_rate),
            behind_ms: behind_schedule_ms_max,
            backlog_s: backlog_s(load),
            window_full,
            socket_full,
            blocked,
            disconnected,
            generator_busy: run.generator.busiest_thread,
            generator_cores: run.generator.cpu_s / cores,
            broker_cores: run.nodes.iter().map(|node| node.cpu_s).sum::<f64>() / cores,
            syncing: busiest.map(|found| found.0),
            sync_us: busiest.map_or(0.0, |found| found.1),
            bytes_per_sync: busiest.map_or(0.0, |found| found.2),
            drive_busy: drive_busy(run),
        }
    }
}

/// Queues that each message goes to.
fn copies(spec: Option<&Load>) -> f64 {
    spec.filter(|spec| spec.is_everywhere())
        .map_or(1.0, |spec| f64::from(spec.queues))
}

fn asked_rate(spec: &Load) -> Option<f64> {
    match spec.rate {
        Rate::Fixed(rate) => Some(rate * f64::from(spec.publishers)),
        _ => None,
    }
}

fn backlog_s(load: &LoadResult) -> f64 {
    load.totals.backlog_max as f64 / load.totals.publish_rate.max(1.0)
}

/// Of the broker that spent most time in syncs: the share, their mean, bytes for each.
fn busiest_in_syncs(nodes: &[NodeUsage], seconds: f64) -> Option<(f64, f64, f64)> {
    let of = |node: &NodeUsage| {
        let (fsyncs, mean) = (node.fsyncs?, node.fsync_mean_us?);
        let bytes = node.disk_written_bytes as f64 / fsyncs.max(1) as f64;
        Some((rate(fsyncs, seconds) * mean / 1e6, mean, bytes))
    };
    nodes
        .iter()
        .filter_map(of)
        .max_by(|one, other| one.0.total_cmp(&other.0))
}

/// On a modelled device the kernel's counts are those of the real one beneath.
fn drive_busy(run: &RunResult) -> Option<f64> {
    let drives = run.nodes.iter().flat_map(|node| &node.drives);
    let busy = drives
        .filter(|drive| drive.device.is_some())
        .map(|drive| drive.busy);
    busy.filter(|_| run.modelled_device.is_none())
        .max_by(f64::total_cmp)
}
