//! Looking at a queue.

use super::Queue;
use crate::consumer::ConsumerView;
use crate::log::Position;
use crate::returns::Returns;
use crate::state::{PriorityLogState, State};
use leveret_types::{ConsumerId, Now};
use std::cmp::Reverse;
use std::ops::Range;

/// What the queue has done since it was made or recovered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Messages enqueued.
    pub enqueued: u64,
    /// Deliveries to consumers, to be settled.
    pub delivered: u64,
    /// Deliveries to `no_ack` consumers.
    pub delivered_settled: u64,
    /// Messages that were got, to be settled.
    pub got: u64,
    /// Messages that were got with `no_ack`.
    pub got_settled: u64,
    /// Gets that found nothing.
    pub got_empty: u64,
    /// Deliveries and gets of messages that were delivered before.
    pub redelivered: u64,
    /// Messages accepted.
    pub accepted: u64,
    /// Messages that came back.
    pub requeued: u64,
    /// Messages rejected for good.
    pub rejected: u64,
    /// Messages expired.
    pub expired: u64,
    /// Messages pushed out by a length limit.
    pub dropped: u64,
    /// Messages that exceeded the delivery limit.
    pub delivery_limited: u64,
    /// Messages purged.
    pub purged: u64,
}

impl std::ops::AddAssign for Counters {
    fn add_assign(&mut self, one: Self) {
        let sum = *self;
        *self = Self {
            enqueued: sum.enqueued + one.enqueued,
            delivered: sum.delivered + one.delivered,
            delivered_settled: sum.delivered_settled + one.delivered_settled,
            got: sum.got + one.got,
            got_settled: sum.got_settled + one.got_settled,
            got_empty: sum.got_empty + one.got_empty,
            redelivered: sum.redelivered + one.redelivered,
            accepted: sum.accepted + one.accepted,
            requeued: sum.requeued + one.requeued,
            rejected: sum.rejected + one.rejected,
            expired: sum.expired + one.expired,
            dropped: sum.dropped + one.dropped,
            delivery_limited: sum.delivery_limited + one.delivery_limited,
            purged: sum.purged + one.purged,
        };
    }
}

/// How a queue stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Messages that wait for a consumer, those among them that wait for their time.
    pub ready: u64,
    /// Bytes of their bodies.
    pub ready_bytes: u64,
    /// Messages that came back and wait for their time ([`crate::DelayedRetry`]).
    pub delayed: u64,
    /// Messages that somebody holds.
    pub unsettled: u64,
    /// Bytes of their bodies.
    pub unsettled_bytes: u64,
    /// Messages on their way to the dead-letter exchange.
    pub leaving: u64,
    /// Bytes of their bodies.
    pub leaving_bytes: u64,
    /// Messages that cannot be read.
    pub damaged: u64,
    /// Attached consumers.
    pub consumers: usize,
    /// The single active consumer.
    pub active: Option<ConsumerId>,
    /// Milliseconds for which a consumer stood ready to take a message. Its growth over an
    /// interval, divided by the interval, is RabbitMQ's consumer capacity.
    pub able_ms: u64,
    /// Bytes of memory that the queue takes, but for messages' bodies.
    pub memory_bytes: usize,
}

/// When the broker took the message that has waited longest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Oldest {
    /// No message waits.
    #[default]
    None,
    /// At this time, in milliseconds since the Unix epoch.
    Published(u64),
    /// It is not known without a read: of the ready message that has so many before it.
    Unknown {
        /// Messages before it, in the order in which they are handed out.
        before: u64,
    },
}

/// Which messages wait.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    /// How many are ready, by priority log; none without any.
    pub by_priority_log: Vec<(u8, u64)>,
    /// How many of them somebody had before.
    pub returned: u64,
}

/// A message that somebody holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnsettledMessage {
    /// Who holds it.
    pub consumer: ConsumerId,
    /// Where it is.
    pub position: Position,
    /// When it was handed over: on the monotonic clock, to the second, where a timeout applies.
    pub since_ms: Option<u64>,
}

