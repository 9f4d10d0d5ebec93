//! The topic exchange's table: a trie over words, walked as a set of active nodes.
//!
//! All children that are reached by a literal word live in one hash table keyed by (parent, word),
//! so that a step costs one probe and a node costs no map of its own. `*` and `#` children are
//! fields of their parent.
//!
//! A lookup goes through the key's words and keeps the set of nodes reached so far. A node without
//! a `#` above it can only be reached at one depth and needs no check; one below a `#` carries a
//! stamp, so that it is in the set once per word. The work is therefore bounded by words times
//! reachable nodes: backtracking, which is exponential in the number of `#`, does not occur.

use crate::table::Table;
use crate::targets::{Entries, Entry};
use crate::visited::Visited;
use crate::work::{self, Work};
use foldhash::fast::RandomState;
use smallvec::SmallVec;
use std::hash::BuildHasher;

const NONE: u32 = u32::MAX;
const ROOT: u32 = 0;

#[derive(Debug)]
enum Word {
    /// In place where it is short, as most are: a lookup then touches the node and nothing behind
    /// it.
    Literal(SmallVec<[u8; 16]>),
    Star,
    Hash,
}

#[derive(Debug)]
struct Node {
    parent: u32,
    word: Word,
    star: u32,
    hash: u32,
    /// Children in the table of literal words.
    literals: u32,
    /// Whether this node or one above it is a `#`: it can then be reached at several depths.
    below_hash: bool,
    entries: Entries,
}

impl Node {
    fn new(parent: u32, word: Word, below_hash: bool) -> Self {
        Self {
            parent,
            word,
            star: NONE,
            hash: NONE,
            literals: 0,
            below_hash,
            entries: Entries::default(),
        }
    }

    fn is_unused(&self) -> bool {
        self.entries.is_empty() && self.literals == 0 && self.star == NONE && self.hash == NONE
    }
}

/// Buffers of lookups, kept by the caller.
#[derive(Debug, Default)]
pub(crate) struct TopicScratch {
    current: Vec<u32>,
    next: Vec<u32>,
    /// The nodes below a `#` that are in the next set.
    below_hash: Visited<u32>,
}

impl TopicScratch {
    fn begin_step(&mut self) {
        self.next.clear();
        self.below_hash.clear();
    }

    /// Bytes of the heap that they keep.
    pub fn heap_bytes(&self) -> usize {
        let sets = self.current.capacity() + self.next.capacity();
        sets * size_of::<u32>() + self.below_hash.heap_bytes()
    }
}

/// Bindings by topic pattern.
#[derive(Debug)]
pub(crate) struct Trie {
    nodes: Vec<Node>,
    free: Vec<u32>,
    literals: Table<u32>,
    hasher: RandomState,
}

impl Default for Trie {
    fn default() -> Self {
        Self {
            nodes: vec![Node::new(NONE, Word::Literal(SmallVec::new()), false)],
            free: Vec::new(),
            literals: Table::default(),
            hasher: RandomState::default(),
        }
    }
}

/// The words of a key. An empty key has none.
fn words(key: &[u8]) -> impl Iterator<Item = &[u8]> {
    let count = if key.is_empty() { 0 } else { usize::MAX };
    key.split(|&b| b == b'.').take(count)
}

/// How many of a pattern's words are `#`.
pub(crate) fn hashes(pattern: &[u8]) -> usize {
    words(pattern).filter(|word| *word == b"#").count()
}

impl Trie {
    fn word_hash(&self, parent: u32, word: &[u8]) -> u64 {
        self.hasher.hash_one((parent, word))
    }

    fn literal_child(&self, parent: u32, word: &[u8]) -> Option<u32> {
        let hash = self.word_hash(parent, word);
        self.literals
            .find(hash, |&child| {
                let node = &self.nodes[child as usize];
                node.parent == parent && matches!(&node.word, Word::Literal(w) if **w == *word)
            })
            .copied()
    }

    /// Puts a binding in; returns its node and its slot there.
    pub fn insert(&mut self, pattern: &[u8], entry: Entry) -> (u32, u32) {
        let mut node = ROOT;
        for word in words(pattern) {
            let child = match word {
                b"*" => self.nodes[node as usize].star,
                b"#" => self.nodes[node as usize].hash,
                _ => self.literal_child(node, word).unwrap_or(NONE),
            };
            node = if child == NONE {
                self.add_child(node, word)
            } else {
                child
            };
        }
        (node, self.nodes[node as usize].entries.push(entry))
    }

    fn add_child(&mut self, parent: u32, word: &[u8]) -> u32 {
        let below_hash = self.nodes[parent as usize].below_hash || word == b"#";
        let word_of_node = match word {
            b"*" => Word::Star,
            b"#" => Word::Hash,
            _ => Word::Literal(SmallVec::from_slice(word)),
        };
        let node = Node::new(parent, word_of_node, below_hash);
        let child = match self.free.pop() {
            Some(index) => {
                self.nodes[index as usize] = node;
                index
            }
            None => {
                self.nodes.push(node);
                self.nodes.len() as u32 - 1
            }
        };
        match word {
            b"*" => self.nodes[parent as usize].star = child,
            b"#" => self.nodes[parent as usize].hash = child,
            _ => {
                self.nodes[parent as usize].literals += 1;
                let hash = self.word_hash(parent, word);
                let (nodes, hasher) = (&self.nodes, &self.hasher);
                self.literals.insert_unique(hash, child, |&other| {
                    let other = &nodes[other as usize];
                    match &other.word {
                        Word::Literal(word) => hasher.hash_one((other.parent, word.as_slice())),
                        other => unreachable!("{other:?} in the table of literal words"),
                    }
                });
            }
        }
        child
    }

