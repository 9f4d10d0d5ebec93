//! Boot: from a configuration to a running node, and to its end.

mod admin;
mod alarms;
mod certificates;
pub mod check;
mod cluster;
pub(crate) mod definitions;
mod limited_counts;
mod log;
mod log_file;
mod log_lines;
mod messages;
pub(crate) mod process;
mod reports;
mod settings;
mod traces;
mod web;

use crate::cli::node_file::{self, NodeFile};
use crate::config::{Config, Loaded, machine};
use crate::file_modes;
use admin::Admin;
use leveret_management::api::DamagedQueue;
use leveret_management::{App, Bound, Service};
use leveret_node::Env as _;
use leveret_shell::disk::RealDisk;
use leveret_shell::node::Node;
use leveret_shell::small_file;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;
use web::Web;

/// Lets the process have as many file descriptors as the system permits it: each connection is one,
/// and shells give few.
fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    // What is refused leaves what there was.
    let _ = setrlimit(Resource::Nofile, raised);
}

/// Runs a node until it is told to stop. The error is one line for the operator.
pub fn run(loaded: Loaded) -> Result<(), String> {
    let begun = Instant::now();
    check::make_folders(&loaded.config)?;
    let exposed = file_modes::exposed(&loaded);
    let config = loaded.config;
    let logs = log::start(&config.log)?;
    for notice in loaded.notices.iter().chain(&exposed) {
        tracing::warn!("{notice}");
    }
    check::cluster(&config)?;
    raise_descriptor_limit();
    // Before anything else is started, so that a signal that comes early is not lost.
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP])
        .map_err(|error| format!("cannot watch for signals: {error}"))?;
    // A node that waits for its cluster ends at once when it is told to.
    let starting = Arc::new(AtomicBool::new(true));
    for signal in [SIGTERM, SIGINT] {
        signal_hook::flag::register_conditional_shutdown(signal, 0, Arc::clone(&starting))
            .map_err(|error| format!("cannot watch for signals: {error}"))?;
    }
    let node = Node::start(settings::node_config(&config)?, disk(&config)?)
        .map_err(|error| error.to_string())?;
    starting.store(false, Ordering::SeqCst);
    report(&node);
    let sources = &node.broker.counters().login_sources;
    sources.track(config.tracks_login_sources);
    let exporter = traces::start(&config, &node.broker)?;
    let web = start_web(&config, loaded.effective, logs.clone(), &node)?;
    announce(&config, &node, &web, begun);
    for signal in signals.forever() {
        match signal {
            SIGHUP => {
                logs.follow();
                reload_certificates(&node, &web);
                if let Err(error) = node.reload_cluster() {
                    tracing::error!(
                        "the cluster's old secrets and certificates stay in use: {error}"
                    );
                }
            }
            _ => break,
        }
    }
    notify_supervisor("STOPPING=1");
    node_file::remove(&config.folders.root);
    drop(web);
    node.shut_down();
    if let Some(exporter) = exporter {
        exporter.end();
    }
    // Nobody takes the room from now on.
    small_file::set_aside(&config.folders.root);
    Ok(())
}

/// Environment variable by which `leveret perf` has a node model slower devices.
const TRIAL_DEVICE: &str = "LEVERET_TRIAL_DEVICE";

/// The disk as it is, unless a trial wants another.
fn disk(config: &Config) -> Result<RealDisk, String> {
    let Ok(device) = std::env::var(TRIAL_DEVICE) else {
        return Ok(RealDisk::new());
    };
    RealDisk::with_trial_devices(&device, &config.folders.store())
        .ok_or_else(|| format!("{TRIAL_DEVICE} is `{device}`: hdd:1 to hdd:3, ssd:1 to ssd:3"))
}

/// Reads all certificates again; what cannot be read leaves the old ones in use.
fn reload_certificates(node: &Node, web: &Web) {
    let of_amqp = node
        .reload_certificates()
        .map_err(|error| error.to_string());
    for result in [of_amqp, web.reload_certificates()] {
        if let Err(error) = result {
            tracing::error!("the old certificates stay in use: {error}");
        }
    }
}

/// Starts the HTTP API and the metrics.
fn start_web(
    config: &Config,
    effective: Vec<(String, String)>,
    logs: log::Logs,
    node: &Node,
) -> Result<Web, String> {
    let root = &config.folders.root;
    let mut random = [0; 32];
    getrandom::fill(&mut random).map_err(|error| format!("no random bytes: {error}"))?;
    let token = node_file::write_token(root, random)
        // One of an earlier life is as good: whoever may read it may read this folder.
        .or_else(|error| node_file::read_token(root).map_err(|_| error))
        .map_err(|error| unreachable(root, &error))
        .ok();
    let listening = Arc::new(OnceLock::new());
    let admin = Admin {
        broker: Arc::clone(&node.broker),
        timers_and_alarms: Arc::clone(&node.timers_and_alarms),
        uuid: node.uuid,
        config: config.clone(),
        effective,
        logs,
        moves: admin::Moves::default(),
        listening: Arc::clone(&listening),
    };
    let app = App::new(Arc::new(admin), token, config.metrics_per_object)
        .with_hosts(machine::host_name(), config.management_hosts.clone())
        .with_path_prefix(config.management_prefix.clone())
        .with_origins(
            config.management_origins.clone(),
            config.management_cors_seconds,
        )
        .with_session_minutes(config.management_session_minutes)
        .with_rate_limit(config.management_requests_per_second);
    let app = Arc::new(match web::can_have_socket_file(root) {
        true => app,
        false => app.with_token_on_loopback(),
    });
    reports::answer_others(&node.broker, &app)
        .map_err(|error| format!("cannot start a thread: {error}"))?;
    alarms::follow_others(&node.broker)
        .map_err(|error| format!("cannot start a thread: {error}"))?;
    limited_counts::follow_others(&node.broker)
        .map_err(|error| format!("cannot start a thread: {error}"))?;
    let web = Web::start(app, config)?;
    // The ports are known by now, those that the system chose as well.
    let _ = listening.set(admin::listeners(
        &node.listening,
        &node.stream_listening,
        web.bound(),
    ));
    Ok(web)
}

