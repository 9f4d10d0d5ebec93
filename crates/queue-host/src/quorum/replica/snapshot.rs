//! The state of a queue on its way to a member that is too far behind for entries.
//!
//! ```text
//! offer  kind u8 = 3 | matched | length, message of the group | length, blob | priority logs: count, (priority log u8 | end | ranges: count, (start | count))
//! want   kind u8 = 4 | to u64 | mark | priority logs: count, (priority log u8 | next)
//! part   kind u8 = 5 | to u64 | mark | number | last u8 | messages: (priority log u8 | index | length | bytes)*
//! got    kind u8 = 6 | to u64 | mark | number
//! gone   kind u8 = 7 | to u64          the receiver is no member any more
//! ```
//! The leader offers its state as it is now: the blob, and which messages live. The member says
//! from where on it needs messages, for what it has of the priority logs is right as far as its log
//! is. It appends what comes to its priority logs; with the last part it settles what does not live
//! any more, and the group takes the mark in. What leaves at the leader meanwhile is left out, for
//! a header tells the member later.
//!
//! Invariant: of one transfer no more than a window of parts is under way, and of a shard no more
//! transfers than [`Transfers`] lets begin. A group asks again for what could not.

use super::applied_state::{Applied, Unreadable, take_replica};
use super::header::priority_log as take_priority_log;
use super::transfers::{LivePriorityLog, PART, Receiving, Sending};
use super::wire::{Malformed, Reader, put, put_range};
use super::{Replica, ShardContext, restore};
use crate::events::PeerFrame;
use crate::stored;
use bytes::Bytes;
use leveret_replication::{Body, Group, Message, SnapshotMark, store_snapshot};
use leveret_storage::ShardLogs;
use leveret_types::limits::{QUORUM_PARTS_IN_FLIGHT, QUORUM_TRANSFER_SILENCE_MS};
use leveret_types::{NodeId, RangeSet, ReplicaId};

/// First bytes of frames.
pub(super) const OFFER: u8 = 3;
pub(super) const WANT: u8 = 4;
pub(super) const GOT: u8 = 6;
pub(super) const GONE: u8 = 7;

/// The number of a part that says: nothing is needed any more.
const ALL: u64 = u64::MAX;

impl Replica {
    /// Another member needs the state: begins to send it.
    pub(super) fn begin_snapshot(&mut self, context: &mut ShardContext<'_>, message: Message) {
        let to = message.to;
        let Body::Snapshot(mark) = &message.body else {
            return;
        };
        // One at a time: the group asks again.
        let sending = self.sending.as_ref();
        let is_busy = sending.is_some_and(|sending| sending.to != to);
        if is_busy || mark.index != self.group.last_applied() {
            return self.group.report_snapshot(to, false);
        }
        self.sending = None;
        let Some(place) = context.transfers.begin() else {
            return self.group.report_snapshot(to, false);
        };
        let priority_logs: Vec<LivePriorityLog> = self
            .applied
            .priority_logs
            .iter()
            // Of a view all is in the state.
            .filter(|_| self.spec.view.is_none())
            .map(|state| LivePriorityLog {
                priority_log: state.priority_log,
                end: state.end,
                live: context
                    .logs
                    .live(self.priority_logs.log(state.priority_log))
                    .within(0..state.end)
                    .collect(),
            })
            .collect();
        let matched = self.group.status().members;
        let matched = matched.iter().find(|member| member.replica == to);
        let mut out = vec![OFFER];
        put(&mut out, matched.map_or(0, |member| member.matched));
        let mut bytes = Vec::new();
        message.encode(&mut bytes);
        put(&mut out, bytes.len() as u64);
        out.extend_from_slice(&bytes);
        let state = Applied {
            votes_from: 0,
            votes_from_term: 0,
            ..self.applied.clone()
        };
        let blob = state.encode(mark);
        put(&mut out, blob.len() as u64);
        out.extend_from_slice(&blob);
        put(&mut out, priority_logs.len() as u64);
        for priority_log in &priority_logs {
            out.push(priority_log.priority_log);
            put(&mut out, priority_log.end);
            put(&mut out, priority_log.live.interval_count() as u64);
            priority_log
                .live
                .iter()
                .for_each(|range| put_range(&mut out, &range));
        }
        self.sending = Some(Box::new(Sending {
            _place: place,
            to,
            mark: mark.index,
            priority_logs,
            at: (0, 0),
            next: 1,
            unanswered: 1,
            is_wanted: false,
            is_done: false,
            alive_ms: context.now.monotonic_ms,
        }));
        self.post(context, to, out);
    }

