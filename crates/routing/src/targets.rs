//! Where bindings lead, in the compact form in which the routing tables hold it.

use smallvec::SmallVec;

/// What a binding leads to: an index into the router's queues or exchanges.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Target {
    Queue(u32),
    Exchange(u32),
}

/// A binding as the routing tables hold it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub target: Target,
    /// Index of the binding, to tell it where its entry moves to when another one is taken out.
    pub binding: u32,
}

/// Entries in no particular order. Each binding remembers its slot, so that taking one out does not
/// search.
#[derive(Debug, Default)]
pub(crate) struct Entries(SmallVec<[Entry; 1]>);

impl Entries {
    /// Puts an entry in and returns its slot.
    pub fn push(&mut self, entry: Entry) -> u32 {
        self.0.push(entry);
        self.0.len() as u32 - 1
    }

    /// Takes the entry in `slot` out. If another entry has taken its slot, returns that entry's
    /// binding.
    pub fn remove(&mut self, slot: u32, binding: u32) -> Option<u32> {
        let removed = self.0.swap_remove(slot as usize);
        assert_eq!(
            removed.binding, binding,
            "slot {slot} holds another binding"
        );
        if self.0.len() * 4 < self.0.capacity() {
            self.0.shrink_to_fit();
        }
        self.0.get(slot as usize).map(|moved| moved.binding)
    }

    pub fn as_slice(&self) -> &[Entry] {
        &self.0
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
