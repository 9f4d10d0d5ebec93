//! Operations on their way to being committed: taken into a batch, proposed, and taking effect.

use super::under_way::{GivenBack, Waiting};
use super::{Closed, Leader, LeaderLog};
use crate::peeked::meta_of;
use crate::quorum::protocol::{Event, Operation, Origin};
use crate::quorum::replica::entry_payload::{EntryPayload, Published, REFERRED_BYTES_MIN};
use crate::quorum::replica::header::{Header, Leaving, Returned};
use crate::quorum::replica::priority_logs::PriorityLogs;
use crate::quorum::replica::{ShardContext, entry_payload};
use crate::shard::{DeadLetter, Deferred};
use crate::stored;
use bytes::Bytes;
use leveret_queue::{Offer, Outcome, Position, Settle};
use leveret_types::limits::QUORUM_SETTLES_GATHER_MS;
use leveret_types::{Message, NodeId, Now};

impl Leader {
    /// Takes operations of a node's session, from number `first` on.
    pub(in super::super) fn operations(
        &mut self,
        context: &mut ShardContext<'_>,
        from: NodeId,
        session: u64,
        first: u64,
        operations: Vec<Operation>,
    ) {
        let known = match self.served.session(from) {
            None => return self.leading(context, from),
            Some((_, known)) if known != session => return,
            Some((known, _)) => known,
        };
        let next = self.under_way.next_of(from).unwrap_or(known.taken + 1);
        if first > next {
            return self.leading(context, from);
        }
        let skipped = usize::try_from(next - first).unwrap_or(usize::MAX);
        if skipped >= operations.len() {
            return;
        }
        let operations = match skipped {
            0 => operations,
            skipped => operations.into_iter().skip(skipped).collect(),
        };
        self.under_way.waiting.push_back(Waiting {
            node: from,
            first: next,
            operations,
            gone: None,
        });
    }

    /// Takes operations that wait, until the batch is full.
    pub(in super::super) fn take_waiting(
        &mut self,
        context: &mut ShardContext<'_>,
        priority_logs: &mut PriorityLogs,
    ) {
        if self.is_lease_expired {
            // A message that finds no room makes the queue deliver.
            self.dirty = true;
            return;
        }
        if !self.is_acting() {
            return;
        }
        while let Some(mut waiting) = self.under_way.waiting.pop_front() {
            let count = waiting.operations.len() as u64;
            let mut operations = waiting.operations.into_iter();
            let mut sequence = waiting.first;
            while !self.under_way.batch.is_full()
                && let Some(operation) = operations.next()
            {
                self.operation(context, priority_logs, waiting.node, sequence, operation);
                sequence += 1;
            }
            if sequence < waiting.first + count {
                waiting.operations = operations.collect();
                waiting.first = sequence;
                self.under_way.waiting.push_front(waiting);
                return;
            }
            if let Some(subscription) = waiting.gone {
                self.take_away(context, subscription, true);
                self.delete_if_unused(context);
            }
        }
    }

    pub(super) fn operation(
        &mut self,
        context: &mut ShardContext<'_>,
        priority_logs: &mut PriorityLogs,
        from: NodeId,
        sequence: u64,
        operation: Operation,
    ) {
        let Some(session) = self.served.run_mut(from) else {
            return;
        };
        session.taken = sequence;
        let origin = session.origin;
        self.under_way.batch.header.through(origin, sequence);
        self.dirty = true;
        self.under_way.batch.is_awaited |= !matches!(operation, Operation::Settle(_));
        match operation {
            Operation::Publish(message) => {
                self.publish(context, priority_logs, origin, sequence, &message);
            }
            // Nobody else may get it before a leader that follows knows that it is free.
            Operation::Settle(settle)
                if matches!(settle.outcome, Outcome::Requeue { .. } | Outcome::Release) =>
            {
                self.under_way.batch.is_awaited = true;
                self.foresee(context.now, &settle);
                self.under_way.batch.returns.push(GivenBack {
                    from,
                    settle,
                    at: context.now,
                });
            }
            Operation::Settle(settle) => self.settle(context, context.now, settle),
            Operation::Nothing => {}
        }
    }

