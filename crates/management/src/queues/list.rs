//! Lists of queues: what their rows are made from, and what other nodes are asked for. The keys are
//! in the catalogue, which each node has: others are asked for the first of an order alone, and for
//! the rows that are shown.

use super::row::QueueRow;
use super::told::{
    Owners, Row as TextOfRow, Told, depth_rates_of, message_rates_of, question_of, told_elsewhere,
    told_in,
};
use super::{as_wanted, owners};
use crate::api::{Answers, QueueStats};
use crate::app::App;
use crate::directory::Queue;
use crate::figures::{DEPTHS, MESSAGE_NAMES, fields};
use crate::input::Query;
use crate::list_query::{self, NameFilter};
use crate::listing::{self, Found, Keyed, Row, Source};
use crate::parts::{Order, Part};
use crate::peers::Peers;
use crate::pieces::let_others_run;
use crate::question::Question;
use crate::ranges::Ranges;
use crate::reply::{ApiError, Reply};
use crate::route::Call;
use crate::selection::QueueSelection;
use leveret_types::QueueId;
use serde_json::Value;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Queues whose records are held at once.
const RECORDS: usize = 128;

/// Queues of which other nodes are asked at once while a list is read: each question takes its way
/// to and fro, and what is told is held.
const AHEAD: usize = 1_024;
/// The same where figures over time are told, of which there may be hundreds for each queue.
const AHEAD_OVER_TIME: usize = 64;

fn selection(call: &Call<'_>, vhost: Option<&str>) -> QueueSelection {
    QueueSelection {
        vhost: vhost.map(str::to_owned),
        seen_by: listing::seen_by(call, vhost),
        kind: call.query.get("type").map(str::to_owned),
        name: NameFilter::of(&call.query),
    }
}

/// The queues that are meant among those selected.
fn find(
    selection: &QueueSelection,
    app: &App,
    order: &Order,
    is_meant: impl Fn(QueueId) -> bool,
) -> Result<Found<QueueId>, ApiError> {
    let mut found = Found::of(selection.name.as_ref(), order)?;
    let seen_by = selection.seen_by.as_deref();
    let visible = seen_by.map(|user| listing::vhosts_seen_by(app, user));
    let (vhost, kind) = (selection.vhost.as_deref(), selection.kind.as_deref());
    app.node().each_queue(vhost, &mut |id, vhost, name| {
        if visible.as_ref().is_some_and(|seen| !seen.contains(vhost)) {
            return;
        }
        if !is_meant(id) {
            return;
        }
        // Streams have ids of their own; what else a queue is only its record says.
        if kind.is_none_or(|kind| (kind == "stream") == id.is_stream()) {
            found.add(Some(name), || id);
        }
    });
    if let Some(kind) = kind.filter(|kind| *kind != "stream") {
        let ids: Vec<QueueId> = found.keys().copied().collect();
        let of_kind: HashSet<QueueId> = ids
            .chunks(RECORDS)
            .flat_map(|ids| app.node().queues_by_id(ids))
            .filter_map(|queue| (queue.kind == kind).then_some(queue.id))
            .collect();
        found.retain(|id| of_kind.contains(id));
    }
    Ok(found)
}

/// The queues of a virtual host, or all that may be seen, as the query asks for them.
pub(super) fn list(call: &Call<'_>, vhost: Option<&str>) -> Result<Reply, ApiError> {
    let selection = selection(call, vhost);
    let found = find(&selection, call.app, &Order::of(&call.query, None), |_| {
        true
    })?;
    let mut source = Queues::new(call.app, Ranges::of(&call.query)?);
    source.selection = Some(selection);
    listing::list(found, source, &call.query)
}

/// Those that are meant of all that may be seen.
pub(crate) fn list_among(
    call: &Call<'_>,
    is_meant: impl Fn(QueueId) -> bool,
) -> Result<Reply, ApiError> {
    let selection = selection(call, None);
    let found = find(
        &selection,
        call.app,
        &Order::of(&call.query, None),
        is_meant,
    )?;
    let source = Queues::new(call.app, Ranges::of(&call.query)?);
    listing::list(found, source, &call.query)
}

