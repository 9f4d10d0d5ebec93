//! What operators have changed through a node: so many of the newest.

use leveret_types::limits::CHANGES_MAX;
use serde_json::Value;
use std::collections::VecDeque;

/// What operators have changed through a node, newest last.
#[derive(Debug, Default)]
pub(crate) struct Changes(VecDeque<Value>);

impl Changes {
    /// Keeps one more; the oldest gives way if there are as many as may be.
    pub(crate) fn note(&mut self, change: Value) {
        if self.0.len() == CHANGES_MAX {
            self.0.pop_front();
        }
        self.0.push_back(change);
    }

    /// All that are kept.
    pub(crate) fn newest_first(&self) -> impl Iterator<Item = &Value> {
        self.0.iter().rev()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
