//! The queue's logs of messages under a replica: what is appended to them is what headers name.

use super::entry_payload;
use super::header::Header;
use crate::shard::log_of;
use crate::stored;
use bytes::Bytes;
use leveret_queue::State;
use leveret_storage::{BodyId, Durability, LogKind, ShardLogs};
use leveret_types::{LogId, QueueId};

/// A message of a header: its priority log and index, and its body with the message's size and
/// whether it has a time to live; nothing where the bytes behind the header do not have it.
type Arrived = (u8, u64, Option<(BodyId, u32, bool)>);

/// A priority log that has a log.
#[derive(Debug)]
struct Known {
    priority_log: u8,
    /// Index after the last message that a header names. A leader's log may go on: those messages
    /// are of the batch that is open.
    end: u64,
    /// Whether the log's state says that no message in it has a time to live of its own: then none
    /// need be looked at. Written by this member for itself; a log of an earlier version of Leveret
    /// says nothing until it is empty once.
    never_expires: bool,
}

/// The priority logs of one queue.
#[derive(Debug)]
pub(super) struct PriorityLogs {
    queue: QueueId,
    known: Vec<Known>,
}

impl PriorityLogs {
    pub const fn new(queue: QueueId) -> Self {
        Self {
            queue,
            known: Vec::new(),
        }
    }

    pub(super) fn log(&self, priority_log: u8) -> LogId {
        log_of(self.queue, priority_log)
    }

