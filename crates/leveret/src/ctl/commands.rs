//! The table of commands.

use super::{
    Context, Failure, Output, cluster, cluster_status, code, complete, diagnostics, help, instead,
    lists, node, operate, status, stream_groups, streams, users,
};
use std::ops::RangeInclusive;

/// A command.
pub struct Command {
    /// Its name.
    pub name: &'static str,
    /// How it is used: with each option that it takes, beside those that all take.
    pub usage: &'static str,
    /// How many positional arguments it takes.
    pub arguments: RangeInclusive<usize>,
    /// Whether it needs no node.
    pub offline: bool,
    /// Whether all that it does is to say what serves instead.
    pub is_refused: bool,
    /// Whether it waits for a node that has not started yet.
    pub waits: bool,
    /// What it does.
    pub run: fn(&Context<'_>) -> Result<Output, Failure>,
}

const fn command(
    name: &'static str,
    usage: &'static str,
    arguments: RangeInclusive<usize>,
    run: fn(&Context<'_>) -> Result<Output, Failure>,
) -> Command {
    Command {
        name,
        usage,
        arguments,
        offline: false,
        is_refused: false,
        waits: false,
        run,
    }
}

const fn offline(mut command: Command) -> Command {
    command.offline = true;
    command
}

const fn waiting(mut command: Command) -> Command {
    command.waits = true;
    command
}

const MANY: usize = 64;

/// A command that is refused with what serves instead, whatever it is given.
const fn refused(name: &'static str) -> Command {
    let mut command = offline(command(name, name, 0..=MANY, instead::instead));
    command.is_refused = true;
    command
}

/// Every command, by subject.
#[rustfmt::skip]
static COMMANDS: &[Command] = &[
    // Users.
    command("add_user", "add_user <username> [<password>] [--pre-hashed-password]", 1..=2, users::add_user),
    command("authenticate_user", "authenticate_user <username> [<password>]", 1..=2, users::authenticate_user),
    command("change_password", "change_password <username> [<password>]", 1..=2, users::change_password),
    command("clear_password", "clear_password <username>", 1..=1, users::clear_password),
    command("delete_user", "delete_user <username>", 1..=1, users::delete_user),
    command("hash_password", "hash_password [<password>]", 0..=1, users::hash_password),
    command("list_users", "list_users [--no-table-headers]", 0..=0, users::list_users),
    command("set_user_tags", "set_user_tags <username> <tag> [...]", 1..=MANY, users::set_user_tags),
    command("set_user_limits", "set_user_limits <username> <definition>", 2..=2, users::set_user_limits),
    command("clear_user_limits", "clear_user_limits <username> <limit_type>|all", 2..=2, users::clear_user_limits),
    command("list_user_limits", "list_user_limits [--user <username>|--global]", 0..=1, users::list_user_limits),
    // Permissions.
    command("set_permissions", "set_permissions [-p <vhost>] <username> <conf> <write> <read>", 4..=4, users::set_permissions),
    command("clear_permissions", "clear_permissions [-p <vhost>] <username>", 1..=1, users::clear_permissions),
    command("list_permissions", "list_permissions [-p <vhost>]", 0..=0, users::list_permissions),
    command("list_user_permissions", "list_user_permissions <username>", 1..=1, users::list_user_permissions),
    command("set_topic_permissions", "set_topic_permissions [-p <vhost>] <username> <exchange> <write> <read>", 4..=4, users::set_topic_permissions),
    command("clear_topic_permissions", "clear_topic_permissions [-p <vhost>] <username> [<exchange>]", 1..=2, users::clear_topic_permissions),
    command("list_topic_permissions", "list_topic_permissions [-p <vhost>]", 0..=0, users::list_topic_permissions),
    command("list_user_topic_permissions", "list_user_topic_permissions <username>", 1..=1, users::list_user_topic_permissions),
    // Virtual hosts.
    command("add_vhost", "add_vhost <vhost> [--description <text>] [--tags <a,b>] [--default-queue-type <type>]", 1..=1, users::add_vhost),
    command("delete_vhost", "delete_vhost <vhost>", 1..=1, users::delete_vhost),
    command("update_vhost_metadata", "update_vhost_metadata <vhost> [--description <text>] [--tags <a,b>] [--default-queue-type <type>]", 1..=1, users::update_vhost),
    command("list_vhosts", "list_vhosts [<column> ...]", 0..=MANY, lists::list_vhosts),
    command("set_vhost_tags", "set_vhost_tags <vhost> <tag> [...]", 1..=MANY, users::set_vhost_tags),
    command("enable_vhost_deletion_protection", "enable_vhost_deletion_protection <vhost>", 1..=1, users::protect_vhost),
    command("disable_vhost_deletion_protection", "disable_vhost_deletion_protection <vhost>", 1..=1, users::unprotect_vhost),
    command("restart_vhost", "restart_vhost [-p <vhost>]", 0..=0, diagnostics::nothing_to_do),
    command("set_vhost_limits", "set_vhost_limits [-p <vhost>] <definition>", 1..=1, users::set_vhost_limits),
    command("clear_vhost_limits", "clear_vhost_limits [-p <vhost>]", 0..=0, users::clear_vhost_limits),
    command("list_vhost_limits", "list_vhost_limits [-p <vhost>|--global]", 0..=0, users::list_vhost_limits),
    command("trace_on", "trace_on [-p <vhost>]", 0..=0, users::trace_on),
    command("trace_off", "trace_off [-p <vhost>]", 0..=0, users::trace_off),
    // Policies and parameters.
    command("set_policy", "set_policy [-p <vhost>] [--priority <n>] [--apply-to <what>] <name> <pattern> <definition>", 3..=3, users::set_policy),
    command("clear_policy", "clear_policy [-p <vhost>] <name>", 1..=1, users::clear_policy),
    command("list_policies", "list_policies [-p <vhost>]", 0..=0, users::list_policies),
    command("set_operator_policy", "set_operator_policy [-p <vhost>] [--priority <n>] [--apply-to <what>] <name> <pattern> <definition>", 3..=3, users::set_operator_policy),
    command("clear_operator_policy", "clear_operator_policy [-p <vhost>] <name>", 1..=1, users::clear_operator_policy),
    command("list_operator_policies", "list_operator_policies [-p <vhost>]", 0..=0, users::list_operator_policies),
    command("set_parameter", "set_parameter [-p <vhost>] <component> <name> <value>", 3..=3, users::set_parameter),
    command("clear_parameter", "clear_parameter [-p <vhost>] <component> <name>", 2..=2, users::clear_parameter),
    command("list_parameters", "list_parameters [-p <vhost>]", 0..=0, users::list_parameters),
    command("set_global_parameter", "set_global_parameter <name> <value>", 2..=2, users::set_global_parameter),
    command("clear_global_parameter", "clear_global_parameter <name>", 1..=1, users::clear_global_parameter),
    command("list_global_parameters", "list_global_parameters", 0..=0, users::list_global_parameters),
    command("set_cluster_name", "set_cluster_name <name>", 1..=1, users::set_cluster_name),
    // Lists.
    command("list_queues", "list_queues [-p <vhost>] [--all] [--online] [--offline] [--local] [<column> ...]", 0..=MANY, lists::list_queues),
    command("list_exchanges", "list_exchanges [-p <vhost>] [<column> ...]", 0..=MANY, lists::list_exchanges),
    command("list_bindings", "list_bindings [-p <vhost>] [<column> ...]", 0..=MANY, lists::list_bindings),
    command("list_connections", "list_connections [<column> ...]", 0..=MANY, lists::list_connections),
    command("list_channels", "list_channels [-p <vhost>] [<column> ...]", 0..=MANY, lists::list_channels),
    command("list_consumers", "list_consumers [-p <vhost>] [<column> ...]", 0..=MANY, lists::list_consumers),
    command("list_feature_flags", "list_feature_flags [<column> ...]", 0..=MANY, lists::list_feature_flags),
    command("list_deprecated_features", "list_deprecated_features [--used] [<column> ...]", 0..=MANY, lists::list_deprecated_features),
    command("list_unresponsive_queues", "list_unresponsive_queues [-p <vhost>] [--queue-timeout <milliseconds>] [--all] [--local] [<column> ...]", 0..=MANY, lists::list_unresponsive_queues),
    // Queues and connections.
    command("purge_queue", "purge_queue [-p <vhost>] <queue>", 1..=1, node::purge_queue),
    command("delete_queue", "delete_queue [-p <vhost>] <queue> [--if-empty] [--if-unused]", 1..=1, node::delete_queue),
    command("close_connection", "close_connection <connection pid or name> <explanation>", 2..=2, node::close_connection),
    command("close_all_connections", "close_all_connections [-p <vhost>] [--global] [--limit <n>] [--per-connection-delay <ms>] <explanation>", 1..=1, node::close_all_connections),
    command("close_all_user_connections", "close_all_user_connections <username> <explanation>", 2..=2, node::close_all_user_connections),
    command("import_definitions", "import_definitions [<file>] [--format json] [--skip-if-unchanged] [--skip-unsupported]", 0..=1, node::import_definitions),
    command("export_definitions", "export_definitions [<file>|-] [--format json]", 0..=1, node::export_definitions),
    // The node.
    command("status", "status [--unit <bytes|kb|kib|mb|mib|gb|gib|tb|tib>]", 0..=0, node::status),
    command("cluster_status", "cluster_status", 0..=0, cluster_status::cluster_status),
    command("forget_cluster_node", "forget_cluster_node <node> [--offline]", 1..=1, cluster::forget_cluster_node),
    command("grow", "grow <node> <all|even> [--vhost-pattern <pattern>] [--queue-pattern <pattern>] [--membership <promotable|voter>] [--errors-only]", 2..=2, cluster::grow),
    command("grow_to_count", "grow_to_count <node_count> <all|even> [--vhost-pattern <pattern>] [--queue-pattern <pattern>] [--membership <promotable|voter>] [--errors-only]", 2..=2, cluster::grow_to_count),
    command("shrink", "shrink <node> [--vhost-pattern <pattern>] [--queue-pattern <pattern>] [--errors-only]", 1..=1, cluster::shrink),
    command("add_member", "add_member [-p <vhost>] <queue> <node> [--membership <promotable|voter>]", 2..=2, cluster::add_member),
    command("quorum_status", "quorum_status [-p <vhost>] <queue>", 1..=1, cluster::quorum_status),
    command("peek", "peek [-p <vhost>] <queue> <position>", 2..=2, cluster::peek),
    command("transfer_leadership", "transfer_leadership [-p <vhost>] <queue> <node>", 2..=2, cluster::transfer_leadership),
    command("reclaim_quorum_memory", "reclaim_quorum_memory [-p <vhost>] <queue>", 1..=1, cluster::reclaim_quorum_memory),
    command("force_checkpoint", "force_checkpoint [--vhost-pattern <pattern>] [--queue-pattern <pattern>]", 0..=0, cluster::by_itself),
    command("delete_member", "delete_member [-p <vhost>] <queue> <node>", 2..=2, cluster::delete_member),
    command("ping", "ping", 0..=0, node::ping),
    waiting(command("await_startup", "await_startup", 0..=0, node::await_startup)),
    waiting(command("await_online_nodes", "await_online_nodes <count>", 1..=1, node::await_online_nodes)),
    waiting(command("wait", "wait [<pid file>] [--pid <pid>]", 0..=1, node::await_startup)),
    command("start_app", "start_app", 0..=0, node::start_app),
    command("stop_app", "stop_app", 0..=0, node::stop_app),
    command("stop", "stop", 0..=0, operate::stop),
    command("shutdown", "shutdown", 0..=0, operate::shutdown),
    command("set_vm_memory_high_watermark", "set_vm_memory_high_watermark <fraction> | absolute <size>", 1..=2, node::set_memory_watermark),
    command("set_disk_free_limit", "set_disk_free_limit <size> | mem_relative <fraction>", 1..=2, node::set_disk_limit),
    command("suspend_listeners", "suspend_listeners", 0..=0, operate::suspend_listeners),
    command("resume_listeners", "resume_listeners", 0..=0, operate::resume_listeners),
    command("rotate_logs", "rotate_logs", 0..=0, operate::rotate_logs),
    command("set_log_level", "set_log_level <debug|info|warning|error|critical|none>", 1..=2, operate::set_log_level),
    command("enable_feature_flag", "enable_feature_flag <name>|all", 1..=1, node::enable_feature_flag),
    command("environment", "environment", 0..=0, diagnostics::environment),
    command("report", "report", 0..=0, diagnostics::report),
    command("force_gc", "force_gc", 0..=0, diagnostics::nothing_to_do),
    command("force_boot", "force_boot", 0..=0, diagnostics::nothing_to_do),
    command("reconcile_vhosts", "reconcile_vhosts", 0..=0, diagnostics::nothing_to_do),
    command("rebalance", "rebalance <all|classic|quorum> [--vhost-pattern <regex>] [--queue-pattern <regex>]", 0..=1, node::rebalance),
    offline(command("version", "version", 0..=0, node::version)),
    // What can have no meaning here, and says what serves instead.
    refused("sync_queue"),
    refused("cancel_sync_queue"),
    refused("change_cluster_node_type"),
    refused("schema_info"),
    refused("activate_free_disk_space_monitoring"),
    refused("activate_stream_consumer"),
    refused("add_signing_key"),
    refused("add_uaa_key"),
    refused("clear_auth_backend_cache"),
    refused("command_line_arguments"),
    refused("consistent_hash_exchange_ring_state"),
    refused("consume_event_stream"),
    refused("coordinator_status"),
    refused("deactivate_free_disk_space_monitoring"),
    refused("decode"),
    refused("decrypt_conf_value"),
    refused("delete_shovel"),
    refused("encode"),
    refused("encrypt_conf_value"),
    refused("erlang_cookie_hash"),
    refused("erlang_cookie_sources"),
    refused("eval"),
    refused("eval_file"),
    refused("exec"),
    refused("federation_status"),
    refused("force_reset"),
    refused("force_standalone_khepri_boot"),
    refused("join_cluster"),
    refused("list_hashes"),
    refused("list_mqtt_connections"),
    refused("list_network_interfaces"),
    refused("list_stomp_connections"),
    refused("list_trust_store_certificates"),
    refused("list_web_mqtt_connections"),
    refused("log_tail_stream"),
    refused("maybe_stuck"),
    refused("observer"),
    refused("os_env"),
    refused("refresh_trust_store"),
    refused("remote_shell"),
    refused("rename_cluster_node"),
    refused("reset"),
    refused("resolver_info"),
    refused("restart_federation_link"),
    refused("restart_shovel"),
    refused("runtime_thread_stats"),
    refused("set_stream_retention_policy"),
    refused("shovel_status"),
    refused("update_cluster_nodes"),
    // rabbitmq-streams.
    command("list_stream_connections", "list_stream_connections [--verbose] [<column> ...]", 0..=MANY, streams::list_connections),
    command("list_stream_publishers", "list_stream_publishers [-p <vhost>] [--verbose] [<column> ...]", 0..=MANY, streams::list_publishers),
    command("list_stream_consumers", "list_stream_consumers [-p <vhost>] [--verbose] [<column> ...]", 0..=MANY, streams::list_consumers),
    command("list_stream_consumer_groups", "list_stream_consumer_groups [-p <vhost>] [--verbose] [<column> ...]", 0..=MANY, streams::list_groups),
    command("list_stream_group_consumers", "list_stream_group_consumers --stream <stream> --reference <reference> [-p <vhost>] [--verbose] [<column> ...]", 0..=MANY, streams::list_group_consumers),
    command("list_stream_tracking", "list_stream_tracking [-p <vhost>] <stream> [--all | --offset | --writer]", 1..=1, streams::list_tracking),
    command("stream_status", "stream_status [-p <vhost>] [--tracking] <stream>", 1..=1, streams::stream_status),
    command("add_replica", "add_replica [-p <vhost>] <stream> <node>", 2..=2, streams::add_replica),
    command("delete_replica", "delete_replica [-p <vhost>] <stream> <node>", 2..=2, streams::delete_replica),
    command("restart_stream", "restart_stream [-p <vhost>] <stream> [--preferred-leader-node <node>]", 1..=1, streams::restart_stream),
    command("reset_offset", "reset_offset [-p <vhost>] --stream <stream> --reference <reference>", 0..=0, streams::reset_offset),
    command("add_super_stream", "add_super_stream <name> [-p <vhost>] [--partitions <n>] [--binding-keys <a,b>|--routing-keys <a,b>] [--routing key|hash|key-or-hash] [--max-length-bytes <size>] [--max-age <duration>] [--stream-max-segment-size-bytes <size>] [--leader-locator <locator>] [--initial-cluster-size <n>]", 1..=1, streams::add_super_stream),
    command("add_super_stream_partitions", "add_super_stream_partitions <name> [-p <vhost>] [--partitions <n>] [--binding-keys <a,b>|--routing-keys <a,b>] [--max-length-bytes <size>] [--max-age <duration>] [--stream-max-segment-size-bytes <size>] [--leader-locator <locator>] [--initial-cluster-size <n>]", 1..=1, streams::add_super_stream_partitions),
    command("delete_super_stream", "delete_super_stream <name> [-p <vhost>]", 1..=1, streams::delete_super_stream),
    // Leveret's own, of streams.
    command("list_super_streams", "list_super_streams [-p <vhost>] [--verbose] [<column> ...]", 0..=MANY, streams::list_super_streams),
    command("drain_super_stream_partition", "drain_super_stream_partition [-p <vhost>] <name> <partition>", 2..=2, streams::drain_super_stream_partition),
    command("undrain_super_stream_partition", "undrain_super_stream_partition [-p <vhost>] <name> <partition>", 2..=2, streams::undrain_super_stream_partition),
    command("list_stream_groups", "list_stream_groups [-p <vhost>] [--verbose] [<column> ...]", 0..=MANY, stream_groups::list_stream_groups),
    command("set_stream_group_offset", "set_stream_group_offset [-p <vhost>] <stream> <group> [<first|last|offset>] [--timestamp <milliseconds|date>] [--partition <stream>] [--create]", 2..=3, stream_groups::set_stream_group_offset),
    command("delete_stream_group", "delete_stream_group [-p <vhost>] <stream> <group>", 2..=2, stream_groups::delete_stream_group),
    command("browse_stream", "browse_stream [-p <vhost>] <stream> [<first|last|offset>] [--timestamp <milliseconds|date>] [--count <n>] [--filter <a,b>]", 1..=2, stream_groups::browse_stream),
    // Checks of rabbitmq-diagnostics.
    command("check_running", "check_running", 0..=0, node::check_running),
    command("check_local_alarms", "check_local_alarms", 0..=0, node::check_local_alarms),
    command("check_alarms", "check_alarms", 0..=0, node::check_alarms),
    command("check_virtual_hosts", "check_virtual_hosts", 0..=0, node::check_virtual_hosts),
    command("check_port_connectivity", "check_port_connectivity", 0..=0, node::check_port_connectivity),
    command("check_port_listener", "check_port_listener <port>", 1..=1, node::check_port_listener),
    command("check_protocol_listener", "check_protocol_listener <protocol>", 1..=1, node::check_protocol_listener),
    command("check_certificate_expiration", "check_certificate_expiration [--within <n>] [--unit <days|weeks|months|years>]", 0..=0, diagnostics::check_certificate_expiration),
    command("check_for_quorum_queues_without_an_elected_leader", "check_for_quorum_queues_without_an_elected_leader [-p <vhost>|--across-all-vhosts] [<pattern>]", 0..=1, diagnostics::check_leaders),
    command("check_if_metadata_store_is_initialized", "check_if_metadata_store_is_initialized", 0..=0, diagnostics::check_metadata_store),
    command("check_if_metadata_store_is_initialized_with_data", "check_if_metadata_store_is_initialized_with_data", 0..=0, diagnostics::check_metadata_store_with_data),
    command("check_if_node_is_quorum_critical", "check_if_node_is_quorum_critical", 0..=0, diagnostics::check_quorum_critical),
    command("check_if_node_is_mirror_sync_critical", "check_if_node_is_mirror_sync_critical", 0..=0, diagnostics::nothing_to_do),
    command("check_if_any_deprecated_features_are_used", "check_if_any_deprecated_features_are_used", 0..=0, diagnostics::nothing_to_do),
    command("alarms", "alarms", 0..=0, diagnostics::alarms),
    command("is_booting", "is_booting", 0..=0, diagnostics::is_booting),
    command("log_location", "log_location [--all]", 0..=0, diagnostics::log_location),
    command("log_tail", "log_tail [-N|--number <lines>]", 0..=0, diagnostics::log_tail),
    command("memory_breakdown", "memory_breakdown [--unit <bytes|kb|kib|mb|mib|gb|gib|tb|tib>]", 0..=0, diagnostics::memory_breakdown),
    offline(command("erlang_version", "erlang_version", 0..=0, diagnostics::erlang_version)),
    offline(command("tls_versions", "tls_versions", 0..=0, diagnostics::tls_versions)),
    offline(command("resolve_hostname", "resolve_hostname <name> [--address-family <IPv4|IPv6|any>]", 1..=1, diagnostics::resolve_hostname)),
    command("is_running", "is_running", 0..=0, node::is_running),
    command("listeners", "listeners", 0..=0, node::listeners),
    command("server_version", "server_version", 0..=0, node::server_version),
    command("certificates", "certificates", 0..=0, status::certificates),
    command("discover_peers", "discover_peers", 0..=0, status::discover_peers),
    command("metadata_store_status", "metadata_store_status", 0..=0, status::metadata_store_status),
    command("list_node_auth_attempt_stats", "list_node_auth_attempt_stats [--by-source]", 0..=0, status::auth_attempts),
    command("enable_auth_attempt_source_tracking", "enable_auth_attempt_source_tracking", 0..=0, status::track_login_sources),
    command("disable_auth_attempt_source_tracking", "disable_auth_attempt_source_tracking", 0..=0, status::track_no_login_sources),
    command("reset_node_auth_attempt_metrics", "reset_node_auth_attempt_metrics", 0..=0, status::reset_auth_attempts),
    command("list_policies_that_match", "list_policies_that_match [-p <vhost>] <name of a queue>", 1..=1, status::policies_that_match),
    command("node_health_check", "node_health_check", 0..=0, status::node_health_check),
    command("check_if_new_quorum_queue_replicas_have_finished_initial_sync", "check_if_new_quorum_queue_replicas_have_finished_initial_sync", 0..=0, status::replicas_are_whole),
    command("check_if_cluster_has_classic_queue_mirroring_policy", "check_if_cluster_has_classic_queue_mirroring_policy", 0..=0, status::check_mirroring),
    command("list_policies_with_classic_queue_mirroring", "list_policies_with_classic_queue_mirroring", 0..=0, status::mirroring_policies),
    command("list_operator_policies_with_classic_queue_mirroring", "list_operator_policies_with_classic_queue_mirroring", 0..=0, status::mirroring_operator_policies),
    command("remove_classic_queue_mirroring_from_policies", "remove_classic_queue_mirroring_from_policies", 0..=0, status::remove_mirroring),
    command("set_permissions_globally", "set_permissions_globally <username> <conf> <write> <read>", 4..=4, status::set_permissions_globally),
    command("reset_stats_db", "reset_stats_db [--all]", 0..=0, status::reset_rates),
    command("message_size_stats", "message_size_stats", 0..=0, status::message_sizes),
    offline(command("cipher_suites", "cipher_suites", 0..=0, status::cipher_suites)),
    offline(command("list_ciphers", "list_ciphers", 0..=0, status::cipher_suites)),
    offline(command("directories", "directories [--online] [--offline]", 0..=0, status::plugin_directories)),
    offline(command("autocomplete", "autocomplete [<beginning of a command>|bash|zsh|fish]", 0..=1, complete::autocomplete)),
    // rabbitmq-plugins: what a plugin of RabbitMQ gives is in the binary, or is not.
    offline(command("enable", "enable <plugin> [...] [--online] [--offline] [--all]", 0..=MANY, node::enable_plugins)),
    offline(command("disable", "disable <plugin> [...] [--online] [--offline] [--all]", 0..=MANY, node::disable_plugins)),
    offline(command("list", "list [-m|--minimal] [-v|--verbose] [-E|--enabled] [-e] [<part of a name>]", 0..=1, diagnostics::list_plugins)),
    offline(command("is_enabled", "is_enabled <plugin> [...] [--online] [--offline]", 1..=MANY, diagnostics::is_plugin_enabled)),
    // rabbitmq-upgrade.
    waiting(command("await_online_quorum_plus_one", "await_online_quorum_plus_one", 0..=0, node::await_quorum_plus_one)),
    command("drain", "drain", 0..=0, cluster::drain),
    command("revive", "revive", 0..=0, cluster::revive),
    command("await_online_synchronized_mirror", "await_online_synchronized_mirror", 0..=0, diagnostics::nothing_to_do),
    command("post_upgrade", "post_upgrade", 0..=0, diagnostics::nothing_to_do),
    command("has_reached_target_cluster_size", "has_reached_target_cluster_size", 0..=0, diagnostics::check_cluster_size),
    offline(command("set", "set <plugin> [...] [--online] [--offline]", 0..=MANY, node::enable_plugins)),
];

/// All commands, by subject.
#[cfg(test)]
pub fn all() -> impl Iterator<Item = &'static Command> {
    COMMANDS.iter()
}

/// The names of all commands.
pub fn names() -> impl Iterator<Item = &'static str> {
    COMMANDS.iter().map(|command| command.name)
}

