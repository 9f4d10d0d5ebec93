//! Replaces a log by an empty one of the same id.
//!
//! A deletion alone frees the records, not the id: segment files keep blocks until they are merged,
//! and a flush under way may write more. The new log begins with a cut before all of these, as if
//! it had been truncated to nothing. The records are those of any log:
//!
//! ```text
//! Delete | Create | Truncate from 0
//! ```
//!
//! Invariant: they are in one chunk, so that a crash leaves the old log or the new one.

use crate::id::LogKind;
use crate::log::Log;
use crate::record::Record;
use crate::shard::ShardLogs;
use leveret_types::LogId;

impl ShardLogs {
    /// Ends a log with all its entries, its state, its vote and its damage, and begins an empty one
    /// of the same kind under the same id. Nothing happens if there is no such log.
    ///
    /// Nothing tells the two apart from outside: whoever has promised anything on what the old log
    /// held must have let go of that before.
    pub fn renew_log(&mut self, id: LogId) {
        let Some(kind) = self.logs.get(&id).map(|log| log.kind) else {
            return;
        };
        self.delete_log(id);
        self.logs.insert(id, Box::new(Log::new(id, kind)));
        if kind == LogKind::Durable {
            self.record(id, Record::Create, true);
            self.record(id, Record::Truncate { from: 0 }, true);
        }
        self.cut(id, 0);
    }
}
