//! `leveret cluster`: what operators ask and want of the cluster as a whole.

use super::ask::{AskOptions, NodeFolder};
use super::table;
use crate::cli::target::CallError;
use crate::config::value::host_and_port;
use crate::file_modes;
use clap::Subcommand;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use table::Rows;

/// Name of the file in a data folder that holds the list of `leveret cluster join`.
const JOIN_FILE: &str = "cluster.join";

/// What is asked or wanted.
#[derive(Subcommand)]
pub(super) enum ClusterCommand {
    /// Let the node of this data folder join a cluster when it starts next
    Join {
        /// Addresses of nodes that are part of it
        #[arg(required = true, value_name = "ADDR", value_delimiter = ',')]
        addresses: Vec<String>,
        #[command(flatten)]
        node: NodeFolder,
    },
    /// Show the nodes, which of them are up, and what they have
    Status {
        #[command(flatten)]
        ask: AskOptions,
    },
    /// Take a node that is gone out for good
    Forget {
        /// Its number or name
        node: String,
        #[command(flatten)]
        ask: AskOptions,
    },
    /// Empty a node of leaders and keep new queues away from it, before it is stopped
    Drain {
        /// Its number or name
        node: String,
        /// Let it have leaders and new queues again
        #[arg(long)]
        undo: bool,
        #[command(flatten)]
        ask: AskOptions,
    },
    /// Let a node that has just joined vote now, without waiting until it has stayed
    Promote {
        /// Its number or name
        node: String,
        #[command(flatten)]
        ask: AskOptions,
    },
    /// Hand a queue's leadership to another of its members; without a queue, the catalogue's
    Transfer {
        /// Number or name of the node that is to lead
        node: String,
        /// The queue
        queue: Option<String>,
        /// Its virtual host
        #[arg(short = 'p', long, value_name = "NAME", default_value = "/")]
        vhost: String,
        #[command(flatten)]
        ask: AskOptions,
    },
    /// Add a member on a node to the replicated queues that have none there
    Grow {
        /// Its number or name
        node: String,
        #[command(flatten)]
        which: Which,
        #[command(flatten)]
        ask: AskOptions,
    },
    /// Take the members on a node from the replicated queues that have others
    Shrink {
        /// Its number or name
        node: String,
        #[command(flatten)]
        which: Which,
        #[command(flatten)]
        ask: AskOptions,
    },
    /// Spread the queues' leaders over the nodes that are up
    Rebalance {
        #[command(flatten)]
        ask: AskOptions,
    },
}

/// Which queues.
#[derive(clap::Args)]
pub(super) struct Which {
    /// Pattern of their virtual hosts
    #[arg(long, value_name = "PATTERN", default_value = ".*")]
    vhosts: String,
    /// Pattern of their names
    #[arg(long, value_name = "PATTERN", default_value = ".*")]
    queues: String,
}

/// Carries a command out.
pub(super) fn run(command: &ClusterCommand) -> Result<String, String> {
    match command {
        ClusterCommand::Join { addresses, node } => join(addresses, &node.data_dir),
        ClusterCommand::Status { ask } => status(ask),
        ClusterCommand::Forget { node, ask } => change(ask, "forget", &json!({ "node": node })),
        ClusterCommand::Drain { node, undo, ask } => {
            change(ask, "drain", &json!({"node": node, "draining": !undo}))
        }
        ClusterCommand::Promote { node, ask } => change(ask, "promote", &json!({ "node": node })),
        ClusterCommand::Transfer {
            node,
            queue,
            vhost,
            ask,
        } => {
            let queue = queue.as_deref().unwrap_or_default();
            let body = json!({"node": node, "queue": queue, "vhost": vhost});
            change(ask, "transfer", &body)
        }
        ClusterCommand::Grow { node, which, ask } => change(ask, "grow", &which.body(node)),
        ClusterCommand::Shrink { node, which, ask } => change(ask, "shrink", &which.body(node)),
        ClusterCommand::Rebalance { ask } => change(ask, "rebalance", &json!({})),
    }
}

impl Which {
    fn body(&self, node: &str) -> Value {
        json!({"node": node, "vhosts": self.vhosts, "queues": self.queues})
    }
}

