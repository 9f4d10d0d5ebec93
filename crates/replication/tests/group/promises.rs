//! Single promises, each against the one way in which it could be broken.

mod roles;
mod told;

use bytes::Bytes;
use leveret_replication::{
    Body, Entry, EntryKind, Group, GroupConfig, HardState, Hint, Malformed, MembershipChange,
    Message, ProposeError, Ready, Role, SnapshotMark, StepError,
};
use leveret_types::limits::{
    APPEND_BYTES_MAX, APPEND_ENTRIES_MAX, ENTRY_BYTES_MAX, GROUP_MEMBERS_MAX, GROUP_TICK_MS,
    LEARNER_LAG_ENTRIES_MAX, MEMBER_STUCK_MS, UNCOMMITTED_BYTES_MAX,
};
use leveret_types::{NodeId, ReplicaId};

fn replica(node: u32) -> ReplicaId {
    ReplicaId::new(NodeId(node), 1)
}

fn group_of(size: u32, own: u32, hard: HardState, entries: Vec<Entry>) -> Group {
    let mark = SnapshotMark::founding((1..=size).map(replica));
    let config = GroupConfig {
        replica: replica(own),
        seed: 1,
        weigh: |data| data.len() as u64,
    };
    Group::new(config, hard, mark, entries, 0).expect("sound")
}

fn group_with(weigh: fn(&[u8]) -> u64) -> Group {
    let config = GroupConfig {
        replica: replica(1),
        seed: 1,
        weigh,
    };
    let mark = SnapshotMark::founding((1..=3).map(replica));
    Group::new(config, HardState::default(), mark, Vec::new(), 0).expect("sound")
}

fn group(own: u32) -> Group {
    group_of(3, own, HardState::default(), Vec::new())
}

fn drain(group: &mut Group) -> Vec<Ready> {
    std::iter::from_fn(|| group.ready()).collect()
}

fn messages(readies: &[Ready]) -> Vec<&Message> {
    readies.iter().flat_map(|ready| &ready.messages).collect()
}

fn persist_all(group: &mut Group) -> Vec<Ready> {
    let mut all = drain(group);
    while let Some(number) = all.last().map(|ready| ready.number) {
        group.persisted(number);
        let more = drain(group);
        if more.is_empty() {
            break;
        }
        all.extend(more);
    }
    all
}

fn message(from: u32, to: u32, term: u64, body: Body) -> Message {
    Message {
        to: replica(to),
        from: replica(from),
        term,
        body,
    }
}

fn append(term: u64, index: u64, log_term: u64, terms: &[u64]) -> Message {
    let entry = |(place, term): (usize, &u64)| Entry {
        index: index + 1 + place as u64,
        term: *term,
        kind: EntryKind::Normal,
        data: Bytes::from_static(b"x"),
    };
    let body = Body::Append {
        index,
        log_term,
        commit: 1,
        entries: terms.iter().enumerate().map(entry).collect(),
    };
    message(1, 2, term, body)
}

/// Has the second member vote for the first.
fn elect(group: &mut Group) {
    group.campaign();
    persist_all(group);
    for is_trial in [true, false] {
        let body = Body::Voted {
            is_trial,
            is_granted: true,
            commit: 0,
            commit_term: 0,
        };
        group.step(message(2, 1, 2, body)).expect("sound");
        persist_all(group);
    }
}

fn leader() -> Group {
    let mut group = group(1);
    elect(&mut group);
    assert!(group.is_leader());
    group
}

fn acknowledges(readies: &[Ready]) -> Vec<u64> {
    let index = |message: &&Message| match message.body {
        Body::AppendReply {
            index,
            refused: None,
            ..
        } => Some(index),
        _ => None,
    };
    messages(readies).iter().filter_map(index).collect()
}

