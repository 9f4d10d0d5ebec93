//! `leveret perf`: will this hardware carry this load?
//!
//! A specification ([`spec::Spec`]) says what to run; the engine runs it against any AMQP 0-9-1
//! broker and gives a [`result::RunResult`], from which reports are made.
//!
//! Invariant: a message's latency counts from the moment it was due, never from the moment at which
//! the broker let the generator send it.
//! Invariant: the generator allocates nothing for a message.

pub mod drive;
pub mod histogram;
pub mod plot;
pub mod preset;
pub mod report;
pub mod result;
pub mod spec;
pub mod stamp;
pub mod verdict;
