//! The command line: `leveret serve`, `status`, `list`, `import`, `export`, `config`, `storage`,
//! `ctl`.

mod ask;
pub mod cluster;
mod diagnose;
pub mod http;
pub(crate) mod import;
mod insight;
mod live;
pub mod node_file;
pub mod password;
mod redrive;
mod route;
mod set_aside;
pub mod storage;
pub mod table;
pub mod target;
pub use crate::config::{self, Config, ConfigError, FileConfig, Machine, Refused, Source};
use crate::{ctl, file_modes, plain_text, serve};
use ask::{AskOptions, Object};
use clap::{Args, Parser, Subcommand, ValueEnum};
use http::segment;
use serde_json::Value;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use table::Rows;

/// Names by which the binary is RabbitMQ's tool of that name.
const RABBITMQ_TOOLS: &[&str] = &[
    "rabbitmqctl",
    "rabbitmq-diagnostics",
    "rabbitmq-plugins",
    "rabbitmq-queues",
    "rabbitmq-streams",
    "rabbitmq-upgrade",
];

#[derive(Parser)]
#[command(
    name = "leveret",
    version,
    about = "A message broker for RabbitMQ's clients, tools and operators",
    args_conflicts_with_subcommands = true
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    serve: ServeOptions,
}

#[derive(Subcommand)]
enum Command {
    /// Run a node (also without any command)
    Serve(ServeOptions),
    /// Show what the node is and how it is
    Status(AskOptions),
    /// Say what is wrong with the node and its cluster, and what to do
    Diagnose(AskOptions),
    /// List queues, connections, users...
    List(ListOptions),
    /// Show the busiest queues, again and again
    Top(live::TopOptions),
    /// Show how something goes on, a line every second
    Watch {
        #[command(subcommand)]
        command: live::WatchCommand,
    },
    /// Show a message of a queue, ready or unacknowledged, which stays where it is
    Peek(live::PeekOptions),
    /// Say to which queues a message would go, by which bindings, and by which not
    Route(route::RouteOptions),
    /// Say why a queue grows: who publishes, who consumes and how fast, what is in the way
    Growth(insight::GrowthOptions),
    /// Say what breaks if a node stops now
    Impact(insight::ImpactOptions),
    /// Show what operators have changed: who, when, what, before and after
    Audit(insight::AuditOptions),
    /// Show which nodes are short of memory or disk, and which connections wait for that
    Alarms(AskOptions),
    /// Show messages that delayed exchanges keep back, and drop one
    Delayed(insight::DelayedOptions),
    /// Show what is on a node's disk, and which queues keep it
    Disk(insight::DiskOptions),
    /// Send dead letters back to the queues that they came from
    Redrive(redrive::RedriveOptions),
    /// Take definitions (RabbitMQ's JSON) into the node
    Import(import::ImportOptions),
    /// Write the node's definitions as RabbitMQ's JSON
    Export {
        /// File to write; standard output where not given
        file: Option<PathBuf>,
        #[command(flatten)]
        ask: AskOptions,
    },
    /// Show the cluster, and change who is in it and who leads what
    Cluster {
        #[command(subcommand)]
        command: cluster::ClusterCommand,
    },
    /// Check or explain the configuration
    Config {
        #[command(subcommand)]
        command: ConfigCommand,
    },
    /// Explain, check or repair what is on disk, while the node is stopped
    Storage {
        #[command(subcommand)]
        command: storage::StorageCommand,
    },
    /// Show the version
    Version {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Measure what this machine carries: `leveret perf --help`
    #[command(disable_help_flag = true)]
    Perf {
        /// Command and options
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    /// rabbitmqctl's commands: `leveret ctl help`
    #[command(disable_help_flag = true)]
    Ctl {
        /// Command, arguments and options, as rabbitmqctl takes them
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
}

#[derive(Args)]
struct ServeOptions {
    /// Configuration: TOML, or rabbitmq.conf by its ending, or a folder of both
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Folder that holds everything the node keeps
    #[arg(long, value_name = "FOLDER")]
    data_dir: Option<PathBuf>,
    /// Address of AMQP [default: 127.0.0.1:5672]
    #[arg(long, value_name = "ADDR")]
    amqp: Option<String>,
    /// Address of the stream protocol, or `none` [default: 127.0.0.1:5552]
    #[arg(long, value_name = "ADDR")]
    stream: Option<String>,
    /// Address of the HTTP API, or `none` [default: 127.0.0.1:15672]
    #[arg(long, value_name = "ADDR")]
    http: Option<String>,
    /// This node's own address for the other nodes of its cluster
    #[arg(long, value_name = "ADDR")]
    cluster: Option<String>,
    /// Addresses of the nodes that form the cluster, the same on each of them
    #[arg(
        long,
        value_name = "ADDR,ADDR,...",
        value_delimiter = ',',
        requires = "cluster"
    )]
    join: Vec<String>,
    /// Address of the metrics, or `none` [default: 127.0.0.1:15692]
    #[arg(long, value_name = "ADDR")]
    metrics: Option<String>,
}

// Where a node of this machine keeps what it has.
#[derive(Args)]
struct ListOptions {
    /// What to list
    what: Listed,
    /// Only this virtual host
    #[arg(short = 'p', long, value_name = "NAME")]
    vhost: Option<String>,
    #[command(flatten)]
    ask: AskOptions,
}

#[derive(Clone, Copy, ValueEnum)]
enum Listed {
    Queues,
    Connections,
    Channels,
    Consumers,
    Exchanges,
    Bindings,
    Users,
    Permissions,
    TopicPermissions,
    Policies,
    OperatorPolicies,
    Parameters,
    Vhosts,
    VhostLimits,
    UserLimits,
    StreamGroups,
}

#[derive(Subcommand)]
enum ConfigCommand {
    /// Say whether a node would start with this configuration and environment
    Check {
        /// File or folder; that of LEVERET_CONFIG_FILE where not given
        #[arg(conflicts_with = "config")]
        file: Option<PathBuf>,
        /// The same, as `leveret serve` takes it
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
    },
    /// Show every setting in force, and where it was set
    Show {
        /// File or folder; that of LEVERET_CONFIG_FILE where not given
        file: Option<PathBuf>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Write a rabbitmq.conf as TOML, with the advanced.config and enabled_plugins beside it, and
    /// what has no counterpart
    Migrate {
        /// The rabbitmq.conf, or a rabbitmq.config in Erlang's form
        file: PathBuf,
    },
    /// Explain every key
    Reference {
        /// As Markdown
        #[arg(long)]
        markdown: bool,
    },
}

/// Runs the command line.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let called = arguments.first().map(Path::new).and_then(Path::file_name);
    let called = called.and_then(|name| name.to_str()).unwrap_or_default();
    if RABBITMQ_TOOLS.contains(&called) {
        return ctl::main(arguments.into_iter().skip(1));
    }
    let cli = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are no errors; clap knows where each goes.
            let code = if error.use_stderr() {
                ctl::code::USAGE
            } else {
                0
            };
            let _ = error.print();
            return ExitCode::from(code);
        }
    };
    let result = match cli.command {
        Some(Command::Ctl { arguments }) => return ctl::main(arguments),
        Some(Command::Perf { arguments }) => return leveret_perf::main(arguments),
        Some(Command::Serve(options)) => serve_node(&options),
        None => serve_node(&cli.serve),
        Some(Command::Status(ask)) => status(&ask),
        Some(Command::Diagnose(ask)) => diagnose::run(&ask),
        Some(Command::List(options)) => list(&options),
        Some(Command::Top(options)) => live::top(&options),
        Some(Command::Watch { command }) => live::watch(&command),
        Some(Command::Peek(options)) => live::peek(&options),
        Some(Command::Route(options)) => route::run(&options),
        Some(Command::Growth(options)) => insight::growth(&options),
        Some(Command::Impact(options)) => insight::impact(&options),
        Some(Command::Audit(options)) => insight::audit(&options),
        Some(Command::Alarms(ask)) => insight::alarms(&ask),
        Some(Command::Delayed(options)) => insight::delayed(&options),
        Some(Command::Disk(options)) => insight::disk(&options),
        Some(Command::Redrive(options)) => redrive::run(&options),
        Some(Command::Import(options)) => import::run(&options),
        Some(Command::Version { json }) => Ok(version(json)),
        Some(Command::Export { file, ask }) => export(file.as_deref(), &ask),
        Some(Command::Cluster { command }) => cluster::run(&command),
        Some(Command::Config { command }) => configuration(&command),
        Some(Command::Storage { command }) => storage::run(&command),
    };
    match result {
        Ok(text) => {
            print(&text);
            ExitCode::SUCCESS
        }
        Err(text) => {
            eprintln!("leveret: {}", plain_text::lines(&text));
            ExitCode::FAILURE
        }
    }
}

