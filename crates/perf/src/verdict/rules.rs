//! The table of what may hold a run back, in the order in which it is asked.

use super::{Evidence, Limit};
use crate::plot::Unit;

/// A row of the table: which limit, when it holds, what is said of it, what helps.
pub(super) struct Rule {
    pub limit: Limit,
    pub holds: fn(&Evidence) -> bool,
    pub found: fn(&Evidence) -> String,
    pub helps: &'static str,
}

/// A thread that is this busy has no more to give.
const BUSY: f64 = 0.92;
/// Processors of which this part is used have no more to give that one could rely on.
const PROCESSORS_FULL: f64 = 0.9;
/// A log that spends this part of its time in syncs is what others wait for.
const SYNCING: f64 = 0.65;
/// Publishers that wait this part of their time are held back.
const WAITING: f64 = 0.3;
/// Publishers without a broker for this part of their time were held back by that.
const DISCONNECTED: f64 = 0.05;
/// Less than this part of what was asked is not what was asked.
const AS_ASKED: f64 = 0.98;
/// So much of what was asked for has to arrive in the measured time; the rest may have been on its
/// way, or wait for a phase in which nobody consumes.
const TAKEN: f64 = 0.95;
/// From this size of a batch on, its bytes and not the sync take the time.
const LARGE_BATCH_BYTES: f64 = 1_000_000.0;
/// A publisher so far behind its schedule was held back for a while, whatever the rate in the end.
const BEHIND_MS: f64 = 1_000.0;
/// A backlog of so many seconds of publishing is one.
const BACKLOG_S: f64 = 2.0;

