//! The shell: sockets, TLS, threads, the clock, the disks. It carries out what the node decides.
//!
//! - [`io_thread`]: a few threads, each with the sockets of its connections.
//! - [`listener`], [`admission`], [`tls`]: ports, which connections they admit, and TLS.
//! - [`logins`], `handshakes`: password checks and TLS handshakes, on low-priority threads.
//! - `urgency`: whose turn on a processor is next.
//! - [`cluster`]: the connections to the other nodes.
//! - [`broker`]: the shards behind their locks, and the way of their effects to where they go.
//! - `wal_thread`, `segment_thread`, `read_threads`: the storage engine's work that may wait
//!   for a disk.
//! - [`stream_thread`]: the streams of the node, over their files.
//! - [`disk`], [`small_file`]: the files of the storage engine, and those that are replaced whole.
//! - [`timers_and_alarms`]: what happens by the clock.
//! - [`node`]: all of it started, and ended in order.
//!
//! Invariant: no thread waits for a disk or a socket while it holds a shard or the catalogue.
//! Invariant: a failed write or sync ends the process with one line.

pub mod admission;
pub mod broker;
pub mod cluster;
pub mod disk;
pub mod io_thread;
pub mod listener;
pub mod logins;
pub mod node;
pub mod small_file;
pub mod stream_thread;
mod thread_event;
pub mod timers_and_alarms;
pub mod tls;

mod buffers;
mod clock;
mod descriptors;
mod durable_signal;
mod found_streams;
mod group_commit_delay;
mod handshakes;
mod inbox;
mod input_coalescing;
mod progress;
mod read_size;
mod read_threads;
mod segment_thread;
mod sync;
mod transport;
mod urgency;
mod wake_ups;
mod waker;
mod wal_thread;

/// Ends the process with one line that says why. For what leaves nobody able to say what is on the
/// disk, or who could go on.
pub fn fatal(what: &str) -> ! {
    tracing::error!("{what}; the process ends");
    eprintln!("leveret: {what}; the process ends");
    std::process::exit(1);
}
