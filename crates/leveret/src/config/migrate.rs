//! A configuration in RabbitMQ's form written as TOML, with what has no counterpart beside it.

use super::keys::{self, Kind, Meaning};
use super::{FileConfig, aliases, value};
use std::fmt::Write;

/// What was typed as TOML. Keys without effect, and those that a node refuses, are comments that
/// say
/// why.
#[must_use]
pub fn to_toml(typed: &FileConfig) -> String {
    let typed = &aliases::resolved(typed);
    let (mut kept, mut left_out) = (String::new(), String::new());
    for (name, setting) in typed.iter() {
        let note = match keys::find(name) {
            Some(Meaning::Key(key)) => {
                // Writing to a string cannot fail.
                let _ = writeln!(
                    kept,
                    "{} = {}",
                    written_key(typed, name),
                    written(key.kind, &setting.text)
                );
                continue;
            }
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
                    net_ticktime = 60\nmqtt.vhost = /\nnonsense = 1\n";
        let mut typed = FileConfig::new();
        typed.read_text("rabbitmq.conf", conf).expect("read");
        let toml = to_toml(&typed);
        let mut again = FileConfig::new();
        again.read_text("leveret.toml", &toml).expect("it is TOML");
        let texts = |config: &FileConfig| -> Vec<(String, String)> {
            let known = |name: &str| matches!(keys::find(name), Some(Meaning::Key(_)));
            let kept = config.iter().filter(|(name, _)| known(name));
            kept.map(|(name, setting)| (name.to_owned(), setting.text.clone()))
                .collect()
        };
        assert_eq!(texts(&again), texts(&typed), "{toml}");
        assert_eq!(texts(&again).len(), 6, "{toml}");
        for line in [
            "# net_ticktime has no effect here: there is no Erlang distribution",
            "# mqtt.vhost cannot be obeyed: MQTT is not spoken; remove it",
            "# nonsense is no key that is known",
        ] {
            assert!(toml.lines().any(|l| l == line), "{line}: {toml}");
        }
    }
}
