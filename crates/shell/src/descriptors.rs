//! File descriptors that no client gets: a node that cannot open a file of its log ends.

use leveret_types::descriptors::sockets_below;
use rustix::process::{Resource, getrlimit};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::sync::OnceLock;

/// The descriptors that the process may have, and the number below which clients' sockets stay. To
/// be asked once before any has come: what the process has by then is its own.
fn limits() -> (u64, u64) {
    static LIMITS: OnceLock<(u64, u64)> = OnceLock::new();
    *LIMITS.get_or_init(|| {
        let most = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let next = File::open("/dev/null").map_or(0, |file| file.as_raw_fd());
        (most, sockets_below(most, u64::try_from(next).unwrap_or(0)))
    })
}

/// Whether a client may keep a socket that has just been accepted.
pub(crate) fn may_be_a_clients(socket: &impl AsRawFd) -> bool {
    u64::try_from(socket.as_raw_fd()).is_ok_and(|number| number < limits().1)
}

/// Descriptors that are kept from clients, for files and for links between nodes.
pub(crate) fn kept_for_files() -> u64 {
    let (most, below) = limits();
    most - below
}
