//! Field tables in serde's terms: exactly, for commands and snapshots, and as JSON has them, for
//! definitions.

use leveret_types::{FieldTable, FieldValue};
use serde::de::{Error as _, MapAccess, SeqAccess, Visitor};
use serde::ser::{SerializeMap, SerializeSeq, SerializeTupleVariant};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::cmp::Ordering;
use std::collections::HashSet;
use std::fmt;

/// For `#[serde(with = "table::exact")]`: every type and width is kept.
pub(crate) mod exact {
    use super::{Exact, ExactEntries, FieldTable};
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub fn serialize<S: Serializer>(table: &FieldTable, serializer: S) -> Result<S::Ok, S::Error> {
        ExactEntries(table).serialize(serializer)
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
    use super::{Exact, ExactValue, FieldValue};
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub fn serialize<S: Serializer>(value: &FieldValue, serializer: S) -> Result<S::Ok, S::Error> {
        ExactValue(value).serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<FieldValue, D::Error> {
        Exact::deserialize(deserializer).map(Exact::into_value)
    }
}

/// Bytes as CBOR has them, not as a list of numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ByteString(pub Vec<u8>);

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
            fn visit_byte_buf<E: serde::de::Error>(self, bytes: Vec<u8>) -> Result<ByteString, E> {
                Ok(ByteString(bytes))
            }
        }
        // Not `deserialize_bytes`: ciborium reads what is lent from a buffer of 4 KiB alone, and
        // refuses what is longer.
        deserializer.deserialize_byte_buf(Bytes)
    }
}

/// For `#[serde(with = "table::bytes")]`.
pub(crate) mod bytes {
    use super::ByteString;
    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(bytes)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        ByteString::deserialize(deserializer).map(|bytes| bytes.0)
    }
}

/// A value with its type. The names are the wire tags of AMQP 0-9-1: they are part of the format of
/// commands. What is written is written by [`ExactValue`], which copies nothing.
#[derive(Deserialize)]
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

/// A value in the form of [`Exact`].
struct ExactValue<'a>(&'a FieldValue);

impl Serialize for ExactValue<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        const NAME: &str = "Exact";
        match self.0 {
            FieldValue::Bool(v) => serializer.serialize_newtype_variant(NAME, 0, "t", v),
            FieldValue::I8(v) => serializer.serialize_newtype_variant(NAME, 1, "b", v),
            FieldValue::U8(v) => serializer.serialize_newtype_variant(NAME, 2, "B", v),
            FieldValue::I16(v) => serializer.serialize_newtype_variant(NAME, 3, "s", v),
            FieldValue::U16(v) => serializer.serialize_newtype_variant(NAME, 4, "u", v),
            FieldValue::I32(v) => serializer.serialize_newtype_variant(NAME, 5, "I", v),
            FieldValue::U32(v) => serializer.serialize_newtype_variant(NAME, 6, "i", v),
            FieldValue::I64(v) => serializer.serialize_newtype_variant(NAME, 7, "l", v),
            FieldValue::F32(v) => serializer.serialize_newtype_variant(NAME, 8, "f", v),
            FieldValue::F64(v) => serializer.serialize_newtype_variant(NAME, 9, "d", v),
            FieldValue::Decimal { scale, value } => {
                let mut tuple = serializer.serialize_tuple_variant(NAME, 10, "D", 2)?;
                tuple.serialize_field(scale)?;
                tuple.serialize_field(value)?;
                tuple.end()
            }
            FieldValue::LongString(v) => {
                serializer.serialize_newtype_variant(NAME, 11, "S", &ExactBytes(v))
            }
            FieldValue::Bytes(v) => {
                serializer.serialize_newtype_variant(NAME, 12, "x", &ExactBytes(v))
            }
            FieldValue::Array(v) => {
                serializer.serialize_newtype_variant(NAME, 13, "A", &ExactItems(v))
            }
            FieldValue::Timestamp(v) => serializer.serialize_newtype_variant(NAME, 14, "T", v),
            FieldValue::Table(v) => {
                serializer.serialize_newtype_variant(NAME, 15, "F", &ExactEntries(v))
            }
            FieldValue::Void => serializer.serialize_unit_variant(NAME, 16, "V"),
        }
    }
}

