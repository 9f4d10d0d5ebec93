use super::*;
use crate::events::QueueEvent;
use crate::notify::Notify;
use crate::shard::ShardEffects;
use leveret_types::ConnectionId;

#[test]
fn a_node_that_was_asked_and_is_down_is_not_waited_for() {
    let node = NodeId(1);
    let mut remote_queues = RemoteQueues::new(Origin { node, start: 1 }, 1);
    let (queue, now) = (QueueId(1), Now::both(1_000));
    let mut effects = ShardEffects::default();
    let context = &mut RemoteContext {
        now,
        node,
        effects: &mut effects,
    };
    remote_queues.place(queue, &[NodeId(2), NodeId(3)], false);
    for peer in [NodeId(2), NodeId(3)] {
        remote_queues.peer_up(now, peer);
    }
    let remote_queue = remote_queues.used(queue).expect("it is placed");
    remote_queue.keep(Operation::Nothing, Notify::Nobody);
    remote_queues.locate(now, queue, None);
    let place = |remote_queues: &RemoteQueues| {
        let remote_queue = remote_queues.known(queue).expect("it is used");
        remote_queue.leader_location()
    };
    assert_eq!(place(&remote_queues), LeaderLocation::Contacted(NodeId(2)));
    remote_queues.peer_down(NodeId(3), context);
    assert_eq!(place(&remote_queues), LeaderLocation::Contacted(NodeId(2)));
    remote_queues.peer_down(NodeId(2), context);
    assert_eq!(place(&remote_queues), LeaderLocation::Unknown);
}

#[test]
fn a_queue_that_was_never_placed_or_is_gone_is_not_had() {
    let node = NodeId(1);
    let mut remote_queues = RemoteQueues::new(Origin { node, start: 1 }, 1);
    let mut effects = ShardEffects::default();
    let context = &mut RemoteContext {
        now: Now::both(1),
        node,
        effects: &mut effects,
    };
    assert!(!remote_queues.has(QueueId(1)));
    remote_queues.place(QueueId(1), &[NodeId(2)], false);
    assert!(remote_queues.has(QueueId(1)) && !remote_queues.has(QueueId(2)));
    remote_queues.remove(QueueId(1), context);
    assert!(!remote_queues.has(QueueId(1)));
}

/// A queue that keeps nothing itself is never heard of: others must let its publishers go on.
#[test]
fn who_was_held_back_for_other_queues_goes_on_when_those_keep_less_or_are_gone() {
    for is_gone in [false, true] {
        held_back_until(is_gone);
    }
}

fn held_back_until(is_gone: bool) {
    let node = NodeId(1);
    let mut remote_queues = RemoteQueues::new(Origin { node, start: 1 }, u16::MAX);
    let (busy, quiet, publisher) = (QueueId(1), QueueId(2), ConnectionId(7));
    let mut effects = ShardEffects::default();
    let context = &mut RemoteContext {
        now: Now::both(1),
        node,
        effects: &mut effects,
    };
    for queue in [busy, quiet] {
        remote_queues.place(queue, &[NodeId(2)], false);
    }
    let hold_back = |remote_queues: &mut RemoteQueues, queue| {
        let remote_queue = remote_queues.used(queue).expect("it is placed");
        remote_queue.hold_back(publisher)
    };
    let mut last = 0;
    while !hold_back(&mut remote_queues, quiet) {
        let remote_queue = remote_queues.used(busy).expect("it is placed");
        (last, _) = remote_queue.keep(Operation::Nothing, Notify::Nobody);
    }
    assert!(last > 1, "one operation is no bound");
    let through = Event::Committed { through: last };
    match is_gone {
        false => drop(remote_queues.receive(busy, NodeId(2), 0, through, context)),
        true => remote_queues.remove(busy, context),
    }
    assert!(!hold_back(&mut remote_queues, quiet));
    assert!(
        effects.posts.iter().any(|(to, event)| *to == publisher
            && matches!(event, QueueEvent::Room(queue) if *queue == quiet)),
        "{:?}",
        effects.posts
    );
}
