//! `/api/leveret/queues/{vhost}/{}/growth`: why a queue grows, or does not get shorter: what comes
//! in and goes out, who publishes what comes to it, who consumes and how fast, and in words what
//! that comes to.

use crate::connections;
use crate::http::input::json_of;
use crate::http::reply::{ApiError, Reply};
use crate::http::router::Call;
use crate::overview;
use crate::pairs;
use crate::queues;
use crate::selection::PairSelection;
use serde_json::{Value, json};
use std::collections::HashSet;

/// A rate below this is none: figures are means over some seconds.
const RATE_MIN: f64 = 0.05;

/// What is known of a queue that says why it grows.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Figures {
    ready: u64,
    unacknowledged: u64,
    /// Messages a second.
    published: f64,
    delivered: f64,
    acknowledged: f64,
    redelivered: f64,
    consumers: usize,
    /// Consumers that have as many messages as they may.
    full: usize,
    /// Whether the node that leads it is known to be up.
    runs: bool,
    /// Whether it serves one consumer at a time.
    single_active: bool,
}

/// What figures come to: a word for programs, and a sentence for people.
fn findings(f: &Figures) -> Vec<(&'static str, String)> {
    let mut found = Vec::new();
    let mut say = |word, sentence: String| found.push((word, sentence));
    if !f.runs {
        say(
            "no_leader",
            "no node that is up leads it: nothing can be consumed".to_owned(),
        );
    }
    let waits = f.ready > 0;
    if f.consumers == 0 && waits {
        say(
            "no_consumers",
            format!("{} messages wait, and nobody consumes", f.ready),
        );
    }
    if f.consumers > 0 && f.full == f.consumers && waits {
        let sentence = "every consumer has as many unacknowledged messages as its prefetch lets it: \
                        they acknowledge too slowly, or not at all";
        say("consumers_full", sentence.to_owned());
    }
    if f.unacknowledged > 0 && f.acknowledged < RATE_MIN && f.consumers > 0 {
        let sentence = format!(
            "{} messages are unacknowledged, and none is acknowledged",
            f.unacknowledged
        );
        say("nothing_acknowledged", sentence);
    }
    if f.redelivered > RATE_MIN && f.redelivered * 2.0 > f.delivered {
        let sentence = format!(
            "{:.1} of {:.1} deliveries a second are redeliveries: consumers requeue",
            f.redelivered, f.delivered
        );
        say("requeued", sentence);
    }
    if f.published > f.acknowledged + RATE_MIN {
        let (published, acknowledged) = (f.published, f.acknowledged);
        let sentence = format!("{published:.1} messages a second come in, {acknowledged:.1} leave");
        say("more_in_than_out", sentence);
    }
    if f.single_active && f.consumers > 1 {
        let sentence = "one of its consumers is served at a time (x-single-active-consumer)";
        say("single_active", sentence.to_owned());
    }
    if found.is_empty() {
        found.push(("not_growing", "it does not grow".to_owned()));
    }
    found
}

fn rate(stats: &Value, name: &str) -> f64 {
    stats[format!("{name}_details")]["rate"]
        .as_f64()
        .unwrap_or(0.0)
}

/// The consumers of a queue with what they and their channels do, the slowest first.
fn consumers(rows: Vec<Value>, channels: &[Value]) -> Vec<Value> {
    let mut rows: Vec<Value> = rows
        .into_iter()
        .map(|row| {
            let name = &row["channel_details"]["name"];
            let channel = channels.iter().find(|channel| channel["name"] == *name);
            let held = channel.map_or(0, |c| c["messages_unacknowledged"].as_u64().unwrap_or(0));
            let prefetch = row["prefetch_count"].as_u64().unwrap_or(0);
            json!({
                "consumer_tag": row["consumer_tag"],
                "channel": name,
                "connection": row["channel_details"]["connection_name"],
                "node": row["channel_details"]["node"],
                "user": row["channel_details"]["user"],
                "activity_status": row["activity_status"],
                "ack_required": row["ack_required"],
                "prefetch_count": prefetch,
                "oldest_unacknowledged_at": row["oldest_unacknowledged_at"],
                "channel_unacknowledged": held,
                "deliveries_per_second": rate(&row["message_stats"], "deliver_get"),
                "acks_per_second": rate(&row["message_stats"], "ack"),
                "channel_acks_per_second": channel.map_or(0.0, |c| rate(&c["message_stats"], "ack")),
                "full": row["ack_required"] == true && prefetch > 0 && held >= prefetch,
            })
        })
        .collect();
    let of = |row: &Value, name: &str| row[name].as_f64().unwrap_or(0.0);
    // Who need not acknowledge is as fast as it takes.
    let speed = |row: &Value| match row["ack_required"] == true {
        true => of(row, "acks_per_second"),
        false => of(row, "deliveries_per_second"),
    };
    rows.sort_by(|a, b| speed(a).total_cmp(&speed(b)));
    rows
}

