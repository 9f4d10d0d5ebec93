//! The commands by number, and the versions that the broker speaks.

/// The top bit of a key: the frame is a response.
pub const RESPONSE_BIT: u16 = 0x8000;

/// A command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u16)]
#[allow(missing_docs)] // The names are those of the protocol's document.
pub enum Key {
    DeclarePublisher = 0x01,
    Publish = 0x02,
    PublishConfirm = 0x03,
    PublishError = 0x04,
    QueryPublisherSequence = 0x05,
    DeletePublisher = 0x06,
    Subscribe = 0x07,
    Deliver = 0x08,
    Credit = 0x09,
    StoreOffset = 0x0a,
    QueryOffset = 0x0b,
    Unsubscribe = 0x0c,
    Create = 0x0d,
    Delete = 0x0e,
    Metadata = 0x0f,
    MetadataUpdate = 0x10,
    PeerProperties = 0x11,
    SaslHandshake = 0x12,
    SaslAuthenticate = 0x13,
    Tune = 0x14,
    Open = 0x15,
    Close = 0x16,
    Heartbeat = 0x17,
    Route = 0x18,
    Partitions = 0x19,
    ConsumerUpdate = 0x1a,
    ExchangeCommandVersions = 0x1b,
    StreamStats = 0x1c,
    CreateSuperStream = 0x1d,
    DeleteSuperStream = 0x1e,
    ResolveOffsetSpec = 0x1f,
}

impl Key {
    /// All commands, by their numbers.
    pub const ALL: [Self; 31] = [
        Self::DeclarePublisher,
        Self::Publish,
        Self::PublishConfirm,
        Self::PublishError,
        Self::QueryPublisherSequence,
        Self::DeletePublisher,
        Self::Subscribe,
        Self::Deliver,
        Self::Credit,
        Self::StoreOffset,
        Self::QueryOffset,
        Self::Unsubscribe,
        Self::Create,
        Self::Delete,
        Self::Metadata,
        Self::MetadataUpdate,
        Self::PeerProperties,
        Self::SaslHandshake,
        Self::SaslAuthenticate,
        Self::Tune,
        Self::Open,
        Self::Close,
        Self::Heartbeat,
        Self::Route,
        Self::Partitions,
        Self::ConsumerUpdate,
        Self::ExchangeCommandVersions,
        Self::StreamStats,
        Self::CreateSuperStream,
        Self::DeleteSuperStream,
        Self::ResolveOffsetSpec,
    ];

    /// The command of this number, without the bit of a response.
    #[must_use]
    pub fn parse(number: u16) -> Option<Self> {
        let at = usize::from(number).checked_sub(1)?;
        Self::ALL.get(at).copied()
    }

    /// Its number.
    #[must_use]
    pub const fn number(self) -> u16 {
        self as u16
    }

    /// The greatest version of it; the least is 1.
    #[must_use]
    pub const fn version_max(self) -> u16 {
        match self {
            Self::Publish | Self::Deliver => 2,
            _ => 1,
        }
    }
}

/// What the broker answers to `ExchangeCommandVersions`: command, least and greatest version.
///
/// The order is RabbitMQ's: a client that takes the second entry for `Publish`, as Python's
/// `rstream` does, must find it there.
pub const SERVER_VERSIONS: [(Key, u16, u16); 20] = [
    (Key::DeclarePublisher, 1, 1),
    (Key::Publish, 1, 2),
    (Key::QueryPublisherSequence, 1, 1),
    (Key::DeletePublisher, 1, 1),
    (Key::Subscribe, 1, 1),
    (Key::Credit, 1, 1),
    (Key::StoreOffset, 1, 1),
    (Key::QueryOffset, 1, 1),
    (Key::Unsubscribe, 1, 1),
    (Key::Create, 1, 1),
    (Key::Delete, 1, 1),
    (Key::Metadata, 1, 1),
    (Key::Close, 1, 1),
    (Key::Heartbeat, 1, 1),
    (Key::Route, 1, 1),
    (Key::Partitions, 1, 1),
    (Key::StreamStats, 1, 1),
    (Key::CreateSuperStream, 1, 1),
    (Key::DeleteSuperStream, 1, 1),
    (Key::ResolveOffsetSpec, 1, 1),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_names_its_command() {
        for (at, key) in Key::ALL.into_iter().enumerate() {
            assert_eq!(usize::from(key.number()), at + 1);
            assert_eq!(Key::parse(key.number()), Some(key));
        }
        assert_eq!(Key::parse(0), None);
        assert_eq!(Key::parse(0x20), None);
        assert_eq!(Key::parse(RESPONSE_BIT | 1), None);
    }

    #[test]
    fn the_second_version_is_that_of_publish() {
        assert_eq!(SERVER_VERSIONS[1], (Key::Publish, 1, 2));
    }
}
