//! Figures by pairs: what comes to queues from exchanges, what channels publish to exchanges, and
//! what consumers get from queues. In answers about one queue, exchange or channel they stand as
//! RabbitMQ has them (`incoming`, `outgoing`, `publishes`, `deliveries`).
//!
//! Each node knows what its own clients do; what is told is the sum of all nodes.

use crate::api::{
    ConnectionContent, ConnectionStats, ConsumerStats, FlowStats, FlowsOf, PublishedStats,
};
use crate::app::App;
use crate::connections::channel_details;
use crate::history::rates::{PAIR_FIELDS, Subject};
use crate::http::reply::{ApiError, Reply, fingerprint};
use crate::http::router::Call;
use crate::peers;
use crate::question::Question;
use crate::selection::PairSelection;
use leveret_types::QueueId;
use leveret_types::limits::{PAIRS_REPORTED_MAX, SAMPLED_PAIRS_MAX};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// What nodes tell of pairs.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Pairs {
    /// From exchanges to queues.
    pub(crate) flows: Vec<Value>,
    /// From channels to exchanges.
    pub(crate) channels: Vec<Value>,
}

fn flow_key(flow: &FlowStats) -> u64 {
    let FlowStats {
        vhost, exchange, ..
    } = flow;
    fingerprint(format!("flow\0{vhost}\0{exchange}\0{}", flow.queue).as_bytes())
}

/// What a channel publishes to an exchange; to one of the queues that this leads to.
fn published_key(c: &ConnectionStats, published: &PublishedStats, queue: Option<QueueId>) -> u64 {
    let (id, channel, exchange) = (c.id, published.channel, &published.exchange);
    let to = queue.map_or_else(String::new, |queue| queue.to_string());
    fingerprint(format!("published\0{id}\0{channel}\0{exchange}\0{to}").as_bytes())
}

fn consumer_key(consumer: &ConsumerStats) -> u64 {
    let (id, channel, tag) = (consumer.connection, consumer.channel, &consumer.tag);
    fingerprint(format!("consumer\0{id}\0{channel}\0{tag}").as_bytes())
}

const fn counters_of(consumer: &ConsumerStats) -> [u64; PAIR_FIELDS] {
    [
        consumer.delivered,
        consumer.redelivered,
        consumer.acknowledged,
    ]
}

fn publish_rate(app: &App, key: u64, messages: u64) -> f64 {
    let [rate, ..] = app.pair_rates(key, [messages, 0, 0]);
    rate
}

fn publish_stats(messages: u64, rate: f64) -> Value {
    json!({"publish": messages, "publish_details": {"rate": rate}})
}

/// What a consumer got, and what became of it.
#[derive(Serialize)]
pub(crate) struct ConsumerFigures {
    ack: u64,
    ack_details: Rate,
    deliver: u64,
    deliver_details: Rate,
    deliver_get: u64,
    deliver_get_details: Rate,
    deliver_no_ack: u64,
    deliver_no_ack_details: Rate,
    redeliver: u64,
    redeliver_details: Rate,
}

/// What is said of a figure beside it.
#[derive(Serialize)]
struct Rate {
    rate: f64,
}

impl ConsumerFigures {
    pub(crate) fn of(app: &App, consumer: &ConsumerStats) -> Self {
        let counters = counters_of(consumer);
        let rates = app.pair_rates(consumer_key(consumer), counters);
        let [delivered, redelivered, acknowledged] = rates;
        let of = |wanted: bool| match wanted {
            true => (consumer.delivered, delivered),
            false => (0, 0.0),
        };
        let (deliver, deliver_rate) = of(consumer.ack_required);
        let (deliver_no_ack, no_ack_rate) = of(!consumer.ack_required);
        Self {
            ack: consumer.acknowledged,
            ack_details: Rate { rate: acknowledged },
            deliver,
            deliver_details: Rate { rate: deliver_rate },
            deliver_get: consumer.delivered,
            deliver_get_details: Rate { rate: delivered },
            deliver_no_ack,
            deliver_no_ack_details: Rate { rate: no_ack_rate },
            redeliver: consumer.redelivered,
            redeliver_details: Rate { rate: redelivered },
        }
    }
}

fn thing(vhost: &str, name: &str) -> Value {
    json!({"name": name, "vhost": vhost})
}

fn flow_json(flow: &FlowStats, rate: f64) -> Value {
    json!({
        "exchange": thing(&flow.vhost, &flow.exchange),
        "queue": thing(&flow.vhost, &flow.queue_name),
        "stats": publish_stats(flow.messages, rate),
    })
}

