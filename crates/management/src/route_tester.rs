//! Where a message would go: by which bindings, and by which it would not, and why. The broker's
//! own router decides.
//!
//! `/api/leveret/exchanges/{vhost}/{}/route` tells it of what this node has.

use crate::catalogue::policies::policy_json;
use crate::directory::{BindingId, BindingScope};
use crate::exchanges::binding_json;
use crate::http::input::{json_of, parse_json, table_of};
use crate::http::reply::{ApiError, Reply};
use crate::http::router::Call;
use crate::queues::exchange_name;
use leveret_routing::{
    Destination, ExchangeSettings, HeadersMatcher, Kind, PartitionRouting, Router,
    SUPER_STREAM_ROUTING, Scratch,
};
use leveret_types::limits::{
    HTTP_WAY_ANSWER_BYTES_MAX, HTTP_WAY_BINDINGS_BYTES_MAX, HTTP_WAY_BINDINGS_MAX,
    HTTP_WAY_STEPS_MAX,
};
use leveret_types::{FieldTable, QueueId};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// What a message may meet in a virtual host, in the API's words.
#[derive(Default)]
struct Topology {
    /// By name.
    exchanges: BTreeMap<String, Value>,
    /// By source.
    bindings: BTreeMap<String, Vec<Value>>,
    /// By name.
    queues: BTreeMap<String, Value>,
    /// By name.
    policies: BTreeMap<String, Value>,
}

/// A binding that was looked at.
#[derive(Debug, PartialEq)]
struct Step {
    binding: Value,
    /// Whether a message goes by it; none where chance decides.
    taken: Option<bool>,
    /// Why, for people.
    why: String,
}

/// The end of a way to an exchange.
#[derive(Debug, PartialEq)]
struct Hop {
    /// How it is reached, but for its name.
    text: String,
    /// Where in the list of hops that before it is.
    before: Option<usize>,
    /// Bytes of the text of the whole way up to its end.
    bytes: usize,
}

/// Where a message goes.
#[derive(Debug, Default, PartialEq)]
struct Way {
    /// Queues, each with the ways that lead to it: the hop before, if there is one, and the text of
    /// the last one. Ways share what they have in common: they may be as many as they are long.
    queues: BTreeMap<String, BTreeSet<(Option<usize>, String)>>,
    hops: Vec<Hop>,
    steps: Vec<Step>,
}

impl Way {
    /// A hop behind another one.
    fn hop(&mut self, before: Option<usize>, text: String) -> Option<usize> {
        let bytes = self.bytes_to(before) + text.len();
        self.hops.push(Hop {
            text,
            before,
            bytes,
        });
        Some(self.hops.len() - 1)
    }

    fn bytes_to(&self, hop: Option<usize>) -> usize {
        hop.map_or(0, |hop| self.hops[hop].bytes)
    }

    /// The queues with the texts of the ways to them, as many as fit into so many bytes, and how
    /// many are left out.
    fn told(&self, mut bytes_left: usize) -> (BTreeMap<&str, BTreeSet<String>>, usize) {
        let mut told: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
        let mut left_out = 0;
        for (queue, ways) in &self.queues {
            let texts = told.entry(queue).or_default();
            for (before, last) in ways {
                let bytes = self.bytes_to(*before) + last.len();
                match bytes <= bytes_left {
                    true => {
                        bytes_left -= bytes;
                        texts.insert(self.text(*before, last));
                    }
                    false => left_out += 1,
                }
            }
        }
        (told, left_out)
    }

    fn text(&self, before: Option<usize>, last: &str) -> String {
        let mut hops = Vec::new();
        let mut next = before;
        while let Some(hop) = next.map(|at| &self.hops[at]) {
            hops.push(hop.text.as_str());
            next = hop.before;
        }
        hops.reverse();
        hops.concat() + last
    }
}

