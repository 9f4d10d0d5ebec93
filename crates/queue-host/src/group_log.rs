//! The log of a Raft group among a shard's logs.
//!
//! ```text
//! entry   a replication::Entry's record, at the entry's index
//! state   what the group's machine writes of itself, with the snapshot's mark
//! ```

use leveret_replication::{Entry, HardState, LogWrite, SnapshotMark};
use leveret_storage::{Durability, Read, ShardLogs};
use leveret_types::LogId;

/// A group's log: where it is.
#[derive(Clone, Copy, Debug)]
pub struct GroupLog(pub LogId);

/// Why a group's log cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("entry {index} of its log cannot be read: {why}")]
pub struct UnreadableEntry {
    pub(crate) index: u64,
    pub(crate) why: String,
}

impl GroupLog {
    /// Writes what a group wants written.
    pub fn write(self, logs: &mut ShardLogs, write: &LogWrite<'_>) {
        if let Some((mark, state)) = write.install {
            logs.truncate(self.0, mark.index + 1);
            self.set_snapshot(logs, mark, state);
        }
        if let Some(hard) = write.hard_state {
            logs.set_term_and_vote(self.0, hard.term, hard.vote);
        }
        if let Some(from) = write.truncate_from {
            logs.truncate(self.0, from);
        }
        for entry in write.append {
            let mut record = Vec::with_capacity(entry.data.len() + 16);
            entry.encode_record(&mut record);
            let body = logs.body(Durability::Durable, &[&record]);
            let index = logs.append(self.0, body, record.len() as u32);
            assert_eq!(
                index, entry.index,
                "a group and its log {:?} disagree",
                self.0
            );
        }
    }

    /// Writes a snapshot in the place of the entries up to its mark.
    pub fn set_snapshot(self, logs: &mut ShardLogs, mark: &SnapshotMark, state: &[u8]) {
        logs.set_snapshot(self.0, mark.index + 1, state);
    }

    /// Term and vote as they were written last.
    pub fn hard_state(self, logs: &ShardLogs) -> HardState {
        let (term, vote) = logs.term_and_vote(self.0).unwrap_or_default();
        HardState { term, vote }
    }

    /// The entries behind the snapshot at `after`. `load` carries out the reads from disk that the
    /// logs ask for.
    ///
    /// # Errors
    /// One of them is missing or damaged.
    pub fn entries(
        self,
        after: u64,
        logs: &mut ShardLogs,
        mut load: impl FnMut(&mut ShardLogs),
    ) -> Result<Vec<Entry>, UnreadableEntry> {
        let end = logs.log_stats(self.0).map_or(0, |stats| stats.next_index);
        let mut entries = Vec::new();
        for index in after + 1..end {
            let fail = |why: String| UnreadableEntry { index, why };
            let record = loop {
                match logs.read(self.0, index) {
                    Read::Ready(record) => break record,
                    Read::Pending => load(logs),
                    Read::Gone => return Err(fail("it is missing".to_owned())),
                    Read::Damaged(why) => return Err(fail(why)),
                }
            };
            let entry = Entry::decode_record(index, &record);
            entries.push(entry.map_err(|error| fail(error.to_string()))?);
        }
        Ok(entries)
    }
}