fn version(json: bool) -> String {
    let version = env!("CARGO_PKG_VERSION");
    match json {
        true => format!("{:#}\n", serde_json::json!({"version": version})),
        false => format!("leveret {version}\n"),
    }
}

/// Writes to standard output, plainly; whoever closed it (`| head`) has seen enough.
fn print(text: &str) {
    use std::io::Write;
    let text = plain_text::lines(text);
    let _ = std::io::stdout().lock().write_all(text.as_bytes());
}

/// What was typed: the file, the environment, then the options.
fn typed(options: &ServeOptions) -> Result<FileConfig, ConfigError> {
    let mut typed = config::read(config::file_named(options.config.as_deref()).as_deref())?;
    if let Some(folder) = &options.data_dir {
        let folder = folder.display().to_string();
        typed.set("data_dir", folder, Source::Flag("--data-dir"));
    }
    if let Some(address) = &options.amqp {
        typed.forget("listeners.tcp");
        typed.set("listeners.tcp.default", address, Source::Flag("--amqp"));
    }
    if let Some(address) = &options.stream {
        typed.forget("stream.listeners.tcp");
        let key = match address.as_str() {
            "none" => "stream.listeners.tcp",
            _ => "stream.listeners.tcp.default",
        };
        typed.set(key, address, Source::Flag("--stream"));
    }
    if let Some(address) = &options.cluster {
        typed.set("cluster.address", address, Source::Flag("--cluster"));
    }
    if !options.join.is_empty() {
        typed.forget("cluster.join");
        for (index, address) in options.join.iter().enumerate() {
            let key = format!("cluster.join.{}", index + 1);
            typed.set(&key, address, Source::Flag("--join"));
        }
    }
    set_http(&mut typed, "management", "--http", options.http.as_deref());
    set_http(
        &mut typed,
        "prometheus",
        "--metrics",
        options.metrics.as_deref(),
    );
    Ok(typed)
}

