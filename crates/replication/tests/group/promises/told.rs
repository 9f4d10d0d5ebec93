//! What a member tells its embedder: roles, members, how others follow; and what it says to others
//! when, and how often.

use super::*;
use leveret_replication::{Leaving, Membership, WantedMembers};

fn roles(readies: &[Ready]) -> Vec<(Role, u64, Option<ReplicaId>)> {
    let told = readies.iter().filter_map(|ready| ready.role);
    told.map(|told| (told.role, told.term, told.leader))
        .collect()
}

fn granted(is_trial: bool) -> Message {
    let body = Body::Voted {
        is_trial,
        is_granted: true,
        commit: 0,
        commit_term: 0,
    };
    message(2, 1, 2, body)
}

#[test]
fn every_change_of_roles_is_told_once_with_its_term_and_leader() {
    let mut group = group(1);
    group.campaign();
    assert_eq!(
        roles(&persist_all(&mut group)),
        [(Role::Candidate, 1, None)]
    );
    group.step(granted(true)).expect("sound");
    assert_eq!(
        roles(&persist_all(&mut group)),
        [(Role::Candidate, 2, None)]
    );
    group.step(granted(false)).expect("sound");
    let me = Some(replica(1));
    assert_eq!(roles(&persist_all(&mut group)), [(Role::Leader, 2, me)]);
    // Another one leads.
    group
        .step(message(3, 1, 3, Body::Heartbeat { commit: 1 }))
        .expect("sound");
    let other = Some(replica(3));
    assert_eq!(
        roles(&persist_all(&mut group)),
        [(Role::Follower, 3, other)]
    );
    // Nothing but that is to be done: its node is down.
    group.peer_down(NodeId(3));
    let readies = drain(&mut group);
    assert_eq!(roles(&readies), [(Role::Follower, 3, None)]);
    assert!(drain(&mut group).is_empty());
}

#[test]
fn a_snapshot_brings_its_members_and_stands_for_all_before_it() {
    let mut group = group(1);
    let mark = SnapshotMark {
        index: 9,
        term: 2,
        membership: Membership::of_voters([1, 2, 3, 4].map(replica)),
    };
    let from_second = message(2, 1, 2, Body::Snapshot(mark.clone()));
    group.step(from_second).expect("sound");
    let readies = persist_all(&mut group);
    let members = readies.iter().filter_map(|ready| ready.membership.clone());
    assert_eq!(
        members.collect::<Vec<_>>(),
        std::slice::from_ref(&mark.membership)
    );
    assert_eq!(group.membership(), &mark.membership);
    assert_eq!(group.mark(9), Some(mark.clone()));
    // As leader it hands that on to who is behind it.
    group.peer_down(NodeId(2));
    group.campaign();
    persist_all(&mut group);
    for is_trial in [true, false] {
        for from in [3, 4] {
            let Body::Voted { .. } = granted(is_trial).body else {
                unreachable!()
            };
            let vote = Message {
                from: replica(from),
                term: 3,
                ..granted(is_trial)
            };
            group.step(vote).expect("sound");
            persist_all(&mut group);
        }
    }
    assert!(group.is_leader());
    let hint = Some(Hint { index: 1, term: 1 });
    let behind = Body::AppendReply {
        index: 9,
        commit: 1,
        refused: hint,
    };
    group.step(message(3, 1, 3, behind)).expect("sound");
    let readies = persist_all(&mut group);
    let sent: Vec<_> = readies.iter().flat_map(|ready| &ready.snapshots).collect();
    let marks: Vec<_> = sent
        .iter()
        .map(|message| (message.to, message.body.clone()))
        .collect();
    assert_eq!(marks, [(replica(3), Body::Snapshot(mark))]);
    let needs = |group: &Group| -> Vec<bool> {
        let members = group.status().members;
        members.iter().map(|member| member.needs_snapshot).collect()
    };
    assert_eq!(needs(&group), [false, true, false]);
    group.report_snapshot(replica(3), true);
    assert_eq!(needs(&group), [false; 3]);
}

