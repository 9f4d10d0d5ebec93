//! Items by number, whose numbers are used again.

/// A vector whose freed places are used again.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    pub(crate) items: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Slab<T> {
    pub(crate) const fn new() -> Self {
        Self {
            items: Vec::new(),
            free: Vec::new(),
        }
    }

    pub(crate) fn insert(&mut self, item: T) -> u32 {
        match self.free.pop() {
            Some(index) => {
                self.items[index as usize] = Some(item);
                index
            }
            None => {
                self.items.push(Some(item));
                self.items.len() as u32 - 1
            }
        }
    }

    pub(crate) fn remove(&mut self, index: u32) -> T {
        match self.items[index as usize].take() {
            Some(item) => {
                self.free.push(index);
                item
            }
            None => panic!("no item at index {index}"),
        }
    }

    pub(crate) fn get(&self, index: u32) -> &T {
        match &self.items[index as usize] {
            Some(item) => item,
            None => panic!("no item at index {index}"),
        }
    }

    pub(crate) fn get_mut(&mut self, index: u32) -> &mut T {
        match &mut self.items[index as usize] {
            Some(item) => item,
            None => panic!("no item at index {index}"),
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.items.iter().flatten()
    }
}
