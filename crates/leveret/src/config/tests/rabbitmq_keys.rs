//! Every key of RabbitMQ's schema files, with what becomes of it here: `rabbitmq_keys.txt`.

use super::*;
use keys::{Kind, Meaning};

/// The keys, one a line, each with `works`, `ignored` or `refused`.
const KEYS: &str = include_str!("rabbitmq_keys.txt");

fn rows() -> impl Iterator<Item = (&'static str, &'static str)> {
    let lines = KEYS.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| line.split_once(' ').expect("a key and a word"))
}

/// A key as somebody types it.
fn typed_name(key: &str) -> String {
    let part = |part: &str| match part.strip_prefix('$') {
        Some("num" | "index" | "number" | "id") => "1".to_owned(),
        Some(name) => name.to_owned(),
        None => part.to_owned(),
    };
    key.split('.').map(part).collect::<Vec<_>>().join(".")
}

/// A value that a key of this kind takes.
fn sample(kind: Kind) -> String {
    match kind {
        Kind::Bool => "true".to_owned(),
        Kind::Count(least, _) | Kind::Bytes(least, _) => least.to_string(),
        Kind::Fraction(_) => "0.5".to_owned(),
        Kind::Address => "127.0.0.1:5672".to_owned(),
        Kind::Port => "1024".to_owned(),
        Kind::Ip => "127.0.0.1".to_owned(),
        Kind::Schedule => "$D0".to_owned(),
        Kind::Path | Kind::Text | Kind::Secret => "a".to_owned(),
        Kind::Choice(words) => words[0].to_owned(),
    }
}

