//! What happens by the clock: expiries, delays, and the alarms for memory and disk.

use crate::broker::Broker;
use crate::disk::free_bytes;
use crate::waker::Woken;
use leveret_cluster::Env;
use leveret_node::Alarms;
use parking_lot::{Mutex, RwLock};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Milliseconds after which a member of a cluster that starts looks whether its shards have queues.
const UNPLACED_LOOK_MS: u64 = 20;
/// How often memory and disks are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// The same while more memory is used than the watermark allows: what clients can declare in half a
/// second is more than a small machine has left then.
const LOOK_CLOSELY_EVERY: Duration = Duration::from_millis(20);

/// How many times as long as memory took to give back is the pause until it is given back again: an
/// alarm that stays costs a tenth of a core at most.
const GIVE_BACK_PAUSE: u32 = 10;

/// The watermarks in force; operators change them while the node runs.
#[derive(Clone, Copy, Debug)]
pub struct Watermarks {
    /// Resident bytes above which publishers are blocked.
    pub memory_bytes: u64,
    /// Resident bytes above which nothing new is declared, where publishers are blocked too.
    pub memory_full_bytes: u64,
    /// Free bytes of a drive below which publishers are blocked.
    pub disk_free_bytes: u64,
}

impl Watermarks {
    /// The alarms that follow from what a look has found.
    #[must_use]
    pub const fn alarms(&self, found: Resources) -> Alarms {
        let memory = found.memory_bytes > self.memory_bytes;
        Alarms {
            memory,
            disk: found.disk_free_bytes < self.disk_free_bytes,
            memory_full: memory && found.memory_bytes > self.memory_full_bytes,
        }
    }

    /// After what pause to look again.
    const fn look_after(&self, found: Resources) -> Duration {
        match self.alarms(found).memory {
            true => LOOK_CLOSELY_EVERY,
            false => LOOK_EVERY,
        }
    }
}

/// What the last look found.
#[derive(Clone, Copy, Debug, Default)]
pub struct Resources {
    /// Resident bytes of the process.
    pub memory_bytes: u64,
    /// Free bytes of the fullest of the node's drives.
    pub disk_free_bytes: u64,
}

/// Watches over memory and disks.
pub struct TimersAndAlarms {
    /// The watermarks in force.
    pub watermarks: RwLock<Watermarks>,
    /// What the last look found.
    pub resources: RwLock<Resources>,
    folders: Vec<PathBuf>,
    /// Has the allocator give back what it keeps of memory that is free.
    give_back: fn(),
    /// When it has last done so, and how long it took.
    gave_back: Mutex<Option<(Instant, Duration)>>,
}

impl TimersAndAlarms {
    /// Timers and alarms of a node that keeps its data in these folders.
    pub fn new(watermarks: Watermarks, folders: Vec<PathBuf>, give_back: fn()) -> Self {
        Self {
            watermarks: RwLock::new(watermarks),
            resources: RwLock::default(),
            folders,
            give_back,
            gave_back: Mutex::new(None),
        }
    }

    /// Runs until it is told to stop.
    pub fn run(&self, broker: &Broker) {
        let mut looked: Option<Instant> = None;
        let mut was_full = false;
        let mut look_after = LOOK_EVERY;
        loop {
            let full = broker.is_out_of_space();
            let changed = std::mem::replace(&mut was_full, full) != full;
            if changed || looked.is_none_or(|at| at.elapsed() >= look_after) {
                looked = Some(Instant::now());
                let is_alone = broker.peers().up().is_empty();
                broker.clock().follow(is_alone);
                self.look(broker);
                look_after = self.watermarks.read().look_after(*self.resources.read());
            }
            let now = broker.now();
            broker.tick_shards(now);
            if broker.go_on_with_deferred(now) {
                if broker.signals.timers_and_alarms.stopped() {
                    return;
                }
                continue;
            }
            let due = match broker.has_queues() {
                true => broker
                    .shard_deadline_ms()
                    .saturating_sub(broker.now().monotonic_ms),
                false => UNPLACED_LOOK_MS,
            };
            let rest = looked.map_or(Duration::ZERO, |at| look_after.saturating_sub(at.elapsed()));
            let wait = Duration::from_millis(due)
                .min(rest)
                .max(Duration::from_millis(1));
            if broker.signals.timers_and_alarms.wait(wait, wait) == Woken::Stop {
                return;
            }
        }
    }

