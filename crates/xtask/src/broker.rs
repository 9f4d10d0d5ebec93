//! A broker of its own for a suite or a measurement: fresh folder, free loopback ports, stopped by
//! its process id. Leveret, or Debian's RabbitMQ as the peer that the suites are tried on first.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::{ports, run, tools};

/// RabbitMQ takes several seconds to start on a busy machine; Leveret has no excuse, but recovery
/// after a crash with a large WAL may take a moment.
const START_DEADLINE: Duration = Duration::from_secs(120);
/// How long a broker may take to drain after SIGTERM before it is killed.
const STOP_DEADLINE: Duration = Duration::from_secs(30);
/// Where Debian keeps RabbitMQ's own scripts. The ones in `/usr/sbin` change the user first.
pub const RABBITMQ_BIN: &str = "/usr/lib/rabbitmq/bin";

/// Names a binary to test in place of a fresh build.
pub const BINARY_VARIABLE: &str = "XTASK_BINARY";

/// Which broker.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Kind {
    /// The one of this workspace, in its release build.
    Leveret,
    /// Debian's `rabbitmq-server`.
    #[value(name = "rabbitmq")]
    RabbitMq,
}

impl Kind {
    /// The name on the command line and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Leveret => "leveret",
            Kind::RabbitMq => "rabbitmq",
        }
    }

    /// Makes it ready to start: builds ours, installs the peer.
    pub fn prepare(self) -> Result<()> {
        match self {
            // A binary that was given is taken as it is.
            Kind::Leveret if std::env::var_os(BINARY_VARIABLE).is_some() => Ok(()),
            Kind::Leveret => {
                println!("building leveret");
                run::check(
                    Command::new("cargo")
                        .args(["build", "--release", "--quiet", "--package", "leveret"])
                        .current_dir(run::root()),
                )?;
                Ok(())
            }
            Kind::RabbitMq => tools::ensure(tools::Tool::RabbitMq),
        }
    }
}

/// The release build of Leveret, or the binary that the environment names.
pub fn leveret_binary() -> PathBuf {
    match std::env::var_os(BINARY_VARIABLE) {
        Some(path) => PathBuf::from(path),
        None => run::target().join("release/leveret"),
    }
}

/// Where a broker listens.
#[derive(Clone, Debug)]
pub enum Environment {
    /// Free ports of this machine's loopback.
    Loopback,
    /// The same, in a shell that does something first and then becomes the broker. Leveret's alone.
    Shell { first: String },
    /// The usual ports of an address of its own, in a network namespace that a process holds.
    Namespace { ip: IpAddr, holder: u32 },
}

impl Environment {
    /// AMQP, management, metrics, one more, and streams.
    fn addresses(&self) -> Result<[SocketAddr; 5]> {
        match *self {
            Environment::Loopback | Environment::Shell { .. } => {
                let free = ports::free(5)?;
                Ok([free[0], free[1], free[2], free[3], free[4]])
            }
            Environment::Namespace { ip, .. } => {
                Ok([5672, 15672, 15692, 4369, 5552].map(|port| SocketAddr::new(ip, port)))
            }
        }
    }

    /// A command as it must be started to run there.
    pub fn enter(&self, command: Command) -> Command {
        let mut entering = match self {
            Environment::Loopback => return command,
            Environment::Shell { first } => {
                let mut shell = Command::new("sh");
                shell.args(["-c", &format!("{first} && exec \"$0\" \"$@\"")]);
                shell
            }
            Environment::Namespace { holder, .. } => {
                let mut entering = Command::new("nsenter");
                entering.args(["--target", &holder.to_string(), "--net", "--"]);
                entering
            }
        };
        entering.arg(command.get_program()).args(command.get_args());
        entering
    }
}

/// A running broker. Dropping it kills it.
pub struct Broker {
    /// Which one.
    pub kind: Kind,
    /// Where its data and logs lie.
    pub folder: PathBuf,
    /// AMQP.
    pub amqp: SocketAddr,
    /// Management over HTTP.
    pub http: SocketAddr,
    /// Leveret's metrics; RabbitMQ's Erlang distribution, which needs a port of its own.
    pub metrics: SocketAddr,
    /// RabbitMQ's port mapper daemon.
    pub epmd: SocketAddr,
    /// The stream protocol.
    pub stream: SocketAddr,
    /// AMQP over TLS, if it was asked for.
    pub tls: Option<SocketAddr>,
    /// More lines for `rabbitmq.conf`, which both brokers read.
    settings: String,
    environment: Environment,
    child: Option<Child>,
}

impl Broker {
    /// Starts one with nothing in it. `settings` are further lines of its `rabbitmq.conf`.
    pub fn start(kind: Kind, name: &str, settings: &[&str]) -> Result<Broker> {
        let mut broker = Broker::plan(kind, name)?;
        broker.settings = settings.iter().map(|line| format!("{line}\n")).collect();
        broker.launch()?;
        Ok(broker)
    }

