//! The thread of a node's streams: it takes what sessions have said since its last turn, writes it,
//! syncs each stream once, and tells them.

use leveret_storage::Disk;
use leveret_stream::{Command, Event, Events, SessionId, StreamSettings};
use leveret_stream_host::StreamHost;
use leveret_types::Now;
use leveret_types::QueueId;
use leveret_types::limits::STREAM_INBOX_BYTES_MAX;
use parking_lot::{Condvar, Mutex};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// How long to wait before a full disk is tried again.
const SPACE_RETRY: Duration = Duration::from_millis(200);
/// How often streams are looked through for segments that are too old.
const EXPIRE_EVERY_MS: u64 = 10_000;
/// Bytes that a command counts beside what it publishes.
const COMMAND_BYTES: usize = 256;

/// What the thread is asked to do.
#[derive(Debug)]
enum Input {
    Say(SessionId, Command),
    Begin(QueueId, Box<StreamSettings>),
    Delete(QueueId),
}

/// What sessions hear of the thread.
#[derive(Debug)]
pub enum Heard {
    /// Something happened.
    Event(SessionId, Event),
    /// What was refused for lack of room may be said again.
    Room(SessionId),
}

#[derive(Default)]
struct Inbox {
    inputs: Vec<Input>,
    bytes: usize,
    /// Sessions that were refused.
    waiting: BTreeSet<SessionId>,
    is_disk_full: bool,
    are_publishers_blocked: bool,
    /// Publishers were blocked, or let go, since the last turn.
    has_changed: bool,
    is_stopped: bool,
}

#[derive(Default)]
struct Shared {
    inbox: Mutex<Inbox>,
    wake: Condvar,
}

/// How sessions of any protocol, and the catalogue, reach the streams. Clones share it.
#[derive(Clone, Default)]
pub struct StreamHandle(Arc<Shared>);

impl StreamHandle {
    /// Says something for a session.
    ///
    /// # Errors
    /// The command, if there is no room for it now, or if publishers are blocked and it publishes:
    /// the session stops reading its client, and says it again when it hears [`Heard::Room`].
    pub fn say(&self, session: SessionId, command: Command) -> Result<(), Box<Command>> {
        let published = match &command {
            Command::Publish { batch, .. } => Some(batch.bytes()),
            _ => None,
        };
        let mut inbox = self.0.inbox.lock();
        let is_blocked = inbox.is_disk_full || inbox.are_publishers_blocked;
        let bytes = COMMAND_BYTES + published.unwrap_or(0);
        // One always may, however large; the end of a session always may, as it is the last.
        let is_full = inbox.bytes > 0 && inbox.bytes + bytes > STREAM_INBOX_BYTES_MAX;
        let is_last = matches!(command, Command::Leave);
        if !is_last && (is_full || published.is_some() && is_blocked) {
            inbox.waiting.insert(session);
            return Err(Box::new(command));
        }
        if is_last {
            inbox.waiting.remove(&session);
        }
        inbox.bytes += bytes;
        inbox.inputs.push(Input::Say(session, command));
        drop(inbox);
        self.0.wake.notify_one();
        Ok(())
    }

    /// A stream was declared, or exists at the start.
    pub fn begin(&self, stream: QueueId, settings: StreamSettings) {
        self.put(Input::Begin(stream, Box::new(settings)));
    }

    /// A stream was deleted.
    pub fn delete(&self, stream: QueueId) {
        self.put(Input::Delete(stream));
    }

    /// The disk is below its watermark, or is not any more.
    pub fn block_publishers(&self, are_blocked: bool) {
        let mut inbox = self.0.inbox.lock();
        inbox.are_publishers_blocked = are_blocked;
        inbox.has_changed = true;
        drop(inbox);
        self.0.wake.notify_one();
    }

    /// Ends the thread after one more turn.
    pub fn stop(&self) {
        self.0.inbox.lock().is_stopped = true;
        self.0.wake.notify_one();
    }

    fn put(&self, input: Input) {
        self.0.inbox.lock().inputs.push(input);
        self.0.wake.notify_one();
    }
}

/// The thread of the streams.
pub struct StreamThread<D: Disk, C, H> {
    host: StreamHost<D>,
    handle: StreamHandle,
    clock: C,
    hear: H,
    expired_ms: u64,
}

impl<D: Disk, C: Fn() -> Now, H: FnMut(Vec<Heard>)> StreamThread<D, C, H> {
    /// The thread of these streams; `hear` hands on what sessions hear.
    pub fn new(host: StreamHost<D>, handle: StreamHandle, clock: C, hear: H) -> Self {
        Self {
            host,
            handle,
            clock,
            hear,
            expired_ms: 0,
        }
    }

    /// Takes turns until it is told to stop. A write or sync that fails ends the process.
    pub fn run(mut self) {
        loop {
            let (inputs, is_stopped) = self.wait();
            let mut events = Events::new();
            for input in inputs {
                self.take(input, &mut events);
            }
            let now = (self.clock)();
            if now.monotonic_ms >= self.expired_ms + EXPIRE_EVERY_MS {
                self.expired_ms = now.monotonic_ms;
                self.host.expire(now);
            }
            if let Err(error) = self.host.end_turn(now, &mut events) {
                crate::fatal(&error.to_string());
            }
            let events = events.into_iter();
            let mut heard: Vec<Heard> = events.map(|(to, event)| Heard::Event(to, event)).collect();
            heard.extend(self.room().into_iter().map(Heard::Room));
            if !heard.is_empty() {
                (self.hear)(heard);
            }
            if is_stopped {
                return;
            }
        }
    }

