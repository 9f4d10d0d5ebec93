//! A publish as bytes, made once for each publisher; what differs from message to message is
//! written over a copy.

use std::path::PathBuf;
use std::sync::Arc;

use leveret_amqp::frame::{FRAME_END, FRAME_HEAD_BYTES};
use leveret_amqp::{ContentHeader, FrameKind, Properties, RawTable, TableBuilder, basic, encode};
use leveret_types::limits::FRAME_OVERHEAD_BYTES;
use leveret_types::{FieldTable, FieldValue};

use crate::error::Error;
use crate::spec::{Load, SIZE_BYTES_MAX, Size, SpecError};
use crate::stamp::{self, Stamp};

/// Octets that hold a stamp's place in a header until the template is whole.
const PLACE: [u8; stamp::BYTES] = *b"\xA5place of stamp\x5A";

/// Generator of numbers that look random and are the same in each run.
#[derive(Clone, Debug)]
pub struct Numbers(u64);

impl Numbers {
    /// A sequence by its seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        // SplitMix64's first step: near seeds must not give near sequences.
        let mixed = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        Self(mixed | 1)
    }

    /// The next one.
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

/// The bodies of a load's messages.
#[derive(Clone, Debug)]
pub struct Bodies {
    /// Bytes that bodies are cut from.
    filler: Arc<Vec<u8>>,
    /// Contents of files, where bodies are those.
    files: Arc<Vec<Vec<u8>>>,
    size: Size,
    stamped: Stamped,
    seed: u64,
}

/// Where a load's stamps are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stamped {
    /// The first octets of the body.
    Body,
    /// A header.
    Header,
}

impl Stamped {
    /// Where the stamps of bodies of such sizes are.
    #[must_use]
    pub fn of(size: &Size) -> Self {
        let least = match size {
            Size::Fixed(size) => *size,
            Size::Range { min, .. } => *min,
            Size::Files { .. } => 0,
        };
        if least >= stamp::BYTES as u64 {
            Self::Body
        } else {
            Self::Header
        }
    }
}

impl Bodies {
    /// The bodies of a load.
    ///
    /// # Errors
    /// If a file cannot be read, or is too large.
    pub fn new(load: &Load, seed: u64) -> Result<Self, Error> {
        let mut numbers = Numbers::new(seed);
        let words = (load.size.max() as usize).div_ceil(8);
        let filler = (0..words).flat_map(|_| numbers.next().to_be_bytes());
        let files = match &load.size {
            Size::Files { files } => files.iter().map(read_file).collect::<Result<_, _>>()?,
            _ => Vec::new(),
        };
        Ok(Self {
            filler: Arc::new(filler.collect()),
            files: Arc::new(files),
            size: load.size.clone(),
            stamped: Stamped::of(&load.size),
            seed,
        })
    }

    /// Bodies of other sizes, where there are several.
    #[must_use]
    pub fn seeded(&self, seed: u64) -> Self {
        Self {
            seed: Numbers::new(seed).next(),
            ..self.clone()
        }
    }

    /// A message's body, without the stamp that may come before it: the same whenever it is asked
    /// for, since a message may have to be sent again.
    #[inline]
    pub(super) fn of(&self, sequence: u32) -> &[u8] {
        let size = match &self.size {
            Size::Fixed(size) => *size,
            Size::Range { min, max } => {
                let mut numbers = Numbers::new(self.seed.wrapping_add(u64::from(sequence)));
                min + numbers.next() % (max - min + 1)
            }
            Size::Files { .. } => {
                let at = sequence.wrapping_sub(1) as usize % self.files.len();
                return &self.files[at];
            }
        };
        let before = match self.stamped {
            Stamped::Body => stamp::BYTES,
            Stamped::Header => 0,
        };
        &self.filler[..size as usize - before]
    }
}

