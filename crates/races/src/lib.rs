//! The files in which threads hand something over to each other, compiled with loom's locks and
//! atomics. The tests of this crate try all orders in which the threads may run, and all values
//! that the memory model lets them see.
//!
//! Invariant: what is checked is the file that the product compiles, not a copy of it.
//! Invariant: no other crate depends on this one.

pub mod sync;

#[path = "../../queue-host/src/delivery_credit.rs"]
pub mod delivery_credit;
#[path = "../../shell/src/durable_signal.rs"]
pub mod durable_signal;
#[path = "../../shell/src/inbox.rs"]
pub mod inbox;
#[path = "../../queue-host/src/missing.rs"]
pub mod missing;
#[path = "../../shell/src/waker.rs"]
pub mod waker;
