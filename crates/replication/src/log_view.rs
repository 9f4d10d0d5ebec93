//! What the library reads: the recent entries in memory, which are on the embedder's disk or on
//! their way there.

use crate::convert::{entry_in, membership_in, snapshot_in};
use crate::entry::{Entry, EntryKind};
use crate::membership::{Membership, SnapshotMark};
use bytes::Bytes;
use leveret_types::limits::{
    APPEND_BYTES_MAX, APPEND_ENTRIES_MAX, LOG_VIEW_ENTRIES_MAX, LOG_VIEW_ENTRY_BYTES_MAX,
};
use raft::eraftpb::{self, HardState, Snapshot};
use raft::{Error, GetEntriesContext, RaftState, Storage, StorageError};
use std::collections::VecDeque;

/// An entry without its index, which is its place.
#[derive(Clone, Debug)]
struct RecentEntry {
    term: u64,
    kind: EntryKind,
    data: Bytes,
}

/// The log from some index on.
#[derive(Debug)]
pub(crate) struct LogView {
    /// The place before the first entry, and the term there.
    base: (u64, u64),
    entries: VecDeque<RecentEntry>,
    bytes: usize,
    /// What the embedder has applied: up to where it could make a snapshot.
    applied: u64,
    /// Who belonged to the group from which index on, ascending; the first is at or before `base`.
    memberships: VecDeque<(u64, Membership)>,
    /// What the library begins with.
    hard: HardState,
    weigh: fn(&[u8]) -> u64,
}

impl LogView {
    pub(crate) fn new(
        mark: SnapshotMark,
        entries: Vec<Entry>,
        hard: HardState,
        weigh: fn(&[u8]) -> u64,
    ) -> Self {
        let mut log_view = Self {
            base: (mark.index, mark.term),
            entries: VecDeque::new(),
            bytes: 0,
            applied: mark.index,
            memberships: VecDeque::from([(mark.index, mark.membership)]),
            hard,
            weigh,
        };
        log_view.append(&entries);
        log_view
    }

    pub(crate) fn last(&self) -> u64 {
        self.base.0 + self.entries.len() as u64
    }

    /// The place before the first entry.
    pub(crate) fn base(&self) -> u64 {
        self.base.0
    }

    /// Appends entries, over those that are there; from which index on some were overwritten.
    pub(crate) fn append(&mut self, entries: &[Entry]) -> Option<u64> {
        let first = entries.first()?.index;
        assert!(first > self.base.0, "entry {first} is in a snapshot");
        assert!(first <= self.last() + 1, "a hole before entry {first}");
        let overwritten = (first <= self.last()).then_some(first);
        for old in self.entries.drain((first - self.base.0 - 1) as usize..) {
            self.bytes -= old.data.len();
        }
        for entry in entries {
            self.bytes += entry.data.len();
            self.entries.push_back(RecentEntry {
                term: entry.term,
                kind: entry.kind,
                data: entry.data.clone(),
            });
        }
        overwritten
    }

    /// A snapshot takes the place of all.
    pub(crate) fn install(&mut self, mark: &SnapshotMark) {
        self.base = (mark.index, mark.term);
        self.entries = VecDeque::new();
        self.bytes = 0;
        self.applied = mark.index;
        self.memberships = VecDeque::from([(mark.index, mark.membership.clone())]);
    }

    pub(crate) fn applied(&mut self, index: u64) {
        assert!(index <= self.last(), "applied {index}, which is not here");
        self.applied = self.applied.max(index);
    }

    /// Who belongs to the group once the entry at `index` is applied.
    pub(crate) fn members_from(&mut self, index: u64, membership: Membership) {
        self.memberships.push_back((index, membership));
    }

    /// Who belongs to the group by the last entry that was applied.
    pub(crate) fn membership(&self) -> &Membership {
        let last = self.memberships.back();
        &last.expect("a group has had members from its base on").1
    }

    /// The mark of a snapshot at `index`.
    pub(crate) fn mark(&self, index: u64) -> Option<SnapshotMark> {
        let mut until = self.memberships.iter().rev();
        let (_, membership) = until.find(|(from, _)| *from <= index)?;
        Some(SnapshotMark {
            index,
            term: self.term(index).ok()?,
            membership: membership.clone(),
        })
    }

    /// Forgets entries up to `floor`, but keeps those after `needed` as long as they are few.
    pub(crate) fn forget(&mut self, floor: u64, needed: u64) {
        assert!(floor <= self.applied, "forgets what is not applied");
        while let Some(first) = self.entries.front() {
            let index = self.base.0 + 1;
            let is_kept = index > needed
                && self.bytes <= LOG_VIEW_ENTRY_BYTES_MAX
                && self.entries.len() <= LOG_VIEW_ENTRIES_MAX;
            if index > floor || is_kept {
                break;
            }
            self.base = (index, first.term);
            self.bytes -= first.data.len();
            self.entries.pop_front();
        }
        while self.memberships.len() > 1 && self.memberships[1].0 <= self.base.0 {
            self.memberships.pop_front();
        }
    }

    /// Gives back what is not needed at rest.
    pub(crate) fn rest(&mut self) {
        self.entries.shrink_to_fit();
        self.memberships.shrink_to_fit();
    }

    fn at(&self, index: u64) -> Option<&RecentEntry> {
        let place = index.checked_sub(self.base.0 + 1)?;
        self.entries.get(usize::try_from(place).ok()?)
    }

