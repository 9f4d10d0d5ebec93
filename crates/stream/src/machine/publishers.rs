//! The publishers of a stream, and the confirms that they are owed.

use crate::host::{Event, PublisherId, Reference, Refusal, SessionId};
use std::collections::{BTreeMap, VecDeque};

/// What a publisher's session is owed once a turn is committed.
#[derive(Debug)]
struct Owed {
    turn: u64,
    session: SessionId,
    publisher: PublisherId,
    ids: Vec<u64>,
}

/// Who publishes to a stream.
#[derive(Debug, Default)]
pub(super) struct Publishers {
    /// The name under which each one's publishes are deduplicated, if they are.
    declared: BTreeMap<(SessionId, PublisherId), Option<Reference>>,
    /// The oldest turn first.
    owed: VecDeque<Owed>,
}

impl Publishers {
    pub(super) fn declare(
        &mut self,
        key: (SessionId, PublisherId),
        reference: Option<Reference>,
    ) -> Result<(), Refusal> {
        if self.declared.contains_key(&key) {
            return Err(Refusal::Id);
        }
        self.declared.insert(key, reference);
        Ok(())
    }

    pub(super) fn delete(&mut self, key: (SessionId, PublisherId)) {
        self.declared.remove(&key);
    }

    /// A session has ended. What it is owed it is still told.
    pub(super) fn leave(&mut self, session: SessionId) {
        self.declared.retain(|(of, _), _| *of != session);
    }

    /// The name of a publisher, if there is that publisher, and if it has one.
    pub(super) fn reference(&self, key: (SessionId, PublisherId)) -> Option<&Option<Reference>> {
        self.declared.get(&key)
    }

    /// These are confirmed with the turn that is gathering. Also what was stored before is
    /// confirmed only then: its first copy may not be durable yet.
    pub(super) fn owe(
        &mut self,
        turn: u64,
        (session, publisher): (SessionId, PublisherId),
        mut ids: Vec<u64>,
    ) {
        match self.owed.back_mut() {
            Some(last)
                if (last.turn, last.session, last.publisher) == (turn, session, publisher) =>
            {
                last.ids.append(&mut ids);
            }
            _ => self.owed.push_back(Owed {
                turn,
                session,
                publisher,
                ids,
            }),
        }
    }

    /// Whether anything is confirmed with this turn, the newest one.
    pub(super) fn are_owed(&self, turn: u64) -> bool {
        self.owed.back().is_some_and(|owed| owed.turn == turn)
    }

    /// All turns up to this one are committed: publishers hear of it.
    pub(super) fn confirm(&mut self, turn: u64, out: &mut Vec<(SessionId, Event)>) {
        while let Some(owed) = self.owed.pop_front_if(|owed| owed.turn <= turn) {
            let (publisher, ids) = (owed.publisher, owed.ids);
            out.push((owed.session, Event::Confirmed { publisher, ids }));
        }
    }

    /// The sessions that have any, some of them more than once.
    pub(super) fn sessions(&self) -> impl Iterator<Item = SessionId> + '_ {
        self.declared.keys().map(|(session, _)| *session)
    }

    pub(super) fn len(&self) -> usize {
        self.declared.len()
    }

    /// All of them have lost the stream: nothing is confirmed to them any more.
    pub(super) fn clear(&mut self) {
        self.declared.clear();
        self.owed.clear();
    }
}
