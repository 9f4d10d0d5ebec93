//! Members of each role at the edges: what they send, drop and accept.

use super::*;

#[test]
fn no_group_begins_without_a_number_or_behind_no_entry() {
    let restored = |number: u64, mark: SnapshotMark| {
        let config = GroupConfig {
            replica: ReplicaId(number),
            seed: 0,
            weigh: |_| 1,
        };
        Group::new(config, HardState::default(), mark, Vec::new(), 0).is_ok()
    };
    let mark = SnapshotMark::founding([replica(1)]);
    assert!(restored(replica(1).0, mark.clone()));
    assert!(!restored(0, mark.clone()));
    for (index, term) in [(0, mark.term), (mark.index, 0), (u64::MAX, mark.term)] {
        let membership = mark.membership.clone();
        let mark = SnapshotMark {
            index,
            term,
            membership,
        };
        let mut bytes = Vec::new();
        mark.encode(&mut bytes);
        assert!(SnapshotMark::decode(&bytes.into()).is_err(), "{mark:?}");
        assert!(!restored(replica(1).0, mark), "{index} {term}");
    }
}

/// A group of one whose member leads.
fn leader_alone() -> Group {
    let mut group = group_of(1, 1, HardState::default(), Vec::new());
    group.campaign();
    settle(&mut group);
    assert!(group.is_leader());
    group
}

/// All is durable, and what is committed is applied.
fn settle(group: &mut Group) -> Vec<Ready> {
    let mut all = persist_all(group);
    loop {
        let committed = all.iter().flat_map(|ready| &ready.committed);
        let Some(last) = committed.map(|entry| entry.index).max() else {
            return all;
        };
        group.applied(last);
        let more = persist_all(group);
        if more.is_empty() {
            return all;
        }
        all.extend(more);
    }
}

#[test]
fn the_only_voter_makes_room_for_another_one() {
    let mut group = leader_alone();
    let add = MembershipChange::add(replica(4));
    group.propose_membership(&add).expect("taken");
    settle(&mut group);
    let last = group.last_index();
    acknowledge(&mut group, 4, last);
    let nobody = MembershipChange::remove(replica(1));
    assert_eq!(
        group.propose_membership(&nobody),
        Err(ProposeError::BadChange("no voter would be left"))
    );
    let change = MembershipChange {
        voters: vec![replica(4)],
        learners: Vec::new(),
        removed: vec![replica(1)],
    };
    group.propose_membership(&change).expect("one is left");
}

#[test]
fn a_member_that_follows_says_nothing_however_often_its_time_comes() {
    let mut group = group(2);
    group.step(append(2, 1, 1, &[2])).expect("sound");
    persist_all(&mut group);
    assert!(!group.wants_tick());
    for _ in 0..1_000 {
        group.tick();
        assert!(drain(&mut group).is_empty());
    }
    assert_eq!(group.status().role, Role::Follower);
}

#[test]
fn who_stands_in_vain_does_not_wait_as_long_each_time() {
    let mut group = group(2);
    group.peer_down(NodeId(1));
    let (mut waits, mut since) = (Vec::new(), 0);
    for _ in 0..3_000 {
        group.tick();
        since += 1;
        let readies = persist_all(&mut group);
        let asks = |message: &&Message| matches!(message.body, Body::Vote { .. });
        if messages(&readies).iter().any(asks) {
            waits.push(since);
            since = 0;
        }
    }
    waits.sort_unstable();
    waits.dedup();
    assert!(waits.len() > 2, "{waits:?}");
}

#[test]
fn who_is_down_is_not_asked_who_leads() {
    let mut group = group(2);
    group.peer_down(NodeId(3));
    let mut requested: Vec<ReplicaId> = Vec::new();
    for _ in 0..200 {
        group.tick();
        let readies = persist_all(&mut group);
        let all = messages(&readies).into_iter();
        requested.extend(
            all.filter(|message| message.body == Body::Ask)
                .map(|m| m.to),
        );
    }
    assert!(requested.contains(&replica(1)), "{requested:?}");
    assert!(!requested.contains(&replica(3)), "{requested:?}");
}

