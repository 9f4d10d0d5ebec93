//! A stream as one of several replicas: what the catalogue orders, and what the leader does.

use super::{Effect, Events, Stream};
use crate::chunk::SharedChunk;
use crate::host::{Command, Event, Refusal, SessionId};
use crate::replica::handover::Handover;
use crate::replica::leading::Leading;
use crate::replica::{
    Attachment, Epoch, EpochEnd, EpochStart, FENCED, Fence, LogPosition, ReplicaEvent,
    ReplicaMessage, ReplicaOrder, ReplicaOrigin, ReplicaRole, ReplicaState, ends, parting,
};
use leveret_types::NodeId;
use leveret_types::limits::STREAM_FOLLOWERS_MAX;
use std::collections::BTreeMap;

/// What a stream is as a replica.
#[derive(Debug)]
pub(super) struct Replica {
    pub(super) me: NodeId,
    /// The newest attachment.
    pub(super) attachment: Attachment,
    /// What is kept beside the chunks, once all effects are carried out.
    pub(super) state: ReplicaState,
    pub(super) role: Role,
    /// All below this is as durable as the flush level asks.
    pub(super) durable: u64,
    /// The last turn that is.
    pub(super) durable_turn: u64,
    /// Whether it is known what is committed.
    pub(super) is_ready: bool,
    /// A cut is not carried out yet.
    pub(super) is_cutting: bool,
    /// Chunks were copied in this turn.
    pub(super) has_copied: bool,
    /// How often it has asked for an epoch in which it may count, as its promises are lost.
    pub(super) epoch_requests: u8,
    /// Another node is to lead.
    pub(super) handover: Option<Box<Handover>>,
    /// The disk has no room for what is to be written.
    is_disk_full: bool,
    /// Followers that have heard of an epoch that this node leads before this node has.
    early: BTreeMap<NodeId, (Epoch, Attachment)>,
}

#[derive(Debug)]
pub(super) enum Role {
    Waiting,
    Leading(Leading),
    Following(Following),
}

/// Where a follower is with its leader.
#[derive(Clone, Copy, Debug)]
pub(super) struct Following {
    pub(super) epoch: Epoch,
    pub(super) leader: NodeId,
    pub(super) is_attached: bool,
    /// Counts what was asked in this attachment.
    pub(super) question: u64,
    /// Where a log goes on that begins anew.
    pub(super) begins_at: Option<u64>,
    /// With all up to here it has what the leader had.
    pub(super) whole_at: u64,
    /// What the leader has committed.
    pub(super) committed: u64,
    /// The newest statement of what is durable here.
    pub(super) said: Option<(u64, bool)>,
    /// That it is whole is being made durable.
    pub(super) is_becoming_whole: bool,
}

/// What a node has kept of a replica.
#[derive(Clone, Debug)]
pub struct RestoredReplica<'a> {
    /// `None` if there is no such file, or it cannot be read.
    pub state: Option<ReplicaState>,
    /// How the replica came to the node.
    pub origin: ReplicaOrigin,
    /// The first offset that is damaged.
    pub damaged_from: Option<u64>,
    /// The newest chunks.
    pub newest: &'a [SharedChunk],
}

impl Replica {
    /// A follower attaches that has heard of an epoch before this node has.
    fn note_early(&mut self, from: NodeId, epoch: Epoch, attachment: Attachment) {
        let known = self.early.get(&from);
        let is_old = known.is_some_and(|(_, known)| attachment.is_before(*known));
        if !is_old && (known.is_some() || self.early.len() < STREAM_FOLLOWERS_MAX) {
            self.early.insert(from, (epoch, attachment));
        }
    }

    /// The followers that have heard of an epoch that begins.
    fn take_early(&mut self, epoch: Epoch) -> Vec<(NodeId, Attachment)> {
        let is_of = |(_, (of, _)): &(&NodeId, &(Epoch, Attachment))| *of == epoch;
        let early = self.early.iter().filter(is_of);
        let early = early.map(|(node, (_, attachment))| (*node, *attachment));
        let early = early.collect();
        self.early.retain(|_, (of, _)| *of > epoch);
        early
    }
}

