//! The node itself: status, checks, alarms, definitions, closing connections, stopping.

use super::diagnostics::{memory, memory_parts};
use super::{Context, Failure, Output, code};
use crate::cli::http::segment;
use crate::cli::import::import;
use crate::cli::table::show;
use crate::cli::target::CallError;
use crate::config::plugins::BUILT_IN;
use crate::config::value;
use crate::file_modes::write_private;
use serde_json::{Value, json};
use std::fmt::Write;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

type Result<T> = std::result::Result<T, Failure>;

pub(super) fn queue_path(context: &Context<'_>) -> String {
    let (vhost, name) = (segment(context.vhost()), segment(context.argument(0)));
    format!("/api/queues/{vhost}/{name}")
}

pub(super) fn or_no_queue<T>(
    context: &Context<'_>,
    result: std::result::Result<T, CallError>,
) -> Result<T> {
    result.map_err(|error| match error {
        CallError::Refused(404, _) => Failure::new(
            code::DATA,
            format!(
                "Queue '{}' does not exist in vhost '{}'",
                context.argument(0),
                context.vhost()
            ),
        ),
        other => other.into(),
    })
}

pub fn purge_queue(context: &Context<'_>) -> Result<Output> {
    context.banner(format!(
        "Purging queue '{}' in vhost '{}' ...",
        context.argument(0),
        context.vhost()
    ));
    let path = format!("{}/contents", queue_path(context));
    or_no_queue(context, context.target.call("DELETE", &path, None))?;
    Ok(Output::Done)
}

pub fn delete_queue(context: &Context<'_>) -> Result<Output> {
    context.banner(format!(
        "Deleting queue '{}' on vhost '{}' ...",
        context.argument(0),
        context.vhost()
    ));
    let path = queue_path(context);
    let queue = or_no_queue(context, context.target.get(&path))?;
    let options = context.options;
    let mut conditions = Vec::new();
    conditions.extend(options.has("--if-empty").then_some("if-empty=true"));
    conditions.extend(options.has("--if-unused").then_some("if-unused=true"));
    let path = format!("{path}?{}", conditions.join("&"));
    or_no_queue(context, context.target.call("DELETE", &path, None))?;
    let ready = queue["messages"].as_u64().unwrap_or(0);
    Ok(Output::Text(format!(
        "Queue was successfully deleted with {ready} ready messages"
    )))
}

fn close(context: &Context<'_>, name: &str, reason: &str) -> Result<()> {
    let path = format!("/api/connections/{}", segment(name));
    let answer = context
        .target
        .ask("DELETE", &path, &[("X-Reason", reason)], None)?;
    // A connection that is gone by now is closed.
    match answer.status {
        204 | 404 => Ok(()),
        status => Err(CallError::Refused(status, answer.reason()).into()),
    }
}

pub fn close_connection(context: &Context<'_>) -> Result<Output> {
    let (wanted, reason) = (context.argument(0), context.argument(1));
    context.banner(format!("Closing connection {wanted}, reason: {reason}..."));
    let all = context.target.get("/api/connections")?;
    let found = all
        .as_array()
        .into_iter()
        .flatten()
        .find(|c| c["pid"] == wanted || c["name"] == wanted);
    match found.and_then(|c| c["name"].as_str()) {
        Some(name) => close(context, name, reason).map(|()| Output::Done),
        None => Err(Failure::new(
            code::DATA,
            format!("there is no connection {wanted}; see list_connections pid name"),
        )),
    }
}

fn close_all(
    context: &Context<'_>,
    reason: &str,
    wanted: impl Fn(&Value) -> bool,
) -> Result<Output> {
    let all = context.target.get("/api/connections")?;
    let limit = match context.options.numbers.limit {
        0 => usize::MAX,
        limit => limit,
    };
    let names: Vec<_> = all
        .as_array()
        .into_iter()
        .flatten()
        .filter(|c| wanted(c))
        .filter_map(|c| c["name"].as_str())
        .take(limit)
        .collect();
    for name in &names {
        close(context, name, reason)?;
        std::thread::sleep(context.options.numbers.delay);
    }
    Ok(Output::Text(format!("Closed {} connections", names.len())))
}

