//! Counts of a shard, of its logs and of the segment files that their entries lie in.
//! Apart because nothing here changes what a log holds.

use super::ShardLogs;
use crate::loaded::Key;
use crate::log::{Block, Freed};
use crate::segment::format::REFERENCE_DISK_BYTES;
use leveret_types::LogId;
use std::collections::BTreeMap;

/// Counts of one log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogStats {
    /// Entries appended and not settled.
    pub entries: u64,
    /// What they count for, as given to [`ShardLogs::append`].
    pub bytes: u64,
    /// Index that the next entry will have.
    pub next_index: u64,
    /// Entries that lie in segment files.
    pub segment_entries: u64,
    /// Bytes that these take on disk, roughly.
    pub segment_bytes: u64,
}

/// Counts of a shard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShardStats {
    /// Logs.
    pub logs: usize,
    /// Bytes of memory in which the logs note where their entries lie.
    pub index_bytes: usize,
    /// Bytes of chunks that are cached, unwritten ones included.
    pub cached_bytes: usize,
    /// Bytes read back from disk, or being read.
    pub loaded_bytes: usize,
    /// Segment files.
    pub segment_files: usize,
    /// Their bytes.
    pub segment_bytes: u64,
    /// Of these, bytes of entries that live.
    pub segment_live_bytes: u64,
}

/// A segment file as its shard counts it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FileState {
    pub(crate) bytes: u64,
    pub(crate) live: u64,
    pub(crate) live_bytes: u64,
    /// What lived when it was looked at last.
    seen_live: Option<u64>,
    /// Whether a compaction under way reads it.
    pub(crate) compacting: bool,
    /// Whether it was written with blocks that several logs share.
    pub(crate) has_shared: bool,
    /// Whether it lies where earlier versions of Leveret do not look.
    pub(crate) is_own: bool,
    /// These blocks, by their offsets.
    shared: BTreeMap<u32, SharedState>,
}

/// A shared block as its file counts it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct SharedState {
    /// Entries of all logs that live.
    live: u64,
    len: u32,
    /// Bodies, as far as references tell.
    bodies: u32,
}

impl SharedState {
    /// Bytes of bodies that live, roughly: as if few entries that are left had no body in common.
    fn live_bytes(&self) -> u64 {
        let bodies = u64::from(self.bodies.max(1));
        u64::from(self.len) * self.live.min(bodies) / bodies
    }
}

impl FileState {
    /// A file of so many bytes, of which no block is known yet; whether it is in a folder of its
    /// own, that of the logs which are not placed apart.
    pub(crate) fn new(bytes: u64, is_own: bool) -> Self {
        Self {
            bytes,
            is_own,
            ..Self::default()
        }
    }

    /// Counts a block, of which so many entries live.
    pub(crate) fn add(&mut self, block: &Block, live: u32) {
        self.live += u64::from(live);
        self.has_shared |= block.shared_from.is_some();
        if block.shared_from.is_none() {
            self.live_bytes += block.share(live);
        } else {
            // What is settled tells of the block's bodies as well.
            let shared = self.shared.entry(block.offset).or_default();
            let before = shared.live_bytes();
            let end = block.shared_from.unwrap_or(0).saturating_add(block.count);
            shared.len = block.len;
            shared.bodies = shared.bodies.max(end);
            shared.live += u64::from(live);
            self.live_bytes = (self.live_bytes + shared.live_bytes()).saturating_sub(before);
            if live > 0 {
                self.live_bytes += REFERENCE_DISK_BYTES;
            }
        }
    }

    /// Counts what was freed. Says whether nobody needs the block any more.
    fn free(&mut self, freed: &Freed) -> bool {
        let entries = u64::from(freed.entries);
        assert!(
            entries <= self.live,
            "{entries} settled of {} in a file",
            self.live
        );
        self.live -= entries;
        if !freed.is_shared {
            self.live_bytes = self.live_bytes.saturating_sub(freed.bytes);
            return freed.is_dead;
        }
        let Some(shared) = self.shared.get_mut(&freed.offset) else {
            return false;
        };
        let before = shared.live_bytes();
        shared.live = shared.live.saturating_sub(entries);
        let mut gone = before - shared.live_bytes();
        if freed.is_dead {
            gone += REFERENCE_DISK_BYTES;
        }
        self.live_bytes = self.live_bytes.saturating_sub(gone);
        if shared.live > 0 {
            return false;
        }
        self.shared.remove(&freed.offset);
        true
    }

