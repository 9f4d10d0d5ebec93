//! Field tables in serde's terms: exactly, for commands and snapshots, and as JSON has them, for
//! definitions.

use leveret_types::{FieldTable, FieldValue};
use serde::de::{Error as _, MapAccess, SeqAccess, Visitor};
use serde::ser::{SerializeMap, SerializeSeq};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::HashSet;
use std::fmt;

/// For `#[serde(with = "table::exact")]`: every type and width is kept.
pub(crate) mod exact {
    use super::{Exact, FieldTable};
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub fn serialize<S: Serializer>(table: &FieldTable, serializer: S) -> Result<S::Ok, S::Error> {
        let entries: Vec<(&str, Exact)> = table
            .iter()
            .map(|(name, value)| (name, Exact::of(value)))
            .collect();
        entries.serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<FieldTable, D::Error> {
        let entries = Vec::<(String, Exact)>::deserialize(deserializer)?;
        Ok(entries
            .into_iter()
            .map(|(name, value)| (name, value.into_value()))
            .collect())
    }
}

/// For `#[serde(with = "table::exact_value")]`: the same for one value.
pub(crate) mod exact_value {
    use super::{Exact, FieldValue};
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub fn serialize<S: Serializer>(value: &FieldValue, serializer: S) -> Result<S::Ok, S::Error> {
        Exact::of(value).serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<FieldValue, D::Error> {
        Exact::deserialize(deserializer).map(Exact::into_value)
    }
}

/// Bytes as CBOR has them, not as a list of numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ByteString(pub Vec<u8>);

impl Serialize for ByteString {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.0)
    }
}

impl<'de> Deserialize<'de> for ByteString {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Bytes;
        impl Visitor<'_> for Bytes {
            type Value = ByteString;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("bytes")
            }
            fn visit_bytes<E: serde::de::Error>(self, bytes: &[u8]) -> Result<ByteString, E> {
                Ok(ByteString(bytes.to_vec()))
            }
        }
        deserializer.deserialize_bytes(Bytes)
    }
}

/// For `#[serde(with = "table::bytes")]`.
pub(crate) mod bytes {
    use super::ByteString;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        ByteString(bytes.to_vec()).serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        ByteString::deserialize(deserializer).map(|bytes| bytes.0)
    }
}

/// A value with its type. The names are the wire tags of AMQP 0-9-1: they are part of the format of
/// commands.
#[derive(Serialize, Deserialize)]
enum Exact {
    #[serde(rename = "t")]
    Bool(bool),
    #[serde(rename = "b")]
    I8(i8),
    #[serde(rename = "B")]
    U8(u8),
    #[serde(rename = "s")]
    I16(i16),
    #[serde(rename = "u")]
    U16(u16),
    #[serde(rename = "I")]
    I32(i32),
    #[serde(rename = "i")]
    U32(u32),
    #[serde(rename = "l")]
    I64(i64),
    #[serde(rename = "f")]
    F32(f32),
    #[serde(rename = "d")]
    F64(f64),
    #[serde(rename = "D")]
    Decimal(u8, u32),
    #[serde(rename = "S")]
    LongString(ByteString),
    #[serde(rename = "x")]
    Bytes(ByteString),
    #[serde(rename = "A")]
    Array(Vec<Exact>),
    #[serde(rename = "T")]
    Timestamp(u64),
    #[serde(rename = "F")]
    Table(Vec<(String, Exact)>),
    #[serde(rename = "V")]
    Void,
}

impl Exact {
    fn of(value: &FieldValue) -> Self {
        match value {
            FieldValue::Bool(v) => Self::Bool(*v),
            FieldValue::I8(v) => Self::I8(*v),
            FieldValue::U8(v) => Self::U8(*v),
            FieldValue::I16(v) => Self::I16(*v),
            FieldValue::U16(v) => Self::U16(*v),
            FieldValue::I32(v) => Self::I32(*v),
            FieldValue::U32(v) => Self::U32(*v),
            FieldValue::I64(v) => Self::I64(*v),
            FieldValue::F32(v) => Self::F32(*v),
            FieldValue::F64(v) => Self::F64(*v),
            FieldValue::Decimal { scale, value } => Self::Decimal(*scale, *value),
            FieldValue::LongString(v) => Self::LongString(ByteString(v.clone())),
            FieldValue::Bytes(v) => Self::Bytes(ByteString(v.clone())),
            FieldValue::Array(v) => Self::Array(v.iter().map(Self::of).collect()),
            FieldValue::Timestamp(v) => Self::Timestamp(*v),
            FieldValue::Table(v) => {
                Self::Table(v.iter().map(|(k, v)| (k.to_owned(), Self::of(v))).collect())
            }
            FieldValue::Void => Self::Void,
        }
    }

