//! Which segment of a stream was begun last: the name of an empty file beside the segments says so.
//! Without it nobody would miss that segment, for nothing else tells of one but those that follow.
//!
//! Once a stream is idle, the name says as well how far it is synced: its mark. Each record says
//! how far the stream was synced before it; of the last one only the mark tells that it was whole,
//! so that its damage is not taken for the torn end of a write.
//!
//! Invariant: a segment has its name durably before it is named here, and when it goes, one before
//! it is named first. So after a crash none that is named is missing.
//! Invariant: it is named durably before anything in it is said to be synced.
//! Invariant: the mark is gone durably before anything below it is cut.

use crate::disk::Disk;
use crate::error::{Fatal, OpenError};
use crate::stream::files::StreamFiles;
use crate::stream::format::{Newest, newest_file_name};
use crate::stream::recover::RecoveredStream;
use crate::wal::pool::is_full;
use leveret_types::QueueId;
use std::io;
use std::path::PathBuf;

impl<D: Disk> StreamFiles<D> {
    fn newest_path(&self, stream: QueueId, newest: Newest) -> PathBuf {
        let folder = self.files.folder();
        folder.join(newest_file_name(stream, newest))
    }

    /// Names a segment as the stream's newest one, or none. The name is durable with the next sync
    /// of the stream. On a full disk an older one stays named, or none is.
    pub(crate) fn name_newest(
        &mut self,
        stream: QueueId,
        segment: Option<u64>,
    ) -> Result<(), Fatal> {
        let before = self.streams.get(&stream).and_then(|state| state.newest);
        if before.map(|before| before.segment) == segment {
            return Ok(());
        }
        self.note_newest(stream, segment.map(Newest::of))?;
        self.has_new_names = true;
        Ok(())
    }

    /// Notes how far a stream is synced. The note outlives the process, and the system once that
    /// has written the folder, which it does by itself: nobody waits for it. On a full disk there
    /// is none.
    ///
    /// # Errors
    /// Must end the process.
    pub fn mark_durable(&mut self, stream: QueueId) -> Result<(), Fatal> {
        let Some(state) = self.streams.get(&stream) else {
            return Ok(());
        };
        let last = state.last.map(|last| last.head.first_offset);
        let mark = Newest {
            segment: last.unwrap_or_default(),
            durable: Some(state.durable),
        };
        let is_news = |newest: Newest| last == Some(newest.segment) && newest < mark;
        match state.newest.is_some_and(is_news) && state.durable > mark.segment {
            true => self.note_newest(stream, Some(mark)),
            false => Ok(()),
        }
    }

    /// The mark of the stream's last segment, if there is one.
    pub(crate) fn mark(&self, stream: QueueId, segment: u64) -> Option<u64> {
        let newest = self.streams.get(&stream)?.newest?;
        newest.durable.filter(|_| newest.segment == segment)
    }

    /// All from an offset on is about to be cut: no segment of it is named, and no mark is beyond.
    pub(crate) fn name_left_by_cut(
        &mut self,
        stream: QueueId,
        next_offset: u64,
    ) -> Result<(), Fatal> {
        let Some(state) = self.streams.get(&stream) else {
            return Ok(());
        };
        let Some(newest) = state.newest else {
            return Ok(());
        };
        let left = match newest.segment < next_offset {
            true if newest.durable.is_none_or(|durable| durable <= next_offset) => return Ok(()),
            true => Some(newest.segment),
            false => {
                let mut left = state.segments.iter();
                left.rfind(|segment| **segment < next_offset).copied()
            }
        };
        self.note_newest(stream, left.map(Newest::of))?;
        self.has_new_names = true;
        self.sync_names()
    }

