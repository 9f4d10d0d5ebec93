//! One log as a shard remembers it: which entries live, and where they are.

use crate::chunk::Run;
use crate::id::{ChunkSeq, FileId, LogKind};
use leveret_types::{LogId, RangeSet};
use std::collections::VecDeque;
use std::ops::Range;

/// A block of a segment file: the only thing that is kept in memory of up to 128 KiB of waiting
/// messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    pub(crate) first_index: u64,
    pub(crate) last_index: u64,
    pub(crate) file: FileId,
    pub(crate) offset: u32,
    pub(crate) len: u32,
    /// Entries that it was written with.
    pub(crate) count: u32,
    /// Of these, how many are not settled.
    pub(crate) live: u32,
    /// Of a block that several logs share, which of its entries is this log's first: the others
    /// follow on it, as their indexes do.
    pub(crate) shared_from: Option<u32>,
}

impl Block {
    pub(crate) fn indexes(&self) -> Range<u64> {
        self.first_index..self.last_index + 1
    }

    /// Bytes that `entries` of it take on average; of a shared block as if it were this log's
    /// alone.
    pub(crate) fn share(&self, entries: u32) -> u64 {
        u64::from(self.len) * u64::from(entries) / u64::from(self.count.max(1))
    }
}

/// What settles took from a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Freed {
    pub(crate) file: FileId,
    pub(crate) entries: u32,
    pub(crate) bytes: u64,
    pub(crate) offset: u32,
    /// Whether other logs may still need the block.
    pub(crate) is_shared: bool,
    /// Whether nothing of the log's part of it lives any more.
    pub(crate) is_dead: bool,
}

impl Freed {
    fn of(block: &Block, entries: u32) -> Self {
        Self {
            file: block.file,
            entries,
            bytes: block.share(entries),
            offset: block.offset,
            is_shared: block.shared_from.is_some(),
            is_dead: entries == block.live,
        }
    }
}

/// The entries of a log whose bodies are of one class. Within it, the order of indexes is the order
/// of bodies, so that blocks never overlap.
#[derive(Debug, Default)]
pub(crate) struct Side {
    /// Appended and not settled.
    pub(crate) live: RangeSet,
    pub(crate) live_bytes: u64,
    /// Where the bodies are that no segment has, or that are cached although one has.
    pub(crate) runs: VecDeque<Run>,
    /// Where the others are, ascending.
    pub(crate) blocks: VecDeque<Block>,
    /// Sequence after that of the last body appended.
    pub(crate) next_body: u64,
}

impl Side {
    pub(crate) fn append(&mut self, index: u64, body: u64, bytes: u32) {
        assert!(
            body + 1 >= self.next_body,
            "bodies are appended in their order: {body} after {}",
            self.next_body
        );
        self.next_body = body + 1;
        self.live.insert_range(index..index + 1);
        self.live_bytes += u64::from(bytes);
        if self
            .runs
            .back_mut()
            .is_some_and(|run| run.extend(index, body))
        {
            return;
        }
        self.runs.push_back(Run {
            first_index: index,
            first_body: body,
            count: 1,
        });
    }

    /// Takes a range out of the live entries. Gives how many were live; what that frees in segments
    /// goes to `freed`.
    pub(crate) fn settle(&mut self, range: Range<u64>, bytes: u64, freed: &mut Vec<Freed>) -> u64 {
        if self.live.is_empty() {
            return 0;
        }
        self.free_blocks(&range, freed);
        let removed = self.live.remove_range(range);
        self.live_bytes = self.live_bytes.saturating_sub(bytes);
        self.prune();
        removed
    }

