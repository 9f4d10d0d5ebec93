//! What a process and its children have used, as the kernel counts it in `/proc`.

use std::collections::HashMap;
use std::fs;

use anyhow::{Context, Result};

/// Linux counts CPU time in hundredths of a second on every common architecture.
const TICKS_PER_SECOND: f64 = 100.0;

/// The use of a process and all its descendants.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    /// User and system time, in seconds.
    pub cpu_s: f64,
    /// Resident memory now, in bytes.
    pub rss_bytes: u64,
    /// The most resident memory that there ever was, in bytes, summed over the processes.
    pub rss_bytes_max: u64,
}

/// The use of a process and all its descendants, up to now.
pub fn usage(pid: u32) -> Result<Usage> {
    let mut total = process_usage(pid).with_context(|| format!("process {pid}"))?;
    for child in descendants(pid) {
        // A child may end between being listed and being read.
        let Ok(used) = process_usage(child) else {
            continue;
        };
        total.cpu_s += used.cpu_s;
        total.rss_bytes += used.rss_bytes;
        total.rss_bytes_max += used.rss_bytes_max;
    }
    Ok(total)
}

fn process_usage(pid: u32) -> Result<Usage> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let fields = after_name(&stat).context("no command name in stat")?;
    // Fields 14 and 15 of stat: user and system time of the process's threads, dead ones included.
    // Fields 16 and 17: the same of children that ended and were waited for.
    let ticks: f64 = (11..15)
        .filter_map(|at| fields.get(at)?.parse::<f64>().ok())
        .sum();
    Ok(Usage {
        cpu_s: ticks / TICKS_PER_SECOND,
        rss_bytes: kilobytes(&status, "VmRSS:"),
        rss_bytes_max: kilobytes(&status, "VmHWM:"),
    })
}

/// The fields of a stat line from the state on: the name before them may hold blanks and brackets.
fn after_name(stat: &str) -> Option<Vec<&str>> {
    let (_, rest) = stat.rsplit_once(')')?;
    Some(rest.split_whitespace().collect())
}

fn field(text: &str, name: &str) -> u64 {
    let value = text.lines().find_map(|line| line.strip_prefix(name));
    value
        .and_then(|value| value.split_whitespace().next()?.parse().ok())
        .unwrap_or(0)
}

fn kilobytes(status: &str, name: &str) -> u64 {
    field(status, name) * 1024
}

/// The ids of the living children, their children, and so on.
pub fn descendants(pid: u32) -> Vec<u32> {
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    for entry in entries.flatten() {
        let Some(child) = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok())
        else {
            continue;
        };
        let Ok(stat) = fs::read_to_string(entry.path().join("stat")) else {
            continue;
        };
        let parent = after_name(&stat).and_then(|fields| fields.get(1)?.parse().ok());
        children.entry(parent.unwrap_or(0)).or_default().push(child);
    }
    let mut found = Vec::new();
    let mut open = vec![pid];
    while let Some(parent) = open.pop() {
        for &child in children.get(&parent).into_iter().flatten() {
            found.push(child);
            open.push(child);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_blanks_and_brackets_do_not_shift_the_fields() {
        let fields = after_name("12 (a) b (c) S 7 12").unwrap();
        assert_eq!(fields, ["S", "7", "12"]);
    }

    #[test]
    fn a_busy_process_uses_cpu_and_memory() {
        let before = usage(std::process::id()).unwrap();
        let started = std::time::Instant::now();
        let mut after = before;
        while after.cpu_s <= before.cpu_s {
            assert!(started.elapsed().as_secs() < 60, "{after:?}");
            std::hint::black_box(descendants(1));
            after = usage(std::process::id()).unwrap();
        }
        assert!(after.rss_bytes_max >= after.rss_bytes);
        assert!(after.rss_bytes > 1_000_000, "{after:?}");
    }
}