/// The first of the queues that are led here, by their ids. Streams of which several nodes tell are
/// not among them.
pub(crate) fn own_part(app: &Arc<App>, selection: &QueueSelection, order: &Order) -> Part<u64> {
    let mut source = Queues::new(app, Ranges::default());
    let field = order.field.as_deref().unwrap_or_default();
    // A filter without sense lets nothing through; who asks has looked before.
    let found = find(selection, app, order, |_| true);
    let ids: Vec<QueueId> = match &found {
        Ok(found) => found.keys().copied().collect(),
        Err(_) => Vec::new(),
    };
    let led = source.led_here(&ids, field);
    let (total, filtered) = (led.len(), led.len());
    let first = order.first_of(led);
    Part {
        total,
        filtered,
        first,
    }
    .map(|id| id.0)
}

/// What rows are made from.
struct Queues {
    app: Arc<App>,
    node: String,
    ranges: Ranges,
    /// Which queues are listed; none where it cannot be said in words.
    selection: Option<QueueSelection>,
    peers: Peers,
    /// What other nodes tell of queues.
    told: HashMap<QueueId, TextOfRow>,
    /// What they have been asked already.
    asked: Option<Asked>,
}

/// Other nodes tell of some queues.
struct Asked {
    of: Vec<QueueId>,
    answers: Option<Answers>,
}

impl Queues {
    fn new(app: &Arc<App>, ranges: Ranges) -> Self {
        Self {
            app: Arc::clone(app),
            node: app.node().name(),
            ranges,
            selection: None,
            peers: Peers::of(app),
            told: HashMap::new(),
            asked: None,
        }
    }

    /// What is known here of these queues, by id.
    fn known_here(&self, ids: &[QueueId]) -> HashMap<QueueId, QueueStats> {
        let stats = self.app.node().queues_of(ids).into_iter();
        stats.map(|stats| (stats.id, stats)).collect()
    }

    fn rows_by_id(&self, ids: &[QueueId]) -> HashMap<QueueId, QueueRow> {
        let (app, here) = (&self.app, self.known_here(ids));
        let owners = owners(app, here.values());
        let row = |(number, queue): (usize, Queue)| {
            let_others_run(number);
            let told = self.told_of(here.get(&queue.id), queue.id, &owners);
            let row = QueueRow::new(app, &self.node, &queue, told.as_ref());
            (queue.id, row)
        };
        let queues = app.node().queues_by_id(ids).into_iter();
        queues.enumerate().map(row).collect()
    }

