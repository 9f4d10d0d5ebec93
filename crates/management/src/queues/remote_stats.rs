//! What is known of what happens in queues: the figures of those that this node leads, and what
//! other nodes tell of theirs.

use super::readers;
use crate::api::{ConnectionContent, MessageCounters, QueueStats, StreamStanding};
use crate::app::App;
use crate::connections::connection_details;
use crate::history::ranges::{Part, Ranges};
use crate::history::rates::{MESSAGE_FIELDS, Subject};
use crate::history::sampling::QUEUE_VALUES;
use crate::history::{Details, History};
use crate::http::chunked_body::write_json;
use crate::http::reply::merge;
use crate::json_writer::{Fields, Object};
use crate::message_stats::{DEPTHS, depths_at, fields, message_rates, messages_at};
use crate::peers::Peers;
use crate::question::Question;
use crate::rabbitmq_only_fields;
use crate::timestamps::rfc3339;
use leveret_types::{ConnectionId, NodeId, QueueId};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::borrow::Cow;
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

/// Writes what the leader of a queue knows of it, as an object with the queue's `id`: without what
/// is as in [`no_stats`].
pub(crate) fn write_stats(
    app: &App,
    stats: &QueueStats,
    owners: &Owners,
    ranges: &Ranges,
    out: &mut Vec<u8>,
) {
    let mut told = Object::open(out);
    told.field("id", &stats.id.0);
    write_standing(stats, &mut told);
    if let Some(age) = stats.oldest_age_seconds(app.moment().wall_ms) {
        // A 0 would stand for nothing.
        told.field("oldest_message_age", &age.max(0.001));
    }
    if let Some((by_priority, returned)) = &stats.waiting {
        let of_each = by_priority.iter();
        let of_each = of_each.map(|(priority, count)| (priority.to_string(), Value::from(*count)));
        told.field("messages_by_priority", &Value::Object(of_each.collect()));
        told.field("messages_active_priorities", &by_priority.len());
        told.field("messages_ready_returned", returned);
    }
    write_figures(app, stats, ranges, &mut told);
    if let Some(owner) = stats.owner {
        told.field("owner_pid_details", &owners.get(&owner));
    }
    if let Some(stream) = &stats.stream {
        write_stream(app, stream, &mut told);
    }
    told.close();
}

/// How many messages there are, and what happened to them.
fn write_figures(app: &App, stats: &QueueStats, ranges: &Ranges, told: &mut Object<'_>) {
    let subject = Subject::Queue(stats.id.0);
    let history = History::of(app, subject, ranges);
    let details = |part| history.as_ref().map(|history| history.details(part));
    let (of_messages, of_depths) = (details(Part::Messages), details(Part::Lengths));
    let rates = message_rates_of(app, stats);
    if stats.messages != MessageCounters::default() || is_moving(&rates) || history.is_some() {
        let mut messages = told.object("message_stats");
        write_moving(fields(&stats.messages), rates, of_messages, &mut messages);
        messages.close();
    }
    let rates = depth_rates_of(app, stats);
    let depths = depths_of(stats);
    let depths = std::array::from_fn(|at| (DEPTHS[at], depths[at]));
    write_moving(depths, rates, of_depths, told);
}

/// The rates that samples show of a queue, from the first of those that are meant on; none where
/// they do not tell.
fn sampled<const N: usize>(app: &App, stats: &QueueStats, first: usize) -> Option<[f64; N]> {
    let subject = Subject::Queue(stats.id.0);
    let rates = app.samples().rates_or_still(subject, QUEUE_VALUES)?;
    rates.get(first..first + N)?.try_into().ok()
}

/// The rates at which what happened to a queue's messages grows, by the order of their names.
pub(super) fn message_rates_of(app: &App, stats: &QueueStats) -> [f64; MESSAGE_FIELDS] {
    let guess = || message_rates(app, Subject::Queue(stats.id.0), &stats.messages);
    sampled(app, stats, 0).unwrap_or_else(guess)
}

