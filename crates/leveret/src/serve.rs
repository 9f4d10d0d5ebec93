//! Boot: from a configuration to a running node, and to its end.

mod admin;
mod log;
mod messages;
mod process;
mod settings;

use crate::cli::node_file::{self, NodeFile};
use crate::config::{Config, Loaded};
use admin::Admin;
use leveret_management::{App, Server};
use leveret_shell::disk::RealDisk;
use leveret_shell::node::Node;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

/// Runs a node until it is told to stop. The error is one line for the operator.
pub fn run(loaded: Loaded) -> Result<(), String> {
    let begun = Instant::now();
    let config = loaded.config;
    log::start(&config.log)?;
    for notice in &loaded.notices {
        tracing::warn!("{notice}");
    }
    // Before anything else is started, so that a signal that comes early is not lost.
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP])
        .map_err(|error| format!("cannot watch for signals: {error}"))?;
    let node = Node::start(settings::node_config(&config)?, RealDisk::new())
        .map_err(|error| error.to_string())?;
    report(&node);
    let management = start_management(&config, &node)?;
    announce(&config, &node, &management, begun)?;
    for signal in signals.forever() {
        match signal {
            SIGHUP => {
                if let Err(error) = node.reload_certificates() {
                    tracing::error!("the old certificates stay in use: {error}");
                }
            }
            _ => break,
        }
    }
    notify_supervisor("STOPPING=1");
    node_file::remove(&config.folders.root);
    drop(management);
    node.shut_down();
    Ok(())
}

/// Starts the HTTP API and the metrics.
fn start_management(config: &Config, node: &Node) -> Result<Server, String> {
    let root = &config.folders.root;
    let mut random = [0; 32];
    getrandom::fill(&mut random).map_err(|error| format!("no random bytes: {error}"))?;
    let token = node_file::write_token(root, random)
        .map_err(|error| format!("cannot write to {}: {error}", root.display()))?;
    let listeners = &config.listeners;
    let admin = Admin {
        broker: Arc::clone(&node.broker),
        housekeeping: Arc::clone(&node.housekeeping),
        uuid: node.uuid,
        config: config.clone(),
        listeners: admin::listeners(&node.listening, listeners.http, listeners.metrics),
    };
    let app = App::new(Arc::new(admin), Some(token), config.metrics_per_object);
    Server::start(app, listeners.http, listeners.metrics).map_err(|error| error.to_string())
}

/// What opening the store found, in the log: one line, and one for each thing that is wrong.
fn report(node: &Node) {
    let report = &node.report;
    tracing::info!(
        created = report.created,
        clean = report.clean,
        wal_files = report.wal_files,
        wal_bytes = report.wal_bytes,
        segment_files = report.segment_files,
        "store opened",
    );
    for note in &report.notes {
        tracing::warn!("{note}");
    }
}

/// Says where the node is and what to try, and leaves the files that the command line looks for.
fn announce(
    config: &Config,
    node: &Node,
    management: &Server,
    begun: Instant,
) -> Result<(), String> {
    let root = &config.folders.root;
    let failed = |error| format!("cannot write to {}: {error}", root.display());
    let amqp: Vec<SocketAddr> = node.listening.iter().map(|(address, _)| *address).collect();
    let file = NodeFile {
        name: config.node_name.clone(),
        pid: std::process::id(),
        amqp: amqp.clone(),
        http: management.http_address(),
        metrics: management.metrics_address(),
    };
    file.write(root).map_err(failed)?;
    let elapsed = begun.elapsed().as_millis();
    let mut out = std::io::stdout().lock();
    let mut say = |line: String| {
        // A closed standard output is no reason to stop serving.
        let _ = writeln!(out, "{line}");
    };
    for (address, tls) in &node.listening {
        say(format!(
            "  {:8} {address}",
            if *tls { "amqps" } else { "amqp" }
        ));
    }
    for (name, address) in [
        ("http", management.http_address()),
        ("metrics", management.metrics_address()),
    ] {
        if let Some(address) = address {
            say(format!("  {name:8} http://{address}/"));
        }
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
    say(format!(
        "try: {program} status, {program} list queues, or any RabbitMQ client"
    ));
    // The same.
    let _ = out.flush();
    notify_supervisor("READY=1");
    Ok(())
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
        tracing::warn!(%error, "cannot tell the supervisor");
    }
}
