//! PerfTest's flags that there are not here, and what there is instead.

/// The parser's word for one of them.
pub(super) const LONG: &str = "unsupported-flag";

const JSON: &str = "bodies are not JSON: -s and -B say what they are";
const LATER: &str = "in a file, a phase with `consume = false` lets consumers begin later";
const METRICS: &str = "there is no endpoint for metrics: --json and --csv write what was measured";
const ALONE: &str = "runs do not wait for each other";
const NO_TRANSACTIONS: &str = "there are no transactions: -c has messages confirmed";
const ACKNOWLEDGED: &str = "every delivery is acknowledged";
const NO_OAUTH: &str = "there is no OAuth 2: a token goes into the URI, as the password";
const NO_POLLING: &str = "there is no polling: messages are consumed";
const STARTED: &str = "brokers must be there when the run begins";
const SOCKETS: &str = "sockets' options are not to be set";
const OUTPUT: &str = "nothing is printed of single messages";

/// Each by its short name, without hyphens, and its long one.
const UNSUPPORTED: [(&str, &str, &str); 71] = [
    ("S", "slow-start", LATER),
    ("E", "exclusive", "queues are not exclusive"),
    ("K", "random-routing-key", "a publisher has one routing key"),
    (
        "M",
        "framemax",
        "frames are as large as the broker takes them",
    ),
    ("Q", "global-qos", "-q bounds each consumer"),
    (
        "T",
        "body-content-type",
        "-mp contentType=TYPE says the same",
    ),
    ("bc", "body-count", JSON),
    ("bfc", "body-field-count", JSON),
    (
        "cri",
        "connection-recovery-interval",
        "--reconnect says for how long a broken connection is tried again",
    ),
    ("csd", "consumer-start-delay", LATER),
    (
        "ct",
        "confirm-timeout",
        "`drain_s` in a file says how long confirms are waited for",
    ),
    ("ei", "expected-instances", ALONE),
    ("em", "exposed-metrics", METRICS),
    (
        "env",
        "environment-variables",
        "flags are not read from the environment",
    ),
    (
        "ew",
        "exit-when",
        "a run ends by -C or -z, once all has arrived",
    ),
    ("isn", "instance-sync-namespace", ALONE),
    ("ist", "instance-sync-timeout", ALONE),
    ("jb", "json-body", JSON),
    (
        "ll",
        "leader-locator",
        "-qa x-queue-leader-locator=NAME says the same",
    ),
    ("m", "ptxsize", NO_TRANSACTIONS),
    ("ma", "max-age", "-qa x-max-age=AGE says the same"),
    ("mc", "metrics-client", METRICS),
    ("mcl", "metrics-class-loader", METRICS),
    ("mcla", "metrics-command-line-arguments", METRICS),
    ("mda", "metrics-datadog", METRICS),
    ("mdak", "metrics-datadog-application-key", METRICS),
    ("mdd", "metrics-datadog-descriptions", METRICS),
    ("mdh", "metrics-datadog-host-tag", METRICS),
    ("mdk", "metrics-datadog-api-key", METRICS),
    ("mds", "metrics-datadog-step-size", METRICS),
    ("mdu", "metrics-datadog-uri", METRICS),
    ("mh", "metrics-help", METRICS),
    ("mjgc", "metrics-jvm-gc", METRICS),
    ("mjm", "metrics-jvm-memory", METRICS),
    ("mjp", "metrics-processor", METRICS),
    ("mjt", "metrics-jvm-thread", METRICS),
    ("mjx", "metrics-jmx", METRICS),
    (
        "mlb",
        "max-length-bytes",
        "-qa x-max-length-bytes=N says the same",
    ),
    ("mpe", "metrics-prometheus-endpoint", METRICS),
    ("mpp", "metrics-prometheus-port", METRICS),
    ("mpr", "metrics-prometheus", METRICS),
    ("mpx", "metrics-prefix", METRICS),
    ("mt", "metrics-tags", METRICS),
    ("n", "ctxsize", NO_TRANSACTIONS),
    ("na", "nack", ACKNOWLEDGED),
    ("o", "output-file", "--csv FILE writes the seconds"),
    ("o2gr", "oauth2-grant-type", NO_OAUTH),
    ("o2id", "oauth2-client-id", NO_OAUTH),
    ("o2p", "oauth2-parameters", NO_OAUTH),
    ("o2sec", "oauth2-client-secret", NO_OAUTH),
    ("o2uri", "oauth2-token-endpoint", NO_OAUTH),
    ("pi", "polling-interval", NO_POLLING),
    ("po", "polling", NO_POLLING),
    (
        "prsd",
        "producer-random-start-delay",
        "publishers with a rate take turns",
    ),
    ("qf", "queue-file", "-u takes several names, by commas"),
    ("re", "requeue", ACKNOWLEDGED),
    (
        "sb",
        "skip-binding-queues",
        "-p leaves exchange, queues and bindings as they are",
    ),
    (
        "sco",
        "stream-consumer-offset",
        "-ca x-stream-offset=OFFSET says the same",
    ),
    ("se", "sasl-external", "the URI has user and password"),
    (
        "smssb",
        "stream-max-segment-size-bytes",
        "-qa x-stream-max-segment-size-bytes=N says the same",
    ),
    (
        "sni",
        "server-name-indication",
        "the name is that of the URI's host",
    ),
    ("sst", "servers-startup-timeout", STARTED),
    ("sul", "servers-up-limit", STARTED),
    ("tnd", "tcp-no-delay", SOCKETS),
    ("trbs", "tcp-receive-buffer-size", SOCKETS),
    ("tsbs", "tcp-send-buffer-size", SOCKETS),
    (
        "vl",
        "variable-latency",
        "-L is the same during the whole run",
    ),
    ("vs", "variable-size", "-s takes a range of sizes"),
    ("v", "version", "`leveret ctl version` prints it"),
    ("", "verbose", OUTPUT),
    ("", "verbose-full", OUTPUT),
];

/// The flag that a word is, if PerfTest has it and we do not.
pub(super) fn find(word: &str) -> Option<String> {
    let is = |(short, long, _): &&(&str, &str, &str)| match word.strip_prefix("--") {
        Some(name) => name.split('=').next() == Some(*long),
        None => !short.is_empty() && word.strip_prefix('-') == Some(*short),
    };
    let (_, long, _) = UNSUPPORTED.iter().find(is)?;
    Some((*long).to_owned())
}

/// What is said to who gives it, by its long name.
pub(super) fn answer(long: &str) -> String {
    match UNSUPPORTED.iter().find(|(_, name, _)| *name == long) {
        Some(("", _, instead)) => format!("PerfTest's --{long} is not known here: {instead}"),
        Some((short, _, instead)) => {
            format!("PerfTest's -{short} (--{long}) is not known here: {instead}")
        }
        None => format!("--{long} is not known here"),
    }
}
