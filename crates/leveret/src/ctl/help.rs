//! `help COMMAND`: what it does in a sentence, how it is used, an example, and the columns of
//! lists.

use super::commands::Command;
use super::{instead, lists, stream_groups, streams};
use std::fmt::Write;

/// Commands, what each does, and the arguments of an example.
#[rustfmt::skip]
const HELP: &[(&str, &str, &str)] = &[
    // Users.
    ("add_user", "Adds a user, who may do nothing until permissions are set.", "alice"),
    ("authenticate_user", "Tries a user's password.", "alice"),
    ("change_password", "Gives a user another password; it is asked for where it is not given.", "alice"),
    ("clear_password", "Takes a user's password away, so that only a certificate lets the user in.", "alice"),
    ("delete_user", "Removes a user, with all permissions, and closes the user's connections.", "alice"),
    ("hash_password", "Writes a password's hash, as definitions have it.", "secret"),
    ("list_users", "Lists users with their tags.", ""),
    ("set_user_tags", "Sets a user's tags, instead of those that there are: administrator, monitoring, policymaker, management.", "alice monitoring"),
    ("set_user_limits", "Bounds a user's connections and channels.", "alice '{\"max-connections\": 10}'"),
    ("clear_user_limits", "Removes a user's limit, or all of them.", "alice all"),
    ("list_user_limits", "Lists the limits of a user, or of all.", "--global"),
    // Permissions.
    ("set_permissions", "Says what a user may configure, write and read in a virtual host: three regular expressions of names.", "-p / alice '^alice-' '.*' '.*'"),
    ("set_permissions_globally", "Says so in every virtual host.", "alice '' '' '.*'"),
    ("clear_permissions", "Takes a user's permissions in a virtual host away.", "-p / alice"),
    ("list_permissions", "Lists who may do what in a virtual host.", "-p /"),
    ("list_user_permissions", "Lists what a user may do where.", "alice"),
    ("set_topic_permissions", "Says with which routing keys a user may publish to, and bind to, a topic exchange.", "-p / alice amq.topic '^orders\\.' '.*'"),
    ("clear_topic_permissions", "Takes a user's permissions for routing keys away.", "-p / alice amq.topic"),
    ("list_topic_permissions", "Lists permissions for routing keys in a virtual host.", "-p /"),
    ("list_user_topic_permissions", "Lists a user's permissions for routing keys.", "alice"),
    // Virtual hosts.
    ("add_vhost", "Adds a virtual host.", "shop --default-queue-type quorum"),
    ("delete_vhost", "Removes a virtual host with everything in it.", "shop"),
    ("update_vhost_metadata", "Changes a virtual host's description, tags or default type of queues.", "shop --description 'the shop'"),
    ("list_vhosts", "Lists virtual hosts.", "name tracing"),
    ("set_vhost_tags", "Sets a virtual host's tags.", "shop production"),
    ("enable_vhost_deletion_protection", "Refuses that a virtual host is deleted.", "shop"),
    ("disable_vhost_deletion_protection", "Lets a virtual host be deleted again.", "shop"),
    ("restart_vhost", "Does nothing: virtual hosts do not stop by themselves.", "-p shop"),
    ("set_vhost_limits", "Bounds a virtual host's connections and queues.", "-p shop '{\"max-queues\": 500}'"),
    ("clear_vhost_limits", "Removes a virtual host's limits.", "-p shop"),
    ("list_vhost_limits", "Lists limits of virtual hosts.", ""),
    ("trace_on", "Publishes a copy of every message of a virtual host to amq.rabbitmq.trace.", "-p /"),
    ("trace_off", "Ends that.", "-p /"),
    // Policies and parameters.
    ("set_policy", "Sets arguments of all queues or exchanges whose names match a regular expression.", "-p / --apply-to queues limits '^orders' '{\"max-length\": 100000}'"),
    ("clear_policy", "Removes a policy.", "-p / limits"),
    ("list_policies", "Lists policies.", "-p /"),
    ("set_operator_policy", "Bounds what policies and arguments of queues may say.", "-p / --apply-to queues ttl '.*' '{\"message-ttl\": 86400000}'"),
    ("clear_operator_policy", "Removes an operator policy.", "-p / ttl"),
    ("list_operator_policies", "Lists operator policies.", "-p /"),
    ("list_policies_that_match", "Lists the policies that match a queue, the one in force first.", "-p / orders"),
    ("set_parameter", "Sets a parameter of a component.", "-p / mine name '{}'"),
    ("clear_parameter", "Removes a parameter of a component.", "-p / mine name"),
    ("list_parameters", "Lists parameters of components.", "-p /"),
    ("set_global_parameter", "Sets a parameter that is of no virtual host.", "owner '\"ops\"'"),
    ("clear_global_parameter", "Removes a parameter that is of no virtual host.", "owner"),
    ("list_global_parameters", "Lists parameters that are of no virtual host.", ""),
    ("set_cluster_name", "Names the cluster, as clients and dashboards show it.", "shop-production"),
    // Lists.
    ("list_queues", "Lists the queues of a virtual host.", "-p / name messages consumers state"),
    ("list_exchanges", "Lists the exchanges of a virtual host.", "-p / name type policy"),
    ("list_bindings", "Lists the bindings of a virtual host.", "-p / source_name routing_key destination_name"),
    ("list_connections", "Lists clients' connections.", "name user state channels"),
    ("list_channels", "Lists channels.", "name consumer_count messages_unacknowledged prefetch_count"),
    ("list_consumers", "Lists consumers.", "-p / queue_name consumer_tag active prefetch_count"),
    ("list_feature_flags", "Lists feature flags: all of them are enabled.", ""),
    ("list_deprecated_features", "Lists deprecated features: none is.", ""),
    ("list_unresponsive_queues", "Lists queues that do not answer.", "-p /"),
    // Queues and connections.
    ("purge_queue", "Removes the messages that are ready in a queue.", "-p / orders"),
    ("delete_queue", "Removes a queue with its messages.", "-p / orders --if-empty"),
    ("close_connection", "Closes a client's connection, with a reason that the client is told.", "'127.0.0.1:50000 -> 127.0.0.1:5672' maintenance"),
    ("close_all_connections", "Closes the connections of a virtual host, or all with --global.", "-p / maintenance"),
    ("close_all_user_connections", "Closes a user's connections.", "alice 'password changed'"),
    ("import_definitions", "Takes definitions from a file.", "definitions.json"),
    ("export_definitions", "Writes definitions to a file, or to standard output for `-`.", "definitions.json"),
    // The node.
    ("status", "Shows the node: versions, alarms, memory, listeners, totals.", ""),
    ("cluster_status", "Shows the cluster: its nodes, which run, their alarms and listeners.", ""),
    ("forget_cluster_node", "Takes a node out of the cluster for good.", "leveret@node-3"),
    ("grow", "Adds a member on a node to every quorum queue that matches.", "leveret@node-3 all"),
    ("grow_to_count", "Adds members to quorum queues that have fewer.", "3 all"),
    ("shrink", "Removes a node's members of quorum queues.", "leveret@node-3"),
    ("add_member", "Adds a member to a quorum queue.", "-p / orders leveret@node-3"),
    ("delete_member", "Removes a member of a quorum queue.", "-p / orders leveret@node-3"),
    ("quorum_status", "Shows the members of a quorum queue, who leads, and how far each is.", "-p / orders"),
    ("peek", "Shows a ready message of a quorum queue, from 1 on, and leaves it there.", "-p / orders 1"),
    ("transfer_leadership", "Lets another member lead a quorum queue.", "-p / orders leveret@node-2"),
    ("reclaim_quorum_memory", "Lets a quorum queue's log be cut now.", "-p / orders"),
    ("force_checkpoint", "Does nothing: checkpoints are made by themselves.", ""),
    ("ping", "Says whether the node's process answers.", ""),
    ("await_startup", "Waits until the node has started.", "-t 60"),
    ("await_online_nodes", "Waits until so many nodes of the cluster are up.", "3 -t 60"),
    ("wait", "Waits until the node has started.", "--pid 1234"),
    ("start_app", "Lets clients in again.", ""),
    ("stop_app", "Closes all clients' connections and lets none in; the process goes on.", ""),
    ("stop", "Stops the node.", ""),
    ("shutdown", "Stops the node, and waits until its process has ended.", ""),
    ("set_vm_memory_high_watermark", "Says how much memory the node uses before publishers wait, until it starts again.", "0.6"),
    ("set_disk_free_limit", "Says how much of the disk is left when publishers begin to wait, until the node starts again.", "2GB"),
    ("suspend_listeners", "Lets no new connection in; those that are there stay.", ""),
    ("resume_listeners", "Lets new connections in again.", ""),
    ("rotate_logs", "Puts the log file away and begins another.", ""),
    ("set_log_level", "Says what the log shows, until the node starts again.", "debug"),
    ("enable_feature_flag", "Does nothing for flags that there are: all are enabled.", "all"),
    ("environment", "Shows the configuration in force.", ""),
    ("report", "Writes status, cluster, lists and configuration, for a bug report.", ""),
    ("force_gc", "Does nothing: there is no garbage to collect.", ""),
    ("force_boot", "Does nothing: a node never waits for others to start.", ""),
    ("reconcile_vhosts", "Does nothing: every virtual host is on every node.", ""),
    ("rebalance", "Spreads the leaders of quorum queues over the nodes.", "all"),
    ("version", "Shows the version of the command line.", ""),
    ("reset_stats_db", "Lets rates begin anew.", "--all"),
    ("remove_classic_queue_mirroring_from_policies", "Does nothing: policies with ha-mode make replicated queues here.", ""),
    // rabbitmq-streams.
    ("list_stream_connections", "Lists connections of the stream protocol.", "conn_name user subscriptions"),
    ("list_stream_publishers", "Lists publishers of streams.", "-p / stream reference messages_published"),
    ("list_stream_consumers", "Lists consumers of streams, with how far behind each is.", "-p / stream offset offset_lag active"),
    ("list_stream_consumer_groups", "Lists groups of single active consumers.", "-p /"),
    ("list_stream_group_consumers", "Lists the consumers of a group.", "--stream invoices --reference billing"),
    ("list_stream_tracking", "Lists the offsets and publishing ids that a stream keeps by name.", "-p / invoices --offset"),
    ("stream_status", "Shows a stream's replicas, who leads, and how far each is.", "-p / invoices"),
    ("add_replica", "Adds a replica to a stream.", "-p / invoices leveret@node-3"),
    ("delete_replica", "Removes a replica of a stream.", "-p / invoices leveret@node-3"),
    ("restart_stream", "Lets a stream elect its leader anew.", "-p / invoices --preferred-leader-node leveret@node-2"),
    ("reset_offset", "Sets the offset that a stream keeps for a consumer back to the beginning.", "-p / --stream invoices --reference billing"),
    ("add_super_stream", "Declares a super stream with its partitions.", "invoices --partitions 3"),
    ("add_super_stream_partitions", "Adds partitions behind those that a super stream has.", "invoices --partitions 3"),
    ("list_super_streams", "Shows super streams with their partitions, and which are drained.", ""),
    ("drain_super_stream_partition", "Has nothing more published to a partition; consumers go on.", "invoices invoices-2"),
    ("undrain_super_stream_partition", "Has a drained partition published to again.", "invoices invoices-2"),
    ("delete_super_stream", "Removes a super stream with its partitions.", "invoices"),
    ("list_stream_groups", "Lists groups of consumers of streams, also those of which none is connected, with how far behind each is.", "-p / stream name partition offset lag"),
    ("set_stream_group_offset", "Sets the offset that a stream, or each partition of a super stream, keeps for a group.", "-p / invoices billing first"),
    ("delete_stream_group", "Removes the offsets of a group of which no consumer is connected.", "-p / invoices billing"),
    ("browse_stream", "Shows messages of a stream, and leaves them and all consumers as they are.", "-p / invoices last --count 5"),
    // Checks.
    ("check_running", "Passes if the node runs and takes clients.", ""),
    ("check_local_alarms", "Passes if the node has no alarm.", ""),
    ("check_alarms", "Passes if no node of the cluster has an alarm.", ""),
    ("check_virtual_hosts", "Passes if all virtual hosts run.", ""),
    ("check_port_connectivity", "Passes if all ports of the node's listeners can be connected to.", ""),
    ("check_port_listener", "Passes if the node listens at a port.", "5672"),
    ("check_protocol_listener", "Passes if the node speaks a protocol.", "amqp"),
    ("check_certificate_expiration", "Passes if no certificate expires soon.", "--within 4 --unit weeks"),
    ("check_for_quorum_queues_without_an_elected_leader", "Passes if every quorum queue has a leader.", "--across-all-vhosts"),
    ("check_if_metadata_store_is_initialized", "Passes if the catalogue can be read.", ""),
    ("check_if_metadata_store_is_initialized_with_data", "Passes if the catalogue can be read and has something in it.", ""),
    ("check_if_node_is_quorum_critical", "Passes if every quorum queue keeps a majority without this node.", ""),
    ("check_if_node_is_mirror_sync_critical", "Always passes: mirrored queues are replicated as quorum queues are.", ""),
    ("check_if_any_deprecated_features_are_used", "Always passes: nothing is deprecated.", ""),
    ("check_if_new_quorum_queue_replicas_have_finished_initial_sync", "Passes if all members of quorum queues have caught up and vote.", ""),
    ("check_if_cluster_has_classic_queue_mirroring_policy", "Passes if no policy has ha-mode.", ""),
    ("list_policies_with_classic_queue_mirroring", "Lists policies with ha-mode.", ""),
    ("list_operator_policies_with_classic_queue_mirroring", "Lists operator policies with ha-mode.", ""),
    ("node_health_check", "Passes if the node runs without an alarm.", ""),
    ("alarms", "Lists alarms of all nodes.", ""),
    ("is_booting", "Says whether the node is starting.", ""),
    ("is_running", "Says whether the node runs.", ""),
    ("log_location", "Shows where the log goes.", ""),
    ("log_tail", "Shows the log file's last lines.", "-N 50"),
    ("memory_breakdown", "Shows what the node's memory is used for.", "--unit mb"),
    ("erlang_version", "Says that there is no Erlang.", ""),
    ("tls_versions", "Lists the versions of TLS that are spoken.", ""),
    ("cipher_suites", "Lists the cipher suites that are offered.", ""),
    ("list_ciphers", "Lists the cipher suites that are offered.", ""),
    ("resolve_hostname", "Resolves a name as the command line does.", "node-2.example.com"),
    ("listeners", "Lists addresses and protocols at which the node listens.", ""),
    ("server_version", "Shows the version of RabbitMQ that clients are told.", ""),
    ("certificates", "Shows the certificates of the node's listeners.", ""),
    ("discover_peers", "Lists the nodes that form the cluster.", ""),
    ("metadata_store_status", "Shows who leads the catalogue and who votes.", ""),
    ("list_node_auth_attempt_stats", "Counts logins by protocol, or by address and user too.", "--by-source"),
    ("enable_auth_attempt_source_tracking", "Counts logins by address and user too, until the next start.", ""),
    ("disable_auth_attempt_source_tracking", "Counts logins by address and user no more.", ""),
    ("reset_node_auth_attempt_metrics", "Begins to count logins anew, in lists of the API and of this command.", ""),
    ("message_size_stats", "Shows how large the messages are that wait.", ""),
    // rabbitmq-plugins.
    ("enable", "Passes for plugins whose work the binary does.", "rabbitmq_management"),
    ("disable", "Fails for plugins whose work the binary does: nothing can be turned off.", "rabbitmq_mqtt"),
    ("set", "The same as enable.", "rabbitmq_management"),
    ("list", "Lists plugins whose work the binary does.", "-m"),
    ("is_enabled", "Passes if the binary does a plugin's work.", "rabbitmq_management"),
    ("directories", "Says that plugins have no folders.", ""),
    // rabbitmq-upgrade.
    ("await_online_quorum_plus_one", "Waits until this node may be stopped without a queue losing its majority.", "-t 60"),
    ("await_online_synchronized_mirror", "Does nothing: there are no mirrored queues, and await_online_quorum_plus_one waits for replicated ones.", ""),
    ("drain", "Hands the node's leaders to others and lets no client in, for maintenance.", ""),
    ("revive", "Ends that.", ""),
    ("post_upgrade", "Does nothing: there is nothing to do after an upgrade.", ""),
    ("has_reached_target_cluster_size", "Passes if as many nodes are there as were to form the cluster.", ""),
    ("autocomplete", "Lists commands with a beginning, or writes a shell's completion script.", "bash"),
];