/// Sets the address and the port of an HTTP listener by one option.
fn set_http(typed: &mut FileConfig, which: &str, flag: &'static str, address: Option<&str>) {
    let Some(address) = address else { return };
    // What is no address goes to the port's check, which says what would be one.
    let (ip, port) = match config::value::address(address) {
        Ok(address) => (Some(address.ip().to_string()), address.port().to_string()),
        Err(_) => (None, address.to_owned()),
    };
    if let Some(ip) = ip {
        typed.set(&format!("{which}.tcp.ip"), ip, Source::Flag(flag));
    }
    typed.set(&format!("{which}.tcp.port"), port, Source::Flag(flag));
}

fn serve_node(options: &ServeOptions) -> Result<String, String> {
    file_modes::keep_private();
    let typed = typed(options).map_err(|error| error.to_string())?;
    let loaded =
        Config::build(&typed, &Machine::here()).map_err(|refused| lines(&typed, &refused))?;
    serve::run(loaded)
        .map(|()| String::new())
        .map_err(|error| with_unreadable(&typed, error))
}

/// Lines for the operator begin all alike.
const BETWEEN_LINES: &str = "\nleveret: ";

/// All that is wrong with a configuration, files that it names included.
fn lines(typed: &FileConfig, refused: &Refused) -> String {
    let files = config::unreadable_files(typed);
    let lines: Vec<_> = refused.lines().chain(files).collect();
    lines.join(BETWEEN_LINES)
}

