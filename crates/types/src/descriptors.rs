//! Which file descriptors sockets of clients may have.

use crate::limits::DESCRIPTORS_KEPT;

/// The number below which clients' sockets stay, in a process that may have `most` descriptors and
/// has `used` by itself. The system gives the lowest free number, so that a socket with this one or
/// a higher one says that there are as many.
#[must_use]
pub const fn sockets_below(most: u64, used: u64) -> u64 {
    let half = most.saturating_sub(used) / 2;
    most - if half < DESCRIPTORS_KEPT {
        half
    } else {
        DESCRIPTORS_KEPT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_are_kept_from_clients_and_half_of_few() {
        assert_eq!(sockets_below(1_048_576, 30), 1_048_576 - DESCRIPTORS_KEPT);
        let enough = 2 * DESCRIPTORS_KEPT;
        assert_eq!(
            sockets_below(enough + 30, 30),
            enough + 30 - DESCRIPTORS_KEPT
        );
        assert_eq!(sockets_below(256, 56), 156);
        assert_eq!(sockets_below(10, 30), 10, "nothing is left to be shared");
    }
}
