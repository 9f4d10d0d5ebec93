//! Commands for more than a test run has time for: `crash-points`, `seeds`, `cluster`, `fuzz`.

use leveret_sim::cluster::{self, Broken, Lived};
use leveret_sim::disk::Lies;
use leveret_sim::explore::{Found, Plan, Report, crash_points, random_simulation_run};
use leveret_sim::fleet;
use leveret_sim::fuzz::{self, Target};
use leveret_types::NodeId;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const USAGE: &str = "\
leveret-sim crash-points [--points N] [--seed N] [--chances N]   workloads crashed at every moment
leveret-sim crash-points --seed N --point N        one moment again, to see a finding
leveret-sim seeds [--count N] [--from N]           lives of random operations with crashes
leveret-sim cluster [--seeds N] [--from N] [--cuts 0]   lives of a cluster with faults of all kinds
leveret-sim cluster --views 1 [--seeds N] [--from N]      the same with a view of a stream
leveret-sim fleet [--nodes N] [--queues N]         a node of many dies: elections, bytes, balance
leveret-sim fuzz [--seconds N] [--target NAME] [--seed N]   fuzz targets, from fuzz/corpus
leveret-sim fuzz --target NAME --input FILE        one input, to see a finding again
leveret-sim corpus                                 writes the inputs that fuzzing begins with";

/// Flags with their values.
struct Flags(Vec<(String, String)>);

const KNOWN: [&str; 14] = [
    "--nodes",
    "--queues",
    "--chances",
    "--points",
    "--seed",
    "--point",
    "--count",
    "--cuts",
    "--views",
    "--seeds",
    "--from",
    "--seconds",
    "--target",
    "--input",
];

impl Flags {
    fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut flags = Vec::new();
        while let Some(flag) = arguments.next() {
            if !KNOWN.contains(&flag.as_str()) {
                return Err(format!("there is no {flag}"));
            }
            let value = arguments
                .next()
                .ok_or_else(|| format!("{flag} needs a value"))?;
            flags.push((flag, value));
        }
        Ok(Self(flags))
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|(flag, _)| flag == name)
            .map(|(_, value)| value.as_str())
    }

    fn number(&self, name: &str, default: u64) -> Result<u64, String> {
        let parse = |value: &str| value.parse().map_err(|_| format!("{name} needs a number"));
        self.text(name).map_or(Ok(default), parse)
    }
}

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let command = arguments.next().unwrap_or_default();
    let done = Flags::parse(arguments).and_then(|flags| match command.as_str() {
        "crash-points" => {
            let only = flags
                .text("--point")
                .map(|_| flags.number("--point", 0))
                .transpose()?;
            let plan = Plan {
                only,
                chances: flags.number("--chances", 3)?,
                ..Plan::default()
            };
            let points = flags.number("--points", 50_000)?;
            Ok(explore_points(points, flags.number("--seed", 0)?, &plan))
        }
        "seeds" => Ok(explore_seeds(
            flags.number("--count", 1_000)?,
            flags.number("--from", 0)?,
        )),
        "cluster" => {
            let plan = cluster::Plan {
                has_cuts: flags.number("--cuts", 1)? != 0,
                ..match flags.number("--views", 0)? {
                    0 => cluster::Plan::default(),
                    _ => cluster::Plan::of_views(),
                }
            };
            let (count, from) = (flags.number("--seeds", 20_000)?, flags.number("--from", 0)?);
            Ok(live_clusters(count, from, plan))
        }
        "fleet" => Ok(play_fleet(
            flags.number("--nodes", 10)?,
            flags.number("--queues", 10_000)?,
        )),
        "fuzz" => fuzz_targets(&flags),
        "corpus" => write_corpus(),
        _ => Err(format!("there is no command {command:?}")),
    });
    done.unwrap_or_else(|why| {
        eprintln!("{why}\n{USAGE}");
        ExitCode::from(2)
    })
}

/// Declares a fleet's queues, and loses a node.
fn play_fleet(nodes: u64, queues: u64) -> ExitCode {
    let plan = fleet::Plan {
        nodes: nodes.clamp(1, 250) as u32,
        queues: queues.min(1 << 24) as u32,
        ..fleet::Plan::default()
    };
    let mut fleet = fleet::Fleet::new(plan);
    let started = Instant::now();
    fleet.declare();
    let a_second = f64::from(plan.queues) / started.elapsed().as_secs_f64();
    let declared = fleet.declared();
    println!(
        "{} nodes, {} quorum queues of three members",
        plan.nodes, plan.queues
    );
    println!("declarations that one thread carries out: {a_second:.0} a second (this machine)");
    println!(
        "bytes of a declaration in the catalogue's log: {:.0}",
        declared.change_bytes
    );
    println!(
        "bytes of the catalogue's state: {}",
        declared.snapshot_bytes
    );
    println!(
        "bytes a second of signs of life that a node sends: {}",
        declared.heartbeat_bytes
    );
    println!("queues led by a node: {}", declared.leaders);
    println!("members at a node: {}", declared.members);
    if plan.nodes < 3 {
        return ExitCode::SUCCESS;
    }
    let death = fleet.lose(NodeId(2));
    println!("a node dies that led {}:", death.led);
    println!(
        "  half are led again after {} ms, all after {} ms",
        death.half_ms, death.all_ms
    );
    println!(
        "  {} messages, {} bytes, {} syncs if none is shared",
        death.messages, death.bytes, death.syncs
    );
    println!("  queues led by each other node then: {}", death.leaders);
    ExitCode::SUCCESS
}

