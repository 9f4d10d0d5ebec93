//! Faults under load, again and again, with a ledger outside the processes.
//!
//! Sixteen publishers with confirms fill four durable queues while consumers with acks empty them,
//! and four others fill two streams, which readers follow at each node.
//! Meanwhile something happens: the broker is killed and started again on the same folder; a node
//! of a cluster is killed or stopped, or the network between the nodes is cut; operators restart
//! the nodes in turn, or replace one; somebody between the nodes alters what they say. The ledger
//! knows what was sent, what was confirmed, what came back and what was settled, and holds the
//! brokers to this:
//!
//! - what was confirmed is delivered at least once, in this life or a later one;
//! - what is delivered was sent, and is byte for byte what was sent;
//! - one channel's messages come out of one queue in the order that they went in;
//! - what was settled in a transaction that was committed never comes again (clusters alone: an
//!   acknowledgement without a transaction is not confirmed by the protocol);
//! - all queues can be emptied;
//! - streams have what [`stream_ledger`] says, at each node.

mod alarms;
mod attacked;
mod cluster;
mod damaged;
mod foreign;
mod full_disk;
mod ledger;
mod load;
mod namespaces;
mod network;
mod on_path;
mod scenarios;
mod single;
mod stream_ledger;
mod streams;

use std::net::SocketAddr;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Result, bail};
use clap::builder::PossibleValuesParser;

use self::ledger::Ledger;
use self::streams::StreamNode;
use crate::broker::Kind;
use crate::numbers::Random;
use crate::suite::bench::{Bench, Report};

/// Rounds that CI runs of one broker.
const CI_ROUNDS: u32 = 25;
/// Rounds that CI runs of a cluster on loopback.
const CI_ROUNDS_CLUSTER: u32 = 6;

/// Brokers to which things happen.
trait Scene {
    /// The rules of the ledger, kept over all rounds.
    fn ledger(&self) -> &Ledger;

    /// Load while something happens; gives what happened, in words.
    fn round(&mut self, number: u32, random: &mut Random) -> Result<String>;

    /// Where the queues are emptied after a round.
    fn audited_at(&self, number: u32) -> SocketAddr;

    /// The nodes at each of which streams are read; none where there are no streams.
    fn stream_nodes(&self) -> Vec<StreamNode>;

    /// All queues are emptied and the books closed every so many rounds; in between, backlogs
    /// survive several faults.
    fn audit_every(&self) -> u32;
}

/// Plays the rounds; gives what was found wrong.
fn play(scene: &mut impl Scene, count: u32, seed: u64) -> Result<Vec<String>> {
    let mut random = Random::new(seed);
    for number in 1..=count {
        let happened = scene.round(number, &mut random)?;
        let ledger = scene.ledger();
        let audits = number.is_multiple_of(scene.audit_every()) || number == count;
        if audits {
            load::audit(scene.audited_at(number), &mut random, ledger)?;
            streams::audit(&scene.stream_nodes(), ledger, number == count)?;
        }
        if audits || !happened.is_empty() {
            let (totals, streams) = (ledger.totals(), ledger.streams().totals());
            println!("      round {number}/{count}: {happened}{totals}{streams}");
        }
        if !ledger.found().is_empty() {
            println!("      seed {seed}, round {number}");
            break;
        }
    }
    if scene.ledger().totals().confirmed == 0 {
        bail!("nothing was ever confirmed: the audit proves nothing");
    }
    if !scene.stream_nodes().is_empty() && scene.ledger().streams().totals().confirmed == 0 {
        bail!("no message of a stream was ever confirmed: the audit proves nothing of them");
    }
    Ok(scene.ledger().found())
}

/// Kills of one broker as a suite: one test a round.
pub fn suite(bench: &Bench) -> Result<Report> {
    let mut single = single::Single::start(bench.kind, bench.name)?;
    Ok(report(CI_ROUNDS, play(&mut single, CI_ROUNDS, 1)?))
}

/// Faults of a cluster as a suite: one test a round, then one a fault of the network.
pub fn cluster_suite(bench: &Bench) -> Result<Report> {
    let mut nodes = cluster::Nodes::start(bench.name)?;
    let wrong = play(&mut nodes, CI_ROUNDS_CLUSTER, 1)?;
    drop(nodes);
    let mut report = report(CI_ROUNDS_CLUSTER, wrong);
    report.add(network::suite()?);
    Ok(report)
}

fn report(rounds: u32, wrong: Vec<String>) -> Report {
    Report {
        passed: if wrong.is_empty() { rounds as usize } else { 0 },
        failed: wrong,
        ..Report::default()
    }
}

/// What happens to which brokers.
#[derive(clap::Args)]
pub struct Options {
    /// How often
    #[arg(long, value_name = "N", default_value_t = CI_ROUNDS)]
    rounds: u32,
    /// Of all that is left to chance [default: the time]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// What is killed
    #[arg(long, value_name = "KIND", value_enum, default_value_t = Kind::Leveret)]
    broker: Kind,
    /// Kill and stop nodes of a cluster of three with quorum queues
    #[arg(long)]
    cluster: bool,
    /// Give each node a network namespace of its own, and let each fault happen once
    #[arg(long, requires = "cluster")]
    netns: bool,
    /// With --netns: how long each fault takes, load before and after it included
    #[arg(long, value_name = "N", default_value_t = network::SECONDS)]
    seconds: u64,
    /// With --netns: this fault alone; on-path needs no --netns
    #[arg(long, value_name = "NAME", value_parser = PossibleValuesParser::new(network::names()))]
    fault: Option<String>,
}

/// `cargo xtask crash`.
pub fn run(options: &Options) -> Result<bool> {
    let seed = options.seed.unwrap_or_else(|| {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        since.map_or(0, |since| since.as_secs())
    });
    options.broker.prepare()?;
    if options.netns {
        return network::run(&network::Options {
            seconds: options.seconds,
            fault: options.fault.clone(),
            seed,
        });
    }
    let mut count = options.rounds;
    println!("      seed {seed}");
    let is_attacked = options.fault.as_deref() == Some(attacked::NAME);
    let wrong = if is_attacked {
        count = 1;
        attacked::on_loopback(options.seconds, seed)?.failed
    } else if options.cluster {
        play(&mut cluster::Nodes::start("crash-cluster")?, count, seed)?
    } else {
        play(
            &mut single::Single::start(options.broker, "crash")?,
            count,
            seed,
        )?
    };
    for what in &wrong {
        println!("FAILED {what}");
    }
    println!("\n{} rounds, {} faults", count, wrong.len());
    Ok(wrong.is_empty())
}
