//! The arithmetic, against drives and loads whose answer can be reckoned by hand, and against runs.

use super::*;
use crate::drive::steady_drive;

/// A drive that syncs in 1 ms whatever is written, with 1 GB/s and 1 TB.
fn drive() -> DriveResult {
    DriveResult {
        capacity_bytes: Some(1_000_000_000_000),
        ..steady_drive(1_000.0, 0.0)
    }
}

fn demand(kind: Kind, copies: u32, rate: f64) -> Demand {
    Demand {
        kind,
        flush: Flush::Sync,
        rate,
        message_bytes: 1_000.0,
        copies,
        queues: 1,
        readers: 1,
        keep: Keep::Seconds(0.0),
        window: 1_000.0,
        cores_max: 16,
        drives_max: 4,
        drive_bytes: None,
        round_trip_us: 200.0,
    }
}

fn near(found: f64, wanted: f64, part: f64) {
    assert!(
        (found - wanted).abs() <= wanted * part,
        "{found}, not near {wanted}"
    );
}

#[test]
fn a_small_load_needs_the_least_that_its_copies_need() {
    for (kind, copies, nodes) in [
        (Kind::Classic, 1, 1),
        (Kind::Quorum, 1, 1),
        (Kind::Quorum, 3, 3),
        (Kind::Stream, 5, 5),
    ] {
        let fleet = plan(&demand(kind, copies, 1_000.0), &drive());
        assert_eq!(
            (fleet.nodes, fleet.cores, fleet.drives, fleet.queues),
            (nodes, 2, 1, 1),
            "{kind:?} {copies}"
        );
        near(fleet.memory_bytes, GIB, 1e-9);
    }
}

#[test]
fn what_is_kept_fills_drives_and_then_nodes() {
    // A day of 10,000/s of 1,048 bytes is 905 GB: two drives of 1 TB that are filled to 80 %.
    let mut day = demand(Kind::Stream, 3, 10_000.0);
    day.keep = Keep::Seconds(86_400.0);
    let fleet = plan(&day, &drive());
    near(fleet.node.kept_bytes, 10_000.0 * 86_400.0 * 1_048.0, 1e-9);
    assert_eq!((fleet.nodes, fleet.drives), (3, 2));
    // Five times as long are six drives a node on three, and four on five, over five streams.
    day.keep = Keep::Seconds(5.0 * 86_400.0);
    day.queues = 5;
    let fleet = plan(&day, &drive());
    assert_eq!((fleet.nodes, fleet.drives), (5, 4));
    // Larger drives instead.
    day.drive_bytes = Some(8e12);
    let fleet = plan(&day, &drive());
    assert_eq!((fleet.nodes, fleet.drives), (3, 1));
}

#[test]
fn a_queue_that_keeps_writes_twice_and_a_stream_once() {
    for (kind, times) in [(Kind::Quorum, 2.0), (Kind::Stream, 1.0)] {
        let mut load = demand(kind, 3, 10_000.0);
        let gone = plan(&load, &drive()).node.written_bytes_per_s;
        load.keep = Keep::Seconds(3_600.0);
        let kept = plan(&load, &drive()).node.written_bytes_per_s;
        near(kept, gone * times, 1e-9);
    }
}

#[test]
fn a_load_beyond_one_queue_is_spread() {
    let fleet = plan(&demand(Kind::Quorum, 3, 2_000_000.0), &drive());
    assert!(fleet.queues > 1);
    assert!(
        fleet
            .because
            .iter()
            .any(|reason| reason.contains("spread the load over"))
    );
    let spread = Demand {
        queues: 200,
        ..demand(Kind::Quorum, 3, 2_000_000.0)
    };
    assert_eq!(plan(&spread, &drive()).queues, 200);
}

#[test]
fn more_than_nodes_may_have_is_said_and_not_planned_away() {
    let mut load = demand(Kind::Classic, 1, 1_000.0);
    load.keep = Keep::Bytes(1e18);
    let fleet = plan(&load, &drive());
    assert!(
        fleet
            .because
            .iter()
            .any(|reason| reason.contains("do not carry this")),
        "{fleet:?}"
    );
}

#[test]
fn confirms_wait_for_a_sync_or_for_nothing() {
    let synced = plan(&demand(Kind::Stream, 3, 1_000.0), &drive());
    // One of a majority's drives, and a way there and back; some also for what is left of the
    // one before.
    assert!(
        (1_200.0..2_400.0).contains(&synced.confirm_p50_us),
        "{synced:?}"
    );
    let mut load = demand(Kind::Stream, 3, 1_000.0);
    load.flush = Flush::Interval;
    let fleet = plan(&load, &drive());
    near(fleet.confirm_p50_us, 200.0, 1e-9);
    assert!(
        fleet
            .because
            .iter()
            .any(|reason| reason.contains("do not wait for the drive"))
    );
}

