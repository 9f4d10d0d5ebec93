//! Threads' seconds put together: for each load its series, its sums, its histograms.

use std::collections::BTreeMap;

use super::setup::Planned;
use super::shared::{Progress, Report, Tally};
use crate::histogram::Histogram;
use crate::result::{Breaks, Latency, LimitsSeen, LoadResult, Second, Totals, rate};

/// What was collected so far.
pub struct Collector {
    workers: Vec<WorkerSeconds>,
    open: BTreeMap<u64, Vec<Tally>>,
    loads: Vec<Series>,
    next: u64,
    last_us: u64,
}

#[derive(Default)]
struct WorkerSeconds {
    latest: Option<u64>,
    last_us: u64,
    measured_us: u64,
    waited_us: u64,
}

#[derive(Default)]
struct Series {
    publishers: u64,
    copies: u64,
    progress: Progress,
    seconds: Vec<Second>,
    measured: Tally,
    measured_us: u64,
    breaks: Breaks,
    backlog_max: u64,
}

/// Which part of the run a second belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Index of its phase.
    pub phase: usize,
    /// Whether its figures count.
    pub measured: bool,
}

impl Collector {
    /// For so many threads and these loads.
    #[must_use]
    pub fn new(threads: usize, loads: &[Planned]) -> Self {
        let series = loads.iter().map(|planned| Series {
            publishers: u64::from(planned.load.publishers),
            copies: planned.copies(),
            ..Series::default()
        });
        Self {
            workers: (0..threads).map(|_| WorkerSeconds::default()).collect(),
            open: BTreeMap::new(),
            loads: series.collect(),
            next: 0,
            last_us: 0,
        }
    }

    /// Takes a thread's second.
    pub fn add(&mut self, worker: usize, report: Report, part: Part) {
        let of = &mut self.workers[worker];
        of.latest = Some(report.second);
        if part.measured {
            of.measured_us += report.at_us.saturating_sub(of.last_us);
            of.waited_us += report.waited_us;
        }
        of.last_us = report.at_us;
        self.last_us = self.last_us.max(report.at_us);
        let empty = || vec![Tally::default(); self.loads.len()];
        // What comes too late for its second belongs to the one that is open.
        let second = report.second.max(self.next);
        let open = self.open.entry(second).or_insert_with(empty);
        for (sum, tally) in open.iter_mut().zip(&report.tallies) {
            sum.add(tally);
        }
    }

    /// Whether all threads have reported a second that is still open.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        let reported = |worker: &WorkerSeconds| worker.latest.is_some_and(|l| l >= self.next);
        self.workers.iter().all(reported)
    }

    /// Closes a second that is complete; gives each load's.
    pub fn close(&mut self, part: Part) -> Vec<Second> {
        let through = self.workers.iter().filter_map(|worker| worker.latest).min();
        let through = through.unwrap_or(self.next).max(self.next);
        let mut tallies = vec![Tally::default(); self.loads.len()];
        while let Some(entry) = self.open.first_entry().filter(|e| *e.key() <= through) {
            for (sum, tally) in tallies.iter_mut().zip(&entry.remove()) {
                sum.add(tally);
            }
        }
        self.next = through + 1;
        let at_us = self.last_us;
        let loads = self.loads.iter_mut().zip(&tallies);
        loads
            .map(|(series, tally)| series.push(at_us, tally, part))
            .collect()
    }

    /// The part of the measured time in which the busiest thread did not wait.
    #[must_use]
    pub fn busiest_thread(&self) -> f64 {
        let busy = self
            .workers
            .iter()
            .filter(|worker| worker.measured_us > 0)
            .map(|worker| 1.0 - worker.waited_us as f64 / worker.measured_us as f64);
        busy.fold(0.0, f64::max).clamp(0.0, 1.0)
    }

    /// The load's result, without its checks.
    #[must_use]
    pub fn result(&mut self, at: usize, name: &str) -> LoadResult {
        let series = std::mem::take(&mut self.loads[at]);
        let totals = series.totals();
        let limits = series.limits();
        let latency =
            |histogram: &Histogram| (histogram.count() > 0).then(|| Latency::of(histogram));
        LoadResult {
            name: name.to_owned(),
            totals,
            confirm: latency(&series.measured.confirm),
            end_to_end: latency(&series.measured.end_to_end),
            checks: Default::default(),
            limits,
            seconds: series.seconds,
            breaks: series.breaks,
        }
    }
}

