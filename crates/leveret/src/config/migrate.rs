//! A configuration in RabbitMQ's form written as TOML, with what has no counterpart beside it.

use super::keys::{self, Kind, Meaning};
use super::{Config, FileConfig, Machine, aliases, value};
use std::fmt::Write;

/// What was typed as TOML. Keys without effect, and those that a node refuses, are comments that
/// say why; so is what keeps a node from starting with the rest.
#[must_use]
pub fn to_toml(typed: &FileConfig) -> String {
    let mut toml = written_out(typed);
    let mut again = FileConfig::new();
    // Which machine it is makes no value right or wrong.
    let machine = Machine {
        cores: 1,
        host_name: "localhost".to_owned(),
    };
    let errors = match again.read_text("", &toml) {
        Ok(()) => Config::build(&again, &machine)
            .err()
            .map(|refused| refused.errors),
        Err(error) => Some(vec![error]),
    };
    if let Some(errors) = errors {
        toml.push_str("\n# A node does not start with this:\n");
        for error in errors {
            let _ = writeln!(toml, "# {}", error.what);
        }
    }
    toml
}

fn written_out(typed: &FileConfig) -> String {
    let typed = &aliases::resolved(typed);
    let (mut kept, mut left_out) = (String::new(), String::new());
    for (name, setting) in typed.iter() {
        let note = match keys::find(name) {
            Some(Meaning::Key(_)) if let Some(variable) = &setting.variable => {
                format!(
                    "is taken from the environment variable {variable}: have {} set instead",
                    super::file::variable_of(name)
                )
            }
            Some(Meaning::Key(key)) => match value::check(key.kind, &setting.text) {
                Ok(()) => {
                    // Writing to a string cannot fail.
                    let _ = writeln!(
                        kept,
                        "{} = {}",
                        written_key(typed, name),
                        written(key.kind, &setting.text)
                    );
                    continue;
                }
                Err(what) => what,
            },
            Some(Meaning::BuiltIn) => continue,
            Some(Meaning::Ignored(why)) => format!("has no effect here: {why}"),
            Some(Meaning::Refused(what)) => format!("cannot be obeyed: {what}"),
            None => "is no key that is known".to_owned(),
        };
        let _ = writeln!(left_out, "# {name} {note}");
    }
    match left_out.is_empty() {
        true => kept,
        false => format!("{kept}\n# Left out:\n{left_out}"),
    }
}

/// A key as dots make tables of it, or whole and in quotes where that cannot be: a part is no bare
/// word of TOML, or the key has a value and keys below it.
fn written_key(typed: &FileConfig, name: &str) -> String {
    let is_bare = |part: &str| {
        let word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        !part.is_empty() && part.chars().all(word)
    };
    let has_below = typed.below(name).next().is_some();
    let dots = name.match_indices('.').map(|(at, _)| at);
    let mut above = dots.map(|at| &name[..at]);
    match name.split('.').all(is_bare) && !has_below && above.all(|key| typed.get(key).is_none()) {
        true => name.to_owned(),
        false => quoted(name),
    }
}

/// Text in quotes: what JSON escapes, TOML reads.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text)
        .to_string()
        .replace('\u{7f}', "\\u007f")
}

fn written(kind: Kind, text: &str) -> String {
    match kind {
        Kind::Bool => match value::boolean(text) {
            Ok(flag) => flag.to_string(),
            Err(_) => quoted(text),
        },
        Kind::Count(..) if text.parse::<i64>().is_ok() => text.to_owned(),
        _ => quoted(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_means_the_same_and_what_is_left_out_is_named() {
        let conf = "listeners.tcp.default = 5672\nlog.console = true\nlog.console.level = debug\n\
                    loopback_users.guest = false\nheartbeat = 30\ndefault_pass = a\"b\\c\n\
                    net_ticktime = 60\nmqtt.vhost = /\nnonsense = 1\nchannel_max = many\n\
                    ssl_options.versions.1 = tlsv1.1\nlisteners.ssl.default = 5671\n";
        let mut typed = FileConfig::new();
        typed.read_text("rabbitmq.conf", conf).expect("read");
        let toml = to_toml(&typed);
        let mut again = FileConfig::new();
        again.read_text("leveret.toml", &toml).expect("it is TOML");
        let texts = |config: &FileConfig| -> Vec<(String, String)> {
            let known = |name: &str| matches!(keys::find(name), Some(Meaning::Key(_)));
            let refused = ["channel_max", "ssl_options.versions.1"];
            let kept = config
                .iter()
                .filter(|(name, _)| known(name) && !refused.contains(name));
            kept.map(|(name, setting)| (name.to_owned(), setting.text.clone()))
                .collect()
        };
        assert_eq!(texts(&again), texts(&typed), "{toml}");
        assert_eq!(texts(&again).len(), 7, "{toml}");
        for line in [
            "# net_ticktime has no effect here: there is no Erlang distribution",
            "# mqtt.vhost cannot be obeyed: MQTT is not spoken; remove it",
            "# nonsense is no key that is known",
            "# channel_max must be a whole number from 0 to 65535",
            "# ssl_options.versions.1 must be one of tlsv1.2, tlsv1.3",
            "# A node does not start with this:",
        ] {
            assert!(toml.lines().any(|l| l == line), "{line}: {toml}");
        }
    }
}
