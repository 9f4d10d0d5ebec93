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
mod machine;
mod members;
mod outgoing;
mod priority_logs;
mod restore;
mod retired_replica;
mod sending;
mod serving;
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
use crate::quorum::link::{Answer, Event};
use crate::shard::{QueueSpec, log_of};
use blob::{Applied, VIEW_LOG};
use entry_payload::Arrival;
use header::Header;
use leader::Leader;
use leveret_queue::{PriorityLogState, RecoveredPriorityLog, State};
use leveret_replication::{Entry, Host, Message, RoleChange, StepError, drive, step};
use leveret_storage::ShardLogs;
use leveret_types::{LogId, NodeId, QueueId, ReplicaId};
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

    fn begin_to_lead(&mut self, around: &mut Around<'_>, entry: u64) {
        let Some(term) = self.leads else {
            return;
        };
        let recovered = match self.spec.view {
            Some(_) => self.messages_of_view().into_iter().collect(),
            None => self.messages_of_logs(around.logs),
        };
        let state = State {
            priority_logs: recovered
                .iter()
                .map(|recovered| self.known_of(recovered.priority_log))
                .collect(),
        };
        let mut nodes = around.up.to_vec();
        nodes.push(around.node);
        let (queue, spec) = (self.id, &self.spec);
        let recovered = (recovered, &state);
        let begun = (entry, term);
        let mut leader = Leader::new(around.now, queue, begun, spec, recovered, nodes.clone());
        leader.view(
            around.now,
            spec,
            self.applied.known_view(),
            self.view_numbers,
        );
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

    /// What of a view is not settled, once it is known where it begins.
    fn messages_of_view(&self) -> Option<RecoveredPriorityLog> {
        let (view, given) = self.applied.known_view()?;
        Some(RecoveredPriorityLog {
            priority_log: VIEW_LOG,
            live: view.unsettled.clone(),
            bytes: 0,
            next_index: given,
        })
    }

    fn messages_of_logs(&self, logs: &ShardLogs) -> Vec<RecoveredPriorityLog> {
        let mut numbers: Vec<u8> = self.priority_logs.numbers().collect();
        numbers.sort_unstable();
        let recovered = numbers.into_iter().filter_map(|priority_log| {
            let log = self.priority_logs.log(priority_log);
            let stats = logs.log_stats(log)?;
            Some(RecoveredPriorityLog {
                priority_log,
                live: logs.live(log),
                bytes: stats.bytes,
                next_index: stats.next_index,
            })
        });
        recovered.collect()
    }

    /// What is known of a priority log's messages besides which they are.
    fn known_of(&self, priority_log: u8) -> PriorityLogState {
        let state = self.applied.priority_log(priority_log);
        let leaving = self.applied.leaving(priority_log);
        PriorityLogState {
            priority_log,
            // What is in a stream stays as long as the stream keeps it.
            may_expire: self.spec.view.is_none() && self.priority_logs.may_expire(priority_log),
            delivered_through: state.map_or(0, |state| state.delivered),
            returns: self.applied.returns(priority_log),
            leaving: leaving.map(|(range, _)| range).collect(),
        }
    }

    /// It leads no more, or is gone: a view's leader leaves its stream.
    fn take_leader(&mut self, around: &mut Around<'_>) -> Option<Box<Leader>> {
        let leader = self.leader.take()?;
        leader.leave_stream(around);
        self.view_numbers = leader.view_numbers().unwrap_or(self.view_numbers);
        Some(leader)
    }

    /// This member does not lead, or not in this term.
    fn step_down(&mut self, around: &mut Around<'_>, role: RoleChange) {
        self.leads = None;
        self.sending = None;
        self.outgoing.clear();
        let Some(leader) = self.take_leader(around) else {
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
}
