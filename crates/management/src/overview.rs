//! `/api/overview`, `/api/nodes`, and other answers about the node as a whole.

use crate::api::{BrokerStats, Listener, NodeStats};
use crate::app::App;
use crate::attempts;
use crate::client_lists;
use crate::history;
use crate::history::ranges::{Part, Ranges};
use crate::history::rates::{NODE_FIELDS, Subject};
use crate::history::vhost_sums;
use crate::http::input::{Body, Query};
use crate::http::reply::{ApiError, Reply, merge};
use crate::http::router::Call;
use crate::message_stats::{CHURN, LATENCIES, depths, message_stats, node_fields};
use crate::peers;
use crate::question::Question;
use crate::rabbitmq_only_fields;
use crate::selection::Kind;
use base64::Engine;
use serde_json::{Map, Value, json};
use std::path::PathBuf;
use std::time::Instant;

pub use leveret_types::RABBITMQ_VERSION;

/// Leveret's own version.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

type Answer = Result<Reply, ApiError>;

/// The counters of this node, each with its rate.
fn own_counters(app: &App, node: &NodeStats, broker: &BrokerStats, ranges: &Ranges) -> Value {
    let fields = node_fields(node, broker, app.lately().p99_ms());
    let rates = app
        .rates
        .node
        .of((), fields.map(|(_, count)| count), Instant::now());
    let mut counters = counters_at(fields, rates);
    history::write(app, Subject::Node, ranges, &[Part::Node], &mut counters);
    counters
}

fn counters_at(fields: [(&str, u64); NODE_FIELDS], rates: [f64; NODE_FIELDS]) -> Value {
    let mut out = Map::new();
    for ((name, count), rate) in fields.into_iter().zip(rates) {
        out.insert(name.to_owned(), count.into());
        out.insert(format!("{name}_details"), json!({"rate": rate}));
    }
    Value::Object(out)
}

/// Some of a node's counters, each with its rate.
fn some_of(counters: &Value, names: &[&str]) -> Value {
    let mut out = Map::new();
    for name in names {
        for field in [(*name).to_owned(), format!("{name}_details")] {
            let value = counters[&field].clone();
            out.insert(field, value);
        }
    }
    Value::Object(out)
}

fn listener_json(node: &str, listener: &Listener) -> Value {
    json!({
        "node": node,
        "protocol": listener.protocol,
        "ip_address": listener.address.ip().to_string(),
        "port": listener.address.port(),
        "tls": listener.protocol.contains("/ssl") || listener.protocol.starts_with("https"),
        "socket_opts": {"backlog": 128, "nodelay": true, "linger": [true, 0], "exit_on_close": false},
    })
}

/// The parts of `/api/overview` that are the sums, or the lists, of all nodes'.
const SUMMED: [&str; 7] = [
    "message_stats",
    "queue_totals",
    "object_totals",
    "churn_rates",
    "latencies",
    "listeners",
    "contexts",
];

/// This node's part of [`SUMMED`].
pub fn own_overview(app: &App, ranges: &Ranges) -> Value {
    let (node, broker) = (app.node().node_stats(), app.node().broker_stats());
    let (mut depth, mut ready, mut unacknowledged) = (0, 0, 0);
    app.node().depths(&mut |_, [all, waiting, held]| {
        depth += all;
        ready += waiting;
        unacknowledged += held;
    });
    let listeners = node.listeners.iter().map(|l| listener_json(&node.name, l));
    let mut counters = own_counters(app, &node, &broker, ranges);
    let mut messages = json!({
        "message_stats": message_stats(app, Subject::Node, &broker.all_messages()),
    });
    let mut totals = depths(app, Subject::Node, [depth, ready, unacknowledged]);
    history::write(app, Subject::Node, ranges, &[Part::Messages], &mut messages);
    history::write(app, Subject::Node, ranges, &[Part::Lengths], &mut totals);
    history::write(app, Subject::Node, ranges, &[Part::Churn], &mut counters);
    let mut messages = messages["message_stats"].take();
    for (name, counter) in [
        ("disk_reads", "io_read_count"),
        ("disk_writes", "io_write_count"),
    ] {
        for suffix in ["", "_details"] {
            messages[format!("{name}{suffix}")] = counters[format!("{counter}{suffix}")].clone();
        }
    }
    json!({
        "message_stats": messages,
        "queue_totals": totals,
        "object_totals": {
            "channels": broker.open.channels,
            "connections": broker.open.connections,
            "consumers": broker.open.consumers,
        },
        "churn_rates": some_of(&counters, &CHURN),
        "latencies": some_of(&counters, &LATENCIES),
        "listeners": listeners.collect::<Value>(),
        "contexts": contexts(&node),
    })
}