/// The command of this name, or the failure that names the nearest.
pub fn find(name: &str) -> Result<&'static Command, Failure> {
    if let Some(command) = COMMANDS.iter().find(|c| c.name == name) {
        return Ok(command);
    }
    let near = COMMANDS
        .iter()
        .map(|c| (strsim::damerau_levenshtein(c.name, name), c.name))
        .min()
        .filter(|(distance, _)| *distance <= 1 + name.len() / 4);
    let hint = near.map(|(_, near)| format!("\nDid you mean '{near}'?"));
    Err(Failure {
        code: code::USAGE,
        text: format!(
            "\nCommand '{name}' not found.{}",
            hint.unwrap_or_else(|| "\nSee `help` for the commands.".to_owned())
        ),
    })
}

/// How to use one command, or which there are.
pub fn usage(name: Option<&str>) -> String {
    match name.map(find) {
        Some(Ok(command)) => help::of(command),
        Some(Err(failure)) => format!("{}\n", failure.text),
        None => {
            let usages = COMMANDS.iter().map(|c| format!("    {}\n", c.usage));
            let options = concat!(
                "Options: -p <vhost>, -q, -s, --formatter <table|pretty_table|json|json_stream|csv> or --json, ",
                "--no-table-headers, -t <seconds>, -n <node> (refused if it is not the one found), ",
                "--data-dir <folder> or --url <http://host:port> --user <name> --password <word>"
            );
            format!(
                "Usage\n\nrabbitmqctl [options] <command> [<arguments>]\n\n{options}\n\nCommands:\n\n{}",
                usages.collect::<String>()
            )
        }
    }
}
