//! Commands for more than a test run has time for: `crash-points`, `seeds`, `fuzz`.

use leveret_sim::disk::Lies;
use leveret_sim::explore::{Found, Plan, Report, crash_points, random_life};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

const USAGE: &str = "\
leveret-sim crash-points [--points N] [--seed N]          crashes a workload at every moment, until N moments were tried
leveret-sim crash-points --seed N --point N               one moment again, to see a finding
leveret-sim seeds [--count N] [--from N]                  lives of random operations with crashes
leveret-sim fuzz [--seconds N] [--target NAME] [--seed N] fuzz targets, each from its corpus in fuzz/corpus";

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let Some(command) = arguments.next() else {
        return usage("a command is missing");
    };
    let mut flags = Vec::new();
    while let Some(flag) = arguments.next() {
        match arguments.next() {
            Some(value) => flags.push((flag, value)),
            None => return usage(&format!("{flag} needs a value")),
        }
    }
    let number = |name: &str, default: u64| {
        let given = flags.iter().find(|(flag, _)| flag == name);
        given.map_or(Ok(default), |(_, value)| {
            value.parse::<u64>().map_err(|_| name.to_owned())
        })
    };
    let known = [
        "--points",
        "--seed",
        "--point",
        "--count",
        "--from",
        "--seconds",
        "--target",
    ];
    if let Some((flag, _)) = flags
        .iter()
        .find(|(flag, _)| !known.contains(&flag.as_str()))
    {
        return usage(&format!("there is no {flag}"));
    }
    let done = match command.as_str() {
        "crash-points" => number("--points", 50_000).and_then(|points| {
            let only = number("--point", u64::MAX)?;
            Ok(explore_points(
                points,
                number("--seed", 0)?,
                (only < u64::MAX).then_some(only),
            ))
        }),
        "seeds" => number("--count", 1_000)
            .and_then(|count| Ok(explore_seeds(count, number("--from", 0)?))),
        _ => return usage(&format!("there is no command {command}")),
    };
    done.unwrap_or_else(|flag| usage(&format!("{flag} needs a number")))
}

fn usage(why: &str) -> ExitCode {
    eprintln!("{why}\n{USAGE}");
    ExitCode::from(2)
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

fn explore_points(points: u64, seed: u64, only: Option<u64>) -> ExitCode {
    let plan = Plan {
        only,
        subsets_every: 50,
        chances: 3,
        ..Plan::default()
    };
    explore(
        seed,
        |seed| crash_points(seed, &plan),
        |report, _| only.is_some() || report.points >= points,
    )
}

fn explore_seeds(count: u64, from: u64) -> ExitCode {
    explore(
        from,
        |seed| random_life(seed, Lies::default()),
        |_, seeds| seeds >= count,
    )
}
