//! What is typed, and what comes of it: each case is data.

use super::*;

mod rabbitmq_keys;

fn machine() -> Machine {
    Machine {
        cores: 2,
        host_name: "burrow".to_owned(),
    }
}

fn load(file: &str, text: &str, environment: &[(&str, &str)]) -> Result<Loaded, Vec<String>> {
    let mut typed = FileConfig::new();
    let read = typed.read_text(file, text).and_then(|()| {
        let variables = environment
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
        typed.read_environment(variables)
    });
    read.map_err(|e| vec![e.to_string()])?;
    Config::build(&typed, &machine())
        .map_err(|all| all.errors.iter().map(ToString::to_string).collect())
}

fn config(file: &str, text: &str) -> Config {
    load(file, text, &[])
        .unwrap_or_else(|errors| panic!("{text}: {errors:?}"))
        .config
}

#[test]
fn nothing_typed_is_a_node_on_loopback() {
    let config = config("leveret.toml", "");
    assert_eq!(config.node_name, "leveret@burrow");
    assert_eq!(config.cluster_name, "leveret@burrow");
    assert_eq!(config.listeners.amqp, ["127.0.0.1:5672".parse().unwrap()]);
    assert_eq!(config.listeners.amqps, []);
    assert_eq!(config.listeners.http, "127.0.0.1:15672".parse().ok());
    assert_eq!(config.listeners.metrics, "127.0.0.1:15692".parse().ok());
    assert_eq!(config.folders.wal, Path::new("./leveret-data/wal"));
    assert_eq!(config.login.loopback_users, ["guest"]);
    assert_eq!(
        config.login.mechanisms,
        [
            leveret_auth::Mechanism::Plain,
            leveret_auth::Mechanism::AmqPlain
        ]
    );
    assert_eq!(config.first_boot.tags, ["administrator"]);
    assert_eq!(config.memory_watermark, MemoryWatermark::Relative(0.6));
    assert_eq!(config.disk_limit, DiskLimit::Absolute(1_000_000_000));
    assert_eq!(config.threads, Threads { io: 2, shards: 2 });
    assert_eq!(config.limits.consumer_timeout_ms, 0);
    assert!(config.log.file.is_none());
}

#[test]
fn defaults_agree_with_the_limits_of_the_core() {
    use leveret_types::limits;
    let limits = config("leveret.toml", "").limits;
    assert_eq!(limits.frame_bytes_max, limits::FRAME_BYTES_MAX);
    assert_eq!(limits.channels_max, limits::CHANNELS_MAX);
    assert_eq!(limits.heartbeat_seconds, limits::HEARTBEAT_SECONDS);
    assert_eq!(limits.message_bytes_max, limits::MESSAGE_BYTES_MAX);
    assert_eq!(limits.handshake_timeout_ms, limits::HANDSHAKE_MS_MAX);
    assert_eq!(limits.admission.pending, limits::CONNECTIONS_PENDING_MAX);
    assert_eq!(
        limits.admission.pending_per_address,
        limits::CONNECTIONS_PENDING_PER_ADDRESS_MAX
    );
    assert_eq!(
        limits.consumers_per_channel_max,
        limits::CONSUMERS_PER_CHANNEL_MAX
    );
    assert_eq!(limits.admission.connections, limits::CONNECTIONS_MAX);
    assert_eq!(limits.admission.vhosts, limits::VHOSTS_MAX);
    assert_eq!(limits.admission.queues, limits::QUEUES_MAX);
    assert_eq!(limits.admission.exchanges, limits::EXCHANGES_MAX);
    let storage = config("leveret.toml", "").storage;
    assert_eq!(storage.wal_file_bytes, limits::WAL_FILE_BYTES);
    assert_eq!(storage.cache_bytes, limits::CACHE_BYTES as u64);
}

#[test]
fn threads_shards_and_log_files_have_the_bounds_that_a_node_starts_with() {
    use leveret_types::limits::{IO_THREADS_MAX, SHARDS_MAX, WAL_FILE_BYTES_MAX};
    for (key, most) in [
        ("io_threads", IO_THREADS_MAX as u64),
        ("shards", SHARDS_MAX as u64),
        ("wal.file_size", WAL_FILE_BYTES_MAX),
    ] {
        let with = |value: u64| load("rabbitmq.conf", &format!("{key} = {value}\n"), &[]);
        assert!(with(most).is_ok(), "{key}");
        let Err(errors) = with(most + 1) else {
            panic!("{key}: one beyond");
        };
        assert!(errors.iter().any(|error| error.contains(key)), "{errors:?}");
    }
}

