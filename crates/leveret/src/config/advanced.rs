//! RabbitMQ's `advanced.config` (and `rabbitmq.config`, which has the same form) and
//! `enabled_plugins` as settings under the names of `rabbitmq.conf`: the one table of keys judges
//! them.

use super::erlang::{self, Is, Term};
use super::{ConfigError, FileConfig, Source};

/// RabbitMQ's applications, and what their keys begin with in `rabbitmq.conf`.
const APPLICATIONS: &[(&str, &str)] = &[
    ("rabbit", ""),
    ("rabbitmq_management", "management"),
    ("rabbitmq_management_agent", "management_agent"),
    ("rabbitmq_prometheus", "prometheus"),
    ("rabbitmq_stream", "stream"),
    ("rabbitmq_mqtt", "mqtt"),
    ("rabbitmq_web_mqtt", "web_mqtt"),
    ("rabbitmq_stomp", "stomp"),
    ("rabbitmq_web_stomp", "web_stomp"),
    ("rabbitmq_shovel", "shovel"),
    ("rabbitmq_federation", "federation"),
    ("rabbitmq_auth_backend_ldap", "auth_ldap"),
    ("rabbitmq_auth_backend_http", "auth_http"),
    ("rabbitmq_auth_backend_oauth2", "auth_oauth2"),
    ("rabbitmq_auth_backend_cache", "auth_cache"),
    ("rabbitmq_trust_store", "trust_store"),
    ("rabbitmq_event_exchange", "event_exchange"),
    ("rabbitmq_tracing", "tracing"),
];

/// Applications of Erlang's and libraries of RabbitMQ's: nothing here has their settings.
const ERLANG: &[&str] = &[
    "aten",
    "inets",
    "kernel",
    "lager",
    "mnesia",
    "os_mon",
    "osiris",
    "ra",
    "ranch",
    "sasl",
    "ssl",
    "stdlib",
    "sysmon_handler",
    "syslog",
    "gen_batch_server",
    "khepri",
    "seshat",
];

/// Who is in the cluster, as `rabbitmq.conf` says it.
const NODES: &str = "cluster_formation.classic_config.nodes";

/// Settings of `rabbit` that have another name in `rabbitmq.conf`.
const RENAMED: &[(&str, &str)] = &[
    ("tcp_listeners", "listeners.tcp"),
    ("ssl_listeners", "listeners.ssl"),
    ("num_tcp_acceptors", "num_acceptors.tcp"),
    ("num_ssl_acceptors", "num_acceptors.ssl"),
    ("cluster_nodes", NODES),
    ("cluster_formation", "cluster_formation.entries"),
    ("log", "log.entries"),
    ("log_levels", "log.entries"),
];

impl FileConfig {
    /// Reads RabbitMQ's settings in Erlang's form.
    pub(super) fn read_erlang(&mut self, file: &str, text: &str) -> Result<(), ConfigError> {
        let at = |line, what: &str| ConfigError::at(Source::Line(file.to_owned(), line), what);
        let whole = erlang::parse(text).map_err(|(line, what)| at(line, &what))?;
        let form = "must be a list of {application, [{key, value}]}";
        let applications = whole.list().ok_or_else(|| at(whole.line, form))?;
        for application in applications {
            let (name, entries) = application
                .pair()
                .ok_or_else(|| at(application.line, form))?;
            let prefix = match APPLICATIONS.iter().find(|(known, _)| *known == name) {
                Some((_, prefix)) => (*prefix).to_owned(),
                None if ERLANG.contains(&name) => format!("erlang.{name}"),
                None => name.to_owned(),
            };
            let entries = entries.list().ok_or_else(|| at(entries.line, form))?;
            for entry in entries {
                let (key, value) = entry.pair().ok_or_else(|| at(entry.line, form))?;
                let name = match prefix.as_str() {
                    "" => renamed(key).to_owned(),
                    _ => format!("{prefix}.{key}"),
                };
                self.read_entry(file, &name, value, entry.line);
            }
        }
        Ok(())
    }

