//! Between the library's types and ours. Nothing of the library's is ever parsed from bytes: what
//! comes from a peer or a disk is ours, and a membership change travels in an entry's `context`,
//! which the library does not look into.

use crate::entry::{Entry, EntryKind};
use crate::membership::{Membership, MembershipChange, SnapshotMark};
use crate::message::{Body, Hint, Message};
use bytes::Bytes;
use leveret_types::ReplicaId;
use raft::eraftpb::{self, ConfChangeSingle, ConfChangeType, ConfState, EntryType, MessageType};

/// What the library writes into a vote that a leader asked for. It has no name for it outside.
const CAMPAIGN_TRANSFER: &[u8] = b"CampaignTransfer";

pub(crate) fn entry_out(entry: eraftpb::Entry) -> Entry {
    let (kind, data) = match entry.get_entry_type() {
        EntryType::EntryNormal if entry.data.is_empty() => (EntryKind::Empty, Bytes::new()),
        EntryType::EntryNormal => (EntryKind::Normal, entry.data),
        EntryType::EntryConfChange | EntryType::EntryConfChangeV2 => {
            (EntryKind::Membership, entry.context)
        }
    };
    Entry {
        index: entry.index,
        term: entry.term,
        kind,
        data,
    }
}

pub(crate) fn entry_in(index: u64, term: u64, kind: EntryKind, data: Bytes) -> eraftpb::Entry {
    let mut entry = eraftpb::Entry {
        index,
        term,
        ..eraftpb::Entry::default()
    };
    match kind {
        EntryKind::Normal | EntryKind::Empty => entry.data = data,
        EntryKind::Membership => {
            entry.set_entry_type(EntryType::EntryConfChangeV2);
            entry.context = data;
        }
    }
    entry
}

/// The library's message as ours; `None` for what stays inside one member.
pub(crate) fn message_out(mut message: eraftpb::Message) -> Option<Message> {
    let kind = message.get_msg_type();
    let body = match kind {
        MessageType::MsgAppend => Body::Append {
            index: message.index,
            log_term: message.log_term,
            commit: message.commit,
            entries: message.take_entries().into_iter().map(entry_out).collect(),
        },
        MessageType::MsgAppendResponse => Body::AppendReply {
            index: message.index,
            commit: message.commit,
            refused: message.reject.then_some(Hint {
                index: message.reject_hint,
                term: message.log_term,
            }),
        },
        MessageType::MsgRequestVote | MessageType::MsgRequestPreVote => Body::Vote {
            is_trial: kind == MessageType::MsgRequestPreVote,
            is_transfer: message.context == CAMPAIGN_TRANSFER,
            index: message.index,
            log_term: message.log_term,
            commit: message.commit,
            commit_term: message.commit_term,
        },
        MessageType::MsgRequestVoteResponse | MessageType::MsgRequestPreVoteResponse => {
            Body::Voted {
                is_trial: kind == MessageType::MsgRequestPreVoteResponse,
                is_granted: !message.reject,
                commit: message.commit,
                commit_term: message.commit_term,
            }
        }
        MessageType::MsgHeartbeat => Body::Heartbeat {
            commit: message.commit,
        },
        MessageType::MsgHeartbeatResponse => Body::HeartbeatReply {
            commit: message.commit,
        },
        MessageType::MsgTimeoutNow => Body::TimeoutNow,
        MessageType::MsgSnapshot => Body::Snapshot(mark_out(message.get_snapshot().get_metadata())),
        _ => return None,
    };
    Some(Message {
        to: ReplicaId(message.to),
        from: ReplicaId(message.from),
        term: message.term,
        body,
    })
}

/// Our message as the library's; `None` for what the library does not know. Data of entries is
/// copied: it would keep the frame alive that it came in, with all that lay beside it.
pub(crate) fn message_in(ours: Message) -> Option<eraftpb::Message> {
    let mut message = eraftpb::Message {
        to: ours.to.0,
        from: ours.from.0,
        term: ours.term,
        ..eraftpb::Message::default()
    };
    let kind = match ours.body {
        Body::Append {
            index,
            log_term,
            commit,
            entries,
        } => {
            (message.index, message.log_term, message.commit) = (index, log_term, commit);
            let copy = |entry: Entry| {
                let data = Bytes::copy_from_slice(&entry.data);
                entry_in(entry.index, entry.term, entry.kind, data)
            };
            let entries: Vec<eraftpb::Entry> = entries.into_iter().map(copy).collect();
            message.set_entries(entries.into());
            MessageType::MsgAppend
        }
        Body::AppendReply {
            index,
            commit,
            refused,
        } => {
            (message.index, message.commit) = (index, commit);
            if let Some(hint) = refused {
                message.reject = true;
                (message.reject_hint, message.log_term) = (hint.index, hint.term);
            }
            MessageType::MsgAppendResponse
        }
        Body::Vote {
            is_trial,
            is_transfer,
            index,
            log_term,
            commit,
            commit_term,
        } => {
            (message.index, message.log_term) = (index, log_term);
            (message.commit, message.commit_term) = (commit, commit_term);
            if is_transfer {
                message.context = Bytes::from_static(CAMPAIGN_TRANSFER);
            }
            match is_trial {
                true => MessageType::MsgRequestPreVote,
                false => MessageType::MsgRequestVote,
            }
        }
        Body::Voted {
            is_trial,
            is_granted,
            commit,
            commit_term,
        } => {
            message.reject = !is_granted;
            (message.commit, message.commit_term) = (commit, commit_term);
            match is_trial {
                true => MessageType::MsgRequestPreVoteResponse,
                false => MessageType::MsgRequestVoteResponse,
            }
        }
        Body::Heartbeat { commit } => {
            message.commit = commit;
            MessageType::MsgHeartbeat
        }
        Body::HeartbeatReply { commit } => {
            message.commit = commit;
            MessageType::MsgHeartbeatResponse
        }
        Body::TimeoutNow => MessageType::MsgTimeoutNow,
        Body::Snapshot(mark) => {
            message.set_snapshot(snapshot_in(&mark));
            MessageType::MsgSnapshot
        }
        Body::Ask => return None,
    };
    message.set_msg_type(kind);
    Some(message)
}

