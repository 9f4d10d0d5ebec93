//! A queue as the machine of its group: what its entries mean, and what is beside them.

use super::entry_payload::Arrival;
use super::{Around, Header, Pending, Replica};
use crate::group_log::GroupLog;
use leveret_replication::{
    Body, Entry, EntryKind, Host, LogStore, LogWrite, Machine, Membership, Message, Role,
    RoleChange, SnapshotMark,
};
use leveret_storage::ShardLogs;
use leveret_types::limits::QUORUM_HEADERS_KEPT;

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

impl Replica {
    /// Takes entries back that another leader overwrites, as far as they are not in the group's
    /// log: their messages, and what was kept to send them.
    pub(super) fn take_back(&mut self, logs: &mut ShardLogs, from: u64) {
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
}
