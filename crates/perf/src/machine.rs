//! The machine and this process, as the kernel describes them in `/proc`.

use std::fs;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::result::Machine;

/// Linux counts CPU time in hundredths of a second on every common architecture.
const TICKS_PER_SECOND: f64 = 100.0;

/// Cores that this process may use.
#[must_use]
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// The machine; what the kernel does not say stays empty.
#[must_use]
pub fn here() -> Machine {
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    let cpuinfo = read("/proc/cpuinfo");
    let cpu = cpuinfo
        .lines()
        .find_map(|line| line.strip_prefix("model name"));
    let cpu = cpu.map_or("", |rest| rest.trim_start_matches([' ', '\t', ':']));
    let kernel = format!("Linux {}", read("/proc/sys/kernel/osrelease").trim());
    Machine {
        cpu: cpu.to_owned(),
        cores: cores(),
        memory_bytes: field(&read("/proc/meminfo"), "MemTotal:") * 1024,
        kernel,
    }
}

/// Lets this process, and those that it starts, open as many files as the system allows: each
/// connection is one.
pub fn raise_file_limit() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    // What is refused shows when a connection cannot be opened.
    let _ = setrlimit(Resource::Nofile, raised);
}

/// CPU time of this process so far, in seconds.
#[must_use]
pub fn own_cpu_s() -> f64 {
    usage(std::process::id()).map_or(0.0, |usage| usage.cpu_s)
}

/// What a process has used.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    /// User and system time, in seconds.
    pub cpu_s: f64,
    /// Resident memory now, in bytes.
    pub rss_bytes: u64,
    /// The most resident memory that there ever was, in bytes.
    pub rss_bytes_max: u64,
    /// Bytes that caused writes to a device.
    pub written_bytes: u64,
    /// Bytes that were read from a device.
    pub read_bytes: u64,
}

/// What a process has used so far; none if it has ended.
#[must_use]
pub fn usage(pid: u32) -> Option<Usage> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    // The name before the fields may hold blanks and brackets.
    let (_, fields) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = fields.split_whitespace().collect();
    // Fields 14 and 15 of stat, counted from 1; what follows the name begins with field 3.
    let ticks: f64 = (11..13)
        .filter_map(|at| fields.get(at)?.parse::<f64>().ok())
        .sum();
    let io = fs::read_to_string(format!("/proc/{pid}/io")).unwrap_or_default();
    Some(Usage {
        cpu_s: ticks / TICKS_PER_SECOND,
        rss_bytes: field(&status, "VmRSS:") * 1024,
        rss_bytes_max: field(&status, "VmHWM:") * 1024,
        written_bytes: field(&io, "write_bytes:"),
        read_bytes: field(&io, "read_bytes:"),
    })
}

fn field(text: &str, name: &str) -> u64 {
    let value = text.lines().find_map(|line| line.strip_prefix(name));
    let number = value.and_then(|value| value.split_whitespace().next()?.parse().ok());
    number.unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_files_may_be_open_as_the_system_allows() {
        raise_file_limit();
        let limit = getrlimit(Resource::Nofile);
        assert_eq!(limit.current, limit.maximum);
    }

    #[test]
    fn this_machine_and_this_process_are_described() {
        let machine = here();
        assert!(
            machine.cores >= 1 && machine.memory_bytes > 1 << 20,
            "{machine:?}"
        );
        let usage = usage(std::process::id()).unwrap();
        assert!(
            usage.rss_bytes_max >= usage.rss_bytes && usage.rss_bytes > 0,
            "{usage:?}"
        );
        assert_eq!(super::usage(u32::MAX), None);
    }
}
