//! What somebody asks to be shown as it changes, and who that is: what a reply says of it, without
//! how it is made.

/// Where events are to be had.
pub(crate) const LIVE_PATH: &str = "/api/leveret/live";

/// Paths that somebody wants to be shown as they change.
#[derive(Debug)]
pub struct Wanted {
    /// For whom.
    pub(crate) watcher: Watcher,
    /// Below `/api/`, with their queries.
    pub(crate) paths: Vec<String>,
}

/// Who watches, as they were when they began.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Watcher {
    Operator,
    User {
        name: String,
        tags: Vec<String>,
        /// Another one is another password.
        password_hash: String,
    },
}

impl Watcher {
    /// The user's name; none of the operator's.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Operator => "",
            Self::User { name, .. } => name,
        }
    }
}