    fn post(&self, context: &mut ShardContext<'_>, to: ReplicaId, bytes: Vec<u8>) {
        let frame = PeerFrame::new(self.id, bytes);
        context.effects.peer.push((to.node(), frame));
    }

    /// Takes a frame of a transfer, from the node that is its other end or from one that was the
    /// other end of an earlier transfer with the same mark: what that one says means nothing.
    pub(super) fn receive_snapshot(
        &mut self,
        context: &mut ShardContext<'_>,
        from: NodeId,
        kind: u8,
        frame: &Bytes,
    ) -> Result<(), Malformed> {
        match kind {
            OFFER => self.offered(context, from, frame),
            WANT => self.wanted(context, from, frame),
            PART => self.part(context, from, frame),
            _ => self.got(context, from, frame),
        }
    }

    fn offered(
        &mut self,
        context: &mut ShardContext<'_>,
        node: NodeId,
        frame: &Bytes,
    ) -> Result<(), Malformed> {
        let (matched, message, applied, priority_logs) = decode_offer(frame)?;
        let Body::Snapshot(mark) = &message.body else {
            return Err(Reader::new(frame).fail("a message with a mark"));
        };
        let from = message.from;
        let is_for_me = message.to == self.group.replica() && from.node() == node;
        if !is_for_me || message.term < self.group.term() {
            return Ok(());
        }
        let index = mark.index;
        let is_here = self.group.term_at(index) == Some(mark.term);
        if index <= self.group.last_applied() || is_here {
            self.step_snapshot(context, message);
            self.say_got(context, from, index, ALL);
            return Ok(());
        }
        self.abandon_receiving(context.logs);
        self.take_back_doubtful(context, message.term, matched);
        let mut out = vec![WANT];
        out.extend_from_slice(&from.0.to_le_bytes());
        put(&mut out, index);
        put(&mut out, priority_logs.len() as u64);
        for priority_log in &priority_logs {
            let stats = context
                .logs
                .log_stats(self.priority_logs.log(priority_log.priority_log));
            out.push(priority_log.priority_log);
            put(&mut out, stats.map_or(0, |stats| stats.next_index));
        }
        self.receiving = Some(Box::new(Receiving {
            from,
            message,
            mark: index,
            applied,
            priority_logs,
            next: 1,
        }));
        self.post(context, from, out);
        Ok(())
    }

    /// Takes back what may not be the group's: entries that are neither applied nor known to be the
    /// own ones of the leader of `term`, by that leader as it made its offer or by what it was told
    /// here, which may have crossed the offer. If some of them are committed after all, the state
    /// that comes has what they say; until then this member elects nobody.
    ///
    /// It is in that term from now on: an earlier leader counts on what is taken back, and is not
    /// heard any more.
    fn take_back_doubtful(&mut self, context: &mut ShardContext<'_>, term: u64, matched: u64) {
        let last = self.group.last_index();
        let applied = self.group.last_applied();
        let agreed = matched.max(self.group.acknowledged_in(term));
        let kept = agreed.min(last).max(applied);
        if kept == last {
            return;
        }
        let Some(mark) = self.group.mark(applied) else {
            return;
        };
        context.logs.truncate(self.header_log(), kept + 1);
        self.take_back(context.logs, kept + 1);
        let last_term = self.group.term_at(last).unwrap_or_default();
        self.applied.took_back(last, last_term);
        if term > self.group.term() {
            context.logs.set_term_and_vote(self.header_log(), term, 0);
        }
        store_snapshot(self, context);
        let entries: Vec<_> = self
            .tail
            .iter()
            .map(|pending| pending.entry.clone())
            .collect();
        let me = self.group.replica();
        let hard = self.group.log().hard_state(context.logs);
        let config = restore::config(self.id, me);
        match Group::new(config, hard, mark, entries, applied) {
            Ok(group) => self.group.restart(group),
            Err(error) => panic!("what was a group is none any more: {error}"),
        }
        self.leads = None;
        self.take_leader(context);
        self.begin(context.up, false);
    }

    fn wanted(
        &mut self,
        context: &mut ShardContext<'_>,
        from: NodeId,
        frame: &Bytes,
    ) -> Result<(), Malformed> {
        let (mut reader, mark) = match self.sending_of(frame)? {
            Some(found) => found,
            None => return Ok(()),
        };
        let mut wants = Vec::new();
        for _ in 0..reader.count("priority logs")? {
            wants.push((
                take_priority_log(&mut reader)?,
                reader.number("a priority log's end")?,
            ));
        }
        reader.end("what follows priority logs")?;
        if let Some(sending) = self.sending.as_mut().filter(|s| s.is(mark, from)) {
            for (priority_log, next) in wants {
                if let Some(found) = sending
                    .priority_logs
                    .iter_mut()
                    .find(|of| of.priority_log == priority_log)
                {
                    found.live.remove_range(0..next);
                }
            }
            sending.is_wanted = true;
            sending.alive_ms = context.now.monotonic_ms;
        }
        self.send_parts(context);
        Ok(())
    }

