//! Nodes that form a cluster on real sockets and files, in this process.

#[allow(dead_code, reason = "clients of other tests")]
mod client;

use client::{Scratch, config};
use leveret_metadata::Command;
use leveret_node::Env;
use leveret_shell::cluster::ClusterConfig;
use leveret_shell::disk::RealDisk;
use leveret_shell::node::{Node, NodeConfig, StartError};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

/// How long something may take to come true.
const PATIENCE: Duration = Duration::from_secs(30);

fn free_addresses<const N: usize>() -> [SocketAddr; N] {
    // Held together, so that no two are the same.
    let held = [(); N].map(|()| TcpListener::bind("127.0.0.1:0").expect("a free port"));
    held.map(|listener| listener.local_addr().expect("an address"))
}

fn member(folder: &Path, own: SocketAddr, join: &[SocketAddr], secret: &[u8]) -> NodeConfig {
    let folder = folder.join(own.port().to_string());
    std::fs::create_dir_all(&folder).expect("a folder");
    NodeConfig {
        cluster: Some(ClusterConfig {
            address: own,
            advertised: own.to_string(),
            join: join.iter().map(ToString::to_string).collect(),
            secret: secret.to_vec(),
            file: folder.join("cluster"),
            name: format!("leveret@{own}"),
        }),
        ..config(&folder, None)
    }
}

fn start(config: NodeConfig) -> Node {
    Node::start(config, RealDisk::new()).expect("the node starts")
}

/// Starts nodes at once; each waits for the others.
fn start_all(configs: Vec<NodeConfig>) -> Vec<Node> {
    let starts: Vec<_> = configs
        .into_iter()
        .map(|config| std::thread::spawn(move || start(config)))
        .collect();
    let ended = starts.into_iter().map(std::thread::JoinHandle::join);
    ended.map(|node| node.expect("no panic")).collect()
}

#[track_caller]
fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn put_vhost(node: &Node, name: &str) {
    let command = Command::VhostPut {
        vhost: name.to_owned(),
        description: None,
        tags: None,
        default_queue_type: None,
        protected: None,
        tracing: None,
    };
    node.broker
        .execute_in_cluster(&command)
        .expect("a majority is up");
}

fn knows(node: &Node, vhost: &str) -> bool {
    node.broker.catalogue().vhost(vhost).is_some()
}

#[test]
fn nodes_find_each_other_share_what_is_declared_and_find_it_again() {
    let scratch = Scratch::new("cluster");
    let addresses = free_addresses::<3>();
    let configs = || addresses.map(|own| member(&scratch.0, own, &addresses, b"secret"));
    let nodes = start_all(configs().into());
    for (index, node) in nodes.iter().enumerate() {
        put_vhost(node, &format!("of-{index}"));
    }
    let ids: Vec<_> = nodes.iter().map(|node| node.broker.node_id()).collect();
    for node in &nodes {
        eventually("all nodes have all that was declared", || {
            (0..3).all(|index| knows(node, &format!("of-{index}")))
        });
        eventually("all nodes are up", || node.broker.peers().up().len() == 2);
    }
    for node in nodes {
        node.shut_down();
    }
    let nodes = start_all(configs().into());
    let again: Vec<_> = nodes.iter().map(|node| node.broker.node_id()).collect();
    assert_eq!(again, ids, "numbers stay");
    for node in nodes {
        assert!((0..3).all(|index| knows(&node, &format!("of-{index}"))));
        node.shut_down();
    }
}

#[test]
fn a_majority_goes_on_and_who_returns_has_what_it_missed() {
    let scratch = Scratch::new("cluster-majority");
    let addresses = free_addresses::<3>();
    let configs = addresses.map(|own| member(&scratch.0, own, &addresses, b""));
    let mut nodes = start_all(configs.into());
    for node in &nodes {
        eventually("all vote", || {
            let status = node.broker.cluster().map(|cluster| cluster.status());
            status.is_some_and(|status| status.membership.voters.len() == 3)
        });
    }
    let gone = nodes.remove(0);
    gone.shut_down();
    put_vhost(&nodes[0], "while it was away");
    // Not its list but its folder says where it belongs.
    let returned = start(member(&scratch.0, addresses[0], &[], b""));
    assert!(knows(&returned, "while it was away"));
    returned.shut_down();
    nodes.into_iter().for_each(Node::shut_down);
}

#[test]
fn strangers_are_dropped_before_anything_of_them_is_looked_at() {
    let scratch = Scratch::new("cluster-strangers");
    let [own] = free_addresses::<1>();
    let node = start(member(&scratch.0, own, &[], b"secret"));
    let address = node.cluster_address().expect("it is in a cluster");
    let garbage: [&[u8]; 3] = [&[0xFF; 200], b"GET / HTTP/1.1\r\n\r\n", &[0; 132]];
    for bytes in garbage {
        let mut socket = TcpStream::connect(address).expect("it listens");
        socket.set_read_timeout(Some(PATIENCE)).expect("a deadline");
        // It may have been dropped by now.
        let _ = socket.write_all(bytes);
        let _ = socket.shutdown(std::net::Shutdown::Write);
        let mut said = Vec::new();
        // A reset says the same as an end.
        let _ = socket.read_to_end(&mut said);
        assert_eq!(said.len(), 40, "the greeting and nothing else");
    }
    put_vhost(&node, "unharmed");
    node.shut_down();
}

#[test]
fn what_an_operator_has_to_change_is_said() {
    let scratch = Scratch::new("cluster-refusals");
    let refusal = |config| match Node::start(config, RealDisk::new()) {
        Ok(_) => panic!("it must not start"),
        Err(error) => error.to_string(),
    };
    let [own, alone] = free_addresses::<2>();
    let anywhere = SocketAddr::from(([0, 0, 0, 0], 0));
    let open = member(&scratch.0, anywhere, &[], b"");
    assert!(refusal(open).contains("cluster.secret is not set"));

    // A node of its own that is then to join has data that would have to go.
    let folder = scratch.0.join(alone.port().to_string());
    client::start(&folder, None).shut_down();
    let mut listed = [own, alone];
    listed.sort_by_key(ToString::to_string);
    if listed[0] == own {
        let joins = member(&scratch.0, alone, &listed, b"");
        assert!(refusal(joins).contains("data of its own"));
    }

    start(member(&scratch.0, own, &[], b"")).shut_down();
    let folder = scratch.0.join(own.port().to_string());
    match Node::start(config(&folder, None), RealDisk::new()) {
        Err(StartError::Clustered) => {}
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("a cluster's node does not start alone"),
    }
}