fn fuzz_targets(flags: &Flags) -> Result<ExitCode, String> {
    let wanted = flags.text("--target");
    let is_wanted = |target: &&Target| wanted.is_none_or(|name| name == target.name);
    let targets: Vec<&Target> = fuzz::TARGETS.iter().filter(is_wanted).collect();
    let [first, ..] = targets[..] else {
        return Err(format!("there is no target {}", wanted.unwrap_or_default()));
    };
    if let Some(path) = flags.text("--input") {
        if targets.len() > 1 {
            return Err("--input needs a --target".into());
        }
        let input = std::fs::read(path).map_err(|error| format!("{path}: {error}"))?;
        (first.run)(&input);
        println!("{path}: nothing found");
        return Ok(ExitCode::SUCCESS);
    }
    let time = Duration::from_secs(flags.number("--seconds", 20)?);
    fuzz::run(&targets, time, flags.number("--seed", 0)?);
    println!("{} targets, nothing found", targets.len());
    Ok(ExitCode::SUCCESS)
}

fn write_corpus() -> Result<ExitCode, String> {
    let count = fuzz::write().map_err(|error| error.to_string())?;
    println!("{count} inputs written");
    Ok(ExitCode::SUCCESS)
}

/// Runs `one` for seeds from `from` on, on all processors, until `enough` says so.
fn explore(
    from: u64,
    one: impl Fn(u64) -> Result<Report, Found> + Sync,
    enough: impl Fn(&Report, u64) -> bool + Sync,
) -> ExitCode {
    let next = AtomicU64::new(from);
    let total = Mutex::new((Report::default(), 0_u64, None::<Found>));
    let start = Instant::now();
    let work = || loop {
        let seed = next.fetch_add(1, Ordering::Relaxed);
        let result = one(seed);
        let Ok(mut total) = total.lock() else { return };
        match result {
            Ok(report) => total.0.add(report),
            Err(found) => total.2 = Some(found),
        }
        total.1 += 1;
        println!(
            "{:6.1} s  {:6} seeds  {:8} moments  {:8} crashes  {:8} recoveries, {:7} crashed",
            start.elapsed().as_secs_f64(),
            total.1,
            total.0.points,
            total.0.crashes,
            total.0.recoveries,
            total.0.nested,
        );
        if total.2.is_some() || enough(&total.0, total.1) {
            next.store(u64::MAX / 2, Ordering::Relaxed);
            return;
        }
        if seed >= u64::MAX / 2 {
            return;
        }
    };
    std::thread::scope(|scope| {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        (0..threads).for_each(|_| drop(scope.spawn(work)));
    });
    let Ok((report, _, found)) = total.into_inner() else {
        return ExitCode::FAILURE;
    };
    match found {
        Some(found) => {
            println!("FOUND {found}");
            ExitCode::FAILURE
        }
        None => {
            println!("nothing found: {report:?}");
            ExitCode::SUCCESS
        }
    }
}

fn explore_points(points: u64, seed: u64, plan: &Plan) -> ExitCode {
    explore(
        seed,
        |seed| crash_points(seed, plan),
        |report, _| plan.only.is_some() || report.points >= points,
    )
}

fn explore_seeds(count: u64, from: u64) -> ExitCode {
    explore(
        from,
        |seed| random_simulation_run(seed, Lies::default()),
        |_, seeds| seeds >= count,
    )
}

/// What lives of clusters came to, so far.
#[derive(Default)]
struct SimulationRuns {
    count: u64,
    total: Lived,
    broken: Vec<Broken>,
}

/// Broken promises after which there is no need for more.
const FOUND_MAX: usize = 50;

fn live_clusters(count: u64, from: u64, plan: cluster::Plan) -> ExitCode {
    std::panic::set_hook(Box::new(move |panic| {
        let seed = cluster::seed();
        println!(
            "FOUND {}",
            Broken {
                seed,
                plan,
                what: panic.to_string()
            }
        );
    }));
    let (next, simulation_runs) = (AtomicU64::new(from), Mutex::new(SimulationRuns::default()));
    let start = Instant::now();
    let work = || loop {
        let seed = next.fetch_add(1, Ordering::Relaxed);
        if seed >= from + count {
            return;
        }
        let lived = cluster::live(seed, &plan);
        let Ok(mut simulation_runs) = simulation_runs.lock() else {
            return;
        };
        simulation_runs.count += 1;
        match lived {
            Ok(lived) => simulation_runs.total.add(&lived),
            Err(broken) => {
                println!("FOUND {broken}");
                simulation_runs.broken.push(broken);
                if simulation_runs.broken.len() >= FOUND_MAX {
                    next.store(from + count, Ordering::Relaxed);
                }
            }
        }
        if simulation_runs.count.is_multiple_of(100) {
            let (seconds, total) = (start.elapsed().as_secs_f64(), simulation_runs.total);
            println!(
                "{seconds:6.1} s  {:6} lives  {total}",
                simulation_runs.count
            );
        }
    };
    std::thread::scope(|scope| {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        (0..threads).for_each(|_| drop(scope.spawn(work)));
    });
    let Ok(simulation_runs) = simulation_runs.into_inner() else {
        return ExitCode::FAILURE;
    };
    if simulation_runs.broken.is_empty() {
        println!(
            "{} lives, nothing found: {}",
            simulation_runs.count, simulation_runs.total
        );
        return ExitCode::SUCCESS;
    }
    let seeds: Vec<u64> = simulation_runs
        .broken
        .iter()
        .map(|broken| broken.seed)
        .collect();
    println!(
        "{} lives, found in {seeds:?}: {}",
        simulation_runs.count, simulation_runs.total
    );
    ExitCode::FAILURE
}
