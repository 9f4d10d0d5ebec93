//! Brokers of our own: one node, or three, started for a run and ended with it.

use std::collections::BTreeSet;
use std::fs;
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustix::fs::statfs;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::client::Client;
use crate::error::Error;
use crate::interrupt;
use crate::result::NodeUsage;
use crate::sample::{Sampler, Subject, get};
use crate::spec::{BrokerSpec, SpecError};
use crate::uri::{Protocol, Uri};

/// How long a node may take to accept.
const START: Duration = Duration::from_secs(60);
/// How long a node may take to drain before it is killed.
const STOP: Duration = Duration::from_secs(30);
/// How often a node is looked at while it starts or stops.
const LOOK: Duration = Duration::from_millis(10);
/// The environment variable by which a node is told to model its devices.
pub const MODEL_VARIABLE: &str = "LEVERET_TRIAL_DEVICE";
/// Where a node says how it sees its cluster.
const CLUSTER: &str = "/api/leveret/cluster";
/// The flag by which a node is told where to listen for the stream protocol.
const STREAM_FLAG: &str = "--stream";
/// The user that a new node has.
const USER: &str = "guest";
/// The folders of a node, by their names in the configuration.
pub const FOLDERS: [&str; 4] = ["data", "segment", "wal", "logs"];

/// Nodes that run. Dropping them ends them at once, and removes what they kept. An interrupt does
/// not reach them: who waits for one of them sees it ([`interrupt`]), gives up, and drops them.
#[derive(Debug)]
pub struct Nodes {
    protocol: Protocol,
    nodes: Vec<Node>,
    root: TempDir,
    /// Folders on the user's drives, which go with the run.
    placed: Vec<TempDir>,
    notes: Vec<String>,
}

#[derive(Debug)]
struct Node {
    name: String,
    child: Child,
    amqp: SocketAddr,
    stream: SocketAddr,
    metrics: SocketAddr,
    http: SocketAddr,
    folders: Vec<(String, PathBuf)>,
    /// What it says on standard error.
    log_file: PathBuf,
    /// Where each folder was made, by the folder's name.
    places: Vec<(String, PathBuf)>,
}

impl Nodes {
    /// Starts what the specification says; `binary` is what to start, the running one by default.
    ///
    /// # Errors
    /// If there is no such model or folder, or if a node does not come up.
    pub fn start(
        spec: &BrokerSpec,
        protocol: Protocol,
        binary: Option<&Path>,
    ) -> Result<Self, Error> {
        check(spec)?;
        let binary = match binary {
            Some(binary) => binary.to_owned(),
            None => std::env::current_exe().map_err(Error::io("find this program"))?,
        };
        let knows_streams = knows(&binary, STREAM_FLAG);
        if protocol == Protocol::Stream && !knows_streams {
            return Err(Error::Node {
                node: binary.display().to_string(),
                what: format!("its `serve` has no {STREAM_FLAG}: give a broker's URI (--uri)"),
            });
        }
        let root = fresh_folder(&std::env::temp_dir())?;
        let mut nodes = Self {
            protocol,
            nodes: Vec::new(),
            root,
            placed: Vec::new(),
            notes: Vec::new(),
        };
        // A binary that was given may be older than clusters: then a specification of three nodes
        // runs on one, and its result says so.
        let count = if spec.nodes > 1 && !knows(&binary, "--cluster") {
            let note = format!(
                "meant for {} nodes; run on one: no cluster here",
                spec.nodes
            );
            nodes.notes.push(note);
            1
        } else {
            spec.nodes
        };
        let ports = Ports::choose(count, knows_streams)?;
        for at in 0..count {
            let node = nodes.start_node(spec, &binary, at, &ports)?;
            nodes.nodes.push(node);
        }
        for node in &mut nodes.nodes {
            node.await_ready()?;
        }
        nodes.await_cluster()?;
        Ok(nodes)
    }

