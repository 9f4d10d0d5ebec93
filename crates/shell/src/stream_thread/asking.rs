//! Whoever asks about the streams of this node and waits for the answer: operators. One that reads
//! a stream does so as a session of its own, within credit, as any reader.

use super::{Input, STATS_PATIENCE, StreamHandle};
use leveret_storage::Disk;
use leveret_stream::{Command, Event, Reference, RequestId, SessionId, StoredBy, StreamStats};
use leveret_stream_host::StreamHost;
use leveret_types::limits::STREAM_BROWSERS_MAX;
use leveret_types::{Now, QueueId};
use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::time::Duration;

/// The groups of a stream whose offsets are kept on this node.
#[derive(Clone, Debug, PartialEq)]
pub struct StreamGroups {
    /// The stream.
    pub stream: QueueId,
    /// How it stands.
    pub stats: StreamStats,
    /// Each group's name, the offset that it has stored, and the offsets per second that it has
    /// gone on lately.
    pub groups: Vec<(String, u64, f64)>,
}

/// What an operator asks of the thread.
#[derive(Debug)]
pub(super) enum Question {
    /// The groups of all streams that have any, or of one, whether it has any or not.
    Groups(Option<QueueId>, SyncSender<Vec<StreamGroups>>),
    /// The streams of which something cannot be read here, and what.
    Damaged(SyncSender<Vec<(QueueId, String)>>),
    /// The offset of a group is to be forgotten.
    Forget(QueueId, Reference, SyncSender<Option<bool>>),
    /// A session begins, and hears its events here; the answer is its number, unless there are as
    /// many as may be.
    Begin(Sender<Event>, SyncSender<Option<u64>>),
    /// The session of that number has ended.
    End(u64),
}

/// The sessions of those who read: [`SessionId::Operator`], by numbers of their own.
#[derive(Default)]
pub(super) struct Askers {
    last: u64,
    sessions: BTreeMap<u64, Sender<Event>>,
}

impl Askers {
    /// Hands an event to a session; one that has gone hears nothing more.
    pub(super) fn hear(&self, number: u64, event: Event) {
        if let Some(events) = self.sessions.get(&number) {
            let _ = events.send(event);
        }
    }

    fn begin(&mut self, events: Sender<Event>) -> Option<u64> {
        if self.sessions.len() >= STREAM_BROWSERS_MAX {
            return None;
        }
        self.last += 1;
        self.sessions.insert(self.last, events);
        Some(self.last)
    }

    /// Answers. Whoever asked may have given up by now.
    pub(super) fn answer<D: Disk>(
        &mut self,
        question: Question,
        host: &mut StreamHost<D>,
        now: Now,
    ) {
        match question {
            Question::Groups(only, answer) => {
                let _ = answer.try_send(groups(host, only, now));
            }
            Question::Damaged(answer) => {
                let _ = answer.try_send(host.damaged().collect());
            }
            Question::Forget(stream, group, answer) => {
                let _ = answer.try_send(host.forget_offset(now, stream, &group));
            }
            Question::Begin(events, answer) => {
                let number = self.begin(events);
                let told = answer.try_send(number);
                if let (Err(_), Some(number)) = (told, number) {
                    self.sessions.remove(&number);
                }
            }
            Question::End(number) => drop(self.sessions.remove(&number)),
        }
    }
}

fn groups<D: Disk>(host: &StreamHost<D>, only: Option<QueueId>, now: Now) -> Vec<StreamGroups> {
    let wanted = |stream: QueueId, is_empty: bool| match only {
        Some(only) => stream == only,
        None => !is_empty,
    };
    let all = host.groups(now);
    let all = all.filter(|(stream, _, groups)| wanted(*stream, groups.is_empty()));
    let told = |(stream, stats, groups): (_, _, Vec<leveret_stream::GroupOffset>)| StreamGroups {
        stream,
        stats,
        groups: groups
            .into_iter()
            .map(|group| {
                let name = String::from_utf8_lossy(group.group.as_bytes());
                (name.into_owned(), group.offset, group.per_second)
            })
            .collect(),
    };
    all.map(told).collect()
}

/// A session that reads streams of this node for an operator. It ends when it is dropped.
pub struct StreamReading {
    handle: StreamHandle,
    number: u64,
    events: Receiver<Event>,
}

