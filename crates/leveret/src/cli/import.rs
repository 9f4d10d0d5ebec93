//! `leveret import`: definitions into a node, with everything named at once that it does not take
//! or that has no effect here.

use super::ask::AskOptions;
use super::table::show;
use clap::Args;
use leveret_management::http::input::table_of;
use leveret_metadata::{Catalogue, Config, Definitions};
use leveret_routing::Kind;
use leveret_types::FieldTable;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::PathBuf;

#[derive(Args)]
pub(super) struct ImportOptions {
    /// File of definitions (RabbitMQ's JSON)
    file: PathBuf,
    /// Leave out what the broker does not support, and name it
    #[arg(long)]
    skip_unsupported: bool,
    #[command(flatten)]
    ask: AskOptions,
}

/// Components whose parameters need a plugin that is not here, and why.
const COMPONENTS: &[(&str, &str)] = &[
    ("shovel", "there are no shovels"),
    ("federation-upstream", "there is no federation"),
    ("federation-upstream-set", "there is no federation"),
];
/// Keys of policies that need such a plugin.
const POLICY_KEYS: &[&str] = &[
    "federation-upstream",
    "federation-upstream-set",
    "federation-upstream-pattern",
];
/// Arguments of queues, and keys of policies with the same name, that are taken and change nothing.
const WITHOUT_EFFECT: &[(&str, &str)] = &[
    ("queue-mode", "waiting messages are on disk from the start"),
    ("queue-version", "there is one storage"),
    (
        "max-in-memory-length",
        "waiting messages are on disk from the start",
    ),
    (
        "max-in-memory-bytes",
        "waiting messages are on disk from the start",
    ),
    ("ha-sync-mode", "replicas catch up by themselves"),
    ("ha-sync-batch-size", "replicas catch up by themselves"),
    ("ha-promote-on-shutdown", "a majority elects the leader"),
    ("ha-promote-on-failure", "a majority elects the leader"),
];

/// `leveret import FILE`
pub(super) fn run(options: &ImportOptions) -> Result<String, String> {
    let file = options.file.display();
    let bytes = std::fs::read(&options.file).map_err(|e| format!("cannot read {file}: {e}"))?;
    // What is no JSON at all is the node's to refuse, with the place.
    let mut definitions: Value = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
    let unsupported = take_unsupported(&mut definitions);
    let mut text = String::new();
    for line in &unsupported {
        text.push_str(&format!("left out: {line}\n"));
    }
    if !unsupported.is_empty() && !options.skip_unsupported {
        let lines: String = unsupported
            .iter()
            .map(|line| format!("  {line}\n"))
            .collect();
        return Err(format!(
            "{file} has what is not supported, and nothing was imported:\n{lines}take it out of the \
             file, or give --skip-unsupported to import the rest"
        ));
    }
    for line in without_effect(&definitions) {
        text.push_str(&format!("without effect: {line}\n"));
    }
    for line in passed_over(&definitions) {
        text.push_str(&format!("passed over: {line}\n"));
    }
    let bytes = match unsupported.is_empty() {
        true => bytes,
        false => definitions.to_string().into_bytes(),
    };
    options
        .ask
        .target()?
        .import(bytes)
        .map_err(|error| format!("cannot import {file}: {error}"))?;
    Ok(format!("{text}{file}: imported\n"))
}

fn name(kind: &str, object: &Value) -> String {
    match object["vhost"].as_str() {
        Some(vhost) => format!("{kind} '{}' in vhost '{vhost}'", show(&object["name"])),
        None => format!("{kind} '{}'", show(&object["name"])),
    }
}

