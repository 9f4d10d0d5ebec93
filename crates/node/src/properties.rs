//! What the broker reads in a message's properties, and changes.

use leveret_amqp::{Properties, RawTable, RawValue};
use leveret_message::{as_amqp091, with_properties};
use leveret_routing::MessageProperties;
use leveret_types::limits::CC_ENTRIES_MAX;
use leveret_types::{FieldTable, FieldValue, Message, ProtocolError, ReplyCode};
use smallvec::SmallVec;
use std::cell::{Cell, OnceCell};

/// Properties that are decoded once somebody asks, and remember that somebody did.
pub struct LazyProperties<'a> {
    bytes: &'a [u8],
    asked: Cell<bool>,
    decoded: OnceCell<Properties<'a>>,
    headers: OnceCell<FieldTable>,
}

impl<'a> LazyProperties<'a> {
    /// Properties of these wire bytes, which were checked when they arrived.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self {
            bytes,
            asked: Cell::new(false),
            decoded: OnceCell::new(),
            headers: OnceCell::new(),
        }
    }

    /// Whether the answer to a routing question depended on the properties.
    #[must_use]
    pub fn asked(&self) -> bool {
        self.asked.get()
    }

    fn decoded(&self) -> &Properties<'a> {
        self.asked.set(true);
        self.decoded.get_or_init(|| Properties::trusted(self.bytes))
    }
}

impl MessageProperties for LazyProperties<'_> {
    fn headers(&self) -> Option<&FieldTable> {
        let raw = self.decoded().headers?;
        Some(self.headers.get_or_init(|| raw.to_table()))
    }

    fn message_id(&self) -> Option<&[u8]> {
        self.decoded().message_id
    }

    fn correlation_id(&self) -> Option<&[u8]> {
        self.decoded().correlation_id
    }

    fn timestamp(&self) -> Option<u64> {
        self.decoded().timestamp
    }
}

/// The further routing keys that a sender-selected distribution asks for: the `CC` and `BCC`
/// headers.
///
/// # Errors
/// If such a header is not an array of strings, or longer than allowed: a channel error.
pub fn copies(properties: &[u8]) -> Result<SmallVec<[&[u8]; 4]>, ProtocolError> {
    let mut keys = SmallVec::new();
    let Some(headers) = Properties::trusted(properties).headers else {
        return Ok(keys);
    };
    for name in ["CC", "BCC"] {
        append_keys(headers, name, &mut keys)?;
    }
    Ok(keys)
}

fn append_keys<'a>(
    headers: RawTable<'a>,
    name: &str,
    keys: &mut SmallVec<[&'a [u8]; 4]>,
) -> Result<(), ProtocolError> {
    let refuse =
        |text: String| Err(ProtocolError::channel(ReplyCode::PreconditionFailed, text).at(60, 40));
    let value = match headers.get(name.as_bytes()) {
        None => return Ok(()),
        Some(RawValue::Array(items)) => items,
        Some(other) => {
            let kind = other.to_value().type_name();
            return refuse(format!(
                "unsupported type '{kind}' of header '{name}', not an array"
            ));
        }
    };
    for item in value.iter() {
        // Nothing is routed by what is no string, as in RabbitMQ.
        let RawValue::LongString(key) = item else {
            continue;
        };
        keys.push(key);
        if keys.len() > CC_ENTRIES_MAX {
            return refuse(format!(
                "more than {CC_ENTRIES_MAX} keys in the CC and BCC headers"
            ));
        }
    }
    Ok(())
}

/// The properties of a message by RabbitMQ's names; those that it does not have are left out.
#[must_use]
pub fn by_name(message: &Message) -> FieldTable {
    let converted = as_amqp091(message);
    let message = converted.as_ref().unwrap_or(message);
    let properties = Properties::trusted(message.properties());
    let mut table = FieldTable::new();
    let texts = [
        ("content_type", properties.content_type),
        ("content_encoding", properties.content_encoding),
        ("correlation_id", properties.correlation_id),
        ("reply_to", properties.reply_to),
        ("expiration", properties.expiration),
        ("message_id", properties.message_id),
        ("type", properties.kind),
        ("user_id", properties.user_id),
        ("app_id", properties.app_id),
        ("cluster_id", properties.cluster_id),
    ];
    for (name, text) in texts {
        if let Some(text) = text {
            table.set(name, FieldValue::LongString(text.to_vec()));
        }
    }
    if let Some(headers) = properties.headers {
        table.set("headers", FieldValue::Table(headers.to_table()));
    }
    if let Some(mode) = properties.delivery_mode {
        table.set("delivery_mode", FieldValue::U8(mode));
    }
    if let Some(priority) = properties.priority {
        table.set("priority", FieldValue::U8(priority));
    }
    if let Some(timestamp) = properties.timestamp {
        table.set("timestamp", FieldValue::Timestamp(timestamp));
    }
    table
}

/// A copy of `message` that asks for replies under another name.
#[must_use]
pub fn with_reply_to(message: &Message, name: &[u8]) -> Message {
    let mut properties = Properties::trusted(message.properties());
    properties.reply_to = Some(name);
    with_properties(message, &properties)
}

/// `message` without its `BCC` header, which recipients must not see.
#[must_use]
pub fn without_blind_copies(message: &Message) -> Option<Message> {
    let mut properties = Properties::trusted(message.properties());
    let headers = properties.headers?;
    headers.get(b"BCC")?;
    let kept = leveret_amqp::TableBuilder::copy_of(headers, &["BCC"]);
    properties.headers = Some(kept.as_table());
    Some(with_properties(message, &properties))
}