/// The same parts, of all nodes, as far as somebody sees what is summed up who does not see all.
fn visible_overview(call: &Call<'_>, ranges: &Ranges) -> Value {
    let (queues, mut sums) = vhost_sums::visible(call, ranges);
    let is_seen = |vhost: &str| call.app.sees(call.who, vhost);
    let vhosts = call.app.node().vhosts().into_iter();
    let vhosts = vhosts.filter(|vhost| is_seen(&vhost.name));
    let exchanges = vhosts.map(|vhost| call.app.node().exchange_count(&vhost.name));
    sums["object_totals"] = json!({
        "channels": client_lists::count(call, Kind::Channels),
        "connections": client_lists::count(call, Kind::Connections),
        "consumers": client_lists::count(call, Kind::Consumers),
        "exchanges": exchanges.sum::<usize>(),
        "queues": queues,
    });
    // These are the node's.
    let none = node_fields(&NodeStats::default(), &BrokerStats::default(), [0; 3]);
    let none = counters_at(none, [0.0; NODE_FIELDS]);
    sums["churn_rates"] = some_of(&none, &CHURN);
    sums["latencies"] = some_of(&none, &LATENCIES);
    sums["listeners"] = json!([]);
    sums["contexts"] = json!([]);
    sums
}

/// `GET /api/overview`
pub fn overview(call: &Call<'_>) -> Answer {
    let app = call.app;
    let node = app.node().node_stats();
    let counts = app.counts();
    let ranges = Ranges::of(&call.query)?;
    let sums = match call.who.is_monitor() {
        true => {
            let mut sums = own_overview(app, &ranges);
            for (_, part) in peers::ask(app, &Question::Overview { ranges }) {
                peers::add(&mut sums, &peers::pick(&part, &SUMMED));
            }
            sums["object_totals"]["exchanges"] = counts.exchanges.into();
            sums["object_totals"]["queues"] = counts.queues.into();
            sums
        }
        false => visible_overview(call, &ranges),
    };
    let mut overview = json!({
        "management_version": RABBITMQ_VERSION,
        "rates_mode": "basic",
        "sample_retention_policies": retention(app),
        "exchange_types": exchange_types(),
        "product_name": "Leveret",
        "product_version": VERSION,
        "rabbitmq_version": RABBITMQ_VERSION,
        "cluster_name": node.cluster_name,
        "cluster_tags": tags_json(&node.tags[0]),
        "node_tags": tags_json(&node.tags[1]),
        "erlang_version": "0",
        "erlang_full_version": "none: written in Rust",
        "crypto_lib_version": "rustls",
        "require_definition_json_extension": false,
        "default_queue_type": app.node().default_queue_type(),
        "release_series_support_status": "supported",
        "disable_stats": !app.samples().are_taken(),
        "enable_queue_totals": true,
        "is_op_policy_updating_enabled": true,
        "node": node.name,
        "statistics_db_event_queue": 0,
    });
    merge(&mut overview, sums);
    Ok(Reply::Json(crate::list_query::one(overview, &call.query)))
}

fn tags_json(tags: &[(String, String)]) -> Value {
    let tags = tags.iter().map(|(tag, is)| (tag.clone(), json!(is)));
    Value::Object(tags.collect())
}

/// A SASL mechanism as RabbitMQ describes it.
fn mechanism_json(name: &&str) -> Value {
    let description = match *name {
        "PLAIN" => "SASL PLAIN authentication mechanism",
        "AMQPLAIN" => "QPid AMQPLAIN mechanism",
        "EXTERNAL" => "SASL EXTERNAL authentication mechanism (client certificates)",
        "ANONYMOUS" => "SASL ANONYMOUS authentication mechanism",
        _ => "",
    };
    json!({"name": name, "description": description, "enabled": true})
}

/// For how many seconds samples are kept.
fn retention(app: &App) -> Value {
    let kept = match app.samples().are_taken() {
        true => json!([3_600, 86_400]),
        false => json!([]),
    };
    json!({"global": kept, "basic": kept, "detailed": kept})
}

