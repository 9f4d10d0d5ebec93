//! The leader sends its followers what they ask for.

use super::replicated::Role;
use super::{Effect, Seek, Stream};
use crate::chunk::SharedChunk;
use crate::host::Refusal;
use crate::reader::Loaded;
use crate::replica::ReplicaMessage;
use crate::replica::leading::{CopyCursor, PendingFetch};
use bytes::{Bytes, BytesMut};
use leveret_types::NodeId;
use leveret_types::limits::STREAM_COPY_BYTES;

impl Stream {
    /// Followers for which there is something are to be served.
    pub(super) fn serve_followers(&mut self) {
        let (next_offset, committed) = (self.next_offset, self.turns.committed.next_offset);
        let first_offset = self.segments.first_offset().unwrap_or(next_offset);
        let replica = self.replica.as_deref_mut();
        if let Some(Role::Leading(leading)) = replica.map(|replica| &mut replica.role) {
            let waiting = leading.take_waiting(first_offset..next_offset, committed);
            let serve = waiting.into_iter().map(|to| Effect::Serve { to });
            self.effects.extend(serve);
        }
    }

    /// Sends a follower what it has asked for, of what was appended until now; out of memory, or
    /// with a read from disk.
    pub fn serve_follower(&mut self, to: NodeId) {
        let Some((pending_fetch, cursor)) = self.fetch_of(to) else {
            return;
        };
        let next_offset = self.next_offset;
        let first = self.segments.first_offset().unwrap_or(next_offset);
        if pending_fetch.from >= next_offset {
            return self.answer_fetch(to, pending_fetch, pending_fetch.from, Bytes::new());
        }
        if pending_fetch.from < first {
            // What it lacks was deleted: it has to begin anew.
            let replica = self.replica.as_deref_mut();
            if let Some(Role::Leading(leading)) = replica.map(|r| &mut r.role)
                && let Some(follower) = leading.follower_of(to)
            {
                let attachment = follower.attachment;
                let epoch = leading.epoch;
                leading.forget(to);
                self.send(to, ReplicaMessage::Unattached { epoch, attachment });
            }
            return;
        }
        let Some(segment) = self.segments.of_offset(pending_fetch.from) else {
            return;
        };
        let before = self.segments.after(segment).unwrap_or(next_offset);
        if let Some(chunks) = self.copy_of_tail(pending_fetch, before) {
            return self.answer_fetch(to, pending_fetch, segment, chunks);
        }
        let seek = match cursor {
            Some(c) if c.next_offset == pending_fetch.from && c.segment == segment => {
                Seek::Position(c.position)
            }
            _ => Seek::Offset(pending_fetch.from),
        };
        let replica = self.replica.as_deref_mut();
        if let Some(Role::Leading(leading)) = replica.map(|replica| &mut replica.role)
            && let Some(follower) = leading.follower_of(to)
        {
            follower.is_served = true;
        }
        self.effects.push(Effect::ReadFor {
            to,
            segment,
            seek,
            before,
        });
    }

    /// The chunks of the tail from an offset on, as they are sent.
    fn copy_of_tail(&self, pending_fetch: PendingFetch, before: u64) -> Option<Bytes> {
        let chunks = self.tail.from(pending_fetch.from)?;
        let chunks = chunks.take_while(|chunk| chunk.header().first_offset < before);
        joined(chunks, pending_fetch.bytes.min(STREAM_COPY_BYTES))
    }

    fn fetch_of(&mut self, to: NodeId) -> Option<(PendingFetch, Option<CopyCursor>)> {
        let replica = self.replica.as_deref_mut()?;
        let Role::Leading(leading) = &mut replica.role else {
            return None;
        };
        let follower = leading.follower_of(to)?;
        follower.is_served = false;
        Some((follower.pending_fetch?, follower.cursor))
    }