/// `GET /api/leveret/exchanges/{vhost}/{name}/route`
pub fn route(call: &Call<'_>) -> Result<Reply, ApiError> {
    let exchange = exchange_name(call.param(1));
    let key = call.query.get("routing_key").unwrap_or_default();
    let headers = match call.query.get("headers") {
        Some(text) => fields_of(&parse_json(text.as_bytes())?)?,
        None => FieldTable::new(),
    };
    let topology = Topology::around(call, exchange, key)?;
    let way = way(&topology, exchange, key, &headers)?;
    let (told, ways_left_out) = way.told(HTTP_WAY_ANSWER_BYTES_MAX);
    let queue = |(name, by): (&&str, &BTreeSet<String>)| {
        let queue = topology.queue(name);
        json!({"queue": name, "type": queue["type"], "policy": queue["policy"], "by": by})
    };
    let queues: Vec<Value> = told.iter().map(queue).collect();
    let steps = shown(&way.steps, HTTP_WAY_ANSWER_BYTES_MAX);
    Ok(Reply::Json(json!({
        "exchange": exchange,
        "routing_key": key,
        "queues": queues,
        "ways_left_out": ways_left_out,
        "left_out": way.steps.len() - steps.len(),
        "steps": steps,
    })))
}

/// The first bindings that were looked at, as many as an answer shows, in so many bytes.
fn shown(steps: &[Step], mut bytes_left: usize) -> Vec<Value> {
    let json = |step: &Step| {
        json!({"binding": step.binding, "text": described(&step.binding), "taken": step.taken,
            "why": step.why})
    };
    let steps = steps.iter().take(HTTP_WAY_STEPS_MAX).map(json);
    let fits = |step: &Value| {
        let left = bytes_left.checked_sub(step.to_string().len());
        bytes_left = left.unwrap_or_default();
        left.is_some()
    };
    steps.take_while(fits).collect()
}

fn fields_of(object: &Value) -> Result<FieldTable, ApiError> {
    match object {
        Value::Object(fields) => table_of(fields),
        Value::Null => Ok(FieldTable::new()),
        _ => Err(ApiError::BadRequest("headers must be an object".to_owned())),
    }
}

/// A value's text, without quotation marks.
fn show(value: &Value) -> String {
    value.as_str().map_or_else(String::new, str::to_owned)
}

impl Topology {
    /// What is behind an exchange, and the queue that has the key's name.
    fn around(call: &Call<'_>, exchange: &str, key: &str) -> Result<Self, ApiError> {
        let (node, vhost) = (call.app.node(), call.param(0));
        let mut found = Self::default();
        let (mut bindings, mut bytes) = (0, 0);
        found.add_queue(call, key);
        let mut waiting = vec![exchange.to_owned()];
        let mut seen = BTreeSet::new();
        while let Some(name) = waiting.pop() {
            if name.is_empty() || !seen.insert(name.clone()) {
                continue;
            }
            let Some(exchange) = node.exchange(vhost, &name) else {
                continue;
            };
            let policy = exchange.policy.as_deref();
            if let Some(policy) = policy.and_then(|name| node.policy(false, vhost, name)) {
                let json = policy_json(&policy);
                found.policies.insert(policy.name, json);
            }
            let exchange = json!({"name": exchange.name, "type": exchange.kind,
                "internal": exchange.internal, "arguments": json_of(&exchange.arguments),
                "policy": exchange.policy});
            waiting.extend(found.alternate(&exchange).map(|(alternate, _)| alternate));
            found.add_exchange(exchange);
            let scope = BindingScope::Source {
                vhost,
                exchange: &name,
            };
            let mut ids: Vec<BindingId> = Vec::new();
            node.each_binding(scope, &mut |_, id| {
                if ids.len() <= HTTP_WAY_BINDINGS_MAX {
                    ids.push(id);
                }
            });
            check_bound(bindings + ids.len(), bytes)?;
            for id in ids {
                let binding = node.binding_at(vhost, id);
                let Some(binding) = binding.filter(|binding| binding.source == name) else {
                    continue;
                };
                match binding.to_queue {
                    true => found.add_queue(call, &binding.destination),
                    false => waiting.push(binding.destination.clone()),
                }
                let binding = binding_json(vhost, &binding);
                (bindings, bytes) = (bindings + 1, bytes + binding.to_string().len());
                check_bound(bindings, bytes)?;
                found.add_binding(binding);
            }
        }
        Ok(found)
    }

    fn add_queue(&mut self, call: &Call<'_>, name: &str) {
        if let Some(queue) = call.app.node().declared_queue(call.param(0), name) {
            let queue = json!({"type": queue.kind, "policy": queue.policy});
            self.queues.insert(name.to_owned(), queue);
        }
    }