fn contexts(node: &NodeStats) -> Value {
    let http = node
        .listeners
        .iter()
        .filter(|l| l.protocol.starts_with("http"));
    http.map(|l| {
        let is_metrics = l.protocol.ends_with("/prometheus");
        let description = if is_metrics {
            "RabbitMQ Prometheus"
        } else {
            "RabbitMQ Management"
        };
        json!({
            "node": node.name,
            "description": description,
            "ssl_opts": [],
            "cowboy_opts": "[]",
            "protocol": if l.protocol.starts_with("https") { "https" } else { "http" },
            "path": "/",
            "ip": l.address.ip().to_string(),
            "port": l.address.port().to_string(),
        })
    })
    .collect()
}

fn exchange_types() -> Value {
    let kinds = [
        "direct",
        "fanout",
        "topic",
        "headers",
        "x-consistent-hash",
        "x-modulus-hash",
        "x-random",
        "x-local-random",
        "x-recent-history",
        "x-delayed-message",
    ];
    kinds
        .iter()
        .map(|kind| json!({"name": kind, "description": "", "enabled": true}))
        .collect()
}

fn node_json(app: &App, node: &NodeStats, counters: Value) -> Value {
    let mut json = rabbitmq_only_fields::of_node();
    let known = json!({
        "name": node.name,
        "type": "disc",
        "running": true,
        "being_drained": !node.serving,
        "os_pid": node.os_pid.to_string(),
        "uptime": node.uptime_ms,
        "processors": node.cores,
        "run_queue": 0,
        "fd_total": node.descriptors.max,
        "sockets_total": node.descriptors.max,
        "proc_used": 0,
        "proc_used_details": {"rate": 0.0},
        "proc_total": 0,
        "mem_limit": node.memory.limit_bytes,
        "mem_alarm": node.memory.alarm,
        "mem_calculation_strategy": "rss",
        "disk_free_limit": node.disk.limit_bytes,
        "disk_free_alarm": node.disk.alarm,
    });
    merge(&mut json, counters);
    merge(&mut json, known);
    merge(&mut json, node_details(app, node));
    json
}

fn node_details(app: &App, node: &NodeStats) -> Value {
    let paths = |files: &[PathBuf]| -> Value {
        let shown = files.iter().map(|file| file.display().to_string());
        shown.collect()
    };
    let applications = json!([{"name": "leveret", "description": "Leveret", "version": VERSION}]);
    json!({
        "io_sync_avg_time": mean_ms(node.io.sync_us, node.io.syncs),
        "io_write_avg_time": mean_ms(node.io.write_us, node.io.writes),
        "io_read_avg_time": mean_ms(node.io.read_us, node.io.reads),
        "io_sync_avg_time_details": {"rate": 0.0},
        "io_write_avg_time_details": {"rate": 0.0},
        "io_read_avg_time_details": {"rate": 0.0},
        "rabbitmq_version": RABBITMQ_VERSION,
        "erlang_version": "0",
        "erlang_full_version": "none: written in Rust",
        "crypto_lib_version": "rustls",
        "db_dir": node.files.data.display().to_string(),
        "log_files": paths(&node.files.logs),
        "config_files": paths(&node.files.config),
        "enabled_plugins": node.plugins,
        "auth_mechanisms": node.mechanisms.iter().map(mechanism_json).collect::<Value>(),
        "exchange_types": exchange_types(),
        "applications": applications,
        "contexts": contexts(node),
        "partitions": [],
        "cluster_links": [],
        "net_ticktime": 0,
        "rates_mode": "basic",
        "vhosts": app.counts().vhosts,
    })
}

fn mean_ms(us: u64, count: u64) -> f64 {
    if count == 0 {
        return 0.0;
    }
    us as f64 / count as f64 / 1_000.0
}

/// This node as the API shows it.
pub fn own_node(app: &App, ranges: &Ranges) -> Value {
    let (node, broker) = (app.node().node_stats(), app.node().broker_stats());
    let counters = own_counters(app, &node, &broker, ranges);
    node_json(app, &node, counters)
}

/// Whether the cluster has a node of this name.
pub fn knows_node(app: &App, name: &str) -> bool {
    let cluster = app.node().cluster();
    let mut others = cluster.iter().flat_map(|cluster| &cluster.nodes);
    app.node().name() == name || others.any(|node| node.name == name)
}

/// `GET /api/nodes`
pub fn nodes(call: &Call<'_>) -> Answer {
    let ranges = Ranges::of(&call.query)?;
    let mut nodes = vec![own_node(call.app, &ranges)];
    nodes.extend(others(call.app, &ranges));
    crate::list_query::list_of(nodes, &call.query)
}

