//! A list that several nodes have parts of: in which order it is wanted, how much of its beginning,
//! and what each node tells of its part. Who asks puts the parts together, and asks for the rows of
//! what it shows.

use crate::http::input::Query;
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
    /// those of equal fields stay as they are, or are turned round with all others. Only the first
    /// ones are sorted.
    #[must_use]
    pub fn first_of<K>(&self, mut things: Vec<(Value, K)>) -> Vec<(Value, K)> {
        if self.field.is_some() && self.first < things.len() {
            return self.selected(things);
        }
        if self.field.is_some() {
            things.sort_by(|a, b| list_query::compare(&a.0, &b.0));
        }
        if self.is_reversed {
            things.reverse();
        }
        things.truncate(self.first);
        things
    }

    /// The same where not all are wanted.
    fn selected<K>(&self, things: Vec<(Value, K)>) -> Vec<(Value, K)> {
        // Their places tell those of equal fields apart.
        let mut things: Vec<_> = things.into_iter().enumerate().collect();
        let compare = |a: &(usize, (Value, K)), b: &(usize, (Value, K))| {
            let order = list_query::compare(&a.1.0, &b.1.0).then(a.0.cmp(&b.0));
            match self.is_reversed {
                true => order.reverse(),
                false => order,
            }
        };
        things.select_nth_unstable_by(self.first, compare);
        things.truncate(self.first);
        things.sort_unstable_by(compare);
        things.into_iter().map(|(_, thing)| thing).collect()
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

    /// All parts as one. Things of equal fields are in the order of the parts.
    #[must_use]
    pub fn joined(parts: impl IntoIterator<Item = Self>, order: &Order) -> Self {
        let (mut total, mut filtered, mut things) = (0_usize, 0_usize, Vec::new());
        for mut part in parts {
            total = total.saturating_add(part.total);
            filtered = filtered.saturating_add(part.filtered);
            if order.is_reversed {
                part.first.reverse();
            }
            things.append(&mut part.first);
        }
        let first = order.first_of(things);
        Self {
            total,
            filtered,
            first,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(is_reversed: bool, first: usize) -> Order {
        Order {
            field: Some("messages".to_owned()),
            is_reversed,
            first,
        }
    }

    /// The parts of three nodes, of which the first has the even numbers below 20, the others the
    /// rest; each fourth number is as good as another.
    fn parts(order: &Order) -> impl Iterator<Item = Part<u32>> {
        [(0, 2), (1, 4), (3, 4)].into_iter().map(|(from, step)| {
            let things = (from..20).step_by(step);
            let things: Vec<_> = things.map(|n| ((n / 4).into(), n as u32)).collect();
            Part {
                total: things.len() + 1,
                filtered: things.len(),
                first: order.first_of(things),
            }
        })
    }

    #[test]
    fn the_first_of_each_part_are_enough_for_the_first_of_all() {
        for is_reversed in [false, true] {
            let whole = Part::joined(
                parts(&order(is_reversed, usize::MAX)),
                &order(is_reversed, 20),
            );
            assert_eq!((whole.total, whole.filtered), (23, 20));
            for first in 0..=21 {
                let order = order(is_reversed, first);
                let some = Part::joined(parts(&order), &order);
                assert_eq!((some.total, some.filtered), (23, 20));
                assert_eq!(some.first, whole.first[..first.min(20)], "{order:?}");
            }
        }
    }

    #[test]
    fn a_part_arrives_as_it_was_told() {
        let part = parts(&order(true, 3)).next().expect("a part");
        let text = serde_json::to_string(&part).expect("JSON");
        let read: Part<u32> = serde_json::from_str(&text).expect("a part");
        assert_eq!(read, part, "{text}");
    }
}