impl Queue {
    /// Which of the ready messages has waited longest. `published` says of one at the head of a
    /// priority log when it was taken, if that can be told without a read.
    #[must_use]
    pub fn oldest(&self, mut published: impl FnMut(Position) -> Option<u64>) -> Oldest {
        let (mut oldest, mut before) = (Oldest::None, 0);
        let mut from = self.priority_logs.highest();
        while let Some(number) = from {
            let Some((index, priority_log)) = self.priority_logs.get(number).and_then(|one| {
                let first = one.ready.first()?;
                Some((first, one))
            }) else {
                break;
            };
            let peeked_ms = priority_log
                .head
                .and_then(|(at, meta)| Some((at, meta?.published_ms)));
            let known = [peeked_ms, priority_log.first_published_ms];
            let mut known = known.into_iter().flatten();
            let known = known.find_map(|(at, ms)| (at == index).then_some(ms));
            let position = Position {
                priority_log: number,
                index,
            };
            let Some(published) = known.or_else(|| published(position)) else {
                return Oldest::Unknown { before };
            };
            oldest = match oldest {
                Oldest::Published(other) => Oldest::Published(published.min(other)),
                _ => Oldest::Published(published),
            };
            before += priority_log.ready.len();
            from = number
                .checked_sub(1)
                .and_then(|below| self.priority_logs.highest_through(below));
        }
        oldest
    }

    /// When a message was taken that somebody has looked at: kept if it is the first of its
    /// priority log.
    pub fn note_head(&mut self, position: Position, published_ms: u64) {
        if let Some(priority_log) = self.priority_logs.get_mut(position.priority_log)
            && priority_log.ready.first() == Some(position.index)
        {
            priority_log.first_published_ms = Some((position.index, published_ms));
        }
    }

    /// How the queue stands.
    #[must_use]
    pub fn counts(&self, now: Now) -> Counts {
        let (delayed, delayed_bytes) = self.delayed.sums();
        Counts {
            ready: self.ready.messages + delayed,
            ready_bytes: self.ready.bytes + delayed_bytes,
            delayed,
            unsettled: self.unsettled.messages,
            unsettled_bytes: self.unsettled.bytes,
            leaving: self.leaving.messages,
            leaving_bytes: self.leaving.bytes,
            damaged: self
                .priority_logs
                .iter()
                .map(|(_, priority_log)| priority_log.damaged.len())
                .sum(),
            consumers: self.subscriptions.attached(),
            active: self.active(),
            able_ms: self.able.ms(now),
            memory_bytes: self.memory_bytes(),
        }
    }

    /// How many messages wait, how many somebody holds, and how many are on their way to the
    /// dead-letter exchange: as in [`Self::counts`], for whoever sums up many queues.
    #[must_use]
    pub fn depths(&self) -> [u64; 3] {
        let (delayed, _) = self.delayed.sums();
        let ready = self.ready.messages + delayed;
        [ready, self.unsettled.messages, self.leaving.messages]
    }

    fn memory_bytes(&self) -> usize {
        let priority_logs = self
            .priority_logs
            .iter()
            .map(|(_, priority_log)| priority_log.memory_bytes());
        let subscriptions = self
            .subscriptions
            .iter()
            .map(|(_, subscription)| subscription.memory_bytes());
        size_of::<Self>() + priority_logs.sum::<usize>() + subscriptions.sum::<usize>()
    }

    /// What the queue has done.
    #[must_use]
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The single active consumer.
    #[must_use]
    pub fn active(&self) -> Option<ConsumerId> {
        let active = self.election.active;
        active.map(|slot| self.subscriptions.get(slot).id)
    }

    /// The attached consumers, in no order.
    pub fn consumers(&self) -> impl Iterator<Item = ConsumerView> {
        self.subscriptions
            .iter()
            .filter_map(|(slot, subscription)| {
                Some(ConsumerView {
                    consumer: subscription.consumer?,
                    active: !self.settings.single_active || self.election.active == Some(slot),
                    blocked: subscription.blocked,
                    unsettled: subscription.unsettled_count,
                })
            })
    }

    /// The message that is next.
    #[must_use]
    pub fn next_position(&self) -> Option<Position> {
        let priority_log = self.priority_logs.highest()?;
        Some(Position {
            priority_log,
            index: self.priority_logs.get(priority_log)?.ready.first()?,
        })
    }

    /// The ready messages of a priority log from `index` on, as ranges: for looking at a queue
    /// without taking from it.
    pub fn ready_from(&self, priority_log: u8, index: u64) -> impl Iterator<Item = Range<u64>> {
        self.priority_logs
            .get(priority_log)
            .into_iter()
            .flat_map(move |priority_log| priority_log.ready.within(index..u64::MAX))
    }

    /// The ready message that has so many before it, in the order in which they are handed out.
    #[must_use]
    pub fn ready_behind(&self, mut before: u64) -> Option<Position> {
        let mut through = Some(u8::MAX);
        while let Some(priority_log) =
            through.and_then(|priority_log| self.priority_logs.highest_through(priority_log))
        {
            for range in self.ready_from(priority_log, 0) {
                let count = range.end - range.start;
                if before < count {
                    let index = range.start + before;
                    return Some(Position {
                        priority_log,
                        index,
                    });
                }
                before -= count;
            }
            through = priority_log.checked_sub(1);
        }
        None
    }

