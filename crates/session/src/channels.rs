//! The channels of a connection.

use std::collections::BTreeMap;

/// The channels by their numbers, in that order: the numbers are the client's choice, and so would
/// collisions be in a map of hashes. Each in a box of its own, so that the map has no large empty
/// places: of very many connections most have one or two channels, and of some most are idle.
#[derive(Debug)]
pub(crate) struct Channels<C>(BTreeMap<u16, Box<C>>);

impl<C> Default for Channels<C> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<C> Channels<C> {
    pub fn get(&self, number: &u16) -> Option<&C> {
        self.0.get(number).map(|channel| &**channel)
    }

    pub fn get_mut(&mut self, number: &u16) -> Option<&mut C> {
        self.0.get_mut(number).map(|channel| &mut **channel)
    }

    pub fn contains_key(&self, number: &u16) -> bool {
        self.0.contains_key(number)
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Adds one; whether there was none of that number.
    pub fn insert(&mut self, number: u16, channel: C) -> bool {
        self.0.insert(number, Box::new(channel)).is_none()
    }

    pub fn remove(&mut self, number: &u16) {
        self.0.remove(number);
    }

    /// Forgets all; gives them with their numbers.
    pub fn remove_all(&mut self) -> impl Iterator<Item = (u16, C)> + use<C> {
        let all = std::mem::take(&mut self.0).into_iter();
        all.map(|(number, channel)| (number, *channel))
    }

    pub fn iter(&self) -> impl Iterator<Item = (u16, &C)> {
        let all = self.0.iter();
        all.map(|(number, channel)| (*number, &**channel))
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = (u16, &mut C)> {
        let all = self.0.iter_mut();
        all.map(|(number, channel)| (*number, &mut **channel))
    }

    pub fn values(&self) -> impl Iterator<Item = &C> {
        self.iter().map(|(_, channel)| channel)
    }
}
