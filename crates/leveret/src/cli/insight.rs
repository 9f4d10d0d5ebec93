//! `leveret growth`, `impact`, `audit`, `alarms`, `delayed`, `disk`: what the page shows of why
//! something is as it is, for a terminal.

use super::ask::{AskOptions, Object, queue_of};
use super::http::segment;
use super::set_aside::SET_ASIDE;
use super::table::{Rows, show};
use clap::Args;
use leveret_management::timestamps::rfc3339;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// Rows of a table where somebody does not say how many.
const ROWS: usize = 20;
/// Characters of a cell that a terminal has room for; JSON has all of them.
const CELL_CHARS: usize = 60;

#[derive(Args)]
pub(super) struct GrowthOptions {
    /// Name of the queue
    queue: String,
    /// Its virtual host
    #[arg(short = 'p', long, value_name = "NAME", default_value = "/")]
    vhost: String,
    #[command(flatten)]
    ask: AskOptions,
}

#[derive(Args)]
pub(super) struct ImpactOptions {
    /// Name of the node
    #[arg(value_name = "NODE")]
    which: String,
    #[command(flatten)]
    ask: AskOptions,
}

#[derive(Args)]
pub(super) struct AuditOptions {
    /// Changes of this user only; every user's where not given
    #[arg(long = "by", value_name = "NAME")]
    by: Option<String>,
    /// Changes of paths of the API with this text in them
    #[arg(long, value_name = "TEXT")]
    path: Option<String>,
    /// How many of the newest to show
    #[arg(long, value_name = "COUNT", default_value_t = ROWS as u64, value_parser = count())]
    rows: u64,
    #[command(flatten)]
    ask: AskOptions,
}

#[derive(Args)]
pub(super) struct DelayedOptions {
    /// Drop the message with this id, before it is due
    #[arg(long, value_name = "ID")]
    cancel: Option<String>,
    /// How many to show: the first that are due
    #[arg(long, value_name = "COUNT", default_value_t = ROWS as u64, value_parser = count())]
    rows: u64,
    #[command(flatten)]
    ask: AskOptions,
}

#[derive(Args)]
pub(super) struct DiskOptions {
    /// Name of the node; by default the one that is asked
    #[arg(value_name = "NODE")]
    which: Option<String>,
    #[command(flatten)]
    ask: AskOptions,
}