#[test]
fn an_append_is_acknowledged_when_it_is_durable() {
    let mut group = group(2);
    group.step(append(2, 1, 1, &[2, 2])).expect("sound");
    let first = drain(&mut group);
    assert_eq!(acknowledges(&first), []);
    group.persisted(first[0].number);
    assert_eq!(acknowledges(&drain(&mut group)), [3]);
}

#[test]
fn an_empty_append_acknowledges_no_more_than_is_durable() {
    let mut group = group(2);
    group.step(append(2, 1, 1, &[2, 2])).expect("sound");
    let first = drain(&mut group);
    // The leader asks again, with nothing new: the answer would be index 3, of which nothing is
    // durable.
    group.step(append(2, 3, 2, &[])).expect("sound");
    let second = drain(&mut group);
    assert_eq!(acknowledges(&second), []);
    assert!(!second.iter().any(|ready| ready.must_sync));
    group.persisted(first[0].number);
    assert_eq!(acknowledges(&drain(&mut group)), [3, 3]);
}

#[test]
fn an_answer_about_what_was_overwritten_never_leaves() {
    let mut group = group(2);
    group.step(append(2, 1, 1, &[2, 2, 2])).expect("sound");
    drain(&mut group);
    let body = Body::Append {
        index: 1,
        log_term: 1,
        commit: 1,
        entries: append(3, 1, 1, &[3]).entries().to_vec(),
    };
    group.step(message(3, 2, 3, body)).expect("sound");
    let second = drain(&mut group);
    assert_eq!(second[0].truncate_from, Some(2));
    group.persisted(second[0].number);
    let replies = drain(&mut group);
    assert_eq!(acknowledges(&replies), [2]);
    assert_eq!(messages(&replies)[0].to, replica(3));
}

#[test]
fn a_vote_leaves_when_it_is_durable_and_is_given_once_even_over_a_crash() {
    let ask = |from: u32| {
        let body = Body::Vote {
            is_trial: false,
            is_transfer: false,
            index: 1,
            log_term: 1,
            commit: 1,
            commit_term: 1,
        };
        message(from, 2, 5, body)
    };
    let mut group = group(2);
    group.step(ask(1)).expect("sound");
    let first = drain(&mut group);
    assert!(messages(&first).is_empty());
    let hard = first[0].hard_state.expect("a term and a vote");
    assert_eq!(
        hard,
        HardState {
            term: 5,
            vote: replica(1).0
        }
    );
    group.persisted(first[0].number);
    assert_eq!(messages(&drain(&mut group)).len(), 1);

    let mut again = group_of(3, 2, hard, Vec::new());
    for (from, is_given) in [(3, false), (1, true)] {
        again.step(ask(from)).expect("sound");
        let answers = persist_all(&mut again);
        let given = messages(&answers).iter().any(|m| {
            matches!(
                m.body,
                Body::Voted {
                    is_granted: true,
                    ..
                }
            )
        });
        assert_eq!(given, is_given, "to {from}");
    }
}

#[test]
fn a_single_voter_says_nothing_of_a_term_that_is_not_durable() {
    let mut group = group_of(1, 1, HardState::default(), Vec::new());
    group.campaign();
    let mut readies = persist_all(&mut group);
    group.applied(2);
    let add = MembershipChange::add(replica(2));
    group.propose_membership(&add).expect("taken");
    readies.extend(persist_all(&mut group));
    let last = readies.iter().flat_map(|ready| &ready.committed).last();
    group.applied(last.expect("a single voter commits alone").index);
    persist_all(&mut group);

    let hard = HardState {
        term: 2,
        vote: replica(1).0,
    };
    let entries: Vec<Entry> = readies.iter().flat_map(|r| r.append.clone()).collect();
    let mut again = group_of(1, 1, hard, entries);
    let restored = persist_all(&mut again);
    let committed = restored.iter().flat_map(|ready| &ready.committed).last();
    committed
        .iter()
        .for_each(|entry| again.applied(entry.index));
    again.campaign();
    let new_term = drain(&mut again);
    assert!(again.is_leader());
    assert!(messages(&new_term).is_empty(), "{new_term:?}");
}

