//! A cluster of three with somebody between its nodes: see [`on_path`](super::on_path).

use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::ledger::{Ledger, Rules};
use super::load::Load;
use super::namespaces::Namespaces;
use super::on_path::{DEEDS, OnPath};
use super::scenarios::{await_member, await_traffic, number_of};
use super::streams::{self, StreamNode};
use super::{Scene, cluster, load, play};
use crate::broker::Environment;
use crate::cluster::{Cluster, Member};
use crate::numbers::Random;
use crate::ports;
use crate::suite::bench::Report;

/// The name of this fault on the command line.
pub const NAME: &str = "on-path";
const NODES: usize = 3;
/// Load before anything is done, and after it.
const AROUND: Duration = Duration::from_secs(1);
/// Pause between two deeds: links come back, and are used.
const PAUSE: Duration = Duration::from_millis(300);
const SETTINGS: &str = "\
cluster.secret = what the one between does not know
loopback_users = none
";
/// What a node's log says of a record that was not said so.
const COMPLAINT: &str = "a record's seal is broken";

/// The cluster, and who is between its nodes.
pub struct Attacked {
    path: OnPath,
    cluster: Cluster,
    ledger: Ledger,
    /// How long things are done to the links; each is done once at least.
    lasting: Duration,
}

impl Attacked {
    /// Starts nodes in namespaces, or on loopback.
    pub fn start(namespaces: Option<&Namespaces>, seconds: u64, seed: u64) -> Result<Attacked> {
        let (places, fronts) = match namespaces {
            Some(namespaces) => (namespaces.members(), namespaces.fronts()),
            None => {
                let own = ports::free(2 * NODES)?;
                let (own, fronts) = own.split_at(NODES);
                let places = own.iter().map(|address| (Environment::Loopback, *address));
                (places.collect(), fronts.to_vec())
            }
        };
        let ways: Vec<_> = fronts
            .iter()
            .copied()
            .zip(places.iter().map(|(_, own)| *own))
            .collect();
        let path = OnPath::stand(&ways, seed)?;
        let members: Vec<_> = places
            .into_iter()
            .zip(fronts)
            .map(|((environment, address), advertised)| Member {
                environment,
                address,
                advertised,
            })
            .collect();
        let cluster = Cluster::form("crash-attacked", &members, SETTINGS)?;
        cluster::declare_quorum_queues(&cluster)?;
        streams::create(&streams::nodes_of(&cluster))?;
        Ok(Attacked {
            path,
            cluster,
            ledger: Ledger::new(Rules::CutCluster),
            lasting: Duration::from_secs(seconds) / 2,
        })
    }
}

impl Scene for Attacked {
    fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    fn round(&mut self, _number: u32, random: &mut Random) -> Result<String> {
        let addresses = self.cluster.addresses();
        let load = Load {
            streams: streams::nodes_of(&self.cluster),
            ..Load::own(addresses.clone())
        };
        let Attacked {
            path,
            cluster,
            ledger,
            lasting,
        } = self;
        load::during(&load, random, ledger, |_| {
            thread::sleep(AROUND);
            // Any node may take any other one for dead while its links end.
            addresses.iter().for_each(|node| ledger.doubt(*node));
            let started = Instant::now();
            for (times, deed) in DEEDS.into_iter().cycle().enumerate() {
                if times >= DEEDS.len() && started.elapsed() > *lasting {
                    break;
                }
                if let Some(wrong) = path.attack(deed)? {
                    ledger.accuse(wrong);
                    break;
                }
                thread::sleep(PAUSE);
            }
            all_are_up(cluster)?;
            await_traffic(ledger, "after somebody was between the nodes");
            thread::sleep(AROUND);
            cluster.check_alive()
        })?;
        if let Some(learnt) = path.has_learnt() {
            ledger.accuse(learnt.to_owned());
        }
        let complaints = complaints(cluster)?;
        if complaints == 0 {
            ledger.accuse(format!("no node says in its log that `{COMPLAINT}`"));
        }
        let noticed = path.noticed();
        Ok(format!(
            "{NAME}: {noticed} deeds noticed, {complaints} lines in logs; "
        ))
    }

    fn audited_at(&self, number: u32) -> SocketAddr {
        self.cluster.amqp(number as usize)
    }

    fn stream_nodes(&self) -> Vec<StreamNode> {
        streams::nodes_of(&self.cluster)
    }

    fn audit_every(&self) -> u32 {
        1
    }
}

/// One round on loopback, as a test.
pub fn on_loopback(seconds: u64, seed: u64) -> Result<Report> {
    let wrong = play(&mut Attacked::start(None, seconds, seed)?, 1, seed)?;
    Ok(Report {
        passed: usize::from(wrong.is_empty()),
        failed: wrong,
        ..Report::default()
    })
}

/// Waits until each node sees each.
fn all_are_up(cluster: &Cluster) -> Result<()> {
    for asked in 0..cluster.nodes.len() {
        for node in 0..cluster.nodes.len() {
            let number = number_of(cluster, node)?;
            await_member(cluster, asked, number, "is up", |node| node["up"] == true)?;
        }
    }
    Ok(())
}

/// Lines in the nodes' logs of records that were not said so.
fn complaints(cluster: &Cluster) -> Result<usize> {
    let mut count = 0;
    for node in &cluster.nodes {
        let log = std::fs::read_to_string(node.log()).context("a node's log")?;
        count += log.matches(COMPLAINT).count();
    }
    Ok(count)
}
