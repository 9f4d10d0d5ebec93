//! The entries of a shard on their way into segments, and those that are there.

use crate::id::Generation;
use leveret_types::LogId;

/// Flushes, page-outs and compactions that are under way.
#[derive(Debug, Default)]
pub(crate) struct Work {
    /// Number of the last one that was begun.
    epoch: u64,
    outstanding: u32,
    /// Logs that were truncated while these were under way.
    truncated: Vec<LogId>,
    /// Whether a page-out is.
    pub(crate) is_paging: bool,
}

impl Work {
    /// Begins one more; gives its number.
    pub(crate) const fn begin(&mut self) -> u64 {
        self.epoch += 1;
        self.outstanding += 1;
        self.epoch
    }

    /// One is over. Gives the logs whose truncations concern none any more.
    pub(crate) fn end(&mut self) -> Vec<LogId> {
        self.outstanding -= 1;
        match self.outstanding {
            0 => std::mem::take(&mut self.truncated),
            _ => Vec::new(),
        }
    }

    /// A log is truncated: gives the number of the last work that may hold what is gone.
    pub(crate) fn truncate(&mut self, log: LogId) -> Option<u64> {
        if self.outstanding == 0 {
            return None;
        }
        self.truncated.push(log);
        Some(self.epoch)
    }
}

/// What is in segments.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Flushed {
    /// Bodies before this one are.
    pub(crate) body: u64,
    /// Files of the write-ahead log through this one hold nothing that is not.
    pub(crate) through: Generation,
}

/// Logs with runs of durable bodies, each once.
#[derive(Debug, Default)]
pub(crate) struct LogsWithRuns {
    ids: Vec<LogId>,
    listed: hashbrown::HashSet<LogId, foldhash::fast::FixedState>,
}

impl LogsWithRuns {
    /// These logs, each of which is given once.
    pub(crate) fn new(ids: Vec<LogId>) -> Self {
        let listed = ids.iter().copied().collect();
        Self { ids, listed }
    }

    /// A log has some now.
    pub(crate) fn add(&mut self, id: LogId) {
        if self.listed.insert(id) {
            self.ids.push(id);
        }
    }

    pub(crate) fn iter(&self) -> std::slice::Iter<'_, LogId> {
        self.ids.iter()
    }

    /// Takes out those that have none any more.
    pub(crate) fn retain(&mut self, mut has_runs: impl FnMut(LogId) -> bool) {
        let listed = &mut self.listed;
        self.ids.retain(|id| {
            let keep = has_runs(*id);
            if !keep {
                listed.remove(id);
            }
            keep
        });
    }
}
