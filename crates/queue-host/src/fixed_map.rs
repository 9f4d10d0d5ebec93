//! The hash map of what the broker itself numbers.

use hashbrown::HashMap;

/// A map with a fast hash that is the same at every start: for keys that no client chooses.
pub type FixedMap<K, V> = HashMap<K, V, foldhash::fast::FixedState>;
