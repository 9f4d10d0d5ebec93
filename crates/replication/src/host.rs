//! A group in its place: what its member wants done is carried out over a log store and a machine.
//!
//! [`Group`] says what is to be done; [`drive`] does it, in the one order that is right: what is to
//! be written is given to the log before anything that speaks of it is given out, entries are
//! applied once and in their order, and the log begins with a snapshot as soon as that is worth its
//! bytes, or a restart would not know who belongs to the group. Whatever is replicated is a
//! [`Machine`] that keeps a [`Host`], over a [`LogStore`] of its own; the host does not know what
//! it is. `docs/adr/0014-one-host-for-groups.md` has the reasons.
//!
//! All of it is generic over the context `C`: what a machine and its log reach while they run. So
//! nothing is called through a table, and neither side owns what both need.
//!
//! Invariant: what a [`Ready`](crate::Ready) says to write is in the log store before its messages
//! are given out, and reported durable only when the log store says that it is.

use crate::entry::Entry;
use crate::error::{ProposeError, StepError};
use crate::group::{Group, HardState, RoleChange};
use crate::membership::{Membership, SnapshotMark};
use crate::message::{Body, Message};
use crate::ready::Ready;
use leveret_types::{NodeId, ReplicaId};
use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};

/// What is to be written, in the order of the fields. All of it becomes durable together: a
/// snapshot of a term that is not known would make a log that nobody can have.
#[derive(Clone, Copy, Debug)]
pub struct LogWrite<'a> {
    /// A snapshot in the place of all entries: its mark, and what [`Machine::install`] gave for it.
    pub install: Option<(&'a SnapshotMark, &'a [u8])>,
    /// Term and vote, if they are new.
    pub hard_state: Option<HardState>,
    /// Entries from here on give way to those that follow.
    pub truncate_from: Option<u64>,
    /// Entries; the first is at `truncate_from`, or behind the last that is there.
    pub append: &'a [Entry],
}

/// Where a group's entries, its term and vote, and its snapshot are kept. What is written becomes
/// durable later, in the order in which it was written.
pub trait LogStore<C> {
    /// Takes what is to be written; the position up to which the log must be durable for that, and
    /// for all that was written before.
    fn write(&mut self, context: &mut C, write: &LogWrite<'_>) -> u64;
    /// The log begins behind `mark` from now on, with `state` for what was before. What it has
    /// behind that stays.
    fn set_snapshot(&mut self, context: &mut C, mark: &SnapshotMark, state: &[u8]);
    /// Up to which position the log is durable.
    fn durable_through(&self, context: &C) -> u64;
}

/// What a group is there for.
pub trait Machine<C>: Sized {
    /// Where its group's log is.
    type Log: LogStore<C>;

    /// Whether a snapshot is worth its bytes, where so many entries have been applied since the
    /// last one.
    fn is_snapshot_due(&self, entries: u64) -> bool;
    /// The group.
    fn host(&mut self) -> &mut Host<Self::Log>;
    /// Whether this member may send this, or take it in, which is of an election: it knows all that
    /// it has promised, or enough of it for that.
    fn takes_part(&self, context: &C, body: &Body) -> bool;
    /// Proposes what there is to propose. Called before each look at what the group wants done.
    fn propose(&mut self, _context: &mut C) {}
    /// This member's role, term or leader has changed.
    fn role_changed(&mut self, context: &mut C, change: RoleChange);
    /// Takes in the state that came with `mark`; the bytes that are to stand for it in the log.
    fn install(&mut self, context: &mut C, mark: &SnapshotMark) -> Vec<u8>;
    /// Entries are about to be written, in the place of those from `truncate_from` on. What the
    /// machine keeps beside an entry is written now.
    fn appending(&mut self, _context: &mut C, _truncate_from: Option<u64>, _entries: &[Entry]) {}
    /// That was written, and gathers until the log is given to the disk.
    fn written(&mut self, _context: &mut C, _write: &LogWrite<'_>) {}
    /// Sends a message to another member.
    fn send(&mut self, context: &mut C, message: Message);
    /// Sends a state to another member, then the message, with the mark of the state that was sent.
    /// Each is answered by [`Group::report_snapshot`].
    fn send_snapshot(&mut self, context: &mut C, message: Message);
    /// Applies an entry. Each comes once.
    fn apply(&mut self, context: &mut C, entry: &Entry);
    /// Other members than before belong to the group.
    fn members_changed(&mut self, _context: &mut C, _membership: &Membership) {}
    /// The bytes that stand for all that is applied, which is up to `mark`.
    fn snapshot(&mut self, context: &mut C, mark: &SnapshotMark) -> Vec<u8>;
}

/// What was handed out by the group to be made durable.
#[derive(Clone, Copy, Debug)]
struct Writing {
    number: u64,
    /// The position in the log that has the last of it.
    position: u64,
}

/// A member of a group, with its log and how far that is.
#[derive(Debug)]
pub struct Host<L> {
    group: Group,
    log: L,
    writing: VecDeque<Writing>,
    /// The number up to which all is known to be durable.
    settled: u64,
    applied: u64,
    /// Where the snapshot in the log is.
    snapshot: u64,
}

/// A host is its group, but for what it does by itself.
impl<L> Deref for Host<L> {
    type Target = Group;

