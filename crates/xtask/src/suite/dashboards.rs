//! Dashboards and alert rules against a real Prometheus that scrapes a cluster.

use anyhow::Result;

use super::bench::{Bench, ControlledCluster, Report, lock};
use super::python;
use crate::run;

/// RabbitMQ's dashboards and our own over three nodes under load.
pub fn run(bench: &Bench) -> Result<Report> {
    let cluster = ControlledCluster::start(bench.name)?;
    let metrics = cluster.nodes.iter();
    let metrics = metrics.map(|node| lock(node).metrics.to_string());
    let metrics = metrics.collect::<Vec<_>>().join(",");
    let mut report = bench.documented();
    let results = bench.folder()?.join("results.jsonl");
    let mut command = python::pytest(bench, &run::root().join("tests/interop/python"))?;
    command.args(["--timeout=180", "test_dashboards"]);
    python::point_at(&mut command, bench, &lock(&cluster.nodes[0]), &results)?;
    command.envs(cluster.environment.clone());
    command.env("CLUSTER_METRICS", metrics);
    let log = bench.log("pytest")?;
    let success = run::logged(&mut command, &log, python::DEADLINE)?;
    report.add(python::read_results(&results, &log, success)?);
    cluster.stop(&mut report)?;
    Ok(report)
}
