//! What RabbitMQ's tools tell beside the usual lists: certificates, ciphers, logins, peers,
//! policies
//! that fit.

use super::node::{check, own_node};
use super::{Context, Failure, Output, cluster, code};
use crate::cli::http::segment;
use crate::cli::table::{Rows, show};
use leveret_auth::Pattern;
use serde_json::{Value, json};

type Result<T> = std::result::Result<T, Failure>;

fn items(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// The certificates that the node shows, each with its expiry.
pub fn certificates(context: &Context<'_>) -> Result<Output> {
    let name = context.target.name()?;
    context.banner(format!("Listing certificates of node {name} ..."));
    // All of them expire within a hundred years.
    let path = "/api/health/checks/certificate-expiration/100/years";
    let answer = context.target.ask("GET", path, &[], None)?.json();
    let columns = [("file", "certificate"), ("expires", "expires")];
    Ok(Output::Rows(Rows::pick(
        items(&answer["expired"]),
        &columns,
    )))
}

/// The cipher suites that listeners with TLS offer, under OpenSSL's names.
const CIPHER_SUITES: &[&str] = &[
    "TLS_AES_256_GCM_SHA384",
    "TLS_AES_128_GCM_SHA256",
    "TLS_CHACHA20_POLY1305_SHA256",
    "ECDHE-ECDSA-AES256-GCM-SHA384",
    "ECDHE-ECDSA-AES128-GCM-SHA256",
    "ECDHE-ECDSA-CHACHA20-POLY1305",
    "ECDHE-RSA-AES256-GCM-SHA384",
    "ECDHE-RSA-AES128-GCM-SHA256",
    "ECDHE-RSA-CHACHA20-POLY1305",
];

pub fn cipher_suites(context: &Context<'_>) -> Result<Output> {
    context.banner("Listing available cipher suites in OpenSSL format ...");
    Ok(Output::Text(CIPHER_SUITES.join("\n")))
}

pub fn plugin_directories(_: &Context<'_>) -> Result<Output> {
    Ok(Output::Text(
        "Plugin archives directory: none, all plugins are in the binary\nEnabled plugins file: none"
            .to_owned(),
    ))
}

pub fn discover_peers(context: &Context<'_>) -> Result<Output> {
    let own = context.target.name()?;
    context.banner(format!("Discovering peers nodes from {own} ..."));
    let view = cluster::view(context)?.unwrap_or_default();
    let mut names: Vec<String> = items(&view["nodes"])
        .iter()
        .map(|n| show(&n["name"]))
        .collect();
    if names.is_empty() {
        names.push(own);
    }
    Ok(Output::Text(names.join("\n")))
}

/// How the members of the catalogue's group stand.
pub fn metadata_store_status(context: &Context<'_>) -> Result<Output> {
    let own = context.target.name()?;
    context.banner(format!("Status of metadata store on node {own} ..."));
    let alone =
        json!({"nodes": [{"name": own, "up": true, "votes": true, "number": 0}], "leader": 0});
    let view = cluster::view(context)?.unwrap_or(alone);
    let row = |node: &Value| {
        let state = match (node["up"] == true, node["number"] == view["leader"]) {
            (false, _) => "noproc",
            (true, true) => "leader",
            (true, false) => "follower",
        };
        let membership = if node["votes"] == true {
            "voter"
        } else {
            "non_voter"
        };
        vec![node["name"].clone(), state.into(), membership.into()]
    };
    let columns = ["Node Name", "Raft State", "Membership"];
    Ok(Output::Rows(Rows {
        columns: columns.map(str::to_owned).into(),
        rows: items(&view["nodes"]).iter().map(row).collect(),
    }))
}

pub fn auth_attempts(context: &Context<'_>) -> Result<Output> {
    let name = context.target.name()?;
    context.banner(format!(
        "Listing authentication attempts of node {name} ..."
    ));
    let by_source = context.options.has("--by-source");
    let attempts = context.target.get(&attempts_path(&name, by_source))?;
    let source = ["remote_address", "username"];
    let counts = [
        "protocol",
        "auth_attempts",
        "auth_attempts_failed",
        "auth_attempts_succeeded",
    ];
    let source = source.into_iter().filter(|_| by_source);
    let columns: Vec<_> = source.chain(counts).map(|name| (name, name)).collect();
    Ok(Output::Rows(Rows::pick(items(&attempts), &columns)))
}

/// What the API calls the logins of a node.
fn attempts_path(node: &str, by_source: bool) -> String {
    let source = if by_source { "/source" } else { "" };
    format!("/api/auth/attempts/{}{source}", segment(node))
}

pub fn track_login_sources(context: &Context<'_>) -> Result<Output> {
    context.banner("Enabling authentication attempt source tracking ...");
    set_tracking(context, true)
}

pub fn track_no_login_sources(context: &Context<'_>) -> Result<Output> {
    context.banner("Disabling authentication attempt source tracking ...");
    set_tracking(context, false)
}

fn set_tracking(context: &Context<'_>, tracked: bool) -> Result<Output> {
    let path = attempts_path(&context.target.name()?, true);
    let body = json!({"tracked": tracked});
    context.target.call("PUT", &path, Some(&body))?;
    Ok(Output::Done)
}

pub fn reset_auth_attempts(context: &Context<'_>) -> Result<Output> {
    let name = context.target.name()?;
    context.banner(format!("Resetting auth attempt metrics of node {name} ..."));
    let path = attempts_path(&name, false);
    context.target.call("DELETE", &path, None)?;
    Ok(Output::Done)
}

/// Whether a policy's `apply-to` takes queues of a kind.
fn applies(apply_to: &str, kind: &str) -> bool {
    match apply_to {
        "all" | "queues" => true,
        "classic_queues" => kind == "classic",
        "quorum_queues" => kind == "quorum",
        "streams" => kind == "stream",
        _ => false,
    }
}

/// The policies that fit a queue, the one that holds first.
fn matching(policies: &[Value], name: &str, kind: &str) -> Vec<Value> {
    let fits = |policy: &&Value| {
        let pattern = policy["pattern"]
            .as_str()
            .and_then(|p| Pattern::new(p).ok());
        applies(policy["apply-to"].as_str().unwrap_or("all"), kind)
            && pattern.is_some_and(|pattern| pattern.matches(name))
    };
    let mut found: Vec<Value> = policies.iter().filter(fits).cloned().collect();
    found.sort_by_key(|policy| std::cmp::Reverse(policy["priority"].as_i64()));
    found
}

pub fn policies_that_match(context: &Context<'_>) -> Result<Output> {
    let (vhost, name) = (segment(context.vhost()), context.argument(0));
    context.banner(format!("Listing policies that match queue '{name}' ..."));
    let queue = context
        .target
        .get(&format!("/api/queues/{vhost}/{}", segment(name)));
    let queue = super::node::or_no_queue(context, queue)?;
    let policies = context.target.get(&format!("/api/policies/{vhost}"))?;
    let kind = show(&queue["type"]);
    let columns = [
        ("name", "name"),
        ("apply-to", "apply-to"),
        ("pattern", "pattern"),
        ("definition", "definition"),
        ("priority", "priority"),
    ];
    let found = matching(items(&policies), name, &kind);
    Ok(Output::Rows(Rows::pick(&found, &columns)))
}

pub fn node_health_check(context: &Context<'_>) -> Result<Output> {
    check(context, "Checking health", "local-alarms", "")?;
    check(
        context,
        "Checking health",
        "is-in-service",
        "Health check passed",
    )
}

/// Whether no member of a replicated queue is still being made whole.
pub fn replicas_are_whole(context: &Context<'_>) -> Result<Output> {
    let name = context.target.name()?;
    context.banner(format!(
        "Checking if new quorum queue replicas of node {name} are whole ..."
    ));
    let queues = context
        .target
        .get("/api/queues?columns=name,vhost,type&disable_stats=true")?;
    let mut waiting = Vec::new();
    for queue in items(&queues)
        .iter()
        .filter(|queue| queue["type"] == "quorum")
    {
        let (vhost, queue) = (show(&queue["vhost"]), show(&queue["name"]));
        let path = format!(
            "/api/queues/quorum/{}/{}/status",
            segment(&vhost),
            segment(&queue)
        );
        let members = context.target.get(&path)?;
        // A member that takes part, and has not said yet whether it votes, has not caught up.
        let is_new = |member: &Value| match member["Membership"].as_str() {
            Some("promotable") => true,
            Some("unknown") => member["Raft State"] == "follower",
            _ => false,
        };
        if items(&members).iter().any(is_new) {
            waiting.push(format!("'{queue}' in vhost '{vhost}'"));
        }
    }
    match waiting.is_empty() {
        true => Ok(Output::Text(
            "All replicas of quorum queues are whole".to_owned(),
        )),
        false => Err(Failure::new(
            code::UNAVAILABLE,
            format!("replicas that are not whole yet: {}", waiting.join(", ")),
        )),
    }
}

/// Policies of this kind that have keys of mirrored queues.
fn with_mirroring(context: &Context<'_>, kind: &str) -> Result<Vec<Value>> {
    let policies = context.target.get(&format!("/api/{kind}"))?;
    let mirrors = |policy: &&Value| {
        let keys = policy["definition"].as_object();
        keys.is_some_and(|keys| keys.keys().any(|key| key.starts_with("ha-")))
    };
    Ok(items(&policies).iter().filter(mirrors).cloned().collect())
}

fn show_mirroring(context: &Context<'_>, kind: &str) -> Result<Output> {
    let columns = [
        ("vhost", "vhost"),
        ("name", "name"),
        ("pattern", "pattern"),
        ("definition", "definition"),
    ];
    let found = with_mirroring(context, kind)?;
    Ok(Output::Rows(Rows::pick(&found, &columns)))
}

pub fn mirroring_policies(context: &Context<'_>) -> Result<Output> {
    show_mirroring(context, "policies")
}

pub fn mirroring_operator_policies(context: &Context<'_>) -> Result<Output> {
    show_mirroring(context, "operator-policies")
}

pub fn check_mirroring(context: &Context<'_>) -> Result<Output> {
    let mut found = with_mirroring(context, "policies")?;
    found.extend(with_mirroring(context, "operator-policies")?);
    if found.is_empty() {
        let text = "Cluster reported no policies that enable classic queue mirroring";
        return Ok(Output::Text(text.to_owned()));
    }
    let names: Vec<String> = found.iter().map(|policy| show(&policy["name"])).collect();
    Err(Failure::new(
        code::UNAVAILABLE,
        format!(
            "policies with keys of mirrored queues, which make classic queues replicated ones: {}",
            names.join(", ")
        ),
    ))
}

/// Takes the keys of mirrored queues out of policies; one that has no other goes.
pub fn remove_mirroring(context: &Context<'_>) -> Result<Output> {
    context.banner("Removing keys of mirrored queues from all policies ...");
    for kind in ["policies", "operator-policies"] {
        for mut policy in with_mirroring(context, kind)? {
            let names = [&policy["vhost"], &policy["name"]].map(|name| segment(&show(name)));
            let path = format!("/api/{kind}/{}/{}", names[0], names[1]);
            let mut keys = policy["definition"].take();
            if let Some(keys) = keys.as_object_mut() {
                keys.retain(|key, _| !key.starts_with("ha-"));
            }
            if keys.as_object().is_none_or(serde_json::Map::is_empty) {
                context.target.call("DELETE", &path, None)?;
                continue;
            }
            let body = json!({
                "pattern": policy["pattern"],
                "apply-to": policy["apply-to"],
                "priority": policy["priority"],
                "definition": keys,
            });
            context.target.call("PUT", &path, Some(&body))?;
        }
    }
    Ok(Output::Done)
}

pub fn set_permissions_globally(context: &Context<'_>) -> Result<Output> {
    let [user, configure, write, read] = context.arguments else {
        return Err(Failure::usage("four arguments are needed"));
    };
    context.banner(format!(
        "Setting permissions for user \"{user}\" in all virtual hosts ..."
    ));
    if context
        .target
        .get(&format!("/api/users/{}", segment(user)))
        .is_err()
    {
        return Err(super::users::no_user(user));
    }
    let body = json!({"configure": configure, "write": write, "read": read});
    let vhosts = context.target.get("/api/vhosts?disable_stats=true")?;
    for vhost in items(&vhosts) {
        let path = format!(
            "/api/permissions/{}/{}",
            segment(&show(&vhost["name"])),
            segment(user)
        );
        context.target.call("PUT", &path, Some(&body))?;
    }
    Ok(Output::Done)
}

pub fn reset_rates(context: &Context<'_>) -> Result<Output> {
    let name = context.target.name()?;
    context.banner(format!("Resetting statistics database in node {name} ..."));
    context.target.call("DELETE", "/api/reset", None)?;
    Ok(Output::Done)
}

/// How many messages of which sizes were published, and how large they are that wait.
pub fn message_sizes(context: &Context<'_>) -> Result<Output> {
    let node = own_node(context)?;
    context.banner(format!(
        "Gathering message sizes of node {} ...",
        show(&node["name"])
    ));
    let queues = context
        .target
        .get("/api/queues?columns=messages,message_bytes")?;
    let sum = |field: &str| {
        let stats = items(&queues)
            .iter()
            .filter_map(|queue| queue[field].as_u64());
        stats.sum::<u64>()
    };
    let (messages, bytes) = (sum("messages"), sum("message_bytes"));
    let mean = bytes.checked_div(messages).unwrap_or(0);
    Ok(Output::Text(format!(
        "Messages in queues: {messages}\nBytes of their bodies: {bytes}\nMean size: {mean} bytes"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_policy_that_holds_is_the_first_of_those_that_match() {
        let policies = json!([
            {"name": "low", "pattern": "^q", "apply-to": "all", "priority": 1},
            {"name": "high", "pattern": "^q", "apply-to": "queues", "priority": 7},
            {"name": "quorum", "pattern": ".*", "apply-to": "quorum_queues", "priority": 9},
            {"name": "exchanges", "pattern": ".*", "apply-to": "exchanges", "priority": 9},
            {"name": "other", "pattern": "^x", "apply-to": "all", "priority": 9},
        ]);
        let names = |name: &str, kind: &str| -> Vec<String> {
            let found = matching(items(&policies), name, kind);
            found.iter().map(|policy| show(&policy["name"])).collect()
        };
        assert_eq!(names("q1", "classic"), ["high", "low"]);
        assert_eq!(names("q1", "quorum"), ["quorum", "high", "low"]);
        assert_eq!(names("z", "classic"), [""; 0]);
    }
}
