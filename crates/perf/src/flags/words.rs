//! A command line as PerfTest takes it, in the words that the parser takes.

/// PerfTest's short flags of several letters, by the long ones that the parser knows. Java's
/// parser takes them with one hyphen.
const SHORT: [(&str, &str); 27] = [
    ("-ad", "--auto-delete"),
    ("-b", "--heartbeat"),
    ("-bc", "--body-count"),
    ("-ca", "--consumer-args"),
    ("-dcr", "--disable-connection-recovery"),
    ("-h", "--uri"),
    ("-H", "--uris"),
    ("-hst", "--heartbeat-sender-threads"),
    ("-mf", "--metrics-format"),
    ("-mp", "--message-properties"),
    ("-ms", "--use-millis"),
    ("-na", "--nack"),
    ("-niot", "--nio-threads"),
    ("-qa", "--queue-args"),
    ("-qp", "--queue-pattern"),
    ("-qpf", "--queue-pattern-from"),
    ("-qpt", "--queue-pattern-to"),
    ("-qq", "--quorum-queue"),
    ("-rkcs", "--routing-key-cache-size"),
    ("-sb", "--skip-binding-queues"),
    ("-se", "--sasl-external"),
    ("-sq", "--stream-queue"),
    ("-st", "--shutdown-timeout"),
    ("-udsc", "--use-default-ssl-context"),
    ("-vl", "--variable-latency"),
    ("-vr", "--variable-rate"),
    ("-vs", "--variable-size"),
];

/// PerfTest's flags that change nothing here, by whether they take a value.
const IGNORED: [(&str, bool); 7] = [
    ("--heartbeat", true),
    ("--heartbeat-sender-threads", true),
    ("--metrics-format", true),
    ("--use-millis", false),
    ("--nio-threads", true),
    ("--routing-key-cache-size", true),
    ("--use-default-ssl-context", false),
];

/// Words as PerfTest takes them, as the parser does.
#[must_use]
pub fn translate(words: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut translated = Vec::new();
    let mut words = words.into_iter().peekable();
    while let Some(word) = words.next() {
        let known = SHORT.iter().find(|(short, _)| *short == word);
        let word = known.map_or(word, |(_, long)| (*long).to_owned());
        match IGNORED.iter().find(|(name, _)| *name == word) {
            None => translated.push(word),
            Some((_, takes_value)) => {
                if *takes_value {
                    words.next();
                }
            }
        }
    }
    translated
}
