//! Policies: keys and values for many queues and exchanges at once, by name, and what comes of them
//! with a queue's own arguments.

use crate::arguments::{
    DELAYED_RETRY_TYPES, FLUSH_INTERVAL_RANGE, FLUSH_LEVELS, LEADER_LOCATORS, OVERFLOW_MODES,
};
use crate::error::CatalogueError;
use crate::kinds::{Kind, SOURCE};
use leveret_auth::Pattern;
use leveret_stream::{StreamSettings, retention_groups};
use leveret_types::limits::{
    DELIVERY_LIMIT, STREAM_SEGMENT_BYTES_MAX, STREAM_SEGMENT_BYTES_MIN, TTL_MS_MAX,
};
use leveret_types::{DelayedRetry, FieldTable, FieldValue, Overflow, QueueKind, Retried};
use std::sync::Arc;

/// What a policy applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApplyTo {
    /// `all`: queues and exchanges.
    All,
    /// `queues` of any type.
    Queues,
    /// `classic_queues`.
    ClassicQueues,
    /// `quorum_queues`.
    QuorumQueues,
    /// `streams`.
    Streams,
    /// `exchanges`.
    Exchanges,
}

impl ApplyTo {
    const ALL: [Self; 6] = [
        Self::All,
        Self::Queues,
        Self::ClassicQueues,
        Self::QuorumQueues,
        Self::Streams,
        Self::Exchanges,
    ];

    /// The name in definitions.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Queues => "queues",
            Self::ClassicQueues => "classic_queues",
            Self::QuorumQueues => "quorum_queues",
            Self::Streams => "streams",
            Self::Exchanges => "exchanges",
        }
    }

    fn includes_queue(self, kind: QueueKind) -> bool {
        match self {
            Self::All | Self::Queues => true,
            Self::ClassicQueues => kind == QueueKind::Classic,
            Self::QuorumQueues => kind == QueueKind::Quorum,
            Self::Streams => kind == QueueKind::Stream,
            Self::Exchanges => false,
        }
    }
}

/// A policy or an operator policy.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    /// Its name.
    pub name: Arc<str>,
    /// The names that it applies to.
    pub pattern: Pattern,
    /// What it applies to.
    pub apply_to: ApplyTo,
    /// Of several that match, the one with the highest priority applies; of equal ones, the first
    /// by name.
    pub priority: i64,
    /// Keys and values.
    pub definition: FieldTable,
}

/// A policy as a command gives it.
pub(crate) struct PolicyWanted<'a> {
    pub(crate) name: &'a str,
    /// Whether it is an operator policy.
    pub(crate) operator: bool,
    pub(crate) pattern: &'a str,
    pub(crate) apply_to: &'a str,
    pub(crate) priority: i64,
    pub(crate) definition: &'a FieldTable,
}

impl Policy {
    /// Checks a policy. One that is `stored` was accepted once: a store opens under rules that came
    /// later.
    ///
    /// One whose pattern would take too long applies to nothing: a request brings none.
    ///
    /// # Errors With RabbitMQ's text, if a key is not known or a value is not right for it, or the
    /// pattern does not compile.
    pub(crate) fn new(wanted: PolicyWanted<'_>, stored: bool) -> Result<Self, CatalogueError> {
        let PolicyWanted {
            name,
            operator,
            pattern,
            apply_to,
            priority,
            definition,
        } = wanted;
        let apply_to = ApplyTo::ALL
            .into_iter()
            .find(|candidate| candidate.name() == apply_to)
            .ok_or_else(|| {
                CatalogueError::Validation(format!(
                    "apply-to should be one of all, queues, classic_queues, quorum_queues, \
                        streams, exchanges \
                     but got {apply_to}"
                ))
            })?;
        if !stored {
            validate_definition(definition, operator).map_err(CatalogueError::Validation)?;
        }
        Ok(Self {
            name: name.into(),
            pattern: Pattern::of_policy(pattern)?,
            apply_to,
            priority,
            definition: definition.clone(),
        })
    }

    pub(crate) fn applies_to_queue(&self, name: &str, kind: QueueKind) -> bool {
        self.apply_to.includes_queue(kind)
            && !self
                .definition
                .iter()
                .any(|(key, _)| is_unsupported(kind, key))
            && self.pattern.matches(name)
    }

