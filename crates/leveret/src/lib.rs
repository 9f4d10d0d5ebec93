//! The `leveret` binary: configuration, command line, boot.
//!
//! Invariant: `main.rs` holds no decision; everything it does is [`memory::keep_little`] and
//! [`cli::main`].
//! Invariant: the command line changes and asks a node only through the node's HTTP API, as any
//! tool may.

pub mod cli;
pub mod config;
pub mod ctl;
pub mod file_modes;
pub mod memory;
pub mod plain_text;
pub mod serve;
pub mod trust;

pub use leveret_http_client as http;
