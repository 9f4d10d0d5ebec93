//! What is known of what happens in queues: the figures of those that this node leads, and what
//! other nodes tell of theirs.

use super::readers;
use super::row::zero;
use crate::absent;
use crate::api::{ConnectionContent, MessageCounters, QueueStats};
use crate::app::App;
use crate::connections::connection_details;
use crate::figures::{depths_at, message_rates, messages_at};
use crate::history::History;
use crate::moments::rfc3339;
use crate::peers::{self, Peers};
use crate::question::Question;
use crate::ranges::{Part, Ranges};
use crate::rates::{MESSAGE_FIELDS, Subject};
use crate::reply::merge;
use leveret_types::{ConnectionId, NodeId, QueueId};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Instant;

/// The connections that own exclusive queues.
pub(crate) type Owners = HashMap<ConnectionId, Value>;

/// The connections that own these queues; nobody is asked where none is owned.
pub(crate) fn owners<'a>(app: &App, stats: impl IntoIterator<Item = &'a QueueStats>) -> Owners {
    let owners: HashSet<ConnectionId> = stats.into_iter().filter_map(|stats| stats.owner).collect();
    if owners.is_empty() {
        return Owners::new();
    }
    let ids: Vec<ConnectionId> = owners.into_iter().collect();
    let owning = app.node().connections_of(&ids).into_iter();
    let details = |content: ConnectionContent| {
        let connection = content.connection;
        (connection.id, connection_details(&connection))
    };
    owning.map(details).collect()
}

/// What the leader of a queue knows of it, under the queue's `id`: without what is as in
/// [`no_stats`].
pub(crate) fn stats(app: &App, stats: &QueueStats, owners: &Owners, ranges: &Ranges) -> Value {
    let subject = Subject::Queue(stats.id.0);
    let history = History::of(app, subject, ranges);
    let mut json = stats_of(stats);
    json["id"] = stats.id.0.into();
    if let Some(age) = stats.oldest_age_seconds(app.moment().wall_ms) {
        // A 0 would be left out on the way between nodes, and stand for nothing.
        json["oldest_message_age"] = age.max(0.001).into();
    }
    let rates = message_rates(app, subject, &stats.messages);
    let is_counted = stats.messages != MessageCounters::default();
    if is_counted || is_moving(&rates) || history.is_some() {
        json["message_stats"] = messages_at(&stats.messages, rates);
    }
    let depths = depths_of(stats);
    let rates = app.depth_rates(subject, depths, Instant::now());
    if depths != [0; 3] || is_moving(&rates) || history.is_some() {
        merge(&mut json, depths_at(depths, rates));
    }
    if let Some(history) = history {
        history.write(Part::Messages, &mut json["message_stats"]);
        history.write(Part::Lengths, &mut json);
    }
    if let Some(owner) = stats.owner {
        let owner = owners.get(&owner);
        json["owner_pid_details"] = owner.cloned().unwrap_or_default();
    }
    if let Some(stream) = stats.stream {
        let node = app.node().node_stats().name;
        json["segments"] = stream.segments.into();
        json["retention_held_bytes"] = stream.held_bytes.into();
        json["readers"] = json!({node: stream.readers});
        json["publishers"] = stream.publishers.into();
        for (field, offset) in [
            ("first_offset", stream.first_offset),
            ("committed_offset", stream.committed_offset),
        ] {
            // An empty stream has none, which RabbitMQ writes as -1.
            json[field] = offset.map_or(json!(-1), Value::from);
        }
    }
    json
}

fn is_moving(rates: &[f64]) -> bool {
    rates.iter().any(|rate| *rate != 0.0)
}

/// What is known of a queue in which nothing is and nothing happened.
pub(crate) fn no_stats() -> Value {
    let counters = MessageCounters::default();
    let mut json = json!({
        "id": 0,
        "state": "running",
        "message_stats": messages_at(&counters, [0.0; MESSAGE_FIELDS]),
        "consumer_capacity": 0.0,
        "consumer_utilisation": 0.0,
        "head_message_timestamp": null,
        "oldest_message_age": null,
        "exclusive_consumer_tag": null,
        "single_active_consumer_tag": null,
        "storage_version": 2,
        "garbage_collection": absent::garbage_collection(),
        "reductions": 0,
        "reductions_details": {"rate": 0.0},
    });
    for (name, number) in numbers_of(&QueueStats::default()) {
        json[name] = number.into();
    }
    merge(&mut json, depths_at([0; 3], [0.0; 3]));
    json
}

