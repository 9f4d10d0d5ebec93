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
mod leadership;
mod members;
mod outgoing;
mod priority_logs;
mod restore;
mod retired_replica;
mod snapshot;
mod spare;
mod state;
mod stuck;
#[cfg(test)]
mod tests;
mod transfers;
mod wire;

pub use crate::around::Around;
pub use fuzz::{fuzz, seeds};
pub use host::{ReplicaStatus, Replicas, UnfitReplicas};
pub(crate) use restore::Adopted;
pub use state::{PriorityLogContent, ReplicaState};
pub use transfers::Transfers;

use crate::group_log::GroupLog;
use crate::quorum::link::{Operation, Registration};
use crate::serving::{Credit, Query, ServesNodes};
use crate::shard::{QueueSpec, log_of};
use blob::Applied;
use entry_payload::Arrival;
use header::Header;
use leader::Leader;
use leveret_queue::Consumer;
use leveret_replication::{
    Body, Entry, EntryKind, Host, LogStore, LogWrite, Machine, Membership, Message, Role,
    RoleChange, SnapshotMark, StepError, drive, step,
};
use leveret_storage::ShardLogs;
use leveret_types::limits::QUORUM_HEADERS_KEPT;
use leveret_types::{ConsumerId, LogId, NodeId, QueueId, ReplicaId};
use outgoing::Outgoing;
use priority_logs::PriorityLogs;
use spare::Pace;
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
    /// Its group, with the log of the headers.
    group: Host<GroupLog>,
    /// Who belonged to the group when that changed last.
    members: Vec<ReplicaId>,
    priority_logs: PriorityLogs,
    applied: Applied,
    /// Entries that are appended and not applied.
    tail: VecDeque<Pending>,
    /// Of a leader: the batch that was proposed and is about to be handed out.
    proposed: Option<Header>,
    /// What has come behind entries that the group has just been given.
    arrived: VecDeque<Arrival>,
    outgoing: Outgoing,
    /// The term in which this member leads, and its leader once an entry of that term is committed.
    leads: Option<u64>,
    leader: Option<Box<Leader>>,
    /// Requests and readers of a view that led here before: see
    /// [`crate::stream_view::StreamView::of_group`].
    view_numbers: u32,
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
    pace: Pace,
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
        let last = self.group.last_index();
        let term = self.group.term_at(last).unwrap_or_default();
        last < self.applied.votes_from && !self.applied.is_made_up_by(last, term)
    }

    fn header_log(&self) -> LogId {
        log_of(self.id, HEADER_LOG)
    }

    /// The node that leads, as far as is known here.
    fn leader_node(&self) -> Option<NodeId> {
        self.group.leader().map(ReplicaId::node)
    }

    /// Does what the group wants done, until it wants nothing more.
    fn drive(&mut self, around: &mut Around<'_>) {
        drive(self, around);
    }

    /// Takes entries back that another leader overwrites, as far as they are not in the group's
    /// log: their messages, and what was kept to send them.
    fn take_back(&mut self, logs: &mut ShardLogs, from: u64) {
        let kept = self
            .tail
            .partition_point(|pending| pending.entry.index < from);
        let taken = self.tail.drain(kept..);
        let taken: Vec<Header> = taken.rev().map(|pending| pending.header).collect();
        self.priority_logs.take_back(logs, taken.iter());
        self.outgoing.forget_from(from);
    }

    /// Appends an entry's messages, if they are not there, and notes what its header says.
    fn append(&mut self, logs: &mut ShardLogs, entry: &Entry) {
        let arrived = &mut self.arrived;
        while arrived.pop_front_if(|a| a.index < entry.index).is_some() {}
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
    }

    fn apply_header(&mut self, around: &mut Around<'_>, entry: &Entry, header: &Header) {
        let in_logs = header.left.iter().filter(|_| self.spec.view.is_none());
        for left in in_logs {
            let log = self.priority_logs.log(left.priority_log);
            around.logs.settle(log, left.range.clone(), left.bytes);
        }
        self.applied.apply(header);
        self.pace.applied_ms = around.now.monotonic_ms;
        self.outgoing.applied(entry.index);
        if self.leads == Some(entry.term)
            && let Some(leader) = &mut self.leader
        {
            leader.committed(around, entry.index, header);
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
                leader.proposed(around.now, index);
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
        self.drive(around);
        true
    }

    /// Takes operations that wait, and proposes full batches, and what comes alone.
    fn work(&mut self, around: &mut Around<'_>) {
        let was_log_awaited = around.logs.is_awaited();
        while let Some(leader) = &mut self.leader {
            leader.take_waiting(around, &mut self.priority_logs);
            let full = leader.wants_close();
            if !full || !self.close_batch(around) {
                break;
            }
        }
        self.propose_alone(around, was_log_awaited);
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
        arrived: VecDeque<Arrival>,
    ) -> Result<(), Broken> {
        // The group has another member on this node, so that it has let this one go.
        if message.to != self.group.replica() && self.spec.members.contains(&message.to) {
            self.is_gone = message.to.node() == around.node;
            return Ok(());
        }
        match step(self, around, message) {
            Ok(()) => {}
            Err(error) if error.is_final() => return Err(error.into()),
            Err(error) => {
                tracing::debug!(queue = %self.id, %error, "a message of the group is passed over");
            }
        }
        self.arrived = arrived;
        self.drive(around);
        self.arrived = VecDeque::new();
        if !self.has_wanted_members()
            && let Some(leader) = &mut self.leader
        {
            leader.dirty = true;
        }
        Ok(())
    }

    /// Runs something on the leader, if it is here.
    fn on_leader(&mut self, run: impl FnOnce(&mut Leader)) {
        if let Some(leader) = &mut self.leader {
            run(leader);
        }
    }
}