    fn into_value(self) -> FieldValue {
        match self {
            Self::Bool(v) => FieldValue::Bool(v),
            Self::I8(v) => FieldValue::I8(v),
            Self::U8(v) => FieldValue::U8(v),
            Self::I16(v) => FieldValue::I16(v),
            Self::U16(v) => FieldValue::U16(v),
            Self::I32(v) => FieldValue::I32(v),
            Self::U32(v) => FieldValue::U32(v),
            Self::I64(v) => FieldValue::I64(v),
            Self::F32(v) => FieldValue::F32(v),
            Self::F64(v) => FieldValue::F64(v),
            Self::Decimal(scale, value) => FieldValue::Decimal { scale, value },
            Self::LongString(v) => FieldValue::LongString(v.0),
            Self::Bytes(v) => FieldValue::Bytes(v.0),
            Self::Array(v) => FieldValue::Array(v.into_iter().map(Self::into_value).collect()),
            Self::Timestamp(v) => FieldValue::Timestamp(v),
            Self::Table(v) => {
                FieldValue::Table(v.into_iter().map(|(k, v)| (k, v.into_value())).collect())
            }
            Self::Void => FieldValue::Void,
        }
    }
}

/// A value as JSON has it: widths are lost, bytes become text, and what JSON calls null is void.
#[derive(Clone, Debug, PartialEq)]
pub struct Json(pub FieldValue);

impl Default for Json {
    /// The empty object.
    fn default() -> Self {
        Self(FieldValue::Table(FieldTable::new()))
    }
}

impl Json {
    /// The value as an object.
    #[must_use]
    pub const fn as_table(&self) -> Option<&FieldTable> {
        match &self.0 {
            FieldValue::Table(table) => Some(table),
            _ => None,
        }
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serialize_json(&self.0, serializer)
    }
}

fn serialize_json<S: Serializer>(value: &FieldValue, serializer: S) -> Result<S::Ok, S::Error> {
    struct Borrowed<'a>(&'a FieldValue);
    impl Serialize for Borrowed<'_> {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            serialize_json(self.0, serializer)
        }
    }
    match value {
        FieldValue::Bool(v) => serializer.serialize_bool(*v),
        FieldValue::F32(v) => serializer.serialize_f64(f64::from(*v)),
        FieldValue::F64(v) => serializer.serialize_f64(*v),
        FieldValue::Decimal { scale, value } => {
            serializer.serialize_f64(f64::from(*value) / 10_f64.powi(i32::from(*scale)))
        }
        FieldValue::LongString(v) | FieldValue::Bytes(v) => {
            serializer.serialize_str(&String::from_utf8_lossy(v))
        }
        // What is beyond 63 bits could not be read again.
        FieldValue::Timestamp(v) => serializer.serialize_i64(i64::try_from(*v).unwrap_or(i64::MAX)),
        FieldValue::Array(items) => {
            let mut seq = serializer.serialize_seq(Some(items.len()))?;
            for item in items {
                seq.serialize_element(&Borrowed(item))?;
            }
            seq.end()
        }
        FieldValue::Table(table) => {
            let mut map = serializer.serialize_map(None)?;
            // Of several entries of one name the first counts; an object has no others.
            let mut names = HashSet::new();
            for (name, value) in table.iter().filter(|(name, _)| names.insert(*name)) {
                map.serialize_entry(name, &Borrowed(value))?;
            }
            map.end()
        }
        FieldValue::Void => serializer.serialize_unit(),
        integer => serializer.serialize_i64(integer.as_integer().unwrap_or_default()),
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = Json;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON value")
            }
            fn visit_bool<E>(self, v: bool) -> Result<Json, E> {
                Ok(Json(FieldValue::Bool(v)))
            }
            fn visit_i64<E>(self, v: i64) -> Result<Json, E> {
                Ok(Json(FieldValue::I64(v)))
            }
            fn visit_u64<E: serde::de::Error>(self, v: u64) -> Result<Json, E> {
                let v = i64::try_from(v).map_err(|_| E::custom("an integer beyond 64 bits"))?;
                Ok(Json(FieldValue::I64(v)))
            }
            fn visit_f64<E>(self, v: f64) -> Result<Json, E> {
                Ok(Json(FieldValue::F64(v)))
            }
            fn visit_str<E>(self, v: &str) -> Result<Json, E> {
                Ok(Json(FieldValue::text(v)))
            }
            fn visit_unit<E>(self) -> Result<Json, E> {
                Ok(Json(FieldValue::Void))
            }
            fn visit_none<E>(self) -> Result<Json, E> {
                Ok(Json(FieldValue::Void))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Json, A::Error> {
                let mut items = Vec::new();
                while let Some(Json(item)) = seq.next_element()? {
                    items.push(item);
                }
                Ok(Json(FieldValue::Array(items)))
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Json, A::Error> {
                let mut table = FieldTable::new();
                while let Some((name, Json(value))) = map.next_entry::<String, Json>()? {
                    if name.len() > leveret_types::limits::SHORT_STRING_BYTES_MAX {
                        return Err(A::Error::custom("a name longer than 255 bytes"));
                    }
                    table.set(&name, value);
                }
                Ok(Json(FieldValue::Table(table)))
            }
        }
        deserializer.deserialize_any(Any)
    }
}