    fn add_exchange(&mut self, exchange: Value) {
        self.exchanges.insert(show(&exchange["name"]), exchange);
    }

    fn add_binding(&mut self, binding: Value) {
        let source = show(&binding["source"]);
        self.bindings.entry(source).or_default().push(binding);
    }

    fn queue(&self, name: &str) -> &Value {
        self.queues.get(name).unwrap_or(&Value::Null)
    }

    fn exchange(&self, name: &str) -> Option<&Value> {
        self.exchanges.get(name)
    }

    /// The exchange to which an exchange hands what matches none of its bindings, by its arguments
    /// or by its policy, whose name is with it.
    fn alternate(&self, exchange: &Value) -> Option<(String, Option<String>)> {
        if let Some(own) = exchange["arguments"]["alternate-exchange"].as_str() {
            return Some((own.to_owned(), None));
        }
        let policy = self.policies.get(exchange["policy"].as_str()?)?;
        let alternate = policy["definition"]["alternate-exchange"].as_str()?;
        Some((alternate.to_owned(), Some(show(&policy["name"]))))
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
}

fn check_bound(bindings: usize, bytes: usize) -> Result<(), ApiError> {
    let refused = |what: String| Err(ApiError::BadRequest(format!("{what} on the way")));
    if bindings > HTTP_WAY_BINDINGS_MAX {
        return refused(format!(
            "there are more than {HTTP_WAY_BINDINGS_MAX} bindings"
        ));
    }
    if bytes > HTTP_WAY_BINDINGS_BYTES_MAX {
        let mib = HTTP_WAY_BINDINGS_BYTES_MAX >> 20;
        return refused(format!("there are bindings of more than {mib} MiB"));
    }
    Ok(())
}

/// Follows a message from exchange to exchange.
fn way(
    topology: &Topology,
    exchange: &str,
    key: &str,
    headers: &FieldTable,
) -> Result<Way, ApiError> {
    let mut way = Way::default();
    if exchange.is_empty() {
        if !topology.queue(key).is_null() {
            let by = BTreeSet::from([(None, "the queue's name".to_owned())]);
            way.queues.insert(key.to_owned(), by);
        }
        return Ok(way);
    }
    let first = topology.exchange(exchange);
    let first = first.ok_or_else(|| no_exchange(exchange))?;
    if first["internal"] == true {
        return Err(ApiError::BadRequest(format!(
            "exchange '{exchange}' is internal: clients may not publish to it"
        )));
    }
    let mut waiting = vec![(exchange.to_owned(), None)];
    let mut visited = BTreeSet::new();
    while let Some((name, before)) = waiting.pop() {
        let Some(exchange) = topology.exchange(&name) else {
            continue;
        };
        if !visited.insert(name.clone()) {
            continue;
        }
        let steps = steps_from(topology, exchange, key, headers)?;
        let is_stuck = steps.iter().all(|step| step.taken == Some(false));
        for step in steps.iter().filter(|step| step.taken != Some(false)) {
            let by = taken_by(topology, exchange, step, key);
            let destination = show(&step.binding["destination"]);
            match step.binding["destination_type"] == "queue" {
                true => {
                    let ways = way.queues.entry(destination).or_default();
                    ways.insert((before, by));
                }
                false => {
                    let text = by.strip_suffix(&destination).unwrap_or(&by);
                    let hop = way.hop(before, text.to_owned());
                    waiting.push((destination, hop));
                }
            }
        }
        way.steps.extend(steps);
        if is_stuck && let Some((alternate, policy)) = topology.alternate(exchange) {
            way.steps.push(to_alternate(&name, &alternate, policy));
            let hop = way.hop(before, format!("{name} -(alternate exchange)-> "));
            waiting.push((alternate, hop));
        }
    }
    // What is taken is what one wants to see first.
    way.steps.sort_by_key(|step| step.taken == Some(false));
    Ok(way)
}

fn no_exchange(name: &str) -> ApiError {
    ApiError::Missing(format!("there is no exchange '{name}'"))
}

fn to_alternate(from: &str, alternate: &str, policy: Option<String>) -> Step {
    let of = policy.map_or_else(String::new, |policy| {
        format!(", by the policy \"{policy}\"")
    });
    Step {
        binding: json!({"source": from, "destination": alternate, "destination_type": "exchange",
            "routing_key": "", "arguments": {}}),
        taken: Some(true),
        why: format!("no binding matched: its alternate exchange{of}"),
    }
}

/// How a message gets from an exchange to a destination.
fn taken_by(topology: &Topology, exchange: &Value, step: &Step, key: &str) -> String {
    let (name, destination) = (show(&exchange["name"]), show(&step.binding["destination"]));
    match topology.is_by_hash(exchange, &step.binding, key) {
        true => format!("{name} -(hash of the key)-> {destination}"),
        false => described(&step.binding),
    }
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

/// Which of an exchange's bindings a message goes by.
fn steps_from(
    topology: &Topology,
    exchange: &Value,
    key: &str,
    headers: &FieldTable,
) -> Result<Vec<Step>, ApiError> {
    let name = show(&exchange["name"]);
    let refused = |error: &dyn std::fmt::Display| ApiError::BadRequest(error.to_string());
    let arguments = fields_of(&exchange["arguments"])?;
    let kind = Kind::parse(&show(&exchange["type"]), &arguments).map_err(|e| refused(&e))?;
    // Hashes take the destination's name: there bindings of one destination are one.
    let is_by_name = matches!(
        kind.routes_as(),
        Kind::ConsistentHash(_)
            | Kind::ModulusHash
            | Kind::SuperStream(PartitionRouting::Hash | PartitionRouting::KeyOrHash)
    );
    let is_chance = matches!(kind.routes_as(), Kind::Random | Kind::LocalRandom);
    let bindings = topology.bindings.get(&name).map_or(&[][..], Vec::as_slice);
    let mut router = Router::new();
    router.add_exchange(&name, kind.clone(), ExchangeSettings::default());
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
    let keys: [&[u8]; 1] = [key.as_bytes()];
    router
        .route_internal(name.as_bytes(), &keys, headers, &mut scratch, &mut found)
        .map_err(|error| refused(&error))?;
    let found: BTreeSet<QueueId> = found.into_iter().collect();
    let step = |(binding, id): (&Value, QueueId)| {
        let taken = (!is_chance).then(|| found.contains(&id));
        let seen = SeenBinding {
            kind: &kind,
            is_by_hash: topology.is_by_hash(exchange, binding, key),
            binding,
            is_taken: taken == Some(true),
        };
        Step {
            binding: binding.clone(),
            taken,
            why: seen.why(headers),
        }
    };
    Ok(bindings.iter().zip(own).map(step).collect())
}

/// A binding by which a message came.
struct SeenBinding<'a> {
    /// The exchange's kind.
    kind: &'a Kind,
    /// Whether the key's hash chooses, of a super stream.
    is_by_hash: bool,
    binding: &'a Value,
    /// Whether the message goes by it.
    is_taken: bool,
}

impl SeenBinding<'_> {
    /// Why a message with these headers goes by it, or does not.
    fn why(&self, headers: &FieldTable) -> String {
        let arguments = &self.binding["arguments"];
        let key = show(&self.binding["routing_key"]);
        match (self.kind.routes_as(), self.is_taken) {
            (Kind::SuperStream(_), false) if arguments["x-stream-partition-drained"] == true => {
                "it is drained".to_owned()
            }
            (Kind::SuperStream(_), true) if self.is_by_hash => {
                "the hash of the key leads here".to_owned()
            }
            (Kind::SuperStream(_), false) if self.is_by_hash => {
                "the hash of the key leads elsewhere".to_owned()
            }
            (Kind::Direct | Kind::SuperStream(_), true) => "the key is the same".to_owned(),
            (Kind::Direct | Kind::SuperStream(_), false) => format!("its key is \"{key}\""),
            (Kind::Fanout | Kind::RecentHistory { .. }, _) => "it sends to all".to_owned(),
            (Kind::Topic, true) => format!("\"{key}\" matches"),
            (Kind::Topic, false) => format!("\"{key}\" does not match"),
            (Kind::Headers, true) => "the headers match".to_owned(),
            (Kind::Headers, false) => missing_header(arguments, headers),
            (Kind::ConsistentHash(_) | Kind::ModulusHash, true) => "the hash leads here".to_owned(),
            (Kind::ConsistentHash(_) | Kind::ModulusHash, false) => {
                "the hash leads elsewhere".to_owned()
            }
            _ => "chance chooses one of its bindings".to_owned(),
        }
    }
}