    /// Waits until every node has seen the others: a queue that is declared before that has fewer
    /// copies than nodes until the cluster has added them. One that does not see them is noted.
    fn await_cluster(&mut self) -> Result<(), Error> {
        let count = self.nodes.len();
        if count < 2 {
            return Ok(());
        }
        let until = Instant::now() + START;
        while !self.nodes.iter().all(|node| node.sees() == Some(count)) {
            if Instant::now() >= until {
                let note = "not every node saw the others: queues may have fewer copies than nodes";
                self.notes.push(note.to_owned());
                break;
            }
            interrupt::check()?;
            std::thread::sleep(LOOK);
        }
        Ok(())
    }

    fn start_node(
        &mut self,
        spec: &BrokerSpec,
        binary: &Path,
        at: usize,
        ports: &Ports,
    ) -> Result<Node, Error> {
        let name = format!("node-{}", at + 1);
        let temporary = std::env::temp_dir();
        let home = self.root.path().join(&name);
        fs::create_dir_all(&home).map_err(Error::io(format!("create {}", home.display())))?;
        let mut configuration = String::new();
        let mut folders = Vec::new();
        let mut places = Vec::new();
        for folder in FOLDERS {
            let drive = spec.drives.get(folder);
            let place = drive.unwrap_or(&temporary).clone();
            places.push((folder.to_owned(), place));
            let path = match drive {
                None => home.join(folder),
                Some(drive) => {
                    let own = fresh_folder(drive)?;
                    let path = own.path().to_owned();
                    self.placed.push(own);
                    path
                }
            };
            configuration += &format!("folders.{folder} = {}\n", path.display());
            folders.push((folder.to_owned(), path));
        }
        for (key, value) in &spec.settings {
            configuration += &format!("{key} = {value}\n");
        }
        let file = home.join("rabbitmq.conf");
        fs::write(&file, configuration).map_err(Error::io(format!("write {}", file.display())))?;
        let (amqp, metrics, http) = (ports.amqp[at], ports.metrics[at], ports.http[at]);
        let mut command = Command::new(binary);
        command.arg("serve").arg("--config").arg(&file);
        command.arg("--data-dir").arg(&home);
        command.args(["--http", &http.to_string(), "--amqp", &amqp.to_string()]);
        command.args(["--metrics", &metrics.to_string()]);
        let stream = ports.stream[at];
        if ports.gives_streams {
            command.args([STREAM_FLAG, &stream.to_string()]);
        }
        ports.join(at, &mut command);
        if let Some(model) = &spec.model {
            command.env(MODEL_VARIABLE, model);
        }
        let log_file = home.join("stderr.log");
        let log = File::create(&log_file);
        let log = log.map_err(Error::io(format!("write {}", home.display())))?;
        // A group of its own: an interrupt at the terminal is for the run, which ends its nodes.
        command.process_group(0).stdin(Stdio::null());
        command.stdout(Stdio::null()).stderr(log);
        let child = command.spawn();
        let child = child.map_err(Error::io(format!("start {}", binary.display())))?;
        Ok(Node {
            name,
            child,
            amqp,
            stream,
            metrics,
            http,
            folders,
            log_file,
            places,
        })
    }

    /// Where to connect to.
    #[must_use]
    pub fn uris(&self) -> Vec<Uri> {
        self.nodes
            .iter()
            .map(|node| node.uri(self.protocol))
            .collect()
    }

    /// What samples them.
    #[must_use]
    pub fn sampler(&self) -> Sampler {
        let subjects = self.nodes.iter().map(|node| Subject {
            name: node.name.clone(),
            pid: node.child.id(),
            metrics: Some(node.metrics),
            folders: node.folders.clone(),
        });
        Sampler::new(subjects.collect())
    }

    /// What a reader must know of them.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }

    /// Says in what was sampled where each node's folders were made, and gives the notes on places
    /// where a sync is not what it is on a drive.
    pub fn place(&self, usages: &mut [NodeUsage]) -> Vec<String> {
        let mut notes = BTreeSet::new();
        for (node, usage) in self.nodes.iter().zip(usages) {
            for drive in &mut usage.drives {
                let mut places = node.places.iter();
                let Some((_, place)) = places.find(|(folder, _)| *folder == drive.folder) else {
                    continue;
                };
                drive.place = Some(place.display().to_string());
                notes.extend(place_note(place, drive.device.is_some()));
            }
        }
        notes.into_iter().collect()
    }

