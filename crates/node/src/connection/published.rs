//! What a connection has published, by channel, exchange and queue.
//!
//! A publish whose route is remembered is counted there, by one addition ([`super::routes`]). What
//! has gathered comes here when the route is forgotten, another channel uses it, or somebody asks.

use crate::flows::{Flow, Flows, Places};
use crate::status::PublishedStatus;
use leveret_metadata::Catalogue;
use leveret_types::limits::{PUBLISHED_QUEUES_MAX, PUBLISHED_WAYS_MAX};
use leveret_types::{ChannelId, QueueId};
use std::sync::Arc;

/// Publishes of a connection by channel and exchange, in this order. Beyond
/// [`PUBLISHED_WAYS_MAX`] of these, and [`PUBLISHED_QUEUES_MAX`] queues together, and beyond what
/// all connections of the node may have, nothing is counted by pairs.
#[derive(Debug, Default)]
pub(super) struct Published {
    ways: Vec<Way>,
    queues: usize,
    /// One for each of both.
    places: Places,
    /// The catalogue's generation when it was last looked for queues that are gone.
    swept: u64,
}

/// What a channel publishes to an exchange.
#[derive(Debug)]
struct Way {
    channel: ChannelId,
    exchange: Arc<str>,
    messages: u64,
    /// By their ids.
    queues: Vec<Reached>,
}

/// A queue that it reaches.
#[derive(Debug)]
struct Reached {
    queue: QueueId,
    messages: u64,
    /// The sum of the node; none where no further ones are kept.
    flow: Option<Arc<Flow>>,
}

/// What was published: so many messages, from a channel to an exchange and into these queues.
#[derive(Clone, Copy)]
pub(super) struct Portion<'a> {
    pub(super) channel: ChannelId,
    pub(super) exchange: &'a str,
    pub(super) queues: &'a [QueueId],
    pub(super) messages: u64,
}

/// Where sums of the node are found that were not added to before.
#[derive(Clone, Copy)]
pub(super) struct Sums<'a> {
    pub(super) flows: &'a Flows,
    pub(super) catalogue: &'a Catalogue,
}

impl Published {
    /// Counts what was published just now.
    pub(super) fn count(&mut self, portion: Portion<'_>, sums: Sums<'_>) {
        let at = match self.find(portion.channel, portion.exchange) {
            Ok(at) => at,
            Err(_) if self.ways.len() >= PUBLISHED_WAYS_MAX => return,
            Err(_) if !self.places.take(sums.flows) => return,
            Err(at) => {
                let way = Way {
                    channel: portion.channel,
                    exchange: portion.exchange.into(),
                    messages: 0,
                    queues: Vec::new(),
                };
                self.ways.insert(at, way);
                at
            }
        };
        self.ways[at].messages += portion.messages;
        for queue in portion.queues {
            let way = &self.ways[at];
            let place = way
                .queues
                .binary_search_by_key(queue, |reached| reached.queue);
            let place = match place {
                Ok(place) => place,
                Err(_) if !self.has_room(sums.catalogue.generation()) => continue,
                Err(_) if !self.places.take(sums.flows) => continue,
                Err(_) => self.reach(at, *queue, sums),
            };
            let way = &mut self.ways[at];
            let reached = &mut way.queues[place];
            if reached.flow.as_ref().is_some_and(|flow| flow.has_ended()) {
                reached.flow = sums.flows.flow(&way.exchange, *queue, sums.catalogue);
            }
            reached.add(portion.messages);
        }
    }

    /// Counts what has gathered of what [`Self::count`] was told of before.
    pub(super) fn add(&mut self, portion: Portion<'_>) {
        if portion.messages == 0 {
            return;
        }
        let Ok(at) = self.find(portion.channel, portion.exchange) else {
            return;
        };
        let way = &mut self.ways[at];
        way.messages += portion.messages;
        for queue in portion.queues {
            let place = way
                .queues
                .binary_search_by_key(queue, |reached| reached.queue);
            if let Ok(place) = place {
                way.queues[place].add(portion.messages);
            }
        }
    }

    /// Forgets what a channel has published: it is closed.
    pub(super) fn forget(&mut self, channel: ChannelId) {
        self.ways.retain(|way| way.channel != channel);
        self.count_queues();
    }

    /// For listings.
    pub(super) fn status(&self) -> Vec<PublishedStatus> {
        let status = self.ways.iter().map(|way| PublishedStatus {
            channel: way.channel,
            exchange: Arc::clone(&way.exchange),
            messages: way.messages,
            queues: way
                .queues
                .iter()
                .map(|to| (to.queue, to.messages))
                .collect(),
        });
        status.collect()
    }

