//! Waking one thread that does work for all others.

use parking_lot::{Condvar, Mutex};
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

const NOTHING: u8 = 0;
const LAZY: u8 = 1;
const NOW: u8 = 2;
const STOP: u8 = 4;

/// What a thread was woken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Woken {
    /// Somebody waits for the work.
    Now,
    /// There is work that nobody waits for, and it has gathered for as long as it may.
    Lazily,
    /// Nothing came within the time.
    TimedOut,
    /// End.
    Stop,
}

/// A signal to one thread. While that thread works, notifying it is one atomic operation.
#[derive(Default)]
pub struct Signal {
    state: AtomicU8,
    asleep: Mutex<bool>,
    bell: Condvar,
}

impl Signal {
    /// There is work, and somebody waits for it.
    pub fn notify(&self) {
        if self.state.fetch_or(NOW, Ordering::SeqCst) & NOW == 0 {
            self.wake();
        }
    }

    /// There is work that may gather.
    pub fn notify_lazily(&self) {
        if self.state.fetch_or(LAZY, Ordering::SeqCst) == NOTHING {
            self.wake();
        }
    }

    /// The thread is to end.
    pub fn stop(&self) {
        self.state.fetch_or(STOP, Ordering::SeqCst);
        self.wake();
    }

    fn wake(&self) {
        if *self.asleep.lock() {
            self.bell.notify_one();
        }
    }

    /// Sleeps until there is work: at most `idle` long, and no longer than `gather` once there is
    /// work that may gather.
    pub fn wait(&self, idle: Duration, gather: Duration) -> Woken {
        let mut asleep = self.asleep.lock();
        *asleep = true;
        let deadline = std::time::Instant::now() + idle;
        let mut gather_until = None;
        let woken = loop {
            let state = self.state.load(Ordering::SeqCst);
            let until = match state {
                _ if state & STOP != 0 => break Woken::Stop,
                _ if state & NOW != 0 => break Woken::Now,
                LAZY => *gather_until.get_or_insert_with(|| std::time::Instant::now() + gather),
                _ => deadline,
            };
            if self.bell.wait_until(&mut asleep, until).timed_out() {
                break if gather_until.is_some() {
                    Woken::Lazily
                } else {
                    Woken::TimedOut
                };
            }
        };
        *asleep = false;
        self.state.fetch_and(STOP, Ordering::SeqCst);
        woken
    }

    /// Whether the thread has been told to end.
    pub fn stopped(&self) -> bool {
        self.state.load(Ordering::SeqCst) & STOP != 0
    }
}
