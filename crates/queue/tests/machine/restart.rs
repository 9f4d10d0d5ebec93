//! A queue after a restart.

use crate::script::{check, run};
use leveret_queue::{
    Consumer, Effect, Got, Log, Meta, Peek, Position, PriorityLogState, Queue, QueueKind,
    RecoveredPriorityLog, Returns, Settings, State, StateError,
};
use leveret_types::{ConsumerId, Now};

/// A consumer that had messages before has room for so many less.
#[test]
fn what_a_consumer_adopts_counts_towards_its_prefetch() {
    for (prefetch, more) in [(1, 0), (2, 1)] {
        let (mut world, _) = run("declare quorum; publish a b; restart");
        let consumer = Consumer {
            id: ConsumerId(2),
            priority: 0,
            exclusive: false,
            no_ack: false,
            prefetch,
            timeout_ms: None,
        };
        world.attach(consumer).expect("it is the only one");
        let at = Position {
            priority_log: world.queue.priority_log_for(None),
            index: 0,
        };
        assert_eq!(world.adopt(consumer.id, at, 0), 1);
        world.effects.clear();
        world.pump();
        let delivered = world.effects.iter().filter(
            |effect| matches!(effect, Effect::Deliver(delivery) if delivery.position.index == 1),
        );
        assert_eq!(delivered.count(), more, "prefetch {prefetch}");
    }
}

/// A state that was saved stands for another one if a restart makes the same of both.
#[test]
fn a_saved_state_says_what_a_restart_would_make_of_it_and_no_more() {
    let begun = |numbers: &[u8]| State::default().with_priority_logs(numbers.iter().copied());
    assert!(begun(&[]).says(&begun(&[])));
    assert!(
        begun(&[]).says(&begun(&[3])),
        "as if nothing was saved of it"
    );
    assert!(begun(&[3]).says(&begun(&[3])));
    assert!(!begun(&[3]).says(&begun(&[])), "one is gone");
    assert!(!begun(&[3]).says(&begun(&[4])), "another one");
    assert!(!begun(&[3]).says(&State::unknown([3])));
    assert!(!begun(&[]).says(&State::unknown([3])));
    assert!(state().says(&state()));
    let mut other = state();
    other.priority_logs[1].delivered_through += 1;
    assert!(!state().says(&other));
}

/// Whoever adopts a message that nobody has counted says nothing of it.
#[test]
fn what_is_adopted_for_the_first_time_has_not_come_back() {
    for (script, expected) in [
        ("declare quorum; publish a; restart; adopt c1 a", None),
        (
            "declare quorum; publish a; restart; adopt c1 a=2",
            Some(Returns {
                acquired: 2,
                ..Returns::default()
            }),
        ),
        // Classic queues do not count.
        ("publish a; restart; adopt c1 a=2", None),
    ] {
        let (world, _) = run(script);
        let at = Position {
            priority_log: world.queue.priority_log_for(None),
            index: 0,
        };
        assert_eq!(world.queue.returns(at), expected, "{script}");
    }
}

#[test]
fn restarts() {
    for (script, expected) in [
        (
            "publish a b; restart; show; consume c1",
            "ready a b; c1<a; c1<b",
        ),
        (
            "publish a b c; consume c1 prefetch=1; restart; show; consume c2",
            "c1<a; ready a b c; c2<a*; c2<b; c2<c",
        ),
        (
            "publish a b c; consume c1 prefetch=2; ack c1 b; restart; consume c2",
            "c1<a; c1<b; gone b; c1<c; c2<a*; c2<c*",
        ),
        (
            "publish a; consume c1; ack c1 a; restart; show; publish b; consume c2",
            "c1<a; gone a; nothing; c2<b",
        ),
        // After a crash anything may have been delivered; what comes later was not.
        (
            "publish a b; restart crash; consume c1; publish c",
            "c1<a*; c1<b*; c1<c",
        ),
        // What was on its way to the dead-letter exchange is still there.
        (
            "declare dlx; publish a; get g1; reject g1 a; restart; show; get g1",
            "g1<a left=0; dlx(rejected) a; ready a; g1<a* left=0",
        ),
        (
            "declare ttl=10; publish a; at 5; restart; deadline; at 10",
            "at 10; gone a",
        ),
        (
            "publish a:ttl=10; restart; deadline; at 10",
            "at 10; gone a",
        ),
        ("publish a:ttl=10; restart crash; at 10", "gone a"),
        (
            "declare prio=3; publish a b:p=3 c; get g1; restart; consume c1",
            "g1<b left=2; c1<b*; c1<a; c1<c",
        ),
        (
            "declare max-length=3; publish a b c; restart; publish d; show",
            "gone a; ready b c d",
        ),
        (
            "declare max-bytes=8; publish a:size=4 b:size=4; restart; publish c:size=1; show",
            "gone a; ready b c",
        ),
        (
            "declare quorum limit=2; publish a b; get g1; return g1 a; restart; consume c1; return c1 a; restart; get g2; return g2 a; show",
            "g1<a left=1; c1<a*1; c1<b; c1<a*2; g2<a*2 left=1; gone a; ready b",
        ),
        (
            "declare expires=100; at 90; restart; at 189; at 190",
            "queue-expired",
        ),
    ] {
        check(script, expected);
    }
}

