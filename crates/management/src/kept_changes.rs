//! What operators have changed through a node: so many of the newest, and of each who changes
//! little all of it.

use leveret_types::limits::CHANGES_MAX;
use serde_json::Value;
use std::collections::{HashMap, VecDeque};

/// What operators have changed through a node, newest last.
#[derive(Debug, Default)]
pub(crate) struct Changes(VecDeque<Value>);

impl Changes {
    /// Keeps one more. If there are as many as may be, the oldest of the user who has most gives
    /// way: who changes much hides what others do from nobody.
    pub(crate) fn note(&mut self, change: Value) {
        if self.0.len() == CHANGES_MAX {
            let place = self.busiest().and_then(|user| {
                let mut changes = self.0.iter();
                changes.position(|change| &change["user"] == user)
            });
            self.0.remove(place.unwrap_or_default());
        }
        self.0.push_back(change);
    }

    /// The user of most changes.
    fn busiest(&self) -> Option<&Value> {
        let mut counts: HashMap<Option<&str>, (usize, &Value)> = HashMap::new();
        for change in &self.0 {
            let user = &change["user"];
            counts.entry(user.as_str()).or_insert((0, user)).0 += 1;
        }
        let busiest = counts.into_values().max_by_key(|(count, _)| *count);
        busiest.map(|(_, user)| user)
    }

    /// All that are kept.
    pub(crate) fn newest_first(&self) -> impl Iterator<Item = &Value> {
        self.0.iter().rev()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_newest_changes_are_kept() {
        let mut changes = Changes::default();
        for number in 0..CHANGES_MAX {
            changes.note(number.into());
        }
        let kept = |changes: &Changes| {
            let oldest = changes.newest_first().last().cloned();
            (changes.newest_first().count(), oldest)
        };
        assert_eq!(kept(&changes), (CHANGES_MAX, Some(0.into())));
        changes.note(CHANGES_MAX.into());
        assert_eq!(kept(&changes), (CHANGES_MAX, Some(1.into())));
    }

    #[test]
    fn who_changes_much_puts_out_nothing_of_others() {
        let mut changes = Changes::default();
        changes.note(json!({"user": "quiet", "number": 0}));
        for number in 0..3 * CHANGES_MAX {
            changes.note(json!({"user": "busy", "number": number}));
        }
        let of = |user: &str| {
            let rows = changes.newest_first();
            let rows = rows.filter(|row| row["user"] == user);
            rows.filter_map(|row| row["number"].as_u64())
                .collect::<Vec<_>>()
        };
        assert_eq!(of("quiet"), [0]);
        let last = 3 * CHANGES_MAX as u64;
        let newest: Vec<u64> = (last + 1 - CHANGES_MAX as u64..last).rev().collect();
        assert_eq!(of("busy"), newest);
    }
}
