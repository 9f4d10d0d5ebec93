//! The write-ahead log.

pub(crate) mod format;
pub(crate) mod layout;
pub(crate) mod newest;
pub(crate) mod pool;
pub(crate) mod scan;
pub(crate) mod writer;
