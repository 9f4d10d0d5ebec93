//! Waking one thread that does work for all others.

use crate::sync::{AtomicU8, Condvar, Mutex, Ordering};
use std::time::{Duration, Instant};

const NOTHING: u8 = 0;
const LAZY: u8 = 1;
const NOW: u8 = 2;
const STOP: u8 = 4;
const SOON: u8 = 8;

/// What a thread was woken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Woken {
    /// Somebody waits for the work, and if it was to gather a moment, that is over.
    Now,
    /// There is work that nobody waits for, and it has gathered for as long as it may.
    Lazily,
    /// Nothing came within the time.
    TimedOut,
    /// End.
    Stop,
}

/// How a thread waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Sleep {
    #[default]
    Awake,
    /// It looks again by itself as soon as work that may gather a moment has to be done.
    Moment,
    /// It looks again by itself about as soon as work that may gather has to be done.
    Short,
    Long,
}

/// A signal to one thread. While that thread works, notifying it is one atomic operation.
#[derive(Default)]
pub struct Signal {
    state: AtomicU8,
    sleep: Mutex<Sleep>,
    waker: Condvar,
}

impl Signal {
    /// There is work, and somebody waits for it.
    pub fn notify(&self) {
        if self.state.fetch_or(NOW, Ordering::SeqCst) & NOW == 0 {
            self.wake();
        }
    }

    /// There is work that somebody waits for, but which may gather until the moment for that. A
    /// thread that looks by itself then is left to sleep.
    pub fn notify_soon(&self) {
        if self.state.fetch_or(SOON, Ordering::SeqCst) & (SOON | NOW) == 0
            && !matches!(*self.sleep.lock(), Sleep::Awake | Sleep::Moment)
        {
            self.waker.notify_one();
        }
    }

    /// There is work that may gather. A thread that soon looks by itself is left to sleep: to wake
    /// it so that it can go on sleeping costs as much as the work.
    pub fn notify_lazily(&self) {
        let is_first = self.state.fetch_or(LAZY, Ordering::SeqCst) == NOTHING;
        if is_first && *self.sleep.lock() == Sleep::Long {
            self.waker.notify_one();
        }
    }

    /// The thread is to end.
    pub fn stop(&self) {
        self.state.fetch_or(STOP, Ordering::SeqCst);
        self.wake();
    }

    fn wake(&self) {
        if *self.sleep.lock() != Sleep::Awake {
            self.waker.notify_one();
        }
    }

    /// Sleeps until there is work: at most `idle` long, and no longer than `gather` once there is
    /// work that may gather, or twice that where `idle` is no longer either.
    pub fn wait(&self, idle: Duration, gather: Duration) -> Woken {
        self.wait_from(idle, gather, Instant::now())
    }

    /// The same; work that may gather a moment is done at `moment`, or at once after it.
    pub fn wait_from(&self, idle: Duration, gather: Duration, moment: Instant) -> Woken {
        let mut sleep = self.sleep.lock();
        let begun = Instant::now();
        let deadline = begun + idle;
        let mut is_before = begun < moment;
        let mut gather_until = None;
        let woken = loop {
            *sleep = match is_before {
                true => Sleep::Moment,
                false if idle <= gather * 2 => Sleep::Short,
                false => Sleep::Long,
            };
            let state = self.state.load(Ordering::SeqCst);
            let until = match state {
                _ if state & STOP != 0 => break Woken::Stop,
                _ if state & NOW != 0 => break Woken::Now,
                _ if state & SOON != 0 && !is_before => break Woken::Now,
                _ if state & LAZY != 0 => {
                    *gather_until.get_or_insert_with(|| Instant::now() + gather)
                }
                _ => deadline,
            };
            let is_moment_first = is_before && moment < until;
            let until = if is_moment_first { moment } else { until };
            if self.waker.wait_until(&mut sleep, until).timed_out() {
                if is_moment_first {
                    is_before = false;
                    continue;
                }
                break if gather_until.is_some() {
                    Woken::Lazily
                } else {
                    Woken::TimedOut
                };
            }
        };
        *sleep = Sleep::Awake;
        // What came just when the time was over is taken away here, and so answered.
        match self.state.fetch_and(STOP, Ordering::SeqCst) {
            state if state & STOP != 0 => Woken::Stop,
            state if state & (NOW | SOON) != 0 => Woken::Now,
            LAZY => Woken::Lazily,
            _ => woken,
        }
    }