/// Rows of the busiest flows: of the others there may be very many, and none is made.
fn busiest_flows(app: &App, flows: &[FlowStats]) -> Vec<Value> {
    let rate = |flow| publish_rate(app, flow_key(flow), flow.messages);
    let mut rated: Vec<(f64, &FlowStats)> = flows.iter().map(|flow| (rate(flow), flow)).collect();
    if rated.len() > PAIRS_REPORTED_MAX {
        rated.select_nth_unstable_by(PAIRS_REPORTED_MAX, |a, b| b.0.total_cmp(&a.0));
        rated.truncate(PAIRS_REPORTED_MAX);
    }
    let rows = rated.into_iter().map(|(rate, flow)| flow_json(flow, rate));
    rows.collect()
}

/// A channel that publishes to an exchange; what of it comes to one queue, where that is meant.
fn published_json(
    app: &App,
    node: &str,
    c: &ConnectionStats,
    published: &PublishedStats,
    queue: Option<QueueId>,
) -> Option<Value> {
    let messages = match queue {
        None => published.messages,
        Some(queue) => {
            let queues = &published.queues;
            let at = queues.binary_search_by_key(&queue, |(id, _)| *id).ok()?;
            queues[at].1
        }
    };
    let rate = publish_rate(app, published_key(c, published, queue), messages);
    Some(json!({
        "channel_details": channel_details(node, c, published.channel),
        "exchange": thing(&c.vhost, &published.exchange),
        "stats": publish_stats(messages, rate),
    }))
}

/// What this node knows, for another node.
pub(crate) fn own(app: &App, of: &PairSelection) -> Value {
    json!(known(app, of))
}

fn known(app: &App, of: &PairSelection) -> Pairs {
    let (node, name) = (app.node(), app.node().name());
    let mut pairs = Pairs::default();
    let mut see = |content: &ConnectionContent| {
        let c = &content.connection;
        let rows = content.published.iter().filter_map(|published| match of {
            PairSelection::Exchange { vhost, exchange } => (c.vhost == *vhost
                && *published.exchange == **exchange)
                .then(|| published_json(app, &name, c, published, None))?,
            PairSelection::Publishers { vhost, queue } => (c.vhost == *vhost)
                .then(|| published_json(app, &name, c, published, Some(QueueId(*queue))))?,
            PairSelection::Channel { number, .. } => (published.channel == *number)
                .then(|| published_json(app, &name, c, published, None))?,
            PairSelection::Vhost(_) | PairSelection::Queue(_) => None,
        });
        pairs.channels.extend(rows);
        if pairs.channels.len() > 2 * PAIRS_REPORTED_MAX {
            keep_busiest(&mut pairs.channels);
        }
    };
    let flows = match of {
        PairSelection::Vhost(vhost) => Some(FlowsOf::Vhost(vhost)),
        PairSelection::Queue(queue) => Some(FlowsOf::Queue(QueueId(*queue))),
        PairSelection::Exchange { vhost, exchange } => {
            node.each_connection(&mut |content| see(&content));
            Some(FlowsOf::Exchange { vhost, exchange })
        }
        PairSelection::Publishers { .. } => {
            node.each_connection(&mut |content| see(&content));
            None
        }
        PairSelection::Channel { connection, .. } => {
            node.connection(connection).iter().for_each(see);
            None
        }
    };
    if let Some(flows) = flows {
        let flows = node.flows(flows);
        pairs.flows = busiest_flows(app, &flows);
    }
    keep_busiest(&mut pairs.flows);
    keep_busiest(&mut pairs.channels);
    pairs
}

/// Rows by their rates, the highest first, and no more of them than are told.
fn keep_busiest(rows: &mut Vec<Value>) {
    let rate = |row: &Value| {
        let rate = row["stats"]["publish_details"]["rate"].as_f64();
        rate.unwrap_or_default()
    };
    rows.sort_by(|a, b| rate(b).total_cmp(&rate(a)));
    rows.truncate(PAIRS_REPORTED_MAX);
}

/// What all nodes know, each pair once: the busiest first.
pub(crate) fn everywhere(app: &App, of: PairSelection) -> Pairs {
    let mut pairs = known(app, &of);
    for (_, told) in peers::ask(app, &Question::Pairs { of }) {
        let told: Pairs = serde_json::from_value(told).unwrap_or_default();
        pairs.flows.extend(told.flows);
        pairs.channels.extend(told.channels);
    }
    pairs.flows = sums(pairs.flows, |row| [&row["exchange"], &row["queue"]]);
    pairs.channels = sums(pairs.channels, |row| {
        [&row["channel_details"], &row["exchange"]]
    });
    pairs
}

