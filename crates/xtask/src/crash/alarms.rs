//! Alarms while the network is cut: who is held back, and by whose alarm (`docs/guarantees.md`).

use anyhow::{Context, Result};

use super::ledger::Ledger;
use super::namespaces::{Namespaces, both_ways};
use super::scenarios::{await_that, await_traffic};
use crate::cluster::Cluster;
use crate::http;

/// More space than any drive has: the disk alarm of a node that wants so much to be free.
const ALARM: &str = "100TB";
/// A limit that a test's machine keeps.
const NO_ALARM: &str = "1MB";

/// One node of the two that are left gets an alarm while the third is cut off.
pub fn under_partition(
    cluster: &Cluster,
    namespaces: &Namespaces,
    ledger: &Ledger,
    cut_off: usize,
) -> Result<()> {
    let others: Vec<usize> = (0..cluster.nodes.len()).filter(|&n| n != cut_off).collect();
    let [alarmed, third] = others[..] else {
        anyhow::bail!("three nodes are needed")
    };
    limit(cluster, alarmed, ALARM)?;
    await_held(cluster, alarmed)?;
    await_traffic(ledger, "while one node of three has an alarm");
    for (from, to) in both_ways(cut_off, &others) {
        namespaces.cut(from, to)?;
    }
    // Nothing can be committed without the one that has the alarm.
    await_held(cluster, third)?;
    limit(cluster, alarmed, NO_ALARM)?;
    await_traffic(ledger, "after the alarm, a node still cut off");
    limit(cluster, cut_off, ALARM)?;
    await_held(cluster, cut_off)?;
    await_traffic(ledger, "while only the node that is cut off has an alarm");
    namespaces.heal()?;
    limit(cluster, cut_off, NO_ALARM)?;
    await_traffic(ledger, "after the last alarm");
    Ok(())
}

fn limit(cluster: &Cluster, node: usize, free: &str) -> Result<()> {
    let set = cluster.nodes[node].ctl(&["set_disk_free_limit", free]);
    set.map(drop).context("set a node's disk limit")
}

/// Waits until publishers at a node are held back: `blocked` whoever would publish, `blocking`
/// whoever waits for confirms already.
fn await_held(cluster: &Cluster, node: usize) -> Result<()> {
    let at = cluster.nodes[node].http;
    let name = http::get(at, "/api/overview")?["node"].clone();
    let mut seen = Vec::new();
    let held = await_that(&format!("publishers at {name} are blocked"), || {
        let connections = http::get(at, "/api/connections")?;
        let connections = connections.as_array().into_iter().flatten();
        let own = connections.filter(|one| one["node"] == name);
        seen = own.map(|one| one["state"].to_string()).collect();
        Ok(seen.iter().any(|state| state.contains("block")))
    });
    held.with_context(|| format!("its connections were {}", seen.join(", ")))
}