    /// What of a priority log is below this index was handed out; nothing of it and above.
    #[must_use]
    pub fn delivered_through(&self, priority_log: u8) -> u64 {
        self.priority_logs
            .get(priority_log)
            .map_or(0, |priority_log| priority_log.delivered_through)
    }

    /// Index of the first message of a priority log that is ready, from `index` on; of the next one
    /// that comes if none is.
    #[must_use]
    pub fn next_index_from(&self, priority_log: u8, index: u64) -> u64 {
        let ready = self.ready_from(priority_log, index).next();
        let next = self
            .priority_logs
            .get(priority_log)
            .map_or(0, |priority_log| priority_log.next_index);
        ready.map_or(next.max(index), |range| range.start)
    }

    /// Whether a subscription has this message.
    #[must_use]
    pub fn has(&self, subscription: ConsumerId, position: Position) -> bool {
        let Some(slot) = self.subscriptions.find(subscription) else {
            return false;
        };
        let mut unsettled_messages = self.subscriptions.get(slot).unsettled_messages.iter();
        unsettled_messages.any(|(priority_log, unsettled_messages)| {
            *priority_log == position.priority_log
                && unsettled_messages.get(position.index).is_some()
        })
    }

    /// Which messages wait. It takes time with the gaps between those that came back.
    #[must_use]
    pub fn waiting(&self) -> Waiting {
        let mut waiting = Waiting::default();
        for (number, priority_log) in self.priority_logs.iter() {
            if !priority_log.ready.is_empty() {
                let ready = priority_log.ready.len();
                waiting.by_priority_log.push((number, ready));
            }
            let came_back = priority_log.ready.within(0..priority_log.delivered_through);
            waiting.returned += came_back.map(|range| range.end - range.start).sum::<u64>();
        }
        waiting
    }

    /// Messages that are held, behind so many of them and so many at most: those of one
    /// subscription after those of another, by their ids; of each the highest priority first, then
    /// the first that came. All subscriptions', or only these, given in ascending order.
    #[must_use]
    pub fn unsettled_behind(
        &self,
        of: Option<&[ConsumerId]>,
        mut before: u64,
        count: usize,
    ) -> Vec<UnsettledMessage> {
        let is_meant = |id: ConsumerId| of.is_none_or(|of| of.binary_search(&id).is_ok());
        let all = self.subscriptions.iter().map(|(_, one)| one);
        let mut meant: Vec<_> = all
            .filter(|one| one.unsettled_count > 0 && is_meant(one.id))
            .collect();
        meant.sort_unstable_by_key(|one| one.id);
        let mut found = Vec::new();
        for subscription in meant {
            if found.len() == count {
                break;
            }
            if before >= subscription.unsettled_count {
                before -= subscription.unsettled_count;
                continue;
            }
            let mut priority_logs: Vec<_> = subscription.unsettled_messages.iter().collect();
            priority_logs.sort_unstable_by_key(|(number, _)| Reverse(*number));
            let runs = priority_logs
                .iter()
                .flat_map(|(number, runs)| runs.iter().map(|run| (*number, run)));
            for (priority_log, (range, unsettled_messages)) in runs {
                let skipped = before.min(range.end - range.start);
                before -= skipped;
                let left = count - found.len();
                let indexes = (range.start + skipped..range.end).take(left);
                found.extend(indexes.map(|index| UnsettledMessage {
                    consumer: subscription.id,
                    position: Position {
                        priority_log,
                        index,
                    },
                    since_ms: Some(unsettled_messages.since_ms).filter(|since| *since > 0),
                }));
                if found.len() == count {
                    break;
                }
            }
        }
        found
    }

    /// What is known of a message that came back and has not left.
    #[must_use]
    pub fn returns(&self, position: Position) -> Option<Returns> {
        self.priority_logs
            .get(position.priority_log)?
            .returns
            .get(position.index)
    }

    /// What must be saved besides the messages.
    #[must_use]
    pub fn state(&self) -> State {
        let priority_logs =
            self.priority_logs
                .iter()
                .map(|(number, priority_log)| PriorityLogState {
                    priority_log: number,
                    may_expire: priority_log.may_expire,
                    delivered_through: priority_log.delivered_through,
                    returns: priority_log.returns.iter().collect(),
                    leaving: Vec::new(),
                });
        State {
            priority_logs: priority_logs.collect(),
        }
    }
}
