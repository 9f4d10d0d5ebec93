//! What operators have changed through a node: so many of the newest, and of each who changes
//! little all of it.

use leveret_types::limits::CHANGES_MAX;
use serde_json::Value;
use std::collections::{BTreeMap, VecDeque};

/// What operators have changed through a node.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    /// Newest last.
    changes: VecDeque<Value>,
    /// How many each user has of them: to count them anew for each change takes longer than most
    /// changes do.
    of_users: BTreeMap<String, usize>,
}

impl Changes {
    /// Keeps one more. If there are as many as may be, the oldest of the user who has most gives
    /// way: who changes much hides what others do from nobody.
    pub(crate) fn note(&mut self, change: Value) {
        if self.changes.len() == CHANGES_MAX {
            self.make_room();
        }
        *self
            .of_users
            .entry(user_of(&change).to_owned())
            .or_default() += 1;
        self.changes.push_back(change);
    }

    fn make_room(&mut self) {
        let counts = self.of_users.iter();
        let Some((busiest, _)) = counts.max_by_key(|(_, count)| **count) else {
            return;
        };
        let mut changes = self.changes.iter();
        let oldest = changes.position(|change| user_of(change) == busiest);
        let Some(gone) = self.changes.remove(oldest.unwrap_or_default()) else {
            return;
        };
        let user = user_of(&gone);
        if let Some(count) = self.of_users.get_mut(user) {
            *count -= 1;
            if *count == 0 {
                self.of_users.remove(user);
            }
        }
    }

    /// All that are kept.
    pub(crate) fn newest_first(&self) -> impl Iterator<Item = &Value> {
        self.changes.iter().rev()
    }
}

/// Whose change it is.
fn user_of(change: &Value) -> &str {
    change["user"].as_str().unwrap_or_default()
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

    #[test]
    fn each_user_has_as_many_as_are_counted() {
        let mut changes = Changes::default();
        for number in 0..3 * CHANGES_MAX {
            changes.note(json!({"user": (number % 7 * number % 5).to_string()}));
        }
        changes.note(Value::Null);
        let mut counted: BTreeMap<String, usize> = BTreeMap::new();
        for change in changes.newest_first() {
            *counted.entry(user_of(change).to_owned()).or_default() += 1;
        }
        assert_eq!(changes.of_users, counted);
        assert_eq!(counted.values().sum::<usize>(), CHANGES_MAX);
    }
}
