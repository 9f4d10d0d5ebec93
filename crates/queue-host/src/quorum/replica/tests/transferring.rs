//! The state of a queue on its way to a member that is behind: how much of it is under way, when it
//! is over, and how many there are at once.

use super::super::applied_state::take_replica;
use super::super::snapshot::{GOT, OFFER, WANT};
use super::super::transfers::PART;
use super::super::wire::{Reader, put};
use super::*;
use leveret_replication::{Body, Message as GroupMessage};
use leveret_types::limits::{
    QUORUM_PART_BYTES, QUORUM_PARTS_IN_FLIGHT, QUORUM_TRANSFER_SILENCE_MS,
};

/// Bytes of a message of which two fill a part.
const HALF_A_PART: usize = QUORUM_PART_BYTES / 2;

/// Three members, one of which was down while so many messages of a size came, and now is up again:
/// the leader, and that one.
fn one_is_behind(messages: u64, body_bytes: usize) -> (World, usize, usize) {
    let mut world = World::new(2, 3, spec(3));
    world.body_bytes = body_bytes;
    world.rest(100);
    let leader = world.leader().expect("a leader");
    let behind = (leader + 1) % 3;
    world.crash(behind);
    for _ in 0..messages {
        world.publish(leader);
        world.rest(1);
    }
    // So many entries more that those before are not kept.
    world.body_bytes = 8;
    for _ in 0..100 {
        world.publish(leader);
        world.rest(1);
    }
    world.rest(20);
    world.start(behind);
    (world, leader, behind)
}

impl World {
    /// Lets all happen but that the sender hears which parts have come: what it would have heard,
    /// and how many parts it has sent.
    fn rest_without_answers(
        &mut self,
        (from, to): (usize, usize),
        rounds: u64,
    ) -> (VecDeque<PeerFrame>, u64) {
        let (mut held, mut parts) = (VecDeque::new(), 0);
        assert!(rounds * 10 < QUORUM_TRANSFER_SILENCE_MS);
        for _ in 0..rounds {
            for at in 0..self.count() {
                self.sync(at);
                self.read(at);
            }
            while let Some((way, frames)) = self.ways.iter_mut().find(|(_, q)| !q.is_empty()) {
                let (way, kind) = (*way, frames[0].pieces[0][0]);
                if way == (to, from) && kind == GOT {
                    held.extend(frames.pop_front());
                    continue;
                }
                parts += u64::from(way == (from, to) && kind == PART);
                self.deliver(way);
            }
            self.tick(10);
        }
        (held, parts)
    }

    /// Lets all happen between the two others, and loses what they say to this one.
    fn rest_without(&mut self, left_out: usize) {
        for _ in 0..5 {
            for at in (0..self.count()).filter(|at| *at != left_out) {
                self.sync(at);
            }
            let ways: Vec<_> = self.ways.keys().copied().collect();
            for way in ways {
                match way.1 == left_out {
                    true => drop(self.ways.remove(&way)),
                    false => self.drain_way(way),
                }
            }
        }
    }

    fn is_sending(&mut self, at: usize) -> bool {
        self.with_replica(at, |replica, _| replica.sending.is_some())
    }

    /// What a member has of what the leader has committed.
    fn is_caught_up(&mut self, at: usize, leader: usize) -> bool {
        let applied = |world: &mut Self, at| {
            world.with_replica(at, |replica, _| replica.group.last_applied())
        };
        applied(self, at) == applied(self, leader)
    }
}

#[test]
fn as_many_parts_are_under_way_as_may_be_and_no_more() {
    let parts_in_all = 2 * QUORUM_PARTS_IN_FLIGHT + 2;
    let (mut world, leader, behind) = one_is_behind(2 * parts_in_all, HALF_A_PART);
    let (held, parts) = world.rest_without_answers((leader, behind), 50);
    assert_eq!(world.ledger.snapshots, 1);
    assert_eq!(parts, QUORUM_PARTS_IN_FLIGHT);
    assert_eq!(held.len() as u64, QUORUM_PARTS_IN_FLIGHT);
    // Each answer lets one more go.
    world.ways.entry((behind, leader)).or_default().extend(held);
    world.rest(50);
    assert!(world.is_caught_up(behind, leader));
}

