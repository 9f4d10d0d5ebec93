//! A cluster of three in network namespaces: kills, stops, cuts of the network between the nodes,
//! and scenarios of operators, while clients reach all of them throughout.
//!
//! Of a fault's time there is load before it for a sixth, the fault for a half, load after it for a
//! third; a scenario takes as long as it takes. Then all queues are emptied and the books closed.

use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::foreign::Programs;
use super::full_disk::Role;
use super::ledger::{Ledger, QUEUES, Rules};
use super::load::Load;
use super::namespaces::{Namespaces, both_ways};
use super::scenarios::LATE;
use super::streams::{self, StreamNode};
use super::{Scene, alarms, attacked, cluster, damaged, full_disk, load, play, scenarios};
use crate::broker;
use crate::cluster::{Cluster, Member};
use crate::numbers::Random;
use crate::run;
use crate::suite::bench::Report;
use crate::tools::{self, Tool};

/// Set for the copy of this tool that runs in a network namespace of its own.
const INSIDE: &str = "XTASK_IN_NAMESPACE";
/// Seconds of each fault for the suite that CI runs.
const CI_SECONDS: u64 = 6;
/// All nodes trust each other by this. A queue that has lost a member gets another one soon. A disk
/// that is filled is full before anybody is warned of that.
const SETTINGS: &str = "\
cluster.secret = between namespaces
loopback_users = none
quorum_queue.continuous_membership_reconciliation.trigger_interval = 1000
wal.file_size = 4MiB
disk_free_limit.absolute = 0
";
/// A fault that lasts so long must not keep a majority from confirming.
const LONG: Duration = Duration::from_secs(20);
/// How long a leader is looked for.
const LEADER_DEADLINE: Duration = Duration::from_secs(30);
/// What precedes the name of a fault that went well, in the output of the copy.
const PASSED: &str = "passed ";
/// What precedes a finding.
const FAILED: &str = "FAILED ";

/// What the command line asks for.
pub struct Options {
    /// How long each fault takes, load before and after it included.
    pub seconds: u64,
    /// One fault alone.
    pub fault: Option<String>,
    /// Of the load's randomness.
    pub seed: u64,
}

/// How long each fault takes if nothing else is said.
pub const SECONDS: u64 = 60;

/// What happens, in the order in which it does. The leader is that of the first queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    KillLeader,
    KillFollower,
    KillAll,
    StopLeader,
    /// A follower on one side, everyone else on the other.
    Halves,
    /// The leader on one side, everyone else on the other.
    IsolatedLeader,
    /// The leader hears nobody.
    DeafLeader,
    /// Nobody hears the leader.
    MuteLeader,
    /// One pair after the other is cut, so that each node sees a majority, and no two the same.
    Ring,
    /// See [`scenarios::rolling_restart`].
    RollingRestart,
    /// See [`scenarios::wiped_member`].
    WipedMember,
    /// See [`alarms::under_partition`].
    Alarms,
    /// The leader is left alone: see [`scenarios::minority`].
    Minority,
    /// Segments of streams change on a follower's disk: see [`damaged::replica`].
    DamagedStreams,
    /// The leader's file system is full: see [`full_disk::full_disk`].
    FullLeader,
    /// A follower's is.
    FullFollower,
    /// That of each node in turn is.
    FullEach,
}

const FAULTS: &[(&str, Fault)] = &[
    ("kill-leader", Fault::KillLeader),
    ("kill-follower", Fault::KillFollower),
    ("kill-all", Fault::KillAll),
    ("stop-leader", Fault::StopLeader),
    ("halves", Fault::Halves),
    ("isolated-leader", Fault::IsolatedLeader),
    ("leader-without-input", Fault::DeafLeader),
    ("mute-leader", Fault::MuteLeader),
    ("ring", Fault::Ring),
    ("rolling-restart", Fault::RollingRestart),
    ("wiped-member", Fault::WipedMember),
    ("alarms", Fault::Alarms),
    ("minority", Fault::Minority),
    ("damaged-streams", Fault::DamagedStreams),
    // Last: their nodes keep the small disks, which are mounted and cannot be removed.
    ("full-disk-leader", Fault::FullLeader),
    ("full-disk-follower", Fault::FullFollower),
    ("full-disk-each", Fault::FullEach),
];

