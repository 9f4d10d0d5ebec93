//! The arguments of queues: which there are for each type, what they may be, and when two
//! declarations mean the same.

use crate::error::CatalogueError;
use crate::kinds::{Kind, SOURCE};
use leveret_stream::{age_ms, offset_spec, retention_groups};
use leveret_types::limits::{
    PRIORITY_MAX, STREAM_FILTER_BYTES_MAX, STREAM_SEGMENT_BYTES_MAX, TTL_MS_MAX,
};
use leveret_types::{FieldTable, FieldValue, QueueKind};
use std::ops::RangeInclusive;

/// The type that arguments ask for, classic where they do not.
///
/// # Errors
/// If there is no such type.
pub fn kind_of(resource: &str, arguments: &FieldTable) -> Result<QueueKind, CatalogueError> {
    let Some(value) = arguments.get("x-queue-type") else {
        return Ok(QueueKind::Classic);
    };
    let reason = match value.as_text() {
        Some(name) => match QueueKind::parse(name) {
            Some(kind) => return Ok(kind),
            None => format!("\"unsupported queue type '{name}'\""),
        },
        None => unacceptable_type(value),
    };
    Err(invalid("x-queue-type", resource, reason))
}

/// Checks the arguments of a declaration.
///
/// # Errors The first that is not of the type or the value that it should be, or is for another
/// type of queue.
pub fn validate(
    resource: &str,
    kind: QueueKind,
    arguments: &FieldTable,
) -> Result<(), CatalogueError> {
    // RabbitMQ looks at this one first, and has another text for it.
    let dead_letter_exchange = "x-dead-letter-exchange";
    if let Some(value) = arguments.get(dead_letter_exchange)
        && value.as_text().is_none()
    {
        return Err(CatalogueError::InvalidArgumentType {
            type_name: value.type_name(),
            argument: dead_letter_exchange,
            resource: resource.to_owned(),
        });
    }
    if arguments.get(SOURCE).is_some() && kind == QueueKind::Stream {
        let reason = "\"a stream is no view of another one\"";
        return Err(invalid(SOURCE, resource, reason.to_owned()));
    }
    let known = Kind::with(kind, arguments);
    for name in known.arguments() {
        if let Some(value) = arguments.get(name) {
            check_value(name, value, arguments)
                .map_err(|reason| invalid(name, resource, reason))?;
        }
    }
    let of_any_type = |name: &str| {
        let mut kinds = QueueKind::ALL.iter();
        kinds.any(|of| Kind::of(*of).knows(name))
    };
    for (name, _) in arguments.iter() {
        let is_refused = of_any_type(name) && !known.knows(name);
        if is_refused && arguments.get(SOURCE).is_some() {
            return Err(CatalogueError::ArgumentOfView {
                argument: name.to_owned(),
                resource: resource.to_owned(),
            });
        }
        if is_refused {
            return Err(CatalogueError::ArgumentOfOtherType {
                argument: name.to_owned(),
                resource: resource.to_owned(),
                queue_type: kind.module_name(),
            });
        }
    }
    Ok(())
}

fn invalid(argument: &str, resource: &str, reason: String) -> CatalogueError {
    CatalogueError::InvalidArgument {
        argument: argument.to_owned(),
        resource: resource.to_owned(),
        reason,
    }
}

