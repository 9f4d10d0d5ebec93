//! One member of one group: what goes in. What comes out is in [`crate::ready`].

use crate::convert::message_in;
use crate::counts;
use crate::election::Election;
use crate::entry::{Entry, EntryKind};
use crate::error::{Malformed, RestoreError, StepError};
use crate::leading::Leading;
use crate::log_view::LogView;
use crate::membership::{Membership, SnapshotMark};
use crate::message::{Body, Message};
use crate::ready::Unsettled;
use leveret_types::limits::{
    APPEND_BYTES_MAX, APPEND_ENTRIES_MAX, APPENDS_IN_FLIGHT_MAX, UNCOMMITTED_BYTES_MAX,
};
use leveret_types::{NodeId, RaftCounts, ReplicaId};
use raft::{ProgressState, RawNode, StateRole};
use std::collections::VecDeque;

/// What a group is made with.
#[derive(Clone, Debug)]
pub struct GroupConfig {
    /// Which member this is.
    pub replica: ReplicaId,
    /// The same number on all members of the group, another for each group: it orders who stands
    /// first when a leader is lost, and spreads the elections of many groups over time.
    pub seed: u64,
    /// Bytes that an entry's data makes a message to another member longer by, what lies beside
    /// the entry included. Called for each entry that is sent, so it should be cheap.
    pub weigh: fn(&[u8]) -> u64,
}

/// What must be durable before anything that depends on it leaves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HardState {
    /// The latest term that this member knows of.
    pub term: u64,
    /// Whom it gave its vote in that term; 0 for nobody.
    pub vote: u64,
}

/// What a member is to its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Follows a leader, or waits for one.
    Follower,
    /// Asks for votes, or whether they would be given.
    Candidate,
    /// Takes proposals.
    Leader,
}

/// What a member has become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoleChange {
    /// Its role.
    pub role: Role,
    /// The term.
    pub term: u64,
    /// Who leads in that term, if that is known.
    pub leader: Option<ReplicaId>,
}

/// How a group stands, seen from one member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// This member's role.
    pub role: Role,
    /// The latest term that it knows of.
    pub term: u64,
    /// Who leads, if that is known.
    pub leader: Option<ReplicaId>,
    /// Up to where the log is committed, as far as is known here.
    pub commit: u64,
    /// Up to where the embedder has applied it.
    pub applied: u64,
    /// The last entry, durable or not.
    pub last_index: u64,
    /// Up to where the log is durable here.
    pub durable: u64,
    /// Who belongs to the group.
    pub membership: Membership,
    /// How far the other members are. Only the leader knows; elsewhere empty.
    pub members: Vec<MemberStatus>,
}

/// How far another member is, seen from the leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberStatus {
    /// Which member.
    pub replica: ReplicaId,
    /// Up to where its log is known to be durable and the same.
    pub matched: u64,
    /// Whether it waits for a snapshot.
    pub needs_snapshot: bool,
    /// Whether its node is up, as the embedder said.
    pub is_up: bool,
    /// Whether it is up and lacks entries, and has acknowledged none for long.
    pub is_stuck: bool,
}

/// One member of one group.
///
/// The embedder calls [`Self::ready`] until it returns `None` after whatever else it called, does
/// what each [`Ready`](crate::Ready) says, and reports with [`Self::persisted`] and
/// [`Self::applied`].
pub struct Group {
    pub(crate) raw: RawNode<LogView>,
    pub(crate) replica: ReplicaId,
    pub(crate) weigh: fn(&[u8]) -> u64,
    /// Nodes that the embedder said are down.
    pub(crate) down: Vec<NodeId>,
    pub(crate) election: Election,
    pub(crate) leading: Leading,
    /// What was handed out and is not durable yet, in order.
    pub(crate) unsettled: VecDeque<Unsettled>,
    /// Messages that may go with the next `Ready`.
    pub(crate) outbox: Vec<Message>,
    /// The number of the last `Ready`.
    pub(crate) handed_out: u64,
    /// Up to where the log is on this member's disk.
    pub(crate) durable: u64,
    /// What it has acknowledged: a term, and the last entry in it.
    pub(crate) acknowledged: (u64, u64),
    /// What was handed out to be made durable.
    pub(crate) hard: HardState,
    /// Whether it did something since it last came to rest.
    pub(crate) has_buffers: bool,
    /// What the embedder knows of this member's role.
    pub(crate) told: RoleChange,
    /// What it has done.
    pub(crate) counts: RaftCounts,
}