pub(super) static RULES: [Rule; 13] = [
    Rule {
        limit: Limit::Nothing,
        holds: |of| of.publish_rate <= 0.0 && of.consume_rate <= 0.0 && of.blocked < WAITING,
        found: |_| "Nothing was published or consumed in the measured time.".to_owned(),
        helps: "Look at the broker's log, and at the phases of the specification.",
    },
    Rule {
        limit: Limit::Alarm,
        holds: |of| of.blocked >= 0.05,
        found: |of| {
            format!(
                "The broker had its publishers blocked {} of the time: an alarm.",
                percent(of.blocked)
            )
        },
        helps: "Memory or disk is short: look at the broker's alarms and at its watermarks.",
    },
    Rule {
        limit: Limit::Outage,
        holds: |of| of.disconnected >= DISCONNECTED,
        found: |of| {
            format!(
                "Connections that broke: publishers had no broker {} of the time.",
                percent(of.disconnected)
            )
        },
        helps: "More brokers to fall back on (-h and -H), queues with copies on other nodes; the \
            broker's log says why it went away.",
    },
    Rule {
        limit: Limit::Load,
        holds: |of| {
            let asked = of.asked_rate.unwrap_or(f64::INFINITY);
            let taken = !of.has_consumers || of.consume_rate >= asked * TAKEN;
            of.publish_rate >= asked * AS_ASKED && taken && of.behind_ms < BEHIND_MS
        },
        found: |of| {
            let asked = Unit::MessagesPerSecond.write(of.asked_rate.unwrap_or_default());
            format!("Nothing held the load back: it asks for {asked}, and got that.")
        },
        helps: "For the most that the broker carries, leave the rate away.",
    },
    Rule {
        limit: Limit::Generator,
        holds: |of| of.generator_busy >= BUSY && of.generator_cores >= of.broker_cores,
        found: |of| {
            format!(
                "The load generator itself: its busiest thread was at work {} of the time.",
                percent(of.generator_busy)
            )
        },
        helps: "The broker may carry more. Give the generator more threads, or its own machine.",
    },
    Rule {
        limit: Limit::Machine,
        holds: |of| {
            of.broker_cores + of.generator_cores >= PROCESSORS_FULL
                && of.broker_cores < PROCESSORS_FULL
                && of.generator_cores > 0.1
        },
        found: |of| {
            format!(
                "This machine's processors: the broker used {} of them and the generator {}.",
                percent(of.broker_cores),
                percent(of.generator_cores)
            )
        },
        helps: "Run the generator on another machine; then what the broker itself carries shows.",
    },
    Rule {
        limit: Limit::BrokerProcessor,
        holds: |of| of.broker_cores >= PROCESSORS_FULL,
        found: |of| {
            format!(
                "The broker's processors: it used {} of all cores.",
                percent(of.broker_cores)
            )
        },
        helps: "More or faster cores; larger batches (acknowledge several at once, wider windows).",
    },
    Rule {
        limit: Limit::Bandwidth,
        holds: |of| {
            let large = of.bytes_per_sync >= LARGE_BATCH_BYTES && syncs(of);
            let busy = of.drive_busy.is_some_and(|busy| busy >= BUSY);
            large || (busy && !syncs(of) && held_back(of))
        },
        found: |of| {
            format!(
                "The drive's bandwidth: the log wrote {} with each sync, which took {} on average.",
                Unit::Bytes.write(of.bytes_per_sync),
                Unit::Micros.write(of.sync_us)
            )
        },
        helps: "A drive with more bandwidth for the log, or a drive of its own (--drives wal=…).",
    },
    Rule {
        limit: Limit::SyncLatency,
        holds: syncs,
        found: |of| {
            format!(
                "The latency of a sync: the log spent {} of the time in them, {} each, for {}.",
                percent(of.syncing.unwrap_or_default()),
                Unit::Micros.write(of.sync_us),
                Unit::Bytes.write(of.bytes_per_sync)
            )
        },
        helps: "A drive that syncs faster (`leveret perf drive PATH` measures it), or more \
            messages unconfirmed at once, so that each sync covers more of them.",
    },
    Rule {
        limit: Limit::Consumers,
        holds: |of| {
            of.has_consumers
                && of.consume_rate < of.publish_rate * TAKEN
                && of.backlog_s > BACKLOG_S
        },
        found: |of| {
            format!(
                "The consumers: they took {} of the {} that were published; the rest waits.",
                Unit::MessagesPerSecond.write(of.consume_rate),
                Unit::MessagesPerSecond.write(of.publish_rate)
            )
        },
        helps: "More consumers, a greater prefetch, or acknowledging several messages at once.",
    },
    Rule {
        limit: Limit::Broker,
        holds: |of| of.socket_full >= WAITING,
        found: |of| {
            format!(
                "The broker read no faster: publishers found their socket full {} of the time.",
                percent(of.socket_full)
            )
        },
        helps: "Look at which of the broker's threads is busy; more connections and queues spread \
            over more of them.",
    },
    Rule {
        limit: Limit::ConfirmWindow,
        holds: |of| of.window_full >= WAITING,
        found: |of| {
            let idle = match of.syncing {
                Some(_) => "while neither processors nor syncs were busy",
                None => {
                    "while processors were not busy; whether syncs were, the broker does not say"
                }
            };
            format!(
                "The confirm window: publishers waited for confirms {} of the time, {idle}.",
                percent(of.window_full)
            )
        },
        helps: "A wider window (-c), more publishers, or a drive that syncs faster.",
    },
    Rule {
        limit: Limit::Publishers,
        holds: |_| true,
        found: |of| {
            format!(
                "The publishers: they sent {}, and nothing else was busy.",
                Unit::MessagesPerSecond.write(of.publish_rate)
            )
        },
        helps: "More publishers, or a higher rate.",
    },
];

fn syncs(of: &Evidence) -> bool {
    of.syncing.is_some_and(|share| share >= SYNCING) && held_back(of)
}

/// Whether publishers were seen to wait for the broker. Without confirms they are not, however slow
/// the drive.
fn held_back(of: &Evidence) -> bool {
    of.window_full >= WAITING || of.socket_full >= WAITING || of.behind_ms >= BEHIND_MS
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}
