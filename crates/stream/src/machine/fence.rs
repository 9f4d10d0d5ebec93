//! What a replica knew to be committed is never cut. No election has it cut where replicas keep
//! what they say they have: a leader that lacks it was chosen after others had lost more than the
//! flush level lets them, or by an error. This replica may have the last copy then.

use super::copying::Parted;
use super::{Events, Stream};
use crate::host::Refusal;
use crate::replica::{FENCED, Fence, ReplicaEvent, ends, parting};

impl Stream {
    /// Where the leader's log parts from what was committed, as this replica knows, if it does.
    /// What the leader's retention has passed is not missed.
    pub(super) fn fence_against(&self, parted: &Parted) -> Option<Fence> {
        let state = &self.replica.as_deref()?.state;
        let committed = self.turns.committed.next_offset;
        // Damaged chunks count: the leader must have them.
        let ours = ends(&state.epochs, self.next_offset);
        let theirs = ends(&parted.epochs, parted.whole_at);
        let parts_at = parting(&theirs, &ours);
        let oldest_epoch = parted.epochs.first().map_or(0, |epoch| epoch.first_offset);
        let knows_from = parted.first_offset.max(oldest_epoch);
        // Without its small file it knows of no epochs.
        let can_tell = !ours.is_empty() && !state.forgot && committed > knows_from;
        (can_tell && parts_at < committed).then_some(Fence {
            committed,
            leader_parts_at: Some(parts_at),
        })
    }

    /// Takes no part any more, and keeps what it has.
    pub(super) fn fence(&mut self, fence: Fence, out: &mut Events) {
        let Some(replica) = self.replica.as_deref_mut() else {
            return;
        };
        replica.state.fenced = Some(fence.committed);
        replica.state.is_whole = false;
        replica.is_ready = false;
        self.save();
        self.report(ReplicaEvent::Fenced(fence));
        let refusal = Refusal::NotAvailable(FENCED.to_owned());
        for key in self.readers.keys() {
            self.end_reader(key, refusal.clone(), out);
        }
        self.finding.refuse(&refusal, out);
    }

    /// The offset below which all was committed, of a replica that takes no part as its leader had
    /// not all of that.
    #[must_use]
    pub fn fenced(&self) -> Option<u64> {
        self.replica.as_ref()?.state.fenced
    }
}
