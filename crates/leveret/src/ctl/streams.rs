//! `rabbitmq-streams`: clients of the stream protocol, what streams keep by name, super streams.

use super::lists::List;
use super::node::{or_no_queue, queue_path};
use super::{Context, Failure, Output, code};
use crate::cli::http::segment;
use crate::cli::table::{Rows, show};
use crate::config::value;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

type Result<T> = std::result::Result<T, Failure>;

const CONNECTIONS: List = List {
    default: &["conn_name"],
    columns: &[
        ("conn_name", "name"),
        ("node", "node"),
        ("port", "port"),
        ("host", "host"),
        ("peer_port", "peer_port"),
        ("peer_host", "peer_host"),
        ("user", "user"),
        ("vhost", "vhost"),
        ("subscriptions", "subscriptions"),
        ("connection_state", "state"),
        ("auth_mechanism", "auth_mechanism"),
        ("heartbeat", "timeout"),
        ("frame_max", "frame_max"),
        ("client_properties", "client_properties"),
        ("connected_at", "connected_at"),
        ("ssl", "ssl"),
        ("ssl_protocol", "ssl_protocol"),
        ("ssl_cipher", "ssl_cipher"),
        ("peer_cert_subject", "peer_cert_subject"),
    ],
};

const PUBLISHERS: List = List {
    default: &[
        "publisher_id",
        "stream",
        "reference",
        "messages_published",
        "messages_confirmed",
        "messages_errored",
    ],
    columns: &[
        ("connection_pid", "connection_details.name"),
        ("node", "connection_details.node"),
        ("publisher_id", "publisher_id"),
        ("stream", "queue.name"),
        ("reference", "reference"),
        ("messages_published", "published"),
        ("messages_confirmed", "confirmed"),
        ("messages_errored", "errored"),
    ],
};

const CONSUMERS: List = List {
    default: &[
        "subscription_id",
        "stream",
        "messages_consumed",
        "offset",
        "offset_lag",
        "credits",
        "active",
        "activity_status",
        "properties",
    ],
    columns: &[
        ("connection_pid", "connection_details.name"),
        ("node", "connection_details.node"),
        ("subscription_id", "subscription_id"),
        ("stream", "queue.name"),
        ("messages_consumed", "consumed"),
        ("offset", "offset"),
        ("offset_lag", "offset_lag"),
        ("credits", "credits"),
        ("active", "active"),
        ("activity_status", "activity_status"),
        ("properties", "properties"),
    ],
};

const GROUPS: List = List {
    default: &["stream", "reference", "partition_index", "consumers"],
    columns: &[
        ("stream", "stream"),
        ("reference", "reference"),
        ("partition_index", "partition_index"),
        ("consumers", "consumers"),
    ],
};

const MEMBERS: List = List {
    default: &["subscription_id", "connection_name", "state"],
    columns: &[
        ("subscription_id", "subscription_id"),
        ("connection_name", "connection_name"),
        ("state", "state"),
    ],
};

const SUPER_STREAMS: List = List {
    default: &[
        "super_stream",
        "routing",
        "partition",
        "binding_key",
        "drained",
    ],
    columns: &[
        ("super_stream", "super_stream"),
        ("routing", "routing"),
        ("partition", "partition"),
        ("binding_key", "binding_key"),
        ("drained", "drained"),
    ],
};

fn items(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn boxed(output: Output) -> Output {
    match output {
        Output::Rows(rows) => Output::Boxed(rows),
        other => other,
    }
}

fn of_vhost(context: &Context<'_>, what: &str) -> Result<Value> {
    super::lists::of_vhost(context, &format!("stream/{what}"))
}

/// The list that a command shows; none if it shows none of these.
pub(super) fn list(command: &str) -> Option<&'static List> {
    Some(match command {
        "list_stream_connections" => &CONNECTIONS,
        "list_stream_publishers" => &PUBLISHERS,
        "list_stream_consumers" => &CONSUMERS,
        "list_stream_consumer_groups" => &GROUPS,
        "list_stream_group_consumers" => &MEMBERS,
        "list_super_streams" => &SUPER_STREAMS,
        _ => return None,
    })
}