#[test]
fn a_state_of_many_parts_is_sent_once() {
    for body_bytes in [HALF_A_PART, QUORUM_PART_BYTES] {
        let (mut world, leader, behind) = one_is_behind(6 * QUORUM_PARTS_IN_FLIGHT, body_bytes);
        world.rest(100);
        assert!(world.is_caught_up(behind, leader));
        assert!(!world.is_sending(leader));
        assert_eq!(world.ledger.snapshots, 1);
        let live = |at: usize| {
            let running: &Running = world.nodes[at].running.as_ref().expect("it runs");
            running.shard.logs.live(world.log(at))
        };
        assert_eq!(live(behind), live(leader));
        world.heal_and_drain();
        world.check();
    }
}

#[test]
fn a_transfer_is_over_when_the_last_part_has_come_and_not_before() {
    let (mut world, leader, behind) = one_is_behind(2, HALF_A_PART);
    let (held, parts) = world.rest_without_answers((leader, behind), 50);
    assert!(
        (2..QUORUM_PARTS_IN_FLIGHT).contains(&parts),
        "{parts}: all at once"
    );
    assert_eq!(held.len() as u64, parts);
    for frame in held {
        assert!(world.is_sending(leader), "an answer is missing");
        world
            .ways
            .entry((behind, leader))
            .or_default()
            .push_back(frame);
        world.deliver((behind, leader));
    }
    assert!(!world.is_sending(leader));
}

#[test]
fn a_transfer_that_nobody_answers_is_given_up_and_begun_again() {
    let (mut world, leader, behind) = one_is_behind(4 * QUORUM_PARTS_IN_FLIGHT, HALF_A_PART);
    let (unsent, _) = world.rest_without_answers((leader, behind), 50);
    assert!(!unsent.is_empty() && world.is_sending(leader));
    let rounds = QUORUM_TRANSFER_SILENCE_MS as usize / 10;
    world.rest(rounds + 100);
    assert_eq!(world.ledger.snapshots, 2);
    assert!(world.is_caught_up(behind, leader));
    assert!(!world.is_sending(leader));
}

#[test]
fn a_member_that_has_the_state_already_says_so_and_is_sent_nothing() {
    let mut world = World::new(1, 3, spec(3));
    world.rest(100);
    let leader = world.leader().expect("a leader");
    world.publish(leader);
    world.rest(20);
    let other = world.spec.members[(leader + 1) % 3];
    world.with_replica(leader, |replica, context| {
        let message = state_for(other, replica);
        replica.begin_snapshot(context, message);
    });
    assert!(world.is_sending(leader));
    let before = world.now.monotonic_ms;
    world.rest(2);
    assert!(!world.is_sending(leader));
    assert!(world.now.monotonic_ms < before + QUORUM_TRANSFER_SILENCE_MS);
}

/// What the group says when a member needs the state as it is now.
fn state_for(to: ReplicaId, replica: &super::super::Replica) -> GroupMessage {
    let mark = replica.group.mark(replica.group.last_applied());
    GroupMessage {
        to,
        from: replica.group.replica(),
        term: replica.group.term(),
        body: Body::Snapshot(mark.expect("it is applied")),
    }
}

#[test]
fn two_members_that_need_the_state_at_once_both_get_it() {
    let mut world = World::new(2, 5, spec(5));
    world.body_bytes = HALF_A_PART;
    world.rest(100);
    let leader = world.leader().expect("a leader");
    let behind = [(leader + 1) % 5, (leader + 2) % 5];
    behind.into_iter().for_each(|at| world.crash(at));
    for number in 0..110 {
        world.body_bytes = if number < 10 { HALF_A_PART } else { 8 };
        world.publish(leader);
        world.rest(1);
    }
    world.rest(20);
    behind.into_iter().for_each(|at| world.start(at));
    world.rest(100);
    for at in behind {
        assert!(world.is_caught_up(at, leader));
    }
    assert!(world.ledger.snapshots >= 2, "{}", world.ledger.snapshots);
    world.heal_and_drain();
    world.check();
}

