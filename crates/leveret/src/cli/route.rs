//! `leveret route`: where a message would go, by which bindings, and by which it would not, as the
//! node says.

use super::ask::{AskOptions, Object};
use super::http::segment;
use super::table::{Rows, show};
use clap::Args;
use serde_json::{Map, Value, json};

/// Bindings that do not match and are shown at most.
const UNMATCHED_MAX: usize = 20;

#[derive(Args)]
pub(super) struct RouteOptions {
    /// Name of the exchange; '' for the default one
    exchange: String,
    /// Routing key
    #[arg(default_value = "")]
    key: String,
    /// A header of the message, NAME=VALUE: a whole number, true, false, or text
    #[arg(long, value_name = "NAME=VALUE")]
    header: Vec<String>,
    /// The virtual host
    #[arg(short = 'p', long, value_name = "NAME", default_value = "/")]
    vhost: String,
    #[command(flatten)]
    ask: AskOptions,
}

/// `leveret route EXCHANGE [KEY]`
pub(super) fn run(options: &RouteOptions) -> Result<String, String> {
    let exchange = match options.exchange.as_str() {
        "" => "amq.default",
        name => name,
    };
    let (vhost, exchange) = (segment(&options.vhost), segment(exchange));
    let (key, headers) = (segment(&options.key), headers(&options.header)?);
    let headers = segment(&headers.to_string());
    let object = Object {
        what: &format!(
            "exchange '{}' in vhost '{}'",
            options.exchange, options.vhost
        ),
        list: "list exchanges",
    };
    let path = format!(
        "/api/leveret/exchanges/{vhost}/{exchange}/route?routing_key={key}&headers={headers}"
    );
    let way = options.ask.get_object(&path, &object)?;
    let unmatched = not_taken(&way);
    if options.ask.json {
        let shown = json!({"exchange": way["exchange"], "routing_key": way["routing_key"],
            "queues": way["queues"], "unmatched": unmatched});
        return Ok(format!("{shown:#}\n"));
    }
    let left_out = way["left_out"].as_u64().unwrap_or_default() as usize;
    let unmatched = unmatched_text(&unmatched, left_out);
    match way["queues"].as_array().filter(|queues| !queues.is_empty()) {
        Some(queues) => Ok(table(queues) + &unmatched),
        None => Err(format!(
            "a message for exchange '{}' with key '{}' reaches no queue: it is dropped, or returned \
             if it is mandatory\n{unmatched}",
            options.exchange, options.key
        )),
    }
}

/// The bindings by which a message does not go, in order.
fn not_taken(way: &Value) -> Vec<String> {
    let steps = way["steps"].as_array().into_iter().flatten();
    let not = steps.filter(|step| step["taken"] == false);
    let mut not: Vec<String> = not.map(|step| show(&step["text"])).collect();
    not.sort();
    not
}

/// The bindings that do not match, as many as somebody reads.
fn unmatched_text(all: &[String], left_out: usize) -> String {
    let mut text = String::new();
    for binding in all.iter().take(UNMATCHED_MAX) {
        text.push_str(&format!("not by {binding}\n"));
    }
    let more = (all.len() + left_out).saturating_sub(UNMATCHED_MAX.min(all.len()));
    if more > 0 {
        text.push_str(&format!("nor by {more} others\n"));
    }
    text
}

/// A message's headers, as they are typed.
fn headers(typed: &[String]) -> Result<Value, String> {
    let mut fields = Map::new();
    for header in typed {
        let (name, value) = header
            .split_once('=')
            .ok_or_else(|| format!("--header needs NAME=VALUE, not '{header}'"))?;
        let value = match (value.parse::<i64>(), value.parse::<bool>()) {
            (Ok(number), _) => json!(number),
            (_, Ok(flag)) => json!(flag),
            _ => json!(value),
        };
        fields.insert(name.to_owned(), value);
    }
    Ok(Value::Object(fields))
}

fn table(queues: &[Value]) -> String {
    let row = |queue: &Value| {
        let by = queue["by"].as_array().into_iter().flatten();
        let by: Vec<String> = by.map(show).collect();
        vec![
            queue["queue"].clone(),
            json!(show(&queue["type"])),
            json!(show(&queue["policy"])),
            json!(by.join("; ")),
        ]
    };
    let rows = Rows {
        columns: ["queue", "type", "policy", "by"].map(str::to_owned).into(),
        rows: queues.iter().map(row).collect(),
    };
    rows.aligned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_looks_like_a_number_or_a_flag_is_sent_as_one() {
        let typed = ["n=1", "ok=true", "url=a=b"].map(str::to_owned);
        let sent = json!({"n": 1, "ok": true, "url": "a=b"});
        assert_eq!(headers(&typed), Ok(sent));
        assert!(headers(&["n".to_owned()]).is_err());
    }

    #[test]
    fn bindings_that_do_not_match_are_named_up_to_a_bound() {
        let step = |text: &str, taken: bool| json!({"text": text, "taken": taken});
        let way = json!({"steps": [step("c", true), step("b", false), step("a", false)]});
        assert_eq!(not_taken(&way), ["a", "b"]);
        let many = |count: usize| vec!["b".to_owned(); count];
        let lines = |count| unmatched_text(&many(count), 0).lines().count();
        assert_eq!(lines(UNMATCHED_MAX), UNMATCHED_MAX);
        let more = unmatched_text(&many(UNMATCHED_MAX + 1), 2);
        assert!(more.ends_with("nor by 3 others\n"), "{more}");
    }
}
