//! Where a look at a stream begins, and what an operator wants to see from there on: also asked of
//! other nodes.

use serde::{Deserialize, Serialize};

/// An offset in a stream, as an operator names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StreamStart {
    /// Its beginning.
    First,
    /// Its end.
    Last,
    /// An offset.
    Offset(u64),
    /// The first message that was published at this time or later, in milliseconds since the Unix
    /// epoch.
    TimestampMs(i64),
}

/// What an operator wants to see of a stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Browse {
    /// Where it begins; from [`StreamStart::Last`] the last messages.
    pub from: StreamStart,
    /// Messages at most.
    pub count: usize,
    /// Filter values of which a message has one; all messages where there are none.
    pub filter: Vec<String>,
    /// Whether messages without a filter value are shown as well.
    pub match_unfiltered: bool,
}
