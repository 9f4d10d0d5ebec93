//! The routes of the messages that a connection has published last.

use crate::run::Targets;
use leveret_metadata::Traffic;
use leveret_types::{Message, QueueId};
use std::hash::BuildHasher;

/// Routes that a publishing connection remembers.
const ROUTES_KEPT: usize = 64;

/// Where messages of one exchange and routing key go, as long as the catalogue does not change.
pub(super) struct Route {
    hash: u64,
    exchange: Box<[u8]>,
    routing_key: Box<[u8]>,
    pub(super) targets: Targets,
    pub(super) traffic: Traffic,
}

/// The routes that a connection remembers.
#[derive(Default)]
pub(super) struct Routes {
    kept: Vec<Option<Route>>,
    /// That of the catalogue by which they were found.
    generation: u64,
    hasher: foldhash::fast::FixedState,
}

impl Routes {
    /// Forgets those that an older catalogue had.
    pub(super) fn keep_those_of(&mut self, generation: u64) {
        if self.generation != generation {
            self.generation = generation;
            self.kept.clear();
        }
    }

    pub(super) fn hash(&self, message: &Message) -> u64 {
        self.hasher
            .hash_one((message.exchange(), message.routing_key()))
    }

    pub(super) fn find(&self, hash: u64, message: &Message) -> Option<&Route> {
        let route = self.kept.get(place(hash, self.kept.len()))?.as_ref()?;
        let same = route.hash == hash
            && *route.exchange == *message.exchange()
            && *route.routing_key == *message.routing_key();
        same.then_some(route)
    }

    pub(super) fn remember(
        &mut self,
        hash: u64,
        message: &Message,
        targets: &[QueueId],
        traffic: Traffic,
    ) {
        // Most connections publish to one place, and keep room for that alone.
        if self.kept.is_empty() {
            self.kept.push(None);
        }
        while self.kept.len() < ROUTES_KEPT && self.is_taken(hash) {
            self.make_room();
        }
        let place = place(hash, self.kept.len());
        self.kept[place] = Some(Route {
            hash,
            exchange: message.exchange().into(),
            routing_key: message.routing_key().into(),
            targets: Targets::from_slice(targets),
            traffic,
        });
    }

    /// Whether another route has the place of this one.
    fn is_taken(&self, hash: u64) -> bool {
        let taken = &self.kept[place(hash, self.kept.len())];
        taken.as_ref().is_some_and(|route| route.hash != hash)
    }

    /// Twice as many places.
    fn make_room(&mut self) {
        let count = 2 * self.kept.len();
        let routes = std::mem::replace(&mut self.kept, Vec::with_capacity(count));
        self.kept.resize_with(count, || None);
        for route in routes.into_iter().flatten() {
            let place = place(route.hash, count);
            self.kept[place] = Some(route);
        }
    }
}

/// Where a route is kept, of so many places: a power of two, or none.
const fn place(hash: u64, places: usize) -> usize {
    hash as usize & places.wrapping_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use leveret_types::message::{MessageParts, MessageSummary};

    const _: () = assert!(ROUTES_KEPT.is_power_of_two());

    #[test]
    fn a_publisher_keeps_room_for_as_many_routes_as_it_uses() {
        let mut routes = Routes::default();
        let message = |key: &str| {
            let parts = MessageParts {
                exchange: b"x",
                routing_key: key.as_bytes(),
                properties: &[],
                body: &[],
            };
            Message::from_parts(parts, MessageSummary::default())
        };
        for (count, most) in [(1, 1), (2, 64), (200, ROUTES_KEPT)] {
            for number in 0..count {
                let message = message(&number.to_string());
                let hash = routes.hash(&message);
                routes.remember(hash, &message, &[], Traffic::default());
                assert!(routes.find(hash, &message).is_some());
            }
            assert!(routes.kept.len() <= most);
        }
        assert_eq!(routes.kept.len(), ROUTES_KEPT);
    }
}
