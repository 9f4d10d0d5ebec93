//! The node's code in a cluster, for as many seeds as a run of the tests has time for.

use leveret_sim::cluster::{Broken, Plan, Planted, live};

const SEEDS: u64 = 300;
/// Seeds within which a planted bug is found.
const PLANTED_SEEDS_MAX: u64 = 500;

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
        found(planted, Plan::default());
    }
}

#[test]
fn planted_bugs_are_found_in_views() {
    for planted in Planted::OF_VIEWS {
        let found = found(planted, Plan::of_views());
        if planted == Planted::ForgetsSettles {
            let text = found.to_string();
            assert!(text.contains("comes again after it was settled"), "{text}");
            assert!(
                text.contains(" cluster --views 1 --seeds 1 --from "),
                "{text}"
            );
        }
    }
}

/// What the checks find first of a bug.
#[track_caller]
fn found(planted: Planted, plan: Plan) -> Broken {
    let plan = Plan { planted, ..plan };
    let found = (0..PLANTED_SEEDS_MAX).find_map(|seed| live(seed, &plan).err());
    let found = found.unwrap_or_else(|| panic!("{planted:?} is not found"));
    println!("{planted:?}: {found}");
    found
}
