//! Answers of a queue to questions that do not change it.

use crate::script::run;
use crate::world::World;
use leveret_queue::{
    Consumer, ConsumerView, Effect, Got, Meta, Oldest, Outcome, Position, Queue, QueueKind,
    Returns, Settings, Settle,
};
use leveret_types::{ConsumerId, Now};
use std::cmp::Reverse;

/// The script's consumer of that number.
fn consumer(number: u64) -> ConsumerId {
    ConsumerId(number * 2)
}

/// That a consumer accepts these.
fn accepted(subscription: ConsumerId, range: std::ops::Range<u64>) -> Settle {
    Settle {
        subscription,
        priority_log: 0,
        range,
        outcome: Outcome::Accept,
    }
}

fn behind(queue: &Queue, before: u64) -> Option<(u8, u64)> {
    let position = queue.ready_behind(before);
    position.map(
        |Position {
             priority_log,
             index,
         }| (priority_log, index),
    )
}

#[test]
fn the_active_consumer_is_named_while_there_is_one() {
    for (script, expected) in [
        ("declare sac", None),
        ("declare sac; consume c1; consume c2", Some(consumer(1))),
        (
            "declare sac; consume c1; consume c2; cancel c1",
            Some(consumer(2)),
        ),
        ("consume c1", None),
    ] {
        assert_eq!(run(script).0.queue.active(), expected, "{script}");
    }
}

#[test]
fn a_subscription_is_known_from_its_coming_until_it_has_nothing() {
    for (script, expected) in [
        ("publish a", false),
        ("consume c1", true),
        ("consume c1; publish a; cancel c1", true),
        ("consume c1; publish a; cancel c1; ack c1 a", false),
        ("consume c1; cancel c1", false),
    ] {
        assert_eq!(run(script).0.queue.holds(consumer(1)), expected, "{script}");
    }
}

#[test]
fn the_message_behind_so_many_is_found_over_gaps_and_priorities() {
    // Of the first priority's four messages the second is held; three of a higher one go first.
    let (world, _) = run(
        "declare prio=5; publish a b c d; consume c1 prefetch=2; ack c1 a; cancel c1; \
         publish x:p=5 y:p=5 z:p=5",
    );
    let priority_log_of =
        |before| behind(&world.queue, before).map(|(priority_log, _)| priority_log);
    let high = priority_log_of(0).expect("there are messages");
    let low = priority_log_of(3).expect("there are more");
    assert!(high > low);
    for (before, expected) in [
        (0, Some((high, 0))),
        (2, Some((high, 2))),
        (3, Some((low, 3))),
        (4, None),
        (5, None),
    ] {
        assert_eq!(behind(&world.queue, before), expected, "behind {before}");
    }
    assert_eq!(behind(&run("").0.queue, 0), None);
}

#[test]
fn a_subscription_has_what_it_holds_and_nothing_beside_it() {
    let (world, _) = run("declare prio=2; publish a b x:p=2; get g1; get g1");
    let at = |priority_log, index| Position {
        priority_log,
        index,
    };
    let high = world.queue.priority_log_for(Some(2));
    let low = world.queue.priority_log_for(None);
    let getter = ConsumerId(3);
    for (position, expected) in [
        (at(high, 0), true),
        (at(low, 0), true),
        (at(low, 1), false),
        (at(high, 1), false),
        (at(low + 1, 0), false),
    ] {
        assert_eq!(world.queue.has(getter, position), expected, "{position:?}");
    }
}

#[test]
fn what_is_held_is_shown_by_priority_in_whatever_order_it_came() {
    let (world, _) = run(
        "declare prio=2; consume c1 prefetch=9; publish a b; publish x:p=2; publish y:p=1 c z:p=2",
    );
    let all = world.queue.unsettled_behind(None, 0, 100);
    let priorities: Vec<u8> = all
        .iter()
        .map(|unsettled_messages| unsettled_messages.position.priority_log)
        .collect();
    assert_eq!(priorities.len(), 6);
    assert!(
        priorities.is_sorted_by_key(|priority| Reverse(*priority)),
        "{priorities:?}"
    );
}

