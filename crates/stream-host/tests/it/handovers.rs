//! A leader that goes in order: what is under way is confirmed, what comes later is not stored.

use crate::common::pair::*;
use leveret_stream::replica::Epoch;
use leveret_stream::{
    BatchBuilder, Command, Event, Events, PublisherId, ReplicaEvent, ReplicaOrder, RequestId,
};
use leveret_types::limits::{STREAM_HANDOVER_BYTES_MAX, STREAM_HANDOVER_MS};
use leveret_types::{NodeId, Now};

const PUBLISHER: PublisherId = PublisherId(1);

/// Two replicas, and a publisher at their leader.
fn published_to() -> (Node, Node) {
    let (mut leader, mut follower) = pair();
    let declare = Command::DeclarePublisher {
        request: RequestId(0),
        stream: STREAM,
        publisher: PUBLISHER,
        reference: None,
    };
    say(&mut leader, declare);
    run(&mut [&mut leader, &mut follower]);
    leader.events.clear();
    leader.reports.clear();
    (leader, follower)
}

fn say(leader: &mut Node, command: Command) {
    let (now, mut events) = (Now::both(0), Events::new());
    leader.host.handle(now, SESSION, command, &mut events);
    leader.events.extend(events.into_iter().map(|(_, e)| e));
}

fn publish(leader: &mut Node, id: u64, body: &[u8]) {
    let mut batch = BatchBuilder::new();
    assert!(batch.push(id, None, body));
    let publish = Command::Publish {
        stream: STREAM,
        publisher: PUBLISHER,
        batch: batch.take(),
    };
    say(leader, publish);
}

fn confirmed(leader: &Node) -> Vec<u64> {
    let ids = |event: &Event| match event {
        Event::Confirmed { ids, .. } => ids.clone(),
        _ => Vec::new(),
    };
    leader.events.iter().flat_map(ids).collect()
}

fn may_move(leader: &Node) -> Vec<NodeId> {
    let to = |report: &ReplicaEvent| match report {
        ReplicaEvent::MayMove { to } => Some(*to),
        _ => None,
    };
    leader.reports.iter().filter_map(to).collect()
}

fn hand_over(leader: &mut Node) {
    leader.host.hand_over(Now::both(0), STREAM, FOLLOWER);
}

fn turn_at(leader: &mut Node, ms: u64) {
    let mut events = Events::new();
    leader.host.end_turn(Now::both(ms), &mut events).unwrap();
    leader.events.extend(events.into_iter().map(|(_, e)| e));
    let reports = leader.host.take_reports().into_iter();
    leader.reports.extend(reports.map(|(_, report)| report));
}

#[test]
fn what_is_under_way_is_confirmed_and_what_comes_later_is_not_stored() {
    let (mut leader, mut follower) = published_to();
    publish(&mut leader, 10, b"under way");
    turn_at(&mut leader, 0);
    publish(&mut leader, 11, b"not written yet");
    hand_over(&mut leader);
    publish(&mut leader, 12, b"too late");
    assert_eq!(may_move(&leader), [], "not before all is confirmed");
    run(&mut [&mut leader, &mut follower]);
    assert_eq!(confirmed(&leader), [10, 11]);
    assert_eq!(may_move(&leader), [FOLLOWER]);
    // The other one leads.
    let (epoch, leader_node) = (Epoch(2), FOLLOWER);
    leader.prepare(epoch);
    let order = ReplicaOrder::Follow {
        epoch,
        leader: leader_node,
    };
    let mut events = Events::new();
    leader.host.order(STREAM, order, &mut events);
    leader.events.extend(events.into_iter().map(|(_, e)| e));
    turn_at(&mut leader, 3 * STREAM_HANDOVER_MS);
    assert_eq!(confirmed(&leader), [10, 11]);
    let last_offsets = [&leader, &follower].map(|node| {
        let (_, stats) = node.host.stats_of(&[STREAM]).next().unwrap();
        stats.last_offset
    });
    assert_eq!(last_offsets, [Some(2); 2], "one of before, and two");
}

#[test]
fn with_nothing_under_way_it_goes_at_once() {
    let (mut leader, _) = published_to();
    hand_over(&mut leader);
    hand_over(&mut leader);
    turn_at(&mut leader, 0);
    assert_eq!(may_move(&leader), [FOLLOWER]);
}

#[test]
fn a_leader_that_nobody_follows_up_goes_on_with_what_it_has_held() {
    let (mut leader, mut follower) = published_to();
    hand_over(&mut leader);
    publish(&mut leader, 10, b"held");
    turn_at(&mut leader, 2 * STREAM_HANDOVER_MS - 1);
    assert_eq!(leader.host.due_ms(), Some(2 * STREAM_HANDOVER_MS));
    run(&mut [&mut leader, &mut follower]);
    assert_eq!(confirmed(&leader), [0; 0]);
    turn_at(&mut leader, 2 * STREAM_HANDOVER_MS);
    run(&mut [&mut leader, &mut follower]);
    assert_eq!(confirmed(&leader), [10]);
    publish(&mut leader, 11, b"as before");
    run(&mut [&mut leader, &mut follower]);
    assert_eq!(confirmed(&leader), [10, 11]);
}

#[test]
fn it_does_not_wait_for_ever_for_what_is_under_way() {
    let (mut leader, _) = published_to();
    publish(&mut leader, 10, b"nobody else has it");
    turn_at(&mut leader, 0);
    hand_over(&mut leader);
    turn_at(&mut leader, STREAM_HANDOVER_MS - 1);
    assert_eq!(may_move(&leader), []);
    turn_at(&mut leader, STREAM_HANDOVER_MS);
    assert_eq!(may_move(&leader), [FOLLOWER]);
}

#[test]
fn it_holds_so_much_and_no_more() {
    let (mut leader, mut follower) = published_to();
    hand_over(&mut leader);
    let body = vec![0; STREAM_HANDOVER_BYTES_MAX / 2];
    publish(&mut leader, 10, &body);
    run(&mut [&mut leader, &mut follower]);
    assert_eq!(confirmed(&leader), [0; 0]);
    publish(&mut leader, 11, &body);
    run(&mut [&mut leader, &mut follower]);
    assert_eq!(confirmed(&leader), [10, 11]);
}

#[test]
fn who_does_not_lead_says_so_at_once() {
    let (mut leader, mut follower) = published_to();
    follower.host.hand_over(Now::both(0), STREAM, LEADER);
    run(&mut [&mut leader, &mut follower]);
    assert_eq!(may_move(&follower), [LEADER]);
}
