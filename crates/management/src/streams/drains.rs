//! Partitions of super streams that are drained: no routing key leads to them, and no stream client
//! publishes to them, while consumers go on. Their bindings say so.

use crate::api::{Binding, Topology};
use crate::app::App;
use crate::directory::BindingScope;
use crate::http::reply::{ApiError, Reply};
use crate::http::router::Call;
use crate::streams::{is_super_stream, ordered_partitions};
use leveret_routing::{PARTITION_DRAINED, is_drained};
use leveret_types::{FieldTable, FieldValue};
use serde_json::json;
use std::collections::BTreeSet;

type Answer = Result<Reply, ApiError>;

/// The bindings of a super stream's exchange to queues.
fn bindings(app: &App, vhost: &str, name: &str) -> impl Iterator<Item = Binding> {
    let scope = BindingScope::Source {
        vhost,
        exchange: name,
    };
    let bindings = app.node().bindings(scope).into_iter();
    bindings.map(|(_, binding)| binding).filter(|b| b.to_queue)
}

/// The names of the partitions that are drained.
pub(crate) fn drained(app: &App, vhost: &str, name: &str) -> BTreeSet<String> {
    bindings(app, vhost, name)
        .filter(|binding| is_drained(&binding.arguments))
        .map(|binding| binding.destination)
        .collect()
}

/// The key of the partition that the path names.
fn key(call: &Call<'_>) -> Result<String, ApiError> {
    let (vhost, name, partition) = (call.param(0), call.param(1), call.param(2));
    let exchange = call.app.node().exchange(vhost, name);
    if !exchange.is_some_and(|exchange| is_super_stream(&exchange)) {
        return Err(ApiError::NotFound);
    }
    let partitions = ordered_partitions(call.app, vhost, name).into_iter();
    let mut found = partitions.filter(|(_, stream, _)| stream == partition);
    found.next().map(|(.., key)| key).ok_or(ApiError::NotFound)
}

/// `GET /api/leveret/super-streams/{vhost}/{name}/drained/{partition}`: whether it is.
pub fn partition(call: &Call<'_>) -> Answer {
    let key = key(call)?;
    let partition = call.param(2);
    let drained = drained(call.app, call.param(0), call.param(1));
    Ok(Reply::Json(json!({
        "name": partition,
        "binding_key": key,
        "drained": drained.contains(partition),
    })))
}

/// `PUT` of the same: no routing key leads to the partition any more, and no stream client
/// publishes to it. Consumers go on.
pub fn drain(call: &Call<'_>) -> Answer {
    key(call)?;
    let (vhost, name, partition) = (call.param(0), call.param(1), call.param(2));
    let drained = drained(call.app, vhost, name);
    let partitions = ordered_partitions(call.app, vhost, name).into_iter();
    let mut others = partitions.filter(|(_, stream, _)| stream != partition);
    if !others.any(|(_, stream, _)| !drained.contains(&stream)) {
        return Err(ApiError::BadRequest(format!(
            "'{partition}' is the last partition of '{name}' that takes publishes: undrain or add \
             another one first"
        )));
    }
    rebind(call, true)
}

/// `DELETE` of the same: the partition takes publishes again.
pub fn undrain(call: &Call<'_>) -> Answer {
    key(call)?;
    rebind(call, false)
}

/// Binds the partition anew where its bindings do not say what is wanted. The new binding comes
/// before the old one goes, so that the partition keeps its place; who finds both takes it for
/// drained, until this is asked for again.
fn rebind(call: &Call<'_>, drains: bool) -> Answer {
    let (vhost, name, partition) = (call.param(0), call.param(1), call.param(2));
    let change = |change| call.app.node().change(call.who.actor(), vhost, change);
    let old: Vec<Binding> = bindings(call.app, vhost, name)
        .filter(|b| b.destination == partition && is_drained(&b.arguments) != drains)
        .collect();
    for binding in old {
        let others = binding.arguments.iter();
        let others = others.filter(|(name, _)| *name != PARTITION_DRAINED);
        let mut arguments: FieldTable = others
            .map(|(name, value)| (name.to_owned(), value.clone()))
            .collect();
        if drains {
            arguments.set(PARTITION_DRAINED, FieldValue::Bool(true));
        }
        change(Topology::Bind(Binding {
            arguments,
            ..binding.clone()
        }))?;
        change(Topology::Unbind(binding))?;
    }
    Ok(Reply::Done)
}
