//! Offsets of consumers by name, and in which order they were stored.

use crate::host::Reference;
use std::collections::BTreeMap;

/// See the module's description. Whoever keeps them bounds their number.
#[derive(Clone, Debug, Default)]
pub(crate) struct Offsets {
    by_name: BTreeMap<Reference, Stored>,
    /// Names by their ages.
    by_age: BTreeMap<u64, Reference>,
    /// The age of the next one that is stored.
    next_age: u64,
}

#[derive(Clone, Copy, Debug)]
struct Stored {
    offset: u64,
    /// Greater the later it was stored.
    age: u64,
}

/// They are the same if the same was stored in the same order.
impl PartialEq for Offsets {
    fn eq(&self, other: &Self) -> bool {
        self.in_order().eq(other.in_order())
    }
}

impl Eq for Offsets {}

impl Offsets {
    pub(crate) fn get(&self, name: &Reference) -> Option<u64> {
        self.by_name.get(name).map(|stored| stored.offset)
    }

    pub(crate) fn len(&self) -> usize {
        self.by_name.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &Reference> {
        self.by_name.keys()
    }

    /// All, the one that was stored longest ago first.
    pub(crate) fn in_order(&self) -> impl Iterator<Item = (&Reference, u64)> {
        let stored = |name| Some((name, self.get(name)?));
        self.by_age.values().filter_map(stored)
    }

    /// Stores an offset: it is the youngest.
    pub(crate) fn store(&mut self, name: Reference, offset: u64) {
        self.remove(&name);
        let age = self.next_age;
        self.next_age += 1;
        self.by_age.insert(age, name.clone());
        self.by_name.insert(name, Stored { offset, age });
    }

    /// The offset of this name, if there is one, is the youngest, for it is stored anew.
    pub(crate) fn renew(&mut self, name: &Reference) {
        if let Some(offset) = self.get(name) {
            self.store(name.clone(), offset);
        }
    }

    /// False if there is none.
    pub(crate) fn remove(&mut self, name: &Reference) -> bool {
        let stored = self.by_name.remove(name);
        let name = stored.and_then(|stored| self.by_age.remove(&stored.age));
        name.is_some()
    }

    /// The name whose offset was stored longest ago.
    pub(crate) fn oldest(&self) -> Option<&Reference> {
        self.by_age.values().next()
    }

    pub(crate) fn retain(&mut self, mut stays: impl FnMut(&Reference, u64) -> bool) {
        let Self {
            by_name, by_age, ..
        } = self;
        by_name.retain(|name, stored| {
            let stays = stays(name, stored.offset);
            if !stays {
                by_age.remove(&stored.age);
            }
            stays
        });
    }
}