/// How a command is used.
pub fn of(command: &Command) -> String {
    let name = command.name;
    let mut text = format!("Usage\n\nrabbitmqctl {}\n", command.usage);
    let Some((_, what, example)) = HELP.iter().find(|(known, ..)| *known == name) else {
        // It is refused: what serves instead is all that there is to say.
        return format!("{text}\n{}\n", instead::reason(name));
    };
    // Writing to a string cannot fail.
    let _ = write!(text, "\n{what}\n\nExample\n\nrabbitmqctl {name} {example}");
    text.truncate(text.trim_end().len());
    text.push('\n');
    if let Some(list) = lists::list(name)
        .or_else(|| streams::list(name))
        .or_else(|| stream_groups::list(name))
    {
        let _ = write!(
            text,
            "\nColumns ({} where none is named)\n\n",
            list.default.join(", ")
        );
        for (column, _) in list.columns {
            let _ = writeln!(text, "{column}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ctl::{commands, options};

    #[test]
    fn every_command_has_a_sentence_and_an_example_that_it_takes() {
        for command in commands::all() {
            let row = HELP.iter().find(|(name, ..)| *name == command.name);
            let is_refused = instead::is_refused(command.name);
            assert_eq!(row.is_none(), is_refused, "{}", command.name);
            let Some((name, what, example)) = row else {
                continue;
            };
            assert!(what.ends_with('.'), "{name}");
            let words = words(example);
            let (options, arguments) = options::parse(&words)
                .unwrap_or_else(|failure| panic!("{name} {example}: {}", failure.text));
            assert!(
                options.not_taken(command.usage).is_empty(),
                "{name} {example}"
            );
            assert!(
                command.arguments.contains(&arguments.len()),
                "{name} {example}"
            );
        }
        for (name, ..) in HELP {
            assert!(commands::find(name).is_ok(), "{name}");
        }
    }

    /// What a shell makes of a line: words, some of them in single quotes.
    fn words(line: &str) -> Vec<String> {
        let mut words = vec![String::new()];
        let mut is_quoted = false;
        for c in line.chars() {
            match c {
                '\'' => is_quoted = !is_quoted,
                ' ' if !is_quoted => words.push(String::new()),
                c => words.last_mut().expect("one").push(c),
            }
        }
        if line.is_empty() {
            words.clear();
        }
        words
    }

    #[test]
    fn a_list_names_its_columns() {
        let help = of(commands::find("list_queues").expect("it is there"));
        for part in [
            "Lists the queues of a virtual host.",
            "rabbitmqctl list_queues -p / name messages consumers state",
            "Columns (name, messages where none is named)",
            "\nmessages_unacknowledged\n",
        ] {
            assert!(help.contains(part), "{part}: {help}");
        }
        let refused = of(commands::find("eval").expect("it is there"));
        assert!(refused.contains("there is no Erlang here"), "{refused}");
    }
}