pub fn close_all_connections(context: &Context<'_>) -> Result<Output> {
    let (reason, vhost) = (context.argument(0), context.vhost());
    if context.options.has("--global") {
        context.banner(format!(
            "Closing all connections to node (reason: {reason})..."
        ));
        return close_all(context, reason, |_| true);
    }
    context.banner(format!(
        "Closing all connections in vhost {vhost} (reason: {reason})..."
    ));
    close_all(context, reason, |c| c["vhost"] == vhost)
}

pub fn close_all_user_connections(context: &Context<'_>) -> Result<Output> {
    let (user, reason) = (context.argument(0), context.argument(1));
    context.banner(format!(
        "Closing connections of user {user}, reason: {reason}..."
    ));
    close_all(context, reason, |c| c["user"] == user)
}

/// Definitions are written and read in JSON alone; RabbitMQ's have Erlang's own form as well.
fn check_format(context: &Context<'_>) -> Result<()> {
    match context.options.named("--format") {
        None | Some("json") => Ok(()),
        Some(other) => Err(Failure::usage(format!(
            "--format {other}: definitions are written and read as json"
        ))),
    }
}

pub fn import_definitions(context: &Context<'_>) -> Result<Output> {
    check_format(context)?;
    let (bytes, from) = match context.arguments.first().filter(|file| *file != "-") {
        Some(file) => {
            let bytes = std::fs::read(file).map_err(|error| {
                Failure::new(code::DATA, format!("cannot read {file}: {error}"))
            })?;
            (bytes, format!("a file at \"{file}\""))
        }
        None => {
            let mut bytes = Vec::new();
            let read = std::io::Read::read_to_end(&mut std::io::stdin(), &mut bytes);
            read.map_err(|error| {
                Failure::new(code::DATA, format!("cannot read standard input: {error}"))
            })?;
            (bytes, "standard input".to_owned())
        }
    };
    context.banner(format!("Importing definitions in JSON from {from} ..."));
    let lines = import(
        context.target,
        bytes,
        context.options.has("--skip-unsupported"),
    )?;
    Ok(match lines.trim_end() {
        "" => Output::Done,
        lines => Output::Text(lines.to_owned()),
    })
}

pub fn export_definitions(context: &Context<'_>) -> Result<Output> {
    check_format(context)?;
    let definitions = context.target.get("/api/definitions")?;
    match context.arguments.first().filter(|file| *file != "-") {
        Some(file) => {
            context.banner(format!(
                "Exporting definitions in JSON to a file at \"{file}\" ..."
            ));
            write_private(Path::new(file), &format!("{definitions:#}\n")).map_err(|error| {
                Failure::new(code::DATA, format!("cannot write {file}: {error}"))
            })?;
            Ok(Output::Done)
        }
        None => Ok(Output::Text(format!("{definitions:#}"))),
    }
}

/// The node's own entry in the list of nodes.
pub fn own_node(context: &Context<'_>) -> Result<Value> {
    let nodes = context.target.get("/api/nodes")?;
    Ok(nodes[0].clone())
}

