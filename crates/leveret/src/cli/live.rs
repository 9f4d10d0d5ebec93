//! `leveret top` and `leveret watch`: figures that are asked for again and again. `leveret peek`: a
//! message that stays where it is.
//!
//! Rates are what counters grew by between two answers, so that they are of the last interval and
//! not of the node's own.

use super::ask::{AskOptions, Object, absent, queue_of};
use super::http::segment;
use super::table::{Rows, show};
use super::target::Target;
use crate::plain_text;
use clap::Args;
use leveret_management::timestamps::rfc3339;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// Clears the screen of a terminal, and goes to its upper left corner.
const CLEAR: &str = "\x1b[2J\x1b[H";
/// Queues that `top` shows at most.
const ROWS_MAX: usize = 100;

/// What a pause between two answers may be.
fn seconds() -> clap::builder::RangedU64ValueParser {
    clap::value_parser!(u64).range(1..=3_600)
}

/// How often, and for how long.
#[derive(Args)]
pub(super) struct Pace {
    /// Seconds between two answers
    #[arg(long, value_name = "SECONDS", default_value_t = 1, value_parser = seconds())]
    every: u64,
    /// How many answers to show; until it is interrupted where not given
    #[arg(long, value_name = "COUNT")]
    count: Option<u64>,
}

#[derive(Args)]
pub(super) struct TopOptions {
    /// Only this virtual host
    #[arg(short = 'p', long, value_name = "NAME")]
    vhost: Option<String>,
    /// How many queues to show: those with most messages
    #[arg(long, value_name = "COUNT", default_value_t = 20)]
    rows: usize,
    #[command(flatten)]
    pace: Pace,
    #[command(flatten)]
    ask: AskOptions,
}

#[derive(clap::Subcommand)]
pub(super) enum WatchCommand {
    /// Show a line for a queue or stream every second
    Queue {
        /// Its name
        name: String,
        /// Its virtual host
        #[arg(short = 'p', long, value_name = "NAME", default_value = "/")]
        vhost: String,
        #[command(flatten)]
        pace: Pace,
        #[command(flatten)]
        ask: AskOptions,
    },
}

#[derive(Args)]
pub(super) struct PeekOptions {
    /// Name of the queue
    queue: String,
    /// Which of the messages, from 1 on
    #[arg(default_value_t = 1)]
    position: u64,
    /// One that a client holds unacknowledged, and who holds it; not one that is ready
    #[arg(long)]
    unacked: bool,
    /// Of those only one that consumers with this tag hold
    #[arg(long, value_name = "TAG", requires = "unacked")]
    consumer: Option<String>,
    /// The first one from there on whose routing key has this text
    #[arg(long, value_name = "TEXT")]
    key: Option<String>,
    /// The first one from there on whose body has this text
    #[arg(long, value_name = "TEXT")]
    body: Option<String>,
    /// Its virtual host
    #[arg(short = 'p', long, value_name = "NAME", default_value = "/")]
    vhost: String,
    #[command(flatten)]
    ask: AskOptions,
}

/// What was known of a queue, and when.
type Known = HashMap<(String, String), (Instant, [u64; 2])>;

/// Messages that came and went since the node's start.
fn counters(queue: &Value) -> [u64; 2] {
    let stats = &queue["message_stats"];
    ["publish", "deliver_get"].map(|name| stats[name].as_u64().unwrap_or(0))
}

/// How fast a queue's counters grow, a second; nothing of one that was not known before.
fn rates(known: &mut Known, queue: &Value, now: Instant) -> [Value; 2] {
    let key = (show(&queue["vhost"]), show(&queue["name"]));
    let counted = counters(queue);
    let Some((since, before)) = known.insert(key, (now, counted)) else {
        return [Value::Null, Value::Null];
    };
    let seconds = now.duration_since(since).as_secs_f64();
    let rate = |at: usize| {
        let grown = counted[at].saturating_sub(before[at]);
        match seconds > 0.0 {
            true => json!((grown as f64 / seconds).round() as u64),
            false => Value::Null,
        }
    };
    [rate(0), rate(1)]
}