/// What a message lacks that a binding of a headers exchange asks for.
fn missing_header(arguments: &Value, headers: &FieldTable) -> String {
    let how = arguments["x-match"].as_str().unwrap_or("all");
    if how.starts_with("any") {
        return "none of the headers is as it wants".to_owned();
    }
    let given = json_of(headers);
    let lacks = |(name, wanted): &(&String, &Value)| {
        let one = json!({"x-match": how, *name: wanted});
        let matcher = fields_of(&one).map(|fields| HeadersMatcher::parse(&fields));
        matches!(matcher, Ok(Ok(matcher)) if !matcher.matches(Some(headers)))
    };
    let mut all = arguments.as_object().into_iter().flatten();
    match all.find(lacks) {
        Some((name, wanted)) => match &given[name] {
            Value::Null => format!("it wants the header {name}: {wanted}"),
            other => format!("it wants {name}: {wanted}, and not {other}"),
        },
        None => "the headers do not match".to_owned(),
    }
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
        let mut topology = Topology {
            queues: BTreeMap::from([(
                "orders".to_owned(),
                json!({"type": "quorum", "policy": "limits"}),
            )]),
            policies: BTreeMap::from([(
                "rest".to_owned(),
                json!({"name": "rest", "definition": {"alternate-exchange": "lost"}}),
            )]),
            ..Topology::default()
        };
        for exchange in [
            events,
            exchange("eu", "fanout"),
            exchange("by-header", "headers"),
            exchange("by-all", "headers"),
            exchange("lost", "fanout"),
        ] {
            topology.add_exchange(exchange);
        }
        for binding in [
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
            binding(
                "by-all",
                "queue",
                "both",
                "",
                json!({"n": 1, "url": "a:b:c"}),
            ),
            binding("lost", "queue", "unrouted", "", json!({})),
        ] {
            topology.add_binding(binding);
        }
        topology
    }

    fn ways(exchange: &str, key: &str, headers: &FieldTable) -> Vec<(String, Vec<String>)> {
        let way = way(&topology(), exchange, key, headers).expect("a way");
        let (told, left_out) = way.told(HTTP_WAY_ANSWER_BYTES_MAX);
        assert_eq!(left_out, 0);
        told.into_iter()
            .map(|(queue, by)| (queue.to_owned(), by.into_iter().collect()))
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
        let big = fields_of(&json!({"size": 9})).expect("headers");
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
            let exchange = json!({"name": routing, "type": "direct", "internal": false,
                "arguments": arguments});
            topology.add_exchange(exchange);
            for (order, key) in ["0", "1", "2"].iter().enumerate() {
                let order = json!({"x-stream-partition-order": order});
                let stream = format!("s-{key}");
                let bound = binding(routing, "queue", &stream, key, order);
                topology.add_binding(bound);
                topology.queues.insert(stream, json!({"type": "stream"}));
            }
            topology.add_binding(binding(routing, "queue", "orders", "hello4", json!({})));
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
            let one = |(queue, by): (&&str, &BTreeSet<String>)| {
                let by: Vec<&str> = by.iter().map(String::as_str).collect();
                format!("{queue}: {}", by.join("; "))
            };
            let told: Vec<String> = way
                .told(HTTP_WAY_ANSWER_BYTES_MAX)
                .0
                .iter()
                .map(one)
                .collect();
            assert_eq!(told, expected, "{exchange} {key}");
        }
    }

    fn not_taken(exchange: &str, key: &str, headers: &Value) -> Vec<String> {
        let headers = fields_of(headers).expect("headers");
        let way = way(&topology(), exchange, key, &headers).expect("a way");
        let not = way
            .steps
            .into_iter()
            .filter(|step| step.taken == Some(false));
        not.map(|step| step.why).collect()
    }

    #[test]
    fn what_does_not_match_says_why() {
        let none = json!({});
        assert_eq!(
            not_taken("events", "order.old", &none),
            ["\"order.new\" does not match", "\"#.eu\" does not match"]
        );
        let all = |headers| not_taken("by-all", "", &headers);
        assert_eq!(all(json!({"n": 1, "url": "a:b:c"})), [""; 0]);
        assert_eq!(
            all(json!({"n": "1", "url": "a:b:c"})),
            ["it wants n: 1, and not \"1\""]
        );
        assert_eq!(all(json!({"n": 1})), ["it wants the header url: \"a:b:c\""]);
        let any = not_taken("by-header", "", &json!({"size": 8}));
        assert_eq!(any, ["none of the headers is as it wants"]);
    }

    #[test]
    fn the_policy_of_an_alternate_exchange_is_named() {
        let way = way(&topology(), "events", "x", &FieldTable::new()).expect("a way");
        let why = "no binding matched: its alternate exchange, by the policy \"rest\"";
        assert!(way.steps.iter().any(|step| step.why == why), "{way:?}");
    }

    #[test]
    fn bindings_that_are_looked_at_are_bounded() {
        assert_eq!(
            check_bound(HTTP_WAY_BINDINGS_MAX, HTTP_WAY_BINDINGS_BYTES_MAX),
            Ok(())
        );
        assert!(check_bound(HTTP_WAY_BINDINGS_MAX + 1, 0).is_err());
        assert!(check_bound(1, HTTP_WAY_BINDINGS_BYTES_MAX + 1).is_err());
    }

    #[test]
    fn an_answer_shows_the_most_bindings_that_it_may_and_not_one_more() {
        let step = |number: usize| Step {
            binding: binding("x", "queue", &format!("q{number}"), "", json!({})),
            taken: Some(true),
            why: String::new(),
        };
        let steps: Vec<Step> = (0..=HTTP_WAY_STEPS_MAX).map(step).collect();
        let count = |steps: &[Step]| shown(steps, usize::MAX).len();
        assert_eq!(count(&steps[..HTTP_WAY_STEPS_MAX]), HTTP_WAY_STEPS_MAX);
        assert_eq!(count(&steps), HTTP_WAY_STEPS_MAX);
    }

    /// A chain of exchanges with a queue at each: the ways together have the square of its length.
    #[test]
    fn ways_share_what_they_have_in_common_and_an_answer_says_what_it_leaves_out() {
        const LONG: usize = 400;
        let name = |at: usize| format!("x{at:03}{}", "n".repeat(200));
        let mut topology = Topology::default();
        for at in 0..LONG {
            let exchange = json!({"name": name(at), "type": "fanout", "arguments": {}});
            topology.add_exchange(exchange);
            let queue = format!("q{at:03}");
            topology.add_binding(binding(&name(at), "queue", &queue, "", json!({})));
            let next = binding(&name(at), "exchange", &name(at + 1), "", json!({}));
            topology.add_binding(next);
        }
        let way = way(&topology, &name(0), "", &FieldTable::new()).expect("a way");
        let held: usize = way.hops.iter().map(|hop| hop.text.len()).sum();
        let ends = way.queues.values().flatten();
        let held = held + ends.map(|(_, last)| last.len()).sum::<usize>();
        assert!(held < 2 * LONG * 250, "{held} bytes are held");
        let (told, left_out) = way.told(HTTP_WAY_ANSWER_BYTES_MAX);
        assert_eq!(told.len(), LONG, "each queue is named");
        let texts: Vec<&String> = told.values().flatten().collect();
        let bytes: usize = texts.iter().map(|text| text.len()).sum();
        assert!(bytes <= HTTP_WAY_ANSWER_BYTES_MAX, "{bytes} bytes");
        assert!(left_out > 0 && texts.len() + left_out == LONG, "{left_out}");
        let second = format!("{} -[]-> {} -[]-> q001", name(0), name(1));
        assert_eq!(told["q001"], BTreeSet::from([second]));
        let steps = shown(&way.steps, 10_000);
        assert!(!steps.is_empty() && json!(steps).to_string().len() < 11_000);
    }

    #[test]
    fn chance_may_take_any_binding() {
        let mut topology = topology();
        let random = json!({"name": "any", "type": "x-random", "internal": false, "arguments": {}});
        topology.add_exchange(random);
        for queue in ["a", "b"] {
            let bound = binding("any", "queue", queue, "", json!({}));
            topology.add_binding(bound);
        }
        let way = way(&topology, "any", "", &FieldTable::new()).expect("a way");
        assert!(way.steps.iter().all(|step| step.taken.is_none()));
        assert_eq!(way.queues.keys().collect::<Vec<_>>(), ["a", "b"]);
    }
}
