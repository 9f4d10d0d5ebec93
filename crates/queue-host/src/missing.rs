//! How many places something has not come to yet, and whether one of them has refused it. Apart
//! because several threads count in it.

use crate::sync::{AtomicBool, AtomicU32, Ordering};

/// Places that are counted down.
#[derive(Debug)]
pub struct Missing {
    places: AtomicU32,
    /// Whether one of them has refused.
    is_refused: AtomicBool,
}

impl Missing {
    /// One place: that of whoever counts up the others, and fills it when none comes any more.
    #[must_use]
    pub fn one() -> Self {
        Self {
            places: AtomicU32::new(1),
            is_refused: AtomicBool::new(false),
        }
    }

    /// One more place.
    pub fn more(&self) {
        self.places.fetch_add(1, Ordering::Relaxed);
    }

    /// A place refuses. It is to be filled all the same.
    pub fn refuse(&self) {
        self.is_refused.store(true, Ordering::Release);
    }

    /// Whether none has refused; nothing while a place is missing.
    #[must_use]
    pub fn outcome(&self) -> Option<bool> {
        let all = self.places.load(Ordering::Acquire) == 0;
        all.then(|| !self.is_refused.load(Ordering::Acquire))
    }

    /// Fills a place. If it was the last one, whether none has refused.
    pub fn fill(&self) -> Option<bool> {
        let is_last = self.places.fetch_sub(1, Ordering::AcqRel) == 1;
        is_last.then(|| !self.is_refused.load(Ordering::Acquire))
    }
}
