//! Priority logs: one for each priority that the queue has seen.

use crate::log::Meta;
use crate::returns::Returns;
use crate::runs::RunMap;
use leveret_types::RangeSet;
use std::ops::Range;

/// Neighbouring messages of one size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MessageRun {
    /// Their priority log.
    pub(crate) priority_log: u8,
    /// Their indexes in it.
    pub(crate) range: Range<u64>,
    /// Bytes of each.
    pub(crate) bytes: u32,
}

impl MessageRun {
    pub(crate) const fn count(&self) -> u64 {
        self.range.end - self.range.start
    }

    pub(crate) const fn total_bytes(&self) -> u64 {
        self.count() * self.bytes as u64
    }

    /// Those of them with these indexes.
    pub(crate) const fn part(&self, range: Range<u64>) -> Self {
        Self { range, ..*self }
    }
}

/// The messages of one priority, apart from those that subscriptions have.
#[derive(Debug, Default)]
pub(crate) struct PriorityLog {
    /// Waiting for a consumer.
    pub(crate) ready: RangeSet,
    /// On their way to the dead-letter exchange, with the bytes of each.
    pub(crate) leaving: RunMap<u32>,
    /// Set aside because they cannot be read.
    pub(crate) damaged: RangeSet,
    /// What is known of messages that came back, of a quorum queue. Those that never did are not
    /// in it.
    pub(crate) returns: RunMap<Returns>,
    /// Bytes of what is ready.
    pub(crate) ready_bytes: u64,
    /// Index after the last message that was enqueued.
    pub(crate) next_index: u64,
    /// What was ready at the last pump is below this. What came since may go to a consumer at once
    /// however short its time to live.
    pub(crate) fresh_from: u64,
    /// What is below this and still here was delivered before, for messages are handed out in order
    /// of index. The exception is one that was leaving when the node restarted: it is flagged
    /// without need, which AMQP allows.
    pub(crate) delivered_through: u64,
    /// Whether a message with a time to live of its own may be here.
    pub(crate) may_expire: bool,
    /// The head that the log was last asked about, and what it said. `None` is that it is being
    /// read.
    pub(crate) head: Option<(u64, Option<Meta>)>,
    /// When a message that came first, or was looked at there, was taken: so that it is known of a
    /// head that is on disk alone.
    pub(crate) first_published_ms: Option<(u64, u64)>,
}

/// The priority logs of a queue, by number.
#[derive(Debug, Default)]
pub(crate) struct PriorityLogs {
    list: Vec<Option<Box<PriorityLog>>>,
    /// The priority logs with something ready, a bit for each.
    occupied: [u64; 4],
}

impl PriorityLog {
    /// Bytes of memory that it takes.
    pub(crate) fn memory_bytes(&self) -> usize {
        size_of::<Self>()
            + self.ready.memory_bytes()
            + self.damaged.memory_bytes()
            + self.leaving.memory_bytes()
            + self.returns.memory_bytes()
    }
}

impl PriorityLogs {
    pub(crate) fn get(&self, priority_log: u8) -> Option<&PriorityLog> {
        self.list.get(usize::from(priority_log))?.as_deref()
    }

    pub(crate) fn get_mut(&mut self, priority_log: u8) -> Option<&mut PriorityLog> {
        self.list.get_mut(usize::from(priority_log))?.as_deref_mut()
    }

    /// The priority log, which a position that the queue holds proves to be there.
    pub(crate) fn unsettled_messages(&mut self, priority_log: u8) -> &mut PriorityLog {
        match self.get_mut(priority_log) {
            Some(found) => found,
            None => {
                panic!("a message is held in priority log {priority_log}, which does not exist")
            }
        }
    }

    /// The priority log, made if it is new.
    pub(crate) fn open(&mut self, priority_log: u8) -> &mut PriorityLog {
        let at = usize::from(priority_log);
        if self.list.len() <= at {
            self.list.resize_with(at + 1, || None);
        }
        self.list[at].get_or_insert_default()
    }

    /// The priority logs that exist, ascending by number.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u8, &PriorityLog)> {
        (0..=u8::MAX)
            .zip(&self.list)
            .filter_map(|(number, priority_log)| Some((number, priority_log.as_deref()?)))
    }

    /// The same, to be changed.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (u8, &mut PriorityLog)> {
        (0..=u8::MAX)
            .zip(&mut self.list)
            .filter_map(|(number, priority_log)| Some((number, priority_log.as_deref_mut()?)))
    }

    /// Notes that something is ready in the priority log.
    pub(crate) fn occupy(&mut self, priority_log: u8) {
        self.occupied[usize::from(priority_log >> 6)] |= 1 << (priority_log & 63);
    }

    /// Notes that nothing is ready in the priority log.
    pub(crate) fn vacate(&mut self, priority_log: u8) {
        self.occupied[usize::from(priority_log >> 6)] &= !(1 << (priority_log & 63));
    }

    /// The highest priority log with something ready.
    pub(crate) fn highest(&self) -> Option<u8> {
        self.highest_through(u8::MAX)
    }

    /// The highest priority log up to `through` with something ready.
    pub(crate) fn highest_through(&self, through: u8) -> Option<u8> {
        let mut mask = u64::MAX >> (63 - (through & 63));
        for word in (0..=through >> 6).rev() {
            let bits = self.occupied[usize::from(word)] & mask;
            if bits != 0 {
                // A priority log number: at most 3 * 64 + 63.
                return Some(word * 64 + (63 - bits.leading_zeros()) as u8);
            }
            mask = u64::MAX;
        }
        None
    }
}
