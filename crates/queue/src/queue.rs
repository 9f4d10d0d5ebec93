//! The queue itself: what callers may do with it, and what follows.

mod amount;
mod consumers;
mod inherit;
mod leave;
mod pump;
mod settle;
mod time;
mod view;

pub use view::{Counters, Counts, Oldest, UnsettledMessage, Waiting};

use crate::consumer::Subscriptions;
use crate::effect::{Effect, Got, Offer};
use crate::log::{Log, Meta, Position};
use crate::priority_log::PriorityLogs;
use crate::returns::Delayed;
use crate::settings::Settings;
use amount::Amount;
use consumers::Election;
use leveret_types::limits::QUORUM_PRIORITY_MAX;
use leveret_types::{ConsumerId, Now, Overflow, QueueKind};
use std::ops::Range;
use time::{AbleTime, Deadlines};

/// A queue. See the crate's page for how its calls go together.
#[derive(Debug)]
pub struct Queue {
    kind: QueueKind,
    settings: Settings,
    priority_logs: PriorityLogs,
    subscriptions: Subscriptions,
    /// Whether the one consumer is exclusive.
    exclusive: bool,
    election: Election,
    ready: Amount,
    unsettled: Amount,
    /// Messages on their way to the dead-letter exchange, of all priority logs.
    leaving: Amount,
    /// Messages that came back and wait for their time.
    delayed: Delayed,
    /// Messages that are on their way to the queue: taken, not enqueued yet.
    announced: Amount,
    /// Whether counts of returns are told as effects.
    tells_returns: bool,
    counters: Counters,
    deadlines: Deadlines,
    able: AbleTime,
    /// Messages that leave, not yet told: so that neighbours are told together.
    settled: Option<(u8, Range<u64>, u64)>,
    /// What a settle took from a subscription; kept to be filled again.
    taken: Vec<(Range<u64>, u32)>,
}

/// The priority log of a quorum queue's messages without a priority.
const QUORUM_PRIORITY_LOG_DEFAULT: u8 = 4;
/// Delivery times are kept to this accuracy, so that deliveries of one second share an interval.
const DELIVERY_TIME_MS: u64 = 1_000;

impl Queue {
    /// A new, empty queue.
    #[must_use]
    pub fn new(kind: QueueKind, settings: Settings, now: Now) -> Self {
        Self {
            kind,
            settings,
            priority_logs: PriorityLogs::default(),
            subscriptions: Subscriptions::default(),
            exclusive: false,
            election: Election::default(),
            ready: Amount::default(),
            unsettled: Amount::default(),
            leaving: Amount::default(),
            delayed: Delayed::default(),
            announced: Amount::default(),
            tells_returns: false,
            counters: Counters::default(),
            deadlines: Deadlines::new(now),
            able: AbleTime::default(),
            settled: None,
            taken: Vec::new(),
        }
    }

    /// The kind that it was made as.
    #[must_use]
    pub const fn kind(&self) -> QueueKind {
        self.kind
    }

    /// The settings in force.
    #[must_use]
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// A policy has changed. Limits and times to live apply to what is there at the next pump; the
    /// consumer timeout to deliveries made from now on.
    pub fn update_settings(&mut self, now: Now, settings: Settings) {
        assert_eq!(
            settings.priority_max, self.settings.priority_max,
            "x-max-priority is fixed"
        );
        assert_eq!(
            settings.single_active, self.settings.single_active,
            "x-single-active-consumer is fixed"
        );
        if settings.expires_ms != self.settings.expires_ms {
            self.touch(now);
        }
        self.settings = settings;
    }

    /// The priority log of a message of that priority.
    #[must_use]
    pub fn priority_log_for(&self, priority: Option<u8>) -> u8 {
        match self.kind {
            QueueKind::Classic => priority.unwrap_or(0).min(self.settings.priority_max),
            QueueKind::Quorum | QueueKind::Stream => priority
                .unwrap_or(QUORUM_PRIORITY_LOG_DEFAULT)
                .min(QUORUM_PRIORITY_MAX),
        }
    }

    /// From now on what comes back is told as [`Effect::Returned`]: for a queue whose counts are
    /// kept by somebody else.
    pub const fn tell_returns(&mut self) {
        self.tells_returns = true;
    }

