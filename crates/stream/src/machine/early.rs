//! Readers that come before a replica knows what is committed, as right after a stream is declared:
//! they wait for that, for a while.

use super::{Events, Stream};
use crate::host::{Command, SessionId};
use leveret_types::Now;
use leveret_types::limits::{STREAM_EARLY_READER_MS, STREAM_EARLY_READERS_MAX};

/// Those that wait, in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct Early(Vec<(u64, SessionId, Command)>);

impl Early {
    /// When the first of them has waited for long enough.
    pub(super) fn due_ms(&self) -> Option<u64> {
        let (since, ..) = self.0.first()?;
        Some(since + STREAM_EARLY_READER_MS)
    }

    /// Takes those away whom this is about.
    pub(super) fn drop_if(&mut self, is_it: impl Fn(SessionId, &Command) -> bool) {
        self.0
            .retain(|(_, session, command)| !is_it(*session, command));
    }

    fn take(&mut self, upto_ms: u64) -> Vec<(SessionId, Command)> {
        let taken = self.0.extract_if(.., |(since, ..)| *since <= upto_ms);
        taken
            .map(|(_, session, command)| (session, command))
            .collect()
    }
}

impl Stream {
    /// Lets a reader wait, if it may; else it is told why it is refused.
    pub(super) fn wait_or_refuse(
        &mut self,
        now: Now,
        session: SessionId,
        command: Command,
        out: &mut Events,
    ) {
        let is_reader = matches!(
            command,
            Command::Subscribe { .. } | Command::ResolveOffset { .. }
        );
        if is_reader && self.early.0.len() < STREAM_EARLY_READERS_MAX {
            self.early.0.push((now.monotonic_ms, session, command));
        } else if let Some(refusal) = self.refusal_of(&command) {
            let refused = command.refused(refusal);
            out.extend(refused.map(|event| (session, event)));
        }
    }

    /// The replica knows what is committed: who has waited reads.
    pub(super) fn serve_early(&mut self, out: &mut Events) {
        for (session, command) in self.early.take(u64::MAX) {
            self.read(session, command, out);
        }
    }

    /// Refuses those that have waited for long enough; all of them, where `now` is none: the stream
    /// goes.
    pub fn refuse_early(&mut self, now: Option<Now>, out: &mut Events) {
        let upto_ms = match now {
            Some(now) => now.monotonic_ms.checked_sub(STREAM_EARLY_READER_MS),
            None => Some(u64::MAX),
        };
        for (session, command) in upto_ms.map_or(Vec::new(), |upto| self.early.take(upto)) {
            if let Some(refusal) = self.refusal_of(&command) {
                let refused = command.refused(refusal);
                out.extend(refused.map(|event| (session, event)));
            }
        }
    }
}