    fn note_newest(&mut self, stream: QueueId, newest: Option<Newest>) -> Result<(), Fatal> {
        let before = self.streams.get(&stream).and_then(|state| state.newest);
        let disk = self.files.disk();
        let old = before.map(|before| self.newest_path(stream, before));
        let new = newest.map(|newest| self.newest_path(stream, newest));
        let delete = || match old.as_ref().map(|old| disk.delete(old)) {
            Some(Err(error)) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        };
        let renamed = match (&old, &new) {
            (Some(old), Some(new)) => match disk.rename(old, new) {
                // An operator may have let the stream go on without what is missing.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    disk.create_new(new).map(drop)
                }
                renamed => renamed,
            },
            (None, Some(new)) => disk.create_new(new).map(drop),
            (_, None) => delete(),
        };
        let named = match renamed {
            Ok(()) => Ok(newest),
            Err(error) if is_full(&error) && before < newest => Ok(before),
            Err(error) if is_full(&error) => delete().map(|()| None),
            Err(error) => Err(error),
        };
        let path = || new.clone().or_else(|| old.clone()).unwrap_or_default();
        let named = named.map_err(|error| Fatal::new("name", &path(), error))?;
        self.streams.entry(stream).or_default().newest = named;
        Ok(())
    }

    /// A segment goes that may be named as the newest one: one before it is, durably. That was
    /// synced when the segment began.
    pub(crate) fn unname_newest(&mut self, stream: QueueId, segment: u64) -> Result<(), Fatal> {
        let Some(state) = self.streams.get(&stream) else {
            return Ok(());
        };
        if state.newest.map(|newest| newest.segment) != Some(segment) {
            return Ok(());
        }
        let before = state.segments.iter().rfind(|other| **other < segment);
        let before = before.map(|before| Newest {
            segment: *before,
            durable: Some(segment),
        });
        self.note_newest(stream, before)?;
        self.has_new_names = true;
        self.sync_names()
    }

    /// The stream has all that it should have: what is named behind its end is not missed any
    /// more.
    ///
    /// # Errors
    /// Must end the process.
    pub fn miss_nothing(&mut self, stream: QueueId) -> Result<(), Fatal> {
        let named = self.streams.get(&stream).and_then(|state| state.newest);
        let named = named.map(|newest| newest.segment);
        let last = self.last_segment(stream);
        match named > last {
            true => self.name_newest(stream, last),
            false => Ok(()),
        }
    }

    /// The segment that was begun last, where it is not there. Streams of earlier versions of
    /// Leveret name none.
    pub(crate) fn missing_segment(&self, stream: QueueId) -> Option<u64> {
        let state = self.streams.get(&stream)?;
        let newest = state.newest.map(|newest| newest.segment);
        let is_there = newest <= state.segments.last().copied();
        newest.filter(|_| !is_there)
    }

    /// That the newest segment is missing, of a stream that nobody else has.
    pub(crate) fn no_segment(&self, stream: QueueId, missing: u64) -> OpenError {
        let named = self.streams.get(&stream).and_then(|state| state.newest);
        OpenError::NoSegment {
            missing: self.files.path((stream, missing)),
            named_by: self.newest_path(stream, named.unwrap_or(Newest::of(missing))),
        }
    }

    /// That nobody can read this segment, the last one of a stream that nobody else has.
    pub(crate) fn damaged_segment(&self, stream: QueueId, segment: u64) -> OpenError {
        let named = self.streams.get(&stream).and_then(|state| state.newest);
        let named = named.filter(|newest| newest.segment == segment);
        OpenError::DamagedSegment {
            damaged: self.files.path((stream, segment)),
            named_by: named.map(|newest| self.newest_path(stream, newest)),
        }
    }

    /// Notes what a replica without its newest segment lacks.
    pub(crate) fn note_missing(
        &mut self,
        stream: QueueId,
        missing: u64,
        out: &mut RecoveredStream,
    ) {
        let state = self.streams.get(&stream);
        let state = state.filter(|state| !state.segments.is_empty());
        let from = state.map_or(0, |state| state.next_offset);
        out.note_damage(from);
        out.damage.push(format!(
            "{} is missing, the newest file of its messages: what was confirmed from offset {from} \
             on is not here, and is copied from another replica if one has it",
            self.files.path((stream, missing)).display()
        ));
    }
}
