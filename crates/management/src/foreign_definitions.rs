//! Definitions of other brokers: what of them is not supported here, and what is taken without
//! effect. Whoever imports is told in these words, however the definitions come.

use crate::http::input::table_of;
use leveret_routing::Kind;
use leveret_types::FieldTable;
use leveret_types::limits::IMPORT_UNSUPPORTED_NAMED_MAX;
use serde_json::Value;
use std::collections::BTreeSet;

/// Components whose parameters need a plugin that is not here, and why.
const COMPONENTS: &[(&str, &str)] = &[
    ("shovel", "there are no shovels"),
    ("federation-upstream", NO_FEDERATION),
    ("federation-upstream-set", NO_FEDERATION),
];
const NO_FEDERATION: &str = "there is no federation";
/// Keys of policies that need such a plugin.
const POLICY_KEYS: &[&str] = &[
    "federation-upstream",
    "federation-upstream-set",
    "federation-upstream-pattern",
];
const ON_DISK: &str = "waiting messages are on disk from the start";
const BY_THEMSELVES: &str = "replicas catch up by themselves";
const MAJORITY: &str = "a majority elects the leader";
const NO_DEDUPLICATION: &str = "messages are not deduplicated: duplicates pass";
/// Arguments of queues, and keys of policies with the same name, that are taken and change nothing.
const WITHOUT_EFFECT: &[(&str, &str)] = &[
    ("queue-mode", ON_DISK),
    ("queue-version", "there is one storage"),
    ("max-in-memory-length", ON_DISK),
    ("max-in-memory-bytes", ON_DISK),
    ("ha-sync-mode", BY_THEMSELVES),
    ("ha-sync-batch-size", BY_THEMSELVES),
    ("ha-promote-on-shutdown", MAJORITY),
    ("ha-promote-on-failure", MAJORITY),
    (
        "ha-policy",
        "a policy with ha-mode, or the type quorum, replicates a queue",
    ),
    (
        "ha-nodes",
        "a policy with ha-mode, or the type quorum, replicates a queue",
    ),
    ("message-deduplication", NO_DEDUPLICATION),
    ("cache-size", NO_DEDUPLICATION),
    ("cache-ttl", NO_DEDUPLICATION),
    ("cache-persistence", NO_DEDUPLICATION),
];

/// How the rest of definitions is imported, each way in its own words.
pub const HOW_TO_SKIP: &str = "take that out of the definitions, or leave it out with \
    skip_unsupported=true (HTTP), --skip-unsupported (leveret import, rabbitmqctl \
    import_definitions) or definitions.skip_unsupported = true (load_definitions)";

/// Takes out of definitions what is not supported. Those that come in pieces need one of these for
/// all of them.
#[derive(Default)]
pub struct Unsupported {
    /// A line for everything that was taken out.
    pub lines: Vec<String>,
    /// Exchanges that were taken out, by virtual host and name: their bindings follow them.
    exchanges: BTreeSet<(String, String)>,
}

impl Unsupported {
    /// Takes out what the broker does not support. Of a policy, what has a function stays.
    pub fn take(&mut self, definitions: &mut Value) {
        let Self { lines, exchanges } = self;
        take(definitions, "parameters", lines, |parameter| {
            let mut known = COMPONENTS.iter();
            let (component, why) = known.find(|(c, _)| parameter["component"] == *c)?;
            Some(format!("{}: {why}", name(component, parameter)))
        });
        for policy in list_mut(definitions, "policies") {
            lines.extend(mended(policy));
        }
        take(definitions, "policies", lines, |policy| {
            let key = needs_plugin(policy)?;
            Some(format!(
                "{}: {key}: {NO_FEDERATION}",
                name("policy", policy)
            ))
        });
        take(definitions, "exchanges", lines, |exchange| {
            let why = unknown_type(exchange)?;
            exchanges.insert((show(&exchange["vhost"]), show(&exchange["name"])));
            Some(format!("{}: {why}", name("exchange", exchange)))
        });
        take(definitions, "bindings", lines, |binding| {
            let vhost = show(&binding["vhost"]);
            let is_gone = |name: &Value| exchanges.contains(&(vhost.clone(), show(name)));
            let to_exchange = binding["destination_type"] == "exchange";
            let is_of_it =
                is_gone(&binding["source"]) || (to_exchange && is_gone(&binding["destination"]));
            is_of_it.then(|| {
                let (from, to) = (show(&binding["source"]), show(&binding["destination"]));
                let place = match vhost.as_str() {
                    "" => String::new(),
                    vhost => format!(" in vhost '{vhost}'"),
                };
                format!("binding from '{from}' to '{to}'{place}: its exchange is left out")
            })
        });
    }

