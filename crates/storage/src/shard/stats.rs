//! What is counted of a shard, of its logs and of the segment files that their entries lie in.
//! Apart because nothing here changes what a log holds.

use super::ShardLogs;
use crate::loaded::Key;
use leveret_types::LogId;

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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FileState {
    pub(crate) bytes: u64,
    pub(crate) live: u64,
    pub(crate) live_bytes: u64,
    /// Whether a compaction under way reads it.
    pub(crate) compacting: bool,
}

impl FileState {
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
                + self.volatile_chunks.cached_bytes
                + self.builder.bytes()
                + self.volatile_builder.bytes(),
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
            let entries = u64::from(freed.entries);
            assert!(
                entries <= file.live,
                "{entries} settled of {} in a file",
                file.live
            );
            file.live -= entries;
            file.live_bytes = file.live_bytes.saturating_sub(freed.bytes);
            if let Some(offset) = freed.dead {
                let file = freed.file;
                self.loaded.forget(Key::Block { file, offset });
            }
        }
    }
}
