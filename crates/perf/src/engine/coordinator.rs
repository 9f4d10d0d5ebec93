//! The run's course: phases, the drain at the end, and what is made of it all.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use mio::Waker;

use super::collect::{Collector, Part};
use super::consumer::Settling;
use super::notes::notes;
use super::setup::{Setup, Threads};
use super::shared::{CONSUME, Clock, Control, Gauge, PUBLISH, Progress, STOP, UNLIMITED, Word};
use super::worker::WorkerEnd;
use crate::error::Error;
use crate::interrupt;
use crate::machine;
use crate::result::{Checks, GeneratorUsage, Live, LoadResult, PhaseResult};
use crate::sample::Sampler;
use crate::spec::{Load, Phase, SECONDS_MAX, Spec};

/// How often the course is looked at.
const LOOK: Duration = Duration::from_millis(20);
/// How long what should not come is waited for, once all that should has come.
const LINGER_US: u64 = 300_000;
/// The most that is waited for slow consumers, beyond the time that is waited for fast ones.
const SLOW_US_MAX: u64 = 600_000_000;

/// What a run came to.
pub struct Outcome {
    pub phases: Vec<PhaseResult>,
    pub loads: Vec<LoadResult>,
    pub generator: GeneratorUsage,
    pub notes: Vec<String>,
}

/// Leads a run.
pub struct Coordinator<'a> {
    spec: &'a Spec,
    setup: &'a Setup,
    threads: usize,
    phases: Vec<Phase>,
    control: Arc<Control>,
    collector: Collector,
    done: Vec<PhaseResult>,
    notes: Vec<String>,
    generator_cpu_s: f64,
    last_cpu_s: f64,
}

/// The threads as they run.
struct Running {
    clock: Clock,
    words: Receiver<Word>,
    wakers: Vec<Arc<Waker>>,
    gauges: Vec<Arc<Vec<Gauge>>>,
    handles: Vec<JoinHandle<WorkerEnd>>,
    ledger_loads: Vec<Vec<usize>>,
}

impl Running {
    /// Where all threads together are, by load.
    fn progress(&self, load: usize) -> Progress {
        let mut sum = Progress::default();
        for gauges in &self.gauges {
            sum.add(gauges[load].read());
        }
        sum
    }

    fn set(&self, control: &Control, flags: u8, phase: usize) -> Result<(), Error> {
        control.set(flags, phase);
        for waker in &self.wakers {
            waker.wake().map_err(Error::io("wake a thread"))?;
        }
        Ok(())
    }
}

impl<'a> Coordinator<'a> {
    /// For a run that was set up.
    pub fn new(spec: &'a Spec, setup: &'a Setup, threads: usize) -> Self {
        let mut phases = Vec::new();
        // A load that ends by its count is counted whole.
        let counted = spec.loads.iter().all(|load| load.count.is_some());
        if spec.warm_up_s > 0.0 && !counted {
            let first = spec.phases.first();
            phases.push(Phase {
                measured: false,
                publish: first.is_none_or(|phase| phase.publish),
                consume: first.is_none_or(|phase| phase.consume),
                ..phase("warm-up", spec.warm_up_s)
            });
        }
        if spec.phases.is_empty() {
            phases.push(phase("steady", spec.duration_s));
        }
        phases.extend(spec.phases.iter().cloned());
        Self {
            spec,
            setup,
            threads,
            phases,
            control: Arc::new(Control::default()),
            collector: Collector::new(threads, &setup.loads),
            done: Vec::new(),
            notes: Vec::new(),
            generator_cpu_s: 0.0,
            last_cpu_s: 0.0,
        }
    }

