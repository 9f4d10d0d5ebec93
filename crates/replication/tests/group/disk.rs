//! A member's disk: what was written is durable after a sync, and lost in a crash from some write
//! on, as a write-ahead log is.

use leveret_replication::{Entry, HardState, Ready, SnapshotMark};
use std::collections::VecDeque;

/// The state that a snapshot stands for: a hash over all that was applied.
pub type State = u64;

/// What one `Ready` writes.
#[derive(Clone, Debug)]
struct Write {
    number: u64,
    install: Option<(SnapshotMark, State)>,
    hard_state: Option<HardState>,
    append: Vec<Entry>,
}

/// What is on a disk.
#[derive(Clone, Debug)]
pub struct Content {
    pub hard_state: HardState,
    pub mark: SnapshotMark,
    pub state: State,
    pub entries: Vec<Entry>,
}

#[derive(Clone, Debug)]
pub struct Disk {
    pub durable: Content,
    waiting: VecDeque<Write>,
    /// Planted: term and vote are never written.
    pub loses_votes: bool,
    /// Planted: what an overwritten suffix leaves behind stays.
    pub keeps_suffixes: bool,
}

impl Disk {
    pub fn founding(mark: SnapshotMark) -> Self {
        Self {
            durable: Content {
                hard_state: HardState::default(),
                mark,
                state: 0,
                entries: Vec::new(),
            },
            waiting: VecDeque::new(),
            loses_votes: false,
            keeps_suffixes: false,
        }
    }

    /// Takes what a `Ready` says to write.
    pub fn write(&mut self, ready: &Ready, state: State) {
        if ready.must_sync {
            self.waiting.push_back(Write {
                number: ready.number,
                install: ready.install.clone().map(|mark| (mark, state)),
                hard_state: ready.hard_state,
                append: ready.append.clone(),
            });
        }
    }

    /// Makes the first `count` writes durable; the number of the last.
    pub fn sync(&mut self, count: usize) -> Option<u64> {
        let count = count.min(self.waiting.len());
        let mut last = None;
        for write in self.waiting.drain(..count).collect::<Vec<_>>() {
            last = Some(write.number);
            self.apply(write);
        }
        last
    }

    /// The machine stops: some of what was not synced is there, the rest is not.
    pub fn crash(&mut self, kept: usize) {
        self.sync(kept);
        self.waiting.clear();
    }

    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// The number of the last write that waits.
    pub fn last_waiting(&self) -> Option<u64> {
        self.waiting.back().map(|write| write.number)
    }

    /// A snapshot of the own state takes the place of the entries before it.
    pub fn compact(&mut self, mark: SnapshotMark, state: State) {
        let content = &mut self.durable;
        assert!(mark.index <= content.last(), "compacts what is not durable");
        content.entries.retain(|entry| entry.index > mark.index);
        (content.mark, content.state) = (mark, state);
    }

    fn apply(&mut self, write: Write) {
        let content = &mut self.durable;
        if let Some((mark, state)) = write.install {
            content.entries.clear();
            (content.mark, content.state) = (mark, state);
        }
        if let Some(hard_state) = write.hard_state
            && !self.loses_votes
        {
            content.hard_state = hard_state;
        }
        if let Some(first) = write.append.first() {
            let last = write.append[write.append.len() - 1].index;
            let keeps = self.keeps_suffixes;
            let is_out = |entry: &Entry| match keeps {
                true => entry.index >= first.index && entry.index <= last,
                false => entry.index >= first.index,
            };
            let start = content.entries.iter().position(is_out);
            match (start, keeps) {
                (Some(start), false) => content.entries.truncate(start),
                _ => content.entries.retain(|entry| !is_out(entry)),
            }
            content.entries.extend(write.append);
            content.entries.sort_by_key(|entry| entry.index);
        }
    }
}

impl Content {
    pub fn last(&self) -> u64 {
        let last = self.entries.last();
        last.map_or(self.mark.index, |entry| entry.index)
    }

    /// Whether the entry of this index and term is there, itself or in the snapshot.
    pub fn has(&self, index: u64, term: u64) -> bool {
        let is_it = |entry: &Entry| entry.index == index && entry.term == term;
        index <= self.mark.index || self.entries.iter().any(is_it)
    }
}
