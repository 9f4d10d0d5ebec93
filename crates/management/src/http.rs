//! HTTP itself: sockets and their limits, requests as they are read, answers as they are written,
//! and what browsers may do.

pub(crate) mod body_memory;
pub(crate) mod browser;
pub(crate) mod chunked_body;
pub(crate) mod connection_limiter;
pub(crate) mod cors;
pub(crate) mod handshakes;
pub mod input;
pub(crate) mod listeners;
pub(crate) mod multipart;
pub(crate) mod rate_limit;
pub(crate) mod read_barriers;
pub(crate) mod reply;
pub(crate) mod router;
pub(crate) mod server;
pub(crate) mod slow_reader;
pub(crate) mod workers;
