//! `leveret perf`: will this hardware carry this load?
//!
//! A specification ([`spec::Spec`]) says what to run; the engine runs it against any broker of AMQP
//! 0-9-1 or of RabbitMQ's stream protocol and gives a [`result::RunResult`], from which reports are
//! made.
//!
//! Invariant: a message's latency counts from the moment it was due, never from the moment at which
//! the broker let the generator send it.
//! Invariant: the generator allocates nothing for a message.

mod awaited;
pub mod cli;
pub mod client;
pub mod compare;
pub mod confirms;
pub mod drive;
pub mod engine;
pub mod error;
pub mod flags;
pub mod histogram;
pub mod interrupt;
pub mod local;
pub mod machine;
pub mod plan;
pub mod plot;
pub mod preset;
pub mod progress;
pub mod report;
pub mod result;
pub mod sample;
pub mod schedule;
pub mod spec;
pub mod stamp;
pub mod stream;
pub mod transport;
pub mod trust;
pub mod uri;
pub mod verdict;
pub mod verify;

pub use cli::main;
