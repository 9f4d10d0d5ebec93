//! Exchanges and bindings.

use crate::api::{Binding, Topology};
use crate::app::App;
use crate::directory::{BindingId, BindingScope, Exchange};
use crate::history;
use crate::history::ranges::{Part, Ranges};
use crate::history::rates::Subject;
use crate::http::input::{json_of, percent_encode};
use crate::http::reply::{ApiError, Reply, fingerprint};
use crate::http::router::Call;
use crate::list_query::{self, Filter};
use crate::pairs;
use crate::queues::{changed, exchange_name};
use crate::row_lists::{self, Found, Source};
use crate::selection::PairSelection;
use leveret_types::FieldTable;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Instant;

type Answer = Result<Reply, ApiError>;

/// Rows that are made before they are written: each is made of the catalogue alone, so that many
/// at once cost no less, and has as many arguments as its client liked.
const ROWS_AT_ONCE: usize = 1;

fn key(vhost: &str, exchange: &str) -> u64 {
    fingerprint(format!("{vhost}\0{exchange}").as_bytes())
}

/// By what an exchange is known over time.
pub(crate) fn subject(vhost: &str, exchange: &str) -> Subject {
    Subject::Exchange(key(vhost, exchange))
}

fn exchange_json(app: &App, exchange: &Exchange, ranges: &Ranges) -> Value {
    let counters = [exchange.published_in, exchange.published_out];
    let key = key(&exchange.vhost, &exchange.name);
    let rates = app.rates.exchanges.of(key, counters, Instant::now());
    let mut json = json!({
        "message_stats": {
            "publish_in": exchange.published_in,
            "publish_in_details": {"rate": rates[0]},
            "publish_out": exchange.published_out,
            "publish_out_details": {"rate": rates[1]},
        },
        "name": exchange.name,
        "vhost": exchange.vhost,
        "type": exchange.kind,
        "durable": exchange.durable,
        "auto_delete": exchange.auto_delete,
        "internal": exchange.internal,
        "arguments": json_of(&exchange.arguments),
        "policy": exchange.policy,
        "user_who_performed_action": exchange.declared_by,
    });
    let parts = [Part::Exchange];
    history::write(app, Subject::Exchange(key), ranges, &parts, &mut json);
    json
}

/// What rows of exchanges are made from.
struct Exchanges {
    app: Arc<App>,
    ranges: Ranges,
    /// Bytes of their names.
    name_bytes: usize,
}

impl Source for Exchanges {
    /// Virtual host and name.
    type Key = (Arc<str>, Box<str>);
    type Row = Value;

    fn rows(&mut self, keys: &[Self::Key]) -> Vec<Option<Value>> {
        let row = |(vhost, name): &Self::Key| {
            let exchange = self.app.node().exchange(vhost, name)?;
            Some(exchange_json(&self.app, &exchange, &self.ranges))
        };
        keys.iter().map(row).collect()
    }

    fn batch(&self, _keys: &[Self::Key]) -> usize {
        ROWS_AT_ONCE
    }

    fn held_bytes(&self) -> usize {
        self.name_bytes
    }
}

fn list(call: &Call<'_>, vhost: Option<&str>) -> Answer {
    let mut found = Found::new(&call.query)?;
    let visible = row_lists::visible_vhosts(call, vhost);
    let mut within: Arc<str> = "".into();
    let mut name_bytes = 0;
    call.app.node().each_exchange(vhost, &mut |vhost, name| {
        if visible.as_ref().is_none_or(|seen| seen.contains(vhost)) {
            found.add(Some(name), || {
                name_bytes += name.len();
                (row_lists::shared(&mut within, vhost), name.into())
            });
        }
    });
    let source = Exchanges {
        app: Arc::clone(call.app),
        ranges: Ranges::of(&call.query)?,
        name_bytes,
    };
    row_lists::list(found, source, &call.query)
}

/// `GET /api/exchanges`
pub fn all(call: &Call<'_>) -> Answer {
    list(call, None)
}

/// `GET /api/exchanges/{vhost}`
pub fn of_vhost(call: &Call<'_>) -> Answer {
    list(call, Some(call.param(0)))
}

fn declared(call: &Call<'_>) -> Result<Exchange, ApiError> {
    let (vhost, name) = (call.param(0), exchange_name(call.param(1)));
    let exchange = call.app.node().exchange(vhost, name);
    exchange.ok_or(ApiError::NotFound)
}

