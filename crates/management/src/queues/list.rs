//! Lists of queues: what their rows are made from, and what other nodes are asked for. The keys are
//! in the catalogue, which each node has: others are asked for the first of an order alone, and for
//! the rows that are shown.

use super::remote_stats::{
    Owners, Row as TextOfRow, Told, depth_rates_of, message_rates_of, question_of, told_elsewhere,
    told_in,
};
use super::row::{QueueRow, RowMaker};
use super::{as_wanted, owners};
use crate::api::{Answers, QueueStats};
use crate::app::App;
use crate::cluster_lists::{Order, Part};
use crate::directory::Queue;
use crate::history::ranges::Ranges;
use crate::http::input::Query;
use crate::http::reply::{ApiError, Reply};
use crate::http::router::Call;
use crate::list_query::{self, NameFilter};
use crate::message_stats::{DEPTHS, MESSAGE_NAMES, fields};
use crate::ordering::Unordered;
use crate::peers::Peers;
use crate::priority::let_others_run;
use crate::question::Question;
use crate::row_lists::{self, Found, Keyed, Row, Source};
use crate::selection::QueueSelection;
use leveret_types::{NodeId, QueueId};
use serde_json::Value;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::vec::IntoIter;

/// Queues whose records are held at once.
const RECORDS: usize = 128;

/// What the arguments of queues come to whose rows are made at once, where that is more than one
/// row. Of usual ones that is far more than they have.
const ARGUMENT_BYTES: usize = 256 * 1024;

/// Queues whose figures are looked at here in one turn of a worker, to put them in order.
const LOOKED_AT: usize = 1_024;

/// Queues of which other nodes are asked at once while a list is read: each question takes its way
/// to and fro, and what is told is held.
const AHEAD: usize = 1_024;
/// The same where figures over time are told, of which there may be hundreds for each queue.
const AHEAD_OVER_TIME: usize = 64;

