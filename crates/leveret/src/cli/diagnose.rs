//! `leveret diagnose`: what is wrong with a node and its cluster, and what to do.

use super::ask::AskOptions;
use super::table::show;
use leveret_types::limits::STREAM_RETENTION_ALARM_BYTES;
use serde_json::{Value, json};

/// What is asked of the node, each by the name under which its answer is judged.
const ASKED: &[(&str, &str)] = &[
    ("overview", "/api/overview"),
    ("nodes", "/api/nodes"),
    ("cluster", "/api/leveret/cluster"),
    ("alarms", "/api/health/checks/alarms"),
    ("service", "/api/health/checks/is-in-service"),
    (
        "leaders",
        "/api/health/checks/quorum-queues-without-elected-leaders/all-vhosts",
    ),
    (
        "certificates",
        "/api/health/checks/certificate-expiration/4/weeks",
    ),
    ("connections", "/api/connections?columns=name,state"),
    (
        "queues",
        "/api/queues?sort=messages&sort_reverse=true&page=1&page_size=20",
    ),
    (
        "held",
        "/api/queues?sort=retention_held_bytes&sort_reverse=true&page=1&page_size=20",
    ),
];

/// Something that is wrong, or will be: what, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Finding {
    is_urgent: bool,
    what: String,
    remedy: &'static str,
}

/// Asks the node and says what was found; an error where something is wrong now.
pub(super) fn run(ask: &AskOptions) -> Result<String, String> {
    let target = ask.target()?;
    let mut answers = json!({});
    for (name, path) in ASKED {
        let answer = target.ask("GET", path, &[], None);
        let answer = answer.map_err(|error| error.to_string())?;
        answers[*name] = judged(name, answer.status, answer.json())
            .ok_or_else(|| unasked(path, answer.status))?;
    }
    let found = findings(&answers);
    let line = |finding: &Finding| {
        let word = if finding.is_urgent { "wrong" } else { "note" };
        format!("{word}: {}\n       {}\n", finding.what, finding.remedy)
    };
    let text = match (ask.json, found.is_empty()) {
        (true, _) => {
            let row = |f: &Finding| json!({"urgent": f.is_urgent, "what": f.what, "do": f.remedy});
            format!("{:#}\n", found.iter().map(row).collect::<Value>())
        }
        (false, true) => "nothing is wrong\n".to_owned(),
        (false, false) => found.iter().map(line).collect(),
    };
    match found.iter().any(|finding| finding.is_urgent) {
        true => {
            super::print(&text);
            Err("something is wrong".to_owned())
        }
        false => Ok(text),
    }
}

/// What an answer says; nothing if it does not answer what was asked. A check that does not pass is
/// an answer, and a node alone has no cluster to tell of.
fn judged(name: &str, status: u16, answer: Value) -> Option<Value> {
    match status {
        200 => Some(answer),
        503 if answer["status"] == "failed" => Some(answer),
        404 if name == "cluster" => Some(Value::Null),
        _ => None,
    }
}

fn unasked(path: &str, status: u16) -> String {
    let remedy = match status {
        401 | 403 => "log in as a user with the tag monitoring or administrator",
        _ => "try again, or look into the node's log",
    };
    format!("nothing can be said: {path} was answered with {status}; {remedy}")
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// Judges what the node has answered.
fn findings(answers: &Value) -> Vec<Finding> {
    let mut found = Vec::new();
    if answers["service"]["forgotten"] == true {
        // What it sees of others is what it saw before.
        return vec![Finding {
            is_urgent: true,
            what: "the cluster has forgotten this node, which takes no clients any more".to_owned(),
            remedy: "stop it; with an empty data folder it joins anew. What its queues hold is on its disk alone",
        }];
    }
    of_nodes(answers, &mut found);
    of_cluster(answers, &mut found);
    of_clients(answers, &mut found);
    of_streams(answers, &mut found);
    found
}

fn of_nodes(answers: &Value, found: &mut Vec<Finding>) {
    let mut note = |is_urgent: bool, what: String, remedy: &'static str| {
        found.push(Finding {
            is_urgent,
            what,
            remedy,
        });
    };
    for alarm in list(&answers["alarms"]["alarms"]) {
        let (node, resource) = (show(&alarm["node"]), show(&alarm["resource"]));
        let remedy = match resource.as_str() {
            "memory" => {
                "publishers that need this node wait: see `leveret ctl memory_breakdown`; let \
                 consumers take what waits, or raise vm_memory_high_watermark"
            }
            _ => {
                "publishers that need this node wait: free space on the data folder's drive, or \
                 lower disk_free_limit"
            }
        };
        note(true, format!("{resource} alarm on {node}"), remedy);
    }
    if answers["service"]["status"] == "failed" {
        let remedy = "`leveret ctl start_app` lets clients in again; after `drain`, `revive` does";
        note(true, "the node takes no clients".to_owned(), remedy);
    }
    for node in list(&answers["nodes"]) {
        let name = show(&node["name"]);
        let part = |used: &str, of: &str| {
            let of = node[of].as_f64().filter(|of| *of > 0.0)?;
            Some(node[used].as_f64()? / of)
        };
        if node["running"] == false {
            let remedy = "start it, or replace it: `leveret ctl forget_cluster_node` takes it out";
            note(true, format!("node {name} is down"), remedy);
        }
        if part("fd_used", "fd_total").is_some_and(|part| part > 0.8) {
            let remedy = "raise the limit of open files (LimitNOFILE of the systemd unit)";
            note(
                false,
                format!("{name} uses most of its file descriptors"),
                remedy,
            );
        }
        if part("mem_used", "mem_limit").is_some_and(|part| (0.9..1.0).contains(&part)) {
            let remedy = "publishers will wait at the limit: see `leveret ctl memory_breakdown`";
            note(
                false,
                format!("{name} uses 90 % of its memory limit"),
                remedy,
            );
        }
        if part("disk_free", "disk_free_limit").is_some_and(|part| (1.0..2.0).contains(&part)) {
            let remedy = "publishers will wait at the limit: free space, or let queues be drained";
            note(false, format!("{name} has little disk left"), remedy);
        }
    }
    for certificate in list(&answers["certificates"]["expired"]) {
        let file = show(&certificate["certificate"]);
        let remedy = "replace the file and send the node SIGHUP";
        note(
            false,
            format!("the certificate {file} expires within 4 weeks"),
            remedy,
        );
    }
}

