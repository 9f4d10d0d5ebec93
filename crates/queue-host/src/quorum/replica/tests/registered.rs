//! Which words of a node begin a session with a leader, and which are of another time.

use super::*;
use crate::host_kind::HostKind;
use crate::quorum::protocol::{
    Command, Event, Operation, RegisteredSubscription, Registration, decode_to_remote_queue,
};

/// Presents the third node to the leader at `at`; the session that it has then.
fn present(world: &mut World, at: usize, number: u64, start: u64, term: u64) -> Option<u64> {
    let from = NodeId(3);
    world.with(at, |shard, now| {
        shard.with_replicas(now, |replicas, context| {
            let registration = Registration {
                start,
                term,
                first_sequence: 1,
                subscriptions: Vec::new(),
            };
            let message = Command::Register(Box::new(registration));
            replicas.receive(context, from, QUEUE, number, message);
            let leader = replicas.map[&QUEUE].leader.as_ref().expect("it leads");
            let mut sessions = leader.sessions().filter(|(node, _)| *node == from);
            sessions.next().map(|(_, number)| number)
        })
    })
}

#[test]
fn a_session_begins_with_the_leader_of_a_term_once() {
    let mut world = World::new(1, 3, spec(3));
    world.rest(100);
    let at = world.leader().expect("a leader");
    let running = world.nodes[at].running.as_ref().expect("it runs");
    let term = running
        .shard
        .replica_status(QUEUE)
        .expect("it is here")
        .group
        .term;
    let mut said = |number, start, term| present(&mut world, at, number, start, term);
    assert_eq!(said(1 << 40, 1 << 41, term + 1), None, "another leader's");
    assert_eq!(
        said(1 << 40, 1 << 41, term - 1),
        None,
        "an earlier leader's"
    );
    assert_eq!(said(1 << 40, 1 << 41, term), Some(1 << 40));
    assert_eq!(said((1 << 40) - 1, 1 << 41, term), Some(1 << 40), "late");
    assert_eq!(
        said(1 << 42, 1 << 40, term),
        Some(1 << 40),
        "an earlier run's"
    );
    assert_eq!(
        said((1 << 40) + 1, 1 << 41, 0),
        Some((1 << 40) + 1),
        "of any term"
    );
    assert_eq!(said(1, 1 << 42, term), Some(1), "the first of a later run");
}

impl World {
    /// One step at a time until a node leads that no other has registered at.
    pub(super) fn begun_to_lead(&mut self) -> usize {
        for _ in 0..10_000 {
            for at in 0..self.count() {
                self.sync(at);
                self.read(at);
            }
            let ways: Vec<_> = self.ways.keys().copied().collect();
            for way in ways {
                self.deliver(way);
                if let Some(leader) = self.leader() {
                    return leader;
                }
            }
            self.tick(10);
        }
        panic!("nobody leads");
    }
}

/// A leader that has just begun to lead, of a queue with a single active consumer.
fn single_active() -> (World, usize) {
    let mut single = spec(3);
    single.settings.single_active = true;
    let mut world = World::new(1, 3, single);
    let leader = world.begun_to_lead();
    (world, leader)
}

/// A node begins a session with the leader, with one consumer that was told this number when it
/// became active; who is told to be the active one then, and with which number.
fn present_consumer(
    (world, leader): &mut (World, usize),
    session: u64,
    (further, activation): (usize, u64),
) -> Vec<(ConsumerId, u64)> {
    let leader = *leader;
    let from = world.nodes[(leader + further) % 3].id;
    let id = ConsumerId(further as u64);
    let consumer = Consumer {
        id,
        priority: 0,
        exclusive: false,
        no_ack: false,
        prefetch: 0,
        timeout_ms: None,
    };
    let registration = Registration {
        start: 1 << 41,
        term: 0,
        first_sequence: 1,
        subscriptions: vec![RegisteredSubscription {
            id,
            consumer: Some(consumer),
            activation,
            unsettled: Vec::new(),
        }],
    };
    world.with(leader, |shard, now| {
        shard.with_replicas(now, |replicas, context| {
            let message = Command::Register(Box::new(registration));
            replicas.receive(context, from, QUEUE, session, message);
        });
    });
    let others = [1, 2].map(|further| (leader, (leader + further) % 3));
    let said = others.map(|way| local::answers(world, way));
    let active = said.iter().flatten().filter_map(|event| match event {
        Event::Active {
            consumer,
            activation,
        } if *activation > 0 => Some((*consumer, *activation)),
        _ => None,
    });
    active.collect()
}