/// Channels of which messages come to the queue, by the exchange that they publish to, the fastest
/// first.
fn publishers(published: Vec<Value>, channels: &[Value]) -> Vec<Value> {
    let rows = published.into_iter().map(|row| {
        let of = &row["channel_details"];
        let channel = channels
            .iter()
            .find(|channel| channel["name"] == of["name"]);
        json!({
            "channel": of["name"],
            "connection": of["connection_name"],
            "node": of["node"],
            "user": of["user"],
            "exchange": row["exchange"]["name"],
            "published": row["stats"]["publish"],
            "publishes_per_second": rate(&row["stats"], "publish"),
            "unconfirmed": channel.map_or(json!(0), |of| of["messages_unconfirmed"].clone()),
        })
    });
    rows.collect()
}

/// `GET /api/leveret/queues/{vhost}/{name}/growth`
pub fn growth(call: &Call<'_>) -> Result<Reply, ApiError> {
    let queue = queues::declared(call)?;
    let row = queues::row(call, &queue)?;
    // A user who may see the queue is told of all its clients: their names, no more.
    let consuming = match connections::consumers_of(call.app, &queue) {
        Value::Array(rows) => rows,
        _ => Vec::new(),
    };
    let of = PairSelection::Publishers {
        vhost: queue.vhost.clone(),
        queue: queue.id.0,
    };
    let mut publishing = pairs::everywhere(call.app, of).channels;
    publishing.retain(|row| rate(&row["stats"], "publish") > RATE_MIN);
    let rows = consuming.iter().chain(&publishing);
    let names: HashSet<Value> = rows
        .map(|row| row["channel_details"]["name"].clone())
        .collect();
    let channels = connections::channels_where(call.app, &queue.vhost, |channel| {
        names.contains(&channel["name"])
    });
    let consumers = consumers(consuming, &channels);
    let nodes = overview::all_nodes(call.app);
    let has_alarm = |node: &Value| node["mem_alarm"] == true || node["disk_free_alarm"] == true;
    let stats = &row["message_stats"];
    let figures = Figures {
        ready: row["messages_ready"].as_u64().unwrap_or(0),
        unacknowledged: row["messages_unacknowledged"].as_u64().unwrap_or(0),
        published: rate(stats, "publish"),
        delivered: rate(stats, "deliver_get"),
        acknowledged: rate(stats, "ack"),
        redelivered: rate(stats, "redeliver"),
        consumers: consumers.len(),
        full: consumers.iter().filter(|row| row["full"] == true).count(),
        runs: row["state"] != "down",
        single_active: json_of(&queue.arguments)["x-single-active-consumer"] == true,
    };
    let findings = findings(&figures).into_iter();
    let findings = findings.map(|(word, sentence)| json!({"finding": word, "says": sentence}));
    Ok(Reply::Json(json!({
        "name": queue.name,
        "vhost": queue.vhost,
        "findings": findings.collect::<Value>(),
        "messages_ready": figures.ready,
        "messages_unacknowledged": figures.unacknowledged,
        "oldest_message_age": row["oldest_message_age"],
        "messages_per_second": rate(&row, "messages"),
        "published_per_second": figures.published,
        "delivered_per_second": figures.delivered,
        "acknowledged_per_second": figures.acknowledged,
        "redelivered_per_second": figures.redelivered,
        "effective_policy_definition": row["effective_policy_definition"],
        "alarm": nodes.iter().any(has_alarm),
        "consumers": consumers,
        "publishers": publishers(publishing, &channels),
    })))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_say_why_a_queue_grows() {
        let well = Figures {
            published: 10.0,
            delivered: 10.0,
            acknowledged: 10.0,
            consumers: 1,
            runs: true,
            ..Figures::default()
        };
        let cases: [(&[&str], Figures); 8] = [
            (&["not_growing"], well),
            (
                &["no_leader"],
                Figures {
                    runs: false,
                    ..well
                },
            ),
            (
                &["no_consumers", "more_in_than_out"],
                Figures {
                    ready: 5,
                    consumers: 0,
                    delivered: 0.0,
                    acknowledged: 0.0,
                    ..well
                },
            ),
            (
                &["consumers_full"],
                Figures {
                    ready: 5,
                    full: 1,
                    ..well
                },
            ),
            (
                &["not_growing"],
                Figures {
                    ready: 5,
                    full: 1,
                    consumers: 2,
                    ..well
                },
            ),
            (
                &["nothing_acknowledged", "more_in_than_out"],
                Figures {
                    unacknowledged: 3,
                    acknowledged: 0.0,
                    ..well
                },
            ),
            (
                &["requeued"],
                Figures {
                    redelivered: 8.0,
                    ..well
                },
            ),
            (
                &["single_active"],
                Figures {
                    single_active: true,
                    consumers: 2,
                    ..well
                },
            ),
        ];
        for (expected, figures) in cases {
            let found: Vec<_> = findings(&figures)
                .into_iter()
                .map(|(word, _)| word)
                .collect();
            assert_eq!(found, expected, "{figures:?}");
        }
    }
}
