//! Damage on this node's disk: a replica has it mended by another one that has what is damaged;
//! what no other one has stays damaged until retention deletes it, and is asked of nobody again.

use super::replicated::Role;
use super::{ReplicaEvent, Stream};

impl Stream {
    /// The log is damaged on disk at or behind this offset. A follower copies it again from there;
    /// a leader asks for another one, unless there is nobody who could have what is damaged here.
    pub fn found_damage(&mut self, from: u64) {
        if self.is_only_copy(from) {
            return self.keep_damage(from);
        }
        let Some(replica) = self.replica.as_deref_mut() else {
            return;
        };
        if replica.state.damaged.is_some_and(|known| known <= from) {
            return;
        }
        replica.state.damaged = Some(from);
        if matches!(replica.role, Role::Waiting) {
            replica.state.withdraw();
        }
        replica.state.is_whole = false;
        self.save();
        self.report(ReplicaEvent::Damaged { from });
        self.tire("its log is damaged on this node's disk");
        self.attach();
    }

    /// Something is damaged at or behind this offset that nobody else has. It is said once.
    pub fn keep_damage(&mut self, from: u64) {
        let first = self.segments.first_offset().unwrap_or(0);
        self.damage.0.retain(|known| *known >= first);
        if self.damage.0.insert(from) {
            self.report(ReplicaEvent::DamagedForGood { from });
        }
    }

    /// Whether nobody else has what is damaged here at or behind this offset: the stream has no
    /// other replica, or this one was chosen to lead though it had said that it is damaged, which
    /// it is only where no other one has more.
    pub(super) fn is_only_copy(&self, from: u64) -> bool {
        let Some(replica) = self.replica.as_deref() else {
            return true;
        };
        match &replica.role {
            Role::Leading(leading) => {
                let is_alone = leading.members == [replica.me];
                is_alone || leading.damaged_from.is_some_and(|known| known <= from)
            }
            _ => false,
        }
    }

    /// The offsets at or behind which something is damaged that nobody else has, ascending, as far
    /// as their segments are here still.
    pub fn damage_for_good(&self) -> impl Iterator<Item = u64> + '_ {
        let first = self.segments.first_offset().unwrap_or(0);
        self.damage.0.range(first..).copied()
    }

    /// Whether nothing is to be appended to the last segment, as it is damaged for good: readers of
    /// what follows would come to the damage.
    pub(super) fn is_last_segment_damaged(&self) -> bool {
        let last = self.segments.last().map(|last| last.first_offset);
        let has_chunks = |first: &u64| *first < self.next_offset;
        last.filter(has_chunks)
            .is_some_and(|first| self.damage.0.range(first..).next().is_some())
    }

    /// The offset at or behind which this replica's log is not trusted until it has been copied
    /// again.
    #[must_use]
    pub fn damage_to_mend(&self) -> Option<u64> {
        self.replica.as_ref()?.state.damaged
    }

    /// Whether something of it cannot be read here, or all of it as it is fenced.
    #[must_use]
    pub fn is_damaged(&self) -> bool {
        self.damage_to_mend().is_some()
            || self.damage_for_good().next().is_some()
            || self.fenced().is_some()
    }
}