impl LogStore<Around<'_>> for GroupLog {
    fn write(&mut self, around: &mut Around<'_>, write: &LogWrite<'_>) -> u64 {
        (*self).write(around.logs, write);
        around.logs.position()
    }

    fn set_snapshot(&mut self, around: &mut Around<'_>, mark: &SnapshotMark, state: &[u8]) {
        (*self).set_snapshot(around.logs, mark, state);
    }

    fn durable_through(&self, around: &Around<'_>) -> u64 {
        around.logs.durable_through()
    }
}

/// As the machine of its group: what entries mean, and what is beside them.
impl Machine<Around<'_>> for Replica {
    type Log = GroupLog;
    const SNAPSHOT_ENTRIES: u64 = QUORUM_HEADERS_KEPT;

    fn host(&mut self) -> &mut Host<GroupLog> {
        &mut self.group
    }

    /// A member that took back what it had acknowledged still votes for who has all of that.
    fn takes_part(&self, around: &Around<'_>, body: &Body) -> bool {
        let is_made_up = match body {
            Body::Vote {
                index, log_term, ..
            } => self.applied.is_made_up_by(*index, *log_term),
            _ => false,
        };
        !around.is_outdated && (is_made_up || !self.is_non_voting())
    }

    fn role_changed(&mut self, around: &mut Around<'_>, change: RoleChange) {
        let leads = change.role == Role::Leader;
        if !leads || self.leads != Some(change.term) {
            self.step_down(around, change);
        }
        if leads {
            self.leads = Some(change.term);
        }
    }

    fn install(&mut self, around: &mut Around<'_>, mark: &SnapshotMark) -> Vec<u8> {
        self.take_in_state(around, mark);
        self.applied.encode(mark)
    }

    fn appending(&mut self, around: &mut Around<'_>, truncate_from: Option<u64>, new: &[Entry]) {
        self.abandon_receiving(around.logs);
        if self.leads.is_none() {
            self.pace.was_log_awaited = around.logs.is_awaited();
        }
        if let Some(from) = truncate_from {
            self.take_back(around.logs, from);
        }
        for entry in new {
            self.append(around.logs, entry);
        }
        self.note_appended(around, new.len());
    }

    fn written(&mut self, around: &mut Around<'_>, write: &LogWrite<'_>) {
        let has_entries_alone =
            write.install.is_none() && write.hard_state.is_none() && write.truncate_from.is_none();
        if !has_entries_alone || self.pace.was_log_awaited {
            return;
        }
        let is_for_nobody = self.appends_lazily(around);
        if is_for_nobody || self.appends_soon() {
            around.logs.await_nothing();
            self.pace.writes_soon |= !is_for_nobody;
        }
    }

    fn send(&mut self, around: &mut Around<'_>, message: Message) {
        self.send_message(around, message);
    }

    fn send_snapshot(&mut self, around: &mut Around<'_>, message: Message) {
        self.begin_snapshot(around, message);
    }

    fn apply(&mut self, around: &mut Around<'_>, entry: &Entry) {
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

    fn members_changed(&mut self, around: &mut Around<'_>, membership: &Membership) {
        self.tell_who_is_gone(around, membership);
        self.members = membership.members();
        self.note_if_gone();
    }

    fn snapshot(&mut self, _around: &mut Around<'_>, mark: &SnapshotMark) -> Vec<u8> {
        self.applied.encode(mark)
    }
}

/// As remote queues see it: its leader, if it leads; else it says who does.
impl ServesNodes for Replica {
    type Context<'a> = Around<'a>;

    fn present(
        &mut self,
        around: &mut Around<'_>,
        from: NodeId,
        session: u64,
        registration: &Registration,
    ) {
        let applied = &self.applied;
        match &mut self.leader {
            Some(leader) => leader.present(around, from, session, registration, |of| {
                applied.through(of)
            }),
            None => self.refuse(around, from),
        }
    }

    fn absent(&mut self, around: &mut Around<'_>, from: NodeId, term: u64) {
        self.on_leader(|leader| leader.absent(around, from, term));
    }

    fn admits(&mut self, around: &mut Around<'_>, from: NodeId, session: u64) -> bool {
        match &mut self.leader {
            Some(leader) => leader.admits(around, from, session),
            None => {
                self.refuse(around, from);
                false
            }
        }
    }

    fn operations(
        &mut self,
        around: &mut Around<'_>,
        from: NodeId,
        session: u64,
        first: u64,
        operations: Vec<Operation>,
    ) {
        self.on_leader(|leader| leader.operations(around, from, session, first, operations));
        self.work(around);
    }

    fn attach(&mut self, around: &mut Around<'_>, from: NodeId, consumer: Consumer) {
        self.on_leader(|leader| leader.attach(around, from, consumer));
    }

    fn cancel(&mut self, around: &mut Around<'_>, from: NodeId, consumer: ConsumerId) {
        self.on_leader(|leader| leader.cancel(around, from, consumer));
    }

    fn detach(&mut self, around: &mut Around<'_>, from: NodeId, subscription: ConsumerId) {
        self.on_leader(|leader| leader.detach(around, from, subscription));
    }

    fn credit(
        &mut self,
        around: &mut Around<'_>,
        _from: NodeId,
        consumer: ConsumerId,
        Credit { messages, bytes }: Credit,
    ) {
        self.on_leader(|leader| leader.credit(around, consumer, messages, bytes));
    }

    fn ask(&mut self, around: &mut Around<'_>, from: NodeId, session: u64, what: Query) {
        self.on_leader(|leader| leader.query(around, from, session, what));
    }
}
