//! A member whose data folder was put back to an older copy of itself.

use super::{
    all_vote_and_are_up, declare, eventually, free_addresses, led_by, log_in, member, publish,
    select, start, three,
};
use crate::client::scratch;
use leveret_cluster::Env;
use leveret_shell::cluster::electorate::Electorate;
use leveret_shell::node::Node;
use leveret_types::NodeId;
use std::path::Path;

/// A folder and all that is in it, once more.
fn copy_folder(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a folder");
    for entry in std::fs::read_dir(from).expect("a folder") {
        let entry = entry.expect("an entry");
        let target = to.join(entry.file_name());
        match entry.file_type().expect("a type").is_dir() {
            true => copy_folder(&entry.path(), &target),
            false => drop(std::fs::copy(entry.path(), target).expect("a file")),
        }
    }
}

/// Two of three nodes count, and it is said which one does not and why.
fn counts_without(node: &Node, outdated: &str) {
    let why = format!("; {outdated} does not count, as its data folder is an older copy");
    eventually("two of three count", || {
        let seen = Electorate::seen_by(&node.broker).expect("a cluster");
        let text = seen.to_string();
        seen.is_majority() && text.starts_with("2 of the cluster's 3") && text.ends_with(&why)
    });
}

/// One node's folder goes back to what it was before its last run, in which it confirmed messages
/// together with another one: they are not lost when that one comes back later than the rest.
#[test]
fn an_older_copy_of_a_members_folder_elects_nobody() {
    let scratch = scratch("cluster-outdated");
    let addresses = free_addresses::<3>();
    let mut nodes = three(scratch.path(), addresses);
    let numbers: Vec<NodeId> = nodes.iter().map(|node| node.broker.node_id()).collect();
    let mut client = log_in(&nodes[1]);
    assert_eq!(declare(&mut client, "q", false, "quorum"), Ok(0));
    drop(client);
    let config = |at: usize| member(scratch.path(), addresses[at], &addresses, b"secret");
    nodes.remove(0).shut_down();
    let folder = scratch.path().join(addresses[0].port().to_string());
    let copy = scratch.path().join("copy");
    copy_folder(&folder, &copy);
    nodes.insert(0, start(config(0)));
    all_vote_and_are_up(&nodes);
    let last_run = nodes[0].broker.cluster().map(|c| c.identity().start);
    let known = |node: &Node| {
        let catalogue = node.broker.catalogue();
        catalogue.node(numbers[0]).map(|record| record.start)
    };
    eventually("the others know of its last run", || {
        nodes.iter().all(|node| known(node) == last_run)
    });
    nodes.remove(2).shut_down();
    let mut client = log_in(&nodes[1]);
    select(&mut client);
    for _ in 0..20 {
        assert_eq!(publish(&mut client, "", "q"), "basic.ack");
    }
    drop(client);
    nodes.into_iter().for_each(Node::shut_down);
    std::fs::remove_dir_all(&folder).expect("it was there");
    copy_folder(&copy, &folder);
    // Each waits for its cluster before it is there.
    let begin = |at: usize| {
        let config = config(at);
        std::thread::spawn(move || start(config))
    };
    let mut starts = vec![begin(0), begin(2)];
    eventually("the folder is found to be an older copy", || {
        let file = std::fs::read_to_string(folder.join("cluster"));
        file.is_ok_and(|text| text.contains("missing "))
    });
    starts.push(begin(1));
    let ended = starts.into_iter().map(std::thread::JoinHandle::join);
    let nodes: Vec<Node> = ended.map(|node| node.expect("no panic")).collect();
    let mut client = log_in(&nodes[1]);
    eventually("what was confirmed is there", || {
        declare(&mut client, "q", true, "quorum") == Ok(20)
    });
    drop(client);
    let is_told = |node: &Node| node.broker.peers().is_outdated(numbers[0]);
    eventually("the others know", || nodes[1..].iter().all(is_told));
    let label = nodes[1].broker.catalogue().node_label(numbers[0]);
    counts_without(&nodes[0], "this one");
    counts_without(&nodes[1], &label.expect("it has a name"));
    for node in &nodes {
        let leader = node.broker.cluster().and_then(|cluster| cluster.leader());
        assert_ne!(leader, Some(numbers[0]));
        assert_eq!(led_by(numbers[0], node), 0);
    }
    nodes.into_iter().for_each(Node::shut_down);
}