/// An error that is about a file, with all other files that cannot be read.
fn with_unreadable(typed: &FileConfig, error: String) -> String {
    let files = config::unreadable_files(typed);
    let is_told = |file: &String| {
        file.rsplit_once(": ").is_some_and(|(file, _)| {
            let path = file
                .rsplit_once("cannot read ")
                .map_or("", |(_, path)| path);
            error.contains(path)
        })
    };
    let (told, others): (Vec<_>, Vec<_>) = files.into_iter().partition(is_told);
    match told.is_empty() {
        true => error,
        false => [vec![error], others].concat().join(BETWEEN_LINES),
    }
}

fn configuration(command: &ConfigCommand) -> Result<String, String> {
    let file = match command {
        ConfigCommand::Reference { markdown: true } => return Ok(config::reference::markdown()),
        ConfigCommand::Reference { markdown: false } => return Ok(config::reference::text()),
        ConfigCommand::Show { file, json } => {
            return shown(config::file_named(file.as_deref()), *json);
        }
        ConfigCommand::Migrate { file } => return migrated(file),
        ConfigCommand::Check { file, config } => {
            config::file_named(file.as_deref().or(config.as_deref()))
        }
    };
    let typed = config::read(file.as_deref()).map_err(|error| error.to_string())?;
    let loaded =
        Config::build(&typed, &Machine::here()).map_err(|refused| lines(&typed, &refused))?;
    let problems = serve::check::problems(&loaded.config);
    if !problems.is_empty() {
        return Err(with_unreadable(&typed, problems.join(BETWEEN_LINES)));
    }
    let exposed = file_modes::exposed(&loaded);
    let notices = loaded.notices.iter().chain(&exposed);
    let mut text: String = notices.map(|notice| format!("{notice}\n")).collect();
    let name = file.map_or_else(
        || "the environment".to_owned(),
        |file| file.display().to_string(),
    );
    text.push_str(&format!("{name}: a node would start with it\n"));
    Ok(text)
}

/// Every value in force, and where it was typed.
fn shown(file: Option<PathBuf>, json: bool) -> Result<String, String> {
    let typed = config::read(file.as_deref()).map_err(|error| error.to_string())?;
    let loaded =
        Config::build(&typed, &Machine::here()).map_err(|refused| lines(&typed, &refused))?;
    let typed = config::aliases::resolved(&typed);
    let row = |(key, value): &(String, String)| {
        let setting = typed.get(key);
        let source = setting.map_or("default".to_owned(), |setting| setting.source.to_string());
        [key, value, &source]
            .map(|text| text.as_str().into())
            .into()
    };
    let rows = Rows {
        columns: ["key", "value", "from"].map(str::to_owned).into(),
        rows: loaded.effective.iter().map(row).collect(),
    };
    Ok(match json {
        true => rows.json(),
        false => rows.aligned(),
    })
}

fn migrated(file: &Path) -> Result<String, String> {
    let typed = config::read_files(file).map_err(|error| error.to_string())?;
    Ok(config::migrate::to_toml(&typed))
}