    /// What has come, as soon as something has or is due.
    fn wait(&self) -> (Vec<Input>, bool) {
        let now = (self.clock)();
        let due_ms = self
            .host
            .due_ms()
            .unwrap_or(now.monotonic_ms + EXPIRE_EVERY_MS);
        let mut timeout = Duration::from_millis(due_ms.saturating_sub(now.monotonic_ms));
        if self.host.is_disk_full() {
            timeout = timeout.max(SPACE_RETRY);
        }
        let mut inbox = self.handle.0.inbox.lock();
        let is_idle = inbox.inputs.is_empty() && !inbox.has_changed && !inbox.is_stopped;
        if is_idle && !timeout.is_zero() {
            self.handle.0.wake.wait_for(&mut inbox, timeout);
        }
        (inbox.bytes, inbox.has_changed) = (0, false);
        (std::mem::take(&mut inbox.inputs), inbox.is_stopped)
    }

    fn take(&mut self, input: Input, events: &mut Events) {
        match input {
            Input::Say(session, command) => {
                self.host.handle((self.clock)(), session, command, events);
            }
            Input::Begin(stream, settings) => match self.host.begin(stream, *settings) {
                Ok(found) => {
                    for what in found.damage {
                        tracing::error!("stream {stream} is damaged: {what}");
                    }
                    if found.cut_bytes > 0 {
                        let cut = found.cut_bytes;
                        tracing::warn!("stream {stream}: cut {cut} bytes of a torn end");
                    }
                }
                Err(error) => tracing::error!("stream {stream} is not served: {error}"),
            },
            Input::Delete(stream) => {
                if let Err(error) = self.host.delete(stream, events) {
                    crate::fatal(&error.to_string());
                }
            }
        }
    }

    /// Sessions that were refused and may go on.
    fn room(&self) -> BTreeSet<SessionId> {
        let mut inbox = self.handle.0.inbox.lock();
        inbox.is_disk_full = self.host.is_disk_full();
        if inbox.is_disk_full || inbox.are_publishers_blocked {
            return BTreeSet::new();
        }
        std::mem::take(&mut inbox.waiting)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that fails here says enough")]

    use super::*;
    use leveret_storage::{MemoryDisk, StreamFiles};
    use leveret_stream::{BatchBuilder, PublisherId, RequestId};
    use std::path::Path;
    use std::sync::mpsc;

    const SESSION: SessionId = SessionId(1);
    const STREAM: QueueId = QueueId(1);
    /// Far more than a turn takes on a busy machine.
    const SOON: Duration = Duration::from_secs(60);

    fn publish(id: u64, bytes: usize) -> Command {
        let mut batch = BatchBuilder::new();
        assert!(batch.push(id, None, &vec![7; bytes]));
        Command::Publish {
            stream: STREAM,
            publisher: PublisherId(1),
            batch: batch.take(),
        }
    }

    fn start(
        disk: &MemoryDisk,
    ) -> (
        StreamHandle,
        mpsc::Receiver<Heard>,
        std::thread::JoinHandle<()>,
    ) {
        let files = StreamFiles::open(disk.clone(), Path::new("streams"), 1).unwrap();
        let (handle, (tell, heard)) = (StreamHandle::default(), mpsc::channel());
        let hear = move |all: Vec<Heard>| all.into_iter().for_each(|one| drop(tell.send(one)));
        let host = StreamHost::new(files);
        let thread = StreamThread::new(host, handle.clone(), || Now::both(1), hear);
        let thread = std::thread::spawn(move || thread.run());
        handle.begin(STREAM, StreamSettings::default());
        let declare = Command::DeclarePublisher {
            request: RequestId(1),
            stream: STREAM,
            publisher: PublisherId(1),
            reference: None,
        };
        handle.say(SESSION, declare).unwrap();
        let declared = heard.recv_timeout(SOON).unwrap();
        assert!(matches!(
            declared,
            Heard::Event(SESSION, Event::PublisherDeclared { .. })
        ));
        (handle, heard, thread)
    }

    #[test]
    fn what_is_published_is_confirmed_once_it_is_on_the_disk() {
        let disk = MemoryDisk::new();
        let (handle, heard, thread) = start(&disk);
        handle.say(SESSION, publish(5, 1_000)).unwrap();
        let Heard::Event(SESSION, Event::Confirmed { ids, .. }) = heard.recv_timeout(SOON).unwrap()
        else {
            panic!("no confirm");
        };
        assert_eq!(ids, [5]);
        assert!(disk.bytes() > 1_000);
        handle.stop();
        thread.join().unwrap();
    }

    #[test]
    fn publishers_that_are_blocked_hear_when_they_are_not_any_more() {
        let (handle, heard, thread) = start(&MemoryDisk::new());
        handle.block_publishers(true);
        assert!(handle.say(SESSION, publish(1, 10)).is_err());
        handle.block_publishers(false);
        let room = heard.recv_timeout(SOON).unwrap();
        assert!(matches!(room, Heard::Room(SESSION)), "{room:?}");
        handle.say(SESSION, publish(1, 10)).unwrap();
        handle.stop();
        thread.join().unwrap();
    }

    #[test]
    fn what_waits_is_bounded_but_the_first_always_may() {
        let handle = StreamHandle::default();
        let half = STREAM_INBOX_BYTES_MAX / 2 - 2 * COMMAND_BYTES;
        handle.say(SESSION, publish(1, half)).unwrap();
        handle.say(SESSION, publish(2, half)).unwrap();
        assert!(handle.say(SESSION, publish(3, 4 * COMMAND_BYTES)).is_err());
        handle.say(SESSION, Command::Leave).unwrap();
        let alone = StreamHandle::default();
        alone
            .say(SESSION, publish(1, STREAM_INBOX_BYTES_MAX + 1))
            .unwrap();
    }
}