/// The addresses that `leveret cluster join` has left in a data folder; none if it has not.
pub fn left_to_join(root: &Path) -> Vec<String> {
    let text = fs::read_to_string(root.join(JOIN_FILE)).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

fn join(addresses: &[String], data_dir: &Path) -> Result<String, String> {
    let path = data_dir.join(JOIN_FILE);
    if data_dir.join("cluster").exists() {
        return Err(format!(
            "the node of {} is part of a cluster already",
            data_dir.display()
        ));
    }
    if fs::read_dir(data_dir.join("data")).is_ok_and(|mut files| files.next().is_some()) {
        return Err(format!(
            "the node of {} has data of its own, which no cluster would take: give an empty folder, \
             and move definitions with `leveret export` and `leveret import`",
            data_dir.display()
        ));
    }
    for address in addresses {
        host_and_port(address).map_err(|what| format!("an address {what}, not \"{address}\""))?;
    }
    file_modes::keep_private();
    fs::create_dir_all(data_dir)
        .and_then(|()| fs::write(&path, addresses.join("\n") + "\n"))
        .map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    Ok(format!(
        "The node of {} joins the cluster of {} when it starts next with --cluster and its own \
         address for the other nodes.\n",
        data_dir.display(),
        addresses.join(", "),
    ))
}

fn status(ask: &AskOptions) -> Result<String, String> {
    let view = match ask.target()?.get("/api/leveret/cluster") {
        Ok(view) => view,
        Err(CallError::Refused(404, _)) => {
            return Ok(match ask.json {
                true => "null\n".to_owned(),
                false => "This node is in no cluster.\n".to_owned(),
            });
        }
        Err(error) => return Err(error.to_string()),
    };
    if ask.json {
        return Ok(format!("{view:#}\n"));
    }
    let nodes: Vec<Value> = view["nodes"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|node| described(node, &view))
        .collect();
    let columns = [
        ("node", "number"),
        ("name", "name"),
        ("address", "address"),
        ("state", "state"),
        ("queue members", "queue_members"),
        ("queues to lead", "queues_led"),
        ("leads now", "queues_leading"),
        ("queues alone", "queues_alone"),
    ];
    let leader = match view["leader"].as_u64() {
        Some(leader) => format!("led by node {leader}"),
        None => "without a leader: nothing can be declared".to_owned(),
    };
    let unknown = match view["leaders_unknown"].as_u64() {
        None | Some(0) => String::new(),
        Some(1) => "\n1 queue has no leader that the node that was asked knows of.\n".to_owned(),
        Some(queues) => {
            format!("\n{queues} queues have no leader that the node that was asked knows of.\n")
        }
    };
    let voters = nodes.iter().filter(|node| node["votes"] == true).count();
    let others = nodes.len() - voters;
    let votes = match others {
        0 => format!("{voters} voting"),
        others => format!("{voters} voting, {others} without a vote"),
    };
    let warning = match voters > 0 && voters.is_multiple_of(2) {
        true => format!("\n{}.\n", crate::ctl::even_voters(voters)),
        false => String::new(),
    };
    Ok(format!(
        "Cluster {}, {leader}, term {}, catalogue at {} of {}, nodes: {votes}\n\n{}{unknown}{warning}",
        table::show(&view["id"]),
        table::show(&view["term"]),
        table::show(&view["applied"]),
        table::show(&view["committed"]),
        Rows::pick(&nodes, &columns).aligned(),
    ))
}

fn described(node: &Value, view: &Value) -> Value {
    let mut words = vec![if node["up"] == true { "up" } else { "down" }];
    let notes = [
        (node["number"] == view["own"], "asked"),
        (
            node["votes"] == false && node["is_to_vote"] == true,
            "catching up",
        ),
        (
            node["votes"] == false && node["is_to_vote"] == false,
            "non-voter",
        ),
        (node["draining"] == true, "draining"),
        (node["outdated"] == true, "outdated data: to be replaced"),
    ];
    words.extend(notes.iter().filter(|(so, _)| *so).map(|(_, word)| *word));
    let mut node = node.clone();
    node["state"] = words.join(", ").into();
    node
}

fn change(ask: &AskOptions, what: &str, body: &Value) -> Result<String, String> {
    let path = format!("/api/leveret/cluster/{what}");
    let answer = ask
        .target()?
        .call("POST", &path, Some(body))
        .map_err(|error| error.to_string())?;
    if ask.json {
        return Ok(format!("{answer:#}\n"));
    }
    Ok(match answer["queues"].as_u64() {
        None | Some(0) => "Done.\n".to_owned(),
        Some(1) => "Done: 1 queue.\n".to_owned(),
        Some(queues) => format!("Done: {queues} queues.\n"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_join_leaves_is_found_and_a_member_is_not_asked_again() {
        let root = std::env::temp_dir().join(format!("leveret-join-{}", std::process::id()));
        assert_eq!(left_to_join(&root), Vec::<String>::new());
        let addresses = ["a:1".to_owned(), "b:2".to_owned()];
        join(&addresses, &root).expect("a new folder");
        assert_eq!(left_to_join(&root), addresses);
        let wrong = join(&["burrow".to_owned()], &root);
        assert!(wrong.is_err_and(|why| why.contains("host:port")));
        fs::create_dir_all(root.join("data")).expect("a folder");
        fs::write(root.join("data/leveret.store"), "").expect("a file");
        assert!(join(&addresses, &root).is_err_and(|why| why.contains("data of its own")));
        fs::write(root.join("cluster"), "").expect("it is there");
        assert!(join(&addresses, &root).is_err_and(|why| why.contains("already")));
        fs::remove_dir_all(&root).expect("it is there");
    }
}
