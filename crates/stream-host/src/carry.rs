//! What streams ask for is done here.

use crate::Hosted;
use crate::outside::Outside;
use crate::reads::{Reading, Reads};
use leveret_storage::{Disk, Fatal, StreamFiles, WalError};
use leveret_stream::{Effect, Events, Seek};
use leveret_types::limits::STREAM_READER_BYTES;
use leveret_types::{NodeId, QueueId};
use std::collections::vec_deque;

/// How far the effects of a stream were carried out.
#[derive(PartialEq, Eq)]
pub(crate) enum Progress {
    /// What is left waits for reads that are under way, if anything is.
    Done,
    /// The disk is full.
    Stuck,
    /// As many reads as may be are under way.
    Paused,
    /// A sync is left for the turn's second half, which does those of all streams together.
    Syncing,
}

/// What effects of one stream are carried out with.
pub(crate) struct Carrier<'a, D: Disk> {
    pub(crate) files: &'a mut StreamFiles<D>,
    pub(crate) outside: &'a mut Outside,
    pub(crate) reads: &'a mut Reads<D>,
    pub(crate) id: QueueId,
    pub(crate) syncs: Syncs,
}

/// When syncs that a stream asks for are done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Syncs {
    /// Together with those of other streams, once all have written.
    Later,
    /// Where they stand among the effects.
    InPlace,
}

/// What keeps effects from being carried out.
#[derive(Default)]
struct Barriers {
    /// The disk is full: what writes waits, and what comes after a write.
    is_stuck: bool,
    /// The same, also because a cut waits for reads, or a sync is done later.
    is_blocked: bool,
    /// A sync is done later.
    is_syncing: bool,
    /// There is no room for a read.
    is_paused: bool,
    /// There is no memory for what a reader wants read.
    is_short: bool,
    /// Blocks that may be read for readers still.
    blocks: usize,
}