    fn read_entry(&mut self, file: &str, name: &str, value: &Term, line: usize) {
        // What is typed here goes before the file beside it, as a whole.
        self.forget(name);
        for (name, text) in settings(name, value) {
            self.set(&name, text, Source::Line(file.to_owned(), line));
        }
    }

    /// Reads which plugins RabbitMQ has enabled: `[rabbitmq_management,rabbitmq_shovel].`
    pub(super) fn read_plugins(&mut self, file: &str, text: &str) -> Result<(), ConfigError> {
        let at = |line, what: &str| ConfigError::at(Source::Line(file.to_owned(), line), what);
        let whole = erlang::parse(text).map_err(|(line, what)| at(line, &what))?;
        let form = "must be a list of plugins, such as [rabbitmq_management].";
        for plugin in whole.list().ok_or_else(|| at(whole.line, form))? {
            let name = plugin.scalar().ok_or_else(|| at(plugin.line, form))?;
            let source = Source::Line(file.to_owned(), plugin.line);
            self.set(&format!("enabled_plugins.{name}"), "true", source);
        }
        Ok(())
    }
}

fn renamed(key: &str) -> &str {
    let found = RENAMED.iter().find(|(theirs, _)| *theirs == key);
    found.map_or(key, |(_, name)| *name)
}

/// The settings that a value stands for.
fn settings(name: &str, value: &Term) -> Vec<(String, String)> {
    let one = |name: &str, text: &str| vec![(name.to_owned(), text.to_owned())];
    if let Some(text) = value.scalar() {
        return match name {
            "vm_memory_high_watermark" => one("vm_memory_high_watermark.relative", text),
            "disk_free_limit" => one("disk_free_limit.absolute", text),
            _ => one(name, text),
        };
    }
    match &value.is {
        Is::List(items) => list(name, items),
        // {Nodes, Type}
        Is::Tuple(parts) if name == NODES => {
            let nodes = parts.first().and_then(Term::list);
            list(name, nodes.unwrap_or_default())
        }
        _ => match value.pair() {
            Some(("mem_relative", factor)) => settings("disk_free_limit.relative", factor),
            Some(("absolute", bytes)) => settings("vm_memory_high_watermark.absolute", bytes),
            _ => one(name, "(a tuple)"),
        },
    }
}

/// The settings that a list stands for: keys below, flags, or numbered values.
fn list(name: &str, items: &[Term]) -> Vec<(String, String)> {
    let numbered = |at: usize, text: String| (format!("{name}.{}", at + 1), text);
    match name {
        // An empty list of listeners or users is said by a word of its own.
        "listeners.tcp" | "listeners.ssl" | "loopback_users" if items.is_empty() => {
            return vec![(name.to_owned(), "none".to_owned())];
        }
        "loopback_users" | "default_user_tags" => {
            let named = items.iter().filter_map(Term::scalar);
            return named
                .map(|item| (format!("{name}.{item}"), "true".to_owned()))
                .collect();
        }
        "default_permissions" => {
            let parts = ["configure", "write", "read"].iter().zip(items);
            let texts = parts.filter_map(|(part, item)| Some((part, item.scalar()?)));
            return texts
                .map(|(part, text)| (format!("{name}.{part}"), text.to_owned()))
                .collect();
        }
        _ => {}
    }
    let each = items.iter().enumerate();
    each.flat_map(|(at, item)| match (&item.is, item.pair()) {
        (Is::List(inner), _) => list(&format!("{name}.{}", at + 1), inner),
        // {Authentication, Authorization}
        (_, Some((authn, authz))) if name == "auth_backends" => vec![
            (format!("{name}.{}.authn", at + 1), authn.to_owned()),
            (
                format!("{name}.{}.authz", at + 1),
                authz.scalar().unwrap_or("(a list)").to_owned(),
            ),
        ],
        (_, Some((key, value))) => settings(&format!("{name}.{key}"), value),
        (Is::Tuple(parts), None) => vec![numbered(at, joined(parts))],
        _ => vec![numbered(at, item.scalar().unwrap_or_default().to_owned())],
    })
    .collect()
}