    fn free_blocks(&mut self, range: &Range<u64>, freed: &mut Vec<Freed>) {
        if self
            .blocks
            .back()
            .is_none_or(|last| last.last_index < range.start)
        {
            return;
        }
        let mut at = self.blocks.partition_point(|b| b.last_index < range.start);
        while let Some(block) = self
            .blocks
            .get_mut(at)
            .filter(|b| b.first_index < range.end)
        {
            let both = range.start.max(block.first_index)..range.end.min(block.last_index + 1);
            let entries = (self.live.count_within(both) as u32).min(block.live);
            if entries > 0 {
                freed.push(Freed::of(block, entries));
                block.live -= entries;
            }
            if block.live == 0 {
                self.blocks.remove(at);
            } else {
                at += 1;
            }
        }
    }

    /// Forgets runs at the front with no live entry.
    fn prune(&mut self) {
        match self.live.first() {
            None => {
                self.runs.clear();
                self.live_bytes = 0;
                if self.runs.capacity() > 64 {
                    self.runs = VecDeque::new();
                }
            }
            Some(first) => {
                while self
                    .runs
                    .front()
                    .is_some_and(|run| run.end_index() <= first)
                {
                    self.runs.pop_front();
                }
            }
        }
    }

    /// The body of an entry, as far as a run knows.
    pub(crate) fn body(&self, index: u64) -> Option<u64> {
        let run = match self.runs.front()? {
            front if front.end_index() > index => front,
            _ => {
                let after = self.runs.partition_point(|run| run.first_index <= index);
                self.runs.get(after.checked_sub(1)?)?
            }
        };
        let offset = index.checked_sub(run.first_index)?;
        (offset < u64::from(run.count)).then_some(run.first_body + offset)
    }

    /// The bodies that runs have among these, in their order.
    pub(crate) fn bodies_within(&self, bodies: Range<u64>) -> impl Iterator<Item = Range<u64>> {
        let first = self
            .runs
            .partition_point(|run| run.end_body() <= bodies.start);
        let runs = self.runs.range(first..);
        let end = bodies.end;
        let runs = runs.take_while(move |run| run.first_body < end);
        runs.map(move |run| run.first_body.max(bodies.start)..run.end_body().min(bodies.end))
    }

    /// Position of the block that can hold an entry.
    pub(crate) fn block(&self, index: u64) -> Option<usize> {
        let at = match self.blocks.front()? {
            front if front.last_index >= index => 0,
            _ => self
                .blocks
                .partition_point(|b| b.first_index <= index)
                .checked_sub(1)?,
        };
        self.blocks[at].indexes().contains(&index).then_some(at)
    }

    /// Puts a block where its indexes belong; counts what of it lives.
    pub(crate) fn insert_block(&mut self, mut block: Block) -> u32 {
        block.live = (self.live.count_within(block.indexes()) as u32).min(block.count);
        if block.live > 0 {
            let at = self
                .blocks
                .partition_point(|b| b.first_index < block.first_index);
            self.blocks.insert(at, block);
        }
        block.live
    }

    /// Forgets the runs of bodies before `body`.
    pub(crate) fn drop_runs_before(&mut self, body: u64) {
        while let Some(run) = self.runs.front_mut().filter(|run| run.first_body < body) {
            if run.end_body() <= body {
                self.runs.pop_front();
                continue;
            }
            let cut = body - run.first_body;
            run.first_index += cut;
            run.first_body += cut;
            run.count -= cut as u32;
        }
    }

    /// Forgets all from `from` on, as if it had never been.
    pub(crate) fn truncate(&mut self, from: u64, freed: &mut Vec<Freed>) {
        let end = self.live.last().map_or(from, |last| last + 1).max(from);
        let (total, cut) = (self.live.len(), self.live.count_within(from..end));
        let bytes = share_of(self.live_bytes, cut, total);
        self.settle(from..end, bytes, freed);
        self.truncate_runs(from);
        if let Some(block) = self.blocks.back_mut() {
            block.last_index = block.last_index.min(from.saturating_sub(1));
        }
    }

