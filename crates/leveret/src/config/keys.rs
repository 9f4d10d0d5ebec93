//! The one table of configuration keys: name, type, default, meaning. Everything that knows keys
//! reads it: the parser of files, the environment, the checks, `leveret config reference` and
//! `docs/configuration.md`.

use super::plugins;
use leveret_types::QueueKind;
use leveret_types::limits::{IO_THREADS_MAX, SHARDS_MAX, WAL_FILE_BYTES_MAX};

/// What a key's value must look like.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// `true` or `false`; rabbitmq.conf's `on` and `off` too.
    Bool,
    /// A whole number between two bounds, both included.
    Count(u64, u64),
    /// A number of bytes between two bounds, with or without a unit: `500MB`, `64MiB`, `2GB`,
    /// `1024`.
    Bytes(u64, u64),
    /// A fraction above 0 and up to the bound.
    Fraction(f64),
    /// An address and port, `127.0.0.1:5672` or `[::1]:5672`; a bare port stands for every IPv4
    /// interface.
    Address,
    /// A TCP port, or `none`.
    Port,
    /// An IP address.
    Ip,
    /// A file or folder.
    Path,
    /// Any text.
    Text,
    /// Any text, never shown.
    Secret,
    /// A moment that comes again, as [`Schedule`](super::rotation::Schedule) reads it.
    Schedule,
    /// One of these words.
    Choice(&'static [&'static str]),
}

/// A key that has an effect.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Its name; a part `$name` stands for any word.
    pub name: &'static str,
    /// What its value must look like.
    pub kind: Kind,
    /// Its value where nobody sets it, as one would type it; empty where there is none.
    pub default: &'static str,
    /// What it does, in one line.
    pub doc: &'static str,
}

const fn key(name: &'static str, kind: Kind, default: &'static str, doc: &'static str) -> Key {
    Key {
        name,
        kind,
        default,
        doc,
    }
}

use Kind::{Address, Bool, Bytes, Choice, Count, Fraction, Ip, Path, Port, Schedule, Secret, Text};

const MIB: u64 = 1 << 20;
const TIB: u64 = 1 << 40;
const LEVELS: Kind = Choice(&["debug", "info", "warning", "error", "critical", "none"]);
const FORMATS: Kind = Choice(&["plaintext", "json"]);
const NONE: Kind = Choice(&["none"]);
const BACKENDS: Kind = Choice(&["internal", "rabbit_auth_backend_internal"]);
/// For what a node cannot do: saying that it shall not is fine.
const OFF: Kind = Choice(&["false"]);
const VERIFY: Kind = Choice(&["verify_none", "verify_peer"]);
const TLS_VERSIONS: Kind = Choice(&["tlsv1.2", "tlsv1.3"]);