    pub(crate) fn applies_to_exchange(&self, name: &str) -> bool {
        matches!(self.apply_to, ApplyTo::All | ApplyTo::Exchanges) && self.pattern.matches(name)
    }
}

/// What a policy is called in texts.
pub(crate) fn called(operator: bool, name: &str, vhost: &str) -> String {
    let kind = if operator {
        "operator policy"
    } else {
        "policy"
    };
    format!("{kind} '{name}' in vhost '{vhost}'")
}

/// Whether a policy with this key does not apply to queues of this kind at all, as in RabbitMQ.
fn is_unsupported(kind: QueueKind, key: &str) -> bool {
    let unsupported = Kind::of(kind).refused_policy_keys;
    unsupported.iter().any(|keys| keys.contains(&key))
}

/// The policy that applies to an exchange.
pub(crate) fn for_exchange<'a>(
    policies: impl Iterator<Item = &'a Policy>,
    name: &str,
) -> Option<&'a Policy> {
    highest(policies.filter(|policy| policy.applies_to_exchange(name)))
}

/// The first of the highest priority.
fn highest<'a>(policies: impl Iterator<Item = &'a Policy>) -> Option<&'a Policy> {
    policies.reduce(|best, other| {
        if other.priority > best.priority {
            other
        } else {
            best
        }
    })
}

// --- validation --------------------------------------------------------------------------------

/// Keys that operator policies may have.
const OPERATOR_KEYS: &[&str] = &[
    "expires",
    "message-ttl",
    "max-length",
    "max-length-bytes",
    "max-in-memory-length",
    "max-in-memory-bytes",
    "delivery-limit",
    "queue-version",
    "overflow",
    TARGET_GROUP_SIZE,
];

fn validate_definition(definition: &FieldTable, operator: bool) -> Result<(), String> {
    if definition.is_empty() {
        return Err("no policy provided".to_owned());
    }
    let mut unknown = Vec::new();
    for (key, value) in definition.iter() {
        let checked = if operator && !OPERATOR_KEYS.contains(&key) {
            None
        } else {
            check(key, value)
        };
        match checked {
            None => unknown.push(format!("{{<<\"{key}\">>,{}}}", erlang(value))),
            Some(true) => {}
            Some(false) => return Err(format!("{} is not a valid {}", erlang(value), noun(key))),
        }
    }
    if !unknown.is_empty() {
        return Err(format!(
            "[{}] are not recognised policy settings",
            unknown.join(",")
        ));
    }
    validate_mirroring(definition)
}

/// Whether a value is right for its key; nothing if there is no such key.
fn check(key: &str, value: &FieldValue) -> Option<bool> {
    let integer = value.as_integer();
    let at_least = |least: i64| integer.is_some_and(|v| v >= least);
    let expiry = |least: u64| {
        integer
            .and_then(|v| u64::try_from(v).ok())
            .is_some_and(|v| (least..=TTL_MS_MAX).contains(&v))
    };
    let one_of = |allowed: &[&str]| value.as_text().is_some_and(|text| allowed.contains(&text));
    Some(match key {
        "alternate-exchange" | "dead-letter-exchange" | "dead-letter-routing-key" => {
            value.as_text().is_some()
        }
        "message-ttl" => expiry(0),
        "expires" => expiry(1),
        "max-length"
        | "max-length-bytes"
        | "max-in-memory-length"
        | "max-in-memory-bytes"
        | "consumer-timeout"
        | "consumer-disconnected-timeout"
        | "initial-cluster-size"
        | "stream-max-segment-size-bytes"
        | "delayed-retry-min"
        | "delayed-retry-max" => at_least(0),
        TARGET_GROUP_SIZE => at_least(1),
        "stream-filter-size-bytes" => integer.is_some_and(|v| (16..=255).contains(&v)),
        "delivery-limit" => integer.is_some(),
        "overflow" => one_of(OVERFLOW_MODES),
        "dead-letter-strategy" => one_of(&["at-most-once", "at-least-once"]),
        "delayed-retry-type" => one_of(DELAYED_RETRY_TYPES),
        "queue-mode" => one_of(&["default", "lazy"]),
        "queue-version" => integer.is_some_and(|v| v == 1 || v == 2),
        "queue-leader-locator" => one_of(LEADER_LOCATORS),
        "queue-master-locator" => one_of(&["client-local", "min-masters", "random"]),
        "max-age" => value.as_text().is_some_and(is_max_age),
        "retention-groups" => value.as_text().and_then(retention_groups).is_some(),
        "retention-groups-alarm-bytes" => at_least(1),
        "flush" => one_of(FLUSH_LEVELS),
        "flush-interval-ms" => integer
            .and_then(|v| u64::try_from(v).ok())
            .is_some_and(|v| FLUSH_INTERVAL_RANGE.contains(&v)),
        "ha-mode" => one_of(&["all", "exactly", "nodes"]),
        "ha-params" => at_least(1) || matches!(value, FieldValue::Array(_)),
        "ha-sync-mode" => one_of(&["manual", "automatic"]),
        "ha-sync-batch-size" => at_least(1),
        "ha-promote-on-shutdown" | "ha-promote-on-failure" => one_of(&["always", "when-synced"]),
        _ => return None,
    })
}

