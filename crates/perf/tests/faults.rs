//! A broker that does as it should passes; one that drops, doubles, reorders, damages or stalls is
//! caught. The faults are a proxy's.

mod support;

use std::time::Duration;

use leveret_perf::engine::Engine;
use leveret_perf::result::{Checks, RunResult, Second};
use leveret_perf::spec::Spec;
use support::{Broker, Fault, Proxy, spec};

fn run(spec: &Spec) -> RunResult {
    Engine::default().run(spec, &mut |_| {}).unwrap()
}

/// A load with confirms through a proxy with this fault.
fn with_fault(fault: Fault, load: &str) -> RunResult {
    let broker = Broker::start();
    let proxy = Proxy::start(broker.address, fault);
    run(&spec(proxy.address, load))
}

const CONFIRMED: &str =
    "size = 64\nrate = 1000.0\nconfirm_window = 100\nack = { automatic = true }";
const UNCONFIRMED: &str = "size = 64\nrate = 1000.0\nack = { automatic = true }";

#[test]
fn what_arrives_as_it_was_sent_passes() {
    let loads = [
        "size = 64\nrate = 1000.0\nconfirm_window = 100\nprefetch = 10",
        "size = { min = 0, max = 9000 }\nrate = 500.0\nconfirm_window = 100",
        "size = 300000\nrate = 50.0\nconfirm_window = 10",
        "publishers = 5\nconsumers = 6\nqueues = 3\nrate = 200.0\nconfirm_window = 10\n\
         channels_per_connection = 2",
        "queues = 3\nconsumers = 6\nexchange_type = \"fanout\"\nexchange = \"a-fanout\"\n\
         rate = 200.0\npredeclared = false",
        "count = 500",
    ];
    for load in loads {
        let broker = Broker::start();
        let result = run(&spec(broker.address, load));
        let checks = &result.loads[0].checks;
        assert_eq!(result.failure(), None, "{load}");
        assert!(checks.loss_checked, "{load}: {checks:?}");
        let sent: u64 = result.loads[0].seconds.iter().map(|s| s.published).sum();
        let got: u64 = result.loads[0].seconds.iter().map(|s| s.consumed).sum();
        let copies = if load.contains("fanout") { 3 } else { 1 };
        assert_eq!(got, sent * copies, "{load}");
        assert!(sent > 0, "{load}");
    }
}

#[test]
fn what_the_run_made_is_gone_afterwards_and_what_was_there_stays() {
    let load = "queues = 2\nexchange_type = \"fanout\"\nexchange = \"a-fanout\"\ncount = 10";
    let named = format!("{load}\nqueue_name = \"mine-%d\"");
    let refused = format!("{load}\nsize = {{ files = [\"/nowhere\"] }}");
    let all = &["a-fanout", "mine-1", "mine-2"][..];
    let cases: [(&str, bool, &[&str]); 4] = [
        (load, false, &[]),
        (load, true, &["a-fanout"]),
        (&named, false, all),
        (&refused, false, &[]),
    ];
    for (load, there_before, left) in cases {
        let broker = Broker::start();
        if there_before {
            broker.declare_exchange("a-fanout");
        }
        let result = Engine::default().run(&spec(broker.address, load), &mut |_| {});
        assert_eq!(result.is_err(), load.contains("nowhere"), "{load}");
        assert_eq!(broker.names(), left, "{load}");
    }
}

/// Two loads share an exchange, and one has another to itself.
#[test]
fn an_exchange_that_others_have_bound_to_stays() {
    let load = |exchange: &str| format!("exchange = \"{exchange}\"\ncount = 10");
    let loads = [load("shared"), load("shared"), load("single")].join("\n[[load]]\n");
    for (bound_by_others, left) in [(None, &[][..]), (Some("shared"), &["shared"])] {
        let broker = Broker::start();
        if let Some(exchange) = bound_by_others {
            broker.bind(exchange, "theirs");
        }
        let result = run(&spec(broker.address, &loads));
        assert_eq!(result.failure(), None);
        assert_eq!(broker.names(), left, "{bound_by_others:?}");
    }
}

