//! What becomes of those who keep a delivery for longer than they may.

use super::Connection;
use crate::env::Env;
use leveret_client::Session;
use leveret_metadata::{QueueKind, QueueRecord};
use leveret_types::{ChannelId, ConsumerId, Now, ProtocolError, QueueId, ReplyCode};

impl<S: Session> Connection<S> {
    /// A subscription of messages was too slow. A quorum queue's consumer ends alone, if the client
    /// can be told so; anybody else's channel closes, as in RabbitMQ.
    pub(super) fn timed_out<E: Env>(&mut self, subscription: ConsumerId, now: Now, env: &E) {
        let consuming = self.consumers.channel_of(subscription);
        let Some(channel) = consuming.or_else(|| self.consumers.holding_channel(subscription))
        else {
            return;
        };
        match self.ends_alone(subscription, env) {
            Some(queue) => self.end_overdue(subscription, channel, queue, now, env),
            None => {
                self.finish_turn(now, env);
                let error = timeout_error(channel);
                self.session.fail(now, channel, error, &mut self.requests);
            }
        }
    }

    /// The queue of a consumer that can be cancelled from here.
    fn ends_alone<E: Env>(&self, consumer: ConsumerId, env: &E) -> Option<QueueId> {
        let queue = self.consumers.queue_of(consumer)?;
        let is_quorum = |record: &QueueRecord| record.kind() == QueueKind::Quorum;
        let catalogue = env.catalogue();
        let ends = self.session.hears_of_cancels()
            && !catalogue.config().timeout_closes_channel
            && catalogue.queue(queue).is_some_and(is_quorum);
        ends.then_some(queue)
    }

    /// Ends a consumer. All that it holds goes back at once, so that what its client still says of
    /// that means nothing.
    fn end_overdue<E: Env>(
        &mut self,
        consumer: ConsumerId,
        channel: ChannelId,
        queue: QueueId,
        now: Now,
        env: &E,
    ) {
        let held = self.session.unsettled_by(channel, consumer);
        self.consumer_cancelled(consumer);
        env.with_shard(now, env.shard_of(queue), |shard| {
            shard.detach(now, queue, consumer);
        });
        self.give_back(channel, held, now, env);
    }
}

/// What a channel is told that has kept a delivery for too long.
fn timeout_error(channel: ChannelId) -> ProtocolError {
    ProtocolError::channel(
        ReplyCode::PreconditionFailed,
        format!(
            "delivery acknowledgement on channel {channel} timed out. \
             This timeout value can be configured, see consumers doc guide to learn more"
        ),
    )
}
