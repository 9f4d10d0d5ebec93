//! Messages between the members of a group, and their bytes.
//!
//! ```text
//! message    version u8 | kind u8 | to u64 | from u64 | term number | body
//! append     index | log term | commit | count | entries
//! entry      kind u8 | term number | data with its length
//! reply      index | commit | 0, or 1 and hint | hint's term
//! vote       flags u8 | index | log term | commit | commit's term
//! voted      flags u8 | commit | commit's term
//! heartbeat, its reply   commit
//! snapshot   mark
//! timeout now, asking    nothing
//! ```

use crate::entry::{Entry, EntryKind};
use crate::error::Malformed;
use crate::membership::SnapshotMark;
use crate::wire::{NUMBER_MAX, Take, put_bytes, put_number};
use bytes::Bytes;
use leveret_types::ReplicaId;
use leveret_types::limits::{APPEND_ENTRIES_MAX, ENTRY_BYTES_MAX};

const VERSION: u8 = 1;

/// A message from one member of a group to another. Which group is said by whoever carries it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Whom it is for.
    pub to: ReplicaId,
    /// Who sent it.
    pub from: ReplicaId,
    /// The term that it is about, as a rule the sender's.
    pub term: u64,
    /// What it says.
    pub body: Body,
}

/// What a message says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// The leader's entries that follow `index`, or none, to tell of `commit`.
    Append {
        /// The place before the first entry.
        index: u64,
        /// The term of the entry there.
        log_term: u64,
        /// What the leader knows to be committed.
        commit: u64,
        /// The entries from `index + 1` on.
        entries: Vec<Entry>,
    },
    /// The answer to an append.
    AppendReply {
        /// Up to here the logs are the same, and durable here. Of a refusal: the index refused.
        index: u64,
        /// What is known here to be committed.
        commit: u64,
        /// Why not: the place where the logs may still agree, and the term there.
        refused: Option<Hint>,
    },
    /// A candidate asks for a vote.
    Vote {
        /// Whether it only asks if it would be given: no term changes by that.
        is_trial: bool,
        /// Whether the leader itself asked the candidate to stand.
        is_transfer: bool,
        /// The candidate's last entry.
        index: u64,
        /// That entry's term.
        log_term: u64,
        /// What the candidate knows to be committed.
        commit: u64,
        /// The term of that.
        commit_term: u64,
    },
    /// The answer to a candidate.
    Voted {
        /// Whether the answer is to a trial.
        is_trial: bool,
        /// Whether the vote is given.
        is_granted: bool,
        /// What is known here to be committed; 0 with a vote that is given.
        commit: u64,
        /// The term of that.
        commit_term: u64,
    },
    /// There is a leader.
    Heartbeat {
        /// What is committed of what the receiver has.
        commit: u64,
    },
    /// The answer to a heartbeat.
    HeartbeatReply {
        /// What is known here to be committed.
        commit: u64,
    },
    /// The receiver shall stand at once: the leader hands over to it.
    TimeoutNow,
    /// The entries that the receiver needs are gone. The embedder carries the state up to here.
    Snapshot(SnapshotMark),
    /// Does the receiver lead? It answers with a heartbeat if it does.
    Ask,
}

/// Where two logs may still agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hint {
    /// The place.
    pub index: u64,
    /// The term of the entry there.
    pub term: u64,
}

impl Message {
    /// Its entries, beside which the embedder sends what belongs to them.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        match &self.body {
            Body::Append { entries, .. } => entries,
            _ => &[],
        }
    }

    /// Appends its bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(VERSION);
        out.push(self.body.kind());
        out.extend_from_slice(&self.to.0.to_le_bytes());
        out.extend_from_slice(&self.from.0.to_le_bytes());
        put_number(out, self.term);
        self.body.encode(out);
    }

    /// The message at the front of `bytes`, and how many of them it takes. Its entries share the
    /// buffer.
    ///
    /// # Errors
    /// What [`Self::encode`] did not write.
    pub fn decode(bytes: &Bytes) -> Result<(Self, usize), Malformed> {
        let mut take = Take::new(bytes);
        if take.u8()? != VERSION {
            return Err(Malformed("a message of an unknown version"));
        }
        let kind = take.u8()?;
        let message = Self {
            to: ReplicaId(take.word()?),
            from: ReplicaId(take.word()?),
            term: take.number()?,
            body: Body::take(kind, &mut take)?,
        };
        message.check()?;
        Ok((message, take.taken()))
    }

    /// Whether any member could have sent it.
    pub(crate) fn check(&self) -> Result<(), Malformed> {
        if self.to == self.from || self.to.0 == 0 || self.from.0 == 0 {
            return Err(Malformed("a message without two members"));
        }
        if self.term == 0 || self.term > NUMBER_MAX {
            return Err(Malformed("a message without a term"));
        }
        self.body.check(self.term)
    }
}

impl Body {
    /// Whether it asks for a vote, gives one, or asks the receiver to stand: a member that may have
    /// promised more than it knows of takes nothing of that.
    #[must_use]
    pub const fn is_of_election(&self) -> bool {
        matches!(
            self,
            Self::Vote { .. } | Self::Voted { .. } | Self::TimeoutNow
        )
    }