pub fn list_connections(context: &Context<'_>) -> Result<Output> {
    let lines = ["Listing stream connections ...".to_owned()];
    let shown = CONNECTIONS.show(context, &lines, || {
        let mut rows = context.target.get("/api/stream/connections")?;
        let subscriptions = context.target.get("/api/stream/consumers")?;
        for row in rows.as_array_mut().into_iter().flatten() {
            let of_it = |s: &&Value| s["connection_details"]["name"] == row["name"];
            row["subscriptions"] = items(&subscriptions).iter().filter(of_it).count().into();
        }
        Ok(rows)
    });
    shown.map(boxed)
}

pub fn list_publishers(context: &Context<'_>) -> Result<Output> {
    let lines = ["Listing stream publishers ...".to_owned()];
    let shown = PUBLISHERS.show(context, &lines, || of_vhost(context, "publishers"));
    shown.map(boxed)
}

pub fn list_consumers(context: &Context<'_>) -> Result<Output> {
    let lines = ["Listing stream consumers ...".to_owned()];
    let shown = CONSUMERS.show(context, &lines, || of_vhost(context, "consumers"));
    shown.map(boxed)
}

/// The groups of which one member at a time is active, by stream and name: their members.
fn groups(consumers: &Value) -> BTreeMap<(String, String), Vec<Value>> {
    let mut groups: BTreeMap<_, Vec<Value>> = BTreeMap::new();
    for consumer in items(consumers) {
        if consumer["activity_status"] != "up" {
            let stream = show(&consumer["queue"]["name"]);
            let name = show(&consumer["properties"]["name"]);
            groups
                .entry((stream, name))
                .or_default()
                .push(consumer.clone());
        }
    }
    groups
}

/// Where a stream comes among the partitions of its super stream; -1 if it is none of one.
fn partition_index(super_streams: &Value, member: &Value) -> i64 {
    let (stream, of) = (
        &member["queue"]["name"],
        &member["properties"]["super-stream"],
    );
    let found = items(super_streams)
        .iter()
        .find(|known| known["name"] == *of);
    let index = found.and_then(|found| {
        items(&found["partitions"])
            .iter()
            .position(|partition| partition["name"] == *stream)
    });
    index
        .and_then(|index| i64::try_from(index).ok())
        .unwrap_or(-1)
}

pub fn list_groups(context: &Context<'_>) -> Result<Output> {
    let lines = ["Listing stream consumer groups ...".to_owned()];
    let shown = GROUPS.show(context, &lines, || {
        let super_streams = of_vhost(context, "super-streams")?;
        let rows = groups(&of_vhost(context, "consumers")?).into_iter();
        let rows = rows.map(|((stream, reference), members)| {
            let index = members.first().map(|m| partition_index(&super_streams, m));
            json!({
                "stream": stream,
                "reference": reference,
                "partition_index": index,
                "consumers": members.len(),
            })
        });
        Ok(rows.collect())
    });
    shown.map(boxed)
}

/// The value of an option that the command cannot do without.
fn needed<'a>(context: &'a Context<'_>, option: &str) -> Result<&'a str> {
    let usage = || Failure::usage(format!("not enough arguments: {option} is missing"));
    context.options.named(option).ok_or_else(usage)
}

pub fn list_group_consumers(context: &Context<'_>) -> Result<Output> {
    let (stream, reference) = (
        needed(context, "--stream")?,
        needed(context, "--reference")?,
    );
    let lines = ["Listing group consumers ...".to_owned()];
    let shown = MEMBERS.show(context, &lines, || {
        let key = (stream.to_owned(), reference.to_owned());
        let members = groups(&of_vhost(context, "consumers")?).remove(&key);
        let missing = || Failure::new(code::SOFTWARE, "The group does not exist");
        let rows = members.ok_or_else(missing)?.into_iter().map(|member| {
            let state = match member["active"] == true {
                true => "active (connected)",
                false => "waiting (connected)",
            };
            json!({
                "subscription_id": member["subscription_id"],
                "connection_name": member["connection_details"]["name"],
                "state": state,
            })
        });
        Ok(rows.collect())
    });
    shown.map(boxed)
}

