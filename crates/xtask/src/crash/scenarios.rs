//! What operators do, and what befalls them, under load: a restart of one node after the other, a
//! member whose disk is lost, a minority that is left alone.
//!
//! The load goes on at all nodes meanwhile. Beside what the ledger holds the cluster to: while one
//! node is worked on, no connection to another one breaks and no publish there is refused, and
//! messages go through.

use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::ledger::{Ledger, PUBLISHERS, QUEUES};
use super::load;
use crate::client::{Client, Event};
use crate::cluster::Cluster;
use crate::{http, run};

/// How long anything of a scenario may take.
const DEADLINE: Duration = Duration::from_secs(60);
/// Pause between two looks at what is waited for.
const LOOK: Duration = Duration::from_millis(100);
/// How long an answer may take that needs no other node.
const OWN_ANSWER: Duration = Duration::from_secs(5);
/// So many messages are more than can have been under way before.
const TRAFFIC: usize = PUBLISHERS * load::WINDOW as usize + 1;
/// A classic queue at the node that is left alone.
const CLASSIC: &str = "crash-classic";
/// A quorum queue for one message that has to wait.
const WAITING: &str = "crash-waiting";

/// Each node in turn is drained, stopped, started and waited for, as `docs/cluster.md` has it.
pub fn rolling_restart(cluster: &mut Cluster, ledger: &Ledger) -> Result<()> {
    let count = cluster.nodes.len();
    for node in 0..count {
        let other = (node + 1) % count;
        let number = number_of(cluster, node)?;
        ledger.allow_breaks(Some(cluster.amqp(node)));
        // The last one hands nothing over before it goes: others are to notice as little.
        if node + 1 < count {
            cluster.nodes[node].operate(&["drain", &number.to_string()])?;
            let leads_nothing = |node: &Value| node["queues_leading"] == 0;
            await_member(cluster, node, number, "leads nothing", leads_nothing)?;
        }
        cluster.nodes[node].stop()?;
        await_traffic(ledger, &format!("while node {number} is stopped"));
        cluster.launch(&[node])?;
        let is_back = |node: &Value| node["up"] == true && node["draining"] == false;
        await_member(cluster, other, number, "is back", is_back)?;
    }
    Ok(())
}

/// A member is killed and its disk emptied; it comes back as a new one, which then is one of the
/// two that are needed.
pub fn wiped_member(cluster: &mut Cluster, ledger: &Ledger, leader: usize) -> Result<()> {
    let count = cluster.nodes.len();
    let (lost, third) = ((leader + 1) % count, (leader + 2) % count);
    let number = number_of(cluster, lost)?;
    ledger.allow_breaks(Some(cluster.amqp(lost)));
    cluster.nodes[lost].kill()?;
    cluster.nodes[lost].wipe()?;
    await_member(cluster, leader, number, "is down", |node| {
        node["up"] == false
    })?;
    cluster.nodes[leader].operate(&["forget", &number.to_string()])?;
    await_traffic(ledger, "without the lost member");
    cluster.launch(&[lost])?;
    let new = number_of(cluster, lost)?;
    if new == number {
        ledger.accuse(format!(
            "node {number} came back as itself without its disk"
        ));
    }
    for queue in 0..QUEUES {
        await_whole(cluster, leader, &load::queue_name(queue))?;
    }
    ledger.allow_breaks(Some(cluster.amqp(third)));
    cluster.nodes[third].kill()?;
    await_traffic(ledger, "with the new member as one of two");
    cluster.launch(&[third])
}

/// All nodes but one are stopped. What that one can do by itself it goes on doing; the rest it
/// refuses in words, or keeps until the others are back.
pub fn minority(cluster: &Cluster, ledger: &Ledger, alone: usize) -> Result<()> {
    let mut clients = Clients::connect(cluster.amqp(alone))?;
    let others = (0..cluster.nodes.len()).filter(|node| *node != alone);
    let others: Vec<(u32, u64)> = others
        .map(|node| Ok((cluster.nodes[node].pid(), number_of(cluster, node)?)))
        .collect::<Result<_>>()?;
    for (pid, _) in &others {
        run::signal(*pid, "STOP")?;
    }
    let result = others
        .iter()
        .try_for_each(|(_, number)| {
            await_member(cluster, alone, *number, "is down", |node| {
                node["up"] == false
            })
        })
        .and_then(|()| clients.left_alone(cluster, ledger, alone));
    for (pid, _) in &others {
        run::signal(*pid, "CONT")?;
    }
    result?;
    clients.others_are_back()
}

