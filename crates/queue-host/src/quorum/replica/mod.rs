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

mod applied_state;
mod blank;
mod comparison;
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
mod shared_bytes;
mod snapshot;
mod spare;
mod stuck;
#[cfg(test)]
mod tests;
mod transfers;
mod wire;

pub use crate::shard_context::ShardContext;
pub use comparison::{PriorityLogContent, ReplicaState};
pub use fuzz::{fuzz, seeds};
pub use host::{ReplicaStatus, Replicas, UnfitReplicas};
pub(crate) use restore::Adopted;
pub use transfers::Transfers;

use crate::group_log::GroupLog;
use crate::quorum::protocol::{Operation, Registration};
use crate::serving::{Credit, Query, ServesNodes};
use crate::shard::{QueueSpec, log_of};
use applied_state::Applied;
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
    fn drive(&mut self, context: &mut ShardContext<'_>) {
        drive(self, context);
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

    fn apply_header(&mut self, context: &mut ShardContext<'_>, entry: &Entry, header: &Header) {
        let in_logs = header.left.iter().filter(|_| self.spec.view.is_none());
        for left in in_logs {
            let log = self.priority_logs.log(left.priority_log);
            context.logs.settle(log, left.range.clone(), left.bytes);
        }
        self.applied.apply(header);
        self.pace.applied_ms = context.now.monotonic_ms;
        self.outgoing.applied(entry.index);
        if self.leads == Some(entry.term)
            && let Some(leader) = &mut self.leader
        {
            leader.committed(context, entry.index, header);
        }
    }

    /// Proposes what the leader has gathered; whether there is room for more.
    fn close_batch(&mut self, context: &mut ShardContext<'_>) -> bool {
        let Some(leader) = &mut self.leader else {
            return false;
        };
        let Some(closed) = leader.close(&self.priority_logs) else {
            return true;
        };
        match self.group.propose(closed.header.encode()) {
            Ok((index, _)) => {
                leader.proposed(context.now, index);
                self.priority_logs.cover(&closed.header);
                let together = &context.transfers.kept;
                self.outgoing.keep(index, closed.entry_payload, together);
                self.proposed = Some(closed.header);
            }
            Err(error) => {
                tracing::debug!(queue = %self.id, %error, "a batch waits");
                leader.reopen(closed);
                return false;
            }
        }
        self.drive(context);
        true
    }

    /// Takes operations that wait, and proposes full batches, and what comes alone.
    fn work(&mut self, context: &mut ShardContext<'_>) {
        let was_log_awaited = context.logs.is_awaited();
        while let Some(leader) = &mut self.leader {
            leader.take_waiting(context, &mut self.priority_logs);
            let full = leader.wants_close();
            if !full || !self.close_batch(context) {
                break;
            }
        }
        self.propose_alone(context, was_log_awaited);
    }

    /// Lets the leader act on what has happened.
    fn pump(&mut self, context: &mut ShardContext<'_>) {
        if !self.has_wanted_members() {
            self.reconcile(context);
        }
        self.work(context);
        if let Some(leader) = &mut self.leader
            && leader.dirty
        {
            leader.set_matched(self.group.matched());
            leader.pump(context);
        }
        self.work(context);
    }

    /// Messages that were read from disk have come.
    fn loaded(&mut self, context: &mut ShardContext<'_>) {
        self.retry_outgoing(context);
        if let Some(leader) = &mut self.leader {
            leader.loaded(context);
        }
    }

    fn dead_lettered(
        &mut self,
        context: &mut ShardContext<'_>,
        priority_log: u8,
        range: Range<u64>,
    ) {
        if let Some(leader) = &mut self.leader {
            leader.dead_lettered(context, priority_log, range);
        }
    }

    /// Takes a message of another member, and what has come behind its entries.
    fn step(
        &mut self,
        context: &mut ShardContext<'_>,
        message: Message,
        arrived: VecDeque<Arrival>,
    ) -> Result<(), Broken> {
        // The group has another member on this node, so that it has let this one go.
        if message.to != self.group.replica() && self.spec.members.contains(&message.to) {
            self.is_gone = message.to.node() == context.node;
            return Ok(());
        }
        match step(self, context, message) {
            Ok(()) => {}
            Err(error) if error.is_final() => return Err(error.into()),
            Err(error) => {
                tracing::debug!(queue = %self.id, %error, "a message of the group is passed over");
            }
        }
        self.arrived = arrived;
        self.drive(context);
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

impl LogStore<ShardContext<'_>> for GroupLog {
    fn write(&mut self, context: &mut ShardContext<'_>, write: &LogWrite<'_>) -> u64 {
        (*self).write(context.logs, write);
        context.logs.position()
    }

    fn set_snapshot(&mut self, context: &mut ShardContext<'_>, mark: &SnapshotMark, state: &[u8]) {
        (*self).set_snapshot(context.logs, mark, state);
    }

    fn durable_through(&self, context: &ShardContext<'_>) -> u64 {
        context.logs.durable_through()
    }
}

/// As the machine of its group: what entries mean, and what is beside them.
impl Machine<ShardContext<'_>> for Replica {
    type Log = GroupLog;

    fn is_snapshot_due(&self, entries: u64) -> bool {
        entries >= QUORUM_HEADERS_KEPT
    }

    fn host(&mut self) -> &mut Host<GroupLog> {
        &mut self.group
    }

    /// A member that took back what it had acknowledged still votes for who has all of that.
    fn takes_part(&self, context: &ShardContext<'_>, body: &Body) -> bool {
        let is_made_up = match body {
            Body::Vote {
                index, log_term, ..
            } => self.applied.is_made_up_by(*index, *log_term),
            _ => false,
        };
        !context.is_outdated && (is_made_up || !self.is_non_voting())
    }

    fn role_changed(&mut self, context: &mut ShardContext<'_>, change: RoleChange) {
        let leads = change.role == Role::Leader;
        if !leads || self.leads != Some(change.term) {
            self.step_down(context, change);
        }
        if leads {
            self.leads = Some(change.term);
        }
    }

    fn install(&mut self, context: &mut ShardContext<'_>, mark: &SnapshotMark) -> Vec<u8> {
        self.take_in_state(context, mark);
        self.applied.encode(mark)
    }

    fn appending(
        &mut self,
        context: &mut ShardContext<'_>,
        truncate_from: Option<u64>,
        new: &[Entry],
    ) {
        self.abandon_receiving(context.logs);
        if self.leads.is_none() {
            self.pace.was_log_awaited = context.logs.is_awaited();
        }
        if let Some(from) = truncate_from {
            self.take_back(context.logs, from);
        }
        for entry in new {
            self.append(context.logs, entry);
        }
        self.note_appended(context, new.len());
    }

    fn written(&mut self, context: &mut ShardContext<'_>, write: &LogWrite<'_>) {
        let has_entries_alone =
            write.install.is_none() && write.hard_state.is_none() && write.truncate_from.is_none();
        if !has_entries_alone || self.pace.was_log_awaited {
            return;
        }
        let is_for_nobody = self.appends_lazily(context);
        if is_for_nobody || self.appends_soon() {
            context.logs.await_nothing();
            self.pace.writes_soon |= !is_for_nobody;
        }
    }

    fn send(&mut self, context: &mut ShardContext<'_>, message: Message) {
        self.send_message(context, message);
    }

    fn send_snapshot(&mut self, context: &mut ShardContext<'_>, message: Message) {
        self.begin_snapshot(context, message);
    }

    fn apply(&mut self, context: &mut ShardContext<'_>, entry: &Entry) {
        let pending = self.tail.pop_front();
        let Some(Pending { header, .. }) = pending.filter(|p| p.entry.index == entry.index) else {
            panic!("entry {} of queue {} is not here", entry.index, self.id);
        };
        match entry.kind {
            EntryKind::Normal => self.apply_header(context, entry, &header),
            // The first entry of this member's own term: all before it is committed.
            EntryKind::Empty if self.leads == Some(entry.term) => {
                self.begin_to_lead(context, entry.index);
            }
            EntryKind::Empty | EntryKind::Membership => {}
        }
    }

    fn members_changed(&mut self, context: &mut ShardContext<'_>, membership: &Membership) {
        self.tell_who_is_gone(context, membership);
        self.members = membership.members();
        self.note_if_gone();
    }

    fn snapshot(&mut self, _context: &mut ShardContext<'_>, mark: &SnapshotMark) -> Vec<u8> {
        self.applied.encode(mark)
    }
}

