//! The kinds of queues.

/// A kind of queue. Fixed at declaration.
///
/// What follows from it lies in one place for each matter: its arguments and policies in
/// `metadata`'s kinds, the rules by which messages go out in the queue machine, its host in
/// `queue-host` and, for streams, `stream-host`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueKind {
    /// `classic`: on one node. One priority log, or a priority log for each priority up to
    /// `x-max-priority`.
    Classic,
    /// `quorum`: replicated. Priority logs 0 to 31, 4 where a message has no priority; counts
    /// deliveries; a single active consumer yields to a higher priority.
    Quorum,
    /// `stream`: a log that nobody takes messages from. No queue machine serves it.
    Stream,
}

impl QueueKind {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::Classic, Self::Quorum, Self::Stream];

    /// Their names, in the same order.
    pub const NAMES: [&str; Self::ALL.len()] = {
        let mut names = [""; Self::ALL.len()];
        let mut at = 0;
        while at < names.len() {
            names[at] = Self::ALL[at].name();
            at += 1;
        }
        names
    };

    /// The name in `x-queue-type`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Classic => "classic",
            Self::Quorum => "quorum",
            Self::Stream => "stream",
        }
    }

    /// The kind of this name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// The name that RabbitMQ uses in error texts: that of its module.
    #[must_use]
    pub const fn module_name(self) -> &'static str {
        match self {
            Self::Classic => "rabbit_classic_queue",
            Self::Quorum => "rabbit_quorum_queue",
            Self::Stream => "rabbit_stream_queue",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_found_by_its_name_alone() {
        for (kind, name) in QueueKind::ALL.into_iter().zip(QueueKind::NAMES) {
            assert_eq!(QueueKind::parse(name), Some(kind));
        }
        for name in ["", "Classic", "quorum ", "mirrored"] {
            assert_eq!(QueueKind::parse(name), None);
        }
    }
}