#[test]
fn a_priority_log_without_saved_state_is_taken_at_its_worst() {
    let priority_log = RecoveredPriorityLog {
        priority_log: 0,
        live: std::iter::once(3..5).collect(),
        bytes: 2,
        next_index: 9,
    };
    let queue = Queue::recover(
        QueueKind::Classic,
        Settings::default(),
        Now::both(0),
        vec![priority_log],
        &State::default(),
    );
    let state = queue.state();
    assert_eq!(state.priority_logs[0].delivered_through, 9);
    assert!(state.priority_logs[0].may_expire);
}

#[test]
fn recovery_of_a_long_queue_looks_at_no_message() {
    let (mut world, _) = run("publish a b c");
    let before = world.log.peeks;
    world.restart(true);
    assert_eq!(world.log.peeks, before);
}

fn known(failed: u32, acquired: u32, ready_ms: u64) -> Returns {
    Returns {
        failed,
        acquired,
        ready_ms,
    }
}

fn state() -> State {
    let priority_log = |priority_log, returns| PriorityLogState {
        priority_log,
        may_expire: priority_log == 0,
        delivered_through: 7,
        returns,
        leaving: vec![],
    };
    State {
        priority_logs: vec![
            priority_log(0, vec![]),
            priority_log(200, vec![(1..3, known(2, 3, 0)), (5..6, known(20, 20, 7))]),
        ],
    }
}

/// The format does not change: what an older version wrote is read.
#[test]
fn the_saved_bytes_are_frozen() {
    let mut bytes = Vec::new();
    state().encode(&mut bytes);
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let golden = "020200\
        0001070000000000000000000000\
        c800070000000000000002000000\
        0100000000000000030000000000000002000000030000000000000000000000\
        0500000000000000060000000000000014000000140000000700000000000000";
    assert_eq!(hex, golden);
    assert_eq!(State::decode(&bytes), Ok(state()));
    let first = "010200\
        0001070000000000000000000000\
        c800070000000000000002000000\
        0100000000000000030000000000000002000000\
        0500000000000000060000000000000014000000";
    let bytes: Vec<u8> = (0..first.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&first[at..at + 2], 16).expect("hex"))
        .collect();
    let mut old = state();
    old.priority_logs[1].returns = vec![(1..3, known(2, 2, 0)), (5..6, known(20, 20, 0))];
    assert_eq!(State::decode(&bytes), Ok(old), "the first version");
}

#[test]
fn damaged_bytes_are_refused() {
    let mut bytes = Vec::new();
    state().encode(&mut bytes);
    for end in 0..bytes.len() {
        assert!(
            matches!(State::decode(&bytes[..end]), Err(StateError::Damaged(_))),
            "cut at {end}"
        );
    }
    for (at, value, expected) in [
        (0, 0, StateError::Version(0)),
        (0, 3, StateError::Version(3)),
        (4, 2, StateError::Damaged(5)),
        (17, 0, StateError::Damaged(95)),
        (31, 9, StateError::Damaged(63)),
        (63, 2, StateError::Damaged(95)),
    ] {
        let mut changed = bytes.clone();
        changed[at] = value;
        assert_eq!(State::decode(&changed), Err(expected), "byte {at}");
    }
    bytes.push(0);
    assert_eq!(State::decode(&bytes), Err(StateError::Damaged(95)));
}

#[test]
fn lower_priorities_go_on_when_all_of_a_higher_one_is_held_by_who_had_it_before() {
    struct Plain;
    impl Log for Plain {
        fn peek(&mut self, _: Position) -> Peek {
            Peek::Ready(Meta {
                bytes: 1,
                published_ms: 0,
                expiration_ms: None,
            })
        }
        fn admit(&mut self, _: ConsumerId, _: u32) -> bool {
            true
        }
    }
    let priority_log = |priority_log| RecoveredPriorityLog {
        priority_log,
        live: std::iter::once(0..2).collect(),
        bytes: 2,
        next_index: 2,
    };
    let now = Now::both(0);
    let mut queue = Queue::recover(
        QueueKind::Quorum,
        Settings::default(),
        now,
        vec![priority_log(4), priority_log(9)],
        &State::default(),
    );
    assert_eq!(queue.adopt(now, ConsumerId(1), 9, 0..2, 0), 2);
    let mut out = Vec::new();
    for index in 0..2 {
        let got = queue.get(now, ConsumerId(2), false, &mut Plain, &mut out);
        let Got::Message { delivery, .. } = got else {
            panic!("message {index} of the lower priority log: {got:?}");
        };
        assert_eq!(
            delivery.position,
            Position {
                priority_log: 4,
                index
            }
        );
    }
    let got = queue.get(now, ConsumerId(2), false, &mut Plain, &mut out);
    assert_eq!(got, Got::Empty);
}