/// Rows about the same pair as one. What other nodes leave out is zero.
fn sums(rows: Vec<Value>, pair: impl Fn(&Value) -> [&Value; 2]) -> Vec<Value> {
    let mut sums: BTreeMap<[String; 2], Value> = BTreeMap::new();
    for row in rows {
        let key = pair(&row).map(|side| format!("{}\0{}", side["vhost"], side["name"]));
        let none = json!({"publish": 0, "publish_details": {"rate": 0.0}});
        let row = peers::shaped(&json!({ "stats": none }), row);
        match sums.get_mut(&key) {
            Some(sum) => peers::add(&mut sum["stats"], &row["stats"]),
            None => drop(sums.insert(key, row)),
        }
    }
    let mut rows: Vec<Value> = sums.into_values().collect();
    keep_busiest(&mut rows);
    rows
}

/// `GET /api/leveret/flows/{vhost}`: what comes to queues from exchanges, the busiest pairs first.
pub fn flows(call: &Call<'_>) -> Result<Reply, ApiError> {
    let of = PairSelection::Vhost(call.param(0).to_owned());
    Ok(Reply::Json(everywhere(call.app, of).flows.into()))
}

/// Rows without one of their sides, which whoever asked has named.
pub(crate) fn without(mut rows: Vec<Value>, side: &str) -> Value {
    for row in &mut rows {
        if let Some(row) = row.as_object_mut() {
            row.remove(side);
        }
    }
    rows.into()
}

/// What consumers got, those of one `side` (`queue`, `channel_details`) together.
pub(crate) fn deliveries(consumers: &Value, side: &str) -> Value {
    let mut sums: BTreeMap<String, Value> = BTreeMap::new();
    for row in consumers.as_array().into_iter().flatten() {
        let key = format!("{}\0{}", row[side]["vhost"], row[side]["name"]);
        match sums.get_mut(&key) {
            Some(sum) => peers::add(&mut sum["stats"], &row["message_stats"]),
            None => {
                let sum = json!({side: row[side], "stats": row["message_stats"]});
                sums.insert(key, sum);
            }
        }
    }
    sums.into_values().collect()
}

impl App {
    /// Notes what came to queues from exchanges, where these are not too many.
    pub(crate) fn sample_flows(&self) {
        let flows = self.node().flows(FlowsOf::Node);
        if flows.len() > SAMPLED_PAIRS_MAX {
            return;
        }
        let mut samples = self.samples();
        for flow in &flows {
            let since = samples.remembers_all().then_some(&[0; PAIR_FIELDS][..]);
            let subject = Subject::Pair(flow_key(flow));
            samples.note(subject, &[flow.messages, 0, 0], since);
        }
    }

    /// Notes what channels of a connection publish and its consumers get, as long as there is room
    /// for it in this tick; takes off what it took.
    pub(crate) fn sample_pairs_in(&self, content: &ConnectionContent, room: &mut usize) {
        let c = &content.connection;
        let mut samples = self.samples();
        let mut note = |key: u64, counters: [u64; PAIR_FIELDS]| {
            if let Some(left) = room.checked_sub(1) {
                *room = left;
                samples.note(Subject::Pair(key), &counters, None);
            }
        };
        for published in &content.published {
            note(
                published_key(c, published, None),
                [published.messages, 0, 0],
            );
            for (queue, messages) in &published.queues {
                note(published_key(c, published, Some(*queue)), [*messages, 0, 0]);
            }
        }
        for consumer in &content.consumers {
            note(consumer_key(consumer), counters_of(consumer));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nodes_tell_of_the_same_pair_is_one_row_and_the_busiest_is_first() {
        let row = |exchange: &str, publish: u64, rate: f64| {
            json!({
                "exchange": thing("/", exchange),
                "queue": thing("/", "q"),
                "stats": {"publish": publish, "publish_details": {"rate": rate}},
            })
        };
        let mut quiet = row("quiet", 0, 0.0);
        quiet["stats"] = json!({});
        let rows = vec![row("a", 3, 1.0), quiet, row("b", 4, 1.5), row("a", 5, 1.0)];
        let sums = sums(rows, |row| [&row["exchange"], &row["queue"]]);
        assert_eq!(
            sums,
            [row("a", 8, 2.0), row("b", 4, 1.5), row("quiet", 0, 0.0)]
        );
    }

    #[test]
    fn consumers_of_one_channel_are_told_of_together() {
        let row = |channel: &str, ack: u64| {
            json!({
                "channel_details": {"name": channel},
                "queue": thing("/", "q"),
                "message_stats": {"ack": ack, "ack_details": {"rate": 0.5}},
            })
        };
        let rows = json!([row("a", 1), row("b", 2), row("a", 4)]);
        let of_channels = deliveries(&rows, "channel_details");
        let expected = json!([
            {"channel_details": {"name": "a"}, "stats": {"ack": 5, "ack_details": {"rate": 1.0}}},
            {"channel_details": {"name": "b"}, "stats": {"ack": 2, "ack_details": {"rate": 0.5}}},
        ]);
        assert_eq!(of_channels, expected);
        assert_eq!(deliveries(&rows, "queue")[0]["stats"]["ack"], 7);
    }
}
