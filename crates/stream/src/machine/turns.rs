//! The turns of a stream: what each brings, and how far they are committed.

use crate::chunk::{ChunkHeader, ChunkKind, SharedChunk};
use std::collections::VecDeque;

/// What becomes visible with a turn.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turn {
    pub(super) number: u64,
    pub(super) next_offset: u64,
    /// The newest chunk of records.
    pub(super) last_user: Option<Span>,
    pub(super) last_chunk: Option<u64>,
}

impl Turn {
    /// Where the newest chunk of records begins; 0 if there is none.
    pub(super) fn user_chunk(&self) -> u64 {
        self.last_user.map_or(0, |chunk| chunk.first)
    }
}

/// The first and the last offset of a chunk.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub(super) first: u64,
    pub(super) last: u64,
}

impl Span {
    pub(super) fn of(header: &ChunkHeader) -> Self {
        Self {
            first: header.first_offset,
            last: header.next_offset().saturating_sub(1),
        }
    }
}

/// The turn that is gathering, and those before it that are not committed.
#[derive(Debug)]
pub(super) struct Turns {
    /// The number of the turn that is gathering.
    gathering: u64,
    sealed: VecDeque<Turn>,
    /// The last one that is committed.
    pub(super) committed: Turn,
    /// The newest chunk.
    last_chunk: Option<u64>,
    /// The newest chunk of records.
    last_user: Option<Span>,
}

impl Turns {
    /// Those of a stream that goes on with this offset: what was found of it is committed.
    pub(super) fn new(next_offset: u64, newest: &[SharedChunk]) -> Self {
        let is_user = |chunk: &&SharedChunk| chunk.header().kind == ChunkKind::User;
        let last = newest.last().map(SharedChunk::header);
        let last_chunk = last.map(|header| header.first_offset);
        let last_user = newest.iter().rev().find(is_user);
        let last_user = last_user.map(|chunk| Span::of(chunk.header()));
        Self {
            gathering: 1,
            sealed: VecDeque::new(),
            committed: Turn {
                number: 0,
                next_offset,
                last_user: last_user.or(last.map(Span::of)),
                last_chunk,
            },
            last_chunk,
            last_user,
        }
    }

    /// The number of the turn that is gathering.
    pub(super) const fn gathering(&self) -> u64 {
        self.gathering
    }

    /// The newest chunk, committed or not.
    pub(super) const fn last_chunk(&self) -> Option<u64> {
        self.last_chunk
    }

    /// The offset behind all turns that are sealed.
    pub(super) fn sealed_to(&self) -> u64 {
        self.sealed.back().unwrap_or(&self.committed).next_offset
    }

    /// A chunk was appended in the turn that is gathering.
    pub(super) fn appended(&mut self, header: &ChunkHeader) {
        self.last_chunk = Some(header.first_offset);
        if header.kind == ChunkKind::User {
            self.last_user = Some(Span::of(header));
        }
    }

    /// The turn that is gathering is over, with all before this offset; gives its number.
    pub(super) fn seal(&mut self, next_offset: u64) -> u64 {
        let number = self.begin_next();
        self.push(number, next_offset);
        number
    }

    /// The next turn begins; gives the number of the one that is over.
    pub(super) const fn begin_next(&mut self) -> u64 {
        let number = self.gathering;
        self.gathering += 1;
        number
    }

    /// A chunk of the leader's was appended in the turn of this number: each is committed when the
    /// leader says so.
    pub(super) fn copied(&mut self, number: u64, header: &ChunkHeader) {
        self.appended(header);
        self.push(number, header.next_offset());
    }

    fn push(&mut self, number: u64, next_offset: u64) {
        self.sealed.push_back(Turn {
            number,
            next_offset,
            last_user: self.last_user.or(self.committed.last_user),
            last_chunk: self.last_chunk,
        });
    }

    /// Where the last turn up to this number ends that is not committed, if there is one.
    pub(super) fn end_of(&self, number: u64) -> Option<u64> {
        let up_to = self.sealed.iter().take_while(|turn| turn.number <= number);
        up_to.last().map(|turn| turn.next_offset)
    }

    /// Turns up to this number that end at this offset or before it are committed; gives the number
    /// of the last one that is.
    pub(super) fn commit_to(&mut self, offset: u64, number: u64) -> u64 {
        let is_in = |first: &Turn| first.number <= number && first.next_offset <= offset;
        while let Some(first) = self.sealed.front().filter(|first| is_in(first)) {
            self.committed = *first;
            self.sealed.pop_front();
        }
        self.committed.number
    }

    /// What was found on disk, from `first` to `next_offset`, is committed once the leader says so.
    pub(super) fn take_found(&mut self, first: u64, next_offset: u64, newest: &[SharedChunk]) {
        self.last_chunk = None;
        self.last_user = None;
        self.sealed.clear();
        for chunk in newest {
            self.copied(0, chunk.header());
        }
        // Also what is damaged behind the newest chunk.
        if self.sealed_behind(first) < next_offset {
            self.sealed.push_back(Turn {
                number: 0,
                next_offset,
                last_user: self.last_user,
                last_chunk: self.last_chunk,
            });
        }
        if self.committed.next_offset > next_offset || self.committed.last_chunk.is_none() {
            self.committed = Turn {
                number: 0,
                next_offset: first,
                last_user: None,
                last_chunk: None,
            };
        }
        let committed = self.committed.next_offset;
        self.sealed.retain(|turn| turn.next_offset > committed);
    }

    fn sealed_behind(&self, first: u64) -> u64 {
        self.sealed.back().map_or(first, |turn| turn.next_offset)
    }

    /// The log begins anew with this offset.
    pub(super) fn begin_at(&mut self, offset: u64) {
        self.committed = Turn {
            number: self.committed.number,
            next_offset: offset,
            last_user: None,
            last_chunk: None,
        };
        self.sealed.clear();
    }

    /// It is not known any more which chunk was committed last.
    pub(super) const fn forget_committed_chunk(&mut self) {
        self.committed.last_chunk = None;
    }

    /// Whether it is known how far it is committed.
    pub(super) fn know_committed(&self) -> bool {
        self.committed.last_chunk.is_some() || self.sealed.is_empty()
    }
}