#[test]
fn only_the_messages_that_a_member_does_not_have_are_sent_to_it() {
    let mut world = World::new(2, 3, spec(3));
    world.body_bytes = HALF_A_PART;
    world.rest(100);
    let leader = world.leader().expect("a leader");
    let behind = (leader + 1) % 3;
    for number in 0..110 {
        world.body_bytes = if number < 10 { HALF_A_PART } else { 8 };
        if number == 10 {
            world.rest(20);
            world.crash(behind);
        }
        world.publish(leader);
        world.rest(1);
    }
    world.rest(20);
    world.ledger.sent.clear();
    world.start(behind);
    world.rest(100);
    assert!(world.is_caught_up(behind, leader));
    assert_eq!(world.ledger.snapshots, 1);
    let sent = world.ledger.sent[&(leader, behind)];
    assert!(sent < HALF_A_PART, "{sent} bytes");
    world.heal_and_drain();
    world.check();
}

/// What a leader sends when the group says that a member needs its state, as its mark and term are
/// then: the kinds of frames.
fn begun(
    (world, leader, to): (&mut World, usize, ReplicaId),
    change: impl FnOnce(&mut GroupMessage),
) -> Vec<u8> {
    world.with_replica(leader, |replica, context| {
        let mut message = state_for(to, replica);
        change(&mut message);
        let before = context.effects.peer.len();
        replica.begin_snapshot(context, message);
        // Something was read meanwhile.
        replica.send_parts(context);
        let sent = context.effects.peer[before..].iter();
        sent.map(|(_, frame)| frame.pieces[0][0]).collect()
    })
}

/// A leader with some entries that is not the queue's first one, another member, and the places of
/// both.
fn with_another() -> (World, [usize; 2], ReplicaId) {
    let mut world = World::new(1, 3, spec(3));
    world.rest(100);
    let first = world.leader().expect("a leader");
    let to = world.nodes[(first + 2) % 3].id;
    world.with(first, |shard, now| shard.transfer_leader(now, QUEUE, to));
    world.rest(100);
    let leader = world.leader().expect("a leader");
    assert_ne!(leader, first);
    for _ in 0..3 {
        world.publish(leader);
        world.rest(20);
    }
    let other = (leader + 1) % 3;
    let member = world.spec.members[other];
    (world, [leader, other], member)
}

#[test]
fn a_state_is_offered_as_it_is_now_and_nothing_of_it_sent_before_it_is_wanted() {
    let (mut world, [leader, _], member) = with_another();
    let earlier = world.with_replica(leader, |replica, _| {
        replica.group.mark(replica.group.last_applied() - 1)
    });
    let earlier = earlier.expect("an entry before the last");
    let sent = begun((&mut world, leader, member), |message| {
        message.body = Body::Snapshot(earlier);
    });
    assert_eq!(sent, [], "that is not the state any more");
    let sent = begun((&mut world, leader, member), |_| {});
    assert_eq!(sent, [OFFER]);
}

#[test]
fn a_member_that_needs_the_state_again_takes_no_second_place() {
    let (mut world, [leader, _], member) = with_another();
    let mut places = world.with_replica(leader, |_, context| {
        std::iter::from_fn(|| context.transfers.begin()).collect::<Vec<_>>()
    });
    assert_eq!(begun((&mut world, leader, member), |_| {}), []);
    places.pop();
    for _ in 0..2 {
        assert_eq!(begun((&mut world, leader, member), |_| {}), [OFFER]);
    }
}

impl World {
    fn drain_way(&mut self, way: (usize, usize)) {
        while self.ways.get(&way).is_some_and(|way| !way.is_empty()) {
            self.deliver(way);
        }
    }

    /// Has a leader publish, and one other member acknowledge that: what is said to the leader.
    fn acknowledged(&mut self, leader: usize, by: usize) -> VecDeque<PeerFrame> {
        self.publish(leader);
        self.sync(leader);
        self.drain_way((leader, by));
        self.sync(by);
        self.ways.remove(&(by, leader)).expect("an answer")
    }