/// Every key that has an effect, by subject.
#[rustfmt::skip]
pub const KEYS: &[Key] = &[
    // Leveret's own.
    key("data_dir", Path, "./leveret-data", "Folder that holds everything the node keeps."),
    key("folders.data", Path, "", "Folder of what the node knows and of the classic queues' messages that wait and have left the log, with the catalogue and the store's checkpoints; by default `data` in `data_dir`."),
    key("folders.segment", Path, "", "Folder of the quorum queues' messages that wait and have left the log, and of streams; by default `segment` in `data_dir`. What an earlier version of Leveret has put there of classic queues is read there until it is merged."),
    key("folders.wal", Path, "", "Folder of the write-ahead log; by default `wal` in `data_dir`. It gains most from a drive of its own."),
    key("folders.logs", Path, "", "Folder of log files; by default `logs` in `data_dir`."),
    key("cache_size", Bytes(0, TIB), "16MiB", "Memory for message bodies, all queues together."),
    key("wal.file_size", Bytes(4 * MIB, WAL_FILE_BYTES_MAX), "64MiB", "Size of one file of the write-ahead log."),
    key("io_threads", Count(0, IO_THREADS_MAX as u64), "0", "Threads that serve client sockets; 0 chooses by the number of cores, or by the CPU quota of the process's control groups (version 1 and 2, the least of all levels) where that is less."),
    key("shards", Count(0, SHARDS_MAX as u64), "0", "Parts into which queues are spread; 0 chooses by the number of cores."),
    key("shutdown_timeout", Count(0, 3_600_000), "10000", "Milliseconds within which a shutdown drains connections before it closes them; one that takes nothing for 1.5 s is not waited for."),
    key("node_name", Text, "", "Name of this node as clients and tools see it; by default `leveret@` and the host's name, or its address in the cluster."),
    // The cluster.
    key("cluster.address", Address, "", "This node's own address for the other nodes of its cluster; a node without one is alone. `--cluster` sets it too."),
    key("cluster.advertised", Text, "", "Where the other nodes reach this one, `host:port`; by default `cluster.address`."),
    key("cluster.join.$name", Text, "", "Addresses of the nodes that form the cluster, the same list on each of them. `--join` sets them too."),
    key("cluster.secret", Secret, "", "What proves to other nodes that this one belongs to the cluster: the same on all of them."),
    key("cluster.secret_file", Path, "", "File that has the secret where `cluster.secret` is not set, readable to the node's user alone; by default `cluster.secret` in the data folder. A second line is accepted too; read again on SIGHUP. It is made where all addresses are loopback."),
    key("cluster.links", Choice(&["encrypted", "plain"]), "encrypted", "What protects what the nodes say to each other, the same on all of them. `plain`: nothing; whoever is between them can read and change all of it."),
    key("cluster.tls.certfile", Path, "", "PEM file of the certificate chain that this node shows to the others, whether it dials or is dialed, with its host name or address; with it all nodes need one. Read again on SIGHUP."),
    key("cluster.tls.keyfile", Path, "", "PEM file of its private key; read again on SIGHUP."),
    key("cluster.tls.cacertfile", Path, "", "PEM file of the authorities that sign the nodes' certificates, which must not be authorities' themselves (`CA:TRUE`); read again on SIGHUP."),
    key("quorum_queue.initial_cluster_size", Count(1, 64), "3", "Members of a new quorum queue's group, where neither its arguments nor a policy say."),
    key("quorum_queue.property_equivalence.relaxed_checks_on_redeclaration", Bool, "false", "Whether declaring a queue that exists as a quorum queue may ask for a classic one: for applications that cannot be changed."),
    key("quorum_queue.continuous_membership_reconciliation.enabled", Bool, "true", "Whether quorum queues that have fewer members than they are to have get more, as soon as there are nodes for them."),
    key("quorum_queue.continuous_membership_reconciliation.target_group_size", Count(1, 64), "", "Members that every quorum queue is to have, unless its arguments or a policy say; by default as many as it was to have when it was declared."),
    key("quorum_queue.continuous_membership_reconciliation.interval", Count(1_000, 31_536_000_000), "3600000", "Milliseconds after which all queues are looked at again."),
    key("quorum_queue.continuous_membership_reconciliation.trigger_interval", Count(0, 31_536_000_000), "10000", "Milliseconds after which they are looked at when a node has come or gone, a queue was declared or a policy has changed."),
    // Listeners.
    key("listeners.tcp", NONE, "", "`none`: no plain AMQP listener."),
    key("listeners.ip", Ip, "127.0.0.1", "Address of the listeners that nothing else says where to listen, at their default ports. A container image sets it to 0.0.0.0."),
    key("listeners.tcp.$name", Address, "127.0.0.1:5672", "Address of an AMQP listener. A bare port listens on every interface, as in RabbitMQ."),
    key("listeners.ssl", NONE, "", "`none`: no AMQP listener with TLS."),
    key("listeners.ssl.$name", Address, "", "Address of an AMQP listener with TLS; needs `ssl_options.certfile` and `.keyfile`."),
    key("stream.listeners.tcp", NONE, "", "`none`: no plain listener of the stream protocol."),
    key("stream.listeners.tcp.$name", Address, "127.0.0.1:5552", "Address of a listener of the stream protocol; `--stream` sets it too. Where something else is at the default one, the node starts without it."),
    key("stream.listeners.ssl", NONE, "", "`none`: no listener of the stream protocol with TLS."),
    key("stream.listeners.ssl.$name", Address, "", "Address of a listener of the stream protocol with TLS, usually port 5551; needs `ssl_options.certfile` and `.keyfile`."),
    key("stream.advertised_host", Text, "", "Host at which clients of streams reach this node; the machine's name where it listens on other than loopback addresses, else `localhost`."),
    key("stream.advertised_port", Count(1, 65_535), "", "Port at which clients of streams reach this node; by default that of the first listener."),
    key("stream.advertised_tls_host", Text, "", "Host at which clients of streams with TLS reach this node; by default `stream.advertised_host`."),
    key("stream.advertised_tls_port", Count(1, 65_535), "", "Port at which clients of streams with TLS reach this node; by default that of the first listener with TLS."),
    key("stream.frame_max", Count(8_192, 1_048_576), "1048576", "Bytes of a frame of the stream protocol that are proposed."),
    key("stream.heartbeat", Count(0, 65_535), "60", "Seconds between heartbeats of the stream protocol that are proposed; 0 proposes none."),
    key("handshake_timeout", Count(100, 3_600_000), "10000", "Milliseconds within which a client must have logged in."),
    key("proxy_protocol", OFF, "false", "Only `false`: the PROXY protocol is not spoken."),
    // TLS.
    key("ssl_options.cacertfile", Path, "", "PEM file of the authorities that sign clients' certificates. A certificate that a client has signed itself may be among them, unless it says that it is an authority's (`CA:TRUE`)."),
    key("ssl_options.certfile", Path, "", "PEM file of the server's certificate chain; read again on SIGHUP."),
    key("ssl_options.keyfile", Path, "", "PEM file of the server's private key; read again on SIGHUP."),
    key("ssl_options.verify", VERIFY, "verify_none", "`verify_peer`: a certificate that a client shows must be signed by `cacertfile`."),
    key("ssl_options.fail_if_no_peer_cert", Bool, "false", "Refuses clients that show no certificate; needs `verify_peer`."),
    key("ssl_options.depth", Count(0, 100), "10", "Certificates that may lie between a client's and that of its authority in the file; 0: the authority itself has signed it."),
    key("ssl_options.versions.$name", TLS_VERSIONS, "", "Protocol versions that are spoken; both where none is given."),
    key("ssl_options.crl_check", OFF, "false", "Only `false`: revocation lists are not read."),
    key("ssl_cert_login_from", Choice(&["distinguished_name", "common_name", "subject_alternative_name"]), "distinguished_name", "What of a client's certificate is its user name (EXTERNAL)."),
    key("ssl_cert_login_san_type", Choice(&["dns", "ip", "email", "uri"]), "dns", "Which alternative name is taken with `subject_alternative_name`."),
    key("ssl_cert_login_san_index", Count(0, 63), "0", "Which of several alternative names is taken, from 0."),
    // Login.
    key("auth_mechanisms.$name", Choice(&["PLAIN", "AMQPLAIN", "EXTERNAL", "ANONYMOUS"]), "", "Login mechanisms that are offered, EXTERNAL on connections with TLS alone; where none is given, PLAIN and AMQPLAIN, and ANONYMOUS if it has a user."),
    key("auth_backends.$name", BACKENDS, "internal", "Where users come from: the node itself, and nowhere else."),
    key("auth_backends.$name.authn", BACKENDS, "", "The same, for who somebody is."),
    key("auth_backends.$name.authz", BACKENDS, "", "The same, for what somebody may do."),
    key("anonymous_login_user", Text, "none", "User of clients that log in anonymously (ANONYMOUS); `none`: nobody does. RabbitMQ takes `guest` by default; here it must be set."),
    key("anonymous_login_pass", Secret, "guest", "Password of `anonymous_login_user`: the login fails where it is not that user's."),
    key("loopback_users", NONE, "", "`none`: every user may log in from anywhere."),
    key("loopback_users.$name", Bool, "", "Restricts this user to logins from this machine. By default `guest = true`."),
    key("password_hashing_module", Choice(&["rabbit_password_hashing_sha256", "rabbit_password_hashing_sha512", "rabbit_password_hashing_md5", "argon2id"]), "rabbit_password_hashing_sha256", "How new passwords are hashed."),
    // First boot.
    key("default_user", Text, "guest", "User that an empty node creates."),
    key("default_pass", Secret, "guest", "Password of `default_user`."),
    key("default_user_tags.$name", Bool, "", "Tags of `default_user`; `administrator` where none is given."),
    key("default_vhost", Text, "/", "Virtual host that an empty node creates."),
    key("default_permissions.configure", Text, ".*", "What `default_user` may configure in `default_vhost`, a regular expression."),
    key("default_permissions.read", Text, ".*", "What `default_user` may read."),
    key("default_permissions.write", Text, ".*", "What `default_user` may write."),
    key("default_queue_type", Choice(&QueueKind::NAMES), "classic", "Type of queues that are declared without one, where their virtual host names none."),
    key("load_definitions", Path, "", "Definitions (JSON) to import at boot: a file or a folder."),
    key("definitions.local.path", Path, "", "The same as `load_definitions`."),
    key("definitions.import_backend", Choice(&["local_filesystem"]), "local_filesystem", "Where definitions are read from."),
    key("definitions.skip_unsupported", Bool, "false", "Leaves out of imported definitions what is not supported; else a node does not start with such definitions."),
    key("definitions.skip_if_unchanged", Bool, "false", "Does not import definitions again that are as they were at the last boot."),
    key("management.load_definitions", Path, "", "The same as `load_definitions`."),
    key("cluster_name", Text, "", "Name of the cluster; by default the node's."),
    key("cluster_tags.$name", Text, "", "What the cluster is marked with; `/api/overview` shows it."),
    key("node_tags.$name", Text, "", "What this node is marked with; its `/api/overview` shows it."),
    // Limits.
    key("heartbeat", Count(0, 65_535), "60", "Seconds between heartbeats that the node proposes; 0 proposes none."),
    key("frame_max", Count(8_192, 131_072), "131072", "Bytes of a frame that the node proposes; 0, as in RabbitMQ, for the most that there is."),
    key("channel_max", Count(0, 65_535), "2047", "Channels of one connection; 0 leaves it to the client, which may have 65,535."),
    key("max_channels_per_connection", Count(0, 65_535), "", "The same as `channel_max`."),
    key("consumer_max_per_channel", Count(1, 1_000_000), "10000", "Consumers of one channel."),
    key("max_connections", Count(0, 10_000_000), "65536", "At most so many connections of this node; 0 or `infinity`: no bound."),
    key("connection_max", Count(0, 10_000_000), "", "The same as `max_connections`."),
    key("pending_connections_max", Count(1, 1_000_000), "4096", "Connections that have not logged in."),
    key("pending_connections_per_address_max", Count(1, 1_000_000), "2048", "Those of them that come from one address; clients behind a proxy count together."),
    key("max_message_size", Bytes(1, 536_870_912), "16777216", "Bytes of a message's body."),
    key("consumer_timeout", Count(0, 3_153_600_000_000), "0", "Milliseconds within which a consumer must settle a delivery; 0, `undefined` or `infinity`: no bound."),
    key("consumer_timeout_response", Choice(&["notify_consumer", "close_channel"]), "notify_consumer", "What becomes of a consumer that has not: `notify_consumer` ends it alone, where its queue is a quorum queue and its client can be told; `close_channel` always closes its channel."),
    key("vhost_max", Count(1, 1_000_000), "1000", "At most so many virtual hosts, of a node alone or of its whole cluster, where the value of the node that leads the catalogue holds: set it alike on all nodes."),
    key("cluster_queue_limit", Count(1, 100_000_000), "1000000", "At most so many queues, of a node alone or of its whole cluster, where the value of the node that leads the catalogue holds: set it alike on all nodes."),
    key("cluster_exchange_limit", Count(1, 100_000_000), "100000", "At most so many exchanges, of a node alone or of its whole cluster, where the value of the node that leads the catalogue holds: set it alike on all nodes."),
    key("deprecated_features.permit.$name", Choice(&["true"]), "", "Only `true`: what RabbitMQ retires stays allowed. Forbid it to clients by permissions, or by limits of their virtual host."),
    // Resources.
    key("vm_memory_high_watermark.relative", Fraction(1.0), "0.6", "Part of the memory above which publishers are held back: that of the machine, or what the process's control groups leave it (version 1 and 2, at every level), where that is less. From three quarters of that memory on, nothing new is declared either."),
    key("vm_memory_high_watermark.absolute", Bytes(MIB, 1 << 50), "", "The same in bytes; overrides `relative`."),
    key("total_memory_available_override_value", Bytes(MIB, 1 << 50), "", "Memory of the machine, where it cannot be told."),
    key("disk_free_limit.absolute", Bytes(0, 1 << 50), "1GB", "Free space below which publishers are held back."),
    key("disk_free_limit.relative", Fraction(100.0), "", "The same as a multiple of the machine's memory; `absolute` overrides it."),
    // HTTP.
    key("management.tcp.port", Port, "15672", "Port of the HTTP API; `none` turns it off."),
    key("management.tcp.ip", Ip, "", "Address that the HTTP API listens on; every IPv4 interface where only the port is given, as in RabbitMQ, and `listeners.ip` where neither is."),
    key("management.hosts.$name", Text, "", "Names by which browsers reach the HTTP API, as behind a proxy, beside addresses and the machine's own name. Once some are listed, requests of pages under other names are refused; without any, they are refused at loopback addresses alone."),
    key("management.path_prefix", Text, "", "What stands before every path of the HTTP API and the page, such as `/rabbit`; without it they are there too."),
    key("management.cors.allow_origins", NONE, "", "`none`: pages of no other origin may call the HTTP API, as by default."),
    key("management.cors.allow_origins.$name", Text, "", "Origins, such as `https://page.example.com`, whose pages may call the HTTP API; `*`: all. None by default."),
    key("management.cors.max_age", Count(0, 86_400), "1800", "Seconds for which a browser need not ask again whether a page may."),
    key("management.login_session_timeout", Count(0, 525_600), "480", "Minutes after a login on the page until it asks for name and password again, whatever is done meanwhile; 0: only when its tab is closed. Until then they stay in the tab's storage."),
    key("management.rate_limit.requests_per_second", Count(0, 100_000), "0", "Requests that each user, and each address, may send to the HTTP API in a second, after ten seconds' worth at once; one more is answered 429 with `Retry-After`. Clients behind a proxy are one address, and all that is sent to a page over one connection is one request. 0: as many as they like."),
    key("management.listener.port", Port, "", "The same as `management.tcp.port`, or as `management.ssl.port` with `management.listener.ssl = true`: RabbitMQ's older words."),
    key("management.listener.ip", Ip, "", "The same for `management.tcp.ip` and `management.ssl.ip`."),
    key("management.listener.ssl", Bool, "false", "Whether `management.listener.*` is about the listener with TLS."),
    key("management.listener.ssl_opts.cacertfile", Path, "", "The same as `management.ssl.cacertfile`, with `management.listener.ssl = true`; so are the next ones."),
    key("management.listener.ssl_opts.certfile", Path, "", "The same as `management.ssl.certfile`."),
    key("management.listener.ssl_opts.keyfile", Path, "", "The same as `management.ssl.keyfile`."),
    key("management.listener.ssl_opts.verify", VERIFY, "", "The same as `management.ssl.verify`."),
    key("management.listener.ssl_opts.fail_if_no_peer_cert", Bool, "", "The same as `management.ssl.fail_if_no_peer_cert`."),
    key("management.listener.ssl_opts.depth", Count(0, 100), "", "The same as `management.ssl.depth`."),
    key("management.listener.ssl_opts.versions.$name", TLS_VERSIONS, "", "The same as `management.ssl.versions`."),
    key("management.oauth_enabled", OFF, "", "Only `false`: OAuth 2 is not supported."),
    key("management.disable_basic_auth", OFF, "", "Only `false`: the HTTP API takes passwords in every request."),
    key("management.restrictions.operator_policy_changes.disabled", OFF, "", "Only `false`: administrators may change operator policies by HTTP."),
    key("management.restrictions.quorum_queue_replica_operations.disabled", OFF, "", "Only `false`: administrators may change members of quorum queues by HTTP."),
    key("http_dispatch.auth_backends.$name", BACKENDS, "", "The same as `auth_backends`, for the HTTP API."),
    key("http_dispatch.auth_backends.$name.authn", BACKENDS, "", "The same, for who somebody is."),
    key("http_dispatch.auth_backends.$name.authz", BACKENDS, "", "The same, for what somebody may do."),
    key("management.disable_stats", Bool, "false", "Takes no samples: figures over time and charts of the past are not there; rates are measured between two questions."),
    key("management.ssl.port", Port, "", "Port of the HTTP API with TLS (15671 is usual); where it is given and `management.tcp` is not, there is no listener without."),
    key("management.ssl.ip", Ip, "", "Address of that listener; every IPv4 interface where it is not given."),
    key("management.ssl.cacertfile", Path, "", "As `ssl_options.cacertfile`, for that listener."),
    key("management.ssl.certfile", Path, "", "As `ssl_options.certfile`, for that listener."),
    key("management.ssl.keyfile", Path, "", "As `ssl_options.keyfile`, for that listener."),
    key("management.ssl.verify", VERIFY, "verify_none", "As `ssl_options.verify`, for that listener."),
    key("management.ssl.fail_if_no_peer_cert", Bool, "false", "As `ssl_options.fail_if_no_peer_cert`, for that listener."),
    key("management.ssl.depth", Count(0, 100), "10", "Certificates that may lie between a client's and that of its authority in the file; 0: the authority itself has signed it."),
    key("management.ssl.versions.$name", TLS_VERSIONS, "", "As `ssl_options.versions`, for that listener."),
    key("prometheus.tcp.port", Port, "15692", "Port of the metrics; `none` turns them off."),
    key("prometheus.tcp.ip", Ip, "", "Address that the metrics are served on, with the same rule."),
    key("prometheus.ssl.port", Port, "", "Port of the metrics with TLS (15691 is usual); where it is given and `prometheus.tcp` is not, there is no listener without."),
    key("prometheus.ssl.ip", Ip, "", "Address of that listener; every IPv4 interface where it is not given."),
    key("prometheus.ssl.cacertfile", Path, "", "As `ssl_options.cacertfile`, for that listener."),
    key("prometheus.ssl.certfile", Path, "", "As `ssl_options.certfile`, for that listener."),
    key("prometheus.ssl.keyfile", Path, "", "As `ssl_options.keyfile`, for that listener."),
    key("prometheus.ssl.verify", VERIFY, "verify_none", "As `ssl_options.verify`, for that listener."),
    key("prometheus.ssl.fail_if_no_peer_cert", Bool, "false", "As `ssl_options.fail_if_no_peer_cert`, for that listener."),
    key("prometheus.ssl.depth", Count(0, 100), "10", "Certificates that may lie between a client's and that of its authority in the file; 0: the authority itself has signed it."),
    key("prometheus.ssl.versions.$name", TLS_VERSIONS, "", "As `ssl_options.versions`, for that listener."),
    key("prometheus.return_per_object_metrics", Bool, "false", "`/metrics` answers with metrics of each object, as `/metrics/per-object` does."),
    key("prometheus.path", Choice(&["/metrics"]), "", "Only `/metrics`: metrics are nowhere else."),
    key("prometheus.authentication.enabled", OFF, "false", "Only `false`: bind metrics to an address that only the collector reaches."),
    key("track_auth_attempt_source", Bool, "false", "Counts logins by protocol, address and user too, for `rabbitmq_auth_attempts_detailed_*` and `/api/auth/attempts/NODE/source`; `rabbitmq-diagnostics enable_auth_attempt_source_tracking` does so until the next start."),
    // Log.
    key("log.console", Bool, "true", "Writes the log to standard error."),
    key("log.console.level", LEVELS, "info", "Least level that the console shows."),
    key("log.console.formatter", FORMATS, "plaintext", "Form of the lines on the console."),
    key("log.file", Text, "false", "Name of the log file in `folders.logs`, or `false`."),
    key("log.file.level", LEVELS, "info", "Least level that the log file takes."),
    key("log.file.formatter", FORMATS, "plaintext", "Form of the lines in the log file."),
    key("log.file.rotation.size", Bytes(0, TIB), "0", "Size at which the log file is put away as `.0`, which becomes `.1` then; 0: it is not, for its size."),
    key("log.file.rotation.date", Schedule, "", "When it is put away by the clock (UTC): `$D0` every day at midnight, `$W0D23` Sundays at 23, `$M1D0` the first of every month, `$H30` every hour."),
    key("log.file.rotation.count", Count(0, 10_000), "10", "How many such files are kept; 0: the log file is emptied instead."),
    key("log.dir", Path, "", "The same as `folders.logs`."),
    // Traces.
    key("traces.endpoint", Text, "", "Collector that spans of traced messages are sent to, by OTLP over HTTP with JSON: `http://127.0.0.1:4318`, or `https://` where it speaks TLS. Messages are traced that have a sampled `traceparent` of W3C among their headers; none are where this is not given."),
    key("traces.cacertfile", Path, "", "File of authorities (PEM) that sign the certificate of a collector with an `https://` address, or that certificate itself; the authorities that the system trusts where none is given."),
    key("traces.sample_ratio", Fraction(1.0), "1.0", "Part of those traces of which spans are made; every node of a cluster chooses the same ones."),
];