/// All messages, those that wait, and those that are not settled.
fn depths_of(stats: &QueueStats) -> [u64; 3] {
    [stats.depth(), stats.ready, stats.unacknowledged]
}

/// What is counted of a queue, by RabbitMQ's names.
fn numbers_of(stats: &QueueStats) -> [(&'static str, u64); 13] {
    [
        ("message_bytes", stats.depth_bytes()),
        ("message_bytes_ready", stats.ready_bytes),
        ("message_bytes_unacknowledged", stats.unacknowledged_bytes),
        ("message_bytes_dlx", stats.dead_letter_bytes),
        ("message_bytes_ram", stats.in_memory_bytes),
        ("message_bytes_persistent", stats.persistent_bytes),
        ("messages_dlx", stats.dead_letters),
        ("messages_ram", stats.in_memory),
        ("messages_ready_ram", stats.in_memory.min(stats.ready)),
        (
            "messages_unacknowledged_ram",
            stats.in_memory.saturating_sub(stats.ready),
        ),
        ("messages_persistent", stats.persistent),
        ("memory", stats.memory_bytes),
        ("consumers", stats.consumers),
    ]
}

/// What a queue has, without its messages' depths and what happened to them, and without what is as
/// in [`no_stats`].
fn stats_of(stats: &QueueStats) -> Value {
    let state = if stats.damaged { "crashed" } else { "running" };
    let mut json = json!({"state": state});
    for (name, number) in numbers_of(stats) {
        if number != 0 {
            json[name] = number.into();
        }
    }
    if stats.consumer_capacity != 0.0 {
        json["consumer_capacity"] = stats.consumer_capacity.into();
        json["consumer_utilisation"] = stats.consumer_capacity.into();
    }
    if let Some(timestamp) = stats.head_timestamp {
        json["head_message_timestamp"] = timestamp.into();
    }
    for (name, tag) in [
        ("exclusive_consumer_tag", &stats.exclusive_consumer_tag),
        (
            "single_active_consumer_tag",
            &stats.single_active_consumer_tag,
        ),
    ] {
        if let Some(tag) = tag {
            json[name] = tag.as_str().into();
        }
    }
    if let Some(since) = stats.idle_since_ms {
        json["idle_since"] = rfc3339(since).into();
    }
    json
}

/// Who tells of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Teller {
    /// This node, which leads it or has it alone.
    Here,
    /// Another node, which leads it or has it alone.
    Elsewhere(NodeId),
    /// This node, which has a replica that does not lead: better than nothing.
    Follower,
}

/// A queue's figures, and whose they are.
#[derive(Clone, Debug)]
pub struct Told {
    /// Who tells them.
    pub by: Teller,
    /// The figures, but for fields that are 0 or nothing.
    pub stats: Value,
}

impl Told {
    /// What is told of a queue: by this node, if it leads it or no other node says that it does,
    /// with the readers of a stream at all of its replicas. `own` is what this node knows of it,
    /// `elsewhere` what others told.
    pub(crate) fn of(
        app: &App,
        own: Option<&QueueStats>,
        elsewhere: Option<&Row>,
        owners: &Owners,
        ranges: &Ranges,
    ) -> Option<Self> {
        let leads = own.is_some_and(|stats| !stats.follows);
        let led = elsewhere.filter(|_| !leads).and_then(Row::led);
        let is_told_here = led.is_none();
        let mut told = match led {
            Some(led) => led,
            None => Self::here(app, own?, owners, ranges),
        };
        let at_own = own.filter(|_| !is_told_here);
        let at_own = at_own.and_then(|stats| readers::at_replica(app, stats));
        let at_others = elsewhere.into_iter().flat_map(Row::at_replicas);
        for replica in at_own.into_iter().chain(at_others) {
            readers::add(&mut told.stats, &replica);
        }
        Some(told)
    }

    fn here(app: &App, stats: &QueueStats, owners: &Owners, ranges: &Ranges) -> Self {
        let by = match stats.follows {
            true => Teller::Follower,
            false => Teller::Here,
        };
        let stats = self::stats(app, stats, owners, ranges);
        Self { by, stats }
    }
}

/// What other nodes tell of a queue, as it came: a row's text takes a part of its value.
#[derive(Default)]
pub(crate) struct Row {
    /// Of the node that leads it.
    led: Option<(NodeId, Box<RawValue>)>,
    /// Of nodes with replicas of a stream that do not lead.
    replicas: Vec<Box<RawValue>>,
}

