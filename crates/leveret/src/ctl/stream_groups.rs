//! Groups of consumers of streams, and the messages of a stream: Leveret's own commands.

use super::lists::List;
use super::{Context, Failure, Output};
use crate::cli::http::segment;
use crate::cli::table::show;
use crate::plain_text;
use leveret_management::timestamps::{MOMENTS, moment_ms};
use serde_json::{Map, Value, json};
use std::fmt::Write;

type Result<T> = std::result::Result<T, Failure>;

const GROUPS: List = List {
    default: &["stream", "name", "members", "lag", "rate"],
    columns: &[
        ("vhost", "vhost"),
        ("stream", "stream"),
        ("name", "name"),
        ("partition", "partition"),
        ("members", "members"),
        ("unused", "unused"),
        ("offset", "offset"),
        ("committed_offset", "committed_offset"),
        ("lag", "lag"),
        ("rate", "rate"),
    ],
};

/// The list that a command shows; none if it shows none of these.
pub(super) fn list(command: &str) -> Option<&'static List> {
    (command == "list_stream_groups").then_some(&GROUPS)
}

/// The rows of a group: one of all its partitions, or one for each of them.
fn rows_of(group: &Value, by_partition: bool) -> Vec<Value> {
    let members = group["members"].as_array().map_or(&[][..], Vec::as_slice);
    let partitions = group["partitions"]
        .as_array()
        .map_or(&[][..], Vec::as_slice);
    let row = |counted: usize, rest: &Value| {
        let mut row = json!({
            "vhost": group["vhost"],
            "stream": group["stream"],
            "name": group["name"],
            "members": counted,
            "unused": counted == 0,
        });
        for (key, value) in rest.as_object().into_iter().flatten() {
            row[key] = value.clone();
        }
        row
    };
    if by_partition {
        let of_one = |partition: &Value| {
            let of_it = |member: &&Value| member["queue"]["name"] == partition["stream"];
            let rest = json!({
                "partition": partition["stream"],
                "offset": partition["offset"],
                "committed_offset": partition["committed_offset"],
                "lag": partition["lag"],
                "rate": partition["rate"],
            });
            row(members.iter().filter(of_it).count(), &rest)
        };
        return partitions.iter().map(of_one).collect();
    }
    let mut rest = json!({"lag": group["lag"], "rate": group["rate"]});
    if let [only] = partitions {
        rest["offset"] = only["offset"].clone();
        rest["committed_offset"] = only["committed_offset"].clone();
    }
    vec![row(members.len(), &rest)]
}

pub fn list_stream_groups(context: &Context<'_>) -> Result<Output> {
    let vhost = context.vhost();
    let lines = [format!("Listing stream groups for vhost {vhost} ...")];
    GROUPS.show(context, &lines, || {
        let wanted = ["partition", "offset", "committed_offset"];
        let mut named = context.arguments.iter();
        let by_partition = named.any(|name| wanted.contains(&name.as_str()));
        let groups = super::lists::of_vhost(context, "leveret/stream-groups")?;
        let groups = groups.as_array().map_or(&[][..], Vec::as_slice).iter();
        Ok(groups
            .flat_map(|group| rows_of(group, by_partition))
            .collect())
    })
}

fn group_path(context: &Context<'_>) -> String {
    let (stream, group) = (segment(context.argument(0)), segment(context.argument(1)));
    format!(
        "/api/leveret/stream-groups/{}/{stream}/{group}",
        segment(context.vhost())
    )
}

/// The place that the third argument or `--timestamp` names.
fn place(context: &Context<'_>, argument: usize) -> Result<Option<(&'static str, Value)>> {
    let named = context.arguments.get(argument).map(String::as_str);
    let usage = |text: &str| Err(Failure::usage(text));
    match (named, context.options.named("--timestamp")) {
        (None, None) => Ok(None),
        (Some("first"), None) => Ok(Some(("offset", json!("first")))),
        (Some("last"), None) => Ok(Some(("offset", json!("last")))),
        (Some(offset), None) => match offset.parse::<u64>() {
            Ok(offset) => Ok(Some(("offset", json!(offset)))),
            Err(_) => usage("the offset must be first, last or a whole number, 0 or more"),
        },
        (None, Some(time)) => match moment_ms(time) {
            Some(time) => Ok(Some(("timestamp", json!(time)))),
            None => usage(&format!("--timestamp must be {MOMENTS}")),
        },
        (Some(_), Some(_)) => usage("give an offset or --timestamp, not both"),
    }
}

