//! Questions to a leader that have no answer yet, and answers for askers who repeat theirs.

use crate::events::QueueAnswer;
use crate::queue_host::Asker;
use crate::quorum::protocol::Command;
use leveret_queue::Consumer;
use leveret_types::limits::{LEADER_WAIT_MS_MAX, PARKED_ANSWERS_MAX};
use leveret_types::{ConsumerId, Now};
use std::collections::VecDeque;

/// What is asked of a leader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Question {
    Attach(Consumer),
    Cancel(ConsumerId),
    Get {
        subscription: ConsumerId,
        no_ack: bool,
    },
    Purge,
    Count,
    Peek {
        before: u64,
    },
}

/// A question without an answer.
#[derive(Debug)]
pub(super) struct Request {
    pub id: u64,
    pub(super) asker: Asker,
    pub(super) question: Question,
    pub(super) until_ms: u64,
}

/// The questions of a remote queue.
#[derive(Debug)]
pub(super) struct Questions {
    pending: Vec<Request>,
    next: u64,
    /// Answers for those who ask again.
    parked: VecDeque<(u64, QueueAnswer)>,
}

impl Question {
    /// The subscription that it concerns.
    pub(super) fn subscription(&self) -> Option<ConsumerId> {
        match self {
            Self::Attach(consumer) => Some(consumer.id),
            Self::Cancel(subscription) | Self::Get { subscription, .. } => Some(*subscription),
            Self::Purge | Self::Count | Self::Peek { .. } => None,
        }
    }

    pub(super) fn message(&self, id: u64) -> Command {
        match self {
            Self::Attach(consumer) => Command::Attach(*consumer),
            Self::Cancel(consumer) => Command::Cancel(*consumer),
            Self::Get {
                subscription,
                no_ack,
            } => Command::Get {
                subscription: *subscription,
                no_ack: *no_ack,
            },
            Self::Purge => Command::Purge { request: id },
            Self::Count => Command::Count { request: id },
            Self::Peek { before } => Command::Peek {
                request: id,
                before: *before,
            },
        }
    }
}

impl Questions {
    pub const fn new() -> Self {
        Self {
            pending: Vec::new(),
            next: 1,
            parked: VecDeque::new(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// Notes a question; what the leader is to be told.
    pub(super) fn ask(&mut self, now: Now, asker: Asker, question: Question) -> Command {
        let id = self.next;
        self.next += 1;
        let message = question.message(id);
        self.pending.push(Request {
            id,
            asker,
            question,
            until_ms: now.monotonic_ms + LEADER_WAIT_MS_MAX,
        });
        message
    }

    /// Puts a question back that was taken.
    pub(super) fn put_back(&mut self, request: Request) {
        self.pending.push(request);
    }

    /// All of them as the leader is told, in their order.
    pub(super) fn messages(&self) -> Vec<Command> {
        let pending = self.pending.iter();
        pending
            .map(|request| request.question.message(request.id))
            .collect()
    }

    /// Takes the first that it is.
    pub(super) fn take(&mut self, is_it: impl Fn(&Request) -> bool) -> Option<Request> {
        let at = self.pending.iter().position(is_it)?;
        Some(self.pending.remove(at))
    }

    pub(super) fn take_all(&mut self) -> Vec<Request> {
        std::mem::take(&mut self.pending)
    }

    /// Whether one concerns a subscription.
    pub(super) fn concern(&self, subscription: ConsumerId) -> bool {
        let mut pending = self.pending.iter();
        pending.any(|request| request.question.subscription() == Some(subscription))
    }

    /// Forgets those of a subscription.
    pub(super) fn forget(&mut self, subscription: ConsumerId) {
        self.pending
            .retain(|request| request.question.subscription() != Some(subscription));
    }

    /// When the first of them is given up.
    pub(super) fn deadline_ms(&self) -> Option<u64> {
        self.pending.iter().map(|request| request.until_ms).min()
    }

    /// Keeps an answer for one who asks again; the oldest gives way.
    pub(super) fn park(&mut self, poll: u64, answer: QueueAnswer) {
        if self.parked.len() >= PARKED_ANSWERS_MAX {
            self.parked.pop_front();
        }
        self.parked.push_back((poll, answer));
    }

    /// The answer for one who asks again; `None` if there is none yet. And whether the question is
    /// under way.
    pub(super) fn parked(&mut self, poll: u64) -> (Option<QueueAnswer>, bool) {
        let at = self.parked.iter().position(|(of, _)| *of == poll);
        let answer = at.and_then(|at| self.parked.remove(at));
        let mut pending = self.pending.iter();
        let is_pending = pending.any(|request| request.asker == Asker::Poll(poll));
        (answer.map(|(_, answer)| answer), is_pending)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_answers_are_kept_as_may_be_and_the_oldest_gives_way() {
        let mut questions = Questions::new();
        let most = PARKED_ANSWERS_MAX as u64;
        (0..most).for_each(|poll| questions.park(poll, QueueAnswer::Purged(poll)));
        assert_eq!(questions.parked.len(), PARKED_ANSWERS_MAX);
        questions.park(most, QueueAnswer::Purged(most));
        assert_eq!(questions.parked.len(), PARKED_ANSWERS_MAX);
        let mut answer = |poll| questions.parked(poll).0;
        assert!(answer(0).is_none());
        for poll in 1..=most {
            let answer = answer(poll);
            assert!(matches!(answer, Some(QueueAnswer::Purged(of)) if of == poll));
        }
        assert!(questions.parked.is_empty(), "each is given once");
    }
}