/// The stream that the first argument names.
fn stream(context: &Context<'_>) -> Result<Value> {
    let queue = context.target.get(&queue_path(context));
    let queue = or_no_queue(context, queue)?;
    match queue["type"].as_str() {
        Some("stream") => Ok(queue),
        kind => Err(Failure::new(
            code::SOFTWARE,
            format!(
                "Cannot get stream status of a {} queue",
                kind.unwrap_or("?")
            ),
        )),
    }
}

/// What a stream keeps by name: offsets of consumers, publishing ids of publishers.
fn tracked(context: &Context<'_>) -> Result<Value> {
    stream(context)?;
    let (vhost, name) = (segment(context.vhost()), segment(context.argument(0)));
    Ok(context
        .target
        .get(&format!("/api/stream/{vhost}/{name}/tracking"))?)
}

/// The rows of one part of it: each with its type, its name and its number.
fn rows_of<'a>(tracked: &'a Value, part: &str, kind: &'a str) -> impl Iterator<Item = Vec<Value>> {
    let pairs = tracked[part].as_object().into_iter().flatten();
    pairs.map(move |(name, value)| vec![kind.into(), name.as_str().into(), value.clone()])
}

pub fn list_tracking(context: &Context<'_>) -> Result<Output> {
    let options = context.options;
    let chosen = ["--all", "--offset", "--writer"];
    if chosen.iter().filter(|flag| options.has(flag)).count() > 1 {
        return Err(Failure::usage(
            "Specify only one of --all, --offset, --writer.",
        ));
    }
    let name = context.argument(0);
    context.banner(format!(
        "Listing tracking information for stream {name} ..."
    ));
    let tracked = tracked(context)?;
    let mut rows = Vec::new();
    if !options.has("--writer") {
        rows.extend(rows_of(&tracked, "offsets", "offset"));
    }
    if !options.has("--offset") {
        rows.extend(rows_of(&tracked, "writers", "writer"));
    }
    let column = match options.has("--offset") {
        true => "offset",
        false => "offset (sequence)",
    };
    Ok(Output::Boxed(Rows {
        columns: ["type", "name", column].map(str::to_owned).into(),
        rows,
    }))
}

pub fn stream_status(context: &Context<'_>) -> Result<Output> {
    let node = context.target.name()?;
    let name = context.argument(0);
    context.banner(format!("Status of stream {name} on node {node} ..."));
    if context.options.has("--tracking") {
        let tracked = tracked(context)?;
        let offsets = rows_of(&tracked, "offsets", "offsets");
        let rows = offsets.chain(rows_of(&tracked, "writers", "sequences"));
        return Ok(Output::Boxed(Rows {
            columns: ["type", "reference", "value"].map(str::to_owned).into(),
            rows: rows.collect(),
        }));
    }
    stream(context)?;
    let (vhost, name) = (segment(context.vhost()), segment(name));
    let path = format!("/api/leveret/streams/{vhost}/{name}/status");
    let replicas = context.target.get(&path)?;
    let mut columns = vec![
        "role",
        "node",
        "offset",
        "committed_offset",
        "first_offset",
        "readers",
        "segments",
    ];
    // RabbitMQ has no such column: scripts that read its columns find those, unless there is news.
    if items(&replicas).iter().any(|row| row["state"] == "damaged") {
        columns.push("state");
    }
    let columns: Vec<_> = columns.into_iter().map(|column| (column, column)).collect();
    Ok(Output::Boxed(Rows::pick(items(&replicas), &columns)))
}