#[test]
fn what_is_held_is_shown_by_subscriptions_from_any_place_on() {
    let (world, _) = run(
        "declare prio=2; publish a b c x:p=2 d e; consume c1 prefetch=3; consume c2 prefetch=2; \
         ack c1 a",
    );
    let shown = |of: Option<&[ConsumerId]>, before, count| -> Vec<(u64, u8, u64)> {
        let found = world.queue.unsettled_behind(of, before, count).into_iter();
        found
            .map(|unsettled_messages| {
                assert!(
                    world
                        .queue
                        .has(unsettled_messages.consumer, unsettled_messages.position),
                    "{unsettled_messages:?}"
                );
                (
                    unsettled_messages.consumer.0,
                    unsettled_messages.position.priority_log,
                    unsettled_messages.position.index,
                )
            })
            .collect()
    };
    let all = shown(None, 0, 100);
    assert_eq!(
        all.len() as u64,
        world.queue.counts(Now::default()).unsettled
    );
    let by: Vec<u64> = all.iter().map(|(of, ..)| *of).collect();
    assert!(by.is_sorted(), "{all:?}");
    // Of one subscription the highest priority first.
    let of_one: Vec<_> = all.iter().filter(|(of, ..)| *of == consumer(1).0).collect();
    assert!(of_one.is_sorted_by_key(|(_, priority, index)| (Reverse(*priority), *index)));
    for before in 0..=all.len() {
        for count in 0..=all.len() {
            let expected: Vec<_> = all.iter().skip(before).take(count).copied().collect();
            assert_eq!(shown(None, before as u64, count), expected);
        }
    }
    let of_two: Vec<_> = all
        .iter()
        .filter(|(of, ..)| *of == consumer(2).0)
        .copied()
        .collect();
    assert!(!of_two.is_empty());
    assert_eq!(shown(Some(&[consumer(2)]), 0, 100), of_two);
    assert_eq!(shown(Some(&[]), 0, 100), []);
}

#[test]
fn what_waits_is_told_by_priority_and_by_whether_somebody_had_it() {
    let waiting = |script: &str| {
        let waiting = run(script).0.queue.waiting();
        let counts = waiting.by_priority_log.iter().map(|(_, count)| *count);
        (counts.collect::<Vec<u64>>(), waiting.returned)
    };
    for (script, counts, returned) in [
        ("", &[][..], 0),
        ("declare prio=2; publish a b x:p=2", &[2, 1], 0),
        ("declare prio=2; publish a b x:p=2; get g1", &[2], 0),
        ("publish a b c; consume c1 prefetch=2; cancel c1", &[1], 0),
        ("publish a b c; consume c1 prefetch=2; detach c1", &[3], 2),
    ] {
        assert_eq!(waiting(script), (counts.to_vec(), returned), "{script}");
    }
}

#[test]
fn one_consumer_is_active_where_only_one_may_be_and_all_are_elsewhere() {
    let active = |script: &str| {
        let world = run(script).0;
        let views: Vec<ConsumerView> = world.queue.consumers().collect();
        let mut active: Vec<(ConsumerId, bool)> = views
            .iter()
            .map(|view| (view.consumer.id, view.active))
            .collect();
        active.sort_unstable();
        active
    };
    assert_eq!(
        active("consume c1; consume c2"),
        [(consumer(1), true), (consumer(2), true)]
    );
    assert_eq!(
        active("declare sac; consume c1; consume c2"),
        [(consumer(1), true), (consumer(2), false)]
    );
}

#[test]
fn what_leaves_in_several_calls_is_told_as_one_range_where_it_is_one() {
    let (mut world, _) = run("publish a:size=3 b:size=5 c:size=7 d:size=11; consume c1 prefetch=9");
    let mut out = Vec::new();
    for range in [0..1, 1..3, 3..4] {
        let now = Now::both(0);
        world
            .queue
            .settle(now, accepted(consumer(1), range), &mut out);
    }
    let told: Vec<_> = out
        .iter()
        .filter_map(|effect| match effect {
            Effect::Settled { range, bytes, .. } => Some((range.clone(), *bytes)),
            _ => None,
        })
        .collect();
    assert_eq!(told, [(0..4, 26)]);
}

/// For how long a consumer could take a message, as of 30 ms, after something happened at 10 ms;
/// nothing is pumped.
fn able_ms(script: &str, act: impl FnOnce(&mut Queue, Now, &mut Vec<Effect>)) -> u64 {
    let (mut world, _) = run(script);
    let mut out = Vec::new();
    act(&mut world.queue, Now::both(10), &mut out);
    world.queue.counts(Now::both(30)).able_ms
}

