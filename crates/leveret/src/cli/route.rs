//! `leveret route`: where a message would go, by which bindings, and by which it would not. The
//! broker's own router decides, over the exchanges and bindings that the node tells of.

use super::ask::AskOptions;
use super::http::segment;
use super::table::{Rows, show};
use clap::Args;
use leveret_management::input::table_of;
use leveret_routing::{Destination, Kind, PartitionRouting, Router, SUPER_STREAM_ROUTING, Scratch};
use leveret_types::{FieldTable, QueueId};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

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

/// What a node has in a virtual host, as its API tells.
struct Topology {
    exchanges: Vec<Value>,
    bindings: Vec<Value>,
    queues: Vec<Value>,
    policies: Vec<Value>,
}

/// Where a message goes.
#[derive(Debug, Default, PartialEq)]
struct Way {
    /// Queues, each with the ways that lead to it.
    queues: BTreeMap<String, BTreeSet<String>>,
    /// Bindings that were asked and do not match.
    unmatched: Vec<String>,
}

/// `leveret route EXCHANGE [KEY]`
pub(super) fn run(options: &RouteOptions) -> Result<String, String> {
    let target = options.ask.target()?;
    let list = |what: &str| -> Result<Vec<Value>, String> {
        let path = format!("/api/{what}/{}", segment(&options.vhost));
        let found = target.get(&path).map_err(|error| error.to_string())?;
        Ok(found.as_array().cloned().unwrap_or_default())
    };
    let topology = Topology {
        exchanges: list("exchanges")?,
        bindings: list("bindings")?,
        queues: list("queues")?,
        policies: list("policies")?,
    };
    let headers = headers(&options.header)?;
    let way = way(&topology, &options.exchange, &options.key, &headers)?;
    if options.ask.json {
        let queue = |(name, by): (&String, &BTreeSet<String>)| {
            let queue = topology.queue(name);
            json!({"queue": name, "type": queue["type"], "policy": queue["policy"], "by": by})
        };
        let queues: Vec<Value> = way.queues.iter().map(queue).collect();
        let shown = json!({"exchange": options.exchange, "routing_key": options.key,
            "queues": queues, "unmatched": way.unmatched});
        return Ok(format!("{shown:#}\n"));
    }
    let unmatched = unmatched(&way.unmatched);
    if way.queues.is_empty() {
        return Err(format!(
            "a message for exchange '{}' with key '{}' reaches no queue: it is dropped, or returned \
             if it is mandatory\n{unmatched}",
            options.exchange, options.key
        ));
    }
    Ok(topology.table(&way) + &unmatched)
}

/// The bindings that do not match, as many as somebody reads.
fn unmatched(all: &[String]) -> String {
    let mut text = String::new();
    for binding in all.iter().take(UNMATCHED_MAX) {
        text.push_str(&format!("not by {binding}\n"));
    }
    if let Some(more) = all
        .len()
        .checked_sub(UNMATCHED_MAX)
        .filter(|more| *more > 0)
    {
        text.push_str(&format!("nor by {more} others\n"));
    }
    text
}

/// A message's headers, as they are typed.
fn headers(typed: &[String]) -> Result<FieldTable, String> {
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
    fields_of(&Value::Object(fields))
}

fn fields_of(object: &Value) -> Result<FieldTable, String> {
    match object.as_object() {
        Some(fields) => table_of(fields).map_err(|error| format!("{object}: {error:?}")),
        None => Ok(FieldTable::new()),
    }
}

impl Topology {
    fn queue(&self, name: &str) -> &Value {
        let found = self.queues.iter().find(|queue| queue["name"] == name);
        found.unwrap_or(&Value::Null)
    }

    fn exchange(&self, name: &str) -> Option<&Value> {
        self.exchanges
            .iter()
            .find(|exchange| exchange["name"] == name)
    }