#[test]
fn anonymous_logins_need_a_user_that_is_named() {
    use leveret_auth::Mechanism::{AmqPlain, Anonymous, Plain};
    for (conf, offered, user) in [
        ("", &[Plain, AmqPlain][..], None),
        (
            "anonymous_login_user = none\nanonymous_login_pass = s3\n",
            &[Plain, AmqPlain],
            None,
        ),
        (
            "anonymous_login_user = visitor\nanonymous_login_pass = s3\n",
            &[Plain, AmqPlain, Anonymous],
            Some(("visitor", "s3")),
        ),
        (
            "auth_mechanisms.1 = PLAIN\nanonymous_login_user = guest\n",
            &[Plain],
            Some(("guest", "guest")),
        ),
        (
            "auth_mechanisms.1 = ANONYMOUS\nanonymous_login_user = guest\n",
            &[Anonymous],
            Some(("guest", "guest")),
        ),
    ] {
        let login = config("rabbitmq.conf", conf).login;
        assert_eq!(login.mechanisms, offered, "{conf}");
        let chosen = login.anonymous.map(|c| (c.user, c.password));
        let expected = user.map(|(user, password)| (user.to_owned(), Some(password.into())));
        assert_eq!(chosen, expected, "{conf}");
    }
}

/// The same settings in both languages come to the same configuration.
#[test]
fn toml_and_rabbitmq_conf_say_the_same() {
    let toml = r#"
        listeners.tcp.default = 5672
        listeners.ssl.1 = "0.0.0.0:5671"
        loopback_users = ["bob"]
        disk_free_limit.absolute = "2GB"
        heartbeat = 30
        default_user = "app"
        default_pass = 'se"cret'
        default_vhost = "orders"
        management.tcp.port = 8080
        auth_mechanisms = ["PLAIN", "EXTERNAL"]
        max_connections = 5
        "log.console" = true
        "log.console.level" = "debug"
        "log.file" = "leveret.log"
        [ssl_options]
        cacertfile = "/c/ca.pem"
        certfile = "/c/cert.pem"
        keyfile = "/c/key.pem"
        verify = "verify_peer"
        fail_if_no_peer_cert = true
        versions = ["tlsv1.3"]
        [vm_memory_high_watermark]
        absolute = "512MiB"
    "#;
    let conf = r#"
# a comment
listeners.tcp.default = 5672
listeners.ssl.1 = 0.0.0.0:5671

loopback_users.bob = true
disk_free_limit.absolute = 2GB   # of the drive
heartbeat = 30
default_user = app
default_pass = 'se"cret'
default_vhost = orders
management.tcp.port = 8080
auth_mechanisms.1 = PLAIN
auth_mechanisms.2 = EXTERNAL
max_connections = 5
log.console = on
log.console.level = debug
log.file = leveret.log
ssl_options.cacertfile = /c/ca.pem
ssl_options.certfile = /c/cert.pem
ssl_options.keyfile = /c/key.pem
ssl_options.verify = verify_peer
ssl_options.fail_if_no_peer_cert = true
ssl_options.versions.1 = tlsv1.3
vm_memory_high_watermark.absolute = 512MiB
"#;
    let config = config("leveret.toml", toml);
    let same = Config {
        files: config.files.clone(),
        ..self::config("rabbitmq.conf", conf)
    };
    assert_eq!(config, same);
    assert_eq!(config.listeners.amqp, ["0.0.0.0:5672".parse().unwrap()]);
    assert_eq!(config.listeners.http, "0.0.0.0:8080".parse().ok());
    assert_eq!(config.login.loopback_users, ["bob", "guest"]);
    assert_eq!(config.first_boot.password, "se\"cret");
    assert_eq!(
        config.memory_watermark,
        MemoryWatermark::Absolute(512 << 20)
    );
    let tls = config.tls.expect("a TLS listener was typed");
    assert_eq!(tls.versions, [TlsVersion::V13]);
    assert!(tls.client_certificate_required);
    let (file, sink) = config.log.file.expect("a log file was typed");
    assert_eq!(file, Path::new("./leveret-data/logs/leveret.log"));
    assert_eq!(sink.level, LogLevel::Info);
}

