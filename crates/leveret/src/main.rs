//! The Leveret broker.
mod config;
fn main() {}
