//! What a queue says when it is asked, without being changed.

use crate::script::run;
use leveret_queue::{Position, Queue};
use leveret_types::ConsumerId;

/// The script's consumer of that number.
fn consumer(number: u64) -> ConsumerId {
    ConsumerId(number * 2)
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