    fn find(&self, channel: ChannelId, exchange: &str) -> Result<usize, usize> {
        self.ways
            .binary_search_by(|way| (way.channel, &*way.exchange).cmp(&(channel, exchange)))
    }

    /// Whether there is room for one more queue; those that are gone make room.
    fn has_room(&mut self, generation: u64) -> bool {
        if self.queues >= PUBLISHED_QUEUES_MAX && self.swept != generation {
            self.swept = generation;
            let is_there = |to: &Reached| to.flow.as_ref().is_none_or(|flow| !flow.has_ended());
            let ways = self.ways.iter_mut();
            ways.for_each(|way| way.queues.retain(is_there));
            self.count_queues();
        }
        self.queues < PUBLISHED_QUEUES_MAX
    }

    /// Some may be gone.
    fn count_queues(&mut self) {
        self.queues = self.ways.iter().map(|way| way.queues.len()).sum();
        self.places.keep(self.ways.len() + self.queues);
    }

    /// A way reaches a queue that it did not before; answers its place.
    fn reach(&mut self, at: usize, queue: QueueId, sums: Sums<'_>) -> usize {
        let way = &mut self.ways[at];
        let place = way.queues.partition_point(|reached| reached.queue < queue);
        let reached = Reached {
            queue,
            messages: 0,
            flow: sums.flows.flow(&way.exchange, queue, sums.catalogue),
        };
        way.queues.insert(place, reached);
        self.queues += 1;
        place
    }
}

impl Reached {
    fn add(&mut self, messages: u64) {
        self.messages += messages;
        if let Some(flow) = &self.flow {
            flow.add(messages);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use leveret_metadata::Config;

    fn portion<'a>(channel: u16, exchange: &'a str, queues: &'a [QueueId]) -> Portion<'a> {
        Portion {
            channel: ChannelId(channel),
            exchange,
            queues,
            messages: 1,
        }
    }

    #[test]
    fn what_gathered_is_added_where_it_was_counted_before_and_nowhere_else() {
        let (flows, catalogue) = (Flows::default(), Catalogue::new(Config::default()));
        let sums = Sums {
            flows: &flows,
            catalogue: &catalogue,
        };
        let mut published = Published::default();
        let to = |ids: &[u64]| ids.iter().copied().map(QueueId).collect::<Vec<_>>();
        published.count(portion(2, "x", &to(&[5, 3])), sums);
        published.count(portion(1, "", &to(&[3])), sums);
        let mut gathered = to(&[3, 5]);
        published.add(Portion {
            messages: 10,
            ..portion(2, "x", &gathered)
        });
        gathered.push(QueueId(9));
        published.add(portion(1, "x", &gathered));
        let told: Vec<_> = published
            .status()
            .into_iter()
            .map(|of| {
                (
                    of.channel.0,
                    of.exchange.to_string(),
                    of.messages,
                    of.queues,
                )
            })
            .collect();
        let x = [(QueueId(3), 11), (QueueId(5), 11)];
        assert_eq!(
            told,
            [
                (1, String::new(), 1, vec![(QueueId(3), 1)]),
                (2, "x".to_owned(), 11, x.to_vec()),
            ]
        );
        published.forget(ChannelId(2));
        assert_eq!((published.ways.len(), published.queues), (1, 1));
    }

    #[test]
    fn no_more_pairs_are_counted_than_the_bounds() {
        let (flows, catalogue) = (Flows::default(), Catalogue::new(Config::default()));
        let sums = Sums {
            flows: &flows,
            catalogue: &catalogue,
        };
        let mut published = Published::default();
        let many: Vec<QueueId> = (0..PUBLISHED_QUEUES_MAX as u64 + 10).map(QueueId).collect();
        published.count(portion(1, "many", &many), sums);
        for number in 0..PUBLISHED_WAYS_MAX + 10 {
            let exchange = format!("x{number}");
            published.count(portion(1, &exchange, &many[..1]), sums);
        }
        assert_eq!(published.ways.len(), PUBLISHED_WAYS_MAX);
        assert_eq!(published.queues, PUBLISHED_QUEUES_MAX);
        // What has its place goes on being counted.
        published.count(portion(1, "many", &many), sums);
        assert_eq!(published.status()[0].messages, 2);
        assert_eq!(published.status()[0].queues[7].1, 2);
    }
}