    /// Runs it.
    ///
    /// # Errors
    /// The first error of any thread.
    pub fn run(
        mut self,
        threads: Threads,
        sampler: &mut Sampler,
        live: &mut dyn FnMut(&Live),
    ) -> Result<Outcome, Error> {
        let (sender, words) = channel();
        let clock = Clock::start();
        let mut running = Running {
            clock,
            words,
            wakers: threads.workers.iter().map(|w| w.waker()).collect(),
            gauges: threads.workers.iter().map(|w| w.gauges()).collect(),
            handles: Vec::new(),
            ledger_loads: threads.ledger_loads,
        };
        for (at, worker) in threads.workers.into_iter().enumerate() {
            let control = Arc::clone(&self.control);
            let words = sender.clone();
            let thread = std::thread::Builder::new().name(format!("perf-{at}"));
            let handle = thread.spawn(move || worker.run(control, clock, words));
            running
                .handles
                .push(handle.map_err(Error::io("start a thread"))?);
        }
        drop(sender);
        self.last_cpu_s = machine::own_cpu_s();
        sampler.sample(0, false);
        let course = self.course(&running, sampler, live);
        // Also after an error: threads close their connections and end.
        let stopped = running.set(&self.control, STOP, self.done.len());
        let handles = std::mem::take(&mut running.handles);
        let ends: Vec<WorkerEnd> = handles.into_iter().filter_map(|h| h.join().ok()).collect();
        let drained = course?;
        stopped?;
        self.take_rest(&running)?;
        Ok(self.outcome(&running, &ends, &drained))
    }

    /// All phases, and the drain; whether each load was drained.
    fn course(
        &mut self,
        running: &Running,
        sampler: &mut Sampler,
        live: &mut dyn FnMut(&Live),
    ) -> Result<Vec<bool>, Error> {
        let phases = self.phases.clone();
        for (at, phase) in phases.iter().enumerate() {
            let from_us = running.clock.now_us();
            running.set(&self.control, flags(phase), at)?;
            let over = |now_us: u64| self_over(phase, running, self.setup, from_us, now_us);
            let reached = self.until(running, &phase.name, sampler, live, over)?;
            if !reached && phase.until_backlog.or(phase.until_backlog_below).is_some() {
                let name = &phase.name;
                let note = format!("phase `{name}` ended by its time, not by its backlog");
                self.notes.push(note);
            }
            self.close_phase(phase, from_us, running);
        }
        self.drain(running, sampler, live)
    }

    fn close_phase(&mut self, phase: &Phase, from_us: u64, running: &Running) {
        self.done.push(PhaseResult {
            name: phase.name.clone(),
            from_s: from_us as f64 / 1e6,
            to_s: running.clock.now_us() as f64 / 1e6,
            measured: phase.measured,
        });
    }

    /// Waits until what is on its way has come; whether it has, by load.
    fn drain(
        &mut self,
        running: &Running,
        sampler: &mut Sampler,
        live: &mut dyn FnMut(&Live),
    ) -> Result<Vec<bool>, Error> {
        let consume = self.phases.last().is_none_or(|phase| phase.consume);
        let mut drain = phase("drain", 0.0);
        drain.publish = false;
        drain.consume = consume;
        drain.measured = false;
        let from_us = running.clock.now_us();
        running.set(&self.control, flags(&drain), self.done.len())?;
        let drain_us = (self.spec.drain_s * 1e6) as u64;
        let loads = self.setup.loads.iter().map(|planned| &planned.load);
        let idle_us = drain_us + slow_us(loads);
        // A backlog that shrinks is waited for, but not for much longer than the run took.
        let bound_us = (2 * (from_us + drain_us)).max(from_us + idle_us);
        let mut idle = false;
        let setup = self.setup;
        let mut last = (from_us, Vec::new());
        let over = |now_us: u64| {
            let now: Vec<_> = (0..setup.loads.len())
                .map(|at| running.progress(at))
                .collect();
            if now != last.1 {
                last = (now_us, now.clone());
            }
            let quiet_us = now_us - last.0;
            idle = quiet_us >= idle_us;
            let arrived = (0..now.len()).all(|at| is_drained(setup, at, &now[at], consume));
            let complete = arrived && quiet_us >= LINGER_US.min(idle_us);
            (complete || idle || now_us >= bound_us).then_some(complete)
        };
        self.until(running, "drain", sampler, live, over)?;
        self.close_phase(&drain, from_us, running);
        let mut drained = Vec::new();
        for (at, planned) in self.setup.loads.iter().enumerate() {
            let progress = running.progress(at);
            let backlog = progress.backlog(planned.copies());
            let watched = consume && planned.load.verify && planned.is_consumed();
            if watched && backlog > 0 && !idle {
                let name = &planned.load.name;
                let note = format!(
                    "load `{name}`: {backlog} messages still waited when the run was over; loss \
                     was not checked"
                );
                self.notes.push(note);
            }
            drained.push(watched && (backlog == 0 || idle));
        }
        Ok(drained)
    }