/// File in, exact error lines out.
#[test]
fn what_cannot_stand_is_named_with_its_place_and_its_cure() {
    for (file, text, expected) in [
        (
            "leveret.toml",
            "\nlisteners.tpc.default = 5672",
            &[
                "leveret.toml:2: unknown key \"listeners.tpc.default\"; did you mean \"listeners.tcp.default\"?",
            ][..],
        ),
        (
            "rabbitmq.conf",
            "heartbeet = 10\nvm_memory_high_watermark.relativ = 0.4",
            &[
                "rabbitmq.conf:1: unknown key \"heartbeet\"; did you mean \"heartbeat\"?",
                "rabbitmq.conf:2: unknown key \"vm_memory_high_watermark.relativ\"; did you mean \"vm_memory_high_watermark.relative\"?",
            ],
        ),
        (
            "leveret.toml",
            "colour = 'grey'",
            &["leveret.toml:1: unknown key \"colour\""],
        ),
        (
            "leveret.toml",
            "heartbeat = 65536",
            &[
                "leveret.toml:1: \"heartbeat\" must be a whole number from 0 to 65535, not \"65536\"",
            ],
        ),
        (
            "leveret.toml",
            "frame_max = 131073",
            &[
                "leveret.toml:1: \"frame_max\" must be a whole number from 8192 to 131072, not \"131073\"",
            ],
        ),
        (
            "leveret.toml",
            "disk_free_limit.absolute = '2 gigs'",
            &[
                "leveret.toml:1: \"disk_free_limit.absolute\" must be a size such as 500MB, 64MiB or 2GB, not \"2 gigs\"",
            ],
        ),
        (
            "leveret.toml",
            "vm_memory_high_watermark.relative = 1.1",
            &[
                "leveret.toml:1: \"vm_memory_high_watermark.relative\" must be a number above 0, up to 1, not \"1.1\"",
            ],
        ),
        (
            "leveret.toml",
            "listeners.tcp.default = 'localhost'",
            &[
                "leveret.toml:1: \"listeners.tcp.default\" must be an address and port such as 127.0.0.1:5672 or [::1]:5672, or a port, not \"localhost\"",
            ],
        ),
        (
            "leveret.toml",
            "ssl_options.verify = 'yes'",
            &[
                "leveret.toml:1: \"ssl_options.verify\" must be one of verify_none, verify_peer, not \"yes\"",
            ],
        ),
        (
            "leveret.toml",
            "listeners.ssl.default = 5671",
            &["a listener with TLS (listeners.ssl) needs \"ssl_options.certfile\""],
        ),
        (
            "leveret.toml",
            "listeners.ssl.default = 5671\nssl_options.fail_if_no_peer_cert = true",
            &[
                "leveret.toml:2: \"ssl_options.fail_if_no_peer_cert\" needs ssl_options.verify = \"verify_peer\"",
            ],
        ),
        (
            "leveret.toml",
            "frame_max = 4096",
            &[
                "leveret.toml:1: \"frame_max\" must be a whole number from 8192 to 131072, not \"4096\"",
            ],
        ),
        (
            "rabbitmq.conf",
            "auth_backends.1 = ldap",
            &[
                "rabbitmq.conf:1: \"auth_backends.1\" must be one of internal, rabbit_auth_backend_internal, not \"ldap\": users are in the node alone: there is no LDAP, HTTP or OAuth 2 backend; add them with `rabbitmqctl add_user` or `load_definitions`, or let clients in by certificates (EXTERNAL)",
            ],
        ),
        (
            "rabbitmq.conf",
            "auth_ldap.servers.1 = ldap.example.org",
            &[
                "rabbitmq.conf:1: \"auth_ldap.servers.1\" cannot be obeyed: LDAP is not supported; remove it",
            ],
        ),
        (
            "rabbitmq.conf",
            "proxy_protocol = true",
            &[
                "rabbitmq.conf:1: \"proxy_protocol\" must be \"false\", not \"true\": the PROXY protocol is not spoken; have the proxy pass on what clients send as it is, without a header of its own",
            ],
        ),
        (
            "rabbitmq.conf",
            "disk_free_limit = 1GB\nvm_memory_high_watermark = 0.4",
            &[
                "rabbitmq.conf:1: unknown key \"disk_free_limit\"; did you mean \"disk_free_limit.absolute\" or \"disk_free_limit.relative\"?",
                "rabbitmq.conf:2: unknown key \"vm_memory_high_watermark\"; did you mean \"vm_memory_high_watermark.relative\" or \"vm_memory_high_watermark.absolute\"?",
            ],
        ),
        (
            "rabbitmq.conf",
            "heartbeat",
            &["rabbitmq.conf:1: this line is not of the form `key = value`"],
        ),
        (
            "rabbitmq.conf",
            "auth_mechanisms.1 = ANONYMOUS",
            &[
                "rabbitmq.conf:1: ANONYMOUS needs the user whom strangers log in as: \
                 `anonymous_login_user` and `anonymous_login_pass`, or do not offer it",
            ],
        ),
        (
            "rabbitmq.conf",
            "auth_mechanisms.1 = GSSAPI",
            &[
                "rabbitmq.conf:1: \"auth_mechanisms.1\" must be one of PLAIN, AMQPLAIN, EXTERNAL, ANONYMOUS, not \"GSSAPI\"",
            ],
        ),
        (
            "leveret.toml",
            "default_user = ''",
            &["leveret.toml:1: \"default_user\" must not be empty"],
        ),
        (
            "leveret.toml",
            "heartbeat = 2026-01-01",
            &["leveret.toml:1: \"heartbeat\" must not be a date or time"],
        ),
        (
            "leveret.toml",
            "auth_mechanisms = [['PLAIN']]",
            &["leveret.toml:1: \"auth_mechanisms\" must be a list of plain values"],
        ),
    ] {
        match load(file, text, &[]) {
            Ok(_) => panic!("{text} was accepted"),
            Err(errors) => assert_eq!(errors, expected, "{text}"),
        }
    }
}

