//! Lists of `key=value,…` in flags.

use std::collections::BTreeMap;

/// Values by their keys.
type Values = BTreeMap<String, toml::Value>;

/// PerfTest's names of message properties, and those of a specification.
const KNOWN: [(&str, &str); 11] = [
    ("appId", "app_id"),
    ("contentEncoding", "content_encoding"),
    ("contentType", "content_type"),
    ("correlationId", "correlation_id"),
    ("expiration", "expiration"),
    ("messageId", "message_id"),
    ("priority", "priority"),
    ("replyTo", "reply_to"),
    ("timestamp", "timestamp"),
    ("type", "type"),
    ("userId", "user_id"),
];

/// `key=value,…`, where what looks like a number or a truth is one.
pub(super) fn arguments(flag: &str, text: Option<&str>) -> Result<Values, String> {
    let pairs = text
        .unwrap_or_default()
        .split(',')
        .filter(|pair| !pair.is_empty());
    let pairs = pairs.map(|pair| {
        let (key, value) = pair
            .split_once('=')
            .ok_or_else(|| format!("{flag} takes key=value,…, not `{pair}`"))?;
        let value = match (value.parse::<i64>(), value) {
            (Ok(number), _) => toml::Value::Integer(number),
            (_, "true") => toml::Value::Boolean(true),
            (_, "false") => toml::Value::Boolean(false),
            (_, "amq.default") if key == "x-dead-letter-exchange" => {
                toml::Value::String(String::new())
            }
            _ => toml::Value::String(value.to_owned()),
        };
        Ok((key.to_owned(), value))
    });
    pairs.collect()
}

/// The properties of `-mp`, and whether messages are persistent, where its `deliveryMode` says so.
/// What is no property is a header.
pub(super) fn properties(text: Option<&str>) -> Result<(Values, Option<bool>), String> {
    let mut properties = Values::new();
    let mut headers = toml::Table::new();
    let mut is_persistent = None;
    for (key, value) in arguments("-mp", text)? {
        match (key.as_str(), &value) {
            ("deliveryMode", toml::Value::Integer(mode @ 1..=2)) => {
                is_persistent = Some(*mode == 2);
            }
            ("deliveryMode", _) => {
                return Err(format!("-mp deliveryMode is 1 or 2, not {value}"));
            }
            ("clusterId", _) => {
                return Err("-mp clusterId: AMQP 0-9-1 has no such property any more".to_owned());
            }
            ("timestamp", toml::Value::String(_)) => {
                return Err(format!(
                    "-mp timestamp takes seconds since 1970, not {value}"
                ));
            }
            _ => match KNOWN.iter().find(|(name, _)| *name == key) {
                Some((_, name)) => {
                    properties.insert((*name).to_owned(), value);
                }
                None => {
                    headers.insert(key, value);
                }
            },
        }
    }
    if !headers.is_empty() {
        properties.insert("headers".to_owned(), toml::Value::Table(headers));
    }
    Ok((properties, is_persistent))
}
