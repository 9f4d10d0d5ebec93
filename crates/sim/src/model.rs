//! What a store must hold, said as plainly as possible: a list of live entries for each log.
//!
//! What one shard has done is a sequence of operations, each tagged with the chunk that it went
//! into. A crash may take whole chunks from the end, but none that was confirmed: so after a
//! restart the shard's logs must be exactly what the operations through some chunk give, and that
//! chunk is not before the confirmed one. This one rule says that nothing confirmed is lost,
//! nothing is invented, and no settle comes undone.

use leveret_amqp::fuzz::Random;
use leveret_storage::LogKind;
use leveret_types::LogId;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

/// An entry: enough to say what its bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Gives the payload.
    pub seed: u64,
    /// Bytes of the payload.
    pub len: u32,
    /// Whether its body is volatile.
    pub volatile: bool,
}

impl Entry {
    /// The payload.
    #[must_use]
    pub fn payload(&self) -> Vec<u8> {
        let mut random = Random::new(self.seed);
        let mut out = Vec::with_capacity(self.len as usize + 8);
        while out.len() < self.len as usize {
            out.extend_from_slice(&random.next_u64().to_le_bytes());
        }
        out.truncate(self.len as usize);
        out
    }
}

/// One log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Log {
    /// Whether it survives.
    pub kind: LogKind,
    /// Appended and not settled.
    pub live: BTreeMap<u64, Entry>,
    /// Index of the next entry.
    pub next_index: u64,
    /// The next index as far as it is recorded: entries with volatile bodies leave no record.
    pub recorded_index: u64,
    /// The opaque state.
    pub state: Vec<u8>,
    /// Term and vote.
    pub vote: Option<(u64, u64)>,
    /// Whether the sum of bytes is kept exactly; the engine shares it out by count when classes mix
    /// or entries are truncated.
    pub exact_bytes: bool,
}

impl Log {
    fn new(kind: LogKind) -> Self {
        Self {
            kind,
            live: BTreeMap::new(),
            next_index: 0,
            recorded_index: 0,
            state: Vec::new(),
            vote: None,
            exact_bytes: true,
        }
    }

    /// What the live entries count for.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.live.values().map(|entry| u64::from(entry.len)).sum()
    }

    /// What the live entries within a range count for.
    #[must_use]
    pub fn bytes_within(&self, range: Range<u64>) -> u64 {
        self.live
            .range(range)
            .map(|(_, entry)| u64::from(entry.len))
            .sum()
    }
}

/// The logs of a shard.
pub type Logs = BTreeMap<LogId, Log>;

/// Something done to a log.
#[derive(Clone, Debug)]
pub enum Operation {
    /// It comes to be.
    Create(LogKind),
    /// It ends.
    Delete,
    /// It ends, and another one begins under its id.
    Renew,
    /// An entry is appended at this index.
    Append(u64, Entry),
    /// Entries are settled.
    Settle(Range<u64>),
    /// The opaque state is replaced.
    State(Vec<u8>),
    /// Term and vote are recorded.
    Vote(u64, u64),
    /// Entries from here on never were.
    Truncate(u64),
    /// The next entry has at least this index.
    Skip(u64),
    /// A state stands for all entries before this one.
    Snapshot(u64, Vec<u8>),
}