impl Series {
    fn push(&mut self, at_us: u64, tally: &Tally, part: Part) -> Second {
        let before_s = self.seconds.last().map_or(0.0, |second| second.at_s);
        let at_s = at_us as f64 / 1e6;
        self.progress.add(Progress {
            published: tally.published,
            settled: tally.confirmed + tally.refused,
            returned: tally.refused + tally.returned,
            arrived: tally.end_to_end.count(),
            finished: 0,
        });
        let backlog = self.progress.backlog(self.copies);
        self.backlog_max = self.backlog_max.max(backlog);
        self.breaks.broken += tally.broken;
        self.breaks.reopened += tally.reopened;
        self.breaks.republished += tally.republished;
        let outage_ms = tally.outage_us_max as f64 / 1e3;
        self.breaks.outage_ms_max = self.breaks.outage_ms_max.max(outage_ms);
        if part.measured {
            self.measured.add(tally);
            self.measured_us += ((at_s - before_s) * 1e6) as u64;
        }
        let percentiles =
            |histogram: &Histogram| (histogram.count() > 0).then(|| histogram.percentiles());
        let second = Second {
            at_s,
            length_s: at_s - before_s,
            phase: part.phase,
            measured: part.measured,
            published: tally.published,
            confirmed: tally.confirmed,
            refused: tally.refused,
            returned: tally.returned,
            consumed: tally.consumed,
            redelivered: tally.redelivered,
            republished: tally.republished,
            broken: tally.broken,
            backlog,
            confirm: percentiles(&tally.confirm),
            end_to_end: percentiles(&tally.end_to_end),
        };
        self.seconds.push(second.clone());
        second
    }

    fn totals(&self) -> Totals {
        let tally = &self.measured;
        let measured_s = self.measured_us as f64 / 1e6;
        Totals {
            measured_s,
            published: tally.published,
            confirmed: tally.confirmed,
            consumed: tally.consumed,
            publish_rate: rate(tally.published, measured_s),
            confirm_rate: rate(tally.confirmed, measured_s),
            consume_rate: rate(tally.consumed, measured_s),
            publish_bytes_per_s: rate(tally.published_bytes, measured_s),
            consume_bytes_per_s: rate(tally.consumed_bytes, measured_s),
            backlog_max: self.backlog_max,
        }
    }

    fn limits(&self) -> LimitsSeen {
        let time_us = (self.publishers * self.measured_us).max(1) as f64;
        let part = |us: u64| (us as f64 / time_us).min(1.0);
        LimitsSeen {
            window_full: part(self.measured.window_full_us),
            socket_full: part(self.measured.socket_full_us),
            blocked: part(self.measured.blocked_us),
            disconnected: part(self.measured.disconnected_us),
            behind_schedule_ms_max: self.measured.behind_us_max as f64 / 1e3,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEASURED: Part = Part {
        phase: 1,
        measured: true,
    };

    fn report(second: u64, at_us: u64, published: u64) -> Report {
        let mut tally = Tally {
            published,
            ..Tally::default()
        };
        tally.end_to_end.record_times(100, published);
        Report {
            second,
            at_us,
            tallies: vec![tally],
            phase: 1,
            waited_us: 250_000,
        }
    }

    fn collector(threads: usize) -> Collector {
        let mut collector = Collector::new(threads, &[]);
        collector.loads = vec![Series {
            publishers: 2,
            copies: 1,
            ..Series::default()
        }];
        collector
    }

    #[test]
    fn a_second_is_closed_when_every_thread_has_reported_it() {
        let mut collector = collector(2);
        collector.add(0, report(0, 1_000_000, 5), MEASURED);
        assert!(!collector.is_complete());
        collector.add(1, report(0, 1_000_100, 7), MEASURED);
        assert!(collector.is_complete());
        let second = &collector.close(MEASURED)[0];
        assert_eq!((second.published, second.backlog), (12, 0));
        assert!(!collector.is_complete());
        assert!((collector.busiest_thread() - 0.75).abs() < 1e-3);
        let totals = collector.result(0, "load").totals;
        assert_eq!((totals.published, totals.measured_s), (12, 1.0001));
    }

    #[test]
    fn nothing_is_lost_when_a_thread_misses_seconds() {
        let mut collector = collector(2);
        collector.add(0, report(0, 1_000_000, 1), MEASURED);
        collector.add(0, report(1, 2_000_000, 1), MEASURED);
        collector.add(1, report(0, 3_100_000, 1), MEASURED);
        assert_eq!(collector.close(MEASURED)[0].published, 2);
        collector.add(0, report(2, 3_000_000, 1), MEASURED);
        collector.add(1, report(3, 4_000_000, 1), MEASURED);
        assert!(collector.is_complete());
        assert_eq!(collector.close(MEASURED)[0].published, 2);
        collector.add(0, report(3, 4_000_000, 1), MEASURED);
        assert_eq!(collector.close(MEASURED)[0].published, 2);
    }
}
