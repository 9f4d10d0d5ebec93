//! Health checks, and the node's own controls.

use crate::api::{
    AfterGet, Get, Level, Listener, LoginVerdict, NodeStats, Publish, Taken, Topology,
};
use crate::history::ranges::Ranges;
use crate::http::input::Body;
use crate::http::reply::{ApiError, Reply, merge};
use crate::http::router::Call;
use crate::peers;
use crate::question::Question;
use crate::{list_query, overview};
use leveret_types::FieldTable;
use serde_json::{Value, json};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::Ordering;
use std::time::{SystemTime, UNIX_EPOCH};

type Answer = Result<Reply, ApiError>;

fn well() -> Answer {
    Ok(Reply::Json(json!({"status": "ok"})))
}

fn unwell(reason: impl Into<String>, details: Value) -> Answer {
    let mut json = json!({"status": "failed", "reason": reason.into()});
    merge(&mut json, details);
    Ok(Reply::Unwell(json))
}

/// `GET /api/health/checks/alarms`: those of all nodes that answer.
pub fn alarms(call: &Call<'_>) -> Answer {
    let app = call.app;
    let mut alarms = alarms_of(&overview::own_node(app, &Ranges::default()));
    let ranges = Ranges::default();
    for (_, node) in peers::ask(app, &Question::Node { ranges }) {
        alarms.extend(alarms_of(&node));
    }
    alarmed(alarms)
}

/// `GET /api/health/checks/local-alarms`
pub fn local_alarms(call: &Call<'_>) -> Answer {
    alarmed(alarms_of(&overview::own_node(call.app, &Ranges::default())))
}

/// The alarms of a node, from its row in `/api/nodes`.
fn alarms_of(node: &Value) -> Vec<Value> {
    let alarms = [("mem_alarm", "memory"), ("disk_free_alarm", "disk")];
    let set = alarms.iter().filter(|(field, _)| node[*field] == true);
    set.map(|(_, resource)| json!({"node": node["name"], "resource": resource}))
        .collect()
}

fn alarmed(alarms: Vec<Value>) -> Answer {
    if alarms.is_empty() {
        return well();
    }
    let resources: Vec<_> = alarms
        .iter()
        .filter_map(|a| {
            Some(format!(
                "{} on {}",
                a["resource"].as_str()?,
                a["node"].as_str()?
            ))
        })
        .collect();
    let reason = format!("resource alarm in effect: {}", resources.join(", "));
    unwell(reason, json!({"alarms": alarms}))
}

/// Whether the node takes clients: not while it starts or stops, nor after `stop_app`, nor once its
/// cluster has forgotten it.
pub fn in_service(call: &Call<'_>) -> Answer {
    let node = call.app.node().node_stats();
    if node.forgotten {
        return unwell(
            "the cluster has forgotten this node: stop it; with an empty data folder it joins anew",
            json!({"forgotten": true}),
        );
    }
    if node.serving {
        return well();
    }
    if call.app.in_maintenance.load(Ordering::Relaxed) {
        return unwell(
            "the node does not take clients: it is in maintenance (`rabbitmq-upgrade drain`), until \
             `rabbitmq-upgrade revive`",
            json!({"maintenance": true}),
        );
    }
    unwell(
        "the node does not take clients: it starts, stops, or was told `stop_app`",
        json!({}),
    )
}

/// `GET /api/health/checks/ready-to-serve-clients`: a client that connects now is let in.
pub fn ready_for_clients(call: &Call<'_>) -> Answer {
    let node = call.app.node().node_stats();
    if !node.serving {
        return in_service(call);
    }
    if !active(&node).any(|l| l.protocol.starts_with("amqp")) {
        return unwell("no AMQP listener is configured", json!({}));
    }
    below_connection_limit(call)
}

/// `GET /api/health/checks/node-is-mirror-sync-critical`: there are no mirrored queues.
pub fn mirror_sync_critical(call: &Call<'_>) -> Answer {
    not_critical(call)
}

/// The node may go. Of one alone RabbitMQ says why.
fn not_critical(call: &Call<'_>) -> Answer {
    match call.app.node().cluster_size() {
        (_, 1) => Ok(Reply::Json(
            json!({"status": "ok", "reason": "single node cluster"}),
        )),
        _ => well(),
    }
}

