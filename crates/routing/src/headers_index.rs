//! The index of a headers exchange: which of its bindings a message's headers can match at all.
//!
//! A binding stands under the hash of a header that it wants, name and value together: in the `all`
//! modes under the one that the fewest others stand under, in the `any` modes under each. So a
//! message looks at the bindings that share a header with it, not at all of them, and how selective
//! a header is decides itself as bindings come.

use crate::headers::{self, Headers, HeadersMatcher};
use crate::table::Table;
use crate::targets::{Entries, Entry};
use foldhash::fast::RandomState;
use leveret_types::FieldValue;
use smallvec::SmallVec;
use std::hash::{BuildHasher, Hash, Hasher};

/// Where a binding stands in the index, so that taking it out does not search.
pub(crate) type IndexSlots = SmallVec<[IndexSlot; 1]>;

/// One of a binding's slots.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IndexSlot {
    /// What the binding stands under; `None` is the list of bindings that want nothing.
    key: Option<u64>,
    slot: u32,
}

/// The bindings of one headers exchange.
#[derive(Debug, Default)]
pub(crate) struct HeadersIndex {
    by_header: Table<(u64, Entries)>,
    /// Bindings that match whatever comes.
    unconditional: Entries,
    hasher: RandomState,
}

impl HeadersIndex {
    /// Puts a binding in; gives its slots, which [`Self::remove`] wants back.
    pub fn insert(&mut self, matcher: &HeadersMatcher, entry: Entry) -> IndexSlots {
        let mut keys: SmallVec<[u64; 4]> = matcher
            .wanted()
            .map(|(name, value)| self.key(name, wanted_class(value)))
            .collect();
        if matcher.wants_all() {
            // Of equal ones the first in the order of the names: which hash is lowest is chance.
            let fewest = keys
                .iter()
                .copied()
                .min_by_key(|key| self.under(*key).map_or(0, |e| e.as_slice().len()));
            return SmallVec::from_slice(&[self.push(fewest, entry)]);
        }
        keys.sort_unstable();
        keys.dedup();
        // One that wants any of nothing matches nothing, and stands nowhere.
        keys.into_iter()
            .map(|key| self.push(Some(key), entry))
            .collect()
    }

    fn push(&mut self, key: Option<u64>, entry: Entry) -> IndexSlot {
        let entries = match key {
            Some(key) => self.by_header.find_mut(key, |(of, _)| *of == key),
            None => None,
        };
        let slot = match (key, entries) {
            (_, Some((_, entries))) => entries.push(entry),
            (None, None) => self.unconditional.push(entry),
            (Some(key), None) => {
                let mut entries = Entries::default();
                let slot = entries.push(entry);
                self.by_header
                    .insert_unique(key, (key, entries), |(of, _)| *of);
                slot
            }
        };
        IndexSlot { key, slot }
    }

    /// The bindings that stand under a header.
    fn under(&self, key: u64) -> Option<&Entries> {
        let found = self.by_header.find(key, |(of, _)| *of == key);
        found.map(|(_, entries)| entries)
    }

    /// Takes a binding out. Tells of each binding that moves into a slot that becomes free: its
    /// slots are to be corrected with [`moved`].
    pub fn remove(
        &mut self,
        binding: u32,
        index_slots: &[IndexSlot],
        mut on_move: impl FnMut(u32, IndexSlot),
    ) {
        for &index_slot in index_slots {
            let entries = match index_slot.key {
                Some(key) => {
                    let found = self.by_header.find_mut(key, |(of, _)| *of == key);
                    found.map(|(_, entries)| entries)
                }
                None => Some(&mut self.unconditional),
            };
            let Some(entries) = entries else {
                panic!("binding {binding} stands under a header that the index does not have");
            };
            if let Some(other) = entries.remove(index_slot.slot, binding) {
                on_move(other, index_slot);
            }
            if let Some(key) = index_slot.key
                && entries.is_empty()
            {
                self.by_header.remove(key, |(of, _)| *of == key);
            }
        }
    }

    /// Calls `candidate` with every list of bindings that these headers may match: a superset of
    /// those that they do match, in which a binding may come several times.
    pub fn candidates(&self, headers: &Headers<'_>, mut candidate: impl FnMut(&[Entry])) {
        if !self.unconditional.is_empty() {
            candidate(self.unconditional.as_slice());
        }
        if self.by_header.is_empty() {
            return;
        }
        for (name, value) in headers.iter() {
            for class in [Class::Presence, header_class(value)] {
                if let Some(entries) = self.under(self.key(name, class)) {
                    candidate(entries.as_slice());
                }
            }
        }
    }

