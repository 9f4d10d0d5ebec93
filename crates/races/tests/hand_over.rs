//! What threads hand over to each other arrives, in whatever order they run.
//!
//! A thread that sleeps for good because a wake-up was lost is reported by loom as a deadlock.

use leveret_races::delivery_credit::{DeliveryCredit, Limiter};
use leveret_races::durable_signal::DurableSignal;
use leveret_races::inbox::Inbox;
use leveret_races::missing::Missing;
use leveret_races::sync::Waker;
use leveret_races::waker::{Signal, Woken};
use leveret_types::limits::OUTBOX_BYTES_MAX;
use leveret_types::{ConsumerId, QueueId};

use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use loom::thread;
use std::sync::Arc;
use std::time::{Duration, Instant};

const NEVER: Duration = Duration::from_secs(3_600);
const SOON: Duration = Duration::ZERO;

/// Tries all orders with at most two changes from a thread that could go on to another: what
/// needs more has not been seen in practice, and each more costs ten times the time.
fn model(check: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.check(check);
}

#[test]
fn a_signal_wakes_its_thread_for_what_every_other_thread_has_done() {
    model(|| {
        let signal = Arc::new(Signal::default());
        let done = Arc::new(AtomicU32::new(0));
        for _ in 0..2 {
            let (signal, done) = (Arc::clone(&signal), Arc::clone(&done));
            thread::spawn(move || {
                done.fetch_add(1, Ordering::Relaxed);
                signal.notify();
            });
        }
        while done.load(Ordering::Relaxed) < 2 {
            assert_eq!(signal.wait(NEVER, NEVER), Woken::Now);
        }
    });
}

#[test]
fn work_that_may_gather_wakes_a_thread_that_would_sleep_for_long() {
    model(|| {
        let signal = Arc::new(Signal::default());
        let done = Arc::new(AtomicBool::new(false));
        let other = {
            let (signal, done) = (Arc::clone(&signal), Arc::clone(&done));
            thread::spawn(move || {
                done.store(true, Ordering::Relaxed);
                signal.notify_lazily();
            })
        };
        assert_eq!(signal.wait(NEVER, SOON), Woken::Lazily);
        assert!(done.load(Ordering::Relaxed));
        other.join().expect("no panic");
    });
}

#[test]
fn work_that_may_gather_a_moment_wakes_a_thread_for_which_that_is_over() {
    model(|| {
        let signal = Arc::new(Signal::default());
        let done = Arc::new(AtomicBool::new(false));
        let other = {
            let (signal, done) = (Arc::clone(&signal), Arc::clone(&done));
            thread::spawn(move || {
                done.store(true, Ordering::Relaxed);
                signal.notify_soon();
            })
        };
        // Ahead in every order that is tried, and passed as soon as the thread waits for it.
        let moment = Instant::now() + Duration::from_millis(500);
        assert_eq!(signal.wait_from(NEVER, NEVER, moment), Woken::Now);
        assert!(done.load(Ordering::Relaxed));
        other.join().expect("no panic");
    });
}

#[test]
fn somebody_who_waits_is_heard_through_work_that_may_gather() {
    model(|| {
        let signal = Arc::new(Signal::default());
        let lazy = {
            let signal = Arc::clone(&signal);
            thread::spawn(move || signal.notify_lazily())
        };
        let now = {
            let signal = Arc::clone(&signal);
            thread::spawn(move || signal.notify())
        };
        // Work that gathers for ever: only the other one can end this wait.
        while signal.wait(NEVER, NEVER) != Woken::Now {}
        lazy.join().expect("no panic");
        now.join().expect("no panic");
    });
}

#[test]
fn the_end_is_heard_whatever_else_is_said() {
    model(|| {
        let signal = Arc::new(Signal::default());
        let other = {
            let signal = Arc::clone(&signal);
            thread::spawn(move || signal.notify())
        };
        let stop = {
            let signal = Arc::clone(&signal);
            thread::spawn(move || signal.stop())
        };
        while signal.wait(NEVER, NEVER) != Woken::Stop {}
        assert!(signal.stopped());
        other.join().expect("no panic");
        stop.join().expect("no panic");
    });
}

/// An IO thread that works until `done` says that it has all.
fn io_thread<E>(
    inbox: &Inbox<E>,
    waker: &Waker,
    also_awake: impl Fn() -> bool,
    mut done: impl FnMut(&mut Vec<E>) -> bool,
) {
    let mut events = Vec::new();
    loop {
        inbox.drain(&mut events);
        if done(&mut events) {
            return;
        }
        if inbox.park(&also_awake) {
            waker.poll();
            inbox.unpark();
        }
    }
}

#[test]
fn what_is_posted_to_an_inbox_arrives_in_order() {
    model(|| {
        let waker = Waker::default();
        let inbox = Arc::new(Inbox::new(waker.clone()));
        let senders: Vec<_> = [[10, 11], [20, 21]]
            .into_iter()
            .map(|events| {
                let inbox = Arc::clone(&inbox);
                thread::spawn(move || {
                    for event in events.into_iter().take(2 - usize::from(events[0] == 20)) {
                        inbox.post([event]);
                    }
                    inbox.ring();
                })
            })
            .collect();
        let mut seen = Vec::new();
        io_thread(
            &inbox,
            &waker,
            || false,
            |events| {
                seen.append(events);
                seen.len() == 3
            },
        );
        seen.retain(|event| *event < 20);
        assert_eq!(seen, [10, 11]);
        for sender in senders {
            sender.join().expect("no panic");
        }
    });
}

