//! The state of a queue on its way to a member that is behind: how much of it is under way, when it
//! is over, and how many there are at once.

use super::super::snapshot::GOT;
use super::super::transfers::PART;
use super::*;
use leveret_replication::{Body, Message as GroupMessage};
use leveret_types::limits::{
    QUORUM_PART_BYTES, QUORUM_PARTS_IN_FLIGHT, QUORUM_TRANSFER_SILENCE_MS,
};

/// Bytes of a message of which two fill a part.
const HALF_A_PART: usize = QUORUM_PART_BYTES / 2;

/// Three members, one of which was down while so many messages came, and now is up again: the
/// leader, and that one.
fn one_is_behind(messages: u64) -> (World, usize, usize) {
    let mut world = World::new(2, 3, spec(3));
    world.body_bytes = HALF_A_PART;
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
    let (mut world, leader, behind) = one_is_behind(2 * parts_in_all);
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
    let (mut world, leader, behind) = one_is_behind(6 * QUORUM_PARTS_IN_FLIGHT);
    world.rest(100);
    assert!(world.is_caught_up(behind, leader));
    assert!(!world.is_sending(leader));
    assert_eq!(world.ledger.snapshots, 1);
    world.heal_and_drain();
    world.check();
}

#[test]
fn a_transfer_is_over_when_the_last_part_has_come_and_not_before() {
    let (mut world, leader, behind) = one_is_behind(2);
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
fn a_member_that_has_the_state_already_says_so_and_is_sent_nothing() {
    let mut world = World::new(1, 3, spec(3));
    world.rest(100);
    let leader = world.leader().expect("a leader");
    world.publish(leader);
    world.rest(20);
    let other = world.spec.members[(leader + 1) % 3];
    world.with_replica(leader, |replica, around| {
        let message = state_for(other, replica);
        replica.begin_snapshot(around, message);
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
