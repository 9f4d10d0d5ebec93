//! What the kernel says of this process.

/// Usage of this process.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    /// File descriptors in use.
    pub fds_used: u64,
    /// File descriptors that it may use.
    pub fds_max: u64,
    /// Processor time in milliseconds, user and system.
    pub cpu_ms: u64,
}

/// The usage now; what the kernel does not tell counts as 0.
pub fn usage() -> Usage {
    let fds_used = std::fs::read_dir("/proc/self/fd").map_or(0, |entries| entries.count() as u64);
    Usage {
        fds_used,
        fds_max: fds_max().unwrap_or(0),
        cpu_ms: cpu_ms().unwrap_or(0),
    }
}

/// What of this process is in memory, read at one moment: a part is never more than the whole.
#[derive(Clone, Copy, Debug, Default)]
pub struct Resident {
    /// All of it, in bytes.
    pub bytes: u64,
    /// The program itself, and the files that it maps.
    pub program_bytes: u64,
}

/// What is in memory now; what the kernel does not tell counts as 0.
pub fn resident() -> Resident {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let bytes = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let kilobytes = line.and_then(|line| line.split_ascii_whitespace().next()?.parse().ok());
        kilobytes.map_or(0, |kilobytes: u64| kilobytes * 1024)
    };
    Resident {
        bytes: bytes("VmRSS:"),
        program_bytes: bytes("RssFile:"),
    }
}

fn fds_max() -> Option<u64> {
    let limits = std::fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits
        .lines()
        .find(|line| line.starts_with("Max open files"))?;
    line.split_ascii_whitespace().nth(3)?.parse().ok()
}

/// Fields 14 and 15 of `/proc/self/stat` are ticks of a hundredth of a second.
fn cpu_ms() -> Option<u64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The command's name may hold spaces; what follows its closing parenthesis does not.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some((user + system) * 10)
}

/// A UUID as text.
pub fn uuid_text(uuid: [u8; 16]) -> String {
    let digits: String = uuid.iter().map(|byte| format!("{byte:02x}")).collect();
    let parts = [
        &digits[..8],
        &digits[8..12],
        &digits[12..16],
        &digits[16..20],
        &digits[20..],
    ];
    parts.join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uuid_has_its_dashes() {
        assert_eq!(
            uuid_text([0xAB; 16]),
            "abababab-abab-abab-abab-abababababab"
        );
    }

    #[test]
    fn this_process_has_a_program_files_and_time() {
        let resident = resident();
        assert!(resident.program_bytes > 0);
        assert!(resident.bytes > resident.program_bytes, "{resident:?}");
        let usage = usage();
        assert!(
            usage.fds_used > 2 && usage.fds_max >= usage.fds_used,
            "{usage:?}"
        );
    }
}