/// Another replica leads the stream where one is named; else there is nothing to do, as a stream
/// whose leader has gone elects by itself.
pub fn restart_stream(context: &Context<'_>) -> Result<Output> {
    let name = context.argument(0);
    context.banner(format!("Restarting stream {name} ..."));
    let stream = stream(context)?;
    if let Some(wanted) = context.options.named("--preferred-leader-node")
        && stream["leader"] != wanted
        && stream["node"] != wanted
    {
        let body = json!({"node": wanted, "queue": name, "vhost": context.vhost()});
        super::cluster::change(context, "transfer", &body)?;
    }
    Ok(Output::Done)
}

pub fn add_replica(context: &Context<'_>) -> Result<Output> {
    let (stream, node) = (context.argument(0), context.argument(1));
    context.banner(format!(
        "Adding a replica for stream {stream} on node {node}..."
    ));
    change_replica(context, "POST")
}

pub fn delete_replica(context: &Context<'_>) -> Result<Output> {
    let (stream, node) = (context.argument(0), context.argument(1));
    context.banner(format!(
        "Removing a replica of stream {stream} on node {node}..."
    ));
    change_replica(context, "DELETE")
}

fn change_replica(context: &Context<'_>, method: &str) -> Result<Output> {
    stream(context)?;
    let (vhost, name) = (segment(context.vhost()), segment(context.argument(0)));
    let node = segment(context.argument(1));
    let path = format!("/api/leveret/streams/{vhost}/{name}/replicas/{node}");
    context.target.call(method, &path, None)?;
    Ok(Output::Done)
}

pub fn reset_offset(context: &Context<'_>) -> Result<Output> {
    let reference = needed(context, "--reference")?;
    let name = needed(context, "--stream")?;
    let (vhost, stream) = (segment(context.vhost()), segment(name));
    context.banner("Resetting stored offset ...");
    let tracked = context
        .target
        .get(&format!("/api/stream/{vhost}/{stream}/tracking"));
    let tracked = tracked.map_err(|error| match error {
        crate::cli::target::CallError::Refused(404, _) => {
            Failure::new(code::DATA, "The stream does not exist")
        }
        other => other.into(),
    })?;
    if tracked["offsets"].get(reference).is_none() {
        return Err(Failure::new(code::DATA, "The reference does not exist"));
    }
    let reference = segment(reference);
    let path = format!("/api/leveret/streams/{vhost}/{stream}/offsets/{reference}");
    context
        .target
        .call("PUT", &path, Some(&json!({"offset": 0})))?;
    Ok(Output::Done)
}

// --- super streams -----------------------------------------------------------------------------

/// Bytes of a text such as `20gb`.
fn bytes(text: &str) -> Option<u64> {
    value::bytes(text, 1, u64::MAX).ok()
}

/// Seconds of a duration in the form of ISO 8601: `P5DT8H`, `PT10M30S`. A year counts 365 days, a
/// month 30.
fn seconds(text: &str) -> Option<u64> {
    let (date, time) = match text.strip_prefix('P')?.split_once('T') {
        Some((_, "")) => return None,
        Some((date, time)) => (date, time),
        None => (&text[1..], ""),
    };
    const DAY: u64 = 86_400;
    let of_date = [
        ('Y', 365 * DAY),
        ('M', 30 * DAY),
        ('W', 7 * DAY),
        ('D', DAY),
    ];
    let of_time = [('H', 3_600), ('M', 60), ('S', 1)];
    let sum = add_up(date, &of_date)?.checked_add(add_up(time, &of_time)?)?;
    (sum > 0).then_some(sum)
}

/// The sum of numbers with units, whose order is that of `units`.
fn add_up(mut text: &str, units: &[(char, u64)]) -> Option<u64> {
    let (mut sum, mut units) = (0_u64, units.iter());
    while !text.is_empty() {
        let digits = text.find(|c: char| !c.is_ascii_digit())?;
        let (number, rest) = text.split_at(digits);
        let unit = rest.chars().next()?;
        let (_, seconds) = units.find(|(name, _)| *name == unit)?;
        sum = sum.checked_add(number.parse::<u64>().ok()?.checked_mul(*seconds)?)?;
        text = &rest[unit.len_utf8()..];
    }
    Some(sum)
}