#[test]
fn the_time_in_which_a_consumer_is_able_begins_and_ends_with_what_changes_it() {
    let settled = able_ms("publish a; consume c1 prefetch=1", |queue, now, out| {
        queue.settle(now, accepted(consumer(1), 0..1), out);
    });
    assert_eq!(settled, 20, "it has room again from then on");
    let left = able_ms("consume c1", |queue, now, out| {
        queue.cancel(now, consumer(1), out);
    });
    assert_eq!(left, 10, "until it left");
    let adopted = able_ms("declare quorum; publish a; restart", |queue, now, out| {
        let one = Consumer {
            id: consumer(1),
            priority: 0,
            exclusive: false,
            no_ack: false,
            prefetch: 1,
            timeout_ms: None,
        };
        queue
            .attach(Now::both(0), one, out)
            .expect("it is the only one");
        queue.adopt(now, consumer(1), queue.priority_log_for(None), 0..1, 0);
    });
    assert_eq!(adopted, 10, "until it had all that it may hold");
    let elected = able_ms(
        "declare quorum sac; hold-election; consume c1",
        |queue, now, out| queue.resume_election(now, None, out),
    );
    assert_eq!(elected, 20, "once it is the active one");
    let unblocked = able_ms("room c1=0; consume c1; publish a", |queue, now, _| {
        queue.unblock(now, consumer(1));
    });
    assert_eq!(unblocked, 20, "once its connection has room");
}

#[test]
fn a_message_that_goes_by_its_next_failure_is_not_said_to_wait() {
    let (world, _) =
        run("declare quorum limit=1 retry=all:100; publish a; get g1; return g1 a; at 100; get g1");
    let mut told = Vec::new();
    let (now, number) = (Now::both(100), world.queue.priority_log_for(None));
    let settle = Settle {
        subscription: ConsumerId(3),
        priority_log: number,
        range: 0..1,
        outcome: Outcome::Requeue { count: true },
    };
    world.queue.foresee(now, &settle, |range, returns| {
        told.push((range, returns));
    });
    let gone = Returns {
        failed: 2,
        acquired: 2,
        ready_ms: 0,
    };
    assert_eq!(told, [(0..1, gone)]);
}

#[test]
fn the_message_that_is_next_is_the_first_of_the_highest_priority() {
    for (script, expected) in [
        ("", None),
        ("declare prio=5; publish a b", Some((0, 0))),
        ("declare prio=5; publish a x:p=5", Some((5, 0))),
        (
            "declare prio=5; publish a b x:p=5; get g1; get g1",
            Some((0, 1)),
        ),
        ("publish a; get g1", None),
    ] {
        let next = run(script).0.queue.next_position();
        let next = next.map(|next| (next.priority_log, next.index));
        assert_eq!(next, expected, "{script}");
    }
}

/// What made room for others at its place is gone, unseen, and counts as dropped.
#[test]
fn messages_that_are_not_where_they_were_kept_leave_without_having_been_handed_out() {
    let (mut world, _) = run("publish a:size=3 b:size=3 c:size=3 d:size=3 e:size=3; get g1");
    for (range, lost) in [(0..3, 2), (0..3, 0), (3..4, 1), (9..12, 0)] {
        let said = world.call(|queue, _, _, out| queue.lose(0, range.clone(), out));
        assert_eq!(said, lost, "{range:?}");
    }
    assert_eq!(world.call(|queue, _, _, out| queue.lose(7, 0..9, out)), 0);
    let gone: Vec<&str> = world
        .gone
        .values()
        .map(|known| known.name.as_str())
        .collect();
    assert_eq!(gone, ["b", "c", "d"], "what a client holds stays");
    let counts = world.queue.counts(world.now);
    assert_eq!((counts.ready, counts.ready_bytes), (1, 3));
    assert_eq!(world.queue.counters().dropped, 3);
    world.call(|queue, _, _, _| queue.note_dropped(4));
    assert_eq!(world.queue.counters().dropped, 7);
}

