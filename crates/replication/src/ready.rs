//! The work of a group's turn, and the output that waits until that is durable.

use crate::convert::{change_in, entry_out, mark_out, message_out};
use crate::counts;
use crate::entry::{Entry, EntryKind};
use crate::group::{Group, HardState, RoleChange};
use crate::membership::{Membership, MembershipChange, SnapshotMark};
use crate::message::{Body, Message};
use leveret_types::limits::{APPEND_BYTES_MAX, APPEND_ENTRIES_MAX};
use raft::eraftpb;

/// What is to be done, in the order of the fields.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Ready {
    /// For [`Group::persisted`]. Ascending.
    pub number: u64,
    /// Write: a snapshot takes the place of the whole log. What it stands for must be durable
    /// before it is stepped in, or become so together with this mark. The log goes on at
    /// `index + 1`.
    pub install: Option<SnapshotMark>,
    /// Write: term and vote.
    pub hard_state: Option<HardState>,
    /// Write: entries from here on are overwritten by those that follow.
    pub truncate_from: Option<u64>,
    /// Write: these entries.
    pub append: Vec<Entry>,
    /// Whether there is something to write. What is not written needs no [`Group::persisted`].
    pub must_sync: bool,
    /// Send at once, in any order to different members and in this order to each.
    pub messages: Vec<Message>,
    /// Members that need a snapshot: carry the state up to the mark or beyond, then this message
    /// with the mark of what was carried, then [`Group::report_snapshot`].
    pub snapshots: Vec<Message>,
    /// Apply, in order. All are durable here. Entries that change members and empty ones are
    /// included: the group has applied what they are to itself.
    pub committed: Vec<Entry>,
    /// Who belongs to the group, when that changed with `committed` or `install`.
    pub membership: Option<Membership>,
    /// This member's role, term or leader changed.
    pub role: Option<RoleChange>,
}

/// What was handed out and is not durable yet.
#[derive(Debug)]
pub(crate) struct Unsettled {
    number: u64,
    must_sync: bool,
    has_hard_state: bool,
    install: Option<u64>,
    /// First and last entry.
    append: Option<(u64, u64)>,
    /// What may go when it is durable.
    messages: Vec<Message>,
}

impl Group {
    /// What is to be done next; `None` when there is nothing.
    pub fn ready(&mut self) -> Option<Ready> {
        self.send_proposals();
        if !self.raw.has_ready() {
            return self.ready_outbox();
        }
        let mut raw = self.raw.ready();
        let mut ready = Ready {
            number: raw.number(),
            ..Ready::default()
        };
        self.handed_out = raw.number();
        self.has_buffers = true;
        if !raw.snapshot().is_empty() {
            let mark = mark_out(raw.snapshot().get_metadata());
            self.raw.mut_store().install(&mark);
            ready.membership = Some(mark.membership.clone());
            ready.install = Some(mark);
        }
        ready.append = raw.take_entries().into_iter().map(entry_out).collect();
        ready.truncate_from = self.raw.mut_store().append(&ready.append);
        ready.hard_state = raw.hs().and_then(|state| self.new_hard_state(state));
        let committed = raw.take_committed_entries();
        let mut messages = raw.take_messages();
        let is_leaders = !messages.is_empty();
        messages.extend(raw.take_persisted_messages());
        self.raw.advance_append_async(raw);

        let messages = self.take_messages(messages, &mut ready);
        self.hand_out(&mut ready, messages, is_leaders);
        self.take_committed(committed, &mut ready);
        self.settle(0);
        ready.messages.append(&mut self.outbox);
        ready.role = self.new_role();
        self.count(&ready);
        Some(ready)
    }

    /// All that a [`Ready`] up to this number said to write is durable. Answers that waited for it
    /// come with the next [`Self::ready`].
    ///
    /// # Panics
    /// If that number was not handed out.
    pub fn persisted(&mut self, number: u64) {
        assert!(
            number <= self.handed_out,
            "persisted {number}, handed out is {}",
            self.handed_out
        );
        self.settle(number);
        self.stand_if_due();
        self.observe();
    }

    /// Counts what is about to be done.
    fn count(&mut self, ready: &Ready) {
        for message in ready.messages.iter().chain(&ready.snapshots) {
            let is_up = self.is_up(message.to);
            counts::send(&mut self.counts, message, is_up);
        }
        self.counts.writes += u64::from(ready.must_sync);
        if let Some(new) = ready.hard_state {
            self.counts.hard_states += 1;
            // Who stands votes for itself.
            self.counts.elections += u64::from(new.vote == self.replica.0);
        }
    }

    fn ready_outbox(&mut self) -> Option<Ready> {
        let role = self.new_role();
        if self.outbox.is_empty() && role.is_none() {
            self.rest();
            return None;
        }
        let ready = Ready {
            number: self.handed_out,
            messages: std::mem::take(&mut self.outbox),
            role,
            ..Ready::default()
        };
        self.count(&ready);
        Some(ready)
    }

    /// Term and vote, if they are new.
    fn new_hard_state(&mut self, state: &eraftpb::HardState) -> Option<HardState> {
        let new = HardState {
            term: state.term,
            vote: state.vote,
        };
        let is_new = new != self.hard;
        assert!(new.term >= self.hard.term, "a term that falls");
        self.hard = new;
        is_new.then_some(new)
    }

