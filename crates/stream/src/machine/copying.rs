//! The follower: its log becomes that of its leader, and grows with it.

use super::replicated::{Following, Replica, Role};
use super::{Effect, Events, Recovered, Stream};
use crate::chunk::{ChunkError, ChunkKind, SharedChunk};
use crate::replica::{Attachment, EpochStart, ReplicaEvent, ReplicaMessage, ends};
use crate::segments::{Segments, stored_bytes};
use crate::tracking::{Tracking, TrackingError};
use bytes::Bytes;
use leveret_types::NodeId;
use leveret_types::limits::STREAM_COPY_BYTES;

/// What a leader says of its log to a follower that attaches.
pub(super) struct Parted {
    pub(super) at: u64,
    pub(super) first_offset: u64,
    pub(super) whole_at: u64,
    pub(super) committed: u64,
    pub(super) epochs: Vec<EpochStart>,
}

/// What a leader sends.
struct Copied {
    from: u64,
    segment: u64,
    first_offset: u64,
    committed: u64,
    chunks: Bytes,
}

/// Why what a leader sends cannot be.
#[derive(Debug, thiserror::Error)]
enum CopyError {
    #[error(transparent)]
    Chunk(#[from] ChunkError),
    #[error(transparent)]
    Tracking(#[from] TrackingError),
    #[error("the chunk with offset {0} came where {1} is the next one")]
    Gap(u64, u64),
    #[error("the chunk with offset {0} is of an epoch that the leader does not know")]
    Epoch(u64),
}

/// How often a replica whose promises are lost asks for an epoch in which it may count, in one run
/// of its process. Where it is not asked to prepare one, as it is no member, it asks in vain.
const EPOCH_REQUESTS_MAX: u8 = 3;

impl Stream {
    fn following(&mut self) -> Option<(&mut Replica, Following)> {
        let replica = self.replica.as_deref_mut()?;
        match replica.role {
            Role::Following(following) => Some((replica, following)),
            _ => None,
        }
    }

    fn set_following(&mut self, following: Following) {
        if let Some(replica) = self.replica.as_deref_mut() {
            replica.role = Role::Following(following);
        }
    }

    /// Attaches to the leader, with what the log has once a cut that is under way is done.
    pub(super) fn attach(&mut self) {
        let next_offset = self.trusted_to();
        let Some((replica, mut following)) = self.following() else {
            return;
        };
        following.is_attached = false;
        following.said = None;
        replica.attachment = Attachment(replica.attachment.0.wrapping_add(1));
        let (attachment, is_cutting) = (replica.attachment, replica.is_cutting);
        let is_fenced = replica.state.fenced.is_some();
        let message = ReplicaMessage::Attach {
            epoch: following.epoch,
            attachment,
            ends: ends(&replica.state.epochs, next_offset),
        };
        self.set_following(following);
        if !is_cutting && !is_fenced {
            self.send(following.leader, message);
        }
    }

    /// Takes an answer of the leader.
    pub(super) fn hear(&mut self, from: NodeId, message: ReplicaMessage, out: &mut Events) {
        let Some((replica, following)) = self.following() else {
            return;
        };
        if following.leader != from || following.epoch != message.epoch() || replica.is_cutting {
            return;
        }
        let current = replica.attachment;
        match message {
            ReplicaMessage::Attached {
                attachment,
                parted_at,
                first_offset,
                whole_at,
                committed,
                epochs,
                ..
            } if attachment == current && !following.is_attached => {
                let parted = Parted {
                    at: parted_at,
                    first_offset,
                    whole_at,
                    committed,
                    epochs,
                };
                match self.fence_against(&parted) {
                    Some(fence) => self.fence(fence, out),
                    None => self.part(following, parted, out),
                }
            }
            ReplicaMessage::Unattached { attachment, .. } if attachment == current => self.attach(),
            ReplicaMessage::Chunks {
                attachment,
                question,
                from: offset,
                segment,
                first_offset,
                committed,
                chunks,
                ..
            } if attachment == current
                && following.is_attached
                && question == following.question =>
            {
                let copied = Copied {
                    from: offset,
                    segment,
                    first_offset,
                    committed,
                    chunks,
                };
                if let Err(error) = self.copy(copied, out) {
                    let reason = error.to_string();
                    self.report(ReplicaEvent::Rejected { from, reason });
                    self.trim_tail();
                }
            }
            _ => {}
        }
    }

    /// Cuts what the leader does not have, or begins anew where it has nothing that follows.
    fn part(&mut self, mut following: Following, parted: Parted, out: &mut Events) {
        let (next_offset, first) = (self.next_offset, self.segments.first_offset());
        let Some(replica) = self.replica.as_deref_mut() else {
            return;
        };
        following.is_attached = true;
        following.question = 0;
        following.whole_at = parted.whole_at;
        following.committed = following.committed.max(parted.committed);
        let is_anew =
            parted.at < parted.first_offset || first.is_none_or(|first| parted.at <= first);
        let kept = if is_anew { 0 } else { parted.at };
        following.begins_at = is_anew.then_some(parted.first_offset);
        replica.role = Role::Following(following);
        let is_empty = first.is_none();
        if is_empty || kept == next_offset && !is_anew {
            // What was damaged is not here any more: what follows is copied behind what is sound.
            let was_damaged = replica.state.damaged.take().is_some();
            let changes = was_damaged || replica.state.epochs != parted.epochs;
            replica.state.epochs = parted.epochs;
            if changes {
                self.save();
            }
            return self.begin_to_copy(out);
        }
        // A full disk has no room for the small file that a cut is noted in, until these are gone.
        while let Some(segment) = self.segments.pop_before(parted.first_offset) {
            let first_offset = segment.first_offset;
            self.effects.push(Effect::DeleteSegment { first_offset });
        }
        // What it has said to have it has no more, if that was anything.
        replica.state.is_whole &= !is_anew || next_offset == first.unwrap_or(0);
        replica.state.cut = Some(kept);
        let before = Effect::Save(Box::new(replica.state.clone()));
        replica.state.cut = None;
        replica.state.epochs = parted.epochs;
        replica.state.damaged = None;
        replica.is_cutting = true;
        let cut = Effect::Cut { next_offset: kept };
        self.effects.extend([before, cut]);
        self.save();
        self.report(ReplicaEvent::Cut {
            next_offset: kept,
            offsets: next_offset.saturating_sub(kept.max(first.unwrap_or(0))),
        });
    }

    /// The log was cut, as [`Effect::Cut`] asked for; this is what is left.
    ///
    /// # Errors
    /// If a chunk's tracking data are malformed: nothing of it is used then.
    pub fn was_cut(&mut self, left: Recovered, out: &mut Events) -> Result<(), TrackingError> {
        let mut tracking = Tracking::default();
        for chunk in &left.newest {
            tracking.replay(chunk)?;
        }
        self.tracking = tracking;
        self.next_offset = left.goes_on_with();
        self.segments = Segments::new(left.segments);
        let last = left.newest.last().map(SharedChunk::header);
        self.timestamp_ms = last.map_or(self.timestamp_ms, |last| last.timestamp_ms);
        self.tracking_schedule.begin_snapshot();
        self.tail.clear();
        self.take_turns(&left.newest);
        let next_offset = self.next_offset;
        self.damage.cut(next_offset);
        if let Some(replica) = self.replica.as_deref_mut() {
            replica.durable = next_offset;
            replica.is_cutting = false;
        }
        match self.following() {
            Some((_, following)) if following.is_attached => self.begin_to_copy(out),
            Some(_) => self.attach(),
            None => {}
        }
        Ok(())
    }

    /// What was found on disk is committed once the leader says so.
    pub(super) fn take_turns(&mut self, newest: &[SharedChunk]) {
        let first = self.segments.first_offset().unwrap_or(self.next_offset);
        self.turns.take_found(first, self.next_offset, newest);
    }

    fn begin_to_copy(&mut self, out: &mut Events) {
        let Some((replica, mut following)) = self.following() else {
            return;
        };
        if let Some(begins_at) = following.begins_at.take() {
            replica.durable = begins_at;
            self.set_following(following);
            self.next_offset = begins_at;
            self.turns.begin_at(begins_at);
        }
        self.fetch();
        self.advance(out);
    }

    fn fetch(&mut self) {
        let from = self.next_offset;
        let Some((replica, mut following)) = self.following() else {
            return;
        };
        following.question += 1;
        let message = ReplicaMessage::Fetch {
            epoch: following.epoch,
            attachment: replica.attachment,
            question: following.question,
            from,
            bytes: STREAM_COPY_BYTES,
        };
        self.set_following(following);
        self.send(following.leader, message);
    }

    /// Takes chunks of the leader, and asks for more before these are durable.
    fn copy(&mut self, copied: Copied, out: &mut Events) -> Result<(), CopyError> {
        if copied.from != self.next_offset {
            return Err(CopyError::Gap(copied.from, self.next_offset));
        }
        let chunks = self.checked(copied.chunks)?;
        for chunk in &chunks {
            self.append_copied(chunk, copied.segment)?;
        }
        if let Some((replica, mut following)) = self.following() {
            replica.has_copied |= !chunks.is_empty();
            following.committed = following.committed.max(copied.committed);
            self.set_following(following);
        }
        while let Some(segment) = self.segments.pop_before(copied.first_offset) {
            let first_offset = segment.first_offset;
            self.effects.push(Effect::DeleteSegment { first_offset });
        }
        self.fetch();
        self.advance(out);
        Ok(())
    }

    /// The chunks of a message, if each is sound and follows the one before.
    fn checked(&mut self, mut bytes: Bytes) -> Result<Vec<SharedChunk>, CopyError> {
        let (mut chunks, mut next) = (Vec::new(), self.next_offset);
        let epoch = self
            .following()
            .map_or(0, |(_, following)| following.epoch.0);
        while !bytes.is_empty() {
            let chunk = SharedChunk::split_from(&mut bytes)?;
            chunk.verify()?;
            let header = chunk.header();
            if header.first_offset != next || header.records == 0 {
                return Err(CopyError::Gap(header.first_offset, next));
            }
            if header.epoch > epoch {
                return Err(CopyError::Epoch(header.first_offset));
            }
            next = header.next_offset();
            chunks.push(chunk);
        }
        // All of it is taken or nothing.
        let mut tracking = Tracking::default();
        chunks.iter().try_for_each(|chunk| tracking.replay(chunk))?;
        Ok(chunks)
    }

    fn append_copied(&mut self, chunk: &SharedChunk, segment: u64) -> Result<(), CopyError> {
        let header = chunk.header();
        let begins = self
            .segments
            .last()
            .is_none_or(|last| header.first_offset == segment && last.first_offset < segment);
        if begins {
            let first_offset = header.first_offset;
            self.segments.begin(first_offset, header.timestamp_ms);
            self.effects.push(Effect::BeginSegment { first_offset });
        }
        self.tracking.replay(chunk)?;
        let is_snapshot = header.kind == ChunkKind::TrackingSnapshot;
        if is_snapshot {
            self.tracking_schedule.begin_snapshot();
        }
        self.segments.append(stored_bytes(header));
        self.tracking_schedule.appended(header.chunk_bytes());
        self.next_offset = header.next_offset();
        self.timestamp_ms = header.timestamp_ms;
        self.turns.copied(self.turns.gathering(), header);
        self.tail.push(chunk.clone());
        self.effects.push(Effect::Append {
            chunk: chunk.clone(),
            is_replay_start: is_snapshot || self.tracking.is_empty(),
        });
        Ok(())
    }

    /// What was copied in this turn; `None` if this stream does not copy.
    pub(super) fn seal_copies(&mut self) -> Option<Option<u64>> {
        let replica = self.replica.as_deref_mut()?;
        if !std::mem::take(&mut replica.has_copied) {
            return match replica.role {
                Role::Leading(_) => None,
                _ => Some(None),
            };
        }
        Some(Some(self.turns.begin_next()))
    }

    /// Tells the leader what is durable here, if that is news.
    pub(super) fn say_durable(&mut self) {
        let Some((replica, mut following)) = self.following() else {
            return;
        };
        if !following.is_attached || replica.is_cutting {
            return;
        }
        let durable = replica.durable;
        let state = &mut replica.state;
        let is_whole = state.is_whole && state.log_epoch == following.epoch;
        let has_all = durable >= following.whole_at;
        if !is_whole && has_all && !state.forgot {
            state.is_whole = true;
            state.log_epoch = following.epoch;
            following.is_becoming_whole = true;
            self.set_following(following);
            self.effects.push(Effect::Sync {
                next_offset: durable,
            });
            self.save();
            return;
        }
        let says = (durable, is_whole && !following.is_becoming_whole);
        if following.said != Some(says) {
            let had_all = following.said.is_some_and(|(d, _)| d >= following.whole_at);
            let has_come = state.forgot && has_all && !had_all;
            let needs_epoch = has_come && replica.epoch_requests < EPOCH_REQUESTS_MAX;
            replica.epoch_requests += u8::from(needs_epoch);
            following.said = Some(says);
            let message = ReplicaMessage::Durable {
                epoch: following.epoch,
                attachment: replica.attachment,
                next_offset: durable,
                is_whole: says.1,
            };
            self.set_following(following);
            self.send(following.leader, message);
            if needs_epoch {
                // It may have promised a newer one than this, in which it must not count.
                let reason = "a replica has lost its disk, and with that what it had promised";
                self.ask_for_election(reason.to_owned());
            }
        }
    }
}