    /// Takes what is on one way, and gives what is said to that.
    fn answers_to(&mut self, (from, to): (usize, usize), frames: VecDeque<PeerFrame>) -> usize {
        self.ways.remove(&(to, from));
        self.ways.insert((from, to), frames);
        self.drain_way((from, to));
        self.ways.remove(&(to, from)).unwrap_or_default().len()
    }

    /// What a leader offers a member, taken from the way.
    fn offer(
        &mut self,
        leader: usize,
        to: ReplicaId,
        change: impl FnOnce(&mut GroupMessage),
    ) -> VecDeque<PeerFrame> {
        assert_eq!(begun((self, leader, to), change), [OFFER]);
        self.with_replica(leader, |replica, _| replica.sending = None);
        let way = (leader, to.node().0 as usize - 1);
        self.ways.remove(&way).expect("it is on its way")
    }
}

#[test]
fn an_offer_to_an_earlier_member_is_not_answered() {
    let (mut world, [leader, other], member) = with_another();
    let stranger = |message: &mut GroupMessage| {
        message.to = ReplicaId::new(message.to.node(), 77);
    };
    let offer = world.offer(leader, member, stranger);
    assert_eq!(world.answers_to((leader, other), offer), 0);
    let offer = world.offer(leader, member, |_| {});
    assert!(world.answers_to((leader, other), offer) > 0);
}

#[test]
fn an_offer_of_an_earlier_leader_is_not_answered() {
    let (mut world, [leader, other], member) = with_another();
    let offer = world.offer(leader, member, |_| {});
    let to = world.nodes[(leader + 2) % 3].id;
    world.with(leader, |shard, now| shard.transfer_leader(now, QUEUE, to));
    world.rest(100);
    let later = world.leader().expect("a leader");
    assert_ne!(later, leader);
    assert_eq!(world.answers_to((leader, other), offer), 0);
    let offer = world.offer(later, member, |_| {});
    assert!(world.answers_to((later, other), offer) > 0);
}

#[test]
fn an_answer_to_an_earlier_transfer_means_nothing_for_this_one() {
    let (mut world, [leader, _], member) = with_another();
    assert_eq!(begun((&mut world, leader, member), |_| {}), [OFFER]);
    let mut say_all = |later: u64| {
        world.with_replica(leader, |replica, context| {
            let mut frame = replica.group.replica().0.to_le_bytes().to_vec();
            put(&mut frame, replica.group.last_applied() - 1 + later);
            put(&mut frame, u64::MAX);
            let taken = replica.receive_snapshot(context, member.node(), GOT, &frame.into());
            assert!(taken.is_ok());
            replica.sending.is_none()
        })
    };
    assert!(!say_all(0), "of an earlier state");
    assert!(!say_all(2), "of none that there was");
    assert!(say_all(1));
}

#[test]
fn a_part_that_is_out_of_its_turn_is_not_taken() {
    let (mut world, leader, behind) = one_is_behind(4 * QUORUM_PARTS_IN_FLIGHT, HALF_A_PART);
    let (_, parts) = world.rest_without_answers((leader, behind), 50);
    assert_eq!(parts, QUORUM_PARTS_IN_FLIGHT);
    let from = world.nodes[leader].id;
    for (number, is_next) in [(parts, false), (parts + 2, false), (parts + 1, true)] {
        world.with_replica(behind, |replica, context| {
            let mark = replica.receiving.as_ref().expect("it receives").mark;
            let mut frame = replica.group.replica().0.to_le_bytes().to_vec();
            put(&mut frame, mark);
            put(&mut frame, number);
            // It is not the last, and brings nothing.
            frame.push(0);
            let taken = replica.receive_snapshot(context, from, PART, &frame.into());
            assert!(taken.is_ok());
            let next = replica.receiving.as_ref().expect("it receives").next;
            assert_eq!(next, parts + 1 + u64::from(is_next), "{number}");
        });
    }
}

