//! An ordered sequence of intervals that stays cheap where it is changed in the middle.

use std::collections::VecDeque;

/// Items that a block holds at most: what a change in the middle moves, at worst half of it.
const BLOCK_MAX: usize = 512;
/// A block with fewer items than this joins a neighbour that has room.
const BLOCK_MIN: usize = BLOCK_MAX / 8;

/// An interval of numbers, as [`Blocks`] sees it.
pub trait Span {
    /// The number after its last one.
    fn end(&self) -> u64;
}

impl Span for std::ops::Range<u64> {
    fn end(&self) -> u64 {
        self.end
    }
}

/// Intervals in ascending order, in blocks of bounded size.
///
/// Adding at the back and taking from the front cost what they cost in a [`VecDeque`], and up to
/// 512 items are just that. Beyond, an insertion or a removal in the middle moves no more than one
/// block's items, so that settling a million messages in random order does not move the million
/// each time.
#[derive(Clone, Debug)]
pub struct Blocks<T> {
    /// All items, as long as one block holds them.
    only: VecDeque<T>,
    /// All items, from when one block did not hold them until one does again.
    many: Option<Box<Many<T>>>,
}

#[derive(Clone, Debug)]
struct Many<T> {
    /// At least two, none of them empty.
    blocks: VecDeque<VecDeque<T>>,
    /// The end of each block's last item, side by side: a search reads them and one block.
    ends: VecDeque<u64>,
    len: usize,
}

/// Where an item is, or the position behind the last one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor {
    block: usize,
    at: usize,
}

impl<T> Default for Blocks<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Blocks<T> {
    /// The empty sequence.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            only: VecDeque::new(),
            many: None,
        }
    }

    /// How many items there are.
    #[must_use]
    pub fn len(&self) -> usize {
        match &self.many {
            None => self.only.len(),
            Some(many) => many.len,
        }
    }

    /// Whether there is no item.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.many.is_none() && self.only.is_empty()
    }

    /// Bytes of memory that the items' positions take, used or not.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let items = match &self.many {
            None => self.only.capacity(),
            Some(many) => many.blocks.iter().map(VecDeque::capacity).sum(),
        };
        items * size_of::<T>()
    }

    fn block(&self, index: usize) -> &VecDeque<T> {
        match &self.many {
            None => &self.only,
            Some(many) => &many.blocks[index],
        }
    }

    fn block_count(&self) -> usize {
        self.many.as_ref().map_or(1, |many| many.blocks.len())
    }

    /// The first item.
    #[must_use]
    pub fn front(&self) -> Option<&T> {
        self.block(0).front()
    }

    /// The last item.
    #[must_use]
    pub fn back(&self) -> Option<&T> {
        self.block(self.block_count() - 1).back()
    }

    /// The item at a position; none behind the last one.
    #[must_use]
    pub fn get(&self, cursor: Cursor) -> Option<&T> {
        self.block(cursor.block).get(cursor.at)
    }

    /// The position of the first item.
    #[must_use]
    pub const fn first(&self) -> Cursor {
        Cursor { block: 0, at: 0 }
    }

    /// The position behind the last item.
    #[must_use]
    pub fn end(&self) -> Cursor {
        let block = self.block_count() - 1;
        let at = self.block(block).len();
        Cursor { block, at }
    }

    /// The position behind this one, which must be an item's.
    #[must_use]
    pub fn after(&self, cursor: Cursor) -> Cursor {
        let Cursor { block, at } = cursor;
        let last_of_block = at + 1 == self.block(block).len();
        match last_of_block && block + 1 < self.block_count() {
            true => Cursor {
                block: block + 1,
                at: 0,
            },
            false => Cursor { block, at: at + 1 },
        }
    }

    /// The position before this one, if it is not the first.
    #[must_use]
    pub fn before(&self, cursor: Cursor) -> Option<Cursor> {
        let Cursor { block, at } = cursor;
        if let Some(at) = at.checked_sub(1) {
            return Some(Cursor { block, at });
        }
        let block = block.checked_sub(1)?;
        let at = self.block(block).len() - 1;
        Some(Cursor { block, at })
    }

    /// The items, ascending.
    pub fn iter(&self) -> Iter<'_, T> {
        Iter {
            items: self,
            front: self.first(),
            back: self.end(),
            left: self.len(),
        }
    }

    /// The items from a position on, ascending.
    pub fn iter_from(&self, cursor: Cursor) -> impl Iterator<Item = &T> {
        let mut cursor = cursor;
        std::iter::from_fn(move || {
            let item = self.get(cursor)?;
            cursor = self.after(cursor);
            Some(item)
        })
    }

    /// Takes all items out.
    pub fn clear(&mut self) {
        self.only.clear();
        self.many = None;
    }

    /// Gives back memory that is not needed.
    pub fn shrink(&mut self) {
        match &mut self.many {
            None => self.only.shrink_to_fit(),
            Some(many) => many.blocks.iter_mut().for_each(VecDeque::shrink_to_fit),
        }
    }

    /// Gives memory back if there is no item and there once were more than `kept`.
    pub fn trim(&mut self, kept: usize) {
        if self.is_empty() && self.only.capacity() > kept {
            self.only = VecDeque::new();
        }
    }
}

