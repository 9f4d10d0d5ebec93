//! Commands that can have no meaning here: each is refused with what serves instead.

use super::{Context, Failure, Output, code};

/// Commands, and what serves instead.
const INSTEAD: &[(&[&str], &str)] = &[
    (
        &["add_signing_key", "add_uaa_key"],
        "OAuth 2 is not supported: use passwords or certificates",
    ),
    (
        &["clear_auth_backend_cache"],
        "no login backend is cached: nothing is to be cleared",
    ),
    (
        &["delete_shovel", "restart_shovel", "shovel_status"],
        "there are no shovels: a client that consumes and publishes does their work",
    ),
    (
        &["federation_status", "restart_federation_link"],
        "there is no federation: a client that consumes and publishes does its work",
    ),
    (
        &["list_mqtt_connections", "list_web_mqtt_connections"],
        "MQTT is not spoken",
    ),
    (&["list_stomp_connections"], "STOMP is not spoken"),
    (
        &["list_trust_store_certificates", "refresh_trust_store"],
        "there is no trust store: authorities are in `ssl_options.cacertfile`, read again on SIGHUP",
    ),
    (
        &["activate_stream_consumer"],
        "a group always has an active consumer while it has one: close the connection of the active one to have the next one take over",
    ),
    (
        &["set_stream_retention_policy"],
        "retention is a policy like any other, and applies at once: `rabbitmqctl set_policy --apply-to streams NAME '^STREAM$' '{\"max-age\": \"7D\"}'`",
    ),
    (
        &["coordinator_status"],
        "streams have no coordinator: `metadata_store_status` shows who leads the catalogue, `stream_status` how a stream stands",
    ),
    (
        &["encode", "encrypt_conf_value", "list_hashes"],
        "the configuration has no encrypted values: keep secrets in a file that the node alone may read, or in LEVERET_* variables",
    ),
    (
        &["decode", "decrypt_conf_value"],
        "the configuration has no encrypted values",
    ),
    (
        &["eval", "eval_file"],
        "there is no Erlang here: ask the HTTP API (`curl -u USER http://HOST:15672/api/...`), or send SIGHUP to have certificates read again",
    ),
    (
        &["exec", "remote_shell"],
        "there is no Elixir here: ask the HTTP API (`curl -u USER http://HOST:15672/api/...`)",
    ),
    (
        &["reset", "force_reset"],
        "stop the node and remove its data folder",
    ),
    (
        &["erlang_cookie_hash", "erlang_cookie_sources"],
        "there is no Erlang cookie: the command line is let in by who may read the node's data folder",
    ),
    (
        &["observer", "maybe_stuck"],
        "use status, list_queues and the metrics",
    ),
    (
        &["consume_event_stream"],
        "follow the log in JSON (log.console.formatter = json)",
    ),
    (
        &["log_tail_stream"],
        "follow the file that `log_location` names (`tail -F`), or the supervisor's log",
    ),
    (
        &["sync_queue", "cancel_sync_queue"],
        "there are no mirrored queues: members of a quorum queue copy by themselves what they lack",
    ),
    (
        &["change_cluster_node_type"],
        "every node keeps the catalogue on disk",
    ),
    (
        &["schema_info"],
        "there is no Mnesia: `metadata_store_status` shows how the catalogue is replicated",
    ),
    (
        &["join_cluster"],
        "list all nodes' addresses in `cluster.join` and start the node with an empty data folder",
    ),
    (
        &["rename_cluster_node"],
        "a node keeps its name in its data folder: add a node of the new name, then forget this one",
    ),
    (
        &["update_cluster_nodes"],
        "a node learns who is in the cluster from whoever it reaches of `cluster.join`",
    ),
    (
        &["force_standalone_khepri_boot"],
        "there is no Khepri: a lost majority comes back with its nodes' data folders",
    ),
    (
        &["deactivate_free_disk_space_monitoring"],
        "the disk is always watched; `set_disk_free_limit 0` holds nobody back until the next start",
    ),
    (
        &["activate_free_disk_space_monitoring"],
        "the disk is always watched",
    ),
    (
        &["command_line_arguments"],
        "see `ps -o args= -p PID`, with the process id that `status` shows",
    ),
    (
        &["os_env"],
        "see `/proc/PID/environ`, with the process id that `status` shows; `environment` shows what is in force",
    ),
    (
        &["runtime_thread_stats"],
        "see `top -H -p PID`, with the process id that `status` shows",
    ),
    (&["list_network_interfaces"], "see `ip address`"),
    (
        &["resolver_info"],
        "see `/etc/resolv.conf`; `resolve_hostname` asks it",
    ),
    (
        &["consistent_hash_exchange_ring_state"],
        "ask the HTTP API for the exchange's bindings: each has its weight",
    ),
];

/// Refuses a command that can have no meaning here, with what to use instead.
pub fn instead(context: &Context<'_>) -> Result<Output, Failure> {
    let name = context.command;
    Err(Failure {
        code: code::USAGE,
        text: format!("Error: {name}: {}", reason(name)),
    })
}

fn found(name: &str) -> Option<&'static str> {
    let found = INSTEAD.iter().find(|(names, _)| names.contains(&name));
    found.map(|(_, instead)| *instead)
}

/// What serves instead of a command.
pub fn reason(name: &str) -> &'static str {
    found(name).unwrap_or("it has no meaning here")
}

/// Whether a command is refused.
#[cfg(test)]
pub fn is_refused(name: &str) -> bool {
    found(name).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ctl::commands;

    #[test]
    fn every_refused_command_is_in_the_table_of_commands() {
        for name in INSTEAD.iter().flat_map(|(names, _)| *names) {
            assert!(commands::find(name).is_ok(), "{name}");
        }
    }
}
