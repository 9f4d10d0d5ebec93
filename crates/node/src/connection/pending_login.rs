//! A login that is not decided yet.

use leveret_auth::Mechanism;
use leveret_client::Reply;
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
    /// The answer to a failed login, held for a while.
    pub(super) delayed: Option<(u64, Reply)>,
}