    /// Process ids, for tests that hold a node up.
    #[must_use]
    pub fn pids(&self) -> Vec<u32> {
        self.nodes.iter().map(|node| node.child.id()).collect()
    }

    /// Asks them to drain and stop, waits, and removes what they kept. An interrupt ends the wait
    /// and them.
    ///
    /// # Errors
    /// If one does not end in order.
    pub fn stop(mut self) -> Result<(), Error> {
        for node in &self.nodes {
            node.signal(Signal::TERM);
        }
        let until = Instant::now() + STOP;
        for node in &mut self.nodes {
            node.await_end(until)?;
        }
        Ok(())
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        for node in &mut self.nodes {
            // One that has ended already has nothing to be killed.
            let _ = node.child.kill();
            let _ = node.child.wait();
        }
    }
}

impl Node {
    fn signal(&self, signal: Signal) {
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            // One that has ended already needs no signal.
            let _ = kill_process(pid, signal);
        }
    }

    fn failed(&self, what: String) -> Error {
        let node = self.name.clone();
        Error::Node { node, what }
    }

    /// The nodes of its cluster that it sees, itself among them; none if it does not say.
    fn sees(&self) -> Option<usize> {
        let login = STANDARD.encode(format!("{USER}:{USER}"));
        let authorization = format!("Basic {login}");
        let answer = get(self.http, CLUSTER, &[("Authorization", &authorization)]);
        nodes_up(&answer.ok()?)
    }

    fn log(&self) -> String {
        let text = fs::read_to_string(&self.log_file).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(5)..].join("\n")
    }

    fn uri(&self, protocol: Protocol) -> Uri {
        let address = match protocol {
            Protocol::Amqp => self.amqp,
            Protocol::Stream => self.stream,
        };
        Uri {
            tls: false,
            protocol,
            host: address.ip().to_string(),
            port: address.port(),
            user: USER.to_owned(),
            password: USER.to_owned(),
            virtual_host: "/".to_owned(),
        }
    }

    /// Waits until it lets a client in: a listener takes connections before that.
    fn await_ready(&mut self) -> Result<(), Error> {
        let until = Instant::now() + START;
        let uri = self.uri(Protocol::Amqp);
        loop {
            let last = match Client::connect(&uri, None).and_then(Client::close) {
                Ok(()) => return Ok(()),
                Err(error) => error,
            };
            if let Ok(Some(status)) = self.child.try_wait() {
                let what = format!("it ended with {status}:\n{}", self.log());
                return Err(self.failed(what));
            }
            if Instant::now() >= until {
                let seconds = START.as_secs();
                let what = format!("it does not accept after {seconds} s: {last}");
                return Err(self.failed(what));
            }
            interrupt::check()?;
            std::thread::sleep(LOOK);
        }
    }

    fn await_end(&mut self, until: Instant) -> Result<(), Error> {
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) if status.success() => return Ok(()),
                Ok(Some(status)) => {
                    let what = format!("it ended with {status}:\n{}", self.log());
                    return Err(self.failed(what));
                }
                Ok(None) if interrupt::signal().is_some() => return Ok(()),
                Ok(None) if Instant::now() < until => std::thread::sleep(LOOK),
                Ok(None) => {
                    let what = format!("it did not stop within {} s", STOP.as_secs());
                    return Err(self.failed(what));
                }
                Err(error) => return Err(Error::io("wait for a node")(error)),
            }
        }
    }
}

/// Ports that are tried, below those that Linux gives to connections: one of those may be taken
/// between here and the node.
const PORT_FROM: u32 = 22_000;
const PORT_TO: u32 = 32_000;
/// AMQP, metrics, HTTP, the cluster's link, and streams.
const PORTS_OF_A_NODE: usize = 5;
/// Where the next nodes of this process begin to look.
static NEXT: AtomicU32 = AtomicU32::new(0);