#[test]
fn every_key_of_rabbitmq_works_is_ignored_or_is_refused_as_the_list_says() {
    assert_eq!(rows().count(), 882);
    let mut wrong = Vec::new();
    for (key, expected) in rows() {
        let name = typed_name(key);
        let found = match keys::find(&name) {
            Some(Meaning::Key(_) | Meaning::BuiltIn) => "works",
            Some(Meaning::Ignored(_)) => "ignored",
            Some(Meaning::Refused(_)) => "refused",
            None => "unknown",
        };
        if found != expected {
            wrong.push(format!("{key} {found}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_node_says_of_each_key_what_the_list_says() {
    for (key, expected) in rows() {
        let name = typed_name(key);
        let value = match keys::find(&name) {
            Some(Meaning::Key(key)) => sample(key.kind),
            _ => "a".to_owned(),
        };
        let loaded = load("rabbitmq.conf", &format!("{name} = {value}\n"), &[]);
        match (expected, loaded) {
            ("works", Ok(loaded)) => assert_eq!(loaded.notices, [""; 0], "{name}"),
            // What needs another key is not refused for itself.
            ("works", Err(errors)) => {
                assert!(errors[0].contains("need"), "{name}: {errors:?}");
            }
            ("ignored", loaded) => {
                let notices = loaded
                    .unwrap_or_else(|errors| panic!("{name}: {errors:?}"))
                    .notices;
                assert_eq!(notices.len(), 1, "{name}: {notices:?}");
                assert!(notices[0].contains("has no effect here: "), "{notices:?}");
            }
            (_, loaded) => {
                let errors = loaded.expect_err(&name);
                assert!(errors[0].contains("cannot be obeyed: "), "{errors:?}");
            }
        }
    }
}

/// Lines of files that people have, and what a node says to each.
#[test]
fn lines_of_public_files_are_obeyed_ignored_or_refused_with_the_reason() {
    for (line, said) in [
        ("management.listener.port = 15672", Ok(None)),
        ("management.listener.ssl = false", Ok(None)),
        ("management.path_prefix = /rabbit", Ok(None)),
        ("management.login_session_timeout = 60", Ok(None)),
        (
            "management.ssl.idle_timeout = 60000",
            Ok(Some("the HTTP server tunes itself")),
        ),
        ("management.oauth_enabled = false", Ok(None)),
        ("management.oauth_enabled = true", Err("must be \"false\"")),
        (
            "management.headers.frame_options = DENY",
            Ok(Some("as strict as can be")),
        ),
        (
            "management.disable_basic_auth = true",
            Err("must be \"false\""),
        ),
        (
            "management.restrictions.operator_policy_changes.disabled = true",
            Err("must be \"false\""),
        ),
        ("auth_backends.1 = ldap", Err("must be one of internal")),
        ("auth_backends.1.authn = internal", Ok(None)),
        (
            "auth_backends.1.authz = rabbit_auth_backend_http",
            Err("must be one of internal"),
        ),
        ("consumer_timeout = 31622400000", Ok(None)),
        ("frame_max = 0", Ok(None)),
        ("max_connections = infinity", Ok(None)),
        (
            "ssl_options.versions.3 = tlsv1.1",
            Err("must be one of tlsv1.2, tlsv1.3"),
        ),
        ("ssl_options.password = x", Err("decrypt the key file")),
        (
            "vhost_restart_strategy = continue",
            Ok(Some("do not stop by themselves")),
        ),
        ("prometheus.path = /metrics", Ok(None)),
        ("prometheus.path = /prometheus", Err("must be \"/metrics\"")),
        (
            "message_interceptors.incoming.set_header_timestamp.overwrite = false",
            Err("messages are handed on as they came"),
        ),
        (
            "deprecated_features.permit.transient_nonexcl_queues = true",
            Ok(None),
        ),
        (
            "deprecated_features.permit.transient_nonexcl_queues = false",
            Err("must be \"true\""),
        ),
        (
            "trust_store.directory = /certs",
            Err("there is no trust store"),
        ),
        (
            "cluster_formation.peer_discovery_backend = k8s",
            Err("it would be a broker alone"),
        ),
    ] {
        let loaded = load("rabbitmq.conf", &format!("{line}\n"), &[]);
        match (said, loaded) {
            (Ok(notice), Ok(loaded)) => {
                assert_eq!(
                    loaded.notices.len(),
                    usize::from(notice.is_some()),
                    "{line}"
                );
                assert!(
                    loaded
                        .notices
                        .iter()
                        .all(|told| told.contains(notice.unwrap_or(""))),
                    "{line}"
                );
            }
            (Err(why), Err(errors)) => assert!(errors[0].contains(why), "{line}: {errors:?}"),
            (_, loaded) => panic!("{line}: {:?}", loaded.map(|loaded| loaded.notices)),
        }
    }
}

#[test]
fn plugins_that_rabbitmq_has_enabled_are_there_needless_or_refuse_the_start() {
    let read = |text: &str| {
        let mut typed = FileConfig::new();
        typed.read_plugins("enabled_plugins", text).expect("a list");
        Config::build(&typed, &machine())
    };
    let loaded = read("[rabbitmq_management,rabbitmq_peer_discovery_k8s].").expect("it starts");
    assert_eq!(loaded.notices.len(), 1, "{:?}", loaded.notices);
    let errors = read("[rabbitmq_management,\nrabbitmq_mqtt,my_plugin].").expect_err("MQTT");
    let errors: Vec<_> = errors.errors.iter().map(ToString::to_string).collect();
    assert_eq!(
        errors,
        [
            "enabled_plugins:2: \"enabled_plugins.my_plugin\" is a plugin that is not known here: take it out of the list",
            "enabled_plugins:2: \"enabled_plugins.rabbitmq_mqtt\" cannot be obeyed: MQTT is not spoken",
        ]
    );
}

#[test]
fn an_advanced_config_is_judged_by_the_same_table() {
    let text = "[{rabbit, [{tcp_listeners, [5673]}, {heartbeat, 7}, {vm_memory_high_watermark, 0.3}]},\n\
                {kernel, [{net_ticktime, 60}]}].";
    let loaded = load("advanced.config", text, &[]).expect("it starts");
    assert_eq!(
        loaded.config.listeners.amqp,
        ["0.0.0.0:5673".parse().unwrap()]
    );
    assert_eq!(loaded.config.limits.heartbeat_seconds, 7);
    assert_eq!(
        loaded.notices,
        [
            "advanced.config:2: \"erlang.kernel.net_ticktime\" has no effect here: there is no Erlang"
        ]
    );
    let errors = load(
        "advanced.config",
        "[{rabbitmq_shovel, [{shovels, [{a, []}, {b, [1]}]}]}].",
        &[],
    );
    assert!(errors.expect_err("shovels")[0].contains("there are no shovels"));
}
