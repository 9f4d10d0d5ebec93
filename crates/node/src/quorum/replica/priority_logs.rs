//! The queue's logs of messages under a replica: what is appended to them is what headers name.

use super::entry_payload;
use super::header::Header;
use crate::shard::log_of;
use crate::stored;
use bytes::Bytes;
use leveret_storage::{BodyId, Durability, LogKind, ShardLogs};
use leveret_types::{LogId, QueueId};

/// A message of a header: its priority log and index, and its body with the message's size; nothing
/// where the bytes behind the header do not have it.
type Arrived = (u8, u64, Option<(BodyId, u32)>);

/// The priority logs of one queue.
#[derive(Debug)]
pub(super) struct PriorityLogs {
    queue: QueueId,
    /// The priority logs that have a log, each with the index after the last message that a header
    /// names. A leader's log may go on: those messages are of the batch that is open.
    known: Vec<(u8, u64)>,
}

impl PriorityLogs {
    pub(super) const fn new(queue: QueueId) -> Self {
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
        self.known.iter().map(|(priority_log, _)| *priority_log)
    }

    /// The priority log's log, made if there is none.
    pub(super) fn open(&mut self, logs: &mut ShardLogs, priority_log: u8) -> LogId {
        let log = self.log(priority_log);
        if !self.known.iter().any(|(known, _)| *known == priority_log) {
            if !logs.has_log(log) {
                logs.create_log(log, LogKind::Durable);
            }
            self.known.push((priority_log, 0));
        }
        log
    }

    /// Takes note of a log that is there, with messages up to `end` that headers name.
    pub(super) fn found(&mut self, priority_log: u8, end: u64) {
        assert!(
            self.end(priority_log) == 0,
            "priority log {priority_log} is found twice"
        );
        self.known.push((priority_log, end));
    }

    /// Index after the last message of a priority log that a header names.
    pub(super) fn end(&self, priority_log: u8) -> u64 {
        let found = self.known.iter().find(|(known, _)| *known == priority_log);
        found.map_or(0, |(_, end)| *end)
    }

    fn end_mut(&mut self, priority_log: u8) -> &mut u64 {
        match self
            .known
            .iter_mut()
            .find(|(known, _)| *known == priority_log)
        {
            Some((_, end)) => end,
            None => panic!("priority log {priority_log} has no log"),
        }
    }

    /// Appends a message of the batch that is open.
    pub(super) fn append(
        &mut self,
        logs: &mut ShardLogs,
        priority_log: u8,
        pieces: &[&[u8]],
        bytes: u32,
    ) -> u64 {
        let log = self.open(logs, priority_log);
        let body = logs.body(Durability::Durable, pieces);
        logs.append(log, body, bytes)
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
                let facts = body.and_then(stored::summary);
                let body = body.zip(facts).map(|(body, (_, bytes))| {
                    let body = logs.body(Durability::Durable, &[body]);
                    (body, bytes)
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
                Some((body, bytes)) => drop(logs.append(log, body, bytes)),
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
        for (priority_log, end) in &self.known {
            logs.truncate(log_of(self.queue, *priority_log), *end);
        }
    }

    /// Deletes all logs.
    pub(super) fn delete(&self, logs: &mut ShardLogs) {
        for (priority_log, _) in &self.known {
            logs.delete_log(log_of(self.queue, *priority_log));
        }
    }
}