/// Clients of the node that is left alone.
struct Clients {
    address: SocketAddr,
    classic: Client,
    waiting: Client,
}

impl Clients {
    fn connect(address: SocketAddr) -> Result<Clients> {
        let mut classic = Client::connect(address)?;
        classic.declare(CLASSIC, true)?;
        classic.confirm_select()?;
        let mut waiting = Client::connect(address)?;
        waiting.declare_quorum(WAITING)?;
        waiting.confirm_select()?;
        Ok(Clients {
            address,
            classic,
            waiting,
        })
    }

    /// What holds while the other nodes are away.
    fn left_alone(&mut self, cluster: &Cluster, ledger: &Ledger, alone: usize) -> Result<()> {
        reads_are_answered(cluster, ledger, alone)?;
        publish(&mut self.waiting, WAITING, b"waits")?;
        let address = self.address;
        let quorum = thread::spawn(move || Client::connect(address)?.declare_quorum("crash-new-1"));
        let classic = thread::spawn(move || Client::connect(address)?.declare("crash-new-2", true));
        let mut times = 0;
        while times == 0 || !(quorum.is_finished() && classic.is_finished()) {
            self.classic_goes_on().context("a classic queue")?;
            times += 1;
            thread::sleep(LOOK);
        }
        for (kind, declared) in [("quorum", quorum), ("classic", classic)] {
            let refused = declared.join().expect("a declaration does not panic");
            let text = refused.map_or_else(|error| format!("{error:#}"), |_| "declared".to_owned());
            if !text.contains("closed with 506") && !text.contains("closed with 541") {
                ledger.accuse(format!("a new {kind} queue at a minority: {text}"));
            }
        }
        if let Some(event) = self.waiting.next(Duration::ZERO)? {
            ledger.accuse(format!("a publish was answered by a minority: {event:?}"));
        }
        Ok(())
    }

    /// A message goes into the classic queue, is confirmed, and comes out.
    fn classic_goes_on(&mut self) -> Result<()> {
        publish(&mut self.classic, CLASSIC, b"goes on")?;
        await_confirm(&mut self.classic, OWN_ANSWER)?;
        await_message(self.address, CLASSIC, b"goes on", OWN_ANSWER)
    }

    /// What had to wait is done.
    fn others_are_back(&mut self) -> Result<()> {
        await_confirm(&mut self.waiting, DEADLINE).context("what a minority had kept")?;
        await_message(self.address, WAITING, b"waits", DEADLINE)
    }
}

/// What is known can be read at a node that is left alone.
fn reads_are_answered(cluster: &Cluster, ledger: &Ledger, alone: usize) -> Result<()> {
    let node = &cluster.nodes[alone];
    let queues = http::get(node.http, "/api/queues")?;
    let names = queues.as_array().into_iter().flatten();
    let names: Vec<&str> = names.filter_map(|queue| queue["name"].as_str()).collect();
    for queue in 0..QUEUES {
        let queue = load::queue_name(queue);
        if !names.contains(&queue.as_str()) {
            ledger.accuse(format!("a minority does not list {queue} but {names:?}"));
        }
    }
    let status = node.operate(&["status"])?;
    let down = status.lines().filter(|line| line.contains(" down"));
    if down.count() + 1 != cluster.nodes.len() {
        ledger.accuse(format!("a minority does not say who is down:\n{status}"));
    }
    Ok(())
}

fn publish(client: &mut Client, queue: &str, body: &[u8]) -> Result<()> {
    client.publish("", queue, body, true);
    client.flush()
}

fn await_confirm(client: &mut Client, wait: Duration) -> Result<()> {
    match client.next(wait)? {
        Some(Event::Confirm { refused: false, .. }) => Ok(()),
        other => bail!(
            "wanted a confirm within {} s, got {other:?}",
            wait.as_secs()
        ),
    }
}