    /// The exchange to which an exchange hands what matches none of its bindings, by its arguments
    /// or its policy.
    fn alternate(&self, exchange: &Value) -> Option<String> {
        let policy = self
            .policies
            .iter()
            .find(|p| p["name"] == exchange["policy"]);
        let of_policy =
            policy.and_then(|policy| policy["definition"]["alternate-exchange"].as_str());
        let own = exchange["arguments"]["alternate-exchange"].as_str();
        own.or(of_policy).map(str::to_owned)
    }

    /// Whether the key's hash is what leads to a binding's stream, one of a super stream, which it
    /// does reach.
    fn is_by_hash(&self, exchange: &Value, binding: &Value, key: &str) -> bool {
        let is_stream = self.queue(&show(&binding["destination"]))["type"] == "stream";
        match exchange["arguments"][SUPER_STREAM_ROUTING].as_str() {
            Some("hash") => is_stream,
            Some("key-or-hash") => is_stream && binding["routing_key"] != key,
            _ => false,
        }
    }

    fn table(&self, way: &Way) -> String {
        let row = |(name, by): (&String, &BTreeSet<String>)| {
            let queue = self.queue(name);
            let by: Vec<&str> = by.iter().map(String::as_str).collect();
            vec![
                json!(name),
                json!(show(&queue["type"])),
                json!(show(&queue["policy"])),
                json!(by.join("; ")),
            ]
        };
        let rows = Rows {
            columns: ["queue", "type", "policy", "by"].map(str::to_owned).into(),
            rows: way.queues.iter().map(row).collect(),
        };
        rows.aligned()
    }
}

/// Follows a message from exchange to exchange.
fn way(
    topology: &Topology,
    exchange: &str,
    key: &str,
    headers: &FieldTable,
) -> Result<Way, String> {
    let mut way = Way::default();
    if exchange.is_empty() {
        if !topology.queue(key).is_null() {
            let by = BTreeSet::from(["the queue's name".to_owned()]);
            way.queues.insert(key.to_owned(), by);
        }
        return Ok(way);
    }
    let first = topology.exchange(exchange);
    let first = first.ok_or_else(|| format!("there is no exchange '{exchange}'"))?;
    if first["internal"] == true {
        return Err(format!(
            "exchange '{exchange}' is internal: clients may not publish to it"
        ));
    }
    let mut waiting = vec![(exchange.to_owned(), String::new())];
    let mut visited = BTreeSet::new();
    while let Some((name, before)) = waiting.pop() {
        let Some(exchange) = topology.exchange(&name) else {
            continue;
        };
        if !visited.insert(name.clone()) {
            continue;
        }
        let (matched, not) = matching(topology, exchange, key, headers)?;
        way.unmatched.extend(not.into_iter().map(described));
        if matched.is_empty()
            && let Some(alternate) = topology.alternate(exchange)
        {
            let by = format!("{before}{name} -(alternate exchange)-> ");
            waiting.push((alternate, by));
        }
        for binding in matched {
            let destination = show(&binding["destination"]);
            if binding["destination_type"] == "queue" {
                let by = match topology.is_by_hash(exchange, binding, key) {
                    true => format!("{name} -(hash of the key)-> {destination}"),
                    false => described(binding),
                };
                let by = format!("{before}{by}");
                way.queues.entry(destination).or_default().insert(by);
            } else {
                let by = format!("{before}{name} -[{}]-> ", shown_key(binding));
                waiting.push((destination, by));
            }
        }
    }
    way.unmatched.sort();
    Ok(way)
}

/// A binding's key, and its arguments where it has some.
fn shown_key(binding: &Value) -> String {
    let key = show(&binding["routing_key"]);
    match binding["arguments"].as_object() {
        Some(arguments) if !arguments.is_empty() => format!("{key} {}", binding["arguments"]),
        _ => key,
    }
}

fn described(binding: &Value) -> String {
    let (source, destination) = (show(&binding["source"]), show(&binding["destination"]));
    format!("{source} -[{}]-> {destination}", shown_key(binding))
}