fn of_cluster(answers: &Value, found: &mut Vec<Finding>) {
    let view = &answers["cluster"];
    let mut note = |is_urgent: bool, what: String, remedy: &'static str| {
        found.push(Finding {
            is_urgent,
            what,
            remedy,
        });
    };
    if answers["leaders"]["status"] == "failed" {
        let remedy =
            "a majority of its members must be up: `leveret ctl quorum_status QUEUE` names them";
        note(true, show(&answers["leaders"]["reason"]), remedy);
    }
    if view.is_object() && view["leader"].is_null() {
        let remedy = "nothing can be declared until a majority of the voting nodes is up, none of \
                      them with an older copy of its data";
        note(true, "nobody leads the catalogue".to_owned(), remedy);
    }
    for node in list(&view["nodes"])
        .iter()
        .filter(|node| node["outdated"] == true)
    {
        let remedy = "forget the node and let it join with an empty data folder";
        note(
            true,
            format!("the data of {} is an older copy", show(&node["name"])),
            remedy,
        );
    }
    let voters = list(&view["nodes"])
        .iter()
        .filter(|node| node["votes"] == true);
    let voters = voters.count();
    if voters > 0 && voters.is_multiple_of(2) {
        let remedy = "add a node, or take one out";
        note(false, crate::ctl::even_voters(voters), remedy);
    }
}

fn of_streams(answers: &Value, found: &mut Vec<Finding>) {
    for queue in list(&answers["held"]["items"]) {
        let held = queue["retention_held_bytes"].as_u64().unwrap_or(0);
        if held > STREAM_RETENTION_ALARM_BYTES {
            let (name, vhost) = (show(&queue["name"]), show(&queue["vhost"]));
            found.push(Finding {
                is_urgent: false,
                what: format!(
                    "the retention-groups of stream '{name}' in vhost '{vhost}' hold {held} bytes"
                ),
                remedy: "let the group that is behind read on, take it out of retention-groups, or \
                         `leveret ctl set_stream_group_offset -p VHOST STREAM GROUP last`",
            });
        }
    }
}