#[test]
fn entries_leave_a_leader_before_its_own_disk_has_them_and_nothing_before_its_term() {
    let mut group = leader_of(1);
    group.propose(Bytes::from_static(b"x")).expect("taken");
    let readies = drain(&mut group);
    let sent = messages(&readies)
        .iter()
        .map(|m| m.entries().len())
        .sum::<usize>();
    assert_eq!(sent, 1, "to who follows, at once");
    // Who votes for itself alone leads at once; its term is on no disk yet.
    let mut mark = SnapshotMark::founding([replica(1)]);
    mark.membership.learners = vec![replica(2)];
    let config = GroupConfig {
        replica: replica(1),
        seed: 1,
        weigh: |_| 1,
    };
    let mut alone = Group::new(config, HardState::default(), mark, Vec::new(), 0).expect("sound");
    alone.campaign();
    let readies = drain(&mut alone);
    assert!(alone.is_leader());
    assert!(messages(&readies).is_empty(), "{readies:?}");
    alone.persisted(readies[readies.len() - 1].number);
    assert!(!messages(&drain(&mut alone)).is_empty());
}

#[test]
fn who_stands_with_entries_that_are_not_durable_stands_when_they_are() {
    let mut group = group(2);
    group.step(append(2, 1, 1, &[2, 2])).expect("sound");
    let number = drain(&mut group)[0].number;
    group.peer_down(NodeId(1));
    group.campaign();
    let asks = |readies: &[Ready]| {
        let asks = |message: &&Message| matches!(message.body, Body::Vote { .. });
        messages(readies).into_iter().filter(asks).count()
    };
    assert_eq!(asks(&drain(&mut group)), 0);
    assert!(group.wants_tick());
    group.persisted(number);
    assert!(asks(&drain(&mut group)) > 0);
}

#[test]
fn who_owes_an_answer_is_asked_for_it_now_and_then_and_who_leads_too() {
    let mut group = leader();
    group.propose(Bytes::from_static(b"x")).expect("taken");
    persist_all(&mut group);
    let mut requested = Vec::new();
    for tick in 1..=18 {
        group.tick();
        let readies = persist_all(&mut group);
        let is_ask = |m: &&Message| matches!(m.body, Body::Heartbeat { .. });
        let count = messages(&readies).into_iter().filter(is_ask).count();
        requested.extend((count > 0).then_some((tick, count)));
    }
    assert_eq!(requested, [(6, 2), (12, 2), (18, 2)], "each of the two");
    let mut follower = follower_in_doubt();
    let mut requested = 0;
    for _ in 0..8 {
        follower.tick();
        let readies = persist_all(&mut follower);
        let asks = messages(&readies)
            .into_iter()
            .filter(|m| m.body == Body::Ask);
        requested += asks.count();
    }
    assert_eq!(requested, 2);
}

/// A follower of the first member, in term 2, to whose node there is a new connection.
fn follower_in_doubt() -> Group {
    let mut group = group(2);
    group.step(append(2, 1, 1, &[2])).expect("sound");
    persist_all(&mut group);
    assert!(!group.wants_tick());
    group.peer_up(NodeId(1));
    assert!(group.wants_tick());
    group
}

#[test]
fn only_the_word_of_a_leader_in_its_term_ends_the_doubt_in_it() {
    for (from, term, is_over) in [(1, 2, true), (1, 1, false), (3, 1, false)] {
        let mut group = follower_in_doubt();
        let word = message(from, 2, term, Body::Heartbeat { commit: 1 });
        group.step(word).expect("sound");
        assert_eq!(group.wants_tick(), !is_over, "{from} in term {term}");
    }
}

#[test]
fn a_node_that_is_up_says_nothing_of_another_one() {
    let mut group = group_of(5, 1, HardState::default(), Vec::new());
    group.campaign();
    persist_all(&mut group);
    for is_trial in [true, false] {
        for from in [2, 3] {
            let vote = Message {
                from: replica(from),
                ..granted(is_trial)
            };
            group.step(vote).expect("sound");
            persist_all(&mut group);
        }
    }
    let up = |group: &Group| -> Vec<u32> {
        let members = group.status().members;
        let up = members.iter().filter(|member| member.is_up);
        up.map(|member| member.replica.node().0).collect()
    };
    group.peer_down(NodeId(4));
    group.peer_down(NodeId(5));
    assert_eq!(up(&group), [2, 3]);
    group.peer_up(NodeId(4));
    assert_eq!(up(&group), [2, 3, 4]);
    group.peer_up(NodeId(5));
    assert_eq!(up(&group), [2, 3, 4, 5]);
    // Who would take its place is up, and furthest.
    let last = group.last_index();
    acknowledge(&mut group, 5, last);
    assert_eq!(group.heir(|_| true), Some(replica(5)));
    group.peer_down(NodeId(5));
    assert_ne!(group.heir(|_| true), Some(replica(5)));
    assert_ne!(group.heir(|_| true), None);
    assert_eq!(group.heir(|_| false), None);
}