    /// The priority logs that have a log.
    pub(super) fn numbers(&self) -> impl Iterator<Item = u8> + '_ {
        self.known.iter().map(|known| known.priority_log)
    }

    /// The priority log's log, made if there is none.
    pub(super) fn open(&mut self, logs: &mut ShardLogs, priority_log: u8) -> LogId {
        let log = self.log(priority_log);
        if self.find(priority_log).is_none() {
            if !logs.has_log(log) {
                logs.create_log(log, LogKind::Durable);
            }
            logs.place_apart(log);
            self.found(logs, priority_log, 0);
        }
        log
    }

    /// Takes note of a log that is there, with messages up to `end` that headers name.
    pub(super) fn found(&mut self, logs: &ShardLogs, priority_log: u8, end: u64) {
        assert!(
            self.find(priority_log).is_none(),
            "priority log {priority_log} is found twice"
        );
        let saved = State::decode(logs.state(self.log(priority_log))).unwrap_or_default();
        let is_saved = saved
            .priority_logs
            .iter()
            .any(|told| told.priority_log == priority_log);
        self.known.push(Known {
            priority_log,
            end,
            never_expires: is_saved && !saved.may_expire(priority_log),
        });
    }

    /// Whether a message of the priority log may have a time to live of its own.
    pub(super) fn may_expire(&self, priority_log: u8) -> bool {
        self.find(priority_log)
            .is_none_or(|known| !known.never_expires)
    }

    /// A message comes into the priority log: whether any there may have a time to live of its own
    /// is written down before it, once, and not with each message.
    fn note(&mut self, logs: &mut ShardLogs, priority_log: u8, expires: bool) {
        let log = self.log(priority_log);
        let Some(known) = self
            .known
            .iter_mut()
            .find(|known| known.priority_log == priority_log)
        else {
            return;
        };
        // A log of which nothing is said is taken at its worst.
        let is_empty = || logs.log_stats(log).is_none_or(|stats| stats.entries == 0);
        let state = match (expires, known.never_expires) {
            (true, true) => State::default().expiring(priority_log),
            (false, false) if is_empty() => State::default().with_priority_logs([priority_log]),
            _ => return,
        };
        known.never_expires = !expires;
        let mut bytes = Vec::new();
        state.encode(&mut bytes);
        logs.set_state(log, &bytes);
    }

    fn find(&self, priority_log: u8) -> Option<&Known> {
        self.known
            .iter()
            .find(|known| known.priority_log == priority_log)
    }

    /// Index after the last message of a priority log that a header names.
    pub(super) fn end(&self, priority_log: u8) -> u64 {
        self.find(priority_log).map_or(0, |known| known.end)
    }

    fn end_mut(&mut self, priority_log: u8) -> &mut u64 {
        match self
            .known
            .iter_mut()
            .find(|known| known.priority_log == priority_log)
        {
            Some(known) => &mut known.end,
            None => panic!("priority log {priority_log} has no log"),
        }
    }

    /// Appends a message of the batch that is open: its bytes as they are stored, the size that it
    /// counts for, and whether it has a time to live of its own.
    pub(super) fn append(
        &mut self,
        logs: &mut ShardLogs,
        priority_log: u8,
        stored: &[u8],
        (bytes, expires): (u32, bool),
    ) -> u64 {
        let log = self.open(logs, priority_log);
        self.note(logs, priority_log, expires);
        let body = logs.body(Durability::Durable, &[stored]);
        logs.append(log, body, bytes)
    }

    /// Appends a message of a state that comes from another member, unless it is there already.
    pub(super) fn append_at(
        &mut self,
        logs: &mut ShardLogs,
        (priority_log, index): (u8, u64),
        stored: &[u8],
        (bytes, expires): (u32, bool),
    ) {
        let log = self.open(logs, priority_log);
        let next = logs.log_stats(log).map_or(0, |stats| stats.next_index);
        if index >= next {
            logs.skip_to(log, index);
            self.append(logs, priority_log, stored, (bytes, expires));
        }
    }

    /// A header names messages that are in the priority logs already.
    pub(super) fn cover(&mut self, header: &Header) {
        for came in &header.came {
            let end = self.end_mut(came.priority_log);
            *end = came.range.end.max(*end);
        }
    }

    /// Appends the messages that a header names, as they have come from another node. What is
    /// there already stays.
    pub(super) fn append_arrived(&mut self, logs: &mut ShardLogs, header: &Header, bodies: &Bytes) {
        let mut rest = &bodies[..];
        // Bodies first: what refers to them must be in one chunk with the header.
        let mut found: Vec<Arrived> = Vec::new();
        for came in &header.came {
            for index in came.range.clone() {
                let body = entry_payload::next(&mut rest);
                let summary = body.and_then(stored::summary);
                let body = body.zip(summary).map(|(body, (summary, bytes))| {
                    let body = logs.body(Durability::Durable, &[body]);
                    (body, bytes, summary.expiration_ms.is_some())
                });
                found.push((came.priority_log, index, body));
            }
        }
        for (priority_log, index, body) in found {
            let log = self.open(logs, priority_log);
            let next = logs.log_stats(log).map_or(0, |stats| stats.next_index);
            if next > index {
                continue;
            }
            logs.skip_to(log, index);
            match body {
                Some((body, bytes, expires)) => {
                    self.note(logs, priority_log, expires);
                    logs.append(log, body, bytes);
                }
                None => logs.skip_to(log, index + 1),
            }
        }
        self.cover(header);
    }

    /// A state says where the priority log's messages end.
    pub(super) fn set_end(&mut self, priority_log: u8, end: u64) {
        *self.end_mut(priority_log) = end;
    }

    /// Headers are taken back, the last first: so are the messages that they named.
    pub(super) fn take_back<'a>(
        &mut self,
        logs: &mut ShardLogs,
        headers: impl Iterator<Item = &'a Header>,
    ) {
        for header in headers {
            for came in &header.came {
                let end = self.end_mut(came.priority_log);
                *end = (*end).min(came.range.start);
            }
        }
        self.cut(logs);
    }

    /// Takes messages back that no header names.
    pub(super) fn cut(&mut self, logs: &mut ShardLogs) {
        for Known {
            priority_log, end, ..
        } in &self.known
        {
            logs.truncate(log_of(self.queue, *priority_log), *end);
        }
    }

    /// Deletes all logs.
    pub(super) fn delete(&self, logs: &mut ShardLogs) {
        for Known { priority_log, .. } in &self.known {
            logs.delete_log(log_of(self.queue, *priority_log));
        }
    }
}
