//! RabbitMQ's older words, and its words for "no bound", in the words of the table of keys.

use super::FileConfig;

/// The listener of the management plugin before it had one for TCP and one for TLS.
const LISTENER: &str = "management.listener";

/// Values that stand for others: RabbitMQ's `infinity`, `undefined` and 0 where it has no bound.
const VALUES: &[(&str, &[&str], &str)] = &[
    ("consumer_timeout", &["infinity", "undefined"], "0"),
    ("max_connections", &["infinity"], "0"),
    ("connection_max", &["infinity"], "0"),
    ("frame_max", &["0"], "131072"),
];

/// What was typed, with each setting under the name and with the value that the rest of the
/// configuration knows. What was typed in newer words goes before what was typed in older ones.
#[must_use]
pub fn resolved(typed: &FileConfig) -> FileConfig {
    let is_tls = typed.get("management.listener.ssl");
    let is_tls = is_tls.is_some_and(|setting| matches!(setting.text.as_str(), "true" | "on"));
    let mut resolved = FileConfig::new();
    // The newer names come later in this order, and replace what the older ones said.
    for (name, setting) in typed.iter() {
        let name = listener(name, is_tls).unwrap_or_else(|| name.to_owned());
        let mut setting = setting.clone();
        let stands_for = VALUES
            .iter()
            .find(|(key, words, _)| *key == name && words.contains(&setting.text.as_str()));
        if let Some((_, _, value)) = stands_for {
            (*value).clone_into(&mut setting.text);
        }
        resolved.put(name, setting);
    }
    resolved
}

/// The newer name of a setting of the older listener; none if it is none, or is without effect.
fn listener(name: &str, is_tls: bool) -> Option<String> {
    let rest = name.strip_prefix(LISTENER)?.strip_prefix('.')?;
    let family = if is_tls { "ssl" } else { "tcp" };
    match (rest, rest.strip_prefix("ssl_opts.")) {
        ("port" | "ip", _) => Some(format!("management.{family}.{rest}")),
        (_, Some(option)) if is_tls => Some(format!("management.ssl.{option}")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(conf: &str) -> Vec<(String, String)> {
        let mut typed = FileConfig::new();
        typed.read_text("rabbitmq.conf", conf).expect("it is read");
        let resolved = resolved(&typed);
        let pair = |(name, setting): (&str, &super::super::Setting)| {
            (name.to_owned(), setting.text.clone())
        };
        resolved.iter().map(pair).collect()
    }

    #[test]
    fn older_words_come_to_the_same_as_newer_ones() {
        for (older, newer) in [
            (
                "management.listener.port = 15673\nmanagement.listener.ip = ::1\n",
                "management.tcp.port = 15673\nmanagement.tcp.ip = ::1\n",
            ),
            (
                "management.listener.port = 15671\nmanagement.listener.ssl = true\nmanagement.listener.ssl_opts.certfile = c.pem\n",
                "management.ssl.port = 15671\nmanagement.listener.ssl = true\nmanagement.ssl.certfile = c.pem\n",
            ),
            (
                "management.listener.port = 1\nmanagement.tcp.port = 2\n",
                "management.tcp.port = 2\n",
            ),
            ("frame_max = 0\n", "frame_max = 131072\n"),
            ("consumer_timeout = undefined\n", "consumer_timeout = 0\n"),
            ("max_connections = infinity\n", "max_connections = 0\n"),
        ] {
            assert_eq!(texts(older), texts(newer), "{older}");
        }
    }
}
