//! The publishers of a stream, and the confirms and answers that sessions are owed.

use crate::host::{Event, PublisherId, Reference, Refusal, SessionId};
use std::collections::{BTreeMap, VecDeque};

/// What a session is owed once a turn is committed.
#[derive(Debug)]
struct Owed {
    turn: u64,
    session: SessionId,
    event: Event,
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
        if let Some(last) = self.owed.back_mut()
            && (last.turn, last.session) == (turn, session)
            && let Event::Confirmed {
                publisher: of,
                ids: before,
            } = &mut last.event
            && *of == publisher
        {
            return before.append(&mut ids);
        }
        self.owe_answer(turn, session, Event::Confirmed { publisher, ids });
    }

    /// A session is answered with the turn that is gathering: the answer says what holds only once
    /// that is committed.
    pub(super) fn owe_answer(&mut self, turn: u64, session: SessionId, event: Event) {
        self.owed.push_back(Owed {
            turn,
            session,
            event,
        });
    }

    /// Whether anything is confirmed with this turn, the newest one.
    pub(super) fn are_owed(&self, turn: u64) -> bool {
        self.owed.back().is_some_and(|owed| owed.turn == turn)
    }

    pub(super) fn are_owed_nothing(&self) -> bool {
        self.owed.is_empty()
    }

    /// All turns up to this one are committed: publishers hear of it.
    pub(super) fn confirm(&mut self, turn: u64, out: &mut Vec<(SessionId, Event)>) {
        while let Some(owed) = self.owed.pop_front_if(|owed| owed.turn <= turn) {
            out.push((owed.session, owed.event));
        }
    }

    /// The sessions that have any, some of them more than once.
    pub(super) fn sessions(&self) -> impl Iterator<Item = SessionId> + '_ {
        self.declared.keys().map(|(session, _)| *session)
    }

    pub(super) fn len(&self) -> usize {
        self.declared.len()
    }

    /// All of them have lost the stream: nothing is confirmed to them any more, and whoever waits
    /// for an answer is refused.
    pub(super) fn lose(&mut self, refusal: &Refusal, out: &mut Vec<(SessionId, Event)>) {
        self.declared.clear();
        for owed in self.owed.drain(..) {
            let refusal = refusal.clone();
            let event = match owed.event {
                Event::Sequence { request, .. } => Event::Sequence {
                    request,
                    result: Err(refusal),
                },
                Event::StoredOffset { request, .. } => Event::StoredOffset {
                    request,
                    result: Err(refusal),
                },
                _ => continue,
            };
            out.push((owed.session, event));
        }
    }
}
