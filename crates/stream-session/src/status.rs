//! The status of a connection, for listings and metrics. Apart because it only reads.

use crate::publishers::Publisher;
use crate::readers::Reader;
use crate::session::Session;
use crate::totals::Totals;
use leveret_types::{Latencies, QueueId};

/// How a connection stands, for listings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionStatus {
    /// The user; empty before login.
    pub user: String,
    /// The virtual host; empty before it is open.
    pub vhost: String,
    /// What the client says of itself.
    pub client_properties: Vec<(String, String)>,
    /// Publishers, by their numbers.
    pub publishers: Vec<PublisherStatus>,
    /// Subscriptions, by their numbers.
    pub subscriptions: Vec<SubscriptionStatus>,
    /// Octets of a frame in force.
    pub frame_max: u32,
    /// Heartbeat interval in force, in seconds; 0 is none.
    pub heartbeat_seconds: u32,
}

/// One publisher.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublisherStatus {
    /// The client's number of it.
    pub id: u8,
    /// Its stream.
    pub stream: QueueId,
    /// The name under which its publishes are deduplicated; empty where they are not.
    pub reference: String,
    /// Entries that it has published.
    pub published: u64,
    /// Entries of these that were confirmed.
    pub confirmed: u64,
    /// Entries of these that were refused.
    pub errored: u64,
}

/// One subscription.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubscriptionStatus {
    /// The client's number of it.
    pub id: u8,
    /// Its stream.
    pub stream: QueueId,
    /// Chunks that the client takes beside those that it has been sent.
    pub credits: u32,
    /// Messages that it has been sent.
    pub consumed: u64,
    /// The last offset that it has been sent; none before the first.
    pub offset: Option<u64>,
    /// Whether one at a time is active in its group.
    pub single_active: bool,
    /// Whether chunks are read for it.
    pub active: bool,
    /// What the client subscribed with, as far as there is room for it.
    pub properties: Vec<(String, String)>,
}

impl Publisher {
    fn status(&self, id: u8) -> PublisherStatus {
        let reference = self.reference().map(|reference| reference.as_bytes());
        PublisherStatus {
            id,
            stream: self.id,
            reference: String::from_utf8_lossy(reference.unwrap_or_default()).into_owned(),
            published: self.published,
            confirmed: self.confirmed,
            errored: self.errored,
        }
    }
}

impl Reader {
    fn status(&self, id: u8) -> SubscriptionStatus {
        SubscriptionStatus {
            id,
            stream: self.id,
            credits: self.credits(),
            consumed: self.consumed,
            offset: self.offset,
            single_active: self.membership.is_some(),
            active: self.reads(),
            properties: self.properties.clone(),
        }
    }
}

impl Session {
    /// Whether it has a subscription of this stream.
    #[must_use]
    pub fn reads(&self, stream: QueueId) -> bool {
        self.readers.values().any(|reader| reader.id == stream)
    }

    /// How it stands.
    #[must_use]
    pub fn status(&self) -> SessionStatus {
        let publishers = self.publishers.by_id.iter();
        let readers = self.readers.iter();
        SessionStatus {
            user: self.client.user.clone(),
            vhost: self.client.vhost.to_string(),
            client_properties: self.client.properties.clone(),
            publishers: publishers
                .map(|(id, publisher)| publisher.status(*id))
                .collect(),
            subscriptions: readers.map(|(id, reader)| reader.status(*id)).collect(),
            frame_max: self.terms.frame_max,
            heartbeat_seconds: self.terms.heartbeat_seconds,
        }
    }

    /// How long publishes took, from when they were read until their confirm is written: to be
    /// drained.
    pub const fn latencies(&mut self) -> &mut Latencies {
        &mut self.latencies
    }

    /// What it has done so far.
    #[must_use]
    pub const fn totals(&self) -> Totals {
        self.totals
    }
}
