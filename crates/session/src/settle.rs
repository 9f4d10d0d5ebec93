//! What the client says of deliveries, and transactions, which delay it.

use crate::channel::{Channel, Mode, Transaction};
use crate::connection::Connection;
use crate::replies::PendingRequest;
use crate::unacked::UnackedDelivery;
use leveret_amqp::tx;
use leveret_client::contract::{Request, Settle, SettleOutcome};
use leveret_types::{ChannelId, ProtocolError, ReplyCode};

/// How many settles at the end of a batch are looked at for one that a new one continues: consumers
/// whose deliveries alternate have a range each.
const MERGE_WINDOW: usize = 8;

type Result = std::result::Result<(), ProtocolError>;

impl Connection {
    /// `basic.ack`, `basic.nack`, `basic.reject`.
    pub(crate) fn settle(
        &mut self,
        number: u16,
        tag: u64,
        multiple: bool,
        outcome: SettleOutcome,
        requests: &mut Vec<Request>,
    ) -> Result {
        let Self {
            channels,
            latencies,
            times,
            ..
        } = self;
        let Some(Channel {
            unacked,
            mode,
            counters,
            ..
        }) = channels.get_mut(&number).filter(|of| !of.closing)
        else {
            return Ok(());
        };
        let channel = ChannelId(number);
        let mut each = |delivery: UnackedDelivery| {
            if outcome == SettleOutcome::Accept {
                counters.edit().acknowledged += 1;
                let age_ms = delivery.age_ms(times.now);
                latencies.acknowledgements.add(age_ms, 1);
            }
            match mode {
                Mode::Transaction(tx) => tx.settles.push((delivery, outcome)),
                _ => push_settle(requests, delivery.settle(channel, outcome)),
            }
        };
        let known = if multiple {
            unacked.take_through(tag, each)
        } else {
            unacked.take(tag).map(&mut each).is_some()
        };
        if known {
            return Ok(());
        }
        let text = format!("unknown delivery tag {tag}");
        Err(ProtocolError::channel(ReplyCode::PreconditionFailed, text))
    }

    /// `basic.recover` and `basic.recover-async`: all that the client holds goes back. Not even a
    /// transaction delays that.
    pub(crate) fn recover(
        &mut self,
        number: u16,
        requeue: bool,
        requests: &mut Vec<Request>,
    ) -> Result {
        if !requeue {
            return Err(ProtocolError::connection(
                ReplyCode::NotImplemented,
                "requeue=false",
            ));
        }
        if let Some(channel) = self.open_channel(number) {
            let outcome = SettleOutcome::Requeue;
            let settle = |delivery: UnackedDelivery| {
                push_settle(requests, delivery.settle(ChannelId(number), outcome))
            };
            let all = channel.unacked.take_through(0, settle);
            assert!(all, "tag 0 stands for all deliveries");
        }
        Ok(())
    }

    /// `tx.commit`: sends off what has gathered.
    pub(crate) fn commit(&mut self, number: u16, requests: &mut Vec<Request>) -> Result {
        let Transaction {
            mut publishes,
            settles,
            ..
        } = self.take_transaction(number)?;
        for publish in &mut publishes {
            // It is published now: a time to live begins here.
            publish.message.summary.published_ms = self.times.now.wall_ms;
        }
        requests.extend(publishes.into_iter().map(Request::Publish));
        let channel = ChannelId(number);
        for (delivery, outcome) in settles {
            push_settle(requests, delivery.settle(channel, outcome));
        }
        self.pending_request = Some(PendingRequest::Commit { channel: number });
        requests.push(Request::Commit { channel });
        Ok(())
    }

    /// `tx.rollback`: forgets the publishes; the deliveries are the client's again.
    pub(crate) fn roll_back(&mut self, number: u16) -> Result {
        let Transaction { settles, .. } = self.take_transaction(number)?;
        if let Some(channel) = self.open_channel(number) {
            channel
                .unacked
                .put_back(settles.into_iter().map(|(delivery, _)| delivery));
        }
        self.send(number, &tx::RollbackOk {});
        Ok(())
    }

    fn take_transaction(&mut self, number: u16) -> std::result::Result<Transaction, ProtocolError> {
        match self.open_channel(number).map(|channel| &mut channel.mode) {
            Some(Mode::Transaction(tx)) => Ok(std::mem::take(tx)),
            _ => {
                let text = "channel is not transactional";
                Err(ProtocolError::channel(ReplyCode::PreconditionFailed, text))
            }
        }
    }
}

/// Sends a settle off, as part of one just before it where they are neighbours.
fn push_settle(requests: &mut Vec<Request>, settle: Settle) {
    for before in requests.iter_mut().rev().take(MERGE_WINDOW) {
        let Request::Settle(before) = before else {
            break;
        };
        let same = before.subscription == settle.subscription
            && before.queue == settle.queue
            && before.priority_log == settle.priority_log
            && before.channel == settle.channel
            && before.outcome == settle.outcome;
        if same && before.range.end == settle.range.start {
            before.range.end = settle.range.end;
            return;
        }
    }
    requests.push(Request::Settle(settle));
}

#[cfg(test)]
mod tests {
    use super::*;
    use leveret_types::{ConsumerId, QueueId};

    #[test]
    fn settles_become_one_where_nothing_but_their_place_differs_and_they_are_neighbours() {
        let settle =
            |channel: u16, subscription: u64, queue: u64, priority_log: u8, index: u64| Settle {
                channel: ChannelId(channel),
                subscription: ConsumerId(subscription),
                queue: QueueId(queue),
                priority_log,
                range: index..index + 1,
                outcome: SettleOutcome::Accept,
            };
        let rejected = Settle {
            outcome: SettleOutcome::Reject,
            ..settle(1, 1, 1, 0, 5)
        };
        for (second, is_one) in [
            (settle(1, 1, 1, 0, 5), true),
            (settle(1, 1, 1, 0, 6), false),
            (settle(1, 1, 1, 0, 3), false),
            (settle(1, 1, 1, 1, 5), false),
            (settle(1, 1, 2, 0, 5), false),
            (settle(1, 2, 1, 0, 5), false),
            (rejected, false),
        ] {
            let mut requests = Vec::new();
            push_settle(&mut requests, settle(1, 1, 1, 0, 4));
            push_settle(&mut requests, second.clone());
            let expected = if is_one { 1 } else { 2 };
            assert_eq!(requests.len(), expected, "{second:?}");
        }
    }
}