impl std::fmt::Debug for Group {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Group")
            .field("replica", &self.replica)
            .field("status", &self.status())
            .finish_non_exhaustive()
    }
}

impl Group {
    /// A member as its disk has it: anew with [`SnapshotMark::founding`], a default hard state and
    /// no entries, or after a restart. A member that joins an existing group begins with the mark
    /// of that group's founding, in which it is not.
    ///
    /// `entries` follow the snapshot. `committed_at_least` is what is known to be committed, 0 if
    /// nothing is; it may be older than the truth. What is committed beyond the snapshot is handed
    /// out again to be applied.
    ///
    /// # Errors
    /// What cannot have been written by this crate.
    pub fn new(
        config: GroupConfig,
        hard: HardState,
        snapshot: SnapshotMark,
        entries: Vec<Entry>,
        committed_at_least: u64,
    ) -> Result<Self, RestoreError> {
        check_restored(&config, hard, &snapshot, &entries)?;
        let hard = match hard {
            HardState { term: 0, .. } => HardState {
                term: snapshot.term,
                vote: 0,
            },
            hard => hard,
        };
        let last = snapshot.index + entries.len() as u64;
        let mut state = raft::eraftpb::HardState::default();
        (state.term, state.vote) = (hard.term, hard.vote);
        let committed = committed_at_least.max(committed_by_changes(&entries));
        state.commit = committed.clamp(snapshot.index, last);
        let library = library_config(config.replica, snapshot.index);
        let log_view = LogView::new(snapshot, entries, state, config.weigh);
        let logger = slog::Logger::root(slog::Discard, slog::o!());
        let raw = RawNode::new(&library, log_view, &logger)
            .map_err(|_| RestoreError("the library refuses it"))?;
        let told = RoleChange {
            role: Role::Follower,
            term: hard.term,
            leader: None,
        };
        let mut group = Self {
            raw,
            replica: config.replica,
            weigh: config.weigh,
            down: Vec::new(),
            election: Election::new(config.seed),
            leading: Leading::default(),
            unsettled: VecDeque::new(),
            outbox: Vec::new(),
            handed_out: 0,
            durable: last,
            acknowledged: (0, 0),
            hard,
            has_buffers: false,
            told,
            counts: RaftCounts::default(),
        };
        group.draw_timeout();
        Ok(group)
    }

    /// Takes a message of another member.
    ///
    /// # Errors
    /// The message is not for this replica, or no sound member sends it; it was not taken. After
    /// [`StepError::LostEntries`] and [`StepError::Diverged`] this replica must be given up.
    pub fn step(&mut self, message: Message) -> Result<(), StepError> {
        if message.to != self.replica {
            return Err(StepError::NotForUs(message.to));
        }
        message.check()?;
        self.check_possible(&message)?;
        counts::take(&mut self.counts, &message);
        let (from, term) = (message.from, message.term);
        let is_vote = matches!(message.body, Body::Vote { .. });
        let is_leaders = matches!(
            message.body,
            Body::Append { .. } | Body::Heartbeat { .. } | Body::Snapshot(_)
        );
        let is_answer = matches!(
            message.body,
            Body::AppendReply { .. } | Body::HeartbeatReply { .. }
        );
        let is_ask = message.body == Body::Ask;
        self.before_vote(&message);
        let message = self.without_step_back(message);
        if let Some(message) = message.and_then(message_in) {
            // What it refuses are answers of who is no member, which change nothing.
            let _ = self.raw.step(message);
        }
        if is_leaders && term >= self.term() && self.raw.raft.leader_id == from.0 {
            self.election.is_in_doubt = false;
        }
        if is_answer {
            self.note_answer();
        }
        if (is_vote || is_ask) && self.is_leader() {
            self.heartbeat(from);
        }
        if is_ask {
            self.stand_again();
        }
        self.observe();
        Ok(())
    }

