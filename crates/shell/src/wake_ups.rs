//! Whom to wake, and the wake-ups that a turn of a loop holds back until it has done its work.
//!
//! Whoever lets a shard go wakes the threads that have something to do then. A turn that lets
//! several go would wake the same threads again and again, each time for a part of what it brings;
//! with the wake-ups held back they are woken once, for all of it.

use std::cell::Cell;

/// Threads that have something to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WakeUps {
    /// IO threads, as bits.
    pub(crate) io_threads: u64,
    /// The links' thread.
    pub(crate) links: bool,
    /// The write-ahead log's thread: somebody waits for it.
    pub(crate) wal: bool,
    /// The same: somebody waits, but what it is may gather a moment.
    pub(crate) wal_soon: bool,
    /// The write-ahead log's thread, for what may gather.
    pub(crate) wal_lazily: bool,
}

impl WakeUps {
    /// The links' thread alone.
    pub(crate) const LINKS: Self = Self {
        io_threads: 0,
        links: true,
        wal: false,
        wal_soon: false,
        wal_lazily: false,
    };

    /// One IO thread alone.
    pub(crate) fn io_thread(index: usize) -> Self {
        Self {
            io_threads: 1 << index,
            ..Self::default()
        }
    }

    const fn and(self, more: Self) -> Self {
        Self {
            io_threads: self.io_threads | more.io_threads,
            links: self.links | more.links,
            wal: self.wal | more.wal,
            wal_soon: self.wal_soon | more.wal_soon,
            wal_lazily: self.wal_lazily | more.wal_lazily,
        }
    }
}

/// What wakes threads.
pub(crate) trait ThreadWaker {
    /// Wakes these threads now.
    fn wake_now(&self, wake_ups: WakeUps);
}

thread_local! {
    /// What the turn of this thread holds back, while it does.
    static HELD: Cell<Option<WakeUps>> = const { Cell::new(None) };
}

/// Adds to what this thread's turn holds back; false if it holds nothing back.
pub(crate) fn hold_back(wake_ups: WakeUps) -> bool {
    let held = HELD.get();
    if let Some(held) = held {
        HELD.set(Some(held.and(wake_ups)));
    }
    held.is_some()
}

/// Whatever this thread wakes while there is one waits until it is dropped. For the length of work
/// that waits for no other thread.
pub(crate) struct HeldWakeUps<'a> {
    waker: &'a dyn ThreadWaker,
}

impl<'a> HeldWakeUps<'a> {
    pub(crate) fn new(waker: &'a dyn ThreadWaker) -> Self {
        let before = HELD.replace(Some(WakeUps::default()));
        assert!(before.is_none(), "wake-ups are held back already");
        Self { waker }
    }

    /// Wakes those that are held back so far, and goes on holding back.
    pub(crate) fn wake(&self) {
        let held = HELD.replace(Some(WakeUps::default()));
        self.waker.wake_now(held.unwrap_or_default());
    }
}

impl Drop for HeldWakeUps<'_> {
    fn drop(&mut self) {
        self.waker.wake_now(HELD.take().unwrap_or_default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    #[derive(Default)]
    struct Woken(RefCell<Vec<WakeUps>>);

    impl ThreadWaker for Woken {
        fn wake_now(&self, wake_ups: WakeUps) {
            self.0.borrow_mut().push(wake_ups);
        }
    }

    #[test]
    fn what_a_turn_holds_back_gathers_and_is_woken_at_its_end() {
        let woken = Woken::default();
        assert!(!hold_back(WakeUps::LINKS), "nothing is held back here");
        let held = HeldWakeUps::new(&woken);
        assert!(hold_back(WakeUps::io_thread(3)) && hold_back(WakeUps::LINKS));
        let elsewhere = std::thread::spawn(|| hold_back(WakeUps::LINKS));
        assert!(
            !elsewhere.join().expect("no panic"),
            "another thread's turn"
        );
        assert!(woken.0.borrow().is_empty());
        held.wake();
        let first = WakeUps {
            links: true,
            ..WakeUps::io_thread(3)
        };
        assert_eq!(*woken.0.borrow(), [first]);
        assert!(hold_back(WakeUps::io_thread(0)));
        drop(held);
        assert_eq!(*woken.0.borrow(), [first, WakeUps::io_thread(0)]);
        assert!(!hold_back(WakeUps::LINKS), "the turn is over");
    }
}
