//! What holds publishers of this node back: alarms, a full disk, and a segment writer that is
//! behind.

use leveret_node::Alarms;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

/// The threads that write to disks.
#[derive(Clone, Copy, Debug)]
pub(crate) enum DiskWriter {
    /// The write-ahead log's.
    Wal = 1,
    /// The segment writer's.
    Segments = 2,
}

/// See the module's description.
#[derive(Default)]
pub(super) struct Pressure {
    /// This node's own alarms, as bits.
    alarms: AtomicU8,
    segments_behind: AtomicBool,
    /// Whose disk is full, as bits.
    out_of_space: AtomicU8,
}

const ALARM_MEMORY: u8 = 1;
const ALARM_DISK: u8 = 2;
const ALARM_MEMORY_FULL: u8 = 4;

fn alarm_bits(alarms: Alarms) -> u8 {
    let all = [
        (alarms.memory, ALARM_MEMORY),
        (alarms.disk, ALARM_DISK),
        (alarms.memory_full, ALARM_MEMORY_FULL),
    ];
    let set = all.into_iter().filter(|(is_set, _)| *is_set);
    set.map(|(_, bit)| bit).sum()
}

const fn alarms_of(bits: u8) -> Alarms {
    Alarms {
        memory: bits & ALARM_MEMORY != 0,
        disk: bits & ALARM_DISK != 0,
        memory_full: bits & ALARM_MEMORY_FULL != 0,
    }
}

impl Pressure {
    /// This node's own alarms, whatever others have.
    pub(super) fn alarms(&self) -> Alarms {
        alarms_of(self.alarms.load(Ordering::Acquire))
    }

    /// Sets them, and says so in the log; whether they have changed.
    pub(super) fn set_alarms(&self, alarms: Alarms) -> bool {
        let bits = alarm_bits(alarms);
        if self.alarms.swap(bits, Ordering::AcqRel) == bits {
            return false;
        }
        match alarms.reason() {
            Some(_) if alarms.memory_full => {
                tracing::warn!(
                    "alarm: nearly all memory is used; publishers are blocked, and nothing new is \
                     declared"
                );
            }
            Some(reason) => {
                tracing::warn!("alarm: {reason}; publishers are blocked until it clears");
            }
            None => tracing::info!("alarms of this node cleared"),
        }
        true
    }

    /// Whether the segment writer is so far behind that publishers must wait.
    pub(super) fn are_segments_behind(&self) -> bool {
        self.segments_behind.load(Ordering::Relaxed)
    }

    pub(super) fn set_segments_behind(&self, behind: bool) {
        self.segments_behind.store(behind, Ordering::Relaxed);
    }

    /// A thread that writes to a disk finds it full, or has space again; whether that is new.
    pub(super) fn set_out_of_space(&self, writer: DiskWriter, full: bool) -> bool {
        let bit = writer as u8;
        let before = if full {
            self.out_of_space.fetch_or(bit, Ordering::AcqRel)
        } else {
            self.out_of_space.fetch_and(!bit, Ordering::AcqRel)
        };
        (before & bit != 0) != full
    }

    /// Whether any thread finds its disk full.
    pub(super) fn is_out_of_space(&self) -> bool {
        self.out_of_space.load(Ordering::Acquire) != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alarms_are_what_was_set_and_news_once() {
        let pressure = Pressure::default();
        let none = Alarms::default();
        assert!(!pressure.set_alarms(none), "there were none");
        for alarms in [
            Alarms {
                memory: true,
                ..none
            },
            Alarms { disk: true, ..none },
            Alarms {
                memory: true,
                memory_full: true,
                ..none
            },
            none,
        ] {
            assert!(pressure.set_alarms(alarms), "{alarms:?}");
            assert!(!pressure.set_alarms(alarms), "{alarms:?} again");
            assert_eq!(pressure.alarms(), alarms);
        }
    }

    #[test]
    fn a_disk_is_full_until_each_of_its_writers_has_space() {
        let pressure = Pressure::default();
        for (writer, full, is_news, is_full) in [
            (DiskWriter::Wal, true, true, true),
            (DiskWriter::Wal, true, false, true),
            (DiskWriter::Segments, true, true, true),
            (DiskWriter::Wal, false, true, true),
            (DiskWriter::Segments, false, true, false),
            (DiskWriter::Segments, false, false, false),
        ] {
            assert_eq!(pressure.set_out_of_space(writer, full), is_news);
            assert_eq!(pressure.is_out_of_space(), is_full, "{writer:?} {full}");
        }
    }
}
