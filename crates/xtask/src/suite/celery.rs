//! Celery's integration tests from its source package.
//!
//! Each part of them is a process with a virtual host of its own on one broker, so that no worker
//! takes another's tasks. A part runs its tests with results by RPC first, because then results go
//! through the broker as well. What leaves itself out for want of a store of results runs then,
//! with results in a Redis server that only this part has, and with the broker for everything else.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use anyhow::Result;

use super::again::run_again;
use super::bench::{Bench, Report, stop};
use super::python::{DEADLINE, is_pytest_name, point_at, pytest, read_results, source};
use crate::broker::Broker;
use crate::redis::Redis;
use crate::run;

/// Into how many processes the tests are spread: Celery's workers wait more than they work.
const PARTS: usize = 12;

/// What results by RPC cannot tell, on RabbitMQ either: a task's states in between, which they
/// deliver once. With results in Redis only.
const IN_REDIS_ONLY: &[&str] = &["t/integration/test_tasks.py::test_tasks::test_retry"];

/// Runs all of them.
pub fn run(bench: &Bench) -> Result<Report> {
    let source = source(bench, "celery==5.7.0")?;
    let mut broker = bench.broker(&[])?;
    let mut parts = Vec::new();
    for part in 0..PARTS {
        parts.push(Part::new(bench, &source, &mut broker, &part.to_string())?);
    }
    let running: Vec<_> = parts
        .into_iter()
        .enumerate()
        .map(|(number, part)| thread::spawn(move || part.run_share(number)))
        .collect();
    let mut report = bench.documented();
    for part in running {
        match part.join().expect("a part's thread does not panic") {
            Ok(found) => report.add(found),
            Err(error) => report.failed.push(format!("{error:#}")),
        }
    }
    run_again(&mut report, is_pytest_name, |names| {
        Part::new(bench, &source, &mut broker, "again")?.run_named(names)
    })?;
    stop(&mut broker, &mut report)?;
    Ok(report)
}

/// What runs some of the tests: once or twice, see the module's head.
struct Part {
    by_rpc: Run,
    in_redis: Run,
    _redis: Redis,
}

impl Part {
    /// A part with a virtual host and a Redis server of its own.
    fn new(bench: &Bench, source: &Path, broker: &mut Broker, name: &str) -> Result<Part> {
        let vhost = format!("part{name}");
        broker.ctl(&["add_vhost", &vhost])?;
        broker.ctl(&["set_permissions", "-p", &vhost, "guest", ".*", ".*", ".*"])?;
        let redis = Redis::start(&bench.folder()?)?;
        let run = |kind: &str, backend: &str| {
            let results = bench.folder()?.join(format!("results-{name}-{kind}.jsonl"));
            let mut command = pytest(bench, source)?;
            // One test waits twice for ten seconds, seven times.
            command.arg("--timeout=300");
            point_at(&mut command, bench, broker, &results)?;
            let port = broker.amqp.port();
            let url = format!("pyamqp://guest:guest@127.0.0.1:{port}/{vhost}");
            command
                .env("TEST_BROKER", url)
                .env("TEST_BACKEND", backend)
                .env("REDIS_HOST", redis.address.ip().to_string())
                .env("REDIS_PORT", redis.address.port().to_string());
            let log = bench.log(&format!("pytest-{name}-{kind}"))?;
            Ok::<_, anyhow::Error>(Run {
                results,
                log,
                command,
            })
        };
        Ok(Part {
            by_rpc: run("rpc", "rpc://")?,
            in_redis: run("redis", &format!("redis://{}/0", redis.address))?,
            _redis: redis,
        })
    }

    /// The share of one of [`PARTS`].
    fn run_share(mut self, number: usize) -> Result<Report> {
        self.by_rpc
            .command
            .arg("t/integration")
            .args(
                IN_REDIS_ONLY
                    .iter()
                    .map(|test| format!("--deselect={test}")),
            )
            .env("LEVERET_PART", format!("{number}/{PARTS}"));
        let also = IN_REDIS_ONLY.iter().skip(number).step_by(PARTS);
        self.run(also.map(|test| (*test).to_owned()).collect())
    }

    fn run_named(mut self, names: &[String]) -> Result<Report> {
        let is_in_redis = |name: &&String| IN_REDIS_ONLY.contains(&name.as_str());
        let (in_redis, by_rpc): (Vec<&String>, Vec<&String>) = names.iter().partition(is_in_redis);
        let in_redis = in_redis.into_iter().cloned().collect();
        if by_rpc.is_empty() {
            return self.run_in_redis(in_redis);
        }
        self.by_rpc.command.args(by_rpc);
        self.run(in_redis)
    }

    /// By RPC, then in Redis what left itself out, and these tests.
    fn run(mut self, also: Vec<String>) -> Result<Report> {
        let mut report = self.by_rpc.run()?;
        let left_out = std::mem::take(&mut report.left_out);
        let mut names: Vec<String> = left_out.into_iter().map(|(name, _)| name).collect();
        // These look at all of the server's channels: at those that earlier tests left open, too.
        names.sort_by_key(|name| !name.contains("test_redis_backend.py"));
        names.extend(also);
        report.add(self.run_in_redis(names)?);
        Ok(report)
    }

    fn run_in_redis(mut self, names: Vec<String>) -> Result<Report> {
        if names.is_empty() {
            return Ok(Report::default());
        }
        self.in_redis.command.args(names);
        self.in_redis.run()
    }
}

/// One run of pytest.
struct Run {
    results: PathBuf,
    log: PathBuf,
    command: Command,
}

impl Run {
    fn run(&mut self) -> Result<Report> {
        let success = run::logged(&mut self.command, &self.log, DEADLINE)?;
        read_results(&self.results, &self.log, success)
    }
}
