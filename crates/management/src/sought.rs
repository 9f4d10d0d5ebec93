//! What somebody looks for among the messages of a queue, as a request says it.

use crate::http::input::Query;
use serde::{Deserialize, Serialize};

/// What a message must have, all of it, as the request says it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sought {
    pub(crate) key: Option<String>,
    /// Names, or names with their values behind a colon.
    pub(crate) headers: Vec<String>,
    pub(crate) body: Option<String>,
    /// A JSON pointer, or one with what stands there behind a colon.
    pub(crate) json: Option<String>,
    /// Seconds.
    pub(crate) older_than: Option<String>,
}

impl Sought {
    pub(crate) fn of(query: &Query) -> Self {
        let text = |name| query.get(name).map(str::to_owned);
        Self {
            key: text("key"),
            headers: query.all("header").map(str::to_owned).collect(),
            body: text("body"),
            json: text("json"),
            older_than: text("older_than"),
        }
    }
}
