//! Metrics of queues, each with its name, or their sum.

use super::deliveries::{delivered, deliveries};
use super::text::{Counter, Gauge, Page, Table, WeakTable, labels};
use crate::api::QueueStats;
use crate::app::App;
use crate::directory::Queue;
use leveret_types::QueueId;
use leveret_types::limits::METRICS_SHARED_MS;
use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Which queues a detailed page is about.
#[derive(Default)]
pub(super) struct Scope {
    /// Their virtual hosts; empty for all.
    pub(super) vhosts: HashSet<String>,
    /// Their names; empty for all.
    pub(super) queues: HashSet<String>,
}

impl Scope {
    fn is_all(&self) -> bool {
        self.vhosts.is_empty() && self.queues.is_empty()
    }

    /// Whether it has things of this virtual host.
    pub(super) fn has_vhost(&self, vhost: &str) -> bool {
        self.vhosts.is_empty() || self.vhosts.contains(vhost)
    }

    pub(super) fn has(&self, queue: &Queue) -> bool {
        self.has_named(&queue.vhost, &queue.name)
    }

    /// Whether it has the queue of this name.
    pub(super) fn has_named(&self, vhost: &str, name: &str) -> bool {
        (self.queues.is_empty() || self.queues.contains(name)) && self.has_vhost(vhost)
    }
}

/// Queues whose figures and records are held at once.
const AT_ONCE: usize = 1_024;

/// What the numbers of all queues are together. Each queue's figures are its leader's: sums over
/// the nodes are right then.
fn sum_of_all(app: &App) -> QueueStats {
    let mut sum = QueueStats::default();
    app.node().each_led(&mut |s| add(&mut sum, &s));
    sum
}

fn add(sum: &mut QueueStats, s: &QueueStats) {
    sum.ready += s.ready;
    sum.unacknowledged += s.unacknowledged;
    sum.ready_bytes += s.ready_bytes;
    sum.unacknowledged_bytes += s.unacknowledged_bytes;
    sum.dead_letters += s.dead_letters;
    sum.dead_letter_bytes += s.dead_letter_bytes;
    sum.in_memory += s.in_memory;
    sum.in_memory_bytes += s.in_memory_bytes;
    sum.persistent += s.persistent;
    sum.persistent_bytes += s.persistent_bytes;
    sum.memory_bytes += s.memory_bytes;
    sum.consumers += s.consumers;
    sum.consumer_capacity += s.consumer_capacity;
    sum.oldest_ms = match (sum.oldest_ms, s.oldest_ms) {
        (Some(oldest), Some(other)) => Some(oldest.min(other)),
        (oldest, other) => oldest.or(other),
    };
    sum.messages.add(&s.messages);
    if let Some(stream) = s.stream {
        let sum = sum.stream.get_or_insert_default();
        sum.segments += stream.segments;
        sum.held_bytes += stream.held_bytes;
    }
}

/// The numbers of queues by their labels.
type Rows = Vec<(String, [f64; NUMBERS])>;

/// The rows of the queues of a page that are led here, in the order of their labels.
fn rows_of_each(app: &App, scope: &Scope) -> Rows {
    let now_ms = app.moment().wall_ms;
    let (mut rows, mut some) = (Rows::new(), Vec::with_capacity(AT_ONCE));
    app.node().each_led(&mut |stats| {
        some.push((stats.id, numbers(&stats, now_ms)));
        if some.len() == AT_ONCE {
            label(app, scope, &mut some, &mut rows);
        }
    });
    label(app, scope, &mut some, &mut rows);
    rows.sort_by(|a, b| a.0.cmp(&b.0));
    rows
}

/// Moves numbers to rows, but for those of queues that are gone, or of other pages.
fn label(app: &App, scope: &Scope, some: &mut Vec<(QueueId, [f64; NUMBERS])>, rows: &mut Rows) {
    let ids: Vec<QueueId> = some.iter().map(|(id, _)| *id).collect();
    // Both are in the order of the ids.
    let mut queues = app.node().queues_by_id(&ids).into_iter().peekable();
    for (id, numbers) in some.drain(..) {
        if let Some(queue) = queues.next_if(|queue| queue.id == id)
            && scope.has(&queue)
        {
            let labels = labels(&[("vhost", &queue.vhost), ("queue", &queue.name)]);
            rows.push((labels, numbers));
        }
    }
}

/// Numbers of a queue.
const NUMBERS: usize = 32;
/// The first of them that is no depth: how many consumers there are.
const CONSUMERS: usize = 4;
/// The first of the rest.
const DETAILS: usize = 5;
/// The first of what was delivered.
const DELIVERED: usize = 23;
/// What was published.
const PUBLISHED: usize = 30;

/// What is known of queues: their depths, and from [`DETAILS`] on the rest.
pub(crate) type QueueTable = Table<NUMBERS>;

/// The queues that a scrape has seen. Scrapes of all of them that come while others are read share
/// one table, so that a crowd of them neither computes nor holds it once for each.
#[derive(Debug, Default)]
pub(crate) struct SharedTable(Mutex<Option<(Instant, WeakTable<NUMBERS>)>>);

impl SharedTable {
    fn get(&self, make: impl FnOnce() -> QueueTable) -> QueueTable {
        // Whoever comes while the table is made waits for it.
        let mut shared = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((made, weak)) = shared.as_ref()
            && made.elapsed() < Duration::from_millis(METRICS_SHARED_MS)
            && let Some(table) = QueueTable::of_weak(weak)
        {
            return table;
        }
        let table = make();
        *shared = Some((Instant::now(), table.weak()));
        table
    }
}