    fn kind(&self) -> u8 {
        match self {
            Self::Append { .. } => 1,
            Self::AppendReply { .. } => 2,
            Self::Vote { .. } => 3,
            Self::Voted { .. } => 4,
            Self::Heartbeat { .. } => 5,
            Self::HeartbeatReply { .. } => 6,
            Self::TimeoutNow => 7,
            Self::Snapshot(_) => 8,
            Self::Ask => 9,
        }
    }

    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Append {
                index,
                log_term,
                commit,
                entries,
            } => {
                put_numbers(out, &[*index, *log_term, *commit, entries.len() as u64]);
                for entry in entries {
                    out.push(entry.kind.encode());
                    put_number(out, entry.term);
                    put_bytes(out, &entry.data);
                }
            }
            Self::AppendReply {
                index,
                commit,
                refused,
            } => {
                put_numbers(out, &[*index, *commit]);
                match refused {
                    None => out.push(0),
                    Some(hint) => {
                        out.push(1);
                        put_numbers(out, &[hint.index, hint.term]);
                    }
                }
            }
            Self::Vote {
                is_trial,
                is_transfer,
                index,
                log_term,
                commit,
                commit_term,
            } => {
                put_flags(out, [*is_trial, *is_transfer]);
                put_numbers(out, &[*index, *log_term, *commit, *commit_term]);
            }
            Self::Voted {
                is_trial,
                is_granted,
                commit,
                commit_term,
            } => {
                put_flags(out, [*is_trial, *is_granted]);
                put_numbers(out, &[*commit, *commit_term]);
            }
            Self::Heartbeat { commit } | Self::HeartbeatReply { commit } => {
                put_number(out, *commit);
            }
            Self::Snapshot(mark) => mark.encode(out),
            Self::TimeoutNow | Self::Ask => {}
        }
    }

    fn take(kind: u8, take: &mut Take<'_>) -> Result<Self, Malformed> {
        Ok(match kind {
            1 => Self::take_append(take)?,
            2 => Self::AppendReply {
                index: take.number()?,
                commit: take.number()?,
                refused: take_hint(take)?,
            },
            3 => {
                let (is_trial, is_transfer) = take_flags(take)?;
                Self::Vote {
                    is_trial,
                    is_transfer,
                    index: take.number()?,
                    log_term: take.number()?,
                    commit: take.number()?,
                    commit_term: take.number()?,
                }
            }
            4 => {
                let (is_trial, is_granted) = take_flags(take)?;
                Self::Voted {
                    is_trial,
                    is_granted,
                    commit: take.number()?,
                    commit_term: take.number()?,
                }
            }
            5 => Self::Heartbeat {
                commit: take.number()?,
            },
            6 => Self::HeartbeatReply {
                commit: take.number()?,
            },
            7 => Self::TimeoutNow,
            8 => Self::Snapshot(SnapshotMark::take(take)?),
            9 => Self::Ask,
            _ => return Err(Malformed("a message of an unknown kind")),
        })
    }

    fn take_append(take: &mut Take<'_>) -> Result<Self, Malformed> {
        let index = take.number()?;
        let (log_term, commit) = (take.number()?, take.number()?);
        let count = take.count(APPEND_ENTRIES_MAX, "too many entries")?;
        // Grows with what is there, not with what is claimed.
        let mut entries = Vec::new();
        for place in 0..count as u64 {
            entries.push(Entry {
                index: index + 1 + place,
                kind: EntryKind::decode(take.u8()?)?,
                term: take.number()?,
                data: take.bytes(ENTRY_BYTES_MAX)?,
            });
        }
        Ok(Self::Append {
            index,
            log_term,
            commit,
            entries,
        })
    }

    fn check(&self, term: u64) -> Result<(), Malformed> {
        match self {
            Self::Append {
                index,
                log_term,
                entries,
                ..
            } => check_append(*index, *log_term, entries, term),
            Self::AppendReply {
                index,
                refused: Some(hint),
                ..
            } if hint.index > *index => Err(Malformed("a hint beyond what was refused")),
            Self::Vote { log_term, .. } if *log_term > term => {
                Err(Malformed("a candidate behind its own log"))
            }
            Self::Snapshot(mark) => {
                mark.check()?;
                let is_possible = mark.term <= term;
                let why = Malformed("a snapshot from a later term");
                is_possible.then_some(()).ok_or(why)
            }
            _ => Ok(()),
        }
    }
}

fn check_append(index: u64, log_term: u64, all: &[Entry], term: u64) -> Result<(), Malformed> {
    if all.len() > APPEND_ENTRIES_MAX {
        return Err(Malformed("too many entries"));
    }
    // The library takes the term 0 for that of every place which a log does not have.
    if index == 0 || log_term == 0 {
        return Err(Malformed("entries that follow nothing"));
    }
    let (mut place, mut last_term) = (index, log_term);
    for entry in all {
        entry.check()?;
        place += 1;
        if entry.index != place {
            return Err(Malformed("entries with a hole"));
        }
        if entry.term < last_term {
            return Err(Malformed("entries whose terms fall"));
        }
        last_term = entry.term;
    }
    let is_possible = last_term <= term;
    is_possible
        .then_some(())
        .ok_or(Malformed("entries from a later term"))
}

fn put_numbers(out: &mut Vec<u8>, numbers: &[u64]) {
    numbers.iter().for_each(|number| put_number(out, *number));
}

fn put_flags(out: &mut Vec<u8>, [first, second]: [bool; 2]) {
    out.push(u8::from(first) | u8::from(second) << 1);
}

fn take_flags(take: &mut Take<'_>) -> Result<(bool, bool), Malformed> {
    match take.u8()? {
        flags @ 0..4 => Ok((flags & 1 != 0, flags & 2 != 0)),
        _ => Err(Malformed("unknown flags")),
    }
}

fn take_hint(take: &mut Take<'_>) -> Result<Option<Hint>, Malformed> {
    match take.u8()? {
        0 => Ok(None),
        1 => Ok(Some(Hint {
            index: take.number()?,
            term: take.number()?,
        })),
        _ => Err(Malformed("unknown flags")),
    }
}