impl Stream {
    /// Makes the stream one of several replicas, on this node: it waits for the catalogue's orders.
    /// `life` is drawn anew for each run of the process.
    pub fn replicate(&mut self, me: NodeId, life: u32, kept: RestoredReplica<'_>) {
        let RestoredReplica {
            state,
            origin,
            damaged_from,
            newest,
        } = kept;
        let is_known = state.is_some();
        let is_new = origin == ReplicaOrigin::NewStream;
        let mut state = state.unwrap_or_else(|| ReplicaState {
            forgot: origin == ReplicaOrigin::Before,
            ..ReplicaState::default()
        });
        let damaged_from = state.damaged.into_iter().chain(damaged_from).min();
        let is_whole = (is_new || state.is_whole) && damaged_from.is_none();
        let changes = !is_known || (state.is_whole, state.damaged) != (is_whole, damaged_from);
        if state.damaged != damaged_from {
            state.withdraw();
        }
        state.is_whole = is_whole;
        state.damaged = damaged_from;
        if changes {
            self.effects.push(Effect::Save(Box::new(state.clone())));
        }
        self.replica = Some(Box::new(Replica {
            me,
            attachment: Attachment(u64::from(life) << 32),
            state,
            role: Role::Waiting,
            durable: self.next_offset,
            durable_turn: 0,
            is_ready: false,
            is_cutting: false,
            has_copied: false,
            epoch_requests: 0,
            handover: None,
            is_disk_full: false,
            early: BTreeMap::new(),
        }));
        if let Some(from) = damaged_from {
            self.report(ReplicaEvent::Damaged { from });
        }
        if let Some(committed) = self.fenced() {
            self.report(ReplicaEvent::Fenced(Fence {
                committed,
                leader_parts_at: None,
            }));
        }
        // What is committed, the leader knows.
        self.turns.forget_committed_chunk();
        self.take_turns(newest);
    }

    /// The newest attachment; `None` of a stream of one node alone.
    #[must_use]
    pub fn attachment(&self) -> Option<Attachment> {
        Some(self.replica.as_ref()?.attachment)
    }

    /// Attaches above this from now on: a replica of the stream that was deleted in this run of the
    /// process may have attached so often, and what it had must not be taken for this one's.
    pub fn attach_above(&mut self, attachment: Attachment) {
        if let Some(replica) = self.replica.as_deref_mut() {
            replica.attachment = replica.attachment.max(attachment);
        }
    }

    /// What it is as a replica; `None` of a stream of one node alone.
    #[must_use]
    pub fn role(&self) -> Option<ReplicaRole> {
        let role = match &self.replica.as_ref()?.role {
            Role::Waiting => ReplicaRole::Waiting,
            Role::Leading(leading) => ReplicaRole::Leader {
                epoch: leading.epoch,
                members: leading.members.clone(),
            },
            Role::Following(following) => ReplicaRole::Follower {
                epoch: following.epoch,
                leader: following.leader,
            },
        };
        Some(role)
    }

    /// The newest epoch that it has promised; `None` of a stream of one node alone.
    #[must_use]
    pub fn promised(&self) -> Option<Epoch> {
        Some(self.replica.as_ref()?.state.promised)
    }

    /// What the leader knows of its followers: the offset below which each has all, and whether it
    /// counts for majorities if it is a member.
    #[must_use]
    pub fn followers(&self) -> Vec<(NodeId, u64, bool)> {
        let replica = self.replica.as_deref();
        match replica.map(|replica| &replica.role) {
            Some(Role::Leading(leading)) => leading.have().collect(),
            _ => Vec::new(),
        }
    }