const COLUMNS: [&str; 9] = [
    "vhost",
    "name",
    "type",
    "ready",
    "unacked",
    "consumers",
    "in/s",
    "out/s",
    "oldest_s",
];

/// A queue's line.
fn line(known: &mut Known, queue: &Value, now: Instant) -> Vec<Value> {
    let [incoming, outgoing] = rates(known, queue, now);
    let field = |name: &str| queue[name].clone();
    let oldest = queue["oldest_message_age"].as_f64();
    let oldest = oldest.map_or(Value::Null, |seconds| json!(seconds.round() as u64));
    vec![
        field("vhost"),
        field("name"),
        field("type"),
        field("messages_ready"),
        field("messages_unacknowledged"),
        field("consumers"),
        incoming,
        outgoing,
        oldest,
    ]
}

/// Lines as objects, one each.
fn objects(rows: &Rows) -> Vec<Value> {
    let object = |row: &Vec<Value>| {
        let pairs = rows.columns.iter().cloned().zip(row.iter().cloned());
        Value::Object(pairs.collect())
    };
    rows.rows.iter().map(object).collect()
}

/// Does something again and again; false from it ends that.
fn again(pace: &Pace, mut once: impl FnMut(Instant) -> Result<bool, String>) -> Result<(), String> {
    let every = Duration::from_secs(pace.every);
    let mut shown = 0;
    loop {
        let begun = Instant::now();
        let goes_on = once(begun)?;
        shown += 1;
        if !goes_on || pace.count.is_some_and(|count| shown >= count) {
            return Ok(());
        }
        std::thread::sleep(every.saturating_sub(begun.elapsed()));
    }
}

/// Writes to standard output, plainly and behind `before`; false if nobody reads it any more.
fn write(before: &str, text: &str) -> bool {
    let mut out = std::io::stdout().lock();
    out.write_all(before.as_bytes())
        .and_then(|()| out.write_all(plain_text::lines(text).as_bytes()))
        .and_then(|()| out.flush())
        .is_ok()
}

fn get(target: &Target, path: &str) -> Result<Value, String> {
    target.get(path).map_err(|error| absent(error, path))
}

/// `leveret top`
pub(super) fn top(options: &TopOptions) -> Result<String, String> {
    let target = options.ask.target()?;
    let of = options
        .vhost
        .as_ref()
        .map_or_else(String::new, |vhost| format!("/{}", segment(vhost)));
    let rows = options.rows.clamp(1, ROWS_MAX);
    let queues = format!("/api/queues{of}?sort=messages&sort_reverse=true&page=1&page_size={rows}");
    let clear = if std::io::stdout().is_terminal() {
        CLEAR
    } else {
        ""
    };
    let mut known = Known::new();
    again(&options.pace, |now| {
        let overview = get(&target, "/api/overview")?;
        let page = get(&target, &queues)?;
        let found = page["items"].as_array().cloned().unwrap_or_default();
        let table = Rows {
            columns: COLUMNS.map(str::to_owned).into(),
            rows: found
                .iter()
                .map(|queue| line(&mut known, queue, now))
                .collect(),
        };
        if options.ask.json {
            let shown = json!({"overview": overview, "queues": objects(&table)});
            return Ok(write("", &format!("{shown}\n")));
        }
        let text = format!("{}\n{}", in_short(&overview), table.aligned());
        Ok(write(clear, &text))
    })?;
    Ok(String::new())
}