struct ExactBytes<'a>(&'a [u8]);

impl Serialize for ExactBytes<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(self.0)
    }
}

struct ExactItems<'a>(&'a [FieldValue]);

impl Serialize for ExactItems<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(ExactValue))
    }
}

struct ExactEntries<'a>(&'a FieldTable);

impl Serialize for ExactEntries<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let entries = self.0.iter();
        serializer.collect_seq(entries.map(|(name, value)| (name, ExactValue(value))))
    }
}

/// An order of tables, for what is told apart by nothing else: any, as long as it is always the
/// same. It looks at the values where they are.
pub(crate) fn compare(a: &FieldTable, b: &FieldTable) -> Ordering {
    if a.shares_with(b) {
        return Ordering::Equal;
    }
    let pairs = a.iter().zip(b.iter());
    let mut orders = pairs.map(|((name_a, a), (name_b, b))| {
        let by_name = name_a.cmp(name_b);
        by_name.then_with(|| compare_values(a, b))
    });
    let first = orders.find(|order| order.is_ne());
    first.unwrap_or_else(|| a.len().cmp(&b.len()))
}

fn compare_values(a: &FieldValue, b: &FieldValue) -> Ordering {
    use FieldValue::{Array, Bytes, Decimal, F32, F64, LongString, Table, Timestamp};
    match (a, b) {
        (LongString(a), LongString(b)) | (Bytes(a), Bytes(b)) => a.cmp(b),
        (Array(a), Array(b)) => {
            let mut orders = a.iter().zip(b).map(|(a, b)| compare_values(a, b));
            let first = orders.find(|order| order.is_ne());
            first.unwrap_or_else(|| a.len().cmp(&b.len()))
        }
        (Table(a), Table(b)) => compare(a, b),
        (F32(a), F32(b)) => a.total_cmp(b),
        (F64(a), F64(b)) => a.total_cmp(b),
        (Timestamp(a), Timestamp(b)) => a.cmp(b),
        (
            Decimal {
                scale: scale_a,
                value: a,
            },
            Decimal {
                scale: scale_b,
                value: b,
            },
        ) => (scale_a, a).cmp(&(scale_b, b)),
        // Of other types there is a flag, nothing, or an integer.
        _ => {
            let key = |value: &FieldValue| (value.type_name(), value.as_bool(), value.as_integer());
            key(a).cmp(&key(b))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_that_differ_are_in_an_order_and_those_that_do_not_are_equal() {
        let value = FieldValue::I32;
        let one = |value: FieldValue| FieldTable::from([("a", value)]);
        // Each is behind the one before it.
        let tables = [
            FieldTable::new(),
            one(FieldValue::Array(vec![value(1)])),
            one(FieldValue::Array(vec![value(1), value(0)])),
            one(FieldValue::Array(vec![value(2)])),
            one(FieldValue::Bool(false)),
            one(FieldValue::Bool(true)),
            one(FieldValue::F64(0.5)),
            one(FieldValue::F64(f64::NAN)),
            one(FieldValue::text("1")),
            one(FieldValue::text("10")),
            one(value(-1)),
            one(value(9)),
            one(value(10)),
            FieldTable::from([("a", value(10)), ("b", FieldValue::Void)]),
            one(FieldValue::Table(one(value(1)))),
            one(FieldValue::Table(one(value(2)))),
            FieldTable::from([("b", FieldValue::Void)]),
        ];
        for (at, table) in tables.iter().enumerate() {
            for (other_at, other) in tables.iter().enumerate() {
                let order = compare(table, other);
                assert_eq!(order, at.cmp(&other_at), "{table:?} and {other:?}");
                let copied: FieldTable = other
                    .iter()
                    .map(|(k, v)| (k.to_owned(), v.clone()))
                    .collect();
                assert_eq!(compare(table, &copied), order);
            }
        }
    }
}