    fn new_role(&mut self) -> Option<RoleChange> {
        let now = RoleChange {
            role: self.role(),
            term: self.term(),
            leader: self.leader(),
        };
        let is_new = now != self.told;
        self.told = now;
        is_new.then_some(now)
    }

    fn take_messages(
        &mut self,
        messages: Vec<eraftpb::Message>,
        ready: &mut Ready,
    ) -> Vec<Message> {
        let mut out = Vec::with_capacity(messages.len());
        for message in messages.into_iter().filter_map(message_out) {
            match message.body {
                Body::Snapshot(_) => ready.snapshots.push(message),
                Body::Append { .. } => split(message, self.weigh, &mut out),
                _ => out.push(message),
            }
        }
        out
    }

    /// Notes what is to become durable. A leader's messages go at once, others when it is; and
    /// nothing goes before the term that it speaks of: who votes for itself alone leads at once.
    fn hand_out(&mut self, ready: &mut Ready, mut messages: Vec<Message>, is_leaders: bool) {
        let has_hard_state = ready.hard_state.is_some();
        let is_term_durable =
            !has_hard_state && !self.unsettled.iter().any(|waiting| waiting.has_hard_state);
        if is_leaders && is_term_durable {
            ready.messages.append(&mut messages);
        }
        let ends = ready.append.first().zip(ready.append.last());
        ready.must_sync = ready.install.is_some() || has_hard_state || ends.is_some();
        self.unsettled.push_back(Unsettled {
            number: ready.number,
            must_sync: ready.must_sync,
            has_hard_state,
            install: ready.install.as_ref().map(|mark| mark.index),
            append: ends.map(|(first, last)| (first.index, last.index)),
            messages,
        });
    }

    /// Settles what is durable up to a number, and what follows it and has nothing to write.
    fn settle(&mut self, number: u64) {
        while let Some(next) = self.unsettled.front() {
            if next.number > number && next.must_sync {
                break;
            }
            let Some(settled) = self.unsettled.pop_front() else {
                break;
            };
            self.raw.on_persist_ready(settled.number);
            self.became_durable(&settled);
            for message in settled.messages {
                self.release(message);
            }
        }
    }

    fn became_durable(&mut self, settled: &Unsettled) {
        if let Some(index) = settled.install {
            self.durable = index;
            if index > self.raw.raft.raft_log.applied {
                self.raw.advance_apply_to(index);
            }
        }
        if let Some((first, last)) = settled.append {
            assert!(first <= self.durable + 1, "entries with a hole are durable");
            self.durable = last;
        }
    }

    /// Lets a message go that waited. An answer in an earlier term than the present is of no use,
    /// and may speak of entries that have been overwritten since.
    fn release(&mut self, message: Message) {
        if message.term < self.term() {
            return;
        }
        if let Body::AppendReply {
            index,
            refused: None,
            ..
        } = message.body
        {
            assert!(
                index <= self.durable,
                "acknowledges entry {index}, durable is {}",
                self.durable
            );
            let before = self.acknowledged_in(message.term);
            self.acknowledged = (message.term, index.max(before));
        }
        self.outbox.push(message);
    }

    fn take_committed(&mut self, entries: Vec<eraftpb::Entry>, ready: &mut Ready) {
        ready.committed = entries.into_iter().map(entry_out).collect();
        for entry in &ready.committed {
            if entry.kind == EntryKind::Membership {
                self.change_members(entry);
                ready.membership = Some(self.membership().clone());
            }
        }
    }

    /// Applies a change of members that is committed. All members refuse the same ones.
    fn change_members(&mut self, entry: &Entry) {
        let change = match entry.data.is_empty() {
            true => MembershipChange::default(),
            false => MembershipChange::decode(&entry.data)
                .expect("entries are checked where they come in"),
        };
        let Ok(state) = self.raw.apply_conf_change(&change_in(&change)) else {
            return;
        };
        let membership = crate::convert::membership_out(&state);
        let is_voter = membership.is_voter(self.replica);
        self.raw.mut_store().members_from(entry.index, membership);
        if self.is_leader() && !is_voter {
            self.hand_over();
        }
        let leader = self.leader();
        if leader.is_some_and(|leader| !self.membership().contains(leader)) {
            self.lose_leader();
        }
    }
}

/// Cuts an append into messages of a size that others take.
fn split(message: Message, weigh: fn(&[u8]) -> u64, out: &mut Vec<Message>) {
    let Body::Append {
        index,
        log_term,
        commit,
        entries,
    } = message.body
    else {
        return;
    };
    let part = |index, log_term, entries| Message {
        body: Body::Append {
            index,
            log_term,
            commit,
            entries,
        },
        ..message
    };
    let (mut before, mut gathered, mut bytes) = ((index, log_term), Vec::new(), 0_u64);
    for entry in entries {
        let weight = weigh(&entry.data);
        let is_full =
            gathered.len() == APPEND_ENTRIES_MAX || bytes.saturating_add(weight) > APPEND_BYTES_MAX;
        if is_full && !gathered.is_empty() {
            let last: &Entry = &gathered[gathered.len() - 1];
            let next = (last.index, last.term);
            out.push(part(before.0, before.1, std::mem::take(&mut gathered)));
            (before, bytes) = (next, 0);
        }
        bytes = bytes.saturating_add(weight);
        gathered.push(entry);
    }
    out.push(part(before.0, before.1, gathered));
}