    fn entry(&self, index: u64) -> raft::Result<eraftpb::Entry> {
        let kept = self.at(index).ok_or(Error::Store(StorageError::Compacted));
        kept.map(|kept| entry_in(index, kept.term, kept.kind, kept.data.clone()))
    }
}

impl Storage for LogView {
    fn initial_state(&self) -> raft::Result<RaftState> {
        let state = membership_in(self.membership());
        Ok(RaftState::new(self.hard.clone(), state))
    }

    fn entries(
        &self,
        low: u64,
        high: u64,
        _max_size: impl Into<Option<u64>>,
        context: GetEntriesContext,
    ) -> raft::Result<Vec<eraftpb::Entry>> {
        if low <= self.base.0 {
            return Err(Error::Store(StorageError::Compacted));
        }
        assert!(high <= self.last() + 1, "asked for what was never appended");
        // What can be fetched later is what is sent.
        let (bytes_max, entries_max) = match context.can_async() {
            true => (APPEND_BYTES_MAX, APPEND_ENTRIES_MAX),
            false => (u64::MAX, usize::MAX),
        };
        let (mut all, mut bytes) = (Vec::new(), 0_u64);
        for index in low..high {
            let entry = self.entry(index)?;
            bytes = bytes.saturating_add((self.weigh)(&entry.data));
            let is_full = bytes > bytes_max || all.len() == entries_max;
            if is_full && !all.is_empty() {
                break;
            }
            all.push(entry);
        }
        Ok(all)
    }

    fn term(&self, index: u64) -> raft::Result<u64> {
        if index == self.base.0 {
            return Ok(self.base.1);
        }
        let why = match index < self.base.0 {
            true => StorageError::Compacted,
            false => StorageError::Unavailable,
        };
        self.at(index)
            .map(|kept| kept.term)
            .ok_or(Error::Store(why))
    }

    fn first_index(&self) -> raft::Result<u64> {
        Ok(self.base.0 + 1)
    }

    fn last_index(&self) -> raft::Result<u64> {
        Ok(self.last())
    }

    /// Where the embedder is now: it makes the snapshot when it is asked for it.
    fn snapshot(&self, request_index: u64, _to: u64) -> raft::Result<Snapshot> {
        let mark = self.mark(self.applied);
        let mark = mark.filter(|mark| mark.index >= request_index);
        let why = Error::Store(StorageError::SnapshotTemporarilyUnavailable);
        mark.map(|mark| snapshot_in(&mark)).ok_or(why)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use leveret_types::ReplicaId;

    fn entries(from: u64, data: &[&Bytes]) -> Vec<Entry> {
        let entry = |(at, data): (usize, &&Bytes)| Entry {
            index: from + at as u64,
            term: 2,
            kind: EntryKind::Normal,
            data: Bytes::clone(data),
        };
        data.iter().enumerate().map(entry).collect()
    }

    /// The log of a group with these entries, all of them applied.
    fn applied(data: &[&Bytes]) -> LogView {
        let mark = SnapshotMark::founding([ReplicaId(1)]);
        let all = entries(2, data);
        let mut log_view = LogView::new(mark, all, HardState::default(), |_| 1);
        log_view.applied(log_view.last());
        log_view
    }

    #[test]
    fn nothing_beyond_the_floor_is_forgotten_whoever_needs_it() {
        let small = Bytes::from_static(b"x");
        let mut log_view = applied(&[&small; 9]);
        log_view.forget(5, 10);
        assert_eq!(log_view.base(), 5);
        log_view.forget(8, 6);
        assert_eq!(log_view.base(), 6, "who is behind needs the rest");
    }

    /// A member takes no message with more.
    #[test]
    fn as_many_entries_are_sent_at_once_as_a_message_may_have_and_no_more() {
        let small = Bytes::from_static(b"x");
        for count in [APPEND_ENTRIES_MAX, APPEND_ENTRIES_MAX + 1] {
            let log_view = applied(&vec![&small; count]);
            let context = GetEntriesContext::empty(true);
            let sent = log_view.entries(2, log_view.last() + 1, None, context);
            let sent = sent.expect("they are there").len();
            assert_eq!(sent, APPEND_ENTRIES_MAX, "of {count}");
        }
    }

    #[test]
    fn those_who_are_behind_keep_so_many_entries_and_no_more() {
        let small = Bytes::from_static(b"x");
        for (count, base) in [(LOG_VIEW_ENTRIES_MAX, 1), (LOG_VIEW_ENTRIES_MAX + 3, 4)] {
            let mut log_view = applied(&vec![&small; count]);
            log_view.forget(log_view.last(), 1);
            assert_eq!(log_view.base(), base, "{count} entries");
        }
    }

    #[test]
    fn those_who_are_behind_keep_so_many_bytes_and_no_more() {
        let half = Bytes::from(vec![0; LOG_VIEW_ENTRY_BYTES_MAX / 2]);
        let small = Bytes::from_static(b"x");
        for (data, base) in [(vec![&half, &half], 1), (vec![&half, &half, &small], 2)] {
            let mut log_view = applied(&data);
            log_view.forget(log_view.last(), 1);
            assert_eq!(log_view.base(), base, "{} entries", data.len());
        }
        // What was overwritten takes no room.
        let mark = SnapshotMark::founding([ReplicaId(1)]);
        let large = entries(2, &[&half; 4]);
        let mut log_view = LogView::new(mark, large, HardState::default(), |_| 1);
        assert_eq!(log_view.append(&entries(2, &[&half, &small])), Some(2));
        log_view.applied(log_view.last());
        log_view.forget(log_view.last(), 1);
        assert_eq!(log_view.base(), 1);
    }
}
