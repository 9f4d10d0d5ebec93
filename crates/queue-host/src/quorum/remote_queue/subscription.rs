//! Subscriptions of this node that have unsettled messages of the queue.

use crate::delivery_credit::ConsumerCredit;
use crate::quorum::protocol::{RegisteredSubscription, UnsettledRange};
use leveret_client::Delivery;
use leveret_queue::{Consumer, RunMap};
use leveret_types::{ConnectionId, ConsumerId};
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::ops::Range;

/// Messages that a subscription had, each interval with the [`UnsettledRange::acquired`] of its
/// messages.
pub(super) type Released = SmallVec<[(Range<u64>, u32); 1]>;

/// Somebody on this node who holds messages, or may.
#[derive(Debug)]
pub(super) struct Subscription {
    pub(super) connection: ConnectionId,
    pub(super) consumer: Option<Consumer>,
    /// Whether the leader has said that the consumer is attached.
    pub(super) attached: bool,
    /// What the leader has said of its turn, where the queue has a single active consumer:
    /// [`Event::Active`](crate::quorum::protocol::Event::Active).
    pub(super) activation: Option<u64>,
    pub(super) connection_credit: Option<ConsumerCredit>,
    /// What it holds, by priority log, with the [`UnsettledRange::acquired`] of each message.
    pub(super) unsettled: Vec<(u8, RunMap<u32>)>,
    pub(super) unsettled_count: u64,
    /// Deliveries that the connection has no room for, with the session in which they came; 0 if
    /// the connection was asked already.
    pub(super) waiting: VecDeque<(u64, Delivery)>,
    /// What has gone on to the connection and the leader has not heard of.
    pub(super) credit: (u32, u64),
}

impl Subscription {
    pub fn new(connection: ConnectionId) -> Self {
        Self {
            connection,
            consumer: None,
            attached: false,
            activation: None,
            connection_credit: None,
            unsettled: Vec::new(),
            unsettled_count: 0,
            waiting: VecDeque::new(),
            credit: (0, 0),
        }
    }

    pub(super) fn hold(&mut self, priority_log: u8, index: u64, acquired: u32) {
        let at = match self
            .unsettled
            .iter()
            .position(|(of, _)| *of == priority_log)
        {
            Some(at) => at,
            None => {
                self.unsettled.push((priority_log, RunMap::default()));
                self.unsettled.len() - 1
            }
        };
        let unsettled = &mut self.unsettled[at].1;
        let before = unsettled.len();
        unsettled.update(index..index + 1, |_| acquired, |_, _| {});
        self.unsettled_count += unsettled.len() - before;
    }

    /// Takes messages away that it holds: as intervals of equal [`UnsettledRange::acquired`], which
    /// may have others between them that it does not hold. Says how many there were.
    pub(super) fn release(&mut self, priority_log: u8, range: Range<u64>) -> (Released, u64) {
        let mut released = Released::new();
        let Some((_, unsettled)) = self
            .unsettled
            .iter_mut()
            .find(|(of, _)| *of == priority_log)
        else {
            return (released, 0);
        };
        let count = unsettled.remove(range, |range, acquired| match released.last_mut() {
            Some((last, of)) if *of == acquired => last.end = range.end,
            _ => released.push((range, acquired)),
        });
        self.unsettled_count -= count;
        (released, count)
    }

    pub(super) fn settles(&self) -> bool {
        self.consumer.is_none_or(|consumer| !consumer.no_ack)
    }

    pub(super) fn admits(&self, bytes: u32) -> bool {
        let credit = self.connection_credit.as_ref();
        credit.is_some_and(|credit| credit.admit(bytes as usize))
    }

    pub(super) fn registered(&self, id: ConsumerId) -> RegisteredSubscription {
        let unsettled = self.unsettled.iter().flat_map(|(priority_log, runs)| {
            let priority_log = *priority_log;
            runs.iter().map(move |(range, acquired)| UnsettledRange {
                priority_log,
                range,
                acquired: u64::from(acquired),
                settled_by: 0,
            })
        });
        let consumer = self.consumer.filter(|_| self.attached);
        RegisteredSubscription {
            id,
            consumer,
            activation: consumer.and(self.activation).unwrap_or(0),
            unsettled: unsettled.collect(),
        }
    }
}
