//! What comes for streams that this node has not heard of yet, as another node knows of a stream a
//! moment earlier: it waits for that, for a while.
//!
//! The numbers of streams ascend, and a node hears of all of them in their order, wherever they
//! are: one that is not here and not newer than what was heard of is elsewhere, or deleted, or
//! could not begin, and nobody waits for it.

use crate::StreamHost;
use leveret_storage::Disk;
use leveret_stream::{Command, EarlyCommand, EarlyCommands, Events, Refusal, SessionId};
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
    fn has_heard_of(&self, stream: QueueId) -> bool {
        stream <= self.newest
    }

    fn push(
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

    fn take(&mut self, stream: QueueId) -> Vec<EarlyCommand> {
        let taken = self.waiting.remove(&stream);
        let taken = taken.map(|mut waiting| waiting.take_all());
        let taken = taken.unwrap_or_default();
        self.count -= taken.len();
        taken
    }

    fn take_due(&mut self, now: Now) -> Vec<EarlyCommand> {
        let waiting = self.waiting.values_mut();
        let due: Vec<EarlyCommand> = waiting.flat_map(|waiting| waiting.take_due(now)).collect();
        self.count -= due.len();
        self.waiting.retain(|_, waiting| !waiting.is_empty());
        due
    }

    /// See [`EarlyCommands::take_declaration`].
    fn take_declaration(
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
    fn retain(&mut self, change: impl Fn(&mut EarlyCommands)) {
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

impl<D: Disk> StreamHost<D> {
    /// The catalogue of this node has this stream, wherever it is, or had it.
    pub fn hear_of(&mut self, stream: QueueId) {
        self.early.newest = self.early.newest.max(stream);
    }

    /// Lets a command wait whose stream was not heard of; else it is refused.
    pub(crate) fn wait_or_refuse(
        &mut self,
        now: Now,
        session: SessionId,
        (stream, command): (QueueId, Command),
        out: &mut Events,
    ) {
        if let Some(declaration) = self.early.take_declaration(session, stream, &command) {
            refuse(session, &declaration, out);
        }
        self.early.retain(|waiting| waiting.end(session, &command));
        let gives_up_soon = matches!(session, SessionId::Operator(_));
        if self.early.has_heard_of(stream) || gives_up_soon || !command.may_wait() {
            return refuse(session, &command, out);
        }
        if let Err(command) = self.early.push(now, session, stream, command) {
            refuse(session, &command, out);
        }
    }

    /// This stream may have been heard of: what has waited for that comes before all else.
    pub(crate) fn let_in(&mut self, stream: QueueId, out: &mut Events) {
        if self.early.has_heard_of(stream) {
            for (since, session, command) in self.early.take(stream) {
                self.handle(since, session, command, out);
            }
        }
    }

    /// Does what has waited for streams that were heard of since, and refuses what has waited for
    /// long enough.
    pub(crate) fn let_in_all(&mut self, now: Now, out: &mut Events) {
        let heard_of = self.early.waiting.range(..=self.early.newest);
        let heard_of: Vec<QueueId> = heard_of.map(|(stream, _)| *stream).collect();
        for stream in heard_of {
            self.let_in(stream, out);
        }
        for (_, session, command) in self.early.take_due(now) {
            refuse(session, &command, out);
        }
    }
}

/// Whoever has looked the stream up found it in the catalogue: this node has not heard of it yet,
/// or could not begin it, or it is deleted at this moment.
fn refuse(session: SessionId, command: &Command, out: &mut Events) {
    let refusal = Refusal::NotAvailable("this node does not run it".to_owned());
    let refused = command.refused(refusal);
    out.extend(refused.map(|event| (session, event)));
}
