//! The stream thread's helpers: one syncs, one reads.

use std::io;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

/// A thread beside that of the streams, for what these do not wait for, and the way to it.
pub(super) struct HelperThreads<T> {
    due: Sender<T>,
    thread: JoinHandle<()>,
}

impl<T: Send + 'static> HelperThreads<T> {
    pub(super) fn start(name: &str, each: impl Fn(T) + Send + 'static) -> io::Result<Self> {
        let (due, taken) = channel::<T>();
        let thread = std::thread::Builder::new().name(name.to_owned());
        let thread = thread.spawn(move || taken.into_iter().for_each(each))?;
        Ok(Self { due, thread })
    }

    pub(super) fn hand_out(&self, due: Vec<T>) {
        for due in due {
            if self.due.send(due).is_err() {
                crate::fatal("a thread beside that of the streams has ended");
            }
        }
    }

    /// Ends it once it has done what was handed out.
    pub(super) fn end(self) {
        drop(self.due);
        if self.thread.join().is_err() {
            crate::fatal("a thread beside that of the streams has ended");
        }
    }
}
