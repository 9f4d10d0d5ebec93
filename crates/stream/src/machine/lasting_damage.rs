//! Known damage that no replica can mend.

use std::collections::BTreeSet;

/// Where something is damaged that no other replica has: at or behind these offsets, each in a
/// segment of its own. There are no more of them than segments.
#[derive(Debug, Default)]
pub(super) struct Damage(pub(super) BTreeSet<u64>);

impl Damage {
    /// The log ends here now: what was damaged behind it is not here any more.
    pub(super) fn cut(&mut self, next_offset: u64) {
        self.0.retain(|from| *from < next_offset);
    }
}