impl Row {
    /// What its leader tells; nothing where none does, or it makes no sense.
    fn led(&self) -> Option<Told> {
        let (node, text) = self.led.as_ref()?;
        let row = serde_json::from_str(text.get()).ok()?;
        let (by, stats) = (Teller::Elsewhere(*node), with_zeros(row));
        Some(Told { by, stats })
    }

    fn at_replicas(&self) -> impl Iterator<Item = Value> {
        let texts = self.replicas.iter();
        texts.filter_map(|text| serde_json::from_str(text.get()).ok())
    }

    pub(crate) fn bytes(&self) -> usize {
        let led = self.led.iter().map(|(_, text)| text);
        led.chain(&self.replicas).map(|text| text.get().len()).sum()
    }
}

/// What other nodes tell of the queues among these that they lead, and of readers of streams.
pub(crate) fn told_elsewhere(
    peers: &mut Peers,
    ids: &[QueueId],
    ranges: &Ranges,
) -> HashMap<QueueId, Row> {
    #[derive(serde::Deserialize)]
    struct Head {
        id: u64,
        #[serde(default)]
        follows: bool,
    }
    let mut told: HashMap<QueueId, Row> = HashMap::new();
    for ids in ids.chunks(Question::QUEUES_MAX) {
        let ids = ids.iter().map(|id| id.0).collect();
        let question = Question::QueuesOf {
            ids,
            ranges: *ranges,
        };
        for (node, bytes) in peers.ask(&question) {
            let rows: Vec<Box<RawValue>> = serde_json::from_slice(&bytes).unwrap_or_default();
            for text in rows {
                let Ok(Head { id, follows }) = serde_json::from_str(text.get()) else {
                    continue;
                };
                let row = told.entry(QueueId(id)).or_default();
                match follows {
                    true => row.replicas.push(text),
                    false => row.led = Some((node, text)),
                }
            }
        }
    }
    told
}

/// What is told of one queue, wherever it is led.
pub fn told_of(app: &Arc<App>, queue: QueueId, ranges: &Ranges) -> Option<Told> {
    let own = app.node().queue(queue);
    let is_led_here = own.as_ref().is_some_and(|stats| !stats.follows);
    let elsewhere = match is_led_here && !queue.is_stream() {
        true => None,
        false => told_elsewhere(&mut Peers::of(app), &[queue], ranges).remove(&queue),
    };
    let owners = owners(app, &own);
    Told::of(app, own.as_ref(), elsewhere.as_ref(), &owners, ranges)
}

/// A queue's figures with what was left out within its fields because it is 0; fields that were
/// left out whole stay so.
fn with_zeros(mut row: Value) -> Value {
    for (name, field) in row.as_object_mut().into_iter().flatten() {
        if let zero @ Value::Object(_) = zero(name) {
            let told = std::mem::replace(field, zero.clone());
            peers::merge_deeply(field, told);
        }
    }
    row
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::listing::Row as _;
    use crate::peers::without_zeros;
    use crate::queues::row::{Lacks, QueueRow};

    #[test]
    fn what_is_left_out_on_the_way_is_there_again_at_its_end() {
        let full = json!({"id": 7, "messages": 0, "message_stats": {"ack": 3, "get": 0}});
        let sent = without_zeros(full);
        let arguments = json!({"arguments": {"x-priority": 0}});
        assert_eq!(without_zeros(arguments.clone()), arguments);
        assert_eq!(sent, json!({"id": 7, "message_stats": {"ack": 3}}));
        let fields = with_zeros(sent);
        let lacks = Lacks::Others;
        let seen = QueueRow { fields, lacks }.whole();
        assert_eq!(seen["messages"], 0);
        assert_eq!(seen["message_stats"]["ack"], 3);
        assert_eq!(seen["message_stats"]["get"], 0);
        assert_eq!(seen["message_stats"]["get_details"]["rate"], 0.0);
    }

    #[test]
    fn dead_letters_that_wait_are_part_of_a_queue() {
        let stats = QueueStats {
            ready: 4,
            ready_bytes: 40,
            unacknowledged: 1,
            unacknowledged_bytes: 10,
            dead_letters: 2,
            dead_letter_bytes: 20,
            ..QueueStats::default()
        };
        let mut json = stats_of(&stats);
        merge(&mut json, depths_at(depths_of(&stats), [0.0; 3]));
        for (name, figure) in [
            ("messages", 7),
            ("messages_ready", 4),
            ("messages_unacknowledged", 1),
            ("messages_dlx", 2),
            ("message_bytes", 70),
            ("message_bytes_dlx", 20),
        ] {
            assert_eq!(json[name], figure, "{name}");
        }
    }
}
