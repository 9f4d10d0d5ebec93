//! What `rabbitmq-diagnostics` asks that is no list: checks, figures, the whole report.

use super::node::{self, check, in_unit, size_unit};
use super::{Context, Failure, Output, cluster_status, code};
use crate::cli::http::segment;
use crate::cli::table::{Rows, show};
use crate::config::plugins::BUILT_IN;
use serde_json::{Value, json};
use std::fmt::Write;
use std::net::ToSocketAddrs;

type Result<T> = std::result::Result<T, Failure>;

/// The keys in force, as `key value` rows.
fn effective(context: &Context<'_>) -> Result<Rows> {
    let keys = context.target.get("/api/config/effective")?;
    let keys = keys.as_array().cloned().unwrap_or_default();
    Ok(Rows::pick(&keys, &[("key", "key"), ("value", "value")]))
}

pub fn environment(context: &Context<'_>) -> Result<Output> {
    let name = context.target.name()?;
    context.banner(format!("Application environment of node {name} ..."));
    effective(context).map(Output::Rows)
}

/// One part of a report: its title, and the command that makes it.
type Part = (&'static str, fn(&Context<'_>) -> Result<Output>);

/// Everything that a maintainer asks for, one part after the other. A part that fails says so in
/// its place: the others are what is needed then.
pub fn report(context: &Context<'_>) -> Result<Output> {
    use super::lists;
    const PARTS: &[Part] = &[
        ("Status", node::status),
        ("Cluster status", cluster_status::cluster_status),
        ("Environment", environment),
        ("Feature flags", lists::list_feature_flags),
        ("Virtual hosts", lists::list_vhosts),
        ("Users", super::users::list_users),
        ("Permissions", super::users::list_permissions),
        ("Policies", super::users::list_policies),
        ("Connections", lists::list_connections),
        ("Channels", lists::list_channels),
        ("Consumers", lists::list_consumers),
        ("Queues", lists::list_queues),
        ("Exchanges", lists::list_exchanges),
        ("Bindings", lists::list_bindings),
    ];
    let name = context.target.name()?;
    context.banner(format!("Reporting server status of node {name} ..."));
    let mut out = String::new();
    for (title, run) in PARTS {
        let silent = context.without_banner();
        let text = match run(&silent) {
            Ok(output) => context.options.layout.render(output),
            Err(failure) => format!("{}\n", failure.text),
        };
        let _ = writeln!(out, "## {title}\n\n{text}");
    }
    Ok(Output::Text(out))
}

/// Says that what was asked for is so already.
pub fn nothing_to_do(context: &Context<'_>) -> Result<Output> {
    context.banner(format!("{}: nothing to do on this node.", context.command));
    Ok(Output::Done)
}

pub fn check_certificate_expiration(context: &Context<'_>) -> Result<Output> {
    let within = context.options.numbers.within;
    let unit = context.options.named("--unit").unwrap_or("weeks");
    let path = format!("certificate-expiration/{within}/{}", segment(unit));
    let banner = format!("Checking certificate expiration within {within} {unit}");
    let good = format!("No certificates are expiring within {within} {unit}.");
    check(context, &banner, &path, &good)
}

pub fn check_leaders(context: &Context<'_>) -> Result<Output> {
    let everywhere = context.options.has("--across-all-vhosts");
    let mut path = "quorum-queues-without-elected-leaders/".to_owned();
    match everywhere {
        true => path.push_str("all-vhosts"),
        false => path.push_str(&format!("vhost/{}", segment(context.vhost()))),
    }
    if let Some(pattern) = context.arguments.first() {
        path.push_str(&format!("/pattern/{}", segment(pattern)));
    }
    let good = "Node {node} reported all quorum queues as having responsive leader replicas";
    check(
        context,
        "Checking leader replicas of quorum queues",
        &path,
        good,
    )
}

pub fn check_metadata_store(context: &Context<'_>) -> Result<Output> {
    let good = "Metadata store on node {node} is initialized";
    let banner = "Checking if metadata store is initialized";
    check(context, banner, "metadata-store/initialized", good)
}