fn read_file(path: &PathBuf) -> Result<Vec<u8>, Error> {
    let what = format!("read the payload {}", path.display());
    let contents = std::fs::read(path).map_err(Error::io(what))?;
    if contents.len() as u64 > SIZE_BYTES_MAX {
        return Err(Error::Spec(SpecError::Value {
            what: format!("the payload {}", path.display()),
            value: format!("{} bytes", contents.len()),
            must: format!("it must be {SIZE_BYTES_MAX} at most"),
        }));
    }
    Ok(contents)
}

/// A publish without what differs from message to message.
#[derive(Clone, Debug)]
pub struct Template {
    /// Method frame and header frame.
    head: Vec<u8>,
    /// Where in it the body's size is.
    size_at: usize,
    /// Where in it the stamp is, if it is there.
    stamp_at: Option<usize>,
    channel: [u8; 2],
    payload_max: usize,
    bodies: Bodies,
}

impl Template {
    /// The publishes of one publisher.
    ///
    /// # Errors
    /// If the load names properties that there are not.
    pub fn new(
        load: &Load,
        bodies: Bodies,
        channel: u16,
        routing_key: &str,
        frame_max: u32,
    ) -> Result<Self, Error> {
        let mut head = Vec::new();
        let publish = basic::Publish {
            exchange: load.exchange.as_bytes(),
            routing_key: routing_key.as_bytes(),
            mandatory: load.mandatory,
            immediate: false,
        };
        encode::method(&mut head, channel, &publish);
        let size_at = head.len() + FRAME_HEAD_BYTES + 4;
        let properties = properties(load, bodies.stamped)?;
        encode::frame(&mut head, FrameKind::Header, channel, |out| {
            let header = ContentHeader {
                class: basic::CLASS,
                body_size: 0,
                properties: &properties,
            };
            header.encode(out);
        });
        let place = |window: &[u8]| window == PLACE;
        Ok(Self {
            size_at,
            stamp_at: head.windows(PLACE.len()).position(place),
            head,
            channel: channel.to_be_bytes(),
            payload_max: (frame_max - FRAME_OVERHEAD_BYTES) as usize,
            bodies,
        })
    }

    /// From here on frames are as large as another connection takes them.
    pub fn set_frame_max(&mut self, frame_max: u32) {
        self.payload_max = (frame_max - FRAME_OVERHEAD_BYTES) as usize;
    }

    /// Appends one publish; gives the octets of its body.
    #[inline]
    pub fn write(&self, out: &mut Vec<u8>, stamp: &Stamp) -> usize {
        let rest = self.bodies.of(stamp.sequence);
        let stamp = stamp.encode(rest);
        let start = out.len();
        out.extend_from_slice(&self.head);
        let in_body: &[u8] = match self.stamp_at {
            Some(at) => {
                out[start + at..start + at + stamp::BYTES].copy_from_slice(&stamp);
                &[]
            }
            None => &stamp,
        };
        let size = in_body.len() + rest.len();
        let size_at = start + self.size_at;
        out[size_at..size_at + 8].copy_from_slice(&(size as u64).to_be_bytes());
        if size == 0 {
            return 0;
        }
        let (first, mut later) = rest.split_at(rest.len().min(self.payload_max - in_body.len()));
        body_frame(out, self.channel, in_body, first);
        while !later.is_empty() {
            let (part, more) = later.split_at(later.len().min(self.payload_max));
            body_frame(out, self.channel, &[], part);
            later = more;
        }
        size
    }
}

#[inline]
fn body_frame(out: &mut Vec<u8>, channel: [u8; 2], left: &[u8], right: &[u8]) {
    let size = ((left.len() + right.len()) as u32).to_be_bytes();
    let [c0, c1] = channel;
    let [s0, s1, s2, s3] = size;
    out.extend_from_slice(&[FrameKind::Body as u8, c0, c1, s0, s1, s2, s3]);
    out.extend_from_slice(left);
    out.extend_from_slice(right);
    out.push(FRAME_END);
}

