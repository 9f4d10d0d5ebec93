//! The types of exchange, with what their arguments settle, and what a binding to each must look
//! like.

use crate::partitions::{PartitionRouting, SUPER_STREAM, SUPER_STREAM_ROUTING};
use leveret_types::limits::{HASH_WEIGHT_MAX, RECENT_HISTORY_MAX, TOPIC_HASHES_MAX};
use leveret_types::{FieldTable, FieldValue};

/// What an `x-consistent-hash` exchange hashes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HashOn {
    /// The first routing key.
    RoutingKey,
    /// The header of this name (`hash-header`).
    Header(Box<str>),
    /// `message-id` (`hash-property`).
    MessageId,
    /// `correlation-id` (`hash-property`).
    CorrelationId,
    /// `timestamp` (`hash-property`).
    Timestamp,
}

/// A type of exchange, with what its arguments settle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `direct`: the binding key equals the routing key.
    Direct,
    /// `direct`, with `x-super-stream`: partitions by their keys or by the routing key's hash, none
    /// that is drained; and the other queues and exchanges whose binding key equals it.
    SuperStream(PartitionRouting),
    /// `fanout`: every binding.
    Fanout,
    /// `topic`: dot-separated words, `*` for one word, `#` for any number of them.
    Topic,
    /// `headers`: the binding's arguments against the message's headers.
    Headers,
    /// `x-consistent-hash`: one binding, chosen by a hash; the binding key is its weight.
    ConsistentHash(HashOn),
    /// `x-modulus-hash`: one binding, chosen by the routing key's hash modulo their number.
    ModulusHash,
    /// `x-random`: one binding, at random.
    Random,
    /// `x-local-random`: one binding to a queue of this node, at random.
    LocalRandom,
    /// `x-recent-history`: every binding; new bindings first get what was published last.
    RecentHistory {
        /// How many messages are kept for them.
        length: usize,
    },
    /// `x-delayed-message`: the node holds messages back, then routes them as this type does.
    Delayed(Box<Kind>),
}

/// Why an exchange may not be declared. The texts are RabbitMQ's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)] // The texts say it.
pub enum KindError {
    #[error("unknown exchange type '{0}'")]
    Unknown(String),
    #[error("Invalid argument, 'x-delayed-type' must be an existing exchange type")]
    DelayedType,
    #[error("Invalid argument, 'x-delayed-message' can't be used for 'x-delayed-type'")]
    DelayedTwice,
    #[error("Invalid argument, 'x-recent-history-length' must be a positive integer")]
    HistoryLength,
    #[error("Invalid argument, 'x-super-stream-routing' must be 'key', 'hash' or 'key-or-hash'")]
    SuperStreamRouting,
    #[error(
        "Invalid argument, 'x-super-stream-routing' is for direct exchanges with 'x-super-stream'"
    )]
    NoSuperStream,
    #[error("hash-header and hash-property are mutually exclusive")]
    HashOnBoth,
    #[error("hash-header must be a string")]
    HashHeader,
    #[error("Unsupported property: {0}")]
    HashProperty(String),
}

/// Why a binding may not be made. The texts are RabbitMQ's where it has the same rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)] // The texts say it.
pub enum BindError {
    #[error("no such exchange")]
    NoSource,
    #[error("no such destination")]
    NoDestination,
    #[error(
        "Invalid x-match field value <<\"{0}\">>; expected all, any, all-with-x, or any-with-x"
    )]
    MatchValue(String),
    #[error("Invalid x-match field type {type_name} (value {value}); expected longstr")]
    MatchType {
        type_name: &'static str,
        value: String,
    },
    #[error("The binding key must be an integer: <<\"{0}\">>")]
    WeightNotInteger(String),
    #[error("The binding key must be greater than 0")]
    WeightZero,
    #[error("The binding key must not be greater than {HASH_WEIGHT_MAX}")]
    WeightTooHigh,
    #[error("topic binding key must not contain more than {TOPIC_HASHES_MAX} '#' wildcards")]
    TopicHashes,
    #[error("x-local-random exchanges can only be bound to queues")]
    LocalRandomDestination,
}

impl Kind {
    /// The type that a declaration names, with its arguments checked.
    ///
    /// # Errors
    /// If there is no such type, or an argument does not fit it.
    pub fn parse(name: &str, arguments: &FieldTable) -> Result<Self, KindError> {
        if name != "x-delayed-message" {
            return Self::parse_plain(name, arguments);
        }
        match arguments
            .get("x-delayed-type")
            .and_then(FieldValue::as_text)
        {
            None => Err(KindError::DelayedType),
            Some("x-delayed-message") => Err(KindError::DelayedTwice),
            Some(inner) => Ok(Self::Delayed(Box::new(Self::parse_plain(
                inner, arguments,
            )?))),
        }
    }