impl<T: Span> Blocks<T> {
    /// The position of the first item that ends after `value`.
    #[must_use]
    pub fn search(&self, value: u64) -> Cursor {
        // Both ends first: that is where queues ask.
        match self.back() {
            None => return self.first(),
            Some(last) if last.end() <= value => return self.end(),
            Some(_) if self.front().is_some_and(|front| front.end() > value) => {
                return self.first();
            }
            Some(_) => {}
        }
        let block = match &self.many {
            None => 0,
            Some(many) => many.ends.partition_point(|end| *end <= value),
        };
        let at = self
            .block(block)
            .partition_point(|item| item.end() <= value);
        Cursor { block, at }
    }

    /// Adds an item behind all others.
    pub fn push_back(&mut self, item: T) {
        match &mut self.many {
            None if self.only.len() < BLOCK_MAX => self.only.push_back(item),
            _ => {
                self.insert(self.end(), item);
            }
        }
    }

    /// Takes the first item out.
    pub fn pop_front(&mut self) {
        match &mut self.many {
            None => {
                self.only.pop_front();
            }
            Some(_) => {
                self.remove(self.first());
            }
        }
    }

    /// Changes the item at a position, which must stay in order.
    ///
    /// # Panics
    /// If there is no item there.
    pub fn edit(&mut self, cursor: Cursor, change: impl FnOnce(&mut T)) {
        match &mut self.many {
            None => change(&mut self.only[cursor.at]),
            Some(many) => {
                let block = &mut many.blocks[cursor.block];
                change(&mut block[cursor.at]);
                if cursor.at + 1 == block.len() {
                    many.ends[cursor.block] = block[cursor.at].end();
                }
            }
        }
    }

    /// Changes the last item, which must stay in order; nothing if there is none.
    pub fn edit_back(&mut self, change: impl FnOnce(&mut T)) {
        if let Some(cursor) = self.before(self.end()) {
            self.edit(cursor, change);
        }
    }

    /// Puts an item before the one at a position, or behind all at the end.
    pub fn insert(&mut self, cursor: Cursor, item: T) {
        let Cursor { mut block, mut at } = cursor;
        if self.block(block).len() == BLOCK_MAX {
            let at_end = self.end() == cursor;
            self.split(block, at_end);
            let kept = self.block(block).len();
            if at >= kept {
                block += 1;
                at -= kept;
            }
        }
        match &mut self.many {
            None => self.only.insert(at, item),
            Some(many) => {
                let items = &mut many.blocks[block];
                let end = item.end();
                items.insert(at, item);
                if at + 1 == items.len() {
                    many.ends[block] = end;
                }
                many.len += 1;
            }
        }
    }

    /// Makes two blocks of one: halves of it, or, where items only come at the end, one that stays
    /// full and a new one.
    fn split(&mut self, block: usize, at_end: bool) {
        let keep = if at_end { BLOCK_MAX - 1 } else { BLOCK_MAX / 2 };
        let many = self.many.get_or_insert_with(|| {
            let only = std::mem::take(&mut self.only);
            Box::new(Many {
                len: only.len(),
                ends: only.back().map(Span::end).into_iter().collect(),
                blocks: VecDeque::from([only]),
            })
        });
        let upper = many.blocks[block].split_off(keep);
        many.ends.insert(block + 1, many.ends[block]);
        many.ends[block] = many.blocks[block].back().map_or(0, Span::end);
        many.blocks.insert(block + 1, upper);
    }