    /// Why nothing was imported, if there was something: what is not supported, what is wrong
    /// besides, and what to do.
    #[must_use]
    pub fn refusal(&self, besides: Option<&str>) -> Option<String> {
        let count = self.lines.len();
        let mut shown: Vec<String> = self
            .lines
            .iter()
            .take(IMPORT_UNSUPPORTED_NAMED_MAX)
            .cloned()
            .collect();
        if shown.is_empty() {
            return None;
        }
        if count > shown.len() {
            shown.push(format!("and {} more", count - shown.len()));
        }
        let shown: String = shown.iter().map(|line| format!("  {line}\n")).collect();
        let besides = besides.map_or(String::new(), |text| format!("refused besides: {text}\n"));
        Some(format!(
            "there is something that is not supported, and nothing was imported:\n{shown}\
             {besides}{HOW_TO_SKIP}"
        ))
    }
}

fn list_mut<'v>(definitions: &'v mut Value, list: &str) -> impl Iterator<Item = &'v mut Value> {
    let objects = definitions.get_mut(list).and_then(Value::as_array_mut);
    objects.into_iter().flatten()
}

/// Takes objects out of a list, for whatever reasons there are.
fn take(
    definitions: &mut Value,
    list: &str,
    lines: &mut Vec<String>,
    mut why: impl FnMut(&Value) -> Option<String>,
) {
    if let Some(objects) = definitions.get_mut(list).and_then(Value::as_array_mut) {
        objects.retain(|object| {
            let line = why(object);
            let stays = line.is_none();
            lines.extend(line);
            stays
        });
    }
}

/// The first key of a policy that needs a plugin.
fn needs_plugin(policy: &Value) -> Option<&'static str> {
    let definition = policy["definition"].as_object()?;
    let mut keys = POLICY_KEYS.iter().copied();
    keys.find(|key| definition.contains_key(*key))
}

/// Takes the keys that need a plugin out of a policy that has others; a line for each.
fn mended(policy: &mut Value) -> Vec<String> {
    let named = name("policy", policy);
    let Some(definition) = policy["definition"].as_object_mut() else {
        return Vec::new();
    };
    if definition
        .keys()
        .all(|key| POLICY_KEYS.contains(&key.as_str()))
    {
        return Vec::new();
    }
    let taken = POLICY_KEYS
        .iter()
        .filter(|key| definition.remove(**key).is_some());
    taken
        .map(|key| format!("{named}: {key}: {NO_FEDERATION}; its other keys stay"))
        .collect()
}

/// The text of a name; of anything else, how JSON has it.
fn show(value: &Value) -> String {
    let text = match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    // A name makes no line of its own, and turns none.
    let turns = |c| matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let breaks = |c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}');
    let is_plain = |c| !turns(c) && !breaks(c);
    match text.chars().all(is_plain) {
        true => text,
        false => text.escape_default().to_string(),
    }
}

fn name(kind: &str, object: &Value) -> String {
    match object["vhost"].as_str() {
        Some(vhost) => format!("{kind} '{}' in vhost '{vhost}'", show(&object["name"])),
        None => format!("{kind} '{}'", show(&object["name"])),
    }
}

/// Why an exchange's type is none that there is.
fn unknown_type(exchange: &Value) -> Option<String> {
    let arguments = exchange["arguments"].as_object();
    let arguments = arguments.map_or(Ok(FieldTable::new()), table_of).ok()?;
    match Kind::parse(exchange["type"].as_str()?, &arguments) {
        Ok(_) => None,
        Err(error) => Some(error.to_string()),
    }
}