#[test]
fn of_consumers_that_were_active_who_was_it_last_stays_it_whoever_comes_first() {
    let (earlier, later) = ((1, 6), (2, 7));
    // One that waits was told so, and has no number.
    let waiting = (1, 0);
    for order in [
        [earlier, later],
        [later, earlier],
        [waiting, later],
        [later, waiting],
    ] {
        let mut led = single_active();
        assert_eq!(present_consumer(&mut led, 1, order[0]), []);
        let active = present_consumer(&mut led, 1, order[1]);
        assert_eq!(active, [(ConsumerId(2), 8)], "{order:?}");
    }
}

#[test]
fn the_active_consumer_stays_it_when_its_node_begins_another_session() {
    let mut led = single_active();
    assert_eq!(present_consumer(&mut led, 1, (1, 0)), []);
    let active = present_consumer(&mut led, 1, (2, 0));
    assert_eq!(active, [(ConsumerId(1), 1)]);
    // With a greater number each time, so that the next leader knows who was it last.
    for session in 2..5 {
        let active = present_consumer(&mut led, session, (1, session - 1));
        assert_eq!(active, [(ConsumerId(1), session)]);
    }
}

#[test]
fn who_becomes_active_after_another_has_a_greater_number() {
    let mut led = single_active();
    assert_eq!(present_consumer(&mut led, 1, (1, 0)), []);
    let active = present_consumer(&mut led, 1, (2, 0));
    assert_eq!(active, [(ConsumerId(1), 1)]);
    let (world, leader) = &mut led;
    let (leader, gone) = (*leader, (*leader + 1) % 3);
    let gone = world.nodes[gone].id;
    world.with(leader, |shard, now| shard.peer_down(now, gone));
    let said = local::answers(world, (leader, (leader + 2) % 3));
    let is_next = |event: &Event| {
        matches!(
            event,
            Event::Active {
                consumer: ConsumerId(2),
                activation: 2,
            }
        )
    };
    assert!(said.iter().any(is_next), "{said:?}");
}

/// A node's words to the leader in a session, and what it answers.
fn say(
    (world, leader): &mut (World, usize),
    further: usize,
    session: u64,
    command: Command,
) -> Vec<Event> {
    let leader = *leader;
    let at = (leader + further) % 3;
    let from = world.nodes[at].id;
    world.with(leader, |shard, now| {
        shard.with_replicas(now, |replicas, context| {
            replicas.receive(context, from, QUEUE, session, command);
        });
    });
    local::answers(world, (leader, at))
}

#[test]
fn who_leaves_out_an_operation_is_told_to_present_itself_again() {
    let mut led = single_active();
    present_consumer(&mut led, 1, (1, 0));
    present_consumer(&mut led, 1, (2, 0));
    let operations = |first| Command::Operations {
        first,
        operations: vec![Operation::Nothing],
    };
    let is_notified = |said: &[Event]| said.iter().any(|of| matches!(of, Event::Leading { .. }));
    let said = say(&mut led, 1, 1, operations(1));
    assert!(!is_notified(&said), "{said:?}");
    let said = say(&mut led, 1, 1, operations(3));
    assert!(is_notified(&said), "{said:?}");
    let said = say(&mut led, 1, 1, operations(2));
    assert!(!is_notified(&said), "{said:?}");
}