/// A check that a node passes by answering: its metadata is read before it takes requests.
pub fn passed(_: &Call<'_>) -> Answer {
    well()
}

/// `GET /api/health/checks/metadata-store/initialized/with-data`
pub fn has_data(call: &Call<'_>) -> Answer {
    if call.app.counts().vhosts > 0 {
        return well();
    }
    unwell("the metadata store has no virtual host", json!({}))
}

/// `GET /api/health/checks/quorum-queues-without-elected-leaders/all-vhosts[/pattern/{}]`
pub fn leaders_everywhere(call: &Call<'_>) -> Answer {
    leaders(call, None, call.params.first())
}

/// `GET /api/health/checks/quorum-queues-without-elected-leaders/vhost/{vhost}[/pattern/{}]`
pub fn leaders_of_vhost(call: &Call<'_>) -> Answer {
    leaders(call, Some(call.param(0)), call.params.get(1))
}

fn leaders(call: &Call<'_>, vhost: Option<&str>, pattern: Option<&String>) -> Answer {
    let pattern = pattern.map(|p| list_query::pattern(p)).transpose()?;
    let mut queues = call.app.node().leaderless_queues();
    queues.retain(|(of, name)| {
        let named = pattern.as_ref().is_none_or(|p| p.matches(name));
        named && vhost.is_none_or(|vhost| vhost == of) && call.app.sees(call.who, of)
    });
    match queues.is_empty() {
        true => well(),
        false => unwell(
            format!(
                "some quorum queues have no elected leader: {}",
                listed(&queues)
            ),
            json!({"queues": named(&queues)}),
        ),
    }
}

/// `GET /api/health/checks/node-is-quorum-critical`
pub fn quorum_critical(call: &Call<'_>) -> Answer {
    let mut queues = call.app.node().critical_queues();
    let is_critical = !queues.is_empty();
    // Whether the node may go is no secret; other virtual hosts' queues are.
    queues.retain(|(vhost, _)| call.app.sees(call.who, vhost));
    match !is_critical {
        true => not_critical(call),
        false => unwell(
            format!(
                "some quorum queues would lose their majority with this node: {}",
                listed(&queues)
            ),
            json!({"queues": named(&queues)}),
        ),
    }
}

/// The first of them in words, by virtual host and name.
fn listed(queues: &[(String, String)]) -> String {
    const LISTED: usize = 20;
    let mut sorted: Vec<&(String, String)> = queues.iter().collect();
    sorted.sort_unstable();
    let words = sorted.iter().take(LISTED);
    let words: Vec<String> = words
        .map(|(vhost, name)| format!("'{name}' in vhost '{vhost}'"))
        .collect();
    match queues.len().saturating_sub(LISTED) {
        0 => words.join(", "),
        more => format!("{} and {more} more", words.join(", ")),
    }
}

fn named(queues: &[(String, String)]) -> Value {
    let queue = |(vhost, name): &(String, String)| json!({"virtual_host": vhost, "name": name});
    queues.iter().map(queue).collect()
}

/// `GET /api/health/checks/reached-target-cluster-size`
pub fn cluster_size(call: &Call<'_>) -> Answer {
    let (size, target) = call.app.node().cluster_size();
    if size >= target {
        return well();
    }
    let details = json!({"cluster_size": size, "target_cluster_size": target});
    unwell("the cluster is smaller than it is to be", details)
}

/// The listeners that take clients: those of AMQP do while the node serves.
fn active(node: &NodeStats) -> impl Iterator<Item = &Listener> {
    let listeners = node.listeners.iter();
    listeners.filter(|l| node.serving || !l.protocol.starts_with("amqp"))
}

/// `GET /api/health/checks/port-listener/{port}`
pub fn port_listener(call: &Call<'_>) -> Answer {
    let port: u16 = call
        .param(0)
        .parse()
        .map_err(|_| ApiError::BadRequest("Invalid port".to_owned()))?;
    let node = call.app.node().node_stats();
    if active(&node).any(|l| l.address.port() == port) {
        return Ok(Reply::Json(json!({"status": "ok", "port": port})));
    }
    let ports: Vec<_> = active(&node).map(|l| l.address.port()).collect();
    unwell(
        "No active listener",
        json!({"missing": port, "ports": ports}),
    )
}

