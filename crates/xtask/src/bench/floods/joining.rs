//! Half-open sockets at the port between nodes, from several addresses, again and again, while a
//! member that was killed comes back, or joins anew because it has lost its disk: how long that
//! takes, beside the same without them.

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::{is_open, open_silent};
use crate::bench::logins::{stand_back, worst};
use crate::bench::report::{Measured, Options};
use crate::cluster::Cluster;
use crate::http;
use crate::numbers::{median, table};

/// Addresses that sockets come from, and how many of each are open at once at each node: more in
/// all than a node has places for strangers.
const ADDRESSES: u8 = 16;
const OF_EACH: usize = 16;
/// How long there is only the flood before the member comes.
const BEFORE: Duration = Duration::from_secs(2);
/// Pause between two looks.
const LOOK: Duration = Duration::from_millis(10);
/// The longest that a member is waited for.
const WAIT: Duration = Duration::from_secs(120);
/// The member that goes and comes.
const AWAY: usize = 2;

/// How a member comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comes {
    Back,
    Anew,
}

/// Where strangers are.
fn strangers() -> impl Iterator<Item = Ipv4Addr> {
    (1..=ADDRESSES).map(|number| Ipv4Addr::new(127, 0, 3, number))
}

/// Keeps so many silent sockets of each stranger open at some ports; who is dropped comes again.
fn flood(ports: &[SocketAddr], stop: &AtomicBool, opened: &AtomicU64) {
    stand_back();
    let mut sockets: Vec<(Ipv4Addr, SocketAddr, Option<TcpStream>)> = strangers()
        .flat_map(|from| ports.iter().map(move |to| (from, *to)))
        .flat_map(|(from, to)| (0..OF_EACH).map(move |_| (from, to, None)))
        .collect();
    while !stop.load(Ordering::Relaxed) {
        for (from, to, socket) in &mut sockets {
            if stop.load(Ordering::Relaxed) {
                return;
            }
            if !socket.as_ref().is_some_and(is_open) {
                // The port of the member that is away refuses it.
                *socket = open_silent(*from, *to).ok();
                opened.fetch_add(u64::from(socket.is_some()), Ordering::Relaxed);
            }
        }
        thread::sleep(LOOK);
    }
}

/// What was seen in one round.
struct Round {
    ready_s: f64,
    seen_s: f64,
    opened_per_s: f64,
}

/// Lets the member go and come; gives when it is ready, and when both others see it up.
fn play(cluster: &mut Cluster, comes: Comes, flooded: bool) -> Result<Round> {
    let number = number_of(cluster, AWAY)?;
    cluster.nodes[AWAY].kill()?;
    await_view(cluster, |node| {
        node["number"] == number && node["up"] == false
    })?;
    if comes == Comes::Anew {
        cluster.nodes[AWAY].wipe()?;
        cluster.nodes[0].operate(&["forget", &number.to_string()])?;
    }
    let ports = cluster.nodes.iter().map(|node| -> Result<SocketAddr> {
        let address = node.cluster_address().context("a node without a cluster")?;
        Ok(address.parse()?)
    });
    let ports = ports.collect::<Result<Vec<SocketAddr>>>()?;
    let (stop, opened) = (AtomicBool::new(false), AtomicU64::new(0));
    let began = Instant::now();
    let came = thread::scope(|scope| {
        if flooded {
            scope.spawn(|| flood(&ports, &stop, &opened));
        }
        thread::sleep(BEFORE);
        let came = come(cluster);
        stop.store(true, Ordering::Relaxed);
        came
    });
    let (ready_s, seen_s) = came?;
    Ok(Round {
        ready_s,
        seen_s,
        opened_per_s: opened.into_inner() as f64 / began.elapsed().as_secs_f64(),
    })
}

fn come(cluster: &mut Cluster) -> Result<(f64, f64)> {
    let began = Instant::now();
    cluster.launch(&[AWAY])?;
    let ready_s = began.elapsed().as_secs_f64();
    let number = number_of(cluster, AWAY)?;
    await_view(cluster, |node| {
        node["number"] == number && node["up"] == true
    })?;
    Ok((ready_s, began.elapsed().as_secs_f64()))
}

fn number_of(cluster: &Cluster, node: usize) -> Result<u64> {
    let view = http::get(cluster.nodes[node].http, "/api/leveret/cluster")?;
    view["own"].as_u64().context("a node without a number")
}

/// Waits until each of the nodes that stay sees a node so.
fn await_view(cluster: &Cluster, is_so: impl Fn(&Value) -> bool) -> Result<()> {
    let began = Instant::now();
    for node in &cluster.nodes[..AWAY] {
        loop {
            let view = http::get(node.http, "/api/leveret/cluster")?;
            let nodes = view["nodes"].as_array().context("a view without nodes")?;
            if nodes.iter().any(&is_so) {
                break;
            }
            if began.elapsed() > WAIT {
                bail!("a member is not seen as it is: {view}");
            }
            thread::sleep(LOOK);
        }
    }
    Ok(())
}

/// A member that comes back, and one that joins anew, without and with the flood.
pub fn run(options: &Options) -> Result<Measured> {
    let rounds = if options.fast { 1 } else { 5 };
    let mut cluster = Cluster::start("joining", AWAY + 1)?;
    let (mut rows, mut records) = (Vec::new(), Vec::new());
    for (comes, name) in [
        (Comes::Back, "a member that was killed comes back"),
        (Comes::Anew, "one that has lost its disk joins anew"),
    ] {
        let (mut without, mut with) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            without.push(play(&mut cluster, comes, false)?);
            with.push(play(&mut cluster, comes, true)?);
        }
        let (row, record) = told(name, &without, &with);
        println!("  {record}");
        rows.push(row);
        records.push(record);
    }
    let open = usize::from(ADDRESSES) * OF_EACH;
    let flood = format!("{open} half-open sockets at each node's port, again and again");
    let head = [
        &flood[..],
        "opened a second",
        "seen up, s, without: median",
        "worst",
        "with: median",
        "worst",
    ];
    Ok(Measured {
        text: table(&head, &rows),
        json: json!(records),
    })
}

fn told(name: &str, without: &[Round], with: &[Round]) -> (Vec<String>, Value) {
    let seen = |rounds: &[Round]| -> Vec<f64> { rounds.iter().map(|r| r.seen_s).collect() };
    let ready = |rounds: &[Round]| -> Vec<f64> { rounds.iter().map(|r| r.ready_s).collect() };
    let opened: Vec<f64> = with.iter().map(|round| round.opened_per_s).collect();
    let (quiet, flooded) = (seen(without), seen(with));
    let row = vec![
        name.to_owned(),
        format!("{:.0}", median(&opened)),
        format!("{:.2}", median(&quiet)),
        format!("{:.2}", worst(&quiet)),
        format!("{:.2}", median(&flooded)),
        format!("{:.2}", worst(&flooded)),
    ];
    let record = json!({
        "what": name,
        "opened_per_s": median(&opened),
        "seen_s": {"without": quiet, "with": flooded},
        "ready_s": {"without": ready(without), "with": ready(with)},
    });
    (row, record)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_are_more_than_a_node_has_places_for_and_none_of_them_is_a_member() {
        let all: std::collections::BTreeSet<Ipv4Addr> = strangers().collect();
        assert_eq!(all.len(), usize::from(ADDRESSES));
        assert!(all.len() * OF_EACH > 64);
        assert!(!all.contains(&Ipv4Addr::LOCALHOST));
    }
}