fn check_value(name: &str, value: &FieldValue, arguments: &FieldTable) -> Result<(), String> {
    match name {
        "x-expires" => match integer(value)? {
            0 => Err("{value_zero,0}".to_owned()),
            ms => expiry(ms),
        },
        "x-message-ttl" => expiry(integer(value)?),
        "x-dead-letter-exchange" | "x-member-placement-tag" | SOURCE => text(value).map(drop),
        "x-stream-offset" => match offset_spec(value, 0) {
            Some(_) => Ok(()),
            None => Err("invalid_stream_offset".to_owned()),
        },
        "x-dead-letter-routing-key" => {
            text(value)?;
            match arguments.get("x-dead-letter-exchange") {
                Some(_) => Ok(()),
                None => Err("routing_key_but_no_dlx_defined".to_owned()),
            }
        }
        "x-dead-letter-strategy" => one_of(
            value,
            &["at-most-once", "at-least-once"],
            "invalid_dlx_strategy",
        ),
        "x-overflow" => one_of(value, OVERFLOW_MODES, "invalid_overflow"),
        "x-queue-mode" => one_of(
            value,
            &["default", "lazy"],
            &format!("\"unsupported queue mode '{value}'\""),
        ),
        "x-queue-version" => match not_negative(value)? {
            1 | 2 => Ok(()),
            other => Err(format!("\"unsupported queue version '{other}'\"")),
        },
        "x-queue-leader-locator" => one_of(value, LEADER_LOCATORS, "invalid_queue_locator_arg"),
        "x-delayed-retry-type" => one_of(value, DELAYED_RETRY_TYPES, "invalid_delayed_retry_type"),
        "x-max-priority" => match not_negative(value)? {
            priority if priority > i64::from(PRIORITY_MAX) => {
                Err(format!("{{max_value_exceeded,{priority}}}"))
            }
            _ => Ok(()),
        },
        "x-single-active-consumer" => match value {
            FieldValue::Bool(_) => Ok(()),
            _ => Err(unacceptable_type(value)),
        },
        "x-quorum-initial-group-size" | "x-initial-cluster-size" => match not_negative(value)? {
            0 => Err("{value_zero,0}".to_owned()),
            _ => Ok(()),
        },
        "x-delivery-limit" => integer(value).map(drop),
        "x-max-age" => match text(value)? {
            age if age_ms(age).is_some_and(|ms| ms > 0) => Ok(()),
            _ => Err("invalid_max_age".to_owned()),
        },
        "x-stream-max-segment-size-bytes" => within(value, 1..=STREAM_SEGMENT_BYTES_MAX),
        "x-stream-filter-size-bytes" => within(value, STREAM_FILTER_RANGE),
        "x-retention-groups" => match retention_groups(text(value)?) {
            Some(_) => Ok(()),
            None => Err("invalid_retention_groups".to_owned()),
        },
        "x-retention-groups-alarm-bytes" => within(value, 1..=i64::MAX as u64),
        "x-flush" => one_of(value, FLUSH_LEVELS, "invalid_flush"),
        "x-flush-interval-ms" => within(value, FLUSH_INTERVAL_RANGE),
        "x-max-length"
        | "x-max-length-bytes"
        | "x-max-in-memory-length"
        | "x-max-in-memory-bytes"
        | "x-consumer-timeout"
        | "x-consumer-disconnected-timeout"
        | "x-quorum-target-group-size"
        | "x-delayed-retry-min"
        | "x-delayed-retry-max" => not_negative(value).map(drop),
        _ => Ok(()),
    }
}

pub(crate) const FLUSH_LEVELS: &[&str] = &["sync", "interval", "os"];
pub(crate) const STREAM_FILTER_RANGE: RangeInclusive<u64> = 16..=STREAM_FILTER_BYTES_MAX as u64;
pub(crate) const FLUSH_INTERVAL_RANGE: RangeInclusive<u64> = 1..=60_000;
pub(crate) const OVERFLOW_MODES: &[&str] = &["drop-head", "reject-publish", "reject-publish-dlx"];
pub(crate) const LEADER_LOCATORS: &[&str] =
    &["client-local", "balanced", "random", "least-leaders"];
pub(crate) const DELAYED_RETRY_TYPES: &[&str] = &["disabled", "all", "failed", "returned"];

fn integer(value: &FieldValue) -> Result<i64, String> {
    value
        .as_integer()
        .ok_or_else(|| format!("\"expected integer, got {}\"", value.type_name()))
}

fn not_negative(value: &FieldValue) -> Result<i64, String> {
    match integer(value)? {
        negative if negative < 0 => Err(format!("{{value_negative,{negative}}}")),
        other => Ok(other),
    }
}

fn within(value: &FieldValue, range: RangeInclusive<u64>) -> Result<(), String> {
    let number = not_negative(value)?;
    match range.contains(&number.unsigned_abs()) {
        true => Ok(()),
        false => Err(format!("{{value_out_of_range,{number}}}")),
    }
}

fn expiry(ms: i64) -> Result<(), String> {
    match u64::try_from(ms) {
        Err(_) => Err(format!("{{value_negative,{ms}}}")),
        Ok(ms) if ms > TTL_MS_MAX => Err(format!("{{value_too_large,{ms}}}")),
        Ok(_) => Ok(()),
    }
}

