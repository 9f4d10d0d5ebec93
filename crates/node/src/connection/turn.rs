//! A connection's turn: so many of its requests that others of its thread need not wait long.
//!
//! Invariant: nothing of a client's is begun before what it asked for earlier.

use super::Connection;
use crate::env::Env;
use crate::run::Run;
use leveret_client::{Request, Session};
use leveret_types::Now;
use leveret_types::limits::{LEFT_WORK_MAX, OUTBOX_BYTES_SCARCE, TURN_WORK_MAX};
use std::collections::VecDeque;

/// Requests that a connection keeps room for when it has nothing to do.
const REQUESTS_KEPT: usize = 8;
/// What a message that is published, or looked at, costs beside its routing and its queues, in
/// units.
const MESSAGE_WORK: usize = 15;
/// What a message that is settled costs.
const SETTLED_WORK: usize = 10;
/// What any other request costs.
const REQUEST_WORK: usize = 100;

/// What a request costs beside what is counted where it is done, in units.
fn work_of(request: &Request) -> usize {
    match request {
        Request::Publish(_) | Request::Check(_) => MESSAGE_WORK,
        Request::Settle(settle) => {
            let range = &settle.range;
            let messages = range.end.saturating_sub(range.start).max(1);
            SETTLED_WORK.saturating_mul(usize::try_from(messages).unwrap_or(usize::MAX))
        }
        _ => REQUEST_WORK,
    }
}

/// Whether what it is answered may be more than the client has said. A message that is published
/// may come back, and no more than that.
const fn is_answered(request: &Request) -> bool {
    !matches!(
        request,
        Request::Publish(_) | Request::Check(_) | Request::Settle(_)
    )
}

/// What a connection has still to carry out.
#[derive(Default)]
pub(super) struct Turn {
    /// Requests that come before those that the session has made since. Where there are some, there
    /// is one at least of those, too: the session sees by them that not all is carried out.
    waiting: VecDeque<Request>,
    /// Whether this turn is over, and the next one has not begun.
    is_over: bool,
    /// Whether the next one waits until the client has taken what it was answered.
    awaits_output: bool,
}

impl Turn {
    /// This is to be carried out further, before what comes behind it.
    pub(super) fn again(&mut self, request: Request) {
        self.waiting.push_front(request);
    }
}

impl<S: Session> Connection<S> {
    /// Whether requests wait for the connection's next turn. Nothing more is to be read before.
    pub(super) const fn waits_for_turn(&self) -> bool {
        self.turn.is_over && self.has_requests()
    }

    /// Whether they wait until the client has taken what it was answered: it may have asked for
    /// very much in few words.
    pub(super) const fn waits_for_output(&self) -> bool {
        self.turn.awaits_output && self.waits_for_turn()
    }

    /// The client has taken what it could. Behind an answer that is not durable yet there may be
    /// much that was not written: that is waited for, too.
    pub(super) fn output_taken(&mut self) {
        self.turn.awaits_output &= self.session.output().len() > OUTBOX_BYTES_SCARCE;
    }

    /// The connection has its next turn.
    pub(super) const fn begin_turn(&mut self) {
        self.turn.is_over = false;
    }

    /// Carries out requests until none are left, one waits, or the turn is over, as it also is when
    /// the client has too much to take. Answers how many there were.
    pub(super) fn process<E: Env>(&mut self, now: Now, env: &E) -> usize {
        let mut count = 0;
        if !self.has_requests() {
            // A message is delivered, most of the time: no turn is begun for that.
            (self.turn.is_over, self.turn.awaits_output) = (false, false);
        } else if !self.waits_for_turn() {
            let output_max = env.registry().socket_outputs().bytes_max_each();
            let work;
            (count, work) = self.carry_out((TURN_WORK_MAX, output_max), now, env);
            self.turn.awaits_output =
                self.has_requests() && self.session.output().len() > output_max;
            self.turn.is_over =
                self.turn.awaits_output || work >= TURN_WORK_MAX && self.has_requests();
        }
        self.flush_streams(env);
        let latencies = self.session.latencies();
        latencies.acknowledgements.drain(|told| {
            env.counters().acknowledgements.add(told);
        });
        count
    }