/// The same of its depths.
pub(super) fn depth_rates_of(app: &App, stats: &QueueStats) -> [f64; 3] {
    let guess = || {
        app.rates
            .depths
            .of(Subject::Queue(stats.id.0), depths_of(stats), Instant::now())
    };
    sampled(app, stats, MESSAGE_FIELDS).unwrap_or_else(guess)
}

/// Figures that are not 0, or are not known to have been: at their rates, where no details are.
fn write_moving<const N: usize>(
    figures: [(&str, u64); N],
    rates: [f64; N],
    details: Option<Vec<Details>>,
    out: &mut Object<'_>,
) {
    let details = details.unwrap_or_default();
    for (at, ((name, count), rate)) in figures.into_iter().zip(rates).enumerate() {
        let guessed = Details::at(rate);
        let details = details.get(at).unwrap_or(&guessed);
        if count != 0 || !details.is_nothing() {
            out.figure(name, count, details);
        }
    }
}

fn is_moving(rates: &[f64]) -> bool {
    rates.iter().any(|rate| *rate != 0.0)
}

fn write_stream(app: &App, stream: &StreamStanding, told: &mut Object<'_>) {
    told.field("segments", &stream.segments);
    told.field("retention_held_bytes", &stream.held_bytes);
    told.field("readers", &json!({app.node().name(): stream.readers}));
    told.field("publishers", &stream.publishers);
    for (field, offset) in [
        ("first_offset", stream.first_offset),
        ("committed_offset", stream.committed_offset),
    ] {
        match offset {
            Some(offset) => told.field(field, &offset),
            // An empty stream has none, which RabbitMQ writes as -1.
            None => told.field(field, &-1),
        }
    }
}

