//! A leader's work: proposals, members that are behind, handing over.

use crate::convert::change_in;
use crate::election::ELECTION_TICKS;
use crate::error::ProposeError;
use crate::group::Group;
use crate::membership::{Membership, MembershipChange};
use bytes::Bytes;
use leveret_types::limits::{
    ENTRY_BYTES_MAX, GROUP_TICK_MS, LEARNER_LAG_ENTRIES_MAX, MEMBER_STUCK_MS,
};
use leveret_types::{NodeId, ReplicaId};
use raft::eraftpb::{self, MessageType};
use raft::{ProgressState, SnapshotStatus};
use std::collections::VecDeque;

/// Ticks without an answer after which a member that owes one is asked for it.
const SILENCE_TICKS: u32 = 6;
/// Ticks without progress after which a member that is up counts as unable to follow.
const STUCK_TICKS: u64 = MEMBER_STUCK_MS / GROUP_TICK_MS;

/// What a leader keeps of its term.
#[derive(Debug, Default)]
pub(crate) struct Leading {
    /// Ticks since a member answered, while one owes an answer.
    silence: u32,
    had_answer: bool,
    /// Ticks since a transfer began.
    transfer: usize,
    /// Members that are up and lack entries.
    lagging: Vec<Lag>,
    /// Whether there are proposals that were sent to nobody yet.
    has_proposals: bool,
    /// Up to where the embedder does not need entries. Outlives a term.
    pub(crate) floor: u64,
}

/// A member that is up and lacks entries.
#[derive(Clone, Copy, Debug)]
struct Lag {
    replica: ReplicaId,
    /// Up to where it has acknowledged.
    matched: u64,
    /// Ticks since it last acknowledged more.
    ticks: u64,
}

impl Leading {
    pub(crate) fn begin(&mut self) {
        *self = Self {
            floor: self.floor,
            ..Self::default()
        };
    }

    pub(crate) fn is_stuck(&self, replica: ReplicaId) -> bool {
        let mut lagging = self.lagging.iter();
        lagging.any(|lag| lag.replica == replica && lag.ticks >= STUCK_TICKS)
    }
}

impl Group {
    /// Proposes an entry; where it is going to be, and in which term. It is committed only when it
    /// is handed out to be applied with that term: another leader may have overwritten it.
    ///
    /// # Errors
    /// The entry was not taken.
    ///
    /// # Panics
    /// Without data: such entries are the library's own.
    pub fn propose(&mut self, data: Bytes) -> Result<(u64, u64), ProposeError> {
        assert!(!data.is_empty(), "a proposal of nothing");
        self.check_leading()?;
        if data.len() > ENTRY_BYTES_MAX {
            return Err(ProposeError::TooLarge);
        }
        let entry = eraftpb::Entry {
            data,
            ..eraftpb::Entry::default()
        };
        if !self.raw.raft.append_entry(&mut [entry]) {
            return Err(ProposeError::Full);
        }
        self.leading.has_proposals = true;
        self.counts.commands += 1;
        Ok((self.last_index(), self.term()))
    }

    /// Proposes to change who belongs to the group; where the entry is going to be, and in which
    /// term. The group applies it when it is committed.
    ///
    /// # Errors
    /// The change was not taken.
    pub fn propose_membership(
        &mut self,
        change: &MembershipChange,
    ) -> Result<(u64, u64), ProposeError> {
        self.check_leading()?;
        if self.raw.raft.has_pending_conf() || self.membership().is_joint() {
            return Err(ProposeError::ChangePending);
        }
        check_change(self.membership(), change)?;
        let is_left = |voter: &ReplicaId| !change.removed.contains(voter);
        let voters = self.membership().voters.iter().filter(|v| is_left(v));
        let after = Membership::of_voters(voters.chain(&change.voters).copied());
        if !after.has_majority(|voter| self.is_up(voter)) {
            return Err(ProposeError::BadChange("a majority would be down"));
        }
        let mut data = Vec::new();
        change.encode(&mut data);
        let taken = self.raw.propose_conf_change(data, change_in(change));
        taken.map_err(|_| ProposeError::Full)?;
        self.counts.commands += 1;
        let (index, term) = (self.last_index(), self.term());
        assert!(
            self.raw.raft.pending_conf_index == index,
            "the library left out a change that it was asked for"
        );
        Ok((index, term))
    }

