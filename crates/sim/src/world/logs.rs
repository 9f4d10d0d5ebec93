//! What the shards do: logs come and go, entries are appended, settled, cut and read, in the store
//! and in the model alike. Apart from what the threads behind them do, which never changes a log.

use super::{FAN_OUT_MAX, LOGS_MAX, SHARDS, Stop, World};
use crate::check::{check_read, read};
use crate::model::{Entry, Operation};
use leveret_storage::{BodyId, Durability, LogKind, Read, ShardLogs, SharedBody};
use leveret_types::LogId;

/// A body that may be given to other shards too.
#[derive(Clone, Copy)]
pub(super) struct Handed {
    shared: SharedBody,
    entry: Entry,
    /// Logs that it may be appended to yet.
    left: u64,
}

impl World {
    fn any_shard(&mut self) -> usize {
        self.random.below(u64::from(SHARDS)) as usize
    }

    /// Some log of a shard.
    fn any_log(&mut self, shard: usize) -> Option<LogId> {
        let logs = &self.model.shards[shard].now;
        let at = self.random.below(logs.len().max(1) as u64) as usize;
        logs.keys().nth(at).copied()
    }

    /// Tells the model what was done, with the chunk that it went into.
    fn done(&mut self, shard: usize, log: LogId, operation: Operation) {
        let chunk = self.engine.shards[shard].position();
        self.model.shards[shard].done(chunk, log, operation);
    }

    pub(super) fn create_log(&mut self) {
        let shard = self.any_shard();
        let logs: usize = self.model.shards.iter().map(|s| s.now.len()).sum();
        if logs >= LOGS_MAX {
            return;
        }
        let kind = if self.random.below(6) == 0 {
            LogKind::Volatile
        } else {
            LogKind::Durable
        };
        self.create(shard, kind);
    }

    pub(super) fn create(&mut self, shard: usize, kind: LogKind) {
        self.next_log += 1;
        let id = LogId(self.next_log);
        self.engine.shards[shard].create_log(id, kind);
        self.done(shard, id, Operation::Create(kind));
    }

    pub(super) fn delete_log(&mut self) {
        let shard = self.any_shard();
        let Some(id) = self.any_log(shard) else {
            return;
        };
        if self.replicated && self.random.below(2) == 0 {
            self.engine.shards[shard].renew_log(id);
            self.done(shard, id, Operation::Renew);
            self.covered.renewed_logs += 1;
            return;
        }
        self.engine.shards[shard].delete_log(id);
        self.done(shard, id, Operation::Delete);
        self.covered.deleted_logs += 1;
    }

    pub(super) fn set_state(&mut self) {
        let shard = self.any_shard();
        let Some(id) = self.any_log(shard) else {
            return;
        };
        if self.model.shards[shard].now[&id].kind == LogKind::Volatile {
            return;
        }
        if self.random.below(2) == 0 {
            let blob = self.random.bytes(40);
            self.engine.shards[shard].set_state(id, &blob);
            self.done(shard, id, Operation::State(blob));
        } else {
            let (term, vote) = (self.random.below(9), self.random.below(3));
            self.engine.shards[shard].set_term_and_vote(id, term, vote);
            self.done(shard, id, Operation::Vote(term, vote));
        }
    }

    pub(super) fn truncate(&mut self) {
        let shard = self.any_shard();
        let Some(id) = self.any_log(shard) else {
            return;
        };
        let next = self.model.shards[shard].now[&id].next_index;
        let from = next.saturating_sub(self.random.below(6));
        self.engine.shards[shard].truncate(id, from);
        self.done(shard, id, Operation::Truncate(from));
    }

    pub(super) fn replicate(&mut self) {
        match self.random.below(4) {
            0 | 1 => self.overwrite(),
            2 => self.skip(),
            _ => self.flood(),
        }
    }

    /// What a follower does whose entries were never committed: they give way to others with the
    /// same indexes, and its term may change in the same breath.
    fn overwrite(&mut self) {
        let shard = self.any_shard();
        let Some(id) = self.any_log(shard) else {
            return;
        };
        let log = &self.model.shards[shard].now[&id];
        let (next, kind) = (log.next_index, log.kind);
        // Mostly a few entries; sometimes so many that their bodies are in segments.
        let most = if self.random.below(3) == 0 { next } else { 12 };
        let from = next - self.random.below(next.min(most) + 1);
        if kind == LogKind::Durable && self.random.below(2) == 0 {
            let (term, vote) = (self.random.below(9), self.random.below(3));
            self.engine.shards[shard].set_term_and_vote(id, term, vote);
            self.done(shard, id, Operation::Vote(term, vote));
        }
        let in_segments = |logs: &ShardLogs| logs.log_stats(id).map(|stats| stats.segment_entries);
        let logs = &mut self.engine.shards[shard];
        let before = in_segments(logs);
        logs.truncate(id, from);
        self.covered.deep_truncations += u64::from(in_segments(logs) < before);
        self.done(shard, id, Operation::Truncate(from));
        for _ in 0..self.random.below(12) {
            let volatile = self.random.below(8) == 0;
            let len = self.random.below(2_000) as u32;
            let (entry, body) = self.body(shard, len, volatile);
            self.append_to(shard, id, entry, body);
        }
    }