/// A number and a unit: `7D`.
fn is_max_age(text: &str) -> bool {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let number: Option<u64> = digits.parse().ok();
    number.is_some_and(|v| v > 0) && ["Y", "M", "D", "h", "m", "s"].contains(&&text[digits.len()..])
}

/// What RabbitMQ calls a value of this key in its error texts.
fn noun(key: &str) -> &str {
    match key {
        "alternate-exchange" => "alternate exchange name",
        "dead-letter-exchange" => "dead letter exchange name",
        "dead-letter-routing-key" => "dead letter routing key",
        "dead-letter-strategy" => "dead letter strategy",
        "message-ttl" => "message TTL",
        "expires" => "queue expiry",
        "max-length" => "maximum length",
        "max-length-bytes" => "maximum length in bytes",
        "max-in-memory-length" | "max-in-memory-bytes" => "maximum memory in bytes",
        "overflow" => "overflow value",
        "delivery-limit" => "delivery limit",
        "max-age" => "max age",
        "queue-mode" => "queue-mode value",
        "queue-version" => "queue version",
        "queue-leader-locator" => "queue leader locator value",
        "queue-master-locator" => "queue master locator",
        "initial-cluster-size" => "cluster size",
        "target-group-size" => "qq target count value",
        "stream-max-segment-size-bytes" => "segment size",
        "stream-filter-size-bytes" => "filter size",
        "retention-groups" => "list of groups",
        "flush" => "flush level",
        "flush-interval-ms" => "flush interval",
        "consumer-timeout" => "consumer timeout",
        "ha-mode" => "ha-mode value",
        other => other,
    }
}

/// The rules between the keys of classic mirroring.
fn validate_mirroring(definition: &FieldTable) -> Result<(), String> {
    let params = definition.get("ha-params");
    match definition.get("ha-mode").and_then(FieldValue::as_text) {
        None if definition.iter().any(|(key, _)| key.starts_with("ha-")) => Err(
            "ha-mode must be specified to specify ha-params, ha-sync-mode or ha-promote-on-shutdown"
                .to_owned(),
        ),
        Some("all") if params.is_some() => {
            Err("ha-mode=\"all\" does not take parameters".to_owned())
        }
        Some("exactly") if params.is_none_or(|v| v.as_integer().is_none()) => {
            Err("ha-mode=\"exactly\" takes an integer".to_owned())
        }
        Some("nodes") => match params {
            Some(FieldValue::Array(nodes)) if nodes.is_empty() => {
                Err("ha-mode=\"nodes\" list must be non-empty".to_owned())
            }
            Some(FieldValue::Array(nodes)) if nodes.iter().all(|n| n.as_text().is_some()) => Ok(()),
            _ => Err("ha-mode=\"nodes\" takes a list of strings".to_owned()),
        },
        _ => Ok(()),
    }
}

fn erlang(value: &FieldValue) -> String {
    match value {
        FieldValue::LongString(_) | FieldValue::Bytes(_) => format!("<<\"{value}\">>"),
        FieldValue::Array(items) => {
            format!(
                "[{}]",
                items.iter().map(erlang).collect::<Vec<_>>().join(",")
            )
        }
        FieldValue::F64(v) => format!("{v:?}"),
        _ => value.to_string(),
    }
}

// --- what is in force --------------------------------------------------------------------------

