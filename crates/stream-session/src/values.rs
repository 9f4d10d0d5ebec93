//! Values of requests as the streams understand them.

use leveret_stream::Reference;
use leveret_stream_protocol::OffsetSpec;

/// A name under which a stream keeps something; nothing if it cannot be one.
pub(crate) fn reference_of(name: &str) -> Option<Reference> {
    Reference::new(name.to_owned().into())
}

/// Arguments that outlive their frame.
pub(crate) fn owned(arguments: &[(&str, &str)]) -> Vec<(String, String)> {
    let pair = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    arguments.iter().map(pair).collect()
}

/// Whether a stream may be called so: as in RabbitMQ, not nothing, not as what is the broker's own,
/// and no line breaks.
pub(crate) fn is_name(name: &str) -> bool {
    let is_short = name.len() <= leveret_types::limits::SHORT_STRING_BYTES_MAX;
    let is_own = name.starts_with("amq.");
    is_short && !is_own && !name.trim().is_empty() && !name.contains(['\r', '\n'])
}

/// An offset as the streams understand it. A client that says none begins with what comes next.
pub(crate) const fn offset_of(offset: OffsetSpec) -> leveret_stream::OffsetSpec {
    match offset {
        OffsetSpec::First => leveret_stream::OffsetSpec::First,
        OffsetSpec::Last => leveret_stream::OffsetSpec::Last,
        OffsetSpec::None | OffsetSpec::Next => leveret_stream::OffsetSpec::Next,
        OffsetSpec::Offset(offset) => leveret_stream::OffsetSpec::Offset(offset),
        OffsetSpec::Timestamp(ms) => leveret_stream::OffsetSpec::TimestampMs(ms),
    }
}