/// The cluster in two lines.
fn in_short(overview: &Value) -> String {
    let (totals, objects) = (&overview["queue_totals"], &overview["object_totals"]);
    let rate = |name: &str| {
        let rate = overview["message_stats"][format!("{name}_details")]["rate"].as_f64();
        format!("{:.0}/s", rate.unwrap_or(0.0))
    };
    format!(
        "{}: {} connections, {} channels, {} queues, {} consumers\n\
         {} ready, {} unacked; published {}, delivered {}, acknowledged {}\n",
        show(&overview["cluster_name"]),
        show(&objects["connections"]),
        show(&objects["channels"]),
        show(&objects["queues"]),
        show(&objects["consumers"]),
        show(&totals["messages_ready"]),
        show(&totals["messages_unacknowledged"]),
        rate("publish"),
        rate("deliver_get"),
        rate("ack"),
    )
}

/// `leveret watch queue NAME`
pub(super) fn watch(command: &WatchCommand) -> Result<String, String> {
    let WatchCommand::Queue {
        name,
        vhost,
        pace,
        ask,
    } = command;
    let target = ask.target()?;
    let path = format!("/api/queues/{}/{}", segment(vhost), segment(name));
    let mut known = Known::new();
    let mut is_first = true;
    again(pace, |now| {
        let queue = target.get(&path).map_err(|error| {
            let (what, list) = (&queue_of(vhost, name), "list queues");
            Object { what, list }.absent(error)
        })?;
        let row = line(&mut known, &queue, now);
        // It is known which queue this is.
        let table = Rows {
            columns: COLUMNS[3..].iter().map(|name| (*name).to_owned()).collect(),
            rows: vec![row[3..].to_vec()],
        };
        if ask.json {
            let object = objects(&table).pop().unwrap_or_default();
            return Ok(write("", &format!("{object}\n")));
        }
        let text = watched(&table, std::mem::take(&mut is_first));
        Ok(write("", &text))
    })?;
    Ok(String::new())
}

/// A line in columns that are as wide each time; the first has their names above it.
fn watched(table: &Rows, is_first: bool) -> String {
    const WIDTH: usize = 12;
    let line = |cells: &[String]| {
        let cells: String = cells.iter().map(|cell| format!("{cell:>WIDTH$}")).collect();
        format!("{cells}\n")
    };
    let row: Vec<String> = table.rows.iter().flatten().map(show).collect();
    match is_first {
        true => line(&table.columns) + &line(&row),
        false => line(&row),
    }
}

/// `leveret peek QUEUE [POSITION]`
pub(super) fn peek(options: &PeekOptions) -> Result<String, String> {
    let (vhost, queue) = (segment(&options.vhost), segment(&options.queue));
    let position = options.position;
    let target = options.ask.target()?;
    let path = format!("/api/leveret/queues/{vhost}/{queue}");
    let what = if options.unacked { "unacked " } else { "" };
    let query = wanted(options);
    let is_sought = options.key.is_some() || options.body.is_some();
    let found = match is_sought {
        true => first_found(&target, &format!("{path}/search?{query}"), position)?,
        false => {
            let which = if options.unacked {
                "unacked"
            } else {
                "messages"
            };
            let all = format!("{path}/{which}?{query}&position={position}");
            get(&target, &all)?.get(0).cloned()
        }
    };
    let found = found.ok_or_else(|| match is_sought {
        true => format!("no {what}message from position {position} on has that"),
        false => format!("no {what}message at position {position}"),
    })?;
    Ok(match options.ask.json {
        true => format!("{found:#}\n"),
        false => peeked_text(&found),
    })
}

/// Which message is wanted, as a request says it, but for its position.
fn wanted(options: &PeekOptions) -> String {
    let unacked = options.unacked && (options.key.is_some() || options.body.is_some());
    let texts = [
        ("consumer", &options.consumer),
        ("key", &options.key),
        ("body", &options.body),
    ];
    let texts = texts
        .into_iter()
        .filter_map(|(name, text)| Some(format!("&{name}={}", segment(text.as_deref()?))));
    let unacked = if unacked { "&unacked=true" } else { "" };
    format!("count=1{unacked}{}", texts.collect::<String>())
}