/// Takes out what the broker does not support; a line for each.
fn take_unsupported(definitions: &mut Value) -> Vec<String> {
    let mut lines = Vec::new();
    let mut take = |list: &str, why: &dyn Fn(&Value) -> Option<String>| {
        if let Some(objects) = definitions.get_mut(list).and_then(Value::as_array_mut) {
            objects.retain(|object| match why(object) {
                Some(line) => {
                    lines.push(line);
                    false
                }
                None => true,
            });
        }
    };
    take("parameters", &|parameter| {
        let (_, why) = COMPONENTS
            .iter()
            .find(|(c, _)| parameter["component"] == *c)?;
        Some(format!(
            "{}: {why}",
            name(&show(&parameter["component"]), parameter)
        ))
    });
    take("policies", &|policy| {
        let definition = policy["definition"].as_object()?;
        let key = definition
            .keys()
            .find(|key| POLICY_KEYS.contains(&key.as_str()))?;
        Some(format!(
            "{}: {key}: there is no federation",
            name("policy", policy)
        ))
    });
    let gone = std::cell::RefCell::new(BTreeSet::new());
    take("exchanges", &|exchange| {
        let why = unknown_type(exchange)?;
        let place = (show(&exchange["vhost"]), show(&exchange["name"]));
        gone.borrow_mut().insert(place);
        Some(format!("{}: {why}", name("exchange", exchange)))
    });
    take("bindings", &|binding| {
        let vhost = show(&binding["vhost"]);
        let is_gone = |name: &Value| gone.borrow().contains(&(vhost.clone(), show(name)));
        let to_exchange = binding["destination_type"] == "exchange";
        let is_of_it =
            is_gone(&binding["source"]) || (to_exchange && is_gone(&binding["destination"]));
        is_of_it.then(|| {
            let (from, to) = (show(&binding["source"]), show(&binding["destination"]));
            format!("binding from '{from}' to '{to}' in vhost '{vhost}': its exchange is left out")
        })
    });
    lines
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
fn without_effect(definitions: &Value) -> Vec<String> {
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

/// A line for everything that no import makes, whatever the node has.
fn passed_over(definitions: &Value) -> Vec<String> {
    let empty = Catalogue::new(Config::default());
    // What are no definitions at all is the node's to refuse.
    let definitions = serde_json::from_value::<Definitions>(definitions.clone());
    let definitions = definitions.unwrap_or_default();
    let lines = definitions.passed_over(&empty, None).into_iter();
    lines.map(|line| show(&line.into())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

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
            take_unsupported(&mut definitions),
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
        assert_eq!(take_unsupported(&mut definitions), [""; 0]);
        let mut few = json!({"queues": []});
        assert_eq!(take_unsupported(&mut few), [""; 0]);
        assert_eq!(
            few,
            json!({"queues": []}),
            "what a file lacks is not added to it"
        );
    }

    #[test]
    fn what_is_taken_without_effect_is_named() {
        let definitions = json!({
            "queues": [{"vhost": "/", "name": "q", "arguments": {"x-queue-mode": "lazy", "x-max-length": 5}}],
            "policies": [{"vhost": "/", "name": "ha", "definition": {"ha-mode": "all", "ha-sync-mode": "automatic"}}],
        });
        assert_eq!(
            without_effect(&definitions),
            [
                "queue 'q' in vhost '/': x-queue-mode: waiting messages are on disk from the start",
                "policy 'ha' in vhost '/': ha-sync-mode: replicas catch up by themselves",
            ]
        );
    }

    #[test]
    fn names_that_only_a_broker_gives_are_named_with_their_bindings() {
        let definitions = json!({
            "queues": [
                {"vhost": "/", "name": "amq.gen-\u{202e}\n", "durable": true},
                {"vhost": "/", "name": "q", "durable": true},
            ],
            "exchanges": [
                {"vhost": "/", "name": "amq.topic", "type": "topic", "durable": true},
                {"vhost": "/", "name": "amq.mine", "type": "topic", "durable": true},
            ],
            "bindings": [
                {"vhost": "/", "source": "amq.topic", "destination": "q", "destination_type": "queue"},
                {"vhost": "/", "source": "amq.mine", "destination": "q", "destination_type": "queue"},
            ],
        });
        let lines = passed_over(&definitions);
        let begin = |line: &String| line.split_once(": ").map(|(named, _)| named.to_owned());
        let named: Vec<String> = lines.iter().filter_map(begin).collect();
        assert_eq!(
            named,
            [
                "queue 'amq.gen-\\u202e\\n' in vhost '/'",
                "exchange 'amq.mine' in vhost '/'",
                "binding from 'amq.mine' to queue 'q' in vhost '/'",
            ]
        );
        assert_eq!(passed_over(&Value::Null), [""; 0]);
    }
}