fn status(ask: &AskOptions) -> Result<String, String> {
    let overview = ask.get("/api/overview")?;
    let nodes = ask.get("/api/nodes")?;
    let node = &nodes[0];
    if ask.json {
        let both = serde_json::json!({"overview": overview, "node": node});
        return Ok(format!("{both:#}\n"));
    }
    let (objects, queues) = (&overview["object_totals"], &overview["queue_totals"]);
    let count = |value: &Value| value.as_u64().unwrap_or(0);
    let mib = |value: &Value| format!("{} MiB", count(value) >> 20);
    let all = nodes.as_array().into_iter().flatten();
    let alarms = all.flat_map(|node| {
        let resources = [("mem_alarm", "memory"), ("disk_free_alarm", "disk")];
        let set = resources
            .into_iter()
            .filter(|(field, _)| node[field] == true);
        set.map(|(_, name)| format!("{name} on {}", table::show(&node["name"])))
    });
    let alarms: Vec<String> = alarms.collect();
    // A node that is in no cluster has no view of one.
    let cluster = ask.get("/api/leveret/cluster").unwrap_or_default();
    let is_minority = cluster.is_object() && cluster["leader"].is_null();
    let listeners: Vec<_> = crate::ctl::own_listeners(&overview)
        .iter()
        .map(|l| {
            let show = |field: &str| table::show(&l[field]);
            format!(
                "{} {}:{}",
                show("protocol"),
                show("ip_address"),
                show("port")
            )
        })
        .collect();
    let mut status = vec![
        ("node", table::show(&overview["node"])),
        ("version", table::show(&overview["product_version"])),
        ("up", format!("{} s", count(&node["uptime"]) / 1_000)),
        ("listens on", listeners.join(", ")),
        (
            "alarms",
            match (alarms.is_empty(), is_minority) {
                (true, false) => "none".to_owned(),
                (true, true) => "not known of nodes that are not reached".to_owned(),
                (false, _) => alarms.join(", "),
            },
        ),
        (
            "memory",
            format!("{} of {}", mib(&node["mem_used"]), mib(&node["mem_limit"])),
        ),
        (
            "disk free",
            format!(
                "{} (limit {})",
                mib(&node["disk_free"]),
                mib(&node["disk_free_limit"])
            ),
        ),
        ("connections", count(&objects["connections"]).to_string()),
        ("channels", count(&objects["channels"]).to_string()),
        ("queues", count(&objects["queues"]).to_string()),
        ("consumers", count(&objects["consumers"]).to_string()),
        (
            "messages",
            format!(
                "{} ready, {} unacknowledged",
                count(&queues["messages_ready"]),
                count(&queues["messages_unacknowledged"])
            ),
        ),
    ];
    if cluster.is_object() {
        status.extend(crate::ctl::in_short(&cluster));
    }
    let line = |(name, value): &(&str, String)| format!("{:<12} {value}\n", name.to_lowercase());
    Ok(status.iter().map(line).collect())
}

/// Where the API has a list, and which of its fields are shown to people.
fn listed(what: Listed) -> (&'static str, Columns) {
    match what {
        Listed::Queues => ("queues", QUEUES),
        Listed::Connections => ("connections", CONNECTIONS),
        Listed::Channels => ("channels", CHANNELS),
        Listed::Consumers => ("consumers", CONSUMERS),
        Listed::Exchanges => ("exchanges", EXCHANGES),
        Listed::Bindings => ("bindings", BINDINGS),
        Listed::Users => ("users", USERS),
        Listed::Permissions => ("permissions", PERMISSIONS),
        Listed::TopicPermissions => ("topic-permissions", TOPIC_PERMISSIONS),
        Listed::Policies => ("policies", POLICY),
        Listed::OperatorPolicies => ("operator-policies", POLICY),
        Listed::Parameters => ("parameters", PARAMETERS),
        Listed::Vhosts => ("vhosts", VHOSTS),
        Listed::VhostLimits => ("vhost-limits", VHOST_LIMITS),
        Listed::UserLimits => ("user-limits", USER_LIMITS),
        Listed::StreamGroups => ("leveret/stream-groups", STREAM_GROUPS),
    }
}

/// Columns of a list: as people read them, and the field of the API's objects.
type Columns = &'static [(&'static str, &'static str)];

const QUEUES: Columns = &[
    ("vhost", "vhost"),
    ("name", "name"),
    ("type", "type"),
    ("state", "state"),
    ("ready", "messages_ready"),
    ("unacknowledged", "messages_unacknowledged"),
    ("consumers", "consumers"),
    ("policy", "policy"),
];

const CONNECTIONS: Columns = &[
    ("name", "name"),
    ("user", "user"),
    ("vhost", "vhost"),
    ("state", "state"),
    ("channels", "channels"),
    ("protocol", "protocol"),
];

const CHANNELS: Columns = &[
    ("name", "name"),
    ("user", "user"),
    ("vhost", "vhost"),
    ("consumers", "consumer_count"),
    ("unacknowledged", "messages_unacknowledged"),
    ("unconfirmed", "messages_unconfirmed"),
    ("prefetch", "prefetch_count"),
];

const CONSUMERS: Columns = &[
    ("vhost", "queue.vhost"),
    ("queue", "queue.name"),
    ("tag", "consumer_tag"),
    ("channel", "channel_details.name"),
    ("ack", "ack_required"),
    ("prefetch", "prefetch_count"),
    ("active", "active"),
];

