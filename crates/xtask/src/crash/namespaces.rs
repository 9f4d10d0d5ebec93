//! Three nodes each in a network namespace of its own, joined by a bridge to the clients, and cuts
//! between them.
//!
//! All of it lies inside one more namespace in which this tool runs (`network::run` sees to that),
//! so that it goes when the tool does, whatever way it ends, and nothing of the machine's own
//! network is touched.

use std::io::Read;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};

use crate::broker::Environment;
use crate::run;

/// Where nodes listen for each other.
const CLUSTER_PORT: u16 = 25_672;
/// The table of the packet filter, and the chain in it that drops.
const CHAIN: [&str; 3] = ["inet", "faults", "cuts"];

/// The namespaces. Dropping it lets them go.
pub struct Namespaces {
    holders: Vec<Holder>,
}

/// A process that holds a namespace by being in it. It ends when its input does.
struct Holder(Child);

impl Drop for Holder {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        // Nothing is left to report to; it ends by itself as its input has.
        let _ = self.0.wait();
    }
}

impl Namespaces {
    /// Makes them, and the bridge with an address for this tool.
    pub fn new(count: usize) -> Result<Namespaces> {
        ip("link set lo up")?;
        ip("link add cluster type bridge")?;
        ip(&format!("addr add {}/24 dev cluster", address(count)))?;
        ip("link set cluster up")?;
        let mut namespaces = Namespaces {
            holders: Vec::new(),
        };
        for node in 0..count {
            namespaces.holders.push(hold()?);
            let holder = namespaces.holders[node].0.id();
            ip(&format!(
                "link add node{node} type veth peer name uplink netns {holder}"
            ))?;
            ip(&format!("link set node{node} master cluster up"))?;
            let within = |words: &str| namespaces.within(node, words);
            within("ip link set lo up")?;
            within(&format!("ip addr add {}/24 dev uplink", address(node)))?;
            within("ip link set uplink up")?;
            let [family, table, chain] = CHAIN;
            within(&format!("nft add table {family} {table}"))?;
            within(&format!(
                "nft add chain {family} {table} {chain} {{ type filter hook input priority 0 ; }}"
            ))?;
        }
        Ok(namespaces)
    }

    /// Where each node runs, and its address for its peers.
    pub fn members(&self) -> Vec<(Environment, SocketAddr)> {
        let holders = self.holders.iter().enumerate();
        holders
            .map(|(node, holder)| {
                let (ip, holder) = (address(node), holder.0.id());
                let environment = Environment::Namespace { ip, holder };
                (environment, SocketAddr::new(ip, CLUSTER_PORT))
            })
            .collect()
    }

    /// An address of this tool for each node, at which it may stand before that.
    pub fn fronts(&self) -> Vec<SocketAddr> {
        let ip = address(self.holders.len());
        let ports = (CLUSTER_PORT + 1..).take(self.holders.len());
        ports.map(|port| SocketAddr::new(ip, port)).collect()
    }

    /// From now on nothing that `from` sends reaches `to`.
    pub fn cut(&self, from: usize, to: usize) -> Result<()> {
        let [family, table, chain] = CHAIN;
        let from = address(from);
        self.within(
            to,
            &format!("nft add rule {family} {table} {chain} ip saddr {from} drop"),
        )
    }

    /// All packets arrive again.
    pub fn heal(&self) -> Result<()> {
        let [family, table, chain] = CHAIN;
        (0..self.holders.len()).try_for_each(|node| {
            self.within(node, &format!("nft flush chain {family} {table} {chain}"))
        })
    }

    fn within(&self, node: usize, words: &str) -> Result<()> {
        let mut words = words.split(' ');
        let mut command = Command::new(words.next().context("no command")?);
        command.args(words);
        let (environment, _) = &self.members()[node];
        run::output(&mut environment.enter(command))?;
        Ok(())
    }
}

/// A node's address; that after the last node's is this tool's.
fn address(node: usize) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, 77, 0, node as u8 + 1))
}

fn ip(words: &str) -> Result<()> {
    run::output(Command::new("ip").args(words.split(' ')))?;
    Ok(())
}

/// Starts a process in a new namespace; returns when it is there.
fn hold() -> Result<Holder> {
    let mut command = Command::new("unshare");
    command.args(["--net", "--", "sh", "-c", "echo; exec cat"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut holder = Holder(command.spawn().context("start unshare")?);
    let output = holder.0.stdout.as_mut().context("its output is piped")?;
    output
        .read_exact(&mut [0])
        .context("make a network namespace")?;
    Ok(holder)
}

/// Pairs of one node and each of others, in both directions.
pub fn both_ways(one: usize, others: &[usize]) -> Vec<(usize, usize)> {
    let there = others.iter().map(|&other| (one, other));
    let back = others.iter().map(|&other| (other, one));
    there.chain(back).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_both_ways_names_each_way_once() {
        assert_eq!(both_ways(0, &[1, 2]), [(0, 1), (0, 2), (1, 0), (2, 0)]);
    }
}
