//! Entrances for fuzzing: each takes any bytes, and must neither panic nor allocate much more than
//! it was given. What is sound is encoded to the same bytes again.

use crate::{
    Body, Entry, EntryKind, Group, GroupConfig, HardState, Membership, MembershipChange, Message,
    SnapshotMark,
};
use bytes::Bytes;
use leveret_types::{NodeId, ReplicaId};

/// A message; whether it is one.
#[must_use]
pub fn message(bytes: &[u8]) -> bool {
    let Ok((message, len)) = Message::decode(&Bytes::copy_from_slice(bytes)) else {
        return false;
    };
    let mut again = Vec::new();
    message.encode(&mut again);
    assert_eq!(again, bytes[..len], "{message:?}");
    true
}

/// An entry's record; whether it is one.
#[must_use]
pub fn record(bytes: &[u8]) -> bool {
    let Ok(entry) = Entry::decode_record(7, &Bytes::copy_from_slice(bytes)) else {
        return false;
    };
    let mut again = Vec::new();
    entry.encode_record(&mut again);
    assert_eq!(again, bytes, "{entry:?}");
    true
}

/// A snapshot's mark, a membership or a change of one; whether it is any of them.
#[must_use]
pub fn members(bytes: &[u8]) -> bool {
    let bytes = Bytes::copy_from_slice(bytes);
    let mut again = Vec::new();
    if let Ok(mark) = SnapshotMark::decode(&bytes) {
        mark.encode(&mut again);
    } else if let Ok(membership) = Membership::decode(&bytes) {
        membership.encode(&mut again);
    } else if let Ok(change) = MembershipChange::decode(&bytes) {
        change.encode(&mut again);
    } else {
        return false;
    }
    assert_eq!(again, bytes);
    true
}

/// Messages one after the other for a follower or, after an odd first byte, for a leader; how many
/// were taken. No member of a group can be made to panic by another.
#[must_use]
pub fn step(bytes: &[u8]) -> usize {
    let Some((role, rest)) = bytes.split_first() else {
        return 0;
    };
    let mut group = member(1);
    if role % 2 == 1 {
        lead(&mut group);
    }
    let (mut rest, mut taken) = (Bytes::copy_from_slice(rest), 0);
    while let Ok((mut message, len)) = Message::decode(&rest) {
        rest = rest.slice(len..);
        message.to = group.replica();
        if group.step(message).is_ok() {
            taken += 1;
        }
        settle(&mut group);
        if role & 2 != 0 {
            group.tick();
            settle(&mut group);
        }
    }
    taken
}

fn replica(node: u32) -> ReplicaId {
    ReplicaId::new(NodeId(node), 1)
}

fn member(node: u32) -> Group {
    let config = GroupConfig {
        replica: replica(node),
        seed: 1,
        weigh: |data| data.len() as u64,
    };
    let mark = SnapshotMark::founding((1..=3).map(replica));
    let group = Group::new(config, HardState::default(), mark, Vec::new(), 0);
    group.expect("a founding state")
}

/// Two votes and a few entries.
fn lead(group: &mut Group) {
    group.campaign();
    settle(group);
    for is_trial in [true, false] {
        let granted = Message {
            to: group.replica(),
            from: replica(2),
            term: 2,
            body: Body::Voted {
                is_trial,
                is_granted: true,
                commit: 0,
                commit_term: 0,
            },
        };
        // Taken: it was asked for.
        let _ = group.step(granted);
        settle(group);
    }
    for _ in 0..4 {
        let _ = group.propose(Bytes::from_static(b"x"));
    }
    settle(group);
}

fn settle(group: &mut Group) {
    while let Some(ready) = group.ready() {
        group.persisted(ready.number);
        if let Some(last) = ready.committed.last() {
            group.applied(last.index);
        }
    }
}

/// Inputs of [`message`], [`record`], [`members`] and [`step`] to begin with.
#[must_use]
pub fn seeds(target: &str) -> Vec<Vec<u8>> {
    let change = MembershipChange::replace(replica(3), replica(4));
    let mark = SnapshotMark {
        index: 9,
        term: 2,
        membership: Membership {
            voters: vec![replica(1), replica(2), replica(4)],
            voters_outgoing: vec![replica(1), replica(2), replica(3)],
            leaves_by_itself: true,
            ..Membership::default()
        },
    };
    let mut changed = Vec::new();
    change.encode(&mut changed);
    match target {
        "group_members" => {
            let (mut marked, mut members) = (Vec::new(), Vec::new());
            mark.encode(&mut marked);
            mark.membership.encode(&mut members);
            vec![changed, marked, members]
        }
        "group_record" => entries(changed).iter().map(record_of).collect(),
        "group_message" => bodies(changed, mark).into_iter().map(sent).collect(),
        _ => {
            let all: Vec<Vec<u8>> = bodies(changed, mark).into_iter().map(sent).collect();
            let one_by_one = all
                .iter()
                .flat_map(|bytes| (0..4_u8).map(|role| [&[role][..], bytes, bytes].concat()));
            let together = (0..4_u8).map(|role| [&[role][..], &all.concat()].concat());
            together.chain(one_by_one).take(24).collect()
        }
    }
}

fn record_of(entry: &Entry) -> Vec<u8> {
    let mut bytes = Vec::new();
    entry.encode_record(&mut bytes);
    bytes
}

fn sent(body: Body) -> Vec<u8> {
    let mut bytes = Vec::new();
    let message = Message {
        to: replica(1),
        from: replica(2),
        term: 2,
        body,
    };
    message.encode(&mut bytes);
    bytes
}

fn entries(change: Vec<u8>) -> Vec<Entry> {
    let entry = |index, kind, data| Entry {
        index,
        term: 2,
        kind,
        data,
    };
    vec![
        entry(2, EntryKind::Empty, Bytes::new()),
        entry(3, EntryKind::Normal, Bytes::from_static(b"header")),
        entry(4, EntryKind::Membership, Bytes::from(change)),
        entry(5, EntryKind::Membership, Bytes::new()),
    ]
}

fn bodies(change: Vec<u8>, mark: SnapshotMark) -> Vec<Body> {
    vec![
        Body::Append {
            index: 1,
            log_term: 1,
            commit: 3,
            entries: entries(change),
        },
        Body::AppendReply {
            index: 5,
            commit: 1,
            refused: None,
        },
        Body::AppendReply {
            index: 5,
            commit: 1,
            refused: Some(crate::Hint { index: 2, term: 1 }),
        },
        Body::Heartbeat { commit: 1 },
        Body::HeartbeatReply { commit: 1 },
        Body::Snapshot(mark),
        Body::Vote {
            is_trial: true,
            is_transfer: false,
            index: 5,
            log_term: 2,
            commit: 1,
            commit_term: 1,
        },
        Body::Voted {
            is_trial: false,
            is_granted: false,
            commit: 3,
            commit_term: 2,
        },
        Body::TimeoutNow,
        Body::Ask,
    ]
}
