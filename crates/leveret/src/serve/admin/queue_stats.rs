//! What is known of queues, in the management interface's words. Nothing here changes one or waits
//! for it.

use super::Admin;
use leveret_cluster::{BorrowedShard as _, Env as _};
use leveret_management::Directory as _;
use leveret_management::api::{MessageCounters, QueueStats, StreamStanding};
use leveret_metadata::{QueueKind, QueueRecord};
use leveret_node::Env as _;
use leveret_queue::Oldest;
use leveret_queue_host::shard::{LocalQueueStats, Subscriber};
use leveret_shell::node::{Which, some_connections};
use leveret_stream::StreamStats;
use leveret_types::{ConsumerId, QueueId};
use std::collections::HashMap;
use std::sync::atomic::Ordering;

/// Tags of consumers.
type Tags = HashMap<ConsumerId, String>;

impl Admin {
    /// The stats of the queues that are here, and whether each is a replica that does not lead.
    pub(super) fn queue_local_stats(&self) -> Vec<(LocalQueueStats, bool)> {
        let now = self.broker.now();
        let shards = self.broker.shard_ids();
        let of_shard = |id| {
            let shard = self.broker.shard(id);
            let local_stats = shard.all_local_stats(now);
            local_stats
                .map(|local_stats| {
                    let follows = shard.replica_leads(local_stats.id) == Some(false);
                    (local_stats, follows)
                })
                .collect::<Vec<_>>()
        };
        shards.flat_map(of_shard).collect()
    }

    /// Says of each queue that is led here its figures, but for tags of consumers: nobody is asked
    /// for these. Of all queues only ids are held.
    pub(super) fn each_led_queue(&self, see: &mut dyn FnMut(QueueStats)) {
        let mut ids = Vec::new();
        self.each_queue(None, &mut |id, _, _| {
            if !id.is_stream() {
                ids.push(id);
            }
        });
        for id in ids {
            if let Some(known) = self.local_stats_of(id).filter(|(_, follows)| !follows) {
                see(self.stats_of(&known, &Tags::new()));
            }
        }
        let streams = self.stats_of_all_streams().into_iter();
        streams.filter(|stream| !stream.follows).for_each(see);
    }

    /// Figures of the queues and streams in which something happened since this was asked last,
    /// each with its virtual host.
    pub(super) fn active_queue_stats(&self) -> Vec<(String, QueueStats)> {
        let mut active = Vec::new();
        for id in self.broker.shard_ids() {
            let mut shard = self.broker.shard(id);
            active.extend(shard.take_active());
            shard.release();
        }
        let known = active
            .iter()
            .filter_map(|queue| self.local_stats_of(*queue));
        // Nobody asks here whose consumers they are.
        let mut stats: Vec<QueueStats> = known
            .map(|known| self.stats_of(&known, &Tags::new()))
            .collect();
        stats.extend(self.stream_figures(self.broker.streams.take_active_stats()));
        let catalogue = self.broker.catalogue();
        let named = |stats: QueueStats| {
            let vhost = catalogue.queue(stats.id)?.vhost().to_owned();
            Some((vhost, stats))
        };
        stats.into_iter().filter_map(named).collect()
    }

    /// Says of each queue that is led here and not empty its virtual host, and how many messages it
    /// has: all, those that wait, those that are not settled.
    pub(super) fn each_depth(&self, see: &mut dyn FnMut(&str, [u64; 3])) {
        // The catalogue is not held for longer, as whoever changes it waits.
        const AT_ONCE: usize = 1_024;
        let streams = self.stats_of_all_streams().into_iter();
        let mut depths: Vec<(QueueId, [u64; 3])> = streams
            .filter(|stream| !stream.follows)
            .map(|stream| (stream.id, [stream.ready, stream.ready, 0]))
            .collect();
        for id in self.broker.shard_ids() {
            depths.extend(self.broker.shard(id).depths());
        }
        for some in depths.chunks(AT_ONCE) {
            let catalogue = self.broker.catalogue();
            for (queue, depths) in some {
                if let Some(record) = catalogue.queue(*queue) {
                    see(record.vhost(), *depths);
                }
            }
        }
    }

    /// The same of one queue; none where it is not here.
    pub(super) fn local_stats_of(&self, queue: QueueId) -> Option<(LocalQueueStats, bool)> {
        let shard = self.broker.shard(self.broker.shard_of(queue));
        let follows = shard.replica_leads(queue) == Some(false);
        Some((shard.local_stats(self.broker.now(), queue)?, follows))
    }

    /// Figures of the streams that are here.
    pub(super) fn stats_of_all_streams(&self) -> Vec<QueueStats> {
        self.stream_figures(self.broker.streams.stats())
    }

    /// Figures of these streams, as far as they are here.
    pub(super) fn stats_of_streams(&self, streams: Vec<QueueId>) -> Vec<QueueStats> {
        self.stream_figures(self.broker.streams.stats_of(streams))
    }

    /// What clients of AMQP here were delivered of a stream, and acknowledged.
    fn deliveries_of(&self, stream: QueueId) -> MessageCounters {
        let counted = self.broker.counters().stream_deliveries.get(stream);
        counted.map_or_else(MessageCounters::default, |counted| MessageCounters {
            delivered: counted.delivered.load(Ordering::Relaxed),
            delivered_auto_ack: counted.delivered_auto_ack.load(Ordering::Relaxed),
            acknowledged: counted.acknowledged.load(Ordering::Relaxed),
            ..MessageCounters::default()
        })
    }

