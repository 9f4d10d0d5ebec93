//! The node's code in a cluster, for as many seeds as a run of the tests has time for.

use leveret_sim::cluster::{Broken, Plan, Planted, live};

const SEEDS: u64 = 300;
/// Seeds within which a planted bug is found.
const PLANTED_SEEDS_MAX: u64 = 2_000;

#[test]
fn clusters_keep_their_promises() {
    for seed in 0..SEEDS {
        if let Err(broken) = live(seed, &Plan::default()) {
            panic!("{broken}");
        }
    }
}

#[test]
fn views_keep_their_promises() {
    let plan = Plan::of_views();
    for seed in 0..SEEDS {
        if let Err(broken) = live(seed, &plan) {
            panic!("{broken}");
        }
    }
}

#[test]
fn one_seed_is_one_simulation_run() {
    for seed in 0..20 {
        let lived = live(seed, &Plan::default());
        assert!(lived.is_ok(), "{lived:?}");
        assert_eq!(lived, live(seed, &Plan::default()));
    }
}

#[test]
fn planted_bugs_are_found() {
    for planted in Planted::ALL {
        found(planted, Plan::default(), "");
    }
}

#[test]
fn planted_bugs_are_found_in_views() {
    for planted in Planted::OF_VIEWS {
        let symptom = match planted {
            Planted::ForgetsSettles => "comes again after it was settled",
            _ => "",
        };
        let found = found(planted, Plan::of_views(), symptom).to_string();
        assert!(
            found.contains(" cluster --views 1 --seeds 1 --from "),
            "{found}"
        );
    }
}

/// What the checks find first of a bug that says `symptom`.
#[track_caller]
fn found(planted: Planted, plan: Plan, symptom: &str) -> Broken {
    let plan = Plan { planted, ..plan };
    let mut all = (0..PLANTED_SEEDS_MAX).filter_map(|seed| live(seed, &plan).err());
    let found = all.find(|broken| broken.to_string().contains(symptom));
    let found = found.unwrap_or_else(|| panic!("{planted:?} is not found"));
    println!("{planted:?}: {found}");
    found
}
