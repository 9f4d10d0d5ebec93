//! Lists of queues: what their rows are made from.

use super::row::{QueueRow, zero};
use super::told::{Owners, Row as TextOfRow, Told, told_elsewhere, told_elsewhere_of};
use super::{as_wanted, owners, queue_row};
use crate::api::QueueStats;
use crate::app::App;
use crate::directory::Queue;
use crate::input::Query;
use crate::list_query;
use crate::listing::{self, Found, Row, Source, Wanted};
use crate::pieces::let_others_run;
use crate::ranges::Ranges;
use crate::reply::{ApiError, Reply};
use crate::route::Call;
use leveret_types::QueueId;
use serde_json::Value;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Queues whose records are held at once.
const RECORDS: usize = 128;

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
    let mut found = Found::new(query)?;
    let visible = listing::visible_vhosts(call, vhost);
    let kind = query.get("type");
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
    listing::list(found, Queues::new(app, Ranges::of(query)?), query)
}

/// What rows are made from.
struct Queues {
    app: Arc<App>,
    node: String,
    ranges: Ranges,
    /// What other nodes tell of queues.
    told: HashMap<QueueId, TextOfRow>,
}

impl Queues {
    fn new(app: &Arc<App>, ranges: Ranges) -> Self {
        Self {
            app: Arc::clone(app),
            node: app.node().node_stats().name,
            ranges,
            told: HashMap::new(),
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
            (queue.id, queue_row(app, &self.node, &queue, told))
        };
        let queues = app.node().queues_by_id(ids).into_iter();
        queues.enumerate().map(row).collect()
    }

    fn told_of(&self, own: Option<&QueueStats>, id: QueueId, owners: &Owners) -> Option<Told> {
        Told::of(&self.app, own, self.told.get(&id), owners, &self.ranges)
    }

    /// A figure of these queues. No row need be made for that.
    fn figures(&self, ids: &[QueueId], field: &str, figure: Figure) -> Vec<Value> {
        let here = self.known_here(ids);
        let is_known = |stats: &&QueueStats| !stats.follows && !self.told.contains_key(&stats.id);
        let of = |id: &QueueId| match here.get(id).filter(is_known) {
            Some(stats) => figure(stats).into(),
            None => {
                let told = self.told_of(here.get(id), *id, &Owners::new());
                told.map_or(Value::Null, |told| {
                    let told = told.stats.get(field);
                    told.unwrap_or_else(|| zero(field)).clone()
                })
            }
        };
        ids.iter().map(of).collect()
    }
}

impl Source for Queues {
    type Key = QueueId;
    type Row = QueueRow;

    fn prepare(&mut self, wanted: Wanted<'_, QueueId>) {
        self.told = match wanted {
            Wanted::All => told_elsewhere(&self.app, &self.ranges),
            Wanted::These(ids) => told_elsewhere_of(&self.app, ids, &self.ranges),
        };
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

    fn pick(&self, row: QueueRow, query: &Query) -> QueueRow {
        if query.get("columns").is_none() && !query.flag("disable_stats") {
            return row;
        }
        let whole = row.whole();
        QueueRow::of(list_query::one(as_wanted(whole, query), query))
    }

    fn held_bytes(&self) -> usize {
        let row = |row: &TextOfRow| row.bytes() + size_of::<(QueueId, TextOfRow)>();
        self.told.values().map(row).sum()
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