#[test]
fn what_everybody_has_is_forgotten_as_soon_as_they_say_so() {
    let mut group = leader_of(20);
    let applied = group.status().applied;
    group.compacted(applied);
    assert!(group.term_at(5).is_some(), "the third member lacks it");
    let last = group.last_index();
    acknowledge(&mut group, 3, last);
    assert_eq!(group.term_at(5), None);
}

#[test]
fn a_new_term_knows_nothing_of_who_did_not_follow_in_an_earlier_one() {
    let mut group = leader_of(1);
    for _ in 0..MEMBER_STUCK_MS / GROUP_TICK_MS + 2 {
        group.tick();
        persist_all(&mut group);
    }
    assert_eq!(group.stuck().collect::<Vec<_>>(), [replica(3)]);
    let last = group.last_index();
    group
        .step(message(2, 1, 3, Body::Heartbeat { commit: last }))
        .expect("a later leader");
    persist_all(&mut group);
    assert!(!group.is_leader());
    assert_eq!(group.matched().count(), 0, "only a leader knows");
    assert_eq!(group.stuck().count(), 0);
    group.peer_down(NodeId(2));
    group.peer_up(NodeId(2));
    group.campaign();
    persist_all(&mut group);
    for is_trial in [true, false] {
        let body = Body::Voted {
            is_trial,
            is_granted: true,
            commit: 0,
            commit_term: 0,
        };
        let term = group.term() + u64::from(is_trial);
        group.step(message(2, 1, term, body)).expect("sound");
        persist_all(&mut group);
    }
    assert!(group.is_leader());
    assert_eq!(group.stuck().count(), 0, "it had no time to follow yet");
}

#[test]
fn what_a_leader_of_an_earlier_term_has_committed_says_nothing_of_losses() {
    let mut group = group(2);
    group.step(append(3, 1, 1, &[3])).expect("sound");
    persist_all(&mut group);
    let late = message(3, 2, 2, Body::Heartbeat { commit: 99 });
    assert_eq!(group.step(late), Ok(()));
    let now = message(1, 2, 3, Body::Heartbeat { commit: 99 });
    assert_eq!(group.step(now), Err(StepError::LostEntries(99)));
}

/// What the third member is sent once it is heard of, by a leader with these entries.
fn sent_late(weigh: fn(&[u8]) -> u64, count: usize) -> Vec<usize> {
    let mut group = group_with(weigh);
    elect(&mut group);
    for _ in 0..count {
        group.propose(Bytes::from_static(b"x")).expect("taken");
        persist_all(&mut group);
        let last = group.last_index();
        acknowledge(&mut group, 2, last);
    }
    // It has what it founded the group with.
    let reply = Body::AppendReply {
        index: 1,
        commit: 1,
        refused: None,
    };
    group.step(message(3, 1, 2, reply)).expect("sound");
    let readies = persist_all(&mut group);
    let all = messages(&readies).into_iter();
    let to_third = all.filter(|message| message.to == replica(3));
    to_third.map(|message| message.entries().len()).collect()
}

#[test]
fn what_is_sent_again_is_bounded_by_what_lies_behind_entries() {
    let sizes = sent_late(|_| APPEND_BYTES_MAX / 2, 8);
    assert!(sizes.iter().any(|size| *size > 0), "{sizes:?}");
    assert!(sizes.iter().all(|size| *size <= 2), "{sizes:?}");
    // One that is larger than a message may be goes by itself.
    let sizes = sent_late(|_| APPEND_BYTES_MAX + 1, 8);
    assert!(sizes.contains(&1), "{sizes:?}");
    assert!(sizes.iter().all(|size| *size <= 1), "{sizes:?}");
}

/// The greatest term and index that there may be.
const NUMBER_MAX: u64 = 1 << 62;