    /// Starts one at the ports that clients dial when nothing is said; an error if they are taken.
    pub fn start_at_standard_ports(kind: Kind, name: &str) -> Result<Broker> {
        let mut broker = Broker::plan(kind, name)?;
        broker.amqp.set_port(5672);
        broker.http.set_port(15672);
        for address in [broker.amqp, broker.http] {
            TcpListener::bind(address).with_context(|| format!("this suite needs {address}"))?;
        }
        broker.launch()?;
        Ok(broker)
    }

    /// Starts one that speaks TLS too, and wants a certificate from its clients.
    pub fn start_with_tls(kind: Kind, name: &str, certificates: &Path) -> Result<Broker> {
        let mut broker = Broker::plan(kind, name)?;
        let tls = ports::free(1)?[0];
        broker.tls = Some(tls);
        let folder = certificates.display();
        broker.settings = format!(
            "listeners.ssl.1 = {tls}\n\
             ssl_options.cacertfile = {folder}/ca_certificate.pem\n\
             ssl_options.certfile = {folder}/server_certificate.pem\n\
             ssl_options.keyfile = {folder}/server_key.pem\n\
             ssl_options.verify = verify_peer\n\
             ssl_options.fail_if_no_peer_cert = true\n"
        );
        broker.launch()?;
        Ok(broker)
    }

    /// Chooses folder and ports; `launch` starts it.
    pub fn plan(kind: Kind, name: &str) -> Result<Broker> {
        Broker::plan_at(kind, name, Environment::Loopback, "")
    }

    /// The same in an environment, with further lines of its `rabbitmq.conf`.
    pub fn plan_at(
        kind: Kind,
        name: &str,
        environment: Environment,
        settings: &str,
    ) -> Result<Broker> {
        let folder = run::fresh_folder(&format!("brokers/{name}-{}", kind.name()))?;
        let ports = environment.addresses()?;
        Ok(Broker {
            kind,
            folder,
            amqp: ports[0],
            http: ports[1],
            metrics: ports[2],
            epmd: ports[3],
            stream: ports[4],
            tls: None,
            settings: settings.to_owned(),
            environment,
            child: None,
        })
    }

    /// The process id: Leveret's own, or that of the shell above RabbitMQ's virtual machine.
    pub fn pid(&self) -> u32 {
        self.child
            .as_ref()
            .expect("a started broker has a process")
            .id()
    }

    /// Its own address for the other nodes of its cluster; none of a node alone.
    pub fn cluster_address(&self) -> Option<&str> {
        let mut lines = self.settings.lines();
        lines.find_map(|line| line.strip_prefix("cluster.address = "))
    }

    /// The URL with the default user for the default virtual host.
    pub fn url(&self) -> String {
        format!("amqp://guest:guest@{}/", self.amqp)
    }

