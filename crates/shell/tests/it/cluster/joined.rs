//! Nodes that join a cluster later: when they vote.

use super::{
    declare, eventually, free_addresses, log_in, member, publish, put_vhost, select, start,
};
use crate::client::scratch;
use leveret_cluster::Env;
use leveret_metadata::Command;
use leveret_shell::node::Node;
use leveret_types::NodeId;
use leveret_types::limits::NODE_STAY_MS;
use std::time::{Duration, Instant};

/// The numbers of the nodes that vote, and of those that do not, as one of them knows.
fn voters(node: &Node) -> (Vec<u32>, Vec<u32>) {
    let membership = node
        .broker
        .cluster()
        .map(|cluster| cluster.status().membership);
    let membership = membership.expect("it is in a cluster");
    let numbers = |members: &[leveret_types::ReplicaId]| {
        members.iter().map(|member| member.node().0).collect()
    };
    (numbers(&membership.voters), numbers(&membership.learners))
}

#[test]
fn a_node_that_joins_by_mistake_leaves_no_vote_behind() {
    let scratch = scratch("cluster-mistaken");
    let [own, mistaken, wanted] = free_addresses::<3>();
    let first = start(member(scratch.path(), own, &[], b"secret"));
    let joined = start(member(scratch.path(), mistaken, &[own], b"secret"));
    eventually("it is there", || voters(&first).1 == [2]);
    assert_eq!(voters(&first).0, [1], "it has not stayed");
    let mut client = log_in(&joined);
    assert_eq!(declare(&mut client, "q", false, "quorum"), Ok(0));
    drop(client);
    joined.shut_down();
    eventually("it is gone", || first.broker.peers().up().is_empty());
    // The cluster can change, and its queues confirm, as if nobody had come.
    put_vhost(&first, "still");
    let mut client = log_in(&first);
    select(&mut client);
    assert_eq!(publish(&mut client, "", "q"), "basic.ack");
    drop(client);
    let forget = Command::NodeForget { node: 2 };
    first
        .broker
        .execute_in_cluster(&forget)
        .expect("it is down");
    eventually("it is out", || voters(&first) == (vec![1], vec![]));

    // One that an operator wants need not stay first.
    let begun = Instant::now();
    let another = start(member(scratch.path(), wanted, &[own], b"secret"));
    let promote = Command::NodePromote { node: 3 };
    first
        .broker
        .execute_in_cluster(&promote)
        .expect("it is there");
    eventually("it votes", || voters(&first) == (vec![1, 3], vec![]));
    let took = begun.elapsed();
    assert!(took < Duration::from_millis(NODE_STAY_MS), "{took:?}");
    first.shut_down();
    another.shut_down();
}

#[test]
fn a_node_that_joins_votes_when_it_has_stayed() {
    let scratch = scratch("cluster-stayed");
    let [own, other] = free_addresses::<2>();
    let first = start(member(scratch.path(), own, &[], b"secret"));
    let begun = Instant::now();
    let second = start(member(scratch.path(), other, &[own], b"secret"));
    let may_vote = || {
        first
            .broker
            .catalogue()
            .node(NodeId(2))
            .is_some_and(|node| node.votes)
    };
    assert!(!may_vote());
    eventually("it votes", || voters(&first) == (vec![1, 2], vec![]));
    assert!(may_vote());
    let took = begun.elapsed();
    assert!(took >= Duration::from_millis(NODE_STAY_MS), "{took:?}");
    first.shut_down();
    second.shut_down();
}