#[test]
fn a_wiped_member_is_somebody_else() {
    let mut group = group(2);
    let stale = Message {
        to: ReplicaId::new(NodeId(2), 7),
        ..append(2, 1, 1, &[2])
    };
    let why = group.step(stale).expect_err("for another");
    assert_eq!(why, StepError::NotForUs(ReplicaId::new(NodeId(2), 7)));
}

#[test]
fn a_member_that_lost_what_it_acknowledged_is_told_so() {
    let mut group = group(2);
    let why = group.step(message(1, 2, 2, Body::Heartbeat { commit: 9 }));
    assert_eq!(why, Err(StepError::LostEntries(9)));
}

#[test]
fn what_a_member_has_acknowledged_in_a_term_is_known_when_that_may_be_told() {
    let mut group = group(2);
    group.step(append(2, 1, 1, &[2, 2])).expect("sound");
    let handed_out = drain(&mut group).last().expect("entries").number;
    assert_eq!(group.acknowledged_in(2), 0, "it is not durable");
    group.persisted(handed_out);
    drain(&mut group);
    assert_eq!(group.acknowledged_in(2), 3);
    // What comes again later says less.
    group.step(append(2, 1, 1, &[2])).expect("sound");
    persist_all(&mut group);
    assert_eq!(group.acknowledged_in(2), 3);
    let later = Message {
        from: replica(3),
        ..append(3, 2, 2, &[3])
    };
    assert_eq!((group.acknowledged_in(3), group.acknowledged_in(1)), (0, 0));
    group.step(later).expect("sound");
    persist_all(&mut group);
    assert_eq!((group.acknowledged_in(3), group.acknowledged_in(2)), (3, 0));
}

#[test]
fn a_member_whose_group_has_lost_what_was_committed_is_told_so() {
    let follows = |term, index, log_term, terms: &[u64]| {
        let mut group = group(2);
        group.step(append(2, 1, 1, &[2, 2])).expect("sound");
        persist_all(&mut group);
        group
            .step(message(1, 2, 2, Body::Heartbeat { commit: 3 }))
            .expect("sound");
        persist_all(&mut group);
        group.step(Message {
            from: replica(3),
            ..append(term, index, log_term, terms)
        })
    };
    // Another entry at a place whose entry is committed, sent or said to be there.
    assert_eq!(follows(3, 1, 1, &[3]), Err(StepError::Diverged(2)));
    assert_eq!(follows(3, 2, 2, &[3, 3]), Err(StepError::Diverged(3)));
    assert_eq!(follows(4, 3, 3, &[4]), Err(StepError::Diverged(3)));
    // The same entries again, what follows them, and what an earlier leader says.
    for (term, index, log_term, terms) in [
        (3, 1, 1, &[2, 2, 3][..]),
        (3, 3, 2, &[3]),
        (3, 9, 3, &[3]),
        (1, 1, 1, &[1]),
    ] {
        assert_eq!(follows(term, index, log_term, terms), Ok(()), "{terms:?}");
    }
}