    fn told_of(&self, own: Option<&QueueStats>, id: QueueId, owners: &Owners) -> Option<Told<'_>> {
        Told::of(&self.app, own, self.told.get(&id), owners, &self.ranges)
    }

    /// A figure of these queues. No row need be made for that.
    fn figures(&self, ids: &[QueueId], field: &str, figure: Figure) -> Vec<Value> {
        let here = self.known_here(ids);
        let is_known = |stats: &&QueueStats| !stats.follows && !self.told.contains_key(&stats.id);
        let of = |id: &QueueId| match here.get(id).filter(is_known) {
            Some(stats) => figure.of(&self.app, stats),
            None => {
                let told = self.told_of(here.get(id), *id, &Owners::new());
                told.map_or(Value::Null, |told| match told.field(field) {
                    // A 0 is not told.
                    Value::Null => 0.into(),
                    figure => figure,
                })
            }
        };
        ids.iter().map(of).collect()
    }

    /// What these queues are sorted by, of those that are led here and of which no other node has a
    /// part.
    fn led_here(&mut self, ids: &[QueueId], field: &str) -> Keyed<QueueId> {
        let mut led = Vec::new();
        for ids in ids.chunks(RECORDS) {
            let here = self.known_here(ids);
            let is_led = |id: &QueueId| here.get(id).is_some_and(|stats| !stats.follows);
            let ids: Vec<QueueId> = ids
                .iter()
                .copied()
                .filter(|id| is_led(id) && !has_parts(*id, field))
                .collect();
            let fields = self.fields(&ids, field).into_iter();
            led.extend(fields.zip(ids));
        }
        led
    }

    /// Asks the other nodes for the first of an order; whether these and what is led here are known
    /// to be the first of `count` queues.
    fn ask_first(
        &mut self,
        count: usize,
        order: &Order,
        fields: &mut HashMap<QueueId, Value>,
    ) -> bool {
        let Some(of) = self.selection.clone().filter(|_| order.first < count) else {
            return false;
        };
        let order = order.clone();
        let (mut led, mut told) = (fields.len(), fields.len());
        let question = Question::QueueOrder { of, order };
        for (_, part) in self.peers.parts::<u64>(&question) {
            led += part.filtered;
            told += part.first.len();
            let first = part.first.into_iter();
            fields.extend(first.map(|(field, id)| (QueueId(id), field)));
        }
        // One of which nobody tells, or two nodes do, may have another place.
        led == count && told == fields.len()
    }

    /// Asks the other nodes for all of an order.
    fn ask_all(&mut self, order: &Order, fields: &mut HashMap<QueueId, Value>) {
        let question = Question::QueueOrder {
            of: self.selection.clone().unwrap_or_default(),
            order: Order {
                first: usize::MAX,
                ..order.clone()
            },
        };
        for (_, part) in self.peers.parts::<u64>(&question) {
            let all = part.first.into_iter();
            fields.extend(all.map(|(field, id)| (QueueId(id), field)));
        }
    }
}

impl Source for Queues {
    type Key = QueueId;
    type Row = QueueRow;

    fn prepare(&mut self, ids: &[QueueId], next: &[QueueId]) {
        // What was told before goes first.
        self.told = HashMap::new();
        let asked = self.asked.take().filter(|asked| asked.of == ids);
        self.told = match asked {
            Some(asked) => told_in(self.peers.finish(asked.answers)),
            None => told_elsewhere(&mut self.peers, ids, &self.ranges),
        };
        // They tell of the next ones while rows are made of these.
        self.asked = (!next.is_empty() && next.len() <= Question::QUEUES_MAX).then(|| Asked {
            answers: self.peers.begin(&question_of(next, &self.ranges)),
            of: next.to_vec(),
        });
    }

    fn ahead(&self) -> usize {
        match self.ranges.is_none() {
            true => AHEAD,
            false => AHEAD_OVER_TIME,
        }
    }

    fn rows(&mut self, ids: &[QueueId]) -> Vec<Option<QueueRow>> {
        let mut rows = self.rows_by_id(ids);
        ids.iter().map(|id| rows.remove(id)).collect()
    }

    fn fields(&mut self, ids: &[QueueId], field: &str) -> Vec<Value> {
        if let Some(figure) = figure(field) {
            return self.figures(ids, field, figure);
        }
        let rows = self.rows(ids).into_iter();
        rows.map(|row| listing::field_of(row, field)).collect()
    }

    fn ordered(&mut self, ids: Vec<QueueId>, field: &str, order: &Order) -> Keyed<QueueId> {
        if is_of_record(field) {
            return listing::each_field(self, ids, field);
        }
        let (of_parts, of_one): (Vec<QueueId>, Vec<QueueId>) =
            ids.iter().partition(|id| has_parts(**id, field));
        let led = self.led_here(&of_one, field).into_iter();
        let mut fields: HashMap<QueueId, Value> = led.map(|(field, id)| (id, field)).collect();
        if !self.ask_first(of_one.len(), order, &mut fields) {
            self.ask_all(order, &mut fields);
            // Of the rest no leader tells: what a replica here knows is better than nothing.
            let is_untold = |id: &QueueId| !fields.contains_key(id);
            let untold: Vec<QueueId> = of_one.into_iter().filter(is_untold).collect();
            let untold = listing::each_field(self, untold, field).into_iter();
            fields.extend(untold.map(|(field, id)| (id, field)));
        }
        for some in of_parts.chunks(self.ahead()) {
            self.prepare(some, &[]);
            let told = listing::each_field(self, some.to_vec(), field).into_iter();
            fields.extend(told.map(|(field, id)| (id, field)));
        }
        let keyed = |id| Some((fields.remove(&id)?, id));
        ids.into_iter().filter_map(keyed).collect()
    }

