//! Signals that ask the program to end: noted here, and looked for by whoever waits, so that what a
//! run has made (nodes, folders, queues) goes with it.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::error::Error;

/// The signal that came, the last one; 0: none.
static SIGNAL: LazyLock<Arc<AtomicUsize>> = LazyLock::new(Arc::default);

/// Notes the signals from now on, instead of ending at them. One that is ignored stays so: `nohup`
/// asks for that.
///
/// # Errors
/// If the system does not let it.
pub fn watch() -> io::Result<()> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = ignored(&status);
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        if ignored & (1 << (signal - 1)) == 0 {
            signal_hook::flag::register_usize(signal, Arc::clone(&SIGNAL), signal as usize)?;
        }
    }
    Ok(())
}

/// The signals that a process ignores, a bit each, from its `/proc/…/status`.
fn ignored(status: &str) -> u64 {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0)
}

/// The signal that asked for the end, if one did.
#[must_use]
pub fn signal() -> Option<u8> {
    let signal = u8::try_from(SIGNAL.load(Ordering::Relaxed)).unwrap_or(0);
    (signal > 0).then_some(signal)
}

/// An error once a signal has asked for the end.
///
/// # Errors
/// [`Error::Interrupted`].
pub fn check() -> Result<(), Error> {
    match signal() {
        Some(_) => Err(Error::Interrupted),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_ignored_is_read_from_the_status() {
        let status = "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000003\n";
        assert_eq!(ignored(status), 1 << (SIGHUP - 1) | 1 << (SIGINT - 1));
        assert_eq!(ignored(""), 0);
    }
}