fn of_clients(answers: &Value, found: &mut Vec<Finding>) {
    let blocked = list(&answers["connections"]).iter();
    let blocked = blocked
        .filter(|connection| connection["state"] == "blocked")
        .count();
    if blocked > 0 {
        found.push(Finding {
            is_urgent: true,
            what: format!("{blocked} connections are held back by an alarm"),
            remedy: "they publish again when the alarm clears",
        });
    }
    for queue in list(&answers["queues"]["items"]) {
        let messages = queue["messages"].as_u64().unwrap_or(0);
        let name = format!(
            "queue '{}' in vhost '{}'",
            show(&queue["name"]),
            show(&queue["vhost"])
        );
        if queue["state"] == "crashed" && queue["type"] == "stream" {
            found.push(Finding {
                is_urgent: true,
                what: format!("{name}: a part of the stream is damaged, or it is not served"),
                remedy: "`leveret status` on its leader's node says what is damaged",
            });
        } else if queue["state"] == "crashed" {
            found.push(Finding {
                is_urgent: true,
                what: format!("{name} has lost a part of its messages and is set aside"),
                remedy: "see the log for what is damaged; `leveret storage verify` on the stopped node",
            });
        } else if messages > 0 && queue["consumers"] == 0 && queue["type"] != "stream" {
            found.push(Finding {
                is_urgent: false,
                what: format!("{name} has {messages} messages and no consumer"),
                remedy: "start its consumer, or give it a limit or a time to live by policy",
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(answers: &Value) -> Vec<String> {
        let found = findings(answers).into_iter();
        found
            .map(|f| format!("{} {}", f.is_urgent, f.what))
            .collect()
    }

    #[test]
    fn what_was_not_answered_is_not_taken_for_well() {
        let failed = json!({"status": "failed", "alarms": []});
        assert_eq!(judged("alarms", 503, failed.clone()), Some(failed));
        assert_eq!(judged("cluster", 404, json!({})), Some(Value::Null));
        for (name, status) in [
            ("overview", 401),
            ("nodes", 401),
            ("overview", 404),
            ("alarms", 500),
            ("alarms", 502),
            // Too many asked at once: nothing was checked.
            ("alarms", 503),
        ] {
            let answer = json!({"error": "not_available"});
            assert_eq!(judged(name, status, answer), None, "{name} {status}");
            assert!(unasked("/api/x", status).contains(&status.to_string()));
        }
    }

    #[test]
    fn a_node_that_is_forgotten_says_nothing_of_others() {
        let answers = json!({
            "service": {"status": "failed", "forgotten": true},
            "nodes": [{"name": "b", "running": false}],
            "cluster": {"leader": null},
        });
        let expected = "true the cluster has forgotten this node, which takes no clients any more";
        assert_eq!(told(&answers), [expected]);
    }

    #[test]
    fn a_node_that_is_well_has_no_finding() {
        let answers = json!({
            "alarms": {"status": "ok"},
            "service": {"status": "ok"},
            "nodes": [{"name": "a", "running": true, "mem_used": 1, "mem_limit": 10, "fd_used": 1, "fd_total": 10}],
            "queues": {"items": [{"name": "q", "messages": 5, "consumers": 1}]},
            "connections": [{"state": "running"}],
            "cluster": null,
        });
        assert_eq!(told(&answers), [""; 0]);
    }

    #[test]
    fn each_trouble_is_named_with_its_place() {
        let answers = json!({
            "alarms": {"status": "failed", "alarms": [{"node": "a", "resource": "memory"}]},
            "service": {"status": "failed"},
            "leaders": {"status": "failed", "reason": "no leader: 'q'"},
            "nodes": [
                {"name": "b", "running": false},
                {"name": "a", "running": true, "disk_free": 3, "disk_free_limit": 2, "fd_used": 9, "fd_total": 10},
            ],
            "certificates": {"expired": [{"certificate": "/c.pem"}]},
            "connections": [{"state": "blocked"}],
            "held": {"items": [
                {"name": "s", "vhost": "/", "retention_held_bytes": STREAM_RETENTION_ALARM_BYTES + 1},
                {"name": "t", "vhost": "/", "retention_held_bytes": STREAM_RETENTION_ALARM_BYTES},
            ]},
            "queues": {"items": [
                {"name": "q", "vhost": "/", "messages": 5, "consumers": 0},
                {"name": "s", "vhost": "/", "type": "stream", "messages": 5, "consumers": 0},
                {"name": "broken", "vhost": "/", "messages": 0, "state": "crashed"},
                {"name": "log", "vhost": "/", "type": "stream", "messages": 0, "state": "crashed"},
            ]},
            "cluster": {"leader": null, "nodes": [{"name": "a", "votes": true}, {"name": "b", "votes": true, "outdated": true}]},
        });
        let told = told(&answers);
        for expected in [
            "true memory alarm on a",
            "true the node takes no clients",
            "true node b is down",
            "false a uses most of its file descriptors",
            "false a has little disk left",
            "false the certificate /c.pem expires within 4 weeks",
            "true no leader: 'q'",
            "true nobody leads the catalogue",
            "true the data of b is an older copy",
            "true 1 connections are held back by an alarm",
            "false queue 'q' in vhost '/' has 5 messages and no consumer",
            "false the retention-groups of stream 's' in vhost '/' hold 1073741825 bytes",
            "true queue 'broken' in vhost '/' has lost a part of its messages and is set aside",
            "true queue 'log' in vhost '/': a part of the stream is damaged, or it is not served",
        ] {
            assert!(
                told.iter().any(|told| told == expected),
                "{expected}: {told:?}"
            );
        }
        for unexpected in ["'t'", "queue 's'"] {
            let is_told = told.iter().any(|told| told.contains(unexpected));
            assert!(!is_told, "{unexpected}: {told:?}");
        }
    }
}