    /// Looks at memory and disks, and sets the alarms.
    pub fn look(&self, broker: &Broker) {
        let watermarks = *self.watermarks.read();
        let resources = Resources {
            memory_bytes: self.memory_bytes(watermarks.memory_bytes),
            disk_free_bytes: self
                .folders
                .iter()
                .filter_map(|f| free_bytes(f))
                .min()
                .unwrap_or(u64::MAX),
        };
        *self.resources.write() = resources;
        let mut alarms = watermarks.alarms(resources);
        // A quota fills without the drive being full.
        alarms.disk |= broker.is_out_of_space();
        broker.set_alarms(alarms);
    }

    /// Bytes that the process may take, as of this moment, until nothing new is declared.
    pub fn memory_left(&self) -> u64 {
        let watermarks = *self.watermarks.read();
        let most = watermarks.memory_full_bytes.max(watermarks.memory_bytes);
        most.saturating_sub(resident_bytes().unwrap_or(0))
    }

    /// The same; where fewer than `wanted` are left, what is free is given back first. For threads
    /// that hold nothing: that takes its time.
    pub fn memory_left_of(&self, wanted: u64) -> u64 {
        let left = self.memory_left();
        match left < wanted && self.give_back() {
            true => self.memory_left(),
            false => left,
        }
    }

    /// Resident bytes. Where they are above the watermark, what is free is given back first: an
    /// allocator keeps most of a spike, and publishers must not wait for memory that nobody uses.
    fn memory_bytes(&self, watermark: u64) -> u64 {
        let resident = || resident_bytes().unwrap_or(0);
        let bytes = resident();
        match bytes > watermark && self.give_back() {
            true => resident(),
            false => bytes,
        }
    }

    /// Gives back what is free, unless that was done just before; whether it did.
    fn give_back(&self) -> bool {
        let mut gave_back = self.gave_back.lock();
        if gave_back.is_some_and(|(at, took)| at.elapsed() < took * GIVE_BACK_PAUSE) {
            return false;
        }
        let begun = Instant::now();
        (self.give_back)();
        *gave_back = Some((Instant::now(), begun.elapsed()));
        true
    }
}

/// Resident bytes of this process.
fn resident_bytes() -> Option<u64> {
    let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = statm.split_ascii_whitespace().nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_looked_at_closely_from_one_byte_above_its_watermark_on() {
        let watermarks = Watermarks {
            memory_bytes: 600,
            memory_full_bytes: 900,
            disk_free_bytes: 50,
        };
        let pause = |memory_bytes| {
            watermarks.look_after(Resources {
                memory_bytes,
                disk_free_bytes: 0,
            })
        };
        assert_eq!(pause(600), LOOK_EVERY);
        assert_eq!(pause(601), LOOK_CLOSELY_EVERY);
        assert_eq!(pause(901), LOOK_CLOSELY_EVERY);
    }

    #[test]
    fn alarms_begin_with_one_byte_more_than_the_watermarks() {
        let watermarks = Watermarks {
            memory_bytes: 600,
            memory_full_bytes: 900,
            disk_free_bytes: 50,
        };
        let alarms = |memory_bytes, disk_free_bytes| {
            let found = Resources {
                memory_bytes,
                disk_free_bytes,
            };
            let alarms = watermarks.alarms(found);
            (alarms.memory, alarms.memory_full, alarms.disk)
        };
        assert_eq!(alarms(600, 50), (false, false, false));
        assert_eq!(alarms(601, 49), (true, false, true));
        assert_eq!(alarms(900, 50), (true, false, false));
        assert_eq!(alarms(901, 50), (true, true, false));
        // Who lets publishers have more than that lets everybody have it.
        let raised = Watermarks {
            memory_bytes: 950,
            ..watermarks
        };
        let found = |memory_bytes| Resources {
            memory_bytes,
            disk_free_bytes: 50,
        };
        assert!(!raised.alarms(found(950)).memory_full);
        assert!(raised.alarms(found(951)).memory_full);
    }
}