    /// Whether the catalogue may change the members now, by one: this replica leads, and a majority
    /// of the members as they are has all that was ever committed. What an earlier set of members
    /// has committed may be on fewer of these; with one more change it could be on no majority.
    #[must_use]
    pub fn may_change_members(&self) -> bool {
        let replica = self.replica.as_deref();
        replica.is_some_and(|replica| match &replica.role {
            Role::Leading(leading) => {
                let held = leading.committed(replica.me, replica.durable);
                leading.is_begun && held >= leading.start.max(self.turns.committed.next_offset)
            }
            _ => false,
        })
    }

    /// Whether the catalogue may take this member away now: besides where any change may be, where
    /// a majority of those that stay has all that was ever committed. So one that can never copy
    /// all, as what it lacks is damaged here, can be taken away again.
    #[must_use]
    pub fn may_remove_member(&self, node: NodeId) -> bool {
        let replica = self.replica.as_deref();
        replica.is_some_and(|replica| match &replica.role {
            Role::Leading(leading) => {
                let held = leading.committed_without(node, replica.me, replica.durable);
                let needed = leading.start.max(self.turns.committed.next_offset);
                leading.is_begun && node != replica.me && held >= needed
            }
            _ => false,
        })
    }

    /// Why a command is refused here, if it is.
    pub(super) fn refusal_of(&self, command: &Command) -> Option<Refusal> {
        let replica = self.replica.as_deref()?;
        let reason = match command {
            Command::DeclarePublisher { .. }
            | Command::Publish { .. }
            | Command::QuerySequence { .. }
            | Command::StoreOffset { .. }
            | Command::JoinGroup { .. }
            | Command::QueryOffset { .. } => match replica.role {
                Role::Leading(_) => return None,
                _ => "this node has no leader of it",
            },
            Command::Subscribe { .. } | Command::ResolveOffset { .. }
                if replica.state.fenced.is_some() =>
            {
                FENCED
            }
            Command::Subscribe { .. } | Command::ResolveOffset { .. } if !replica.is_ready => {
                "its replicas have not found each other yet"
            }
            _ => return None,
        };
        Some(Refusal::NotAvailable(reason.to_owned()))
    }

    pub(super) fn report(&mut self, event: ReplicaEvent) {
        self.effects.push(Effect::Report(event));
    }

    pub(super) fn send(&mut self, to: NodeId, message: ReplicaMessage) {
        self.effects.push(Effect::Send { to, message });
    }

    pub(super) fn save(&mut self) {
        if let Some(replica) = &self.replica {
            let state = Box::new(replica.state.clone());
            self.effects.push(Effect::Save(state));
        }
    }

    pub(super) fn ask_for_election(&mut self, reason: String) {
        let promised = self.promised().unwrap_or_default();
        self.report(ReplicaEvent::ElectionNeeded { promised, reason });
    }

    /// Whether the disk has no room for what is to be written. A replica that only follows learns
    /// from its leader's answers which segments go, and asks for none then: it looks for itself.
    pub fn set_disk_full(&mut self, is_full: bool) {
        if let Some(replica) = self.replica.as_deref_mut() {
            replica.is_disk_full = is_full;
        }
    }

    /// Another replica should lead, as this one cannot go on: said once in an epoch.
    pub fn tire(&mut self, reason: &str) {
        let replica = self.replica.as_deref_mut();
        if let Some(Role::Leading(leading)) = replica.map(|replica| &mut replica.role)
            && !std::mem::replace(&mut leading.wants_other_leader, true)
        {
            self.ask_for_election(reason.to_owned());
        }
    }

    /// What the catalogue says. Nothing is done by a stream of one node alone.
    pub fn order(&mut self, order: ReplicaOrder, out: &mut Events) {
        match order {
            ReplicaOrder::Lead { epoch, members } => self.lead(epoch, members, out),
            ReplicaOrder::Follow { epoch, leader } => self.follow(epoch, leader, out),
        }
        self.serve_early(out);
    }