#[test]
fn a_part_of_another_state_is_not_taken() {
    let (mut world, leader, behind) = one_is_behind(4 * QUORUM_PARTS_IN_FLIGHT, HALF_A_PART);
    let (_, parts) = world.rest_without_answers((leader, behind), 50);
    let from = world.nodes[leader].id;
    world.with_replica(behind, |replica, context| {
        let mark = replica.receiving.as_ref().expect("it receives").mark;
        for (mark, is_it) in [(mark - 1, false), (mark + 1, false), (mark, true)] {
            let mut frame = replica.group.replica().0.to_le_bytes().to_vec();
            put(&mut frame, mark);
            put(&mut frame, parts + 1);
            // It is not the last, and brings nothing.
            frame.push(0);
            let taken = replica.receive_snapshot(context, from, PART, &frame.into());
            assert!(taken.is_ok());
            let next = replica.receiving.as_ref().expect("it receives").next;
            assert_eq!(next, parts + 1 + u64::from(is_it));
        }
    });
}

/// The bytes of a part, and behind them its first message once more, at another index.
fn with_a_message_at(part: &[u8], index: u64) -> Vec<u8> {
    let mut reader = Reader::new(&part[1..]);
    take_replica(&mut reader).expect("a replica");
    let mut read = |what| reader.number(what).expect("it is there");
    read("a mark");
    read("a number");
    reader.u8("whether it is the last").expect("it is there");
    let mut out = part.to_vec();
    out.push(reader.u8("a priority log").expect("a message"));
    reader.number("an index").expect("it is there");
    let len = reader.count("a message").expect("it is there");
    put(&mut out, index);
    put(&mut out, len as u64);
    out.extend_from_slice(reader.bytes(len, "a message").expect("it is there"));
    out
}

#[test]
fn what_comes_with_a_state_and_lies_beyond_its_end_is_not_kept() {
    let (mut world, leader, behind) = one_is_behind(2, HALF_A_PART);
    let way = (leader, behind);
    let mut forged = 0;
    for _ in 0..50 {
        (0..3).for_each(|at| world.sync(at));
        (0..3).for_each(|at| world.read(at));
        while let Some((next, frames)) = world.ways.iter_mut().find(|(_, q)| !q.is_empty()) {
            let next = *next;
            if next == way && frames[0].pieces[0][0] == PART {
                let part = frames[0].pieces.concat();
                frames[0] = PeerFrame::new(QUEUE, with_a_message_at(&part, 1_000));
                forged += 1;
            }
            world.deliver(next);
        }
        world.tick(10);
    }
    assert!(forged > 0, "the state came in parts");
    assert!(world.is_caught_up(behind, leader));
    let end = |world: &World, at: usize| {
        let running: &Running = world.nodes[at].running.as_ref().expect("it runs");
        let stats = running.shard.logs.log_stats(world.log(at));
        stats.expect("it has messages").next_index
    };
    assert_eq!(end(&world, behind), end(&world, leader));
    world.publish(leader);
    world.heal_and_drain();
    world.check();
}

/// An offer whose message has another mark than the state that comes with it.
fn with_a_later_mark(offer: &[u8]) -> Vec<u8> {
    let mut reader = Reader::new(&offer[1..]);
    let matched = reader.number("what is matched").expect("an offer");
    let len = reader.count("a message").expect("an offer");
    let message = reader.bytes(len, "a message").expect("an offer");
    let state = &offer[offer.len() - reader.left()..];
    let (mut message, _) =
        GroupMessage::decode(&Bytes::copy_from_slice(message)).expect("a message");
    let Body::Snapshot(mark) = &mut message.body else {
        panic!("{message:?}");
    };
    mark.index += 1;
    let mut encoded = Vec::new();
    message.encode(&mut encoded);
    let mut out = vec![OFFER];
    put(&mut out, matched);
    put(&mut out, encoded.len() as u64);
    [out, encoded, state.to_vec()].concat()
}

#[test]
fn an_offer_of_another_state_than_its_message_says_is_not_answered() {
    let (mut world, [leader, other], member) = with_another();
    let mut offer = world.offer(leader, member, |_| {});
    let forged = with_a_later_mark(&offer[0].pieces.concat());
    offer[0] = PeerFrame::new(QUEUE, forged);
    assert_eq!(world.answers_to((leader, other), offer), 0);
}