/// The load's properties as bytes.
fn properties(load: &Load, stamped: Stamped) -> Result<Vec<u8>, Error> {
    let mut headers = TableBuilder::new();
    let mut texts: Vec<(&str, String)> = Vec::new();
    let mut numbers: Vec<(&str, u64)> = Vec::new();
    for (name, value) in &load.properties {
        match value {
            toml::Value::Table(table) if name == "headers" => {
                for (name, value) in field_table(table)?.iter() {
                    headers.push(name, value);
                }
            }
            toml::Value::Integer(number) if *number >= 0 && !is_text(name) => {
                numbers.push((name, number.unsigned_abs()));
            }
            toml::Value::String(text) => texts.push((name, text.clone())),
            // `expiration = 60000` is meant as text.
            toml::Value::Integer(number) => texts.push((name, number.to_string())),
            other => return Err(wrong_property(name, other)),
        }
    }
    if stamped == Stamped::Header {
        headers.push(stamp::HEADER, &FieldValue::LongString(PLACE.to_vec()));
    }
    let mut properties = Properties {
        delivery_mode: Some(1 + u8::from(load.persistent)),
        ..Properties::default()
    };
    for (name, text) in &texts {
        let place = text_property(&mut properties, name);
        let value = toml::Value::String(text.clone());
        let place = place.filter(|_| text.len() <= 255);
        *place.ok_or_else(|| wrong_property(name, &value))? = Some(text.as_bytes());
    }
    for (name, number) in numbers {
        match name {
            "priority" if number <= 255 => properties.priority = Some(number as u8),
            "timestamp" => properties.timestamp = Some(number),
            _ => return Err(wrong_property(name, &toml::Value::Integer(number as i64))),
        }
    }
    properties.headers = (headers.as_table() != RawTable::EMPTY).then(|| headers.as_table());
    Ok(properties.to_bytes())
}

fn is_text(name: &str) -> bool {
    text_property(&mut Properties::default(), name).is_some()
}

fn text_property<'p, 'a>(
    properties: &'p mut Properties<'a>,
    name: &str,
) -> Option<&'p mut Option<&'a [u8]>> {
    Some(match name.replace('-', "_").as_str() {
        "content_type" => &mut properties.content_type,
        "content_encoding" => &mut properties.content_encoding,
        "correlation_id" => &mut properties.correlation_id,
        "reply_to" => &mut properties.reply_to,
        "expiration" => &mut properties.expiration,
        "message_id" => &mut properties.message_id,
        "type" => &mut properties.kind,
        "user_id" => &mut properties.user_id,
        "app_id" => &mut properties.app_id,
        _ => return None,
    })
}

fn wrong_property(name: &str, value: &toml::Value) -> Error {
    Error::Spec(SpecError::Value {
        what: format!("properties.{name}"),
        value: value.to_string(),
        must: "the properties are AMQP's, with short texts; `priority` and `timestamp` are \
               numbers, `headers` is a table"
            .to_owned(),
    })
}

/// TOML's values as AMQP's.
///
/// # Errors
/// If there is a date, which AMQP knows in seconds only.
pub fn field_table<'v>(
    values: impl IntoIterator<Item = (&'v String, &'v toml::Value)>,
) -> Result<FieldTable, Error> {
    let entries = values.into_iter();
    entries
        .map(|(name, value)| Ok((name.clone(), field_value(name, value)?)))
        .collect()
}

