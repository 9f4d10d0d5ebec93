//! A cluster of three on loopback: one node is killed, or all at once, or one is stopped for longer
//! than others wait. Whoever was connected elsewhere goes on.

use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use anyhow::Result;

use super::ledger::{Ledger, QUEUES, Rules};
use super::load::Load;
use super::streams::{self, StreamNode};
use super::{Scene, load};
use crate::client::Client;
use crate::cluster::Cluster;
use crate::numbers::Random;
use crate::run;

/// How long load runs before and after a fault.
const LOAD_MS: std::ops::Range<u64> = 500..2_500;
/// How long a node is stopped: longer than others wait for a sign of life.
const STOPPED_MS: std::ops::Range<u64> = 1_500..5_000;

/// What happens to the nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    KillOne(usize),
    KillAll,
    Stop(usize),
}

impl Fault {
    fn pick(random: &mut Random, nodes: usize) -> Fault {
        let node = random.between(0, nodes as u64) as usize % nodes;
        match random.between(0, 5) {
            0 => Fault::KillAll,
            1 | 2 => Fault::Stop(node),
            _ => Fault::KillOne(node),
        }
    }

    fn happen(self, cluster: &mut Cluster, random: &mut Random) -> Result<()> {
        match self {
            Fault::KillOne(node) => {
                cluster.nodes[node].kill()?;
                thread::sleep(between(random, LOAD_MS));
                cluster.launch(&[node])
            }
            Fault::KillAll => {
                cluster.kill_all()?;
                cluster.launch_all()
            }
            Fault::Stop(node) => {
                let pid = cluster.nodes[node].pid();
                run::signal(pid, "STOP")?;
                thread::sleep(between(random, STOPPED_MS));
                run::signal(pid, "CONT")
            }
        }
    }
}

fn between(random: &mut Random, range: std::ops::Range<u64>) -> Duration {
    Duration::from_millis(random.between(range.start, range.end))
}

/// Declares the queues as quorum queues, and waits until every node knows them.
pub fn declare_quorum_queues(cluster: &Cluster) -> Result<()> {
    for node in 0..cluster.nodes.len() {
        // At each node: one that has not heard of a queue yet would refuse its consumers.
        let mut client = Client::connect(cluster.amqp(node))?;
        for queue in 0..QUEUES {
            client.declare_quorum(&load::queue_name(queue))?;
        }
    }
    Ok(())
}

/// Three nodes on loopback.
pub struct Nodes {
    cluster: Cluster,
    ledger: Ledger,
}

impl Nodes {
    /// Starts them with empty quorum queues and streams.
    pub fn start(name: &str) -> Result<Nodes> {
        let cluster = Cluster::start(name, 3)?;
        declare_quorum_queues(&cluster)?;
        streams::create(&streams::nodes_of(&cluster))?;
        Ok(Nodes {
            cluster,
            ledger: Ledger::new(Rules::Cluster),
        })
    }
}

impl Scene for Nodes {
    fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    fn round(&mut self, _number: u32, random: &mut Random) -> Result<String> {
        let addresses = self.cluster.addresses();
        let load = Load {
            streams: streams::nodes_of(&self.cluster),
            ..Load::own(addresses.clone())
        };
        let cluster = &mut self.cluster;
        let fault = Fault::pick(random, addresses.len());
        let ledger = &self.ledger;
        load::during(&load, random, ledger, |random| {
            thread::sleep(between(random, LOAD_MS));
            if let Fault::Stop(node) = fault {
                ledger.doubt(addresses[node]);
            }
            fault.happen(cluster, random)?;
            thread::sleep(between(random, LOAD_MS));
            cluster.check_alive()
        })?;
        Ok(format!("{fault:?}; "))
    }

    fn audited_at(&self, number: u32) -> SocketAddr {
        self.cluster.amqp(number as usize)
    }

    fn stream_nodes(&self) -> Vec<StreamNode> {
        streams::nodes_of(&self.cluster)
    }

    fn audit_every(&self) -> u32 {
        3
    }
}