pub fn status(context: &Context<'_>) -> Result<Output> {
    let unit = size_unit(context)?;
    let bytes = |value: &Value| in_unit(value.as_u64().unwrap_or(0), unit);
    let name = context.target.name()?;
    context.banner(format!("Status of node {name} ..."));
    let overview = context.target.get("/api/overview")?;
    let nodes = context.target.get("/api/nodes")?;
    let node = nodes[0].clone();
    let memory = memory(context, &name)?;
    let cluster = super::cluster::view(context)?;
    let mut out = String::new();
    let mut section = |title: &str, lines: Vec<(&str, String)>| {
        let _ = writeln!(out, "{title}\n");
        for (name, value) in lines {
            let _ = writeln!(out, "{name}: {value}");
        }
        out.push('\n');
    };
    let shown = |value: &Value| show(value);
    let uptime = node["uptime"].as_u64().unwrap_or(0) / 1_000;
    section(
        "Runtime",
        vec![
            ("OS PID", shown(&node["os_pid"])),
            ("Uptime (seconds)", uptime.to_string()),
            ("Product name", shown(&overview["product_name"])),
            ("Product version", shown(&overview["product_version"])),
            ("RabbitMQ version", shown(&overview["rabbitmq_version"])),
            ("Node name", name),
            ("Data directory", shown(&node["db_dir"])),
        ],
    );
    let mut alarms = alarms_of(&nodes);
    if let Some(cluster) = &cluster {
        section("Cluster", super::cluster::in_short(cluster));
        if cluster["leader"].is_null() {
            let unknown = "alarms of nodes that are not reached are not known";
            alarms.retain(|(title, _)| *title != NO_ALARMS);
            alarms.push(("No majority", unknown.to_owned()));
        }
    }
    section("Alarms", alarms);
    let parts = memory_parts(&memory);
    let mut lines = vec![
        ("Total memory used", bytes(&node["mem_used"])),
        ("Calculation strategy", shown(&memory["strategy"])),
        ("Memory high watermark setting", bytes(&node["mem_limit"])),
    ];
    lines.extend(parts.iter().map(|(part, used, percent)| {
        let used = bytes(&Value::from(*used));
        (part.as_str(), format!("{used} ({percent:.2} %)"))
    }));
    section("Memory", lines);
    section(
        "Free Disk Space",
        vec![
            (
                "Low free disk space watermark",
                bytes(&node["disk_free_limit"]),
            ),
            ("Free disk space", bytes(&node["disk_free"])),
        ],
    );
    section(
        "File Descriptors",
        vec![(
            "Total",
            format!(
                "{}, limit: {}",
                shown(&node["fd_used"]),
                shown(&node["fd_total"])
            ),
        )],
    );
    let totals = &overview["object_totals"];
    section(
        "Totals",
        vec![
            ("Connection count", shown(&totals["connections"])),
            ("Queue count", shown(&totals["queues"])),
            ("Virtual host count", shown(&node["vhosts"])),
        ],
    );
    let listeners = own_listeners(&overview).into_iter();
    let listeners = listeners.map(|listener| describe_listener(&listener));
    section(
        "Listeners",
        listeners.map(|line| ("Interface", line)).collect(),
    );
    out.push_str(&damaged_queues(context));
    Ok(Output::Object(
        status_object(&overview, &nodes, &memory, cluster),
        out,
    ))
}

/// What the node that was asked listens on: the overview has the listeners of all nodes.
pub(crate) fn own_listeners(overview: &Value) -> Vec<Value> {
    let all = overview["listeners"].as_array().into_iter().flatten();
    let is_own = |listener: &&Value| listener["node"] == overview["node"];
    all.filter(is_own).cloned().collect()
}

/// The status for machines: RabbitMQ's fields, and the API's objects whole.
fn status_object(overview: &Value, nodes: &Value, memory: &Value, cluster: Option<Value>) -> Value {
    let node = &nodes[0];
    let alarms = alarms_of(nodes).into_iter();
    let alarms = alarms.filter(|(name, _)| *name == "Alarm");
    let totals = &overview["object_totals"];
    json!({
        "pid": node["os_pid"],
        "os": std::env::consts::OS,
        "erlang_version": super::diagnostics::NO_ERLANG,
        "release_series_support_status": overview["release_series_support_status"],
        "is_under_maintenance": node["being_drained"],
        "active_plugins": BUILT_IN,
        "enabled_plugin_file": node["enabled_plugins_file"].as_str().unwrap_or(""),
        "config_files": node["config_files"],
        "net_ticktime": node["net_ticktime"],
        "run_queue": node["run_queue"],
        "processes": {"limit": node["proc_total"], "used": node["proc_used"]},
        "file_descriptors": {
            "total_limit": node["fd_total"],
            "total_used": node["fd_used"],
            "sockets_limit": node["sockets_total"],
            "sockets_used": node["sockets_used"],
        },
        "uptime": node["uptime"].as_u64().unwrap_or(0) / 1_000,
        "product_name": overview["product_name"],
        "product_version": overview["product_version"],
        "rabbitmq_version": overview["rabbitmq_version"],
        "data_directory": node["db_dir"],
        "log_files": node["log_files"],
        "alarms": alarms.map(|(_, text)| text).collect::<Vec<_>>(),
        "listeners": own_listeners(overview),
        "totals": {
            "connection_count": totals["connections"],
            "queue_count": totals["queues"],
            "virtual_host_count": node["vhosts"],
        },
        "disk_free": node["disk_free"],
        "disk_free_limit": node["disk_free_limit"],
        "vm_memory_high_watermark_limit": node["mem_limit"],
        "overview": overview,
        "node": node,
        "memory": memory,
        "cluster": cluster,
    })
}

