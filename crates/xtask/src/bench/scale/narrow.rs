//! A node in narrow places: a small control group, few descriptors, a client that sends more than
//! it said.

use std::fs;
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::measure::{Figure, WAIT, figure, pipelined};
use crate::bench::logins::timed_login;
use crate::broker::{Broker, Environment, Kind};
use crate::client::Client;
use crate::{http, procfs};

/// The memory of the group.
const GROUP_BYTES: u64 = 200_000_000;
/// Queues that are declared at a time, and at most.
const DECLARED: usize = 1_000;
const QUEUES_MAX: usize = 200_000;
/// How long what was declared may take to be brought to disk.
const SETTLE: Duration = Duration::from_secs(10);
/// Descriptors of a process, and who comes.
const DESCRIPTORS: u32 = 256;
const CROWD: usize = 364;
const HELD: Duration = Duration::from_secs(3);
const LOGINS: usize = 20;

/// A control group of this tool's own with one processor, gone at its end. Memory and processors
/// have a folder each in version 1, and one in version 2.
struct Group(Vec<PathBuf>);

impl Group {
    fn make() -> Result<Group> {
        let name = format!("leveret-bench-{}", std::process::id());
        let root = Path::new("/sys/fs/cgroup");
        let made = |folder: PathBuf| -> Result<PathBuf> {
            fs::create_dir(&folder).with_context(|| format!("make {}", folder.display()))?;
            Ok(folder)
        };
        let limit = GROUP_BYTES.to_string();
        if root.join("memory/cgroup.procs").exists() {
            let mut group = Group(vec![made(root.join("memory").join(&name))?]);
            fs::write(group.0[0].join("memory.limit_in_bytes"), limit)?;
            let processors = made(root.join("cpu").join(&name))?;
            group.0.push(processors);
            fs::write(group.0[1].join("cpu.cfs_period_us"), "100000")?;
            fs::write(group.0[1].join("cpu.cfs_quota_us"), "100000")?;
            return Ok(group);
        }
        fs::write(root.join("cgroup.subtree_control"), "+memory +cpu")?;
        let group = Group(vec![made(root.join(&name))?]);
        fs::write(group.0[0].join("memory.max"), limit)?;
        fs::write(group.0[0].join("cpu.max"), "100000 100000")?;
        Ok(group)
    }

    /// What a shell does to enter it.
    fn enter(&self) -> String {
        let enter = |folder: &PathBuf| format!("echo $$ > {}/cgroup.procs", folder.display());
        self.0.iter().map(enter).collect::<Vec<_>>().join(" && ")
    }

    /// The most memory that it has ever had, page cache included.
    fn peak_bytes(&self) -> Result<u64> {
        let files = ["memory.max_usage_in_bytes", "memory.peak"];
        let read = files.map(|file| fs::read_to_string(self.0[0].join(file)));
        let text = read.into_iter().find_map(Result::ok);
        Ok(text
            .context("the group does not say its peak")?
            .trim()
            .parse()?)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // A group goes once the last process in it has gone.
        for folder in &self.0 {
            let _ = fs::remove_dir(folder);
        }
    }
}

/// Queues are declared in a small control group until the node takes no more.
pub fn control_group(kind: Kind, fast: bool) -> Result<Vec<Figure>> {
    if kind == Kind::RabbitMq {
        return Ok(Vec::new());
    }
    let group = Group::make().context("only the superuser may make a control group")?;
    let environment = Environment::Shell {
        first: group.enter(),
    };
    let mut broker = Broker::plan_at(kind, "scale-group", environment, "")?;
    broker.launch()?;
    let node = &http::get(broker.http, "/api/nodes")?[0];
    let limit = node["mem_limit"].as_f64().context("no memory limit")?;
    let most = if fast { 5_000 } else { QUEUES_MAX };
    let refused = declare_until_refused(&broker, most)?;
    thread::sleep(if fast { HELD } else { SETTLE });
    let overview = http::get(broker.http, "/api/overview")?;
    let queues = overview["object_totals"]["queues"].as_f64();
    let usage = procfs::usage(broker.pid())?;
    let peak = group.peak_bytes()?;
    if !broker.is_alive() {
        bail!("the node has ended: see {}", broker.log().display());
    }
    // It has to leave the group first.
    drop(broker);
    let what = |of: &str| format!("a control group of 200 MB: {of}");
    Ok(vec![
        figure(what("memory that the node alarms at"), limit / 1e6, "MB"),
        figure(
            what(match refused {
                true => "durable queues declared until one is refused",
                false => "durable queues declared, none refused",
            }),
            queues.context("no count of queues")?,
            "queues",
        ),
        figure(
            what("most resident"),
            usage.rss_bytes_max as f64 / 1e6,
            "MB",
        ),
        figure(
            what("most of the group, page cache included"),
            peak as f64 / 1e6,
            "MB",
        ),
    ])
}