    fn key(&self, name: &str, class: Class<'_>) -> u64 {
        self.hasher.hash_one((name, class))
    }
}

/// Corrects the slot of a binding that has moved into another one's.
pub(crate) fn moved(index_slots: &mut [IndexSlot], to: IndexSlot) {
    if let Some(index_slot) = index_slots
        .iter_mut()
        .find(|index_slot| index_slot.key == to.key)
    {
        index_slot.slot = to.slot;
    }
}

/// Values that match one another have the same class; values of one class may differ.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class<'a> {
    /// The header is there, whatever its value.
    Presence,
    Number(u64),
    Bytes(&'a [u8]),
    Bool(bool),
    /// Tables, arrays and decimals, which hardly anybody binds by.
    Other,
}

impl Hash for Class<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        std::mem::discriminant(self).hash(state);
        match self {
            Self::Number(bits) => bits.hash(state),
            Self::Bytes(bytes) => bytes.hash(state),
            Self::Bool(value) => value.hash(state),
            Self::Presence | Self::Other => {}
        }
    }
}

fn wanted_class(value: &FieldValue) -> Class<'_> {
    match value {
        FieldValue::Void => Class::Presence,
        value => header_class(value),
    }
}

fn header_class(value: &FieldValue) -> Class<'_> {
    if let Some(number) = headers::float(value) {
        // Adding zero makes -0 and 0, which are equal, the same bits.
        return Class::Number((number + 0.0).to_bits());
    }
    match value {
        FieldValue::LongString(bytes) | FieldValue::Bytes(bytes) => Class::Bytes(bytes),
        FieldValue::Bool(value) => Class::Bool(*value),
        _ => Class::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::targets::Target;
    use leveret_types::FieldTable;
    use leveret_types::FieldValue as V;

    fn table(entries: &[(&str, V)]) -> FieldTable {
        entries
            .iter()
            .map(|(name, value)| ((*name).to_owned(), value.clone()))
            .collect()
    }

    fn looked_at(index: &HeadersIndex, headers: &FieldTable) -> usize {
        let mut count = 0;
        index.candidates(&Headers::new(Some(headers)), |entries| {
            count += entries.len()
        });
        count
    }

    fn entry(binding: u32) -> Entry {
        Entry {
            target: Target::Queue(binding),
            binding,
        }
    }

    /// 100,000 bindings that share one header and differ in another.
    fn large(mode: &str) -> (HeadersIndex, Vec<IndexSlots>) {
        let mut index = HeadersIndex::default();
        let index_slots = (0..100_000)
            .map(|n| {
                let mut wanted = vec![("x-match", V::text(mode)), ("id", V::I32(n))];
                if mode == "all" {
                    wanted.push(("type", V::text("order")));
                }
                let matcher = HeadersMatcher::parse(&table(&wanted)).expect("valid arguments");
                index.insert(&matcher, entry(n as u32))
            })
            .collect();
        (index, index_slots)
    }

    #[test]
    fn a_selective_header_leaves_few_bindings_to_look_at() {
        for mode in ["all", "any"] {
            let (index, _) = large(mode);
            let headers = table(&[("type", V::text("order")), ("id", V::I64(70_000))]);
            let looked = looked_at(&index, &headers);
            assert!((1..=2).contains(&looked), "{mode}: {looked} of 100,000");
        }
    }

    #[test]
    fn a_header_that_comes_again_and_again_is_looked_up_once() {
        let (index, _) = large("any");
        let headers: Vec<_> = (0..1000).map(|_| ("id", V::I64(70_000))).collect();
        assert_eq!(looked_at(&index, &table(&headers)), 1);
    }

    #[test]
    fn an_index_without_bindings_is_empty_again() {
        let (mut index, mut index_slots) = large("all");
        for binding in 0..index_slots.len() {
            let mine = std::mem::take(&mut index_slots[binding]);
            index.remove(binding as u32, &mine, |other, to| {
                moved(&mut index_slots[other as usize], to);
            });
        }
        assert!(index.by_header.is_empty());
    }
}
