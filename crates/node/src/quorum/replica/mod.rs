//! A replicated queue's member on this node: its group, its logs, and the leader if it leads.
//!
//! An entry of the group is a batch: a `header` of a few dozen bytes in a log of its own (priority
//! log 255), and the messages that the header names in the queue's priority logs, at the indexes
//! that it names. Messages are appended when the entry is; what leaves does so when the entry is
//! committed. A follower's logs are therefore a queue's logs, and whoever becomes leader does what
//! a restart does: [`leveret_queue::Queue::recover`].
//!
//! Invariant: what the priority logs hold is what the headers name: more only while a leader's
//! batch is open, or a snapshot is under way. Invariant: messages enter the queue machine, and
//! leave the logs, when the header that says so is committed.

mod blank;
mod blob;
mod entry_payload;
mod fuzz;
mod header;
mod host;
mod leader;
mod members;
mod outgoing;
mod priority_logs;
mod restore;
mod retired_replica;
mod sending;
mod serving;
mod snapshot;
mod state;
mod stuck;
#[cfg(test)]
mod tests;
mod transfers;
mod wire;

pub use crate::around::Around;
pub use fuzz::{fuzz, seeds};
pub use host::{ReplicaStatus, Replicas, UnfitReplicas};
pub use state::{PriorityLogContent, ReplicaState};
pub use transfers::Transfers;

use crate::quorum::link::{Answer, Event};
use crate::shard::{QueueSpec, log_of};
use blob::Applied;
use entry_payload::Arrival;
use header::Header;
use leader::Leader;
use leveret_queue::{PriorityLogState, RecoveredPriorityLog, State};
use leveret_replication::{
    Entry, EntryKind, Group, Message, Ready, Role, RoleChange, SnapshotMark, StepError,
};
use leveret_storage::{Durability, ShardLogs};
use leveret_types::limits::QUORUM_HEADERS_KEPT;
use leveret_types::{LogId, NodeId, QueueId, ReplicaId};
use outgoing::Outgoing;
use priority_logs::PriorityLogs;
use std::collections::VecDeque;
use std::ops::Range;

/// The priority log whose log has the headers.
pub const HEADER_LOG: u8 = 255;

/// An entry that is appended and not applied, and what it says if it is a batch.
#[derive(Debug)]
struct Pending {
    entry: Entry,
    header: Header,
}

/// What was handed out by the group to be made durable.
#[derive(Clone, Copy, Debug)]
struct Unsynced {
    number: u64,
    /// The chunk of the write-ahead log that has the last of it.
    chunk: u64,
}

/// Which of the host's lists a replica is in.
#[derive(Clone, Copy, Debug, Default)]
struct Listed {
    dirty: bool,
    open: bool,
    unsynced: bool,
    ticking: bool,
    active: bool,
}

/// One member of a queue's group.
pub(super) struct Replica {
    id: QueueId,
    spec: QueueSpec,
    group: Group,
    /// Who belonged to the group when that changed last.
    members: Vec<ReplicaId>,
    priority_logs: PriorityLogs,
    applied: Applied,
    /// Entries that are appended and not applied.
    tail: VecDeque<Pending>,
    /// Of a leader: the batch that was proposed and is about to be handed out.
    proposed: Option<Header>,
    /// Up to here headers are not in their log any more.
    compacted: u64,
    last_applied: u64,
    unsynced: VecDeque<Unsynced>,
    outgoing: Outgoing,
    /// The term in which this member leads, and its leader once an entry of that term is committed.
    leads: Option<u64>,
    leader: Option<Box<Leader>>,
    /// The state that another member sends to this one.
    receiving: Option<Box<transfers::Receiving>>,
    /// The state that this member sends to another.
    sending: Option<Box<transfers::Sending>>,
    /// Whether it is no member any more, and is to be taken away.
    is_gone: bool,
    /// Whether it has messages that cannot be read, so that it can neither lead nor help others.
    is_corrupt: bool,
    /// Members that do not follow this one, of which that was said.
    reported_stuck: Vec<ReplicaId>,
    /// Which of the host's lists it is in.
    listed: Listed,
    deadline_ms: u64,
}

