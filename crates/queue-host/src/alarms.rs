//! The alarms of a node. Apart so that what keeps them of other nodes needs no environment.

/// What holds back publishers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Alarms {
    /// The process uses more memory than the high watermark.
    pub memory: bool,
    /// A drive has less space than the limit.
    pub disk: bool,
    /// The process uses nearly all memory that it may: nothing new is declared. Only beside
    /// `memory`.
    pub memory_full: bool,
}

impl Alarms {
    /// Those that either of them is.
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        Self {
            memory: self.memory || other.memory,
            disk: self.disk || other.disk,
            memory_full: self.memory_full || other.memory_full,
        }
    }

    /// The reason that publishers are told, in RabbitMQ's words; nothing if there is no alarm.
    #[must_use]
    pub const fn reason(self) -> Option<&'static str> {
        match (self.memory, self.disk) {
            (false, false) => None,
            (true, false) => Some("low on memory"),
            (false, true) => Some("low on disk"),
            (true, true) => Some("low on memory & disk"),
        }
    }
}
