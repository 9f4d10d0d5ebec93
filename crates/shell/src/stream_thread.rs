//! The thread of a node's streams: it takes what sessions have said since its last turn, writes it,
//! syncs each stream once, and tells them.

mod asking;
mod handle;
mod helper_threads;
mod remote_sessions;
mod replicas;

pub use asking::{StreamGroups, StreamReading};
pub use handle::{LedMembers, LedStream, StreamHandle, StreamThreadEvent, StreamTracking};

use asking::Askers;
use handle::{Input, STATS_PATIENCE};
use helper_threads::HelperThreads;
use leveret_storage::{Disk, StreamSync};
use leveret_stream::{Command, Events, Refusal, ReplicaRole, SessionId};
use leveret_stream_host::{DueRead, Found, StreamHost};
use leveret_types::limits::STREAM_RELAY_SESSIONS_MAX;
use leveret_types::{Now, QueueId, pool};
use remote_sessions::RemoteSessions;
use replicas::Copies;
use std::collections::BTreeSet;
use std::time::Duration;

/// How long to wait before a full disk is tried again.
const SPACE_RETRY: Duration = Duration::from_millis(200);
/// How long to wait before sockets are looked at again for what they have taken of readers' chunks,
/// where readers wait for that.
const MEMORY_RETRY: Duration = Duration::from_millis(5);
/// How often streams are looked through for segments that are too old.
const EXPIRE_EVERY_MS: u64 = 10_000;

/// The thread of the streams.
pub struct StreamThread<D: Disk, C, H> {
    host: StreamHost<D>,
    handle: StreamHandle,
    clock: C,
    hear: H,
    expired_ms: u64,
    remote_sessions: RemoteSessions,
    askers: Askers,
    copies: Copies,
    syncs: HelperThreads<StreamSync<D>>,
    reads: HelperThreads<DueRead<D>>,
}