/// All nodes of the cluster, this one first.
pub(crate) fn all_nodes(app: &App) -> Vec<Value> {
    let ranges = Ranges::default();
    let mut nodes = vec![own_node(app, &ranges)];
    nodes.extend(others(app, &ranges));
    nodes
}

/// The other nodes of the cluster, as they tell of themselves; of one that is down only that.
fn others(app: &App, ranges: &Ranges) -> Vec<Value> {
    let Some(cluster) = app.node().cluster() else {
        return Vec::new();
    };
    let mut told = peers::ask(app, &Question::Node { ranges: *ranges });
    let others = cluster
        .nodes
        .iter()
        .filter(|node| node.number != cluster.own);
    others
        .map(|node| {
            let at = told.iter().position(|(from, _)| from.0 == node.number);
            let told = at.map_or_else(|| json!({}), |at| told.swap_remove(at).1);
            let known = json!({
                "name": node.name,
                "type": "disc",
                "running": node.up,
                "being_drained": node.draining,
            });
            let nothing = (NodeStats::default(), BrokerStats::default());
            let counters = counters_at(
                node_fields(&nothing.0, &nothing.1, [0; 3]),
                [0.0; NODE_FIELDS],
            );
            let mut shape = node_json(app, &nothing.0, counters);
            match told.as_object().is_some_and(|told| !told.is_empty()) {
                true => merge(&mut shape, told),
                false => shape = json!({}),
            }
            merge(&mut shape, known);
            shape
        })
        .collect()
}

/// `GET /api/nodes/{name}`
pub fn node(call: &Call<'_>) -> Answer {
    let own = call.app.node().node_stats();
    let ranges = Ranges::of(&call.query)?;
    let mut json = match own.name == call.param(0) {
        true => own_node(call.app, &ranges),
        false => {
            let mut others = others(call.app, &ranges).into_iter();
            let found = others.find(|node| node["name"] == call.param(0));
            found.ok_or(ApiError::NotFound)?
        }
    };
    if call.query.flag("memory") {
        json["memory"] = memory_of(call)?["memory"].take();
    }
    if call.query.flag("binary") {
        json["binary"] = json!({});
    }
    Ok(Reply::Json(crate::list_query::one(json, &call.query)))
}

/// `GET /api/nodes/{name}/memory`
pub fn node_memory(call: &Call<'_>) -> Answer {
    memory_of(call).map(Reply::Json)
}

/// `GET /api/nodes/{name}/memory/relative`: the same in percent of the whole.
pub fn node_memory_relative(call: &Call<'_>) -> Answer {
    let mut memory = memory_of(call)?;
    let parts = memory["memory"].as_object_mut();
    let mut parts = parts.map(std::mem::take).unwrap_or_default();
    parts.remove("strategy");
    parts.remove("total");
    let whole: u64 = parts.values().filter_map(Value::as_u64).sum();
    let percent = |bytes: &Value| {
        let bytes = bytes.as_u64().unwrap_or(0);
        (bytes * 100).div_ceil(whole.max(1))
    };
    let mut relative: Map<String, Value> = parts
        .iter()
        .map(|(part, bytes)| (part.clone(), percent(bytes).into()))
        .collect();
    relative.insert("total".to_owned(), 100.into());
    Ok(Reply::Json(json!({"memory": relative})))
}

/// `GET /api/nodes/{name}/memory/ets` and below: there are no tables of Erlang's.
pub fn node_memory_ets(call: &Call<'_>) -> Answer {
    match knows_node(call.app, call.param(0)) {
        true => Ok(Reply::Json(json!({"ets_tables_memory": "no_tables"}))),
        false => Err(ApiError::NotFound),
    }
}

fn memory_of(call: &Call<'_>) -> Result<Value, ApiError> {
    let app = call.app;
    if app.node().name() == call.param(0) {
        return Ok(own_memory(app));
    }
    let cluster = app.node().cluster().ok_or(ApiError::NotFound)?;
    let mut nodes = cluster.nodes.iter();
    let named = nodes.find(|node| node.name == call.param(0));
    let named = named.ok_or(ApiError::NotFound)?;
    let mut told = peers::ask(app, &Question::Memory).into_iter();
    let told = told.find(|(from, _)| from.0 == named.number);
    // As RabbitMQ answers for a node that does not.
    let mut memory = told.map_or_else(|| json!({"memory": "not_available"}), |(_, told)| told);
    if memory["memory"].is_object() {
        let mut whole = no_memory();
        merge(&mut whole, memory["memory"].take());
        memory["memory"] = whole;
    }
    Ok(memory)
}

