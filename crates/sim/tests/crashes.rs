//! Crashes at every moment, and random lives. The figures are those that the project promises for
//! every run of the tests.

use leveret_sim::disk::Lies;
use leveret_sim::explore::{
    Found, Plan, Report, crash_creation, crash_points, random_simulation_run,
};

/// Moments at which a workload is crashed, at least, in each of two halves that run side by side.
const POINTS_HALF: u64 = 1_000;
/// Seeds of random lives.
const SEEDS: u64 = 300;

fn or_panic<T>(result: Result<T, Found>) -> T {
    result.unwrap_or_else(|found| panic!("{found}"))
}

/// Workloads of every second seed, until they had enough moments.
fn crash_half(first: u64) {
    let mut report = Report::default();
    for seed in (first..).step_by(2) {
        report.add(or_panic(crash_points(
            seed,
            &Plan {
                chances: 1,
                ..Plan::default()
            },
        )));
        if report.points >= POINTS_HALF {
            break;
        }
    }
    println!("{report:?}");
    assert!(report.nested > 100, "{report:?}");
    let covered = report.covered;
    let often = [
        covered.rolls,
        covered.flushes,
        covered.checkpoints,
        covered.recycled,
    ];
    assert!(often.iter().all(|count| *count > 0), "{covered:?}");
}

#[test]
fn nothing_confirmed_is_lost_wherever_it_crashes_first_half() {
    crash_half(0);
}

#[test]
fn nothing_confirmed_is_lost_wherever_it_crashes_second_half() {
    crash_half(1);
}

/// What longer runs have found, at the moment at which they found it.
#[test]
fn what_was_found_once_is_found_no_more() {
    for (seed, point) in [(1, 628), (74, 388)] {
        or_panic(crash_points(
            seed,
            &Plan {
                only: Some(point),
                chances: 3,
                ..Plan::default()
            },
        ));
    }
}

#[test]
fn random_simulation_runs_leave_what_the_model_says() {
    let mut report = Report::default();
    (0..SEEDS).for_each(|seed| report.add(or_panic(random_simulation_run(seed, Lies::default()))));
    println!("{report:?}");
    assert!(report.covered.all(), "{:?}", report.covered);
    assert!(report.covered.deep_truncations > 0, "{:?}", report.covered);
    assert!(report.covered.broken_off > 0, "{:?}", report.covered);
}

#[test]
fn a_store_is_made_whole_or_not_at_all() {
    let report = or_panic(crash_creation(5));
    println!("{report:?}");
    assert!(report.nested > 50, "{report:?}");
}