/// Keys of RabbitMQ that are accepted and change nothing, and why. A last part `*` stands for
/// everything below.
#[rustfmt::skip]
pub const IGNORED: &[(&str, &str)] = &[
    ("num_acceptors.*", "one thread accepts, and hands on at once"),
    ("tcp_listen_options.*", "sockets tune themselves"),
    ("initial_frame_max", "a frame before login is 8,192 bytes at most"),
    ("ssl_handshake_timeout", "`handshake_timeout` covers it"),
    ("socket_writer.*", "there is no writer process"),
    ("ssl_options.honor_cipher_order", "the server's order always holds"),
    ("ssl_options.honor_ecc_order", "the server's order always holds"),
    ("ssl_options.client_renegotiation", "renegotiation is never done"),
    ("ssl_options.secure_renegotiate", "renegotiation is never done"),
    ("ssl_options.reuse_sessions", "sessions are resumed by ticket"),
    ("ssl_options.ciphers.*", "only ciphers without a known weakness are offered"),
    ("ssl_options.bypass_pem_cache", "files are read at the start and on SIGHUP"),
    ("ssl_options.crl_sources.*", "revocation lists are not read"),
    ("ssl_options.log_level", "TLS has no log of its own"),
    ("vm_memory_high_watermark_paging_ratio", "waiting messages are on disk from the start"),
    ("vm_memory_calculation_strategy", "resident memory is what counts"),
    ("memory_monitor_interval", "memory is watched as it is used"),
    ("cluster_partition_handling", "consensus decides; there is no mode to choose"),
    ("cluster_partition_handling.*", "consensus decides; there is no mode to choose"),
    ("cluster_keepalive_interval", "nodes watch each other by themselves"),
    ("net_ticktime", "there is no Erlang distribution"),
    ("distribution.*", "there is no Erlang distribution"),
    ("mirroring_sync_batch_size", "mirrored queues are replicated as quorum queues are"),
    ("mirroring_sync_max_throughput", "mirrored queues are replicated as quorum queues are"),
    ("consumer_disconnected_timeout", "what a lost node's consumers hold is given back when the cluster has lost it"),
    ("default_worker_pool_size", "there is no Erlang"),
    ("sysmon_handler.*", "there is no Erlang"),
    ("ranch_connection_max", "`max_connections` bounds them"),
    ("link_max_per_session", "AMQP 1.0 is not spoken"),
    ("session_max_per_connection", "AMQP 1.0 is not spoken"),
    ("message_store_shutdown_timeout", "what is confirmed is on disk before a shutdown begins"),
    ("prevent_startup_if_node_was_reset", "a store without its checkpoint never starts empty"),
    ("vhost_restart_strategy", "virtual hosts do not stop by themselves"),
    ("ssl_allow_poodle_attack", "SSL 3 is not spoken"),
    ("amqp_client.*", "the node dials no broker"),
    ("amqp10_client.*", "the node dials no broker"),
    ("definitions.hashing.algorithm", "definitions are compared by their content"),
    ("definitions.tls.*", "definitions are read from files"),
    ("exchange_types.*", "all exchange types are enabled"),
    ("aws.*", "nothing here asks AWS"),
    ("http_dispatch.access_log_dir", "requests go to the log"),
    ("queue_master_locator", "leaders are spread by themselves"),
    ("queue_leader_locator", "leaders are spread by themselves"),
    ("classic_queue.default_version", "there is one storage"),
    ("lazy_queue_explicit_gc_run_operation_threshold", "there is no garbage to collect"),
    ("queue_index_embed_msgs_below", "there is one log for everything"),
    ("msg_store_file_size_limit", "see `wal.file_size`"),
    ("msg_store_credit_disc_bound.*", "flow control has no such knob"),
    ("queue_index_max_journal_entries", "there is one log for everything"),
    ("credit_flow_default_credit.*", "flow control has no such knob"),
    ("quorum_queue.continuous_membership_reconciliation.auto_remove", "a node that is taken out of the cluster always leaves its groups"),
    ("quorum_queue.*", "these suit RabbitMQ's Raft library"),
    ("quorum_commands_soft_limit", "these suit RabbitMQ's Raft library"),
    ("raft.*", "these suit RabbitMQ's Raft library"),
    ("metadata_store.*", "these suit RabbitMQ's Raft library"),
    ("stream.*", "flow control of streams has no such knob"),
    ("mnesia_table_loading_retry_timeout", "there is no Mnesia"),
    ("mnesia_table_loading_retry_limit", "there is no Mnesia"),
    ("collect_statistics", "figures are always exact"),
    ("collect_statistics_interval", "figures are always exact"),
    ("delegate_count", "there are no delegates"),
    ("background_gc_enabled", "there is no garbage to collect"),
    ("background_gc_target_interval", "there is no garbage to collect"),
    ("hipe_compile", "there is no Erlang"),
    ("reverse_dns_lookups", "names of clients are never looked up"),
    ("queue_types.*", "all queue types are enabled"),
    ("management.rates_mode", "figures are always exact"),
    ("management.sample_retention_policies.*", "there is no statistics database"),
    ("management.db_cache_multiplier", "there is no statistics database"),
    ("management.delegate_count", "there is no statistics database"),
    ("channel_operation_timeout", "no operation waits for a process of Erlang's"),
    ("khepri_default_timeout", "metadata are not in Khepri"),
    ("management.http_log_dir", "there is no log of requests; changes by operators are in the log"),
    ("management.enable_queue_totals", "queue totals are always there"),
    ("management.tcp.*", "the HTTP server tunes itself"),
    ("management.listener.*", "the HTTP server tunes itself"),
    ("management.http.*", "the HTTP server has bounds of its own (docs/limits.md)"),
    ("management.headers.*", "the page's headers are fixed, and as strict as can be"),
    ("management.oauth_*", "OAuth 2 is not supported; only `management.oauth_enabled = true` would turn it on"),
    ("management.credential_encryption_secret", "the node keeps no credentials of the page; name and password stay in the browser's tab until the session ends"),
    ("management.definitions.require_json_extension", "definitions are known by what is in them"),
    ("management.require_auth_for_api_reference", "the API's reference says nothing of this node"),
    ("management.csp.*", "the policy is fixed"),
    ("management.hsts.*", "the policy is fixed"),
    ("management.ssl.honor_cipher_order", "the server's order always holds"),
    ("management.ssl.honor_ecc_order", "the server's order always holds"),
    ("management.ssl.client_renegotiation", "renegotiation is never done"),
    ("management.ssl.secure_renegotiate", "renegotiation is never done"),
    ("management.ssl.reuse_sessions", "sessions are resumed by ticket"),
    ("management.ssl.ciphers.*", "only ciphers without a known weakness are offered"),
    ("management.ssl.*", "the HTTP server tunes itself"),
    ("management_agent.*", "there is no statistics database"),
    ("prometheus.tcp.*", "the HTTP server tunes itself"),
    ("prometheus.ssl.honor_cipher_order", "the server's order always holds"),
    ("prometheus.ssl.honor_ecc_order", "the server's order always holds"),
    ("prometheus.ssl.client_renegotiation", "renegotiation is never done"),
    ("prometheus.ssl.secure_renegotiate", "renegotiation is never done"),
    ("prometheus.ssl.reuse_sessions", "sessions are resumed by ticket"),
    ("prometheus.ssl.ciphers.*", "only ciphers without a known weakness are offered"),
    ("prometheus.ssl.*", "the HTTP server tunes itself"),
    ("prometheus.filter_aggregated_queue_metrics_pattern", "aggregated metrics count every queue"),
    ("log.file.rotation.compress", "the files that are put away stay as they are"),
    ("log.default.*", "give `log.console.level` and `log.file.level`"),
    ("log.level", "give `log.console.level` and `log.file.level`"),
    ("log.*", "there are two sinks: console and file"),
    ("product.*", "clients test for these"),
    ("motd_file", "there is no message of the day"),
    ("tracing.*", "`ctl trace_on` feeds amq.rabbitmq.trace"),
    ("erlang.*", "there is no Erlang"),
    ("RABBITMQ_LOGS", "give `log.file` or `log.console`"),
    ("RABBITMQ_LOG_BASE", "give `folders.logs`"),
    ("RABBITMQ_DEFAULT_PASS_FILE", "give `RABBITMQ_DEFAULT_PASS`, or a definitions file"),
    ("RABBITMQ_DEFAULT_USER_FILE", "give `RABBITMQ_DEFAULT_USER`, or a definitions file"),
    ("RABBITMQ_MNESIA_BASE", "give `data_dir`"),
    ("RABBITMQ_MNESIA_DIR", "give `data_dir`"),
    ("RABBITMQ_QUORUM_DIR", "give `folders.segment`"),
    ("RABBITMQ_STREAM_DIR", "give `folders.segment`"),
    ("RABBITMQ_ERLANG_COOKIE", "there is no Erlang cookie: the nodes of a cluster share `cluster.secret`"),
    ("RABBITMQ_*", "nothing here reads this variable: give the key that it stands for"),
    ("rabbitmq-env.conf", "it is a shell's script and is not run: give what it sets as environment variables"),
    ("trace_vhosts", "`ctl trace_on` says what is traced"),
    ("connection_backoff", "there is no such pause"),
    ("permit_deprecated_features", "what RabbitMQ retires stays allowed"),
    ("max_log_file_size", "see `log.file.rotation.size`"),
    ("cluster_formation.*", FORMATION),
];