/// Of an exchange's bindings, those that a message goes by and the others.
fn matching<'a>(
    topology: &'a Topology,
    exchange: &Value,
    key: &str,
    headers: &FieldTable,
) -> Result<(Vec<&'a Value>, Vec<&'a Value>), String> {
    let name = show(&exchange["name"]);
    let arguments = fields_of(&exchange["arguments"])?;
    let kind = Kind::parse(&show(&exchange["type"]), &arguments).map_err(|e| e.to_string())?;
    // Hashes take the destination's name: there bindings of one destination are one.
    let is_by_name = matches!(
        kind.routes_as(),
        Kind::ConsistentHash(_)
            | Kind::ModulusHash
            | Kind::Random
            | Kind::LocalRandom
            | Kind::SuperStream(PartitionRouting::Hash | PartitionRouting::KeyOrHash)
    );
    let bindings = topology
        .bindings
        .iter()
        .filter(|b| b["source"] == name.as_str());
    let bindings: Vec<&Value> = bindings.collect();
    let mut router = Router::new();
    router.add_exchange(&name, kind, false, false, None);
    let mut ids: BTreeMap<String, QueueId> = BTreeMap::new();
    let mut own = Vec::new();
    for (at, binding) in bindings.iter().enumerate() {
        let destination = match is_by_name {
            true => show(&binding["destination"]),
            false => at.to_string(),
        };
        let next = QueueId(ids.len() as u64);
        let is_stream = topology.queue(&show(&binding["destination"]))["type"] == "stream";
        let next = if is_stream { next.of_stream() } else { next };
        let id = *ids.entry(destination.clone()).or_insert(next);
        router.add_queue(&destination, id);
        own.push(id);
        let key = show(&binding["routing_key"]);
        let arguments = fields_of(&binding["arguments"])?;
        let destination = Destination::Queue(&destination);
        // A binding that the router does not take has not been taken by the node either.
        let _ = router.bind(&name, destination, key.as_bytes(), &arguments);
    }
    let (mut scratch, mut found) = (Scratch::default(), Vec::new());
    router
        .route_internal(
            name.as_bytes(),
            &[key.as_bytes()],
            headers,
            &mut scratch,
            &mut found,
        )
        .map_err(|error| error.to_string())?;
    let pairs = bindings.into_iter().zip(own);
    let (matched, not): (Vec<_>, Vec<_>) = pairs.partition(|(_, id)| found.contains(id));
    let first = |pairs: Vec<(&'a Value, QueueId)>| pairs.into_iter().map(|(b, _)| b).collect();
    Ok((first(matched), first(not)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn binding(source: &str, kind: &str, destination: &str, key: &str, arguments: Value) -> Value {
        json!({"source": source, "destination": destination, "destination_type": kind,
            "routing_key": key, "arguments": arguments})
    }

    fn topology() -> Topology {
        let exchange = |name: &str, kind: &str| json!({"name": name, "type": kind, "internal": false, "arguments": {}});
        let mut events = exchange("events", "topic");
        events["policy"] = json!("rest");
        Topology {
            exchanges: vec![
                events,
                exchange("eu", "fanout"),
                exchange("by-header", "headers"),
                exchange("lost", "fanout"),
            ],
            bindings: vec![
                binding("events", "queue", "orders", "order.#", json!({})),
                binding("events", "queue", "orders", "order.new", json!({})),
                binding("events", "exchange", "eu", "#.eu", json!({})),
                binding("eu", "queue", "europe", "", json!({})),
                binding(
                    "by-header",
                    "queue",
                    "big",
                    "",
                    json!({"x-match": "any", "size": 9}),
                ),
                binding("lost", "queue", "unrouted", "", json!({})),
            ],
            queues: vec![json!({"name": "orders", "type": "quorum", "policy": "limits"})],
            policies: vec![json!({"name": "rest", "definition": {"alternate-exchange": "lost"}})],
        }
    }

    fn ways(exchange: &str, key: &str, headers: &FieldTable) -> Vec<(String, Vec<String>)> {
        let way = way(&topology(), exchange, key, headers).expect("a way");
        let queues = way.queues.into_iter();
        queues
            .map(|(queue, by)| (queue, by.into_iter().collect()))
            .collect()
    }

    #[test]
    fn each_queue_is_named_with_the_bindings_that_lead_to_it() {
        let none = FieldTable::new();
        let told = |queue: &str, by: &[&str]| {
            (
                queue.to_owned(),
                by.iter().map(|by| (*by).to_owned()).collect::<Vec<_>>(),
            )
        };
        assert_eq!(
            ways("events", "order.new", &none),
            [told(
                "orders",
                &["events -[order.#]-> orders", "events -[order.new]-> orders"]
            )]
        );
        assert_eq!(
            ways("events", "order.eu", &none),
            [
                told("europe", &["events -[#.eu]-> eu -[]-> europe"]),
                told("orders", &["events -[order.#]-> orders"]),
            ]
        );
        assert_eq!(
            ways("events", "x", &none),
            [told(
                "unrouted",
                &["events -(alternate exchange)-> lost -[]-> unrouted"]
            )]
        );
        assert_eq!(
            ways("", "orders", &none),
            [told("orders", &["the queue's name"])]
        );
        assert_eq!(ways("", "nothing", &none), []);
        let big = headers(&["size=9".to_owned()]).expect("headers");
        let by = "by-header -[ {\"size\":9,\"x-match\":\"any\"}]-> big";
        assert_eq!(ways("by-header", "", &big), [told("big", &[by])]);
        assert_eq!(ways("by-header", "", &none), []);
        assert!(way(&topology(), "no-such", "", &none).is_err());
    }

    #[test]
    fn the_hash_of_a_key_leads_to_a_partition_of_a_super_stream() {
        let mut topology = topology();
        for routing in ["hash", "key-or-hash"] {
            let arguments = json!({"x-super-stream": true, "x-super-stream-routing": routing});
            topology
                .exchanges
                .push(json!({"name": routing, "type": "direct", "internal": false,
                    "arguments": arguments}));
            for (order, key) in ["0", "1", "2"].iter().enumerate() {
                let order = json!({"x-stream-partition-order": order});
                let stream = format!("s-{key}");
                let bound = binding(routing, "queue", &stream, key, order);
                topology.bindings.push(bound);
                let stream = json!({"name": stream, "type": "stream"});
                topology.queues.push(stream);
            }
            topology
                .bindings
                .push(binding(routing, "queue", "orders", "hello4", json!({})));
        }
        let none = FieldTable::new();
        for (exchange, key, expected) in [
            (
                "hash",
                "hello1",
                &["s-1: hash -(hash of the key)-> s-1"][..],
            ),
            ("hash", "0", &["s-2: hash -(hash of the key)-> s-2"]),
            (
                "hash",
                "hello4",
                &[
                    "orders: hash -[hello4]-> orders",
                    "s-2: hash -(hash of the key)-> s-2",
                ],
            ),
            (
                "key-or-hash",
                "0",
                &["s-0: key-or-hash -[0 {\"x-stream-partition-order\":0}]-> s-0"],
            ),
            (
                "key-or-hash",
                "hello1",
                &["s-1: key-or-hash -(hash of the key)-> s-1"],
            ),
        ] {
            let way = way(&topology, exchange, key, &none).expect("a way");
            let one = |(queue, by): (&String, &BTreeSet<String>)| {
                let by: Vec<&str> = by.iter().map(String::as_str).collect();
                format!("{queue}: {}", by.join("; "))
            };
            let told: Vec<String> = way.queues.iter().map(one).collect();
            assert_eq!(told, expected, "{exchange} {key}");
        }
    }

    #[test]
    fn bindings_that_do_not_match_are_named_up_to_a_bound() {
        let none = FieldTable::new();
        let way = way(&topology(), "events", "order.old", &none).expect("a way");
        assert_eq!(
            way.unmatched,
            ["events -[#.eu]-> eu", "events -[order.new]-> orders"]
        );
        let many = |count: usize| vec!["b".to_owned(); count];
        assert_eq!(
            unmatched(&many(UNMATCHED_MAX)).lines().count(),
            UNMATCHED_MAX
        );
        assert!(unmatched(&many(UNMATCHED_MAX + 1)).ends_with("nor by 1 others\n"));
    }
}