#[test]
fn broken_toml_is_named_with_its_line() {
    let errors = load("leveret.toml", "heartbeat = 1\nheartbeat = 2", &[]).unwrap_err();
    assert!(errors[0].starts_with("leveret.toml:2: "), "{errors:?}");
    assert!(!errors[0].contains('\n'), "{errors:?}");
}

#[test]
fn what_rabbitmqs_operator_writes_is_accepted_with_a_notice() {
    let conf = "queue_master_locator = min-masters\n\
                disk_free_limit.absolute = 2GB\n\
                cluster_partition_handling = pause_minority\n\
                cluster_name = rabbit\n\
                auth_backends.1 = internal\n\
                log.connection.level = error";
    let loaded = load("rabbitmq.conf", conf, &[]).expect("an operator's file");
    assert_eq!(
        loaded.notices,
        [
            "rabbitmq.conf:3: \"cluster_partition_handling\" has no effect here: consensus decides; there is no mode to choose",
            "rabbitmq.conf:6: \"log.connection.level\" has no effect here: there are two sinks: console and file",
            "rabbitmq.conf:1: \"queue_master_locator\" has no effect here: leaders are spread by themselves",
        ]
    );
    assert_eq!(loaded.config.cluster_name, "rabbit");
    assert_eq!(loaded.config.disk_limit, DiskLimit::Absolute(2_000_000_000));
}

#[test]
fn what_has_no_effect_is_told_beside_what_is_refused() {
    let mut typed = FileConfig::new();
    let conf = "heartbeet = 1\nqueue_master_locator = random";
    typed.read_text("rabbitmq.conf", conf).expect("lines");
    let refused = Config::build(&typed, &machine()).expect_err("a mistake");
    let lines: Vec<String> = refused.lines().collect();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(
        lines[0].contains("did you mean \"heartbeat\"?"),
        "{lines:?}"
    );
    assert!(
        lines[1].contains("\"queue_master_locator\" has no effect here"),
        "{lines:?}"
    );
}

#[test]
fn all_files_that_cannot_be_read_are_told_with_their_keys() {
    let folder = tempfile::tempdir().expect("a folder");
    let there = folder.path().join("there.pem");
    std::fs::write(&there, "").expect("written");
    let mut typed = FileConfig::new();
    let conf = format!(
        "ssl_options.certfile = {}\nssl_options.keyfile = /no/key.pem\n\
         load_definitions = /no/definitions.json\nlog.file = none.log",
        there.display()
    );
    typed.read_text("rabbitmq.conf", &conf).expect("lines");
    let lines = unreadable_files(&typed);
    assert_eq!(lines.len(), 2, "{lines:?}");
    for (line, begin) in lines.iter().zip([
        "rabbitmq.conf:3: \"load_definitions\": cannot read /no/definitions.json: ",
        "rabbitmq.conf:2: \"ssl_options.keyfile\": cannot read /no/key.pem: ",
    ]) {
        assert!(line.starts_with(begin), "{line}");
    }
}

