//! PerfTest against clusters of Leveret and of Debian's RabbitMQ in turn: quorum queues on three
//! nodes, mirrored queues on two; then what many quorum queues and a leader's death cost.

use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::json;

use super::cluster;
use super::perftest::{self, Compared, Figures, Length};
use super::report::{Measured, Options};
use crate::broker::{Broker, Kind};
use crate::client::Client;
use crate::cluster::Cluster;
use crate::suite::{perftest, perftest_classpath};
use crate::{run, tools};

/// How long a queue may take to be led where it is to be.
const LEADER_DEADLINE: Duration = Duration::from_secs(20);
/// How mirrored queues were made: all nodes have them, and new members catch up by themselves.
const MIRRORED: [&str; 3] = [
    "mirrored",
    ".*",
    r#"{"ha-mode":"all","ha-sync-mode":"automatic"}"#,
];

/// Which nodes lead the queues.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Leaders {
    First,
    Spread,
}

/// Which nodes the clients connect to. PerfTest takes one of several by chance.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Clients {
    First,
    Second,
    Any,
}

/// What protects the links between nodes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Links {
    Encrypted,
    Plain,
}

struct Load {
    name: &'static str,
    nodes: usize,
    queues: usize,
    leaders: Leaders,
    clients: Clients,
    /// How Leveret's nodes speak to each other; RabbitMQ's always do so without encryption.
    links: Links,
    options: &'static [&'static str],
}

impl Load {
    /// Whether the queues are classic ones that a policy mirrors.
    fn is_mirrored(&self) -> bool {
        self.name.starts_with("mirrored")
    }
}

const QUORUM: &[&str] = &["-s", "1000", "-c", "1000", "-q", "1000", "-A", "10"];
const ONE_QUEUE: &[&str] = &[
    "-x", "10", "-y", "10", "-s", "4000", "-c", "200", "-q", "200",
];

/// One quorum queue again, which tells what it costs that nobody can read or change what the nodes
/// say to each other.
const PLAIN_LINKS: &str = "quorum-1, plain links";

const LOADS: &[Load] = &[
    Load {
        name: "quorum-1",
        nodes: 3,
        queues: 1,
        leaders: Leaders::First,
        clients: Clients::First,
        links: Links::Encrypted,
        options: QUORUM,
    },
    Load {
        name: PLAIN_LINKS,
        nodes: 3,
        queues: 1,
        leaders: Leaders::First,
        clients: Clients::First,
        links: Links::Plain,
        options: QUORUM,
    },
    Load {
        name: "quorum-4",
        nodes: 3,
        queues: 4,
        leaders: Leaders::Spread,
        clients: Clients::Any,
        links: Links::Encrypted,
        options: QUORUM,
    },
    Load {
        name: "quorum-40, unpaced",
        nodes: 3,
        queues: 40,
        leaders: Leaders::Spread,
        clients: Clients::Any,
        links: Links::Encrypted,
        options: QUORUM,
    },
    Load {
        name: "quorum-40-fast",
        nodes: 3,
        queues: 40,
        leaders: Leaders::Spread,
        clients: Clients::Any,
        links: Links::Encrypted,
        options: &["-s", "1000", "-c", "1000", "-q", "1000", "-r", "50"],
    },
    Load {
        name: "mirrored-1",
        nodes: 2,
        queues: 1,
        leaders: Leaders::First,
        clients: Clients::First,
        links: Links::Encrypted,
        options: ONE_QUEUE,
    },
    Load {
        name: "mirrored-1, wrong node",
        nodes: 2,
        queues: 1,
        leaders: Leaders::First,
        clients: Clients::Second,
        links: Links::Encrypted,
        options: ONE_QUEUE,
    },
    Load {
        name: "mirrored-10",
        nodes: 2,
        queues: 10,
        leaders: Leaders::First,
        clients: Clients::First,
        links: Links::Encrypted,
        options: &["-s", "4000", "-c", "200", "-q", "200"],
    },
    Load {
        name: "mirrored-10, wrong node",
        nodes: 2,
        queues: 10,
        leaders: Leaders::First,
        clients: Clients::Second,
        links: Links::Encrypted,
        options: &["-s", "4000", "-c", "200", "-q", "200"],
    },
    Load {
        name: "mirrored-10, spread",
        nodes: 2,
        queues: 10,
        leaders: Leaders::Spread,
        clients: Clients::Any,
        links: Links::Encrypted,
        options: &["-s", "4000", "-c", "200", "-q", "200"],
    },
];

