//! Whether clients are let in, and which.
//!
//! Invariant: a node that the cluster has forgotten never serves again.

use crate::admission::{Admission, AdmissionLimits};
use std::sync::atomic::{AtomicBool, Ordering};

/// See the module's description.
pub(super) struct Accepting {
    /// Who is let in of those who come.
    pub(super) admission: Admission,
    serving: AtomicBool,
    /// The cluster has this node no more.
    forgotten: AtomicBool,
    /// Whether an operator lets the node listen.
    listening: AtomicBool,
}

impl Accepting {
    /// Open.
    pub(super) fn new(limits: AdmissionLimits) -> Self {
        Self {
            admission: Admission::new(limits),
            serving: AtomicBool::new(true),
            forgotten: AtomicBool::new(false),
            listening: AtomicBool::new(true),
        }
    }

    /// Whether clients are taken.
    pub(super) fn is_serving(&self) -> bool {
        self.serving.load(Ordering::Acquire)
    }

    /// Takes clients, or takes none; which of the two it is now.
    pub(super) fn set_serving(&self, serving: bool) -> bool {
        let serving = serving && !self.is_forgotten();
        self.serving.store(serving, Ordering::Release);
        serving
    }

    /// The cluster has forgotten this node; whether that is new.
    pub(super) fn forget(&self) -> bool {
        !self.forgotten.swap(true, Ordering::AcqRel)
    }

    pub(super) fn is_forgotten(&self) -> bool {
        self.forgotten.load(Ordering::Acquire)
    }

    pub(super) fn is_listening(&self) -> bool {
        self.listening.load(Ordering::Acquire)
    }

    pub(super) fn set_listening(&self, listens: bool) {
        self.listening.store(listens, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_is_forgotten_never_serves_again() {
        let accepting = Accepting::new(AdmissionLimits::default());
        assert!(!accepting.set_serving(false) && accepting.set_serving(true));
        assert!(accepting.forget() && !accepting.forget(), "once");
        assert!(!accepting.set_serving(true) && !accepting.is_serving());
    }
}
