//! Field tables: the typed maps of AMQP 0-9-1, as values. Their bytes are `amqp`'s affair.

use std::fmt;
use std::sync::Arc;

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

    /// Bytes that the value takes beside its place in a table or an array: see
    /// [`FieldTable::weight`].
    #[must_use]
    pub fn weight(&self) -> usize {
        match self {
            Self::LongString(bytes) | Self::Bytes(bytes) => bytes.len(),
            Self::Array(items) => {
                let bytes = items.iter().map(|item| size_of::<Self>() + item.weight());
                bytes.sum()
            }
            Self::Table(table) => table.weight(),
            _ => 0,
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
///
/// A clone shares the pairs until one of the two is changed: copies of what is declared, for lists,
/// exports and snapshots, take no memory of their own however many arguments there are.
#[derive(Clone, Default)]
pub struct FieldTable(Option<Arc<Vec<(String, FieldValue)>>>);

/// Bytes that an entry of a table takes beside its name and what is in its value.
const ENTRY_BYTES: usize = size_of::<(String, FieldValue)>();

/// What an entry of a table counts for in [`FieldTable::weight`].
#[must_use]
pub fn entry_weight(name: &str, value: &FieldValue) -> usize {
    ENTRY_BYTES + name.len() + value.weight()
}

impl FieldTable {
    /// A table with no entries.
    #[must_use]
    pub const fn new() -> Self {
        Self(None)
    }

    fn entries(&self) -> &[(String, FieldValue)] {
        self.0.as_deref().map_or(&[][..], Vec::as_slice)
    }

    /// The entries to be changed: this table's own from now on.
    fn own(&mut self) -> &mut Vec<(String, FieldValue)> {
        Arc::make_mut(self.0.get_or_insert_default())
    }

    /// The value under `key`; of several, the first, as RabbitMQ has it.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&FieldValue> {
        let mut entries = self.entries().iter();
        entries.find(|(k, _)| k == key).map(|(_, v)| v)
    }

    /// Sets `key` to `value`, in the place of the first entry of that key if there is one.
    pub fn set(&mut self, key: &str, value: FieldValue) {
        let entries = self.own();
        match entries.iter_mut().find(|(k, _)| k == key) {
            Some(entry) => entry.1 = value,
            None => entries.push((key.to_owned(), value)),
        }
    }

    /// Appends an entry without looking for one of the same key: what a decoder does.
    pub fn push(&mut self, key: String, value: FieldValue) {
        self.own().push((key, value));
    }

    /// Takes every entry under `key` away, and gives what [`Self::get`] would have.
    pub fn remove(&mut self, key: &str) -> Option<FieldValue> {
        let found = self.entries().iter().position(|(k, _)| k == key)?;
        let entries = self.own();
        let (_, value) = entries.remove(found);
        entries.retain(|(k, _)| k != key);
        Some(value)
    }

    /// The entries in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &FieldValue)> {
        self.entries().iter().map(|(k, v)| (k.as_str(), v))
    }

    /// The entry that has so many before it.
    #[must_use]
    pub fn entry(&self, before: usize) -> Option<(&str, &FieldValue)> {
        let entry = self.entries().get(before);
        entry.map(|(name, value)| (name.as_str(), value))
    }

    /// How many entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries().len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries().is_empty()
    }

    /// About as many bytes as the table takes in memory, and at least as many as it takes as JSON
    /// without what must be escaped, or in a snapshot: each entry counts for a fixed number, and
    /// for its name and its value.
    #[must_use]
    pub fn weight(&self) -> usize {
        let entries = self.iter();
        entries.map(|(name, value)| entry_weight(name, value)).sum()
    }

    /// Whether both share their entries, or have none: nothing was copied.
    #[must_use]
    pub fn shares_with(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Some(own), Some(other)) => Arc::ptr_eq(own, other),
            _ => self.is_empty() && other.is_empty(),
        }
    }
}

impl PartialEq for FieldTable {
    fn eq(&self, other: &Self) -> bool {
        self.entries() == other.entries()
    }
}

impl fmt::Debug for FieldTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("FieldTable").field(&self.entries()).finish()
    }
}

impl FromIterator<(String, FieldValue)> for FieldTable {
    fn from_iter<I: IntoIterator<Item = (String, FieldValue)>>(entries: I) -> Self {
        let entries: Vec<(String, FieldValue)> = entries.into_iter().collect();
        Self((!entries.is_empty()).then(|| Arc::new(entries)))
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

    #[test]
    fn a_clone_shares_its_entries_until_one_of_the_two_is_changed() {
        let table = FieldTable::from([("a", FieldValue::I32(1))]);
        let mut other = table.clone();
        assert!(other.shares_with(&table));
        assert_eq!(other.remove("none"), None);
        assert!(other.shares_with(&table), "nothing was taken away");
        other.set("a", FieldValue::I32(2));
        assert_eq!(table, FieldTable::from([("a", FieldValue::I32(1))]));
        assert_eq!(other, FieldTable::from([("a", FieldValue::I32(2))]));
        other.remove("a");
        assert_eq!(other, FieldTable::new());
        assert_eq!(format!("{other:?}"), "FieldTable([])");
    }

    #[test]
    fn a_table_weighs_what_is_in_it() {
        let entry = |value| FieldTable::from([("name", value)]).weight() - ENTRY_BYTES - 4;
        assert_eq!(FieldTable::new().weight(), 0);
        assert_eq!(entry(FieldValue::Bool(true)), 0);
        assert_eq!(entry(FieldValue::text("12345")), 5);
        let items = vec![FieldValue::Void, FieldValue::text("123")];
        let array = 2 * size_of::<FieldValue>() + 3;
        assert_eq!(entry(FieldValue::Array(items)), array);
        let inner = FieldTable::from([("in", FieldValue::I64(1))]);
        assert_eq!(entry(FieldValue::Table(inner)), ENTRY_BYTES + 2);
    }
}