    /// A message of that size was taken and will be enqueued, or given up with
    /// [`Self::withdraw`]: [`Self::offer`] counts it.
    pub fn announce(&mut self, bytes: u32) {
        self.announced.add(1, u64::from(bytes));
    }

    /// A message that was announced is not on its way any more: it is enqueued now, or given up.
    pub fn withdraw(&mut self, bytes: u32) {
        assert!(self.announced.messages > 0, "nothing was announced");
        self.announced.take(1, u64::from(bytes));
    }

    /// Whether the queue takes a message of that size. To be asked before it is appended to the
    /// log. What was enqueued before in the same batch and can be delivered does not count against
    /// it.
    pub fn offer(
        &mut self,
        now: Now,
        bytes: u32,
        log: &mut impl Log,
        out: &mut Vec<Effect>,
    ) -> Offer {
        let fits = |queue: &Self| {
            let announced = queue.announced;
            !queue.would_exceed(1 + announced.messages, announced.bytes + u64::from(bytes))
        };
        if self.settings.overflow == Overflow::DropHead || fits(self) {
            return Offer::Take;
        }
        self.pump(now, log, out);
        match !fits(self) {
            false => Offer::Take,
            true => {
                let dlx = self.settings.overflow == Overflow::RejectPublishDlx;
                Offer::Reject {
                    dead_letter: dlx && self.settings.dead_letter,
                }
            }
        }
    }

    fn would_exceed(&self, messages: u64, bytes: u64) -> bool {
        let length = self.settings.length_max;
        let length_bytes = self.settings.length_bytes_max;
        let stays =
            self.settings.dead_letter_at_least_once && self.settings.overflow != Overflow::DropHead;
        let leaving = match stays {
            true => self.leaving,
            false => Amount::default(),
        };
        length.is_some_and(|max| self.ready.messages + leaving.messages + messages > max)
            || length_bytes.is_some_and(|max| self.ready.bytes + leaving.bytes + bytes > max)
    }

    /// A message has been appended to the log. Indexes ascend within a priority log.
    pub fn enqueue(&mut self, position: Position, meta: &Meta) {
        let in_motion = self.ready.messages > 0 || self.unsettled.messages > 0;
        let priority_log = self.priority_logs.open(position.priority_log);
        assert!(
            position.index >= priority_log.next_index,
            "{position:?} comes after index {}",
            priority_log.next_index
        );
        priority_log.next_index = position.index + 1;
        // Once all is gone that may have a time to live, heads need not be looked at any more.
        let others =
            in_motion || !priority_log.leaving.is_empty() || !priority_log.damaged.is_empty();
        priority_log.may_expire =
            meta.expiration_ms.is_some() || (priority_log.may_expire && others);
        if priority_log.ready.is_empty() {
            priority_log.first_published_ms = Some((position.index, meta.published_ms));
        }
        priority_log.ready.insert(position.index);
        priority_log.ready_bytes += u64::from(meta.bytes);
        self.priority_logs.occupy(position.priority_log);
        self.ready.add(1, u64::from(meta.bytes));
        self.counters.enqueued += 1;
    }

    /// Takes the next message out, for a client that asked for it. Pumps first: consumers that wait
    /// go before.
    pub fn get(
        &mut self,
        now: Now,
        subscription: ConsumerId,
        no_ack: bool,
        log: &mut impl Log,
        out: &mut Vec<Effect>,
    ) -> Got {
        self.touch(now);
        self.pump(now, log, out);
        let Some((position, meta)) = self.next_message(now, log, out) else {
            self.flush(out);
            if self.ready.messages > 0 {
                return Got::Pending;
            }
            self.counters.got_empty += 1;
            return Got::Empty;
        };
        let delivery = self.take_next(subscription, position, &meta, no_ack, out);
        if no_ack {
            self.counters.got_settled += 1;
        } else {
            self.counters.got += 1;
            let timeout_ms = self.settings.consumer_timeout_ms;
            let unsettled_messages = self.unsettled_messages(now, &meta, timeout_ms);
            let getter = self.subscriptions.getter(subscription);
            getter.timeout_ms = timeout_ms;
            getter.hold(position.priority_log, position.index, unsettled_messages);
        }
        self.expire_heads(now, log, out);
        self.flush(out);
        Got::Message {
            delivery,
            ready: self.ready.messages,
        }
    }
}
