//! The locks and atomics of what threads hand over to each other.
//!
//! `leveret-races` compiles the same files with a checker's in their place, and tries all orders in
//! which threads may run.

pub use mio::Waker;
pub use parking_lot::{Condvar, Mutex};
pub use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering, fence};