pub fn set_stream_group_offset(context: &Context<'_>) -> Result<Output> {
    let usage = || Failure::usage("an offset (first, last or a number) or --timestamp is missing");
    let (key, value) = place(context, 2)?.ok_or_else(usage)?;
    let (stream, group) = (context.argument(0), context.argument(1));
    context.banner(format!(
        "Setting the offset of group {group} of stream {stream} ..."
    ));
    let mut body = Map::from_iter([(key.to_owned(), value)]);
    if let Some(partition) = context.options.named("--partition") {
        body.insert("partition".to_owned(), partition.into());
    }
    if context.options.has("--create") {
        body.insert("create".to_owned(), true.into());
    }
    let set = context
        .target
        .call("PUT", &group_path(context), Some(&body.into()))?;
    let mut text = String::new();
    for partition in set["partitions"].as_array().into_iter().flatten() {
        let (stream, offset) = (show(&partition["stream"]), show(&partition["offset"]));
        let _ = writeln!(text, "{stream}\t{offset}");
    }
    Ok(Output::Object(set, text))
}

pub fn delete_stream_group(context: &Context<'_>) -> Result<Output> {
    let (stream, group) = (context.argument(0), context.argument(1));
    context.banner(format!("Deleting group {group} of stream {stream} ..."));
    context.target.call("DELETE", &group_path(context), None)?;
    Ok(Output::Done)
}

/// A message as people read it.
fn message_text(message: &Value) -> String {
    let mut text = format!("offset {}, ", show(&message["offset"]));
    if let Some(why) = message["unreadable"].as_str() {
        let _ = writeln!(text, "{} messages: {why}", show(&message["messages"]));
        return text;
    }
    let _ = writeln!(
        text,
        "time {} ms, {} bytes, {}",
        show(&message["timestamp"]),
        show(&message["payload_bytes"]),
        show(&message["payload_encoding"]),
    );
    let properties = message["properties"].as_object().into_iter().flatten();
    for (name, value) in properties {
        let _ = writeln!(text, "  {name}: {}", show(value));
    }
    let payload = message["payload"].as_str().unwrap_or_default();
    // What a message has in it gives no orders to the terminal of whoever reads it.
    let is_plain = |c: &char| !plain_text::is_order(*c) || matches!(c, '\n' | '\t');
    text.extend(
        payload
            .chars()
            .map(|c| if is_plain(&c) { c } else { '\u{fffd}' }),
    );
    text.push('\n');
    text
}

pub fn browse_stream(context: &Context<'_>) -> Result<Output> {
    let stream = context.argument(0);
    let mut query = Vec::new();
    if let Some((key, value)) = place(context, 1)? {
        query.push(format!("{key}={}", show(&value)));
    }
    for option in ["count", "filter"] {
        if let Some(value) = context.options.named(&format!("--{option}")) {
            query.push(format!("{option}={}", segment(value)));
        }
    }
    context.banner(format!("Messages of stream {stream} ..."));
    let (vhost, name) = (segment(context.vhost()), segment(stream));
    let path = format!(
        "/api/leveret/streams/{vhost}/{name}/messages?{}",
        query.join("&")
    );
    let shown = context.target.get(&path)?;
    let messages = shown["messages"].as_array().into_iter().flatten();
    let mut text: String = messages
        .map(|message| message_text(message) + "\n")
        .collect();
    let _ = writeln!(text, "next offset {}", show(&shown["next_offset"]));
    Ok(Output::Object(shown, text))
}