    /// Whether the thread has been told to end.
    pub fn stopped(&self) -> bool {
        self.state.load(Ordering::SeqCst) & STOP != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    const LONG: Duration = Duration::from_secs(60);
    const SHORT: Duration = Duration::from_millis(1);

    #[test]
    fn what_came_before_the_wait_is_not_lost_and_is_told_once() {
        let signal = Signal::default();
        signal.notify();
        signal.notify();
        assert_eq!(signal.wait(LONG, LONG), Woken::Now);
        assert_eq!(signal.wait(SHORT, LONG), Woken::TimedOut);
    }

    #[test]
    fn work_that_may_gather_waits_for_as_long_as_it_may() {
        let signal = Signal::default();
        signal.notify_lazily();
        assert_eq!(signal.wait(LONG, SHORT), Woken::Lazily);
        signal.notify_lazily();
        signal.notify();
        assert_eq!(
            signal.wait(LONG, LONG),
            Woken::Now,
            "somebody waits after all"
        );
        assert_eq!(signal.wait(SHORT, LONG), Woken::TimedOut);
    }

    #[test]
    fn the_end_goes_before_all_else_and_stays() {
        let signal = Signal::default();
        assert!(!signal.stopped());
        signal.notify();
        signal.stop();
        assert_eq!(signal.wait(LONG, LONG), Woken::Stop);
        assert_eq!(signal.wait(LONG, LONG), Woken::Stop);
        assert!(signal.stopped());
    }

    #[test]
    fn work_that_may_gather_a_moment_is_done_when_that_is_over() {
        let signal = Signal::default();
        signal.notify_soon();
        let begun = Instant::now();
        let moment = begun + 20 * SHORT;
        assert_eq!(signal.wait_from(LONG, LONG, moment), Woken::Now);
        assert!(begun.elapsed() >= 20 * SHORT);
        signal.notify_soon();
        assert_eq!(signal.wait(LONG, LONG), Woken::Now, "it is over already");
        signal.notify_soon();
        signal.notify();
        let late = Instant::now() + LONG;
        assert_eq!(signal.wait_from(LONG, LONG, late), Woken::Now);
        assert_eq!(
            signal.wait(SHORT, LONG),
            Woken::TimedOut,
            "it was done with that"
        );
    }

    /// What wakes a thread that is asleep already.
    #[track_caller]
    fn wakes(call: impl FnOnce(&Signal), gather: Duration, expected: Woken) {
        let signal = Arc::new(Signal::default());
        let waiting = {
            let signal = Arc::clone(&signal);
            std::thread::spawn(move || signal.wait(LONG, gather))
        };
        while *signal.sleep.lock() == Sleep::Awake {
            std::thread::yield_now();
        }
        call(&signal);
        assert_eq!(waiting.join().expect("no panic"), expected);
    }

    #[test]
    fn a_thread_that_sleeps_is_woken() {
        wakes(Signal::notify, LONG, Woken::Now);
        wakes(Signal::notify_lazily, SHORT, Woken::Lazily);
        wakes(Signal::stop, LONG, Woken::Stop);
        wakes(Signal::notify_soon, LONG, Woken::Now);
        let lazily_then_now = |signal: &Signal| {
            signal.notify_lazily();
            signal.notify();
        };
        wakes(lazily_then_now, LONG, Woken::Now);
    }
}
