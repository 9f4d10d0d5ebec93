//! Each rule with evidence that meets it, and with evidence that just does not.

use super::*;

/// A run that keeps nobody waiting, at full speed.
fn idle() -> Evidence {
    Evidence {
        publish_rate: 1_000.0,
        consume_rate: 1_000.0,
        has_consumers: true,
        syncing: Some(0.1),
        sync_us: 100.0,
        bytes_per_sync: 10_000.0,
        drive_busy: Some(0.1),
        ..Evidence::default()
    }
}

#[test]
fn each_rule_is_met_by_what_it_is_for() {
    type Change = fn(&mut Evidence);
    let cases: [(Limit, &str, Change); 22] = [
        (Limit::Nothing, "nothing at all", |of| {
            *of = Evidence::default()
        }),
        (Limit::Publishers, "nothing busy", |_| {}),
        (Limit::Alarm, "blocked", |of| of.blocked = 0.05),
        (Limit::Alarm, "blocked from the start", |of| {
            *of = Evidence {
                blocked: 1.0,
                ..Evidence::default()
            }
        }),
        (Limit::Outage, "a lost broker", |of| of.disconnected = 0.05),
        (Limit::Load, "as asked", |of| of.asked_rate = Some(1_010.0)),
        (Limit::Load, "as asked, with a thread that spins", |of| {
            of.asked_rate = Some(1_000.0);
            of.generator_busy = 1.0;
        }),
        (Limit::Load, "as asked, with a little on its way", |of| {
            of.asked_rate = Some(1_000.0);
            of.consume_rate = 955.0;
        }),
        (Limit::Publishers, "less than asked", |of| {
            of.asked_rate = Some(1_100.0)
        }),
        (Limit::SyncLatency, "less than asked, and syncs", |of| {
            of.asked_rate = Some(1_100.0);
            of.behind_ms = 5_000.0;
            of.syncing = Some(0.9);
        }),
        (Limit::Generator, "generator", |of| {
            of.generator_busy = 0.95;
            of.generator_cores = 0.5;
        }),
        (Limit::Machine, "both", |of| {
            of.generator_cores = 0.4;
            of.broker_cores = 0.55;
        }),
        (Limit::BrokerProcessor, "broker", |of| {
            of.broker_cores = 0.97
        }),
        (Limit::SyncLatency, "syncs", |of| {
            of.syncing = Some(0.8);
            of.window_full = 0.9;
        }),
        (Limit::Publishers, "syncs that nobody waits for", |of| {
            of.syncing = Some(0.8)
        }),
        (Limit::Bandwidth, "large syncs", |of| {
            of.syncing = Some(0.8);
            of.window_full = 0.9;
            of.bytes_per_sync = 2e6;
        }),
        (Limit::Bandwidth, "a busy drive", |of| {
            of.drive_busy = Some(0.99);
            of.window_full = 0.9;
        }),
        (Limit::Consumers, "slow consumers", |of| {
            of.consume_rate = 500.0;
            of.backlog_s = 10.0;
        }),
        (Limit::Publishers, "nobody was to consume", |of| {
            of.consume_rate = 0.0;
            of.has_consumers = false;
            of.backlog_s = 10.0;
        }),
        (Limit::Broker, "full sockets", |of| of.socket_full = 0.5),
        (Limit::ConfirmWindow, "a narrow window", |of| {
            of.window_full = 0.5
        }),
        (
            Limit::ConfirmWindow,
            "and a broker that counts no syncs",
            |of| {
                of.window_full = 0.5;
                of.syncing = None;
                of.drive_busy = None;
            },
        ),
    ];
    for (limit, name, change) in cases {
        let mut evidence = idle();
        change(&mut evidence);
        assert_eq!(judge(&evidence).limit, limit, "{name}");
    }
}

#[test]
fn every_verdict_says_something() {
    for rule in &RULES {
        let found = (rule.found)(&idle());
        assert!(
            found.ends_with('.') && rule.helps.ends_with('.'),
            "{found} {}",
            rule.helps
        );
        assert!(
            !found.contains("  ") && !rule.helps.contains("  "),
            "{found} {}",
            rule.helps
        );
    }
}
