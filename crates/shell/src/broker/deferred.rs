//! Work that shards hand over, because it needs the catalogue or several shards.
//!
//! Invariant: one thread at a time carries it out, so that its order is kept.

use leveret_node::Env;
use leveret_queue_host::shard::Deferred;
use leveret_routing::Scratch;
use leveret_types::Now;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// See the module's description.
pub(super) struct DeferredWork {
    queue: Mutex<Vec<Deferred>>,
    /// Whether there is any: asked without the lock.
    waits: AtomicBool,
    /// Held by whoever carries it out.
    runner: Mutex<Scratch>,
}

impl DeferredWork {
    /// None yet; `wall_ms` is the time of day.
    pub(super) fn new(wall_ms: u64) -> Self {
        Self {
            queue: Mutex::default(),
            waits: AtomicBool::new(false),
            runner: Mutex::new(Scratch::new(wall_ms)),
        }
    }

    pub(super) fn push(&self, work: Deferred) {
        self.queue.lock().push(work);
        self.waits.store(true, Ordering::Release);
    }

    /// Takes all that a shard hands over.
    pub(super) fn append(&self, work: &mut Vec<Deferred>) {
        if !work.is_empty() {
            self.queue.lock().append(work);
            self.waits.store(true, Ordering::Release);
        }
    }

    /// Carries out what there is. Where another thread is at it, that one does this, too. Nothing
    /// may be borrowed.
    pub(super) fn run<E: Env>(&self, now: Now, env: &E) {
        while self.waits.load(Ordering::Acquire) {
            let Some(mut scratch) = self.runner.try_lock() else {
                return;
            };
            self.waits.store(false, Ordering::Release);
            let work = std::mem::take(&mut *self.queue.lock());
            leveret_node::deferred::run(work, &mut scratch, now, env);
        }
    }
}
