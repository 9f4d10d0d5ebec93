//! `leveret perf plan`: from a load, a retention and a measured drive to nodes, cores, memory and
//! drives.
//!
//! The arithmetic, each step of which is written beside its result:
//!
//! - **Processors**: what a message costs a queue's leader and each other copy is measured
//!   ([`costs`]), by its size and by the rate at which it is not alone. Leaders and copies are
//!   spread evenly. A node is used to [`CPU_USED`] at most, with one node of a replicated fleet
//!   away.
//! - **The drive**: each copy writes what a message was measured to write, and what is kept for
//!   longer than a moment in a queue a second time, into segments. A drive is used to
//!   [`DRIVE_USED`] of its bandwidth and [`ROOM_USED`] of its room.
//! - **Confirms** are [`crate::drive::predict`]'s, at the rate of one node's log.
//! - **Memory**: what a node takes at rest, its queues, and messages on their way. Beside it the
//!   page cache, so that readers that are a minute behind read from memory.
//! - What one queue does not carry has to be spread over more of them.

pub mod costs;

mod command;
mod demand;
#[cfg(test)]
mod tests;
mod text;

pub use command::{Arguments, CommandError, run};
pub use demand::{Demand, Flush, Keep, Kind, parse_keep};
pub use text::describe;

use serde::Serialize;

use crate::drive::{Assumptions, DriveResult, QueueKind, predict};
use crate::spec::MEMBERS_MAX;

/// The part of a node's cores that a plan uses.
pub const CPU_USED: f64 = 0.5;
/// The part of a drive's bandwidth that a plan uses.
pub const DRIVE_USED: f64 = 0.5;
/// The part of a drive's room that a plan uses.
pub const ROOM_USED: f64 = 0.8;
/// Nodes of a fleet at most: beyond, several clusters serve better.
pub const NODES_MAX: u32 = 64;
/// Bytes that a node takes at rest, and what comes to that in a cluster.
const NODE_BYTES: f64 = 20e6;
const CLUSTER_BYTES: f64 = 12e6;
/// Bytes of a queue with its consumer and connection, at each of its copies; `docs/scale.md`.
const QUEUE_BYTES: f64 = 8_200.0 + 5_500.0;
/// How often the bytes of a message on its way are in memory, at the most.
const COPIES_IN_MEMORY: f64 = 4.0;
/// Messages of a stream or queue that are on their way to one reader, in bytes.
const READER_BYTES: f64 = 2e6;
/// Seconds that a reader may be behind and still read from the page cache.
const CACHED_S: f64 = 60.0;
/// The part of a machine's memory above which publishers are held back, by default.
const WATERMARK: f64 = 0.6;
/// Processor time of a further reader beside that of the message with its first one.
const READER_PART: f64 = 0.35;
const GIB: f64 = 1_073_741_824.0;

/// One node of the fleet, the busiest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct NodeLoad {
    /// Cores in use, with all nodes up.
    pub cores: f64,
    /// Resident memory of the broker, in bytes.
    pub resident_bytes: f64,
    /// Bytes written a second.
    pub written_bytes_per_s: f64,
    /// Bytes a second over the network, in and out together.
    pub network_bytes_per_s: f64,
    /// Bytes kept, at the end of the retention.
    pub kept_bytes: f64,
}

/// What is needed, and what is to be expected of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Fleet {
    /// Nodes.
    pub nodes: u32,
    /// Cores of each.
    pub cores: u32,
    /// Memory of each, in bytes.
    pub memory_bytes: f64,
    /// Drives of each.
    pub drives: u32,
    /// Queues or streams over which the load has to be spread, at least.
    pub queues: u32,
    /// The busiest node.
    pub node: NodeLoad,
    /// Half of all confirms take no longer, in microseconds.
    pub confirm_p50_us: f64,
    /// 99 of 100 confirms take no longer, in microseconds.
    pub confirm_p99_us: f64,
    /// How each came about.
    pub because: Vec<String>,
}