    /// Takes the item at a position out; gives the position of the one behind it.
    ///
    /// # Panics
    /// If there is no item there.
    pub fn remove(&mut self, cursor: Cursor) -> Cursor {
        let Cursor { block, at } = cursor;
        let Some(many) = &mut self.many else {
            assert!(self.only.remove(at).is_some(), "no item at {cursor:?}");
            return cursor;
        };
        let items = &mut many.blocks[block];
        assert!(items.remove(at).is_some(), "no item at {cursor:?}");
        many.len -= 1;
        if let Some(last) = items.back() {
            many.ends[block] = last.end();
        }
        let next = many.join(block, at);
        if many.blocks.len() == 1 {
            self.only = many.blocks.pop_front().unwrap_or_default();
            self.many = None;
        }
        // What was the position behind a block's last item is that of the next block's first.
        match next.at == self.block(next.block).len() && next.block + 1 < self.block_count() {
            true => Cursor {
                block: next.block + 1,
                at: 0,
            },
            false => next,
        }
    }
}

impl<T> Many<T> {
    /// Joins a block that has become small with a neighbour, if that has room; gives where the
    /// position `at` of it is now.
    fn join(&mut self, block: usize, at: usize) -> Cursor {
        let small = self.blocks[block].len();
        if small >= BLOCK_MIN {
            return Cursor { block, at };
        }
        let fits = |other: usize| {
            let other = self.blocks.get(other).map(VecDeque::len);
            other.is_some_and(|len| len + small <= BLOCK_MAX / 2)
        };
        // An empty block goes wherever its neighbours are full.
        let lower = match block.checked_sub(1) {
            Some(before) if small == 0 || fits(before) => before,
            _ if block + 1 < self.blocks.len() && (small == 0 || fits(block + 1)) => block,
            _ => return Cursor { block, at },
        };
        let mut upper = self.blocks.remove(lower + 1).unwrap_or_default();
        let end = self.ends.remove(lower + 1).unwrap_or_default();
        let before = self.blocks[lower].len();
        let grows = !upper.is_empty();
        self.blocks[lower].append(&mut upper);
        if grows {
            self.ends[lower] = end;
        }
        let at = if lower == block { at } else { before + at };
        Cursor { block: lower, at }
    }
}

/// The items of [`Blocks`], ascending.
#[derive(Debug)]
pub struct Iter<'a, T> {
    items: &'a Blocks<T>,
    front: Cursor,
    back: Cursor,
    left: usize,
}

impl<'a, T> Iterator for Iter<'a, T> {
    type Item = &'a T;

    fn next(&mut self) -> Option<&'a T> {
        self.left = self.left.checked_sub(1)?;
        let item = self.items.get(self.front);
        self.front = self.items.after(self.front);
        item
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl<T> DoubleEndedIterator for Iter<'_, T> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        self.back = self.items.before(self.back)?;
        self.items.get(self.back)
    }
}

impl<T> ExactSizeIterator for Iter<'_, T> {}

#[cfg(test)]
mod tests {
    use super::*;

    /// A xorshift generator: the tests need numbers, not quality.
    struct Random(u64);
    impl Random {
        fn below(&mut self, bound: usize) -> usize {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            ((self.0 >> 11) % bound as u64) as usize
        }
    }

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    struct Single(u64);
    impl Span for Single {
        fn end(&self) -> u64 {
            self.0 + 1
        }
    }

    fn check(blocks: &Blocks<Single>, model: &[u64]) {
        assert_eq!(blocks.len(), model.len());
        assert!(blocks.iter().map(|item| item.0).eq(model.iter().copied()));
        let backwards = blocks.iter().rev().map(|item| item.0);
        assert!(backwards.eq(model.iter().rev().copied()));
        if let Some(many) = &blocks.many {
            assert!(many.blocks.len() > 1);
            assert_eq!(many.blocks.len(), many.ends.len());
            for (block, end) in many.blocks.iter().zip(&many.ends) {
                assert!(block.len() <= BLOCK_MAX);
                assert_eq!(block.back().map(Span::end), Some(*end));
            }
        }
    }

