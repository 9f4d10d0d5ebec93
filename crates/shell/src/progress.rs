//! Lets a thread wait for progress elsewhere: the log is durable, a queue of another node has
//! answered, a message has been read. Operators' commands wait so, the segment writer before a
//! checkpoint, and a node that ends.
//!
//! Waiters check their condition after each signal, which does not say what came about: they are
//! few, and a check is cheap. Signalling costs one load while nobody waits.

use crate::sync::{AtomicU64, Condvar, Mutex, Ordering};
use std::time::{Duration, Instant};

/// The longest time after which somebody who waits looks again though nothing was told: what comes
/// about by a timer alone, or just as somebody begins to wait, is seen then.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Where they wait.
#[derive(Default)]
pub struct Progress {
    waiting: AtomicU64,
    /// Grows whenever something has come about while somebody waited.
    epoch: Mutex<u64>,
    told: Condvar,
}

impl Progress {
    /// Waits until a look finds something, at most until `deadline`.
    pub fn wait<T>(&self, deadline: Instant, mut look: impl FnMut() -> Option<T>) -> Option<T> {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let found = loop {
            let seen = *self.epoch.lock();
            if let Some(found) = look() {
                break Some(found);
            }
            let now = Instant::now();
            if now >= deadline {
                break None;
            }
            let until = deadline.min(now + LOOK_AGAIN);
            let mut epoch = self.epoch.lock();
            while *epoch == seen && !self.told.wait_until(&mut epoch, until).timed_out() {}
        };
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        found
    }

    /// Something has come about: who waits looks.
    pub fn tell(&self) {
        if self.waiting.load(Ordering::SeqCst) > 0 {
            *self.epoch.lock() += 1;
            self.told.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    fn in_a_minute() -> Instant {
        Instant::now() + Duration::from_secs(60)
    }

    #[test]
    fn what_is_there_already_is_not_waited_for() {
        let progress = Progress::default();
        assert_eq!(progress.wait(Instant::now(), || Some(7)), Some(7));
        assert_eq!(progress.wait(Instant::now(), || None::<()>), None);
    }

    #[test]
    fn who_waits_looks_when_it_is_told() {
        let (progress, done) = (
            Arc::new(Progress::default()),
            Arc::new(AtomicBool::new(false)),
        );
        let waiting = {
            let (progress, done) = (Arc::clone(&progress), Arc::clone(&done));
            let look = move || done.load(Ordering::SeqCst).then_some(());
            std::thread::spawn(move || progress.wait(in_a_minute(), look))
        };
        while progress.waiting.load(Ordering::SeqCst) == 0 {
            std::thread::yield_now();
        }
        progress.tell();
        assert!(!waiting.is_finished());
        done.store(true, Ordering::SeqCst);
        progress.tell();
        assert_eq!(waiting.join().expect("no panic"), Some(()));
        assert_eq!(progress.waiting.load(Ordering::SeqCst), 0);
    }

    #[test]
    fn what_nobody_tells_is_seen_all_the_same() {
        let progress = Progress::default();
        let mut looks = 0;
        let found = progress.wait(in_a_minute(), || {
            looks += 1;
            (looks == 3).then_some(looks)
        });
        assert_eq!(found, Some(3));
    }
}