pub fn check_metadata_store_with_data(context: &Context<'_>) -> Result<Output> {
    let good = "Metadata store on node {node} is initialized and has data";
    let banner = "Checking if metadata store is initialized and has data";
    check(
        context,
        banner,
        "metadata-store/initialized/with-data",
        good,
    )
}

pub fn check_quorum_critical(context: &Context<'_>) -> Result<Output> {
    let good = "Node {node} reported no quorum queues with minimum quorum";
    let banner = "Checking if there are quorum queues that would lose their majority";
    check(context, banner, "node-is-quorum-critical", good)
}

pub fn check_cluster_size(context: &Context<'_>) -> Result<Output> {
    let good = "The cluster has as many nodes as it is to have";
    check(
        context,
        "Checking the cluster's size",
        "reached-target-cluster-size",
        good,
    )
}

pub fn is_booting(context: &Context<'_>) -> Result<Output> {
    let name = context.target.name()?;
    let answer = context
        .target
        .ask("GET", "/api/health/checks/is-in-service", &[], None)?;
    let words = if answer.is_good() {
        "has fully booted"
    } else {
        "does not take clients"
    };
    Ok(Output::Text(format!("RabbitMQ on node {name} {words}")))
}

pub fn alarms(context: &Context<'_>) -> Result<Output> {
    let name = context.target.name()?;
    context.banner(format!(
        "Asking node {name} to report any known resource alarms ..."
    ));
    let answer = context
        .target
        .ask("GET", "/api/health/checks/alarms", &[], None)?;
    let alarms = answer.json()["alarms"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    if alarms.is_empty() {
        let unknown = super::cluster::unreached(context)?;
        let text = format!("Node {name} reported no alarms, local or clusterwide{unknown}");
        return Ok(Output::Text(text));
    }
    let line = |alarm: &Value| {
        format!(
            "{} alarm on node {}",
            show(&alarm["resource"]),
            show(&alarm["node"])
        )
    };
    let lines: Vec<_> = alarms.iter().map(line).collect();
    Ok(Output::Text(lines.join("\n")))
}

/// The log files that the node writes.
fn log_files(context: &Context<'_>) -> Result<Vec<String>> {
    let node = node::own_node(context)?;
    let files = node["log_files"].as_array().cloned().unwrap_or_default();
    Ok(files.iter().map(show).collect())
}

pub fn log_location(context: &Context<'_>) -> Result<Output> {
    let files = log_files(context)?;
    Ok(Output::Text(match files.is_empty() {
        true => "standard error".to_owned(),
        false => files.join("\n"),
    }))
}

/// Bytes of the end of a log that are looked at for its last lines.
const LOG_TAIL_BYTES: u64 = 1 << 20;

pub fn log_tail(context: &Context<'_>) -> Result<Output> {
    let files = log_files(context)?;
    let Some(file) = files.first() else {
        let text =
            "the node logs to standard error alone: see its supervisor (journalctl, docker logs)";
        return Err(Failure::new(code::UNAVAILABLE, text));
    };
    let text = end_of(file)
        .map_err(|error| Failure::new(code::UNAVAILABLE, format!("cannot read {file}: {error}")))?;
    let lines: Vec<&str> = text.lines().collect();
    let from = lines.len().saturating_sub(context.options.numbers.lines);
    Ok(Output::Text(lines[from..].join("\n")))
}

fn end_of(file: &str) -> std::io::Result<String> {
    use std::io::{Read, Seek, SeekFrom};
    let mut file = std::fs::File::open(file)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(LOG_TAIL_BYTES)))?;
    let mut bytes = Vec::new();
    file.take(LOG_TAIL_BYTES).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

pub fn memory_breakdown(context: &Context<'_>) -> Result<Output> {
    let name = context.target.name()?;
    context.banner(format!("Reporting memory breakdown on node {name}..."));
    let unit = size_unit(context)?;
    let memory = memory(context, &name)?;
    let (mut object, mut lines) = (json!({}), Vec::new());
    for (part, bytes, percent) in memory_parts(&memory) {
        let size = in_unit(bytes, unit);
        lines.push(format!("{part}: {size} ({percent:.2}%)"));
        object[part] = json!({"bytes": bytes, "percentage": percent});
    }
    Ok(Output::Object(object, lines.join("\n")))
}

