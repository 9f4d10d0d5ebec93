//! A command line as PerfTest takes it, in the words that the parser takes.

use super::unsupported;

/// PerfTest's short flags of several letters, by the long ones that the parser knows. Java's
/// parser takes them with one hyphen.
const SHORT: [(&str, &str); 27] = [
    ("-?", "--help"),
    ("-ad", "--auto-delete"),
    ("-b", "--heartbeat"),
    ("-ca", "--consumer-args"),
    ("-ctp", "--consumers-thread-pools"),
    ("-d", "--id"),
    ("-dcr", "--disable-connection-recovery"),
    ("-h", "--uri"),
    ("-H", "--uris"),
    ("-hst", "--heartbeat-sender-threads"),
    ("-i", "--interval"),
    ("-mf", "--metrics-format"),
    ("-mp", "--message-properties"),
    ("-ms", "--use-millis"),
    ("-niot", "--nio-threads"),
    ("-niotp", "--nio-thread-pool"),
    ("-pst", "--producer-scheduler-threads"),
    ("-qa", "--queue-args"),
    ("-qp", "--queue-pattern"),
    ("-qpf", "--queue-pattern-from"),
    ("-qpt", "--queue-pattern-to"),
    ("-qq", "--quorum-queue"),
    ("-rkcs", "--routing-key-cache-size"),
    ("-sq", "--stream-queue"),
    ("-st", "--shutdown-timeout"),
    ("-udsc", "--use-default-ssl-context"),
    ("-vr", "--variable-rate"),
];

/// PerfTest's flags that change nothing here, by whether they take a value.
const IGNORED: [(&str, bool); 13] = [
    ("--consumers-thread-pools", true),
    ("--heartbeat", true),
    ("--heartbeat-sender-threads", true),
    ("--id", true),
    ("--interval", true),
    ("--metrics-format", true),
    ("--nio-thread-pool", true),
    ("--nio-threads", true),
    ("--producer-scheduler-threads", true),
    ("--routing-key-cache-size", true),
    ("--shutdown-timeout", true),
    ("--use-default-ssl-context", false),
    ("--use-millis", false),
];

/// Words as PerfTest takes them, as the parser does. The first flag of PerfTest's that there is not
/// here is all that is left.
#[must_use]
pub fn translate(words: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut translated = Vec::new();
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        if let Some(flag) = unsupported::find(&word) {
            return vec![format!("--{}", unsupported::LONG), flag];
        }
        let known = SHORT.iter().find(|(short, _)| *short == word);
        let word = known.map_or(word, |(_, long)| (*long).to_owned());
        let (name, has_value) = match word.split_once('=') {
            Some((name, _)) => (name, true),
            None => (word.as_str(), false),
        };
        match IGNORED.iter().find(|(ignored, _)| *ignored == name) {
            None => translated.push(word),
            Some((_, takes_value)) => {
                if *takes_value && !has_value {
                    words.next();
                }
            }
        }
    }
    translated
}