/// Takes the one message of a queue, at whatever node.
fn await_message(address: SocketAddr, queue: &str, wanted: &[u8], wait: Duration) -> Result<()> {
    let mut client = Client::connect(address)?;
    client.consume(queue, true)?;
    loop {
        match client.next(wait)? {
            Some(Event::Deliver { body, .. }) if body == wanted => return Ok(()),
            // That it consumes.
            Some(Event::Answer { .. }) => {}
            other => bail!("wanted {wanted:?} out of {queue}, got {other:?}"),
        }
    }
}

/// The number by which the cluster knows a node.
pub(super) fn number_of(cluster: &Cluster, node: usize) -> Result<u64> {
    let view = http::get(cluster.nodes[node].http, "/api/leveret/cluster")?;
    view["own"].as_u64().context("a node without a number")
}

/// Waits until the node that is asked sees a member so.
pub(super) fn await_member(
    cluster: &Cluster,
    asked: usize,
    number: u64,
    what: &str,
    is_so: impl Fn(&Value) -> bool,
) -> Result<()> {
    await_that(&format!("node {number} {what}"), || {
        let view = http::get(cluster.nodes[asked].http, "/api/leveret/cluster")?;
        let mut nodes = view["nodes"].as_array().into_iter().flatten();
        Ok(nodes.any(|node| node["number"] == number && is_so(node)))
    })
}

/// How the error begins that says that something has not come in time.
pub(super) const LATE: &str = "it is not so after";

/// Accuses members that were given up. No disk has lost anything, so that none may be.
pub(super) fn accuse_the_quarantined(cluster: &Cluster, ledger: &Ledger) -> Result<()> {
    for queue in (0..QUEUES).map(load::queue_name) {
        let path = format!("/api/queues/quorum/%2F/{queue}/status");
        let seen = http::get(cluster.nodes[0].http, &path)?;
        let mut members = seen.as_array().into_iter().flatten();
        if members.any(|member| member["Raft State"] == "quarantined") {
            ledger.accuse(format!("a member of {queue} is quarantined: {seen}"));
        }
    }
    Ok(())
}

/// Waits until a queue has a leader and all its members follow and vote.
pub(super) fn await_whole(cluster: &Cluster, asked: usize, queue: &str) -> Result<()> {
    let mut seen = Value::Null;
    let whole = await_that(&format!("{queue} is whole"), || {
        let path = format!("/api/queues/quorum/%2F/{queue}/status");
        seen = http::get(cluster.nodes[asked].http, &path)?;
        let members = seen.as_array().map_or(&[][..], Vec::as_slice);
        let count = |role: &str| members.iter().filter(|m| m["Raft State"] == role).count();
        let votes = members.iter().all(|member| member["Membership"] == "voter");
        Ok(votes && count("leader") == 1 && count("follower") == cluster.nodes.len() - 1)
    });
    // Its cause is to be known where the nodes' logs are gone.
    whole.map_err(|error| error.context(format!("its members were {seen}")))
}

pub(super) fn await_that(what: &str, mut is_so: impl FnMut() -> Result<bool>) -> Result<()> {
    let started = Instant::now();
    while !is_so()? {
        if started.elapsed() > DEADLINE {
            bail!("{LATE} {} s that {what}", DEADLINE.as_secs());
        }
        thread::sleep(LOOK);
    }
    Ok(())
}

/// Waits until more messages have gone through than were under way.
pub(super) fn await_traffic(ledger: &Ledger, when: &str) {
    let (before, started) = (ledger.totals(), Instant::now());
    loop {
        let now = ledger.totals();
        let (confirmed, delivered) = (
            now.confirmed - before.confirmed,
            now.delivered - before.delivered,
        );
        if confirmed >= TRAFFIC && delivered >= TRAFFIC {
            return;
        }
        if started.elapsed() > DEADLINE {
            let seconds = DEADLINE.as_secs();
            return ledger.accuse(format!(
                "{when}: {confirmed} confirmed and {delivered} delivered in {seconds} s"
            ));
        }
        thread::sleep(LOOK);
    }
}