#[test]
fn what_is_predeclared_and_missing_is_named() {
    let queue = "predeclared = true\nqueue_name = \"mine\"\ncount = 10";
    let exchange = "predeclared = true\nexchange = \"theirs\"\nconsumers = 0\n\
                    routing_key = \"key\"\ncount = 10";
    for (load, missing) in [(queue, "mine"), (exchange, "theirs")] {
        let broker = Broker::start();
        let spec = spec(broker.address, load);
        let error = Engine::default().run(&spec, &mut |_| {}).unwrap_err();
        assert!(error.to_string().contains(missing), "{load}: {error}");
        assert_eq!(broker.names(), [""; 0], "{load}");
    }
}

#[test]
fn queues_behind_a_predeclared_exchange_are_not_asked_for() {
    let broker = Broker::start();
    broker.declare_exchange("theirs");
    let load = "predeclared = true\nexchange = \"theirs\"\nconsumers = 0\n\
                routing_key = \"key\"\ncount = 10";
    let mut spec = spec(broker.address, load);
    spec.uris.push(spec.uris[0].clone());
    assert_eq!(run(&spec).failure(), None);
    assert_eq!(broker.names(), ["theirs"]);
}

#[test]
fn a_count_that_the_time_does_not_allow_is_noted() {
    let broker = Broker::start();
    let result = run(&spec(broker.address, "rate = 50.0\ncount = 100000"));
    assert_eq!(result.failure(), None);
    let noted = |note: &&String| note.contains("before its count was reached");
    assert_eq!(result.notes.iter().filter(noted).count(), 1);
}

#[test]
fn a_result_does_not_hold_the_password() {
    let broker = Broker::start();
    let mut spec = spec(broker.address, "count = 10");
    spec.uris = vec![format!("amqp://ann:s3cret@{}/", broker.address)];
    let engine = Engine {
        command: format!("leveret perf run --uri {}", spec.uris[0]),
        ..Engine::default()
    };
    let result = engine.run(&spec, &mut |_| {}).unwrap();
    let json = result.to_json();
    assert!(!json.contains("s3cret"), "{json}");
    assert_eq!(json.matches("amqp://ann:***@").count(), 2, "{json}");
}

#[test]
fn each_fault_is_caught_as_what_it_is() {
    type Count = fn(&Checks) -> u64;
    let faults: [(Fault, Count); 4] = [
        (Fault::Drop, |checks| checks.lost),
        (Fault::Duplicate, |checks| checks.duplicated),
        (Fault::Reorder, |checks| checks.disordered),
        (Fault::Damage, |checks| checks.damaged),
    ];
    for load in [CONFIRMED, UNCONFIRMED] {
        for (fault, count) in faults {
            let result = with_fault(fault, load);
            let checks = &result.loads[0].checks;
            assert_eq!(count(checks), 1, "{fault:?} of {load}: {checks:?}");
            assert!(result.failed() && result.failure().is_some());
        }
        let result = with_fault(Fault::None, load);
        assert_eq!(result.failure(), None);
    }
}

#[test]
fn a_confirm_that_never_comes_is_caught() {
    let result = with_fault(Fault::DropConfirm, CONFIRMED);
    assert_eq!(result.loads[0].checks.unconfirmed, 1);
    assert!(result.failed());
}

/// The fiftieth message is taken by the broker, and nobody says so: it is sent again.
#[test]
fn what_has_no_confirm_is_sent_again_over_another_connection() {
    let result = with_fault(Fault::CutAtConfirm, CONFIRMED);
    let load = &result.loads[0];
    assert_eq!(result.failure(), None, "{:?}", load.checks);
    assert!(load.checks.loss_checked);
    assert_eq!((load.breaks.broken, load.breaks.reopened), (1, 1));
    assert!(load.breaks.republished >= 1 && load.breaks.outage_ms_max > 0.0);
    assert!(load.checks.republished_twice >= 1, "{:?}", load.checks);
    assert!(load.checks.republished_twice <= load.breaks.republished);
    let seconds = |of: fn(&Second) -> u64| load.seconds.iter().map(of).sum::<u64>();
    assert_eq!(
        seconds(|second| second.confirmed),
        seconds(|second| second.published)
    );
    assert_eq!(
        seconds(|second| second.republished),
        load.breaks.republished
    );
}