fn apply(logs: &mut Logs, id: LogId, operation: &Operation) {
    if let Operation::Create(kind) = operation {
        logs.insert(id, Log::new(*kind));
        return;
    }
    if matches!(operation, Operation::Delete) {
        logs.remove(&id);
        return;
    }
    let Some(log) = logs.get_mut(&id) else {
        panic!("the model knows no log {id}");
    };
    match operation {
        Operation::Create(_) | Operation::Delete => {}
        Operation::Renew => *log = Log::new(log.kind),
        Operation::Append(index, entry) => {
            log.live.insert(*index, *entry);
            log.next_index = index + 1;
            if entry.volatile {
                log.exact_bytes = false;
            } else {
                log.recorded_index = index + 1;
            }
        }
        Operation::Settle(range) => {
            log.live.retain(|index, _| !range.contains(index));
        }
        Operation::State(blob) => log.state.clone_from(blob),
        Operation::Vote(term, vote) => log.vote = Some((*term, *vote)),
        Operation::Truncate(from) if *from < log.next_index => {
            log.live.split_off(from);
            (log.next_index, log.recorded_index) = (*from, *from);
            log.exact_bytes = false;
        }
        Operation::Truncate(_) => {}
        Operation::Skip(index) => skip(log, *index),
        Operation::Snapshot(index, blob) => {
            // What remains has its bytes by proportion.
            let kept = log.live.split_off(index);
            log.exact_bytes = kept.is_empty() || (log.live.is_empty() && log.exact_bytes);
            log.live = kept;
            skip(log, *index);
            log.state.clone_from(blob);
        }
    }
}

fn skip(log: &mut Log, index: u64) {
    if index > log.next_index {
        (log.next_index, log.recorded_index) = (index, index);
    }
}

/// One shard.
#[derive(Clone, Debug, Default)]
pub struct Shard {
    /// As the process sees it.
    pub now: Logs,
    /// As it must be at least after a crash.
    confirmed: Logs,
    /// The last chunk that was confirmed.
    pub confirmed_through: u64,
    pending: VecDeque<(u64, LogId, Operation)>,
    /// Whether operations are kept although they are confirmed.
    remembers: bool,
}

impl Shard {
    /// Something was done that went into this chunk.
    pub fn done(&mut self, chunk: u64, log: LogId, operation: Operation) {
        apply(&mut self.now, log, &operation);
        self.pending.push_back((chunk, log, operation));
    }

    /// The store has said that this chunk is durable.
    pub fn confirm(&mut self, through: u64) {
        self.confirmed_through = self.confirmed_through.max(through);
        if self.remembers {
            return;
        }
        let count = self
            .pending
            .iter()
            .take_while(|(chunk, ..)| *chunk <= through)
            .count();
        for (_, log, operation) in self.pending.drain(..count) {
            apply(&mut self.confirmed, log, &operation);
        }
    }

    /// Whether such an entry was ever appended at this index, as far as operations are kept: a log
    /// that has lost the record of a truncation, and says so, may hold one from before it.
    #[must_use]
    pub fn was_ever(&self, id: LogId, index: u64, payload: &[u8]) -> bool {
        self.pending
            .iter()
            .any(|(_, log, operation)| match operation {
                Operation::Append(at, entry) => {
                    (*log, *at) == (id, index) && entry.payload() == payload
                }
                _ => false,
            })
    }

    /// What a restart must find if this chunk was the last one that survived.
    #[must_use]
    pub fn after_crash(&self, through: u64) -> Logs {
        let mut logs = self.confirmed.clone();
        for (_, log, operation) in self
            .pending
            .iter()
            .take_while(|(chunk, ..)| *chunk <= through)
        {
            apply(&mut logs, *log, operation);
        }
        logs.retain(|_, log| log.kind == LogKind::Durable);
        for log in logs.values_mut() {
            log.live.retain(|_, entry| !entry.volatile);
        }
        logs
    }

    /// A restart has found this, and all of it is durable.
    pub fn restart(&mut self, logs: Logs, through: u64) {
        (self.now, self.confirmed) = (logs.clone(), logs);
        self.confirmed_through = through;
        self.pending.clear();
    }
}

/// A store.
#[derive(Clone, Debug, Default)]
pub struct Model {
    /// Its shards.
    pub shards: Vec<Shard>,
}

impl Model {
    /// A new store.
    #[must_use]
    pub fn new(shards: u16) -> Self {
        Self {
            shards: vec![Shard::default(); usize::from(shards)],
        }
    }

    /// Keeps every operation from here on, so that any prefix of them can be told.
    pub fn remember(&mut self) {
        self.shards
            .iter_mut()
            .for_each(|shard| shard.remembers = true);
    }
}