    /// Collects until `over` says so; gives what it said. An interrupt is an error.
    fn until(
        &mut self,
        running: &Running,
        name: &str,
        sampler: &mut Sampler,
        live: &mut dyn FnMut(&Live),
        mut over: impl FnMut(u64) -> Option<bool>,
    ) -> Result<bool, Error> {
        loop {
            interrupt::check()?;
            match running.words.recv_timeout(LOOK) {
                Ok(Word::Second(worker, report)) => {
                    let part = self.part(report.phase);
                    self.collector.add(worker, report, part);
                    if self.collector.is_complete() {
                        self.second(running, part, name, sampler, live);
                    }
                }
                Ok(Word::Failed(error)) => return Err(error),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    let what = "the load's threads ended by themselves".to_owned();
                    return Err(Error::Node {
                        node: "generator".to_owned(),
                        what,
                    });
                }
            }
            if let Some(said) = over(running.clock.now_us()) {
                return Ok(said);
            }
        }
    }

    /// A second is over on all threads.
    fn second(
        &mut self,
        running: &Running,
        part: Part,
        name: &str,
        sampler: &mut Sampler,
        live: &mut dyn FnMut(&Live),
    ) {
        let seconds = self.collector.close(part);
        let now_us = running.clock.now_us();
        let nodes = sampler.sample(now_us, part.measured);
        let cpu_s = machine::own_cpu_s();
        if part.measured {
            self.generator_cpu_s += cpu_s - self.last_cpu_s;
        }
        self.last_cpu_s = cpu_s;
        let names = self
            .setup
            .loads
            .iter()
            .map(|planned| planned.load.name.clone());
        live(&Live {
            at_s: now_us as f64 / 1e6,
            expected_s: Some(self.spec.expected_s()).filter(|all| *all < SECONDS_MAX),
            phase: name.to_owned(),
            loads: names.zip(seconds).collect(),
            nodes,
        });
    }

    /// What the threads said last.
    fn take_rest(&mut self, running: &Running) -> Result<(), Error> {
        let mut part = self.part(self.done.len());
        for word in running.words.try_iter() {
            match word {
                Word::Second(worker, report) => {
                    part = self.part(report.phase);
                    self.collector.add(worker, report, part);
                }
                Word::Failed(error) => return Err(error),
            }
        }
        self.collector.close(part);
        Ok(())
    }

    /// The part of the run that a phase is. What comes after the last belongs to the drain.
    fn part(&self, phase: usize) -> Part {
        Part {
            phase: phase.min(self.phases.len()),
            measured: self.phases.get(phase).is_some_and(|phase| phase.measured),
        }
    }

    fn outcome(mut self, running: &Running, ends: &[WorkerEnd], drained: &[bool]) -> Outcome {
        let mut loads = Vec::new();
        for (at, planned) in self.setup.loads.iter().enumerate() {
            let mut result = self.collector.result(at, &planned.load.name);
            result.checks = checks(at, &result, running, ends, drained[at]);
            let publishers = ends.iter().flat_map(|end| &end.publishers);
            let published: Vec<u64> = publishers
                .filter(|publisher| publisher.load == at)
                .map(|publisher| publisher.sent.published)
                .collect();
            let (load, copies) = (&planned.load, planned.copies());
            let noted = notes(load, &published, copies, &result.seconds);
            self.notes.extend(noted);
            loads.push(result);
        }
        Outcome {
            phases: self.done,
            loads,
            generator: GeneratorUsage {
                threads: self.threads,
                cpu_s: self.generator_cpu_s,
                busiest_thread: self.collector.busiest_thread(),
            },
            notes: self.notes,
        }
    }
}

fn phase(name: &str, duration_s: f64) -> Phase {
    Phase {
        name: name.to_owned(),
        duration_s,
        until_backlog: None,
        until_backlog_below: None,
        publish: true,
        consume: true,
        publish_unlimited: false,
        measured: true,
    }
}

