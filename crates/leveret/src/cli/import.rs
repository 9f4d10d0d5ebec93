//! `leveret import`: definitions into a node, with everything named at once that it does not take
//! or that has no effect here.

use super::ask::AskOptions;
use super::table::show;
use super::target::{CallError, Target};
use clap::Args;
use leveret_management::definitions_pieces::is_one_piece;
use leveret_management::foreign_definitions::{Unsupported, without_effect};
use leveret_metadata::{Catalogue, Config, Definitions};
use serde_json::Value;
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

/// `leveret import FILE`
pub(super) fn run(options: &ImportOptions) -> Result<String, String> {
    let file = options.file.display();
    let bytes = std::fs::read(&options.file).map_err(|e| format!("cannot read {file}: {e}"))?;
    let text = import(&options.ask.target()?, bytes, options.skip_unsupported)
        .map_err(|error| format!("cannot import {file}: {error}"))?;
    Ok(format!("{text}{file}: imported\n"))
}

/// Imports definitions; a line for everything that was left out, has no effect or is passed over.
///
/// # Errors
/// If they are refused: everything that is wrong with them is named then.
pub(crate) fn import(
    target: &Target,
    bytes: Vec<u8>,
    skip_unsupported: bool,
) -> Result<String, CallError> {
    // What is no JSON at all is the node's to refuse, with the place.
    let mut definitions: Value = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
    let mut unsupported = Unsupported::default();
    unsupported.take(&mut definitions);
    if !skip_unsupported && let Some(refusal) = unsupported.refusal(None) {
        // The node says what is wrong besides, or takes it all if it is of a version that supports
        // more. Of pieces it would take the first ones.
        return match is_one_piece(&bytes) {
            true => target.import(bytes).map(|()| String::new()),
            false => Err(CallError::Refused(400, refusal)),
        };
    }
    let kinds = [
        ("left out", unsupported.lines.clone()),
        ("without effect", without_effect(&definitions)),
        ("passed over", passed_over(&definitions)),
    ];
    let bytes = match unsupported.lines.is_empty() {
        true => bytes,
        false => definitions.to_string().into_bytes(),
    };
    target.import(bytes)?;
    let lines = kinds
        .iter()
        .flat_map(|(what, lines)| lines.iter().map(move |line| format!("{what}: {line}\n")));
    Ok(lines.collect())
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
