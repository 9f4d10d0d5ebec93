use super::queues::EMPTY_KEPT;
use super::*;
use leveret_amqp::fuzz::Random;
use leveret_types::LatencyCounts;
use std::collections::BTreeMap;

/// Runs a script of words over a new ledger and compares what it says.
///
/// `p3` three publishes, `a2@7` accepted waiting for position 7 of shard 0, `a2@1:7` of shard 1,
/// `a2@7,1:4` of both, `a2` accepted waiting for nothing, `r2` rejected, `d7` shard 0 durable
/// through 7, `d1:7` shard 1, `f` flush, `u` how many have no answer. Answers:
/// `2` confirm, `2*` with multiple, `-2` and `-2*` rejections, one flush per group.
///
/// Where a shard is named `q1`, it is queue 1 of the cluster:
/// `a2@q1:7` waits for its operation 7, `cq1:7` commits all through 7, `nq1:7` refuses 7.
fn check(script: &str, expected: &str) {
    let mut ledger = Ledger::default();
    let mut said = Vec::new();
    let place = |text: &str| {
        let (shard, position) = text.split_once(':').unwrap_or(("0", text));
        let awaited = match shard.strip_prefix('q') {
            Some(queue) => Awaited::Queue(QueueId(queue.parse().unwrap())),
            None => Awaited::Shard(ShardId(shard.parse().unwrap())),
        };
        (awaited, position.parse::<u64>().unwrap())
    };
    for word in script.split_whitespace() {
        let (verb, rest) = word.split_at(1);
        match verb {
            "p" => {
                for _ in 0..rest.parse::<u32>().unwrap() {
                    ledger.issue(0);
                }
            }
            "a" => {
                let (number, waits) = rest.split_once('@').unwrap_or((rest, ""));
                let waits = waits.split(',').filter(|w| !w.is_empty()).map(place);
                let waits: Vec<_> = waits.collect();
                ledger.accept(number.parse().unwrap(), &waits);
            }
            "r" => ledger.reject(rest.parse().unwrap()),
            "d" => {
                let (Awaited::Shard(shard), through) = place(rest) else {
                    panic!("{word}");
                };
                ledger.durable(shard, through);
            }
            "c" | "n" => {
                let (Awaited::Queue(queue), at) = place(rest) else {
                    panic!("{word}");
                };
                match verb {
                    "c" => ledger.committed(queue, at),
                    _ => ledger.refused(queue, at..at + 1),
                }
            }
            "f" => {
                let mut group = Vec::new();
                ledger.flush(0, &mut Latencies::default(), |a| {
                    let sign = if a.confirmed { "" } else { "-" };
                    let star = if a.multiple { "*" } else { "" };
                    group.push(format!("{sign}{}{star}", a.number));
                });
                said.push(group.join(" "));
            }
            "u" => said.push(format!("{} left", ledger.unanswered())),
            other => panic!("unknown word {other}"),
        }
    }
    assert_eq!(said.join(" | "), expected, "{script}");
}

