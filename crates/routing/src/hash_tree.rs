//! The index of a consistent-hash exchange: rendezvous hashing by a tree, so that a message meets a
//! few candidates at each of a few levels and not all of them.
//!
//! A candidate is a destination; its place is its hash, five bits a level. At each level the child
//! with the highest score wins, by the key and by the sum of the weights below it: so each
//! candidate has its exact share, and what is chosen depends on the set of candidates alone. One
//! that comes or goes changes the sums on its way: at each level about as many keys move as are its
//! own.

use crate::hash;
use crate::targets::{Entries, Entry};

/// Bits of a candidate's hash that choose among the children of one node.
const DIGIT_BITS: u32 = 5;
/// Levels at which hashes differ; of candidates that do not, the bindings share a leaf.
const LEVELS: u32 = 64u32.div_ceil(DIGIT_BITS);
const ROOT: u32 = 0;

/// The bindings of one consistent-hash exchange.
#[derive(Debug)]
pub(crate) struct HashTree {
    nodes: Vec<Node>,
    free: Vec<u32>,
}

/// The children of a node, by their digits.
type Node = Vec<Child>;

#[derive(Debug)]
struct Child {
    digit: u8,
    /// What scores are made of, with the key.
    hash: u64,
    /// The sum of the weights below.
    weight: u64,
    below: Below,
}

#[derive(Debug)]
enum Below {
    Node(u32),
    Leaf(Leaf),
}

/// One candidate with all of its bindings.
#[derive(Debug)]
struct Leaf {
    candidate: u64,
    entries: Entries,
}

impl Default for HashTree {
    fn default() -> Self {
        Self {
            nodes: vec![Node::new()],
            free: Vec::new(),
        }
    }
}

impl HashTree {
    /// Puts a binding of a candidate in, and gives its slot, which [`Self::remove`] wants back.
    pub fn insert(&mut self, candidate: u64, weight: u32, entry: Entry) -> u32 {
        let (mut node, mut level) = (ROOT, 0);
        loop {
            let digit = digit_of(candidate, level);
            let children = &mut self.nodes[node as usize];
            let place = children.partition_point(|child| child.digit < digit);
            let is_there = children.get(place).is_some_and(|c| c.digit == digit);
            if !is_there {
                let mut child = Child::new(candidate, level);
                child.weight = u64::from(weight);
                let slot = child.push(entry);
                children.insert(place, child);
                return slot;
            }
            let child = &mut children[place];
            let of_child = child.weight;
            child.weight += u64::from(weight);
            match &mut child.below {
                Below::Node(below) => node = *below,
                Below::Leaf(leaf) if leaf.candidate == candidate || level + 1 == LEVELS => {
                    return leaf.entries.push(entry);
                }
                Below::Leaf(_) => node = self.split((node, place), of_child, level),
            }
            level += 1;
        }
    }

    /// Puts a node in the place of a leaf, and the leaf below it.
    fn split(&mut self, (node, place): (u32, usize), weight: u64, level: u32) -> u32 {
        let below = self.free.pop().unwrap_or_else(|| {
            self.nodes.push(Node::new());
            self.nodes.len() as u32 - 1
        });
        let child = &mut self.nodes[node as usize][place].below;
        let Below::Leaf(leaf) = std::mem::replace(child, Below::Node(below)) else {
            unreachable!("a node is not split");
        };
        let mut moved = Child::new(leaf.candidate, level + 1);
        (moved.weight, moved.below) = (weight, Below::Leaf(leaf));
        self.nodes[below as usize].push(moved);
        below
    }

    /// Takes a binding out. If another one has taken its slot, returns that one.
    pub fn remove(&mut self, candidate: u64, weight: u32, slot: u32, binding: u32) -> Option<u32> {
        let mut node = ROOT;
        for level in 0..LEVELS {
            let digit = digit_of(candidate, level);
            let children = &mut self.nodes[node as usize];
            let place = children.partition_point(|child| child.digit < digit);
            let child = &mut children[place];
            child.weight -= u64::from(weight);
            match &mut child.below {
                Below::Node(below) => {
                    let below = *below;
                    if child.weight == 0 {
                        children.remove(place);
                        return self.remove_last(below);
                    }
                    node = below;
                }
                Below::Leaf(leaf) => {
                    let moved = leaf.entries.remove(slot, binding);
                    if leaf.entries.is_empty() {
                        children.remove(place);
                    }
                    return moved;
                }
            }
        }
        unreachable!("every way ends in a leaf")
    }

    /// Frees a node under which nothing is left but the binding that goes: it was alone in its
    /// slot.
    fn remove_last(&mut self, mut node: u32) -> Option<u32> {
        loop {
            let last = std::mem::take(&mut self.nodes[node as usize]).pop();
            self.free.push(node);
            match last.map(|child| child.below) {
                Some(Below::Node(below)) => node = below,
                _ => return None,
            }
        }
    }

    /// Where this key goes, and among how many children it was chosen; none of an empty tree.
    pub fn choose(&self, key: u64) -> (Option<Entry>, usize) {
        let (mut node, mut met) = (ROOT, 0);
        loop {
            let children = &self.nodes[node as usize];
            met += children.len();
            let best = children
                .iter()
                .map(|child| (child.score(key), child))
                .max_by(|(a, _), (b, _)| f64::total_cmp(a, b));
            match best.map(|(_, child)| &child.below) {
                Some(Below::Node(below)) => node = *below,
                Some(Below::Leaf(leaf)) => return (leaf.entries.as_slice().first().copied(), met),
                None => return (None, met),
            }
        }
    }
}

