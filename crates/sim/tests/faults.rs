//! Failing calls, full disks, corruption, and planted bugs.

use leveret_sim::disk::{Call, Fault, Lies};
use leveret_sim::explore::{Found, random_simulation_run};
use leveret_sim::faults::{
    Corruption, Planted, corruption, count_calls, failing_call, full_copying_disk, full_disk,
    planted,
};
use std::io::ErrorKind;

/// Steps of a workload in which every call fails once.
const STEPS: u64 = 900;

fn every_call(kind: ErrorKind, seed: u64) {
    let mut tried = 0;
    let counts = count_calls(seed, STEPS).unwrap_or_else(|found| panic!("{found}"));
    for (call, count) in counts {
        for nth in 0..count {
            for sticky in [false, true] {
                let fault = Fault {
                    call,
                    nth,
                    kind,
                    sticky,
                };
                failing_call(seed, STEPS, fault).unwrap_or_else(|found| panic!("{found}"));
                tried += 1;
            }
        }
    }
    println!("{tried} calls failed with {kind:?}");
    assert!(tried > 500, "{tried}");
}

#[test]
fn every_call_fails_once_and_for_good() {
    every_call(ErrorKind::Other, 3);
}

#[test]
fn every_call_finds_the_disk_full_once_and_for_good() {
    every_call(ErrorKind::StorageFull, 4);
}

#[test]
fn a_full_disk_ends_nothing() {
    let refused: u64 = (0..150)
        .map(|seed| full_disk(seed).unwrap_or_else(|found| panic!("{found}")))
        .sum();
    println!("{refused} refusals");
    assert!(refused > 1_000, "{refused}");
}

#[test]
fn a_full_disk_that_writes_elsewhere_what_is_written_over_ends_nothing() {
    let refused: u64 = (0..150)
        .map(|seed| full_copying_disk(seed).unwrap_or_else(|found| panic!("{found}")))
        .sum();
    println!("{refused} refusals");
    assert!(refused > 500, "{refused}");
}

#[test]
fn corruption_is_repaired_or_reported_by_what_it_hit() {
    for kind in [Corruption::Bit, Corruption::Sector] {
        let hit = (0..500)
            .filter(|seed| {
                corruption(*seed, kind).unwrap_or_else(|found| panic!("{kind:?} {found}"))
            })
            .count();
        println!("{kind:?}: {hit} of 500 damaged a log");
        assert!(hit > 10, "{hit}");
    }
}

/// The checks must find a bug within 500 seeds. Gives the first.
fn is_found(what: &str, run: impl Fn(u64) -> Result<(), Found>) {
    match (0..500).find_map(|seed| run(seed).err()) {
        Some(found) => println!("{what}: found by {found}"),
        None => panic!("{what}: not found"),
    }
}

#[test]
fn planted_bugs_are_found() {
    let sync = Lies {
        sync: true,
        ..Lies::default()
    };
    is_found("confirm before fsync", |seed| {
        random_simulation_run(seed, sync).map(drop)
    });
    let sync_dir = Lies {
        sync_dir: true,
        ..Lies::default()
    };
    is_found("no sync of folders", |seed| {
        random_simulation_run(seed, sync_dir).map(drop)
    });
    is_found("truncate on rot", |seed| {
        planted(seed, Planted::TruncateOnCorruption)
    });
    is_found("stale records", |seed| planted(seed, Planted::StaleRecords));
    is_found("stray references", |seed| {
        planted(seed, Planted::StrayReferences)
    });
}

#[test]
fn no_call_is_left_out() {
    let counts = count_calls(3, STEPS).unwrap_or_else(|found| panic!("{found}"));
    assert!(Call::ALL.iter().all(|call| counts[call] > 0), "{counts:?}");
}