#[test]
fn a_member_that_is_up_and_acknowledges_nothing_for_long_is_stuck() {
    let mut group = leader();
    let tick = |group: &mut Group, ticks: u64| {
        for _ in 0..ticks {
            group.tick();
            persist_all(group);
        }
    };
    let acknowledge = |group: &mut Group, from, index| {
        let reply = Body::AppendReply {
            index,
            commit: 1,
            refused: None,
        };
        group.step(message(from, 1, 2, reply)).expect("sound");
        persist_all(group);
    };
    let stuck = |group: &Group| {
        let of_status = group.status().members.into_iter();
        let of_status = of_status.filter(|member| member.is_stuck);
        let of_status: Vec<ReplicaId> = of_status.map(|member| member.replica).collect();
        assert_eq!(group.stuck().collect::<Vec<_>>(), of_status);
        of_status
    };
    let long = MEMBER_STUCK_MS / GROUP_TICK_MS;
    let last = group.last_index();
    acknowledge(&mut group, 2, last);
    tick(&mut group, long);
    assert_eq!(
        stuck(&group),
        [],
        "the tick that finds it behind does not count"
    );
    tick(&mut group, 1);
    assert_eq!(stuck(&group), [replica(3)]);
    // Progress counts, the end of the gap does not need to come.
    group.propose(Bytes::from_static(b"x")).expect("taken");
    persist_all(&mut group);
    acknowledge(&mut group, 3, last);
    assert_eq!(stuck(&group), [replica(3)], "until the next tick");
    tick(&mut group, 1);
    assert_eq!(stuck(&group), []);
    tick(&mut group, long - 1);
    assert_eq!(stuck(&group), []);
    // Who is down is not stuck.
    group.peer_down(NodeId(3));
    tick(&mut group, long + 2);
    assert_eq!(stuck(&group), [replica(2)]);
}

#[test]
fn who_writes_while_this_disk_does_not_succeeds_and_nobody_else() {
    let mut group = leader();
    let anybody = |_| true;
    let none: [ReplicaId; 0] = [];
    assert_eq!(group.ahead_on_disk().collect::<Vec<_>>(), none);
    group.propose(Bytes::from_static(b"x")).expect("taken");
    // It is sent, and not on this disk.
    drain(&mut group);
    let last = group.last_index();
    let acknowledge = |group: &mut Group, from, index| {
        let reply = Body::AppendReply {
            index,
            commit: 1,
            refused: None,
        };
        group.step(message(from, 1, 2, reply)).expect("sound");
        drain(group);
    };
    acknowledge(&mut group, 3, last - 1);
    assert_eq!(
        group.ahead_on_disk().collect::<Vec<_>>(),
        none,
        "it has no more than this one"
    );
    assert_eq!(group.successor(|_| false), None);
    acknowledge(&mut group, 2, last);
    assert_eq!(group.ahead_on_disk().collect::<Vec<_>>(), [replica(2)]);
    assert_eq!(
        group.successor(anybody),
        Some(replica(2)),
        "who is furthest"
    );
    assert_eq!(
        group.successor(|member| member == replica(3)),
        Some(replica(3))
    );
    group.peer_down(NodeId(3));
    assert_eq!(group.successor(anybody), None, "one other is no majority");
}

/// Another member has this leader's log up to an index.
fn acknowledge(group: &mut Group, from: u32, index: u64) -> Vec<Ready> {
    let reply = Body::AppendReply {
        index,
        commit: 1,
        refused: None,
    };
    group.step(message(from, 1, 2, reply)).expect("sound");
    let readies = persist_all(group);
    let committed = readies.iter().flat_map(|ready| &ready.committed);
    if let Some(last) = committed.last() {
        group.applied(last.index);
    }
    readies
}

/// A leader whose entries the second member has, so that they are committed.
fn leader_of(entries: u64) -> Group {
    let mut group = leader();
    for _ in 0..entries {
        group.propose(Bytes::from_static(b"x")).expect("taken");
        persist_all(&mut group);
        let last = group.last_index();
        acknowledge(&mut group, 2, last);
    }
    assert_eq!(group.commit(), group.last_index());
    group
}

/// The same with a learner, the fourth member.
fn leader_with_learner() -> Group {
    let mut group = leader_of(1);
    let add = MembershipChange::add(replica(4));
    group.propose_membership(&add).expect("taken");
    persist_all(&mut group);
    let last = group.last_index();
    acknowledge(&mut group, 2, last);
    assert_eq!(group.membership().learners, [replica(4)]);
    group
}