    fn answer_fetch(
        &mut self,
        to: NodeId,
        pending_fetch: PendingFetch,
        segment: u64,
        chunks: Bytes,
    ) {
        let committed = self.turns.committed.next_offset;
        let first_offset = self.segments.first_offset().unwrap_or(self.next_offset);
        let replica = self.replica.as_deref_mut();
        let Some(Role::Leading(leading)) = replica.map(|replica| &mut replica.role) else {
            return;
        };
        let epoch = leading.epoch;
        let Some(follower) = leading.follower_of(to) else {
            return;
        };
        follower.pending_fetch = None;
        follower.committed_sent = committed;
        follower.first_sent = first_offset;
        let message = ReplicaMessage::Chunks {
            epoch,
            attachment: follower.attachment,
            question: pending_fetch.question,
            from: pending_fetch.from,
            segment,
            first_offset,
            committed,
            chunks,
        };
        self.send(to, message);
    }

    /// Chunks that a [`Effect::ReadFor`] asked for, or why they cannot be had.
    pub fn loaded_for(&mut self, to: NodeId, loaded: Result<Loaded, Refusal>) {
        let Some((pending_fetch, _)) = self.fetch_of(to) else {
            return;
        };
        let loaded = match loaded {
            Ok(loaded) => loaded,
            Err(refusal) => return self.cannot_serve(to, pending_fetch, &refusal),
        };
        let is_wanted = |chunk: &&SharedChunk| chunk.header().first_offset == pending_fetch.from;
        let chunks = joined(loaded.chunks.iter(), u32::MAX);
        match chunks.filter(|_| loaded.chunks.first().as_ref().is_some_and(is_wanted)) {
            Some(chunks) => {
                let last = loaded
                    .chunks
                    .last()
                    .map(|chunk| chunk.header().next_offset());
                let replica = self.replica.as_deref_mut();
                if let Some(Role::Leading(leading)) = replica.map(|replica| &mut replica.role)
                    && let Some(follower) = leading.follower_of(to)
                {
                    follower.cursor = last.map(|next_offset| CopyCursor {
                        next_offset,
                        segment: loaded.segment,
                        position: loaded.position,
                    });
                }
                self.answer_fetch(to, pending_fetch, loaded.segment, chunks);
            }
            // The segment ends before what it should have.
            None if loaded.chunks.is_empty() && self.is_in(pending_fetch.from, loaded.segment) => {
                self.found_damage(loaded.segment);
                let lost = format!("offset {} is in no segment", pending_fetch.from);
                self.cannot_serve(to, pending_fetch, &Refusal::Damaged(lost));
            }
            // It has asked for something else since, or it is not here any more.
            None => self.serve_followers(),
        }
    }

    fn is_in(&self, offset: u64, segment: u64) -> bool {
        offset < self.next_offset && self.segments.of_offset(offset) == Some(segment)
    }

    /// What a follower has asked for cannot be read: another replica should lead, unless there is
    /// none that could have it. Damage is not read again for each turn.
    fn cannot_serve(&mut self, to: NodeId, pending_fetch: PendingFetch, refusal: &Refusal) {
        let segment = self.segments.of_offset(pending_fetch.from);
        if !segment.is_some_and(|segment| self.is_only_copy(segment)) {
            self.tire(&refusal.to_string());
        }
        let replica = self.replica.as_deref_mut();
        if matches!(refusal, Refusal::Damaged(_))
            && let Some(Role::Leading(leading)) = replica.map(|replica| &mut replica.role)
            && let Some(follower) = leading.follower_of(to)
        {
            follower.stuck_in = segment;
        }
    }
}

/// Chunks one after the other, of about so many bytes; one at least. `None` if there is none.
fn joined<'a>(chunks: impl Iterator<Item = &'a SharedChunk>, bytes_max: u32) -> Option<Bytes> {
    let (mut taken, mut bytes) = (Vec::new(), 0);
    for chunk in chunks {
        bytes += chunk.bytes().len();
        if !taken.is_empty() && bytes > bytes_max as usize {
            break;
        }
        taken.push(chunk.bytes());
    }
    match &taken[..] {
        [] => None,
        [one] => Some((*one).clone()),
        _ => {
            let len = taken.iter().map(|bytes| bytes.len()).sum();
            let mut out = BytesMut::with_capacity(len);
            taken.iter().for_each(|bytes| out.extend_from_slice(bytes));
            Some(out.freeze())
        }
    }
}