    /// Leaves indexes out, or lets a state stand for entries: some, or more than there are.
    fn skip(&mut self) {
        let shard = self.any_shard();
        let Some(id) = self.any_log(shard) else {
            return;
        };
        let next = self.model.shards[shard].now[&id].next_index;
        let index = match self.random.below(4) {
            0 => self.random.below(next + 1),
            1 => next + (self.random.next_u64() >> 30),
            _ => next + self.random.below(20),
        };
        if self.random.below(2) == 0 {
            self.engine.shards[shard].skip_to(id, index);
            self.done(shard, id, Operation::Skip(index));
        } else {
            let blob = self.random.bytes(200);
            self.engine.shards[shard].set_snapshot(id, index, &blob);
            self.done(shard, id, Operation::Snapshot(index, blob));
        }
    }

    pub(super) fn append(&mut self) {
        let len = match self.random.below(100) {
            0..70 => self.random.below(300),
            70..99 => self.random.below(3_000),
            _ => self.random.below(40_000),
        };
        let volatile = self.random.below(8) == 0;
        self.append_one(len as u32, volatile);
    }

    /// So much at once that chunks fill, files overflow and volatile bodies must leave the cache.
    pub(super) fn flood(&mut self) {
        let volatile = self.random.below(2) == 0;
        for _ in 0..self.random.below(4) + 2 {
            let len = 30_000 + self.random.below(60_000);
            self.append_one(len as u32, volatile);
        }
    }

    fn append_one(&mut self, len: u32, volatile: bool) {
        let shard = self.any_shard();
        if self.model.shards[shard].now.is_empty() {
            return;
        }
        let (entry, body) = self.body(shard, len, volatile);
        let shared = self.engine.shards[shard].share(body);
        let count = self.random.below(FAN_OUT_MAX) + 1;
        for _ in 0..count {
            let Some(id) = self.any_log(shard) else {
                return;
            };
            self.append_to(shard, id, entry, body);
        }
        if let Some(shared) = shared {
            let left = FAN_OUT_MAX - count;
            self.handed = Some(Handed {
                shared,
                entry,
                left,
            });
            if self.shares && self.random.below(2) == 0 {
                self.append_again();
            }
        }
    }

    /// Gives another shard the last body, as a publish to queues of several shards does: at once,
    /// or after the write-ahead log has passed by.
    pub(super) fn append_again(&mut self) {
        while let Some(handed) = self.handed.as_mut().filter(|handed| handed.left > 0) {
            handed.left -= 1;
            let Handed { shared, entry, .. } = *handed;
            let shard = self.any_shard();
            let Some(id) = self.any_log(shard) else {
                return;
            };
            let payload = entry.payload();
            let body = self.engine.shards[shard].body_again(shared, &[&payload]);
            self.append_to(shard, id, entry, body);
            if self.random.below(2) == 0 {
                return;
            }
        }
    }

    fn body(&mut self, shard: usize, len: u32, volatile: bool) -> (Entry, BodyId) {
        let seed = self.random.next_u64();
        let entry = Entry {
            seed,
            len,
            volatile,
        };
        let durability = if volatile {
            Durability::Volatile
        } else {
            Durability::Durable
        };
        let payload = entry.payload();
        let (head, tail) = payload.split_at(payload.len() / 3);
        let body = self.engine.shards[shard].body(durability, &[head, tail]);
        (entry, body)
    }

    fn append_to(&mut self, shard: usize, id: LogId, entry: Entry, body: BodyId) {
        let expected = self.model.shards[shard].now[&id].next_index;
        let index = self.engine.shards[shard].append(id, body, entry.len);
        assert_eq!(index, expected, "entries of log {id} are numbered densely");
        self.done(shard, id, Operation::Append(index, entry));
    }

    pub(super) fn settle(&mut self) {
        let shard = self.any_shard();
        let Some(id) = self.any_log(shard) else {
            return;
        };
        let log = &self.model.shards[shard].now[&id];
        let count = log.live.len() as u64;
        // Mostly from the front, as consumers do; sometimes most of it, so that segments die.
        let skip = if self.random.below(3) == 0 {
            self.random.below(count.max(1))
        } else {
            0
        };
        let Some(start) = log.live.keys().nth(skip as usize).copied() else {
            return;
        };
        let reach = if self.random.below(4) == 0 { count } else { 4 };
        let end = start + 1 + self.random.below(reach.max(1));
        let bytes = log.bytes_within(start..end);
        let settled = self.engine.shards[shard].settle(id, start..end, bytes);
        let expected = log.live.range(start..end).count() as u64;
        assert_eq!(settled, expected, "settled of log {id}");
        self.done(shard, id, Operation::Settle(start..end));
    }

    pub(super) fn read_some(&mut self) -> Result<(), Stop> {
        let shard = self.any_shard();
        let Some(id) = self.any_log(shard) else {
            return Ok(());
        };
        let live = self.model.shards[shard].now[&id].live.clone();
        let skip = self.random.below(live.len().max(1) as u64) as usize;
        let engine = &mut self.engine;
        for (index, entry) in live.iter().skip(skip).take(8) {
            let read = read(&mut engine.shards[shard], &mut engine.reader, id, *index);
            if matches!(read, Read::Damaged(_)) && self.disk.fault_fired() {
                return Err(Stop::Ended("a read has failed".into()));
            }
            check_read(id, *index, entry, read)?;
        }
        Ok(())
    }
}