/// What a number of rows may be: the API keeps and tells no more.
fn count() -> clap::builder::RangedU64ValueParser {
    clap::value_parser!(u64).range(1..=500)
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn per_second(value: &Value) -> String {
    format!("{:.1}/s", value.as_f64().unwrap_or(0.0))
}

/// A moment that the API tells in milliseconds; nothing where it tells none.
fn moment(value: &Value) -> String {
    value.as_u64().map(rfc3339).unwrap_or_default()
}

fn mib(value: &Value) -> String {
    format!("{:.1} MiB", value.as_f64().unwrap_or(0.0) / 1_048_576.0)
}

/// A text of as many characters as a cell has room for.
fn short(text: &str) -> String {
    match text.char_indices().nth(CELL_CHARS) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

/// What a column shows of a row.
type Cell<'a> = &'a dyn Fn(&Value) -> String;

/// A table of what these columns show of each row, or a line where there are none.
fn table(rows: &[Value], columns: &[(&str, Cell<'_>)], none: &str) -> String {
    if rows.is_empty() {
        return format!("{none}\n");
    }
    let cells = |row: &Value| columns.iter().map(|(_, cell)| cell(row).into()).collect();
    Rows {
        columns: columns.iter().map(|(name, _)| (*name).to_owned()).collect(),
        rows: rows.iter().map(cells).collect(),
    }
    .aligned()
}

fn answered(ask: &AskOptions, path: &str, text: fn(&Value) -> String) -> Result<String, String> {
    Ok(shown(ask, &ask.get(path)?, text))
}

fn shown(ask: &AskOptions, found: &Value, text: fn(&Value) -> String) -> String {
    match ask.json {
        true => format!("{found:#}\n"),
        false => text(found),
    }
}

/// What is told of one node.
fn of_node(
    ask: &AskOptions,
    path: &str,
    node: &str,
    text: fn(&Value) -> String,
) -> Result<String, String> {
    let object = Object {
        what: &format!("node '{node}'"),
        list: "cluster status",
    };
    Ok(shown(ask, &ask.get_object(path, &object)?, text))
}

/// A count, with what is said of one or of any other number.
fn counted(count: &Value, [one, many]: [&str; 2]) -> String {
    match count.as_u64() {
        Some(1) => format!("1 {one}"),
        _ => format!("{} {many}", show(count)),
    }
}

/// `leveret growth QUEUE`
pub(super) fn growth(options: &GrowthOptions) -> Result<String, String> {
    let (vhost, queue) = (segment(&options.vhost), segment(&options.queue));
    let path = format!("/api/leveret/queues/{vhost}/{queue}/growth");
    let object = Object {
        what: &queue_of(&options.vhost, &options.queue),
        list: "list queues",
    };
    let found = options.ask.get_object(&path, &object)?;
    Ok(shown(&options.ask, &found, growth_text))
}

fn growth_text(found: &Value) -> String {
    let mut text = String::new();
    for finding in list(&found["findings"]) {
        let _ = writeln!(text, "{}", show(&finding["says"]));
    }
    if found["alarm"] == true {
        text.push_str("a node is short of memory or disk: publishers are held back\n");
    }
    let rates = ["published", "delivered", "acknowledged", "redelivered"];
    let rates: Vec<String> = rates
        .iter()
        .map(|what| {
            format!(
                "{what} {}",
                per_second(&found[format!("{what}_per_second")])
            )
        })
        .collect();
    let _ = writeln!(
        text,
        "{} ready, {} unacked; {}\n",
        show(&found["messages_ready"]),
        show(&found["messages_unacknowledged"]),
        rates.join(", ")
    );
    text.push_str(&table(
        list(&found["consumers"]),
        &[
            ("consumer", &|row| show(&row["consumer_tag"])),
            ("connection", &|row| show(&row["connection"])),
            ("user", &|row| show(&row["user"])),
            ("prefetch", &|row| show(&row["prefetch_count"])),
            ("unacked", &|row| show(&row["channel_unacknowledged"])),
            ("oldest unacked since", &|row| {
                moment(&row["oldest_unacknowledged_at"])
            }),
            ("acks", &|row| per_second(&row["acks_per_second"])),
        ],
        "nobody consumes",
    ));
    text.push('\n');
    text.push_str(&table(
        list(&found["publishers"]),
        &[
            ("publisher", &|row| show(&row["connection"])),
            ("user", &|row| show(&row["user"])),
            ("exchange", &|row| show(&row["exchange"])),
            ("published", &|row| per_second(&row["publishes_per_second"])),
            ("unconfirmed", &|row| show(&row["unconfirmed"])),
        ],
        "nobody publishes to it",
    ));
    text
}

/// `leveret impact NODE`
pub(super) fn impact(options: &ImpactOptions) -> Result<String, String> {
    let path = format!("/api/leveret/nodes/{}/impact", segment(&options.which));
    of_node(&options.ask, &path, &options.which, impact_text)
}

fn impact_text(found: &Value) -> String {
    let node = show(&found["node"]);
    let mut text = match found["harmless"] == true {
        true => format!("if {node} stops, no queue stands still\n"),
        false => format!("if {node} stops, something breaks:\n"),
    };
    if found["declarations_stop"] == true {
        text.push_str("  nothing can be declared or deleted until it is back\n");
    }
    let closed = ["connection is closed", "connections are closed"];
    let closed = counted(&found["connections_closed"], closed);
    let _ = writeln!(text, "  {closed}");
    let mut rows = Vec::new();
    for (field, fate, sentence) in [
        (
            "queues_gone",
            "unusable",
            [
                "queue exists only there: nobody can use it",
                "queues exist only there: nobody can use them",
            ],
        ),
        (
            "queues_without_majority",
            "stands still",
            ["queue loses its majority", "queues lose their majority"],
        ),
        (
            "queues_going_on",
            "goes on",
            [
                "queue goes on with a replica less",
                "queues go on with a replica less",
            ],
        ),
    ] {
        let queues = &found[field];
        if queues["count"] != 0 {
            let count = counted(&queues["count"], sentence);
            let _ = writeln!(text, "  {count}");
        }
        rows.extend(list(&queues["queues"]).iter().map(|queue| {
            let mut row = queue.clone();
            row["fate"] = fate.into();
            row
        }));
    }
    text.push('\n');
    rows.truncate(ROWS);
    text + &table(
        &rows,
        &[
            ("vhost", &|row| show(&row["vhost"])),
            ("queue", &|row| show(&row["name"])),
            ("type", &|row| show(&row["type"])),
            ("fate", &|row| show(&row["fate"])),
        ],
        "it has no queue",
    )
}

/// `leveret audit`
pub(super) fn audit(options: &AuditOptions) -> Result<String, String> {
    let mut path = format!("/api/leveret/changes?page=1&page_size={}", options.rows);
    for (name, value) in [("user", &options.by), ("name", &options.path)] {
        if let Some(value) = value {
            let _ = write!(path, "&{name}={}", segment(value));
        }
    }
    answered(&options.ask, &path, audit_text)
}

fn audit_text(found: &Value) -> String {
    table(
        list(&found["items"]),
        &[
            ("time", &|row| show(&row["time"])),
            ("user", &|row| show(&row["user"])),
            ("what", &|row| {
                short(&format!("{} {}", show(&row["method"]), show(&row["path"])))
            }),
            ("answer", &|row| show(&row["status"])),
            ("before and after", &|row| short(&difference(row))),
        ],
        "nothing was changed",
    )
}

/// What a change has changed, in words that fit a line.
fn difference(change: &Value) -> String {
    let (before, after) = (&change["before"], &change["after"]);
    if let Some(reason) = change["reason"].as_str() {
        return show(&reason.into());
    }
    match (before.as_object(), after.as_object()) {
        (Some(_), None) => "deleted".to_owned(),
        (None, Some(_)) => "created".to_owned(),
        (None, None) => show(&change["asked"]),
        (Some(was), Some(is)) => {
            let names: BTreeSet<&String> = was.keys().chain(is.keys()).collect();
            let differs = names
                .into_iter()
                .filter(|name| before[*name] != after[*name]);
            let change = |name: &String| {
                format!("{name}: {} -> {}", show(&before[name]), show(&after[name]))
            };
            let changes: Vec<String> = differs.map(change).collect();
            match changes.is_empty() {
                true => "unchanged".to_owned(),
                false => changes.join("; "),
            }
        }
    }
}

/// `leveret alarms`
pub(super) fn alarms(ask: &AskOptions) -> Result<String, String> {
    answered(ask, "/api/leveret/alarms", alarms_text)
}

fn alarms_text(found: &Value) -> String {
    let mut text = String::new();
    for node in list(&found["nodes"]) {
        for (alarm, what, used, limit) in [
            ("mem_alarm", "memory", "mem_used", "mem_limit"),
            ("disk_free_alarm", "disk", "disk_free", "disk_free_limit"),
        ] {
            if node[alarm] == true {
                let (used, limit) = (mib(&node[used]), mib(&node[limit]));
                let name = show(&node["name"]);
                let _ = writeln!(
                    text,
                    "{name} is short of {what}: {used}, the limit is {limit}"
                );
            }
        }
    }
    if text.is_empty() {
        text.push_str("no alarm\n");
    }
    text.push('\n');
    text + &table(
        list(&found["held_back"]),
        &[
            ("held back", &|row| show(&row["name"])),
            ("user", &|row| show(&row["user"])),
            ("vhost", &|row| show(&row["vhost"])),
            ("node", &|row| show(&row["node"])),
            ("state", &|row| show(&row["state"])),
        ],
        "no connection is held back",
    )
}

/// `leveret delayed`
pub(super) fn delayed(options: &DelayedOptions) -> Result<String, String> {
    if let Some(id) = &options.cancel {
        let path = format!("/api/leveret/delayed/{}", segment(id));
        let target = options.ask.target()?;
        let dropped = target.call("DELETE", &path, None);
        let message = Object {
            what: &format!("delayed message '{id}'"),
            list: "delayed",
        };
        dropped.map_err(|error| message.absent(error))?;
        return Ok(format!("{id}: dropped\n"));
    }
    let path = format!("/api/leveret/delayed?limit={}&truncate=256", options.rows);
    answered(&options.ask, &path, delayed_text)
}

fn delayed_text(found: &Value) -> String {
    let mut text = format!("{} messages are kept back\n", show(&found["total_count"]));
    for node in list(&found["silent_nodes"]) {
        text.push_str(&format!(
            "{} does not answer: its own are not counted\n",
            show(node)
        ));
    }
    text + "\n"
        + &table(
            list(&found["messages"]),
            &[
                ("due", &|row| show(&row["due"])),
                ("id", &|row| show(&row["id"])),
                ("vhost", &|row| show(&row["vhost"])),
                ("exchange", &|row| show(&row["exchange"])),
                ("key", &|row| show(&row["routing_key"])),
                ("bytes", &|row| show(&row["payload_bytes"])),
            ],
            "none is shown",
        )
}

/// `leveret disk [NODE]`
pub(super) fn disk(options: &DiskOptions) -> Result<String, String> {
    let Some(node) = &options.which else {
        return answered(&options.ask, "/api/leveret/disk", disk_text);
    };
    let path = format!("/api/leveret/disk/{}", segment(node));
    of_node(&options.ask, &path, node, disk_text)
}

fn disk_text(found: &Value) -> String {
    let count = |field: &str| show(&found[field]);
    let text = format!(
        "{}: {} free, alarm below {}\nwrite-ahead log  {} in {} files\nsegments         {} in {} files, {} still needed\nstreams          {} in {} files\n",
        show(&found["node"]),
        mib(&found["disk_free"]),
        mib(&found["disk_free_limit"]),
        mib(&found["wal_bytes"]),
        count("wal_files"),
        mib(&found["segment_bytes"]),
        count("segment_files"),
        mib(&found["segment_live_bytes"]),
        mib(&found["stream_bytes"]),
        count("stream_files"),
    );
    let aside = match found["set_aside_files"].as_u64() {
        None | Some(0) => String::new(),
        Some(files) => format!(
            "set aside        {} in {files} files in {}\n{SET_ASIDE}",
            mib(&found["set_aside_bytes"]),
            show(&found["set_aside_folder"]),
        ),
    };
    let queues = list(&found["queues"]);
    let text = text + &aside + "\n";
    text + &table(
        &queues[..queues.len().min(ROWS)],
        &[
            ("vhost", &|row| show(&row["vhost"])),
            ("queue", &|row| show(&row["name"])),
            ("type", &|row| show(&row["type"])),
            ("entries", &|row| show(&row["entries"])),
            ("bytes", &|row| mib(&row["bytes"])),
            ("in segments", &|row| mib(&row["segment_bytes"])),
        ],
        "no queue has anything on it",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_change_is_told_by_what_differs() {
        let change = |before: Value, after: Value| json!({"before": before, "after": after, "asked": {"a": 1}});
        for (change, expected) in [
            (
                change(json!({"a": 1, "b": 2}), json!({"a": 3, "b": 2})),
                "a: 1 -> 3",
            ),
            (change(json!({"a": 1}), json!({"a": 1})), "unchanged"),
            (change(json!({"a": 1}), Value::Null), "deleted"),
            (change(Value::Null, json!({"a": 1})), "created"),
            (change(Value::Null, Value::Null), "[{\"a\",1}]"),
            (json!({"reason": "no\u{1b}"}), "no\\u001b"),
        ] {
            assert_eq!(difference(&change), expected);
        }
    }

    #[test]
    fn who_slows_a_queue_down_is_shown_with_since_when() {
        let consumer = |tag: &str, held: u64, since: Value| {
            json!({"consumer_tag": tag, "connection": "c", "user": "u", "prefetch_count": 10,
                "channel_unacknowledged": held, "oldest_unacknowledged_at": since,
                "acks_per_second": 0.5})
        };
        let found = json!({
            "findings": [{"finding": "consumers_full", "says": "they are slow"}],
            "messages_ready": 5, "messages_unacknowledged": 10, "published_per_second": 2.0,
            "consumers": [
                consumer("holds", 10, 1_764_435_600_250_u64.into()),
                consumer("idle", 0, Value::Null),
            ],
        });
        let expected = [
            "they are slow",
            "5 ready, 10 unacked; published 2.0/s, delivered 0.0/s, acknowledged 0.0/s, \
             redelivered 0.0/s",
            "",
            "consumer  connection  user  prefetch  unacked  oldest unacked since           acks",
            "holds     c           u     10        10       2025-11-29T17:00:00.250+00:00  0.5/s",
            "idle      c           u     10        0                                       0.5/s",
            "",
            "nobody publishes to it",
        ];
        assert_eq!(growth_text(&found).lines().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_cell_fits_the_terminal() {
        assert_eq!(short(&"ü".repeat(CELL_CHARS)).chars().count(), CELL_CHARS);
        let cut = short(&"ü".repeat(CELL_CHARS + 1));
        assert_eq!(cut.chars().count(), CELL_CHARS + 1);
        assert!(cut.ends_with('…'));
    }

    #[test]
    fn what_breaks_is_named() {
        let none = json!({"count": 0, "queues": []});
        let gone = json!({"count": 1, "queues": [{"vhost": "/", "name": "q", "type": "classic"}]});
        let found = json!({"node": "n", "harmless": false, "declarations_stop": true,
            "connections_closed": 2, "queues_gone": gone, "queues_without_majority": none,
            "queues_going_on": none});
        assert_eq!(
            impact_text(&found),
            "if n stops, something breaks:\n  nothing can be declared or deleted until it is back\n  \
             2 connections are closed\n  1 queue exists only there: nobody can use it\n\n\
             vhost  queue  type     fate\n/      q      classic  unusable\n"
        );
    }
}