#[test]
fn a_mark_has_the_members_of_its_place_however_they_changed_since() {
    let mut group = leader_with_learner();
    let before = group.status().applied;
    let mark = group.mark(before).expect("it is kept");
    let learner = replica(4);
    let remove = MembershipChange::remove(learner);
    group.propose_membership(&remove).expect("taken");
    persist_all(&mut group);
    let last = group.last_index();
    acknowledge(&mut group, 2, last);
    assert!(!group.membership().contains(learner));
    group.compacted(before);
    assert_eq!(group.mark(before), Some(mark.clone()));
    assert!(mark.membership.contains(learner));
    assert!(
        !group
            .mark(last)
            .expect("it is kept")
            .membership
            .contains(learner)
    );
}

#[test]
fn a_vote_that_was_given_is_never_older_than_the_log() {
    let restored = |hard: HardState| {
        let mark = SnapshotMark {
            term: 3,
            ..SnapshotMark::founding([replica(1)])
        };
        let config = GroupConfig {
            replica: replica(1),
            seed: 0,
            weigh: |_| 1,
        };
        Group::new(config, hard, mark, Vec::new(), 0).is_ok()
    };
    assert!(restored(HardState::default()), "nothing was voted yet");
    assert!(restored(HardState { term: 3, vote: 1 }));
    assert!(!restored(HardState { term: 2, vote: 1 }));
    assert!(!restored(HardState { term: 0, vote: 1 }));
}

#[test]
fn what_changes_nothing_is_no_change_and_who_follows_changes_nothing() {
    let nothing = MembershipChange::default();
    let why = leader_of(1).propose_membership(&nothing);
    assert_eq!(why, Err(ProposeError::BadChange("a change of nothing")));
    let wanted = WantedMembers {
        voters: &[replica(1), replica(2), replica(4)],
        learners: &[],
        leaving: Leaving::Last,
    };
    assert_eq!(group(2).approach(&wanted), Ok(false));
    assert_eq!(leader_of(1).approach(&wanted), Ok(true));
}

#[test]
fn members_are_what_their_bytes_say_and_nothing_behind_them() {
    let membership = Membership::of_voters([1, 2].map(replica));
    let mark = SnapshotMark::founding([1, 2].map(replica));
    let change = MembershipChange::add(replica(3));
    let mut all: [Vec<u8>; 3] = Default::default();
    membership.encode(&mut all[0]);
    mark.encode(&mut all[1]);
    change.encode(&mut all[2]);
    let decoded = |all: &[Vec<u8>; 3]| {
        let [a, b, c] = all.clone().map(Bytes::from);
        [
            Membership::decode(&a).is_ok(),
            SnapshotMark::decode(&b).is_ok(),
            MembershipChange::decode(&c).is_ok(),
        ]
    };
    assert_eq!(decoded(&all), [true; 3]);
    all.iter_mut().for_each(|bytes| bytes.push(0));
    assert_eq!(decoded(&all), [false; 3], "more than there is");
    // A replica without a number, in each of the places.
    let mut bytes: [Vec<u8>; 3] = Default::default();
    let none = vec![ReplicaId(0), replica(2)];
    let odd = Membership {
        voters: none.clone(),
        ..Membership::default()
    };
    odd.encode(&mut bytes[0]);
    let odd = SnapshotMark {
        membership: odd,
        ..mark
    };
    odd.encode(&mut bytes[1]);
    let odd = MembershipChange {
        learners: none,
        ..change
    };
    odd.encode(&mut bytes[2]);
    assert_eq!(decoded(&bytes), [false; 3]);
}

