//! A cluster of nodes on loopback: to try things out, and for suites.

use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::thread;

use anyhow::{Context, Result, bail};

use crate::broker::{Broker, Environment, Kind};
use crate::{http, ports};

/// Nodes of a cluster that nobody gave a number for.
pub const NODES: usize = 3;

/// Where a node is.
pub struct Member {
    /// Where it runs.
    pub environment: Environment,
    /// Where it listens for its peers.
    pub address: SocketAddr,
    /// Where it says that it does.
    pub advertised: SocketAddr,
}

/// Nodes that run. Dropping it kills them.
pub struct Cluster {
    /// The nodes, in the order of their numbers' first start.
    pub nodes: Vec<Broker>,
}

impl Member {
    /// A node that says where it listens.
    pub fn plain(environment: Environment, address: SocketAddr) -> Member {
        Member {
            environment,
            address,
            advertised: address,
        }
    }
}

impl Cluster {
    /// Starts nodes on loopback with nothing in them, all at once; returns when all accept.
    pub fn start(name: &str, count: usize) -> Result<Cluster> {
        Cluster::start_with(name, &vec![String::new(); count])
    }

    /// The same, each node with settings of its own.
    pub fn start_with(name: &str, settings: &[String]) -> Result<Cluster> {
        let addresses = ports::free(settings.len())?;
        let members: Vec<Member> = addresses
            .into_iter()
            .map(|address| Member::plain(Environment::Loopback, address))
            .collect();
        let random = || RandomState::new().hash_one(name);
        let secret = format!("cluster.secret = {:016x}{:016x}\n", random(), random());
        let settings: Vec<String> = settings
            .iter()
            .map(|own| format!("{secret}{own}"))
            .collect();
        Cluster::form_each(name, &members, &settings)
    }

    /// The same in environments, all with the same settings.
    pub fn form(name: &str, members: &[Member], settings: &str) -> Result<Cluster> {
        Cluster::form_each(name, members, &vec![settings.to_owned(); members.len()])
    }

    fn form_each(name: &str, members: &[Member], settings: &[String]) -> Result<Cluster> {
        let joined: String = members
            .iter()
            .enumerate()
            .map(|(index, member)| format!("cluster.join.{} = {}\n", index + 1, member.advertised))
            .collect();
        let mut nodes = Vec::new();
        for (index, (member, settings)) in members.iter().zip(settings).enumerate() {
            let name = format!("{name}-{}", index + 1);
            let Member {
                address,
                advertised,
                ..
            } = member;
            let own = format!(
                "cluster.address = {address}\ncluster.advertised = {advertised}\n{joined}{settings}"
            );
            nodes.push(Broker::plan_at(
                Kind::Leveret,
                &name,
                member.environment.clone(),
                &own,
            )?);
        }
        let mut cluster = Cluster { nodes };
        cluster.launch_all()?;
        Ok(cluster)
    }

    /// Starts a cluster of either kind on loopback.
    pub fn start_kind(kind: Kind, name: &str, count: usize) -> Result<Cluster> {
        match kind {
            Kind::Leveret => Cluster::start(name, count),
            Kind::RabbitMq => Cluster::start_peer(name, count),
        }
    }

    /// Starts nodes of RabbitMQ, and lets all join the first.
    fn start_peer(name: &str, count: usize) -> Result<Cluster> {
        let mut nodes = Vec::new();
        for index in 0..count {
            let name = format!("{name}-{}", index + 1);
            nodes.push(Broker::plan(Kind::RabbitMq, &name)?);
        }
        // Nodes of a cluster know each other by one secret, and find each other by one daemon.
        let epmd = nodes[0].epmd;
        for node in &mut nodes {
            node.epmd = epmd;
            let cookie = node.folder.join(".erlang.cookie");
            fs::write(&cookie, "LEVERETBENCH")?;
            fs::set_permissions(&cookie, fs::Permissions::from_mode(0o400))?;
        }
        let mut cluster = Cluster { nodes };
        // One after the other: each looks for the daemon and would start one of its own.
        for node in 0..count {
            cluster.launch(&[node])?;
        }
        let first = cluster.nodes[0].rabbitmq_name();
        for node in &cluster.nodes[1..] {
            node.ctl(&["stop_app"])?;
            node.ctl(&["join_cluster", &first])?;
            node.ctl(&["start_app"])?;
        }
        Ok(cluster)
    }

    /// Where all nodes speak AMQP.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.nodes.iter().map(|node| node.amqp).collect()
    }

    /// Kills all nodes, one right after the other.
    pub fn kill_all(&mut self) -> Result<()> {
        self.nodes.iter_mut().try_for_each(Broker::kill)
    }

    /// Starts all nodes again on what they have.
    pub fn launch_all(&mut self) -> Result<()> {
        let all: Vec<usize> = (0..self.nodes.len()).collect();
        self.launch(&all)
    }

    /// An error if a node has died by itself.
    pub fn check_alive(&mut self) -> Result<()> {
        for node in &mut self.nodes {
            if !node.is_alive() {
                bail!("a node died by itself: see {}", node.log().display());
            }
        }
        Ok(())
    }

    /// Which node leads a queue, as the node that is asked sees it.
    pub fn leader_of(&self, queue: &str, asked: usize) -> Result<usize> {
        let path = format!("/api/queues/%2F/{queue}");
        let queue = http::get(self.nodes[asked].http, &path)?;
        // Mirrored classic queues have no `leader` in RabbitMQ; `node` is where the leader is.
        let leader = queue["leader"].as_str().or(queue["node"].as_str());
        let leader = leader.context("the queue has no leader")?;
        for (index, node) in self.nodes.iter().enumerate() {
            // A node that does not answer is not the one either.
            let name = http::get(node.http, "/api/overview").ok();
            if name.is_some_and(|overview| overview["node"] == leader) {
                return Ok(index);
            }
        }
        bail!("no node that answers is called {leader}")
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

/// `cargo xtask cluster [N]`: nodes that run until this command is ended with a line or at the end
/// of its input.
pub fn run(count: usize) -> Result<bool> {
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