/// `GET /api/health/checks/protocol-listener/{protocols}`: one that is listened for is enough.
pub fn protocol_listener(call: &Call<'_>) -> Answer {
    let node = call.app.node().node_stats();
    let wanted: Vec<&str> = call.param(0).split(',').map(str::trim).collect();
    let spoken = |wanted: &&str| {
        let wanted = match *wanted {
            "amqp091" | "amqp0-9-1" | "amqp" => "amqp",
            "amqps" | "amqp/ssl" => "amqp/ssl",
            "prometheus" => "http/prometheus",
            other => other,
        };
        active(&node).any(|l| l.protocol == wanted)
    };
    let protocols: Vec<_> = active(&node).map(|l| l.protocol).collect();
    if let Some(protocol) = wanted.iter().find(|p| spoken(p)) {
        let json = json!({"status": "ok", "protocol": protocol, "protocols": protocols});
        return Ok(Reply::Json(json));
    }
    unwell(
        "No active listener",
        json!({"missing": wanted, "protocols": protocols}),
    )
}

/// `GET /api/health/checks/certificate-expiration/{within}/{unit}`
pub fn certificates(call: &Call<'_>) -> Answer {
    let bad = || ApiError::BadRequest("Invalid expiration unit or number".to_owned());
    let within: u64 = call.param(0).parse().map_err(|_| bad())?;
    let seconds = match call.param(1) {
        "days" => 86_400,
        "weeks" => 7 * 86_400,
        "months" => 30 * 86_400,
        "years" => 365 * 86_400,
        _ => {
            let units = "days, weeks, months, years";
            let text = format!("Time unit not recognised. Supported units: {units}.");
            return Err(ApiError::BadRequest(text));
        }
    };
    let within = within.checked_mul(seconds).ok_or_else(bad)?;
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |d| d.as_secs());
    let node = call.app.node().node_stats();
    let expiring: Vec<_> = node
        .certificates
        .iter()
        .filter(|(_, expiry)| *expiry <= now.saturating_add(within))
        .map(|(file, expiry)| json!({"certificate": file.display().to_string(), "expires": expiry}))
        .collect();
    if expiring.is_empty() {
        return well();
    }
    unwell("Certificates expiring", json!({"expired": expiring}))
}

/// `GET /api/health/checks/below-node-connection-limit`
pub fn below_connection_limit(call: &Call<'_>) -> Answer {
    let limit = call.app.node().node_stats().connections_max;
    let open = call.app.node().broker_stats().open.connections;
    if limit == 0 || open < limit {
        return well();
    }
    let details = json!({"current": open, "limit": limit});
    unwell("node connection limit is reached", details)
}

/// `GET /api/aliveness-test/{vhost}`: declares a queue, publishes a message to it and gets one. The
/// queue stays, so that a check every few seconds does not declare and delete all day.
pub fn aliveness(call: &Call<'_>) -> Answer {
    const QUEUE: &str = "aliveness-test";
    let (node, actor, vhost) = (call.app.node(), call.who.actor(), call.param(0));
    let queue = Topology::DeclareQueue {
        name: QUEUE.to_owned(),
        durable: false,
        exclusive: false,
        auto_delete: false,
        arguments: FieldTable::new(),
    };
    node.change(actor, vhost, queue)?;
    let message = Publish {
        exchange: String::new(),
        routing_key: QUEUE.to_owned(),
        properties: FieldTable::new(),
        payload: b"test_message".to_vec(),
    };
    let routed = node.publish(actor, vhost, message)? == Taken::ByAll;
    let get = Get {
        count: 1,
        shown: usize::MAX,
        bytes: usize::MAX,
        then: AfterGet::Accept,
    };
    let got = node.get(actor, vhost, QUEUE, get)?;
    if routed && !got.is_empty() {
        return well();
    }
    unwell("the test message did not come back", json!({}))
}

/// `PUT /api/leveret/memory-watermark`: `{"relative": 0.4}` or `{"absolute": bytes}`
pub fn memory_watermark(call: &Call<'_>) -> Answer {
    call.app
        .node()
        .set_memory_watermark(level(&call.body()?, 1.0)?);
    Ok(Reply::Done)
}

