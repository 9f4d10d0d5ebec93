//! The sections of a message of AMQP 1.0 (its specification, 3.2).

use crate::codec::{Items, Malformed, Reader, Value, code};

/// The codes of the sections' descriptors.
pub mod descriptor {
    #![allow(missing_docs)] // The specification's names.
    pub const HEADER: u8 = 0x70;
    pub const DELIVERY_ANNOTATIONS: u8 = 0x71;
    pub const MESSAGE_ANNOTATIONS: u8 = 0x72;
    pub const PROPERTIES: u8 = 0x73;
    pub const APPLICATION_PROPERTIES: u8 = 0x74;
    pub const DATA: u8 = 0x75;
    pub const SEQUENCE: u8 = 0x76;
    pub const VALUE: u8 = 0x77;
    pub const FOOTER: u8 = 0x78;
}

/// The symbols that stand for the codes, from that of [`descriptor::HEADER`] on.
const SYMBOLS: [&[u8]; 9] = [
    b"amqp:header:list",
    b"amqp:delivery-annotations:map",
    b"amqp:message-annotations:map",
    b"amqp:properties:list",
    b"amqp:application-properties:map",
    b"amqp:data:binary",
    b"amqp:amqp-sequence:list",
    b"amqp:amqp-value:*",
    b"amqp:footer:map",
];

/// Appends the descriptor of a section, whose value follows.
pub fn begin(out: &mut Vec<u8>, section: u8) {
    out.extend_from_slice(&[code::DESCRIBED, code::SMALL_ULONG, section]);
}

/// The sections at the front of a message, as far as AMQP 0-9-1 has something for them, and its
/// body.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sections<'a> {
    /// Durable, priority, ttl, first-acquirer, delivery-count.
    pub header: Option<Items<'a>>,
    /// Annotations of the message.
    pub annotations: Option<Items<'a>>,
    /// Properties, in the order of the specification.
    pub properties: Option<Items<'a>>,
    /// Properties of the application.
    pub application: Option<Items<'a>>,
    /// The body's sections and all that follows.
    pub body: &'a [u8],
    /// What the first of the body's sections is.
    pub body_kind: Option<u8>,
}

impl<'a> Sections<'a> {
    /// Goes through the sections of a message. The values within lists and maps are not looked at.
    pub fn read(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let mut found = Self::default();
        let mut reader = Reader::new(bytes);
        while !reader.rest().is_empty() {
            let rest = reader.rest();
            let (kind, value) = section(&mut reader)?;
            let is_body = (descriptor::DATA..=descriptor::VALUE).contains(&kind);
            if is_body && found.body_kind.is_none() {
                (found.body, found.body_kind) = (rest, Some(kind));
            }
            match (kind, value) {
                (descriptor::HEADER, Value::List(items)) => found.header = Some(items),
                (descriptor::PROPERTIES, Value::List(items)) => found.properties = Some(items),
                (descriptor::MESSAGE_ANNOTATIONS, Value::Map(items)) => {
                    found.annotations = Some(items);
                }
                (descriptor::APPLICATION_PROPERTIES, Value::Map(items)) => {
                    found.application = Some(items);
                }
                (descriptor::DELIVERY_ANNOTATIONS | descriptor::FOOTER, Value::Map(_))
                | (descriptor::DATA, Value::Binary(_))
                | (descriptor::SEQUENCE, Value::List(_))
                | (descriptor::VALUE, _) => {}
                _ => return Err(Malformed),
            }
        }
        Ok(found)
    }

    /// Appends the body as AMQP 0-9-1 has it: the octets of all data sections, or, of any other
    /// body, its sections as they are.
    pub fn append_body(&self, out: &mut Vec<u8>) -> Result<(), Malformed> {
        if self.body_kind != Some(descriptor::DATA) {
            out.extend_from_slice(self.body);
            return Ok(());
        }
        let mut reader = Reader::new(self.body);
        while !reader.rest().is_empty() {
            if let (descriptor::DATA, Value::Binary(part)) = section(&mut reader)? {
                out.extend_from_slice(part);
            }
        }
        Ok(())
    }
}

/// Whether these bytes are the sections of a body, and a footer at most.
pub fn is_body(bytes: &[u8]) -> bool {
    let mut reader = Reader::new(bytes);
    let mut count = 0;
    while !reader.rest().is_empty() {
        let Ok((kind, value)) = section(&mut reader) else {
            return false;
        };
        let fits = match kind {
            descriptor::DATA => matches!(value, Value::Binary(_)),
            descriptor::SEQUENCE => matches!(value, Value::List(_)),
            descriptor::VALUE => true,
            descriptor::FOOTER => count > 0 && matches!(value, Value::Map(_)),
            _ => false,
        };
        if !fits {
            return false;
        }
        count += 1;
    }
    count > 0
}

/// The next section: the code of its descriptor, and its value.
fn section<'a>(reader: &mut Reader<'a>) -> Result<(u8, Value<'a>), Malformed> {
    if reader.octet()? != code::DESCRIBED {
        return Err(Malformed);
    }
    let descriptor = reader.octet()?;
    let kind = match reader.plain(descriptor)? {
        Value::U64(number) => u8::try_from(number).map_err(|_| Malformed)?,
        Value::Symbol(name) => {
            let place = SYMBOLS.iter().position(|symbol| *symbol == name);
            let place = place.and_then(|place| u8::try_from(place).ok());
            descriptor::HEADER + place.ok_or(Malformed)?
        }
        _ => return Err(Malformed),
    };
    if !(descriptor::HEADER..=descriptor::FOOTER).contains(&kind) {
        return Err(Malformed);
    }
    let value = match kind {
        // A value may itself be described.
        descriptor::VALUE => reader.value()?,
        _ => {
            let constructor = reader.octet()?;
            reader.plain(constructor)?
        }
    };
    Ok((kind, value))
}