/// What opening the store found, in the log: one line, and one for each thing that is wrong.
fn report(node: &Node) {
    let report = &node.report;
    tracing::info!(
        created = report.created,
        closed_in_order = report.closed_in_order,
        wal_files = report.wal_files,
        wal_bytes = report.wal_bytes,
        segment_files = report.segment_files,
        "store opened",
    );
    for note in &report.notes {
        tracing::warn!("{note}");
    }
    for damage in admin::damage(&node.broker) {
        let DamagedQueue { vhost, name, what } = damage;
        tracing::error!("queue '{name}' in vhost '{vhost}': {what}");
    }
}

/// Says where the node is and what to try, and leaves the files that the command line looks for.
fn announce(config: &Config, node: &Node, web: &Web, begun: Instant) {
    let root = &config.folders.root;
    let amqp: Vec<SocketAddr> = node.listening.iter().map(|(address, _)| *address).collect();
    let file = NodeFile {
        name: config.node_name.clone(),
        pid: std::process::id(),
        amqp,
        http: web.plain_address(Service::Api),
        metrics: web.plain_address(Service::Metrics),
    };
    if let Err(error) = file.write(root) {
        unreachable(root, &error);
    }
    let elapsed = begun.elapsed().as_millis();
    let mut out = std::io::stdout().lock();
    let mut say = |line: String| {
        // A closed standard output is no reason to stop serving.
        let _ = writeln!(out, "{line}");
    };
    for (address, tls) in &node.listening {
        let protocol = if *tls { "amqps" } else { "amqp" };
        say(format!("  {protocol:8} {address}"));
    }
    for (address, tls) in &node.stream_listening {
        let protocol = if *tls { "streams" } else { "stream" };
        say(format!("  {protocol:8} {address}"));
    }
    for bound in web.bound() {
        say(format!("  {}", where_served(bound)));
    }
    if let Some(address) = node.cluster_address() {
        say(format!("  {:8} {address}", "cluster"));
    }
    say(format!("  {:8} {}", "data", root.display()));
    say(format!(
        "leveret {} ready after {elapsed} ms",
        env!("CARGO_PKG_VERSION")
    ));
    // By the name under which this process was started, so that the line can be typed as it stands.
    let program = std::env::args()
        .next()
        .unwrap_or_else(|| "leveret".to_owned());
    let found = std::env::var_os("LEVERET_DATA_DIR");
    let found = found.as_deref().unwrap_or("./leveret-data".as_ref());
    say(suggestion(&program, root, Path::new(found)));
    // The same.
    let _ = out.flush();
    notify_supervisor("READY=1");
}

/// What to try first. Commands look for a node in the folder `found` unless they are told another.
fn suggestion(program: &str, root: &Path, found: &Path) -> String {
    let other = match root == found {
        true => String::new(),
        false => format!(" --data-dir '{}'", root.display()),
    };
    format!("try: {program} status{other}, {program} list queues{other}, or any RabbitMQ client")
}

/// A node serves its clients also where it cannot tell the command line how to reach it: on a full
/// disk they are who makes room.
fn unreachable(root: &Path, error: &std::io::Error) {
    tracing::error!(
        %error,
        "cannot write to {}: the command line reaches this node by --url alone",
        root.display()
    );
}

fn where_served(bound: &Bound) -> String {
    let scheme = if bound.tls { "https" } else { "http" };
    let what = match bound.service {
        Service::Api => scheme,
        Service::Metrics => "metrics",
    };
    format!("{what:8} {scheme}://{}/", bound.address)
}

/// Tells systemd how far the node is, where it asked to be told (`NOTIFY_SOCKET`).
fn notify_supervisor(state: &str) {
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixDatagram};
    let Some(path) = std::env::var_os("NOTIFY_SOCKET") else {
        return;
    };
    let bytes = path.as_encoded_bytes();
    let address = match bytes.strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(&path),
    };
    let sent = address
        .and_then(|address| UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address));
    if let Err(error) = sent {
        tracing::warn!(%error, "cannot notify systemd (NOTIFY_SOCKET)");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_to_try_names_the_data_folder_unless_commands_find_it_by_themselves() {
        let tried = |root: &str, found: &str| suggestion("leveret", root.as_ref(), found.as_ref());
        assert_eq!(
            tried("./leveret-data", "./leveret-data"),
            "try: leveret status, leveret list queues, or any RabbitMQ client"
        );
        assert_eq!(
            tried("/data", "./leveret-data"),
            "try: leveret status --data-dir '/data', leveret list queues --data-dir '/data', or any \
             RabbitMQ client"
        );
        assert_eq!(tried("/data", "/data").find("--data-dir"), None);
    }
}