    /// Takes the binding in `slot` of `node` out, and the nodes that nothing needs any more.
    /// Returns the binding that has moved into the slot, if any.
    pub fn remove(&mut self, node: u32, slot: u32, binding: u32) -> Option<u32> {
        let moved = self.nodes[node as usize].entries.remove(slot, binding);
        let mut unused = node;
        while unused != ROOT && self.nodes[unused as usize].is_unused() {
            unused = self.detach(unused);
        }
        moved
    }

    /// Takes a childless node out of its parent, which it returns.
    fn detach(&mut self, index: u32) -> u32 {
        let parent = self.nodes[index as usize].parent;
        let word = std::mem::replace(&mut self.nodes[index as usize].word, Word::Star);
        match word {
            Word::Star => self.nodes[parent as usize].star = NONE,
            Word::Hash => self.nodes[parent as usize].hash = NONE,
            Word::Literal(word) => {
                self.nodes[parent as usize].literals -= 1;
                let hash = self.word_hash(parent, &word);
                let found = self.literals.remove(hash, |&child| child == index);
                assert!(found.is_some(), "node {index} is missing from its parent");
            }
        }
        self.free.push(index);
        parent
    }

    /// The nodes that the key reaches, each once; none where that would be too much work.
    pub fn lookup<'s>(
        &self,
        key: &[u8],
        scratch: &'s mut TopicScratch,
        work: &mut Work,
    ) -> &'s [u32] {
        scratch.begin_step();
        self.enter(ROOT, scratch);
        std::mem::swap(&mut scratch.current, &mut scratch.next);
        for word in words(key) {
            if !work.spend(work::NODE * scratch.current.len()) {
                return &[];
            }
            scratch.begin_step();
            self.step(word, scratch);
            std::mem::swap(&mut scratch.current, &mut scratch.next);
            if scratch.current.is_empty() {
                break;
            }
        }
        match work.spend(scratch.current.len()) {
            true => &scratch.current,
            false => &[],
        }
    }

    /// The bindings whose pattern ends at a node.
    pub fn entries(&self, node: u32) -> &[Entry] {
        self.nodes[node as usize].entries.as_slice()
    }

    /// From the current set and one word to the next set.
    fn step(&self, word: &[u8], scratch: &mut TopicScratch) {
        for position in 0..scratch.current.len() {
            let index = scratch.current[position];
            let node = &self.nodes[index as usize];
            if matches!(node.word, Word::Hash) {
                self.enter(index, scratch);
            }
            if node.star != NONE {
                self.enter(node.star, scratch);
            }
            if node.literals > 0
                && let Some(child) = self.literal_child(index, word)
            {
                self.enter(child, scratch);
            }
        }
    }

    /// Puts a node into the next set, and with it the `#` below it, which matches no words as well.
    fn enter(&self, mut index: u32, scratch: &mut TopicScratch) {
        while index != NONE {
            let node = &self.nodes[index as usize];
            if node.below_hash && !scratch.below_hash.insert(index) {
                return;
            }
            scratch.next.push(index);
            index = node.hash;
        }
    }
}

/// Whether a topic pattern matches a routing key: the definition, in so many words, for
/// permissions, tools and tests. `*` is exactly one word, `#` any number of words, none included.
#[must_use]
pub fn topic_match(pattern: &[u8], key: &[u8]) -> bool {
    // One row of the classic table: reached[i] says whether the pattern so far matches the first i
    // words of the key.
    let key: Vec<&[u8]> = words(key).collect();
    let mut reached = vec![false; key.len() + 1];
    reached[0] = true;
    for word in words(pattern) {
        if word == b"#" {
            let first = reached.iter().position(|r| *r).unwrap_or(reached.len());
            reached[first..].fill(true);
        } else {
            for i in (0..key.len()).rev() {
                reached[i + 1] = reached[i] && (word == b"*" || word == key[i]);
            }
            reached[0] = false;
        }
    }
    reached[key.len()]
}

#[cfg(test)]
mod tests {
    use super::topic_match;

    #[test]
    fn patterns() {
        let cases: &[(&str, &str, bool)] = &[
            ("", "", true),
            ("", "a", false),
            ("#", "", true),
            ("*", "", false),
            ("*", "a", true),
            ("*", ".", false),
            ("*.*", ".", true),
            ("#", "a.b.c", true),
            ("a.#", "a", true),
            ("a.#", "a.b.c", true),
            ("a.#", "ab", false),
            ("#.a", "b.c.a", true),
            ("#.a", "a", true),
            ("#.a", "a.b", false),
            ("a.#.b", "a.b", true),
            ("a.#.b", "a.x.y.b", true),
            ("a.#.b", "a.x.y.c", false),
            ("#.a.#", "x.a.y", true),
            ("#.a.#", "x.b.y", false),
            ("a.*.c", "a.b.c", true),
            ("a.*.c", "a..c", true),
            ("a.*.c", "a.c", false),
            ("a..c", "a..c", true),
            ("a.", "a.", true),
            ("a.", "a", false),
            ("#.*", "", false),
            ("*.#", "a", true),
            ("a*", "ab", false),
            ("a*", "a*", true),
        ];
        for (pattern, key, expected) in cases {
            assert_eq!(
                topic_match(pattern.as_bytes(), key.as_bytes()),
                *expected,
                "{pattern} against {key}"
            );
        }
    }
}
