//! What comes before a replica knows what is committed, or is told to lead, as right after a stream
//! is declared: it waits for that, for a while.

use super::replicated::Role;
use super::{Events, Stream};
use crate::early::{EarlyBytes, EarlyCommand};
use crate::host::{Command, SessionId};
use leveret_types::Now;

impl Stream {
    /// Whether a command that cannot be done yet waits for that.
    #[must_use]
    pub fn lets_wait(&self, session: SessionId, command: &Command) -> bool {
        self.refusal_of(command).is_some() && self.may_wait(session, command)
    }

    fn may_wait(&self, session: SessionId, command: &Command) -> bool {
        match command {
            Command::Subscribe { .. } | Command::ResolveOffset { .. } => true,
            // An operator gives up sooner.
            _ if matches!(session, SessionId::Operator(_)) => false,
            _ => command.may_wait() && self.may_come_to_lead(),
        }
    }

    /// Whether the catalogue may make it the leader at any moment: it has named no other one.
    fn may_come_to_lead(&self) -> bool {
        let replica = self.replica.as_deref();
        replica.is_some_and(|replica| {
            matches!(replica.role, Role::Waiting) && replica.state.fenced.is_none()
        })
    }

    /// Lets a command wait, if it may; else its session is told why it is refused.
    pub(super) fn wait_or_refuse(
        &mut self,
        now: Now,
        session: SessionId,
        command: Command,
        out: &mut Events,
    ) {
        if !self.may_wait(session, &command) {
            let before = self.early.take_publisher(session, &command);
            self.refuse_all(before, out);
            return self.refuse(session, &command, out);
        }
        if let Err(refused) = self.early.push(now, session, command) {
            self.refuse_all(refused, out);
        }
    }

    fn refuse_all(&self, refused: Vec<EarlyCommand>, out: &mut Events) {
        for (_, session, command) in refused {
            self.refuse(session, &command, out);
        }
    }

    fn refuse(&self, session: SessionId, command: &Command, out: &mut Events) {
        if let Some(refusal) = self.refusal_of(command) {
            let refused = command.refused(refusal);
            out.extend(refused.map(|event| (session, event)));
        }
    }

    /// The replica leads, or follows, or knows what is committed: what has waited for that is done,
    /// or refused where it cannot be any more.
    pub(super) fn serve_early(&mut self, out: &mut Events) {
        for (since, session, command) in self.early.take_all() {
            self.handle(since, session, command, out);
        }
    }

    /// Refuses what has waited for long enough; all of it, where `now` is none: the stream goes.
    pub fn refuse_early(&mut self, now: Option<Now>, out: &mut Events) {
        let refused: Vec<EarlyCommand> = match now {
            Some(now) => self.early.take_due(now),
            None => self.early.take_all(),
        };
        self.refuse_all(refused, out);
    }

    /// The bytes of publishes that wait are counted with those of other streams.
    pub fn share_early_bytes(&mut self, bytes: EarlyBytes) {
        self.early.share_bytes(bytes);
    }
}
