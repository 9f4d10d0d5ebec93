//! How many messages came to each queue from each exchange, on this node: what was published to the
//! exchange by clients of this node and went into the queue, by whatever way.
//!
//! Connections count for themselves and add what has gathered now and then (`connection/
//! published.rs`), so that nothing here is locked where messages are published.

use leveret_metadata::Catalogue;
use leveret_types::QueueId;
use leveret_types::limits::{FLOWS_MAX, PUBLISHED_PLACES_NODE_MAX};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What comes to a queue from an exchange.
#[derive(Debug)]
pub struct Flow {
    /// The virtual host of both.
    pub vhost: Arc<str>,
    /// The exchange's name; empty for the default one.
    pub exchange: Arc<str>,
    /// The queue.
    pub queue: QueueId,
    /// The queue's name.
    pub queue_name: Arc<str>,
    messages: AtomicU64,
    has_ended: AtomicBool,
}

impl Flow {
    /// Messages since the node's start, or since both were declared.
    pub fn messages(&self) -> u64 {
        self.messages.load(Ordering::Relaxed)
    }

    pub(crate) fn add(&self, messages: u64) {
        self.messages.fetch_add(messages, Ordering::Relaxed);
    }

    /// Whether one of both is gone: another one of the same name begins anew.
    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Relaxed)
    }
}

/// What comes to queues of this node's clients, by queue and exchange; no more than [`FLOWS_MAX`].
#[derive(Debug, Default)]
pub struct Flows {
    known: Mutex<Known>,
    /// Places that connections have taken for what they publish.
    places: Arc<AtomicUsize>,
}

/// Places that a connection has taken of the node's [`PUBLISHED_PLACES_NODE_MAX`]; they are given
/// back when it is gone.
#[derive(Debug, Default)]
pub(crate) struct Places {
    taken: usize,
    of_node: Option<Arc<AtomicUsize>>,
}

impl Places {
    /// Takes one more; `false` if the node has none left.
    pub(crate) fn take(&mut self, flows: &Flows) -> bool {
        let of_node = self
            .of_node
            .get_or_insert_with(|| Arc::clone(&flows.places));
        let one_more = |taken| (taken < PUBLISHED_PLACES_NODE_MAX).then_some(taken + 1);
        let took = of_node.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more);
        self.taken += usize::from(took.is_ok());
        took.is_ok()
    }

    /// Gives back all but so many.
    pub(crate) fn keep(&mut self, kept: usize) {
        let given_back = self.taken.saturating_sub(kept);
        self.taken -= given_back;
        if let Some(of_node) = &self.of_node {
            of_node.fetch_sub(given_back, Ordering::Relaxed);
        }
    }
}

impl Drop for Places {
    fn drop(&mut self) {
        self.keep(0);
    }
}

type Exchange = (Arc<str>, Arc<str>);

#[derive(Debug, Default)]
struct Known {
    of_exchanges: HashMap<Exchange, HashMap<QueueId, Arc<Flow>>>,
    /// By exchange, in the queue's virtual host: one queue may be bound to all exchanges.
    of_queues: HashMap<QueueId, HashMap<Arc<str>, Arc<Flow>>>,
    count: usize,
}

impl Flows {
    /// What comes to this queue from this exchange of its virtual host; none where no further one
    /// is counted, or the queue is gone.
    pub(crate) fn flow(
        &self,
        exchange: &str,
        queue: QueueId,
        catalogue: &Catalogue,
    ) -> Option<Arc<Flow>> {
        let record = catalogue.queue(queue)?;
        let mut known = self.lock();
        let of_queue = known.of_queues.get(&queue);
        if let Some(flow) = of_queue.and_then(|flows| flows.get(exchange)) {
            return Some(Arc::clone(flow));
        }
        if known.count >= FLOWS_MAX {
            return None;
        }
        let (vhost, exchange): Exchange = (record.vhost().into(), exchange.into());
        let flow = Arc::new(Flow {
            vhost: Arc::clone(&vhost),
            exchange: Arc::clone(&exchange),
            queue,
            queue_name: record.name().into(),
            messages: AtomicU64::new(0),
            has_ended: AtomicBool::new(false),
        });
        known.count += 1;
        let of_queue = known.of_queues.entry(queue).or_default();
        of_queue.insert(Arc::clone(&exchange), Arc::clone(&flow));
        let of_exchange = known.of_exchanges.entry((vhost, exchange)).or_default();
        of_exchange.insert(queue, Arc::clone(&flow));
        Some(flow)
    }

    /// Counts a message that went from an exchange into queues.
    pub(crate) fn count(&self, exchange: &str, queues: &[QueueId], catalogue: &Catalogue) {
        for queue in queues {
            if let Some(flow) = self.flow(exchange, *queue, catalogue) {
                flow.add(1);
            }
        }
    }