impl StreamReading {
    /// Says something; false if there is no room for it now.
    #[must_use]
    pub fn say(&self, command: Command) -> bool {
        let session = SessionId::Operator(self.number);
        self.handle.say(session, command).is_ok()
    }

    /// The offset of a group once all that was said before is committed; nothing if it is not soon,
    /// or the stream is not led here.
    fn await_offset(&self, stream: QueueId, group: Reference) -> Option<Option<u64>> {
        let query = Command::QueryOffset {
            request: RequestId(0),
            stream,
            reference: group,
        };
        if !self.say(query) {
            return None;
        }
        match self.hear(STATS_PATIENCE) {
            Some(Event::StoredOffset { result, .. }) => result.ok(),
            _ => None,
        }
    }

    /// What it hears next; nothing if that takes longer than this.
    #[must_use]
    pub fn hear(&self, patience: Duration) -> Option<Event> {
        self.events.recv_timeout(patience).ok()
    }
}

impl Drop for StreamReading {
    fn drop(&mut self) {
        let session = SessionId::Operator(self.number);
        self.handle.leave(session, []);
        self.handle.put(Input::Ask(Question::End(self.number)));
    }
}

impl StreamHandle {
    /// The groups of all streams whose offsets are kept on this node and that have any, or of one
    /// of these streams; nothing if the thread does not say within a second.
    #[must_use]
    pub fn groups(&self, only: Option<QueueId>) -> Vec<StreamGroups> {
        let (answer, answers) = sync_channel(1);
        self.put(Input::Ask(Question::Groups(only, answer)));
        answers.recv_timeout(STATS_PATIENCE).unwrap_or_default()
    }

    /// The streams of which something cannot be read on this node, each with what that is; nothing
    /// if the thread does not say within a second.
    #[must_use]
    pub fn damaged(&self) -> Vec<(QueueId, String)> {
        let (answer, answers) = sync_channel(1);
        self.put(Input::Ask(Question::Damaged(answer)));
        answers.recv_timeout(STATS_PATIENCE).unwrap_or_default()
    }

    /// Forgets the offset of a group, and waits until that is committed: whether there was one.
    /// `None` of a stream whose offsets are not kept here, or where it is not committed within two
    /// seconds: then it may be forgotten or not.
    #[must_use]
    pub fn forget_offset(&self, stream: QueueId, group: Reference) -> Option<bool> {
        let operator = self.begin_reading()?;
        let (answer, answers) = sync_channel(1);
        self.put(Input::Ask(Question::Forget(stream, group.clone(), answer)));
        let was_there = answers.recv_timeout(STATS_PATIENCE).ok().flatten()?;
        operator.await_offset(stream, group)?;
        Some(was_there)
    }

    /// Sets the offset of a group, and waits until that is committed. `None` of a stream whose
    /// offsets are not kept here, or where it is not committed within two seconds: then it may be
    /// set or not.
    ///
    /// # Errors
    /// If there is no room for it now.
    #[must_use]
    pub fn set_offset(
        &self,
        stream: QueueId,
        group: &Reference,
        offset: u64,
    ) -> Option<Result<(), String>> {
        let busy = || Some(Err("the node has no room for it now: try again".to_owned()));
        let Some(operator) = self.begin_reading() else {
            return busy();
        };
        let store = Command::StoreOffset {
            stream,
            reference: group.clone(),
            offset,
            by: StoredBy::Operator,
        };
        if !operator.say(store) {
            return busy();
        }
        operator.await_offset(stream, group.clone()).map(|_| Ok(()))
    }