/// Why keys of RabbitMQ's peer discovery change nothing.
pub const FORMATION: &str = "`cluster.join` and `cluster.address` say who forms a cluster";

/// Why a node that is told of a cluster in RabbitMQ's words alone does not start.
const ALONE: &str = "it would be a broker alone; list all nodes' addresses in `cluster.join`, this one's in `cluster.address`, and give all the same `cluster.secret`; a broker that is to be alone needs `cluster_formation.target_cluster_size_hint = 1`, or not this key";

/// Keys of RabbitMQ that a node must not take lightly and cannot obey, and what to do. A last part
/// `*` stands for everything below.
#[rustfmt::skip]
pub const REFUSED: &[(&str, &str)] = &[
    ("management.ssl.password", "encrypted private keys are not read; decrypt the key file"),
    ("prometheus.ssl.password", "encrypted private keys are not read; decrypt the key file"),
    ("management.listener.ssl_opts.password", "encrypted private keys are not read; decrypt the key file"),
    ("management.listener.ssl_opts.key.*", "give the private key's file (`management.ssl.keyfile`)"),
    ("ssl_options.key.*", "give the private key's file (`ssl_options.keyfile`)"),
    ("ssl_options.password", "encrypted private keys are not read; decrypt the key file"),
    ("auth_ldap.*", "LDAP is not supported; remove it"),
    ("auth_http.*", "HTTP backends are not supported; remove it"),
    ("auth_oauth2.*", "OAuth 2 is not supported; remove it"),
    ("auth_cache.*", "there is no backend to cache; remove it"),
    ("credential_validator.*", "passwords are not validated; remove it"),
    ("default_users.*", "give further users in a definitions file (`load_definitions`)"),
    ("default_limits.*", "give limits in a definitions file (`load_definitions`)"),
    ("default_policies.*", "give policies in a definitions file (`load_definitions`)"),
    ("runtime_parameters.*", "parameters have no limit of their own; remove it"),
    ("definitions.https.*", "definitions are read from files; fetch them first"),
    ("mqtt.*", "MQTT is not spoken; remove it"),
    ("stomp.*", "STOMP is not spoken; remove it"),
    ("web_mqtt.*", "MQTT is not spoken; remove it"),
    ("web_stomp.*", "STOMP is not spoken; remove it"),
    ("shovel.*", "there are no shovels; remove it"),
    ("federation.*", "there is no federation; remove it"),
    ("event_exchange.*", "there is no exchange of the broker's events; remove it, and follow the log in JSON"),
    ("trust_store.*", "there is no trust store; put the certificates into `ssl_options.cacertfile`, which takes those that are no authorities' (`CA:FALSE`)"),
    ("message_interceptors.*", "messages are handed on as they came, without headers that a broker adds; remove it once no application reads these"),
    ("cluster_formation.peer_discovery_backend", ALONE),
    ("cluster_formation.classic_config.nodes.*", ALONE),
    ("channel_max_per_node", "channels are bounded for each connection (`channel_max`)"),
];