#[test]
fn a_request_with_something_behind_it_is_refused() {
    let (mut world, [leader, _], member) = with_another();
    assert_eq!(begun((&mut world, leader, member), |_| {}), [OFFER]);
    world.with_replica(leader, |replica, context| {
        let mut frame = replica.group.replica().0.to_le_bytes().to_vec();
        put(&mut frame, replica.group.last_applied());
        put(&mut frame, 0);
        let longer = [&frame[..], &[0]].concat();
        let from = member.node();
        for (frame, is_refused) in [(longer, true), (frame, false)] {
            let taken = replica.receive_snapshot(context, from, WANT, &frame.into());
            assert_eq!(taken.is_err(), is_refused);
        }
    });
}

#[test]
fn a_transfer_ends_with_the_leader_and_with_the_receivers_node() {
    for goes in [false, true] {
        let (mut world, leader, behind) = one_is_behind(4 * QUORUM_PARTS_IN_FLIGHT, HALF_A_PART);
        world.rest_without_answers((leader, behind), 50);
        assert!(world.is_sending(leader));
        let of_behind = world.nodes[behind].id;
        world.with(leader, |shard, now| match goes {
            true => shard.peer_down(now, of_behind),
            false => shard.with_replicas(now, |replicas, context| replicas.resign_all(context)),
        });
        assert!(!world.is_sending(leader), "the node goes: {goes}");
    }
}

#[test]
fn a_receiver_that_asks_for_parts_is_not_taken_for_a_silent_one() {
    let (mut world, leader, behind) = one_is_behind(2, HALF_A_PART);
    // What it wants comes when it is nearly too late.
    let mut wants = VecDeque::new();
    let rounds = QUORUM_TRANSFER_SILENCE_MS / 10 - 10;
    let hold = |world: &mut World, wants: &mut VecDeque<PeerFrame>, rounds: u64| {
        for _ in 0..rounds {
            (0..3).for_each(|at| world.sync(at));
            (0..3).for_each(|at| world.read(at));
            while let Some((way, frames)) = world.ways.iter_mut().find(|(_, q)| !q.is_empty()) {
                let (way, kind) = (*way, frames[0].pieces[0][0]);
                match way == (behind, leader) && [WANT, GOT].contains(&kind) {
                    true => wants.extend(frames.pop_front()),
                    false => world.deliver(way),
                }
            }
            world.tick(10);
        }
    };
    hold(&mut world, &mut wants, rounds);
    assert_eq!(wants.len(), 1, "it has got nothing");
    world
        .ways
        .entry((behind, leader))
        .or_default()
        .extend(wants);
    world.deliver((behind, leader));
    let mut answers = VecDeque::new();
    hold(&mut world, &mut answers, rounds / 2);
    assert!(world.is_sending(leader), "it has asked since");
    assert_eq!(world.ledger.snapshots, 1);
}

/// A leader, and a member that has acknowledged an entry and has not heard that it is committed.
fn one_waits_for_a_commit() -> (World, usize, usize) {
    let mut world = World::new(2, 3, spec(3));
    world.body_bytes = 8;
    world.rest(100);
    let leader = world.leader().expect("a leader");
    let behind = (leader + 1) % 3;
    world.publish(leader);
    world.sync(leader);
    world.drain_way((leader, behind));
    world.sync(behind);
    world.drain_way((behind, leader));
    let unapplied = world.with_replica(behind, |replica, _| replica.tail.len());
    assert_eq!(unapplied, 1);
    (world, leader, behind)
}

#[test]
fn what_a_member_had_not_applied_is_in_the_state_that_comes() {
    let (mut world, leader, behind) = one_waits_for_a_commit();
    for at in [leader, (leader + 2) % 3] {
        world.cut_off(at, behind);
    }
    for _ in 0..100 {
        world.publish(leader);
        world.rest(1);
    }
    let before = world.ledger.snapshots;
    for (a, b) in std::mem::take(&mut world.cut) {
        world.meet(a, b);
    }
    world.rest(100);
    assert!(world.ledger.snapshots > before, "the state came");
    assert!(world.is_caught_up(behind, leader));
    world.heal_and_drain();
    world.check();
}

