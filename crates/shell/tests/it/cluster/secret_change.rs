//! The cluster's secret, changed while its nodes run.

use super::{all_vote_and_are_up, eventually, free_addresses, knows, member, put_vhost, start};
use crate::client::scratch;
use leveret_cluster::Env;
use leveret_shell::cluster::acceptor;
use leveret_shell::cluster::credentials::{Credentials, Proof};
use leveret_shell::cluster::handshake::{Hello, Protection, Purpose};
use leveret_shell::cluster::pending_connections::KnownAddresses;
use leveret_shell::node::{Node, NodeConfig};
use leveret_types::NodeId;
use std::fs::OpenOptions;
use std::io::Write;
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

const OLD: &str = "the old secret of this cluster, 1";
const NEW: &str = "the new secret of this cluster, 2";

/// A member whose secrets are in a file of its own.
struct Member {
    address: SocketAddr,
    others: Vec<SocketAddr>,
    folder: PathBuf,
    file: PathBuf,
}

impl Member {
    fn new(folder: &Path, address: SocketAddr, others: &[SocketAddr]) -> Self {
        let file = folder.join(format!("secret-{}", address.port()));
        Self {
            address,
            others: others.to_vec(),
            folder: folder.to_owned(),
            file,
        }
    }

    fn write(&self, secrets: &[&str]) {
        let mut options = OpenOptions::new();
        let mut file = options
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&self.file)
            .expect("a file");
        for secret in secrets {
            writeln!(file, "{secret}").expect("written");
        }
    }

    fn config(&self) -> NodeConfig {
        let mut config = member(&self.folder, self.address, &self.others, b"");
        let cluster = config.cluster.as_mut().expect("it is to be in a cluster");
        cluster.secret_file = Some(self.file.clone());
        config
    }
}

/// What becomes of who asks a node something with this secret.
fn asks(node: &Node, secret: &str) -> Result<(), String> {
    let credentials = Credentials::new(&[secret.into()], None);
    asks_with(node, &credentials.own())
}

/// What becomes of who asks a node something with this proof.
pub fn asks_with(node: &Node, proof: &Proof) -> Result<(), String> {
    let address = node.cluster_address().expect("it is in a cluster");
    let hello = Hello {
        purpose: Purpose::Control,
        protection: Protection::Sealed,
        node: NodeId(0),
        wanted: NodeId(0),
        cluster: [0; 16],
        uuid: [3; 16],
        wanted_uuid: [0; 16],
        start: 4,
    };
    let known = KnownAddresses::default();
    let answer = acceptor::ask(&address.to_string(), proof, &hello, &known, b"nothing");
    answer.map(drop).map_err(|error| error.to_string())
}

/// Waits until each of three nodes knows that the others are up.
pub fn all_are_up(nodes: &[Node]) {
    for node in nodes {
        eventually("all are up", || node.broker.peers().up().len() == 2);
    }
}

/// The steps of `docs/cluster.md`, with a node that starts anew in the middle of each.
#[test]
fn the_secret_is_changed_node_by_node_while_the_cluster_serves() {
    let scratch = scratch("cluster-secret-change");
    let addresses = free_addresses::<3>();
    let members = addresses.map(|own| Member::new(scratch.path(), own, &addresses));
    members.iter().for_each(|member| member.write(&[OLD]));
    let configs = members.iter().map(Member::config).collect();
    let mut nodes = super::start_all(configs);
    all_vote_and_are_up(&nodes);
    let steps: [&[&str]; 3] = [&[OLD, NEW], &[NEW, OLD], &[NEW]];
    for (step, secrets) in steps.into_iter().enumerate() {
        for at in 0..members.len() {
            members[at].write(secrets);
            nodes[at].reload_cluster().expect("a good file");
            if at == 0 {
                nodes.remove(0).shut_down();
                nodes.insert(0, start(members[0].config()));
            }
            all_are_up(&nodes);
        }
        let name = format!("step-{step}");
        put_vhost(&nodes[step], &name);
        for node in &nodes {
            eventually("all know it", || knows(node, &name));
        }
    }
    // Links that are made now prove the new secret.
    let last = nodes.pop().expect("three");
    last.shut_down();
    nodes.push(start(members[2].config()));
    all_are_up(&nodes);
    for node in &nodes {
        let refused = asks(node, OLD).expect_err("it is no secret any more");
        assert!(refused.contains("cluster.secret"), "{refused}");
        assert_eq!(asks(node, NEW), Ok(()));
    }
    nodes.into_iter().for_each(Node::shut_down);
}

#[test]
fn a_file_that_is_no_good_leaves_the_secrets_as_they_are() {
    let scratch = scratch("cluster-secret-bad");
    let [own] = free_addresses::<1>();
    let member = Member::new(scratch.path(), own, &[]);
    member.write(&[OLD]);
    let node = start(member.config());
    member.write(&[]);
    let error = node.reload_cluster().expect_err("empty").to_string();
    assert!(error.contains("no secret"), "{error}");
    std::fs::remove_file(&member.file).expect("its own");
    let gone = node.reload_cluster().expect_err("gone").to_string();
    assert!(gone.contains("secret-"), "{gone}");
    assert_eq!(asks(&node, OLD), Ok(()));
    assert!(asks(&node, NEW).is_err());
    member.write(&[NEW]);
    node.reload_cluster().expect("a good file");
    assert_eq!(asks(&node, NEW), Ok(()));
    assert!(asks(&node, OLD).is_err());
    node.shut_down();
}