/// Free loopback ports.
struct Ports {
    amqp: Vec<SocketAddr>,
    metrics: Vec<SocketAddr>,
    http: Vec<SocketAddr>,
    cluster: Vec<SocketAddr>,
    stream: Vec<SocketAddr>,
    /// Whether nodes are told where to listen for the stream protocol.
    gives_streams: bool,
    /// What lets the nodes into their cluster, and nobody else.
    secret: String,
}

impl Ports {
    fn choose(nodes: usize, gives_streams: bool) -> Result<Self, Error> {
        // All are held until all are chosen, so that none comes twice.
        let begun = NEXT.fetch_add((PORTS_OF_A_NODE * nodes) as u32, Ordering::Relaxed)
            + std::process::id();
        let count = PORT_TO - PORT_FROM;
        let ports = (0..count).map(|at| PORT_FROM + (begun + at) % count);
        let listeners: Vec<TcpListener> = ports
            .filter_map(|port| TcpListener::bind(("127.0.0.1", port as u16)).ok())
            .take(PORTS_OF_A_NODE * nodes)
            .collect();
        let addresses: Result<Vec<_>, _> = listeners.iter().map(TcpListener::local_addr).collect();
        let addresses = addresses.map_err(Error::io("find free ports"))?;
        if addresses.len() < PORTS_OF_A_NODE * nodes {
            let none = std::io::ErrorKind::AddrInUse.into();
            return Err(Error::io("find free ports")(none));
        }
        Ok(Self {
            amqp: addresses[..nodes].to_vec(),
            metrics: addresses[nodes..2 * nodes].to_vec(),
            http: addresses[2 * nodes..3 * nodes].to_vec(),
            cluster: addresses[3 * nodes..4 * nodes].to_vec(),
            stream: addresses[4 * nodes..].to_vec(),
            gives_streams,
            secret: random_text(),
        })
    }

    /// Tells node `at` where the others are.
    fn join(&self, at: usize, command: &mut Command) {
        if self.cluster.len() < 2 {
            return;
        }
        let all: Vec<String> = self.cluster.iter().map(ToString::to_string).collect();
        command.args(["--cluster", &all[at], "--join", &all.join(",")]);
        command.env("LEVERET_CLUSTER_SECRET", &self.secret);
    }
}

/// 128 random bits, as hash tables are keyed with.
fn random_text() -> String {
    let random = || RandomState::new().hash_one(std::process::id());
    format!("{:016x}{:016x}", random(), random())
}

/// Whether a binary's `serve` has a flag.
fn knows(binary: &Path, flag: &str) -> bool {
    let help = Command::new(binary).args(["serve", "--help"]).output();
    help.is_ok_and(|help| String::from_utf8_lossy(&help.stdout).contains(flag))
}

/// Nodes that are up, in the answer of a node over HTTP.
fn nodes_up(answer: &str) -> Option<usize> {
    let view: serde_json::Value = serde_json::from_str(answer).ok()?;
    let nodes = view["nodes"].as_array()?;
    Some(nodes.iter().filter(|node| node["up"] == true).count())
}

/// File systems that keep files in memory, as `statfs` names them: tmpfs and ramfs.
const IN_MEMORY: [u64; 2] = [0x0102_1994, 0x8584_58f6];

/// What a reader must know of a folder where nodes keep things.
fn place_note(place: &Path, has_device: bool) -> Option<String> {
    let kind = statfs(place).ok().map(|stat| stat.f_type as u64);
    let place = place.display();
    if kind.is_some_and(|kind| IN_MEMORY.contains(&kind)) {
        return Some(format!(
            "the nodes' folders in {place} are in memory, where a sync costs nothing: choose \
             others by --drives"
        ));
    }
    (!has_device).then(|| {
        format!(
            "no block device is known under the nodes' folders in {place}: what a sync costs \
             there may not be what it costs on a drive"
        )
    })
}