/// Whoever writes down what comes back hears of it after what went before it, in the same call.
#[test]
fn what_goes_by_its_failures_is_told_before_what_comes_back_behind_it() {
    let (mut world, _) = run(
        "declare quorum limit=1; tell-returns; publish a b; get g1; return g1 a; \
         consume c1 prefetch=9; cancel c1",
    );
    let number = world.queue.priority_log_for(None);
    world.effects.clear();
    let outcome = Outcome::Requeue { count: true };
    world.settle(consumer(1), number, 0..2, outcome);
    let told: Vec<_> = world
        .effects
        .iter()
        .map(|effect| match effect {
            Effect::Settled { range, .. } => ("gone", range.clone()),
            Effect::Returned { range, .. } => ("back", range.clone()),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(told, [("gone", 0..1), ("back", 1..2)]);
}

#[test]
fn consumers_that_wait_go_before_who_asks_once() {
    let (mut world, _) = run("consume c1");
    let meta = Meta {
        bytes: 1,
        published_ms: 0,
        expiration_ms: None,
    };
    world.publish("a", None, meta).expect("there is room");
    // Nobody has pumped since.
    assert_eq!(world.get(ConsumerId(3), false), Got::Empty);
    let delivered = |effect: &Effect| matches!(effect, Effect::Deliver(_));
    assert_eq!(world.effects.iter().filter(|e| delivered(e)).count(), 1);
}

/// Nothing that waits means no bytes that wait, although the size of what is damaged is not known.
#[test]
fn the_bytes_of_an_empty_queue_are_none() {
    for script in [
        "publish a:size=3 b:size=5; damage a; get g1",
        "publish a:size=3 b:size=5; damage b; get g1; get g1",
        "publish a:size=3 b:size=5 c:size=7; damage a b; consume c1",
    ] {
        let (world, _) = run(script);
        let counts = world.queue.counts(world.now);
        assert_eq!((counts.ready, counts.ready_bytes), (0, 0), "{script}");
    }
}

#[test]
fn a_queue_that_was_emptied_gives_its_memory_back() {
    let memory = |world: &World| world.queue.counts(world.now).memory_bytes;
    let mut world = run("consume c1 prefetch=3000; consume c2 prefetch=3000").0;
    let rest = memory(&world);
    let meta = Meta {
        bytes: 1,
        published_ms: 0,
        expiration_ms: None,
    };
    for _ in 0..4_000 {
        world.publish("", None, meta).expect("there is room");
    }
    world.pump();
    let unsettled_messages = memory(&world);
    assert!(
        unsettled_messages > rest + 10_000,
        "{unsettled_messages}: every other one of each is held"
    );
    world.settle(consumer(1), 0, 0..4_000, Outcome::Accept);
    world.detach(consumer(1));
    let outcome = Outcome::Requeue { count: true };
    world.settle(consumer(2), 0, 0..4_000, outcome);
    world.detach(consumer(2));
    while world.get(ConsumerId(3), true) != Got::Empty {}
    assert!(
        memory(&world) < rest + 2_000,
        "{} of {unsettled_messages}",
        memory(&world)
    );
}

#[test]
fn the_oldest_message_is_known_as_long_as_nothing_before_it_is_not() {
    let settings = Settings {
        priority_max: 5,
        ..Settings::default()
    };
    let mut world = World::new(QueueKind::Classic, settings);
    let none = |_: Position| None;
    assert_eq!(world.queue.oldest(none), Oldest::None);
    let meta = |published_ms| Meta {
        bytes: 1,
        published_ms,
        expiration_ms: None,
    };
    let low = world.publish("low", None, meta(10)).expect("taken");
    world.publish("lower", None, meta(15)).expect("taken");
    world.publish("high", Some(5), meta(20)).expect("taken");
    assert_eq!(world.queue.oldest(none), Oldest::Published(10));

    // Of what is behind what was taken the log may know, or somebody looks at it.
    world.get(consumer(1), false);
    world.get(consumer(1), false);
    assert_eq!(world.queue.oldest(none), Oldest::Unknown { before: 0 });
    assert_eq!(world.queue.oldest(|_| Some(15)), Oldest::Published(15));
    world.publish("higher", Some(5), meta(30)).expect("taken");
    assert_eq!(world.queue.oldest(none), Oldest::Unknown { before: 1 });
    let next = world.queue.ready_behind(1).expect("it waits");
    world.queue.note_head(next, 15);
    assert_eq!(world.queue.oldest(none), Oldest::Published(15));

    // What is no head, or came back before it, is not taken for it.
    world.queue.note_head(low, 10);
    assert_eq!(world.queue.oldest(none), Oldest::Published(15));
    world.settle(
        consumer(1),
        low.priority_log,
        low.index..low.index + 1,
        Outcome::Requeue { count: false },
    );
    assert_eq!(world.queue.oldest(none), Oldest::Unknown { before: 1 });
}

#[test]
fn the_oldest_message_is_known_where_a_consumer_has_no_room_for_it() {
    let mut world = World::new(QueueKind::Classic, Settings::default());
    let meta = |published_ms| Meta {
        bytes: 1,
        published_ms,
        expiration_ms: None,
    };
    world.publish("a", None, meta(1)).expect("taken");
    world.publish("b", None, meta(2)).expect("taken");
    world.log.room.insert(consumer(1), 1);
    let attached = world.attach(Consumer {
        id: consumer(1),
        priority: 0,
        exclusive: false,
        no_ack: false,
        prefetch: 0,
        timeout_ms: None,
    });
    attached.expect("it consumes");
    world.pump();
    assert_eq!(world.queue.oldest(|_| None), Oldest::Published(2));
}