/// Measures each load on each cluster, in alternating rounds, and reports medians; then the parts
/// that need no PerfTest.
pub fn run(options: &Options) -> Result<Measured> {
    let length = Length::of(options);
    let Length { rounds, seconds } = length;
    let mut compared = Compared::default();
    for load in LOADS.iter().filter(|load| options.wants(load.name)) {
        tools::ensure(tools::Tool::Java)?;
        let classpath = perftest_classpath()?;
        compared.measure(load.name, options, rounds, |kind| {
            measure(kind, load, seconds, &classpath)
        })?;
    }
    let mut text = String::new();
    if !compared.records.is_empty() {
        text = format!(
            "PerfTest {seconds} s a run, the median of {rounds} alternating rounds; persistent \
             messages, confirms. `quorum`: 1 kB, three nodes, clients at any of them (`quorum-1`: \
             at the leader's). `mirrored`: 4 kB, two nodes, classic queues under a policy of \
             `ha-mode: all`. CPU and memory are those of all nodes together.\n\n{}",
            compared.table()
        );
        for record in &compared.records {
            if let (Some(load), Some(syncs)) = (
                record["load"].as_str(),
                record["syncs_per_message"].as_f64(),
            ) {
                text += &format!("\n- {load}: {syncs:.3} syncs a message, all nodes together");
            }
        }
        text.push('\n');
    }
    let mut parts = Vec::new();
    for (name, part) in cluster::PARTS {
        if options.wants(name) {
            let measured = part(options)?;
            text += &format!("\n{}", measured.text);
            parts.push(json!({ "part": name, "figures": measured.json }));
        }
    }
    Ok(Measured {
        text,
        json: json!({
            "seconds": seconds, "rounds": rounds, "loads": compared.records, "parts": parts,
        }),
    })
}

fn queue_name(queue: usize) -> String {
    format!("bench-{queue}")
}

fn measure(kind: Kind, load: &Load, seconds: u64, classpath: &str) -> Result<Figures> {
    let mut cluster = match (kind, load.links) {
        (Kind::Leveret, Links::Plain) => Cluster::start_with(
            "bench",
            &vec!["cluster.links = plain\n".to_owned(); load.nodes],
        )?,
        _ => Cluster::start_kind(kind, "bench", load.nodes)?,
    };
    prepare(&cluster, load)?;
    let mut command = perftest(classpath);
    let nodes: Vec<String> = clients(&cluster.nodes, load.clients)
        .iter()
        .map(|node| format!("{}%2f", node.url()))
        .collect();
    command.arg("-H").arg(nodes.join(","));
    command.args(["-p", "-f", "persistent", "-e", "amq.direct"]);
    let count = load.queues.to_string();
    if load.queues == 1 {
        command.args(["-u", &queue_name(1), "-k", &queue_name(1)]);
    } else {
        command.args(["-qp", "bench-%d", "-qpf", "1", "-qpt", &count]);
        command.args(["-x", &count, "-y", &count]);
    }
    command.args(load.options);
    let figures = perftest::measure("quorum", command, seconds, &cluster.nodes)?;
    for node in &mut cluster.nodes {
        node.stop()?;
    }
    Ok(figures)
}

fn clients(nodes: &[Broker], at: Clients) -> &[Broker] {
    match at {
        Clients::First => &nodes[..1],
        Clients::Second => &nodes[1..2],
        Clients::Any => nodes,
    }
}

/// Declares a load's queues, each at the node that is to lead it.
fn prepare(cluster: &Cluster, load: &Load) -> Result<()> {
    if load.is_mirrored() {
        let mut words = vec!["set_policy", "--apply-to", "queues"];
        words.extend(MIRRORED);
        cluster.nodes[0].ctl(&words)?;
    }
    for queue in 1..=load.queues {
        let node = match load.leaders {
            Leaders::First => 0,
            Leaders::Spread => queue % load.nodes,
        };
        let name = queue_name(queue);
        let mut client = Client::connect(cluster.amqp(node))?;
        match load.is_mirrored() {
            true => client.declare(&name, true)?,
            false => client.declare_quorum(&name)?,
        };
        client.bind(&name, "amq.direct", &name)?;
        lead(cluster, &name, node)?;
    }
    Ok(())
}

/// Sees to it that a node leads a queue: RabbitMQ leaves it where it was declared, ours spreads.
fn lead(cluster: &Cluster, queue: &str, wanted: usize) -> Result<()> {
    let started = Instant::now();
    loop {
        match cluster.leader_of(queue, wanted) {
            Ok(leader) if leader == wanted => return Ok(()),
            Ok(_) if cluster.nodes[wanted].kind == Kind::Leveret => {
                transfer(&cluster.nodes[wanted], queue)?;
            }
            _ => {}
        }
        if started.elapsed() > LEADER_DEADLINE {
            bail!("node {} does not lead {queue}", wanted + 1);
        }
        thread::sleep(Duration::from_millis(50));
    }
}

fn transfer(node: &Broker, queue: &str) -> Result<()> {
    let overview = crate::http::get(node.http, "/api/overview")?;
    let name = overview["node"].as_str().context("a node has a name")?;
    let mut command = Command::new(crate::broker::leveret_binary());
    command
        .args(["cluster", "transfer", name, queue, "--data-dir"])
        .arg(node.folder.join("data"));
    // Until the member is known to have caught up the answer may be a refusal.
    let _ = run::output(&mut command);
    Ok(())
}