/// What is known of a queue in which nothing is and nothing happened, but for its state.
pub(crate) fn no_stats() -> Value {
    let counters = MessageCounters::default();
    let mut json = json!({
        "message_stats": messages_at(&counters, [0.0; MESSAGE_FIELDS]),
        "consumer_capacity": 0.0,
        "consumer_utilisation": 0.0,
        "head_message_timestamp": null,
        "oldest_message_age": null,
        "exclusive_consumer_tag": null,
        "single_active_consumer_tag": null,
        "storage_version": 2,
        "garbage_collection": rabbitmq_only_fields::garbage_collection(),
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

/// What a queue has, without its messages' depths and what happened to them.
fn write_standing(stats: &QueueStats, told: &mut Object<'_>) {
    told.field("state", if stats.damaged { "crashed" } else { "running" });
    for (name, number) in numbers_of(stats) {
        if number != 0 {
            told.field(name, &number);
        }
    }
    if stats.consumer_capacity != 0.0 {
        told.field("consumer_capacity", &stats.consumer_capacity);
        told.field("consumer_utilisation", &stats.consumer_capacity);
    }
    if let Some(timestamp) = stats.head_timestamp {
        told.field("head_message_timestamp", &timestamp);
    }
    if let Some(tag) = &stats.exclusive_consumer_tag {
        told.field("exclusive_consumer_tag", tag);
    }
    if let Some(tag) = &stats.single_active_consumer_tag {
        told.field("single_active_consumer_tag", tag);
    }
    if let Some(since) = stats.idle_since_ms {
        told.field("idle_since", &rfc3339(since));
    }
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
pub(crate) struct Told<'t> {
    /// Who tells them.
    pub(crate) by: Teller,
    /// The text of an object with the figures, but for those that are 0 or nothing.
    text: Cow<'t, [u8]>,
}

impl<'t> Told<'t> {
    /// What is told of a queue: by this node, if it leads it or no other node says that it does,
    /// with the readers of a stream at all of its replicas. `own` is what this node knows of it,
    /// `elsewhere` what others told.
    pub(crate) fn of(
        app: &App,
        own: Option<&QueueStats>,
        elsewhere: Option<&'t Row>,
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
        let replicas: Vec<Value> = at_own.into_iter().chain(at_others).collect();
        told.add_readers(&replicas);
        Some(told)
    }

    fn here(app: &App, stats: &QueueStats, owners: &Owners, ranges: &Ranges) -> Self {
        let by = match stats.follows {
            true => Teller::Follower,
            false => Teller::Here,
        };
        let mut text = Vec::new();
        write_stats(app, stats, owners, ranges, &mut text);
        let text = text.into();
        Self { by, text }
    }

    fn add_readers(&mut self, replicas: &[Value]) {
        if replicas.is_empty() {
            return;
        }
        let mut stats = serde_json::from_slice(&self.text).unwrap_or_default();
        for replica in replicas {
            readers::add(&mut stats, replica);
        }
        let mut text = Vec::new();
        write_json(&mut text, &stats);
        self.text = text.into();
    }

    /// What is told in the field at a dotted path.
    pub(crate) fn field(&self, path: &str) -> Value {
        self.fields().at(path)
    }

    /// The fields that are told.
    pub(crate) fn fields(&self) -> Fields<'_> {
        // What another node told has been looked at when it came.
        Fields::of(&self.text).unwrap_or_default()
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
    /// What its leader tells; nothing where none does.
    fn led(&self) -> Option<Told<'_>> {
        let (node, text) = self.led.as_ref()?;
        let (by, text) = (Teller::Elsewhere(*node), text.get().as_bytes().into());
        Some(Told { by, text })
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
pub(super) fn told_elsewhere(
    peers: &mut Peers,
    ids: &[QueueId],
    ranges: &Ranges,
) -> HashMap<QueueId, Row> {
    let mut told = HashMap::new();
    for ids in ids.chunks(Question::QUEUES_MAX) {
        told.extend(told_in(peers.ask(&question_of(ids, ranges))));
    }
    told
}

/// Asks for that of [`Question::QUEUES_MAX`] queues at most.
pub(super) fn question_of(ids: &[QueueId], ranges: &Ranges) -> Question {
    Question::QueuesOf {
        ids: ids.iter().map(|id| id.0).collect(),
        ranges: *ranges,
    }
}

/// What other nodes have answered to it.
pub(super) fn told_in(answers: Vec<(NodeId, Vec<u8>)>) -> HashMap<QueueId, Row> {
    let mut told: HashMap<QueueId, Row> = HashMap::new();
    for (node, bytes) in answers {
        let rows: Vec<Box<RawValue>> = serde_json::from_slice(&bytes).unwrap_or_default();
        for text in rows {
            let Some((id, follows)) = whose(&text) else {
                continue;
            };
            let row = told.entry(id).or_default();
            match follows {
                true => row.replicas.push(text),
                false => row.led = Some((node, text)),
            }
        }
    }
    told
}

/// Of which queue a row tells, and whether by a replica that does not lead; nothing where it makes
/// no sense, as one of another version may not.
fn whose(text: &RawValue) -> Option<(QueueId, bool)> {
    let fields = Fields::of(text.get().as_bytes())?;
    let id = fields.get("id")?.get().parse().ok()?;
    let follows = fields.get("follows").map(RawValue::get);
    Some((QueueId(id), follows == Some("true")))
}

/// What other nodes tell of one queue, if its leader is not here.
pub(super) fn told_elsewhere_of(
    app: &Arc<App>,
    own: Option<&QueueStats>,
    queue: QueueId,
    ranges: &Ranges,
) -> Option<Row> {
    let is_led_here = own.is_some_and(|stats| !stats.follows);
    if is_led_here && !queue.is_stream() {
        return None;
    }
    told_elsewhere(&mut Peers::of(app), &[queue], ranges).remove(&queue)
}

#[cfg(test)]
mod tests {
    use super::*;
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
        let mut text = Vec::new();
        let mut told = Object::open(&mut text);
        write_standing(&stats, &mut told);
        let depths = depths_of(&stats);
        let depths = std::array::from_fn(|at| (DEPTHS[at], depths[at]));
        write_moving(depths, [0.0; 3], None, &mut told);
        told.close();
        let json: Value = serde_json::from_slice(&text).expect("JSON");
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