const EXCHANGES: Columns = &[
    ("vhost", "vhost"),
    ("name", "name"),
    ("type", "type"),
    ("durable", "durable"),
    ("auto-delete", "auto_delete"),
    ("internal", "internal"),
    ("policy", "policy"),
];

const BINDINGS: Columns = &[
    ("vhost", "vhost"),
    ("source", "source"),
    ("to", "destination_type"),
    ("destination", "destination"),
    ("routing key", "routing_key"),
    ("arguments", "arguments"),
];

const USERS: Columns = &[("name", "name"), ("tags", "tags")];

const PERMISSIONS: Columns = &[
    ("vhost", "vhost"),
    ("user", "user"),
    ("configure", "configure"),
    ("write", "write"),
    ("read", "read"),
];

const TOPIC_PERMISSIONS: Columns = &[
    ("vhost", "vhost"),
    ("user", "user"),
    ("exchange", "exchange"),
    ("write", "write"),
    ("read", "read"),
];

const PARAMETERS: Columns = &[
    ("vhost", "vhost"),
    ("component", "component"),
    ("name", "name"),
    ("value", "value"),
];

const VHOSTS: Columns = &[
    ("name", "name"),
    ("description", "description"),
    ("tags", "tags"),
    ("default queue type", "default_queue_type"),
    ("tracing", "tracing"),
];

const VHOST_LIMITS: Columns = &[("vhost", "vhost"), ("limits", "value")];

const USER_LIMITS: Columns = &[("user", "user"), ("limits", "value")];

const STREAM_GROUPS: Columns = &[
    ("vhost", "vhost"),
    ("stream", "stream"),
    ("name", "name"),
    ("unused", "unused"),
    ("lag", "lag"),
    ("rate", "rate"),
];

const POLICY: Columns = &[
    ("vhost", "vhost"),
    ("name", "name"),
    ("pattern", "pattern"),
    ("applies to", "apply-to"),
    ("priority", "priority"),
    ("definition", "definition"),
];

/// Where the API has what is of one virtual host, or all if it has no such list.
fn path_of_vhost(what: Listed, path: &str, vhost: &str) -> String {
    match what {
        Listed::Queues
        | Listed::Consumers
        | Listed::Exchanges
        | Listed::Bindings
        | Listed::Policies
        | Listed::OperatorPolicies
        | Listed::VhostLimits
        | Listed::StreamGroups => format!("/api/{path}/{vhost}"),
        Listed::Connections | Listed::Channels | Listed::Permissions | Listed::TopicPermissions => {
            format!("/api/vhosts/{vhost}/{path}")
        }
        Listed::Users | Listed::Parameters | Listed::Vhosts | Listed::UserLimits => {
            format!("/api/{path}")
        }
    }
}

fn list(options: &ListOptions) -> Result<String, String> {
    let (path, columns) = listed(options.what);
    let mut found = match &options.vhost {
        None => options.ask.get(&format!("/api/{path}"))?,
        Some(vhost) => {
            let object = Object {
                what: &format!("virtual host '{vhost}'"),
                list: "list vhosts",
            };
            let asked = path_of_vhost(options.what, path, &segment(vhost));
            options.ask.get_object(&asked, &object)?
        }
    };
    if let (Some(vhost), Some(all)) = (&options.vhost, found.as_array_mut()) {
        all.retain(|object| object["vhost"] == **vhost || object["queue"]["vhost"] == **vhost);
    }
    if options.ask.json {
        return Ok(format!("{found:#}\n"));
    }
    let objects = found.as_array().map_or(&[][..], Vec::as_slice);
    Ok(Rows::pick(objects, columns).aligned())
}

fn export(file: Option<&Path>, ask: &AskOptions) -> Result<String, String> {
    let definitions = format!("{:#}\n", ask.get("/api/definitions")?);
    let Some(file) = file else {
        return Ok(definitions);
    };
    file_modes::write_private(file, &definitions)
        .map_err(|e| format!("cannot write {}: {e}", file.display()))?;
    Ok(format!("{}: written\n", file.display()))
}
