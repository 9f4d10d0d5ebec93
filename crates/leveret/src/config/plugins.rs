//! RabbitMQ's plugins: those whose work the binary does, and why the others are not there.

/// The plugins of RabbitMQ whose work the binary does.
pub const BUILT_IN: &[&str] = &[
    "rabbitmq_auth_mechanism_ssl",
    "rabbitmq_consistent_hash_exchange",
    "rabbitmq_delayed_message_exchange",
    "rabbitmq_management",
    "rabbitmq_management_agent",
    "rabbitmq_prometheus",
    "rabbitmq_random_exchange",
    "rabbitmq_recent_history_exchange",
    "rabbitmq_sharding",
    "rabbitmq_stream",
    "rabbitmq_stream_common",
    "rabbitmq_stream_management",
    "rabbitmq_web_dispatch",
];

/// Plugins without which nothing is missing, and why. A last `*` stands for any ending.
const NEEDLESS: &[(&str, &str)] = &[
    (
        "rabbitmq_amqp1_0",
        "AMQP 1.0 is not spoken; who needs it is told at the connection",
    ),
    ("rabbitmq_aws", "nothing here asks AWS"),
    (
        "rabbitmq_peer_discovery_*",
        "`cluster.join` says who forms a cluster",
    ),
    ("rabbitmq_top", "there are no Erlang processes"),
    (
        "rabbitmq_tracing",
        "`ctl trace_on` feeds amq.rabbitmq.trace",
    ),
    ("accept", "it is a library of RabbitMQ's"),
    ("cowboy", "it is a library of RabbitMQ's"),
    ("cowlib", "it is a library of RabbitMQ's"),
    ("amqp_client", "it is a library of RabbitMQ's"),
    ("prometheus", "it is a library of RabbitMQ's"),
];

/// Plugins that change who may log in, who is spoken to or where messages go, and what to do.
const MISSING: &[(&str, &str)] = &[
    (
        "rabbitmq_auth_backend_*",
        "users come from the node itself; take them over with definitions",
    ),
    (
        "rabbitmq_event_exchange",
        "there is no exchange of the broker's events; follow the log in JSON",
    ),
    ("rabbitmq_federation*", "there is no federation"),
    (
        "rabbitmq_jms_topic_exchange",
        "there is no exchange of the type x-jms-topic",
    ),
    (
        "rabbitmq_message_timestamp",
        "messages are handed on as they came",
    ),
    ("rabbitmq_mqtt", "MQTT is not spoken"),
    ("rabbitmq_shovel*", "there are no shovels"),
    ("rabbitmq_stomp", "STOMP is not spoken"),
    (
        "rabbitmq_trust_store",
        "put the certificates into `ssl_options.cacertfile`",
    ),
    (
        "rabbitmq_web_*",
        "only AMQP 0-9-1 and the stream protocol are spoken",
    ),
];

/// What it means here that a plugin is enabled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Enabled {
    /// The binary does its work.
    BuiltIn,
    /// Nothing is missing without it; why.
    Needless(&'static str),
    /// What it did is not done here; what to do.
    Missing(&'static str),
}

/// What it means that this plugin is enabled; none if it is no plugin of RabbitMQ's.
#[must_use]
pub fn find(plugin: &str) -> Option<Enabled> {
    if BUILT_IN.contains(&plugin) {
        return Some(Enabled::BuiltIn);
    }
    let within = |table: &'static [(&str, &'static str)]| {
        let row = table
            .iter()
            .find(|(pattern, _)| match pattern.strip_suffix('*') {
                Some(beginning) => plugin.starts_with(beginning),
                None => *pattern == plugin,
            });
        row.map(|(_, note)| *note)
    };
    within(NEEDLESS)
        .map(Enabled::Needless)
        .or_else(|| within(MISSING).map(Enabled::Missing))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plugins_are_built_in_needless_or_missing() {
        assert_eq!(find("rabbitmq_management"), Some(Enabled::BuiltIn));
        assert!(matches!(
            find("rabbitmq_peer_discovery_k8s"),
            Some(Enabled::Needless(_))
        ));
        assert!(matches!(
            find("rabbitmq_shovel_management"),
            Some(Enabled::Missing(_))
        ));
        assert_eq!(find("my_plugin"), None);
    }
}
