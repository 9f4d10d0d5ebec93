//! Streams that wait for a sync at the same time are synced together, where each waits for little.

use crate::disk::{Disk, DiskFile, read_exact, write_zeros};
use crate::error::{Fatal, WalError};
use crate::stream::files::{StreamFiles, StreamSync};
use crate::stream::format::{RECORD_KNOWN_BYTES, RECORDS_START};
use crate::stream::journal::{Part, Written};
use crate::stream::open::Name;
use crate::stream::read::SegmentReader;
use crate::wal::pool::is_full;
use leveret_types::QueueId;
use leveret_types::limits::{
    STREAM_JOURNAL_BATCH_BYTES_MAX, STREAM_JOURNAL_PART_BYTES_MAX, STREAM_JOURNAL_SYNCS_MAX,
};
use std::io::{self, IoSlice};
use std::ops::Range;

/// Bytes that are written over at once where there is next to no room: a block of most file
/// systems.
const ROOM_BYTES: u64 = 4_096;

/// Writes the records from a position on as they are, and from the file's beginning also its head.
/// Ends before bytes that are not read back as they were found: those stay as they are.
fn rewrite(file: &impl DiskFile, name: Name, end: u64, from: u64) -> io::Result<()> {
    let Ok(reader) = SegmentReader::open(file, name, Some(end))? else {
        return Ok(());
    };
    let mut at = from;
    if at < RECORDS_START {
        file.write_at(&[IoSlice::new(&reader.head.encode())], 0)?;
        at = RECORDS_START;
    }
    while let Some(record) = reader.record_at(at)? {
        // Bounded by the largest chunk.
        let bytes = read_exact(file, at, record.bytes() as usize)?;
        if !record.has_body(&bytes[RECORD_KNOWN_BYTES..]) {
            break;
        }
        file.write_at(&[IoSlice::new(&bytes)], at)?;
        at += record.stride();
    }
    Ok(())
}

impl<D: Disk> StreamFiles<D> {
    /// Bounds each file of the journal, instead of `STREAM_JOURNAL_BYTES`.
    #[must_use]
    pub fn with_journal_bytes_max(mut self, bytes_max: u64) -> Self {
        self.journal.set_bytes_max(bytes_max);
        self
    }

    /// What a start found damaged in the journal, in words for an operator; once.
    #[must_use]
    pub fn take_journal_damage(&mut self) -> Vec<String> {
        std::mem::take(&mut self.journal_damage)
    }

    /// Makes all that was appended to these streams durable. Where several of them have a little
    /// that is not, that is one sync for all of these, and their bytes are written twice; each
    /// other one is synced in its segment.
    ///
    /// # Errors
    /// Must end the process.
    pub fn sync_together(&mut self, streams: &[QueueId]) -> Result<(), Fatal> {
        self.files.check()?;
        let mut small = Vec::new();
        for &stream in streams {
            match self.unsynced_bytes(stream) {
                0 => {}
                1..=STREAM_JOURNAL_PART_BYTES_MAX => small.push(stream),
                _ => self.sync(stream)?,
            }
        }
        if small.len() > 1 {
            self.sync_names()?;
            self.write_journal(&small)?;
        }
        // What did not go to the journal.
        small
            .into_iter()
            .try_for_each(|stream| self.make_durable(stream))
    }

    /// Makes all that was appended to a stream durable, if it is not.
    ///
    /// # Errors
    /// Must end the process.
    pub fn make_durable(&mut self, stream: QueueId) -> Result<(), Fatal> {
        match self.unsynced_bytes(stream) {
            0 => Ok(()),
            _ => self.sync(stream),
        }
    }

    /// Writes once more what a start has found of a stream beyond the mark up to which it was
    /// synced, and syncs it. If the process before ended because a sync failed, the kernel has
    /// these bytes and takes them for written: no sync would bring them to the disk.
    ///
    /// # Errors
    /// Must end the process.
    pub fn write_tail_again(&mut self, stream: QueueId) -> Result<(), Fatal> {
        let state = self.streams.get(&stream);
        let Some((last, from)) = state.and_then(|state| Some((state.last?, state.unsure_from)))
        else {
            return Ok(());
        };
        let name = (stream, last.head.first_offset);
        let file = self.files.get(name);
        match file.and_then(|file| rewrite(&*file, name, last.end, from)) {
            Ok(()) => {}
            // A file system that writes elsewhere has no room: nothing is worse than before.
            Err(error) if is_full(&error) => return Ok(()),
            Err(error) => return Err(self.files.fatal("write", name, error)),
        }
        self.files.set_dirty(name);
        self.sync(stream)
    }

    /// Syncs of segments whose streams the journal has, so that its files can be used again: for
    /// whoever has the time for them, and then calls [`Self::synced`].
    ///
    /// # Errors
    /// Must end the process.
    pub fn begin_journal_syncs(&mut self) -> Result<Vec<StreamSync<D>>, Fatal> {
        let room = STREAM_JOURNAL_SYNCS_MAX.saturating_sub(self.journal_syncs.len());
        let (generation, unsynced) = self.journal.to_sync();
        let next = unsynced.difference(&self.journal_syncs).take(room);
        let next: Vec<QueueId> = next.copied().collect();
        let mut syncs = Vec::with_capacity(next.len());
        for stream in next {
            match self.sync_of(stream, Some(generation))? {
                Some(sync) => {
                    self.journal_syncs.insert(stream);
                    syncs.push(sync);
                }
                // It has no segment any more.
                None => self.journal.synced(stream),
            }
        }
        Ok(syncs)
    }