    fn lead(&mut self, epoch: Epoch, members: Vec<NodeId>, out: &mut Events) {
        let Some(replica) = self.replica.as_deref_mut() else {
            return;
        };
        if let Role::Leading(leading) = &mut replica.role
            && leading.epoch == epoch
        {
            leading.set_members(members);
            return self.advance(out);
        }
        let state = &mut replica.state;
        if epoch < state.promised {
            let reason = format!("epoch {} was prepared after {epoch}", state.promised);
            return self.ask_for_election(reason);
        }
        // An epoch is led by one run of one process: what it may have sent before it ended and was
        // not durable here, others have under the same epoch.
        let is_first = epoch == Epoch(1) && state.promised == Epoch(0) && state.is_whole;
        let is_prepared = epoch == state.promised && epoch > state.log_epoch;
        let is_fit = !replica.is_cutting && !state.forgot && state.fenced.is_none();
        if !is_fit || !is_first && !is_prepared {
            // It does not promise the epoch now: that would look as if it had been prepared.
            let promised = state.promised.max(epoch);
            let reason = format!("this node cannot lead epoch {epoch} any more");
            return self.report(ReplicaEvent::ElectionNeeded { promised, reason });
        }
        let next_offset = self.next_offset;
        let first_offset = self.segments.first_offset().unwrap_or(next_offset);
        state.promised = epoch;
        state.log_epoch = epoch;
        state.is_whole = true;
        let damaged_from = state.damaged.take();
        state.begin_epoch(epoch, next_offset, first_offset);
        let mut leading = Leading::new(epoch, members, next_offset);
        leading.damaged_from = damaged_from;
        replica.role = Role::Leading(leading);
        self.epoch = epoch.0;
        self.active.begin_epoch(epoch);
        let early = replica.take_early(epoch);
        self.effects.push(Effect::Sync { next_offset });
        self.save();
        for (to, attachment) in early {
            self.send(to, ReplicaMessage::Unattached { epoch, attachment });
        }
        if let Some(from) = damaged_from {
            self.keep_damage(from);
        }
    }

    fn follow(&mut self, epoch: Epoch, leader: NodeId, out: &mut Events) {
        let Some(replica) = self.replica.as_deref() else {
            return;
        };
        let promised = replica.state.promised;
        match &replica.role {
            Role::Following(following) if following.epoch == epoch => return,
            _ if epoch < promised => {
                let reason = format!("epoch {promised} was prepared after {epoch}");
                return self.ask_for_election(reason);
            }
            _ => {}
        }
        self.step_down(out);
        if let Some(replica) = self.replica.as_deref_mut() {
            if epoch > promised {
                replica.state.promised = epoch;
                let state = Box::new(replica.state.clone());
                self.effects.push(Effect::Save(state));
            }
            replica.role = Role::Following(Following {
                epoch,
                leader,
                is_attached: false,
                question: 0,
                begins_at: None,
                whole_at: 0,
                committed: 0,
                said: None,
                is_becoming_whole: false,
            });
        }
        self.attach();
    }

    /// The replica leads or follows no more. Publishers and members of groups hear that they lost
    /// the stream here, and what was not confirmed to them never is.
    fn step_down(&mut self, out: &mut Events) {
        let Some(replica) = self.replica.as_deref_mut() else {
            return;
        };
        let before = std::mem::replace(&mut replica.role, Role::Waiting);
        replica.handover = None;
        if !matches!(before, Role::Leading(_)) {
            return;
        }
        let publishers = self.publishers.sessions();
        let mut sessions: Vec<SessionId> = publishers.chain(self.active.sessions()).collect();
        sessions.sort_unstable();
        sessions.dedup();
        let stream = self.id;
        self.active.end();
        let refusal = Refusal::NotAvailable("its leader has changed".to_owned());
        self.publishers.lose(&refusal, out);
        for session in sessions {
            self.readers.leave(session);
            out.push((session, Event::Lost { stream }));
        }
        self.filling.clear(self.settings.filter_bytes);
        self.tracking.forget_changes();
        self.tracking_schedule.no_changes();
    }