/// The first message that a search finds. One request looks at so many messages; others follow.
fn first_found(target: &Target, search: &str, position: u64) -> Result<Option<Value>, String> {
    let mut position = position;
    loop {
        let answer = get(target, &format!("{search}&position={position}"))?;
        if let Some(found) = answer["messages"].get(0) {
            return Ok(Some(found.clone()));
        }
        match answer["next_position"].as_u64() {
            Some(next) if next > position => position = next,
            _ => return Ok(None),
        }
    }
}

/// A message as people read it: who holds it where somebody does, then what it is.
fn peeked_text(found: &Value) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: &Value| {
        text.push_str(&format!("{name:<12} {}\n", show(value)));
    };
    if found.get("held_since").is_some() {
        let since = found["held_since"].as_u64().map(rfc3339);
        for (name, value) in [
            ("consumer", &found["consumer_tag"]),
            ("channel", &found["channel"]),
            ("user", &found["user"]),
            ("node", &found["node"]),
            ("held since", &since.into()),
            ("redelivered", &found["redelivered"]),
        ] {
            line(name, value);
        }
    }
    if found["unreadable"] == true {
        return text + "\nit cannot be read\n";
    }
    for (name, value) in [
        ("exchange", &found["exchange"]),
        ("routing key", &found["routing_key"]),
        ("properties", &found["properties"]),
        ("bytes", &found["payload_bytes"]),
        ("encoding", &found["payload_encoding"]),
    ] {
        line(name, value);
    }
    text + "\n" + &show(&found["payload"]) + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(name: &str, publish: u64, deliver: u64) -> Value {
        let stats = json!({"publish": publish, "deliver_get": deliver});
        json!({"vhost": "/", "name": name, "type": "classic", "messages_ready": 3,
            "messages_unacknowledged": 1, "consumers": 2, "message_stats": stats,
            "oldest_message_age": 8.6})
    }

    #[test]
    fn rates_are_of_the_time_between_two_answers_and_of_the_same_queue() {
        let mut known = Known::new();
        let start = Instant::now();
        let later = start + Duration::from_secs(2);
        assert_eq!(
            rates(&mut known, &queue("a", 10, 5), start),
            [Value::Null, Value::Null]
        );
        assert_eq!(
            rates(&mut known, &queue("b", 99, 99), later),
            [Value::Null, Value::Null]
        );
        assert_eq!(
            rates(&mut known, &queue("a", 30, 5), later),
            [json!(10), json!(0)]
        );
        // A counter that went back is a new queue's.
        let last = later + Duration::from_secs(1);
        assert_eq!(
            rates(&mut known, &queue("a", 0, 0), last),
            [json!(0), json!(0)]
        );
    }

    #[test]
    fn a_watched_queue_has_its_columns_named_once() {
        let mut known = Known::new();
        let row = line(&mut known, &queue("a", 1, 1), Instant::now());
        let table = Rows {
            columns: COLUMNS[3..].iter().map(|name| (*name).to_owned()).collect(),
            rows: vec![row[3..].to_vec()],
        };
        let first = watched(&table, true);
        assert_eq!(first.lines().count(), 2);
        assert_eq!(first.lines().nth(1), watched(&table, false).lines().next());
        let words: Vec<&str> = first.split_whitespace().collect();
        assert_eq!(
            words[..6],
            ["ready", "unacked", "consumers", "in/s", "out/s", "oldest_s"]
        );
        assert_eq!(words[6..], ["3", "1", "2", "9"]);
    }

    #[test]
    fn so_many_answers_are_shown_and_a_reader_that_has_gone_ends_it() {
        let pace = |count| Pace { every: 1, count };
        let mut shown = 0;
        let ended = again(&pace(Some(1)), |_| {
            shown += 1;
            Ok(true)
        });
        assert_eq!((ended, shown), (Ok(()), 1));
        assert_eq!(again(&pace(None), |_| Ok(false)), Ok(()));
        let refused = again(&pace(None), |_| Err("no".to_owned()));
        assert_eq!(refused, Err("no".to_owned()));
    }
}