/// Why a replica must be given up.
#[derive(Clone, Debug, thiserror::Error)]
pub(super) enum Broken {
    #[error("{0}")]
    Group(#[from] StepError),
    #[error("an entry of its log cannot be read: {0}")]
    Entry(#[from] wire::Malformed),
}

impl Replica {
    /// Whether it took entries back that it had acknowledged, and does not have them again.
    fn is_non_voting(&self) -> bool {
        self.group.last_index() < self.applied.votes_from
    }

    fn header_log(&self) -> LogId {
        log_of(self.id, HEADER_LOG)
    }

    /// The node that leads, as far as is known here.
    fn leader_node(&self) -> Option<NodeId> {
        self.group.leader().map(ReplicaId::node)
    }

    /// Does what the group wants done, until it wants nothing more.
    fn drive(&mut self, around: &mut Around<'_>, arrived: &mut VecDeque<Arrival>) {
        loop {
            while let Some(ready) = self.group.ready() {
                self.take(around, ready, arrived);
            }
            if !self.settle_durable(around.logs) {
                break;
            }
        }
    }

    /// Tells the group what has become durable; whether anything has.
    fn settle_durable(&mut self, logs: &ShardLogs) -> bool {
        let through = logs.durable_through();
        let mut last = None;
        while let Some(next) = self.unsynced.front().filter(|next| next.chunk <= through) {
            last = Some(next.number);
            self.unsynced.pop_front();
        }
        match last {
            Some(number) => self.group.persisted(number),
            None => return false,
        }
        true
    }

    fn take(&mut self, around: &mut Around<'_>, ready: Ready, arrived: &mut VecDeque<Arrival>) {
        let leads = |role: &RoleChange| role.role == Role::Leader && self.leads == Some(role.term);
        if let Some(role) = ready.role.filter(|role| !leads(role)) {
            self.step_down(around, role);
        }
        if let Some(mark) = &ready.install {
            self.install(around, mark);
        }
        if let Some(hard) = ready.hard_state {
            let log = self.header_log();
            around.logs.set_term_and_vote(log, hard.term, hard.vote);
        }
        if !ready.append.is_empty() {
            self.abandon_receiving(around.logs);
        }
        if let Some(from) = ready.truncate_from {
            self.truncate(around.logs, from);
        }
        for entry in &ready.append {
            self.append(around.logs, entry, arrived);
        }
        if ready.must_sync {
            self.unsynced.push_back(Unsynced {
                number: ready.number,
                chunk: around.logs.position(),
            });
        }
        for message in ready.messages {
            self.send(around, message);
        }
        for message in ready.snapshots {
            self.begin_snapshot(around, message);
        }
        if let Some(role) = ready.role.filter(|role| role.role == Role::Leader) {
            self.leads = Some(role.term);
        }
        let last = ready.committed.last().map(|entry| entry.index);
        for entry in ready.committed {
            self.apply(around, &entry);
        }
        let has_new_members = ready.membership.is_some();
        if let Some(now) = ready.membership {
            self.members_changed(around, &now);
            self.members = now.members();
            self.note_if_gone();
        }
        if let Some(index) = last {
            self.group.applied(index);
            self.last_applied = index;
            self.compact(around.logs, has_new_members);
        }
    }

    /// Takes entries back that another leader overwrites.
    fn truncate(&mut self, logs: &mut ShardLogs, from: u64) {
        logs.truncate(self.header_log(), from);
        let kept = self
            .tail
            .partition_point(|pending| pending.entry.index < from);
        let taken = self.tail.drain(kept..);
        let taken: Vec<Header> = taken.rev().map(|pending| pending.header).collect();
        self.priority_logs.take_back(logs, taken.iter());
        self.outgoing.forget_from(from);
    }

    /// Appends an entry: its messages, if they are not there, and its header.
    fn append(&mut self, logs: &mut ShardLogs, entry: &Entry, arrived: &mut VecDeque<Arrival>) {
        while arrived.front().is_some_and(|a| a.index < entry.index) {
            arrived.pop_front();
        }
        let is_it = |a: &mut Arrival| a.index == entry.index && a.term == entry.term;
        let header = match arrived.pop_front_if(is_it) {
            Some(Arrival { header, bodies, .. }) => {
                self.priority_logs.append_arrived(logs, &header, &bodies);
                header
            }
            None if entry.kind == EntryKind::Normal => match self.proposed.take() {
                Some(header) => header,
                None => panic!(
                    "entry {} of queue {} came from nowhere",
                    entry.index, self.id
                ),
            },
            None => Header::default(),
        };
        self.tail.push_back(Pending {
            entry: entry.clone(),
            header,
        });
        let mut record = Vec::with_capacity(entry.data.len() + 16);
        entry.encode_record(&mut record);
        let log = self.header_log();
        let body = logs.body(Durability::Durable, &[&record]);
        let index = logs.append(log, body, record.len() as u32);
        assert_eq!(
            index, entry.index,
            "headers of queue {} have a hole",
            self.id
        );
    }

    /// Applies an entry that is committed.
    fn apply(&mut self, around: &mut Around<'_>, entry: &Entry) {
        if entry.index <= self.last_applied {
            return;
        }
        let pending = self.tail.pop_front();
        let Some(Pending { header, .. }) = pending.filter(|p| p.entry.index == entry.index) else {
            panic!("entry {} of queue {} is not here", entry.index, self.id);
        };
        match entry.kind {
            EntryKind::Normal => self.apply_header(around, entry, &header),
            // The first entry of this member's own term: all before it is committed.
            EntryKind::Empty if self.leads == Some(entry.term) => {
                self.begin_to_lead(around, entry.index);
            }
            EntryKind::Empty | EntryKind::Membership => {}
        }
    }

    fn apply_header(&mut self, around: &mut Around<'_>, entry: &Entry, header: &Header) {
        for left in &header.left {
            let log = self.priority_logs.log(left.priority_log);
            around.logs.settle(log, left.range.clone(), left.bytes);
        }
        self.applied.apply(header);
        self.outgoing.applied(entry.index);
        if self.leads == Some(entry.term)
            && let Some(leader) = &mut self.leader
        {
            leader.committed(around, entry.index, header);
        }
    }

    fn begin_to_lead(&mut self, around: &mut Around<'_>, entry: u64) {
        let Some(term) = self.leads else {
            return;
        };
        let mut recovered: Vec<RecoveredPriorityLog> = Vec::new();
        let mut state = State::default();
        let mut numbers: Vec<u8> = self.priority_logs.numbers().collect();
        numbers.sort_unstable();
        for priority_log in numbers {
            let log = self.priority_logs.log(priority_log);
            let Some(stats) = around.logs.log_stats(log) else {
                continue;
            };
            recovered.push(RecoveredPriorityLog {
                priority_log,
                live: around.logs.live(log),
                bytes: stats.bytes,
                next_index: stats.next_index,
            });
            state.priority_logs.push(PriorityLogState {
                priority_log,
                may_expire: self.priority_logs.may_expire(priority_log),
                delivered_through: self
                    .applied
                    .priority_log(priority_log)
                    .map_or(0, |state| state.delivered),
                returns: self.applied.returns(priority_log),
                leaving: self
                    .applied
                    .leaving(priority_log)
                    .map(|(range, _)| range)
                    .collect(),
            });
        }
        let mut nodes = around.up.to_vec();
        nodes.push(around.node);
        let (queue, spec) = (self.id, &self.spec);
        let recovered = (recovered, &state);
        let begun = (entry, term);
        let mut leader = Leader::new(around.now, queue, begun, spec, recovered, nodes.clone());
        for state in &self.applied.priority_logs {
            for (range, reason) in state.leaving.iter() {
                leader.was_leaving(state.priority_log, range, reason);
            }
        }
        self.leader = Some(Box::new(leader));
        for to in nodes {
            around.answers.push(Answer {
                to,
                queue,
                session: 0,
                message: Event::Leading { term },
            });
        }
    }

    /// This member does not lead, or not in this term.
    fn step_down(&mut self, around: &mut Around<'_>, role: RoleChange) {
        self.leads = None;
        self.sending = None;
        self.outgoing.clear();
        let Some(leader) = self.leader.take() else {
            return;
        };
        // The batch that was open goes with the leader.
        self.priority_logs.cut(around.logs);
        let to = role.leader.map(ReplicaId::node);
        for (node, _) in leader.sessions() {
            around.answers.push(Answer {
                to: node,
                queue: self.id,
                session: 0,
                message: Event::NotLeader {
                    term: role.term,
                    leader: to,
                },
            });
        }
    }

    /// Proposes what the leader has gathered; whether there is room for more.
    fn close_batch(&mut self, around: &mut Around<'_>) -> bool {
        let Some(leader) = &mut self.leader else {
            return false;
        };
        let Some(closed) = leader.close(&self.priority_logs) else {
            return true;
        };
        match self.group.propose(closed.header.encode()) {
            Ok((index, _)) => {
                leader.proposed(index);
                self.priority_logs.cover(&closed.header);
                self.outgoing.keep(index, closed.entry_payload);
                self.proposed = Some(closed.header);
            }
            Err(error) => {
                tracing::debug!(queue = %self.id, %error, "a batch waits");
                leader.reopen(closed);
                return false;
            }
        }
        self.drive(around, &mut VecDeque::new());
        true
    }

    /// Takes operations that wait, and proposes full batches.
    fn work(&mut self, around: &mut Around<'_>) {
        while let Some(leader) = &mut self.leader {
            leader.take_waiting(around, &mut self.priority_logs);
            let full = leader.wants_close();
            if !full || !self.close_batch(around) {
                break;
            }
        }
    }

    /// Lets the leader act on what has happened.
    fn pump(&mut self, around: &mut Around<'_>) {
        if !self.has_wanted_members() {
            self.reconcile(around);
        }
        self.work(around);
        if let Some(leader) = &mut self.leader
            && leader.dirty
        {
            leader.set_matched(self.group.matched());
            leader.pump(around);
        }
        self.work(around);
    }

    /// Forgets headers that the state stands for, if they are many. The state is written as well
    /// if it `has_new_members`: a restart begins with those of the state, for what was committed
    /// after it is not on the disk.
    fn compact(&mut self, logs: &mut ShardLogs, has_new_members: bool) {
        let are_many = self.last_applied >= self.compacted + QUORUM_HEADERS_KEPT;
        if !are_many && !has_new_members {
            return;
        }
        let Some(mark) = self.group.mark(self.last_applied) else {
            return;
        };
        self.write_state(logs, &mark);
        // Until they are many, those who lack some are sent them rather than all that lives.
        if are_many {
            self.group.compacted(mark.index);
        }
    }

    fn write_state(&mut self, logs: &mut ShardLogs, mark: &SnapshotMark) {
        let blob = self.applied.encode(mark);
        logs.set_snapshot(self.header_log(), mark.index + 1, &blob);
        self.compacted = mark.index;
    }

    /// Messages that were read from disk have come.
    fn loaded(&mut self, around: &mut Around<'_>) {
        self.retry_outgoing(around);
        if let Some(leader) = &mut self.leader {
            leader.loaded(around);
        }
    }

    fn dead_lettered(&mut self, around: &mut Around<'_>, priority_log: u8, range: Range<u64>) {
        if let Some(leader) = &mut self.leader {
            leader.dead_lettered(around, priority_log, range);
        }
    }

    /// Takes a message of another member, and what has come behind its entries.
    fn step(
        &mut self,
        around: &mut Around<'_>,
        message: Message,
        mut arrived: VecDeque<Arrival>,
    ) -> Result<(), Broken> {
        // The group has another member on this node, so that it has let this one go.
        if message.to != self.group.replica() && self.spec.members.contains(&message.to) {
            self.is_gone = message.to.node() == around.node;
            return Ok(());
        }
        let takes_part = !around.is_outdated && !self.is_non_voting();
        if !takes_part && message.body.is_of_election() {
            return Ok(());
        }
        match self.group.step(message) {
            Ok(()) => {}
            Err(error @ (StepError::LostEntries(_) | StepError::Diverged(_))) => {
                return Err(error.into());
            }
            Err(error) => {
                tracing::debug!(queue = %self.id, %error, "a message of the group is passed over");
            }
        }
        self.drive(around, &mut arrived);
        if !self.has_wanted_members()
            && let Some(leader) = &mut self.leader
        {
            leader.dirty = true;
        }
        Ok(())
    }
}