    /// Takes a message of another node's replica, or of whoever elects.
    pub fn receive(&mut self, from: NodeId, message: ReplicaMessage, out: &mut Events) {
        match message {
            ReplicaMessage::Prepare { epoch } => self.prepare(from, epoch, out),
            ReplicaMessage::Attach {
                epoch,
                attachment,
                ends,
            } => self.attach_follower(from, epoch, attachment, &ends),
            ReplicaMessage::Fetch {
                epoch,
                attachment,
                question,
                from: offset,
                bytes,
            } => {
                if let Some(leading) = self.leading_of(from, epoch, attachment) {
                    let follower = leading.follower(from, attachment);
                    follower
                        .into_iter()
                        .for_each(|f| f.ask(question, offset, bytes));
                    self.serve_followers();
                }
            }
            ReplicaMessage::Durable {
                epoch,
                attachment,
                next_offset,
                is_whole,
            } => {
                if let Some(leading) = self.leading_of(from, epoch, attachment) {
                    let follower = leading.follower(from, attachment);
                    follower
                        .into_iter()
                        .for_each(|f| f.set_durable(next_offset, is_whole));
                    self.advance(out);
                }
            }
            answer @ (ReplicaMessage::Attached { .. }
            | ReplicaMessage::Chunks { .. }
            | ReplicaMessage::Unattached { .. }) => self.hear(from, answer, out),
            // For whoever elects, not for a replica.
            ReplicaMessage::Prepared { .. } => {}
        }
    }

    fn prepare(&mut self, from: NodeId, epoch: Epoch, out: &mut Events) {
        let Some(replica) = self.replica.as_deref() else {
            return;
        };
        if replica.state.fenced.is_some() {
            return;
        }
        if epoch > replica.state.promised || replica.state.forgot {
            self.step_down(out);
            if let Some(replica) = self.replica.as_deref_mut() {
                let life = replica.attachment.life();
                replica.state.promise(epoch, life);
            }
            self.save();
        }
        let next_offset = self.next_offset;
        self.effects.push(Effect::Sync { next_offset });
        let answer = Effect::AnswerPrepare { to: from, epoch };
        self.effects.push(answer);
    }

    /// Says what the replica has: what it has promised is durable, and so is its log.
    pub fn answer_prepare(&mut self, to: NodeId, epoch: Epoch) {
        let Some(replica) = self.replica.as_deref() else {
            return;
        };
        let state = &replica.state;
        let position = LogPosition {
            log_epoch: state.log_epoch,
            next_offset: replica.durable.min(self.trusted_to()),
        };
        let message = ReplicaMessage::Prepared {
            epoch,
            promised: state.promised,
            position,
            is_whole: state.is_whole,
        };
        self.send(to, message);
    }

    /// The offset up to which the log can be copied from here.
    pub(super) fn trusted_to(&self) -> u64 {
        let damaged = self.replica.as_ref().and_then(|r| r.state.damaged);
        self.next_offset.min(damaged.unwrap_or(u64::MAX))
    }

    /// Another node can be reached, or can be again: what was said to it before may be lost.
    pub fn connected(&mut self, node: NodeId) {
        let Some(replica) = self.replica.as_deref_mut() else {
            return;
        };
        match &mut replica.role {
            Role::Leading(leading) => leading.forget(node),
            Role::Following(following) if following.leader == node => self.attach(),
            _ => {}
        }
    }

    /// This node's leadership, if the message is for it; else the follower is told to attach.
    fn leading_of(
        &mut self,
        from: NodeId,
        epoch: Epoch,
        attachment: Attachment,
    ) -> Option<&mut Leading> {
        let replica = self.replica.as_deref_mut()?;
        let Role::Leading(leading) = &mut replica.role else {
            return None;
        };
        if leading.epoch != epoch {
            return None;
        }
        if leading.follower(from, attachment).is_none() {
            let message = ReplicaMessage::Unattached { epoch, attachment };
            self.effects.push(Effect::Send { to: from, message });
            return None;
        }
        Some(leading)
    }