/// Where this node's memory is, in RabbitMQ's words for its parts; together they are what is
/// resident.
pub fn own_memory(app: &App) -> Value {
    let memory = app.node().memory();
    let code = memory.program_bytes.min(memory.resident_bytes);
    let mut left = memory.resident_bytes - code;
    let mut take = |bytes: u64| {
        let taken = bytes.min(left);
        left -= taken;
        taken
    };
    let live = take(memory.live_bytes);
    let unused = take(memory.unused_bytes);
    let counted = [
        ("binary", memory.bodies_bytes),
        ("msg_index", memory.index_bytes),
        ("queue_procs", memory.classic_queue_bytes),
        ("quorum_queue_procs", memory.quorum_queue_bytes),
        ("connection_writers", memory.unsent_bytes),
    ];
    let mut json = no_memory();
    let mut others = live;
    for (part, bytes) in counted {
        let bytes = bytes.min(others);
        others -= bytes;
        json[part] = bytes.into();
    }
    // Connections, the catalogue, figures.
    json["other_proc"] = others.into();
    json["code"] = code.into();
    json["allocated_unused"] = unused.into();
    // Stacks, and what the kernel gives by the page.
    json["other_system"] = left.into();
    json["strategy"] = "rss".into();
    json["total"] = json!({
        "rss": memory.resident_bytes,
        "allocated": live + unused,
        "erlang": live,
    });
    json!({"memory": json})
}

fn no_memory() -> Value {
    let parts = MEMORY_PARTS
        .iter()
        .map(|part| ((*part).to_owned(), json!(0)));
    Value::Object(parts.collect())
}

/// Parts into which RabbitMQ divides memory: clients want each of them to be there.
const MEMORY_PARTS: [&str; 25] = [
    "connection_readers",
    "connection_writers",
    "connection_channels",
    "connection_other",
    "queue_procs",
    "quorum_queue_procs",
    "quorum_queue_dlx_procs",
    "stream_queue_procs",
    "stream_queue_replica_reader_procs",
    "stream_queue_coordinator_procs",
    "plugins",
    "metadata_store",
    "other_proc",
    "metrics",
    "mgmt_db",
    "mnesia",
    "quorum_ets",
    "metadata_store_ets",
    "other_ets",
    "binary",
    "msg_index",
    "code",
    "atom",
    "allocated_unused",
    "reserved_unallocated",
];

/// A list of what this broker does not have: always empty.
pub fn none(_: &Call<'_>) -> Answer {
    Ok(Reply::Json(json!([])))
}

/// `GET /api/version`
pub fn version(_: &Call<'_>) -> Answer {
    Ok(Reply::Json(json!(RABBITMQ_VERSION)))
}

/// `GET /api/config/effective`
pub fn configuration(call: &Call<'_>) -> Answer {
    let keys = call.app.node().configuration();
    let keys = keys
        .iter()
        .map(|(key, value)| json!({"key": key, "value": value}));
    Ok(Reply::Json(keys.collect()))
}

/// `GET /api/extensions`
pub fn extensions(_: &Call<'_>) -> Answer {
    Ok(Reply::Json(json!([])))
}

/// `GET /api/cluster-name`
pub fn cluster_name(call: &Call<'_>) -> Answer {
    let name = call.app.node().node_stats().cluster_name;
    Ok(Reply::Json(json!({"name": name})))
}

/// `GET /api/whoami`
pub fn whoami(call: &Call<'_>) -> Answer {
    Ok(Reply::Json(who_json(call)))
}

fn who_json(call: &Call<'_>) -> Value {
    let tags: Vec<&str> = match call.who {
        crate::access::Who::User { tags, .. } => tags.iter().map(String::as_str).collect(),
        _ => vec!["administrator"],
    };
    json!({
        "name": call.who.name(),
        "tags": tags,
        "is_internal_user": true,
        "login_session_timeout": call.app.session_minutes,
    })
}

/// `GET /api/auth`
pub fn auth(_: &Call<'_>) -> Answer {
    Ok(Reply::Json(json!({
        "oauth_enabled": false,
        "enable_uaa": false,
        "uaa_client_id": "",
        "uaa_location": "",
    })))
}

