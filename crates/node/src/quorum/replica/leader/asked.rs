//! What is asked of a leader, and answered once all that came before is committed.

use super::{Asked, Leader, Request, View};
use crate::quorum::link::{Standing, ToProxy};
use crate::quorum::replica::Around;
use leveret_queue::{Got, Position};
use leveret_session::contract::Delivery;
use leveret_types::{ConsumerId, NodeId};

impl Leader {
    /// Sends a message to a consumer again that was to read it from its own node's replica.
    pub(super) fn fetch(
        &mut self,
        around: &mut Around<'_>,
        from: NodeId,
        consumer: ConsumerId,
        position: Position,
    ) {
        let Some(message) = self.message(around.logs, position) else {
            return;
        };
        let returns = self.queue.returns(position).unwrap_or_default();
        let delivery = Delivery {
            consumer,
            queue: self.id,
            lane: position.lane,
            index: position.index,
            redelivered: true,
            delivery_count: Some(returns.failed).filter(|count| *count > 0),
            acquired_count: Some(returns.acquired).filter(|count| *count > 0),
            message,
        };
        self.answer(around, from, ToProxy::Deliver(delivery));
    }

    /// Does what is asked once all that came before is committed.
    pub(super) fn ask(
        &mut self,
        around: &mut Around<'_>,
        node: NodeId,
        session: u64,
        request: Request,
    ) {
        let asked = Asked {
            node,
            session,
            request,
        };
        if !self.batch.header.is_empty() || !self.waiting.is_empty() {
            self.batch.asked.push(asked);
        } else if let Some(last) = self.in_flight.back_mut() {
            last.asked.push(asked);
        } else {
            self.do_asked(around, asked);
        }
    }

    pub(super) fn do_asked(&mut self, around: &mut Around<'_>, asked: Asked) {
        if !self.is_current(asked.node, asked.session) {
            return;
        }
        match asked.request {
            Request::Get { holder, no_ack } => {
                if !self.is_acting() {
                    return self.waiting_gets.push(asked);
                }
                let got = on_queue!(self, around, |queue, view, out| queue
                    .get(around.now, holder, no_ack, &mut view, out));
                let got = match got {
                    Got::Pending => {
                        self.waiting_gets.push(asked);
                        return self.carry_out(around);
                    }
                    Got::Empty => None,
                    Got::Message { delivery, ready } => self
                        .delivery(around.logs, &delivery)
                        .map(|delivery| (delivery, ready)),
                };
                self.answer(around, asked.node, ToProxy::Got { holder, got });
                self.carry_out(around);
            }
            Request::Purge { request } => {
                let count = self.queue.purge(&mut self.scratch);
                self.carry_out(around);
                let purged = Request::Purged { request, count };
                self.ask(around, asked.node, asked.session, purged);
            }
            Request::Purged { request, count } => {
                self.answer(around, asked.node, ToProxy::Purged { request, count });
            }
            Request::Count { request } => {
                let counts = self.queue.counts(around.now);
                let standing = Standing {
                    ready: counts.ready,
                    unsettled: counts.unsettled,
                    consumers: counts.consumers as u64,
                };
                self.answer(around, asked.node, ToProxy::Counted { request, standing });
            }
        }
    }
}
