//! What comes for streams that this node has not heard of yet, as another node knows of a stream a
//! moment earlier: it waits for that, for a while.
//!
//! The numbers of streams ascend, and a node hears of all of them in their order, wherever they
//! are: one that is not here and not newer than what was heard of is elsewhere, or deleted, or
//! could not begin, and nobody waits for it.

use leveret_stream::{Command, EarlyBytes, EarlyCommand, EarlyCommands, SessionId};
use leveret_types::limits::STREAM_UNKNOWN_WAITING_MAX;
use leveret_types::{Now, QueueId};
use std::collections::BTreeMap;

/// See the module's description.
#[derive(Default)]
pub(crate) struct Early {
    /// The newest stream that was heard of.
    newest: QueueId,
    waiting: BTreeMap<QueueId, EarlyCommands>,
    /// How many wait for all streams.
    count: usize,
    /// Of publishes that wait, also at streams that were heard of.
    bytes: EarlyBytes,
}

impl Early {
    /// This stream, and all older ones, are known.
    pub(crate) fn hear_of(&mut self, stream: QueueId) {
        self.newest = self.newest.max(stream);
    }

    /// The streams that commands wait for though they were heard of.
    pub(crate) fn heard_of(&self) -> Vec<QueueId> {
        let heard_of = self.waiting.range(..=self.newest);
        heard_of.map(|(stream, _)| *stream).collect()
    }

    pub(crate) fn has_heard_of(&self, stream: QueueId) -> bool {
        stream <= self.newest
    }

    pub(crate) fn push(
        &mut self,
        now: Now,
        session: SessionId,
        stream: QueueId,
        command: Command,
    ) -> Result<(), Vec<EarlyCommand>> {
        if self.count >= STREAM_UNKNOWN_WAITING_MAX {
            let mut refused = self.take_publisher(session, stream, &command);
            refused.push((now, session, command));
            return Err(refused);
        }
        let new = || EarlyCommands::new(self.bytes.clone());
        let waiting = self.waiting.entry(stream).or_insert_with(new);
        let before = waiting.len();
        let pushed = waiting.push(now, session, command);
        self.count = self.count - before + waiting.len();
        if waiting.is_empty() {
            self.waiting.remove(&stream);
        }
        pushed
    }

    /// Where the bytes of all publishes are counted that wait.
    pub(crate) const fn bytes(&self) -> &EarlyBytes {
        &self.bytes
    }

    pub(crate) fn take(&mut self, stream: QueueId) -> Vec<EarlyCommand> {
        let taken = self.waiting.remove(&stream);
        let taken = taken.map(|mut waiting| waiting.take_all());
        let taken = taken.unwrap_or_default();
        self.count -= taken.len();
        taken
    }

    pub(crate) fn take_due(&mut self, now: Now) -> Vec<EarlyCommand> {
        let waiting = self.waiting.values_mut();
        let due: Vec<EarlyCommand> = waiting.flat_map(|waiting| waiting.take_due(now)).collect();
        self.count -= due.len();
        self.waiting.retain(|_, waiting| !waiting.is_empty());
        due
    }

    /// See [`EarlyCommands::take_publisher`].
    pub(crate) fn take_publisher(
        &mut self,
        session: SessionId,
        stream: QueueId,
        publish: &Command,
    ) -> Vec<EarlyCommand> {
        let waiting = self.waiting.get_mut(&stream);
        let taken = waiting.map(|waiting| waiting.take_publisher(session, publish));
        let taken = taken.unwrap_or_default();
        self.count -= taken.len();
        taken
    }

    /// Changes what waits for streams, by taking some of it away.
    pub(crate) fn retain(&mut self, change: impl Fn(&mut EarlyCommands)) {
        self.waiting.values_mut().for_each(change);
        self.waiting.retain(|_, waiting| !waiting.is_empty());
        self.count = self.waiting.values().map(EarlyCommands::len).sum();
    }

    /// A session has ended.
    pub(crate) fn leave(&mut self, session: SessionId) {
        self.retain(|waiting| waiting.leave(session));
    }

    /// When the first has waited for long enough; 0 where what it waits for was heard of.
    pub(crate) fn due_ms(&self) -> Option<u64> {
        let (first, _) = self.waiting.first_key_value()?;
        if self.has_heard_of(*first) {
            return Some(0);
        }
        self.waiting
            .values()
            .filter_map(EarlyCommands::due_ms)
            .min()
    }
}
