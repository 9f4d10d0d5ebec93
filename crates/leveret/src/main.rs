//! The Leveret broker.
fn main() {}
