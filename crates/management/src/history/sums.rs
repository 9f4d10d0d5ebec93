//! Sums over queues and connections that go on from sample to sample.

use crate::history::rates::MESSAGE_FIELDS;
use std::collections::HashMap;

/// All messages, those that wait, those that are not settled.
pub(crate) type Depths = [u64; 3];

/// What is summed up of a virtual host since the node's start.
#[derive(Debug, Default)]
pub(crate) struct Vhost {
    pub(crate) messages: [u64; MESSAGE_FIELDS],
    pub(crate) depths: Depths,
    pub(crate) traffic: [u64; 2],
}

/// Sums that go on from tick to tick.
#[derive(Debug, Default)]
pub(crate) struct Sums {
    pub(crate) vhosts: HashMap<String, Vhost>,
    pub(crate) queues_deleted: u64,
    pub(crate) published: u64,
    pub(crate) is_begun: bool,
}

impl Sums {
    pub(crate) fn vhost(&mut self, name: &str) -> &mut Vhost {
        if !self.vhosts.contains_key(name) {
            self.vhosts.insert(name.to_owned(), Vhost::default());
        }
        self.vhosts.entry(name.to_owned()).or_default()
    }

    pub(crate) fn depths(&self) -> Depths {
        let mut sum = [0_u64; 3];
        for vhost in self.vhosts.values() {
            add(&mut sum, &vhost.depths);
        }
        sum
    }
}

pub(crate) fn add<const N: usize>(into: &mut [u64; N], more: &[u64; N]) {
    for (into, more) in into.iter_mut().zip(more) {
        *into = into.saturating_add(*more);
    }
}