/// Declares durable queues without a pause; whether one was refused.
fn declare_until_refused(broker: &Broker, most: usize) -> Result<bool> {
    let mut client = Client::connect(broker.amqp)?;
    for from in (0..most).step_by(DECLARED) {
        let declared = pipelined(&mut client, DECLARED, |client, number| {
            client.send_declare(&format!("narrow-{}", from + number), true);
        });
        match declared {
            Ok(()) => {}
            Err(error) if format!("{error:#}").contains("closed with 506") => return Ok(true),
            Err(error) => return Err(error.context("a declaration")),
        }
    }
    Ok(false)
}

/// More connections than a process has descriptors; then a login, again and again.
pub fn few_descriptors(kind: Kind, _fast: bool) -> Result<Vec<Figure>> {
    if kind == Kind::RabbitMq {
        return Ok(Vec::new());
    }
    let environment = Environment::Shell {
        first: format!("ulimit -n {DESCRIPTORS}"),
    };
    let mut broker = Broker::plan_at(kind, "scale-descriptors", environment, "")?;
    broker.launch()?;
    let to = broker.amqp;
    let log_in = || timed_login(Ipv4Addr::LOCALHOST, to, "guest", "guest");
    log_in()?;
    let crowd: Vec<TcpStream> = (0..CROWD)
        .filter_map(|_| TcpStream::connect(to).ok())
        .collect();
    thread::sleep(HELD);
    drop(crowd);
    let times = (0..LOGINS).map(|_| log_in());
    let times = times.collect::<Result<Vec<f64>>>();
    if !broker.is_alive() {
        bail!("the node has ended: see {}", broker.log().display());
    }
    let times = times?;
    let worst = times.iter().copied().fold(0.0, f64::max);
    let what =
        |of: &str| format!("{CROWD} connections to a process of {DESCRIPTORS} descriptors: {of}");
    Ok(vec![
        figure(what("the first login after they have gone"), times[0], "ms"),
        figure(what("the worst of 20"), worst, "ms"),
    ])
}

/// A client whose body is longer than it said, and that goes on sending.
pub fn oversize_body(kind: Kind, _fast: bool) -> Result<Vec<Figure>> {
    const BODY_BYTES: usize = 100_000;
    let broker = Broker::start(kind, "scale-oversize", &[])?;
    let mut client = Client::connect(broker.amqp)?;
    client.declare("said", false)?;
    let before = procfs::usage(broker.pid())?.rss_bytes;
    client.publish_longer_than_said("said", &[b's'; 100]);
    let (began, mut sent) = (Instant::now(), 0);
    while client.flush().is_ok() {
        if began.elapsed() > WAIT {
            bail!("the connection has not ended after {} s", WAIT.as_secs());
        }
        client.publish("", "said", &[b'm'; BODY_BYTES], false);
        sent += BODY_BYTES;
    }
    let seconds = began.elapsed().as_secs_f64();
    let grown = procfs::usage(broker.pid())?
        .rss_bytes_max
        .saturating_sub(before);
    let what = |of: &str| format!("a body longer than its client said, and more of it: {of}");
    Ok(vec![
        figure(what("until the connection has ended"), seconds, "s"),
        figure(
            what("sent by then, both sockets' buffers included"),
            sent as f64 / 1e6,
            "MB",
        ),
        figure(
            what("most resident beyond before"),
            grown as f64 / 1e6,
            "MB",
        ),
    ])
}
