//! What a node answers when another one asks it: see [`crate::question`].

use crate::app::App;
use crate::history::ranges::Ranges;
use crate::http::chunked_body::write_json;
use crate::peers::without_zeros;
use crate::priority::let_others_run;
use crate::question::Question;
use crate::{
    attempts, changes, client_lists, delayed, disk, history::vhost_sums, moves, overview, pairs,
    queues, streams::browse, streams::groups, streams::rows, unacked,
};
use leveret_types::{ConnectionId, QueueId};
use serde_json::{Value, json};
use std::sync::Arc;

/// Answers what another node asks; with nothing (`null`) where the question makes no sense here, as
/// one of another version may not: who asks then need not wait.
#[must_use]
pub fn answer(app: &Arc<App>, asked: &[u8]) -> Vec<u8> {
    let answer = match Question::decode(asked) {
        None => Value::Null,
        Some(Question::QueueOrder { of, order }) => {
            // Zeros are not left out: each stands for a queue.
            return serde_json::to_vec(&queues::own_part(app, &of, &order)).unwrap_or_default();
        }
        Some(Question::Clients { kind, of, order }) => {
            let part = client_lists::own_part(app, kind, &of, &order);
            return serde_json::to_vec(&part).unwrap_or_default();
        }
        Some(Question::ClientsOf { kind, keys, ranges }) => {
            return client_lists::own_rows(app, kind, keys, ranges);
        }
        Some(Question::QueuesOf { ids, ranges }) => {
            let ids: Vec<QueueId> = ids.into_iter().map(QueueId).collect();
            return led(app, &ids, &ranges);
        }
        Some(question) => one(app, question),
    };
    // Numbers and texts always are JSON.
    serde_json::to_vec(&without_zeros(answer)).unwrap_or_default()
}

/// Queues whose figures are held at once.
const FIGURES: usize = 128;

/// Figures of those of some queues that are led here, and readers of other streams here, as a list.
/// One row is made at a time.
fn led(app: &App, ids: &[QueueId], ranges: &Ranges) -> Vec<u8> {
    let mut out = Vec::new();
    let separate = |out: &mut Vec<u8>| out.push(if out.is_empty() { b'[' } else { b',' });
    for ids in ids.chunks(FIGURES) {
        // Once for all of these: many may wait for this thread to answer.
        let_others_run(0);
        let queues = app.node().queues_of(ids);
        let owners = queues::owners(app, &queues);
        for queue in &queues {
            if !queue.follows {
                separate(&mut out);
                queues::write_stats(app, queue, &owners, ranges, &mut out);
            } else if let Some(row) = queues::at_replica(app, queue) {
                separate(&mut out);
                write_json(&mut out, &without_zeros(row));
            }
        }
    }
    out.extend_from_slice(if out.is_empty() { b"[]" } else { b"]" });
    out
}

/// Answers with one value.
fn one(app: &App, question: Question) -> Value {
    let node = app.node();
    match question {
        Question::QueueOrder { .. }
        | Question::QueuesOf { .. }
        | Question::Clients { .. }
        | Question::ClientsOf { .. } => Value::Null,
        Question::StreamPublishers => rows::own_publishers(app).into(),
        Question::StreamConsumers => rows::own_consumers(app).into(),
        Question::Node { ranges } => overview::own_node(app, &ranges),
        Question::Memory => overview::own_memory(app),
        Question::LimitedCounts => node.limited_counts(),
        Question::Overview { ranges } => overview::own_overview(app, &ranges),
        Question::Vhosts { only, ranges } => vhost_sums::own(app, only.as_deref(), &ranges),
        Question::Replica { queue } => queues::own_replica(app, QueueId(queue)),
        Question::Tracking { stream } => rows::own_tracking(app, QueueId(stream)),
        Question::StreamReplica { stream } => rows::own_replica(app, QueueId(stream)),
        Question::StoreOffset {
            stream,
            offset,
            name,
        } => json!(node.store_stream_offset(QueueId(stream), &name, offset)),
        Question::StreamGroups { only } => groups::own(app, only.map(QueueId)),
        Question::SetStreamGroup { stream, name, to } => {
            groups::told(node.set_stream_group(QueueId(stream), &name, to))
        }
        Question::MoveStreamGroup {
            vhost,
            stream,
            name,
            offset,
        } => {
            let stream = node.declared_queue(&vhost, &stream);
            json!(
                stream
                    .map(|stream| node.move_stream_group(&stream, &name, offset))
                    .is_some()
            )
        }
        Question::ForgetStreamGroup { stream, name } => {
            json!(node.forget_stream_group(QueueId(stream), &name))
        }
        Question::Browse {
            vhost,
            stream,
            browse,
        } => browse::own(app, &vhost, &stream, &browse),
        Question::ChangeReplica {
            stream,
            node: at,
            adds,
        } => match node.change_stream_replica(QueueId(stream), &at, adds) {
            Ok(true) => json!(true),
            // Another node leads it.
            Ok(false) => Value::Null,
            Err(why) => json!(why),
        },
        Question::AuthAttempts { forget: None } => attempts::own(app),
        Question::AuthAttempts { forget: Some(name) } => match node.name() == name {
            true => {
                attempts::forget_own(app);
                json!(true)
            }
            false => Value::Null,
        },
        Question::AuthSources => attempts::own_sources(app),
        Question::TrackAuthSources {
            node: name,
            tracked,
        } => match node.name() == name {
            true => {
                node.login_sources().track(tracked);
                json!(true)
            }
            false => Value::Null,
        },
        Question::ForgetRates { node: named } => overview::reset_own(app, named.as_deref()),
        Question::Changes => changes::own(app),
        Question::Held {
            vhost,
            queue,
            look,
            sought,
            truncate,
        } => unacked::own_messages(app, (&vhost, &queue), &look, (sought.as_ref(), truncate)),
        Question::Holders { held } => unacked::own_holders(app, &held),
        Question::ConsumersTagged { queue, tag } => {
            unacked::own_consumers_tagged(app, QueueId(queue), &tag)
        }
        Question::Moves => moves::own(app),
        Question::StopMove { id } => json!(moves::stop_own(app, &id)),
        Question::Disk { node: name } => match node.name() == name {
            true => disk::told(app),
            false => Value::Null,
        },
        Question::Delayed { of } => delayed::told(app, &of),
        Question::CancelDelayed { id } => delayed::cancel_told(app, &id),
        Question::Pairs { of } => pairs::own(app, &of),
        Question::Close { connection, reason } => {
            json!(node.close_connection(ConnectionId(connection), &reason))
        }
    }
}
