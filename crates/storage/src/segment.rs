//! Segment files: where entries go that wait.

pub(crate) mod format;
pub(crate) mod shared;
pub(crate) mod writer;