    /// Time passes: [`leveret_types::limits::GROUP_TICK_MS`]. Does nothing unless
    /// [`Self::wants_tick`].
    pub fn tick(&mut self) {
        match self.is_leader() {
            true => self.tick_leader(),
            false => self.tick_election(),
        }
        self.observe();
    }

    /// Whether time matters: an election or a transfer is under way, or another member that is up
    /// owes an answer. May change with each call of another method but costs little.
    #[must_use]
    pub fn wants_tick(&self) -> bool {
        match self.is_leader() {
            true => self.leader_wants_tick(),
            false => self.election_wants_tick(),
        }
    }

    /// A node is down, by the failure detector. The groups that it led begin an election, each
    /// after a delay of its own; a leader without a majority that is up steps down.
    pub fn peer_down(&mut self, node: NodeId) {
        if !self.down.contains(&node) {
            self.down.push(node);
        }
        match self.is_leader() {
            true => self.leader_peer_down(node),
            false if self.leader().is_some_and(|leader| leader.node() == node) => {
                self.lose_leader();
            }
            false => {}
        }
        self.observe();
    }

    /// A node is up again, or a new connection to it was made: what was under way may be lost.
    pub fn peer_up(&mut self, node: NodeId) {
        self.down.retain(|down| *down != node);
        if self.down.is_empty() {
            self.down = Vec::new();
        }
        match self.is_leader() {
            true => self.leader_peer_up(node),
            false if self.leader().is_some_and(|leader| leader.node() == node) => {
                self.doubt_leader();
            }
            false => {}
        }
        self.observe();
    }

    /// What was sent to the members on a node may not have arrived although that is up: a leader
    /// sends it again.
    pub fn lost(&mut self, node: NodeId) {
        if self.is_leader() {
            self.leader_peer_up(node);
            self.observe();
        }
    }

    /// Stands for election now, if this member may.
    pub fn campaign(&mut self) {
        self.stand();
        self.observe();
    }

    /// Says to another member of a new group that this one is there now: it may have asked for
    /// votes before.
    pub fn greet(&mut self, to: ReplicaId) {
        let membership = self.membership();
        if membership.contains(self.replica) && membership.contains(to) {
            self.ask_one(to);
        }
    }

    /// All that was handed out up to the entry at `index` is applied.
    ///
    /// # Panics
    /// If it was not handed out.
    pub fn applied(&mut self, index: u64) {
        if index <= self.raw.raft.raft_log.applied {
            return;
        }
        self.raw.mut_store().applied(index);
        self.raw.advance_apply_to(index);
        self.observe();
    }

    /// Entries up to `index`, which is applied, are not needed here any more: a snapshot stands for
    /// them. They are kept for members that are up and a little behind.
    ///
    /// # Panics
    /// If `index` is not applied.
    pub fn compacted(&mut self, index: u64) {
        assert!(
            index <= self.raw.raft.raft_log.applied,
            "compacts up to {index}, applied is {}",
            self.raw.raft.raft_log.applied
        );
        self.leading.floor = index.max(self.leading.floor);
        self.forget();
    }

    /// What this member has done so far.
    #[must_use]
    pub const fn counts(&self) -> &RaftCounts {
        &self.counts
    }

    /// The mark of a snapshot at `index`: of what is applied and not compacted.
    #[must_use]
    pub fn mark(&self, index: u64) -> Option<SnapshotMark> {
        self.raw.store().mark(index)
    }

    /// Which member this is.
    #[must_use]
    pub fn replica(&self) -> ReplicaId {
        self.replica
    }

    /// The latest term that is known here.
    #[must_use]
    pub fn term(&self) -> u64 {
        self.raw.raft.term
    }

    /// Whether this member leads, as far as it knows.
    #[must_use]
    pub fn is_leader(&self) -> bool {
        self.raw.raft.state == StateRole::Leader
    }

    /// Who leads, if that is known.
    #[must_use]
    pub fn leader(&self) -> Option<ReplicaId> {
        Some(ReplicaId(self.raw.raft.leader_id)).filter(|leader| leader.0 != 0)
    }