/// How many members a mirrored queue has (`ha-mode`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mirrors {
    /// One on every node.
    All,
    /// So many (`ha-params`).
    Exactly(usize),
    /// One on each of these nodes (`ha-params`).
    Nodes(Vec<String>),
}

/// A queue's settings in force: its arguments, its policy and its operator policy in one. Times are
/// milliseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueSettings {
    /// `message-ttl`: how long a message may wait.
    pub ttl_ms: Option<u64>,
    /// `expires`: how long the queue lives without use.
    pub expires_ms: Option<u64>,
    /// `max-length`: ready messages.
    pub length_max: Option<u64>,
    /// `max-length-bytes`: bytes of the bodies of ready messages.
    pub length_bytes_max: Option<u64>,
    /// `overflow`.
    pub overflow: Overflow,
    /// `dead-letter-exchange`; the default exchange has the empty name.
    pub dead_letter_exchange: Option<Box<str>>,
    /// `dead-letter-routing-key`; without it a message keeps its own.
    pub dead_letter_routing_key: Option<Box<str>>,
    /// `dead-letter-strategy` is `at-least-once`.
    pub dead_letter_at_least_once: bool,
    /// `x-max-priority` of a classic queue, 0 where it has none.
    pub priority_max: u8,
    /// `x-single-active-consumer`.
    pub single_active: bool,
    /// `delivery-limit` of a quorum queue: how often a message may come back. `None` is no limit.
    pub delivery_limit: Option<u32>,
    /// `consumer-timeout`: how long a delivery may stay unsettled. `None` is for ever.
    pub consumer_timeout_ms: Option<u64>,
    /// `delayed-retry-*` of a quorum queue: which messages that come back wait, and for how long.
    pub delayed_retry: Option<DelayedRetry>,
    /// `ha-mode` and `ha-params` of a classic queue.
    pub mirrors: Option<Mirrors>,
    /// `initial-cluster-size` of a quorum queue or a stream, or what the arguments of a quorum
    /// queue say instead: its members when it is declared.
    pub initial_size: Option<usize>,
    /// `target-group-size` of a quorum queue: members that its group is to have, by and by.
    pub target_size: Option<usize>,
    /// `queue-leader-locator` or `queue-master-locator` is `client-local`: a new queue is led by
    /// the node that it is declared at.
    pub leader_local: bool,
    /// What is in force for a stream; of no other queue.
    pub stream: Option<Box<StreamSettings>>,
    /// `x-stream-source`: the name of the stream that the queue is a view of.
    pub source: Option<Box<str>>,
}

/// The definitions of a policy and an operator policy merged: of limits the lower, of
/// `target-group-size` the greater, else the operator's.
#[must_use]
pub fn merge(policy: Option<&Policy>, operator: Option<&Policy>) -> FieldTable {
    let mut merged = policy
        .map(|policy| policy.definition.clone())
        .unwrap_or_default();
    for (key, value) in operator.iter().flat_map(|policy| policy.definition.iter()) {
        let value = match merged.get(key) {
            Some(user) if LOWER_WINS.contains(&key) => lower_limit(key, user, value),
            Some(user) if key == TARGET_GROUP_SIZE => greater(user, value),
            _ => value.clone(),
        };
        merged.set(key, value);
    }
    merged
}

/// Keys of limits: of two values the lower one is in force.
const LOWER_WINS: &[&str] = &[
    "expires",
    "message-ttl",
    "max-length",
    "max-length-bytes",
    "max-in-memory-length",
    "max-in-memory-bytes",
    "delivery-limit",
];

/// Members that a quorum queue is to have. Whoever asks for more gets it, as nothing takes members
/// away.
const TARGET_GROUP_SIZE: &str = "target-group-size";

/// The lower of two limits; a negative delivery limit is no limit, so any other is lower.
fn lower_limit(key: &str, a: &FieldValue, b: &FieldValue) -> FieldValue {
    let rank = |value: &FieldValue| match value.as_integer() {
        Some(v) if v < 0 && key == "delivery-limit" => i64::MAX,
        Some(v) => v,
        None => i64::MAX,
    };
    if rank(b) < rank(a) {
        b.clone()
    } else {
        a.clone()
    }
}