    fn parse_plain(name: &str, arguments: &FieldTable) -> Result<Self, KindError> {
        let routing = partition_routing(arguments)?;
        if routing.is_some() && !(name == "direct" && is_super_stream(arguments)) {
            return Err(KindError::NoSuperStream);
        }
        Ok(match name {
            "direct" if is_super_stream(arguments) => {
                Self::SuperStream(routing.unwrap_or(PartitionRouting::Key))
            }
            "direct" => Self::Direct,
            "fanout" => Self::Fanout,
            "topic" => Self::Topic,
            "headers" => Self::Headers,
            "x-consistent-hash" => Self::ConsistentHash(hash_on(arguments)?),
            "x-modulus-hash" => Self::ModulusHash,
            "x-random" => Self::Random,
            "x-local-random" => Self::LocalRandom,
            "x-recent-history" => Self::RecentHistory {
                length: history_length(arguments)?,
            },
            other => return Err(KindError::Unknown(other.to_owned())),
        })
    }

    /// The name under which clients declare it.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Direct | Self::SuperStream(_) => "direct",
            Self::Fanout => "fanout",
            Self::Topic => "topic",
            Self::Headers => "headers",
            Self::ConsistentHash(_) => "x-consistent-hash",
            Self::ModulusHash => "x-modulus-hash",
            Self::Random => "x-random",
            Self::LocalRandom => "x-local-random",
            Self::RecentHistory { .. } => "x-recent-history",
            Self::Delayed(_) => "x-delayed-message",
        }
    }

    /// The type whose rules route a message: the inner one of a delayed exchange, else itself.
    #[must_use]
    pub fn routes_as(&self) -> &Self {
        match self {
            Self::Delayed(inner) => inner,
            _ => self,
        }
    }

    /// Whether it chooses one of several bindings, so that where a message goes depends on how
    /// many there are.
    pub(crate) fn chooses(&self) -> bool {
        matches!(
            self.routes_as(),
            Self::SuperStream(_)
                | Self::ConsistentHash(_)
                | Self::ModulusHash
                | Self::Random
                | Self::LocalRandom
        )
    }
}

/// Whether an exchange's arguments mark it as that of a super stream.
#[must_use]
pub fn is_super_stream(arguments: &FieldTable) -> bool {
    arguments.get(SUPER_STREAM).and_then(FieldValue::as_bool) == Some(true)
}

/// What the argument says, if it is there.
fn partition_routing(arguments: &FieldTable) -> Result<Option<PartitionRouting>, KindError> {
    let Some(value) = arguments.get(SUPER_STREAM_ROUTING) else {
        return Ok(None);
    };
    match value.as_text() {
        Some("key") => Ok(Some(PartitionRouting::Key)),
        Some("hash") => Ok(Some(PartitionRouting::Hash)),
        Some("key-or-hash") => Ok(Some(PartitionRouting::KeyOrHash)),
        _ => Err(KindError::SuperStreamRouting),
    }
}

fn hash_on(arguments: &FieldTable) -> Result<HashOn, KindError> {
    match (arguments.get("hash-header"), arguments.get("hash-property")) {
        (None, None) => Ok(HashOn::RoutingKey),
        (Some(_), Some(_)) => Err(KindError::HashOnBoth),
        (Some(header), None) => header
            .as_text()
            .map(|name| HashOn::Header(name.into()))
            .ok_or(KindError::HashHeader),
        (None, Some(property)) => match property.as_text() {
            Some("message_id") => Ok(HashOn::MessageId),
            Some("correlation_id") => Ok(HashOn::CorrelationId),
            Some("timestamp") => Ok(HashOn::Timestamp),
            _ => Err(KindError::HashProperty(property.to_string())),
        },
    }
}

/// The plugin keeps 20 messages where the argument is absent.
fn history_length(arguments: &FieldTable) -> Result<usize, KindError> {
    match arguments.get("x-recent-history-length") {
        None => Ok(20),
        Some(value) => value
            .as_integer()
            .and_then(|length| usize::try_from(length).ok())
            .filter(|length| (1..=RECENT_HISTORY_MAX).contains(length))
            .ok_or(KindError::HistoryLength),
    }
}

/// The weight that a binding key of an `x-consistent-hash` exchange gives.
pub(crate) fn weight(key: &[u8]) -> Result<u32, BindError> {
    let text = String::from_utf8_lossy(key);
    let digits = text.strip_prefix(['+', '-']).unwrap_or(&text);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(BindError::WeightNotInteger(text.into_owned()));
    }
    if text.starts_with('-') || digits.bytes().all(|b| b == b'0') {
        return Err(BindError::WeightZero);
    }
    digits
        .parse()
        .ok()
        .filter(|weight| *weight <= HASH_WEIGHT_MAX)
        .ok_or(BindError::WeightTooHigh)
}
