//! `leveret redrive`: dead letters go back to the queues that they came from, or messages into
//! another queue. The node does it (`/api/leveret/queues/{vhost}/{name}/moves`); the command tells
//! how far it is.

use super::ask::{AskOptions, Object, queue_of};
use super::http::segment;
use super::target::{CallError, Target};
use crate::plain_text;
use clap::Args;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::io::{IsTerminal, Write as _};
use std::thread;
use std::time::Duration;

/// Between two looks at how far it is.
const LOOK_EVERY: Duration = Duration::from_millis(200);

#[derive(Args)]
pub(super) struct RedriveOptions {
    /// The queue of dead letters
    queue: String,
    /// Queue that takes them, instead of those that they came from
    #[arg(long, value_name = "QUEUE")]
    to: Option<String>,
    /// Leave the messages where they are, and put copies of them into the other queue
    #[arg(long, requires = "to")]
    copy: bool,
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
    /// Stop one that runs, by its id: it goes on when the command that began it is ended
    #[arg(long, value_name = "ID", conflicts_with_all = ["to", "limit", "reason", "from", "dry_run"])]
    stop: Option<String>,
    /// The virtual host
    #[arg(short = 'p', long, value_name = "NAME", default_value = "/")]
    vhost: String,
    #[command(flatten)]
    ask: AskOptions,
}

/// `leveret redrive QUEUE`
pub(super) fn run(options: &RedriveOptions) -> Result<String, String> {
    let target = options.ask.target()?;
    let (vhost, queue) = (segment(&options.vhost), segment(&options.queue));
    let moves = format!("/api/leveret/queues/{vhost}/{queue}/moves");
    if let Some(id) = &options.stop {
        let path = format!("{moves}/{}", segment(id));
        let move_of = Object {
            what: &format!(
                "move '{id}' of {}",
                queue_of(&options.vhost, &options.queue)
            ),
            list: "list queues",
        };
        let stopped = target.call("DELETE", &path, None);
        stopped.map_err(|error| move_of.absent(error))?;
        return Ok(format!(
            "{id} ends behind the messages that are under way\n"
        ));
    }
    let begun = target.call("POST", &moves, Some(&wanted(options)));
    let begun = begun.map_err(|error| refused(options, error))?;
    let ended = followed(&target, &moves, begun)?;
    if let Some(why) = ended["failure"].as_str() {
        return Err(format!("{}{why}", shown(options, &ended)));
    }
    Ok(match options.ask.json {
        true => format!("{ended:#}\n"),
        false => shown(options, &ended),
    })
}

/// Why the move does not begin: a 404 is about the queue, unless it names another one.
fn refused(options: &RedriveOptions, error: CallError) -> String {
    match error {
        CallError::Refused(404, reason) if reason != "Not Found" => reason,
        error => Object {
            what: &queue_of(&options.vhost, &options.queue),
            list: "list queues",
        }
        .absent(error),
    }
}

/// What the API is asked for.
fn wanted(options: &RedriveOptions) -> Value {
    let mut body = json!({"copy": options.copy, "dry_run": options.dry_run});
    let texts = [
        ("to", &options.to),
        ("from", &options.from),
        ("reason", &options.reason),
    ];
    for (name, text) in texts {
        if let Some(text) = text {
            body[name] = text.as_str().into();
        }
    }
    if let Some(limit) = options.limit {
        body["limit"] = limit.into();
    }
    body
}

/// Asks again and again until it has ended; a terminal is shown how far it is.
fn followed(target: &Target, moves: &str, begun: Value) -> Result<Value, String> {
    let id = begun["id"].as_str().unwrap_or_default().to_owned();
    let path = format!("{moves}/{}", segment(&id));
    let is_watched = std::io::stderr().is_terminal();
    let mut told = begun;
    while told["state"] == "running" {
        if is_watched {
            let (at, of) = (&told["looked_at"], &told["messages"]);
            let shown = plain_text::lines(&id);
            eprint!("\r{shown}: {at} of {of} messages looked at\x1b[K");
            let _ = std::io::stderr().flush();
        }
        thread::sleep(LOOK_EVERY);
        told = target.get(&path).map_err(|error| error.to_string())?;
    }
    if is_watched {
        eprint!("\r\x1b[K");
    }
    Ok(told)
}

/// How many messages went where, and how many stayed for what reason.
fn shown(options: &RedriveOptions, told: &Value) -> String {
    let word = match (options.dry_run, options.copy) {
        (true, _) => "would go",
        (false, true) => "were copied",
        (false, false) => "went",
    };
    let counted = |name: &str| told[name].as_object().cloned().unwrap_or_default();
    let mut text = String::new();
    for (queue, count) in counted("moved") {
        let _ = writeln!(text, "{count} {word} to {queue}");
    }
    for (why, count) in counted("kept") {
        let _ = writeln!(text, "{count} stayed: {why}");
    }
    if told["state"] == "stopped" {
        text.push_str("stopped by an operator\n");
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

    fn parsed(line: &str) -> Result<RedriveOptions, clap::Error> {
        let words = format!("redrive dead {line}");
        Line::try_parse_from(words.split_whitespace()).map(|line| line.options)
    }

    #[test]
    fn the_words_of_the_command_are_those_of_the_api() {
        let body = |line: &str| wanted(&parsed(line).expect(line));
        assert_eq!(body(""), json!({"copy": false, "dry_run": false}));
        assert_eq!(
            body("--to other --copy --limit 3 --reason expired --from orders --dry-run"),
            json!({"to": "other", "copy": true, "limit": 3, "reason": "expired", "from": "orders",
                "dry_run": true})
        );
        for line in ["--copy", "--limit 0", "--limit -1", "--stop 1 --to other"] {
            assert!(parsed(line).is_err(), "{line}");
        }
    }

    #[test]
    fn what_went_and_what_stayed_has_a_line_each() {
        let told = json!({"state": "stopped", "moved": {"orders": 2}, "kept": {"not chosen": 1}});
        for (line, went) in [
            ("", "2 went to orders"),
            ("--dry-run", "2 would go to orders"),
            ("--to orders --copy", "2 were copied to orders"),
        ] {
            let text = shown(&parsed(line).expect(line), &told);
            let all = format!("{went}\n1 stayed: not chosen\nstopped by an operator\n");
            assert_eq!(text, all, "{line}");
        }
        let none = json!({"state": "done", "moved": {}, "kept": {}});
        assert_eq!(shown(&parsed("").expect("words"), &none), "dead is empty\n");
    }
}