    fn deref(&self) -> &Group {
        &self.group
    }
}

impl<L> DerefMut for Host<L> {
    fn deref_mut(&mut self) -> &mut Group {
        &mut self.group
    }
}

impl<L> Host<L> {
    /// A group whose log begins behind a snapshot at `snapshot`, up to where all is applied.
    #[must_use]
    pub const fn new(group: Group, log: L, snapshot: u64) -> Self {
        Self {
            group,
            log,
            writing: VecDeque::new(),
            settled: 0,
            applied: snapshot,
            snapshot,
        }
    }

    /// Begins again with another group, over what the log has: nothing is under way any more. What
    /// this member has acknowledged it has still: the log has that. Nor does what it has done begin
    /// anew.
    pub fn restart(&mut self, group: Group) {
        let (acknowledged, counts) = (self.group.acknowledged, self.group.counts);
        self.group = Group {
            acknowledged,
            counts,
            ..group
        };
        self.writing.clear();
    }

    /// The last entry that was applied.
    #[must_use]
    pub const fn last_applied(&self) -> u64 {
        self.applied
    }

    /// Where the snapshot in the log is: entries up to there are not in it any more.
    #[must_use]
    pub const fn snapshot_index(&self) -> u64 {
        self.snapshot
    }

    /// Whether something waits to become durable.
    #[must_use]
    pub fn is_writing(&self) -> bool {
        !self.writing.is_empty()
    }

    /// Another number whenever something has become durable.
    #[must_use]
    pub const fn settled(&self) -> u64 {
        self.settled
    }

    /// The log.
    #[must_use]
    pub const fn log(&self) -> &L {
        &self.log
    }

    /// Begins to hand leadership to the member on a node: [`Group::transfer_leader`].
    ///
    /// # Errors
    /// This member does not lead, or no voter is there, or it cannot lead.
    pub fn transfer_to(&mut self, node: NodeId) -> Result<(), ProposeError> {
        let voters = &self.group.membership().voters;
        let to = voters.iter().find(|voter| voter.node() == node).copied();
        let to = to.ok_or(ProposeError::BadChange("it is no voter"))?;
        self.group.transfer_leader(to)
    }