/// Keys that take one value or few, by pattern: why none of the others, and what to do.
const REASONS: &[(&str, &str)] = &[
    (
        "proxy_protocol",
        "the PROXY protocol is not spoken; have the proxy pass on what clients send as it is, without a header of its own",
    ),
    ("auth_backends.$name", NO_BACKENDS),
    ("auth_backends.$name.authn", NO_BACKENDS),
    ("auth_backends.$name.authz", NO_BACKENDS),
    ("http_dispatch.auth_backends.$name", NO_BACKENDS),
    ("http_dispatch.auth_backends.$name.authn", NO_BACKENDS),
    ("http_dispatch.auth_backends.$name.authz", NO_BACKENDS),
    (
        "management.oauth_enabled",
        "OAuth 2 is not supported; keep users in the node (`rabbitmqctl add_user`, or `load_definitions`)",
    ),
    (
        "management.disable_basic_auth",
        "the HTTP API takes passwords in every request; bind it to an address that operators alone reach",
    ),
    (
        "deprecated_features.permit.$name",
        "what RabbitMQ retires stays allowed; forbid it to clients by permissions, or by limits of their virtual host",
    ),
    (
        "ssl_options.crl_check",
        "revocation lists are not read; take an authority out of `ssl_options.cacertfile`, or give certificates that end soon",
    ),
    (
        "prometheus.authentication.enabled",
        "metrics are given to everybody who reaches them; bind them to an address that only the collector reaches",
    ),
];
const NO_BACKENDS: &str = "users are in the node alone: there is no LDAP, HTTP or OAuth 2 backend; add them with `rabbitmqctl add_user` or `load_definitions`, or let clients in by certificates (EXTERNAL)";

