//! What of a queue must survive a restart besides its messages: a small blob, kept by whoever keeps
//! the messages.
//!
//! ```text
//! version: u8 = 2 | priority logs: u16 | priority log*
//! priority log: number u8 | may_expire u8 | delivered_through u64 | returns u32 | return*
//! return: start u64 | end u64 | failed u32 | acquired u32 | ready at u64
//! ```
//! Version 1 had neither of the last two. All numbers are little-endian. PriorityLogs ascend by
//! number, returns by start, and neither overlap.

use crate::returns::Returns;
use leveret_types::RangeSet;
use std::ops::Range;

const VERSION: u8 = 2;
/// The oldest version that is read.
const VERSION_FIRST: u8 = 1;

/// One priority log as the storage engine recovered it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecoveredPriorityLog {
    /// The priority log.
    pub priority_log: u8,
    /// Messages that have not left.
    pub live: RangeSet,
    /// Bytes of their bodies together.
    pub bytes: u64,
    /// Index that the priority log's log gives to the next message.
    pub next_index: u64,
}

/// What is saved of one priority log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PriorityLogState {
    /// The priority log.
    pub priority_log: u8,
    /// Whether any message may have a time to live of its own. `true` is always right, and costs a
    /// look at the priority log's head. Whoever keeps the state says so before such a message is
    /// kept.
    pub may_expire: bool,
    /// What is below this index and still live was delivered before: it is flagged as redelivered.
    pub delivered_through: u64,
    /// What is known of messages that came back.
    pub returns: Vec<(Range<u64>, Returns)>,
    /// What is on its way to the dead-letter exchange already, and goes on being so. Not among the
    /// saved bytes: who keeps it elsewhere fills it in.
    pub leaving: Vec<Range<u64>>,
}

/// What is saved of a queue. A priority log that is not in it is taken at its worst: all of it
/// delivered before, all of it able to expire.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// The priority logs, ascending by number.
    pub priority_logs: Vec<PriorityLogState>,
}

/// Why bytes are not a [`State`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StateError {
    /// Written by a version that this one does not know.
    #[error("queue state of version {0}, and this is version {VERSION}")]
    Version(u8),
    /// The bytes end too early, go on too long, or say what cannot be.
    #[error("queue state is damaged at byte {0}")]
    Damaged(usize),
}

impl PriorityLogState {
    /// What a priority log is that nothing was saved of.
    fn begun(priority_log: u8) -> Self {
        Self {
            priority_log,
            delivered_through: u64::MAX,
            ..Self::default()
        }
    }
}

impl State {
    /// The same state for a restart after a crash: messages may have been delivered since it was
    /// saved. What was published since has no time to live of its own but in priority logs that say
    /// so: see [`Self::expiring`].
    #[must_use]
    pub fn stale(mut self) -> Self {
        for priority_log in &mut self.priority_logs {
            priority_log.delivered_through = u64::MAX;
        }
        self
    }

    /// The same state for a restart: exact after an orderly end, else [`Self::stale`], for messages
    /// may have been delivered since an exact one was saved.
    #[must_use]
    pub fn for_start(self, was_closed_in_order: bool) -> Self {
        match was_closed_in_order {
            true => self,
            false => self.stale(),
        }
    }

    /// The same state for a restart after a crash, once a message with a time to live of its own is
    /// in this priority log.
    #[must_use]
    pub fn expiring(self, priority_log: u8) -> Self {
        let mut state = self.stale();
        state.priority_log_mut(priority_log).may_expire = true;
        state
    }

    /// Whether a message in this priority log may have a time to live of its own.
    #[must_use]
    pub fn may_expire(&self, priority_log: u8) -> bool {
        let found = self
            .priority_logs
            .binary_search_by_key(&priority_log, |saved| saved.priority_log);
        found.is_ok_and(|at| self.priority_logs[at].may_expire)
    }

    /// The same state at its worst for these priority logs, as of a queue of which nothing is
    /// known: all of it was delivered before, and any of it may have a time to live of its own.
    #[must_use]
    pub fn unknown(priority_logs: impl IntoIterator<Item = u8>) -> Self {
        let mut state = Self::default();
        for priority_log in priority_logs {
            state.priority_log_mut(priority_log).may_expire = true;
        }
        state
    }

    /// Whether a restart that finds this state makes of the queue what it makes of `now`: a
    /// priority log of which nothing was saved is taken as [`Self::with_priority_logs`] says.
    #[must_use]
    pub fn says(&self, now: &Self) -> bool {
        let saved = |number| {
            let found = self
                .priority_logs
                .binary_search_by_key(&number, |saved| saved.priority_log);
            found.ok().map(|at| &self.priority_logs[at])
        };
        let as_saved = |priority_log: &PriorityLogState| match saved(priority_log.priority_log) {
            Some(saved) => saved == priority_log,
            None => *priority_log == PriorityLogState::begun(priority_log.priority_log),
        };
        let known = now
            .priority_logs
            .iter()
            .filter(|priority_log| saved(priority_log.priority_log).is_some());
        known.count() == self.priority_logs.len() && now.priority_logs.iter().all(as_saved)
    }

