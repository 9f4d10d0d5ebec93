//! The file descriptors that sockets of clients may have, and the users of those that they leave.

use crate::limits::{DESCRIPTORS_RESERVED, READ_FILES_OPEN_MAX, STREAM_FILES_OPEN_MAX};

/// The number below which clients' sockets stay, in a process that may have `most` descriptors and
/// has `used` by itself. The system gives the lowest free number, so that a socket with this one or
/// a higher one says that there are as many.
#[must_use]
pub const fn sockets_below(most: u64, used: u64) -> u64 {
    let half = most.saturating_sub(used) / 2;
    most - if half < DESCRIPTORS_RESERVED {
        half
    } else {
        DESCRIPTORS_RESERVED
    }
}

/// Segment files of streams that are kept open where so many descriptors are kept from clients: a
/// quarter. As many again may be open for a while, as reads and syncs that are under way hold files
/// that are no longer kept.
#[must_use]
pub fn stream_files_open_max(kept: u64) -> usize {
    part(kept, 4, STREAM_FILES_OPEN_MAX)
}

/// Files of the log and of segments that readers keep open then: an eighth. What is left is for
/// those that are written, and for links between nodes.
#[must_use]
pub fn read_files_open_max(kept: u64) -> usize {
    part(kept, 8, READ_FILES_OPEN_MAX)
}

fn part(kept: u64, of: u64, most: usize) -> usize {
    // One is needed: what is opened is given to whoever asked for it.
    usize::try_from(kept / of).unwrap_or(most).clamp(1, most)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::{STREAM_JOURNAL_SYNCS_MAX, STREAM_READS_MAX, WAL_FILES_MAX};

    #[test]
    fn some_are_kept_from_clients_and_half_of_few() {
        assert_eq!(
            sockets_below(1_048_576, 30),
            1_048_576 - DESCRIPTORS_RESERVED
        );
        let enough = 2 * DESCRIPTORS_RESERVED;
        assert_eq!(
            sockets_below(enough + 30, 30),
            enough + 30 - DESCRIPTORS_RESERVED
        );
        assert_eq!(sockets_below(256, 56), 156);
        assert_eq!(sockets_below(10, 30), 10, "nothing is left to be shared");
    }

    #[test]
    fn files_that_are_kept_open_fit_into_what_clients_leave() {
        assert_eq!(stream_files_open_max(u64::MAX), STREAM_FILES_OPEN_MAX);
        assert_eq!(
            stream_files_open_max(DESCRIPTORS_RESERVED),
            STREAM_FILES_OPEN_MAX
        );
        assert_eq!(
            read_files_open_max(DESCRIPTORS_RESERVED),
            READ_FILES_OPEN_MAX
        );
        assert_eq!((stream_files_open_max(0), read_files_open_max(0)), (1, 1));
        for kept in [100, 256, DESCRIPTORS_RESERVED] {
            let files = stream_files_open_max(kept) + read_files_open_max(kept);
            let for_a_while = STREAM_READS_MAX as usize + STREAM_JOURNAL_SYNCS_MAX;
            assert!(
                files + for_a_while + WAL_FILES_MAX < kept as usize,
                "{kept}"
            );
        }
    }
}