#[test]
fn a_group_of_too_many_members_is_none_in_whatever_way_they_belong_to_it() {
    let most = GROUP_MEMBERS_MAX as u32;
    let of = |voters: u32, learners: u32| {
        let membership = Membership {
            voters: (1..=voters).map(replica).collect(),
            learners: (voters + 1..=voters + learners).map(replica).collect(),
            ..Membership::default()
        };
        let mut bytes = Vec::new();
        membership.encode(&mut bytes);
        Membership::decode(&bytes.into()).is_ok()
    };
    assert!(of(most, 0) && of(most - 2, 2));
    assert!(!of(most - 2, 3) && !of(most, 1));
}

#[test]
fn who_votes_until_a_change_ends_is_a_voter_and_of_voters_is_what_has_nothing_else() {
    let [a, b, c] = [1, 2, 3].map(replica);
    let plain = Membership::of_voters([a, b]);
    let joint = Membership {
        voters_outgoing: vec![a, c],
        ..plain.clone()
    };
    assert!(joint.is_voter(c) && joint.contains(c) && !plain.is_voter(c));
    let learning = Membership {
        learners: vec![c],
        ..plain.clone()
    };
    assert!(!learning.is_voter(c) && learning.contains(c));
    assert!(plain.is_of_voters(&[b, a]));
    assert!(!plain.is_of_voters(&[a, c]) && !plain.is_of_voters(&[a]));
    assert!(!plain.is_of_voters(&[a, b, c]));
    assert!(!joint.is_of_voters(&[a, b]) && !learning.is_of_voters(&[a, b]));
}

#[test]
fn no_message_is_of_no_term_and_no_snapshot_of_nothing_is_taken() {
    let mut bytes = Vec::new();
    message(2, 1, 0, Body::Ask).encode(&mut bytes);
    assert!(Message::decode(&bytes.into()).is_err());
    let mark = SnapshotMark::founding([1, 2].map(replica));
    for (index, term) in [(0, 1), (9, 0)] {
        let mark = SnapshotMark {
            index,
            term,
            ..mark.clone()
        };
        let why = group(1).step(message(2, 1, 2, Body::Snapshot(mark)));
        assert!(
            matches!(why, Err(StepError::Malformed(_))),
            "{index} {term}"
        );
    }
}

#[test]
fn who_asks_for_a_vote_of_its_own_term_puts_no_leader_in_doubt() {
    for (term, is_in_doubt) in [(2, false), (3, true)] {
        let mut group = group(2);
        group.step(append(2, 1, 1, &[2])).expect("sound");
        persist_all(&mut group);
        let stands = Body::Vote {
            is_trial: false,
            is_transfer: false,
            index: 2,
            log_term: 2,
            commit: 1,
            commit_term: 1,
        };
        group.step(message(3, 2, term, stands)).expect("sound");
        assert_eq!(group.wants_tick(), is_in_doubt, "term {term}");
        assert_eq!(group.leader(), Some(replica(1)), "term {term}");
    }
}

#[test]
fn who_is_refused_a_vote_learns_what_is_committed() {
    let mut group = group(2);
    group.step(append(2, 1, 1, &[2, 2])).expect("sound");
    persist_all(&mut group);
    group.peer_down(NodeId(1));
    group.campaign();
    persist_all(&mut group);
    let refusal = |commit_term| Body::Voted {
        is_trial: true,
        is_granted: false,
        commit: 3,
        commit_term,
    };
    let body = refusal(1);
    group.step(message(3, 2, 2, body)).expect("sound");
    assert_eq!(group.commit(), 1, "another entry than is here");
    group.campaign();
    persist_all(&mut group);
    let body = refusal(2);
    group.step(message(3, 2, 2, body)).expect("sound");
    assert_eq!(group.commit(), 3);
}

#[test]
fn whose_vote_is_asked_for_in_vain_learns_what_is_committed() {
    let mut group = group(2);
    group.step(append(2, 1, 1, &[2, 2])).expect("sound");
    persist_all(&mut group);
    group.peer_down(NodeId(1));
    let stands = Body::Vote {
        is_trial: false,
        is_transfer: false,
        index: 2,
        log_term: 2,
        commit: 2,
        commit_term: 2,
    };
    group.step(message(3, 2, 3, stands)).expect("sound");
    assert_eq!(
        group.commit(),
        2,
        "the candidate lacks an entry, and knows of one"
    );
}
