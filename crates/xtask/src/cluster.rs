//! A cluster of nodes on loopback: to try things out, and for suites.

use std::net::{SocketAddr, TcpListener};
use std::thread;

use anyhow::{Result, bail};

use crate::broker::{Broker, Kind};

/// Nodes of a cluster that nobody gave a number for.
const NODES: usize = 3;

/// Nodes that run. Dropping it kills them.
pub struct Cluster {
    /// The nodes, in the order of their numbers' first start.
    pub nodes: Vec<Broker>,
}

impl Cluster {
    /// Starts nodes with nothing in them, all at once; returns when all accept.
    pub fn start(name: &str, count: usize) -> Result<Cluster> {
        let addresses = free_addresses(count)?;
        let joined: String = addresses
            .iter()
            .enumerate()
            .map(|(index, address)| format!("cluster.join.{} = {address}\n", index + 1))
            .collect();
        let started: Vec<Result<Broker>> = thread::scope(|scope| {
            let starts: Vec<_> = addresses
                .iter()
                .enumerate()
                .map(|(index, address)| {
                    let name = format!("{name}-{}", index + 1);
                    let own = format!("cluster.address = {address}\n{joined}");
                    scope.spawn(move || {
                        let lines: Vec<&str> = own.lines().collect();
                        Broker::start(Kind::Leveret, &name, &lines)
                    })
                })
                .collect();
            let joined = starts.into_iter().map(|start| start.join());
            joined
                .map(|start| start.expect("a start does not panic"))
                .collect()
        });
        Ok(Cluster {
            nodes: started.into_iter().collect::<Result<Vec<Broker>>>()?,
        })
    }

    /// Where a node speaks AMQP.
    pub fn amqp(&self, node: usize) -> SocketAddr {
        self.nodes[node % self.nodes.len()].amqp
    }

    /// Starts these nodes again on what they have, all at once.
    pub fn launch(&mut self, which: &[usize]) -> Result<()> {
        thread::scope(|scope| {
            let nodes = self.nodes.iter_mut().enumerate();
            let launches: Vec<_> = nodes
                .filter(|(index, _)| which.contains(index))
                .map(|(_, node)| scope.spawn(|| node.launch()))
                .collect();
            launches
                .into_iter()
                .try_for_each(|launch| launch.join().expect("a launch does not panic"))
        })
    }
}

fn free_addresses(count: usize) -> Result<Vec<SocketAddr>> {
    // Held together, so that no two are the same.
    let held = (0..count)
        .map(|_| TcpListener::bind("127.0.0.1:0"))
        .collect::<std::io::Result<Vec<_>>>()?;
    Ok(held
        .iter()
        .map(TcpListener::local_addr)
        .collect::<std::io::Result<Vec<_>>>()?)
}

/// `cargo xtask cluster [N]`: nodes that run until this command is ended with a line or at the end
/// of its input.
pub fn run(arguments: &[String]) -> Result<bool> {
    let count = match arguments {
        [] => NODES,
        [count] => count.parse()?,
        other => bail!("cluster takes a number of nodes, not {other:?}"),
    };
    Kind::Leveret.prepare()?;
    let mut cluster = Cluster::start("cluster", count)?;
    for node in &cluster.nodes {
        println!(
            "amqp {}   http://{}/   {}",
            node.amqp,
            node.http,
            node.folder.display()
        );
    }
    println!("Enter ends it.");
    std::io::stdin().read_line(&mut String::new())?;
    for node in &mut cluster.nodes {
        node.stop()?;
    }
    Ok(true)
}