/// Units of sizes, by name, with how many bytes each is.
const UNITS: [(&str, u64); 9] = [
    ("bytes", 1),
    ("kb", 1_000),
    ("kib", 1 << 10),
    ("mb", 1_000_000),
    ("mib", 1 << 20),
    ("gb", 1_000_000_000),
    ("gib", 1 << 30),
    ("tb", 1_000_000_000_000),
    ("tib", 1 << 40),
];

/// The unit that `--unit` names for sizes; gigabytes where it does not.
pub(super) fn size_unit(context: &Context<'_>) -> Result<(&'static str, u64)> {
    let Some(name) = context.options.named("--unit") else {
        return Ok(UNITS[5]);
    };
    let known = UNITS
        .iter()
        .find(|(unit, _)| unit.eq_ignore_ascii_case(name));
    known.copied().ok_or_else(|| {
        let units: Vec<&str> = UNITS.iter().map(|(unit, _)| *unit).collect();
        Failure::usage(format!("--unit {name}: it is one of {}", units.join(", ")))
    })
}

/// So many bytes in a unit.
pub(super) fn in_unit(bytes: u64, (name, unit): (&str, u64)) -> String {
    match unit {
        1 => format!("{bytes} {name}"),
        _ => format!("{:.4} {name}", bytes as f64 / unit as f64),
    }
}

pub(super) fn describe_listener(listener: &Value) -> String {
    format!(
        "{}, port: {}, protocol: {}",
        show(&listener["ip_address"]),
        show(&listener["port"]),
        show(&listener["protocol"])
    )
}

/// The section about queues of which something cannot be read on the node that is asked; nothing
/// where there are none.
fn damaged_queues(context: &Context<'_>) -> String {
    let damage = context.target.get("/api/leveret/damage").ok();
    let rows = damage.as_ref().and_then(Value::as_array);
    let mut out = String::new();
    for row in rows.into_iter().flatten() {
        if out.is_empty() {
            out.push_str("Damaged Queues\n\n");
        }
        let (name, vhost, what) = (show(&row["name"]), show(&row["vhost"]), show(&row["what"]));
        let _ = writeln!(out, "queue '{name}' in vhost '{vhost}': {what}");
    }
    if !out.is_empty() {
        out.push('\n');
    }
    out
}

const NO_ALARMS: &str = "(none)";

/// The alarms of all nodes that have said how they are.
fn alarms_of(nodes: &Value) -> Vec<(&'static str, String)> {
    let mut alarms = Vec::new();
    for node in nodes.as_array().into_iter().flatten() {
        for (field, text) in [
            ("mem_alarm", "Memory alarm on node"),
            ("disk_free_alarm", "Free disk space alarm on node"),
        ] {
            if node[field] == true {
                alarms.push(("Alarm", format!("{text} {}", show(&node["name"]))));
            }
        }
    }
    match alarms.is_empty() {
        true => vec![(NO_ALARMS, String::new())],
        false => alarms,
    }
}

pub fn ping(context: &Context<'_>) -> Result<Output> {
    let name = context.target.name()?;
    context.banner(format!(
        "Will ping {name}. This only checks if the OS process is running and answers. Timeout: {} ms.",
        context.options.address.timeout.as_millis()
    ));
    context.target.get("/api/whoami")?;
    Ok(Output::Text("Ping succeeded".to_owned()))
}

