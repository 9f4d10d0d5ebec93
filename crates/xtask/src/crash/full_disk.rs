//! A node whose file system is full, under load: the leader of all queues, or a follower.
//!
//! The node's data lies on a small file system of its own (`tmpfs`, in the mount namespace that
//! this tool's copy has to itself), which a file fills to the last byte. A queue that nobody
//! consumes from grows meanwhile by more than the node's log has room for, so that the node cannot
//! go on by using files of its log again.

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
use crate::client::{Client, Event};
use crate::cluster::Cluster;
use crate::run;

/// Bytes of the small file system.
const DISK_BYTES: u64 = 160 << 20;
/// The queue that grows.
const BACKLOG: &str = "crash-backlog";
/// Bytes of one of its messages, and how many there are.
const BODY_BYTES: usize = 64 << 10;
const MESSAGES: u64 = 800;
/// Unconfirmed messages that its publisher may have.
const WINDOW: usize = 32;
/// How long the disk is full: longer than a leader waits before it gives way.
const FULL: Duration = Duration::from_secs(8);
/// How long a publisher may wait for a confirm, the time for which the disk is full included.
const CONFIRM_WITHIN: Duration = Duration::from_secs(60);

/// Fills a node's file system and empties it again.
pub fn full_disk(cluster: &mut Cluster, ledger: &Ledger, full: usize, leads: bool) -> Result<()> {
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
    let leader = if leads { full } else { other };
    lead(cluster, &queues, leader)?;
    thread::scope(|scope| {
        disk.fill()?;
        // Publishers are blocked everywhere while a node has an alarm; what is on its way by then,
        // and what consumers settle, has to be as safe as ever.
        let publishing = scope.spawn(|| backlog.publish(MESSAGES));
        thread::sleep(FULL);
        disk.empty()?;
        publishing.join().expect("a publisher does not panic")
    })?;
    await_traffic(ledger, "after a disk was full");
    for queue in &queues {
        await_whole(cluster, other, queue)?;
    }
    backlog.end(ledger)
}

fn queues() -> Vec<String> {
    let queues = (0..QUEUES).map(load::queue_name);
    queues.chain([BACKLOG.to_owned()]).collect()
}

/// Lets a node lead all these queues.
fn lead(cluster: &Cluster, queues: &[String], leader: usize) -> Result<()> {
    let number = number_of(cluster, leader)?.to_string();
    for queue in queues {
        await_that(&format!("node {number} leads {queue}"), || {
            let asked = cluster.nodes[leader].operate(&["transfer", &number, queue]);
            Ok(asked.is_ok())
        })?;
    }
    Ok(())
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

    /// Publishes so many messages and waits for all confirms.
    fn publish(&mut self, count: u64) -> Result<()> {
        let body = vec![b'b'; BODY_BYTES];
        let mut last = Instant::now();
        while self.sent < count || !self.open.is_empty() {
            while self.sent < count && self.open.len() < WINDOW {
                self.client.publish("", BACKLOG, &body, true);
                self.sent += 1;
                self.open.insert(self.sent);
            }
            self.client.flush()?;
            let event = self.client.next(Duration::from_millis(200))?;
            if last.elapsed() > CONFIRM_WITHIN {
                let left = self.open.len();
                bail!(
                    "{left} of {} messages have had no confirm for {CONFIRM_WITHIN:?}",
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
        Ok(())
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