#[test]
fn a_learner_that_lacks_the_last_few_entries_at_most_may_vote() {
    let mut group = leader_with_learner();
    for _ in 0..LEARNER_LAG_ENTRIES_MAX + 3 {
        group.propose(Bytes::from_static(b"x")).expect("taken");
        persist_all(&mut group);
        let last = group.last_index();
        acknowledge(&mut group, 2, last);
    }
    let enough = group.commit() - LEARNER_LAG_ENTRIES_MAX;
    assert_eq!(
        group.promotable_learners().next(),
        None,
        "it has said nothing"
    );
    acknowledge(&mut group, 4, enough - 1);
    assert_eq!(
        group.promotable_learners().next(),
        None,
        "one entry too few"
    );
    acknowledge(&mut group, 4, enough);
    assert_eq!(group.promotable_learners().next(), Some(replica(4)));
    group.peer_down(NodeId(4));
    assert_eq!(
        group.promotable_learners().next(),
        None,
        "a majority might hang on a member that is not there"
    );
}

#[test]
fn who_resigns_hands_over_to_the_voter_that_is_furthest() {
    let mut group = leader_with_learner();
    let before = group.last_index();
    group.propose(Bytes::from_static(b"x")).expect("taken");
    persist_all(&mut group);
    acknowledge(&mut group, 4, before + 1);
    acknowledge(&mut group, 3, before - 1);
    group.resign();
    assert!(!group.is_leader());
    let readies = persist_all(&mut group);
    let requested = messages(&readies).into_iter();
    let requested = requested.filter(|message| message.body == Body::TimeoutNow);
    let requested: Vec<ReplicaId> = requested.map(|message| message.to).collect();
    assert_eq!(
        requested,
        [replica(2)],
        "a learner is further, and must not lead"
    );
    // Who does not lead has nothing to resign.
    group.resign();
    assert!(persist_all(&mut group).is_empty());
}

#[test]
fn every_transfer_has_all_of_its_time() {
    let mut group = leader_of(1);
    let is_transferring = |group: &mut Group| {
        let proposed = group.propose(Bytes::from_static(b"x"));
        persist_all(group);
        proposed == Err(ProposeError::Transferring)
    };
    // The third member has nothing, and answers nothing.
    for attempt in 0..2 {
        group.transfer_leader(replica(3)).expect("it is up");
        for tick in 0..10 {
            assert!(
                is_transferring(&mut group),
                "attempt {attempt}, tick {tick}"
            );
            group.tick();
            persist_all(&mut group);
        }
        assert!(!is_transferring(&mut group), "attempt {attempt}");
    }
}

#[test]
fn what_may_be_lost_is_sent_again() {
    let mut group = leader_of(1);
    group.propose(Bytes::from_static(b"x")).expect("taken");
    let sent = |readies: &[Ready]| -> usize {
        let to_second = messages(readies).into_iter();
        let to_second = to_second.filter(|message| message.to == replica(2));
        to_second.map(|message| message.entries().len()).sum()
    };
    assert_eq!(sent(&persist_all(&mut group)), 1);
    let answer = message(2, 1, 2, Body::HeartbeatReply { commit: 1 });
    group.lost(NodeId(3));
    group.step(answer.clone()).expect("sound");
    assert_eq!(sent(&persist_all(&mut group)), 0, "it was another node's");
    group.lost(NodeId(2));
    let readies = persist_all(&mut group);
    let is_requested = |message: &&Message| {
        matches!(message.body, Body::Heartbeat { .. }) && message.to == replica(2)
    };
    assert!(messages(&readies).iter().any(is_requested), "{readies:?}");
    group.step(answer).expect("sound");
    assert_eq!(sent(&persist_all(&mut group)), 1);
}