#[test]
fn answers_are_merged_as_far_as_they_may_be() {
    let cases = [
        ("p1 a1 f", "1"),
        ("p3 a1 a2 a3 f", "3*"),
        ("p3 f a1 f a2 a3 f f", " | 1 | 3* | "),
        ("p3 a1 a3 f a2 f", "1 3 | 2"),
        ("p4 a2 a3 a4 f a1 f", "2 3 4 | 1"),
        ("p5 a1 a2 a4 a5 f a3 f", "2* 4 5 | 3"),
        // Rejections.
        ("p1 r1 f", "-1"),
        ("p3 r1 r2 r3 f", "-3*"),
        ("p3 a1 r2 a3 f", "1 -2 3"),
        ("p3 r1 a2 a3 f", "-1 3*"),
        ("p4 r1 r2 a3 r4 f", "-2* 3 -4"),
        ("p4 r2 r3 f a1 a4 f", "-2 -3 | 1 4"),
        // No confirm reaches over what was rejected ahead of it, nor the other way round.
        ("p9 r7 f a1 a2 a3 a4 a5 a6 a8 a9 f", "-7 | 1 2 3 4 5 6 9*"),
        ("p6 a3 f r1 r2 r4 r5 r6 f", "3 | -1 -2 -6*"),
        ("p6 a1 a2 r3 r4 a5 a6 f", "2* -4* 6*"),
        // Nothing is confirmed before every log has it.
        ("p1 a1@7 f d6 f d7 f", " |  | 1"),
        ("p3 a1@7 a2@7 a3@7 d7 f", "3*"),
        ("p3 a1@7 a2@8 a3@8 d7 f d8 f", "1 | 3*"),
        ("p3 a1@8 a2@7 a3@8 d7 f d8 f", "2 | 3*"),
        ("p2 a1@7,1:4 a2@7 d7 f d1:3 f d1:4 f", "2 |  | 1"),
        ("p2 a1@1:7 a2@7 d7 f d1:9 f", "2 | 1"),
        ("p2 a1@7 a2 f d7 f", "2 | 1"),
        ("p3 a1@7 r2 a3@7 f d7 f", "-2 | 1 3"),
        // Queues of the cluster.
        ("p3 a1@q1:1 a2@q1:2 a3@q1:3 f cq1:2 f cq1:3 f", " | 2* | 3"),
        ("p3 a1@q1:4 a2@q2:1 a3@q1:6 cq1:6 f cq2:1 f", "1 3 | 2"),
        ("p3 a1@q1:1 a2@q1:2 a3@q1:3 nq1:2 f cq1:3 f", "-2 | 1 3"),
        ("p3 a1@q1:1 a2@q1:2 a3@q1:3 nq1:1 nq1:3 cq1:3 f", "-1 2 -3"),
        ("p2 a1@q1:1,7 a2@q1:2 cq1:2 f d7 f", "2 | 1"),
        ("p1 a1@q1:1,q2:1 nq1:1 f cq2:1 f", " | -1"),
        ("p2 a1@q1:9 a2@q1:3 cq1:3 f cq1:9 f", "2 | 1"),
        // What is refused of one says nothing of others that wait.
        ("p2 a1@q1:1,q2:1 a2@q1:2,q2:2 nq1:1 cq1:2 cq2:2 f", "-1 2"),
        ("p2 a2@q1:1 a1@q1:2 cq1:1 f cq1:2 f", "2 | 1"),
        ("p2 a1@q1:1 a2@7 d7 f cq1:1 f", "2 | 1"),
        (
            "p3 a1@q1:1 a2@q1:2 a3@q1:3 u cq1:2 f u cq1:3 f u",
            "3 left | 2* | 1 left | 3 | 0 left",
        ),
        (
            "p2 a1@q1:1 a2@q1:2 nq1:2 f u cq1:1 f u",
            "-2 | 1 left | 1 | 0 left",
        ),
        // Out of order by one of the two: a confirm says nothing of what waits before it.
        ("p4 a4@q1:1 a1@q1:2 a2 a3 f cq1:2 f", "2 3 | 4*"),
        ("p4 a1@q1:2 a4@q1:1 a2 a3 f cq1:1 f cq1:2 f", "2 3 | 4 | 1"),
        // Said twice, or of what was never published: nothing happens.
        ("p1 a1 a1 r1 f a1 r1 f", "1 | "),
        ("a1 r2 f p2 a1 a2 f", " | 2*"),
        ("p1 a1@7 a1 f d7 f", " | 1"),
    ];
    for (script, expected) in cases {
        check(script, expected);
    }
}

/// What a client makes of the answers. One that takes `multiple` for all that is before it, even
/// for what has its answer, must hear the same.
fn client_reads(
    unanswered: &mut BTreeMap<u64, ()>,
    received: &BTreeMap<u64, bool>,
    answer: Answer,
) -> Vec<(u64, bool)> {
    if answer.multiple {
        let open = unanswered
            .first_key_value()
            .map_or(0, |(number, ())| *number);
        let others = received.range(open..answer.number);
        let mut others = others.filter(|(_, confirmed)| **confirmed != answer.confirmed);
        assert_eq!(others.next(), None, "{answer:?}");
    }
    let first = if answer.multiple { 0 } else { answer.number };
    let numbers: Vec<u64> = unanswered
        .range(first..=answer.number)
        .map(|(n, ())| *n)
        .collect();
    assert!(
        numbers.contains(&answer.number),
        "{answer:?} answers nothing that is open"
    );
    numbers
        .into_iter()
        .map(|number| {
            unanswered.remove(&number);
            (number, answer.confirmed)
        })
        .collect()
}

/// A shard and a queue: what confirms of the test wait for.
const PLACES: [Awaited; 2] = [Awaited::Shard(ShardId(0)), Awaited::Queue(QueueId(0))];