    /// Forgets where entries from `from` on are, whether they live or not.
    pub(crate) fn truncate_runs(&mut self, from: u64) {
        while let Some(run) = self.runs.back_mut().filter(|run| run.end_index() > from) {
            if run.first_index >= from {
                self.runs.pop_back();
            } else {
                run.count = (from - run.first_index) as u32;
            }
        }
    }

    pub(crate) fn clear(&mut self, freed: &mut Vec<Freed>) {
        freed.extend(self.blocks.iter().map(|block| Freed::of(block, block.live)));
        *self = Self::default();
    }
}

/// The part of `bytes` that falls to `part` of `total`.
pub(crate) fn share_of(bytes: u64, part: u64, total: u64) -> u64 {
    if total == 0 {
        return 0;
    }
    (u128::from(bytes) * u128::from(part) / u128::from(total)) as u64
}

/// Where a record lies in the chunk that gathers, so that it can grow in place.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Spot {
    pub(crate) seq: ChunkSeq,
    pub(crate) at: u32,
    /// What must come next for it to grow: an index, and for a run a body.
    pub(crate) next_index: u64,
    pub(crate) next_body: u64,
}

/// What is wrong with a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Damage {
    /// Entries that live and cannot be read.
    pub lost: RangeSet,
    /// What was found, in words, one line each.
    pub notes: Vec<String>,
}

/// Notes that are kept of one log's damage.
const NOTES_MAX: usize = 16;

impl Damage {
    pub(crate) fn note(&mut self, note: String) {
        if self.notes.len() < NOTES_MAX && !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }
}

/// Files before `before` hold nothing of a log at or above `from`: what they seem to hold was
/// truncated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cut {
    pub(crate) before: FileId,
    pub(crate) from: u64,
}

#[derive(Debug)]
pub(crate) struct Log {
    pub(crate) id: LogId,
    pub(crate) kind: LogKind,
    /// Whether its segment files go to the folder for those that are placed apart.
    pub(crate) is_apart: bool,
    pub(crate) next_index: u64,
    pub(crate) durable: Side,
    pub(crate) volatile: Side,
    pub(crate) state: Vec<u8>,
    pub(crate) term_and_vote: Option<(u64, u64)>,
    pub(crate) run_spot: Spot,
    pub(crate) settle_spot: Spot,
    pub(crate) damage: Option<Box<Damage>>,
    pub(crate) cuts: Vec<Cut>,
    /// Truncations while a flush or compaction was under way: which was the newest then, and from
    /// where.
    pub(crate) truncations: Vec<(u64, u64)>,
}

impl Log {
    pub(crate) fn new(id: LogId, kind: LogKind) -> Self {
        Self {
            id,
            kind,
            is_apart: false,
            next_index: 0,
            durable: Side::default(),
            volatile: Side::default(),
            state: Vec::new(),
            term_and_vote: None,
            run_spot: Spot::default(),
            settle_spot: Spot::default(),
            damage: None,
            cuts: Vec::new(),
            truncations: Vec::new(),
        }
    }

    /// Bytes of memory that it takes, but for bodies.
    pub(crate) fn memory_bytes(&self) -> usize {
        let of = |side: &Side| {
            side.live.memory_bytes()
                + side.runs.capacity() * size_of::<Run>()
                + side.blocks.capacity() * size_of::<Block>()
        };
        size_of::<Self>() + of(&self.durable) + of(&self.volatile) + self.state.capacity()
    }

    pub(crate) fn side(&mut self, volatile: bool) -> &mut Side {
        if volatile {
            &mut self.volatile
        } else {
            &mut self.durable
        }
    }

    /// Notes a cut, and forgets those that say no more than it does: a log that is truncated again
    /// and again keeps one for each segment file that it cuts, at most.
    pub(crate) fn cut(&mut self, cut: Cut) {
        self.cuts
            .retain(|old| old.before > cut.before || old.from < cut.from);
        let implied = |old: &Cut| old.before >= cut.before && old.from <= cut.from;
        if !self.cuts.iter().any(implied) {
            self.cuts.push(cut);
        }
    }

