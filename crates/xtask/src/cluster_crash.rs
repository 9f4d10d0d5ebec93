//! Faults under load in a cluster of three, with the ledger of [`crate::crash`] outside of it.
//!
//! Publishers with confirms and consumers with acks are spread over all nodes and work on quorum
//! queues. In each round something happens to the nodes: one is killed, or all at once, or one is
//! stopped for a while. Whoever was connected elsewhere goes on. In the end every confirmed message
//! must come out of its queue, whole, and nothing else.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Result, bail};

use crate::client::Client;
use crate::cluster::Cluster;
use crate::crash::{Ledger, PUBLISHERS, QUEUES, audit, consume, publish, report_protocol_error};
use crate::numbers::Random;
use crate::run;
use crate::suite::{Bench, Report};

/// Rounds after which all queues are emptied and the books closed.
const AUDIT_EVERY: u32 = 3;
/// Rounds of the suite that CI runs.
const CI_ROUNDS: u32 = 6;
/// How long load runs before and after a fault.
const LOAD_MS: std::ops::Range<u64> = 500..2_500;
/// How long a node is stopped: longer than others wait for a sign of life.
const STOPPED_MS: std::ops::Range<u64> = 1_500..5_000;
/// Pause before whoever lost its connection tries again.
const RETRY: Duration = Duration::from_millis(100);

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
                for node in &mut cluster.nodes {
                    node.kill()?;
                }
                let all: Vec<usize> = (0..cluster.nodes.len()).collect();
                cluster.launch(&all)
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

/// Load on all nodes while something happens to them.
fn round(cluster: &mut Cluster, random: &mut Random, ledger: &Ledger) -> Result<Fault> {
    let addresses: Vec<SocketAddr> = cluster.nodes.iter().map(|node| node.amqp).collect();
    let at = |index: usize| addresses[index % addresses.len()];
    let fault = Fault::pick(random, addresses.len());
    let on = AtomicBool::new(true);
    let result = thread::scope(|scope| {
        for publisher in 0..PUBLISHERS {
            let (seed, address, on) = (random.next(), at(publisher / QUEUES + publisher), &on);
            scope.spawn(move || {
                while on.load(Ordering::Relaxed) {
                    publish(address, publisher, seed, ledger, on);
                    thread::sleep(RETRY);
                }
            });
        }
        for queue in 0..QUEUES {
            let (seed, address, on) = (random.next(), at(queue + 1), &on);
            scope.spawn(move || {
                while on.load(Ordering::Relaxed) {
                    let done = |_| !on.load(Ordering::Relaxed);
                    let result = consume(address, queue, seed, ledger, done);
                    report_protocol_error(result, ledger, "consumer");
                    thread::sleep(RETRY);
                }
            });
        }
        thread::sleep(between(random, LOAD_MS));
        let happened = fault.happen(cluster, random);
        thread::sleep(between(random, LOAD_MS));
        on.store(false, Ordering::Relaxed);
        happened
    });
    result?;
    for node in &mut cluster.nodes {
        if !node.is_alive() {
            bail!("a node died by itself: see {}", node.log().display());
        }
    }
    Ok(fault)
}

/// Runs the rounds; gives what was found wrong.
pub fn rounds(name: &str, count: u32, seed: u64) -> Result<Vec<String>> {
    let mut random = Random::new(seed);
    let ledger = Ledger::unordered();
    let mut cluster = Cluster::start(name, 3)?;
    for node in 0..cluster.nodes.len() {
        // At each node: one that has not heard of a queue yet would refuse its consumers.
        let mut client = Client::connect(cluster.amqp(node))?;
        for queue in 0..QUEUES {
            client.declare_quorum(&format!("crash-{queue}"))?;
        }
    }
    for number in 1..=count {
        let fault = round(&mut cluster, &mut random, &ledger)?;
        if number % AUDIT_EVERY == 0 || number == count {
            audit(cluster.amqp(number as usize), &mut random, &ledger)?;
        }
        let (sent, confirmed, delivered) = ledger.totals();
        println!(
            "      round {number}/{count}: {fault:?}; sent {sent}, confirmed {confirmed}, \
             delivered {delivered}"
        );
        if !ledger.found().is_empty() {
            println!("      seed {seed}, round {number}");
            break;
        }
    }
    let (_, confirmed, _) = ledger.totals();
    if confirmed == 0 {
        bail!("nothing was ever confirmed: the audit proves nothing");
    }
    Ok(ledger.found())
}

/// The rounds as a suite: one test a round.
pub fn suite(bench: &Bench) -> Result<Report> {
    let wrong = rounds(bench.name, CI_ROUNDS, 1)?;
    let passed = if wrong.is_empty() {
        CI_ROUNDS as usize
    } else {
        0
    };
    Ok(Report {
        passed,
        failed: wrong,
        ..Report::default()
    })
}
