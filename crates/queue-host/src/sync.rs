//! The locks and atomics of what threads hand over to each other.
//!
//! `leveret-races` compiles the same files with a checker's in their place, and tries all orders in
//! which threads may run.

pub use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

use std::sync::{MutexGuard, PoisonError};

/// A lock whose guard is given without a `Result`: what it guards is whole between two calls,
/// whoever panics.
#[derive(Debug, Default)]
pub struct Mutex<T>(std::sync::Mutex<T>);

impl<T> Mutex<T> {
    /// Waits for the lock.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