#[test]
fn a_list_of_nodes_in_erlangs_form_is_refused_as_the_other_is() {
    for text in [
        "[{rabbit, [{cluster_nodes, {['rabbit@a', 'rabbit@b'], disc}}]}].",
        "[{rabbit, [{cluster_nodes, ['rabbit@a', 'rabbit@b']}]}].",
        "[{rabbit, [\n  {cluster_nodes, {['rabbit@a','rabbit@b','rabbit@c'], disc}}\n]}].",
    ] {
        let errors = load("rabbitmq.config", text, &[]).unwrap_err();
        assert!(
            errors[0].contains("list all nodes' addresses"),
            "{errors:?}"
        );
    }
}

#[test]
fn what_decides_who_is_in_a_cluster_is_never_passed_over() {
    for (conf, expected) in [
        (
            "cluster_formation.peer_discovery_backend = classic_config\n",
            "cannot be obeyed: it would be a broker alone; list all nodes' addresses in `cluster.join`",
        ),
        (
            "cluster_formation.classic_config.nodes.1 = rabbit@burrow\n",
            "this one's in `cluster.address`",
        ),
        (
            "cluster.join.1 = burrow:7000\n",
            "rabbitmq.conf:1: a node that is to be part",
        ),
        (
            "cluster.advertised = burrow:7000\n",
            "needs its own address",
        ),
        (
            "cluster.address = 127.0.0.1:7000\ncluster.join.1 = burrow\n",
            "\"cluster.join.1\" must be host:port, not \"burrow\"",
        ),
    ] {
        let errors = load("rabbitmq.conf", conf, &[]).unwrap_err();
        assert!(errors[0].contains(expected), "{conf}: {errors:?}");
    }
    let conf = "cluster.address = 127.0.0.1:7000\ncluster.join.1 = burrow:7000\n";
    assert!(load("rabbitmq.conf", conf, &[]).is_ok());
    // What says nothing about members, or goes with words of Leveret's that do, is harmless.
    let discovery = "cluster_formation.peer_discovery_backend = k8s\n";
    for (conf, notices) in [
        (
            "cluster_formation.node_cleanup.interval = 30\n".to_owned(),
            1,
        ),
        (
            format!("{discovery}cluster_formation.target_cluster_size_hint = 1\n"),
            2,
        ),
        (format!("{discovery}{conf}"), 1),
    ] {
        let loaded = load("rabbitmq.conf", &conf, &[]).expect("a notice alone");
        assert_eq!(loaded.notices.len(), notices, "{:?}", loaded.notices);
        assert!(loaded.notices[0].contains("`cluster.join`"));
    }
    let conf = format!("{discovery}cluster_formation.target_cluster_size_hint = 3\n");
    assert_eq!(load("rabbitmq.conf", &conf, &[]).unwrap_err().len(), 1);
}

#[test]
fn the_environment_goes_before_the_file() {
    let environment = [
        ("PATH", "/bin"),
        ("RABBITMQ_DEFAULT_USER", "rabbit"),
        ("RABBITMQ_DEFAULT_PASS", "carrot"),
        ("RABBITMQ_NODE_PORT", "5699"),
        ("RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS", "-foo"),
        ("LEVERET_DEFAULT_USER", "hare"),
        ("LEVERET_DISK_FREE_LIMIT_ABSOLUTE", "3GB"),
        ("LEVERET_LISTENERS_SSL", "none"),
        ("LEVERET_WAL_FILE_SIZE", "32MiB"),
        ("LEVERET_LOOPBACK_USERS_GUEST", "false"),
        ("LEVERET_SERVICE_HOST", "10.0.0.1"),
        ("LEVERET_PORT_5672_TCP", "tcp://10.0.0.1:5672"),
        ("LEVERET_CONFIG_FILE", "/etc/leveret.toml"),
    ];
    let file = "disk_free_limit.absolute = '1GB'\nlisteners.tcp.other = 7777\nheartbeat = 7";
    let config = load("leveret.toml", file, &environment)
        .expect("a good environment")
        .config;
    assert_eq!(config.first_boot.user, "hare");
    assert_eq!(config.first_boot.password, "carrot");
    assert_eq!(config.listeners.amqp, ["0.0.0.0:5699".parse().unwrap()]);
    assert_eq!(config.disk_limit, DiskLimit::Absolute(3_000_000_000));
    assert_eq!(config.storage.wal_file_bytes, 32 << 20);
    assert_eq!(config.login.loopback_users, [""; 0]);
    assert_eq!(config.limits.heartbeat_seconds, 7);
}