#[test]
fn nobody_answers_for_what_was_on_its_way_without_acknowledgement_or_confirm() {
    for (fault, load) in [
        (Fault::CutAtDelivery, CONFIRMED),
        (Fault::CutAtDelivery, UNCONFIRMED),
    ] {
        let result = with_fault(fault, load);
        let load = &result.loads[0];
        assert_eq!(result.failure(), None, "{:?}", load.checks);
        assert_eq!((load.breaks.broken, load.breaks.reopened), (1, 1));
        assert!(
            load.checks.loss_checked && load.checks.in_doubt >= 1,
            "{:?}",
            load.checks
        );
        assert_eq!(load.breaks.republished, 0);
    }
}

#[test]
fn a_run_that_does_not_reconnect_ends_with_the_first_break() {
    let broker = Broker::start();
    let proxy = Proxy::start(broker.address, Fault::CutAtConfirm);
    let mut spec = spec(proxy.address, CONFIRMED);
    spec.reconnect_s = 0.0;
    let error = Engine::default().run(&spec, &mut |_| {}).unwrap_err();
    assert!(error.is_break(), "{error}");
}

#[test]
fn a_stall_shows_in_the_latency_of_what_was_due_in_it() {
    let broker = Broker::start();
    let stall = Fault::Stall(Duration::from_millis(400));
    let proxy = Proxy::start(broker.address, stall);
    let mut spec = spec(
        proxy.address,
        "size = 64\nrate = 1000.0\nconfirm_window = 50",
    );
    spec.duration_s = 2.0;
    let result = run(&spec);
    assert_eq!(result.failure(), None);
    let stalled = proxy.stalled.lock().unwrap().expect("the proxy stalled");
    let stalled_us = stalled.as_micros() as u64;
    let load = &result.loads[0];
    let latency = load.end_to_end.as_ref().unwrap().histogram().unwrap();
    // What was due when the stall began waited for all of it.
    assert!(
        latency.max_us() + latency.max_us() / 500 >= stalled_us,
        "{latency:?}"
    );
    // At a thousand a second, what waited for more than half of it was due in its first half: a
    // closed loop, with its window of 50, would have seen 50 at most.
    let late: u64 = latency
        .slots()
        .filter(|(us, _)| *us > stalled_us / 2)
        .map(|(_, n)| n)
        .sum();
    let due = stalled.as_millis() as u64 / 2;
    assert!(late + 20 >= due, "{late} of {due} were late");
    assert!(load.limits.behind_schedule_ms_max > 0.0);
}

#[test]
fn phases_make_a_backlog_and_work_it_off() {
    let broker = Broker::start();
    let mut spec = spec(
        broker.address,
        "size = 64\nrate = 2000.0\nconfirm_window = 100",
    );
    let phases = "name = \"x\"\n[[load]]\n[[phase]]\nname = \"grow\"\nduration_s = 30.0\n\
                  until_backlog = 500\nconsume = false\n[[phase]]\nname = \"drain\"\n\
                  duration_s = 30.0\nuntil_backlog_below = 100\n";
    spec.phases = Spec::parse(phases).unwrap().phases;
    let result = run(&spec);
    assert_eq!(result.failure(), None);
    assert!(result.loads[0].totals.backlog_max <= 30_000);
    assert_eq!(result.notes, [""; 0], "both phases ended by their backlogs");
    let names: Vec<_> = result
        .phases
        .iter()
        .map(|phase| phase.name.as_str())
        .collect();
    assert_eq!(names, ["grow", "drain", "drain"]);
}

#[test]
fn a_broker_that_is_not_there_or_closes_is_an_error_that_says_so() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let error = Engine::default()
        .run(&spec(address, ""), &mut |_| {})
        .unwrap_err();
    assert!(error.to_string().contains(&address.to_string()), "{error}");
}