    /// Tells a group that begins which nodes of its members, and of `others`, are not up.
    pub fn begin(&mut self, up: &[NodeId], others: &[ReplicaId]) {
        let own = self.group.replica().node();
        let mut members = self.group.membership().members();
        members.extend(others);
        let mut nodes: Vec<NodeId> = members.into_iter().map(ReplicaId::node).collect();
        nodes.sort_unstable();
        nodes.dedup();
        for node in nodes {
            if node != own && !up.contains(&node) {
                self.group.peer_down(node);
            }
        }
    }
}

/// Does what the group wants done, until it wants nothing more.
pub fn drive<C, M: Machine<C>>(machine: &mut M, context: &mut C) {
    loop {
        machine.propose(context);
        match machine.host().group.ready() {
            Some(ready) => carry_out(machine, context, ready),
            None if settle_durable(machine, context) => {}
            None => return,
        }
    }
}

/// Tells the group what has become durable; whether anything has. [`drive`] is to follow then.
pub fn settle_durable<C, M: Machine<C>>(machine: &mut M, context: &C) -> bool {
    let host = machine.host();
    if host.writing.is_empty() {
        return false;
    }
    let through = host.log.durable_through(context);
    let mut last = None;
    while let Some(next) = host.writing.pop_front_if(|next| next.position <= through) {
        last = Some(next.number);
    }
    let Some(number) = last else {
        return false;
    };
    host.settled = number;
    host.group.persisted(number);
    true
}

/// Takes a message of another member. [`drive`] is to follow.
///
/// # Errors
/// Those of [`Group::step`].
pub fn step<C, M: Machine<C>>(
    machine: &mut M,
    context: &C,
    message: Message,
) -> Result<(), StepError> {
    if message.body.is_of_election() && !machine.takes_part(context, &message.body) {
        return Ok(());
    }
    machine.host().group.step(message)
}

/// Writes a snapshot of what is applied, whatever it is worth; its place.
pub fn store_snapshot<C, M: Machine<C>>(machine: &mut M, context: &mut C) -> Option<u64> {
    let host = machine.host();
    let mark = host.group.mark(host.applied)?;
    let state = machine.snapshot(context, &mark);
    let host = machine.host();
    host.log.set_snapshot(context, &mark, &state);
    host.snapshot = mark.index;
    Some(mark.index)
}

fn carry_out<C, M: Machine<C>>(machine: &mut M, context: &mut C, ready: Ready) {
    if let Some(role) = ready.role {
        machine.role_changed(context, role);
    }
    if ready.must_sync {
        write(machine, context, &ready);
    }
    for message in ready.messages {
        let is_candidacy = matches!(message.body, Body::Vote { .. });
        if !is_candidacy || machine.takes_part(context, &message.body) {
            machine.send(context, message);
        }
    }
    for message in ready.snapshots {
        machine.send_snapshot(context, message);
    }
    for entry in &ready.committed {
        if entry.index > machine.host().applied {
            machine.apply(context, entry);
        }
    }
    if let Some(membership) = &ready.membership {
        machine.members_changed(context, membership);
    }
    if let Some(last) = ready.committed.last() {
        let host = machine.host();
        host.applied = host.applied.max(last.index);
        host.group.applied(last.index);
        compact(machine, context, ready.membership.is_some());
    }
}

fn write<C, M: Machine<C>>(machine: &mut M, context: &mut C, ready: &Ready) {
    let installed = ready.install.as_ref();
    let installed = installed.map(|mark| (mark, machine.install(context, mark)));
    if !ready.append.is_empty() {
        machine.appending(context, ready.truncate_from, &ready.append);
    }
    let write = LogWrite {
        install: installed.as_ref().map(|(mark, state)| (*mark, &state[..])),
        hard_state: ready.hard_state,
        truncate_from: ready.truncate_from,
        append: &ready.append,
    };
    let host = machine.host();
    let position = host.log.write(context, &write);
    host.writing.push_back(Writing {
        number: ready.number,
        position,
    });
    machine.written(context, &write);
    let host = machine.host();
    if let Some(mark) = &ready.install {
        host.applied = mark.index;
        host.snapshot = mark.index;
    }
}

/// Forgets entries that a snapshot stands for, if they are many. A snapshot is written as well if
/// there are new members: a restart begins with those of the snapshot, for how far the log was
/// committed is not in it, and only they could tell.
fn compact<C, M: Machine<C>>(machine: &mut M, context: &mut C, has_new_members: bool) {
    let host = machine.host();
    let entries = host.applied.saturating_sub(host.snapshot);
    let are_many = machine.is_snapshot_due(entries);
    if !are_many && !has_new_members {
        return;
    }
    let stored = store_snapshot(machine, context);
    // Until they are many, those who lack some are sent them rather than the whole state.
    if let Some(index) = stored.filter(|_| are_many) {
        machine.host().group.compacted(index);
    }
}