#[test]
fn a_rabbitmq_conf_takes_values_from_the_environment() {
    let read = |text: &str| {
        let held = [("SEED_USER", "ed"), ("SEED_PASSWORD", "a $(SEED_USER) b")];
        let held = held.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let mut typed = FileConfig::with_variables(held);
        let read = typed.read_text("rabbitmq.conf", text).map(|()| typed);
        read.map_err(|error| error.to_string())
    };
    let text = "default_user = $(SEED_USER)\ndefault_pass = '$(SEED_PASSWORD)'\n\
                cluster_name = of-$( SEED_USER )-$(SEED_USER\nnode_name = l@h\n";
    let typed = read(text).expect("all are set");
    let text = |name| typed.get(name).map(|setting| &*setting.text);
    assert_eq!(text("default_user"), Some("ed"));
    // What a variable holds is taken as it is.
    assert_eq!(text("default_pass"), Some("a $(SEED_USER) b"));
    assert_eq!(text("cluster_name"), Some("of-ed-$(SEED_USER"));
    let loaded = Config::build(&typed, &machine()).expect("a node");
    assert_eq!(loaded.secret_files, [""; 0].map(PathBuf::from));
    // As TOML each is a variable of its own.
    let toml = migrate::to_toml(&typed);
    assert!(!toml.contains("a $"), "{toml}");
    assert!(toml.contains("have LEVERET_DEFAULT_PASS set"), "{toml}");
    assert_eq!(
        read("heartbeat = 7\ndefault_pass = $(NOT_SET)\n").expect_err("it is not set"),
        "rabbitmq.conf:2: the environment variable NOT_SET, which is named here, is not set"
    );
}

#[test]
fn an_encrypted_value_of_rabbitmq_is_no_password() {
    let errors = load("rabbitmq.conf", "default_pass = encrypted:abc=", &[]);
    let errors = errors.expect_err("nobody can decrypt it");
    assert!(errors[0].contains("is an encrypted value"), "{errors:?}");
}

#[test]
fn the_address_and_the_port_of_rabbitmqs_variables_are_one_listener() {
    let (ip, port) = ("RABBITMQ_NODE_IP_ADDRESS", "RABBITMQ_NODE_PORT");
    for (environment, address) in [
        (&[(port, "5699")][..], "0.0.0.0:5699"),
        (&[(ip, "127.0.0.2")], "127.0.0.2:5672"),
        (&[(ip, "127.0.0.2"), (port, "5699")], "127.0.0.2:5699"),
        (&[(ip, "::1"), (port, "5699")], "[::1]:5699"),
    ] {
        let file = "listeners.tcp.other = 7777\n";
        let loaded = load("rabbitmq.conf", file, environment).expect("a node");
        let amqp = loaded.config.listeners.amqp;
        assert_eq!(amqp, [address.parse().unwrap()], "{environment:?}");
    }
}

#[test]
fn a_variable_of_rabbitmqs_that_is_not_read_is_told_of() {
    let environment = [
        ("RABBITMQ_ERLANG_COOKIE", "x"),
        ("RABBITMQ_FEATURE_FLAGS", "a"),
        ("RABBITMQ_PORT_5672_TCP", "tcp://10.0.0.1:5672"),
        ("RABBITMQ_HOST", "of-an-application"),
    ];
    let notices = load("x.conf", "", &environment).expect("a node").notices;
    assert_eq!(notices.len(), 2, "{notices:?}");
    assert!(notices[0].contains("cluster.secret"), "{notices:?}");
}