    /// Writes down what will be known of messages that come back.
    pub(super) fn foresee(&mut self, now: Now, settle: &Settle) {
        let (queue, returned) = (&self.queue, &mut self.under_way.batch.header.returned);
        queue.foresee(now, settle, |range, known| {
            returned.push(Returned {
                priority_log: settle.priority_log,
                range,
                known,
            });
        });
    }

    pub fn publish(
        &mut self,
        context: &mut ShardContext<'_>,
        priority_logs: &mut PriorityLogs,
        origin: Origin,
        sequence: u64,
        message: &Message,
    ) {
        if self.viewing.is_some() {
            return self.refuse(context, origin, sequence);
        }
        let bytes = message.size();
        let offer = on_queue!(self, context, |queue, view, out| queue.offer(
            context.now,
            bytes,
            &mut view,
            out
        ));
        if !self.scratch.is_empty() {
            self.carry_out(context);
        }
        if let Offer::Reject { dead_letter } = offer {
            if dead_letter {
                let dead = DeadLetter::refused(self.id, message);
                context.effects.deferred.push(Deferred::DeadLetter(dead));
            }
            return self.refuse(context, origin, sequence);
        }
        let header = stored::header(message);
        let pieces = stored::pieces(&header, message);
        let priority_log = self.queue.priority_log_for(message.summary.priority);
        let before = self.under_way.batch.entry_payload.len();
        entry_payload::put_message(&mut self.under_way.batch.entry_payload, &pieces);
        let stored = &self.under_way.batch.entry_payload[before + 4..];
        let index = priority_logs.append(
            context.logs,
            priority_log,
            stored,
            (bytes, message.summary.expiration_ms.is_some()),
        );
        let batch = &mut self.under_way.batch;
        let at = before..batch.entry_payload.len();
        if origin.node != context.node && at.len() >= REFERRED_BYTES_MIN {
            batch.published.push(Published {
                origin,
                sequence,
                at,
            });
        }
        batch.header.message(priority_log, index);
        batch.header.weight = batch.entry_payload.len() as u64;
        batch.came.push((
            Position {
                priority_log,
                index,
            },
            meta_of(message),
        ));
        self.queue.announce(bytes);
    }

    /// Refuses a publish, also whenever its node asks for its answer anew.
    fn refuse(&mut self, context: &mut ShardContext<'_>, origin: Origin, sequence: u64) {
        let first = self.served.run(origin.node).map_or(0, |run| run.first);
        self.under_way.batch.header.refuse(origin, first, sequence);
        let sequences = sequence..sequence + 1;
        self.answer(context, origin.node, Event::Refused { sequences });
    }

    /// Says which publishes of an entry are refused to nodes that have begun a session since those
    /// were taken.
    fn repeat_refusals(&self, context: &mut ShardContext<'_>, header: &Header) {
        for (origin, refusals) in &header.refused {
            let session = self.served.run(origin.node);
            let Some(session) = session.filter(|session| session.origin == *origin) else {
                continue;
            };
            for sequences in refusals.numbers.within(0..session.taken_before + 1) {
                self.answer(context, origin.node, Event::Refused { sequences });
            }
        }
    }

    pub(super) fn settle(&mut self, context: &mut ShardContext<'_>, at: Now, settle: Settle) {
        self.queue.settle(at, settle, &mut self.scratch);
        self.carry_out(context);
    }

    /// Whether anything is to be proposed.
    pub(in super::super) fn has_open_batch(&self) -> bool {
        !self.under_way.batch.header.is_empty()
            || !self.under_way.batch.pending_requests.is_empty()
            || self.watermarks.is_wanted
    }

    /// Whether something is on its way to being committed.
    pub(in super::super) fn has_work_under_way(&self) -> bool {
        self.under_way.is_busy() || self.has_open_batch()
    }

    /// Whether somebody waits for the next entry, because a message may be handed out only then.
    /// What a view is given leaves nothing but that entry in the log, and is read for somebody.
    pub(in super::super) fn holds_back(&self) -> bool {
        let is_given = self.viewing.is_some() && !self.under_way.batch.came.is_empty();
        self.watermarks.is_awaited || is_given
    }