impl Child {
    /// The child for a candidate at a level.
    fn new(candidate: u64, level: u32) -> Self {
        // All candidates below it have these bits.
        let shared = (level + 1) * DIGIT_BITS;
        let prefix = candidate
            .checked_shr(64u32.saturating_sub(shared))
            .unwrap_or(0);
        Self {
            digit: digit_of(candidate, level),
            hash: hash::mix(
                prefix
                    .wrapping_mul(u64::from(LEVELS))
                    .wrapping_add(u64::from(level)),
            ),
            weight: 0,
            below: Below::Leaf(Leaf {
                candidate,
                entries: Entries::default(),
            }),
        }
    }

    fn push(&mut self, entry: Entry) -> u32 {
        match &mut self.below {
            Below::Leaf(leaf) => leaf.entries.push(entry),
            Below::Node(_) => unreachable!("bindings are in leaves"),
        }
    }

    fn score(&self, key: u64) -> f64 {
        hash::rendezvous_score(key, self.hash, self.weight)
    }
}

/// The bits of a candidate's hash that are its place among the children of a node at this level.
fn digit_of(candidate: u64, level: u32) -> u8 {
    let rest = candidate << (level * DIGIT_BITS);
    (rest >> (64 - DIGIT_BITS)) as u8
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::targets::Target;

    fn entry(number: u32) -> Entry {
        Entry {
            target: Target::Queue(number),
            binding: number,
        }
    }

    fn candidate(number: u32) -> u64 {
        hash::stable(format!("q{number}").as_bytes())
    }

    fn tree(weights: impl IntoIterator<Item = (u32, u32)>) -> HashTree {
        let mut tree = HashTree::default();
        for (number, weight) in weights {
            assert_eq!(tree.insert(candidate(number), weight, entry(number)), 0);
        }
        tree
    }

    fn chosen(tree: &HashTree, key: u32) -> Option<u32> {
        tree.choose(hash::mix(u64::from(key))).0.map(|e| e.binding)
    }

    #[test]
    fn a_key_meets_a_few_candidates_of_a_hundred_thousand() {
        let many = tree((0..100_000).map(|number| (number, 1)));
        for key in 0..1_000 {
            let (found, met) = many.choose(hash::mix(key));
            assert!(found.is_some());
            assert!(met <= 5 << DIGIT_BITS, "{met}");
        }
        assert_eq!(HashTree::default().choose(1).1, 0);
    }

    #[test]
    fn weights_decide_the_shares_however_many_levels_there_are() {
        // 500 candidates: nearly all below the second level.
        let all = tree((0..500).map(|number| (number, 1 + 2 * (number % 2))));
        let mut hits = vec![0_u32; 500];
        for key in 0..500_000 {
            hits[chosen(&all, key).unwrap() as usize] += 1;
        }
        for (number, hits) in hits.into_iter().enumerate() {
            // 500 and 1,500 expected, the deviation 22 and 39.
            let expected = 500 + 1_000 * (number as u32 % 2);
            let most = 5 * f64::from(expected).sqrt() as u32;
            assert!(
                hits.abs_diff(expected) < most,
                "{number}: {hits} of {expected}"
            );
        }
    }

    #[test]
    fn one_more_candidate_takes_its_keys_and_moves_few_others() {
        let keys = 200_000;
        let (before, after) = (
            tree((0..2_000).map(|number| (number, 1))),
            tree((0..2_001).map(|number| (number, 1))),
        );
        let is_moved = |key: &u32| chosen(&before, *key) != chosen(&after, *key);
        let moved: Vec<u32> = (0..keys).filter(is_moved).collect();
        let own = moved
            .iter()
            .filter(|key| chosen(&after, **key) == Some(2_000));
        // 100 keys are its own; at each of three levels about as many move.
        assert!((50..150).contains(&own.count()));
        assert!(moved.len() < 400, "{}", moved.len());
    }

    #[test]
    fn what_is_chosen_depends_on_the_set_alone() {
        let numbers = 0..300_u32;
        let all = tree(numbers.clone().map(|number| (number, 1 + number % 3)));
        let mut other = tree(numbers.clone().rev().map(|number| (number, 1 + number % 3)));
        for more in 300..2_000 {
            other.insert(candidate(more), 7, entry(more));
        }
        // A second binding of each, which goes first.
        for more in 300..2_000 {
            assert_eq!(other.insert(candidate(more), 2, entry(more + 10_000)), 1);
            let moved = other.remove(candidate(more), 7, 0, more);
            assert_eq!(moved, Some(more + 10_000));
        }
        for more in 300..2_000 {
            assert_eq!(other.remove(candidate(more), 2, 0, more + 10_000), None);
        }
        for key in 0..5_000 {
            assert_eq!(chosen(&all, key), chosen(&other, key));
        }
        for number in numbers {
            other.remove(candidate(number), 1 + number % 3, 0, number);
        }
        assert_eq!(chosen(&other, 1), None);
        assert_eq!(
            other.free.len() + 1,
            other.nodes.len(),
            "all nodes are free"
        );
    }

    #[test]
    fn candidates_whose_hashes_differ_in_the_last_bit_are_two() {
        let mut two = HashTree::default();
        two.insert(u64::MAX, 1, entry(1));
        two.insert(u64::MAX - 1, 1, entry(2));
        let mut hits = [0; 2];
        for key in 0..10_000 {
            hits[chosen(&two, key).unwrap() as usize - 1] += 1;
        }
        assert!(
            hits.iter().all(|hits| (4_700..5_300).contains(hits)),
            "{hits:?}"
        );
        assert_eq!(two.remove(u64::MAX, 1, 0, 1), None);
        assert_eq!(chosen(&two, 1), Some(2));
        assert_eq!(two.remove(u64::MAX - 1, 1, 0, 2), None);
        assert_eq!(chosen(&two, 1), None);
    }
}
