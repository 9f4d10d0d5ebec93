//! What a replica writes, frozen: the header of a batch and the state of its log, in all versions
//! that there were. Versions that are not written any more are those of the same content, without
//! what they did not have.

use super::*;
use crate::golden::{assert_frozen, bytes};
use crate::quorum::protocol::Origin;
use crate::quorum::replica::applied_state::Applied;
use crate::quorum::replica::header::{Header, Leaving, Returned};
use leveret_queue::{Reason, Returns};
use leveret_replication::{Membership, SnapshotMark};

const RETURNS: Returns = Returns {
    failed: 3,
    acquired: 4,
    ready_ms: 1_700_000_000_000,
};
/// What version 1 knew of them.
const RETURNS_OF_FIRST: Returns = Returns {
    failed: 3,
    acquired: 3,
    ready_ms: 0,
};

fn origin(node: u32, start: u64) -> Origin {
    Origin {
        node: NodeId(node),
        start,
    }
}

fn header(returns: Returns, has_leaving: bool) -> Header {
    let mut header = Header {
        weight: 51_000,
        ..Header::default()
    };
    header.through(origin(1, 7), 300);
    header.through(origin(200, u64::MAX), 5);
    (40..90).for_each(|index| header.message(4, index));
    header.message(31, 0);
    header.left(4, 0..21, 105);
    header.left(4, 30..31, 5);
    header.returned.push(Returned {
        priority_log: 4,
        range: 22..24,
        known: returns,
    });
    header.delivered.push((4, 64));
    header.delivered.push((31, 1));
    if has_leaving {
        let reasons = [
            Reason::Rejected,
            Reason::Expired,
            Reason::MaxLength,
            Reason::DeliveryLimit,
        ];
        for (start, reason) in (24..).zip(reasons) {
            header.leaving.push(Leaving {
                priority_log: 4,
                range: start..start + 1,
                reason,
            });
        }
    }
    header
}

/// The state that these headers make of a member.
fn state(returns: Returns, has_leaving: bool, votes_from: (u64, u64)) -> Applied {
    let mut state = Applied {
        replica: ReplicaId::new(NodeId(3), 2),
        ..Applied::default()
    };
    state.apply(&header(returns, has_leaving));
    (state.votes_from, state.votes_from_term) = votes_from;
    state
}

fn mark() -> SnapshotMark {
    let replicas = |nodes: [u32; 2]| nodes.map(|node| ReplicaId::new(NodeId(node), 2));
    SnapshotMark {
        index: 4_000,
        term: 9,
        membership: Membership {
            voters: replicas([1, 3]).to_vec(),
            voters_outgoing: replicas([3, 4]).to_vec(),
            learners: replicas([5, 6]).to_vec(),
            learners_next: replicas([4, 4])[..1].to_vec(),
            leaves_by_itself: true,
        },
    }
}

const HEADER_2: &str = "\
    02b88e03020107ac02c801ffffffffffffffffff0105020428321f00010204001569041e0105010416020304\
    80d095ffbc310204401f01040418010004190101041a0102041b0103";
const HEADER_1: &str = "\
    01b88e03020107ac02c801ffffffffffffffffff0105020428321f00010204001569041e0105010416020302\
    04401f01";
const STATE_3: &str = "\
    03020000000300000041a01f0901010202000000010000000200000003000000020200000003000000020000\
    00040000000202000000050000000200000006000000010200000004000000bc1e08020107ac02c801ffffff\
    ffffffffffff010502045a401f010101041602030480d095ffbc31040418010004190101041a0102041b0103";
const STATE_2: &str = "\
    02020000000300000041a01f0901010202000000010000000200000003000000020200000003000000020000\
    00040000000202000000050000000200000006000000010200000004000000bc1e020107ac02c801ffffffff\
    ffffffffff010502045a401f010101041602030480d095ffbc31040418010004190101041a0102041b0103";
const STATE_1: &str = "\
    01020000000300000041a01f0901010202000000010000000200000003000000020200000003000000020000\
    00040000000202000000050000000200000006000000010200000004000000bc1e020107ac02c801ffffffff\
    ffffffffff010502045a401f01010104160203";

/// What the leader of a view of a stream says that was given messages, of which one is settled.
fn header_of_view() -> Header {
    let mut header = Header::default();
    for offset in [300, 301, 303] {
        header.give(offset);
    }
    header.given_through(310, (QueueId(9).of_stream(), 1_700_000_000_000));
    header.left(0, 301..302, 5);
    header
}