/// Where the memory of a node is.
pub(super) fn memory(context: &Context<'_>, name: &str) -> Result<Value> {
    let path = format!("/api/nodes/{}/memory", segment(name));
    Ok(context.target.get(&path)?["memory"].take())
}

/// The parts of a node's memory, the largest first: name, bytes, and percent of the whole.
pub(super) fn memory_parts(memory: &Value) -> Vec<(String, u64, f64)> {
    let parts = memory.as_object().into_iter().flatten();
    let mut parts: Vec<_> = parts
        .filter_map(|(part, bytes)| Some((part.clone(), bytes.as_u64()?)))
        .collect();
    parts.sort_by(|(a, a_bytes), (b, b_bytes)| b_bytes.cmp(a_bytes).then(a.cmp(b)));
    let whole: u64 = parts.iter().map(|(_, bytes)| bytes).sum();
    let percent = |bytes| 100.0 * bytes as f64 / whole.max(1) as f64;
    parts
        .into_iter()
        .map(|(part, bytes)| (part, bytes, percent(bytes)))
        .collect()
}

/// What stands for a version of Erlang.
pub(super) const NO_ERLANG: &str = "0 (no Erlang: Leveret is written in Rust)";

pub fn erlang_version(_: &Context<'_>) -> Result<Output> {
    Ok(Output::Text(NO_ERLANG.to_owned()))
}

pub fn tls_versions(_: &Context<'_>) -> Result<Output> {
    Ok(Output::Text("tlsv1.3\ntlsv1.2".to_owned()))
}

pub fn resolve_hostname(context: &Context<'_>) -> Result<Output> {
    let host = context.argument(0);
    context.banner(format!("Resolving hostname {host}..."));
    let addresses = (host, 0).to_socket_addrs().map_err(|error| {
        Failure::new(code::UNAVAILABLE, format!("cannot resolve {host}: {error}"))
    })?;
    let family = context.options.named("--address-family").unwrap_or("any");
    let is_wanted = |address: &std::net::SocketAddr| match family.to_ascii_lowercase().as_str() {
        "ipv4" => address.is_ipv4(),
        "ipv6" => address.is_ipv6(),
        _ => true,
    };
    let addresses = addresses.filter(is_wanted);
    let mut addresses: Vec<_> = addresses.map(|address| address.ip().to_string()).collect();
    addresses.dedup();
    Ok(Output::Text(addresses.join("\n")))
}

pub fn list_plugins(context: &Context<'_>) -> Result<Output> {
    let version = env!("CARGO_PKG_VERSION");
    let line = |name: &&str| match context.options.has("--minimal") {
        true => (*name).to_owned(),
        false => format!("[E*] {name} {version}"),
    };
    context.banner("Listing plugins: all are part of the broker ...");
    let wanted = context.arguments.first().map_or("", String::as_str);
    let named = BUILT_IN.iter().filter(|name| name.contains(wanted));
    let object = |name: &&str| {
        json!({"name": name, "version": version, "running_version": version,
               "enabled": "enabled", "running": true})
    };
    let objects: Vec<Value> = named.clone().map(object).collect();
    let object = json!({"status": "running", "format": "normal", "plugins": objects});
    let lines: Vec<_> = named.map(line).collect();
    Ok(Output::Object(object, lines.join("\n")))
}

pub fn is_plugin_enabled(context: &Context<'_>) -> Result<Output> {
    let mut asked = context.arguments.iter();
    match asked.find(|name| !BUILT_IN.contains(&name.as_str())) {
        None => Ok(Output::Text("All of these plugins are enabled".to_owned())),
        Some(name) => Err(Failure::new(
            code::UNAVAILABLE,
            format!("Plugin {name} is not part of this broker"),
        )),
    }
}