    /// PriorityLogs of which nothing was saved are those that were begun since: all of theirs may
    /// have been delivered, and none of it has a time to live of its own.
    #[must_use]
    pub fn with_priority_logs(mut self, priority_logs: impl IntoIterator<Item = u8>) -> Self {
        for priority_log in priority_logs {
            self.priority_log_mut(priority_log);
        }
        self
    }

    fn priority_log_mut(&mut self, priority_log: u8) -> &mut PriorityLogState {
        let found = self
            .priority_logs
            .binary_search_by_key(&priority_log, |saved| saved.priority_log);
        let at = found.unwrap_or_else(|at| {
            self.priority_logs
                .insert(at, PriorityLogState::begun(priority_log));
            at
        });
        &mut self.priority_logs[at]
    }

    /// Appends the state's bytes to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        assert!(
            self.priority_logs.len() <= 256,
            "{} priority logs",
            self.priority_logs.len()
        );
        out.push(VERSION);
        out.extend_from_slice(&(self.priority_logs.len() as u16).to_le_bytes());
        for priority_log in &self.priority_logs {
            let returns = u32::try_from(priority_log.returns.len()).unwrap_or(u32::MAX);
            out.push(priority_log.priority_log);
            out.push(u8::from(priority_log.may_expire));
            out.extend_from_slice(&priority_log.delivered_through.to_le_bytes());
            out.extend_from_slice(&returns.to_le_bytes());
            for (range, known) in priority_log.returns.iter().take(returns as usize) {
                out.extend_from_slice(&range.start.to_le_bytes());
                out.extend_from_slice(&range.end.to_le_bytes());
                out.extend_from_slice(&known.failed.to_le_bytes());
                out.extend_from_slice(&known.acquired.to_le_bytes());
                out.extend_from_slice(&known.ready_ms.to_le_bytes());
            }
        }
    }

    /// Reads a state from exactly these bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self, StateError> {
        let mut reader = Reader { bytes, at: 0 };
        let [version] = reader.take()?;
        if !(VERSION_FIRST..=VERSION).contains(&version) {
            return Err(StateError::Version(version));
        }
        let priority_logs = u16::from_le_bytes(reader.take()?);
        let mut state = Self::default();
        for _ in 0..priority_logs {
            let priority_log = reader.priority_log(version)?;
            if state
                .priority_logs
                .last()
                .is_some_and(|last| last.priority_log >= priority_log.priority_log)
            {
                return Err(reader.damaged());
            }
            state.priority_logs.push(priority_log);
        }
        match reader.at == bytes.len() {
            true => Ok(state),
            false => Err(reader.damaged()),
        }
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn damaged(&self) -> StateError {
        StateError::Damaged(self.at)
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], StateError> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let taken = *rest.first_chunk::<N>().ok_or(self.damaged())?;
        self.at += N;
        Ok(taken)
    }

    fn priority_log(&mut self, version: u8) -> Result<PriorityLogState, StateError> {
        let [priority_log] = self.take()?;
        let [may_expire] = self.take()?;
        if may_expire > 1 {
            return Err(self.damaged());
        }
        let delivered_through = u64::from_le_bytes(self.take()?);
        let mut returns: Vec<(Range<u64>, Returns)> = Vec::new();
        for _ in 0..u32::from_le_bytes(self.take()?) {
            let range = u64::from_le_bytes(self.take()?)..u64::from_le_bytes(self.take()?);
            let known = self.returns(version)?;
            let overlaps = returns
                .last()
                .is_some_and(|(last, _)| last.end > range.start);
            if range.is_empty() || overlaps {
                return Err(self.damaged());
            }
            returns.push((range, known));
        }
        Ok(PriorityLogState {
            priority_log,
            may_expire: may_expire == 1,
            delivered_through,
            returns,
            leaving: Vec::new(),
        })
    }

    fn returns(&mut self, version: u8) -> Result<Returns, StateError> {
        let failed = u32::from_le_bytes(self.take()?);
        if version == VERSION_FIRST {
            return Ok(Returns {
                failed,
                acquired: failed,
                ready_ms: 0,
            });
        }
        Ok(Returns {
            failed,
            acquired: u32::from_le_bytes(self.take()?),
            ready_ms: u64::from_le_bytes(self.take()?),
        })
    }
}