#[test]
fn entries_are_kept_for_who_is_up_and_behind_and_not_for_who_is_down() {
    for is_up in [true, false] {
        let mut group = leader_of(20);
        if !is_up {
            group.peer_down(NodeId(3));
        }
        let applied = group.status().applied;
        group.compacted(applied);
        group.peer_up(NodeId(3));
        let mut readies = persist_all(&mut group);
        let answer = message(3, 1, 2, Body::HeartbeatReply { commit: 1 });
        group.step(answer).expect("sound");
        readies.extend(persist_all(&mut group));
        let snapshots = readies.iter().flat_map(|ready| &ready.snapshots).count();
        let all = messages(&readies).into_iter();
        let to_third = all.filter(|message| message.to == replica(3));
        let entries: usize = to_third.map(|message| message.entries().len()).sum();
        assert_eq!((entries > 0, snapshots > 0), (is_up, !is_up));
    }
}

#[test]
fn appends_are_bounded_and_without_holes() {
    let with = |change: &dyn Fn(&mut Vec<Entry>)| {
        let mut message = append(2, 1, 1, &[2, 2, 2]);
        if let Body::Append { entries, .. } = &mut message.body {
            change(entries);
        }
        group(2).step(message)
    };
    let refused = |why| Err(StepError::Malformed(Malformed(why)));
    let without_the_second = with(&|entries| drop(entries.remove(1)));
    assert_eq!(without_the_second, refused("entries with a hole"));
    let sized = |bytes: usize| with(&|entries| entries[0].data = vec![0; bytes].into());
    assert_eq!(sized(ENTRY_BYTES_MAX), Ok(()));
    assert_eq!(sized(ENTRY_BYTES_MAX + 1), refused("an entry too large"));
    let many = |count: usize| group(2).step(append(2, 1, 1, &vec![2; count]));
    assert_eq!(many(APPEND_ENTRIES_MAX), Ok(()));
    assert_eq!(many(APPEND_ENTRIES_MAX + 1), refused("too many entries"));
}

#[test]
fn a_late_refusal_takes_nothing_back() {
    let mut group = leader();
    for _ in 0..3 {
        group.propose(Bytes::from_static(b"x")).expect("taken");
    }
    persist_all(&mut group);
    let answer = |index, refused| {
        let commit = 1;
        message(
            2,
            1,
            2,
            Body::AppendReply {
                index,
                commit,
                refused,
            },
        )
    };
    let hint = Some(Hint { index: 1, term: 1 });
    group.step(answer(5, None)).expect("sound");
    assert_eq!(group.commit(), 5);
    // What was refused once, again and again, in every state that the member can be in.
    for _ in 0..2 {
        for refused in 1..=5 {
            group.step(answer(refused, hint)).expect("sound");
            group.peer_down(NodeId(2));
            group.peer_up(NodeId(2));
            group.step(answer(refused, hint)).expect("sound");
            for ready in persist_all(&mut group) {
                for message in ready.messages.iter().filter(|m| m.to == replica(2)) {
                    if let Body::Append { index, .. } = message.body {
                        assert!(index >= 5, "{message:?}");
                    }
                }
            }
        }
    }
}

/// The member has what goes before the entries that are kept here: its state is not sent twice.
#[test]
fn a_late_refusal_makes_nobody_send_another_state() {
    let mut group = leader_of(20);
    group.peer_down(NodeId(3));
    let last = group.status().applied;
    group.compacted(last - 3);
    let state_sent = |readies: &[Ready]| readies.iter().any(|ready| !ready.snapshots.is_empty());
    group.peer_up(NodeId(3));
    let mut readies = persist_all(&mut group);
    let answer = message(3, 1, 2, Body::HeartbeatReply { commit: 1 });
    group.step(answer).expect("sound");
    readies.extend(persist_all(&mut group));
    assert!(state_sent(&readies), "{readies:?}");
    // An answer to what was sent before comes, and then a refusal from before that.
    let has = last - 2;
    acknowledge(&mut group, 3, has);
    group.report_snapshot(replica(3), true);
    let refused = Body::AppendReply {
        index: last,
        commit: 1,
        refused: Some(Hint { index: 1, term: 1 }),
    };
    group.step(message(3, 1, 2, refused)).expect("sound");
    let readies = persist_all(&mut group);
    assert!(!state_sent(&readies), "{readies:?}");
    let sent = messages(&readies).into_iter();
    let sent = sent.filter(|message| message.to == replica(3));
    let begins: Vec<u64> = sent
        .filter_map(|message| match message.body {
            Body::Append { index, .. } => Some(index),
            _ => None,
        })
        .collect();
    assert_eq!(begins, [has]);
}

