//! Lists of queues. Of all queues only the ids are held; rows are made a few at a time, when they
//! are written.

use super::row::{QueueRow, zero};
use super::told::{Owners, Row, Told, told_elsewhere, told_elsewhere_of};
use super::{as_wanted, owners, queue_row};
use crate::api::QueueStats;
use crate::app::App;
use crate::directory::Queue;
use crate::input::Query;
use crate::list_query::{self, Filter, Page};
use crate::pieces::Pieces;
use crate::ranges::Ranges;
use crate::reply::{ApiError, Reply};
use crate::route::Call;
use leveret_types::QueueId;
use serde_json::Value;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Rows that are made at once. For each such batch the threads of the connections may be asked for
/// all of theirs, to name owners and consumers, so that it is not small.
const BATCH: usize = 128;

/// The queues of a virtual host, or all that may be seen, as the query asks for them.
pub(super) fn list(call: &Call<'_>, vhost: Option<&str>) -> Result<Reply, ApiError> {
    list_among(call, vhost, |_| true)
}

/// The same, but for those that are not meant.
pub(crate) fn list_among(
    call: &Call<'_>,
    vhost: Option<&str>,
    is_meant: impl Fn(QueueId) -> bool,
) -> Result<Reply, ApiError> {
    let (app, query) = (call.app, &call.query);
    let filter = Filter::of(query)?;
    let page = Page::of(query)?;
    let visible = visible_vhosts(call, vhost);
    let sort = query.get("sort");
    let kind = query.get("type");
    let mut total = 0;
    let mut named: Vec<(Value, QueueId)> = Vec::new();
    app.node().each_queue(vhost, &mut |id, vhost, name| {
        if visible.as_ref().is_some_and(|seen| !seen.contains(vhost)) {
            return;
        }
        if !is_meant(id) {
            return;
        }
        // Streams have ids of their own; what else a queue is only its record says.
        if kind.is_some_and(|kind| (kind == "stream") != id.is_stream()) {
            return;
        }
        total += 1;
        if filter.as_ref().is_none_or(|filter| filter.takes(name)) {
            let key = match sort {
                Some("name") => name.into(),
                _ => Value::Null,
            };
            named.push((key, id));
        }
    });
    if let Some(kind) = kind.filter(|kind| *kind != "stream") {
        let ids: Vec<QueueId> = named.iter().map(|(_, id)| *id).collect();
        let of_kind: HashSet<QueueId> = ids
            .chunks(BATCH)
            .flat_map(|ids| app.node().queues_by_id(ids))
            .filter_map(|queue| (queue.kind == kind).then_some(queue.id))
            .collect();
        named.retain(|(_, id)| of_kind.contains(id));
        total = named.len();
    }
    let wants_all = page.is_none() || sort.is_some_and(|field| field != "name");
    let mut source = Source::new(app, Ranges::of(query)?);
    if wants_all {
        source.told = told_elsewhere(app, &source.ranges);
    }
    let mut ids = match sort {
        None | Some("name") => list_query::sorted(named),
        Some(field) => source.sorted(named, field),
    };
    if query.flag("sort_reverse") {
        ids.reverse();
    }
    let filtered = ids.len();
    let columns = query.clone();
    let Some(page) = page else {
        let held_bytes = ids.len() * size_of::<QueueId>() + source.told_bytes();
        let mut ids = ids.into_iter();
        let batch = move || {
            let of_queue = |row| wanted(row, &columns);
            loop {
                let batch: Vec<QueueId> = ids.by_ref().take(BATCH).collect();
                let rows = source.rows(&batch);
                // An empty batch would be the end; its queues may be gone, and others follow.
                if batch.is_empty() || !rows.is_empty() {
                    return rows.into_iter().map(of_queue).collect();
                }
            }
        };
        let pieces = Pieces::of_rows(batch, QueueRow::write, held_bytes);
        return Ok(Reply::Pieces("application/json", pieces));
    };
    let shown = page.cut(ids)?;
    if !wants_all {
        source.told = told_elsewhere_of(app, &shown, &source.ranges);
    }
    let rows = source.rows(&shown).into_iter();
    let rows = rows.map(|row| wanted(row, &columns).whole()).collect();
    page.reply(rows, filtered, total)
}

/// A row with as much as the query wants.
fn wanted(row: QueueRow, query: &Query) -> QueueRow {
    if query.get("columns").is_none() && !query.flag("disable_stats") {
        return row;
    }
    let whole = row.whole();
    QueueRow::of(list_query::one(as_wanted(whole, query), query))
}