/// Waits until `there` finds what is awaited, as long as `-t` allows; `missing` says what was not
/// there in time.
fn wait_for(
    context: &Context<'_>,
    missing: &str,
    there: impl Fn() -> std::result::Result<bool, CallError>,
) -> Result<Output> {
    let deadline = Instant::now() + context.options.address.timeout;
    loop {
        let not_yet = match there() {
            Ok(true) => return Ok(Output::Done),
            Ok(false) => missing.to_owned(),
            Err(CallError::Refused(status, text)) if status != 503 => {
                return Err(CallError::Refused(status, text).into());
            }
            Err(error) => format!("{missing}: {error}"),
        };
        if Instant::now() >= deadline {
            return Err(Failure::new(code::TEMPORARY, not_yet));
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Waits until the node serves clients.
pub fn await_startup(context: &Context<'_>) -> Result<Output> {
    let path = "/api/health/checks/ready-to-serve-clients";
    wait_for(context, "the node is not ready to serve clients", || {
        context.target.get(path).map(|_| true)
    })
}

/// Waits until so many nodes of the cluster run, seen from this one.
pub fn await_online_nodes(context: &Context<'_>) -> Result<Output> {
    let count: usize = context.argument(0).parse().map_err(|_| {
        Failure::usage(format!("\"{}\" is no number of nodes", context.argument(0)))
    })?;
    context.banner(format!("Will wait for {count} nodes to be online ..."));
    wait_for(context, &format!("not {count} nodes are online"), || {
        let nodes = context.target.get("/api/nodes")?;
        let nodes = nodes.as_array().into_iter().flatten();
        Ok(nodes.filter(|node| node["running"] == true).count() >= count)
    })
}

/// Waits until this node can go without taking the majority from a queue.
pub fn await_quorum_plus_one(context: &Context<'_>) -> Result<Output> {
    context.banner("Will wait for a quorum + 1 of nodes to be online for all quorum queues ...");
    let path = "/api/health/checks/node-is-quorum-critical";
    wait_for(context, "some quorum queues need this node", || {
        context.target.get(path).map(|_| true)
    })
}

fn application(context: &Context<'_>, running: bool) -> Result<Output> {
    let body = json!({"serving": running});
    context
        .target
        .call("PUT", "/api/leveret/serving", Some(&body))?;
    Ok(Output::Done)
}

pub fn start_app(context: &Context<'_>) -> Result<Output> {
    context.banner(format!("Starting node {} ...", context.target.name()?));
    application(context, true)
}

pub fn stop_app(context: &Context<'_>) -> Result<Output> {
    context.banner(format!(
        "Stopping rabbit application on node {} ...",
        context.target.name()?
    ));
    application(context, false)
}

pub fn set_memory_watermark(context: &Context<'_>) -> Result<Output> {
    let name = context.target.name()?;
    let bad = |what: String| Failure::new(code::DATA, format!("the memory watermark {what}"));
    let body = match (context.argument(0), context.arguments.get(1)) {
        ("absolute", Some(size)) => {
            let size = value::bytes(size, 0, u64::MAX).map_err(bad)?;
            context.banner(format!(
                "Setting memory threshold on {name} to {size} bytes ..."
            ));
            json!({"absolute": size})
        }
        (fraction, None) => {
            let fraction = fraction_argument(fraction, 1.0).map_err(bad)?;
            context.banner(format!(
                "Setting memory threshold on {name} to {fraction} ..."
            ));
            json!({"relative": fraction})
        }
        _ => return Err(Failure::usage("give a fraction, or: absolute <size>")),
    };
    let path = "/api/leveret/memory-watermark";
    context.target.call("PUT", path, Some(&body))?;
    Ok(Output::Done)
}

pub fn set_disk_limit(context: &Context<'_>) -> Result<Output> {
    let name = context.target.name()?;
    let bad = |what: String| Failure::new(code::DATA, format!("the disk limit {what}"));
    let body = match (context.argument(0), context.arguments.get(1)) {
        ("mem_relative", Some(fraction)) => {
            let fraction = fraction_argument(fraction, 100.0).map_err(bad)?;
            context.banner(format!(
                "Setting disk free limit on {name} to {fraction} times the total RAM ..."
            ));
            json!({"relative": fraction})
        }
        (size, None) => {
            let number = value::bytes(size, 0, u64::MAX).map_err(bad)?;
            context.banner(format!(
                "Setting disk free limit on {name} to {size} bytes ..."
            ));
            json!({"absolute": number})
        }
        _ => return Err(Failure::usage("give a size, or: mem_relative <fraction>")),
    };
    let path = "/api/leveret/disk-free-limit";
    context.target.call("PUT", path, Some(&body))?;
    Ok(Output::Done)
}

/// A fraction, or 0: that is how a test raises the memory alarm on purpose.
fn fraction_argument(text: &str, most: f64) -> std::result::Result<f64, String> {
    match text.parse::<f64>() {
        Ok(0.0) => Ok(0.0),
        _ => value::fraction(text, most),
    }
}

pub fn rebalance(context: &Context<'_>) -> Result<Output> {
    let kind = context.arguments.first().map_or("all", String::as_str);
    if !["all", "classic", "quorum", "stream"].contains(&kind) {
        return Err(Failure {
            code: code::UNAVAILABLE,
            text: format!("Error:\ntype {kind} is not supported: give all, classic or quorum"),
        });
    }
    context.banner("Rebalancing queue leaders ...");
    let patterns = super::cluster::patterns(context);
    let path = "/api/rebalance/queues";
    context.target.call("POST", path, Some(&patterns))?;
    Ok(Output::Done)
}

pub fn enable_feature_flag(context: &Context<'_>) -> Result<Output> {
    let name = context.argument(0);
    context.banner(format!("Enabling feature flag \"{name}\" ..."));
    // Every feature is there from the start: to enable all is to do nothing.
    if name != "all" {
        let path = format!("/api/feature-flags/{}/enable", segment(name));
        context.target.call("PUT", &path, Some(&json!({})))?;
    }
    Ok(Output::Done)
}

pub fn version(_: &Context<'_>) -> Result<Output> {
    Ok(Output::Text(env!("CARGO_PKG_VERSION").to_owned()))
}

pub fn server_version(context: &Context<'_>) -> Result<Output> {
    context.banner(format!(
        "Asking node {} for its RabbitMQ version...",
        context.target.name()?
    ));
    let overview = context.target.get("/api/overview")?;
    Ok(Output::Text(show(&overview["rabbitmq_version"])))
}

/// A health check of the API: its reason, if it fails, is the failure.
pub fn check(context: &Context<'_>, banner: &str, path: &str, good: &str) -> Result<Output> {
    let name = context.target.name()?;
    context.banner(format!("{banner} on node {name} ..."));
    check_quietly(context, path, good.replace("{node}", &name))
}

/// The same without a line before the result.
fn check_quietly(context: &Context<'_>, path: &str, good: String) -> Result<Output> {
    match context.target.get(&format!("/api/health/checks/{path}")) {
        Ok(_) => Ok(Output::Text(good)),
        Err(CallError::Refused(503, reason)) => Err(Failure {
            code: code::UNAVAILABLE,
            text: format!("Error:\n{reason}"),
        }),
        Err(other) => Err(other.into()),
    }
}

pub fn check_running(context: &Context<'_>) -> Result<Output> {
    let name = context.target.name()?;
    context.banner(format!(
        "Checking if RabbitMQ is running on node {name} ..."
    ));
    is_running(context)
}

pub fn check_local_alarms(context: &Context<'_>) -> Result<Output> {
    let good = "Node {node} reported no local alarms";
    check(
        context,
        "Asking for local resource alarms",
        "local-alarms",
        good,
    )
}

pub fn check_alarms(context: &Context<'_>) -> Result<Output> {
    let unknown = super::cluster::unreached(context)?;
    let good = format!("Node {{node}} reported no alarms, local or clusterwide{unknown}");
    check(context, "Asking for resource alarms", "alarms", &good)
}

pub fn check_virtual_hosts(context: &Context<'_>) -> Result<Output> {
    let good = "Node {node} reported all vhosts as running";
    check(
        context,
        "Checking if all vhosts are running",
        "virtual-hosts",
        good,
    )
}

pub fn check_port_listener(context: &Context<'_>) -> Result<Output> {
    let port = context.argument(0);
    let good = format!("A listener for port {port} is running on node {{node}}.");
    let banner = format!("Asking if there is a listener on port {port}");
    let path = format!("port-listener/{}", segment(port));
    check(context, &banner, &path, &good)
}

pub fn check_protocol_listener(context: &Context<'_>) -> Result<Output> {
    let protocol = context.argument(0);
    let good = format!("A listener for protocol '{protocol}' is running on node {{node}}.");
    let banner = format!("Asking if there is a listener for protocol {protocol}");
    let path = format!("protocol-listener/{}", segment(protocol));
    check(context, &banner, &path, &good)
}

/// Connects to every listener that the node says it has. One that takes no clients fails: its
/// connections end at once.
pub fn check_port_connectivity(context: &Context<'_>) -> Result<Output> {
    let name = context.target.name()?;
    context.banner(format!(
        "Testing TCP connections to all active listeners on node {name} ..."
    ));
    let overview = context.target.get("/api/overview")?;
    for listener in own_listeners(&overview) {
        let ip = listener["ip_address"]
            .as_str()
            .and_then(|ip| ip.parse().ok());
        let port = listener["port"]
            .as_u64()
            .and_then(|p| u16::try_from(p).ok());
        let Some(address) = ip.zip(port).map(|(ip, port)| SocketAddr::new(ip, port)) else {
            continue;
        };
        let address = crate::cli::node_file::reachable(address);
        if let Err(error) = TcpStream::connect_timeout(&address, context.options.address.timeout) {
            let text = format!("connection to {address} of node {name} failed: {error}");
            return Err(Failure::new(code::UNAVAILABLE, text));
        }
    }
    let good = format!("Successfully connected to all ports on node {name}.");
    check_quietly(context, "is-in-service", good)
}

pub fn is_running(context: &Context<'_>) -> Result<Output> {
    let name = context.target.name()?;
    let good = format!("RabbitMQ on node {name} is fully booted and running");
    let path = "/api/health/checks/ready-to-serve-clients";
    let answer = context.target.ask("GET", path, &[], None)?;
    // Probes have a node restarted that fails here, which would end its maintenance.
    if answer.status == 503 && answer.json()["maintenance"] == true {
        let text = format!("{good}; it is in maintenance and takes no clients");
        return Ok(Output::Text(text));
    }
    check_quietly(context, "ready-to-serve-clients", good)
}

pub fn listeners(context: &Context<'_>) -> Result<Output> {
    context.banner(format!(
        "Asking node {} to report its protocol listeners ...",
        context.target.name()?
    ));
    let overview = context.target.get("/api/overview")?;
    let listeners = own_listeners(&overview);
    let lines: Vec<_> = listeners
        .iter()
        .map(|l| format!("Interface: {}", describe_listener(l)))
        .collect();
    let object = |l: &Value| {
        json!({"node": l["node"], "interface": l["ip_address"], "port": l["port"],
            "protocol": l["protocol"], "purpose": l["protocol"]})
    };
    let objects: Vec<Value> = listeners.iter().map(object).collect();
    let node = context.target.name()?;
    let object = json!({"result": "ok", "node": node, "listeners": objects});
    Ok(Output::Object(object, lines.join("\n")))
}

/// `enable` and `set`: what is part of the broker is enabled, and nothing else can be.
pub fn enable_plugins(context: &Context<'_>) -> Result<Output> {
    if context.command == "enable" && !context.options.has("--all") {
        check_plugins(context)?;
    }
    let unknown: Vec<&str> = context
        .arguments
        .iter()
        .map(String::as_str)
        .filter(|name| !BUILT_IN.contains(name))
        .collect();
    if !unknown.is_empty() {
        let text = format!(
            "The following plugins could not be found: {}. What this broker does is in it; \
             `rabbitmq-plugins list` names it.",
            unknown.join(", ")
        );
        return Err(Failure::new(code::DATA, text));
    }
    plugins(context)
}

/// `disable`: what the broker does not have is off, and what it has cannot be turned off.
pub fn disable_plugins(context: &Context<'_>) -> Result<Output> {
    if context.options.has("--all") {
        let text = "plugins are part of the broker and cannot be turned off";
        return Err(Failure::new(code::SOFTWARE, text));
    }
    check_plugins(context)?;
    let known = |name: &&String| BUILT_IN.contains(&name.as_str());
    match context.arguments.iter().find(known) {
        Some(name) => Err(Failure::new(
            code::SOFTWARE,
            format!("{name} is part of the broker and cannot be turned off"),
        )),
        None => plugins(context),
    }
}

/// A plugin is named, or all are meant.
fn check_plugins(context: &Context<'_>) -> Result<()> {
    match context.arguments.is_empty() {
        true => Err(Failure::usage("name a plugin, or give --all")),
        false => Ok(()),
    }
}

fn plugins(context: &Context<'_>) -> Result<Output> {
    context.banner("Plugins are part of the broker here: there is nothing to turn on or off.");
    Ok(Output::Done)
}