    /// Begins to read for an operator; nothing while as many do as may.
    #[must_use]
    pub fn begin_reading(&self) -> Option<StreamReading> {
        let (hear, events) = channel();
        let (answer, answers) = sync_channel(1);
        self.put(Input::Ask(Question::Begin(hear, answer)));
        let number = answers.recv_timeout(STATS_PATIENCE).ok().flatten()?;
        Some(StreamReading {
            handle: self.clone(),
            number,
            events,
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that fails here says enough")]

    use super::super::tests::{SESSION, SOON, STREAM, publish, start};
    use super::*;
    use leveret_storage::MemoryDisk;
    use leveret_stream::{OffsetSpec, ReaderId};

    #[test]
    fn an_operator_reads_what_is_there_and_as_many_do_at_a_time_as_may() {
        let (handle, heard, thread) = start(&MemoryDisk::new());
        handle.say(SESSION, publish(1, 10)).unwrap();
        drop(heard.recv_timeout(SOON).unwrap());
        let mut readings: Vec<_> = (0..STREAM_BROWSERS_MAX)
            .map(|_| handle.begin_reading().unwrap())
            .collect();
        assert!(handle.begin_reading().is_none(), "one too many");
        let reading = readings.pop().unwrap();
        assert!(reading.say(Command::Subscribe {
            request: RequestId(1),
            stream: STREAM,
            reader: ReaderId(1),
            offset: OffsetSpec::First,
            credit: 1,
            filter: None,
        }));
        assert!(matches!(reading.hear(SOON), Some(Event::Subscribed { .. })));
        assert!(matches!(reading.hear(SOON), Some(Event::Chunk { .. })));
        let readers = || handle.stats()[0].1.readers;
        assert_eq!(readers(), 1);
        drop(reading);
        // What leaves is behind publishes, and never in the way of whoever asks.
        while readers() > 0 {
            std::thread::yield_now();
        }
        assert!(handle.begin_reading().is_some(), "there is room again");
        handle.stop();
        thread.join().unwrap();
    }

    #[test]
    fn a_stream_that_cannot_be_served_is_told_as_damaged() {
        let disk = MemoryDisk::new();
        let (handle, heard, thread) = start(&disk);
        handle.say(SESSION, publish(1, 10)).unwrap();
        drop(heard.recv_timeout(SOON).unwrap());
        assert!(handle.damaged().is_empty());
        assert!(!handle.stats()[0].1.damaged);
        handle.stop();
        thread.join().unwrap();
        let paths = disk.paths().into_iter();
        for path in paths.filter(|path| path.extension().is_some_and(|end| end == "stream")) {
            disk.tamper(&path, |bytes| bytes[..512].fill(0));
        }
        let (handle, _heard, thread) = start(&disk);
        let damaged = handle.damaged();
        assert_eq!((damaged.len(), damaged[0].0), (1, STREAM));
        assert!(handle.stats()[0].1.damaged && handle.stats_of(vec![STREAM])[0].1.damaged);
        handle.stop();
        thread.join().unwrap();
    }

    #[test]
    fn groups_are_told_and_forgotten() {
        let (handle, _heard, thread) = start(&MemoryDisk::new());
        let group = Reference::new("app".into()).unwrap();
        assert!(handle.groups(None).is_empty(), "no stream has any");
        assert!(handle.groups(Some(STREAM))[0].groups.is_empty());
        assert_eq!(handle.forget_offset(STREAM, group.clone()), Some(false));
        assert_eq!(handle.forget_offset(QueueId(7), group.clone()), None);
        let store = Command::StoreOffset {
            stream: STREAM,
            reference: group.clone(),
            offset: 5,
            by: StoredBy::Anyone,
        };
        handle.say(SESSION, store).unwrap();
        let told = handle.groups(None);
        assert_eq!((told[0].stream, told.len()), (STREAM, 1));
        assert_eq!(told[0].groups, [("app".to_owned(), 5, 0.0)]);
        assert_eq!(handle.forget_offset(STREAM, group), Some(true));
        assert!(handle.groups(None).is_empty());
        handle.stop();
        thread.join().unwrap();
    }

    #[test]
    fn an_offset_that_an_operator_has_set_is_there_after_a_crash_and_one_it_forgot_is_not() {
        let disk = MemoryDisk::new();
        let name = |name: &'static str| Reference::new(name.into()).unwrap();
        let (handle, _heard, _thread) = start(&disk);
        assert_eq!(handle.set_offset(STREAM, &name("app"), 5), Some(Ok(())));
        assert_eq!(handle.set_offset(STREAM, &name("gone"), 6), Some(Ok(())));
        assert_eq!(handle.forget_offset(STREAM, name("gone")), Some(true));
        assert_eq!(handle.set_offset(QueueId(7), &name("app"), 5), None);
        let (after, _heard, thread) = start(&disk.copy());
        assert_eq!(after.groups(None)[0].groups, [("app".to_owned(), 5, 0.0)]);
        after.stop();
        thread.join().unwrap();
    }
}
