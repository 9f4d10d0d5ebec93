//! The commands about the cluster, and `rabbitmq-queues`' about members of replicated queues.

use super::{Context, Failure, Output};
use crate::cli::http::segment;
use crate::cli::table::{Rows, show};
use crate::cli::target::CallError;
use serde_json::{Value, json};
use std::fmt::Write;

type Result<T> = std::result::Result<T, Failure>;

pub fn cluster_status(context: &Context<'_>) -> Result<Output> {
    let name = context.target.name()?;
    context.banner(format!("Cluster status of node {name} ..."));
    let overview = context.target.get("/api/overview")?;
    let nodes = context.target.get("/api/nodes")?;
    let nodes: Vec<&Value> = nodes.as_array().into_iter().flatten().collect();
    let names = |wanted: &dyn Fn(&Value) -> bool| {
        let wanted = nodes.iter().filter(|node| wanted(node));
        let names: Vec<String> = wanted.map(|node| show(&node["name"])).collect();
        names.join("\n")
    };
    let mut out = format!(
        "Basics\n\nCluster name: {}\n\nDisk Nodes\n\n{}\n\nRunning Nodes\n\n{}\n\nListeners\n\n",
        show(&overview["cluster_name"]),
        names(&|_| true),
        names(&|node| node["running"] == true),
    );
    for listener in overview["listeners"].as_array().into_iter().flatten() {
        let _ = writeln!(
            out,
            "Node: {name}, interface: {}",
            super::node::describe_listener(listener)
        );
    }
    Ok(Output::Text(out))
}

pub fn forget_cluster_node(context: &Context<'_>) -> Result<Output> {
    let node = context.argument(0);
    context.banner(format!("Removing node {node} from the cluster"));
    change(context, "forget", &json!({ "node": node }))?;
    Ok(Output::Done)
}

pub fn grow(context: &Context<'_>) -> Result<Output> {
    let (node, strategy) = (context.argument(0), context.argument(1));
    context.banner(format!("Growing {strategy} quorum queues on {node}..."));
    let answer = change(context, "grow", &patterns(context, node))?;
    Ok(concerned(&answer))
}

pub fn shrink(context: &Context<'_>) -> Result<Output> {
    let node = context.argument(0);
    context.banner(format!("Shrinking quorum queues on {node}..."));
    let answer = change(context, "shrink", &patterns(context, node))?;
    Ok(concerned(&answer))
}

pub fn add_member(context: &Context<'_>) -> Result<Output> {
    let (queue, node) = (context.argument(0), context.argument(1));
    context.banner(format!(
        "Adding a replica for queue {queue} on node {node}..."
    ));
    change(context, "grow", &one_queue(context, queue, node))?;
    Ok(Output::Done)
}

pub fn delete_member(context: &Context<'_>) -> Result<Output> {
    let (queue, node) = (context.argument(0), context.argument(1));
    context.banner(format!(
        "Removing a replica of queue {queue} on node {node}..."
    ));
    change(context, "shrink", &one_queue(context, queue, node))?;
    Ok(Output::Done)
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
    let rows = super::node::or_no_queue(context, context.target.get(&path))?;
    let columns: Vec<_> = COLUMNS.iter().map(|column| (*column, *column)).collect();
    Ok(Output::Rows(Rows::pick(
        rows.as_array().map_or(&[], Vec::as_slice),
        &columns,
    )))
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
    match context.target.get("/api/leveret/cluster") {
        Ok(cluster) => {
            let own = show(&cluster["own"]);
            change(
                context,
                "drain",
                &json!({"node": own, "draining": draining}),
            )?;
        }
        Err(CallError::Refused(404, _)) => {}
        Err(error) => return Err(error.into()),
    }
    let body = json!({ "serving": !draining });
    context
        .target
        .call("PUT", "/api/leveret/serving", Some(&body))?;
    Ok(Output::Done)
}

fn change(context: &Context<'_>, what: &str, body: &Value) -> Result<Value> {
    let path = format!("/api/leveret/cluster/{}", segment(what));
    Ok(context.target.call("POST", &path, Some(body))?)
}

fn patterns(context: &Context<'_>, node: &str) -> Value {
    json!({
        "node": node,
        "vhosts": context.options.vhost_pattern,
        "queues": context.options.queue_pattern,
    })
}

fn one_queue(context: &Context<'_>, queue: &str, node: &str) -> Value {
    json!({"node": node, "vhosts": exactly(&context.options.vhost), "queues": exactly(queue)})
}

/// A pattern that matches this text alone.
fn exactly(text: &str) -> String {
    let mut pattern = "^".to_owned();
    for character in text.chars() {
        if !character.is_alphanumeric() && character.is_ascii() {
            pattern.push('\\');
        }
        pattern.push(character);
    }
    pattern.push('$');
    pattern
}

fn concerned(answer: &Value) -> Output {
    Output::Text(format!("{} queues\n", show(&answer["queues"])))
}

#[cfg(test)]
mod tests {
    use super::exactly;

    #[test]
    fn a_name_becomes_a_pattern_of_itself() {
        assert_eq!(exactly("/"), r"^\/$");
        assert_eq!(exactly("a.b-ü"), r"^a\.b\-ü$");
    }
}