/// A line for everything that is taken and changes nothing.
#[must_use]
pub fn without_effect(definitions: &Value) -> Vec<String> {
    let mut lines = Vec::new();
    let lists = [
        ("queues", "queue", "arguments"),
        ("policies", "policy", "definition"),
    ];
    for (list, kind, field) in lists {
        for object in definitions[list].as_array().into_iter().flatten() {
            for key in object[field]
                .as_object()
                .into_iter()
                .flat_map(|fields| fields.keys())
            {
                let bare = key.strip_prefix("x-").unwrap_or(key);
                if let Some((_, why)) = WITHOUT_EFFECT.iter().find(|(known, _)| *known == bare) {
                    lines.push(format!("{}: {key}: {why}", name(kind, object)));
                }
            }
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn taken(definitions: &mut Value) -> Vec<String> {
        let mut unsupported = Unsupported::default();
        unsupported.take(definitions);
        unsupported.lines
    }

    #[test]
    fn everything_that_is_not_supported_is_named_at_once_and_taken_out() {
        let mut definitions = json!({
            "parameters": [
                {"component": "shovel", "vhost": "/", "name": "s", "value": {}},
                {"component": "mine", "vhost": "/", "name": "p", "value": {}},
            ],
            "policies": [{"vhost": "/", "name": "f", "definition": {"federation-upstream-set": "all"}}],
            "exchanges": [
                {"vhost": "/", "name": "jms", "type": "x-jms-topic"},
                {"vhost": "/", "name": "x", "type": "x-delayed-message", "arguments": {"x-delayed-type": "topic"}},
            ],
            "bindings": [
                {"vhost": "/", "source": "jms", "destination": "q", "destination_type": "queue"},
                {"vhost": "/", "source": "x", "destination": "q", "destination_type": "queue"},
            ],
        });
        assert_eq!(
            taken(&mut definitions),
            [
                "shovel 's' in vhost '/': there are no shovels",
                "policy 'f' in vhost '/': federation-upstream-set: there is no federation",
                "exchange 'jms' in vhost '/': unknown exchange type 'x-jms-topic'",
                "binding from 'jms' to 'q' in vhost '/': its exchange is left out",
            ]
        );
        let left = ["parameters", "policies", "exchanges", "bindings"]
            .map(|list| definitions[list].as_array().map_or(0, Vec::len));
        assert_eq!(left, [1, 0, 1, 1]);
        assert_eq!(taken(&mut definitions), [""; 0]);
        let mut few = json!({"queues": []});
        assert_eq!(taken(&mut few), [""; 0]);
        assert_eq!(
            few,
            json!({"queues": []}),
            "what a file lacks is not added to it"
        );
    }

    #[test]
    fn what_is_taken_without_effect_is_named() {
        let definitions = json!({
            "queues": [{"vhost": "/", "name": "q", "arguments": {"x-queue-mode": "lazy", "x-max-length": 5}},
                       {"vhost": "/", "name": "d", "arguments": {"x-message-deduplication": true}}],
            "policies": [{"vhost": "/", "name": "ha", "definition": {"ha-mode": "all", "ha-sync-mode": "automatic"}}],
        });
        assert_eq!(
            without_effect(&definitions),
            [
                "queue 'q' in vhost '/': x-queue-mode: waiting messages are on disk from the start",
                "queue 'd' in vhost '/': x-message-deduplication: messages are not deduplicated: \
                 duplicates pass",
                "policy 'ha' in vhost '/': ha-sync-mode: replicas catch up by themselves",
            ]
        );
    }

    #[test]
    fn a_hostile_name_makes_no_line_and_turns_none() {
        let name = "a\n  shovel\u{202e}";
        let parameter = json!({"component": "shovel", "vhost": "/", "name": name, "value": {}});
        assert_eq!(
            taken(&mut json!({"parameters": [parameter]})),
            ["shovel 'a\\n  shovel\\u{202e}' in vhost '/': there are no shovels"]
        );
    }

    #[test]
    fn a_policy_keeps_what_has_a_function() {
        let mut definitions = json!({"policies": [{"vhost": "/", "name": "ha",
            "definition": {"ha-mode": "all", "federation-upstream-set": "all"}}]});
        assert_eq!(
            taken(&mut definitions),
            [
                "policy 'ha' in vhost '/': federation-upstream-set: there is no federation; \
              its other keys stay"
            ]
        );
        let left = &definitions["policies"][0]["definition"];
        assert_eq!(*left, json!({"ha-mode": "all"}));
    }

    #[test]
    fn pieces_lose_the_bindings_of_exchanges_that_an_earlier_one_lost() {
        let mut unsupported = Unsupported::default();
        unsupported.take(&mut json!({"exchanges": [{"vhost": "/", "name": "x", "type": "odd"}]}));
        let mut bindings = json!({"bindings": [{"vhost": "/", "source": "x", "destination": "q",
                                                "destination_type": "queue"}]});
        unsupported.take(&mut bindings);
        assert_eq!(bindings, json!({"bindings": []}));
    }

    #[test]
    fn a_refusal_names_so_many_and_how_many_more_there_are() {
        let refusal = |count: usize| {
            let lines = (0..count)
                .map(|number| format!("shovel '{number}'"))
                .collect();
            let unsupported = Unsupported {
                lines,
                ..Unsupported::default()
            };
            unsupported.refusal(Some("queue 'q'")).unwrap_or_default()
        };
        assert_eq!(refusal(0), "");
        let most = IMPORT_UNSUPPORTED_NAMED_MAX;
        assert!(!refusal(most).contains("more"));
        let text = refusal(most + 1);
        assert!(
            text.contains("\n  and 1 more\nrefused besides: queue 'q'\ntake"),
            "{text}"
        );
    }
}
