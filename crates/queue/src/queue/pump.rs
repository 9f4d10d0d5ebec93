//! The pump: deliveries, expiry and length limits that follow from noted changes.

use super::{DELIVERY_TIME_MS, Queue};
use crate::consumer::{Consumer, Slot, Unsettled};
use crate::effect::{Delivery, Effect, Reason};
use crate::log::{Log, Meta, Peek, Position};
use crate::priority_log::MessageRun;
use crate::returns::Returns;
use leveret_types::{ConsumerId, Now};
use leveret_types::{Overflow, QueueKind};

impl Queue {
    /// Does what follows from all calls since the last pump: delivers, expires, enforces the length
    /// limits.
    pub fn pump(&mut self, now: Now, log: &mut impl Log, out: &mut Vec<Effect>) {
        if !self.delayed.is_empty() {
            self.release_due(now);
        }
        self.deliver(now, log, out);
        self.expire_heads(now, log, out);
        if self.enforce_limits(log, out) {
            self.expire_heads(now, log, out);
        }
        for (_, priority_log) in self.priority_logs.iter_mut() {
            priority_log.fresh_from = priority_log.next_index;
        }
        self.flush(out);
        self.note_able(now);
    }

    /// A read for which [`Peek::Pending`] was answered has arrived. Pump afterwards.
    pub fn resume(&mut self) {
        for (_, priority_log) in self.priority_logs.iter_mut() {
            priority_log.head = priority_log.head.filter(|(_, meta)| meta.is_some());
        }
    }

    pub(super) fn deliver(&mut self, now: Now, log: &mut impl Log, out: &mut Vec<Effect>) {
        while self.subscriptions.any_able() {
            let Some((position, meta)) = self.next_message(now, log, out) else {
                break;
            };
            let Some((slot, consumer)) = self.next_consumer(meta.bytes, log) else {
                self.note_head(position, meta.published_ms);
                break;
            };
            let delivery = self.take_next(consumer.id, position, &meta, consumer.no_ack, out);
            if consumer.no_ack {
                self.counters.delivered_settled += 1;
            } else {
                self.counters.delivered += 1;
                let timeout_ms = consumer.timeout_ms.or(self.settings.consumer_timeout_ms);
                let unsettled_messages = self.unsettled_messages(now, &meta, timeout_ms);
                let subscription = self.subscriptions.get_mut(slot);
                subscription.timeout_ms = timeout_ms;
                subscription.hold(position.priority_log, position.index, unsettled_messages);
            }
            self.subscriptions.first_served(slot);
            out.push(Effect::Deliver(delivery));
        }
    }

    /// The message that is next, if it can be had now. What has expired before it goes.
    pub(super) fn next_message(
        &mut self,
        now: Now,
        log: &mut impl Log,
        out: &mut Vec<Effect>,
    ) -> Option<(Position, Meta)> {
        while let Some(number) = self.priority_logs.highest() {
            let priority_log = self.priority_logs.unsettled_messages(number);
            let index = priority_log.ready.first()?;
            if priority_log.head == Some((index, None)) {
                return None;
            }
            // A message that arrived since the last pump is delivered even if it may not wait at
            // all.
            let fresh = index >= priority_log.fresh_from;
            // What could be sent a while ago may have to be read again: the log is asked for each
            // delivery.
            match self.look(number, index, log, out) {
                Peek::Ready(meta) if fresh || self.expiry_ms(&meta) > now.wall_ms => {
                    let position = Position {
                        priority_log: number,
                        index,
                    };
                    return log.may_hand_out(position).then_some((position, meta));
                }
                Peek::Ready(meta) => self.discard_head(number, meta.bytes, Reason::Expired, out),
                Peek::Pending => {
                    self.priority_logs.unsettled_messages(number).head = Some((index, None));
                    return None;
                }
                Peek::Damaged => {}
            }
        }
        None
    }

    /// What is known of the first message of a priority log; no meta while it is being read.
    /// Damaged ones are set aside.
    pub(super) fn head(
        &mut self,
        number: u8,
        log: &mut impl Log,
        out: &mut Vec<Effect>,
    ) -> Option<(u64, Option<Meta>)> {
        loop {
            let priority_log = self.priority_logs.unsettled_messages(number);
            let index = priority_log.ready.first()?;
            if let Some((known, meta)) = priority_log.head
                && known == index
            {
                return Some((index, meta));
            }
            match self.look(number, index, log, out) {
                Peek::Ready(meta) => {
                    self.priority_logs.unsettled_messages(number).head = Some((index, Some(meta)))
                }
                Peek::Pending => {
                    self.priority_logs.unsettled_messages(number).head = Some((index, None))
                }
                Peek::Damaged => {}
            }
        }
    }

    /// Asks the log for the first message of a priority log, and sets it aside if it is damaged.
    fn look(
        &mut self,
        priority_log: u8,
        index: u64,
        log: &mut impl Log,
        out: &mut Vec<Effect>,
    ) -> Peek {
        let position = Position {
            priority_log,
            index,
        };
        let answer = log.peek(position);
        if answer == Peek::Damaged {
            self.take_head(priority_log, 0);
            self.priority_logs
                .unsettled_messages(priority_log)
                .damaged
                .insert(index);
            out.push(Effect::Damaged { position });
        }
        answer
    }