    /// Carries out what waits for its turn, before something ends the connection or a channel: what
    /// was read before that counts. Others are let in between.
    pub(super) fn finish_turn<E: Env>(&mut self, now: Now, env: &E) {
        if self.waits_for_turn() {
            self.begin_turn();
            self.carry_out((usize::MAX, usize::MAX), now, env);
        }
    }

    /// Whether the turn is over within a transaction that is being committed.
    fn is_committing(&self) -> bool {
        let mut requests = self.requests.iter().chain(self.turn.waiting.iter().rev());
        self.waits_for_turn() && requests.any(|request| matches!(request, Request::Commit { .. }))
    }

    /// Finishes a transaction that is being committed: a client that goes meanwhile leaves all of
    /// it or nothing.
    pub(super) fn finish_commit<E: Env>(&mut self, now: Now, env: &E) {
        if self.is_committing() {
            self.finish_turn(now, env);
        }
    }

    /// The client has gone: what it has left is carried out, as far as that does not take long. Of
    /// the rest it was told nothing. What it published then was never taken, and what it settled
    /// behind that returns to its queues, for it may have settled what it had published the fruit
    /// of.
    pub(super) fn process_left<E: Env>(&mut self, now: Now, env: &E) {
        self.begin_turn();
        let (_, work) = self.carry_out((LEFT_WORK_MAX, usize::MAX), now, env);
        if work >= LEFT_WORK_MAX && self.has_requests() {
            if self.drop_messages() {
                tracing::warn!(
                    connection = %self.identity.name,
                    "its client has gone and left more to do than is done for one: the rest of \
                     what it published is dropped",
                );
            }
            self.carry_out((usize::MAX, usize::MAX), now, env);
        }
        self.process(now, env);
    }

    /// Whether anything is to be carried out.
    const fn has_requests(&self) -> bool {
        !self.requests.is_empty()
    }

    /// Forgets what is to be published and settled; whether there was any.
    pub(super) fn drop_messages(&mut self) -> bool {
        let is_kept = |request: &Request| {
            !matches!(
                request,
                Request::Publish(_) | Request::Check(_) | Request::Settle(_)
            )
        };
        let count = |this: &Self| this.turn.waiting.len() + this.requests.len();
        let before = count(self);
        self.turn.waiting.retain(is_kept);
        self.requests.retain(is_kept);
        let is_any = count(self) < before;
        self.show_waiting();
        is_any
    }

    /// Carries out requests until none are left, one waits, so much was done, or more bytes than
    /// that wait to be written. Answers how many there were, and how much was done, in units.
    fn carry_out<E: Env>(
        &mut self,
        (work_max, output_max): (usize, usize),
        now: Now,
        env: &E,
    ) -> (usize, usize) {
        let mut count = 0;
        let mut is_full = self.session.output().len() > output_max;
        let work = Run::with(env, now, |run| {
            while !is_full
                && self.goes_on()
                && run.work() < work_max
                && let Some(request) = self.next_request(&mut count)
            {
                let is_answered = is_answered(&request);
                run.spend(work_of(&request));
                self.request(request, run);
                run.let_others_in();
                is_full = is_answered && self.session.output().len() > output_max;
            }
            run.work()
        });
        self.show_waiting();
        (count, work)
    }

    /// The next request; counts those that the session has made.
    fn next_request(&mut self, count: &mut usize) -> Option<Request> {
        if let Some(request) = self.turn.waiting.pop_front() {
            return Some(request);
        }
        *count += self.requests.len();
        // Neither of the two is copied.
        let room = std::mem::take(&mut self.turn.waiting);
        let requests = std::mem::replace(&mut self.requests, room.into());
        self.turn.waiting = requests.into();
        self.turn.waiting.pop_front()
    }

    /// Sees to it that the session knows of what waits, and that little room is kept for nothing.
    fn show_waiting(&mut self) {
        if !self.requests.is_empty() {
            return;
        }
        match self.turn.waiting.pop_back() {
            Some(last) => self.requests.push(last),
            None => {
                let room = std::mem::take(&mut self.turn.waiting);
                if room.capacity() > self.requests.capacity() {
                    self.requests = room.into();
                }
                self.requests.shrink_to(REQUESTS_KEPT);
            }
        }
    }
}
