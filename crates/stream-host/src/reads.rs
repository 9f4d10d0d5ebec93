//! Reads of segments. They are handed out: whoever publishes, or reads what is in memory, waits for
//! none of them, however far behind other readers are.
//!
//! Readers whose sockets take nothing must not fill the memory. Those that hand back what they
//! cannot pass on (see [`leveret_stream::ReaderId::hands_back`]) are read for as far as there is
//! room for blocks, and wait in turn for more.

use crate::{Hosted, StreamHost};
use leveret_storage::{Disk, StreamRead, StreamReadError};
use leveret_stream::{Events, Key, Loaded, Refusal};
use leveret_types::limits::STREAM_READS_MAX;
use leveret_types::{NodeId, QueueId, ReaderMemory};
use std::collections::{BTreeSet, VecDeque};

/// A read that is due: whoever runs the streams does it where it may take its time, and then tells
/// [`StreamHost::was_read`].
#[must_use]
pub struct DueRead<D: Disk> {
    asked: Asked,
    read: StreamRead<D>,
}

/// A [`DueRead`] that was done.
#[derive(Debug)]
pub struct DoneRead {
    asked: Asked,
    loaded: Result<Loaded, StreamReadError>,
}

/// What was asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    stream: QueueId,
    /// Tells apart what runs under one id after another.
    run: u64,
    segment: u64,
    to: Reading,
}

/// For whom is read.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Reading {
    Reader(Key),
    Follower(NodeId),
}

impl Reading {
    /// Whether what is read counts with what readers hold in memory.
    const fn is_counted(self) -> bool {
        match self {
            Self::Reader(key) => key.reader.hands_back(),
            Self::Follower(_) => false,
        }
    }
}

impl<D: Disk> DueRead<D> {
    /// Does it.
    #[must_use]
    pub fn run(self) -> DoneRead {
        DoneRead {
            asked: self.asked,
            loaded: self.read.run(),
        }
    }
}

/// Reads of all streams.
pub(crate) struct Reads<D: Disk> {
    due: Vec<DueRead<D>>,
    /// Those that were handed out, or are to be.
    under_way: u32,
    /// Streams that there was none left for, in that order.
    paused: VecDeque<QueueId>,
    memory: ReaderMemory,
    /// Streams with readers that there was no memory left for, in that order.
    short: VecDeque<QueueId>,
    /// How many of them go on in this turn, before all others, and have not yet.
    resumed: usize,
    /// Streams with readers that have chunks which were read ahead of their credit.
    ahead: BTreeSet<QueueId>,
}

impl<D: Disk> Default for Reads<D> {
    fn default() -> Self {
        Self {
            due: Vec::new(),
            under_way: 0,
            paused: VecDeque::new(),
            memory: ReaderMemory::default(),
            short: VecDeque::new(),
            resumed: 0,
            ahead: BTreeSet::new(),
        }
    }
}

impl<D: Disk> Reads<D> {
    pub(crate) const fn has_room(&self) -> bool {
        self.under_way < STREAM_READS_MAX
    }

    /// Whether a stream that there was no read or no memory left for can go on.
    pub(crate) fn can_resume(&self) -> bool {
        let has_memory = !self.short.is_empty() && self.blocks() > 0;
        self.has_room() && (has_memory || !self.paused.is_empty())
    }

    /// Whether readers wait until sockets have taken what others hold.
    pub(crate) fn is_short(&self) -> bool {
        !self.short.is_empty()
    }

    /// Blocks that may be read for readers now.
    fn blocks(&self) -> usize {
        self.memory.room()
    }

    /// Blocks that may be read for the readers of the stream whose turn it is: where others wait,
    /// not all there is room for.
    pub(crate) fn share(&mut self) -> usize {
        self.resumed = self.resumed.saturating_sub(1);
        self.blocks().div_ceil(self.short.len() + self.resumed + 1)
    }

    /// A stream waits until there is memory for its readers.
    pub(crate) fn wait_for_memory(&mut self, id: QueueId, hosted: &mut Hosted) {
        if !std::mem::replace(&mut hosted.is_short, true) {
            self.short.push_back(id);
        }
    }

    /// A stream waits until there is room for its reads.
    pub(crate) fn pause(&mut self, id: QueueId, hosted: &mut Hosted) {
        if !std::mem::replace(&mut hosted.is_paused, true) {
            self.paused.push_back(id);
        }
    }

    /// A stream is deleted.
    pub(crate) fn forget(&mut self, id: QueueId, hosted: &Hosted) {
        self.ahead.remove(&id);
        if hosted.is_paused {
            self.paused.retain(|paused| *paused != id);
        }
        if hosted.is_short {
            self.short.retain(|short| *short != id);
        }
    }

    pub(crate) fn begin(
        &mut self,
        (stream, hosted): (QueueId, &mut Hosted),
        segment: u64,
        to: Reading,
        read: StreamRead<D>,
    ) {
        self.under_way += 1;
        hosted.reads_under_way += 1;
        let read = match to.is_counted() {
            true => {
                self.memory.begin_read();
                read.counted(self.memory.clone())
            }
            false => read,
        };
        let asked = Asked {
            stream,
            run: hosted.run,
            segment,
            to,
        };
        self.due.push(DueRead { asked, read });
    }
}