/// As remote queues see it: its leader, if it leads; else it says who does.
impl ServesNodes for Replica {
    type Context<'a> = ShardContext<'a>;

    fn present(
        &mut self,
        context: &mut ShardContext<'_>,
        from: NodeId,
        session: u64,
        registration: &Registration,
    ) {
        let applied = &self.applied;
        match &mut self.leader {
            Some(leader) => leader.present(context, from, session, registration, applied),
            None => self.refuse(context, from),
        }
    }

    fn nothing_to_register(&mut self, context: &mut ShardContext<'_>, from: NodeId, term: u64) {
        self.on_leader(|leader| leader.nothing_to_register(context, from, term));
    }

    fn admits(&mut self, context: &mut ShardContext<'_>, from: NodeId, session: u64) -> bool {
        match &mut self.leader {
            Some(leader) => leader.admits(context, from, session),
            None => {
                self.refuse(context, from);
                false
            }
        }
    }

    fn operations(
        &mut self,
        context: &mut ShardContext<'_>,
        from: NodeId,
        session: u64,
        first: u64,
        operations: Vec<Operation>,
    ) {
        self.on_leader(|leader| leader.operations(context, from, session, first, operations));
        self.work(context);
    }

    fn attach(&mut self, context: &mut ShardContext<'_>, from: NodeId, consumer: Consumer) {
        self.on_leader(|leader| leader.attach(context, from, consumer));
    }

    fn cancel(&mut self, context: &mut ShardContext<'_>, from: NodeId, consumer: ConsumerId) {
        self.on_leader(|leader| leader.cancel(context, from, consumer));
    }

    fn detach(&mut self, context: &mut ShardContext<'_>, from: NodeId, subscription: ConsumerId) {
        self.on_leader(|leader| leader.detach(context, from, subscription));
    }

    fn credit(
        &mut self,
        context: &mut ShardContext<'_>,
        _from: NodeId,
        consumer: ConsumerId,
        Credit { messages, bytes }: Credit,
    ) {
        self.on_leader(|leader| leader.credit(context, consumer, messages, bytes));
    }

    fn acknowledged(&mut self, _context: &mut ShardContext<'_>, from: NodeId, first: u64) {
        self.on_leader(|leader| leader.acknowledged(from, first));
    }

    fn ask(&mut self, context: &mut ShardContext<'_>, from: NodeId, session: u64, what: Query) {
        self.on_leader(|leader| leader.query(context, from, session, what));
    }
}