impl<D: Disk> Carrier<'_, D> {
    /// Carries effects out, in order as far as it matters: while the disk is full, reads go on;
    /// while as many reads are under way as may be, writes do.
    pub(crate) fn carry_out(
        &mut self,
        hosted: &mut Hosted,
        out: &mut Events,
    ) -> Result<Progress, Fatal> {
        let mut at = 0;
        let mut barriers = Barriers {
            blocks: self.reads.share(),
            ..Barriers::default()
        };
        while let Some(effect) = hosted.effects.get(at) {
            if self.waits(effect, hosted, at, &mut barriers) {
                at += 1;
                continue;
            }
            let Some(effect) = hosted.effects.remove(at) else {
                break;
            };
            match self.carry(&effect, hosted, out) {
                Ok(()) => {}
                Err(WalError::NoSpace) => {
                    barriers.is_stuck = true;
                    barriers.is_blocked = true;
                    hosted.effects.insert(at, effect);
                    at += 1;
                }
                Err(WalError::Fatal(fatal)) => return Err(fatal),
            }
            hosted.effects.extend(hosted.machine.take_effects());
        }
        if barriers.is_short {
            self.reads.wait_for_memory(self.id, hosted);
        }
        Ok(match barriers {
            Barriers { is_stuck: true, .. } => Progress::Stuck,
            Barriers {
                is_syncing: true, ..
            } => Progress::Syncing,
            Barriers {
                is_paused: true, ..
            } => Progress::Paused,
            _ => Progress::Done,
        })
    }

    /// Takes what the machine says beside the order of effects: reports, while the disk is full.
    pub(crate) fn report(&mut self, hosted: &mut Hosted) {
        for effect in hosted.machine.take_effects() {
            match effect {
                Effect::Report(event) => self.outside.report(self.id, event),
                other => hosted.effects.push_back(other),
            }
        }
    }

    /// Whether an effect cannot be carried out yet, behind those that could not.
    fn waits(&self, effect: &Effect, hosted: &Hosted, at: usize, barriers: &mut Barriers) -> bool {
        match effect {
            Effect::Read { .. } | Effect::ReadFor { .. } if !self.reads.has_room() => {
                barriers.is_paused = true;
                true
            }
            // One that has left meanwhile costs nothing.
            Effect::Read { reader, .. } if !hosted.machine.awaits(*reader) => false,
            Effect::Read { reader, .. } if reader.reader.hands_back() => {
                let has_memory = barriers.blocks > 0;
                barriers.blocks -= usize::from(has_memory);
                barriers.is_short |= !has_memory;
                !has_memory
            }
            Effect::Read { .. } | Effect::ReadFor { .. } => false,
            Effect::DeleteSegment { first_offset } => {
                self.is_wanted(*first_offset, hosted.effects.range(..at))
            }
            Effect::Cut { .. } => {
                barriers.is_blocked |= at > 0 || hosted.reads_under_way > 0;
                barriers.is_blocked
            }
            Effect::Report(_) => false,
            Effect::Sync { .. } => {
                let is_later = self.syncs == Syncs::Later && !barriers.is_blocked;
                barriers.is_syncing |= is_later;
                barriers.is_blocked |= is_later;
                barriers.is_blocked
            }
            Effect::BeginSegment { .. }
            | Effect::Append { .. }
            | Effect::Save(_)
            | Effect::Send { .. }
            | Effect::AnswerPrepare { .. }
            | Effect::Serve { .. } => barriers.is_blocked,
        }
    }

    /// Whether what waits is of this segment, or wants segments to go in their order. Any other
    /// segment may go: that makes room for what waits for room.
    fn is_wanted(&self, segment: u64, mut waiting: vec_deque::Iter<'_, Effect>) -> bool {
        let is_written = self.files.last_segment(self.id) == Some(segment);
        waiting.any(|effect| match effect {
            Effect::BeginSegment { first_offset } => *first_offset == segment,
            Effect::Append { .. } | Effect::Sync { .. } => is_written,
            Effect::Read { segment: of, .. } | Effect::ReadFor { segment: of, .. } => {
                *of == segment
            }
            Effect::DeleteSegment { .. } | Effect::Cut { .. } => true,
            Effect::Save(_)
            | Effect::Send { .. }
            | Effect::AnswerPrepare { .. }
            | Effect::Serve { .. }
            | Effect::Report(_) => false,
        })
    }

    fn carry(
        &mut self,
        effect: &Effect,
        hosted: &mut Hosted,
        out: &mut Events,
    ) -> Result<(), WalError> {
        let id = self.id;
        match effect {
            Effect::BeginSegment { first_offset } => self.files.begin_segment(id, *first_offset)?,
            Effect::Append {
                chunk,
                is_replay_start,
            } => self.files.append(id, chunk, *is_replay_start)?,
            Effect::DeleteSegment { first_offset } => {
                self.files.delete_segment(id, *first_offset)?
            }
            Effect::Read {
                reader,
                segment,
                seek,
                before,
                chunks_max,
            } if hosted.machine.awaits(*reader) => {
                let to = Reading::Reader(*reader);
                self.begin_read(hosted, to, *segment, (*seek, *before, *chunks_max), out);
            }
            Effect::Read { .. } => {}
            Effect::ReadFor {
                to,
                segment,
                seek,
                before,
            } => {
                let to = Reading::Follower(*to);
                self.begin_read(hosted, to, *segment, (*seek, *before, u32::MAX), out);
            }
            Effect::Save(state) => {
                self.files.save_replica_state(id, state)?;
                if state.is_whole {
                    self.files.miss_nothing(id)?;
                }
                hosted.machine.saved(state, out);
            }
            Effect::Sync { next_offset } => {
                self.files.make_durable(id)?;
                hosted.machine.synced(*next_offset);
            }
            Effect::Cut { next_offset } => self.cut(hosted, *next_offset, out)?,
            Effect::Send { to, message } => self.outside.send(*to, id, message.clone()),
            Effect::AnswerPrepare { to, epoch } => hosted.machine.answer_prepare(*to, *epoch),
            Effect::Serve { to } => self.serve(hosted, *to),
            Effect::Report(event) => self.outside.report(id, event.clone()),
        }
        Ok(())
    }

    fn serve(&mut self, hosted: &mut Hosted, to: NodeId) {
        if self.outside.has_room(to) {
            hosted.machine.serve_follower(to);
        } else {
            self.outside.register_waiter(to, self.id);
        }
    }

    fn begin_read(
        &mut self,
        hosted: &mut Hosted,
        to: Reading,
        segment: u64,
        (seek, before, chunks_max): (Seek, u64, u32),
        out: &mut Events,
    ) {
        let files = &mut self.files;
        match files.begin_read(self.id, segment, seek, before, chunks_max) {
            Ok(read) => {
                // A follower asks for no more than a block.
                let read = match to {
                    Reading::Reader(_) => read.with_bytes(STREAM_READER_BYTES),
                    Reading::Follower(_) => read,
                };
                self.reads.begin((self.id, hosted), segment, to, read);
            }
            Err(error) => hosted.loaded(segment, to, Err(error), out),
        }
    }

    fn cut(
        &mut self,
        hosted: &mut Hosted,
        next_offset: u64,
        out: &mut Events,
    ) -> Result<(), Fatal> {
        let found = self.files.cut_and_recover(self.id, next_offset)?;
        let taken = hosted.machine.was_cut(found.recovered, out);
        taken.map_err(|error| self.files.unusable(self.id, error))?;
        if let Some(from) = found.damaged_from {
            hosted.machine.found_damage(from);
        }
        Ok(())
    }
}
