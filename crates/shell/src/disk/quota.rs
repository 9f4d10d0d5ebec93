//! A limit on the bytes of all files of a [`super::RealDisk`]: a small drive without owning one.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

/// How many bytes files may have together, and how many they have.
#[derive(Debug)]
pub(super) struct Quota {
    bytes_max: AtomicU64,
    /// Lengths by the number of the file.
    lengths: Mutex<HashMap<u64, u64>>,
}

impl Quota {
    pub(super) fn new(bytes_max: u64) -> Self {
        Self {
            bytes_max: AtomicU64::new(bytes_max),
            lengths: Mutex::default(),
        }
    }

    pub(super) fn set(&self, bytes_max: u64) {
        self.bytes_max.store(bytes_max, Ordering::Relaxed);
    }

    /// A file is there, with so many bytes.
    pub(super) fn found(&self, file: u64, length: u64) {
        self.lengths.lock().insert(file, length);
    }

    /// A file is gone.
    pub(super) fn gone(&self, file: u64) {
        self.lengths.lock().remove(&file);
    }

    /// Takes what a write up to `end` makes a file longer by.
    ///
    /// # Errors
    /// [`io::ErrorKind::StorageFull`] if there is not so much; nothing is taken then.
    pub(super) fn grow(&self, file: u64, end: u64) -> io::Result<()> {
        let mut lengths = self.lengths.lock();
        let length = lengths.get(&file).copied().unwrap_or(0);
        if end <= length {
            return Ok(());
        }
        let used: u64 = lengths.values().sum();
        if used - length + end > self.bytes_max.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        lengths.insert(file, end);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_taken_up_to_the_last_and_given_back() {
        let quota = Quota::new(100);
        quota.found(1, 60);
        quota.grow(2, 40).expect("the last byte");
        let full = quota.grow(2, 41).expect_err("one too many");
        assert_eq!(full.kind(), io::ErrorKind::StorageFull);
        quota
            .grow(1, 60)
            .expect("a write within a file takes nothing");
        quota.gone(1);
        quota.grow(2, 100).expect("there is room again");
        quota.set(101);
        quota.grow(2, 101).expect("there is more room");
    }
}