/// The greater of two numbers.
fn greater(a: &FieldValue, b: &FieldValue) -> FieldValue {
    match a.as_integer() < b.as_integer() {
        true => b.clone(),
        false => a.clone(),
    }
}

/// What is in force for a queue with these arguments under this merged definition. Of limits the
/// lower wins, of all else the argument.
#[must_use]
pub fn resolve(kind: QueueKind, arguments: &FieldTable, policy: &FieldTable) -> QueueSettings {
    let settings = resolve_queue(kind, arguments, policy);
    let source = arguments.get(SOURCE).filter(|_| kind != QueueKind::Stream);
    match source.and_then(FieldValue::as_text) {
        Some(source) => of_view(settings, source, (kind, arguments, policy)),
        None => settings,
    }
}

/// What of a queue's settings is in force for a view: how long messages stay, and how many, is the
/// stream's to say. A classic view stays on one node whatever a policy says of mirrors: without
/// them it is never given a group.
fn of_view(
    settings: QueueSettings,
    source: &str,
    (kind, arguments, policy): (QueueKind, &FieldTable, &FieldTable),
) -> QueueSettings {
    let limit = arguments
        .get("x-delivery-limit")
        .and_then(FieldValue::as_integer);
    let strategy = arguments.get("x-dead-letter-strategy");
    let strategy = strategy.or_else(|| policy.get("dead-letter-strategy"));
    let is_at_least_once = strategy.and_then(FieldValue::as_text) == Some("at-least-once");
    QueueSettings {
        ttl_ms: None,
        length_max: None,
        length_bytes_max: None,
        overflow: Overflow::DropHead,
        mirrors: None,
        delivery_limit: match kind {
            QueueKind::Quorum => settings.delivery_limit,
            _ => limit.and_then(|limit| u32::try_from(limit).ok()),
        },
        // Nothing is published that could be refused in the meantime.
        dead_letter_at_least_once: kind == QueueKind::Quorum && is_at_least_once,
        source: Some(source.into()),
        ..settings
    }
}

fn resolve_queue(kind: QueueKind, arguments: &FieldTable, policy: &FieldTable) -> QueueSettings {
    let argument = |key: &str| {
        let mut arguments = arguments.iter();
        let found = arguments.find(|(name, _)| name.strip_prefix("x-") == Some(key));
        found.map(|(_, value)| value)
    };
    let find = |key: &str| -> Option<FieldValue> {
        match (argument(key), policy.get(key)) {
            (Some(argument), Some(policy)) if LOWER_WINS.contains(&key) => {
                Some(lower_limit(key, argument, policy))
            }
            (Some(value), _) | (None, Some(value)) => Some(value.clone()),
            (None, None) => None,
        }
    };
    let number = |key: &str| find(key)?.as_integer().and_then(|v| u64::try_from(v).ok());
    let text = |key: &str| find(key).and_then(|value| value.as_text().map(Box::from));
    let overflow = match text("overflow").as_deref() {
        Some("reject-publish") => Overflow::RejectPublish,
        // Quorum queues do not know this mode; RabbitMQ warns and drops from the head.
        Some("reject-publish-dlx") if kind == QueueKind::Classic => Overflow::RejectPublishDlx,
        _ => Overflow::DropHead,
    };
    let delivery_limit = match (kind, find("delivery-limit").and_then(|v| v.as_integer())) {
        (QueueKind::Classic | QueueKind::Stream, _) => None,
        (QueueKind::Quorum, None) => Some(DELIVERY_LIMIT),
        (QueueKind::Quorum, Some(limit)) => u32::try_from(limit).ok(),
    };
    let priority_max = match kind {
        QueueKind::Classic => number("max-priority").and_then(|v| u8::try_from(v).ok()),
        QueueKind::Quorum | QueueKind::Stream => None,
    };
    // Of a group's members: an argument by its whole name, or a key of policies.
    let size = |key: &str| {
        let value = arguments.get(key).cloned().or_else(|| find(key));
        let value = value.filter(|_| kind != QueueKind::Classic)?.as_integer()?;
        usize::try_from(value).ok().filter(|size| *size > 0)
    };
    QueueSettings {
        ttl_ms: number("message-ttl"),
        expires_ms: number("expires"),
        length_max: number("max-length"),
        length_bytes_max: number("max-length-bytes"),
        overflow,
        dead_letter_exchange: text("dead-letter-exchange"),
        dead_letter_routing_key: text("dead-letter-routing-key"),
        dead_letter_at_least_once: kind == QueueKind::Quorum
            && overflow == Overflow::RejectPublish
            && text("dead-letter-strategy").as_deref() == Some("at-least-once"),
        priority_max: priority_max.unwrap_or(0),
        single_active: arguments
            .get("x-single-active-consumer")
            .and_then(FieldValue::as_bool)
            .unwrap_or(false),
        delivery_limit,
        consumer_timeout_ms: number("consumer-timeout"),
        delayed_retry: match kind {
            QueueKind::Classic | QueueKind::Stream => None,
            QueueKind::Quorum => delayed_retry(
                text("delayed-retry-type").as_deref(),
                number("delayed-retry-min"),
                number("delayed-retry-max"),
            ),
        },
        mirrors: match kind {
            QueueKind::Classic => mirrors(policy),
            QueueKind::Quorum | QueueKind::Stream => None,
        },
        initial_size: size("x-quorum-initial-group-size").or_else(|| size("initial-cluster-size")),
        target_size: size("x-quorum-target-group-size")
            .max(size(TARGET_GROUP_SIZE))
            .filter(|_| kind == QueueKind::Quorum),
        leader_local: text("queue-leader-locator")
            .or_else(|| text("queue-master-locator"))
            .as_deref()
            == Some("client-local"),
        stream: (kind == QueueKind::Stream).then(|| Box::new(stream_settings(find))),
        source: None,
    }
}