#[test]
fn who_has_heard_that_something_is_durable_is_not_told_again() {
    model(|| {
        let news = Arc::new(DurableSignal::new(1));
        let epoch = news.epoch();
        let log = {
            let news = Arc::clone(&news);
            thread::spawn(move || news.tell(|_| ()))
        };
        news.ask(0, epoch);
        let has_heard = news.take(0);
        log.join().expect("no panic");
        assert_ne!(has_heard, news.is_pending(0), "once");
    });
}

#[test]
fn who_waits_for_the_disk_hears_when_something_is_durable() {
    model(|| {
        let waker = Waker::default();
        let inbox = Arc::new(Inbox::<()>::new(waker.clone()));
        let news = Arc::new(DurableSignal::new(1));
        let durable = Arc::new(AtomicU64::new(0));
        let log = {
            let (inbox, news) = (Arc::clone(&inbox), Arc::clone(&news));
            let durable = Arc::clone(&durable);
            thread::spawn(move || {
                for batch in 1..=2 {
                    durable.store(batch, Ordering::Release);
                    news.tell(|_| inbox.ring());
                }
            })
        };
        let waits = {
            let news = Arc::clone(&news);
            move || news.is_pending(0)
        };
        let mut asked = false;
        io_thread(&inbox, &waker, waits, |_| {
            if asked && !news.take(0) {
                return false;
            }
            let epoch = news.epoch();
            if durable.load(Ordering::Acquire) == 2 {
                return true;
            }
            news.ask(0, epoch);
            asked = true;
            false
        });
        log.join().expect("no panic");
    });
}

/// Queues that deliver one message each over one link that a first message has used up, while the
/// connection gives that back. Whatever was taken is given back in the end.
fn deliver_over_a_full_link(queues: usize) {
    let credit = Arc::new(DeliveryCredit::default());
    assert!(credit.take(OUTBOX_BYTES_MAX));
    let shards: Vec<_> = (0..queues)
        .map(|_| {
            let credit = Arc::clone(&credit);
            thread::spawn(move || credit.take(OUTBOX_BYTES_MAX))
        })
        .collect();
    let mut is_told = credit.give(1, OUTBOX_BYTES_MAX);
    let taken: Vec<bool> = shards
        .into_iter()
        .map(|shard| shard.join().expect("no panic"))
        .collect();
    for _ in taken.iter().filter(|taken| **taken) {
        is_told |= credit.give(1, OUTBOX_BYTES_MAX);
    }
    let is_somebody_waiting = taken.contains(&false);
    assert!(
        is_told || !is_somebody_waiting,
        "{taken:?}: who waits for credit is never told"
    );
}

#[test]
fn a_queue_that_waits_for_credit_is_told() {
    model(|| deliver_over_a_full_link(1));
}

#[test]
fn two_queues_that_wait_for_credit_are_told() {
    model(|| deliver_over_a_full_link(2));
}

#[test]
fn a_consumer_that_waits_for_its_channels_bound_is_told() {
    model(|| {
        let limiter = Arc::new(Limiter::default());
        limiter.set_limit(1);
        assert!(limiter.take(ConsumerId(0), QueueId(0)));
        let refused = Arc::new(AtomicU32::new(0));
        let shards: Vec<_> = [1, 2]
            .map(|number| {
                let (limiter, refused) = (Arc::clone(&limiter), Arc::clone(&refused));
                thread::spawn(move || {
                    if !limiter.take(ConsumerId(number), QueueId(number)) {
                        refused.fetch_add(1, Ordering::Relaxed);
                    }
                })
            })
            .into_iter()
            .collect();
        let told = limiter.give(1);
        for shard in shards {
            shard.join().expect("no panic");
        }
        let refused = refused.load(Ordering::Relaxed);
        assert_eq!(limiter.refused(), refused as usize);
        match refused {
            0 => panic!("two have what one may have"),
            // One has it, and whoever is refused is told when that one gives it back.
            1 => assert!(told || limiter.give(1)),
            _ => assert!(told, "both are refused, and nothing is held"),
        }
    });
}

/// Queues of several shards that take a message or refuse it, while who puts it into them goes on.
/// What is to be done then is done once, knows of every refusal, and sees what each has done
/// before.
fn fill_places(refusing: [bool; 2]) {
    let missing = Arc::new(Missing::one());
    let done = Arc::new(AtomicU32::new(0));
    let shards: Vec<_> = refusing
        .into_iter()
        .map(|refuses| {
            missing.more();
            let (missing, done) = (Arc::clone(&missing), Arc::clone(&done));
            thread::spawn(move || {
                done.fetch_add(1, Ordering::Relaxed);
                if refuses {
                    missing.refuse();
                }
                let taken = missing.fill();
                taken.inspect(|_| assert_eq!(done.load(Ordering::Relaxed), 2))
            })
        })
        .collect();
    let of_all = (refusing == [false, false], 2);
    if let Some(taken) = missing.outcome() {
        panic!("it says {taken} while a place is missing");
    }
    let mut ends: Vec<bool> = missing.fill().into_iter().collect();
    if let Some(taken) = missing.outcome() {
        assert_eq!((taken, done.load(Ordering::Relaxed)), of_all);
    }
    for shard in shards {
        ends.extend(shard.join().expect("no panic"));
    }
    assert_eq!(ends, [of_all.0], "the last one says it, and nobody else");
}

#[test]
fn a_message_that_all_queues_took_is_told_once_by_the_last_of_them() {
    model(|| fill_places([false, false]));
}

#[test]
fn a_message_that_one_queue_refuses_is_told_as_refused_whichever_is_last() {
    model(|| fill_places([true, false]));
}
