//! A plan for people.

use std::fmt::Write as _;

use super::{
    CACHED_S, CPU_USED, DRIVE_USED, Demand, Fleet, GIB, NodeLoad, ROOM_USED, cost, drive_bytes,
};
use crate::drive::DriveResult;
use crate::plot::Unit;
use crate::report::Table;

/// What is needed, what one node then does, and why.
#[must_use]
pub fn describe(demand: &Demand, fleet: &Fleet) -> String {
    let mut text = format!(
        "{} of {} in {} {}{}, {} {}\n\n",
        Unit::MessagesPerSecond.write(demand.rate),
        Unit::Bytes.write(demand.message_bytes),
        fleet.queues,
        demand.kind.word(),
        if fleet.queues == 1 { "" } else { "s" },
        demand.copies,
        if demand.copies == 1 { "copy" } else { "copies" },
    );
    let mut needed = Table::new(&["nodes", "cores each", "memory each", "drives each"]);
    needed.row([
        fleet.nodes.to_string(),
        fleet.cores.to_string(),
        format!("{:.0} GiB", fleet.memory_bytes / GIB),
        fleet.drives.to_string(),
    ]);
    let mut node = Table::new(&[
        "the busiest node",
        "cores used",
        "resident",
        "written",
        "network",
        "kept",
        "confirm p50",
        "p99",
    ]);
    node.row([
        String::new(),
        Unit::Cores.write(fleet.node.cores),
        Unit::Bytes.write(fleet.node.resident_bytes),
        Unit::BytesPerSecond.write(fleet.node.written_bytes_per_s),
        Unit::BytesPerSecond.write(fleet.node.network_bytes_per_s),
        Unit::Bytes.write(fleet.node.kept_bytes),
        Unit::Micros.write(fleet.confirm_p50_us),
        Unit::Micros.write(fleet.confirm_p99_us),
    ]);
    // Writing to a string cannot fail.
    let _ = write!(text, "{}\n{}\n", needed.text(), node.text());
    for reason in &fleet.because {
        let _ = writeln!(text, "- {reason}");
    }
    text
}

/// How the figures came about.
pub(super) fn reasons(
    demand: &Demand,
    drive: &DriveResult,
    nodes: u32,
    node: &NodeLoad,
) -> Vec<String> {
    let cost = cost(demand, nodes);
    let percent = |part: f64| format!("{:.0} %", part * 100.0);
    let mut reasons = vec![format!(
        "cores: a message takes {} of its queue's leader{} at {} a queue; a node is planned at {} of \
         its cores{}",
        Unit::Micros.write(cost.leader_us),
        match demand.copies {
            1 => String::new(),
            _ => format!(
                " and {} of each other copy",
                Unit::Micros.write(cost.follower_us)
            ),
        },
        Unit::MessagesPerSecond.write(demand.rate / f64::from(demand.queues.max(1))),
        percent(CPU_USED),
        if demand.copies > 1 {
            format!(", with one of {nodes} nodes away")
        } else {
            String::new()
        },
    )];
    reasons.push(format!(
        "memory: {} resident, and as page cache what is written in {CACHED_S:.0} s, so that readers \
         behind by that read from memory",
        Unit::Bytes.write(node.resident_bytes)
    ));
    let again = if demand.keeps_in_segments() {
        ", twice, as it is kept"
    } else {
        ""
    };
    let room = drive_bytes(demand, drive)
        .map_or("of a size that is not known".to_owned(), |bytes| {
            format!("{} of {}", percent(ROOM_USED), Unit::Bytes.write(bytes))
        });
    reasons.push(format!(
        "drives: {} a message{again}; {} of {}, and {room}",
        Unit::Bytes.write(cost.written_bytes),
        percent(DRIVE_USED),
        Unit::BytesPerSecond.write(drive.write_bytes_per_second),
    ));
    reasons
}
