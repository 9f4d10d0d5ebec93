//! The bytes of messages, records and memberships.

use bytes::Bytes;
use leveret_replication::{
    Body, Entry, EntryKind, Hint, Membership, MembershipChange, Message, SnapshotMark, fuzz,
};
use leveret_types::limits::{APPEND_ENTRIES_MAX, ENTRY_BYTES_MAX, GROUP_MEMBERS_MAX};
use leveret_types::{NodeId, ReplicaId};

fn replica(node: u32) -> ReplicaId {
    ReplicaId::new(NodeId(node), 3)
}

fn entry(index: u64, term: u64, data: &[u8]) -> Entry {
    Entry {
        index,
        term,
        kind: EntryKind::Normal,
        data: Bytes::copy_from_slice(data),
    }
}

fn change() -> MembershipChange {
    MembershipChange {
        voters: vec![replica(4)],
        learners: vec![replica(5), replica(6)],
        removed: vec![replica(1)],
    }
}

fn membership() -> Membership {
    Membership {
        voters: vec![replica(1), replica(2), replica(4)],
        voters_outgoing: vec![replica(1), replica(2), replica(3)],
        learners: vec![replica(9)],
        learners_next: vec![replica(3)],
        leaves_by_itself: true,
    }
}

fn append(entries: Vec<Entry>) -> Body {
    Body::Append {
        index: 299,
        log_term: 2,
        commit: 280,
        entries,
    }
}

fn bodies() -> Vec<Body> {
    let mut data = Vec::new();
    change().encode(&mut data);
    let changed = Entry {
        kind: EntryKind::Membership,
        ..entry(301, 3, &data)
    };
    let empty = Entry {
        kind: EntryKind::Empty,
        ..entry(302, 3, b"")
    };
    let mark = SnapshotMark {
        index: 1 << 40,
        term: 3,
        membership: membership(),
    };
    vec![
        append(Vec::new()),
        append(vec![entry(300, 2, b"header"), changed, empty]),
        Body::AppendReply {
            index: 300,
            commit: 0,
            refused: None,
        },
        Body::AppendReply {
            index: 300,
            commit: 280,
            refused: Some(Hint {
                index: 290,
                term: 2,
            }),
        },
        Body::Vote {
            is_trial: true,
            is_transfer: false,
            index: 300,
            log_term: 2,
            commit: 1,
            commit_term: 1,
        },
        Body::Voted {
            is_trial: false,
            is_granted: true,
            commit: 0,
            commit_term: 0,
        },
        Body::Heartbeat { commit: 128 },
        Body::HeartbeatReply { commit: 127 },
        Body::TimeoutNow,
        Body::Snapshot(mark),
        Body::Ask,
    ]
}

fn encoded(body: Body) -> Vec<u8> {
    let message = Message {
        to: replica(1),
        from: replica(2),
        term: 3,
        body,
    };
    let mut bytes = Vec::new();
    message.encode(&mut bytes);
    bytes
}

#[test]
fn every_message_comes_back_and_says_where_it_ends() {
    for body in bodies() {
        let mut bytes = encoded(body.clone());
        let len = bytes.len();
        bytes.extend_from_slice(b"beside");
        let (message, used) = Message::decode(&Bytes::from(bytes)).expect("a message");
        assert_eq!((message.body, used), (body, len));
    }
}

#[test]
fn no_part_of_a_message_is_one() {
    for body in bodies() {
        let bytes = encoded(body.clone());
        for end in 0..bytes.len() {
            let part = Bytes::copy_from_slice(&bytes[..end]);
            assert!(Message::decode(&part).is_err(), "{body:?} up to {end}");
        }
    }
}

#[test]
fn changed_bytes_are_refused_or_are_another_message() {
    for body in bodies() {
        let bytes = encoded(body);
        for place in 0..bytes.len() {
            for bit in 0..8 {
                let mut changed = bytes.clone();
                changed[place] ^= 1 << bit;
                let _ = fuzz::message(&changed);
            }
        }
    }
}

#[test]
fn records_come_back() {
    let whole = entry(7, 300, b"a header");
    let mut record = Vec::new();
    whole.encode_record(&mut record);
    assert_eq!(record, b"\x10\xAC\x02a header");
    let record = Bytes::from(record);
    assert_eq!(Entry::decode_record(7, &record), Ok(whole));
    assert!(Entry::decode_record(0, &record).is_err());
    for noise in [
        &b""[..],
        b"\x10",
        b"\x10\x01",
        b"\x20\x01x",
        b"\x13\x01x",
        b"\x11\x01x",
    ] {
        let record = Bytes::copy_from_slice(noise);
        assert!(Entry::decode_record(7, &record).is_err(), "{noise:?}");
    }
}