/// Why a key takes no other values, and what to do.
#[must_use]
pub fn reason(name: &str) -> Option<&'static str> {
    let mut reasons = REASONS.iter();
    reasons
        .find(|(pattern, _)| is_of(pattern, name))
        .map(|(_, reason)| *reason)
}

/// What a name given by a user stands for.
#[derive(Clone, Copy, Debug)]
pub enum Meaning {
    /// A key that has an effect.
    Key(&'static Key),
    /// A key that is accepted and changes nothing; why.
    Ignored(&'static str),
    /// A key that cannot be obeyed; what to do.
    Refused(&'static str),
    /// A plugin of RabbitMQ's whose work the binary does.
    BuiltIn,
}

/// Whether `name` is what `pattern` says, part by part: `$name` stands for any word.
fn is_of(pattern: &str, name: &str) -> bool {
    let mut parts = name.split('.');
    let each = pattern.split('.').all(|expected| {
        let part = parts.next();
        part.is_some_and(|part| part == expected || (expected == "$name" && !part.is_empty()))
    });
    each && parts.next().is_none()
}

/// What `name` stands for; none if it is no key at all.
#[must_use]
pub fn find(name: &str) -> Option<Meaning> {
    let exact = KEYS.iter().find(|k| k.name == name);
    if let Some(key) = exact.or_else(|| KEYS.iter().find(|k| is_of(k.name, name))) {
        return Some(Meaning::Key(key));
    }
    let within = |table: &'static [(&str, &'static str)]| {
        table
            .iter()
            .find(|(pattern, _)| match pattern.strip_suffix('*') {
                Some(prefix) => name.len() > prefix.len() && name.starts_with(prefix),
                None => *pattern == name,
            })
            .map(|(_, note)| *note)
    };
    let plugin = || match plugins::find(name.strip_prefix("enabled_plugins.")?)? {
        plugins::Enabled::BuiltIn => Some(Meaning::BuiltIn),
        plugins::Enabled::Needless(why) => Some(Meaning::Ignored(why)),
        plugins::Enabled::Missing(what) => Some(Meaning::Refused(what)),
    };
    within(REFUSED)
        .map(Meaning::Refused)
        .or_else(|| within(IGNORED).map(Meaning::Ignored))
        .or_else(plugin)
}

/// The keys below `name`, else the one that is most like it; none if none is like it at all.
#[must_use]
pub fn nearest(name: &str) -> Option<String> {
    let below: Vec<&str> = KEYS
        .iter()
        .filter_map(|key| {
            key.name
                .strip_prefix(name)?
                .strip_prefix('.')
                .map(|_| key.name)
        })
        .filter(|key| !key.contains('$'))
        .collect();
    if let [first, others @ ..] = &below[..] {
        let others = others.iter().map(|other| format!("\" or \"{other}"));
        return Some(first.to_string() + &others.collect::<String>());
    }
    let last = name.rsplit('.').next().unwrap_or(name);
    let ignored = IGNORED.iter().chain(REFUSED).map(|(pattern, _)| *pattern);
    let (distance, best) = KEYS
        .iter()
        .map(|k| k.name)
        .chain(ignored.filter(|p| !p.ends_with('*')))
        .map(|k| k.replace("$name", last))
        .map(|k| (strsim::damerau_levenshtein(name, &k), k))
        .min_by_key(|(distance, _)| *distance)?;
    (distance <= 2 + name.len() / 4).then_some(best)
}