    /// Up to where the log is committed, as far as is known here. Worth being durable with what is
    /// applied: after a restart it saves a round.
    #[must_use]
    pub fn commit(&self) -> u64 {
        self.raw.raft.raft_log.committed
    }

    /// Up to where this member has told the leader of a term that it has its entries: they are that
    /// leader's own, and it counts on them. 0 if it has told it of none, or has started since.
    #[must_use]
    pub const fn acknowledged_in(&self, term: u64) -> u64 {
        let (of, index) = self.acknowledged;
        if of == term { index } else { 0 }
    }

    /// The last entry of the log, durable or not.
    #[must_use]
    pub fn last_index(&self) -> u64 {
        self.raw.raft.raft_log.last_index()
    }

    /// The term of the entry at `index`, if it is kept here.
    #[must_use]
    pub fn term_at(&self, index: u64) -> Option<u64> {
        let term = self.raw.raft.raft_log.term(index).ok();
        term.filter(|term| *term != 0)
    }

    /// Who belongs to the group, by the last entry that was handed out to be applied.
    #[must_use]
    pub fn membership(&self) -> &Membership {
        self.raw.store().membership()
    }

    /// Up to where the logs of the other members are known to be durable and the same. Only the
    /// leader knows; elsewhere nothing.
    pub fn matched(&self) -> impl Iterator<Item = (ReplicaId, u64)> + '_ {
        let leads = self.is_leader();
        let others = self.raw.raft.prs().iter();
        others
            .filter(move |(id, _)| leads && **id != self.replica.0)
            .map(|(id, progress)| (ReplicaId(*id), progress.matched))
    }

    /// How the group stands, seen from here.
    #[must_use]
    pub fn status(&self) -> Status {
        let raft = &self.raw.raft;
        let mut members: Vec<MemberStatus> = match self.is_leader() {
            true => raft
                .prs()
                .iter()
                .filter(|(id, _)| **id != self.replica.0)
                .map(|(id, progress)| MemberStatus {
                    replica: ReplicaId(*id),
                    matched: progress.matched,
                    needs_snapshot: progress.state == ProgressState::Snapshot,
                    is_up: self.is_up(ReplicaId(*id)),
                    is_stuck: self.leading.is_stuck(ReplicaId(*id)),
                })
                .collect(),
            false => Vec::new(),
        };
        members.sort_unstable_by_key(|member| member.replica);
        Status {
            role: self.role(),
            term: raft.term,
            leader: self.leader(),
            commit: raft.raft_log.committed,
            applied: raft.raft_log.applied,
            last_index: raft.raft_log.last_index(),
            durable: self.durable,
            membership: self.membership().clone(),
            members,
        }
    }

    pub(crate) fn role(&self) -> Role {
        match self.raw.raft.state {
            StateRole::Follower => Role::Follower,
            StateRole::Candidate | StateRole::PreCandidate => Role::Candidate,
            StateRole::Leader => Role::Leader,
        }
    }

    pub(crate) fn is_up(&self, replica: ReplicaId) -> bool {
        replica == self.replica || !self.down.contains(&replica.node())
    }

    /// After whatever may have changed the role or the term.
    pub(crate) fn observe(&mut self) {
        let raft = &self.raw.raft;
        let now = (raft.term, raft.state, raft.leader_id);
        if now != self.election.seen {
            self.election.seen = now;
            self.election.is_in_doubt &= raft.state == StateRole::Follower && raft.leader_id != 0;
            self.leading.begin();
            self.draw_timeout();
        }
    }

    /// What a sound member would not say to this one as it is: the library would panic.
    fn check_possible(&self, message: &Message) -> Result<(), StepError> {
        let raft = &self.raw.raft;
        let last = raft.raft_log.last_index();
        let is_own_term = message.term == raft.term;
        match &message.body {
            Body::Heartbeat { commit } if message.term >= raft.term && *commit > last => {
                Err(StepError::LostEntries(*commit))
            }
            Body::Append {
                index,
                log_term,
                entries,
                ..
            } if message.term >= raft.term => self.check_agrees((*index, *log_term), entries),
            Body::AppendReply { index, commit, .. } if is_own_term && self.is_leader() => {
                let is_possible = *index <= last && *commit <= last;
                let why = Malformed("an answer about entries that were never sent");
                is_possible.then_some(()).ok_or(why.into())
            }
            Body::Snapshot(mark) if !mark.membership.contains(self.replica) => {
                Err(Malformed("a snapshot without this member").into())
            }
            _ => Ok(()),
        }
    }

    /// Whether a leader's log has what is known to be committed here: each later leader's has.
    fn check_agrees(&self, before: (u64, u64), entries: &[Entry]) -> Result<(), StepError> {
        let theirs = entries.iter().map(|entry| (entry.index, entry.term));
        let mut committed = std::iter::once(before)
            .chain(theirs)
            .take_while(|(index, _)| *index <= self.commit());
        let differs = |(index, term): &(u64, u64)| {
            let own = self.term_at(*index);
            own.is_some_and(|own| own != *term)
        };
        match committed.find(differs) {
            Some((index, _)) => Err(StepError::Diverged(index)),
            None => Ok(()),
        }
    }

    /// The library lets a refusal that comes late or twice put a member's next entry before what
    /// it is known to have (its fix 557 is in no release). What is known is not taken back.
    fn without_step_back(&self, mut message: Message) -> Option<Message> {
        let Body::AppendReply {
            index,
            refused: Some(hint),
            ..
        } = &mut message.body
        else {
            return Some(message);
        };
        let progress = self.raw.raft.prs().get(message.from.0);
        if let (true, Some(progress)) = (self.is_leader(), progress) {
            if *index <= progress.matched {
                return None;
            }
            if hint.index < progress.matched {
                (hint.index, hint.term) = (progress.matched, 0);
            }
        }
        Some(message)
    }
}

