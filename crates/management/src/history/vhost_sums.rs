//! What happens in virtual hosts: sums over their queues and connections. Each node sums up what it
//! leads, so that a row for each queue neither is made nor crosses the network.

use crate::api::{ConnectionStats, MessageCounters, QueueStats};
use crate::app::App;
use crate::history;
use crate::history::ranges::{Part, Ranges};
use crate::history::rates::{MESSAGE_FIELDS, Subject};
use crate::http::reply::{fingerprint, merge};
use crate::http::router::Call;
use crate::message_stats::{depths, depths_at, message_stats, messages_at};
use crate::peers;
use crate::question::Question;
use leveret_types::QueueId;
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use std::time::Instant;

/// Queues whose figures are held at once.
const BATCH: usize = 1_024;

/// What is summed up of one virtual host.
#[derive(Default)]
struct Sum {
    /// All messages, those that wait, those that are not settled.
    depths: [u64; 3],
    messages: MessageCounters,
    /// Bytes received and sent by its connections.
    traffic: [u64; 2],
}

impl Sum {
    fn add_queue(&mut self, queue: &QueueStats) {
        self.depths[0] += queue.depth();
        self.depths[1] += queue.ready;
        self.depths[2] += queue.unacknowledged;
        self.messages.add(&queue.messages);
    }

    fn add_connection(&mut self, connection: &ConnectionStats) {
        self.traffic[0] += connection.received_bytes;
        self.traffic[1] += connection.sent_bytes;
    }

    fn json(&self, app: &App, vhost: &str, ranges: &Ranges) -> Value {
        let key = fingerprint(vhost.as_bytes());
        let subject = Subject::Vhost(key);
        let rates = app
            .rates
            .vhost_traffic
            .of(key, self.traffic, Instant::now());
        let mut json = depths(app, subject, self.depths);
        merge(&mut json, traffic(self.traffic, rates));
        json["message_stats"] = message_stats(app, subject, &self.messages);
        let parts = [Part::Messages, Part::Lengths, Part::Data];
        history::write(app, subject, ranges, &parts, &mut json);
        json
    }
}

fn traffic(bytes: [u64; 2], rates: [f64; 2]) -> Value {
    json!({
        "recv_oct": bytes[0],
        "recv_oct_details": {"rate": rates[0]},
        "send_oct": bytes[1],
        "send_oct_details": {"rate": rates[1]},
    })
}

/// This node's part, by virtual host; of one alone where one is named.
pub(crate) fn own(app: &App, only: Option<&str>, ranges: &Ranges) -> Value {
    let node = app.node();
    let mut sums: HashMap<String, Sum> = HashMap::new();
    let mut ids: Vec<QueueId> = Vec::new();
    let mut vhosts: HashMap<QueueId, usize> = HashMap::new();
    let mut names: Vec<String> = Vec::new();
    node.each_queue(only, &mut |id, vhost, _| {
        // They come by virtual host, or nearly.
        if names.last().is_none_or(|last| last != vhost) {
            names.push(vhost.to_owned());
        }
        vhosts.insert(id, names.len() - 1);
        ids.push(id);
    });
    for batch in ids.chunks(BATCH) {
        for queue in node.queues_of(batch).iter().filter(|queue| !queue.follows) {
            if let Some(at) = vhosts.get(&queue.id) {
                sums.entry(names[*at].clone()).or_default().add_queue(queue);
            }
        }
    }
    node.each_connection(&mut |content| {
        let connection = &content.connection;
        if only.is_none_or(|only| only == connection.vhost) {
            let sum = sums.entry(connection.vhost.clone()).or_default();
            sum.add_connection(connection);
        }
    });
    let json = |(vhost, sum): (String, Sum)| {
        let json = sum.json(app, &vhost, ranges);
        (vhost, json)
    };
    Value::Object(sums.into_iter().map(json).collect())
}

/// Every node's part, by virtual host; of one alone where one is named.
pub(crate) fn all(app: &App, only: Option<&str>, ranges: &Ranges) -> Value {
    let mut sums = own(app, only, ranges);
    let question = Question::Vhosts {
        only: only.map(str::to_owned),
        ranges: *ranges,
    };
    for (_, part) in peers::ask(app, &question) {
        peers::add(&mut sums, &part);
    }
    sums
}

/// The sums of one virtual host out of those of all.
pub(crate) fn of(sums: &Value, vhost: &str) -> Value {
    let mut json = depths_at([0; 3], [0.0; 3]);
    merge(&mut json, traffic([0; 2], [0.0; 2]));
    json["message_stats"] = messages_at(&MessageCounters::default(), [0.0; MESSAGE_FIELDS]);
    peers::add(&mut json, &sums[vhost]);
    json
}

/// How many queues may be seen, and what their messages come to: `queue_totals`, `message_stats`.
pub(crate) fn visible(call: &Call<'_>, ranges: &Ranges) -> (usize, Value) {
    const DEPTHS: [&str; 6] = [
        "messages",
        "messages_ready",
        "messages_unacknowledged",
        "messages_details",
        "messages_ready_details",
        "messages_unacknowledged_details",
    ];
    let app = call.app;
    let mut whole = of(&Value::Null, "");
    let mut queues = 0;
    let vhosts = app.node().vhosts().into_iter().map(|vhost| vhost.name);
    let seen: Vec<String> = vhosts.filter(|name| app.sees(call.who, name)).collect();
    // Most users have one.
    let only = if let [only] = &seen[..] {
        Some(only.as_str())
    } else {
        None
    };
    let sums = match seen.is_empty() {
        true => Value::Null,
        false => all(app, only, ranges),
    };
    for vhost in &seen {
        app.node()
            .each_queue(Some(vhost), &mut |_, _, _| queues += 1);
        peers::add(&mut whole, &of(&sums, vhost));
    }
    let mut out = Map::new();
    out.insert("queue_totals".to_owned(), peers::pick(&whole, &DEPTHS));
    out.insert("message_stats".to_owned(), whole["message_stats"].take());
    (queues, Value::Object(out))
}