impl<D: Disk, C: Fn() -> Now, H: FnMut(Vec<StreamThreadEvent>)> StreamThread<D, C, H> {
    /// The thread of these streams; `hear` hands on what sessions hear.
    ///
    /// # Errors
    /// If the threads beside it do not start, which read, and sync what nobody waits for.
    pub fn new(
        host: StreamHost<D>,
        handle: StreamHandle,
        clock: C,
        hear: H,
    ) -> std::io::Result<Self> {
        let told = handle.clone();
        let syncs = HelperThreads::start("stream-syncs", move |sync: StreamSync<D>| {
            match sync.run() {
                Ok(synced) => told.put(Input::Synced(synced)),
                Err(error) => crate::fatal(&error.to_string()),
            }
        })?;
        let told = handle.clone();
        let reads = HelperThreads::start("stream-reads", move |read: DueRead<D>| {
            told.put(Input::WasRead(Box::new(read.run())));
        })?;
        Ok(Self {
            host,
            handle,
            clock,
            hear,
            expired_ms: 0,
            remote_sessions: RemoteSessions::default(),
            askers: Askers::default(),
            copies: Copies::default(),
            syncs,
            reads,
        })
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
            let held = self.host.take_retention_alarms().into_iter();
            let crowded = self.host.take_crowded().into_iter();
            match self.host.write_turn(now, &mut events) {
                Ok(written) => {
                    // So that followers write while this node syncs.
                    self.send_copies(now);
                    if let Err(error) = self.host.sync_turn(now, written, &mut events) {
                        crate::fatal(&error.to_string());
                    }
                }
                Err(error) => crate::fatal(&error.to_string()),
            }
            self.send_copies(now);
            self.syncs.hand_out(self.host.take_syncs());
            self.reads.hand_out(self.host.take_reads());
            let told = |(to, event)| match to {
                SessionId::Connection(_) | SessionId::Queue(_) => {
                    Some(StreamThreadEvent::Event(to, event))
                }
                SessionId::Remote(remote) => {
                    // One that has left hears nothing more.
                    let (link, session) = self.remote_sessions.of(remote)?;
                    Some(StreamThreadEvent::Relayed(link, session, event))
                }
                SessionId::Operator(asker) => {
                    self.askers.hear(asker, event);
                    None
                }
                SessionId::Nobody => None,
            };
            let mut heard: Vec<StreamThreadEvent> = events.into_iter().filter_map(told).collect();
            heard.extend(self.room().into_iter().map(StreamThreadEvent::Room));
            heard.extend(held.map(|(stream, alarm)| StreamThreadEvent::Held(stream, alarm)));
            heard.extend(crowded.map(|(stream, came)| StreamThreadEvent::Crowded(stream, came)));
            let are_held = self.handle.are_publishers_held();
            let taken = self.remote_sessions.take_taken(are_held).into_iter();
            heard.extend(taken.map(|(link, taken)| {
                StreamThreadEvent::Taken(link, taken.publishes, taken.others)
            }));
            if !heard.is_empty() {
                (self.hear)(heard);
            }
            if is_stopped {
                if let Err(error) = self.host.sync_all() {
                    crate::fatal(&error.to_string());
                }
                self.syncs.end();
                self.reads.end();
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
            .into_iter()
            .chain(self.copies.due_ms())
            .min()
            .unwrap_or(now.monotonic_ms + EXPIRE_EVERY_MS);
        let mut timeout = Duration::from_millis(due_ms.saturating_sub(now.monotonic_ms));
        if self.host.is_disk_full() {
            timeout = SPACE_RETRY;
        }
        if self.host.waits_for_memory() {
            timeout = timeout.min(MEMORY_RETRY);
        }
        let mut inbox = self.handle.0.inbox.lock();
        let is_idle = inbox.is_empty() && !inbox.has_changed && !inbox.is_stopped;
        if is_idle && !timeout.is_zero() {
            let waited = self.handle.0.wake.wait_for(&mut inbox, timeout);
            if waited.timed_out() && inbox.is_empty() {
                pool::release();
            }
        }
        inbox.has_changed = false;
        (inbox.take_turn(), inbox.is_stopped)
    }

    fn take(&mut self, input: Input, events: &mut Events) {
        match input {
            Input::Say(session, command) => {
                self.host.handle((self.clock)(), session, command, events);
            }
            Input::Relayed(link, session, command) => {
                if let Some(remote) = self.remote_sessions.say(link, session, &command) {
                    let here = SessionId::Remote(remote);
                    self.host.handle((self.clock)(), here, command, events);
                } else if let Some(event) = command.refused(too_many_sessions()) {
                    (self.hear)(vec![StreamThreadEvent::Relayed(link, session, event)]);
                }
            }
            Input::Left(link) => {
                for remote in self.remote_sessions.leave_all(link) {
                    let here = SessionId::Remote(remote);
                    self.host
                        .handle((self.clock)(), here, Command::Leave, events);
                }
            }
            Input::Replica(here) => self.take_order(*here, events),
            Input::NoReplica(stream) => self.remove_replica(stream, events),
            Input::Message(from, stream, message, bytes) => {
                self.copies.took(from, bytes);
                self.take_message(from, stream, message, events);
            }
            Input::Connected(node) => {
                self.copies.connected(node);
                self.host.connected(node);
            }
            Input::HandOver(stream, to) => self.host.hand_over((self.clock)(), stream, to),
            Input::Copied(node, bytes) => self.copies.copied(node, bytes),
            Input::Begin(stream, settings) => match self.host.begin(stream, *settings) {
                Ok(found) => (self.hear)(told_of_found(stream, &found).collect()),
                Err(error) => {
                    let text = format!("the stream is not served: {error}");
                    let level = tracing::Level::ERROR;
                    (self.hear)(vec![StreamThreadEvent::Told(stream, level, text)]);
                }
            },
            Input::Change(stream, settings) => self.host.set_settings(stream, *settings),
            Input::Synced(synced) => self.host.synced(&synced),
            Input::WasRead(read) => self.host.was_read(*read, events),
            Input::Stats(answer) => {
                // Whoever asked may have given up.
                let _ = answer.try_send(self.host.stats().collect());
            }
            Input::StatsOf(streams, answer) => {
                let _ = answer.try_send(self.host.stats_of(&streams).collect());
            }
            Input::ActiveStats(answer) => {
                // What nobody took is told the next time.
                if answer.try_send(self.host.active_stats().collect()).is_ok() {
                    self.host.forget_active();
                }
            }
            Input::Tracking(stream, answer) => {
                let tracking = self.host.tracking(stream).map(StreamTracking::of);
                let _ = answer.try_send(tracking);
            }
            Input::Ask(question) => {
                let now = (self.clock)();
                self.askers.answer(question, &mut self.host, now);
            }
            Input::Members(stream, answer) => {
                // Whoever asked may have given up.
                let _ = answer.try_send(self.led_members(stream));
            }
            Input::Delete(stream) => {
                self.copies.forget(stream);
                if let Err(error) = self.host.delete(stream, events) {
                    crate::fatal(&error.to_string());
                }
            }
        }
    }

    fn led_members(&self, stream: QueueId) -> Option<LedMembers> {
        let Some(ReplicaRole::Leader { members, .. }) = self.host.role(stream) else {
            return None;
        };
        Some(LedMembers {
            nodes: members,
            may_change: self.host.may_change_members(stream),
            removable: self.host.removable_members(stream),
            is_damaged: self.host.is_damaged_for_good(stream),
        })
    }

    /// Sessions that were refused and may go on.
    fn room(&self) -> BTreeSet<SessionId> {
        let mut inbox = self.handle.0.inbox.lock();
        inbox.is_disk_full = self.host.is_disk_full();
        let mut told = inbox.others.take_waiting();
        told.append(&mut inbox.let_go);
        // Who reads waits for no space.
        if !inbox.is_disk_full {
            told.append(&mut inbox.publishes.take_waiting());
        }
        told
    }
}

/// Why a session of another node is not served.
fn too_many_sessions() -> Refusal {
    let most = STREAM_RELAY_SESSIONS_MAX;
    Refusal::NotAvailable(format!(
        "its node serves {most} sessions of this one, which are as many as it may; close some"
    ))
}

/// What is to be said of what a stream was found with.
fn told_of_found(stream: QueueId, found: &Found) -> impl Iterator<Item = StreamThreadEvent> {
    let damage = found.damage.iter().map(|what| {
        let text = format!("the stream is damaged: {what}");
        (tracing::Level::ERROR, text)
    });
    let cut = (found.cut_bytes > 0).then(|| {
        let text = format!("cut {} bytes of a torn end", found.cut_bytes);
        (tracing::Level::WARN, text)
    });
    let told = move |(level, text)| StreamThreadEvent::Told(stream, level, text);
    damage.chain(cut).map(told)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that fails here says enough")]

    use super::*;
    use leveret_cluster::BlockedStreams;
    use leveret_cluster::streams::command_bytes;
    use leveret_storage::{MemoryDisk, StreamFiles};
    use leveret_stream::{BatchBuilder, Event, PublisherId, RequestId, StreamSettings};
    use leveret_types::ConnectionId;
    use leveret_types::limits::{STREAM_INBOX_BYTES_MAX, STREAM_TURN_BYTES};
    use std::path::Path;
    use std::sync::mpsc;

    pub(super) const SESSION: SessionId = SessionId::Connection(ConnectionId(1));
    const OTHER: SessionId = SessionId::Connection(ConnectionId(2));
    pub(super) const STREAM: QueueId = QueueId(1);
    /// Far more than a turn takes on a busy machine.
    pub(super) const SOON: Duration = Duration::from_secs(60);

    pub(super) fn publish(id: u64, bytes: usize) -> Command {
        let mut batch = BatchBuilder::new();
        assert!(batch.push(id, None, &vec![7; bytes]));
        Command::Publish {
            stream: STREAM,
            publisher: PublisherId(1),
            batch: batch.take(),
        }
    }

    pub(super) fn start(
        disk: &MemoryDisk,
    ) -> (
        StreamHandle,
        mpsc::Receiver<StreamThreadEvent>,
        std::thread::JoinHandle<()>,
    ) {
        let files = StreamFiles::open(disk.clone(), Path::new("streams"), 1).unwrap();
        let (handle, (tell, heard)) = (StreamHandle::default(), mpsc::channel());
        let hear =
            move |all: Vec<StreamThreadEvent>| all.into_iter().for_each(|one| drop(tell.send(one)));
        let host = StreamHost::new(files);
        let thread = StreamThread::new(host, handle.clone(), || Now::both(1), hear).unwrap();
        let thread = std::thread::spawn(move || thread.run());
        handle.begin(STREAM, StreamSettings::default());
        let declare = Command::DeclarePublisher {
            request: RequestId(1),
            stream: STREAM,
            publisher: PublisherId(1),
            reference: None,
        };
        handle.say(SESSION, declare).unwrap();
        let mut all = std::iter::repeat_with(|| heard.recv_timeout(SOON).unwrap());
        let declared = all.find(|event| !matches!(event, StreamThreadEvent::Told(..)));
        let declared = declared.unwrap();
        assert!(matches!(
            declared,
            StreamThreadEvent::Event(SESSION, Event::PublisherDeclared { .. })
        ));
        (handle, heard, thread)
    }

    #[test]
    fn what_is_published_is_confirmed_once_it_is_on_the_disk() {
        let disk = MemoryDisk::new();
        let (handle, heard, thread) = start(&disk);
        handle.say(SESSION, publish(5, 1_000)).unwrap();
        let StreamThreadEvent::Event(SESSION, Event::Confirmed { ids, .. }) =
            heard.recv_timeout(SOON).unwrap()
        else {
            panic!("no confirm");
        };
        assert_eq!(ids, [5]);
        assert!(disk.bytes() > 1_000);
        handle.stop();
        thread.join().unwrap();
    }

    #[test]
    fn what_a_start_finds_is_told_of_its_stream() {
        let found = Found {
            damage: vec!["a chunk".to_owned()],
            cut_bytes: 3,
        };
        let told = told_of_found(STREAM, &found).map(|event| match event {
            StreamThreadEvent::Told(STREAM, level, text) => format!("{level} {text}"),
            other => panic!("{other:?}"),
        });
        assert_eq!(
            told.collect::<Vec<_>>(),
            [
                "ERROR the stream is damaged: a chunk",
                "WARN cut 3 bytes of a torn end"
            ]
        );
    }

    #[test]
    fn publishers_that_are_blocked_hear_when_they_are_not_any_more() {
        let (handle, heard, thread) = start(&MemoryDisk::new());
        handle.hold(BlockedStreams::All);
        assert!(handle.say(SESSION, publish(1, 10)).is_err());
        handle.hold(BlockedStreams::None);
        let room = heard.recv_timeout(SOON).unwrap();
        assert!(matches!(room, StreamThreadEvent::Room(SESSION)), "{room:?}");
        handle.say(SESSION, publish(1, 10)).unwrap();
        handle.stop();
        thread.join().unwrap();
    }

    #[test]
    fn who_publishes_to_a_stream_that_is_held_waits_and_nobody_else() {
        let (handle, heard, thread) = start(&MemoryDisk::new());
        let other = QueueId(u64::from(u32::MAX));
        handle.hold(BlockedStreams::These([other].into()));
        handle.say(SESSION, publish(1, 10)).unwrap();
        let confirmed = heard.recv_timeout(SOON).unwrap();
        assert!(
            matches!(confirmed, StreamThreadEvent::Event(SESSION, _)),
            "{confirmed:?}"
        );
        assert!(!handle.holds_back(SESSION, &publish(2, 10)));
        handle.hold(BlockedStreams::These([STREAM, other].into()));
        assert!(handle.say(SESSION, publish(2, 10)).is_err());
        let elsewhere = OTHER;
        assert!(handle.holds_back(elsewhere, &publish(3, 10)));
        // Nobody is told that all goes on as it was.
        handle.hold(BlockedStreams::These([STREAM, other].into()));
        handle.put(Input::Begin(QueueId(2), Box::default()));
        assert!(heard.recv_timeout(Duration::from_millis(50)).is_err());
        handle.hold(BlockedStreams::These([other].into()));
        for session in [SESSION, elsewhere] {
            let room = heard.recv_timeout(SOON).unwrap();
            assert!(
                matches!(room, StreamThreadEvent::Room(of) if of == session),
                "{room:?}"
            );
        }
        handle.say(SESSION, publish(2, 10)).unwrap();
        handle.stop();
        thread.join().unwrap();
    }

    #[test]
    fn a_turn_takes_a_bounded_part_of_what_waits_and_all_in_the_end() {
        let handle = StreamHandle::default();
        let part = STREAM_TURN_BYTES / 4 - command_bytes(&publish(1, 0));
        for id in 1..=10 {
            handle.say(SESSION, publish(id, part)).unwrap();
        }
        let take = || handle.0.inbox.lock().take_turn().len();
        assert_eq!(take(), 4);
        handle.stop();
        assert_eq!(take(), 6);
        assert_eq!(handle.0.inbox.lock().publishes.bytes, 0);
    }

    #[test]
    fn readers_do_not_wait_behind_publishers() {
        let handle = StreamHandle::default();
        while handle.say(SESSION, publish(1, STREAM_TURN_BYTES)).is_ok() {}
        let reader = OTHER;
        let credit = || Command::Credit {
            stream: STREAM,
            reader: leveret_stream::ReaderId(1),
            chunks: 1,
        };
        let take = || handle.0.inbox.lock().take_turn();
        let is_credit = |input: &Input| matches!(input, Input::Say(_, Command::Credit { .. }));
        // By turns, though both say something all the time.
        for _ in 0..2 {
            handle.say(reader, credit()).unwrap();
            assert!(take().iter().all(is_credit));
            handle.say(reader, credit()).unwrap();
            let published = take();
            assert!(!published.iter().any(is_credit), "{published:?}");
            assert_eq!(published.len(), 1);
        }
    }

    #[test]
    fn who_reads_hears_of_room_while_publishers_are_blocked() {
        let (handle, heard, thread) = start(&MemoryDisk::new());
        handle.hold(BlockedStreams::All);
        assert!(handle.say(SESSION, publish(1, 10)).is_err());
        let reader = OTHER;
        handle.0.inbox.lock().others.waiting.insert(reader);
        handle.put(Input::Begin(QueueId(2), Box::default()));
        let room = heard.recv_timeout(SOON).unwrap();
        assert!(
            matches!(room, StreamThreadEvent::Room(session) if session == reader),
            "{room:?}"
        );
        handle.hold(BlockedStreams::None);
        let room = heard.recv_timeout(SOON).unwrap();
        assert!(matches!(room, StreamThreadEvent::Room(SESSION)), "{room:?}");
        handle.stop();
        thread.join().unwrap();
    }

    #[test]
    fn what_a_session_had_no_room_for_is_published_when_it_leaves() {
        let disk = MemoryDisk::new();
        let (handle, heard, thread) = start(&disk);
        handle.hold(BlockedStreams::All);
        let refused = handle.say(SESSION, publish(1, 1_000)).unwrap_err();
        handle.leave(SESSION, [*refused]);
        let StreamThreadEvent::Event(SESSION, Event::Confirmed { ids, .. }) =
            heard.recv_timeout(SOON).unwrap()
        else {
            panic!("no confirm");
        };
        assert_eq!(ids, [1]);
        assert!(disk.bytes() > 1_000);
        handle.stop();
        thread.join().unwrap();
    }

    #[test]
    fn what_waits_is_bounded_but_the_first_always_may() {
        let handle = StreamHandle::default();
        let command = command_bytes(&publish(1, 0));
        let half = STREAM_INBOX_BYTES_MAX / 2 - 2 * command;
        handle.say(SESSION, publish(1, half)).unwrap();
        handle.say(SESSION, publish(2, half)).unwrap();
        assert!(handle.say(SESSION, publish(3, 4 * command)).is_err());
        let alone = StreamHandle::default();
        alone
            .say(SESSION, publish(1, STREAM_INBOX_BYTES_MAX + 1))
            .unwrap();
    }
}