/// Its node was stopped for a while, say: what was sent before is heard when the others have gone
/// on without it.
#[test]
fn what_a_member_has_told_the_leader_that_it_has_is_not_taken_back_for_an_earlier_offer() {
    let (mut world, [leader, other], member) = with_another();
    let answer = world.acknowledged(leader, other);
    world.publish(leader);
    world.rest_without(other);
    let applied = world.with_replica(leader, |replica, _| replica.group.last_applied());
    let last = world.with_replica(other, |replica, _| replica.group.last_index());
    assert!(applied > last, "it needs the state");
    let offer = world.offer(leader, member, |_| {});
    assert!(world.answers_to((leader, other), offer) > 0, "it wants it");
    world.ways.insert((other, leader), answer);
    world.drain_way((other, leader));
    world.rest(100);
    assert_eq!(world.reported_damage, []);
    assert!(world.is_caught_up(other, leader));
    world.heal_and_drain();
    world.check();
}

/// It was not heard before somebody else led and offered its state.
#[test]
fn an_earlier_leader_that_knows_of_what_was_taken_back_is_not_believed() {
    let (mut world, [leader, other], member) = with_another();
    let third = 3 - leader - other;
    let answer = world.acknowledged(leader, other);
    world.ways.insert((other, leader), answer);
    world.drain_way((other, leader));
    let late = world.with_replica(leader, |replica, _| GroupMessage {
        to: member,
        from: replica.group.replica(),
        term: replica.group.term(),
        body: Body::Heartbeat {
            commit: replica.group.last_index(),
        },
    });
    for at in [leader, third] {
        world.cut_off(at, other);
    }
    let to = world.nodes[third].id;
    world.with(leader, |shard, now| shard.transfer_leader(now, QUEUE, to));
    world.rest(100);
    assert_eq!(world.leader(), Some(third));
    world.cut.clear();
    let last =
        |world: &mut World| world.with_replica(other, |replica, _| replica.group.last_index());
    let before = last(&mut world);
    let offer = world.offer(third, member, |_| {});
    assert!(world.answers_to((third, other), offer) > 0, "it wants it");
    assert!(
        last(&mut world) < before,
        "it is nobody's that this leader knows"
    );
    let taken = world.with_replica(other, |replica, context| {
        replica.step(context, late, VecDeque::new())
    });
    assert!(taken.is_ok(), "{taken:?}");
    for at in [leader, third] {
        world.meet(at, other);
    }
    world.rest(100);
    assert!(world.is_caught_up(other, third));
    world.heal_and_drain();
    world.check();
}

#[test]
fn a_state_that_comes_before_the_commit_of_what_it_has_takes_its_place() {
    let (mut world, leader, behind) = one_waits_for_a_commit();
    let (way, member) = ((leader, behind), world.spec.members[behind]);
    // Nothing reaches the member until the leader has applied more, and then the state alone does.
    let drop_all = |world: &mut World| drop(world.ways.remove(&way));
    for _ in 0..20 {
        world.publish(leader);
        (0..3).for_each(|at| world.sync(at));
        drop_all(&mut world);
        while let Some((way, _)) = world.ways.iter().find(|(_, frames)| !frames.is_empty()) {
            let way = *way;
            world.deliver(way);
            drop_all(&mut world);
        }
    }
    assert_eq!(begun((&mut world, leader, member), |_| {}), [OFFER]);
    let is_of_state = |frame: &PeerFrame| [OFFER, PART].contains(&frame.pieces[0][0]);
    for _ in 0..10 {
        world.sync(behind);
        if let Some(frames) = world.ways.get_mut(&way) {
            frames.retain(is_of_state);
        }
        world.deliver(way);
        world.deliver((behind, leader));
        world.read(leader);
    }
    assert!(world.is_caught_up(behind, leader), "the state came");
    world.publish(leader);
    world.heal_and_drain();
    world.check();
    assert_eq!(world.ledger.delivered.len(), 22);
}
