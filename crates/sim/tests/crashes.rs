//! Crashes at every moment, and random lives. The figures are those that the project promises for every run of the tests.

use leveret_sim::disk::Lies;
use leveret_sim::explore::{Plan, Report, crash_points, random_life};

/// Moments at which a workload is crashed, at least.
const POINTS: u64 = 2_000;
/// Seeds of random lives.
const SEEDS: u64 = 300;

#[test]
fn nothing_confirmed_is_lost_wherever_it_crashes() {
    let mut report = Report::default();
    for seed in 0.. {
        let tried = crash_points(seed, &Plan::default()).unwrap_or_else(|found| panic!("{found}"));
        report.add(tried);
        if report.points >= POINTS {
            break;
        }
    }
    println!("{report:?}");
    assert!(report.covered.all(), "{:?}", report.covered);
    assert!(report.nested > 100, "{report:?}");
}

#[test]
fn random_lives_leave_what_the_model_says() {
    let mut report = Report::default();
    for seed in 0..SEEDS {
        let tried = random_life(seed, Lies::default()).unwrap_or_else(|found| panic!("{found}"));
        report.add(tried);
    }
    println!("{report:?}");
    assert!(report.covered.all(), "{:?}", report.covered);
}
