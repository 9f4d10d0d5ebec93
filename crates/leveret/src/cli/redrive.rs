//! `leveret redrive`: dead letters go back to the queues that they came from, or to another one.
//!
//! A message is published with a confirm before it is settled where it was: what is confirmed lives
//! in one of the two queues at every moment, and in both only if the command is ended between.

use super::password::PasswordSource;
use crate::dead_letters::Wanted;
use clap::Args;
use leveret_amqp::{Properties, TableBuilder};
use leveret_perf::client::Client;
use leveret_perf::spec::Tls;
use leveret_perf::transport::tls_config;
use leveret_perf::uri::Uri;
use leveret_types::{FieldTable, FieldValue};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The channel that is used.
const CHANNEL: u16 = 1;

#[derive(Args)]
pub(super) struct RedriveOptions {
    /// The queue of dead letters
    queue: String,
    /// Queue that takes them, instead of those that they came from
    #[arg(long, value_name = "QUEUE")]
    to: Option<String>,
    /// How many messages to look at, at most; as many as there are when it begins, where not given
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,
    /// Only messages that died for this reason: rejected, expired, maxlen, delivery_limit
    #[arg(long, value_name = "WORD")]
    reason: Option<String>,
    /// Only messages that came from this queue
    #[arg(long, value_name = "QUEUE")]
    from: Option<String>,
    /// Say what would be done, and leave everything as it is
    #[arg(long)]
    dry_run: bool,
    /// The virtual host
    #[arg(short = 'p', long, value_name = "NAME", default_value = "/")]
    vhost: String,
    /// Where AMQP is spoken: amqp://HOST:PORT or amqps://HOST:PORT
    #[arg(long, value_name = "URI", default_value = "amqp://127.0.0.1:5672")]
    uri: String,
    /// User who may read the one and write to the others
    #[arg(long, value_name = "NAME", default_value = "guest")]
    user: String,
    /// File whose first line is the user's password; `-` is standard input [of guest: guest]
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
    /// Authorities (PEM) of which one vouches for the broker, for amqps
    #[arg(long, value_name = "FILE", conflicts_with = "insecure")]
    ca_file: Option<PathBuf>,
    /// Speak to whoever answers at an amqps URI, whatever certificate it shows
    #[arg(long)]
    insecure: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What became of messages, by queue.
#[derive(Debug, Default)]
struct Counts {
    moved: BTreeMap<String, u64>,
    kept: BTreeMap<String, u64>,
}

/// `leveret redrive QUEUE`
pub(super) fn run(options: &RedriveOptions) -> Result<String, String> {
    let mut client = connect(options)?;
    let counts = redrive(&mut client, options).map_err(|error| error.to_string());
    // What was got and not settled goes back to its place when the connection closes.
    let closed = client.close().map_err(|error| error.to_string());
    let counts = counts?;
    closed?;
    Ok(shown(options, &counts))
}

fn connect(options: &RedriveOptions) -> Result<Client, String> {
    let mut uri = Uri::parse(&options.uri).map_err(|error| error.to_string())?;
    let source = PasswordSource {
        given: None,
        file: options.password_file.clone(),
    };
    uri.password = source.read(&options.user)?;
    uri.user.clone_from(&options.user);
    uri.virtual_host.clone_from(&options.vhost);
    let trust = Tls {
        ca_file: options.ca_file.clone(),
        insecure: options.insecure,
    };
    let tls = uri.tls.then(|| tls_config(&trust)).transpose()?;
    let mut client = Client::connect(&uri, tls.as_ref()).map_err(|error| error.to_string())?;
    let opened = client.open_channel(CHANNEL);
    let confirmed = opened.and_then(|()| client.confirm_select(CHANNEL));
    confirmed.map_err(|error| error.to_string())?;
    Ok(client)
}

fn redrive(
    client: &mut Client,
    options: &RedriveOptions,
) -> Result<Counts, leveret_perf::error::Error> {
    let mut counts = Counts::default();
    let mut looked_at = 0;
    let mut most = options.limit;
    while most.is_none_or(|most| looked_at < most) {
        let Some(got) = client.get(CHANNEL, &options.queue)? else {
            break;
        };
        // Without a bound it would meet again what comes back to this queue meanwhile.
        most = most.or(Some(got.remaining.saturating_add(1)));
        looked_at += 1;
        let headers = headers(&got.properties);
        let destination = match destination(options, &headers) {
            Ok(destination) => destination,
            Err(why) => {
                *counts.kept.entry(why).or_default() += 1;
                continue;
            }
        };
        if options.dry_run {
            *counts.moved.entry(destination).or_default() += 1;
            continue;
        }
        match client.put(
            CHANNEL,
            &destination,
            &to_one_queue(&got.properties),
            &got.body,
        )? {
            Ok(()) => {
                client.ack(CHANNEL, got.tag)?;
                *counts.moved.entry(destination).or_default() += 1;
            }
            Err(why) => {
                *counts
                    .kept
                    .entry(format!("{destination}: {why}"))
                    .or_default() += 1;
            }
        }
    }
    Ok(counts)
}

fn headers(properties: &[u8]) -> FieldTable {
    let headers = Properties::decode(properties)
        .ok()
        .and_then(|properties| properties.headers);
    headers.map_or_else(FieldTable::new, |headers| headers.to_table())
}

/// Properties with which a message goes to one queue: in `CC` whoever published it may have named
/// others, which the operator may write to and he may not.
fn to_one_queue(properties: &[u8]) -> Vec<u8> {
    let Ok(mut decoded) = Properties::decode(properties) else {
        return properties.to_vec();
    };
    let Some(headers) = decoded.headers else {
        return properties.to_vec();
    };
    let headers = TableBuilder::copy_of(headers, &["CC", "BCC"]);
    decoded.headers = Some(headers.as_table());
    decoded.to_bytes()
}

fn text(headers: &FieldTable, name: &str) -> Option<String> {
    match headers.get(name)? {
        FieldValue::LongString(text) => Some(String::from_utf8_lossy(text).into_owned()),
        _ => None,
    }
}

/// The queue that takes a message, or why it stays where it is.
fn destination(options: &RedriveOptions, headers: &FieldTable) -> Result<String, String> {
    let wanted = Wanted {
        to: options.to.as_deref(),
        from: options.from.as_deref(),
        reason: options.reason.as_deref(),
        unknown: "no dead letter: give the queue by --to",
    };
    let reason = text(headers, "x-first-death-reason");
    let died_in = text(headers, "x-first-death-queue");
    wanted.destination(&options.queue, died_in, reason.as_deref())
}

fn shown(options: &RedriveOptions, counts: &Counts) -> String {
    if options.json {
        let shown = json!({"moved": counts.moved, "kept": counts.kept, "dry_run": options.dry_run});
        return format!("{shown:#}\n");
    }
    let word = if options.dry_run { "would go" } else { "went" };
    let mut text = String::new();
    for (queue, count) in &counts.moved {
        text.push_str(&format!("{count} {word} to {queue}\n"));
    }
    for (why, count) in &counts.kept {
        text.push_str(&format!("{count} stayed: {why}\n"));
    }
    match text.is_empty() {
        true => format!("{} is empty\n", options.queue),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: RedriveOptions,
    }

    fn options(line: &str) -> RedriveOptions {
        let words = format!("redrive dead {line}");
        Line::parse_from(words.split_whitespace()).options
    }

    #[test]
    fn a_dead_letter_goes_to_one_queue_whoever_it_names() {
        let headers = FieldTable::from([
            ("CC", FieldValue::Array(vec![FieldValue::text("secret")])),
            ("x-first-death-queue", FieldValue::text("orders")),
        ]);
        let table = TableBuilder::from(&headers);
        let properties = Properties {
            headers: Some(table.as_table()),
            message_id: Some(b"7"),
            ..Properties::default()
        };
        let sent = to_one_queue(&properties.to_bytes());
        let left = FieldTable::from([("x-first-death-queue", FieldValue::text("orders"))]);
        assert_eq!(super::headers(&sent), left);
        let sent = Properties::decode(&sent).expect("properties");
        assert_eq!(sent.message_id, properties.message_id);
    }

    #[test]
    fn dead_letters_go_where_they_came_from_or_where_somebody_says() {
        let dead = FieldTable::from([
            ("x-first-death-queue", FieldValue::text("orders")),
            ("x-first-death-reason", FieldValue::text("rejected")),
        ]);
        let to = |line: &str, headers: &FieldTable| destination(&options(line), headers);
        let orders = Ok("orders".to_owned());
        assert_eq!(to("", &dead), orders);
        assert_eq!(to("--from orders --reason rejected", &dead), orders);
        assert_eq!(to("--to other", &dead), Ok("other".to_owned()));
        assert_eq!(to("--to other", &FieldTable::new()), Ok("other".to_owned()));
        for (line, headers, why) in [
            ("--from invoices", &dead, "from another queue"),
            ("--reason expired", &dead, "died for another reason"),
            ("--to dead", &dead, "would come back to this queue"),
            (
                "",
                &FieldTable::new(),
                "no dead letter: give the queue by --to",
            ),
        ] {
            assert_eq!(to(line, headers), Err(why.to_owned()), "{line}");
        }
    }
}
