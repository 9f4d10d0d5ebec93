//! Requests that name what this node does not know. Another node of the cluster may have been told
//! of it a moment ago: before a client hears that there is no such thing, this node makes sure that
//! it has seen what the cluster has agreed on, and looks once more.
//!
//! Invariant: who comes while a barrier is waited for is let through by the next one, not by that.

use crate::app::App;
use leveret_types::limits::READ_BARRIERS_MAX;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

/// Who waits for a read barrier: one is waited for at a time, by one thread, for all who came
/// before it.
#[derive(Default)]
pub(crate) struct ReadBarriers {
    queue: Mutex<Queue>,
}

#[derive(Default)]
struct Queue {
    waiting: Vec<oneshot::Sender<bool>>,
    /// How many there are for whom a barrier is waited for now.
    served: usize,
    /// Whether a thread sees to them.
    has_thread: bool,
}

/// A place in the queue.
struct Turn {
    passed: oneshot::Receiver<bool>,
    /// Whether whoever has it is to have a thread begin.
    begins: bool,
}

/// Waits until the node has seen all that its cluster has agreed on by now, for a bounded time.
/// False where it is in none, or too many wait: then what it knows has to do.
pub(crate) async fn pass(app: &Arc<App>) -> bool {
    if !app.node().is_clustered() {
        return false;
    }
    let Some(turn) = app.read_barriers.enter() else {
        return false;
    };
    if turn.begins {
        let app = Arc::clone(app);
        tokio::task::spawn_blocking(move || {
            app.read_barriers.serve(|| app.node().pass_read_barrier());
        });
    }
    turn.passed.await.unwrap_or(false)
}

impl ReadBarriers {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        // A writer that panicked left whole entries.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place behind those that wait; none where these are too many.
    fn enter(&self) -> Option<Turn> {
        let mut queue = self.queue();
        if queue.waiting.len() + queue.served >= READ_BARRIERS_MAX {
            return None;
        }
        let (waits, passed) = oneshot::channel();
        queue.waiting.push(waits);
        let begins = !std::mem::replace(&mut queue.has_thread, true);
        Some(Turn { passed, begins })
    }

    /// Waits for barriers until nobody wants one.
    fn serve(&self, wait: impl Fn() -> bool) {
        while let Some(waiting) = self.next() {
            let passed = wait();
            for waits in waiting {
                // Whoever asked may have hung up.
                let _ = waits.send(passed);
            }
        }
    }

    /// Those who wait for the next barrier; the thread is free where there is nobody.
    fn next(&self) -> Option<Vec<oneshot::Sender<bool>>> {
        let mut queue = self.queue();
        let mut waiting = std::mem::take(&mut queue.waiting);
        waiting.retain(|waits| !waits.is_closed());
        queue.served = waiting.len();
        queue.has_thread = !waiting.is_empty();
        queue.has_thread.then_some(waiting)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    fn enter(barriers: &ReadBarriers) -> (oneshot::Receiver<bool>, bool) {
        let turn = barriers.enter().expect("there is room");
        (turn.passed, turn.begins)
    }

    #[test]
    fn one_barrier_serves_all_who_came_before_it_and_who_comes_meanwhile_has_the_next() {
        let barriers = ReadBarriers::default();
        let (mut first, begins) = enter(&barriers);
        assert!(begins);
        let (mut second, begins) = enter(&barriers);
        assert!(!begins);
        let (late, waited) = (Cell::new(None), Cell::new(0));
        barriers.serve(|| {
            if waited.replace(waited.get() + 1) == 0 {
                let (passed, begins) = enter(&barriers);
                assert!(!begins);
                late.set(Some(passed));
            }
            waited.get() == 2
        });
        assert_eq!(waited.get(), 2);
        assert_eq!(
            (first.try_recv(), second.try_recv()),
            (Ok(false), Ok(false))
        );
        let mut late = late.take().expect("it came");
        assert_eq!(late.try_recv(), Ok(true));
        assert!(enter(&barriers).1, "the thread has gone");
    }

    #[test]
    fn so_many_wait_and_not_one_more_and_nobody_waits_for_who_has_hung_up() {
        let barriers = ReadBarriers::default();
        let turns: Vec<_> = (0..READ_BARRIERS_MAX).map(|_| enter(&barriers)).collect();
        assert!(barriers.enter().is_none());
        let served = Cell::new(false);
        barriers.serve(|| {
            assert!(barriers.enter().is_none(), "they wait still");
            served.set(true);
            true
        });
        assert!(served.get());
        drop(turns);
        drop(enter(&barriers));
        barriers.serve(|| unreachable!("nobody wants to know"));
        assert!(enter(&barriers).1);
    }
}
