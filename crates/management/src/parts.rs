//! A list that several nodes have parts of: in which order it is wanted, how much of its beginning,
//! and what each node tells of its part. Who asks puts the parts together, and asks for the rows of
//! what it shows.

use crate::input::Query;
use crate::list_query::{self, Page};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What filters look at. An order by it needs no rows.
const NAME: &str = "name";

/// In which order a list is wanted, and how much of its beginning.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// The field by which; none where the usual order stays.
    pub field: Option<String>,
    /// Whether the last one comes first.
    pub is_reversed: bool,
    /// How many of the first ones are wanted.
    pub first: usize,
}

impl Order {
    /// The usual order of all there are.
    #[must_use]
    pub const fn usual() -> Self {
        Self {
            field: None,
            is_reversed: false,
            first: usize::MAX,
        }
    }

    /// What a query asks for: up to the end of its page, where it asks for one.
    #[must_use]
    pub fn of(query: &Query, page: Option<Page>) -> Self {
        Self {
            field: query.get("sort").map(str::to_owned),
            is_reversed: query.flag("sort_reverse"),
            first: page.map_or(usize::MAX, Page::end),
        }
    }

    /// Whether the things' names say it.
    #[must_use]
    pub fn is_by_name(&self) -> bool {
        self.field.as_deref() == Some(NAME)
    }

    /// The first of these, which come in their usual order, each with what stands in the field;
    /// those of equal fields stay as they are.
    #[must_use]
    pub fn first_of<K>(&self, mut things: Vec<(Value, K)>) -> Vec<(Value, K)> {
        if self.field.is_some() {
            things.sort_by(|a, b| list_query::compare(&a.0, &b.0));
        }
        if self.is_reversed {
            things.reverse();
        }
        things.truncate(self.first);
        things
    }
}

/// What one node has of a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part<K> {
    /// How many things there are.
    pub total: usize,
    /// How many of them the filter let through.
    pub filtered: usize,
    /// The first of these in the order that is asked for, each with what stands in the field.
    pub first: Vec<(Value, K)>,
}

impl<K> Part<K> {
    /// The same with other keys.
    #[must_use]
    pub fn map<T>(self, mut key: impl FnMut(K) -> T) -> Part<T> {
        let first = self.first.into_iter();
        Part {
            total: self.total,
            filtered: self.filtered,
            first: first.map(|(value, of)| (value, key(of))).collect(),
        }
    }
}
