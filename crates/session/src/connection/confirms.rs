//! Publishes that the client awaits an answer to, from their queues' and logs' news to the frames.
//! Apart because answers gather: they are given before a write, never one by one.

use super::{Connection, Phase};
use crate::channel::Channel;
use leveret_amqp::basic;
use leveret_amqp::encode;
use leveret_client::Ledger;
use leveret_client::contract::Awaited;
use leveret_types::{ChannelId, QueueId, ShardId};
use std::ops::Range;

impl Connection {
    /// Whether a publish waits for a log: only then must [`Self::durable`] be called.
    #[must_use]
    pub fn awaits_durability(&self) -> bool {
        let mut awaiting = self.awaiting.iter();
        awaiting.any(|number| {
            let channel = self.channels.get(number);
            channel.is_some_and(Channel::awaits_durability)
        })
    }

    /// A publish is in its queues. It is confirmed once all that is given has come true; at once if
    /// nothing is given. It must not have come true yet, or be told after this.
    pub fn accepted(&mut self, channel: ChannelId, number: u64, waits: &[(Awaited, u64)]) {
        let Some(ledger) = self.open_channel(channel.0).and_then(Channel::ledger) else {
            return;
        };
        let (ready, awaits) = (ledger.is_ready(), ledger.awaits());
        ledger.accept(number, waits);
        let (ready_now, awaits_now) = (ledger.is_ready(), ledger.awaits());
        if ready_now && !ready {
            self.confirming.push(channel.0);
        }
        if awaits_now && !awaits {
            self.awaiting.push(channel.0);
        }
    }

    /// A publish was refused by a queue.
    pub fn rejected(&mut self, channel: ChannelId, number: u64) {
        let Some(ledger) = self.open_channel(channel.0).and_then(Channel::ledger) else {
            return;
        };
        let ready = ledger.is_ready();
        ledger.reject(number);
        if !ready && ledger.is_ready() {
            self.confirming.push(channel.0);
        }
    }

    /// A shard's log is durable through a position.
    pub fn durable(&mut self, shard: ShardId, through: u64) {
        self.tell_ledgers(|ledger| ledger.durable(shard, through));
    }

    /// A queue of the cluster has committed the operations of this node through a sequence number.
    pub fn committed(&mut self, queue: QueueId, through: u64) {
        self.tell_ledgers(|ledger| ledger.committed(queue, through));
    }

    /// A queue of the cluster refuses operations of this node.
    pub fn refused(&mut self, queue: QueueId, sequences: &Range<u64>) {
        self.tell_ledgers(|ledger| ledger.refused(queue, sequences.clone()));
    }

    fn tell_ledgers(&mut self, mut tell: impl FnMut(&mut Ledger)) {
        let Self {
            awaiting,
            confirming,
            channels,
            ..
        } = self;
        awaiting.retain(|number| {
            let Some(ledger) = channels.get_mut(number).and_then(Channel::ledger) else {
                return false;
            };
            let ready = ledger.is_ready();
            tell(ledger);
            if !ready && ledger.is_ready() {
                confirming.push(*number);
            }
            ledger.awaits()
        });
    }

    /// Gives the client the answers to its publishes that are ready: before each write to the
    /// socket.
    pub fn flush(&mut self) {
        let mut confirming = std::mem::take(&mut self.confirming);
        for channel in confirming.drain(..) {
            self.flush_channel(channel);
        }
        self.confirming = confirming;
    }

    /// The same for one channel, so that nothing overtakes them on it.
    pub(crate) fn flush_channel(&mut self, number: u16) {
        let Self {
            out,
            channels,
            phase,
            spoke,
            ..
        } = self;
        if *phase != Phase::Running {
            return;
        }
        let Some(ledger) = channels.get_mut(&number).and_then(Channel::ledger) else {
            return;
        };
        ledger.flush(|answer| {
            *spoke = true;
            let (delivery_tag, multiple) = (answer.number, answer.multiple);
            if answer.confirmed {
                encode::method(
                    out.tail(),
                    number,
                    &basic::Ack {
                        delivery_tag,
                        multiple,
                    },
                );
            } else {
                let nack = basic::Nack {
                    delivery_tag,
                    multiple,
                    requeue: false,
                };
                encode::method(out.tail(), number, &nack);
            }
        });
    }
}