fn begun() -> PriorityLogState {
    PriorityLogState {
        priority_log: 0,
        may_expire: false,
        delivered_through: 0,
        returns: Vec::new(),
        leaving: Vec::new(),
    }
}

/// What a queue of one priority log becomes of which this is saved; all of its messages were
/// published at 0.
fn recovered(count: u64, saved: PriorityLogState, settings: Settings, now: Now) -> Queue {
    let priority_log = RecoveredPriorityLog {
        priority_log: saved.priority_log,
        live: std::iter::once(0..count).collect(),
        bytes: count * 10,
        next_index: count,
    };
    let state = State {
        priority_logs: vec![saved],
    };
    Queue::recover(
        QueueKind::Classic,
        settings,
        now,
        vec![priority_log],
        &state,
    )
}

struct OfTen;

impl Log for OfTen {
    fn peek(&mut self, _: Position) -> Peek {
        Peek::Ready(Meta {
            bytes: 10,
            published_ms: 0,
            expiration_ms: None,
        })
    }

    fn admit(&mut self, _: ConsumerId, _: u32) -> bool {
        true
    }
}

#[test]
fn what_expired_while_nobody_ran_the_queue_is_delivered_to_nobody() {
    for (at, delivered) in [(9, 2), (10, 0)] {
        let settings = Settings {
            ttl_ms: Some(10),
            ..Settings::default()
        };
        let now = Now::both(at);
        let mut queue = recovered(2, begun(), settings, now);
        let consumer = Consumer {
            id: ConsumerId(2),
            priority: 0,
            exclusive: false,
            no_ack: false,
            prefetch: 0,
            timeout_ms: None,
        };
        let mut out = Vec::new();
        queue
            .attach(now, consumer, &mut out)
            .expect("it is the only one");
        queue.pump(now, &mut OfTen, &mut out);
        let count = out
            .iter()
            .filter(|effect| matches!(effect, Effect::Deliver(_)));
        assert_eq!(count.count(), delivered, "at {at}: {out:?}");
    }
}

#[test]
fn what_was_on_its_way_to_a_dead_letter_exchange_goes_on_where_its_state_says_so() {
    let mut saved = begun();
    saved.leaving = vec![1..3, 5..9];
    let now = Now::both(0);
    let mut queue = recovered(6, saved, Settings::default(), now);
    let counts = queue.counts(now);
    assert_eq!((counts.ready, counts.leaving), (3, 3));
    assert_eq!((counts.ready_bytes, counts.leaving_bytes), (30, 30));
    let mut out = Vec::new();
    assert_eq!(queue.dead_lettered(0, 0..6, &mut out), 3);
    let ready: Vec<u64> = queue.ready_from(0, 0).flatten().collect();
    assert_eq!(ready, [0, 3, 4]);
    let counts = queue.counts(now);
    assert_eq!((counts.leaving, counts.leaving_bytes), (0, 0));
}

#[test]
fn a_state_says_where_messages_may_have_a_time_to_live_of_their_own() {
    for (script, expected) in [
        ("publish a", false),
        ("publish a:ttl=10", true),
        ("publish a:ttl=10; get g1; ack g1 a", true),
        ("publish a:ttl=10; get g1; ack g1 a; publish b", false),
        ("publish a:ttl=10; get g1; publish b", true),
        // It may be sound after a restart, and would expire then.
        ("publish a:ttl=10; damage a; get g1; publish b", true),
        (
            "declare dlx; publish a:ttl=10; get g1; reject g1 a; publish b",
            true,
        ),
    ] {
        let state = run(script).0.queue.state();
        assert_eq!(state.may_expire(0), expected, "{script}");
        assert!(!state.may_expire(1), "nothing is known of it");
    }
}

#[test]
fn a_priority_log_that_got_a_message_with_a_time_to_live_says_so_after_a_crash() {
    let state = State::default().expiring(3);
    assert!(state.may_expire(3) && !state.may_expire(2));
    let state = state.expiring(1);
    assert!(state.may_expire(3) && state.may_expire(1) && !state.may_expire(2));
}