    #[test]
    fn agrees_with_a_plain_sequence_while_it_grows_and_shrinks() {
        for seed in 1..12_u64 {
            let mut random = Random(0x9E37_79B9_7F4A_7C15_u64.wrapping_mul(seed));
            let (mut blocks, mut model) = (Blocks::<Single>::new(), Vec::<u64>::new());
            for step in 0..16_000 {
                // Grows for a while, shrinks for a while; at the ends or in the middle.
                let grows = random.below(10) < if step / 4_000 % 2 == 0 { 8 } else { 2 };
                let value = random.below(1 << 20) as u64;
                let at = model.partition_point(|other| *other < value);
                let cursor = blocks.search(value);
                assert_eq!(
                    blocks.get(cursor).map(|item| item.0),
                    model.get(at).copied()
                );
                if grows {
                    if model.get(at) == Some(&value) {
                        continue;
                    }
                    blocks.insert(cursor, Single(value));
                    model.insert(at, value);
                } else if random.below(4) == 0 {
                    blocks.pop_front();
                    model.drain(..1.min(model.len()));
                } else if at < model.len() {
                    let next = blocks.remove(cursor);
                    model.remove(at);
                    assert_eq!(blocks.get(next).map(|item| item.0), model.get(at).copied());
                    let before = blocks.before(next).and_then(|cursor| blocks.get(cursor));
                    let expected = at.checked_sub(1).map(|at| model[at]);
                    assert_eq!(before.map(|item| item.0), expected);
                }
                if step % 500 == 0 {
                    check(&blocks, &model);
                }
            }
            check(&blocks, &model);
        }
    }

    /// Items and ends that taking the one at this position away has to move, at most: the nearer
    /// part of its block, all of a neighbour that it may join, and the nearer part of the ends.
    fn moved_by_removal(blocks: &Blocks<Single>, cursor: Cursor) -> usize {
        let block = blocks.block(cursor.block).len();
        let nearer = cursor.at.min(block - cursor.at);
        nearer + BLOCK_MAX + blocks.block_count() / 2
    }

    #[test]
    fn taking_one_of_a_million_away_anywhere_moves_few_others() {
        let mut blocks = Blocks::<Single>::new();
        for number in 0..1_000_000 {
            blocks.push_back(Single(number * 2));
        }
        let (mut random, mut most) = (Random(0x9E37_79B9_7F4A_7C15), 0);
        while blocks.len() > 100_000 {
            let cursor = blocks.search(random.below(2_000_000) as u64);
            if blocks.get(cursor).is_some() {
                most = most.max(moved_by_removal(&blocks, cursor));
                blocks.remove(cursor);
            }
        }
        // Half of them, 500,000, where all lie in one row.
        assert!(most <= 4 * BLOCK_MAX, "{most}");
    }

    #[test]
    fn what_is_added_in_order_fills_its_blocks() {
        let mut blocks = Blocks::<Single>::new();
        let model: Vec<u64> = (0..100_000).map(|n| n * 2).collect();
        for value in &model {
            blocks.push_back(Single(*value));
        }
        check(&blocks, &model);
        assert!(blocks.block_count() <= 100_000 / (BLOCK_MAX - 1) + 1);
        for value in model {
            assert_eq!(blocks.front(), Some(&Single(value)));
            blocks.pop_front();
        }
        assert!(blocks.is_empty() && blocks.many.is_none());
    }

    #[test]
    fn sparse_blocks_join_and_give_their_memory_back() {
        let mut blocks = Blocks::<Single>::new();
        for value in 0..100_000 {
            blocks.push_back(Single(value));
        }
        for value in (0..100_000).filter(|value| value % 100 != 0) {
            blocks.remove(blocks.search(value));
        }
        let model: Vec<u64> = (0..1_000).map(|n| n * 100).collect();
        check(&blocks, &model);
        assert!(blocks.block_count() <= 2 * 1_000 / BLOCK_MIN);
    }
}