fn text(value: &FieldValue) -> Result<&str, String> {
    value.as_text().ok_or_else(|| unacceptable_type(value))
}

fn one_of(value: &FieldValue, allowed: &[&str], otherwise: &str) -> Result<(), String> {
    if allowed.contains(&text(value)?) {
        Ok(())
    } else {
        Err(otherwise.to_owned())
    }
}

fn unacceptable_type(value: &FieldValue) -> String {
    format!("{{unacceptable_type,{}}}", value.type_name())
}

/// Checks that a declaration means what an existing queue is: those arguments are compared that the
/// existing queue's type knows. `ignore_type` leaves `x-queue-type` out.
///
/// # Errors
/// The first argument that differs.
pub fn check_equivalence(
    resource: &str,
    kind: QueueKind,
    current: &FieldTable,
    received: &FieldTable,
    ignore_type: bool,
) -> Result<(), CatalogueError> {
    let compared = Kind::with(kind, current).arguments();
    let compared = compared.filter(|name| !(ignore_type && *name == "x-queue-type"));
    let source = [SOURCE].into_iter().filter(|_| kind != QueueKind::Stream);
    source
        .chain(compared)
        .try_for_each(|name| check_argument(resource, name, current, received))
}

/// What a relaxed redeclaration of a quorum queue as a classic one still compares.
pub(crate) const RELAXED_ARGUMENTS: &[&str] = &[
    "x-dead-letter-exchange",
    "x-dead-letter-routing-key",
    "x-expires",
    "x-max-length",
    "x-max-length-bytes",
    "x-single-active-consumer",
    "x-message-ttl",
    SOURCE,
];

/// Checks that one argument is the same in two tables. All integer types are one class, and both
/// float types are one.
///
/// # Errors
/// If it is not.
pub fn check_argument(
    resource: &str,
    name: &str,
    current: &FieldTable,
    received: &FieldTable,
) -> Result<(), CatalogueError> {
    let (current, received) = (current.get(name), received.get(name));
    let (shown_received, shown_current) = match (current, received) {
        (None, None) => return Ok(()),
        (Some(current), Some(received)) => {
            if same_value(current, received) {
                return Ok(());
            }
            (quoted(received), quoted(current))
        }
        // A queue without a type is a classic one.
        (Some(value), None) | (None, Some(value))
            if name == "x-queue-type" && value.as_text() == Some("classic") =>
        {
            return Ok(());
        }
        (current, received) => (with_type(received), with_type(current)),
    };
    Err(CatalogueError::Inequivalent {
        argument: name.to_owned(),
        resource: resource.to_owned(),
        received: shown_received,
        current: shown_current,
    })
}

fn same_value(a: &FieldValue, b: &FieldValue) -> bool {
    match (a, b) {
        (FieldValue::F32(a), FieldValue::F64(b)) | (FieldValue::F64(b), FieldValue::F32(a)) => {
            f64::from(*a).to_bits() == b.to_bits()
        }
        _ => match (a.as_integer(), b.as_integer()) {
            (Some(a), Some(b)) => a == b,
            _ => a == b,
        },
    }
}

/// A value as Erlang prints it: a float always has a fraction.
fn shown(value: &FieldValue) -> String {
    match value {
        FieldValue::F32(v) => format!("{v:?}"),
        FieldValue::F64(v) => format!("{v:?}"),
        _ => value.to_string(),
    }
}

fn quoted(value: &FieldValue) -> String {
    format!("'{}'", shown(value))
}

fn with_type(value: Option<&FieldValue>) -> String {
    match value {
        None => "none".to_owned(),
        Some(value) => format!(
            "the value '{}' of type '{}'",
            shown(value),
            value.type_name()
        ),
    }
}

/// Checks that a property is the same in a declaration and in what exists.
pub(crate) fn check_property(
    resource: &str,
    name: &str,
    current: &str,
    received: &str,
) -> Result<(), CatalogueError> {
    if current == received {
        return Ok(());
    }
    Err(CatalogueError::Inequivalent {
        argument: name.to_owned(),
        resource: resource.to_owned(),
        received: format!("'{received}'"),
        current: format!("'{current}'"),
    })
}