    fn stream_figures(&self, streams: Vec<(QueueId, StreamStats)>) -> Vec<QueueStats> {
        let (catalogue, own) = (self.broker.catalogue(), self.broker.node_id());
        let stats = streams.into_iter().map(|(id, stream)| {
            let leader = catalogue.queue(id).map(QueueRecord::home);
            let first = stream.first_chunk.unwrap_or_default();
            let messages = stream
                .committed_offset
                .map_or(0, |last| (last + 1).saturating_sub(first));
            QueueStats {
                id,
                ready: messages,
                ready_bytes: stream.bytes,
                persistent: messages,
                persistent_bytes: stream.bytes,
                consumers: stream.readers,
                stream: Some(StreamStanding {
                    first_offset: stream.first_chunk,
                    committed_offset: stream.committed_offset,
                    last_offset: stream.last_offset,
                    segments: stream.segments,
                    held_bytes: stream.held_bytes,
                    readers: stream.readers,
                    publishers: stream.publishers,
                }),
                // Each message took an offset, also those that are gone.
                messages: MessageCounters {
                    published: stream.committed_offset.map_or(0, |last| last + 1),
                    ..self.deliveries_of(id)
                },
                follows: leader.is_some_and(|leader| leader != own),
                damaged: stream.damaged,
                ..QueueStats::default()
            }
        });
        stats.collect()
    }

    /// Local stats as the API has them. Connections are asked for their consumers' tags only where
    /// a queue shows one, and no others than those that have these consumers.
    pub(super) fn stats_of_all(&self, local_stats: &[(LocalQueueStats, bool)]) -> Vec<QueueStats> {
        let tags = self.tags_shown(local_stats);
        let stats = local_stats
            .iter()
            .map(|local_stats| self.stats_of(local_stats, &tags));
        let with_waiting = |stats: QueueStats| {
            let shard = self.broker.shard(self.broker.shard_of(stats.id));
            let waiting = shard.waiting(stats.id);
            QueueStats {
                waiting: waiting.map(|waiting| (waiting.by_priority_log, waiting.returned)),
                ..stats
            }
        };
        stats.map(with_waiting).collect()
    }

    /// The tags of the consumers of this node's clients that are named in figures of their queues.
    fn tags_shown(&self, local_stats: &[(LocalQueueStats, bool)]) -> Tags {
        let mut shown = Vec::new();
        for (local_stats, _) in local_stats {
            let active = local_stats.counts.active;
            for (view, subscriber) in &local_stats.consumers {
                let id = view.consumer.id;
                if let Subscriber::Client(client) = subscriber
                    && (view.consumer.exclusive || active == Some(id))
                {
                    shown.push((*client, id));
                }
            }
        }
        if shown.is_empty() {
            return Tags::new();
        }
        shown.sort_unstable();
        let connections = some_connections(&self.broker, &Which::Consumers(shown.into()));
        let consumers = connections.into_iter().flat_map(|of| of.consumers);
        consumers
            .map(|consumer| (consumer.id, consumer.tag))
            .collect()
    }

    fn stats_of(
        &self,
        (local_stats, follows): &(LocalQueueStats, bool),
        tags: &Tags,
    ) -> QueueStats {
        let (counts, counters) = (&local_stats.counts, &local_stats.counters);
        let tag = |consumer: ConsumerId| tags.get(&consumer).cloned();
        let exclusive = local_stats
            .consumers
            .iter()
            .find(|(view, _)| view.consumer.exclusive);
        let age_ms = self.broker.now().monotonic_ms.max(1);
        let catalogue = self.broker.catalogue();
        let record = catalogue.queue(local_stats.id);
        // A classic queue's count as gone once they are on their way.
        let stay = record.is_some_and(|record| record.kind() == QueueKind::Quorum);
        let (dead_letters, dead_letter_bytes) = match stay {
            true => (counts.leaving, counts.leaving_bytes),
            false => (0, 0),
        };
        QueueStats {
            id: local_stats.id,
            follows: *follows,
            ready: counts.ready,
            unacknowledged: counts.unsettled,
            ready_bytes: counts.ready_bytes,
            unacknowledged_bytes: counts.unsettled_bytes,
            dead_letters,
            dead_letter_bytes,
            persistent: if local_stats.durable {
                counts.ready + counts.unsettled + dead_letters
            } else {
                0
            },
            persistent_bytes: if local_stats.durable {
                counts.ready_bytes + counts.unsettled_bytes + dead_letter_bytes
            } else {
                0
            },
            memory_bytes: counts.memory_bytes as u64,
            consumers: counts.consumers as u64,
            consumer_capacity: (counts.able_ms as f64 / age_ms as f64).min(1.0),
            exclusive_consumer_tag: exclusive.and_then(|(view, _)| tag(view.consumer.id)),
            single_active_consumer_tag: counts.active.and_then(tag),
            oldest_ms: match local_stats.oldest {
                Oldest::Published(ms) => Some(ms),
                Oldest::None | Oldest::Unknown { .. } => None,
            },
            owner: record.and_then(|queue| queue.exclusive()),
            damaged: counts.damaged > 0,
            messages: MessageCounters {
                published: counters.enqueued,
                delivered: counters.delivered,
                delivered_auto_ack: counters.delivered_settled,
                got: counters.got,
                got_auto_ack: counters.got_settled,
                got_empty: counters.got_empty,
                redelivered: counters.redelivered,
                acknowledged: counters.accepted,
                ..MessageCounters::default()
            },
            ..QueueStats::default()
        }
    }
}