/// What a fleet needs for a load on nodes with drives like this one.
#[must_use]
pub fn plan(demand: &Demand, drive: &DriveResult) -> Fleet {
    let mut because = Vec::new();
    let queues = queues_needed(demand, drive, &mut because);
    let demand = Demand {
        queues,
        ..demand.clone()
    };
    let least = match demand.copies {
        1 => 1,
        copies => copies.max(3),
    };
    // The next node is worth adding while a node needs more cores or drives than it may have.
    let fits = |nodes: &u32| {
        let node = node_load(&demand, *nodes);
        let cores = cores_needed(&demand, *nodes);
        let drives = drives_needed(&demand, drive, &node);
        cores <= demand.cores_max && drives <= demand.drives_max
    };
    let most = if demand.copies == 1 {
        queues.min(NODES_MAX)
    } else {
        NODES_MAX
    };
    let nodes = (least..=most.max(least)).find(fits);
    if nodes.is_none() {
        because.push(format!(
            "{} nodes of at most {} cores and {} drives do not carry this, and more do not help: \
             give nodes more (--cores, --drives), or spread the load over more queues or clusters",
            most.max(least),
            demand.cores_max,
            demand.drives_max
        ));
    }
    let nodes = nodes.unwrap_or(most.max(least));
    let node = node_load(&demand, nodes);
    let (p50, p99) = confirm(&demand, drive, nodes, &mut because);
    Fleet {
        nodes,
        cores: cores_needed(&demand, nodes),
        memory_bytes: memory_needed(&node),
        drives: drives_needed(&demand, drive, &node),
        queues,
        node,
        confirm_p50_us: p50,
        confirm_p99_us: p99,
        because: [text::reasons(&demand, drive, nodes, &node), because].concat(),
    }
}

/// Queues that a load has to be spread over: one carries what it was seen to carry, and what the
/// drive confirms with this window.
fn queues_needed(demand: &Demand, drive: &DriveResult, because: &mut Vec<String>) -> u32 {
    let seen = costs::rate_seen(
        demand.kind,
        demand.flush,
        demand.copies,
        demand.message_bytes,
    );
    let synced = demand.is_synced();
    let full = predict(drive, &assumptions(demand, None)).rate;
    let one = if synced { seen.min(full) } else { seen };
    let queues = (demand.rate / (one * CPU_USED).max(1.0)).ceil();
    let queues = queues.clamp(1.0, f64::from(MEMBERS_MAX)) as u32;
    if queues > demand.queues {
        because.push(format!(
            "one {} carries about {:.0}/s of these messages, and is planned at half of that: spread \
             the load over {queues} at least, not {}",
            demand.kind.word(),
            one,
            demand.queues
        ));
    }
    queues.max(demand.queues)
}

/// What a message costs this load's queues on so many nodes. Queues of a node share its syncs and
/// not their clients' wake-ups: so the rate is taken between that of one queue and that of a node.
fn cost(demand: &Demand, nodes: u32) -> costs::Cost {
    let (leaders, followers) = share(demand, nodes);
    let of_queue = demand.rate / f64::from(demand.queues.max(1));
    let of_node = demand.rate * (leaders + followers);
    let rate = (of_queue * of_node.max(of_queue)).sqrt();
    let found = costs::cost(
        demand.kind,
        demand.flush,
        demand.copies,
        demand.message_bytes,
        rate,
    );
    let readers = f64::from(demand.readers.max(1)) - 1.0;
    costs::Cost {
        leader_us: found.leader_us * (1.0 + READER_PART * readers),
        ..found
    }
}

/// Leaders and other copies at the busiest of so many nodes, for each queue of the load.
fn share(demand: &Demand, nodes: u32) -> (f64, f64) {
    let (queues, copies) = (demand.queues.max(1), demand.copies.min(nodes).max(1));
    let leaders = queues.div_ceil(nodes);
    let members = (queues * copies).div_ceil(nodes).max(leaders);
    (
        f64::from(leaders) / f64::from(queues),
        f64::from(members - leaders) / f64::from(queues),
    )
}

/// Cores in use at the busiest of so many nodes.
fn cores_used(demand: &Demand, nodes: u32) -> f64 {
    let cost = cost(demand, nodes);
    let (leaders, followers) = share(demand, nodes);
    demand.rate / 1e6 * (leaders * cost.leader_us + followers * cost.follower_us)
}

