//! What other threads want of an IO thread.

use crate::sync::{AtomicBool, Mutex, Ordering, Waker, fence};

/// The inbox of one IO thread: a bounded-by-credit list of events, and the waker of the
/// thread.
///
/// Waking costs two system calls between the threads, so it is done only when the thread sleeps:
/// `parked` says so.
pub struct Inbox<E> {
    events: Mutex<Vec<E>>,
    parked: AtomicBool,
    waiting: AtomicBool,
    waker: Waker,
}

impl<E> Inbox<E> {
    /// An empty inbox whose thread `waker` wakes.
    pub fn new(waker: Waker) -> Self {
        Self {
            events: Mutex::new(Vec::new()),
            parked: AtomicBool::new(false),
            waiting: AtomicBool::new(false),
            waker,
        }
    }

    /// Adds events without waking: who holds a shard posts under its lock, so that deliveries keep
    /// their order, and wakes after.
    pub fn post(&self, events: impl IntoIterator<Item = E>) {
        let mut waiting = self.events.lock();
        waiting.extend(events);
        // Under the lock, as in `drain`: it says of the list what is so.
        self.waiting.store(true, Ordering::Release);
    }

    /// Wakes the thread if it sleeps.
    pub fn ring(&self) {
        // Pairs with the fence in `park`: either the thread sees the event, or this sees that it
        // sleeps.
        fence(Ordering::SeqCst);
        if self.parked.swap(false, Ordering::AcqRel) {
            // It fails only when the thread's poll is gone, and then nobody listens.
            let _ = self.waker.wake();
        }
    }

    /// Moves all events to `into`.
    pub fn drain(&self, into: &mut Vec<E>) {
        if !self.waiting.load(Ordering::Acquire) {
            return;
        }
        let mut events = self.events.lock();
        self.waiting.store(false, Ordering::Relaxed);
        if into.is_empty() {
            std::mem::swap(&mut *events, into);
        } else {
            into.append(&mut events);
        }
    }

    /// Says that the thread is about to sleep; false if there is something to do instead.
    pub fn park(&self, also_awake: impl FnOnce() -> bool) -> bool {
        // Swaps alone change it, so that all who do have one order.
        self.parked.swap(true, Ordering::AcqRel);
        fence(Ordering::SeqCst);
        if self.waiting.load(Ordering::Acquire) || also_awake() {
            self.unpark();
            return false;
        }
        true
    }

    /// Says that the thread is awake.
    pub fn unpark(&self) {
        self.parked.swap(false, Ordering::Relaxed);
    }
}
