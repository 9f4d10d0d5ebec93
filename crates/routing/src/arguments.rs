//! Which arguments are the same: what tells bindings of one source, destination and key apart.

use leveret_types::{FieldTable, FieldValue};
use smallvec::SmallVec;
use std::hash::{Hash, Hasher};

/// Arguments in the order of their names, the first of several of one name kept: the form in which
/// they identify a binding. Those that are in it are shared.
pub(crate) fn sorted(arguments: &FieldTable) -> FieldTable {
    if arguments.iter().is_sorted_by(|(a, _), (b, _)| a < b) {
        return arguments.clone();
    }
    let entries = firsts_of_names(arguments.iter().collect());
    let owned = |(name, value): (&str, &FieldValue)| (name.to_owned(), value.clone());
    entries.into_iter().map(owned).collect()
}

/// Whether two tables are the same, bit for bit: unlike with `==`, a NaN equals itself, so that its
/// binding can be removed.
pub(crate) fn same_table(a: &FieldTable, b: &FieldTable) -> bool {
    a.len() == b.len()
        && a.iter()
            .zip(b.iter())
            .all(|((name_a, a), (name_b, b))| name_a == name_b && same_value(a, b))
}

/// Feeds a hash with what [`same_value`] compares.
fn hash_value(value: &FieldValue, state: &mut impl Hasher) {
    std::mem::discriminant(value).hash(state);
    match value {
        FieldValue::LongString(bytes) | FieldValue::Bytes(bytes) => bytes.hash(state),
        FieldValue::Bool(value) => value.hash(state),
        FieldValue::Timestamp(seconds) => seconds.hash(state),
        FieldValue::F32(value) => value.to_bits().hash(state),
        FieldValue::F64(value) => value.to_bits().hash(state),
        FieldValue::Decimal { scale, value } => (scale, value).hash(state),
        FieldValue::Array(items) => {
            items.len().hash(state);
            items.iter().for_each(|item| hash_value(item, state));
        }
        FieldValue::Table(table) => hash_table(table, state),
        integer => integer.as_integer().hash(state),
    }
}

pub(crate) fn hash_table(table: &FieldTable, state: &mut impl Hasher) {
    table.len().hash(state);
    for (name, value) in table.iter() {
        name.hash(state);
        hash_value(value, state);
    }
}

fn same_value(a: &FieldValue, b: &FieldValue) -> bool {
    match (a, b) {
        (FieldValue::F32(a), FieldValue::F32(b)) => a.to_bits() == b.to_bits(),
        (FieldValue::F64(a), FieldValue::F64(b)) => a.to_bits() == b.to_bits(),
        (FieldValue::Array(a), FieldValue::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same_value(a, b))
        }
        (FieldValue::Table(a), FieldValue::Table(b)) => same_table(a, b),
        _ => a == b,
    }
}

/// Entries in the order of their names, the first of several of one name kept.
pub(crate) fn firsts_of_names<N: Ord, V>(
    mut entries: SmallVec<[(N, V); 16]>,
) -> SmallVec<[(N, V); 16]> {
    // A stable order leaves the first of a name first.
    entries.sort_by(|a, b| a.0.cmp(&b.0));
    entries.dedup_by(|later, first| later.0 == first.0);
    entries
}