/// The virtual hosts whose queues may be seen; none where that is all.
fn visible_vhosts(call: &Call<'_>, vhost: Option<&str>) -> Option<HashSet<String>> {
    if vhost.is_some() || call.who.is_monitor() {
        return None;
    }
    let names = call.app.node().vhosts().into_iter().map(|vhost| vhost.name);
    Some(names.filter(|name| call.app.sees(call.who, name)).collect())
}

/// What rows are made from.
struct Source {
    app: Arc<App>,
    node: String,
    ranges: Ranges,
    /// What other nodes tell of queues.
    told: HashMap<QueueId, Row>,
}

impl Source {
    fn new(app: &Arc<App>, ranges: Ranges) -> Self {
        Self {
            app: Arc::clone(app),
            node: app.node().node_stats().name,
            ranges,
            told: HashMap::new(),
        }
    }

    fn told_bytes(&self) -> usize {
        let row = |row: &Row| row.bytes() + size_of::<(QueueId, Row)>();
        self.told.values().map(row).sum()
    }

    /// What is known here of these queues, by id.
    fn known_here(&self, ids: &[QueueId]) -> HashMap<QueueId, QueueStats> {
        let stats = self.app.node().queues_of(ids).into_iter();
        stats.map(|stats| (stats.id, stats)).collect()
    }

    /// The rows of these queues, in this order, but of those that are gone.
    fn rows(&self, ids: &[QueueId]) -> Vec<QueueRow> {
        let rows = self.rows_by_id(ids).into_iter();
        rows.map(|(_, row)| row).collect()
    }

    fn rows_by_id(&self, ids: &[QueueId]) -> Vec<(QueueId, QueueRow)> {
        let (app, here) = (&self.app, self.known_here(ids));
        let owners = owners(app, here.values());
        let row = |queue: Queue| {
            let told = self.told_of(here.get(&queue.id), queue.id, &owners);
            (queue.id, queue_row(app, &self.node, &queue, told))
        };
        let queues = app.node().queues_by_id(ids).into_iter();
        queues.map(row).collect()
    }

    fn told_of(&self, own: Option<&QueueStats>, id: QueueId, owners: &Owners) -> Option<Told> {
        Told::of(&self.app, own, self.told.get(&id), owners, &self.ranges)
    }

    /// Queues by what stands in this field of their rows.
    fn sorted(&self, named: Vec<(Value, QueueId)>, field: &str) -> Vec<QueueId> {
        let ids: Vec<QueueId> = named.into_iter().map(|(_, id)| id).collect();
        let mut keyed = Vec::with_capacity(ids.len());
        for batch in ids.chunks(BATCH) {
            match figure(field) {
                Some(figure) => keyed.extend(self.stats(batch, field, figure)),
                None => keyed.extend(self.fields(batch, field)),
            }
        }
        list_query::sorted(keyed)
    }

    /// Queues with a figure of theirs. No row need be made for that.
    fn stats(&self, ids: &[QueueId], field: &str, figure: Figure) -> Vec<(Value, QueueId)> {
        let here = self.known_here(ids);
        let is_known = |stats: &&QueueStats| !stats.follows && !self.told.contains_key(&stats.id);
        let key = |id: &QueueId| match here.get(id).filter(is_known) {
            Some(stats) => figure(stats).into(),
            None => {
                let told = self.told_of(here.get(id), *id, &Owners::new());
                told.map_or(Value::Null, |told| {
                    let told = told.stats.get(field);
                    told.unwrap_or_else(|| zero(field)).clone()
                })
            }
        };
        ids.iter().map(|id| (key(id), *id)).collect()
    }

    /// Queues with a field of their rows.
    fn fields(&self, ids: &[QueueId], field: &str) -> Vec<(Value, QueueId)> {
        let rows = self.rows_by_id(ids).into_iter();
        let rows: HashMap<QueueId, Value> = rows.map(|(id, row)| (id, row.whole())).collect();
        let key = |id: &QueueId| {
            let row = rows.get(id);
            let key = row.map_or(Value::Null, |row| list_query::at(row, field).clone());
            (key, *id)
        };
        ids.iter().map(key).collect()
    }
}

type Figure = fn(&QueueStats) -> u64;

/// The figures that lists are usually sorted by.
fn figure(field: &str) -> Option<Figure> {
    Some(match field {
        "messages" => QueueStats::depth,
        "messages_ready" => |stats| stats.ready,
        "messages_unacknowledged" => |stats| stats.unacknowledged,
        "message_bytes" => QueueStats::depth_bytes,
        "message_bytes_ready" => |stats| stats.ready_bytes,
        "message_bytes_unacknowledged" => |stats| stats.unacknowledged_bytes,
        "consumers" => |stats| stats.consumers,
        "memory" => |stats| stats.memory_bytes,
        _ => return None,
    })
}