/// The arguments of each partition.
fn arguments(context: &Context<'_>) -> Result<Map<String, Value>> {
    let options = context.options;
    let mut arguments = Map::new();
    for name in ["max-length-bytes", "stream-max-segment-size-bytes"] {
        if let Some(value) = options.named(&format!("--{name}")) {
            let wrong = || {
                let example = "valid example values: 100gb, 50mb";
                Failure::usage(format!("Invalid value for --{name}, {example}"))
            };
            arguments.insert(name.to_owned(), json!(bytes(value).ok_or_else(wrong)?));
        }
    }
    if let Some(value) = options.named("--max-age") {
        let wrong = "Invalid value for --max-age, the value must a ISO 8601 duration, e.g. e.g. PT10M30S for 10 \
            minutes 30 seconds, P5DT8H for 5 days 8 hours.";
        let seconds = seconds(value).ok_or_else(|| Failure::usage(wrong))?;
        arguments.insert("max-age".to_owned(), json!(format!("{seconds}s")));
    }
    if let Some(value) = options.named("--leader-locator") {
        let locator = match value {
            "client-local" | "balanced" => value,
            // Names that RabbitMQ gave up, and what they came to.
            "random" | "least-leaders" => "balanced",
            _ => {
                return Err(Failure::usage(
                    "Invalid value for --leader-locator, valid values are client-local, balanced.",
                ));
            }
        };
        arguments.insert("queue-leader-locator".to_owned(), json!(locator));
    }
    if let Some(value) = options.named("--initial-cluster-size") {
        let size = value.parse::<u32>().ok().filter(|size| *size > 0);
        let wrong = "Invalid value for --initial-cluster-size, the value must be positive.";
        let size = size.ok_or_else(|| Failure::usage(wrong))?;
        arguments.insert("initial-cluster-size".to_owned(), json!(size));
    }
    Ok(arguments)
}

fn super_stream_path(context: &Context<'_>) -> String {
    let (vhost, name) = (segment(context.vhost()), segment(context.argument(0)));
    format!("/api/stream/super-streams/{vhost}/{name}")
}

/// The partitions that are asked for: by their keys, or how many.
fn wanted_partitions(context: &Context<'_>) -> Result<Value> {
    let options = context.options;
    let keys = [
        options.named("--binding-keys"),
        options.named("--routing-keys"),
    ];
    Ok(match (options.named("--partitions"), keys) {
        (_, [Some(_), Some(_)]) => return Err(Failure::usage("Specify --binding-keys only.")),
        (Some(_), [Some(_), _] | [_, Some(_)]) => {
            let text = "Specify --partitions or --binding-keys, not both.";
            return Err(Failure::usage(text));
        }
        (None, [Some(keys), _] | [_, Some(keys)]) => json!({"binding-keys": keys}),
        (partitions, _) => {
            let count = partitions.unwrap_or("3").parse::<u32>().ok();
            let wrong = "The partition number must be greater than 0";
            let count = count.filter(|count| *count > 0);
            json!({"partitions": count.ok_or_else(|| Failure::usage(wrong))?})
        }
    })
}

pub fn add_super_stream_partitions(context: &Context<'_>) -> Result<Output> {
    let chosen = ["--partitions", "--binding-keys", "--routing-keys"];
    if chosen
        .iter()
        .all(|one| context.options.named(one).is_none())
    {
        let text = "Specify --partitions (how many more) or --binding-keys.";
        return Err(Failure::usage(text));
    }
    let mut body = wanted_partitions(context)?;
    let arguments = arguments(context)?;
    if !arguments.is_empty() {
        body["arguments"] = Value::Object(arguments);
    }
    context.banner("Adding partitions to a super stream...");
    let (vhost, name) = (segment(context.vhost()), segment(context.argument(0)));
    let path = format!("/api/leveret/super-streams/{vhost}/{name}/partitions");
    let told = context.target.call("POST", &path, Some(&body))?;
    let names = items(&told["added"]).iter();
    let names: Vec<&str> = names.filter_map(|one| one["name"].as_str()).collect();
    let name = context.argument(0);
    Ok(Output::Text(format!(
        "Super stream {name} has been given {}",
        names.join(", ")
    )))
}

