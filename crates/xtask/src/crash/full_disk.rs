//! A node whose file system is full, under load: the leader of all queues, streams and the
//! catalogue, a follower, or each node in turn.
//!
//! The node's data lies on a small file system of its own (`tmpfs`, in the mount namespace that
//! this tool's copy has to itself), which a file fills to the last byte. A queue that nobody
//! consumes from grows meanwhile by more than the node's log has room for, so that the node cannot
//! go on by using files of its log again. Publishers at the other nodes are confirmed all the time,
//! and the full node leads nothing after a moment.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::ledger::{Ledger, QUEUES};
use super::load;
use super::scenarios::{await_member, await_that, await_traffic, await_whole, number_of};
use super::stream_ledger::STREAMS;
use super::streams::stream_name;
use crate::client::{Client, Event};
use crate::cluster::Cluster;
use crate::{http, run};

/// Bytes of the small file system: room for what a member keeps of a whole run, several times.
const DISK_BYTES: u64 = 512 << 20;
/// The queue that grows.
const BACKLOG: &str = "crash-backlog";
/// Bytes of one of its messages, and how many there are.
const BODY_BYTES: usize = 64 << 10;
const MESSAGES: u64 = 800;
/// Unconfirmed messages that its publisher may have.
const WINDOW: usize = 32;
/// Longest time without a confirm that a full disk may cost a publisher at another node: its leader
/// gives way after 2 s, and the machine may be busy.
const CONFIRM_WITHIN: Duration = Duration::from_secs(10);
/// How long a publisher waits before it gives up.
const GIVE_UP: Duration = Duration::from_secs(60);
/// How soon the full node leads nothing.
const LEADS_NOTHING_WITHIN: Duration = Duration::from_secs(10);

/// Which node's disk is filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// That of a node which leads all queues and the catalogue.
    Leader,
    /// That of one that leads none.
    Follower,
}

/// The same for one node after the other, each of which leads everything when its disk is filled.
pub fn full_disks(cluster: &mut Cluster, ledger: &Ledger) -> Result<()> {
    (0..cluster.nodes.len()).try_for_each(|full| full_disk(cluster, ledger, full, Role::Leader))
}

/// Fills a node's file system and empties it again.
pub fn full_disk(cluster: &mut Cluster, ledger: &Ledger, full: usize, role: Role) -> Result<()> {
    let other = (full + 1) % cluster.nodes.len();
    let number = number_of(cluster, full)?;
    ledger.allow_breaks(Some(cluster.amqp(full)));
    cluster.nodes[full].stop()?;
    let disk = SmallDisk::mount(&cluster.nodes[full].folder.join("data"))?;
    cluster.launch(&[full])?;
    await_member(cluster, other, number, "is up", |node| node["up"] == true)?;
    let mut backlog = Backlog::declare(cluster, other)?;
    let queues = queues();
    for queue in &queues {
        await_whole(cluster, other, queue)?;
    }
    let leader = match role {
        Role::Leader => full,
        Role::Follower => other,
    };
    let streams = (0..STREAMS).map(stream_name);
    let led: Vec<String> = queues.iter().cloned().chain(streams).collect();
    lead(cluster, &led, leader)?;
    disk.fill()?;
    let filled = Instant::now();
    let slowest = backlog.publish(MESSAGES)?;
    if slowest > CONFIRM_WITHIN {
        ledger.accuse(format!("a full disk kept confirms back for {slowest:?}"));
    }
    while let Some(name) = led_by(cluster, full, other, &led)? {
        if filled.elapsed() > LEADS_NOTHING_WITHIN {
            ledger.accuse(format!("{name} is led by the node whose disk is full"));
            break;
        }
        thread::sleep(Duration::from_millis(100));
    }
    await_traffic(ledger, "while a node's disk is full");
    disk.empty()?;
    await_traffic(ledger, "after a disk was full");
    for queue in &queues {
        await_whole(cluster, other, queue)?;
    }
    backlog.end(ledger)
}

/// What a node leads, as another one says.
fn led_by(
    cluster: &Cluster,
    node: usize,
    asked: usize,
    queues: &[String],
) -> Result<Option<String>> {
    let led = |queue: &&String| cluster.leader_of(queue, asked).is_ok_and(|led| led == node);
    if let Some(queue) = queues.iter().find(led) {
        return Ok(Some(queue.clone()));
    }
    let view = http::get(cluster.nodes[asked].http, "/api/leveret/cluster")?;
    let leads = view["leader"] == number_of(cluster, node)?;
    Ok(leads.then(|| "the catalogue".to_owned()))
}

fn queues() -> Vec<String> {
    let queues = (0..QUEUES).map(load::queue_name);
    queues.chain([BACKLOG.to_owned()]).collect()
}