/// The name and password of a login, as a form or as JSON.
pub(crate) fn login_form(bytes: &[u8], kind: &str) -> Result<(String, String), ApiError> {
    if kind.contains("json") {
        let body = Body::parse(bytes)?;
        return Ok((
            body.text("username")?.to_owned(),
            body.text("password")?.to_owned(),
        ));
    }
    let form = std::str::from_utf8(bytes).unwrap_or_default();
    let form = Query::parse(form)?;
    let field = |name: &str| {
        let missing = || ApiError::BadRequest(format!("the form has no \"{name}\""));
        form.get(name).map(str::to_owned).ok_or_else(missing)
    };
    Ok((field("username")?, field("password")?))
}

/// `POST /api/login`: whether a name and password are good for the API; the server has checked
/// them. No session comes of it, and no cookie, by which other pages could act for the user: the
/// token is what each request brings in its header `Authorization`.
pub fn login(call: &Call<'_>) -> Answer {
    crate::access::permit(crate::access::Access::Management, call.who, true)?;
    let (user, password) = login_form(call.bytes, &call.content_type)?;
    let engine = base64::engine::general_purpose::STANDARD;
    let token = engine.encode(format!("{user}:{password}"));
    let json = json!({"user": who_json(call), "token": {"type": "basic", "value": token}});
    Ok(Reply::Json(json))
}

/// `DELETE /api/login`: there is no session to end.
pub fn logout(_: &Call<'_>) -> Answer {
    Ok(Reply::Done)
}

/// `DELETE /api/reset` and `/{node}`: the rates of all nodes that answer, or of the one that is
/// named, begin anew.
pub fn reset(call: &Call<'_>) -> Answer {
    let Some(node) = call.params.first() else {
        call.app.rates.forget();
        peers::ask(call.app, &Question::ForgetRates { node: None });
        return Ok(Reply::Done);
    };
    let own = |app: &App| {
        app.rates.forget();
        Value::Bool(true)
    };
    let question = Question::ForgetRates {
        node: Some(node.clone()),
    };
    attempts::at(call, own, &question).map(|_| Reply::Done)
}

/// Forgets this node's rates, if it is meant.
pub(crate) fn reset_own(app: &App, node: Option<&str>) -> Value {
    match node.is_none_or(|node| app.node().name() == node) {
        true => {
            app.rates.forget();
            json!(true)
        }
        false => Value::Null,
    }
}

/// Features that clients test for: all of them are there from the start.
const FEATURE_FLAGS: [&str; 28] = [
    "classic_mirrored_queue_version",
    "classic_queue_type_delivery_support",
    "detailed_queues_endpoint",
    "direct_exchange_routing_v2",
    "drop_unroutable_metric",
    "empty_basic_get_metric",
    "feature_flags_v2",
    "implicit_default_bindings",
    "khepri_db",
    "listener_records_in_ets",
    "maintenance_mode_status",
    "message_containers",
    "message_containers_deaths_v2",
    "quorum_queue",
    "quorum_queue_non_voters",
    "rabbitmq_4.0.0",
    "rabbitmq_4.1.0",
    "rabbitmq_4.2.0",
    "rabbitmq_4.3.0",
    "restart_streams",
    "stream_filtering",
    "stream_queue",
    "stream_sac_coordinator_unblock_group",
    "stream_single_active_consumer",
    "stream_update_config_command",
    "tracking_records_in_ets",
    "user_limits",
    "virtual_host_metadata",
];

/// `GET /api/feature-flags`
pub fn feature_flags(_: &Call<'_>) -> Answer {
    let flag = |name: &&str| {
        json!({
            "name": name,
            "desc": "",
            "doc_url": "",
            "state": "enabled",
            "stability": "required",
            "require_level": "hard",
            "experiment_level": "unsupported",
            "callbacks": [],
            "provided_by": "leveret",
        })
    };
    Ok(Reply::Json(FEATURE_FLAGS.iter().map(flag).collect()))
}

/// `PUT /api/feature-flags/{name}/enable`
pub fn enable_feature_flag(call: &Call<'_>) -> Answer {
    if FEATURE_FLAGS.contains(&call.param(0)) {
        return Ok(Reply::Done);
    }
    let text = format!("there is no feature flag '{}'", call.param(0));
    Err(ApiError::BadRequest(text))
}

/// `GET /api/deprecated-features`
pub fn deprecated_features(_: &Call<'_>) -> Answer {
    Ok(Reply::Json(json!([])))
}