fn check(spec: &BrokerSpec) -> Result<(), Error> {
    let wrong = |what: &str, value: &str, must: &str| {
        Error::Spec(SpecError::Value {
            what: what.to_owned(),
            value: value.to_owned(),
            must: must.to_owned(),
        })
    };
    if let Some(model) = &spec.model {
        let known = model.split_once(':').is_some_and(|(kind, count)| {
            ["hdd", "ssd"].contains(&kind) && ["1", "2", "3"].contains(&count)
        });
        if !known {
            let must = "it must be `hdd` or `ssd`, a colon, and the number of drives: 1, 2 or 3";
            return Err(wrong("broker.model", model, must));
        }
    }
    for folder in spec.drives.keys() {
        if !FOLDERS.contains(&folder.as_str()) {
            let must = "the folders are `wal`, `segment`, `data`, `logs`";
            return Err(wrong("a folder in broker.drives", folder, must));
        }
    }
    Ok(())
}

/// A new folder of the run's own.
fn fresh_folder(within: &Path) -> Result<TempDir, Error> {
    let what = format!("create a folder in {}", within.display());
    TempDir::with_prefix_in("leveret-perf-", within).map_err(Error::io(what))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_and_folders_are_known_or_refused() {
        let spec = |model: &str, folder: &str| BrokerSpec {
            model: Some(model.to_owned()),
            drives: [(folder.to_owned(), PathBuf::from("/"))].into(),
            ..BrokerSpec::default()
        };
        for (model, folder, fine) in [
            ("hdd:1", "wal", true),
            ("ssd:3", "logs", true),
            ("hdd:4", "wal", false),
            ("hdd", "wal", false),
            ("tape:1", "wal", false),
            ("hdd:1", "cellar", false),
        ] {
            assert_eq!(
                check(&spec(model, folder)).is_ok(),
                fine,
                "{model} {folder}"
            );
        }
    }

    #[test]
    fn a_start_that_fails_leaves_nothing_on_the_drives() {
        let drive = tempfile::tempdir().unwrap();
        let spec = BrokerSpec {
            drives: [
                ("segment".to_owned(), drive.path().to_owned()),
                ("wal".to_owned(), drive.path().join("missing")),
            ]
            .into(),
            ..BrokerSpec::default()
        };
        let error = Nodes::start(&spec, Protocol::Amqp, Some(Path::new("/bin/true"))).unwrap_err();
        assert!(error.to_string().contains("missing"), "{error}");
        assert_eq!(fs::read_dir(drive.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_folder_in_memory_is_noted_and_one_on_a_drive_is_not() {
        let on_drive = Path::new(env!("CARGO_MANIFEST_DIR"));
        assert_eq!(place_note(on_drive, true), None);
        let unknown = place_note(on_drive, false).unwrap();
        assert!(unknown.starts_with("no block device"), "{unknown}");
        let in_memory = Path::new("/dev/shm");
        let kind = statfs(in_memory).map(|stat| stat.f_type as u64);
        if kind.is_ok_and(|kind| IN_MEMORY.contains(&kind)) {
            let note = place_note(in_memory, false).unwrap();
            assert!(note.contains("/dev/shm are in memory"), "{note}");
        }
    }

    #[test]
    fn nodes_that_are_up_are_counted() {
        let all = r#"{"own":1,"nodes":[{"up":true},{"up":false},{"up":true}]}"#;
        assert_eq!(nodes_up(all), Some(2));
        for other in ["", "null", r#"{"error":""}"#] {
            assert_eq!(nodes_up(other), None, "{other}");
        }
    }

    #[test]
    fn three_nodes_are_told_of_each_other() {
        let ports = Ports::choose(3, false).unwrap();
        let mut command = Command::new("node");
        ports.join(1, &mut command);
        let words: Vec<_> = command
            .get_args()
            .map(|word| word.to_string_lossy())
            .collect();
        let all = [0, 1, 2].map(|at| ports.cluster[at].to_string());
        let expected = ["--cluster", &all[1], "--join", &all.join(",")];
        assert_eq!(words, expected);
        let mut command = Command::new("node");
        Ports::choose(1, false).unwrap().join(0, &mut command);
        assert_eq!(command.get_args().count(), 0);
    }
}