    pub(crate) fn damage_mut(&mut self) -> &mut Damage {
        self.damage.get_or_insert_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// First entry, its body, and how many.
    type RunParts = (u64, u64, u32);

    /// Two runs: entries 0 to 3 with bodies from 10 on, entries 4 to 6 with bodies from 20 on.
    fn side() -> Side {
        let mut side = Side::default();
        for (index, body) in (0..4).zip(10..).chain((4..7).zip(20..)) {
            side.append(index, body, 1);
        }
        side
    }

    fn runs(side: &Side) -> Vec<RunParts> {
        let runs = side.runs.iter();
        runs.map(|run| (run.first_index, run.first_body, run.count))
            .collect()
    }

    #[test]
    fn a_run_is_forgotten_with_its_last_body_and_cut_before() {
        let all = [(0, 10, 4), (4, 20, 3)];
        let of_second = [(4, 20, 3)];
        let cases: [(u64, &[RunParts]); 8] = [
            (0, &all),
            (10, &all),
            (11, &[(1, 11, 3), (4, 20, 3)]),
            (13, &[(3, 13, 1), (4, 20, 3)]),
            (14, &of_second),
            (20, &of_second),
            (22, &[(6, 22, 1)]),
            (23, &[]),
        ];
        for (before, left) in cases {
            let mut side = side();
            side.drop_runs_before(before);
            assert_eq!(runs(&side), left, "before {before}");
            for (index, body) in (0..4).zip(10..).chain((4..7).zip(20..)) {
                let known = (body >= before).then_some(body);
                assert_eq!(side.body(index), known, "before {before}");
            }
        }
    }

    #[test]
    fn runs_are_forgotten_from_an_entry_on() {
        let cases: [(u64, &[RunParts]); 5] = [
            (7, &[(0, 10, 4), (4, 20, 3)]),
            (6, &[(0, 10, 4), (4, 20, 2)]),
            (4, &[(0, 10, 4)]),
            (3, &[(0, 10, 3)]),
            (0, &[]),
        ];
        for (from, left) in cases {
            let mut side = side();
            side.truncate_runs(from);
            assert_eq!(runs(&side), left, "from {from}");
        }
    }

    #[test]
    fn a_log_keeps_no_cut_that_says_no_more_than_another() {
        let mut log = Log::new(LogId(1), LogKind::Durable);
        let mut cuts_after = |before, from| {
            log.cut(Cut { before, from });
            let cuts = log.cuts.iter().map(|cut| (cut.before, cut.from));
            cuts.collect::<Vec<_>>()
        };
        assert_eq!(cuts_after(5, 10), [(5, 10)]);
        assert_eq!(cuts_after(5, 10), [(5, 10)], "the same again");
        assert_eq!(cuts_after(5, 8), [(5, 8)], "of the same files, and more");
        assert_eq!(cuts_after(5, 9), [(5, 8)], "less");
        assert_eq!(cuts_after(7, 9), [(5, 8), (7, 9)], "less, of more files");
        assert_eq!(cuts_after(6, 9), [(5, 8), (7, 9)]);
        assert_eq!(cuts_after(6, 8), [(7, 9), (6, 8)]);
        assert_eq!(cuts_after(9, 7), [(9, 7)], "more than all of them");
    }

    #[test]
    fn damage_is_noted_in_a_few_lines_each_once() {
        let mut damage = Damage::default();
        for line in (0..NOTES_MAX - 1).chain(0..NOTES_MAX - 1) {
            damage.note(format!("line {line}"));
        }
        assert_eq!(damage.notes.len(), NOTES_MAX - 1);
        damage.note("one more".to_owned());
        damage.note("one too many".to_owned());
        assert_eq!(damage.notes.len(), NOTES_MAX);
        assert_eq!(damage.notes.last().map(String::as_str), Some("one more"));
    }
}
