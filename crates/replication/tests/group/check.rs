//! What must be true whatever happens: checked from outside, with what the whole group did.

use crate::disk::{Content, State};
use leveret_replication::{Body, Entry, Group, Message};
use leveret_types::ReplicaId;
use std::collections::BTreeMap;

/// What was seen of a group so far.
#[derive(Debug, Default)]
pub struct Checker {
    leaders: BTreeMap<u64, ReplicaId>,
    /// Data and the term before, by index and term: logs with the same entry are the same before.
    appended: BTreeMap<(u64, u64), (Vec<u8>, u64)>,
    /// What was applied first, and the state after it.
    applied: BTreeMap<u64, (u64, State)>,
}

/// A broken promise.
pub type Found = String;

impl Checker {
    /// At most one leader a term, who has all that was applied anywhere.
    pub fn leads(&mut self, group: &Group) -> Result<(), Found> {
        let (term, replica) = (group.term(), group.replica());
        let first = *self.leaders.entry(term).or_insert(replica);
        if first != replica {
            return Err(format!("{first:?} and {replica:?} lead in term {term}"));
        }
        for (index, (applied, _)) in &self.applied {
            match group.term_at(*index) {
                Some(own) if own != *applied => {
                    return Err(format!(
                        "leader {replica:?} has term {own} at {index}, {applied} was applied"
                    ));
                }
                None if *index > group.last_index() => {
                    return Err(format!(
                        "leader {replica:?} lacks {index}, which was applied"
                    ));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Logs that have the same entry are the same up to there.
    pub fn appends(&mut self, entry: &Entry, term_before: u64) -> Result<(), Found> {
        let key = (entry.index, entry.term);
        let new = (entry.data.to_vec(), term_before);
        let seen = self.appended.entry(key).or_insert_with(|| new.clone());
        match *seen == new {
            true => Ok(()),
            false => Err(format!("two entries {key:?}: {seen:?} and {new:?}")),
        }
    }

    /// Everybody applies the same in the same order; the state after it.
    pub fn applies(&mut self, entry: &Entry, before: State) -> Result<(bool, State), Found> {
        let after = mix(before, entry);
        let is_first = !self.applied.contains_key(&entry.index);
        let first = *self
            .applied
            .entry(entry.index)
            .or_insert((entry.term, after));
        match first == (entry.term, after) {
            true => Ok((is_first, after)),
            false => Err(format!("{entry:?} applied, {first:?} was applied there")),
        }
    }

    /// The state after the entry at `index` was applied.
    pub fn state(&self, index: u64) -> State {
        self.applied.get(&index).map_or(0, |(_, state)| *state)
    }

    pub fn last_applied(&self) -> u64 {
        self.applied.keys().next_back().copied().unwrap_or(1)
    }

    /// Promises are kept by the sender's disk at the time when they leave.
    pub fn sends(&self, message: &Message, disk: &Content) -> Result<(), Found> {
        let hard = disk.hard_state;
        match &message.body {
            Body::AppendReply {
                index,
                refused: None,
                ..
            } if *index > disk.last() => Err(format!(
                "{message:?} leaves, durable is {} of it",
                disk.last()
            )),
            Body::Voted {
                is_trial: false,
                is_granted: true,
                ..
            } if hard.term == message.term && hard.vote != message.to.0
                || hard.term < message.term =>
            {
                Err(format!("{message:?} leaves, durable is {hard:?}"))
            }
            Body::Vote {
                is_trial: false, ..
            } if hard.term < message.term => {
                Err(format!("{message:?} leaves, durable is {hard:?}"))
            }
            _ => Ok(()),
        }
    }
}

fn mix(before: State, entry: &Entry) -> State {
    let mut state = before ^ entry.index.rotate_left(17) ^ entry.term.rotate_left(40);
    for byte in entry.data.iter().chain(&[entry.kind as u8]) {
        state = (state ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01B3);
    }
    state
}
