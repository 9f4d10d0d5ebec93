//! loom's locks and atomics under the names and with the methods of those that the product uses.

use loom::sync::MutexGuard as Guard;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::{Duration, Instant};

pub use loom::sync::atomic::{
    AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};

/// What counts as soon: such a deadline passes before anybody else does anything more. A later one
/// never passes, so that a wake-up that is lost leaves its thread asleep for good, which loom
/// reports.
const SOON: Duration = Duration::from_secs(1);

/// A lock whose guard is given without a `Result`.
#[derive(Debug, Default)]
pub struct Mutex<T>(loom::sync::Mutex<T>);

impl<T> Mutex<T> {
    /// A lock around a value.
    pub fn new(value: T) -> Self {
        Self(loom::sync::Mutex::new(value))
    }

    /// Waits for the lock.
    ///
    /// # Panics
    /// A thread panicked while it had the lock.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        MutexGuard {
            lock: self,
            guard: Some(self.0.lock().expect("nobody panicked")),
        }
    }
}

/// A lock that is held. It is let go only within a wait.
pub struct MutexGuard<'a, T> {
    lock: &'a Mutex<T>,
    guard: Option<Guard<'a, T>>,
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        self.guard.as_ref().expect("it is held")
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.guard.as_mut().expect("it is held")
    }
}

/// Whether a wait ended by its time.
pub struct WaitTimeoutResult(bool);

impl WaitTimeoutResult {
    /// It did.
    pub fn timed_out(&self) -> bool {
        self.0
    }
}

/// A condition that a thread waits for.
#[derive(Debug, Default)]
pub struct Condvar(loom::sync::Condvar);

impl Condvar {
    /// Wakes one thread that waits.
    pub fn notify_one(&self) {
        self.0.notify_one();
    }

    /// Waits until somebody wakes this thread, or until then if that is soon.
    pub fn wait_until<T>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        until: Instant,
    ) -> WaitTimeoutResult {
        let held = guard.guard.take().expect("it is held");
        if until.saturating_duration_since(Instant::now()) < SOON {
            drop(held);
            loom::thread::yield_now();
            guard.guard = Some(guard.lock.0.lock().expect("nobody panicked"));
            return WaitTimeoutResult(true);
        }
        guard.guard = Some(self.0.wait(held).expect("nobody panicked"));
        WaitTimeoutResult(false)
    }
}

/// What wakes a thread out of its poll.
#[derive(Clone, Debug, Default)]
pub struct Waker(Arc<Woken>);

#[derive(Debug, Default)]
struct Woken {
    is_woken: loom::sync::Mutex<bool>,
    waker: loom::sync::Condvar,
}

impl Waker {
    /// Wakes it, now or when it polls next.
    ///
    /// # Errors
    /// None: the product's can fail.
    ///
    /// # Panics
    /// A thread panicked meanwhile.
    pub fn wake(&self) -> std::io::Result<()> {
        *self.0.is_woken.lock().expect("nobody panicked") = true;
        self.0.waker.notify_one();
        Ok(())
    }

    /// Waits until it is woken.
    ///
    /// # Panics
    /// A thread panicked meanwhile.
    pub fn poll(&self) {
        let mut is_woken = self.0.is_woken.lock().expect("nobody panicked");
        while !*is_woken {
            is_woken = self.0.waker.wait(is_woken).expect("nobody panicked");
        }
        *is_woken = false;
    }
}
