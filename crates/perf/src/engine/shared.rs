//! What the coordinator and the threads that drive connections have in common.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Instant;

use crate::error::Error;
use crate::histogram::Histogram;

/// Publishers may publish.
pub const PUBLISH: u8 = 1;
/// Consumers consume.
pub const CONSUME: u8 = 2;
/// Publishers of the first load ignore their rate.
pub const UNLIMITED: u8 = 4;
/// Connections are to be closed.
pub const STOP: u8 = 8;

/// The run's clock: microseconds since the run began.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: Instant,
}

impl Clock {
    /// Begins now.
    #[must_use]
    pub fn start() -> Self {
        let start = Instant::now();
        Self { start }
    }

    /// Microseconds since then.
    #[must_use]
    #[inline]
    pub fn now_us(&self) -> u64 {
        self.start.elapsed().as_micros() as u64
    }
}

/// What the coordinator tells the threads: what is to be done, and in which phase that is.
#[derive(Debug, Default)]
pub struct Control(AtomicU32);

impl Control {
    /// What is to be done now, and in which phase.
    #[must_use]
    #[inline]
    pub fn read(&self) -> (u8, usize) {
        let word = self.0.load(Ordering::Acquire);
        (word as u8, (word >> u8::BITS) as usize)
    }

    /// Says what is to be done from now on, in phase `phase`.
    pub fn set(&self, flags: u8, phase: usize) {
        let word = u32::from(flags) | (phase as u32) << u8::BITS;
        self.0.store(word, Ordering::Release);
    }
}

/// What one thread has done for one load so far, for all to see.
#[derive(Debug, Default)]
pub struct Gauge {
    published: AtomicU64,
    settled: AtomicU64,
    returned: AtomicU64,
    arrived: AtomicU64,
    finished: AtomicU64,
}

/// [`Gauge`]'s values, or sums of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Messages published.
    pub published: u64,
    /// Messages confirmed or refused.
    pub settled: u64,
    /// Messages refused or returned, which will not arrive.
    pub returned: u64,
    /// First deliveries.
    pub arrived: u64,
    /// Publishers that have sent all that they were to send.
    pub finished: u64,
}

impl Progress {
    /// Adds another's.
    pub fn add(&mut self, other: Self) {
        self.published += other.published;
        self.settled += other.settled;
        self.returned += other.returned;
        self.arrived += other.arrived;
        self.finished += other.finished;
    }

    /// Messages that are in the broker, or on their way, if each goes to so many queues.
    #[must_use]
    pub fn backlog(&self, copies: u64) -> u64 {
        let coming = self.published.saturating_sub(self.returned) * copies;
        coming.saturating_sub(self.arrived)
    }
}

impl Gauge {
    /// Shows where one's load is.
    #[inline]
    pub fn show(&self, progress: &Progress) {
        self.published.store(progress.published, Ordering::Relaxed);
        self.settled.store(progress.settled, Ordering::Relaxed);
        self.returned.store(progress.returned, Ordering::Relaxed);
        self.arrived.store(progress.arrived, Ordering::Relaxed);
        self.finished.store(progress.finished, Ordering::Relaxed);
    }

    /// Where it is.
    #[must_use]
    pub fn read(&self) -> Progress {
        Progress {
            published: self.published.load(Ordering::Relaxed),
            settled: self.settled.load(Ordering::Relaxed),
            returned: self.returned.load(Ordering::Relaxed),
            arrived: self.arrived.load(Ordering::Relaxed),
            finished: self.finished.load(Ordering::Relaxed),
        }
    }
}

/// What happened to one load in one second, on one thread or on all.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Messages published.
    pub published: u64,
    /// Bytes of their bodies.
    pub published_bytes: u64,
    /// Messages confirmed.
    pub confirmed: u64,
    /// Messages refused.
    pub refused: u64,
    /// Messages returned.
    pub returned: u64,
    /// Deliveries.
    pub consumed: u64,
    /// Bytes of their bodies.
    pub consumed_bytes: u64,
    /// Deliveries with the mark.
    pub redelivered: u64,
    /// Publishers' microseconds with a full window.
    pub window_full_us: u64,
    /// Publishers' microseconds with a full socket.
    pub socket_full_us: u64,
    /// Publishers' microseconds while blocked.
    pub blocked_us: u64,
    /// Publishers' microseconds without a connection.
    pub disconnected_us: u64,
    /// Messages sent again after a connection broke.
    pub republished: u64,
    /// Connections that broke.
    pub broken: u64,
    /// Connections that were opened again.
    pub reopened: u64,
    /// The longest time from a break until something came over the connection that replaced it,
    /// of those that ended, in microseconds.
    pub outage_us_max: u64,
    /// The furthest that any was behind its schedule, in microseconds.
    pub behind_us_max: u64,
    /// Confirm latencies.
    pub confirm: Histogram,
    /// End-to-end latencies.
    pub end_to_end: Histogram,
}

impl Tally {
    /// Adds another's.
    pub fn add(&mut self, other: &Self) {
        self.published += other.published;
        self.published_bytes += other.published_bytes;
        self.confirmed += other.confirmed;
        self.refused += other.refused;
        self.returned += other.returned;
        self.consumed += other.consumed;
        self.consumed_bytes += other.consumed_bytes;
        self.redelivered += other.redelivered;
        self.window_full_us += other.window_full_us;
        self.socket_full_us += other.socket_full_us;
        self.blocked_us += other.blocked_us;
        self.disconnected_us += other.disconnected_us;
        self.republished += other.republished;
        self.broken += other.broken;
        self.reopened += other.reopened;
        self.outage_us_max = self.outage_us_max.max(other.outage_us_max);
        self.behind_us_max = self.behind_us_max.max(other.behind_us_max);
        self.confirm.add(&other.confirm);
        self.end_to_end.add(&other.end_to_end);
    }
}

/// One thread's second.
#[derive(Debug)]
pub struct Report {
    /// Which second, from 0.
    pub second: u64,
    /// When it ended.
    pub at_us: u64,
    /// The phase that it was in.
    pub phase: usize,
    /// Its tallies, by load.
    pub tallies: Vec<Tally>,
    /// Microseconds of it in which the thread waited for something to happen.
    pub waited_us: u64,
}

/// What a thread says to the coordinator.
#[derive(Debug)]
pub enum Word {
    /// A second is over.
    Second(usize, Report),
    /// It cannot go on.
    Failed(Error),
}
