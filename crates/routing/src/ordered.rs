//! Bindings in an order, found by their place in it.

use std::cmp::Ordering;

/// Bindings that a block holds at most: what coming or going of one moves.
const BLOCK_MAX: usize = 512;

/// The bindings of an exchange in an order that whoever puts them in decides. One that comes or
/// goes moves its block, not all behind it.
#[derive(Debug, Default)]
pub(crate) struct Ordered {
    /// None of them is empty.
    blocks: Vec<Vec<u32>>,
    len: usize,
}

impl Ordered {
    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    /// The binding that has so many before it.
    pub(crate) fn get(&self, mut before: usize) -> Option<u32> {
        for block in &self.blocks {
            match block.get(before) {
                Some(binding) => return Some(*binding),
                None => before -= block.len(),
            }
        }
        None
    }

    /// Puts a binding in; `order` says where another one is beside it.
    pub(crate) fn insert(&mut self, binding: u32, order: impl Fn(u32) -> Ordering) {
        self.len += 1;
        let (at, place) = match self.find(&order) {
            Ok(place) | Err(place) => place,
        };
        let Some(block) = self.blocks.get_mut(at) else {
            return self.blocks.push(vec![binding]);
        };
        block.insert(place, binding);
        if block.len() > BLOCK_MAX {
            let rest = block.split_off(BLOCK_MAX / 2);
            self.blocks.insert(at + 1, rest);
        }
    }

    /// Takes the binding out that is where `order` says.
    pub(crate) fn remove(&mut self, order: impl Fn(u32) -> Ordering) {
        let Ok((at, place)) = self.find(&order) else {
            return;
        };
        self.len -= 1;
        let block = &mut self.blocks[at];
        block.remove(place);
        if block.is_empty() {
            self.blocks.remove(at);
            return;
        }
        // Neighbours that have become small are one block again.
        if let Some([block, next]) = self.blocks.get_mut(at..at + 2)
            && block.len() + next.len() <= BLOCK_MAX / 2
        {
            block.append(next);
            self.blocks.remove(at + 1);
        }
    }

    /// The block and the place in it of the one that is in its order, or is to be put there.
    fn find(&self, order: &impl Fn(u32) -> Ordering) -> Result<(usize, usize), (usize, usize)> {
        let is_before = |block: &Vec<u32>| block.last().is_some_and(|last| order(*last).is_lt());
        // What comes behind all goes into the last block.
        let at = self.blocks.partition_point(is_before);
        let at = at.min(self.blocks.len().saturating_sub(1));
        let Some(block) = self.blocks.get(at) else {
            return Err((0, 0));
        };
        let found = block.binary_search_by(|other| order(*other));
        found.map(|place| (at, place)).map_err(|place| (at, place))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn any_that_comes_or_goes_compares_with_few_and_moves_few() {
        const ALL: u32 = 20_000;
        let compared = Cell::new(0_u64);
        let order = |of: u32| {
            let compared = &compared;
            move |other: u32| {
                compared.set(compared.get() + 1);
                other.cmp(&of)
            }
        };
        let mixed = (0..ALL).map(|number| number * 7919 % ALL);
        let mut ordered = Ordered::default();
        for (before, number) in mixed.clone().enumerate() {
            assert_eq!(ordered.len(), before);
            ordered.insert(number, order(number));
        }
        assert!((0..ALL).all(|number| ordered.get(number as usize) == Some(number)));
        assert_eq!(ordered.get(ALL as usize), None);
        for number in mixed.filter(|number| number % 100 != 0) {
            ordered.remove(order(number));
            assert!(ordered.blocks.iter().all(|block| block.len() <= BLOCK_MAX));
        }
        assert!(compared.get() < 40 * u64::from(ALL), "{}", compared.get());
        assert_eq!(ordered.len(), ALL as usize / 100);
        assert!((0..ALL / 100).all(|number| ordered.get(number as usize) == Some(100 * number)));
        assert!(ordered.blocks.len() < 10, "{}", ordered.blocks.len());
        ordered.remove(order(1));
        assert_eq!(ordered.len(), ALL as usize / 100, "it was not there");
    }
}
