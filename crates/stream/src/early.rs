//! Commands that have come too early for their stream, and wait for a while.

use crate::host::{Command, PublisherId, SessionId};
use leveret_types::limits::{
    STREAM_EARLY_PUBLISHES_BYTES_MAX, STREAM_EARLY_READER_MS, STREAM_EARLY_READERS_MAX,
};
use leveret_types::{Now, QueueId};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes that a publish counts beside what it publishes.
const PUBLISH_BYTES: usize = 256;

/// One of them, with when it came and whose it is.
pub type EarlyCommand = (Now, SessionId, Command);

/// Bytes of publishes that wait for all streams that share this count, as clones of it do.
#[derive(Clone, Debug, Default)]
pub struct EarlyBytes(Arc<AtomicUsize>);

impl EarlyBytes {
    /// Counts a publish, if there is room: one always may wait, however large.
    fn count(&self, command: &Command) -> Option<Counted> {
        let bytes = match command {
            Command::Publish { batch, .. } => PUBLISH_BYTES + batch.bytes(),
            _ => 0,
        };
        let waiting = self.0.fetch_add(bytes, Ordering::Relaxed);
        let counted = Counted(self.clone(), bytes);
        let has_room = waiting == 0 || waiting + bytes <= STREAM_EARLY_PUBLISHES_BYTES_MAX;
        (bytes == 0 || has_room).then_some(counted)
    }
}

/// What one command counts, for as long as it waits.
#[derive(Debug)]
struct Counted(EarlyBytes, usize);

impl Drop for Counted {
    fn drop(&mut self) {
        let Self(EarlyBytes(waiting), bytes) = self;
        waiting.fetch_sub(*bytes, Ordering::Relaxed);
    }
}

#[derive(Debug)]
struct Waiting {
    since: Now,
    session: SessionId,
    command: Command,
    _counted: Counted,
}

impl Waiting {
    fn end(self) -> EarlyCommand {
        (self.since, self.session, self.command)
    }

    /// Whether it declares a publisher, or publishes as that one.
    fn is_of(&self, session: SessionId, stream: QueueId, publisher: PublisherId) -> bool {
        let is_its = publisher_of(&self.command) == Some(publisher);
        self.session == session && is_its && self.command.stream() == Some(stream)
    }
}

/// Those of one stream, in the order in which they came: no more than [`STREAM_EARLY_READERS_MAX`].
#[derive(Debug, Default)]
pub struct EarlyCommands {
    waiting: Vec<Waiting>,
    bytes: EarlyBytes,
}

impl EarlyCommands {
    /// None yet; the bytes of publishes are counted with those of others.
    #[must_use]
    pub const fn new(bytes: EarlyBytes) -> Self {
        Self {
            waiting: Vec::new(),
            bytes,
        }
    }

    /// From now on the bytes of publishes are counted with those of others.
    pub fn share_bytes(&mut self, bytes: EarlyBytes) {
        self.bytes = bytes;
    }

    /// How many wait.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether none waits.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// When the first of them has waited for long enough.
    #[must_use]
    pub fn due_ms(&self) -> Option<u64> {
        let first = self.waiting.first()?;
        Some(first.since.monotonic_ms + STREAM_EARLY_READER_MS)
    }

    /// Lets one wait; a publish only behind what its publisher waits for.
    ///
    /// # Errors
    /// The command, if there are enough. Behind it go those that it may not be done without: the
    /// declaration of the publisher whose publish cannot wait, and what that one published before.
    pub fn push(
        &mut self,
        now: Now,
        session: SessionId,
        command: Command,
    ) -> Result<(), Vec<EarlyCommand>> {
        let is_publish = matches!(command, Command::Publish { .. });
        let has_room = self.waiting.len() < STREAM_EARLY_READERS_MAX;
        let counted = match is_publish && !self.waits_for_publisher(session, &command) {
            true => None,
            false if has_room => self.bytes.count(&command),
            false => None,
        };
        let Some(counted) = counted else {
            let mut refused = self.take_publisher(session, &command);
            refused.push((now, session, command));
            return Err(refused);
        };
        self.waiting.push(Waiting {
            since: now,
            session,
            command,
            _counted: counted,
        });
        Ok(())
    }

    /// Whether a publish comes behind its publisher's declaration, which waits.
    fn waits_for_publisher(&self, session: SessionId, publish: &Command) -> bool {
        let (Some(stream), Some(publisher)) = (publish.stream(), publisher_of(publish)) else {
            return false;
        };
        // What it published last is near the end.
        let mut newest_first = self.waiting.iter().rev();
        newest_first.any(|waiting| waiting.is_of(session, stream, publisher))
    }

    /// Takes away what the publisher of a publish waits with.
    pub fn take_publisher(&mut self, session: SessionId, publish: &Command) -> Vec<EarlyCommand> {
        let Command::Publish {
            stream, publisher, ..
        } = publish
        else {
            return Vec::new();
        };
        let is_its = |waiting: &mut Waiting| waiting.is_of(session, *stream, *publisher);
        let taken = self.waiting.extract_if(.., is_its);
        taken.map(Waiting::end).collect()
    }

    /// Takes away what a session waits for and ends with this.
    pub fn end(&mut self, session: SessionId, by: &Command) {
        self.waiting
            .retain(|waiting| waiting.session != session || !by.ends(&waiting.command));
    }

    /// A session has ended.
    pub fn leave(&mut self, session: SessionId) {
        self.waiting.retain(|waiting| waiting.session != session);
    }

    /// All of them wait no longer.
    pub fn take_all(&mut self) -> Vec<EarlyCommand> {
        let all = std::mem::take(&mut self.waiting);
        all.into_iter().map(Waiting::end).collect()
    }

    /// Those wait no longer that have waited for long enough, nor what is published behind them.
    pub fn take_due(&mut self, now: Now) -> Vec<EarlyCommand> {
        let mut due_publishers = BTreeSet::new();
        let is_due = |waiting: &mut Waiting| {
            let publisher = publisher_of(&waiting.command);
            let publisher = publisher.map(|id| (waiting.session, waiting.command.stream(), id));
            let is_due = now.monotonic_ms >= waiting.since.monotonic_ms + STREAM_EARLY_READER_MS;
            due_publishers.extend(publisher.filter(|_| is_due));
            is_due || publisher.is_some_and(|publisher| due_publishers.contains(&publisher))
        };
        let due = self.waiting.extract_if(.., is_due);
        due.map(Waiting::end).collect()
    }
}

/// The publisher that a command declares, or publishes as.
const fn publisher_of(command: &Command) -> Option<PublisherId> {
    match command {
        Command::DeclarePublisher { publisher, .. } | Command::Publish { publisher, .. } => {
            Some(*publisher)
        }
        _ => None,
    }
}
