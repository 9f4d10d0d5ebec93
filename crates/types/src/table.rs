//! Field tables: the typed maps of AMQP 0-9-1, as values. Their bytes are `amqp`'s affair.

use std::fmt;

/// A value of a field table, in RabbitMQ's dialect of the types (`reference: AMQP 0-9-1 errata`).
///
/// Strings are bytes: clients put what they like into them, and the broker hands on what it was
/// given.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)] // The variants are the wire types; their tags are in `amqp`.
pub enum FieldValue {
    Bool(bool),
    I8(i8),
    U8(u8),
    I16(i16),
    U16(u16),
    I32(i32),
    U32(u32),
    I64(i64),
    F32(f32),
    F64(f64),
    Decimal {
        scale: u8,
        value: u32,
    },
    LongString(Vec<u8>),
    Bytes(Vec<u8>),
    Array(Vec<FieldValue>),
    /// Seconds since the Unix epoch.
    Timestamp(u64),
    Table(FieldTable),
    Void,
}

impl FieldValue {
    /// A long string from text.
    #[must_use]
    pub fn text(text: &str) -> Self {
        Self::LongString(text.as_bytes().to_vec())
    }

    /// The value as an integer, where it is of any integer type: clients choose the width, the
    /// meaning does not change.
    #[must_use]
    pub fn as_integer(&self) -> Option<i64> {
        Some(match self {
            Self::I8(v) => i64::from(*v),
            Self::U8(v) => i64::from(*v),
            Self::I16(v) => i64::from(*v),
            Self::U16(v) => i64::from(*v),
            Self::I32(v) => i64::from(*v),
            Self::U32(v) => i64::from(*v),
            Self::I64(v) => *v,
            _ => return None,
        })
    }

    /// The value as UTF-8 text, where it is a long string that holds it.
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::LongString(bytes) => std::str::from_utf8(bytes).ok(),
            _ => None,
        }
    }

    /// The value as a boolean.
    #[must_use]
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Self::Bool(v) => Some(*v),
            _ => None,
        }
    }

    /// The value's type as RabbitMQ names it in error texts.
    #[must_use]
    pub const fn type_name(&self) -> &'static str {
        match self {
            Self::Bool(_) => "bool",
            Self::I8(_) => "byte",
            Self::U8(_) => "unsignedbyte",
            Self::I16(_) => "short",
            Self::U16(_) => "unsignedshort",
            Self::I32(_) => "signedint",
            Self::U32(_) => "unsignedint",
            Self::I64(_) => "long",
            Self::F32(_) => "float",
            Self::F64(_) => "double",
            Self::Decimal { .. } => "decimal",
            Self::LongString(_) => "longstr",
            Self::Bytes(_) => "binary",
            Self::Array(_) => "array",
            Self::Timestamp(_) => "timestamp",
            Self::Table(_) => "table",
            Self::Void => "void",
        }
    }
}

impl fmt::Display for FieldValue {
    /// The form in which RabbitMQ shows a value in an error text.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool(v) => write!(f, "{v}"),
            Self::F32(v) => write!(f, "{v}"),
            Self::F64(v) => write!(f, "{v}"),
            Self::Decimal { scale, value } => write!(f, "{value}e-{scale}"),
            Self::LongString(v) | Self::Bytes(v) => write!(f, "{}", String::from_utf8_lossy(v)),
            Self::Timestamp(v) => write!(f, "{v}"),
            Self::Array(v) => write!(f, "array of {}", v.len()),
            Self::Table(v) => write!(f, "table of {}", v.len()),
            Self::Void => f.write_str("undefined"),
            _ => write!(f, "{}", self.as_integer().unwrap_or_default()),
        }
    }
}

/// A field table: pairs in the order in which they were given. Small, so that a scan beats a map.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FieldTable(Vec<(String, FieldValue)>);

impl FieldTable {
    /// A table with no entries.
    #[must_use]
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// The value under `key`; of several, the first, as RabbitMQ has it.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&FieldValue> {
        self.0.iter().find(|(k, _)| k == key).map(|(_, v)| v)
    }

    /// Sets `key` to `value`, in the place of the first entry of that key if there is one.
    pub fn set(&mut self, key: &str, value: FieldValue) {
        match self.0.iter_mut().find(|(k, _)| k == key) {
            Some(entry) => entry.1 = value,
            None => self.0.push((key.to_owned(), value)),
        }
    }

    /// Appends an entry without looking for one of the same key: what a decoder does.
    pub fn push(&mut self, key: String, value: FieldValue) {
        self.0.push((key, value));
    }

    /// Takes every entry under `key` away, and gives what [`Self::get`] would have.
    pub fn remove(&mut self, key: &str) -> Option<FieldValue> {
        let found = self.0.iter().position(|(k, _)| k == key)?;
        let (_, value) = self.0.remove(found);
        self.0.retain(|(k, _)| k != key);
        Some(value)
    }

    /// The entries in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &FieldValue)> {
        self.0.iter().map(|(k, v)| (k.as_str(), v))
    }

    /// How many entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromIterator<(String, FieldValue)> for FieldTable {
    fn from_iter<I: IntoIterator<Item = (String, FieldValue)>>(entries: I) -> Self {
        Self(entries.into_iter().collect())
    }
}

impl<const N: usize> From<[(&str, FieldValue); N]> for FieldTable {
    fn from(entries: [(&str, FieldValue); N]) -> Self {
        entries
            .into_iter()
            .map(|(k, v)| (k.to_owned(), v))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_several_entries_of_one_name_the_first_counts() {
        let mut table = FieldTable::from([
            ("a", FieldValue::I32(1)),
            ("b", FieldValue::I32(2)),
            ("a", FieldValue::I32(3)),
        ]);
        assert_eq!(table.get("a"), Some(&FieldValue::I32(1)));
        table.set("a", FieldValue::I32(4));
        assert_eq!(table.get("a"), Some(&FieldValue::I32(4)));
        assert_eq!(table.remove("a"), Some(FieldValue::I32(4)));
        assert_eq!(table, FieldTable::from([("b", FieldValue::I32(2))]));
        assert_eq!(table.remove("a"), None);
    }
}