impl Hosted {
    /// What was read, or why it could not be.
    pub(crate) fn loaded(
        &mut self,
        segment: u64,
        to: Reading,
        loaded: Result<Loaded, StreamReadError>,
        out: &mut Events,
    ) {
        if matches!(loaded, Err(StreamReadError::Damaged { .. })) {
            self.machine.found_damage(segment);
            self.has_met_damage = true;
        }
        let loaded = loaded.map_err(|error| match error {
            StreamReadError::Damaged { .. } => Refusal::Damaged(error.to_string()),
            StreamReadError::Io { .. } => Refusal::NotAvailable(error.to_string()),
        });
        match to {
            Reading::Reader(key) => self.machine.loaded(key, loaded, out),
            Reading::Follower(to) => self.machine.loaded_for(to, loaded),
        }
    }
}

impl<D: Disk> StreamHost<D> {
    /// Reads that are due. As many are under way at a time as [`STREAM_READS_MAX`] says.
    pub fn take_reads(&mut self) -> Vec<DueRead<D>> {
        std::mem::take(&mut self.reads.due)
    }

    /// A read was done.
    pub fn was_read(&mut self, done: DoneRead, out: &mut Events) {
        let DoneRead { asked, loaded } = done;
        self.reads.under_way -= 1;
        if asked.to.is_counted() {
            self.reads.memory.end_read();
        }
        let hosted = self.streams.get_mut(&asked.stream);
        // Another run under this id has asked for nothing.
        let Some(hosted) = hosted.filter(|hosted| hosted.run == asked.run) else {
            return;
        };
        hosted.reads_under_way -= 1;
        hosted.loaded(asked.segment, asked.to, loaded, out);
        self.touched.insert(asked.stream);
    }

    /// The readers of all connections of the node are counted here, beside others of it.
    #[must_use]
    pub fn with_reader_memory(mut self, memory: ReaderMemory) -> Self {
        self.reads.memory = memory;
        self
    }

    /// Whether readers wait until sockets have taken what others hold, which nobody tells the
    /// streams: then a turn is to be ended now and then.
    #[must_use]
    pub fn waits_for_memory(&self) -> bool {
        self.reads.is_short()
    }

    /// Notes whether the readers of these streams have chunks that were read ahead; where much is
    /// held, nobody keeps such ones.
    pub(crate) fn bound_ahead(&mut self, touched: &BTreeSet<QueueId>) {
        for id in touched {
            let hosted = self.streams.get(id);
            match hosted.is_some_and(|hosted| hosted.machine.holds_ahead()) {
                true => self.reads.ahead.insert(*id),
                false => self.reads.ahead.remove(id),
            };
        }
        if self.reads.memory.is_crowded() {
            for id in std::mem::take(&mut self.reads.ahead) {
                if let Some(hosted) = self.streams.get_mut(&id) {
                    hosted.machine.release_ahead();
                }
            }
        }
    }

    /// The streams whose turn it is to read: as many as there is room for, those first that have
    /// waited longest.
    pub(crate) fn resume_reads(&mut self) -> Vec<QueueId> {
        let reads = &mut self.reads;
        let room = STREAM_READS_MAX.saturating_sub(reads.under_way) as usize;
        let count = room.min(reads.paused.len());
        let blocks = room.min(reads.blocks()).min(reads.short.len());
        let mut resumed: Vec<QueueId> = reads.short.drain(..blocks).collect();
        reads.resumed = resumed.len();
        for id in &resumed {
            if let Some(hosted) = self.streams.get_mut(id) {
                hosted.is_short = false;
            }
        }
        for id in reads.paused.drain(..count) {
            if let Some(hosted) = self.streams.get_mut(&id) {
                hosted.is_paused = false;
            }
            if !resumed.contains(&id) {
                resumed.push(id);
            }
        }
        resumed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use leveret_storage::{MemoryDisk, StreamFiles};
    use leveret_stream::StreamSettings;
    use std::path::Path;

    const STREAM: QueueId = QueueId(7);

    #[test]
    fn nothing_is_kept_of_the_reads_of_a_stream_that_is_deleted() {
        let files = StreamFiles::open(MemoryDisk::new(), Path::new("streams"), 9).unwrap();
        let mut host = StreamHost::new(files);
        host.begin(STREAM, StreamSettings::default()).unwrap();
        let hosted = host.streams.get_mut(&STREAM).unwrap();
        host.reads.wait_for_memory(STREAM, hosted);
        host.reads.pause(STREAM, hosted);
        host.reads.ahead.insert(STREAM);
        host.delete(STREAM, &mut Events::new()).unwrap();
        assert!(host.reads.ahead.is_empty());
        assert!(!host.reads.is_short());
        assert!(!host.reads.can_resume());
    }
}
