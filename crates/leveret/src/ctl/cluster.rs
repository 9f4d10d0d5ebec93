//! The commands about the cluster, and `rabbitmq-queues`' about members of replicated queues.

use super::node::or_no_queue;
use super::options::Which;
use super::{Context, Failure, Output, code};
use crate::cli::http::segment;
use crate::cli::table::{Rows, show};
use crate::cli::target::CallError;
use serde_json::{Value, json};

type Result<T> = std::result::Result<T, Failure>;

/// The cluster, seen from the node that is asked; none if it is in none.
pub fn view(context: &Context<'_>) -> Result<Option<Value>> {
    match context.target.get("/api/leveret/cluster") {
        Ok(view) => Ok(Some(view)),
        Err(CallError::Refused(404, _)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// What is to be said where a list has nothing of nodes that are not reached; nothing if all are.
pub fn unreached(context: &Context<'_>) -> Result<String> {
    let Some(view) = view(context)? else {
        return Ok(String::new());
    };
    let nodes = view["nodes"].as_array().into_iter().flatten();
    let down = nodes.filter(|node| node["up"] != true);
    let down: Vec<String> = down.map(|node| show(&node["name"])).collect();
    Ok(match down.is_empty() {
        true => String::new(),
        false => format!(
            "; not known of nodes that are not reached: {}",
            down.join(", ")
        ),
    })
}

/// What is to be known of a cluster at a glance: who is reached, who leads, what has no leader.
pub fn in_short(view: &Value) -> Vec<(&'static str, String)> {
    let nodes: Vec<&Value> = view["nodes"].as_array().into_iter().flatten().collect();
    let names = |wanted: &dyn Fn(&Value) -> bool| {
        let wanted = nodes.iter().filter(|node| wanted(node));
        let names: Vec<String> = wanted.map(|node| show(&node["name"])).collect();
        names
    };
    let down = names(&|node| node["up"] != true);
    let up = format!("{} of {}", nodes.len() - down.len(), nodes.len());
    let led = names(&|node| node["number"] == view["leader"]).pop();
    let mut lines = vec![
        ("Nodes up", up),
        (
            "Catalogue led by",
            led.unwrap_or_else(|| {
                "nobody: too few of the nodes that vote are reached, nothing can be declared".into()
            }),
        ),
        (
            "Replicated queues without a known leader",
            show(&view["leaders_unknown"]),
        ),
    ];
    let without = names(&|node| node["votes"] != true);
    let voting = format!("{} of {}", nodes.len() - without.len(), nodes.len());
    lines.insert(1, ("Nodes that vote", voting));
    if !without.is_empty() {
        lines.insert(2, ("Nodes without a vote", without.join(", ")));
    }
    if !down.is_empty() {
        lines.insert(1, ("Nodes down", down.join(", ")));
    }
    let outdated = names(&|node| node["outdated"] == true);
    if !outdated.is_empty() {
        lines.push(("Outdated data, to be replaced", outdated.join(", ")));
    }
    let voters = names(&|node| node["votes"] == true).len();
    if voters > 0 && voters.is_multiple_of(2) {
        lines.push(("Warning", even_voters(voters)));
    }
    lines
}

/// Why an even number of voters is no gain.
pub fn even_voters(voters: usize) -> String {
    format!(
        "{voters} nodes vote, an even number: the cluster bears no more losses than with {}, and \
         half of it cannot go on alone",
        voters - 1
    )
}

pub fn forget_cluster_node(context: &Context<'_>) -> Result<Output> {
    let node = context.argument(0);
    if context.options.which == Some(Which::Offline) {
        return Err(Failure::usage(format!(
            "--offline changes a node that does not run: here a majority decides who belongs to \
             it. Run forget_cluster_node {node} without it, against a node that runs"
        )));
    }
    context.banner(format!("Removing node {node} from the cluster"));
    change(context, "forget", &json!({ "node": node }))?;
    Ok(Output::Done)
}

pub fn grow(context: &Context<'_>) -> Result<Output> {
    let (node, strategy) = (context.argument(0), context.argument(1));
    check_strategy(strategy)?;
    context.banner(format!("Growing {strategy} quorum queues on {node}..."));
    let mut body = patterns(context);
    body["node"] = node.into();
    body["strategy"] = strategy.into();
    let answer = change(context, "grow", &body)?;
    Ok(concerned(&answer))
}

/// Gives queues with fewer members more, on whichever nodes.
pub fn grow_to_count(context: &Context<'_>) -> Result<Output> {
    let (count, strategy) = (context.argument(0), context.argument(1));
    let number: Option<u32> = count.parse().ok().filter(|count| *count > 0);
    let number = number
        .ok_or_else(|| Failure::usage(format!("node count '{count}' must be greater than 0.")))?;
    check_strategy(strategy)?;
    context.banner(format!(
        "Growing {strategy} quorum queues on {count} nodes..."
    ));
    let mut body = patterns(context);
    body["count"] = number.into();
    body["strategy"] = strategy.into();
    let answer = change(context, "grow-to-count", &body)?;
    Ok(concerned(&answer))
}

fn check_strategy(strategy: &str) -> Result<()> {
    match strategy {
        "all" | "even" => Ok(()),
        other => Err(Failure::usage(format!(
            "strategy '{other}' is not recognised."
        ))),
    }
}

pub fn shrink(context: &Context<'_>) -> Result<Output> {
    let node = context.argument(0);
    context.banner(format!("Shrinking quorum queues on {node}..."));
    let mut body = patterns(context);
    body["node"] = node.into();
    let answer = change(context, "shrink", &body)?;
    Ok(concerned(&answer))
}

pub fn add_member(context: &Context<'_>) -> Result<Output> {
    let (queue, node) = (context.argument(0), context.argument(1));
    context.banner(format!(
        "Adding a replica for queue {queue} on node {node}..."
    ));
    change_member(context, "POST", "add", node)
}

pub fn delete_member(context: &Context<'_>) -> Result<Output> {
    let (queue, node) = (context.argument(0), context.argument(1));
    context.banner(format!(
        "Removing a replica of queue {queue} on node {node}..."
    ));
    change_member(context, "DELETE", "delete", node)
}

fn change_member(context: &Context<'_>, method: &str, what: &str, node: &str) -> Result<Output> {
    let (vhost, queue) = (segment(context.vhost()), segment(context.argument(0)));
    let path = format!("/api/queues/quorum/{vhost}/{queue}/replicas/{what}");
    let body = json!({ "node": node });
    or_no_queue(context, context.target.call(method, &path, Some(&body)))?;
    Ok(Output::Done)
}

/// Lets another member of a queue lead.
pub fn transfer_leadership(context: &Context<'_>) -> Result<Output> {
    let (queue, node) = (context.argument(0), context.argument(1));
    context.banner(format!(
        "Transferring leadership of quorum queue {queue} to node {node}..."
    ));
    if found(context)?["leader"] == node {
        let text = "The target node is already the leader of this queue";
        return Err(Failure::new(code::SOFTWARE, text));
    }
    let body = json!({"node": node, "queue": queue, "vhost": context.vhost()});
    change(context, "transfer", &body)?;
    Ok(Output::Done)
}

pub fn reclaim_quorum_memory(context: &Context<'_>) -> Result<Output> {
    if found(context)?["type"] != "quorum" {
        let text = "This operation is not applicable to classic queues";
        return Err(Failure::new(code::SOFTWARE, text));
    }
    by_itself(context)
}

/// Says that nobody needs to ask for it.
pub fn by_itself(context: &Context<'_>) -> Result<Output> {
    let name = context.command;
    context.banner(format!(
        "{name}: nothing to do, Leveret does this by itself."
    ));
    Ok(Output::Done)
}

/// The queue that the first argument names.
fn found(context: &Context<'_>) -> Result<Value> {
    let (vhost, queue) = (segment(context.vhost()), segment(context.argument(0)));
    let path = format!("/api/queues/{vhost}/{queue}");
    or_no_queue(context, context.target.get(&path))
}

/// How every replica of a queue stands.
pub fn quorum_status(context: &Context<'_>) -> Result<Output> {
    const COLUMNS: &[&str] = &[
        "Node Name",
        "Raft State",
        "Membership",
        "Last Log Index",
        "Last Written",
        "Last Applied",
        "Commit Index",
        "Snapshot Index",
        "Term",
        "Machine Version",
    ];
    let queue = context.argument(0);
    let name = context.target.name()?;
    context.banner(format!("Status of quorum queue {queue} on node {name} ..."));
    let (vhost, queue) = (segment(context.vhost()), segment(queue));
    let path = format!("/api/queues/quorum/{vhost}/{queue}/status");
    let rows = match context.target.get(&path) {
        // A queue of another type has no group.
        Err(CallError::Refused(503, reason)) => return Err(Failure::new(code::DATA, reason)),
        answer => or_no_queue(context, answer)?,
    };
    let columns: Vec<_> = COLUMNS.iter().map(|column| (*column, *column)).collect();
    Ok(Output::Rows(Rows::pick(
        rows.as_array().map_or(&[], Vec::as_slice),
        &columns,
    )))
}

/// A ready message of a quorum queue, which stays where it is.
pub fn peek(context: &Context<'_>) -> Result<Output> {
    let (queue, position) = (context.argument(0), context.argument(1));
    context.banner(format!(
        "Peeking at quorum queue {queue} at position {position}..."
    ));
    let (vhost, queue) = (segment(context.vhost()), segment(queue));
    let path = format!(
        "/api/queues/quorum/{vhost}/{queue}/peek/{}",
        segment(position)
    );
    let got = or_no_queue(context, context.target.get(&path))?;
    let payload = show(&got["payload"]);
    let ends = payload.char_indices().map(|(at, c)| at + c.len_utf8());
    let end = ends.take_while(|end| *end <= 64).last().unwrap_or(0);
    let payload = payload[..end].to_owned();
    let mut rows = vec![
        ("payload (max 64 bytes)".to_owned(), Value::String(payload)),
        ("exchange".to_owned(), got["exchange"].clone()),
        ("routing_key".to_owned(), got["routing_key"].clone()),
    ];
    let properties = got["properties"].as_object().into_iter().flatten();
    rows.extend(properties.map(|(name, value)| (name.clone(), value.clone())));
    let rows: Vec<Value> = rows
        .into_iter()
        .map(|(name, value)| json!({"keys": name, "values": value}))
        .collect();
    let columns = [("keys", "keys"), ("values", "values")];
    Ok(Output::Rows(Rows::pick(&rows, &columns)))
}

pub fn drain(context: &Context<'_>) -> Result<Output> {
    set_draining(context, true)
}

pub fn revive(context: &Context<'_>) -> Result<Output> {
    set_draining(context, false)
}

/// Puts the node that is asked into maintenance, or takes it out of it. A node that is alone has
/// nobody to hand anything to, and only takes no clients.
fn set_draining(context: &Context<'_>, draining: bool) -> Result<Output> {
    let name = context.target.name()?;
    context.banner(match draining {
        true => format!("Will put node {name} into maintenance mode."),
        false => format!("Will bring node {name} back into service."),
    });
    if let Some(cluster) = view(context)? {
        let own = show(&cluster["own"]);
        change(
            context,
            "drain",
            &json!({"node": own, "draining": draining}),
        )?;
    }
    let body = json!({"serving": !draining, "maintenance": draining});
    context
        .target
        .call("PUT", "/api/leveret/serving", Some(&body))?;
    Ok(Output::Done)
}

pub(super) fn change(context: &Context<'_>, what: &str, body: &Value) -> Result<Value> {
    let path = format!("/api/leveret/cluster/{}", segment(what));
    Ok(context.target.call("POST", &path, Some(body))?)
}

pub(super) fn patterns(context: &Context<'_>) -> Value {
    json!({
        "vhosts": context.options.named("--vhost-pattern").unwrap_or(".*"),
        "queues": context.options.named("--queue-pattern").unwrap_or(".*"),
    })
}

fn concerned(answer: &Value) -> Output {
    Output::Text(format!("{} queues\n", show(&answer["queues"])))
}