#[test]
fn a_node_that_presents_a_consumer_of_another_node_does_not_get_its_messages() {
    let mut world = World::new(1, 3, spec(3));
    let leader = world.begun_to_lead();
    let mut led = (world, leader);
    present_consumer(&mut led, 1, (1, 0));
    let registration = |id| Registration {
        start: 1 << 41,
        term: 0,
        first_sequence: 1,
        subscriptions: vec![RegisteredSubscription {
            id: ConsumerId(id),
            consumer: Some(World::consumer(id, false, 0)),
            activation: 0,
            unsettled: Vec::new(),
        }],
    };
    say(&mut led, 2, 1, Command::Register(Box::new(registration(1))));
    let (world, leader) = &mut led;
    let leader = *leader;
    world.publish(leader);
    let mut got = [0; 2];
    for _ in 0..20 {
        world.sync(leader);
        for further in [1, 2] {
            let at = (leader + further) % 3;
            let frames = world.ways.get(&(leader, at)).into_iter().flatten();
            let bytes = frames.map(|frame| Bytes::from(frame.pieces.concat()));
            let said = bytes.filter_map(|bytes| decode_to_remote_queue(QUEUE, bytes).ok());
            let events = said.flat_map(|frame| frame.messages);
            let is_delivery =
                |event: &Event| matches!(event, Event::Deliver(_) | Event::DeliverLocal(_));
            got[further - 1] += events.filter(is_delivery).count();
            world.deliver((leader, at));
            world.sync(at);
            world.deliver((at, leader));
        }
    }
    assert!(got[0] > 0 && got[1] == 0, "{got:?}");
}

/// Its node has sent operations before, which the leader has not taken yet.
#[test]
fn a_queue_goes_with_its_last_consumer_though_that_left_behind_operations_that_wait() {
    let mut auto_delete = spec(3);
    auto_delete.auto_delete = true;
    let mut world = World::new(1, 3, auto_delete);
    let leader = world.begun_to_lead();
    let mut led = (world, leader);
    present_consumer(&mut led, 1, (1, 0));
    let operations = Command::Operations {
        first: 1,
        operations: vec![Operation::Nothing],
    };
    say(&mut led, 1, 1, operations);
    say(&mut led, 1, 1, Command::Detach(ConsumerId(1)));
    // Now all have spoken, and it acts.
    let (world, leader) = &mut led;
    let from = world.nodes[(*leader + 2) % 3].id;
    let deferred = world.with(*leader, |shard, now| {
        shard.with_replicas(now, |replicas, context| {
            let term = replicas.map[&QUEUE].group.term();
            replicas.receive(context, from, QUEUE, 0, Command::NothingToRegister { term });
        });
        shard.finish(now);
        std::mem::take(&mut shard.effects).deferred
    });
    let is_deleted = |said: &Deferred| matches!(said, Deferred::DeleteQueue { queue: QUEUE, .. });
    assert!(deferred.iter().any(is_deleted), "{deferred:?}");
}

/// What the others hold is not to be given or shown to who asks first.
#[test]
fn who_asks_for_messages_is_answered_when_all_nodes_have_said_what_they_hold() {
    let get = Command::Get {
        subscription: ConsumerId(9),
        no_ack: false,
    };
    let peek = Command::Peek {
        request: 1,
        before: 0,
    };
    for command in [get, peek, Command::Purge { request: 1 }] {
        answered_when_all_have_spoken(command);
    }
}

fn answered_when_all_have_spoken(command: Command) {
    let mut led = single_active();
    present_consumer(&mut led, 1, (1, 0));
    let is_answer = |said: &Event| {
        matches!(
            said,
            Event::Got { .. } | Event::Peeked { .. } | Event::Purged { .. }
        )
    };
    let said = say(&mut led, 1, 1, command);
    assert!(!said.iter().any(is_answer), "{said:?}");
    let (world, leader) = &mut led;
    let (leader, from) = (*leader, world.nodes[(*leader + 2) % 3].id);
    world.with(leader, |shard, now| {
        shard.with_replicas(now, |replicas, context| {
            let term = replicas.map[&QUEUE].group.term();
            replicas.receive(context, from, QUEUE, 0, Command::NothingToRegister { term });
        });
    });
    let said = local::answers(world, (leader, (leader + 1) % 3));
    assert!(said.iter().any(is_answer), "{said:?}");
}