fn selection(call: &Call<'_>, vhost: Option<&str>) -> QueueSelection {
    QueueSelection {
        vhost: vhost.map(str::to_owned),
        seen_by: row_lists::seen_by(call, vhost),
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
    let visible = seen_by.map(|user| row_lists::vhosts_seen_by(app, user));
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
    row_lists::list(found, source, &call.query)
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
    row_lists::list(found, source, &call.query)
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
    /// How far queues have been looked at that are to be put in order.
    sorting: Option<Sorting>,
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
            sorting: None,
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
        let mut maker = RowMaker::new();
        let row = |(number, queue): (usize, Queue)| {
            let_others_run(number);
            let told = self.told_of(here.get(&queue.id), queue.id, &owners);
            let row = maker.row(app, &self.node, &queue, told.as_ref());
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
        for (number, ids) in ids.chunks(RECORDS).enumerate() {
            let_others_run(number);
            let stats = self.app.node().queues_of(ids).into_iter();
            let stats = stats.filter(|of| !of.follows && !has_parts(of.id, field));
            let mut fields: HashMap<QueueId, Value> = match figure(field) {
                Some(figure) => stats.map(|of| (of.id, figure.of(&self.app, &of))).collect(),
                None => {
                    let ids: Vec<QueueId> = stats.map(|of| of.id).collect();
                    let fields = self.fields(&ids, field);
                    ids.into_iter().zip(fields).collect()
                }
            };
            let of = |id: &QueueId| Some((fields.remove(id)?, *id));
            led.extend(ids.iter().filter_map(of));
        }
        led
    }

    /// Begins to put queues in order: the other nodes look at theirs while this one does.
    fn begin_sorting(&self, ids: Vec<QueueId>, order: &Order) -> Sorting {
        let field = order.field.as_deref().unwrap_or_default();
        let (of_parts, of_one): (Vec<QueueId>, Vec<QueueId>) =
            ids.iter().partition(|id| has_parts(**id, field));
        // Whose selection cannot be said in words is asked for all.
        let asks_first = self.selection.is_some() && order.first < of_one.len();
        let question = self.question(order, asks_first);
        Sorting {
            ids,
            of_parts: of_parts.into_iter(),
            untold: Vec::new().into_iter(),
            count: of_one.len(),
            of_one: of_one.into_iter(),
            fields: HashMap::new(),
            asks_first,
            asked: self.peers.begin(&question),
            has_heard: false,
        }
    }

    /// Asks for the first of an order, or all of it.
    fn question(&self, order: &Order, only_first: bool) -> Question {
        Question::QueueOrder {
            of: self.selection.clone().unwrap_or_default(),
            order: Order {
                first: if only_first { order.first } else { usize::MAX },
                ..order.clone()
            },
        }
    }

    /// Looks at some more queues. True when there are no more.
    fn sort_on(&mut self, sorting: &mut Sorting, order: &Order) -> bool {
        let field = order.field.as_deref().unwrap_or_default();
        if sorting.has_some_here() {
            let count = if figure(field).is_some() {
                LOOKED_AT
            } else {
                RECORDS
            };
            let some: Vec<QueueId> = sorting.of_one.by_ref().take(count).collect();
            sorting.know(self.led_here(&some, field));
        } else if !sorting.has_heard {
            self.hear_others(sorting, order);
        } else if sorting.untold.len() > 0 {
            // Of these no leader tells: what a replica here knows is better than nothing.
            let some: Vec<QueueId> = sorting.untold.by_ref().take(RECORDS).collect();
            let fields = self.fields(&some, field);
            sorting.know(fields.into_iter().zip(some));
        } else if sorting.of_parts.len() > 0 {
            let some: Vec<QueueId> = sorting.of_parts.by_ref().take(self.ahead()).collect();
            self.prepare(&some, &[]);
            for some in some.chunks(RECORDS) {
                let fields = self.fields(some, field).into_iter();
                sorting.know(fields.zip(some.iter().copied()));
            }
        }
        sorting.has_ended()
    }

    /// Takes what other nodes tell of the queues that they lead: the first of the order, if these
    /// and what is led here are known to be the first of all; else all.
    fn hear_others(&mut self, sorting: &mut Sorting, order: &Order) {
        sorting.has_heard = true;
        let answers = sorting.asked.take();
        let led = sorting.fields.len();
        let parts = self.peers.parts_in(answers);
        let heard = sorting.hear(parts);
        // One of which nobody tells, or two nodes do, may have another place.
        let is_known = led + heard.led == sorting.count && led + heard.told == sorting.fields.len();
        if sorting.asks_first && is_known {
            return;
        }
        if sorting.asks_first {
            let question = self.question(order, false);
            let parts = self.peers.parts(&question);
            sorting.hear(parts);
        }
        let is_one = |id: &&QueueId| !has_parts(**id, order.field.as_deref().unwrap_or_default());
        let of_one = sorting.ids.iter().filter(is_one).copied();
        let untold = of_one.filter(|id| !sorting.fields.contains_key(id));
        sorting.untold = untold.collect::<Vec<_>>().into_iter();
    }
}

/// How far queues have been looked at that are to be put in order.
struct Sorting {
    /// All of them, in their usual order.
    ids: Vec<QueueId>,
    /// How many there are of which one node tells.
    count: usize,
    /// Those of them that have not been looked at here.
    of_one: IntoIter<QueueId>,
    /// Those of them of which no leader tells.
    untold: IntoIter<QueueId>,
    /// Those of which several nodes tell, as far as they have not been looked at.
    of_parts: IntoIter<QueueId>,
    /// What queues are sorted by.
    fields: HashMap<QueueId, Value>,
    /// Whether other nodes are asked for the first of the order alone.
    asks_first: bool,
    asked: Option<Answers>,
    /// Whether they have been listened to.
    has_heard: bool,
}

/// What other nodes have told of an order.
#[derive(Default)]
struct AnsweredCounts {
    /// How many queues they lead.
    led: usize,
    /// Of how many they told.
    told: usize,
}

impl Sorting {
    fn has_some_here(&self) -> bool {
        self.of_one.len() > 0
    }

    fn has_ended(&self) -> bool {
        let left = [&self.of_one, &self.untold, &self.of_parts];
        self.has_heard && left.into_iter().all(|rest| rest.len() == 0)
    }

    fn know(&mut self, fields: impl IntoIterator<Item = (Value, QueueId)>) {
        let fields = fields.into_iter().map(|(field, id)| (id, field));
        self.fields.extend(fields);
    }

    fn hear(&mut self, parts: Vec<(NodeId, Part<u64>)>) -> AnsweredCounts {
        let mut heard = AnsweredCounts::default();
        for (_, part) in parts {
            heard.led += part.filtered;
            heard.told += part.first.len();
            let first = part.first.into_iter();
            self.know(first.map(|(field, id)| (field, QueueId(id))));
        }
        heard
    }

    /// Those that may be among the first, in their usual order.
    fn known(mut self) -> Keyed<QueueId> {
        let known = |id| Some((self.fields.remove(&id)?, id));
        self.ids.into_iter().filter_map(known).collect()
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

    fn batch(&self, ids: &[QueueId]) -> usize {
        let usual = &ids[..ids.len().min(row_lists::BATCH)];
        self.app.node().queues_within(usual, ARGUMENT_BYTES)
    }

    fn fields(&mut self, ids: &[QueueId], field: &str) -> Vec<Value> {
        if let Some(figure) = figure(field) {
            return self.figures(ids, field, figure);
        }
        let rows = self.rows(ids).into_iter();
        rows.map(|row| row_lists::field_of(row, field)).collect()
    }

    fn look_on(&mut self, unordered: &mut Unordered<QueueId>) -> bool {
        if is_of_record(unordered.field()) {
            return unordered.look_at_batch(self);
        }
        let begun = self.sorting.take();
        let mut sorting =
            begun.unwrap_or_else(|| self.begin_sorting(unordered.take_rest(), unordered.order()));
        if !self.sort_on(&mut sorting, unordered.order()) {
            self.sorting = Some(sorting);
            return false;
        }
        unordered.know(sorting.known());
        true
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