    fn pick(&self, row: QueueRow, query: &Query) -> QueueRow {
        match query.get("columns") {
            None if !query.flag("disable_stats") => row,
            Some(columns) if !query.flag("disable_stats") && !columns.contains('.') => {
                row.with_columns(columns)
            }
            _ => QueueRow::of(list_query::one(as_wanted(row.whole(), query), query)),
        }
    }

    fn held_bytes(&self) -> usize {
        let row = |row: &TextOfRow| row.bytes() + size_of::<(QueueId, TextOfRow)>();
        let told: usize = self.told.values().map(row).sum();
        // What is told of the next ones is about as much.
        match &self.asked {
            Some(asked) => 2 * told + size_of_val(&*asked.of),
            None => told,
        }
    }
}

/// Fields that the catalogue tells, which each node has.
const OF_RECORD: [&str; 10] = [
    "name",
    "vhost",
    "type",
    "durable",
    "auto_delete",
    "exclusive",
    "arguments",
    "policy",
    "operator_policy",
    "effective_policy_definition",
];

fn is_of_record(field: &str) -> bool {
    let top = field.split('.').next();
    top.is_some_and(|top| OF_RECORD.contains(&top))
}

/// Whether what stands in this field is put together from several nodes' words: each counts the
/// readers of its replica of a stream, and what they are delivered.
fn has_parts(id: QueueId, field: &str) -> bool {
    const PARTS: [&str; 3] = ["consumers", "readers", "message_stats"];
    let top = field.split('.').next();
    id.is_stream() && top.is_some_and(|top| PARTS.contains(&top))
}

/// What a queue stands at: no row need be made for that.
#[derive(Clone, Copy)]
enum Figure {
    /// A figure of now.
    Now(fn(&QueueStats) -> u64),
    /// A counter of what happened to messages.
    Counter(usize),
    /// The rate at which one of them grows.
    MessageRate(usize),
    /// The rate at which one of the depths does.
    DepthRate(usize),
}

impl Figure {
    fn of(self, app: &App, stats: &QueueStats) -> Value {
        match self {
            Self::Now(figure) => figure(stats).into(),
            Self::Counter(at) => fields(&stats.messages)[at].1.into(),
            Self::MessageRate(at) => message_rates_of(app, stats)[at].into(),
            Self::DepthRate(at) => depth_rates_of(app, stats)[at].into(),
        }
    }
}

/// The figures that lists are usually sorted by.
fn figure(field: &str) -> Option<Figure> {
    let place = |names: &[&str], name: &str| names.iter().position(|known| *known == name);
    if let Some(of_messages) = field.strip_prefix("message_stats.") {
        return match of_messages.strip_suffix("_details.rate") {
            Some(name) => place(&MESSAGE_NAMES, name).map(Figure::MessageRate),
            None => place(&MESSAGE_NAMES, of_messages).map(Figure::Counter),
        };
    }
    if let Some(depth) = field.strip_suffix("_details.rate") {
        return place(&DEPTHS, depth).map(Figure::DepthRate);
    }
    let now: fn(&QueueStats) -> u64 = match field {
        "messages" => QueueStats::depth,
        "messages_ready" => |stats| stats.ready,
        "messages_unacknowledged" => |stats| stats.unacknowledged,
        "message_bytes" => QueueStats::depth_bytes,
        "message_bytes_ready" => |stats| stats.ready_bytes,
        "message_bytes_unacknowledged" => |stats| stats.unacknowledged_bytes,
        "consumers" => |stats| stats.consumers,
        "memory" => |stats| stats.memory_bytes,
        _ => return None,
    };
    Some(Figure::Now(now))
}