pub(crate) fn snapshot_in(mark: &SnapshotMark) -> eraftpb::Snapshot {
    let mut snapshot = eraftpb::Snapshot::default();
    let metadata = snapshot.mut_metadata();
    (metadata.index, metadata.term) = (mark.index, mark.term);
    metadata.set_conf_state(membership_in(&mark.membership));
    snapshot
}

pub(crate) fn mark_out(metadata: &eraftpb::SnapshotMetadata) -> SnapshotMark {
    SnapshotMark {
        index: metadata.index,
        term: metadata.term,
        membership: membership_out(metadata.get_conf_state()),
    }
}

pub(crate) fn membership_in(membership: &Membership) -> ConfState {
    let numbers = |list: &[ReplicaId]| list.iter().map(|replica| replica.0).collect::<Vec<u64>>();
    let mut state = ConfState::default();
    state.set_voters(numbers(&membership.voters));
    state.set_voters_outgoing(numbers(&membership.voters_outgoing));
    state.set_learners(numbers(&membership.learners));
    state.set_learners_next(numbers(&membership.learners_next));
    state.auto_leave = membership.leaves_by_itself;
    state
}

pub(crate) fn membership_out(state: &ConfState) -> Membership {
    let replicas =
        |numbers: &[u64]| crate::membership::sorted(numbers.iter().map(|id| ReplicaId(*id)));
    Membership {
        voters: replicas(state.get_voters()),
        voters_outgoing: replicas(state.get_voters_outgoing()),
        learners: replicas(state.get_learners()),
        learners_next: replicas(state.get_learners_next()),
        leaves_by_itself: state.auto_leave,
    }
}

/// The library's form of a change. Without changes it ends a joint membership.
pub(crate) fn change_in(change: &MembershipChange) -> eraftpb::ConfChangeV2 {
    let lists = [
        (&change.voters, ConfChangeType::AddNode),
        (&change.learners, ConfChangeType::AddLearnerNode),
        (&change.removed, ConfChangeType::RemoveNode),
    ];
    let single = |replica: &ReplicaId, kind: ConfChangeType| {
        let mut single = ConfChangeSingle {
            node_id: replica.0,
            ..ConfChangeSingle::default()
        };
        single.set_change_type(kind);
        single
    };
    let changes: Vec<ConfChangeSingle> = lists
        .into_iter()
        .flat_map(|(list, kind)| list.iter().map(move |replica| single(replica, kind)))
        .collect();
    let mut all = eraftpb::ConfChangeV2::default();
    all.set_changes(changes.into());
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A membership of which each list has members of its own.
    fn full(leaves_by_itself: bool) -> Membership {
        let replicas = |numbers: [u64; 2]| numbers.map(ReplicaId).to_vec();
        Membership {
            voters: replicas([1, 2]),
            voters_outgoing: replicas([3, 4]),
            learners: replicas([5, 6]),
            learners_next: replicas([7, 8]),
            leaves_by_itself,
        }
    }

    /// No change of ours makes a voter a learner, but a group must know a membership in which one
    /// is to be, as it may come from elsewhere.
    #[test]
    fn a_membership_passes_the_library_as_it_is() {
        let of_learners_to_be = Membership {
            learners_next: vec![ReplicaId(9)],
            ..Membership::default()
        };
        for membership in [full(true), full(false), of_learners_to_be] {
            assert_eq!(membership_out(&membership_in(&membership)), membership);
            let mark = SnapshotMark {
                index: 17,
                term: 3,
                membership,
            };
            assert_eq!(mark_out(snapshot_in(&mark).get_metadata()), mark);
        }
    }

    #[test]
    fn lists_of_the_library_are_sorted() {
        let mut state = membership_in(&full(true));
        state.set_voters(vec![2, 1]);
        state.set_voters_outgoing(vec![4, 3]);
        state.set_learners(vec![6, 5]);
        state.set_learners_next(vec![8, 7]);
        assert_eq!(membership_out(&state), full(true));
    }

    #[test]
    fn each_list_of_a_change_is_told_as_what_it_is() {
        let change = MembershipChange {
            voters: vec![ReplicaId(1), ReplicaId(2)],
            learners: vec![ReplicaId(3)],
            removed: vec![ReplicaId(4), ReplicaId(5)],
        };
        let all = change_in(&change);
        let told = all.get_changes().iter();
        let told = told.map(|single| (single.node_id, single.get_change_type()));
        let expected = [
            (1, ConfChangeType::AddNode),
            (2, ConfChangeType::AddNode),
            (3, ConfChangeType::AddLearnerNode),
            (4, ConfChangeType::RemoveNode),
            (5, ConfChangeType::RemoveNode),
        ];
        assert_eq!(told.collect::<Vec<_>>(), expected);
        let none = change_in(&MembershipChange::default());
        assert!(none.get_changes().is_empty(), "it ends a joint membership");
    }
}