/// `GET /api/exchanges/{vhost}/{name}`
pub fn one(call: &Call<'_>) -> Answer {
    let exchange = declared(call)?;
    let mut json = exchange_json(call.app, &exchange, &Ranges::of(&call.query)?);
    let of = PairSelection::Exchange {
        vhost: exchange.vhost,
        exchange: exchange.name,
    };
    let pairs = pairs::everywhere(call.app, of);
    json["incoming"] = pairs::without(pairs.channels, "exchange");
    json["outgoing"] = pairs::without(pairs.flows, "exchange");
    Ok(Reply::Json(list_query::one(json, &call.query)))
}

/// `PUT /api/exchanges/{vhost}/{name}`
pub fn put(call: &Call<'_>) -> Answer {
    let body = call.body()?;
    let change = Topology::DeclareExchange {
        name: exchange_name(call.param(1)).to_owned(),
        kind: body.text_or("type", "direct")?.to_owned(),
        durable: body.flag_or("durable", true)?,
        auto_delete: body.flag_or("auto_delete", false)?,
        internal: body.flag_or("internal", false)?,
        arguments: body.table("arguments")?,
    };
    changed(call, change)
}

/// `DELETE /api/exchanges/{vhost}/{name}`
pub fn delete(call: &Call<'_>) -> Answer {
    let exchange = declared(call)?;
    let if_unused = call.query.flag("if-unused");
    let change = Topology::DeleteExchange {
        name: exchange.name,
        if_unused,
    };
    changed(call, change).map(|_| Reply::Done)
}

/// The name of a binding among those of one source and destination: the routing key, and what its
/// arguments come to. `~` stands for an empty key without arguments.
#[must_use]
pub fn properties_key(binding: &Binding) -> String {
    let key = percent_encode(&binding.routing_key);
    match (key.is_empty(), binding.arguments.is_empty()) {
        (true, true) => "~".to_owned(),
        (false, true) => key,
        (_, false) => format!("{key}~{:016x}", hash(&binding.arguments)),
    }
}

/// The arguments as JSON, whose keys are in order: the same arguments have the same hash at every
/// start.
fn hash(arguments: &FieldTable) -> u64 {
    fingerprint(json_of(arguments).to_string().as_bytes())
}

/// A binding in the API's words.
pub(crate) fn binding_json(vhost: &str, binding: &Binding) -> Value {
    json!({
        "source": binding.source,
        "vhost": vhost,
        "destination": binding.destination,
        "destination_type": if binding.to_queue { "queue" } else { "exchange" },
        "routing_key": binding.routing_key,
        "arguments": json_of(&binding.arguments),
        "properties_key": properties_key(binding),
    })
}

/// Says which bindings are meant where their numbers may be others' by now.
type IsMeant = Box<dyn Fn(&Binding) -> bool + Send>;

/// Virtual host and place of a binding.
type BindingKey = (Arc<str>, BindingId);

/// What rows of bindings are made from.
struct Bindings {
    app: Arc<App>,
    is_meant: IsMeant,
}

impl Source for Bindings {
    type Key = BindingKey;
    type Row = Value;

    fn rows(&mut self, keys: &[Self::Key]) -> Vec<Option<Value>> {
        let row = |(vhost, id): &Self::Key| {
            let binding = self.app.node().binding_at(vhost, *id)?;
            (self.is_meant)(&binding).then(|| binding_json(vhost, &binding))
        };
        keys.iter().map(row).collect()
    }

    fn batch(&self, _keys: &[Self::Key]) -> usize {
        ROWS_AT_ONCE
    }
}

fn bindings_in(call: &Call<'_>, scope: BindingScope<'_>, is_meant: IsMeant) -> Answer {
    let mut found = Found::new(&call.query)?;
    let visible = match scope {
        BindingScope::All => row_lists::visible_vhosts(call, None),
        _ => None,
    };
    let mut within: Arc<str> = "".into();
    let filter = Filter::of(&call.query)?;
    let mut to_filter: Vec<BindingKey> = Vec::new();
    call.app.node().each_binding(scope, &mut |vhost, id| {
        if visible.as_ref().is_none_or(|seen| seen.contains(vhost)) {
            let mut key = || (row_lists::shared(&mut within, vhost), id);
            match filter {
                None => found.add(None, key),
                Some(_) => to_filter.push(key()),
            }
        }
    });
    for (vhost, id) in to_filter {
        let binding = call.app.node().binding_at(&vhost, id);
        if let Some(binding) = binding.filter(|binding| is_meant(binding)) {
            let name = filter.as_ref().and_then(|keep| name_of(&binding, keep));
            found.add(name, || (vhost, id));
        }
    }
    let app = Arc::clone(call.app);
    row_lists::list(found, Bindings { app, is_meant }, &call.query)
}