    /// Counts it as dead: what lived in it was copied.
    pub(crate) fn end(&mut self) {
        (self.live, self.live_bytes) = (0, 0);
        self.shared.clear();
    }

    /// Whether nothing went since this was asked last.
    pub(crate) fn was_quiet(&mut self) -> bool {
        self.seen_live.replace(self.live) == Some(self.live)
    }

    /// Whether less than half of it lives.
    pub(crate) fn is_mostly_dead(&self) -> bool {
        self.live_bytes * 2 < self.bytes
    }

    /// Whether it holds anything that lives, and no compaction under way reads it.
    pub(crate) fn may_be_merged(&self) -> bool {
        self.live > 0 && !self.compacting
    }
}

impl ShardLogs {
    /// Counts of a log.
    #[must_use]
    pub fn log_stats(&self, id: LogId) -> Option<LogStats> {
        let log = self.logs.get(&id)?;
        let blocks = log.durable.blocks.iter().chain(&log.volatile.blocks);
        let (segment_entries, segment_bytes) = blocks.fold((0, 0), |(entries, bytes), block| {
            (
                entries + u64::from(block.live),
                bytes + block.share(block.live),
            )
        });
        Some(LogStats {
            entries: log.durable.live.len() + log.volatile.live.len(),
            bytes: log.durable.live_bytes + log.volatile.live_bytes,
            next_index: log.next_index,
            segment_entries,
            segment_bytes,
        })
    }

    /// Counts of the shard.
    #[must_use]
    pub fn stats(&self) -> ShardStats {
        let files = || self.files.values();
        ShardStats {
            logs: self.logs.len(),
            index_bytes: self.logs.values().map(|log| log.memory_bytes()).sum(),
            cached_bytes: self.chunks.cached_bytes
                + self.volatile.chunks.cached_bytes
                + self.builder.bytes()
                + self.volatile.builder.bytes(),
            loaded_bytes: self.loaded.bytes(),
            segment_files: self.files.len(),
            segment_bytes: files().map(|f| f.bytes).sum(),
            segment_live_bytes: files().map(|f| f.live_bytes).sum(),
        }
    }

    /// Counts what was freed against the files that it lay in.
    pub(crate) fn account_freed(&mut self) {
        for freed in self.freed.drain(..) {
            let Some(file) = self.files.get_mut(&freed.file) else {
                panic!("segment file {} is not known", freed.file);
            };
            if file.free(&freed) {
                let Freed { file, offset, .. } = freed;
                self.loaded.forget(Key::Block { file, offset });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A block of `live` entries that other logs have, too.
    fn shared(offset: u32, live: u32) -> Block {
        Block {
            first_index: 0,
            last_index: u64::from(live) - 1,
            file: 1,
            offset,
            len: 9_000,
            count: live,
            live,
            shared_from: Some(0),
        }
    }

    fn freed(offset: u32, entries: u32, is_dead: bool) -> Freed {
        Freed {
            file: 1,
            entries,
            bytes: 0,
            offset,
            is_shared: true,
            is_dead,
        }
    }

    /// A large file outlives most of its blocks: what is noted of each must not.
    #[test]
    fn a_file_forgets_a_shared_block_with_the_last_entry_of_the_last_log() {
        let mut file = FileState::new(1_000_000, false);
        file.add(&shared(20_000, 3), 3);
        let alone = file.clone();
        for _ in 0..2 {
            file.add(&shared(32, 5), 5);
        }
        assert!(!file.free(&freed(32, 4, false)));
        assert!(!file.free(&freed(32, 1, true)), "another log needs it");
        assert!(!file.free(&freed(32, 4, false)));
        assert!(file.shared.contains_key(&32));
        assert!(file.free(&freed(32, 1, true)), "nobody needs it");
        assert_eq!(file, alone);
        assert!(file.free(&freed(20_000, 3, true)));
        assert_eq!((file.live, file.live_bytes, file.shared.len()), (0, 0, 0));
    }
}
