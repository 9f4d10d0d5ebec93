//! The queue's logs of messages under a replica: what is appended to them is what headers name.

use super::attachment;
use super::header::Header;
use crate::shard::log_of;
use crate::stored;
use bytes::Bytes;
use leveret_storage::{BodyId, Durability, LogKind, ShardLogs};
use leveret_types::{LogId, QueueId};

/// A message of a header: its lane and index, and its body with the message's size; nothing where
/// the bytes behind the header do not have it.
type Arrived = (u8, u64, Option<(BodyId, u32)>);

/// The lanes of one queue.
#[derive(Debug)]
pub(super) struct Lanes {
    queue: QueueId,
    /// The lanes that have a log, each with the index after the last message that a header names.
    /// A leader's log may go on: those messages are of the batch that is open.
    known: Vec<(u8, u64)>,
}

impl Lanes {
    pub(super) const fn new(queue: QueueId) -> Self {
        Self {
            queue,
            known: Vec::new(),
        }
    }

    pub(super) fn log(&self, lane: u8) -> LogId {
        log_of(self.queue, lane)
    }

    /// The lanes that have a log.
    pub(super) fn numbers(&self) -> impl Iterator<Item = u8> + '_ {
        self.known.iter().map(|(lane, _)| *lane)
    }

    /// The lane's log, made if there is none.
    pub(super) fn open(&mut self, logs: &mut ShardLogs, lane: u8) -> LogId {
        let log = self.log(lane);
        if !self.known.iter().any(|(known, _)| *known == lane) {
            if !logs.has_log(log) {
                logs.create_log(log, LogKind::Durable);
            }
            self.known.push((lane, 0));
        }
        log
    }

    /// Takes note of a log that is there, with messages up to `end` that headers name.
    pub(super) fn found(&mut self, lane: u8, end: u64) {
        assert!(self.end(lane) == 0, "lane {lane} is found twice");
        self.known.push((lane, end));
    }

    /// Index after the last message of a lane that a header names.
    pub(super) fn end(&self, lane: u8) -> u64 {
        let found = self.known.iter().find(|(known, _)| *known == lane);
        found.map_or(0, |(_, end)| *end)
    }

    fn end_mut(&mut self, lane: u8) -> &mut u64 {
        match self.known.iter_mut().find(|(known, _)| *known == lane) {
            Some((_, end)) => end,
            None => panic!("lane {lane} has no log"),
        }
    }

    /// Appends a message of the batch that is open.
    pub(super) fn append(
        &mut self,
        logs: &mut ShardLogs,
        lane: u8,
        pieces: &[&[u8]],
        bytes: u32,
    ) -> u64 {
        let log = self.open(logs, lane);
        let body = logs.body(Durability::Durable, pieces);
        logs.append(log, body, bytes)
    }

    /// A header names messages that are in the lanes already.
    pub(super) fn cover(&mut self, header: &Header) {
        for came in &header.came {
            let end = self.end_mut(came.lane);
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
                let body = attachment::next(&mut rest);
                let facts = body.and_then(stored::facts);
                let body = body.zip(facts).map(|(body, (_, bytes))| {
                    let body = logs.body(Durability::Durable, &[body]);
                    (body, bytes)
                });
                found.push((came.lane, index, body));
            }
        }
        for (lane, index, body) in found {
            let log = self.open(logs, lane);
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

    /// A state says where the lane's messages end.
    pub(super) fn set_end(&mut self, lane: u8, end: u64) {
        *self.end_mut(lane) = end;
    }

    /// Headers are taken back, the last first: so are the messages that they named.
    pub(super) fn take_back<'a>(
        &mut self,
        logs: &mut ShardLogs,
        headers: impl Iterator<Item = &'a Header>,
    ) {
        for header in headers {
            for came in &header.came {
                let end = self.end_mut(came.lane);
                *end = (*end).min(came.range.start);
            }
        }
        self.cut(logs);
    }

    /// Takes messages back that no header names.
    pub(super) fn cut(&mut self, logs: &mut ShardLogs) {
        for (lane, end) in &self.known {
            logs.truncate(log_of(self.queue, *lane), *end);
        }
    }

    /// Deletes all logs.
    pub(super) fn delete(&self, logs: &mut ShardLogs) {
        for (lane, _) in &self.known {
            logs.delete_log(log_of(self.queue, *lane));
        }
    }
}