    /// What comes to a queue.
    pub fn to_queue(&self, queue: QueueId) -> Vec<Arc<Flow>> {
        let known = self.lock();
        let of_queue = known.of_queues.get(&queue);
        of_queue.map_or_else(Vec::new, |flows| flows.values().cloned().collect())
    }

    /// What comes from an exchange.
    pub fn from_exchange(&self, vhost: &str, exchange: &str) -> Vec<Arc<Flow>> {
        let known = self.lock();
        let of_exchange = known.of_exchanges.get(&(vhost.into(), exchange.into()));
        of_exchange.map_or_else(Vec::new, |flows| flows.values().cloned().collect())
    }

    /// All of them, of one virtual host or of the node.
    pub fn all(&self, vhost: Option<&str>) -> Vec<Arc<Flow>> {
        let known = self.lock();
        let flows = known.of_queues.values().flat_map(HashMap::values);
        let meant = flows.filter(|flow| vhost.is_none_or(|vhost| *flow.vhost == *vhost));
        meant.cloned().collect()
    }

    /// A queue is gone.
    pub(crate) fn forget_queue(&self, queue: QueueId) {
        let mut known = self.lock();
        let known = &mut *known;
        let flows = known.of_queues.remove(&queue);
        for (exchange, flow) in flows.unwrap_or_default() {
            flow.has_ended.store(true, Ordering::Relaxed);
            known.count -= 1;
            let exchange = (Arc::clone(&flow.vhost), exchange);
            if let Some(queues) = known.of_exchanges.get_mut(&exchange) {
                queues.remove(&queue);
                if queues.is_empty() {
                    known.of_exchanges.remove(&exchange);
                }
            }
        }
    }

    /// An exchange is gone.
    pub(crate) fn forget_exchange(&self, vhost: &str, exchange: &str) {
        let mut known = self.lock();
        if known.of_exchanges.is_empty() {
            return;
        }
        let known = &mut *known;
        let flows = known.of_exchanges.remove(&(vhost.into(), exchange.into()));
        for (queue, flow) in flows.unwrap_or_default() {
            flow.has_ended.store(true, Ordering::Relaxed);
            known.count -= 1;
            if let Some(flows) = known.of_queues.get_mut(&queue) {
                flows.remove(exchange);
                if flows.is_empty() {
                    known.of_queues.remove(&queue);
                }
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use leveret_metadata::{Command, Config};
    use leveret_types::FieldTable;

    fn catalogue_with_a_queue() -> (Catalogue, QueueId) {
        let mut catalogue = Catalogue::new(Config::default());
        let vhost = Command::VhostPut {
            vhost: "/".to_owned(),
            description: None,
            tags: None,
            default_queue_type: None,
            protected: None,
            tracing: None,
        };
        catalogue.apply(&vhost).expect("a virtual host");
        let queue = Command::QueueDeclare {
            vhost: "/".to_owned(),
            name: "q".to_owned(),
            durable: true,
            exclusive: None,
            auto_delete: false,
            arguments: FieldTable::new(),
            random: [0; 16],
            shards: 1,
            id: None,
        };
        let declared = catalogue.apply(&queue).expect("a queue");
        (catalogue, declared.queue.expect("its number"))
    }

    #[test]
    fn connections_share_the_places_of_a_node_and_give_theirs_back() {
        let flows = Flows::default();
        let (mut one, mut other) = (Places::default(), Places::default());
        for _ in 1..PUBLISHED_PLACES_NODE_MAX {
            assert!(one.take(&flows));
        }
        assert!(other.take(&flows), "the last one");
        assert!(!other.take(&flows) && !one.take(&flows));
        one.keep(PUBLISHED_PLACES_NODE_MAX - 2);
        assert!(other.take(&flows) && !other.take(&flows));
        drop(other);
        assert!(one.take(&flows) && one.take(&flows) && !one.take(&flows));
    }

    #[test]
    fn as_many_are_counted_as_the_bound_says_even_of_one_queue_and_none_outlives_its_exchange() {
        let (catalogue, queue) = catalogue_with_a_queue();
        let flows = Flows::default();
        for number in 0..FLOWS_MAX {
            flows.count(&format!("x{number}"), &[queue], &catalogue);
        }
        assert!(flows.flow("one more", queue, &catalogue).is_none());
        assert!(flows.flow("x7", queue, &catalogue).is_some());
        assert_eq!(flows.to_queue(queue).len(), FLOWS_MAX);
        let seventh = flows.from_exchange("/", "x7");
        for number in 0..FLOWS_MAX {
            flows.forget_exchange("/", &format!("x{number}"));
        }
        assert!(seventh[0].has_ended());
        assert!(flows.all(None).is_empty() && flows.to_queue(queue).is_empty());
        assert!(flows.flow("one more", queue, &catalogue).is_some());
        flows.forget_queue(queue);
        assert!(flows.from_exchange("/", "one more").is_empty());
    }
}
