//! Groups of consumers: what they have stored under their names, as operators see and change it,
//! and which one is active where one at a time is.

use super::{ChunkKind, Events, Stream};
use crate::active::{Member, TooMany, Update};
use crate::host::{Command, Event, Reference, Refusal, SessionId, StoredBy};
use crate::replica::ReplicaRole;
use leveret_types::Now;
use leveret_types::limits::{
    STREAM_GROUP_MEMBERS_MAX, STREAM_GROUPS_MAX, STREAM_GROUPS_PER_SESSION_MAX,
};

/// The offset of a group of consumers: of all that store theirs under one name.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupOffset {
    /// The name.
    pub group: Reference,
    /// The offset that was stored last.
    pub offset: u64,
    /// Offsets per second that it has gone on lately; 0 of one that has stored none since the
    /// stream is led here.
    pub per_second: f64,
}

impl Stream {
    /// Whether offsets are stored here: it is a stream of one node alone, or its leader.
    #[must_use]
    pub fn keeps_offsets(&self) -> bool {
        let role = self.role();
        role.is_none_or(|role| matches!(role, ReplicaRole::Leader { .. }))
    }

    /// What a session says of groups.
    pub(super) fn of_group(
        &mut self,
        now: Now,
        session: SessionId,
        command: Command,
        out: &mut Events,
    ) {
        let mut updates = Vec::new();
        let member = |id| Member { session, id };
        match command {
            Command::JoinGroup {
                request,
                group,
                partition,
                member: id,
                ..
            } => {
                if self.replica.is_none() {
                    // Nothing else tells one run of the process from the next.
                    self.active.begin(now.wall_ms);
                }
                let joined = self
                    .active
                    .join(&group, partition, member(id), &mut updates);
                let result = joined.map_err(|TooMany| {
                    Refusal::Precondition(format!(
                        "a stream has {STREAM_GROUPS_MAX} groups with one active consumer at most, \
                         of {STREAM_GROUP_MEMBERS_MAX} consumers each, and a connection is in \
                         {STREAM_GROUPS_PER_SESSION_MAX} of them"
                    ))
                });
                out.push((session, Event::Joined { request, result }));
            }
            Command::LeaveGroup {
                group, member: id, ..
            } => self.active.leave(&group, member(id), &mut updates),
            Command::SteppedDown {
                group, member: id, ..
            } => self.active.stepped_down(&group, member(id), &mut updates),
            Command::StoreOffset {
                reference,
                offset,
                by,
                ..
            } => match by {
                StoredBy::Member(generation) if !self.active.permits(&reference, generation) => {
                    self.offset_counts.refused += 1;
                }
                StoredBy::Member(generation) => {
                    self.active.stored(&reference, generation);
                    self.store_offset(now, &reference, offset);
                }
                StoredBy::Anyone => self.store_offset(now, &reference, offset),
                StoredBy::Operator => {
                    self.store_offset(now, &reference, offset);
                    // Whoever sets it waits until it is committed: for nothing else.
                    self.end_tracking_chunk(now);
                    self.active.set_offset(&reference, offset, &mut updates);
                }
            },
            _ => {}
        }
        self.tell_activity(now, updates, out);
    }

    /// A session has ended: its groups hear of it.
    pub(super) fn leave_groups(&mut self, now: Now, session: SessionId, out: &mut Events) {
        let mut updates = Vec::new();
        self.active.leave_all(session, &mut updates);
        self.tell_activity(now, updates, out);
    }

    fn tell_activity(&mut self, now: Now, updates: Vec<Update>, out: &mut Events) {
        for (group, offset) in self.active.take_left() {
            self.store_offset(now, &group, offset);
        }
        for update in updates {
            if let Some(offset) = update.set {
                // Before the consumer is told, and asks.
                self.store_offset(now, &update.group, offset);
            }
            let event = Event::Activity {
                stream: self.id,
                member: update.member.id,
                is_active: update.is_active,
                generation: update.generation,
            };
            out.push((update.member.session, event));
        }
    }

    pub(super) fn store_offset(&mut self, now: Now, reference: &Reference, offset: u64) {
        let first = self.segments.first_offset().unwrap_or(0);
        let kept = &self.settings.retention_groups;
        let Some(offset) = self.plausible(reference, offset) else {
            self.offset_counts.refused += 1;
            return;
        };
        let is_one_more = self.tracking.offset(reference).is_none() && self.tracking.is_full();
        if self.tracking.set_offset(reference, offset, first, kept) {
            self.rates.stored(reference, now.monotonic_ms, offset);
            self.tracking_schedule.changed(now);
        } else {
            self.offset_counts.refused += 1;
        }
        // Where those went that stand where messages have been deleted, nobody minds.
        if is_one_more && self.tracking.is_full() {
            self.offset_counts.crowded += 1;
        }
    }

    /// The offset as it is stored. A group that retention waits for has had nothing that is not
    /// there: with an offset beyond the end it would hold nothing of what comes.
    fn plausible(&self, reference: &Reference, offset: u64) -> Option<u64> {
        match self.settings.retention_groups.contains(reference) {
            true => Some(offset.min(self.next_offset.checked_sub(1)?)),
            false => Some(offset),
        }
    }

    /// How often one more consumer's offset came since the stream began here while as many are kept
    /// as may be: each time one that may be in use was forgotten, or the new one was refused.
    #[must_use]
    pub const fn offsets_crowded(&self) -> u64 {
        self.offset_counts.crowded
    }

    /// All groups, by name.
    pub fn groups(&self, now: Now) -> impl Iterator<Item = GroupOffset> + '_ {
        let group = move |(name, offset): (&Reference, u64)| GroupOffset {
            group: name.clone(),
            offset,
            per_second: self.rates.of(name, now.monotonic_ms, offset),
        };
        self.tracking.all_offsets().map(group)
    }

    /// Forgets the offset of a group; false if there is none. All that is kept by name is written
    /// once more, without it, so that neither a start nor a replica finds it again.
    pub fn forget_offset(&mut self, now: Now, group: &Reference) -> bool {
        if !self.tracking.forget_offset(group) {
            return false;
        }
        self.rates.forget(group);
        self.make_room(now, 0);
        self.tracking_schedule.begin_snapshot();
        let body = self.tracking.snapshot();
        self.append_tracking(ChunkKind::TrackingSnapshot, &body);
        true
    }
}
