//! The atomics of what threads hand over to each other.
//!
//! `leveret-races` compiles the same files with a checker's in their place, and tries all orders in
//! which threads may run.

pub use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
