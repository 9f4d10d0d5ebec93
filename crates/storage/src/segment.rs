//! Segment files: where entries go that wait.

mod far;
pub(crate) mod format;
pub(crate) mod shared;
pub(crate) mod writer;

pub(crate) use far::Far;