#[test]
fn what_no_sound_member_sends_is_refused_and_changes_nothing() {
    let mut follower = group(2);
    let mut leader = leader();
    let mark = SnapshotMark::founding([replica(1), replica(3)]);
    let reply = |index, commit, refused| Body::AppendReply {
        index,
        commit,
        refused,
    };
    let to_leader = [
        reply(u64::MAX >> 2, 0, None),
        reply(2, 77, None),
        reply(2, 1, Some(Hint { index: 3, term: 1 })),
    ];
    for body in to_leader {
        let before = leader.status();
        let why = leader.step(message(2, 1, 2, body.clone()));
        assert!(matches!(why, Err(StepError::Malformed(_))), "{body:?}");
        assert_eq!(leader.status(), before);
    }
    let to_follower = [
        append(0, 1, 1, &[1]),
        append(2, 9, 0, &[]),
        append(2, 0, 1, &[2]),
        append(2, 1, 1, &[3]),
        append(3, 1, 1, &[3, 2]),
        append(2, 1, 2, &[1]),
        message(1, 2, 2, Body::Snapshot(mark)),
        message(2, 2, 2, Body::TimeoutNow),
    ];
    for message in to_follower {
        let before = follower.status();
        let why = follower.step(message.clone());
        assert!(matches!(why, Err(StepError::Malformed(_))), "{message:?}");
        assert_eq!(follower.status(), before);
    }
}

#[test]
fn what_cannot_have_been_written_is_not_restored() {
    let mark = || SnapshotMark::founding([replica(1)]);
    let config = || GroupConfig {
        replica: replica(1),
        seed: 0,
        weigh: |_| 1,
    };
    let hard = |term| HardState { term, vote: 0 };
    let entries = |terms: &[u64]| append(9, 1, 1, terms).entries().to_vec();
    let hole = append(9, 2, 1, &[2]).entries().to_vec();
    let mut empty = entries(&[2]);
    empty[0].data = Bytes::new();
    for (hard, entries, why) in [
        (hard(3), empty, "an entry that no log has"),
        (hard(3), hole, "a hole"),
        (hard(3), entries(&[3, 2]), "terms that fall"),
        (hard(2), entries(&[2, 3]), "a term older than the entries"),
        (hard(0), entries(&[1]), "entries without a term"),
    ] {
        assert!(
            Group::new(config(), hard, mark(), entries, 0).is_err(),
            "{why}"
        );
    }
    assert!(Group::new(config(), hard(3), mark(), entries(&[2, 3]), 99).is_ok());
}

#[test]
fn entries_have_a_largest_size() {
    let mut group = leader();
    let large = |bytes| Bytes::from(vec![1; bytes]);
    group.propose(large(ENTRY_BYTES_MAX)).expect("taken");
    let why = group.propose(large(ENTRY_BYTES_MAX + 1));
    assert_eq!(why, Err(ProposeError::TooLarge));
}