/// What a filter by name lets through of a binding, which has none: one of its ends, or its key.
fn name_of<'a>(binding: &'a Binding, keep: &Filter) -> Option<&'a str> {
    let names = [&binding.source, &binding.destination, &binding.routing_key];
    names
        .into_iter()
        .map(String::as_str)
        .find(|name| keep.takes(name))
}

/// `GET /api/bindings`
pub fn bindings(call: &Call<'_>) -> Answer {
    bindings_in(call, BindingScope::All, Box::new(|_| true))
}

/// `GET /api/bindings/{vhost}`
pub fn bindings_of_vhost(call: &Call<'_>) -> Answer {
    bindings_in(call, BindingScope::Vhost(call.param(0)), Box::new(|_| true))
}

/// As RabbitMQ has it, what is not there has no bindings.
fn no_bindings(call: &Call<'_>) -> Answer {
    list_query::list_of(Vec::new(), &call.query)
}

/// `GET /api/queues/{vhost}/{name}/bindings`
pub fn bindings_of_queue(call: &Call<'_>) -> Answer {
    let (vhost, queue) = (call.param(0), call.param(1));
    if call.app.node().declared_queue(vhost, queue).is_none() {
        return no_bindings(call);
    }
    let scope = BindingScope::ToQueue { vhost, queue };
    bindings_in(call, scope, is_to(queue, true))
}

/// `GET /api/exchanges/{vhost}/{name}/bindings/source`
pub fn bindings_from(call: &Call<'_>) -> Answer {
    let Ok(exchange) = declared(call) else {
        return no_bindings(call);
    };
    let scope = BindingScope::Source {
        vhost: call.param(0),
        exchange: &exchange.name,
    };
    let source = exchange.name.clone();
    bindings_in(
        call,
        scope,
        Box::new(move |binding| binding.source == source),
    )
}

/// `GET /api/exchanges/{vhost}/{name}/bindings/destination`
pub fn bindings_to(call: &Call<'_>) -> Answer {
    let Ok(exchange) = declared(call) else {
        return no_bindings(call);
    };
    let scope = BindingScope::ToExchange {
        vhost: call.param(0),
        exchange: &exchange.name,
    };
    bindings_in(call, scope, is_to(&exchange.name, false))
}

/// Bindings to this queue or exchange.
fn is_to(name: &str, to_queue: bool) -> IsMeant {
    let name = name.to_owned();
    Box::new(move |binding| binding.to_queue == to_queue && binding.destination == name)
}

/// Both ends that the path names must be there.
fn check_ends(call: &Call<'_>, to_queue: bool) -> Result<(), ApiError> {
    let node = call.app.node();
    let (vhost, source, destination) = (call.param(0), exchange_name(call.param(1)), call.param(2));
    let missing = |kind: &str, name: &str| {
        ApiError::Missing(format!("no {kind} '{name}' in vhost '{vhost}'"))
    };
    let exchange = |name: &str| match node.exchange(vhost, name) {
        Some(_) => Ok(()),
        None => Err(missing("exchange", name)),
    };
    exchange(source)?;
    match to_queue {
        false => exchange(destination),
        true if node.declared_queue(vhost, destination).is_some() => Ok(()),
        true => Err(missing("queue", destination)),
    }
}

/// Whether a binding is one between the two ends that the path names.
fn is_between(call: &Call<'_>, to_queue: bool) -> IsMeant {
    let source = exchange_name(call.param(1)).to_owned();
    let is_to = is_to(call.param(2), to_queue);
    Box::new(move |binding| binding.source == source && is_to(binding))
}

/// The ids of the bindings between the two ends that the path names: none where one of them is
/// not there.
fn between(call: &Call<'_>, to_queue: bool) -> Vec<BindingId> {
    let (node, vhost, destination) = (call.app.node(), call.param(0), call.param(2));
    let scope = match to_queue {
        true => BindingScope::ToQueue {
            vhost,
            queue: destination,
        },
        false => BindingScope::ToExchange {
            vhost,
            exchange: destination,
        },
    };
    let mut ids: Vec<BindingId> = Vec::new();
    node.each_binding(scope, &mut |_, id| ids.push(id));
    let is_meant = is_between(call, to_queue);
    ids.retain(|id| node.binding_at(vhost, *id).is_some_and(|b| is_meant(&b)));
    ids
}

fn list_between(call: &Call<'_>, to_queue: bool) -> Answer {
    let mut found = Found::new(&call.query)?;
    let vhost: Arc<str> = call.param(0).into();
    for id in between(call, to_queue) {
        found.add(None, || (Arc::clone(&vhost), id));
    }
    let app = Arc::clone(call.app);
    let is_meant = is_between(call, to_queue);
    row_lists::list(found, Bindings { app, is_meant }, &call.query)
}

