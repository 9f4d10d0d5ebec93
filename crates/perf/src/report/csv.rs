//! Runs as CSV (RFC 4180, one head line): seconds of loads, seconds of nodes, latency percentiles.

use std::fmt::Write as _;

use super::curve;
use crate::result::{Percentiles, RunResult, Second};

const LOAD_HEAD: &str = "run,modelled,load,at_s,phase,measured,published_per_s,confirmed_per_s,\
    consumed_per_s,refused,returned,redelivered,backlog,\
    confirm_p50_us,confirm_p75_us,confirm_p95_us,confirm_p99_us,confirm_p99_9_us,confirm_p99_99_us,\
    confirm_max_us,\
    end_to_end_p50_us,end_to_end_p75_us,end_to_end_p95_us,end_to_end_p99_us,end_to_end_p99_9_us,\
    end_to_end_p99_99_us,end_to_end_max_us,republished,broken_connections\n";
const NODE_HEAD: &str = "run,modelled,node,at_s,cpu_cores,rss_bytes,disk_written_bytes_per_s,\
    disk_read_bytes_per_s,fsyncs_per_s,fsync_mean_us,fsync_p50_us,fsync_p99_us\n";
const PERCENTILE_HEAD: &str = "run,modelled,load,latency,percentile,micros\n";

/// Each second of each load.
#[must_use]
pub fn loads(runs: &[(String, &RunResult)]) -> String {
    let mut text = LOAD_HEAD.to_owned();
    for (label, run) in runs {
        for load in &run.loads {
            for second in &load.seconds {
                let phase = run.phases.get(second.phase).map_or("", |phase| &phase.name);
                let names = [field(label), modelled(run), field(&load.name)].join(",");
                let _ = writeln!(text, "{names},{}", second_fields(second, phase));
            }
        }
    }
    text
}

fn second_fields(second: &Second, phase: &str) -> String {
    format!(
        "{:.3},{},{},{:.1},{:.1},{:.1},{},{},{},{},{},{},{},{}",
        second.at_s,
        field(phase),
        second.measured,
        second.publish_rate(),
        second.confirm_rate(),
        second.consume_rate(),
        second.refused,
        second.returned,
        second.redelivered,
        second.backlog,
        percentiles(second.confirm.as_ref()),
        percentiles(second.end_to_end.as_ref()),
        second.republished,
        second.broken,
    )
}

fn percentiles(of: Option<&Percentiles>) -> String {
    let Some(of) = of else {
        return ",".repeat(6);
    };
    of.shown_us().map(|value| value.to_string()).join(",")
}

/// Each second of each local broker.
#[must_use]
pub fn nodes(runs: &[(String, &RunResult)]) -> String {
    let mut text = NODE_HEAD.to_owned();
    for (label, run) in runs {
        for node in &run.nodes {
            for second in &node.seconds {
                let maybe = |value: Option<f64>| value.map_or(String::new(), |v| format!("{v:.1}"));
                let _ = writeln!(
                    text,
                    "{},{},{},{:.3},{:.3},{},{:.0},{:.0},{},{},{},{}",
                    field(label),
                    modelled(run),
                    field(&node.name),
                    second.at_s,
                    second.cpu_cores,
                    second.rss_bytes,
                    second.disk_written_bytes_per_s,
                    second.disk_read_bytes_per_s,
                    maybe(second.fsyncs_per_s),
                    maybe(second.fsync_mean_us),
                    maybe(second.fsync_p50_us),
                    maybe(second.fsync_p99_us),
                );
            }
        }
    }
    text
}

/// The latency curve of each load.
#[must_use]
pub fn percentile_curves(runs: &[(String, &RunResult)]) -> String {
    let mut text = PERCENTILE_HEAD.to_owned();
    for (label, run) in runs {
        for load in &run.loads {
            let names = [field(label), modelled(run), field(&load.name)].join(",");
            for (what, latency) in [("confirm", &load.confirm), ("end_to_end", &load.end_to_end)] {
                for (percentile, micros) in latency.iter().flat_map(curve::points) {
                    let _ = writeln!(text, "{names},{what},{percentile:.6},{micros:.0}");
                }
            }
        }
    }
    text
}

fn modelled(run: &RunResult) -> String {
    field(run.modelled_device.as_deref().unwrap_or_default())
}

/// A field, in quotes where it must be.
fn field(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        return format!("\"{}\"", text.replace('"', "\"\""));
    }
    text.to_owned()
}