    /// Starts the process on the folder and ports that it has, and waits until it accepts.
    pub fn launch(&mut self) -> Result<()> {
        assert!(
            self.child.is_none(),
            "{} is running already",
            self.kind.name()
        );
        let mut command = match self.kind {
            Kind::Leveret => self.environment.enter(self.leveret_command()?),
            Kind::RabbitMq => self.rabbitmq_command()?,
        };
        let log = File::options()
            .create(true)
            .append(true)
            .open(self.log())
            .with_context(|| format!("open {}", self.log().display()))?;
        // A group of its own: an interrupt at the terminal is for this tool alone.
        command
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log);
        let mut child = command
            .spawn()
            .with_context(|| format!("start {command:?}"))?;
        let output = child.stdout.take().expect("standard output is piped");
        self.child = Some(child);
        self.await_ready(output)
    }

    /// What the broker wrote to its standard error.
    pub fn log(&self) -> PathBuf {
        self.folder.join("stderr.log")
    }

    fn leveret_command(&self) -> Result<Command> {
        let mut command = Command::new(leveret_binary());
        command
            .arg("serve")
            .arg("--data-dir")
            .arg(self.folder.join("data"));
        command.arg("--amqp").arg(self.amqp.to_string());
        command.arg("--http").arg(self.http.to_string());
        command.arg("--metrics").arg(self.metrics.to_string());
        command.arg("--stream").arg(self.stream.to_string());
        if !self.settings.is_empty() {
            let configuration = self.folder.join("rabbitmq.conf");
            fs::write(&configuration, &self.settings)?;
            command.arg("--config").arg(configuration);
        }
        Ok(command)
    }

    fn rabbitmq_command(&self) -> Result<Command> {
        let configuration = format!(
            "listeners.tcp.1 = {}\nmanagement.tcp.ip = 127.0.0.1\nmanagement.tcp.port = {}\n\
             stream.listeners.tcp.1 = {}\nstream.advertised_host = localhost\n\
             stream.advertised_port = {}\n{}",
            self.amqp,
            self.http.port(),
            self.stream,
            self.stream.port(),
            self.settings
        );
        fs::write(self.folder.join("rabbitmq.conf"), configuration)?;
        fs::write(
            self.folder.join("enabled_plugins"),
            "[rabbitmq_management,rabbitmq_consistent_hash_exchange,\
             rabbitmq_recent_history_exchange,rabbitmq_random_exchange,rabbitmq_stream].\n",
        )?;
        Ok(self.rabbitmq_script("rabbitmq-server"))
    }

    /// The name of RabbitMQ's node.
    pub fn rabbitmq_name(&self) -> String {
        format!("peer{}@localhost", self.amqp.port())
    }

    /// One of RabbitMQ's scripts, told to work in this broker's folder.
    fn rabbitmq_script(&self, script: &str) -> Command {
        let mut command = Command::new(Path::new(RABBITMQ_BIN).join(script));
        command
            .env("HOME", &self.folder)
            .env("RABBITMQ_NODENAME", self.rabbitmq_name())
            .env("RABBITMQ_NODE_PORT", self.amqp.port().to_string())
            .env("RABBITMQ_DIST_PORT", self.metrics.port().to_string())
            .env("RABBITMQ_MNESIA_BASE", self.folder.join("mnesia"))
            .env("RABBITMQ_LOG_BASE", self.folder.join("log"))
            .env("RABBITMQ_CONFIG_FILE", self.folder.join("rabbitmq.conf"))
            .env(
                "RABBITMQ_ENABLED_PLUGINS_FILE",
                self.folder.join("enabled_plugins"),
            )
            .env("RABBITMQ_CONF_ENV_FILE", "/dev/null")
            .env("RABBITMQ_PID_FILE", self.folder.join("pid"))
            .env("ERL_EPMD_ADDRESS", "127.0.0.1")
            .env("ERL_EPMD_PORT", self.epmd.port().to_string());
        command
    }

    /// Reads the broker's output until it says that it accepts, then keeps draining it to a file.
    fn await_ready(&mut self, output: impl Read + Send + 'static) -> Result<()> {
        let word = match self.kind {
            Kind::Leveret => "ready",
            Kind::RabbitMq => "completed with",
        };
        let (sender, receiver) = std::sync::mpsc::channel();
        let copy = File::options()
            .create(true)
            .append(true)
            .open(self.folder.join("stdout.log"))?;
        thread::spawn(move || {
            let mut copy = copy;
            for line in BufReader::new(output).lines() {
                let Ok(line) = line else { return };
                // The log is for people; a full disk must not stop the broker's output.
                let _ = writeln!(copy, "{line}");
                if line.contains(word) {
                    let _ = sender.send(());
                }
            }
        });
        match receiver.recv_timeout(START_DEADLINE) {
            Ok(()) => Ok(()),
            Err(_) => {
                let said = fs::read_to_string(self.log()).unwrap_or_default();
                self.kill()?;
                bail!(
                    "{} did not become ready:\n{}",
                    self.kind.name(),
                    run::last_lines(&said, 15)
                )
            }
        }
    }

    /// Asks it to drain and stop, and waits.
    pub fn stop(&mut self) -> Result<()> {
        let Some(mut child) = self.child.take() else {
            return Ok(());
        };
        run::signal(child.id(), "TERM")?;
        let ended = run::wait(&mut child, STOP_DEADLINE)?;
        self.stop_helpers();
        if ended.is_none() {
            child.kill()?;
            child.wait()?;
            bail!(
                "{} did not stop within {} s",
                self.kind.name(),
                STOP_DEADLINE.as_secs()
            );
        }
        Ok(())
    }

    /// Ends it with SIGKILL: nothing that it holds in memory survives.
    pub fn kill(&mut self) -> Result<()> {
        let Some(mut child) = self.child.take() else {
            return Ok(());
        };
        // RabbitMQ is a shell's child; killing the shell alone would leave it running.
        run::kill_family(&mut child)?;
        self.stop_helpers();
        Ok(())
    }

    /// Whether the process still runs.
    pub fn is_alive(&mut self) -> bool {
        match self.child.as_mut() {
            Some(child) => matches!(child.try_wait(), Ok(None)),
            None => false,
        }
    }

    fn stop_helpers(&self) {
        if self.kind == Kind::RabbitMq {
            let port = self.epmd.port().to_string();
            let _ = run::output(Command::new("epmd").args(["-port", &port, "-kill"]));
        }
    }

    /// Runs an operator's command, as `rabbitmqctl` would be run, and gives what it printed.
    pub fn ctl(&self, arguments: &[&str]) -> Result<String> {
        run::output(self.ctl_command().args(arguments))
    }

    /// Runs `leveret cluster` at this node, and gives what it printed.
    pub fn operate(&self, arguments: &[&str]) -> Result<String> {
        let mut command = Command::new(leveret_binary());
        command.arg("cluster").args(arguments);
        command.arg("--data-dir").arg(self.folder.join("data"));
        run::output(&mut command)
    }

    /// Takes from a broker that is not running all that it has kept.
    pub fn wipe(&self) -> Result<()> {
        assert!(self.child.is_none(), "what runs keeps its disk");
        let data = self.folder.join("data");
        fs::remove_dir_all(&data).with_context(|| format!("empty {}", data.display()))
    }

    /// `rabbitmqctl` for this broker, to be given its arguments.
    pub fn ctl_command(&self) -> Command {
        match self.kind {
            Kind::Leveret => {
                let mut command = Command::new(leveret_binary());
                command
                    .arg("ctl")
                    .arg("--data-dir")
                    .arg(self.folder.join("data"));
                command
            }
            Kind::RabbitMq => self.rabbitmq_script("rabbitmqctl"),
        }
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        let died = self.child.is_some() && !self.is_alive();
        // Nothing is left to report to while unwinding; the process must not outlive this tool.
        let _ = self.kill();
        if !(died || thread::panicking() || KEEPS_DATA.load(Ordering::Relaxed)) {
            for data in ["data", "mnesia"] {
                let _ = fs::remove_dir_all(self.folder.join(data));
            }
        }
    }
}