/// What is in force for a stream. A policy's value that cannot be, which an older version took, is
/// left out. RabbitMQ's policies take any size of segments: here the nearest that may be is in
/// force.
fn stream_settings(find: impl Fn(&str) -> Option<FieldValue>) -> StreamSettings {
    let text = |key| {
        let value = find(key)?;
        let bytes = value.as_integer().filter(|_| key == SEGMENT_SIZE);
        let bytes = bytes.and_then(|bytes| u64::try_from(bytes).ok());
        let clamp = |bytes: u64| bytes.clamp(STREAM_SEGMENT_BYTES_MIN, STREAM_SEGMENT_BYTES_MAX);
        Some((
            key,
            bytes.map_or_else(|| value.to_string(), |bytes| clamp(bytes).to_string()),
        ))
    };
    let mut said: Vec<(&str, String)> = STREAM_KEYS.iter().filter_map(|key| text(*key)).collect();
    loop {
        let pairs = said.iter().map(|(key, value)| (*key, value.as_str()));
        match StreamSettings::from_arguments(pairs) {
            Ok(settings) => return settings,
            Err(error) => said.retain(|(key, _)| *key != error.key),
        }
    }
}

const SEGMENT_SIZE: &str = "stream-max-segment-size-bytes";
/// What arguments, with `x-` before them, and policies say of a stream.
const STREAM_KEYS: &[&str] = &[
    "max-length-bytes",
    "max-age",
    SEGMENT_SIZE,
    "stream-filter-size-bytes",
    "flush",
    "flush-interval-ms",
    "retention-groups",
    "retention-groups-alarm-bytes",
];

/// What is said of delayed retries. Without a least delay there is none.
fn delayed_retry(
    of: Option<&str>,
    min_ms: Option<u64>,
    max_ms: Option<u64>,
) -> Option<DelayedRetry> {
    let of = match of? {
        "all" => Retried::All,
        "failed" => Retried::Failed,
        "returned" => Retried::Returned,
        _ => return None,
    };
    Some(DelayedRetry {
        of,
        min_ms: min_ms?,
        max_ms: max_ms.unwrap_or(u64::MAX),
    })
}

/// What a policy says of mirrors.
fn mirrors(policy: &FieldTable) -> Option<Mirrors> {
    let params = policy.get("ha-params");
    match policy.get("ha-mode")?.as_text()? {
        "all" => Some(Mirrors::All),
        "exactly" => {
            let count = params?.as_integer()?;
            usize::try_from(count).ok().map(Mirrors::Exactly)
        }
        "nodes" => match params? {
            FieldValue::Array(names) => Some(Mirrors::Nodes(
                names
                    .iter()
                    .filter_map(|name| name.as_text().map(str::to_owned))
                    .collect(),
            )),
            _ => None,
        },
        _ => None,
    }
}
