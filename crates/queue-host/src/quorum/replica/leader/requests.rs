//! What is asked of a leader, and answered once all that came before is committed.

use super::under_way::{Asked, Request};
use super::{Leader, LeaderLog};
use crate::peeked::{self, Found};
use crate::quorum::protocol::{Event, Fetched, QueueCounts};
use crate::quorum::replica::ShardContext;
use leveret_queue::{Got, HeldMessage, Position};
use leveret_storage::ShardLogs;
use leveret_types::limits::PARKED_ANSWERS_MAX;
use leveret_types::{ConsumerId, NodeId};

impl Leader {
    /// Answers who was to read a message from its own node's replica, which does not have it.
    fn fetch(
        &mut self,
        context: &mut ShardContext<'_>,
        asked: Asked,
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
                let is_fetch = |asked: &Asked| matches!(asked.request, Request::Fetch { .. });
                self.waiting_gets
                    .retain(|other| other.node != asked.node || !is_fetch(other));
                return self.waiting_gets.push(asked);
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
        self.answer(context, asked.node, answer);
    }

    /// Shows a message that is ready. While it is being read, others may go before it: it stays the
    /// one that is shown.
    fn look(&mut self, context: &mut ShardContext<'_>, asked: Asked, request: u64, at: Position) {
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
                let is_look = |asked: &Asked| matches!(asked.request, Request::Look { .. });
                let looks = self.waiting_gets.iter().filter(|asked| is_look(asked));
                if looks.count() < PARKED_ANSWERS_MAX {
                    let position = at;
                    let request = Request::Look { request, position };
                    return self.waiting_gets.push(Asked { request, ..asked });
                }
                Fetched::Unreadable
            }
        };
        self.peeked(context, asked, request, fetched);
    }

    /// A message where the queue keeps its messages.
    fn read(&self, logs: &mut ShardLogs, at: Position) -> Found {
        match &self.viewing {
            Some(viewing) => viewing.view.find(at.index),
            None => peeked::read(logs, self.id, at),
        }
    }

    /// A message that somebody holds, which stays so; nothing while it is being read from disk.
    pub(in crate::quorum::replica) fn show_held(
        &self,
        logs: &mut ShardLogs,
        held: &HeldMessage,
    ) -> Option<Fetched> {
        match self.queue.has(held.consumer, held.position) {
            true => self.read(logs, held.position).fetched(),
            false => Some(Fetched::Gone),
        }
    }

    fn peeked(
        &mut self,
        context: &mut ShardContext<'_>,
        asked: Asked,
        request: u64,
        fetched: Fetched,
    ) {
        self.answer(context, asked.node, Event::Peeked { request, fetched });
    }

    /// Does what is asked once all that came before is committed.
    pub(super) fn ask(
        &mut self,
        context: &mut ShardContext<'_>,
        node: NodeId,
        session: u64,
        request: Request,
    ) {
        let asked = Asked::new(node, session, request);
        if let Some(asked) = self.under_way.ask_behind(asked) {
            self.do_asked(context, asked);
        }
    }

    fn get(
        &mut self,
        context: &mut ShardContext<'_>,
        asked: Asked,
        subscription: ConsumerId,
        no_ack: bool,
    ) {
        if !self.is_acting() || self.is_lease_expired {
            return self.waiting_gets.push(asked);
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
                self.waiting_gets.push(asked);
                return self.carry_out(context);
            }
        };
        self.answer(context, asked.node, Event::Got { subscription, got });
        self.carry_out(context);
    }

    pub(super) fn do_asked(&mut self, context: &mut ShardContext<'_>, asked: Asked) {
        if !self.is_current(asked.node, asked.session) {
            return;
        }
        match asked.request {
            Request::Get {
                subscription,
                no_ack,
            } => self.get(context, asked, subscription, no_ack),
            // What somebody may still claim is not ready.
            Request::Purge { .. } if !self.is_acting() => self.waiting_gets.push(asked),
            // What a view was given before goes too, but only once that is committed.
            Request::Purge { .. } if self.viewing.is_some() && self.count_under_way() > 0 => {
                self.ask(context, asked.node, asked.session, asked.request);
            }
            Request::Purge { request } => {
                let count = self.queue.purge(&mut self.scratch) + self.purge_view();
                self.carry_out(context);
                let purged = Request::Purged { request, count };
                self.ask(context, asked.node, asked.session, purged);
            }
            Request::Fetch { consumer, position } => {
                self.fetch(context, asked, consumer, position);
            }
            // What somebody may still claim is not ready.
            Request::Peek { .. } if !self.is_acting() || self.is_lease_expired => {
                self.waiting_gets.push(asked);
            }
            Request::Peek { request, before } => match self.queue.ready_behind(before) {
                Some(position) => self.look(context, asked, request, position),
                None => self.peeked(context, asked, request, Fetched::Gone),
            },
            Request::Look { request, position } => {
                self.look(context, asked, request, position);
            }
            Request::Purged { request, count } => {
                self.answer(context, asked.node, Event::Purged { request, count });
            }
            Request::Count { request } => {
                let counts = self.counts(context.now);
                let queue_counts = QueueCounts::from(&counts);
                self.answer(
                    context,
                    asked.node,
                    Event::Counted {
                        request,
                        queue_counts,
                    },
                );
            }
        }
    }
}