/// Whether brokers that end leave what they stored.
static KEEPS_DATA: AtomicBool = AtomicBool::new(false);

/// From now on brokers that end leave what they stored, to be looked at, because something was
/// found to be wrong. Otherwise only their logs stay: the write-ahead log of a node has its whole
/// length from the start, which is 200 MB for each of the seventy nodes that a run of all suites
/// starts.
pub fn keep_data() {
    KEEPS_DATA.store(true, Ordering::Relaxed);
}

/// Lets a test script, in whatever language, restart the broker or run operator commands: a line
/// protocol on a loopback port. `restart`, `stop`, `start`, `crash` (SIGKILL, then start), `alive`,
/// `rss`, or `ctl ARG...` with tabs between the arguments; the answer is one line, `ok ...` or
/// `error ...`, with line ends written as tabs.
pub fn serve_control(broker: Arc<Mutex<Broker>>) -> Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(stream) = stream else { return };
            let broker = Arc::clone(&broker);
            thread::spawn(move || answer_control(stream, &broker));
        }
    });
    Ok(address)
}

fn answer_control(stream: TcpStream, broker: &Mutex<Broker>) {
    let Ok(copy) = stream.try_clone() else { return };
    let mut stream = stream;
    for line in BufReader::new(copy).lines() {
        let Ok(line) = line else { return };
        let mut broker = match broker.lock() {
            Ok(broker) => broker,
            Err(poisoned) => poisoned.into_inner(),
        };
        let answer = match control(&mut broker, &line) {
            Ok(text) => format!("ok {text}"),
            Err(error) => format!("error {error:#}"),
        };
        if writeln!(stream, "{}", answer.trim_end().replace('\n', "\t")).is_err() {
            return;
        }
    }
}

fn control(broker: &mut Broker, line: &str) -> Result<String> {
    let mut words = line.split('\t');
    match words.next().unwrap_or_default() {
        "restart" => {
            broker.stop()?;
            broker.launch()?;
            Ok(String::new())
        }
        "stop" => {
            broker.stop()?;
            Ok(String::new())
        }
        "start" => {
            broker.launch()?;
            Ok(String::new())
        }
        "kill" => {
            broker.kill()?;
            Ok(String::new())
        }
        "crash" => {
            broker.kill()?;
            broker.launch()?;
            Ok(String::new())
        }
        "alive" => Ok(broker.is_alive().to_string()),
        "rss" => Ok(crate::procfs::usage(broker.pid())?.rss_bytes.to_string()),
        "ctl" => broker.ctl(&words.collect::<Vec<_>>()),
        other => bail!("no such control command: {other}"),
    }
}

/// Waits until a TCP connection is accepted; gives how long that took.
pub fn await_accept(address: SocketAddr, deadline: Duration) -> Result<Duration> {
    let started = Instant::now();
    while started.elapsed() < deadline {
        if TcpStream::connect_timeout(&address, Duration::from_millis(200)).is_ok() {
            return Ok(started.elapsed());
        }
        thread::sleep(Duration::from_micros(500));
    }
    bail!("{address} does not accept after {} s", deadline.as_secs())
}