    /// Syncs all streams in their segments, notes that, and ends the journal: before an orderly
    /// end.
    ///
    /// # Errors
    /// Must end the process.
    pub fn sync_all(&mut self) -> Result<(), Fatal> {
        let streams: Vec<QueueId> = self.streams.keys().copied().collect();
        for stream in streams {
            self.sync(stream)?;
            self.mark_durable(stream)?;
        }
        self.journal.end()?;
        // A file that came back would be written over what has changed since.
        self.has_new_names = true;
        self.sync_names()
    }

    /// Bytes of a stream's last segment that are not durable.
    fn unsynced_bytes(&self, stream: QueueId) -> u64 {
        let state = self.streams.get(&stream);
        let unsynced = state.filter(|state| state.durable < state.next_offset);
        unsynced
            .and_then(|state| Some(state.last?.end.saturating_sub(state.durable_end)))
            .unwrap_or_default()
    }

    fn write_journal(&mut self, streams: &[QueueId]) -> Result<(), Fatal> {
        let (mut parts, mut bytes) = (Vec::new(), 0);
        for &stream in streams {
            let part = self.unsynced_part(stream)?;
            bytes += part.bytes.len() as u64;
            parts.push(part);
            if bytes >= STREAM_JOURNAL_BATCH_BYTES_MAX {
                self.write_batch(&std::mem::take(&mut parts))?;
                bytes = 0;
            }
        }
        self.write_batch(&parts)
    }

    fn write_batch(&mut self, parts: &[Part]) -> Result<(), Fatal> {
        if parts.len() < 2 {
            return Ok(());
        }
        let mut written = self.journal.write(parts)?;
        if written == Written::Full {
            let (_, unsynced) = self.journal.to_sync();
            let unsynced: Vec<QueueId> = unsynced.iter().copied().collect();
            self.sync_each(&unsynced)?;
            self.journal.turn_over()?;
            written = self.journal.write(parts)?;
        }
        if written == Written::Durable {
            for part in parts {
                if let Some(state) = self.streams.get_mut(&part.stream) {
                    state.durable = state.next_offset;
                    state.durable_end = part.position + part.bytes.len() as u64;
                }
            }
        }
        Ok(())
    }

    fn sync_each(&mut self, streams: &[QueueId]) -> Result<(), Fatal> {
        for &stream in streams {
            self.sync(stream)?;
            // One that was deleted has nothing to sync.
            self.journal.synced(stream);
        }
        Ok(())
    }

    /// What of a stream is not durable, as its segment has it.
    fn unsynced_part(&mut self, stream: QueueId) -> Result<Part, Fatal> {
        let state = self.streams.get(&stream);
        let last = state.and_then(|state| Some((state.last?, state.durable_end)));
        let (last, position) = last.expect("a stream with bytes that are not durable");
        let (segment, len) = (last.head.first_offset, last.end - position);
        let file = self.files.get((stream, segment));
        let read = file.and_then(|file| read_exact(&*file, position, len as usize));
        let bytes = read.map_err(|error| self.files.fatal("read", (stream, segment), error))?;
        Ok(Part {
            stream,
            segment,
            position,
            bytes,
        })
    }

    /// A segment is about to be cut, or its name to be given to another: nothing may be written to
    /// it again out of the journal.
    pub(crate) fn forget_journaled(&mut self, stream: QueueId) -> Result<(), Fatal> {
        if !self.journal.mentions(stream) {
            return Ok(());
        }
        let unsynced: Vec<QueueId> = self.journal.unsynced().into_iter().collect();
        self.sync_each(&unsynced)?;
        self.journal.forget()
    }

    /// Writes what the journal had at a start to its place. What was deleted since is left away.
    /// Once more after an error does no harm.
    pub(crate) fn replay(&mut self, parts: &[Part]) -> Result<(), WalError> {
        for part in parts {
            let name = (part.stream, part.segment);
            let written = self
                .files
                .get(name)
                .and_then(|file| file.write_at(&[IoSlice::new(&part.bytes)], part.position));
            match written {
                Ok(()) => self.files.set_dirty(name),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(self.refused("write", name, error)),
            }
        }
        for part in parts {
            let name = (part.stream, part.segment);
            let synced = self.files.sync(name);
            synced.map_err(|error| self.files.fatal("sync", name, error))?;
        }
        Ok(())
    }

    /// Writes zeros to a part of a segment that is cut off. A file system that writes elsewhere
    /// what is written over may have no room for that: then what is kept in reserve gives its own,
    /// and one piece after the other is synced, which has the room of the one before.
    pub(crate) fn write_zeros(&mut self, file: &D::File, part: Range<u64>) -> io::Result<()> {
        match write_zeros(file, part.clone()) {
            Err(error) if is_full(&error) => {}
            written => return written,
        }
        self.journal
            .give_unneeded_room()
            .map_err(io::Error::other)?;
        self.give_reserve();
        let mut at = part.start;
        while at < part.end {
            let end = (at + ROOM_BYTES).min(part.end);
            file.sync_data()?;
            write_zeros(file, at..end)?;
            at = end;
        }
        Ok(())
    }
}