fn bind(call: &Call<'_>, to_queue: bool) -> Answer {
    check_ends(call, to_queue)?;
    let body = call.body()?;
    let binding = Binding {
        source: exchange_name(call.param(1)).to_owned(),
        destination: call.param(2).to_owned(),
        to_queue,
        routing_key: body.text_or("routing_key", "")?.to_owned(),
        arguments: body.table("arguments")?,
    };
    // As RabbitMQ has it: relative to the path of the request, which has no slash at its end.
    let id = format!(
        "{}/{}",
        percent_encode(call.param(2)),
        percent_encode(&properties_key(&binding))
    );
    changed(call, Topology::Bind(binding))?;
    Ok(Reply::Created(Some(id)))
}

fn named(call: &Call<'_>, to_queue: bool) -> Result<Binding, ApiError> {
    let (node, vhost) = (call.app.node(), call.param(0));
    let ids = between(call, to_queue).into_iter();
    let given = call.param(3);
    let encoded = encoded_key(given);
    let is_it = |binding: &Binding| {
        let key = properties_key(binding);
        key == given || key == encoded
    };
    let mut found = ids.filter_map(|id| node.binding_at(vhost, id));
    found.find(is_it).ok_or(ApiError::NotFound)
}

/// The name of a binding where its client gave the routing key as it is: many put it into the path
/// themselves, where RabbitMQ understands both.
fn encoded_key(given: &str) -> String {
    match given.rsplit_once('~') {
        Some((key, hash)) if hash.len() == 16 => format!("{}~{hash}", percent_encode(key)),
        _ => percent_encode(given),
    }
}

fn unbind(call: &Call<'_>, to_queue: bool) -> Answer {
    let binding = named(call, to_queue)?;
    changed(call, Topology::Unbind(binding)).map(|_| Reply::Done)
}

/// `GET /api/bindings/{vhost}/e/{exchange}/q/{queue}`
pub fn list_to_queue(call: &Call<'_>) -> Answer {
    list_between(call, true)
}

/// `POST /api/bindings/{vhost}/e/{exchange}/q/{queue}`
pub fn bind_queue(call: &Call<'_>) -> Answer {
    bind(call, true)
}

/// `GET /api/bindings/{vhost}/e/{exchange}/q/{queue}/{properties}`
pub fn one_to_queue(call: &Call<'_>) -> Answer {
    named(call, true).map(|b| Reply::Json(binding_json(call.param(0), &b)))
}

/// `DELETE /api/bindings/{vhost}/e/{exchange}/q/{queue}/{properties}`
pub fn unbind_queue(call: &Call<'_>) -> Answer {
    unbind(call, true)
}

/// `GET /api/bindings/{vhost}/e/{exchange}/e/{exchange}`
pub fn list_to_exchange(call: &Call<'_>) -> Answer {
    list_between(call, false)
}

/// `POST /api/bindings/{vhost}/e/{exchange}/e/{exchange}`
pub fn bind_exchange(call: &Call<'_>) -> Answer {
    bind(call, false)
}

/// `GET /api/bindings/{vhost}/e/{exchange}/e/{exchange}/{properties}`
pub fn one_to_exchange(call: &Call<'_>) -> Answer {
    named(call, false).map(|b| Reply::Json(binding_json(call.param(0), &b)))
}

/// `DELETE /api/bindings/{vhost}/e/{exchange}/e/{exchange}/{properties}`
pub fn unbind_exchange(call: &Call<'_>) -> Answer {
    unbind(call, false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use leveret_types::FieldValue;

    #[test]
    fn bindings_are_named_by_key_and_arguments() {
        let named = |key: &str, arguments: FieldTable| {
            properties_key(&Binding {
                source: "x".to_owned(),
                destination: "q".to_owned(),
                to_queue: true,
                routing_key: key.to_owned(),
                arguments,
            })
        };
        assert_eq!(named("", FieldTable::new()), "~");
        assert_eq!(named("a.b", FieldTable::new()), "a.b");
        assert_eq!(named("~/", FieldTable::new()), "%7E%2F");
        let one = named("", [("x-match", FieldValue::text("all"))].into());
        let other = named("", [("x-match", FieldValue::text("any"))].into());
        assert!(one.starts_with('~') && one != other && one.len() == 17);
        // Each is found by its raw key as well.
        let keyed = named("a.*", [("x-match", FieldValue::text("all"))].into());
        assert_eq!(encoded_key("a.*"), named("a.*", FieldTable::new()));
        assert_eq!(encoded_key(&keyed.replace("%2A", "*")), keyed);
    }
}