/// The queues of a page.
pub(super) fn queue_table(app: &App, scope: &Scope, per_object: bool) -> QueueTable {
    if !per_object {
        let sum = numbers(&sum_of_all(app), app.moment().wall_ms);
        return QueueTable::new([(String::new(), sum)]);
    }
    let make = || QueueTable::new(rows_of_each(app, scope));
    match scope.is_all() {
        true => app.queue_table.get(make),
        false => make(),
    }
}

fn numbers(s: &QueueStats, now_ms: u64) -> [f64; NUMBERS] {
    let [
        got,
        got_auto,
        delivered,
        delivered_auto,
        redelivered,
        acked,
        empty,
    ] = delivered(&s.messages).map(|count| count as f64);
    [
        s.ready as f64,
        s.unacknowledged as f64,
        s.depth() as f64,
        // There are no processes of Erlang's.
        0.0,
        s.consumers as f64,
        s.memory_bytes as f64,
        s.in_memory as f64,
        s.in_memory_bytes as f64,
        s.in_memory.min(s.ready) as f64,
        s.in_memory.saturating_sub(s.ready) as f64,
        s.persistent as f64,
        s.persistent_bytes as f64,
        s.depth_bytes() as f64,
        s.ready_bytes as f64,
        s.unacknowledged_bytes as f64,
        s.consumer_capacity,
        s.consumer_capacity,
        // One log is read and written for all queues.
        0.0,
        0.0,
        // Most queues have none.
        s.head_timestamp.map_or(f64::NAN, |seconds| seconds as f64),
        s.stream.map_or(f64::NAN, |stream| stream.segments as f64),
        s.stream.map_or(f64::NAN, |stream| stream.held_bytes as f64),
        s.oldest_age_seconds(now_ms).unwrap_or(f64::NAN),
        got,
        got_auto,
        delivered,
        delivered_auto,
        redelivered,
        acked,
        empty,
        s.messages.published as f64,
        1.0,
    ]
}

/// How many consumers queues have: the family `queue_consumer_count`.
pub(super) fn queue_consumers(page: &mut Page, queues: &QueueTable) {
    let metrics = [("queue_consumers", Gauge, "Consumers on a queue")];
    page.table(queues, CONSUMERS, &metrics);
}

/// What queues delivered: the family `queue_delivery_metrics`.
pub(super) fn queue_deliveries(page: &mut Page, queues: &QueueTable) {
    page.table(queues, DELIVERED, &deliveries!("queue"));
}

/// What was published to queues, by whichever way.
pub(super) fn queue_publishes(page: &mut Page, queues: &QueueTable) {
    let metrics = [(
        "queue_messages_published_total",
        Counter,
        "Total number of messages published into a queue through an exchange on a channel",
    )];
    page.table(queues, PUBLISHED, &metrics);
}

/// That queues are there.
pub(super) fn queue_info(page: &mut Page, queues: &QueueTable) {
    let metrics = [("queue_info", Gauge, "Metadata about a queue")];
    page.table(queues, PUBLISHED + 1, &metrics);
}

pub(super) fn queue_coarse(page: &mut Page, queues: &QueueTable) {
    let metrics = [
        (
            "queue_messages_ready",
            Gauge,
            "Messages ready to be delivered to consumers",
        ),
        (
            "queue_messages_unacked",
            Gauge,
            "Messages delivered to consumers but not yet acknowledged",
        ),
        (
            "queue_messages",
            Gauge,
            "Sum of ready and unacknowledged messages - total queue depth",
        ),
        (
            "queue_process_reductions_total",
            Counter,
            "Total number of queue process reductions",
        ),
    ];
    page.table(queues, 0, &metrics);
}

pub(super) fn queue_metrics(page: &mut Page, queues: &QueueTable) {
    let metrics = [
        (
            "queue_process_memory_bytes",
            Gauge,
            "Memory in bytes used by the queue",
        ),
        (
            "queue_messages_ram",
            Gauge,
            "Ready and unacknowledged messages stored in memory",
        ),
        (
            "queue_messages_ram_bytes",
            Gauge,
            "Size of ready and unacknowledged messages stored in memory",
        ),
        (
            "queue_messages_ready_ram",
            Gauge,
            "Ready messages stored in memory",
        ),
        (
            "queue_messages_unacked_ram",
            Gauge,
            "Unacknowledged messages stored in memory",
        ),
        ("queue_messages_persistent", Gauge, "Persistent messages"),
        (
            "queue_messages_persistent_bytes",
            Gauge,
            "Size in bytes of persistent messages",
        ),
        (
            "queue_messages_bytes",
            Gauge,
            "Size in bytes of ready and unacknowledged messages",
        ),
        (
            "queue_messages_ready_bytes",
            Gauge,
            "Size in bytes of ready messages",
        ),
        (
            "queue_messages_unacked_bytes",
            Gauge,
            "Size in bytes of all unacknowledged messages",
        ),
        ("queue_consumer_capacity", Gauge, "Consumer capacity"),
        (
            "queue_consumer_utilisation",
            Gauge,
            "Same as consumer capacity",
        ),
        (
            "queue_disk_reads_total",
            Counter,
            "Total number of times queue read messages from disk",
        ),
        (
            "queue_disk_writes_total",
            Counter,
            "Total number of times queue wrote messages to disk",
        ),
        (
            "queue_head_message_timestamp",
            Gauge,
            "Timestamp of the first message in the queue, if any",
        ),
        (
            "stream_segments",
            Gauge,
            "Total number of stream segment files",
        ),
        (
            "stream_retention_held_bytes",
            Gauge,
            "Bytes of a stream that only its retention-groups keep",
        ),
        (
            "queue_oldest_message_age_seconds",
            Gauge,
            "Time for which the ready message has waited that has waited longest, if it is known",
        ),
    ];
    page.table(queues, DETAILS, &metrics);
}