/// `PUT /api/leveret/disk-free-limit`: `{"relative": 1.5}` or `{"absolute": bytes}`
pub fn disk_free_limit(call: &Call<'_>) -> Answer {
    call.app.node().set_disk_limit(level(&call.body()?, 100.0)?);
    Ok(Reply::Done)
}

fn level(body: &Body, most: f64) -> Result<Level, ApiError> {
    let bad = |text: String| Err(ApiError::BadRequest(text));
    match (body.get("relative"), body.get("absolute")) {
        (Some(part), None) => match part.as_f64() {
            Some(part) if (0.0..=most).contains(&part) => Ok(Level::Relative(part)),
            _ => bad(format!("\"relative\" must be from 0 to {most}")),
        },
        (None, Some(bytes)) => match bytes.as_u64() {
            Some(bytes) => Ok(Level::Absolute(bytes)),
            None => bad("\"absolute\" must be a number of bytes".to_owned()),
        },
        _ => bad("give \"relative\" or \"absolute\"".to_owned()),
    }
}

/// `GET /api/leveret/damage`: the queues of which something cannot be read on this node.
pub fn damage(call: &Call<'_>) -> Answer {
    let damaged = call.app.node().damaged_queues().into_iter();
    let rows = damaged.map(|one| json!({"vhost": one.vhost, "name": one.name, "what": one.what}));
    Ok(Reply::Json(rows.collect()))
}

/// `PUT /api/leveret/serving`: `{"serving": false}`
pub fn serving(call: &Call<'_>) -> Answer {
    call.body()?.required("serving")?;
    let body = call.body()?;
    let serving = body.flag_or("serving", true)?;
    let is_maintenance = !serving && body.flag_or("maintenance", false)?;
    call.app
        .in_maintenance
        .store(is_maintenance, Ordering::Relaxed);
    call.app.node().set_serving(serving);
    Ok(Reply::Done)
}

/// `PUT /api/leveret/listening`: `{"listening": false}`
pub fn listening(call: &Call<'_>) -> Answer {
    let body = call.body()?;
    body.required("listening")?;
    let listen = body.flag_or("listening", true)?;
    done(call.app.node().set_listening(listen))
}

/// `PUT /api/leveret/log-level`: `{"level": "debug"}`
pub fn log_level(call: &Call<'_>) -> Answer {
    done(call.app.node().set_log_level(call.body()?.text("level")?))
}

/// `POST /api/leveret/rotate-logs`
pub fn rotate_logs(call: &Call<'_>) -> Answer {
    done(call.app.node().rotate_logs())
}

fn done(result: Result<(), String>) -> Answer {
    result.map_err(ApiError::BadRequest)?;
    Ok(Reply::Done)
}

/// `POST /api/leveret/stop`
pub fn stop(call: &Call<'_>) -> Answer {
    call.app.node().stop();
    Ok(Reply::Done)
}

/// `POST /api/leveret/authenticate`: whether a name and password are good, as if their user came
/// from this machine.
pub fn authenticate(call: &Call<'_>) -> Answer {
    let body = call.body()?;
    let (user, password) = (body.text("username")?, body.text("password")?);
    let here = IpAddr::V4(Ipv4Addr::LOCALHOST);
    // Only administrators come here: they may wait on a worker.
    match call.app.check_login(user, password, here).blocking_recv() {
        Ok(LoginVerdict::Busy) => Err(ApiError::Busy),
        Ok(verdict) => Ok(Reply::Json(json!({"ok": verdict == LoginVerdict::Right}))),
        Err(_) => Err(ApiError::Failed("the node is stopping".to_owned())),
    }
}

/// `GET /api/auth/hash_password/{password}`
pub fn hash_password(call: &Call<'_>) -> Answer {
    let hash = call.app.node().hash_password(call.param(0));
    Ok(Reply::Json(json!({"ok": hash})))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn which_queues_have_no_leader_is_said() {
        let queue = |number: u32| ("/".to_owned(), format!("q{number:02}"));
        assert_eq!(
            listed(&[queue(2), queue(1)]),
            "'q01' in vhost '/', 'q02' in vhost '/'"
        );
        let many: Vec<_> = (0..23).map(queue).collect();
        let said = listed(&many);
        assert!(said.ends_with("'q19' in vhost '/' and 3 more"), "{said}");
        assert!(!listed(&many[..20]).contains("more"));
    }
}