/// Cores of each node: with one of a replicated fleet away, the others are used to a part only.
fn cores_needed(demand: &Demand, nodes: u32) -> u32 {
    let left = if demand.copies > 1 { nodes - 1 } else { nodes };
    let used = cores_used(demand, left.max(1));
    ((used / CPU_USED).ceil() as u32).max(2)
}

fn node_load(demand: &Demand, nodes: u32) -> NodeLoad {
    let cost = cost(demand, nodes);
    let (leaders, followers) = share(demand, nodes);
    let here = demand.rate * (leaders + followers);
    // What a queue keeps for longer than a moment is written again, into segments.
    let written = cost.written_bytes * if demand.keeps_in_segments() { 2.0 } else { 1.0 };
    let bytes = demand.rate * demand.message_bytes;
    let replicated = bytes * (leaders * f64::from(demand.copies - 1) + followers);
    let members = f64::from(demand.queues) * (leaders + followers);
    let led = f64::from(demand.queues) * leaders;
    let under_way = demand.window.min(demand.rate) * demand.message_bytes * COPIES_IN_MEMORY;
    NodeLoad {
        cores: cores_used(demand, nodes),
        resident_bytes: NODE_BYTES
            + if demand.copies > 1 {
                CLUSTER_BYTES
            } else {
                0.0
            }
            + members * QUEUE_BYTES
            + under_way * leaders
            + led
                * f64::from(demand.readers)
                * READER_BYTES.min(demand.rate * demand.message_bytes),
        written_bytes_per_s: here * written,
        network_bytes_per_s: bytes * leaders * (1.0 + f64::from(demand.readers)) + replicated,
        kept_bytes: demand.kept_bytes() * (leaders + followers),
    }
}

/// Drives of a node: for what is written and read back, and for what is kept.
fn drives_needed(demand: &Demand, drive: &DriveResult, node: &NodeLoad) -> u32 {
    let bandwidth = drive.write_bytes_per_second.max(1.0) * DRIVE_USED;
    let by_bytes = (node.written_bytes_per_s / bandwidth).ceil();
    let room = drive_bytes(demand, drive).map(|bytes| bytes * ROOM_USED);
    let by_room = room.map_or(1.0, |room| (node.kept_bytes / room.max(1.0)).ceil());
    by_bytes.max(by_room).max(1.0) as u32
}

/// Bytes of a drive: what was said, or what was measured of it.
fn drive_bytes(demand: &Demand, drive: &DriveResult) -> Option<f64> {
    demand
        .drive_bytes
        .or(drive.capacity_bytes.map(|bytes| bytes as f64))
}

/// Memory of a machine: the broker below its watermark, and a page cache; as machines have it.
fn memory_needed(node: &NodeLoad) -> f64 {
    let cached = (node.written_bytes_per_s * CACHED_S).min(node.kept_bytes);
    let needed = (node.resident_bytes / WATERMARK).max(node.resident_bytes + cached);
    let gib = (needed / GIB).max(1.0);
    2.0f64.powf(gib.log2().ceil()) * GIB
}

fn assumptions(demand: &Demand, rate: Option<f64>) -> Assumptions {
    Assumptions {
        kind: match demand.copies {
            1 => QueueKind::Classic,
            _ => QueueKind::Quorum,
        },
        message_bytes: demand.message_bytes,
        window: demand.window,
        rate,
        processor_us: None,
        round_trip_us: demand.round_trip_us,
    }
}

/// How long confirms take, from the drive where they wait for it.
fn confirm(
    demand: &Demand,
    drive: &DriveResult,
    nodes: u32,
    because: &mut Vec<String>,
) -> (f64, f64) {
    let (leaders, followers) = share(demand, nodes);
    let here = demand.rate * (leaders + followers);
    if demand.is_synced() {
        let found = predict(drive, &assumptions(demand, Some(here)));
        return (found.p50_us, found.p99_us);
    }
    because.push(
        "confirms do not wait for the drive: what a crash of the machine takes is what came since \
         the last sync"
            .to_owned(),
    );
    let trip = if demand.copies > 1 {
        demand.round_trip_us
    } else {
        0.0
    };
    let of = |percent| drive.turnaround.percentile(percent) + trip;
    (of(50.0), of(99.0))
}