fn tell(ledger: &mut Ledger, awaited: Awaited, through: u64) {
    match awaited {
        Awaited::Shard(shard) => ledger.durable(shard, through),
        Awaited::Queue(queue) => ledger.committed(queue, through),
    }
}

#[test]
fn a_client_hears_the_truth_of_every_publish_once() {
    for seed in 1..1000 {
        let mut random = Random::new(seed);
        let mut ledger = Ledger::default();
        let (mut issued, mut truth) = (0, BTreeMap::new());
        let (mut client, mut received) = (BTreeMap::new(), BTreeMap::new());
        let mut durable = [0_u64; 2];
        let mut waits_of: BTreeMap<u64, Vec<(Awaited, u64)>> = BTreeMap::new();
        for _ in 0..200 {
            match random.below(10) {
                0..4 => {
                    issued = ledger.issue(0);
                    client.insert(issued, ());
                }
                4..7 if issued > 0 => {
                    // Mostly in order, as the node answers.
                    let open = (1..=issued).find(|n| !truth.contains_key(n));
                    let number = if random.below(4) == 0 {
                        1 + random.below(issued)
                    } else {
                        open.unwrap_or(1)
                    };
                    let reject = random.below(6) == 0;
                    let waits: Vec<_> = (0..random.below(3) as usize)
                        .map(|place| (PLACES[place], durable[place] + random.below(3)))
                        .collect();
                    if reject {
                        ledger.reject(number);
                    } else {
                        ledger.accept(number, &waits);
                    }
                    truth.entry(number).or_insert_with(|| {
                        waits_of.insert(number, waits);
                        !reject
                    });
                }
                7 => {
                    let place = random.below(2) as usize;
                    durable[place] += random.below(3);
                    tell(&mut ledger, PLACES[place], durable[place]);
                }
                _ => ledger.flush(0, &mut Latencies::default(), |answer| {
                    for (number, confirmed) in client_reads(&mut client, &received, answer) {
                        assert_eq!(truth.get(&number), Some(&confirmed), "publish {number}");
                        if confirmed {
                            // A wait that was true when it was given is seen at the next report of
                            // its log.
                            let early = waits_of[&number]
                                .iter()
                                .find(|w| w.1 > durable[usize::from(w.0 == PLACES[1])]);
                            assert_eq!(early, None, "publish {number} confirmed too early");
                        }
                        assert_eq!(received.insert(number, confirmed), None);
                    }
                }),
            }
            assert_eq!(ledger.unanswered(), client.len() as u64);
        }
        durable = [u64::MAX; 2];
        for (place, through) in PLACES.into_iter().zip(durable) {
            tell(&mut ledger, place, through);
        }
        ledger.flush(0, &mut Latencies::default(), |answer| {
            let read = client_reads(&mut client, &received, answer);
            received.extend(read);
        });
        assert_eq!(received, truth);
        assert!(!ledger.is_ready() && !ledger.awaits());
    }
}

#[test]
fn a_publish_that_waits_or_was_refused_is_noticed_whatever_else_there_is() {
    let mut ledger = Ledger::default();
    ledger.issue(0);
    ledger.accept(1, &[(Awaited::Shard(ShardId(0)), 7)]);
    assert!(ledger.awaits() && !ledger.is_ready());
    ledger.durable(ShardId(0), 7);
    assert!(!ledger.awaits() && ledger.is_ready());
    ledger.flush(0, &mut Latencies::default(), |_| {});
    assert!(!ledger.is_ready());
    ledger.issue(0);
    ledger.accept(2, &[(Awaited::Queue(QueueId(1)), 1)]);
    assert!(ledger.awaits() && !ledger.is_ready());
    ledger.refused(QueueId(1), 1..2);
    assert!(!ledger.awaits() && ledger.is_ready());
}

#[test]
fn publishes_to_a_queue_in_their_order_cost_one_run_and_queues_that_are_done_with_nothing() {
    let mut ledger = Ledger::default();
    for number in 1..=1_000 {
        ledger.issue(0);
        ledger.accept(number, &[(Awaited::Queue(QueueId(1)), number)]);
    }
    assert!(ledger.waiting.is_empty());
    assert_eq!(ledger.queues.run_count(), 1);
    // However many queues a channel has published to.
    for number in 1_001..=2_000 {
        ledger.issue(0);
        ledger.accept(number, &[(Awaited::Queue(QueueId(number)), 1)]);
        match number % 2 {
            0 => ledger.committed(QueueId(number), 1),
            _ => ledger.refused(QueueId(number), 1..2),
        }
    }
    assert_eq!(ledger.queues.len(), 1_000);
    assert!(ledger.queues.queue_count() <= EMPTY_KEPT + 1);
}

