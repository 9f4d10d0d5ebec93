//! The routes of the messages that a connection has published last.

use super::published::{Portion, Published};
use crate::run::Targets;
use leveret_metadata::Traffic;
use leveret_types::limits::PUBLISHED_GATHERED_MAX;
use leveret_types::{ChannelId, Message};
use std::hash::BuildHasher;

/// Routes that a publishing connection remembers.
const ROUTES_KEPT: usize = 64;

/// Where messages of one exchange and routing key go, as long as the catalogue does not change.
pub(super) struct Route {
    hash: u64,
    exchange: Box<str>,
    routing_key: Box<[u8]>,
    pub(super) targets: Targets,
    pub(super) traffic: Traffic,
    /// The channel that uses it; none where that was closed.
    channel: Option<ChannelId>,
    /// What that one has published by it and is not in [`Published`] yet.
    gathered: u64,
}

impl Route {
    /// Counts a publish, if it was the same channel's as the one before and little has gathered:
    /// else [`Self::hand_over`] comes first.
    pub(super) fn count(&mut self, channel: ChannelId) -> bool {
        let counts = self.channel == Some(channel) && self.gathered < PUBLISHED_GATHERED_MAX;
        self.gathered += u64::from(counts);
        counts
    }

    /// Hands over what has gathered; this channel uses the route from now on. Answers what it has
    /// published: one message.
    pub(super) fn hand_over(
        &mut self,
        channel: ChannelId,
        published: &mut Published,
    ) -> Portion<'_> {
        self.gather(published);
        self.channel = Some(channel);
        Portion {
            channel,
            exchange: &self.exchange,
            queues: &self.targets,
            messages: 1,
        }
    }

    fn gather(&mut self, published: &mut Published) {
        let messages = std::mem::take(&mut self.gathered);
        if let Some(channel) = self.channel {
            published.add(Portion {
                channel,
                exchange: &self.exchange,
                queues: &self.targets,
                messages,
            });
        }
    }
}

/// The routes that a connection remembers.
#[derive(Default)]
pub(super) struct Routes {
    kept: Vec<Option<Route>>,
    /// That of the catalogue by which they were found.
    generation: u64,
    /// The same in every process: keys that a client chooses so that they collide take each other's
    /// places, and cost it a look at the bindings each time.
    hasher: foldhash::fast::FixedState,
}

impl Routes {
    /// Forgets those that an older catalogue had.
    pub(super) fn keep_those_of(&mut self, generation: u64, published: &mut Published) {
        if self.generation != generation {
            self.generation = generation;
            self.gather(published);
            self.kept.clear();
        }
    }

    pub(super) fn hash(&self, message: &Message) -> u64 {
        self.hasher
            .hash_one((message.exchange(), message.routing_key()))
    }

    /// Adds what they have gathered.
    pub(super) fn gather(&mut self, published: &mut Published) {
        for route in self.kept.iter_mut().flatten() {
            route.gather(published);
        }
    }

    /// A channel is closed: another one of its number begins anew.
    pub(super) fn forget_channel(&mut self, channel: ChannelId, published: &mut Published) {
        for route in self.kept.iter_mut().flatten() {
            if route.channel == Some(channel) {
                route.gather(published);
                route.channel = None;
            }
        }
    }

    pub(super) fn find(&mut self, hash: u64, message: &Message) -> Option<&mut Route> {
        let place = place(hash, self.kept.len());
        let route = self.kept.get_mut(place)?.as_mut()?;
        let same = route.hash == hash
            && *route.exchange.as_bytes() == *message.exchange()
            && *route.routing_key == *message.routing_key();
        same.then_some(route)
    }

    /// Remembers where messages like this one go, which that portion was; forgets another route
    /// for it where there is no room.
    pub(super) fn remember(
        &mut self,
        hash: u64,
        message: &Message,
        portion: Portion<'_>,
        traffic: Traffic,
        published: &mut Published,
    ) {
        // Most connections publish to one place, and keep room for that alone.
        if self.kept.is_empty() {
            self.kept.push(None);
        }
        while self.kept.len() < ROUTES_KEPT && self.is_taken(hash) {
            self.make_room();
        }
        let place = place(hash, self.kept.len());
        let route = Route {
            hash,
            exchange: portion.exchange.into(),
            routing_key: message.routing_key().into(),
            targets: Targets::from_slice(portion.queues),
            traffic,
            channel: Some(portion.channel),
            gathered: 0,
        };
        if let Some(mut before) = self.kept[place].replace(route) {
            before.gather(published);
        }
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
        let (mut routes, mut published) = (Routes::default(), Published::default());
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
                let portion = Portion {
                    channel: ChannelId(1),
                    exchange: "x",
                    queues: &[],
                    messages: 1,
                };
                let traffic = Traffic::default();
                routes.remember(hash, &message, portion, traffic, &mut published);
                assert!(routes.find(hash, &message).is_some());
            }
            assert!(routes.kept.len() <= most);
        }
        assert_eq!(routes.kept.len(), ROUTES_KEPT);
    }
}