/// The path of a partition, the second argument, that is to be drained.
fn drained_path(context: &Context<'_>) -> String {
    let (vhost, name) = (segment(context.vhost()), segment(context.argument(0)));
    let partition = segment(context.argument(1));
    format!("/api/leveret/super-streams/{vhost}/{name}/drained/{partition}")
}

pub fn drain_super_stream_partition(context: &Context<'_>) -> Result<Output> {
    let partition = context.argument(1);
    context.banner(format!("Draining partition {partition} ..."));
    context.target.call("PUT", &drained_path(context), None)?;
    Ok(Output::Done)
}

pub fn undrain_super_stream_partition(context: &Context<'_>) -> Result<Output> {
    let partition = context.argument(1);
    context.banner(format!("Publishing to partition {partition} again ..."));
    context
        .target
        .call("DELETE", &drained_path(context), None)?;
    Ok(Output::Done)
}

pub fn list_super_streams(context: &Context<'_>) -> Result<Output> {
    let lines = ["Listing super streams ...".to_owned()];
    let shown = SUPER_STREAMS.show(context, &lines, || {
        let super_streams = of_vhost(context, "super-streams")?;
        let mut rows = Vec::new();
        for one in items(&super_streams) {
            let routing = one["arguments"]["x-super-stream-routing"].as_str();
            for partition in items(&one["partitions"]) {
                rows.push(json!({
                    "super_stream": one["name"],
                    "routing": routing.unwrap_or("key"),
                    "partition": partition["name"],
                    "binding_key": partition["binding_key"],
                    "drained": partition["drained"],
                }));
            }
        }
        Ok(Value::Array(rows))
    });
    shown.map(boxed)
}

pub fn add_super_stream(context: &Context<'_>) -> Result<Output> {
    let mut body = wanted_partitions(context)?;
    let mut arguments = arguments(context)?;
    if let Some(routing) = context.options.named("--routing") {
        if !["key", "hash", "key-or-hash"].contains(&routing) {
            let text = "Invalid value for --routing, valid values are key, hash, key-or-hash.";
            return Err(Failure::usage(text));
        }
        arguments.insert("super-stream-routing".to_owned(), json!(routing));
    }
    body["arguments"] = Value::Object(arguments);
    context.banner("Adding a super stream...");
    context
        .target
        .call("PUT", &super_stream_path(context), Some(&body))?;
    let name = context.argument(0);
    Ok(Output::Text(format!(
        "Super stream {name} has been created"
    )))
}

pub fn delete_super_stream(context: &Context<'_>) -> Result<Output> {
    context.banner("Deleting super stream...");
    let name = context.argument(0);
    let deleted = context
        .target
        .call("DELETE", &super_stream_path(context), None);
    deleted.map_err(|error| match error {
        crate::cli::target::CallError::Refused(404, _) => Failure::new(
            code::SOFTWARE,
            format!("Super stream {name} does not exist"),
        ),
        other => other.into(),
    })?;
    Ok(Output::Text(format!(
        "Super stream {name} has been deleted"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_those_of_iso_8601() {
        for (text, expected) in [
            ("PT10M30S", Some(630)),
            ("P5DT8H", Some(460_800)),
            ("P1Y2M", Some(36_720_000)),
            ("P1W", Some(604_800)),
            ("PT1M", Some(60)),
            ("P1M", Some(2_592_000)),
            ("P", None),
            ("PT", None),
            ("P1DT", None),
            ("10M", None),
            ("PT10", None),
            ("PTS", None),
            ("PT1S1M", None),
            ("PT99999999999999999999S", None),
            ("Pü", None),
            ("", None),
        ] {
            assert_eq!(seconds(text), expected, "{text}");
        }
    }
}