    fn attach_follower(
        &mut self,
        from: NodeId,
        epoch: Epoch,
        attachment: Attachment,
        theirs: &[EpochEnd],
    ) {
        let committed = self.turns.committed.next_offset;
        let next_offset = self.next_offset;
        let first_offset = self.segments.first_offset().unwrap_or(next_offset);
        let Some(replica) = self.replica.as_deref_mut() else {
            return;
        };
        if from == replica.me {
            return;
        }
        let leading = match &mut replica.role {
            Role::Leading(leading) if leading.epoch == epoch => leading,
            Role::Leading(leading) if leading.epoch > epoch => return,
            _ => return replica.note_early(from, epoch, attachment),
        };
        if !leading.attach(from, attachment) {
            return;
        }
        let epochs: Vec<EpochStart> = replica.state.epochs.clone();
        let message = ReplicaMessage::Attached {
            epoch,
            attachment,
            parted_at: parting(&ends(&epochs, next_offset), theirs),
            first_offset,
            whole_at: next_offset,
            committed,
            epochs,
        };
        self.send(from, message);
    }

    /// A turn is as durable as the flush level asks on this node.
    pub(super) fn commit_replicated(&mut self, turn: u64, out: &mut Events) {
        let durable = self.turns.end_of(turn);
        if let Some(replica) = self.replica.as_deref_mut() {
            replica.durable_turn = turn;
            replica.durable = replica.durable.max(durable.unwrap_or(0));
        }
        self.advance(out);
    }

    /// All that was appended is durable, as [`Effect::Sync`] asked for.
    pub fn synced(&mut self, next_offset: u64) {
        if let Some(replica) = self.replica.as_deref_mut() {
            // It may have been cut since.
            replica.durable = replica.durable.max(next_offset.min(self.next_offset));
        }
    }

    /// What is kept beside the chunks is durable, as [`Effect::Save`] asked for.
    pub fn saved(&mut self, state: &ReplicaState, out: &mut Events) {
        let replica = self.replica.as_deref_mut();
        match replica.map(|replica| &mut replica.role) {
            Some(Role::Leading(leading)) if state.log_epoch == leading.epoch => {
                leading.is_begun = true;
                self.advance(out);
            }
            Some(Role::Following(following))
                if following.is_becoming_whole
                    && state.is_whole
                    && state.log_epoch == following.epoch =>
            {
                following.is_becoming_whole = false;
                let epoch = following.epoch;
                self.report(ReplicaEvent::Whole { epoch });
                self.advance(out);
            }
            _ => {}
        }
    }

    /// Commits what can be.
    pub(super) fn advance(&mut self, out: &mut Events) {
        let Some(replica) = self.replica.as_deref() else {
            return;
        };
        let offset = match &replica.role {
            Role::Leading(leading) => leading.committed(replica.me, replica.durable),
            Role::Following(following) => following.committed.min(replica.durable),
            Role::Waiting => return,
        };
        let turn = replica.durable_turn;
        self.commit_to(offset, turn, out);
        let knows = self.turns.know_committed();
        if let Some(replica) = self.replica.as_deref_mut() {
            let hears = match &replica.role {
                Role::Leading(leading) => leading.is_begun && offset >= leading.start,
                Role::Following(following) => following.is_attached,
                Role::Waiting => false,
            };
            replica.is_ready |= knows && hears;
        }
        if self
            .replica
            .as_ref()
            .is_some_and(|replica| replica.is_ready)
        {
            self.serve_early(out);
        }
        self.serve_followers();
        self.say_durable();
        self.tell_if_settled();
    }

    /// Below which offset retention may delete; `None` where the leader says what goes. By size and
    /// age the leader, which has more, has let go of all that this one would; what a group holds
    /// only the leader knows, as an operator may have set its offset back.
    pub(super) fn expires_below(&self) -> Option<u64> {
        let Some(replica) = &self.replica else {
            return Some(u64::MAX);
        };
        let is_alone = replica.is_disk_full
            && !replica.is_cutting
            && self.settings.retention_groups.is_empty();
        let decides = matches!(replica.role, Role::Leading(_)) || is_alone;
        decides.then_some(self.turns.committed.next_offset)
    }
}