#[test]
fn a_record_has_a_place_and_a_term_within_their_bounds() {
    const LARGEST: u64 = 1 << 62;
    let decode = |index: u64, term: u64| {
        let mut record = Vec::new();
        entry(7, term, b"data").encode_record(&mut record);
        Entry::decode_record(index, &Bytes::from(record))
    };
    for (index, term) in [(1, 1), (LARGEST, 1), (1, LARGEST)] {
        let found = decode(index, term).map(|entry| (entry.index, entry.term));
        assert_eq!(found, Ok((index, term)));
    }
    for (index, term) in [(0, 1), (LARGEST + 1, 1), (1, 0), (1, LARGEST + 1)] {
        assert!(decode(index, term).is_err(), "{index} of term {term}");
    }
}

#[test]
fn the_bytes_of_a_membership_stay_what_they_are() {
    let mut bytes = Vec::new();
    SnapshotMark::founding([replica(2), replica(1)]).encode(&mut bytes);
    let expected = b"\x01\x01\x01\x00\x02\x03\0\0\0\x01\0\0\0\x03\0\0\0\x02\0\0\0\0\0\0";
    assert_eq!(bytes, expected);
    assert!(fuzz::members(&bytes));
}

#[test]
fn a_number_has_one_spelling() {
    // Of a heartbeat: version, kind, two replicas, term, commit.
    let heartbeat = |commit: &[u8]| {
        let mut bytes = encoded(Body::Heartbeat { commit: 0 });
        bytes.pop();
        bytes.extend_from_slice(commit);
        Message::decode(&Bytes::from(bytes)).is_ok()
    };
    let largest = b"\x80\x80\x80\x80\x80\x80\x80\x80\x40";
    assert!(heartbeat(b"\x7F") && heartbeat(b"\x80\x01") && heartbeat(largest));
    assert!(!heartbeat(b"\x80\x00"));
    assert!(!heartbeat(b"\x81\x80\x80\x80\x80\x80\x80\x80\x40"));
    assert!(!heartbeat(b"\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01"));
}

#[test]
fn a_message_has_a_largest_count_of_entries_of_a_largest_size() {
    let many = |count: usize| {
        let entries = (0..count as u64).map(|n| entry(300 + n, 3, b"x"));
        let bytes = encoded(append(entries.collect()));
        Message::decode(&Bytes::from(bytes)).is_ok()
    };
    assert!(many(APPEND_ENTRIES_MAX) && !many(APPEND_ENTRIES_MAX + 1));
    let large = |bytes: usize| {
        let bytes = encoded(append(vec![entry(300, 3, &vec![0; bytes])]));
        Message::decode(&Bytes::from(bytes)).is_ok()
    };
    assert!(large(ENTRY_BYTES_MAX) && !large(ENTRY_BYTES_MAX + 1));
    let members = |count: u32| {
        let mut bytes = Vec::new();
        Membership::of_voters((1..=count).map(replica)).encode(&mut bytes);
        Membership::decode(&Bytes::from(bytes)).is_ok()
    };
    let most = GROUP_MEMBERS_MAX as u32;
    assert!(members(most) && !members(most + 1) && !members(0));
}

#[test]
fn memberships_that_no_group_can_have_are_refused() {
    let broken: [fn(&mut Membership); 8] = [
        |m| m.voters.clear(),
        |m| m.voters.swap(0, 1),
        |m| m.voters.push(replica(4)),
        |m| m.learners.push(replica(10_000_000)),
        |m| m.learners = vec![replica(1)],
        |m| m.learners_next = vec![replica(9)],
        |m| m.learners_next = vec![replica(1)],
        |m| (m.voters_outgoing, m.learners_next) = (Vec::new(), Vec::new()),
    ];
    for (number, break_it) in broken.iter().enumerate() {
        let mut broken = membership();
        break_it(&mut broken);
        let mut bytes = Vec::new();
        broken.encode(&mut bytes);
        let is_sound = Membership::decode(&Bytes::from(bytes)).is_ok();
        // A further learner is nothing broken: the test breaks what it says.
        assert_eq!(is_sound, number == 3, "{broken:?}");
    }
}

#[test]
fn noise_is_no_message_and_allocates_nothing() {
    let mut random = crate::world::Random(1);
    for _ in 0..20_000 {
        let len = random.below(60);
        let mut noise: Vec<u8> = (0..len).map(|_| random.next() as u8).collect();
        // A real beginning leads further in.
        if let Some((first, second)) = noise.first_mut().zip(Some(1 + random.below(9) as u8)) {
            *first = 1;
            if let Some(kind) = noise.get_mut(1) {
                *kind = second;
            }
        }
        let _ = (
            fuzz::message(&noise),
            fuzz::record(&noise),
            fuzz::members(&noise),
        );
    }
}
