//! What the kernel says of the machine.

use super::Machine;

impl Machine {
    /// This machine.
    #[must_use]
    pub fn here() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let host_name = host_name();
        Self { cores, host_name }
    }
}

/// The machine's name.
#[must_use]
pub fn host_name() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname")
        .ok()
        .map(|name| name.trim().to_owned())
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| "localhost".to_owned())
}