#[test]
fn a_batch_costs_one_interval() {
    let mut ledger = Ledger::default();
    for number in 1..=10_000 {
        assert_eq!(ledger.issue(0), number);
        ledger.accept(number, &[(Awaited::Shard(ShardId(0)), number / 1000)]);
    }
    assert_eq!(ledger.waiting.len(), 11);
    assert_eq!(ledger.undecided.interval_count(), 0);
}

/// A log is asked whether it is durable only where a publish waits for that.
#[test]
fn a_publish_waits_for_a_log_where_a_log_is_among_what_it_waits_for() {
    let (log, queue) = (Awaited::Shard(ShardId(0)), Awaited::Queue(QueueId(1)));
    for (waits, expected) in [
        (&[][..], false),
        (&[(queue, 1)][..], false),
        (&[(log, 7)][..], true),
        (&[(queue, 1), (log, 7)][..], true),
    ] {
        let mut ledger = Ledger::default();
        ledger.issue(0);
        ledger.accept(1, waits);
        assert_eq!(ledger.awaits_durability(), expected, "{waits:?}");
        ledger.durable(ShardId(0), 7);
        assert!(!ledger.awaits_durability(), "{waits:?}");
    }
}

#[test]
fn whatever_is_tidied_up_what_waits_for_a_queue_is_answered() {
    for queues in [EMPTY_KEPT as u64 - 1, EMPTY_KEPT as u64 + 20] {
        let mut ledger = Ledger::default();
        for round in 0..2 {
            for queue in 1..=queues {
                let number = ledger.issue(0);
                ledger.accept(number, &[(Awaited::Queue(QueueId(queue)), round + 1)]);
            }
        }
        let mut answered = 0;
        for round in 0..2 {
            for queue in 1..=queues {
                ledger.committed(QueueId(queue), round + 1);
            }
            ledger.flush(0, &mut Latencies::default(), |answer| {
                answered = answer.number
            });
            assert_eq!(answered, queues * (round + 1), "{queues} queues");
        }
        assert!(!ledger.awaits());
        // The places of a few are kept for the next publishes, those of many are not.
        let kept = ledger.queues.queue_count();
        assert_eq!(kept, EMPTY_KEPT.min(queues as usize), "{queues} queues");
    }
}

/// How long the publishes of a flush took: so many so many milliseconds each.
fn flush_at(ledger: &mut Ledger, now_ms: u64) -> LatencyCounts {
    let (mut latencies, mut told) = (Latencies::default(), LatencyCounts::default());
    ledger.flush(now_ms, &mut latencies, |_| {});
    latencies.drain(|counts| told = *counts);
    told
}

#[test]
fn a_confirm_took_from_when_its_publish_came_until_it_is_given() {
    let mut ledger = Ledger::default();
    let queue = Awaited::Queue(QueueId(1));
    // Two at 100 to a log, two at 105 to a queue, one at 130 that is refused.
    for ms in [100, 100, 105, 105, 130] {
        let number = ledger.issue(ms);
        match number {
            1 | 2 => ledger.accept(number, &[(Awaited::Shard(ShardId(0)), 7)]),
            _ => ledger.accept(number, &[(queue, number)]),
        }
    }
    assert_eq!(flush_at(&mut ledger, 120).count, 0, "nothing is ready");
    // Those behind are confirmed first, and are no part of what is measured then.
    ledger.committed(QueueId(1), 4);
    let told = flush_at(&mut ledger, 140);
    assert_eq!((told.count, told.total_ms), (2, 2 * 35));
    ledger.refused(QueueId(1), 5..6);
    assert_eq!(
        flush_at(&mut ledger, 150).count,
        0,
        "a refusal is no confirm"
    );
    ledger.durable(ShardId(0), 7);
    let told = flush_at(&mut ledger, 300);
    assert_eq!((told.count, told.total_ms), (2, 2 * 200));
    let number = ledger.issue(400);
    ledger.accept(number, &[]);
    let told = flush_at(&mut ledger, 400);
    assert_eq!((told.count, told.total_ms), (1, 0));
}