fn flags(phase: &Phase) -> u8 {
    let mut flags = 0;
    for (is_set, flag) in [
        (phase.publish, PUBLISH),
        (phase.consume, CONSUME),
        (phase.publish_unlimited, UNLIMITED),
    ] {
        flags |= if is_set { flag } else { 0 };
    }
    flags
}

/// Whether a phase is over: by its backlog (true), or by its time, or because all is sent (false).
fn self_over(
    phase: &Phase,
    running: &Running,
    setup: &Setup,
    from_us: u64,
    now_us: u64,
) -> Option<bool> {
    let backlog = running.progress(0).backlog(setup.loads[0].copies());
    if phase.until_backlog.is_some_and(|bound| backlog >= bound) {
        return Some(true);
    }
    if phase
        .until_backlog_below
        .is_some_and(|bound| backlog <= bound)
    {
        return Some(true);
    }
    let counted = setup
        .loads
        .iter()
        .all(|planned| planned.load.count.is_some());
    let mut loads = setup.loads.iter().enumerate();
    let all_sent = counted
        && loads.all(|(at, planned)| {
            running.progress(at).finished >= u64::from(planned.load.publishers)
        });
    let duration_us = (phase.duration_s * 1e6) as u64;
    (all_sent || now_us >= from_us + duration_us).then_some(false)
}

/// How much longer than usual no delivery is no sign of loss: the broker may wait for consumers
/// that take their time.
fn slow_us<'l>(loads: impl Iterator<Item = &'l Load>) -> u64 {
    let consumed = loads.filter(|load| load.consumers > 0);
    let gaps = consumed.map(|load| Settling::of(load).gap_us());
    gaps.max().unwrap_or(0).saturating_mul(2).min(SLOW_US_MAX)
}

/// Whether nothing of a load is on its way.
fn is_drained(setup: &Setup, at: usize, progress: &Progress, consume: bool) -> bool {
    let planned = &setup.loads[at];
    let settled = planned.load.confirm_window == 0 || progress.settled >= progress.published;
    let watched = consume && planned.load.verify && planned.is_consumed();
    settled && (!watched || progress.backlog(planned.copies()) == 0)
}

/// What consumers saw of a load against what its publishers sent.
fn checks(
    at: usize,
    result: &LoadResult,
    running: &Running,
    ends: &[WorkerEnd],
    drained: bool,
) -> Checks {
    let mut checks = Checks {
        loss_checked: drained,
        refused: result.seconds.iter().map(|second| second.refused).sum(),
        returned: result.seconds.iter().map(|second| second.returned).sum(),
        ..Checks::default()
    };
    let publishers = || {
        ends.iter()
            .flat_map(|end| &end.publishers)
            .filter(|p| p.load == at)
    };
    checks.unconfirmed = publishers().map(|publisher| publisher.unconfirmed).sum();
    let first = publishers()
        .map(|publisher| publisher.number)
        .min()
        .unwrap_or(0);
    for (end, loads) in ends.iter().zip(&running.ledger_loads) {
        for (ledger, _) in end
            .ledgers
            .iter()
            .zip(loads)
            .filter(|(_, load)| **load == at)
        {
            ledger.count(&mut checks);
            for publisher in publishers() {
                let number = u32::from(publisher.number - first);
                ledger.judge(number, &publisher.sent, drained, &mut checks);
            }
        }
    }
    checks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_consumers_are_waited_for_but_not_for_ever() {
        let slow_s = |loads: &[&str]| {
            let loads: Vec<Load> = loads.iter().map(|l| toml::from_str(l).unwrap()).collect();
            slow_us(loads.iter()) as f64 / 1e6
        };
        assert_eq!(slow_s(&[""]), 0.0);
        let slow = "consumer_rate = 0.05\nprefetch = 2";
        assert_eq!(slow_s(&["", slow]), 40.0);
        assert_eq!(slow_s(&["consumers = 0\nconsumer_rate = 0.05"]), 0.0);
        assert_eq!(slow_s(&["consumer_rate = 0.000001\nprefetch = 2"]), 600.0);
    }
}
