//! What happens to disks and machines.

use super::Planted;
use super::world::{Host, World};
use crate::Random;
use crate::disk::{Call, Fault, ReadFaults, SimDisk};
use leveret_cluster::Env;
use leveret_queue_host::quorum::replica::HEADER_LOG;
use leveret_queue_host::shard::log_of;
use leveret_types::{LogId, NodeId};
use std::io;

impl World {
    /// The process dies at one of its next calls to the disk.
    pub(super) fn arm(&mut self, node: NodeId, calls: u64) {
        if let Some(host) = self.hosts.get(&node) {
            host.disk.crash_at(host.disk.operations() + calls);
        }
    }

    /// One of the next calls to the disk fails, or all of its kind from then on.
    pub(super) fn fail(&mut self, node: NodeId, random: &mut Random) {
        let changing = Call::ALL.into_iter().filter(|call| call.changes());
        let changing: Vec<Call> = changing.collect();
        let fault = Fault {
            call: changing[random.below(changing.len() as u64) as usize],
            nth: random.below(3),
            kind: io::ErrorKind::Other,
            sticky: random.below(2) == 0,
        };
        if let Some(host) = self.hosts.get(&node) {
            host.disk.set_fault(Some(fault));
        }
    }

    /// A disk has room for some bytes more, or as much as it likes.
    pub(super) fn fill(&mut self, node: NodeId, random: &mut Random) {
        if let Some(host) = self.hosts.get(&node) {
            let room = random.below(64 * 1024);
            let is_full = random.below(2) == 0;
            let bytes_max = is_full.then(|| host.disk.bytes() + room);
            host.disk.set_bytes_max(bytes_max);
        }
    }

    /// Somebody sets a clock.
    pub(super) fn set_clock(&mut self, node: NodeId, random: &mut Random) {
        if let Some(host) = self.hosts.get_mut(&node) {
            host.skew_ms = random.below(3_600_000);
        }
    }

    /// Reads that went wrong in this life.
    pub(super) fn bad_reads(&self) -> u64 {
        let disks = self.hosts.values().map(|host| host.disk.reads_gone_wrong());
        self.bad_reads_before + disks.sum::<u64>()
    }

    /// Planted: remembers a disk, to go back to it. Or members settle what no entry says.
    pub(super) fn remember(&mut self, node: NodeId) {
        if self.planted == Planted::SettlesAlone {
            self.settle_alone();
        }
        if let (Planted::ForgetsVotes, Some(host)) = (self.planted, self.hosts.get_mut(&node)) {
            host.image = Some(host.disk.files());
        }
    }

    /// Whether a node may lose its disk: all groups have their members, and those all that is
    /// durable.
    fn may_lose(&self, node: NodeId) -> bool {
        self.is_whole && self.hosts.get(&node).is_some_and(|host| !host.is_forgotten)
    }

    /// Planted: each member of a queue settles a message, each another one.
    fn settle_alone(&mut self) {
        let Some(queue) = self.groups().first().copied() else {
            return;
        };
        for (number, id) in self.ids().into_iter().enumerate() {
            let Some(node) = self.node(id) else { continue };
            let mut shard = node.env.shard(node.env.shard_of(queue));
            let logs = (0..HEADER_LOG).map(|priority_log| log_of(queue, priority_log));
            let logs: Vec<LogId> = logs.filter(|log| shard.logs.has_log(*log)).collect();
            for log in logs {
                let live = shard.logs.live(log);
                if let Some(index) = live.iter().flatten().nth(number) {
                    shard.logs.settle(log, index..index + 1, 0);
                }
            }
        }
    }

    fn spoil(&mut self, node: NodeId) {
        if let Some(host) = self.hosts.get_mut(&node) {
            host.is_corrupt = true;
        }
        self.endanger(node);
    }