fn field_value(name: &str, value: &toml::Value) -> Result<FieldValue, Error> {
    Ok(match value {
        toml::Value::String(text) => FieldValue::text(text),
        toml::Value::Integer(number) => FieldValue::I64(*number),
        toml::Value::Float(number) => FieldValue::F64(*number),
        toml::Value::Boolean(truth) => FieldValue::Bool(*truth),
        toml::Value::Array(items) => {
            let items = items.iter().map(|item| field_value(name, item));
            FieldValue::Array(items.collect::<Result<_, _>>()?)
        }
        toml::Value::Table(table) => FieldValue::Table(field_table(table)?),
        toml::Value::Datetime(date) => {
            return Err(Error::Spec(SpecError::Value {
                what: name.to_owned(),
                value: date.to_string(),
                must: "arguments are texts, numbers, booleans, arrays and tables".to_owned(),
            }));
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use leveret_amqp::{Method, next_frame};

    fn load(text: &str) -> Load {
        toml::from_str(text).unwrap()
    }

    /// Body, properties and the stamp as a consumer would read it.
    fn publish(load: &Load, frame_max: u32) -> (Vec<u8>, Vec<u8>, Option<Stamp>) {
        let bodies = Bodies::new(load, 1).unwrap();
        let stamped = bodies.stamped;
        let template = Template::new(load, bodies, 7, "key", frame_max).unwrap();
        let stamp = Stamp {
            run: 1,
            publisher: 2,
            sequence: 3,
            due_us: 4,
        };
        let mut bytes = Vec::new();
        let size = template.write(&mut bytes, &stamp);
        let mut frames = Vec::new();
        let mut rest = &bytes[..];
        while let Some(frame) = next_frame(rest, frame_max).unwrap() {
            assert!(frame.wire_len() <= frame_max as usize && frame.channel == 7);
            rest = &rest[frame.wire_len()..];
            frames.push(frame);
        }
        assert!(rest.is_empty());
        let method = Method::decode(frames[0].payload).unwrap();
        assert!(matches!(method, Method::BasicPublish(p) if p.routing_key == b"key"));
        let header = ContentHeader::decode(frames[1].payload).unwrap();
        let body: Vec<u8> = frames[2..]
            .iter()
            .flat_map(|f| f.payload)
            .copied()
            .collect();
        assert_eq!((header.body_size, size), (body.len() as u64, body.len()));
        let properties = Properties::decode(header.properties).unwrap();
        let mut reader = stamp::Reader::default();
        if stamped == Stamped::Header {
            let found = properties.headers.unwrap().get(stamp::HEADER.as_bytes());
            let Some(leveret_amqp::RawValue::LongString(bytes)) = found else {
                panic!("no stamp: {found:?}");
            };
            reader.take(bytes);
        }
        reader.take(&body);
        assert_eq!(reader.finish(), Some(stamp));
        (body, header.properties.to_vec(), reader.finish())
    }

    #[test]
    fn bodies_of_every_size_are_whole_and_stamped() {
        for size in [0, 1, 15, 16, 17, 4_087, 4_088, 4_089, 8_176, 100_000] {
            let load = load(&format!("size = {size}"));
            let (body, _, _) = publish(&load, 4_096);
            assert_eq!(body.len(), size);
            publish(&load, 131_072);
        }
        for _ in 0..20 {
            let (body, _, _) = publish(&load("size = { min = 20, max = 22 }"), 4_096);
            assert!((20..=22).contains(&body.len()));
        }
    }

    #[test]
    fn properties_are_those_of_the_load() {
        let load = load(
            "persistent = true\nsize = 3\n[properties]\nexpiration = 60000\npriority = 4\n\
             content-type = \"text/plain\"\nheaders = { a = 1 }\n",
        );
        let (_, bytes, _) = publish(&load, 4_096);
        let properties = Properties::decode(&bytes).unwrap();
        assert_eq!(properties.expiration, Some(&b"60000"[..]));
        assert_eq!(properties.delivery_mode, Some(2));
        assert_eq!(properties.priority, Some(4));
        assert_eq!(properties.content_type, Some(&b"text/plain"[..]));
        assert_eq!(properties.headers.unwrap().iter().count(), 2);
    }

    #[test]
    fn properties_that_there_are_not_are_named() {
        for line in [
            "colour = \"red\"",
            "priority = 256",
            "headers = 1",
            "timestamp = \"x\"",
        ] {
            let load = load(&format!("[properties]\n{line}"));
            let bodies = Bodies::new(&load, 1).unwrap();
            let error = Template::new(&load, bodies, 1, "", 4_096).unwrap_err();
            let name = line.split(' ').next().unwrap();
            assert!(error.to_string().contains(name), "{error}");
        }
    }
}