/// A listener's `{"127.0.0.1", 5672}` as an address.
fn joined(parts: &[Term]) -> String {
    let parts: Vec<&str> = parts.iter().filter_map(Term::scalar).collect();
    parts.join(":")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<(String, String)> {
        let mut typed = FileConfig::new();
        typed
            .read_text("advanced.config", text)
            .unwrap_or_else(|error| panic!("{text}: {error}"));
        let pair = |(name, setting): (&str, &super::super::Setting)| {
            (name.to_owned(), setting.text.clone())
        };
        typed.iter().map(pair).collect()
    }

    #[test]
    fn usual_entries_have_their_names_of_rabbitmq_conf() {
        for (entry, expected) in [
            ("{heartbeat, 30}", &[("heartbeat", "30")][..]),
            (
                "{tcp_listeners, [5672, {\"127.0.0.1\", 5673}]}",
                &[
                    ("listeners.tcp.1", "5672"),
                    ("listeners.tcp.2", "127.0.0.1:5673"),
                ],
            ),
            ("{tcp_listeners, []}", &[("listeners.tcp", "none")]),
            (
                "{cluster_nodes, {['rabbit@a', 'rabbit@b'], disc}}",
                &[
                    ("cluster_formation.classic_config.nodes.1", "rabbit@a"),
                    ("cluster_formation.classic_config.nodes.2", "rabbit@b"),
                ],
            ),
            ("{loopback_users, []}", &[("loopback_users", "none")]),
            (
                "{loopback_users, [<<\"guest\">>]}",
                &[("loopback_users.guest", "true")],
            ),
            (
                "{vm_memory_high_watermark, 0.4}",
                &[("vm_memory_high_watermark.relative", "0.4")],
            ),
            (
                "{vm_memory_high_watermark, {absolute, \"2GB\"}}",
                &[("vm_memory_high_watermark.absolute", "2GB")],
            ),
            (
                "{disk_free_limit, 50000000}",
                &[("disk_free_limit.absolute", "50000000")],
            ),
            (
                "{disk_free_limit, {mem_relative, 1.5}}",
                &[("disk_free_limit.relative", "1.5")],
            ),
            (
                "{consumer_timeout, undefined}",
                &[("consumer_timeout", "undefined")],
            ),
            (
                "{default_permissions, [<<\"a\">>, <<\"b\">>, <<\"c\">>]}",
                &[
                    ("default_permissions.configure", "a"),
                    ("default_permissions.read", "c"),
                    ("default_permissions.write", "b"),
                ],
            ),
            (
                "{auth_mechanisms, ['PLAIN', 'EXTERNAL']}",
                &[
                    ("auth_mechanisms.1", "PLAIN"),
                    ("auth_mechanisms.2", "EXTERNAL"),
                ],
            ),
            (
                "{auth_backends, [{rabbit_auth_backend_ldap, rabbit_auth_backend_internal}]}",
                &[
                    ("auth_backends.1.authn", "rabbit_auth_backend_ldap"),
                    ("auth_backends.1.authz", "rabbit_auth_backend_internal"),
                ],
            ),
            (
                "{ssl_options, [{certfile, \"c.pem\"}, {verify, verify_peer}, {versions, ['tlsv1.2']}]}",
                &[
                    ("ssl_options.certfile", "c.pem"),
                    ("ssl_options.verify", "verify_peer"),
                    ("ssl_options.versions.1", "tlsv1.2"),
                ],
            ),
        ] {
            let expected: Vec<_> = expected
                .iter()
                .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
                .collect();
            assert_eq!(
                read(&format!("[{{rabbit, [{entry}]}}].")),
                expected,
                "{entry}"
            );
        }
    }

    #[test]
    fn other_applications_are_named_as_in_rabbitmq_conf() {
        let text = "[{rabbitmq_management, [{listener, [{port, 15673}]}]},\n\
                    {kernel, [{net_ticktime, 60}]},\n\
                    {rabbitmq_shovel, [{shovels, []}]}, {mine, [{a, 1}]}].";
        let expected = [
            ("erlang.kernel.net_ticktime", "60"),
            ("management.listener.port", "15673"),
            ("mine.a", "1"),
        ];
        let read = read(text);
        for (name, value) in expected {
            assert!(
                read.contains(&(name.to_owned(), value.to_owned())),
                "{name}: {read:?}"
            );
        }
    }
}
