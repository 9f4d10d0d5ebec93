//! Virtual hosts: what the HTTP API shows and changes of them.

use super::{Answer, alter, delete, found, list, put, tags};
use crate::access::Who;
use crate::app::App;
use crate::directory::Vhost;
use crate::history::ranges::Ranges;
use crate::history::vhost_sums;
use crate::http::reply::{ApiError, Reply, merge};
use crate::http::router::Call;
use leveret_metadata::Command;
use serde_json::{Value, json};

/// A virtual host that is in this state on the nodes of the cluster.
fn vhost_json(vhost: &Vhost, cluster_state: &Value) -> Value {
    json!({
        "name": vhost.name,
        "description": vhost.description,
        "tags": vhost.tags,
        "default_queue_type": vhost.default_queue_type,
        "metadata": {
            "description": vhost.description,
            "tags": vhost.tags,
            "default_queue_type": vhost.default_queue_type,
        },
        "protected_from_deletion": vhost.protected,
        "tracing": vhost.tracing,
        "cluster_state": cluster_state,
    })
}

/// The nodes that serve a virtual host: all that are up do.
fn cluster_state(app: &App) -> Value {
    let up = match app.node().cluster() {
        Some(cluster) => {
            let up = cluster.nodes.into_iter().filter(|node| node.up);
            up.map(|node| node.name).collect()
        }
        None => vec![app.node().name()],
    };
    up.into_iter()
        .map(|name| (name, json!("running")))
        .collect()
}

/// `GET /api/vhosts`
pub fn vhosts(call: &Call<'_>) -> Answer {
    let mut vhosts = call.app.node().vhosts();
    vhosts.retain(|vhost| call.app.sees(call.who, &vhost.name));
    let sums = wanted_sums(call, None)?;
    let state = cluster_state(call.app);
    let row = |vhost: &Vhost| with_sums(vhost_json(vhost, &state), sums.as_ref());
    list(call, vhosts.iter().map(row))
}

/// `GET /api/vhosts/{vhost}`
pub fn vhost(call: &Call<'_>) -> Answer {
    let vhost = call.app.node().vhost(call.param(0));
    let sums = wanted_sums(call, vhost.as_ref().map(|vhost| vhost.name.as_str()))?;
    found(call, vhost, |vhost| {
        with_sums(vhost_json(vhost, &cluster_state(call.app)), sums.as_ref())
    })
}

/// What happens in virtual hosts, unless the client does not want to know: it costs a look at every
/// queue.
fn wanted_sums(call: &Call<'_>, only: Option<&str>) -> Result<Option<Value>, ApiError> {
    let ranges = Ranges::of(&call.query)?;
    let wanted = !call.query.flag("disable_stats");
    Ok(wanted.then(|| vhost_sums::all(call.app, only, &ranges)))
}

fn with_sums(mut json: Value, sums: Option<&Value>) -> Value {
    if let Some(sums) = sums {
        let sum = vhost_sums::of(sums, json["name"].as_str().unwrap_or_default());
        merge(&mut json, sum);
    }
    json
}

/// `PUT /api/vhosts/{name}`
pub fn put_vhost(call: &Call<'_>) -> Answer {
    let body = call.body()?;
    let name = call.param(0).to_owned();
    let existed = call.app.node().vhost(&name).is_some();
    let text = |field| match body.get(field) {
        Some(_) => body.text(field).map(|text| Some(text.to_owned())),
        None => Ok(None),
    };
    let kind = text("default_queue_type")?;
    let command = Command::VhostPut {
        vhost: name,
        description: text("description")?,
        tags: body.get("tags").map(tags).transpose()?,
        default_queue_type: kind.filter(|kind| kind != "undefined"),
        protected: None,
        tracing: match body.get("tracing") {
            Some(_) => Some(body.flag_or("tracing", false)?),
            None => None,
        },
    };
    let reply = put(call, existed, command)?;
    // As in RabbitMQ, whoever made it may use it.
    if let (Reply::Created(_), Who::User { name, .. }) = (&reply, call.who) {
        let everything = || ".*".to_owned();
        let command = Command::PermissionSet {
            vhost: call.param(0).to_owned(),
            user: name.clone(),
            configure: everything(),
            write: everything(),
            read: everything(),
        };
        alter(call, command)?;
    }
    Ok(reply)
}

/// `DELETE /api/vhosts/{vhost}`
pub fn delete_vhost(call: &Call<'_>) -> Answer {
    let name = call.param(0).to_owned();
    let vhost = call.app.node().vhost(&name);
    if vhost.is_some_and(|vhost| vhost.protected) {
        return Err(ApiError::Precondition(format!(
            "Refusing to delete virtual host '{name}' because it is protected from deletion"
        )));
    }
    delete(call, Command::VhostDelete { vhost: name })
}

/// `POST /api/vhosts/{vhost}/start/{node}`: it runs on every node that does.
pub fn start(call: &Call<'_>) -> Answer {
    match crate::overview::knows_node(call.app, call.param(1)) {
        true => Ok(Reply::Done),
        false => Err(ApiError::BadRequest(format!(
            "Unknown node: {}",
            call.param(1)
        ))),
    }
}

/// `POST` and `DELETE /api/vhosts/{vhost}/deletion/protection`
pub fn protect_vhost(call: &Call<'_>) -> Answer {
    set_protection(call, true)
}

/// See [`protect_vhost`].
pub fn unprotect_vhost(call: &Call<'_>) -> Answer {
    set_protection(call, false)
}

fn set_protection(call: &Call<'_>, protected: bool) -> Answer {
    let command = Command::VhostPut {
        vhost: call.param(0).to_owned(),
        description: None,
        tags: None,
        default_queue_type: None,
        protected: Some(protected),
        tracing: None,
    };
    delete(call, command)
}