    fn got(
        &mut self,
        context: &mut ShardContext<'_>,
        from: NodeId,
        frame: &Bytes,
    ) -> Result<(), Malformed> {
        let (mut reader, mark) = match self.sending_of(frame)? {
            Some(found) => found,
            None => return Ok(()),
        };
        let number = reader.number("a part's number")?;
        let Some(sending) = self.sending.as_mut().filter(|s| s.is(mark, from)) else {
            return Ok(());
        };
        sending.unanswered = sending
            .unanswered
            .max(number.saturating_add(1).min(sending.next));
        let to = sending.to;
        sending.alive_ms = context.now.monotonic_ms;
        if number == ALL || (sending.is_done && sending.unanswered == sending.next) {
            self.sending = None;
            self.group.report_snapshot(to, true);
            return Ok(());
        }
        self.send_parts(context);
        Ok(())
    }

    /// What a frame to a sender begins with, if it is this member's.
    fn sending_of<'a>(&self, frame: &'a Bytes) -> Result<Option<(Reader<'a>, u64)>, Malformed> {
        let mut reader = Reader::new(frame);
        let to = take_replica(&mut reader)?;
        let mark = reader.number("a mark")?;
        Ok((to == self.group.replica()).then_some((reader, mark)))
    }

    /// Gives a transfer up that the other member has turned away from: it has gone, or takes
    /// entries instead. The group asks again for what is still needed.
    pub(super) fn give_up_silent(&mut self, context: &ShardContext<'_>) {
        let silent = |alive_ms| context.now.monotonic_ms >= alive_ms + QUORUM_TRANSFER_SILENCE_MS;
        if let Some(sending) = self.sending.take_if(|sending| silent(sending.alive_ms)) {
            self.group.report_snapshot(sending.to, false);
        }
    }

    /// Sends what the window allows and the logs have at hand.
    pub(super) fn send_parts(&mut self, context: &mut ShardContext<'_>) {
        let Some(mut sending) = self.sending.take() else {
            return;
        };
        while sending.is_wanted
            && !sending.is_done
            && sending.next - sending.unanswered < QUORUM_PARTS_IN_FLIGHT
        {
            let Some(part) = sending.part(self.id, context.logs) else {
                self.note_corruption(context.logs);
                break;
            };
            self.post(context, sending.to, part);
        }
        self.sending = Some(sending);
    }

    fn part(
        &mut self,
        context: &mut ShardContext<'_>,
        node: NodeId,
        frame: &Bytes,
    ) -> Result<(), Malformed> {
        let mut reader = Reader::new(frame);
        let to = take_replica(&mut reader)?;
        let mark = reader.number("a mark")?;
        let number = reader.number("a part's number")?;
        let is_last = reader.u8("whether it is the last part")? == 1;
        let is_it = |r: &Receiving| r.from.node() == node && r.mark == mark && r.next == number;
        let Some(receiving) = self.receiving.as_mut().filter(|r| is_it(r)) else {
            return Ok(());
        };
        if to != self.group.replica() {
            return Ok(());
        }
        receiving.next += 1;
        let from = receiving.from;
        while reader.left() > 0 {
            let priority_log = take_priority_log(&mut reader)?;
            let index = reader.number("an index")?;
            let len = reader.count("a message")?;
            let bytes = reader.bytes(len, "a message")?;
            let (summary, size) = stored::summary(bytes).ok_or(reader.fail("a message"))?;
            let message = (size, summary.expiration_ms.is_some());
            self.priority_logs
                .append_at(context.logs, (priority_log, index), bytes, message);
        }
        self.say_got(context, from, mark, number);
        if is_last && let Some(receiving) = &self.receiving {
            let message = receiving.message.clone();
            self.step_snapshot(context, message);
            // If the group did not want it any more.
            self.abandon_receiving(context.logs);
        }
        Ok(())
    }

    fn say_got(&self, context: &mut ShardContext<'_>, to: ReplicaId, mark: u64, number: u64) {
        let mut out = vec![GOT];
        out.extend_from_slice(&to.0.to_le_bytes());
        put(&mut out, mark);
        put(&mut out, number);
        self.post(context, to, out);
    }

    /// Tells a replica that it is no member any more.
    pub(super) fn say_gone(&self, context: &mut ShardContext<'_>, to: ReplicaId) {
        let mut out = vec![GONE];
        out.extend_from_slice(&to.0.to_le_bytes());
        self.post(context, to, out);
    }

    /// The leader says that this replica is no member any more. It believes that if the catalogue
    /// says so too.
    pub(super) fn on_gone(&mut self, frame: &Bytes) -> Result<(), Malformed> {
        let me = self.group.replica();
        let mut reader = Reader::new(frame);
        let to = take_replica(&mut reader)?;
        self.is_gone = to == me && !self.spec.members.contains(&me);
        Ok(())
    }

    fn step_snapshot(&mut self, context: &mut ShardContext<'_>, message: Message) {
        if let Err(error) = self.step(context, message, std::collections::VecDeque::new()) {
            tracing::warn!(queue = %self.id, %error, "ignored a snapshot that does not fit");
        }
    }

    /// Gives up what has come of a state so far.
    pub(super) fn abandon_receiving(&mut self, logs: &mut ShardLogs) {
        if self.receiving.take().is_some() {
            self.priority_logs.cut(logs);
        }
    }

    /// The group takes the mark of the state in that has come: so do the messages' logs.
    pub(super) fn take_in_state(&mut self, context: &mut ShardContext<'_>, mark: &SnapshotMark) {
        let receiving = self.receiving.take().filter(|r| r.mark == mark.index);
        let Some(receiving) = receiving else {
            panic!("queue {} takes in a state that did not come", self.id);
        };
        self.tail.clear();
        for priority_log in &receiving.priority_logs {
            let log = self
                .priority_logs
                .open(context.logs, priority_log.priority_log);
            context.logs.skip_to(log, priority_log.end);
            context.logs.truncate(log, priority_log.end);
            settle_dead(context.logs, log, &priority_log.live);
            self.priority_logs
                .set_end(priority_log.priority_log, priority_log.end);
        }
        let own = &self.applied;
        self.applied = Applied {
            replica: own.replica,
            votes_from: own.votes_from,
            votes_from_term: own.votes_from_term,
            ..receiving.applied
        };
    }
}