#[test]
fn a_change_of_members_is_refused_where_too_much_waits_for_a_majority() {
    let mut group = leader_of(1);
    let one = UNCOMMITTED_BYTES_MAX as usize / 8;
    for _ in 0..8 {
        group.propose(Bytes::from(vec![1; one])).expect("taken");
    }
    let add = MembershipChange::add(replica(4));
    assert_eq!(group.propose_membership(&add), Err(ProposeError::Full));
    // A commit makes room; the library takes a change for pending until one more entry is there.
    for _ in 0..2 {
        persist_all(&mut group);
        let last = group.last_index();
        acknowledge(&mut group, 2, last);
        group.propose(Bytes::from_static(b"x")).expect("taken");
    }
    group.propose_membership(&add).expect("there is room");
}

#[test]
fn what_waits_for_a_majority_is_bounded() {
    let mut group = leader();
    let one = UNCOMMITTED_BYTES_MAX as usize / 8;
    for _ in 0..8 {
        group.propose(Bytes::from(vec![1; one])).expect("taken");
    }
    let why = group.propose(Bytes::from_static(b"x"));
    assert_eq!(why, Err(ProposeError::Full));
    // A commit makes room.
    persist_all(&mut group);
    let body = Body::AppendReply {
        index: group.last_index(),
        commit: 1,
        refused: None,
    };
    group.step(message(2, 1, 2, body)).expect("sound");
    persist_all(&mut group);
    group.propose(Bytes::from_static(b"x")).expect("taken");
}

#[test]
fn messages_have_a_largest_size_in_entries_and_in_bytes() {
    let mut group = leader();
    let confirm = |group: &mut Group| {
        let body = Body::AppendReply {
            index: group.last_index(),
            commit: 1,
            refused: None,
        };
        group.step(message(2, 1, 2, body)).expect("sound");
        persist_all(group);
    };
    confirm(&mut group);
    let sent = |readies: &[Ready]| -> Vec<usize> {
        let to_second = |m: &&&Message| m.to == replica(2);
        let all = messages(readies);
        all.iter()
            .filter(to_second)
            .map(|m| m.entries().len())
            .collect()
    };
    for (count, expected) in [
        (APPEND_ENTRIES_MAX, vec![APPEND_ENTRIES_MAX]),
        (APPEND_ENTRIES_MAX + 1, vec![APPEND_ENTRIES_MAX, 1]),
    ] {
        for _ in 0..count {
            group.propose(Bytes::from_static(b"x")).expect("taken");
        }
        assert_eq!(sent(&persist_all(&mut group)), expected);
        confirm(&mut group);
    }
    let half = APPEND_BYTES_MAX as usize / 2;
    for (last, expected) in [(half, vec![2]), (half + 1, vec![1, 1])] {
        for bytes in [half, last] {
            group.propose(Bytes::from(vec![1; bytes])).expect("taken");
        }
        assert_eq!(sent(&persist_all(&mut group)), expected);
        confirm(&mut group);
    }
}

#[test]
fn a_group_has_a_largest_size() {
    let lead = |size: u32| {
        let mut group = group_of(size, 1, HardState::default(), Vec::new());
        group.campaign();
        persist_all(&mut group);
        for is_trial in [true, false] {
            for from in 2..=size {
                let body = Body::Voted {
                    is_trial,
                    is_granted: true,
                    commit: 0,
                    commit_term: 0,
                };
                group.step(message(from, 1, 2, body)).expect("sound");
                persist_all(&mut group);
            }
        }
        assert_eq!(group.status().role, Role::Leader);
        for from in 2..=size {
            let (index, commit, refused) = (2, 1, None);
            let body = Body::AppendReply {
                index,
                commit,
                refused,
            };
            group.step(message(from, 1, 2, body)).expect("sound");
        }
        for ready in persist_all(&mut group) {
            ready
                .committed
                .iter()
                .for_each(|entry| group.applied(entry.index));
        }
        group
    };
    let most = GROUP_MEMBERS_MAX as u32;
    let add = MembershipChange::add(replica(most + 1));
    assert!(lead(most - 1).propose_membership(&add).is_ok());
    let why = lead(most).propose_membership(&add);
    assert_eq!(why, Err(ProposeError::BadChange("too many members")));
}
