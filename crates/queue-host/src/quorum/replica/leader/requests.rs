//! Requests to a leader, which it answers once all that came before is committed.

use super::under_way::{PendingRequest, Request};
use super::{Leader, LeaderLog};
use crate::peeked::{self, Found};
use crate::quorum::protocol::{Event, Fetched, QueueCounts};
use crate::quorum::replica::ShardContext;
use leveret_queue::{Got, Position, UnsettledMessage};
use leveret_storage::ShardLogs;
use leveret_types::limits::PARKED_ANSWERS_MAX;
use leveret_types::{ConsumerId, NodeId};

impl Leader {
    /// Answers who was to read a message from its own node's replica, which does not have it.
    fn fetch(
        &mut self,
        context: &mut ShardContext<'_>,
        pending: PendingRequest,
        consumer: ConsumerId,
        position: Position,
    ) {
        let found = match self.queue.has(consumer, position) {
            true => Some(self.find(context.logs, position)),
            false => None,
        };
        let fetched = match found {
            Some(Found::Message(message)) => Fetched::Message(message),
            Some(Found::Never) => Fetched::Unreadable,
            Some(Found::Pending) => {
                // A remote queue asks for one message at a time.
                let is_fetch =
                    |pending: &PendingRequest| matches!(pending.request, Request::Fetch { .. });
                self.waiting_gets
                    .retain(|other| other.node != pending.node || !is_fetch(other));
                return self.waiting_gets.push(pending);
            }
            None => Fetched::Gone,
        };
        let Position {
            priority_log,
            index,
        } = position;
        let answer = Event::Fetched {
            consumer,
            priority_log,
            index,
            fetched,
        };
        self.answer(context, pending.node, answer);
    }

    /// Shows a message that is ready. While it is being read, others may go before it: it stays the
    /// one that is shown.
    fn peek(
        &mut self,
        context: &mut ShardContext<'_>,
        pending: PendingRequest,
        request: u64,
        at: Position,
    ) {
        let ready = self.queue.ready_from(at.priority_log, at.index).next();
        let is_ready = ready.is_some_and(|range| range.start == at.index);
        let fetched = match self.read(context.logs, at) {
            _ if !is_ready => Fetched::Gone,
            Found::Message(message) => {
                self.queue.note_head(at, message.summary.published_ms);
                Fetched::Message(message)
            }
            Found::Never => Fetched::Unreadable,
            Found::Pending => {
                let is_peek = |pending: &PendingRequest| {
                    matches!(pending.request, Request::ReadPeeked { .. })
                };
                let peeks = self.waiting_gets.iter().filter(|pending| is_peek(pending));
                if peeks.count() < PARKED_ANSWERS_MAX {
                    let position = at;
                    let request = Request::ReadPeeked { request, position };
                    return self
                        .waiting_gets
                        .push(PendingRequest { request, ..pending });
                }
                Fetched::Unreadable
            }
        };
        self.peeked(context, pending, request, fetched);
    }

    /// A message where the queue keeps its messages.
    fn read(&self, logs: &mut ShardLogs, at: Position) -> Found {
        match &self.viewing {
            Some(viewing) => viewing.view.find(at.index),
            None => peeked::read(logs, self.id, at),
        }
    }

    /// A message that somebody holds, which stays so; nothing while it is being read from disk.
    pub(in crate::quorum::replica) fn show_unsettled(
        &self,
        logs: &mut ShardLogs,
        unsettled: &UnsettledMessage,
    ) -> Option<Fetched> {
        match self.queue.has(unsettled.consumer, unsettled.position) {
            true => self.read(logs, unsettled.position).fetched(),
            false => Some(Fetched::Gone),
        }
    }

    fn peeked(
        &mut self,
        context: &mut ShardContext<'_>,
        pending: PendingRequest,
        request: u64,
        fetched: Fetched,
    ) {
        self.answer(context, pending.node, Event::Peeked { request, fetched });
    }

    /// Does what is asked once all that came before is committed.
    pub(super) fn ask(
        &mut self,
        context: &mut ShardContext<'_>,
        node: NodeId,
        session: u64,
        request: Request,
    ) {
        let pending = PendingRequest::new(node, session, request);
        if let Some(pending) = self.under_way.ask_behind(pending) {
            self.do_request(context, pending);
        }
    }

    fn get(
        &mut self,
        context: &mut ShardContext<'_>,
        pending: PendingRequest,
        subscription: ConsumerId,
        no_ack: bool,
    ) {
        if !self.is_acting() || self.is_lease_expired {
            return self.waiting_gets.push(pending);
        }
        let got = on_queue!(self, context, |queue, view, out| queue.get(
            context.now,
            subscription,
            no_ack,
            &mut view,
            out
        ));
        let got = match got {
            Got::Message { delivery, ready } => self
                .delivery(context.logs, &delivery)
                .map(|delivery| (delivery, ready)),
            Got::Empty if !self.may_have_more() => None,
            Got::Empty | Got::Pending => {
                self.waiting_gets.push(pending);
                return self.carry_out(context);
            }
        };
        self.answer(context, pending.node, Event::Got { subscription, got });
        self.carry_out(context);
    }

    pub(super) fn do_request(&mut self, context: &mut ShardContext<'_>, pending: PendingRequest) {
        if !self.is_current(pending.node, pending.session) {
            return;
        }
        match pending.request {
            Request::Get {
                subscription,
                no_ack,
            } => self.get(context, pending, subscription, no_ack),
            // What somebody may still claim is not ready.
            Request::Purge { .. } if !self.is_acting() => self.waiting_gets.push(pending),
            // What a view was given before goes too, but only once that is committed.
            Request::Purge { .. } if self.viewing.is_some() && self.count_under_way() > 0 => {
                self.ask(context, pending.node, pending.session, pending.request);
            }
            Request::Purge { request } => {
                let count = self.queue.purge(&mut self.scratch) + self.purge_view();
                self.carry_out(context);
                let purged = Request::Purged { request, count };
                self.ask(context, pending.node, pending.session, purged);
            }
            Request::Fetch { consumer, position } => {
                self.fetch(context, pending, consumer, position);
            }
            // What somebody may still claim is not ready.
            Request::Peek { .. } if !self.is_acting() || self.is_lease_expired => {
                self.waiting_gets.push(pending);
            }
            Request::Peek { request, before } => match self.queue.ready_behind(before) {
                Some(position) => self.peek(context, pending, request, position),
                None => self.peeked(context, pending, request, Fetched::Gone),
            },
            Request::ReadPeeked { request, position } => {
                self.peek(context, pending, request, position);
            }
            Request::Purged { request, count } => {
                self.answer(context, pending.node, Event::Purged { request, count });
            }
            Request::Count { request } => {
                let counts = self.counts(context.now);
                let queue_counts = QueueCounts::from(&counts);
                self.answer(
                    context,
                    pending.node,
                    Event::Counted {
                        request,
                        queue_counts,
                    },
                );
            }
        }
    }
}