    /// This machine may lose what it has: no other one may then, until all is whole again.
    pub(super) fn endanger(&mut self, node: NodeId) {
        self.is_whole = false;
        for number in 0..self.queues.len() {
            if self.homes[number] == Some(node) {
                self.ledger.lost(number);
            }
        }
    }

    /// A machine is gone for good, with its disk or only until somebody finds it again.
    pub(super) fn lose_machine(&mut self, node: NodeId, random: &mut Random) {
        if self.may_lose(node) {
            self.spoil(node);
            self.crash(node, random, true);
            if let Some(host) = self.hosts.get_mut(&node) {
                host.is_gone = true;
                if random.below(2) == 0 {
                    self.bad_reads_before += host.disk.reads_gone_wrong();
                    host.disk = SimDisk::new();
                }
            }
        }
    }

    /// Some of a disk's reads go wrong for a while, though the disk is sound: of the running
    /// process, or those of a start as well.
    pub(super) fn fail_reads(&mut self, node: NodeId, random: &mut Random) -> Result<(), String> {
        if !self.may_lose(node) || !self.is_up(node) {
            return Ok(());
        }
        let is_marked = self.with_disk(node, random, |node, now| node.come_to_rest(now));
        if !is_marked || !self.is_up(node) {
            return Ok(());
        }
        self.endanger(node);
        let has_start = random.below(2) == 0;
        if has_start {
            self.crash(node, random, false);
        }
        let faults = ReadFaults {
            failing: random.below(300),
            damaging: random.below(300),
            left: 1 + random.below(20),
            random: Random::new(random.next_u64()),
        };
        if let Some(host) = self.hosts.get_mut(&node) {
            host.has_bad_reads = true;
            host.disk.set_read_faults(Some(faults));
        }
        match has_start {
            true => self.start(node),
            false => Ok(()),
        }
    }

    /// Some of what is durable on a disk rots, while its process is down.
    pub(super) fn corruption(&mut self, node: NodeId, random: &mut Random) -> Result<(), String> {
        if !self.may_lose(node) || !self.is_up(node) {
            return Ok(());
        }
        let is_marked = self.with_disk(node, random, |node, now| node.come_to_rest(now));
        if !is_marked || !self.is_up(node) {
            return Ok(());
        }
        self.spoil(node);
        self.crash(node, random, false);
        if let Some(host) = self.hosts.get(&node) {
            host.corruption(random);
        }
        self.start(node)
    }
}

impl Host {
    /// Planted: what was written since is forgotten, terms and votes among it.
    pub(super) fn go_back(&mut self, random: &mut Random) {
        if let (Some(image), true) = (self.image.take(), random.below(2) == 0) {
            self.disk = SimDisk::with(image);
        }
    }

    /// Planted: the last of what was written to the log has rotted, and is taken for never written.
    pub(super) fn forget_the_end(&mut self) {
        let mut paths = self.disk.paths();
        paths.retain(|path| path.extension().is_some_and(|extension| extension == "wal"));
        for path in paths {
            self.disk.tamper(&path, |bytes| {
                let end = written_end(bytes);
                let start = end.saturating_sub(4_096).max(4_096.min(end));
                bytes[start..end].fill(0);
            });
        }
    }

    /// A bit of some file, or a sector.
    fn corruption(&self, random: &mut Random) {
        let paths = self.disk.paths();
        if paths.is_empty() {
            return;
        }
        let path = &paths[random.below(paths.len() as u64) as usize];
        self.disk.tamper(path, |bytes| {
            let end = written_end(bytes);
            if end == 0 {
                return;
            }
            let at = random.below(end as u64) as usize;
            if random.below(2) == 0 {
                bytes[at] ^= 1 << random.below(8);
            } else {
                let start = at - at % 512;
                let sector = &mut bytes[start..end.min(start + 512)];
                sector.fill(random.below(256) as u8);
            }
        });
    }
}

fn written_end(bytes: &[u8]) -> usize {
    let last = bytes.iter().rposition(|byte| *byte != 0);
    last.map_or(0, |last| last + 1)
}
