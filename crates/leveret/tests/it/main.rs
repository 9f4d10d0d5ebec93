//! The real binary, and the command line.
//!
//! All in one program, as to link each by itself takes longer than most of them run.

mod api_document;
mod attacks;
mod cli_tls;
mod common;
mod configuration;
mod connection_log;
mod ctl_on_api;
#[path = "../../../management/tests/document/mod.rs"]
mod document;
#[path = "../../../management/tests/fake/mod.rs"]
mod fake;
mod full_disk;
mod moves;
mod operators;
mod perf;
mod quota;
mod redelivered;
mod reload;
mod serve;
mod storage;
mod traces;
mod unacked;
