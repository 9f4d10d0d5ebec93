//! A login that is not decided yet.

use leveret_auth::Mechanism;
use leveret_client::Reply;
use leveret_types::Now;
use std::sync::Arc;

/// A login whose password is being checked elsewhere.
#[derive(Debug)]
pub(super) struct Checking {
    pub(super) user: String,
    pub(super) mechanism: Mechanism,
    /// What [`crate::env::LoginFrom::wanted`] points to.
    pub(super) _wanted: Arc<()>,
}

/// What a login waits for.
#[derive(Debug, Default)]
pub(super) struct PendingLogin {
    /// The password that is being checked elsewhere.
    pub(super) checking: Option<Checking>,
    /// The answer to a failed login, held until a time on the monotonic clock.
    delayed: Option<(u64, Reply)>,
}

impl PendingLogin {
    /// Holds the answer to a failed login until this time, in monotonic milliseconds.
    pub(super) fn delay(&mut self, until_ms: u64, reply: Reply) {
        self.delayed = Some((until_ms, reply));
    }

    /// The answer whose time has come.
    pub(super) fn take_due(&mut self, now: Now) -> Option<Reply> {
        let is_due = |(at, _): &mut (u64, Reply)| *at <= now.monotonic_ms;
        self.delayed.take_if(is_due).map(|(_, reply)| reply)
    }

    /// When [`Self::take_due`] gives one.
    pub(super) fn due_ms(&self) -> Option<u64> {
        self.delayed.as_ref().map(|(at, _)| *at)
    }
}
