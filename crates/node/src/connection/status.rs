//! What listings show of a connection. Apart because it only looks.

use super::Connection;
use crate::status::{ConnectionStatus, ConsumersShown, Holding};
use leveret_client::{Session, SessionState, UnsettledPosition};
use leveret_types::{ConsumerId, QueueId};

impl<S: Session> Connection<S> {
    /// Whether it has a consumer of this queue.
    pub fn consumes(&self, queue: QueueId) -> bool {
        let mut consumers = self.consumers.iter();
        consumers.any(|(_, consumer)| consumer.queue == Some(queue))
    }

    /// Adds what was published to the sums of the node, from which it is told by channel, exchange
    /// and queue.
    pub fn gather_published(&mut self) {
        self.publisher.gather();
    }

    /// Its channels that have had messages of a queue: what a look at them costs.
    pub fn serving_channels(&self) -> usize {
        self.consumers.channels.len()
    }

    /// Which of these messages, given in ascending order, it holds; nothing where no channel of it
    /// takes messages for any of their subscriptions.
    pub fn unsettled_among(&self, messages: &[UnsettledPosition]) -> Option<Holding> {
        let mut subscriptions: Vec<ConsumerId> =
            messages.iter().map(|place| place.subscription).collect();
        subscriptions.dedup();
        let channels = self.consumers.channels_of(&subscriptions);
        if channels.is_empty() {
            return None;
        }
        let held = self
            .session
            .unsettled_among(&channels, messages)
            .into_iter();
        let tag = |of: ConsumerId| Some(self.consumers.get(of)?.tag.clone());
        Some(Holding {
            connection: self.identity.name.clone(),
            user: self.login.user_name().to_owned(),
            deliveries: held
                .map(|held| (held, tag(held.place.subscription)))
                .collect(),
        })
    }

    /// Its status, for listings.
    pub fn status(&self) -> ConnectionStatus {
        self.status_with(ConsumersShown::All)
    }

    /// The same with some of its consumers: each takes a while to be copied, and there may be very
    /// many.
    pub fn status_with(&self, shown: ConsumersShown<'_>) -> ConnectionStatus {
        let session = &self.session;
        let status = session.status();
        ConnectionStatus {
            id: self.identity.id,
            protocol: status.protocol,
            name: self.identity.name.clone(),
            peer: self.identity.peer.clone(),
            user: self.login.user_name().to_owned(),
            vhost: self.login.vhost_name().to_owned(),
            client_properties: status.client_properties,
            state: match session.state() {
                SessionState::Opening => "starting",
                SessionState::Open if session.is_blocked() || self.alarm_wait.is_some() => {
                    "blocked"
                }
                SessionState::Open if session.alarmed() => "blocking",
                SessionState::Open => "running",
                SessionState::Closing | SessionState::Lingering | SessionState::Closed => "closing",
            },
            frame_max: status.frame_max,
            channel_max: status.channel_max,
            heartbeat_seconds: status.heartbeat_seconds,
            connected_at_ms: self.identity.connected_at_ms,
            received_bytes: self.traffic.received_bytes,
            sent_bytes: self.traffic.sent_bytes,
            unsent_bytes: status.unsent_bytes,
            tls: self.identity.tls_status.clone(),
            mechanism: self.login.mechanism().to_owned(),
            channels: self.channel_status(),
            consumers: self.consumer_status(shown),
            published: self.publisher.published.status(),
            publishes: session.published_yet(),
            stream_publishers: Vec::new(),
            stream_subscriptions: Vec::new(),
        }
    }
}