#[test]
fn every_plan_is_finite_and_has_its_copies_on_nodes_of_their_own() {
    for kind in [Kind::Classic, Kind::Quorum, Kind::Stream] {
        for copies in [1, 3, 7] {
            for rate in [0.001, 1e6, 1e12] {
                for bytes in [1.0, 1e9] {
                    let mut load = demand(kind, copies, rate);
                    load.message_bytes = bytes;
                    let fleet = plan(&load, &drive());
                    assert!(fleet.nodes >= copies && fleet.nodes <= NODES_MAX.max(copies));
                    for figure in [
                        fleet.memory_bytes,
                        fleet.node.cores,
                        fleet.node.resident_bytes,
                        fleet.confirm_p99_us,
                    ] {
                        assert!(figure.is_finite() && figure >= 0.0, "{load:?}: {fleet:?}");
                    }
                }
            }
        }
    }
}

/// A load that was run on one node or three of this machine and is none of the table's: queues,
/// messages a second and bytes of each, and what the busiest node then took of cores, resident
/// memory and the drive.
struct Ran {
    load: (Kind, Flush, u32),
    queues: u32,
    rate: f64,
    bytes: f64,
    window: f64,
    cores: f64,
    resident_mb: f64,
    written_mb_per_s: f64,
}

const fn ran(
    load: (Kind, Flush, u32),
    [queues, rate, bytes, window]: [u32; 4],
    [cores, resident_mb, written_mb_per_s]: [f64; 3],
) -> Ran {
    Ran {
        load,
        queues,
        rate: rate as f64,
        bytes: bytes as f64,
        window: window as f64,
        cores,
        resident_mb,
        written_mb_per_s,
    }
}

/// The runs of `docs/perf.md`.
const RUNS: [Ran; 7] = {
    use {Flush::*, Kind::*};
    [
        ran(
            (Classic, Sync, 1),
            [1, 4_000, 500, 1_000],
            [0.11, 27.9, 8.7],
        ),
        ran(
            (Classic, Sync, 1),
            [3, 30_000, 2_000, 1_000],
            [0.21, 42.2, 62.8],
        ),
        ran(
            (Quorum, Sync, 3),
            [1, 3_000, 500, 1_000],
            [0.21, 34.2, 14.4],
        ),
        ran(
            (Quorum, Sync, 3),
            [4, 20_000, 2_000, 1_000],
            [0.29, 46.1, 43.0],
        ),
        ran(
            (Stream, Sync, 1),
            [1, 50_000, 300, 10_000],
            [0.14, 29.0, 15.8],
        ),
        ran(
            (Stream, Sync, 3),
            [1, 30_000, 300, 10_000],
            [0.17, 29.8, 11.7],
        ),
        ran(
            (Stream, Interval, 3),
            [1, 5_000, 2_000, 10_000],
            [0.36, 34.6, 11.9],
        ),
    ]
};

#[test]
fn runs_on_one_and_three_nodes_take_what_was_planned() {
    for run in RUNS {
        let (kind, flush, copies) = run.load;
        let load = Demand {
            flush,
            queues: run.queues,
            message_bytes: run.bytes,
            window: run.window,
            ..demand(kind, copies, run.rate)
        };
        let node = node_load(&load, if copies > 1 { 3 } else { 1 });
        let came = [
            (run.cores, node.cores, 0.4..=1.2),
            (run.resident_mb * 1e6, node.resident_bytes, 0.4..=1.4),
            (
                run.written_mb_per_s * 1e6,
                node.written_bytes_per_s,
                0.5..=2.2,
            ),
        ];
        for (came, planned, within) in came {
            let ratio = came / planned;
            assert!(
                within.contains(&ratio),
                "{:?} at {}/s: {ratio}",
                run.load,
                run.rate
            );
        }
    }
}

#[test]
fn retentions_are_times_or_sizes() {
    for (text, keep) in [
        ("0s", Keep::Seconds(0.0)),
        ("90m", Keep::Seconds(5_400.0)),
        ("7d", Keep::Seconds(604_800.0)),
        ("500GB", Keep::Bytes(5e11)),
        ("1.5 TiB", Keep::Bytes(1.5 * 1_099_511_627_776.0)),
    ] {
        assert_eq!(parse_keep(text), Ok(keep), "{text}");
    }
    for text in ["", "7", "d", "-1h", "infs", "nand", "1 week"] {
        assert!(parse_keep(text).is_err(), "{text}");
    }
}
