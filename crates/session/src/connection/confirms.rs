//! Publishes that the client awaits an answer to, from their queues' and logs' news to the frames.
//! Apart because answers gather: they are given before a write, never one by one.

use super::answers::Standing;
use super::{Connection, Phase};
use crate::channel::{Channel, Mode};
use leveret_amqp::basic;
use leveret_amqp::encode;
use leveret_client::contract::Awaited;
use leveret_client::{Answered, Ledger, SessionLatencies};
use leveret_types::{ChannelId, QueueId, ShardId};
use std::ops::Range;

impl Connection {
    /// Whether a publish waits for a log: only then must [`Self::durable`] be called.
    #[must_use]
    pub fn awaits_durability(&self) -> bool {
        self.answers.awaiting().any(|number| {
            let channel = self.channels.get(&number);
            channel.is_some_and(Channel::awaits_durability)
        })
    }

    /// A publish is in its queues. It is confirmed once all that is given has come true; at once if
    /// nothing is given. It must not have come true yet, or be told after this.
    pub fn accepted(&mut self, channel: ChannelId, number: u64, waits: &[(Awaited, u64)]) {
        let Some(ledger) = self.open_channel(channel.0).and_then(Channel::ledger) else {
            return;
        };
        let before = standing(ledger);
        ledger.accept(number, waits);
        let now = standing(ledger);
        self.answers.note(channel.0, before, now);
    }

    /// A publish was refused by a queue.
    pub fn rejected(&mut self, channel: ChannelId, number: u64) {
        let Some(ledger) = self.open_channel(channel.0).and_then(Channel::ledger) else {
            return;
        };
        let before = standing(ledger);
        ledger.reject(number);
        let now = standing(ledger);
        self.answers.note(channel.0, before, now);
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
        let channels = &mut self.channels;
        self.answers.tell(|number| {
            let ledger = channels.get_mut(&number).and_then(Channel::ledger)?;
            let before = standing(ledger);
            tell(ledger);
            Some((before, standing(ledger)))
        });
    }

    /// How many publishes were confirmed, and how many refused, since this was last asked.
    pub const fn take_answered(&mut self) -> Answered {
        self.answers.take_answered()
    }

    /// How long publishes and deliveries took whose confirms were given and whose acknowledgements
    /// came since this was last drained.
    pub const fn latencies(&mut self) -> &mut SessionLatencies {
        &mut self.latencies
    }

    /// Gives the client the answers to its publishes that are ready: before each write to the
    /// socket.
    pub fn flush(&mut self) {
        let ready = self.answers.take_ready();
        for channel in &ready {
            self.flush_channel(*channel);
        }
        self.answers.given(ready);
    }

    /// The same for one channel, so that nothing overtakes them on it.
    pub(crate) fn flush_channel(&mut self, number: u16) {
        let Self {
            out,
            channels,
            phase,
            times,
            answers,
            latencies,
            ..
        } = self;
        if *phase != Phase::Running {
            return;
        }
        let Some(Channel { mode, counters, .. }) = channels.get_mut(&number) else {
            return;
        };
        let Mode::Confirm(ledger) = mode else {
            return;
        };
        let now_ms = times.now.monotonic_ms;
        ledger.flush(now_ms, &mut latencies.confirms, |answer| {
            times.speak();
            answers.note_answer(answer);
            let (delivery_tag, multiple) = (answer.number, answer.multiple);
            if answer.confirmed {
                counters.edit().confirmed += answer.count;
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

fn standing(ledger: &Ledger) -> Standing {
    Standing {
        is_ready: ledger.is_ready(),
        awaits: ledger.awaits(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Settings, fuzz};
    use leveret_amqp::confirm;
    use leveret_types::Now;

    const CHANNEL: ChannelId = ChannelId(1);

    #[test]
    fn a_channel_is_looked_at_once_however_many_of_its_publishes_wait_or_are_ready() {
        let mut connection = fuzz::open_connection(Settings::default());
        let mut select = Vec::new();
        encode::method(&mut select, 1, &confirm::Select { nowait: true });
        fuzz::drive(&mut connection, Now::both(1_000), select.into());
        let numbers: Vec<u64> = (0..100)
            .filter_map(|_| Some(connection.open_channel(1)?.ledger()?.issue(0)))
            .collect();
        let noted = |of: &Connection| of.answers.counts();
        connection.accepted(CHANNEL, numbers[0], &[]);
        assert_eq!(noted(&connection), (0, 1));
        connection.flush();
        connection.rejected(CHANNEL, numbers[0]);
        assert_eq!(noted(&connection), (0, 0), "it has its answer");
        for number in &numbers[1..40] {
            let waits = [(Awaited::Shard(ShardId(0)), *number)];
            connection.accepted(CHANNEL, *number, &waits);
        }
        assert_eq!(noted(&connection), (1, 0));
        for number in &numbers[40..70] {
            connection.accepted(CHANNEL, *number, &[]);
        }
        for number in &numbers[70..] {
            connection.rejected(CHANNEL, *number);
        }
        assert_eq!(noted(&connection), (1, 1));
        connection.flush();
        connection.durable(ShardId(0), 0);
        assert_eq!(noted(&connection), (1, 0), "nothing is ready by that");
        connection.durable(ShardId(0), 20);
        assert_eq!(noted(&connection), (1, 1));
        connection.durable(ShardId(0), 21);
        assert_eq!(noted(&connection), (1, 1), "it is looked at anyway");
        connection.close_channels(&mut Vec::new());
        assert_eq!(noted(&connection), (0, 0));
    }

    #[test]
    fn what_a_queue_refuses_is_answered_and_what_waits_for_it_alone_waits_for_no_log() {
        let mut connection = fuzz::open_connection(Settings::default());
        let mut select = Vec::new();
        encode::method(&mut select, 1, &confirm::Select { nowait: true });
        fuzz::drive(&mut connection, Now::both(1_000), select.into());
        let issue = |connection: &mut Connection| {
            let ledger = connection.open_channel(1).and_then(Channel::ledger);
            ledger.expect("it confirms").issue(0)
        };
        let (first, second) = (issue(&mut connection), issue(&mut connection));
        let queue = QueueId(9);
        connection.accepted(CHANNEL, first, &[(Awaited::Queue(queue), 1)]);
        assert!(!connection.awaits_durability());
        connection.accepted(CHANNEL, second, &[(Awaited::Shard(ShardId(0)), 5)]);
        assert!(connection.awaits_durability());
        let sent = connection.unsent_bytes();
        connection.refused(queue, &(1..2));
        connection.flush();
        let answer = connection.output().to_vec().split_off(sent);
        assert_eq!(answer[7..11], [0, 60, 0, 120], "basic.nack");
        let sent = connection.unsent_bytes();
        connection.durable(ShardId(0), 5);
        connection.flush();
        let answer = connection.output().to_vec().split_off(sent);
        assert_eq!(answer[7..11], [0, 60, 0, 80], "basic.ack");
        assert!(!connection.awaits_durability());
    }

    #[test]
    fn a_channel_is_transactional_from_its_selection_on() {
        let mut connection = fuzz::open_connection(Settings::default());
        assert!(!connection.is_transactional(CHANNEL));
        let mut select = Vec::new();
        encode::method(&mut select, 1, &leveret_amqp::tx::Select {});
        fuzz::drive(&mut connection, Now::both(1_000), select.into());
        assert!(connection.is_transactional(CHANNEL));
        assert!(!connection.is_transactional(ChannelId(2)), "there is none");
    }
}
