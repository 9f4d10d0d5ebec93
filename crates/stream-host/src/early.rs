//! What comes for streams that this node has not heard of yet, as another node knows of a stream a
//! moment earlier: it waits for that, for a while.
//!
//! The numbers of streams ascend, and a node hears of all of them in their order, wherever they
//! are: one that is not here and not newer than what was heard of is elsewhere, or deleted, or
//! could not begin, and nobody waits for it.

use leveret_stream::{Command, EarlyCommand, EarlyCommands, SessionId};
use leveret_types::limits::STREAM_UNHEARD_WAITING_MAX;
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
    ) -> Result<(), Box<Command>> {
        if self.count >= STREAM_UNHEARD_WAITING_MAX {
            return Err(Box::new(command));
        }
        let waiting = self.waiting.entry(stream).or_default();
        let pushed = waiting.push(now, session, command);
        self.count += usize::from(pushed.is_ok());
        pushed
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

    /// See [`EarlyCommands::take_declaration`].
    pub(crate) fn take_declaration(
        &mut self,
        session: SessionId,
        stream: QueueId,
        publish: &Command,
    ) -> Option<Command> {
        let waiting = self.waiting.get_mut(&stream)?;
        let taken = waiting.take_declaration(session, publish)?;
        self.count -= 1;
        Some(taken)
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