    /// The consumer whose turn it is and whose channel has room.
    fn next_consumer(&mut self, bytes: u32, log: &mut impl Log) -> Option<(Slot, Consumer)> {
        while let Some(slot) = self.subscriptions.first() {
            let consumer = self.subscriptions.get(slot).consumer?;
            if log.admit(consumer.id, bytes) {
                return Some((slot, consumer));
            }
            self.subscriptions.block_first(slot);
        }
        None
    }

    /// Takes the head of a priority log to hand it over.
    pub(super) fn take_next(
        &mut self,
        subscription: ConsumerId,
        position: Position,
        meta: &Meta,
        no_ack: bool,
        out: &mut Vec<Effect>,
    ) -> Delivery {
        let priority_log = self.priority_logs.unsettled_messages(position.priority_log);
        let redelivered = position.index < priority_log.delivered_through;
        let returns = priority_log.returns.get(position.index);
        let returns = returns.unwrap_or_default();
        if redelivered && returns.acquired == 0 && self.kind == QueueKind::Quorum {
            // Somebody may have it of whom nothing is known here. Who gets it next must be known to
            // have it later than who gets it now.
            let acquired = Returns {
                acquired: 1,
                ..returns
            };
            let this = position.index..position.index + 1;
            priority_log.returns.update(this, |_| acquired, |_, _| {});
        }
        priority_log.delivered_through = priority_log.delivered_through.max(position.index + 1);
        let taken = self.take_head(position.priority_log, meta.bytes);
        assert_eq!(
            taken,
            Some(position.index),
            "the head of priority log {} is another",
            position.priority_log
        );
        self.counters.redelivered += u64::from(redelivered);
        if no_ack {
            self.leave(
                position.priority_log,
                position.index..position.index + 1,
                u64::from(meta.bytes),
                out,
            );
        } else {
            self.unsettled.add(1, u64::from(meta.bytes));
        }
        Delivery {
            consumer: subscription,
            position,
            bytes: meta.bytes,
            redelivered,
            delivery_count: Some(returns.failed).filter(|count| *count > 0),
            acquired_count: Some(returns.acquired).filter(|count| *count > 0),
            settled: no_ack,
        }
    }

    /// What is kept of a message that is handed over now.
    pub(super) fn unsettled_messages(
        &mut self,
        now: Now,
        meta: &Meta,
        timeout_ms: Option<u64>,
    ) -> Unsettled {
        let since_ms = timeout_ms.map_or(0, |timeout| {
            let since = now.monotonic_ms.next_multiple_of(DELIVERY_TIME_MS).max(1);
            self.deadlines.time_out_by(since.saturating_add(timeout));
            since
        });
        Unsettled {
            bytes: meta.bytes,
            since_ms,
        }
    }

    /// Takes the first message of a priority log out of what is ready.
    pub(super) fn take_head(&mut self, number: u8, bytes: u32) -> Option<u64> {
        let priority_log = self.priority_logs.unsettled_messages(number);
        let index = priority_log.ready.pop_first()?;
        let mut freed = u64::from(bytes).min(priority_log.ready_bytes);
        let empty = priority_log.ready.is_empty();
        if empty {
            // The sizes of damaged messages are not known; they go with the last message of the
            // priority log.
            freed = priority_log.ready_bytes;
            priority_log.ready.trim();
        }
        priority_log.ready_bytes -= freed;
        self.ready.take(1, freed);
        if empty {
            self.priority_logs.vacate(number);
        }
        Some(index)
    }

    pub(super) fn discard_head(
        &mut self,
        number: u8,
        bytes: u32,
        reason: Reason,
        out: &mut Vec<Effect>,
    ) {
        let Some(index) = self.take_head(number, bytes) else {
            return;
        };
        match reason {
            Reason::Expired => self.counters.expired += 1,
            _ => self.counters.dropped += 1,
        }
        let run = MessageRun {
            priority_log: number,
            range: index..index + 1,
            bytes,
        };
        self.discard(run, reason, out);
    }

    /// Drops messages until the length limits are kept, and says whether any went.
    pub(super) fn enforce_limits(&mut self, log: &mut impl Log, out: &mut Vec<Effect>) -> bool {
        let ready = self.ready.messages;
        while self.settings.overflow == Overflow::DropHead && self.would_exceed(0, 0) {
            let Some(number) = self.priority_logs.highest() else {
                break;
            };
            match self.head(number, log, out) {
                // Looking may have set damaged messages aside: then the limit may be kept already.
                Some((_, Some(meta))) if self.would_exceed(0, 0) => {
                    self.discard_head(number, meta.bytes, Reason::MaxLength, out);
                }
                Some((_, None)) => break,
                Some(_) | None => {}
            }
        }
        self.ready.messages < ready
    }
}