    /// Begins to hand leadership over. It arrives, or fails within ten ticks; until then no
    /// proposals are taken.
    ///
    /// # Errors
    /// This member does not lead, or the other cannot.
    pub fn transfer_leader(&mut self, to: ReplicaId) -> Result<(), ProposeError> {
        self.check_leading()?;
        let why = match to {
            to if to == self.replica => Some("it leads already"),
            to if !self.membership().voters.contains(&to) => Some("it is no voter"),
            to if !self.is_up(to) => Some("its node is down"),
            _ => None,
        };
        if let Some(why) = why {
            return Err(ProposeError::BadChange(why));
        }
        self.leading.transfer = 0;
        self.raw.transfer_leader(to.0);
        Ok(())
    }

    /// A snapshot that was handed out to be sent has arrived or has failed. Every one must be
    /// reported: until then the member is sent nothing else. [`Self::peer_down`] and
    /// [`Self::peer_up`] report those to that node as failed, and another is asked for.
    pub fn report_snapshot(&mut self, to: ReplicaId, has_arrived: bool) {
        let status = match has_arrived {
            true => SnapshotStatus::Finish,
            false => SnapshotStatus::Failure,
        };
        self.raw.report_snapshot(to.0, status);
        self.observe();
    }

    /// The learners that follow, and have all that is committed but for the last few entries: they
    /// may be made voters. One that is a little slower than the others never has all of them while
    /// entries keep coming. None where this member does not lead.
    pub fn promotable_learners(&self) -> impl Iterator<Item = ReplicaId> {
        let enough = self.commit().saturating_sub(LEARNER_LAG_ENTRIES_MAX);
        let follows = move |learner: &ReplicaId| {
            let progress = self.raw.raft.prs().get(learner.0);
            progress.is_some_and(|progress| {
                let is_close = progress.matched >= enough && progress.matched > 0;
                progress.state == ProgressState::Replicate && is_close
            })
        };
        let learners = self.membership().learners.iter().copied();
        learners.filter(|_| self.is_leader()).filter(follows)
    }

    /// Sends what was proposed, in one message to each member: the library would make one of each
    /// proposal, and count each against what may be unanswered.
    pub(crate) fn send_proposals(&mut self) {
        if !std::mem::take(&mut self.leading.has_proposals) || !self.is_leader() {
            return;
        }
        let others = self.raw.raft.prs().iter().map(|(id, _)| *id);
        let mut others: Vec<u64> = others.filter(|id| *id != self.replica.0).collect();
        others.sort_unstable();
        for other in others {
            while self.send_next(other) {}
        }
    }

    /// Sends a member what it has not been sent, as far as one message takes it; whether there may
    /// be more that it can take.
    fn send_next(&mut self, to: u64) -> bool {
        let last = self.last_index();
        let next = |group: &Self| {
            let progress = group.raw.raft.prs().get(to);
            let progress = progress.filter(|progress| !progress.is_paused());
            progress.map_or(u64::MAX, |progress| progress.next_idx)
        };
        let before = next(self);
        if before > last {
            return false;
        }
        self.raw.raft.send_append(to);
        before < next(self) && next(self) <= last
    }

    fn check_leading(&self) -> Result<(), ProposeError> {
        if !self.is_leader() {
            let leader = self.leader();
            return Err(ProposeError::NotLeader { leader });
        }
        match self.raw.raft.lead_transferee {
            Some(_) => Err(ProposeError::Transferring),
            None => Ok(()),
        }
    }

    pub(crate) fn leader_wants_tick(&self) -> bool {
        self.raw.raft.lead_transferee.is_some()
            || self.membership().is_joint()
            || self.owing().next().is_some()
    }