/// Settles what lives in a log but not in the state.
fn settle_dead(logs: &mut ShardLogs, log: leveret_types::LogId, live: &RangeSet) {
    let mut dead = logs.live(log);
    for range in live.iter() {
        dead.remove_range(range);
    }
    for range in dead.iter() {
        let stats = logs.log_stats(log).unwrap_or_default();
        let count = range.end - range.start;
        let bytes = u128::from(stats.bytes) * u128::from(count) / u128::from(stats.entries.max(1));
        logs.settle(log, range, bytes as u64);
    }
}

type Offer = (u64, Message, Applied, Vec<LivePriorityLog>);

fn decode_offer(frame: &Bytes) -> Result<Offer, Malformed> {
    let mut reader = Reader::new(frame);
    let matched = reader.number("what is matched")?;
    let len = reader.count("a message of the group")?;
    let bytes = Bytes::copy_from_slice(reader.bytes(len, "a message of the group")?);
    let (message, taken) =
        Message::decode(&bytes).map_err(|_| reader.fail("a message of the group"))?;
    if taken != bytes.len() {
        return Err(reader.fail("a message of the group"));
    }
    let len = reader.count("a state")?;
    let state = Applied::decode(reader.bytes(len, "a state")?);
    let (applied, mark) = state.map_err(|error| match error {
        Unreadable::Version(_) => reader.fail("a state of this version"),
        Unreadable::Malformed(error) => error,
    })?;
    if message.body != Body::Snapshot(mark) {
        return Err(reader.fail("a state with that mark"));
    }
    let mut priority_logs: Vec<LivePriorityLog> = Vec::new();
    for _ in 0..reader.count("priority logs")? {
        let priority_log = take_priority_log(&mut reader)?;
        let end = reader.number("a priority log's end")?;
        let is_known = |of: &LivePriorityLog| of.priority_log == priority_log;
        if priority_logs.iter().any(is_known)
            || applied.priority_log(priority_log).map(|state| state.end) != Some(end)
        {
            return Err(reader.fail("a priority log of the state"));
        }
        let mut live = RangeSet::new();
        for _ in 0..reader.count("live messages")? {
            let range = reader.range("live messages")?;
            if live.last().is_some_and(|last| last + 1 >= range.start) || range.end > end {
                return Err(reader.fail("live messages in order"));
            }
            live.insert_range(range);
        }
        priority_logs.push(LivePriorityLog {
            priority_log,
            end,
            live,
        });
    }
    reader.end("what follows priority logs")?;
    Ok((matched, message, applied, priority_logs))
}