/// Faults that are played where they are named, and not with all others.
const BY_NAME: &[Fault] = &[Fault::FullEach];

/// The names of all faults.
pub fn names() -> impl Iterator<Item = &'static str> {
    FAULTS.iter().map(|(name, _)| *name).chain([attacked::NAME])
}

/// The cluster, its network, and the faults that are still to happen.
struct Network {
    cluster: Cluster,
    namespaces: Namespaces,
    ledger: Ledger,
    programs: Programs,
    faults: Vec<(&'static str, Fault)>,
    seconds: u64,
}

impl Network {
    fn start(
        namespaces: Namespaces,
        faults: Vec<(&'static str, Fault)>,
        seconds: u64,
    ) -> Result<Network> {
        let members = namespaces.members().into_iter();
        let members: Vec<_> = members
            .map(|(place, own)| Member::plain(place, own))
            .collect();
        let cluster = Cluster::form("crash-network", &members, SETTINGS)?;
        cluster::declare_quorum_queues(&cluster)?;
        streams::create(&streams::nodes_of(&cluster))?;
        Ok(Network {
            cluster,
            namespaces,
            ledger: Ledger::new(Rules::CutCluster),
            programs: Programs::handed_over()?,
            faults,
            seconds,
        })
    }

    fn part(&self, share: f64) -> Duration {
        Duration::from_secs_f64(self.seconds as f64 * share)
    }
}

impl Scene for Network {
    fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    fn round(&mut self, number: u32, random: &mut Random) -> Result<String> {
        let (name, fault) = self.faults[number as usize - 1];
        let (before, during, after) = (self.part(1.0 / 6.0), self.part(0.5), self.part(1.0 / 3.0));
        let load = Load {
            addresses: self.cluster.addresses(),
            consuming: true,
            programs: Some(self.programs.clone()),
            streams: streams::nodes_of(&self.cluster),
        };
        let (cluster, namespaces, ledger) = (&mut self.cluster, &self.namespaces, &self.ledger);
        let [faulty, healed, of_streams] = load::during(&load, random, ledger, |_| {
            thread::sleep(before);
            ledger.longest_pause();
            ledger.streams().longest_pause();
            let confirmed = ledger.confirmed();
            let happened = happen(fault, cluster, namespaces, ledger, during);
            ledger.allow_breaks(None);
            happened?;
            let confirms = fault != Fault::Minority;
            if confirms && during >= LONG {
                let mut counts = ledger.confirmed().into_iter().zip(confirmed);
                if counts.any(|(now, before)| now == before) {
                    ledger.accuse(format!(
                        "{name}: no message of queues, or none of streams, was confirmed meanwhile"
                    ));
                }
            }
            let faulty = ledger.longest_pause();
            let of_streams = ledger.streams().longest_pause();
            thread::sleep(after);
            cluster.check_alive()?;
            ledger.accuse_the_silent();
            scenarios::accuse_the_quarantined(cluster, ledger)?;
            Ok([faulty, ledger.longest_pause(), of_streams])
        })?;
        Ok(format!(
            "{name}, longest without a confirm {:.1} s, {:.1} s after it, of streams {:.1} s; ",
            faulty.as_secs_f64(),
            healed.as_secs_f64(),
            of_streams.as_secs_f64(),
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

/// Lets a fault happen and last, and ends it.
fn happen(
    fault: Fault,
    cluster: &mut Cluster,
    namespaces: &Namespaces,
    ledger: &Ledger,
    lasting: Duration,
) -> Result<()> {
    let leader = leader(cluster)?;
    let others: Vec<usize> = (0..cluster.nodes.len()).filter(|&n| n != leader).collect();
    // Whom others lose sight of without its end.
    let lost: &[usize] = match fault {
        Fault::KillLeader | Fault::KillFollower | Fault::KillAll => &[],
        Fault::RollingRestart | Fault::WipedMember => &[],
        Fault::FullLeader | Fault::FullFollower | Fault::FullEach => &[],
        Fault::DamagedStreams => &[],
        Fault::Minority => &others,
        Fault::Halves => &others[..1],
        Fault::Ring => &[0, 1, 2],
        _ => &[leader],
    };
    for &node in lost {
        ledger.doubt(cluster.amqp(node));
    }
    match fault {
        Fault::KillLeader => kill_again_and_again(cluster, lasting, self::leader),
        Fault::KillFollower => {
            let follower = |cluster: &Cluster| {
                let leader = self::leader(cluster)?;
                Ok((leader + 1) % cluster.nodes.len())
            };
            kill_again_and_again(cluster, lasting, follower)
        }
        Fault::KillAll => {
            let ends = Instant::now() + lasting;
            loop {
                cluster.kill_all()?;
                cluster.launch_all()?;
                thread::sleep(lasting / 4);
                if Instant::now() >= ends {
                    return Ok(());
                }
            }
        }
        Fault::StopLeader => {
            let pid = cluster.nodes[leader].pid();
            run::signal(pid, "STOP")?;
            thread::sleep(lasting);
            run::signal(pid, "CONT")
        }
        Fault::Halves => cut(
            namespaces,
            &both_ways(others[0], &[leader, others[1]]),
            lasting,
        ),
        Fault::IsolatedLeader => cut(namespaces, &both_ways(leader, &others), lasting),
        Fault::DeafLeader => {
            let pairs: Vec<_> = others.iter().map(|&other| (other, leader)).collect();
            cut(namespaces, &pairs, lasting)
        }
        Fault::MuteLeader => {
            let pairs: Vec<_> = others.iter().map(|&other| (leader, other)).collect();
            cut(namespaces, &pairs, lasting)
        }
        Fault::Ring => {
            let pairs = [
                (leader, others[0]),
                (others[0], others[1]),
                (others[1], leader),
            ];
            pairs
                .iter()
                .try_for_each(|&(one, two)| cut(namespaces, &both_ways(one, &[two]), lasting / 3))
        }
        Fault::RollingRestart => scenarios::rolling_restart(cluster, ledger),
        Fault::WipedMember => scenarios::wiped_member(cluster, ledger, leader),
        Fault::Alarms => alarms::under_partition(cluster, namespaces, ledger, leader),
        Fault::Minority => scenarios::minority(cluster, ledger, leader),
        Fault::DamagedStreams => damaged::replica(cluster, ledger, others[0]),
        Fault::FullLeader => full_disk::full_disk(cluster, ledger, leader, Role::Leader),
        Fault::FullFollower => full_disk::full_disk(cluster, ledger, others[0], Role::Follower),
        Fault::FullEach => full_disk::full_disks(cluster, ledger),
    }
}

/// Kills a node, lets the others go on, starts it again and lets it catch up, a third of the time
/// each; several times if there is time for it.
fn kill_again_and_again(
    cluster: &mut Cluster,
    lasting: Duration,
    which: impl Fn(&Cluster) -> Result<usize>,
) -> Result<()> {
    let times = (lasting.as_secs() / 10).max(1) as u32;
    for _ in 0..times {
        let node = which(cluster)?;
        cluster.nodes[node].kill()?;
        thread::sleep(lasting / times / 2);
        cluster.launch(&[node])?;
        thread::sleep(lasting / times / 2);
    }
    Ok(())
}

/// Cuts the ways from one node to another for a while.
fn cut(namespaces: &Namespaces, pairs: &[(usize, usize)], lasting: Duration) -> Result<()> {
    for &(from, to) in pairs {
        namespaces.cut(from, to)?;
    }
    thread::sleep(lasting);
    namespaces.heal()
}

/// Which node leads the first queue, as soon as there is one.
fn leader(cluster: &Cluster) -> Result<usize> {
    let started = Instant::now();
    loop {
        let found = (0..cluster.nodes.len())
            .find_map(|asked| cluster.leader_of(&load::queue_name(0), asked).ok());
        match found {
            Some(leader) => return Ok(leader),
            None if started.elapsed() > LEADER_DEADLINE => {
                bail!("no node knows a leader of the first of {QUEUES} queues")
            }
            None => thread::sleep(Duration::from_millis(200)),
        }
    }
}

/// A command that starts this tool's copy in a network namespace of its own; an error where none
/// can be made.
fn copy(options: &Options) -> Result<Command> {
    tools::ensure(Tool::Nftables)?;
    // Whoever may not make a namespace as they are may do so as the superuser of a new user
    // namespace, on most machines.
    // Its mounts are its own as well.
    let ways: [&[&str]; 2] = [
        &["--net", "--mount"],
        &["--net", "--mount", "--user", "--map-root-user"],
    ];
    let works =
        |way: &&&[&str]| run::output(Command::new("unshare").args(**way).arg("true")).is_ok();
    let way = ways.iter().find(works);
    let way = way.context("this machine lets nobody make a network namespace")?;
    let mut command = Command::new("unshare");
    command.args(*way).arg("--").arg(std::env::current_exe()?);
    command.args(["crash", "--cluster", "--netns"]);
    command.args(["--seconds", &options.seconds.to_string()]);
    command.args(["--seed", &options.seed.to_string()]);
    if let Some(fault) = &options.fault {
        command.args(["--fault", fault]);
    }
    // The copy builds nothing: it reaches no registry.
    Programs::prepare()?.hand_over(&mut command);
    command
        .env(INSIDE, "1")
        .env(broker::BINARY_VARIABLE, broker::leveret_binary());
    Ok(command)
}

/// `cargo xtask crash --cluster --netns`.
pub fn run(options: &Options) -> Result<bool> {
    if std::env::var_os(INSIDE).is_none() {
        return Ok(copy(options)?.status()?.success());
    }
    let is_chosen = |name: &str| options.fault.as_ref().is_none_or(|wanted| wanted == name);
    let chosen = |(name, fault): &(&'static str, Fault)| match options.fault {
        Some(_) => is_chosen(name),
        None => !BY_NAME.contains(fault),
    };
    let faults: Vec<_> = FAULTS.iter().copied().filter(chosen).collect();
    let mut namespaces = Namespaces::new(3)?;
    let mut went_well = true;
    if !faults.is_empty() {
        let names: Vec<_> = faults.iter().map(|(name, _)| *name).collect();
        let mut network = Network::start(namespaces, faults, options.seconds)?;
        let wrong = play(&mut network, names.len() as u32, options.seed)?;
        went_well &= tell(&names, &wrong);
        namespaces = network.namespaces;
    }
    if is_chosen(attacked::NAME) {
        let started = attacked::Attacked::start(Some(&namespaces), options.seconds, options.seed);
        let wrong = play(&mut started?, 1, options.seed)?;
        went_well &= tell(&[attacked::NAME], &wrong);
    }
    Ok(went_well)
}

/// Says what went well, or what did not; whether all did.
fn tell(names: &[&str], wrong: &[String]) -> bool {
    for what in wrong {
        println!("{FAILED}{what}");
    }
    if wrong.is_empty() {
        names.iter().for_each(|name| println!("{PASSED}{name}"));
    }
    wrong.is_empty()
}

/// All faults for a few seconds each: one test a fault. A run that breaks off because something is
/// late, without a word about messages, is played once more and named.
pub fn suite() -> Result<Report> {
    let report = play_all()?;
    let [why] = &report.failed[..] else {
        return Ok(report);
    };
    if !why.contains(LATE) {
        return Ok(report);
    }
    println!("      played once more: {why}");
    let mut second = play_all()?;
    if second.failed.is_empty() {
        second.again.push(format!("faults of the network: {why}"));
    }
    Ok(second)
}

fn play_all() -> Result<Report> {
    let options = Options {
        seconds: CI_SECONDS,
        fault: None,
        seed: 1,
    };
    let mut command = match copy(&options) {
        Ok(command) => command,
        Err(error) => {
            // Who is between the nodes needs no namespaces.
            let mut report = attacked::on_loopback(CI_SECONDS, options.seed)?;
            let left_out = ("faults of the network".to_owned(), format!("{error:#}"));
            report.left_out.push(left_out);
            return Ok(report);
        }
    };
    let output = command.stdin(Stdio::null()).output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    print!("{said}");
    let mut report = Report::default();
    for line in said.lines() {
        if line.starts_with(PASSED) {
            report.passed += 1;
        } else if let Some(what) = line.strip_prefix(FAILED) {
            report.failed.push(what.to_owned());
        }
    }
    if !output.status.success() && report.failed.is_empty() {
        let said = String::from_utf8_lossy(&output.stderr);
        report.failed.push(run::last_lines(&said, 3));
    }
    Ok(report)
}
