//! In words: what held a run back, and what would help.
//!
//! Evidence is taken from the result once; rules look at evidence alone, are tried in order, and
//! the first that holds gives the verdict. So a rule is a row of a table, and so is its test.

use crate::plot::Unit;
use crate::result::{LimitsSeen, LoadResult, NodeUsage, RunResult, rate};
use crate::spec::{Load, Rate};

/// What held a run back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Nothing was sent, so that nothing can be said.
    Nothing,
    /// The load generator.
    Generator,
    /// All cores of the machine, broker and generator together.
    Machine,
    /// The broker had blocked its publishers: an alarm.
    Alarm,
    /// Connections broke, and there was no broker for a while.
    Outage,
    /// The broker's processors.
    BrokerProcessor,
    /// Nothing: the load was carried as asked.
    Load,
    /// How long a sync takes.
    SyncLatency,
    /// How many bytes the drive takes.
    Bandwidth,
    /// Consumers took less than was published.
    Consumers,
    /// The broker took bytes no faster: its socket was full.
    Broker,
    /// Publishers waited for confirms, though the log was not busy.
    ConfirmWindow,
    /// Publishers sent no more than they did.
    Publishers,
}

/// What was found, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// What held the run back.
    pub limit: Limit,
    /// That, with the figures it is drawn from.
    pub found: String,
    /// What would help.
    pub helps: String,
}

/// The figures that rules look at. Shares are from 0 to 1.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Evidence {
    /// Messages a second that were published.
    pub publish_rate: f64,
    /// Messages a second that were consumed, for each copy that was published.
    pub consume_rate: f64,
    /// Whether anybody was to consume.
    pub has_consumers: bool,
    /// Messages a second that the load asks for; `None` for as fast as it goes.
    pub asked_rate: Option<f64>,
    /// How far publishers fell behind, in milliseconds.
    pub behind_ms: f64,
    /// The highest backlog, as seconds of publishing.
    pub backlog_s: f64,
    /// The part of publishers' time in which their window was full.
    pub window_full: f64,
    /// The part in which their socket was full.
    pub socket_full: f64,
    /// The part in which the broker had them blocked.
    pub blocked: f64,
    /// The part in which publishers had no connection.
    pub disconnected: f64,
    /// How busy the generator's busiest thread was.
    pub generator_busy: f64,
    /// The part of this machine's cores that the generator used.
    pub generator_cores: f64,
    /// The part of this machine's cores that local brokers used.
    pub broker_cores: f64,
    /// The part of the time that the busiest broker spent in syncs; `None` where unknown.
    pub syncing: Option<f64>,
    /// Mean latency of these syncs, in microseconds.
    pub sync_us: f64,
    /// Bytes that a sync covered on average.
    pub bytes_per_sync: f64,
    /// How busy the busiest drive was; `None` where unknown.
    pub drive_busy: Option<f64>,
}

/// A row of the table: which limit, when it holds, what is said of it, what helps.
struct Rule {
    limit: Limit,
    holds: fn(&Evidence) -> bool,
    found: fn(&Evidence) -> String,
    helps: &'static str,
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

static RULES: [Rule; 13] = [
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

/// What held the run back.
#[must_use]
pub fn verdict(run: &RunResult) -> Verdict {
    judge(&Evidence::of(run))
}

/// The verdict that evidence gives.
///
/// # Panics
/// Never: the last rule always holds.
#[must_use]
pub fn judge(evidence: &Evidence) -> Verdict {
    let rule = RULES
        .iter()
        .find(|rule| (rule.holds)(evidence))
        .expect("the last rule holds");
    Verdict {
        limit: rule.limit,
        found: (rule.found)(evidence),
        helps: rule.helps.to_owned(),
    }
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

impl Evidence {
    /// The figures of a run's main load, and of what carried it.
    #[must_use]
    pub fn of(run: &RunResult) -> Self {
        let load = run.main_load();
        let spec = run.spec.loads.first();
        let seconds = load.totals.measured_s.max(f64::MIN_POSITIVE);
        let cores = (run.machine.cores.max(1) as f64) * seconds;
        let LimitsSeen {
            window_full,
            socket_full,
            blocked,
            disconnected,
            behind_schedule_ms_max,
        } = load.limits;
        let busiest = busiest_in_syncs(&run.nodes, seconds);
        Self {
            publish_rate: load.totals.publish_rate,
            consume_rate: load.totals.consume_rate / copies(spec),
            has_consumers: spec.is_some_and(|spec| spec.consumers > 0),
            asked_rate: spec.and_then(asked_rate),
            behind_ms: behind_schedule_ms_max,
            backlog_s: backlog_s(load),
            window_full,
            socket_full,
            blocked,
            disconnected,
            generator_busy: run.generator.busiest_thread,
            generator_cores: run.generator.cpu_s / cores,
            broker_cores: run.nodes.iter().map(|node| node.cpu_s).sum::<f64>() / cores,
            syncing: busiest.map(|found| found.0),
            sync_us: busiest.map_or(0.0, |found| found.1),
            bytes_per_sync: busiest.map_or(0.0, |found| found.2),
            drive_busy: drive_busy(run),
        }
    }
}

/// Queues that each message goes to.
fn copies(spec: Option<&Load>) -> f64 {
    spec.filter(|spec| spec.exchange_type == "fanout")
        .map_or(1.0, |spec| f64::from(spec.queues))
}

fn asked_rate(spec: &Load) -> Option<f64> {
    match spec.rate {
        Rate::Fixed(rate) => Some(rate * f64::from(spec.publishers)),
        _ => None,
    }
}

fn backlog_s(load: &LoadResult) -> f64 {
    load.totals.backlog_max as f64 / load.totals.publish_rate.max(1.0)
}

/// Of the broker that spent most time in syncs: the share, their mean, bytes for each.
fn busiest_in_syncs(nodes: &[NodeUsage], seconds: f64) -> Option<(f64, f64, f64)> {
    let of = |node: &NodeUsage| {
        let (fsyncs, mean) = (node.fsyncs?, node.fsync_mean_us?);
        let bytes = node.disk_written_bytes as f64 / fsyncs.max(1) as f64;
        Some((rate(fsyncs, seconds) * mean / 1e6, mean, bytes))
    };
    nodes
        .iter()
        .filter_map(of)
        .max_by(|one, other| one.0.total_cmp(&other.0))
}

/// On a modelled device the kernel's counts are those of the real one beneath.
fn drive_busy(run: &RunResult) -> Option<f64> {
    let drives = run.nodes.iter().flat_map(|node| &node.drives);
    let busy = drives
        .filter(|drive| drive.device.is_some())
        .map(|drive| drive.busy);
    busy.filter(|_| run.modelled_device.is_none())
        .max_by(f64::total_cmp)
}

#[cfg(test)]
mod tests {
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
}