const HEADER_OF_VIEW: &str =
    "030000000100ad020105000000898080808080801080d095ffbc31b60202ac0202af0201";
const STATE_OF_VIEW: &str = "\
    04020000000300000041a01f0901010202000000010000000200000003000000020200000003000000020000\
    000400000002020000000500000002000000060000000102000000040000000000000100b602000000898080\
    808080801080d095ffbc3102ac02010201";

#[test]
fn what_a_view_writes_is_read() {
    let header = header_of_view();
    assert_frozen(&header.encode(), HEADER_OF_VIEW);
    let read = Header::decode(&bytes(HEADER_OF_VIEW));
    assert_eq!(read.expect("it is one"), header);
    let mut state = Applied {
        replica: ReplicaId::new(NodeId(3), 2),
        ..Applied::default()
    };
    state.apply(&header);
    assert_frozen(&state.encode(&mark()), STATE_OF_VIEW);
    let (read, of) = Applied::decode(&bytes(STATE_OF_VIEW)).expect("it is one");
    assert_eq!((of, read.view), (mark(), state.view));
}

/// What the header of version 2 has, and refused publishes.
const HEADER_OF_REFUSALS: &str = "\
    04b88e03020107ac02c801ffffffffffffffffff0105020428321f00010204001569041e0105010416020304\
    80d095ffbc310204401f01040418010004190101041a0102041b0103\
    020107980202a202020801c801ffffffffffffffffff010001050100";
const STATE_OF_REFUSALS: &str = "\
    05020000000300000041a01f0901010202000000010000000200000003000000020200000003000000020000\
    00040000000202000000050000000200000006000000010200000004000000bc1e08020107ac02c801ffffff\
    ffffffffffff010502045a401f010101041602030480d095ffbc31040418010004190101041a0102041b0103\
    020107980202a202020801c801ffffffffffffffffff010001050100";

#[test]
fn what_was_refused_is_read() {
    let mut header = header(RETURNS, true);
    for sequence in [290, 291, 300] {
        header.refuse(origin(1, 7), 280, sequence);
    }
    header.refuse(origin(200, u64::MAX), 0, 5);
    assert_frozen(&header.encode(), HEADER_OF_REFUSALS);
    let read = Header::decode(&bytes(HEADER_OF_REFUSALS));
    assert_eq!(read.expect("it is one"), header);
    let mut state = Applied {
        replica: ReplicaId::new(NodeId(3), 2),
        ..Applied::default()
    };
    state.apply(&header);
    (state.votes_from, state.votes_from_term) = (3_900, 8);
    assert_frozen(&state.encode(&mark()), STATE_OF_REFUSALS);
    let (read, of) = Applied::decode(&bytes(STATE_OF_REFUSALS)).expect("it is one");
    assert_eq!((of, read.refused), (mark(), state.refused));
}

#[test]
fn headers_of_batches_of_all_versions_are_read() {
    assert_frozen(&header(RETURNS, true).encode(), HEADER_2);
    let read = |frozen| Header::decode(&bytes(frozen)).expect("it is one");
    assert_eq!(read(HEADER_2), header(RETURNS, true));
    assert_eq!(read(HEADER_1), header(RETURNS_OF_FIRST, false));
    let mut later = bytes(HEADER_2);
    later[0] = 3;
    assert!(Header::decode(&later).is_err());
}

#[test]
fn states_of_replicas_of_all_versions_are_read() {
    let third = state(RETURNS, true, (3_900, 8));
    let second = state(RETURNS, true, (3_900, 0));
    let first = state(RETURNS_OF_FIRST, false, (3_900, 0));
    assert_frozen(&third.encode(&mark()), STATE_3);
    assert_frozen(&second.encode(&mark()), STATE_2);
    for (frozen, expected) in [(STATE_3, third), (STATE_2, second), (STATE_1, first)] {
        let (read, of) = Applied::decode(&bytes(frozen)).expect("it is one");
        assert_eq!(of, mark());
        assert_eq!(read.encode(&mark()), expected.encode(&mark()));
        assert_eq!(read.through(origin(1, 7)), Some(300));
        assert_eq!(read.returns(4), expected.returns(4));
        assert_eq!(read.returns(4).len(), 1);
        assert!(read.leaving(4).eq(expected.leaving(4)));
    }
}