#[test]
fn no_number_is_beyond_the_greatest() {
    let heartbeat = |term| {
        let heartbeat = message(1, 2, term, Body::Heartbeat { commit: 1 });
        group(2).step(heartbeat)
    };
    assert_eq!(heartbeat(NUMBER_MAX), Ok(()));
    assert!(heartbeat(NUMBER_MAX + 1).is_err());
    let restored = |index: u64, term: u64| {
        let membership = SnapshotMark::founding([replica(1)]).membership;
        let mark = SnapshotMark {
            index,
            term,
            membership,
        };
        let config = GroupConfig {
            replica: replica(1),
            seed: 0,
            weigh: |_| 1,
        };
        let hard = HardState { term, vote: 0 };
        Group::new(config, hard, mark, Vec::new(), 0).is_ok()
    };
    assert!(restored(NUMBER_MAX, 1) && restored(1, NUMBER_MAX));
    assert!(!restored(NUMBER_MAX + 1, 1) && !restored(1, NUMBER_MAX + 1));
}

#[test]
fn a_message_to_nobody_or_of_nobody_is_none() {
    let decoded = |to: u64, from: u64| {
        let message = Message {
            to: ReplicaId(to),
            from: ReplicaId(from),
            term: 2,
            body: Body::Ask,
        };
        let mut bytes = Vec::new();
        message.encode(&mut bytes);
        Message::decode(&bytes.into()).is_ok()
    };
    assert!(decoded(1, 2));
    for (to, from) in [(0, 1), (1, 0), (1, 1)] {
        assert!(!decoded(to, from), "from {from} to {to}");
    }
}

/// A follower of the first member, in term 2.
fn follower() -> Group {
    let mut group = group(2);
    group.step(append(2, 1, 1, &[2])).expect("sound");
    persist_all(&mut group);
    assert_eq!(group.leader(), Some(replica(1)));
    group
}

#[test]
fn a_leader_that_stands_is_no_leader_any_more_and_another_who_stands_unseats_none() {
    for (from, is_given) in [(1, true), (3, false)] {
        let mut group = follower();
        let stands = Body::Vote {
            is_trial: true,
            is_transfer: false,
            index: 2,
            log_term: 2,
            commit: 1,
            commit_term: 1,
        };
        group.step(message(from, 2, 3, stands)).expect("sound");
        let answers = persist_all(&mut group);
        let given = messages(&answers).iter().any(|answer| {
            matches!(
                answer.body,
                Body::Voted {
                    is_granted: true,
                    ..
                }
            )
        });
        assert_eq!(given, is_given, "to {from}");
        let leader = group.leader();
        assert_eq!(leader, (!is_given).then_some(replica(1)), "{from} stood");
    }
}

#[test]
fn a_leader_that_took_over_in_the_middle_of_a_change_sees_to_its_end_though_nobody_owes_it() {
    let mut mark = SnapshotMark::founding((1..=3).map(replica));
    mark.membership.voters_outgoing = (1..=2).map(replica).collect();
    mark.membership.leaves_by_itself = true;
    let config = GroupConfig {
        replica: replica(1),
        seed: 1,
        weigh: |_| 1,
    };
    let hard = HardState::default();
    let mut group = Group::new(config, hard, mark, Vec::new(), 0).expect("sound");
    elect(&mut group);
    assert!(group.is_leader());
    let last = group.last_index();
    for from in [2, 3] {
        acknowledge(&mut group, from, last);
    }
    // They know what is committed, too.
    while group.wants_tick() && group.last_index() == last {
        group.tick();
        persist_all(&mut group);
        for from in [2, 3] {
            let commit = group.commit();
            let reply = Body::AppendReply {
                index: last,
                commit,
                refused: None,
            };
            group.step(message(from, 1, 2, reply)).expect("sound");
            persist_all(&mut group);
        }
    }
    assert!(
        group.last_index() > last,
        "the end of the change is proposed"
    );
}