    /// Members that are up and do not have, or do not know to be committed, what this one does.
    /// Who waits for a snapshot is the embedder's until it reports.
    fn owing(&self) -> impl Iterator<Item = (ReplicaId, bool)> + '_ {
        let raft = &self.raw.raft;
        let (last, commit) = (raft.raft_log.last_index(), raft.raft_log.committed);
        raft.prs().iter().filter_map(move |(id, progress)| {
            let replica = ReplicaId(*id);
            let is_behind = progress.matched < last || progress.committed_index < commit;
            let is_counted = replica != self.replica
                && progress.state != ProgressState::Snapshot
                && self.is_up(replica);
            (is_behind && is_counted).then_some((replica, progress.is_paused()))
        })
    }

    pub(crate) fn tick_leader(&mut self) {
        self.tick_transfer();
        self.leave_joint();
        let mut owing: Vec<(ReplicaId, bool)> = self.owing().collect();
        owing.sort_unstable();
        let is_stuck = owing.iter().any(|(_, is_paused)| *is_paused);
        let had_answer = std::mem::take(&mut self.leading.had_answer);
        self.note_lagging(&owing);
        if owing.is_empty() {
            self.leading.silence = 0;
        } else if had_answer && !is_stuck {
            self.leading.silence = 0;
            self.tell_commit(&owing);
        } else {
            self.leading.silence += 1;
            if self.leading.silence >= SILENCE_TICKS {
                self.leading.silence = 0;
                owing.iter().for_each(|(to, _)| self.heartbeat(*to));
            }
        }
    }

    /// Counts for how long members that owe entries have made no progress. Who is sent a snapshot
    /// owes none; it has made none either, until it acknowledges that.
    fn note_lagging(&mut self, owing: &[(ReplicaId, bool)]) {
        let last = self.last_index();
        let mut lagging = std::mem::take(&mut self.leading.lagging);
        lagging.retain(|lag| {
            let progress = self.raw.raft.prs().get(lag.replica.0);
            let stands = progress.is_some_and(|progress| progress.matched == lag.matched);
            stands && lag.matched < last && self.is_up(lag.replica)
        });
        for (replica, _) in owing {
            let progress = self.raw.raft.prs().get(replica.0);
            let matched = progress.map_or(last, |progress| progress.matched);
            match lagging.iter_mut().find(|lag| lag.replica == *replica) {
                Some(lag) => lag.ticks += 1,
                None if matched < last => lagging.push(Lag {
                    replica: *replica,
                    matched,
                    ticks: 0,
                }),
                None => {}
            }
        }
        self.leading.lagging = lagging;
    }

    /// Members that are up and lack entries, and have acknowledged none for
    /// [`leveret_types::limits::MEMBER_STUCK_MS`]. Only the leader knows; elsewhere nobody.
    pub fn stuck(&self) -> impl Iterator<Item = ReplicaId> + '_ {
        let leads = self.is_leader();
        let lagging = self.leading.lagging.iter();
        lagging
            .filter(move |lag| leads && lag.ticks >= STUCK_TICKS)
            .map(|lag| lag.replica)
    }

    /// Followers learn what is committed with the next append. Where none follows, they are told.
    fn tell_commit(&mut self, owing: &[(ReplicaId, bool)]) {
        let last = self.last_index();
        for (to, _) in owing {
            let progress = self.raw.raft.prs().get(to.0);
            if progress.is_some_and(|progress| progress.matched == last) {
                self.heartbeat(*to);
            }
        }
    }

    fn tick_transfer(&mut self) {
        if self.raw.raft.lead_transferee.is_none() {
            return;
        }
        self.leading.transfer += 1;
        if self.leading.transfer >= ELECTION_TICKS {
            self.raw.raft.abort_leader_transfer();
        }
    }

    /// A leader that took over in the middle of a change ends it.
    fn leave_joint(&mut self) {
        if self.membership().leaves_by_itself && !self.raw.raft.has_pending_conf() {
            let end = eraftpb::ConfChangeV2::default();
            // Refused while leadership is being transferred: a later tick tries again.
            let _ = self.raw.propose_conf_change(Vec::new(), end);
        }
    }

    /// A member answered.
    pub(crate) fn note_answer(&mut self) {
        if self.is_leader() {
            self.leading.had_answer = true;
            self.forget();
        }
    }

    /// Says that this member leads, to one other.
    pub(crate) fn heartbeat(&mut self, to: ReplicaId) {
        let raft = &mut self.raw.raft;
        let Some(progress) = raft.prs().get(to.0) else {
            return;
        };
        let mut message = eraftpb::Message {
            to: to.0,
            from: self.replica.0,
            term: raft.term,
            // Not beyond what the member is known to have.
            commit: progress.matched.min(raft.raft_log.committed),
            ..eraftpb::Message::default()
        };
        message.set_msg_type(MessageType::MsgHeartbeat);
        raft.msgs.push(message);
    }

    pub(crate) fn leader_peer_down(&mut self, node: NodeId) {
        for replica in self.replicas_on(node) {
            self.lose_sent(replica);
        }
        self.forget();
        if !self.membership().has_majority(|voter| self.is_up(voter)) {
            let term = self.term();
            self.raw.raft.become_follower(term, 0);
        }
    }

    pub(crate) fn leader_peer_up(&mut self, node: NodeId) {
        for replica in self.replicas_on(node) {
            self.lose_sent(replica);
            self.heartbeat(replica);
        }
    }

    /// What was sent to a member may not have arrived.
    fn lose_sent(&mut self, replica: ReplicaId) {
        let progress = self.raw.raft.prs().get(replica.0);
        match progress.map(|progress| progress.state) {
            Some(ProgressState::Snapshot) => self.report_snapshot(replica, false),
            _ => self.raw.report_unreachable(replica.0),
        }
    }

    fn replicas_on(&self, node: NodeId) -> Vec<ReplicaId> {
        let mut members = self.membership().members();
        members.retain(|member| member.node() == node && *member != self.replica);
        members
    }

    /// This member cannot lead any longer, for a reason of the embedder's: if it does, who is
    /// furthest takes over.
    pub fn resign(&mut self) {
        if self.is_leader() {
            self.hand_over();
            self.observe();
        }
    }

    /// Members that have on their disks what this one has not: theirs write. Only the leader knows;
    /// elsewhere nobody.
    pub fn ahead_on_disk(&self) -> impl Iterator<Item = ReplicaId> + '_ {
        let durable = self.durable;
        let ahead = self.matched().filter(move |(_, at)| *at > durable);
        ahead.map(|(other, _)| other)
    }

    /// Who would lead best in this member's place: of the other voters that are up and may, who is
    /// furthest. Nobody if it does not lead.
    #[must_use]
    pub fn heir(&self, may_lead: impl Fn(ReplicaId) -> bool) -> Option<ReplicaId> {
        let others = self.matched().filter(|(other, _)| {
            self.membership().voters.contains(other) && self.is_up(*other) && may_lead(*other)
        });
        let furthest = others.map(|(other, matched)| (matched, other)).max();
        furthest.map(|(_, other)| other)
    }

    /// Who would lead best if this member's disk did not write: the [`Self::heir`] of those whose
    /// disks do. Nobody if the others are too few to commit anything.
    #[must_use]
    pub fn successor(&self, writes: impl Fn(ReplicaId) -> bool) -> Option<ReplicaId> {
        let is_there = |voter: ReplicaId| voter != self.replica && self.is_up(voter);
        if !self.membership().has_majority(is_there) {
            return None;
        }
        self.heir(writes)
    }

    /// This member is to lead no longer: who is furthest takes over.
    pub(crate) fn hand_over(&mut self) {
        let heir = self.heir(|_| true);
        self.raw.raft.bcast_append();
        if let Some(heir) = heir {
            self.raw.raft.send_timeout_now(heir.0);
        }
        let term = self.term();
        self.raw.raft.become_follower(term, 0);
    }

    /// Forgets entries that neither the embedder nor a member that is up needs.
    pub(crate) fn forget(&mut self) {
        if self.leading.floor <= self.raw.store().base() {
            return;
        }
        let floor = self.leading.floor;
        let mut needed = floor;
        if self.is_leader() {
            for (id, progress) in self.raw.raft.prs().iter() {
                let has = match progress.state {
                    ProgressState::Snapshot => progress.pending_snapshot,
                    _ => progress.matched,
                };
                if *id != self.replica.0 && self.is_up(ReplicaId(*id)) {
                    needed = needed.min(has);
                }
            }
        }
        self.raw.mut_store().forget(floor, needed);
        self.has_buffers = true;
    }

    /// A group at rest keeps no buffers.
    pub(crate) fn rest(&mut self) {
        if !self.has_buffers || !self.unsettled.is_empty() || self.wants_tick() {
            return;
        }
        self.has_buffers = false;
        let raft = &mut self.raw.raft;
        raft.maybe_free_inflight_buffers();
        raft.msgs = Vec::new();
        raft.raft_log.unstable.entries = Vec::new();
        self.unsettled = VecDeque::new();
        self.outbox = Vec::new();
        self.raw.mut_store().rest();
    }
}

/// Whether these members can change so.
fn check_change(now: &Membership, change: &MembershipChange) -> Result<(), ProposeError> {
    let bad = |why| Err(ProposeError::BadChange(why));
    if let Err(malformed) = change.check() {
        return bad(malformed.0);
    }
    if !change.voters.iter().all(|new| now.learners.contains(new)) {
        return bad("only a learner becomes a voter");
    }
    if change.learners.iter().any(|new| now.contains(*new)) {
        return bad("it is a member already");
    }
    if !change.removed.iter().all(|old| now.contains(*old)) {
        return bad("it is no member");
    }
    let is_left = |voter: &ReplicaId| !change.removed.contains(voter);
    if change.voters.is_empty() && !now.voters.iter().any(is_left) {
        return bad("no voter would be left");
    }
    let members = now.members().len() + change.learners.len();
    if members > leveret_types::limits::GROUP_MEMBERS_MAX {
        return bad("too many members");
    }
    Ok(())
}
