//! A member's disk: what was written is durable after a sync, and lost in a crash from some write
//! on, as a write-ahead log is.

use crate::world::{Planted, World};
use leveret_replication::{Entry, HardState, LogStore, LogWrite, SnapshotMark};
use leveret_types::NodeId;
use std::collections::VecDeque;

/// The state that a snapshot stands for: a hash over all that was applied.
pub type State = u64;

/// What is written at once.
#[derive(Clone, Debug, Default)]
struct Write {
    install: Option<(SnapshotMark, State)>,
    snapshot: Option<(SnapshotMark, State)>,
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
    /// How many writes are durable.
    synced: u64,
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
            synced: 0,
            loses_votes: false,
            keeps_suffixes: false,
        }
    }

    /// Makes the first `count` writes durable; whether there were any.
    pub fn sync(&mut self, count: usize) -> bool {
        let count = count.min(self.waiting.len());
        for write in self.waiting.drain(..count).collect::<Vec<_>>() {
            self.synced += 1;
            self.apply(write);
        }
        count > 0
    }

    /// The machine stops: some of what was not synced is there, the rest is not.
    pub fn crash(&mut self, kept: usize) {
        self.sync(kept);
        self.waiting.clear();
    }

    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// A snapshot of the own state takes the place of the entries before it.
    pub fn compact(&mut self, mark: SnapshotMark, state: State) {
        let content = &mut self.durable;
        assert!(mark.index <= content.last(), "compacts what is not durable");
        if mark.index > content.mark.index {
            content.entries.retain(|entry| entry.index > mark.index);
            (content.mark, content.state) = (mark, state);
        }
    }

    fn apply(&mut self, write: Write) {
        if let Some((mark, state)) = write.snapshot {
            self.compact(mark, state);
        }
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

/// The log of a group on the disk of a node.
#[derive(Debug)]
pub struct DiskLog(pub NodeId);

impl DiskLog {
    fn disk<'w>(&self, world: &'w mut World) -> &'w mut Disk {
        let at = world.at(self.0).expect("it has a node");
        &mut world.nodes[at].disk
    }
}

impl LogStore<World> for DiskLog {
    fn write(&mut self, world: &mut World, write: &LogWrite<'_>) -> u64 {
        let disk = self.disk(world);
        disk.waiting.push_back(Write {
            install: write
                .install
                .map(|(mark, state)| (mark.clone(), read(state))),
            snapshot: None,
            hard_state: write.hard_state,
            append: write.append.to_vec(),
        });
        disk.synced + disk.waiting.len() as u64
    }

    fn set_snapshot(&mut self, world: &mut World, mark: &SnapshotMark, state: &[u8]) {
        self.disk(world).waiting.push_back(Write {
            snapshot: Some((mark.clone(), read(state))),
            ..Write::default()
        });
    }

    fn durable_through(&self, world: &World) -> u64 {
        match world.planted {
            Planted::AcknowledgesEarly => u64::MAX,
            _ => {
                world.nodes[world.at(self.0).expect("it has a node")]
                    .disk
                    .synced
            }
        }
    }
}

fn read(state: &[u8]) -> State {
    State::from_be_bytes(state.try_into().expect("a state"))
}
