//! Hash tables whose growth moves few of very many items: whoever waits for the router does not
//! wait for all of them.

use crate::targets::{Entries, Entry};
use foldhash::fast::RandomState;
use hashbrown::HashTable;
use std::hash::BuildHasher;

/// Items in one part: with more, a table is in [`PARTS`].
const ONE_PART_MAX: usize = 4_096;
/// Parts of a large table. Each grows for itself, and hardly two of them at the same item.
const PARTS: usize = 64;
/// Bits of a hash below those that choose its part. A part looks at the lowest ones and at the
/// highest.
const PART_SHIFT: u32 = 32;

/// A table of items by their hashes, which whoever calls knows.
#[derive(Debug)]
pub(crate) struct Table<T> {
    /// None, one, or [`PARTS`].
    parts: Vec<HashTable<T>>,
    len: usize,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self {
            parts: Vec::new(),
            len: 0,
        }
    }
}

impl<T> Table<T> {
    pub(crate) const fn is_empty(&self) -> bool {
        self.len == 0
    }

    fn part(&self, hash: u64) -> Option<&HashTable<T>> {
        self.parts.get(part_of(hash, self.parts.len()))
    }

    fn part_mut(&mut self, hash: u64) -> Option<&mut HashTable<T>> {
        let part = part_of(hash, self.parts.len());
        self.parts.get_mut(part)
    }

    pub(crate) fn find(&self, hash: u64, is_wanted: impl FnMut(&T) -> bool) -> Option<&T> {
        self.part(hash)?.find(hash, is_wanted)
    }

    pub(crate) fn find_mut(
        &mut self,
        hash: u64,
        is_wanted: impl FnMut(&T) -> bool,
    ) -> Option<&mut T> {
        self.part_mut(hash)?.find_mut(hash, is_wanted)
    }

    /// Puts in an item that is not there; `hash_of` says the hashes of others.
    pub(crate) fn insert_unique(&mut self, hash: u64, item: T, hash_of: impl Fn(&T) -> u64) {
        self.len += 1;
        match self.parts.len() {
            0 => self.parts.push(HashTable::new()),
            1 if self.len > ONE_PART_MAX => self.split(&hash_of),
            _ => {}
        }
        if let Some(part) = self.part_mut(hash) {
            part.insert_unique(hash, item, hash_of);
        }
    }

    /// Takes an item out.
    pub(crate) fn remove(&mut self, hash: u64, is_wanted: impl FnMut(&T) -> bool) -> Option<T> {
        let found = self.part_mut(hash)?.find_entry(hash, is_wanted).ok()?;
        let (item, _) = found.remove();
        self.len -= 1;
        if self.len == 0 {
            self.parts = Vec::new();
        }
        Some(item)
    }

    fn split(&mut self, hash_of: &impl Fn(&T) -> u64) {
        let before = std::mem::take(&mut self.parts);
        let room = 2 * ONE_PART_MAX / PARTS;
        self.parts
            .resize_with(PARTS, || HashTable::with_capacity(room));
        for item in before.into_iter().flatten() {
            let hash = hash_of(&item);
            self.parts[part_of(hash, PARTS)].insert_unique(hash, item, hash_of);
        }
    }
}

const fn part_of(hash: u64, parts: usize) -> usize {
    (hash >> PART_SHIFT) as usize & parts.saturating_sub(1)
}

/// Bindings by their keys.
#[derive(Debug, Default)]
pub(crate) struct Keys {
    table: Table<(Box<[u8]>, Entries)>,
    hasher: RandomState,
}

impl Keys {
    /// The bindings of a key.
    pub(crate) fn get(&self, key: &[u8]) -> Option<&Entries> {
        let hash = self.hasher.hash_one(key);
        let found = self.table.find(hash, |(of, _)| **of == *key);
        found.map(|(_, entries)| entries)
    }

    /// Puts a binding under its key; returns its slot there.
    pub(crate) fn push(&mut self, key: &[u8], entry: Entry) -> u32 {
        let hash = self.hasher.hash_one(key);
        if let Some((_, entries)) = self.table.find_mut(hash, |(of, _)| **of == *key) {
            return entries.push(entry);
        }
        let mut entries = Entries::default();
        let slot = entries.push(entry);
        let hash_of = |(key, _): &(Box<[u8]>, Entries)| self.hasher.hash_one(&**key);
        self.table
            .insert_unique(hash, (key.into(), entries), hash_of);
        slot
    }

    /// Takes a binding out from under its key; returns the one that has moved into its slot, if
    /// any.
    pub(crate) fn remove(&mut self, key: &[u8], slot: u32, binding: u32) -> Option<u32> {
        let hash = self.hasher.hash_one(key);
        let is_wanted = |(of, _): &(Box<[u8]>, Entries)| **of == *key;
        let (_, entries) = self.table.find_mut(hash, is_wanted)?;
        let moved = entries.remove(slot, binding);
        if entries.is_empty() {
            self.table.remove(hash, is_wanted);
        }
        moved
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn an_item_that_comes_moves_few_of_very_many() {
        const ITEMS: u64 = 300_000;
        let hasher = RandomState::default();
        let moved = Cell::new(0);
        let hash_of = |item: &u64| {
            moved.set(moved.get() + 1);
            hasher.hash_one(*item)
        };
        let mut table = Table::default();
        let mut most = 0;
        for item in 0..ITEMS {
            moved.set(0);
            table.insert_unique(hasher.hash_one(item), item, hash_of);
            most = most.max(moved.get());
        }
        assert!(most < 2 * ONE_PART_MAX, "{most} of {ITEMS}");
        for item in 0..ITEMS {
            let hash = hasher.hash_one(item);
            assert_eq!(table.find(hash, |other| *other == item), Some(&item));
            assert_eq!(table.remove(hash, |other| *other == item), Some(item));
            assert_eq!(table.remove(hash, |other| *other == item), None);
        }
        assert!(table.is_empty() && table.parts.is_empty());
    }
}