fn check_restored(
    config: &GroupConfig,
    hard: HardState,
    snapshot: &SnapshotMark,
    entries: &[Entry],
) -> Result<(), RestoreError> {
    snapshot.check().map_err(|why| RestoreError(why.0))?;
    if config.replica.0 == 0 {
        return Err(RestoreError("a replica without a number"));
    }
    let (mut index, mut term) = (snapshot.index, snapshot.term);
    for entry in entries {
        entry.check().map_err(|why| RestoreError(why.0))?;
        if entry.index != index + 1 {
            return Err(RestoreError("entries with a hole"));
        }
        if entry.term < term {
            return Err(RestoreError("entries whose terms fall"));
        }
        (index, term) = (entry.index, entry.term);
    }
    let is_founding = hard == HardState::default() && entries.is_empty();
    if hard.term < term && !is_founding {
        return Err(RestoreError("a term older than the entries"));
    }
    Ok(())
}

/// What must have been committed for these entries to exist. A leader proposes a change of members
/// when it has applied the change before. Members count votes by what they know to be committed,
/// and may be one change behind, not two: old and new majorities would not meet.
fn committed_by_changes(entries: &[Entry]) -> u64 {
    let is_change = |entry: &&Entry| entry.kind == EntryKind::Membership;
    let mut changes = entries.iter().rev().filter(is_change);
    changes.nth(1).map_or(0, |entry| entry.index)
}

fn library_config(replica: ReplicaId, applied: u64) -> raft::Config {
    raft::Config {
        id: replica.0,
        election_tick: crate::election::ELECTION_TICKS,
        heartbeat_tick: 1,
        applied,
        // Messages are measured by what lies beside their entries, which the library does not know
        // of: see `ready` and `log_view`. What it counts for an entry itself is a few bytes more.
        max_size_per_msg: APPEND_BYTES_MAX + 64 * APPEND_ENTRIES_MAX as u64,
        max_inflight_msgs: APPENDS_IN_FLIGHT_MAX,
        check_quorum: true,
        pre_vote: true,
        skip_bcast_commit: true,
        batch_append: true,
        max_uncommitted_size: UNCOMMITTED_BYTES_MAX,
        ..raft::Config::default()
    }
}
