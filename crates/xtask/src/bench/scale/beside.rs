//! What another client waits beside lists of very many queues, in turn with nobody who asks:
//! whatever else the machine does is the same for both.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use super::api::{WHOLE, await_listed, watched};
use super::measure::{Figure, WAIT, figure, pipelined};
use crate::broker::{Broker, Kind};
use crate::client::Client;
use crate::cluster::Cluster;
use crate::http;
use crate::numbers::median;

/// How often each of the two is watched, in turn.
const ROUNDS: usize = 7;
/// For how long each time.
const WATCHED: Duration = Duration::from_secs(2);

/// Of who asks: as the broker's own threads that make lists.
const NICENESS: i32 = 5;

/// Of one node, and of three that share the queues and are asked by one of them.
pub fn lists(kind: Kind, fast: bool) -> Result<Vec<Figure>> {
    let count = if fast { 999 } else { 20_001 };
    let mut figures = Vec::new();
    for nodes in [1, 3] {
        let cluster;
        let alone;
        let all = if nodes == 1 {
            alone = [Broker::start(kind, "scale-beside", &[])?];
            &alone[..]
        } else {
            cluster = Cluster::start_kind(kind, "scale-beside-cluster", nodes)?;
            &cluster.nodes[..]
        };
        for (at, node) in all.iter().enumerate() {
            let mut client = Client::connect(node.amqp)?;
            pipelined(&mut client, count / nodes, |client, number| {
                client.send_declare(&format!("scale-{number}-{at}"), true);
            })?;
        }
        await_listed(&all[0], count / nodes * nodes)?;
        let of = |what: &str| format!("{count} queues of {nodes} nodes, {what}");
        figures.extend(in_turn(&all[0], &of)?);
    }
    Ok(figures)
}

/// Watches a publisher alone and beside lists, one after the other, in turn.
fn in_turn(broker: &Broker, of: &dyn Fn(&str) -> String) -> Result<Vec<Figure>> {
    let (mut alone, mut beside, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    let (mut lists, mut seconds) = (0_u32, 0.0);
    for _ in 0..ROUNDS {
        let without = watched(broker, || {
            thread::sleep(WATCHED);
            Ok(())
        })?;
        let with = watched(broker, || {
            let asks = thread::scope(|scope| scope.spawn(|| ask_again(broker)).join());
            let (asked, took) = asks.expect("who asks does not panic")?;
            lists += asked;
            seconds += took;
            Ok(())
        })?;
        alone.push(without);
        beside.push(with);
        ratios.push(with / without);
    }
    let p99 = "ping-pong p99, median of the rounds";
    Ok(vec![
        figure(of(&format!("nobody asks: {p99}")), median(&alone), "ms"),
        figure(
            of(&format!("all, one after the other: {p99}")),
            median(&beside),
            "ms",
        ),
        figure(
            of("the second by the first, median of the rounds"),
            median(&ratios),
            "times",
        ),
        figure(
            of("a list meanwhile"),
            seconds * 1e3 / f64::from(lists),
            "ms",
        ),
    ])
}

/// Asks for all queues, again and again, at a niceness: who asks shares the processors with the
/// ping-pong here, and would have it wait for its own time slices. How often, and for how many
/// seconds.
fn ask_again(broker: &Broker) -> Result<(u32, f64)> {
    // Where the system refuses, the figure is too high.
    let _ = rustix::process::setpriority_process(None, NICENESS);
    let (begun, mut asked) = (Instant::now(), 0);
    while begun.elapsed() < WATCHED {
        ask(broker)?;
        asked += 1;
    }
    Ok((asked, begun.elapsed().as_secs_f64()))
}

/// Asks for all queues, and reads the answer without keeping any of it.
fn ask(broker: &Broker) -> Result<()> {
    let head = format!("GET {WHOLE} HTTP/1.1");
    let request = http::request(broker.http, &head, &[("connection", "close")]);
    let mut stream = TcpStream::connect(broker.http)?;
    stream.set_read_timeout(Some(WAIT))?;
    stream.write_all(request.as_bytes())?;
    let (mut piece, mut bytes) = (vec![0; 1 << 18], 0);
    loop {
        match stream.read(&mut piece)? {
            0 if bytes < 1_000 => bail!("no list came: {bytes} bytes"),
            0 => return Ok(()),
            count => bytes += count,
        }
    }
}