    /// Whether the batch is to be proposed now: at once if somebody waits for it; settles alone may
    /// gather, for each entry costs all members a write.
    pub(in super::super) fn is_due(&mut self, now: Now) -> bool {
        if self.under_way.batch.is_awaited
            || !self.under_way.batch.pending_requests.is_empty()
            || self.watermarks.is_wanted
        {
            return true;
        }
        let since = *self
            .under_way
            .batch
            .lazy_since_ms
            .get_or_insert(now.monotonic_ms);
        now.monotonic_ms >= since + QUORUM_SETTLES_GATHER_MS
    }

    /// Whether the batch is so many new messages at most, with nothing on its way before them.
    pub(in super::super) fn is_alone(&self, messages: usize) -> bool {
        let is_few = (1..=messages).contains(&self.under_way.batch.came.len());
        is_few && !self.under_way.is_busy()
    }

    /// Whether the batch takes no more before it is proposed.
    pub(in super::super) fn wants_close(&self) -> bool {
        self.under_way.batch.is_full() && !self.under_way.batch.header.is_empty()
    }

    /// Ends the batch: it is to be proposed, and [`Self::proposed`] or [`Self::reopen`] called.
    pub(in super::super) fn close(&mut self, priority_logs: &PriorityLogs) -> Option<Closed> {
        if self.under_way.batch.header.is_empty() && !self.watermarks.is_wanted {
            return None;
        }
        let mut header = std::mem::take(&mut self.under_way.batch.header);
        self.put_watermarks(&mut header, priority_logs);
        if header.is_empty() && header.delivered.is_empty() {
            self.under_way.batch.header = header;
            return None;
        }
        let next = Vec::with_capacity(self.under_way.batch.entry_payload.len().min(64 * 1024));
        let entry_payload = std::mem::replace(&mut self.under_way.batch.entry_payload, next);
        Some(Closed {
            header,
            entry_payload: EntryPayload {
                bytes: Bytes::from(entry_payload),
                published: std::mem::take(&mut self.under_way.batch.published),
            },
        })
    }

    /// The batch that was closed is the entry at `index`.
    pub(in super::super) fn proposed(&mut self, now: Now, index: u64) {
        self.under_way.propose(now, index);
    }

    /// Milliseconds from proposal to commit of the entry that was committed last; 0 before the
    /// first.
    pub(in super::super) const fn commit_ms(&self) -> u64 {
        self.under_way.commit_ms()
    }

    /// The batch that was closed was not taken.
    pub(in super::super) fn reopen(&mut self, closed: Closed) {
        self.under_way.batch.header = closed.header;
        self.under_way.batch.header.delivered.clear();
        self.watermarks.not_proposed();
        self.under_way.batch.is_awaited = true;
        self.under_way.batch.entry_payload = closed.entry_payload.bytes.into();
        self.under_way.batch.published = closed.entry_payload.published;
    }

    /// The entry at `index`, which this leader proposed, is committed, and what left by it has left
    /// the logs.
    pub(in super::super) fn committed(
        &mut self,
        context: &mut ShardContext<'_>,
        index: u64,
        header: &Header,
    ) {
        let Some(mut entry) = self.under_way.commit(context.now) else {
            panic!("entry {index} is committed, and none is in flight");
        };
        assert_eq!(entry.index, index, "entries are committed in order");
        for (position, meta) in entry.came.drain(..) {
            self.queue.withdraw(meta.bytes);
            self.queue.enqueue(position, &meta);
        }
        self.under_way.keep(entry.came);
        for (priority_log, through) in &header.delivered {
            self.watermarks.committed(*priority_log, *through);
        }
        for came in &header.came {
            self.replicated_to
                .came(index, came.priority_log, came.range.end);
        }
        self.repeat_refusals(context, header);
        for (origin, through) in &header.origins {
            let through = *through;
            let session = self.served.session(origin.node);
            if session.is_some_and(|(session, _)| session.origin == *origin) {
                self.answer(context, origin.node, Event::Committed { through });
            }
        }
        for GivenBack { settle, at, .. } in entry.returns {
            // What is known of them now is in the entry already.
            self.under_way.is_foreseen = true;
            self.settle(context, at, settle);
            self.under_way.is_foreseen = false;
        }
        for leaving in &header.leaving {
            let Leaving {
                priority_log,
                ref range,
                reason,
            } = *leaving;
            self.dead.push(priority_log, range.clone(), reason);
        }
        self.send_dead_letters(context);
        for pending in entry.pending_requests {
            self.do_request(context, pending);
        }
        self.dirty = true;
    }
}
