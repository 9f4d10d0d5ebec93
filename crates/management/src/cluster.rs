//! `/api/leveret/cluster`: the cluster as a whole, and what operators do to it. RabbitMQ does these
//! things by its command line alone, but for the members of quorum queues:
//! `/api/queues/quorum/.../replicas`.

pub(crate) mod view;

pub use crate::cluster::view::{ClusterChange, ClusterNode, ClusterView};
use crate::http::input::Body;
use crate::http::reply::{ApiError, Reply};
use crate::http::router::Call;
use crate::queues;
use serde_json::{Value, json};

type Answer = Result<Reply, ApiError>;

/// `GET /api/leveret/cluster`. A node without cluster has none; with `optional=true` it answers
/// `null`.
pub fn status(call: &Call<'_>) -> Answer {
    match call.app.node().cluster() {
        Some(view) => Ok(Reply::Json(view_json(&view))),
        None if call.query.flag("optional") => Ok(Reply::Json(Value::Null)),
        None => Err(ApiError::NotFound),
    }
}

fn view_json(view: &ClusterView) -> Value {
    let nodes: Vec<Value> = view
        .nodes
        .iter()
        .map(|node| {
            json!({
                "number": node.number,
                "name": node.name,
                "uuid": node.uuid,
                "address": node.address,
                "up": node.up,
                "votes": node.votes,
                "is_to_vote": node.is_to_vote,
                "draining": node.draining,
                "outdated": node.outdated,
                "queue_members": node.members,
                "queues_led": node.leads,
                "queues_leading": node.leading,
                "queues_alone": node.homes,
            })
        })
        .collect();
    json!({
        "id": view.id,
        "own": view.own,
        "leader": view.leader,
        "term": view.term,
        "committed": view.committed,
        "applied": view.applied,
        "leaders_unknown": view.leaders_unknown,
        "nodes": nodes,
    })
}

/// `POST /api/leveret/cluster/{change}`, with what it needs in the body.
pub fn change(call: &Call<'_>) -> Answer {
    let body = call.body()?;
    let text = |name| body.text(name).map(str::to_owned);
    let pattern = |name| body.text_or(name, ".*").map(str::to_owned);
    let change = match call.param(0) {
        "forget" => ClusterChange::Forget {
            node: text("node")?,
        },
        "promote" => ClusterChange::Promote {
            node: text("node")?,
        },
        "drain" => ClusterChange::Drain {
            node: text("node")?,
            draining: body.flag_or("draining", true)?,
        },
        "transfer" => ClusterChange::Transfer {
            vhost: body.text_or("vhost", "/")?.to_owned(),
            queue: body.text_or("queue", "")?.to_owned(),
            node: text("node")?,
        },
        "grow" => ClusterChange::Grow {
            node: text("node")?,
            vhosts: pattern("vhosts")?,
            queues: pattern("queues")?,
            even: is_even(&body)?,
        },
        "grow-to-count" => ClusterChange::GrowTo {
            count: usize::try_from(body.integer_or("count", 0)?).unwrap_or(0),
            vhosts: pattern("vhosts")?,
            queues: pattern("queues")?,
            even: is_even(&body)?,
        },
        "shrink" => ClusterChange::Shrink {
            node: text("node")?,
            vhosts: pattern("vhosts")?,
            queues: pattern("queues")?,
        },
        "rebalance" => ClusterChange::Rebalance {
            vhosts: pattern("vhosts")?,
            queues: pattern("queues")?,
        },
        _ => return Err(ApiError::NotFound),
    };
    carry_out(call, &change)
}

/// `POST /api/rebalance/queues`: of all queues, or of those whose names match `vhosts` and `queues`
/// in the body.
pub fn rebalance(call: &Call<'_>) -> Answer {
    let body = call.body()?;
    let change = ClusterChange::Rebalance {
        vhosts: body.text_or("vhosts", ".*")?.to_owned(),
        queues: body.text_or("queues", ".*")?.to_owned(),
    };
    match call.app.node().cluster() {
        Some(_) => carry_out(call, &change),
        None => Ok(Reply::Done),
    }
}

/// Whether the strategy is `even` and not `all`: which queues get a member.
fn is_even(body: &Body) -> Result<bool, ApiError> {
    match body.text_or("strategy", "all")? {
        "all" => Ok(false),
        "even" => Ok(true),
        other => Err(ApiError::BadRequest(format!(
            "strategy '{other}' is not recognised: it is all or even"
        ))),
    }
}

/// `POST /api/queues/quorum/{vhost}/{name}/replicas/add`, with the node in the body.
pub fn add_member(call: &Call<'_>) -> Answer {
    let (vhost, queue, node) = member(call)?;
    carry_out(call, &ClusterChange::AddMember { vhost, queue, node })?;
    Ok(Reply::Done)
}

/// `DELETE /api/queues/quorum/{vhost}/{name}/replicas/delete`, with the node in the body.
pub fn remove_member(call: &Call<'_>) -> Answer {
    let (vhost, queue, node) = member(call)?;
    carry_out(call, &ClusterChange::RemoveMember { vhost, queue, node })?;
    Ok(Reply::Accepted)
}

/// Virtual host, queue and node.
fn member(call: &Call<'_>) -> Result<(String, String, String), ApiError> {
    let queue = queues::declared(call)?;
    let node = call.body()?.text("node")?.to_owned();
    Ok((queue.vhost, queue.name, node))
}

/// `POST /api/queues/quorum/replicas/on/{node}/grow`, with patterns and the strategy in the body.
pub fn grow_on(call: &Call<'_>) -> Answer {
    let body = call.body()?;
    let node = cluster_node(call)?;
    if !node.up {
        return Err(ApiError::NotFound);
    }
    let change = ClusterChange::Grow {
        node: node.name,
        vhosts: body.text_or("vhost_pattern", ".*")?.to_owned(),
        queues: body.text_or("queue_pattern", ".*")?.to_owned(),
        even: is_even(&body)?,
    };
    carry_out(call, &change)?;
    Ok(Reply::Done)
}

/// `DELETE /api/queues/quorum/replicas/on/{node}/shrink`
pub fn shrink_on(call: &Call<'_>) -> Answer {
    let change = ClusterChange::Shrink {
        node: cluster_node(call)?.name,
        vhosts: ".*".to_owned(),
        queues: ".*".to_owned(),
    };
    carry_out(call, &change)?;
    Ok(Reply::Accepted)
}

/// The node that the path names, by name or number.
fn cluster_node(call: &Call<'_>) -> Result<ClusterNode, ApiError> {
    let wanted = call.param(0);
    let view = call.app.node().cluster().ok_or(ApiError::NotFound)?;
    let mut nodes = view.nodes.into_iter();
    let found = nodes.find(|node| node.name == wanted || node.number.to_string() == wanted);
    found.ok_or(ApiError::NotFound)
}

fn carry_out(call: &Call<'_>, change: &ClusterChange) -> Answer {
    let changed = call
        .app
        .node()
        .change_cluster(change)
        .map_err(ApiError::BadRequest)?;
    Ok(Reply::Json(json!({ "queues": changed })))
}