#[test]
fn listeners_that_are_given_no_address_are_where_one_key_says() {
    let environment = [("LEVERET_LISTENERS_IP", "0.0.0.0")];
    let listeners = |text: &str| {
        let loaded = load("rabbitmq.conf", text, &environment);
        loaded.expect("a node").config.listeners
    };
    let all = listeners("");
    assert_eq!(all.amqp, ["0.0.0.0:5672".parse().unwrap()]);
    assert_eq!(all.stream, ["0.0.0.0:5552".parse().unwrap()]);
    assert_eq!(all.http, "0.0.0.0:15672".parse().ok());
    assert_eq!(all.metrics, "0.0.0.0:15692".parse().ok());
    let given = listeners(
        "listeners.tcp = none\nstream.listeners.tcp.1 = 127.0.0.1:5553\n\
         management.tcp.ip = 127.0.0.2\nprometheus.tcp.port = none\n",
    );
    assert_eq!(given.amqp, []);
    assert_eq!(given.stream, ["127.0.0.1:5553".parse().unwrap()]);
    assert_eq!(given.http, "127.0.0.2:15672".parse().ok());
    assert_eq!(given.metrics, None);
}

#[test]
fn a_variable_that_is_no_key_refuses_to_start() {
    let errors = load("x.toml", "", &[("LEVERET_HEARTBEET", "1")]).unwrap_err();
    assert_eq!(
        errors,
        ["environment variable LEVERET_HEARTBEET: unknown key; did you mean LEVERET_HEARTBEAT?"]
    );
    let errors = load("x.toml", "", &[("LEVERET_HEARTBEAT", "x")]).unwrap_err();
    assert_eq!(
        errors,
        [
            "environment variable LEVERET_HEARTBEAT: \"heartbeat\" must be a whole number from 0 to 65535, not \"x\""
        ]
    );
}

#[test]
fn a_secret_is_never_shown_in_the_reference_nor_an_error() {
    let markdown = reference::markdown();
    for key in keys::KEYS {
        assert!(markdown.contains(&format!("| `{}` |", key.name)));
    }
    assert!(reference::text().contains("heartbeat = 60"));
}

/// Two keys whose variables have one name could not both be set.
#[test]
fn every_key_has_a_variable_of_its_own() {
    let mut names: Vec<_> = keys::KEYS
        .iter()
        .map(|k| file::variable_of(k.name))
        .collect();
    let all = names.len();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), all);
}

#[test]
fn options_that_turn_listeners_off() {
    let config = config(
        "rabbitmq.conf",
        "listeners.tcp = none\nmanagement.tcp.port = none\nprometheus.tcp.port = none\nloopback_users = none",
    );
    assert_eq!(config.listeners.amqp, []);
    assert_eq!(config.listeners.http, None);
    assert_eq!(config.listeners.metrics, None);
    assert_eq!(config.login.loopback_users, [""; 0]);
}

#[test]
fn the_reference_in_the_documentation_is_what_the_binary_writes() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");
    let written = std::fs::read_to_string(page).expect("the page is part of the repository");
    assert!(
        written == reference::markdown(),
        "docs/configuration.md is stale: `leveret config reference --markdown` writes it"
    );
}

#[test]
fn certificates_between_nodes_are_given_as_a_whole_and_not_for_plain_links() {
    let cluster = "cluster.address = 127.0.0.1:7000\n";
    let (certificate, key) = (
        "cluster.tls.certfile = node.pem\n",
        "cluster.tls.keyfile = key.pem\n",
    );
    let all = format!("{cluster}{certificate}{key}cluster.tls.cacertfile = ca.pem\n");
    let loaded = config("rabbitmq.conf", &all).cluster.expect("a cluster");
    let expected = ClusterTls {
        certificate: "node.pem".into(),
        key: "key.pem".into(),
        authorities: "ca.pem".into(),
    };
    assert_eq!(loaded.tls, Some(expected));
    assert_eq!(
        config("rabbitmq.conf", cluster).cluster.expect("one").tls,
        None
    );
    for (text, expected) in [
        (
            format!("{cluster}{certificate}{key}"),
            "rabbitmq.conf:2: \"cluster.tls.certfile\" needs \"cluster.tls.cacertfile\"",
        ),
        (
            format!("{cluster}{key}"),
            "rabbitmq.conf:2: \"cluster.tls.keyfile\" needs \"cluster.tls.certfile\"",
        ),
        (
            format!("{all}cluster.links = plain\n"),
            "rabbitmq.conf:2: certificates protect no plain links",
        ),
    ] {
        let errors = load("rabbitmq.conf", &text, &[]).expect_err("it contradicts itself");
        assert!(errors[0].starts_with(expected), "{errors:?}");
    }
}
