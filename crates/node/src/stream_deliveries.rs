//! What clients of AMQP were delivered of streams, and acknowledged: counted where they are
//! connected, as a stream's own thread knows of chunks alone.

use leveret_types::QueueId;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Streams beyond which it is looked for those that are not there any more.
const SWEPT_MIN: usize = 64;

/// The counts of a node, by stream.
#[derive(Debug, Default)]
pub struct StreamDeliveries {
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    streams: BTreeMap<QueueId, Arc<Delivered>>,
    /// How many were left when it was last looked for those that are not there any more.
    swept: usize,
}

/// What happened to the messages of one stream.
#[derive(Debug, Default)]
pub struct Delivered {
    /// Delivered to consumers that acknowledge.
    pub delivered: AtomicU64,
    /// Delivered to consumers that do not.
    pub delivered_auto_ack: AtomicU64,
    /// Acknowledged.
    pub acknowledged: AtomicU64,
}

impl StreamDeliveries {
    /// The counts of a stream, for a consumer of it that begins. Whoever locks the catalogue for
    /// `is_there` has done so before.
    pub(crate) fn of(&self, stream: QueueId, is_there: impl Fn(QueueId) -> bool) -> Arc<Delivered> {
        let mut known = self.lock();
        if known.streams.len() >= SWEPT_MIN.max(2 * known.swept) {
            known.streams.retain(|id, _| is_there(*id));
            known.swept = known.streams.len();
        }
        Arc::clone(known.streams.entry(stream).or_default())
    }

    /// The counts of a stream; none where no client here has consumed it.
    #[must_use]
    pub fn get(&self, stream: QueueId) -> Option<Arc<Delivered>> {
        self.lock().streams.get(&stream).map(Arc::clone)
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        // A count is what it is, whatever became of who changed it.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Delivered {
    /// So many messages were delivered.
    pub(crate) fn delivered(&self, messages: u64, auto_ack: bool) {
        let count = match auto_ack {
            true => &self.delivered_auto_ack,
            false => &self.delivered,
        };
        count.fetch_add(messages, Ordering::Relaxed);
    }

    /// So many were acknowledged.
    pub(crate) fn acknowledged(&self, messages: u64) {
        self.acknowledged.fetch_add(messages, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_that_have_gone_are_forgotten_and_others_keep_their_counts() {
        let all = StreamDeliveries::default();
        let is_there = |id: QueueId| id.0 < 10;
        all.of(QueueId(3), is_there).delivered(5, false);
        for id in 0..10_000 {
            all.of(QueueId(id), is_there).delivered(1, true);
        }
        assert!(all.lock().streams.len() <= SWEPT_MIN);
        let kept = all.get(QueueId(3)).expect("it is there");
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        assert_eq!(count(&kept.delivered), 5);
        assert_eq!(count(&kept.delivered_auto_ack), 1);
        assert_eq!(count(&kept.acknowledged), 0);
    }
}
