//! Commands that have come too early for their stream, and wait for a while.

use crate::host::{Command, PublisherId, SessionId};
use leveret_types::Now;
use leveret_types::limits::{STREAM_EARLY_READER_MS, STREAM_EARLY_READERS_MAX};

/// One of them, with when it came and whose it is.
pub type EarlyCommand = (Now, SessionId, Command);

/// Those of one stream, in the order in which they came: no more than [`STREAM_EARLY_READERS_MAX`].
#[derive(Debug, Default)]
pub struct EarlyCommands(Vec<EarlyCommand>);

impl EarlyCommands {
    /// How many wait.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether none waits.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// When the first of them has waited for long enough.
    #[must_use]
    pub fn due_ms(&self) -> Option<u64> {
        let (since, ..) = self.0.first()?;
        Some(since.monotonic_ms + STREAM_EARLY_READER_MS)
    }

    /// Lets one wait.
    ///
    /// # Errors
    /// The command, if there are enough.
    pub fn push(
        &mut self,
        now: Now,
        session: SessionId,
        command: Command,
    ) -> Result<(), Box<Command>> {
        if self.0.len() >= STREAM_EARLY_READERS_MAX {
            return Err(Box::new(command));
        }
        self.0.push((now, session, command));
        Ok(())
    }

    /// Takes away the declaration of a publisher that publishes before it has heard that it is
    /// declared: its publishes cannot wait, and nor must its declaration then.
    pub fn take_declaration(&mut self, session: SessionId, publish: &Command) -> Option<Command> {
        let Command::Publish { publisher, .. } = publish else {
            return None;
        };
        let is_it = |(_, of, command): &EarlyCommand| {
            let of_it = declared_by(command) == Some(*publisher);
            *of == session && of_it && command.stream() == publish.stream()
        };
        let at = self.0.iter().position(is_it)?;
        Some(self.0.remove(at).2)
    }

    /// Takes away what a session waits for and ends with this.
    pub fn end(&mut self, session: SessionId, by: &Command) {
        self.0
            .retain(|(_, of, command)| *of != session || !by.ends(command));
    }

    /// A session has ended.
    pub fn leave(&mut self, session: SessionId) {
        self.0.retain(|(_, of, _)| *of != session);
    }

    /// All of them wait no longer.
    pub fn take_all(&mut self) -> Vec<EarlyCommand> {
        std::mem::take(&mut self.0)
    }

    /// Those wait no longer that have waited for long enough.
    pub fn take_due(&mut self, now: Now) -> Vec<EarlyCommand> {
        let is_due = |since: &Now| now.monotonic_ms >= since.monotonic_ms + STREAM_EARLY_READER_MS;
        let due = self.0.extract_if(.., |(since, ..)| is_due(since));
        due.collect()
    }
}

/// The publisher that a command declares.
const fn declared_by(command: &Command) -> Option<PublisherId> {
    match command {
        Command::DeclarePublisher { publisher, .. } => Some(*publisher),
        _ => None,
    }
}
