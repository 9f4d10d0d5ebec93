//! What a list is of, in words that other nodes understand.

use crate::list_query::NameFilter;
use serde::{Deserialize, Serialize};

/// Which queues are listed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueSelection {
    /// The virtual host; all where there is none.
    pub vhost: Option<String>,
    /// The user who sees into some virtual hosts only.
    pub seen_by: Option<String>,
    /// The type.
    pub kind: Option<String>,
    /// What their names must be.
    pub name: Option<NameFilter>,
}
