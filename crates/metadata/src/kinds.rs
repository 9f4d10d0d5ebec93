//! What the catalogue knows of each kind of queue: a further kind is one more entry here.

use leveret_types::{FieldTable, QueueKind};

/// The argument that makes a queue a view: the stream whose messages it has.
pub(crate) const SOURCE: &str = "x-stream-source";

/// What the catalogue knows of a kind of queue.
pub(crate) struct Kind {
    /// See [`Kind::arguments`].
    arguments: &'static [&'static [&'static str]],
    /// Keys with which a policy does not apply to it at all, as in RabbitMQ.
    pub(crate) refused_policy_keys: &'static [&'static [&'static str]],
}

impl Kind {
    /// The entry of a kind.
    pub(crate) const fn of(kind: QueueKind) -> &'static Self {
        match kind {
            QueueKind::Classic => &CLASSIC,
            QueueKind::Quorum => &QUORUM,
            QueueKind::Stream => &STREAM,
        }
    }

    /// The entry of a queue with these arguments: views have one of their own.
    pub(crate) fn with(kind: QueueKind, arguments: &FieldTable) -> &'static Self {
        match kind {
            QueueKind::Classic if arguments.get(SOURCE).is_some() => &VIEW,
            QueueKind::Quorum if arguments.get(SOURCE).is_some() => &QUORUM_VIEW,
            _ => Self::of(kind),
        }
    }

    /// The arguments that it knows, in the order in which they are checked. Others that a queue of
    /// another kind knows are refused, all else is kept and ignored.
    pub(crate) fn arguments(&self) -> impl Iterator<Item = &'static str> + use<> {
        self.arguments.iter().copied().flatten().copied()
    }

    /// Whether it knows this argument.
    pub(crate) fn knows(&self, name: &str) -> bool {
        self.arguments().any(|known| known == name)
    }
}

/// Arguments of queues with a group of replicas, whether they keep messages or view a stream.
const OF_GROUPS: &[&str] = &[
    "x-single-active-consumer",
    "x-delivery-limit",
    "x-delayed-retry-type",
    "x-delayed-retry-min",
    "x-delayed-retry-max",
    "x-consumer-timeout",
    "x-consumer-disconnected-timeout",
    "x-quorum-initial-group-size",
    "x-quorum-target-group-size",
    "x-initial-cluster-size",
    "x-queue-leader-locator",
    "x-member-placement-tag",
];

const CLASSIC: Kind = Kind {
    arguments: &[&[
        "x-expires",
        "x-message-ttl",
        "x-dead-letter-exchange",
        "x-dead-letter-routing-key",
        "x-max-length",
        "x-max-length-bytes",
        "x-max-priority",
        "x-overflow",
        "x-queue-mode",
        "x-queue-version",
        "x-single-active-consumer",
        "x-queue-type",
        "x-queue-master-locator",
        "x-queue-leader-locator",
        "x-consumer-timeout",
    ]],
    refused_policy_keys: &[
        STREAM_ONLY_KEYS,
        QUORUM_ONLY_KEYS,
        &["initial-cluster-size"],
    ],
};

/// Of classic queues that are views of a stream: what says of messages how long they stay, or how
/// many, is said of the stream.
const VIEW: Kind = Kind {
    arguments: &[&[
        "x-queue-type",
        SOURCE,
        "x-stream-offset",
        "x-expires",
        "x-dead-letter-exchange",
        "x-dead-letter-routing-key",
        "x-delivery-limit",
        "x-single-active-consumer",
        "x-consumer-timeout",
        "x-queue-mode",
        "x-queue-version",
        "x-queue-master-locator",
        "x-queue-leader-locator",
    ]],
    refused_policy_keys: CLASSIC.refused_policy_keys,
};

const QUORUM: Kind = Kind {
    arguments: &[
        &[
            "x-queue-type",
            "x-expires",
            "x-message-ttl",
            "x-dead-letter-exchange",
            "x-dead-letter-routing-key",
            "x-dead-letter-strategy",
            "x-max-length",
            "x-max-length-bytes",
            "x-max-in-memory-length",
            "x-max-in-memory-bytes",
            "x-max-priority",
            "x-overflow",
        ],
        OF_GROUPS,
    ],
    refused_policy_keys: &[STREAM_ONLY_KEYS, CLASSIC_ONLY_KEYS],
};

/// The same of quorum queues.
const QUORUM_VIEW: Kind = Kind {
    arguments: &[
        &[
            "x-queue-type",
            SOURCE,
            "x-stream-offset",
            "x-expires",
            "x-dead-letter-exchange",
            "x-dead-letter-routing-key",
            "x-dead-letter-strategy",
        ],
        OF_GROUPS,
    ],
    refused_policy_keys: QUORUM.refused_policy_keys,
};

const STREAM: Kind = Kind {
    arguments: &[&[
        "x-queue-type",
        "x-max-length-bytes",
        "x-max-age",
        "x-stream-max-segment-size-bytes",
        "x-stream-filter-size-bytes",
        "x-initial-cluster-size",
        "x-queue-leader-locator",
        "x-flush",
        "x-flush-interval-ms",
        "x-retention-groups",
        "x-retention-groups-alarm-bytes",
    ]],
    refused_policy_keys: &[QUEUE_ONLY_KEYS, QUORUM_ONLY_KEYS, CLASSIC_ONLY_KEYS],
};

/// Keys of streams alone.
const STREAM_ONLY_KEYS: &[&str] = &[
    "max-age",
    "stream-max-segment-size-bytes",
    "stream-filter-size-bytes",
    "flush",
    "flush-interval-ms",
    "retention-groups",
    "retention-groups-alarm-bytes",
];
/// Keys of classic queues alone.
const CLASSIC_ONLY_KEYS: &[&str] = &[
    "queue-mode",
    "queue-version",
    "queue-master-locator",
    "ha-mode",
    "ha-params",
    "ha-sync-mode",
    "ha-sync-batch-size",
    "ha-promote-on-shutdown",
    "ha-promote-on-failure",
];
/// Keys of quorum queues alone.
const QUORUM_ONLY_KEYS: &[&str] = &[
    "target-group-size",
    "delivery-limit",
    "dead-letter-strategy",
    "max-in-memory-length",
    "max-in-memory-bytes",
    "delayed-retry-type",
    "delayed-retry-min",
    "delayed-retry-max",
    "consumer-disconnected-timeout",
];
/// Keys of queues whose messages are taken out.
const QUEUE_ONLY_KEYS: &[&str] = &[
    "message-ttl",
    "expires",
    "max-length",
    "overflow",
    "dead-letter-exchange",
    "dead-letter-routing-key",
    "consumer-timeout",
];