/// Lets a node lead all these queues and streams, and the catalogue.
fn lead(cluster: &Cluster, queues: &[String], leader: usize) -> Result<()> {
    let number = number_of(cluster, leader)?.to_string();
    for queue in queues {
        await_that(&format!("node {number} leads {queue}"), || {
            let asked = cluster.nodes[leader].operate(&["transfer", &number, queue]);
            Ok(asked.is_ok())
        })?;
    }
    // Whoever leads it hands it over, and nobody else.
    await_that(&format!("node {number} leads the catalogue"), || {
        let mut nodes = cluster.nodes.iter();
        Ok(nodes.any(|node| node.operate(&["transfer", &number]).is_ok()))
    })
}

/// A file system in the place of a node's folder, which is not running.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(data: &Path) -> Result<SmallDisk> {
        let beside = data.with_extension("before");
        if beside.exists() {
            // It has one already, of an earlier fault.
            return Ok(SmallDisk(data.to_owned()));
        }
        fs::rename(data, &beside)?;
        fs::create_dir(data)?;
        let options = format!("size={DISK_BYTES},mode=0700");
        let mut mount = Command::new("mount");
        mount
            .args(["-t", "tmpfs", "-o", &options, "leveret"])
            .arg(data);
        run::output(&mut mount).context("mount a small file system")?;
        let mut copy = Command::new("cp");
        copy.arg("-a").arg(beside.join(".")).arg(data);
        run::output(&mut copy)?;
        Ok(SmallDisk(data.to_owned()))
    }

    fn filler(&self) -> PathBuf {
        self.0.join("filler")
    }

    /// Leaves not a byte.
    fn fill(&self) -> Result<()> {
        let path = self.filler();
        let mut file: File = OpenOptions::new().create(true).append(true).open(&path)?;
        let zeros = vec![0; 1 << 20];
        let mut size = zeros.len();
        while size > 0 {
            match file.write(&zeros[..size]) {
                Ok(_) => {}
                Err(error) if error.kind() == std::io::ErrorKind::StorageFull => size /= 2,
                Err(error) => bail!("fill {}: {error}", path.display()),
            }
        }
        Ok(())
    }

    fn empty(&self) -> Result<()> {
        let path = self.filler();
        fs::remove_file(&path).with_context(|| format!("remove {}", path.display()))
    }
}

/// The publisher of the queue that grows.
struct Backlog {
    client: Client,
    sent: u64,
    /// What has no confirm yet.
    open: BTreeSet<u64>,
}

impl Backlog {
    fn declare(cluster: &Cluster, at: usize) -> Result<Backlog> {
        let mut client = Client::connect(cluster.amqp(at))?;
        client.declare_quorum(BACKLOG)?;
        client.confirm_select()?;
        Ok(Backlog {
            client,
            sent: 0,
            open: BTreeSet::new(),
        })
    }

    /// Publishes so many messages and waits for all confirms; gives the longest time without one.
    fn publish(&mut self, count: u64) -> Result<Duration> {
        let body = vec![b'b'; BODY_BYTES];
        let mut slowest = Duration::ZERO;
        let mut last = Instant::now();
        while self.sent < count || !self.open.is_empty() {
            while self.sent < count && self.open.len() < WINDOW {
                self.client.publish("", BACKLOG, &body, true);
                self.sent += 1;
                self.open.insert(self.sent);
            }
            self.client.flush()?;
            let event = self.client.next(Duration::from_millis(200))?;
            slowest = slowest.max(last.elapsed());
            if slowest > GIVE_UP {
                let left = self.open.len();
                bail!(
                    "{left} of {} messages have had no confirm for {GIVE_UP:?}",
                    self.sent
                );
            }
            if let Some(Event::Confirm {
                number,
                multiple,
                refused,
            }) = event
            {
                if refused {
                    bail!("a publish to {BACKLOG} was refused");
                }
                match multiple {
                    true => self.open = self.open.split_off(&(number + 1)),
                    false => drop(self.open.remove(&number)),
                }
                last = Instant::now();
            }
        }
        Ok(slowest)
    }

    /// Looks whether all is there, and deletes the queue.
    fn end(mut self, ledger: &Ledger) -> Result<()> {
        let ready = self.client.ready_count(BACKLOG)?;
        let confirmed = self.sent;
        if u64::from(ready) != confirmed {
            ledger.accuse(format!(
                "{BACKLOG} has {ready} of {confirmed} confirmed messages"
            ));
        }
        self.client.send_delete(BACKLOG);
        self.client.flush()?;
        // Its answer: the next fault declares the queue again.
        self.client.next(Duration::from_secs(10)).map(drop)
    }
}
